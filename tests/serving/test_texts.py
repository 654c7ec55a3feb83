"""Spans of characters become spans of bytes, and are gathered from wherever they lie."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.serving.texts import ChunkTexts, Segment, TextBytes, TextSpans, byte_spans

TEXTS = st.lists(st.text(max_size=12), min_size=1, max_size=8)
NONE: dict[str, Any] = {"chunk_key": range(0)}


@settings(max_examples=often(500, less=60), deadline=None)
@given(TEXTS, st.randoms(use_true_random=False), st.integers(0, 3))
def test_spans_of_bytes_are_those_of_characters(
    texts: list[str], draw: random.Random, skipped: int
) -> None:
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    rows, starts, lengths, expected = [], [], [], []
    for row, text in enumerate(texts):
        for _ in range(draw.randint(0, 3)):
            start = draw.randint(0, len(text))
            length = draw.choice([-1, draw.randint(0, len(text) - start)])
            rows.append(row)
            starts.append(0 if length < 0 else start)
            lengths.append(length)
            expected.append(text if length < 0 else text[start : start + length])
    array = pa.array(["before"] * skipped + texts, pa.string()).slice(skipped)
    first, size = byte_spans(array, *(np.array(x, np.int64) for x in (rows, starts, lengths)))
    data = "".join(texts).encode()
    assert [data[a : a + n].decode() for a, n in zip(first, size, strict=True)] == expected
    found = TextBytes(pa.py_buffer(data)).gather(first, size)
    assert found.type == pa.string()
    assert found.to_pylist() == expected


def two_segments() -> ChunkTexts:
    def segment(keys: Any, texts: list[bytes]) -> Segment:
        size = np.array([len(text) for text in texts], np.int32)
        columns = {"chunk_key": keys, "span": np.cumsum(size) - size, "bytes": size, "tokens": size}
        return Segment(columns, {}, TextBytes(pa.py_buffer(b"".join(texts))))

    texts = [b"a", b"bb", "ä".encode()], [b"seven", b"", b"9"]
    with_gaps = segment(np.array([7, 8, 12]), texts[1])
    return ChunkTexts(
        [segment(range(1, 4), texts[0]), Segment(NONE, {}, TextBytes(pa.py_buffer(b""))), with_gaps]
    )


def test_texts_are_gathered_from_several_segments_in_the_order_asked_for() -> None:
    spans = two_segments().spans(np.array([12, 1, 7, 3, 8, 2, 12]))
    assert spans.nbytes == 1 + 1 + 5 + 2 + 0 + 2 + 1
    order = np.array([6, 0, 3, 1, 2, 5, 4, 4])
    assert spans.take(order).to_pylist() == ["9", "9", "ä", "a", "seven", "bb", "", ""]
    assert spans.take(np.zeros(0, np.int64)).to_pylist() == []
    assert two_segments().tokens(np.array([8, 3, 12])).tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("start", "length"), [(-1, 1), (0, -1), (0, 7), (6, 1), (1 << 62, 1), (3, 1 << 40)]
)
def test_nothing_outside_the_data_is_read(start: int, length: int) -> None:
    data = TextBytes(pa.py_buffer(b"abcdef"), path=Path("c.snapshot/t.npy"))
    spans = TextSpans([data], None, np.array([0, start]), np.array([2, length]))
    with pytest.raises(dp.DamagedFileError, match=r"delete the folder c\.snapshot"):
        spans.take(np.array([0, 1]))


# ---- files of arrays
