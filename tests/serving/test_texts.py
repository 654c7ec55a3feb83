"""Spans of characters become spans of bytes, and are gathered from wherever they lie."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.artifacts import array_bundle
from duckplets.serving.facts import ChunkFacts, FactSlice
from duckplets.serving.texts import ChunkTexts, Segment, TextSpans, byte_spans

TEXTS = st.lists(st.text(max_size=12), min_size=1, max_size=8)


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
    found = Segment(FactSlice(range(0), {}), pa.py_buffer(data)).gather(first, size)
    assert found.type == pa.string()
    assert found.to_pylist() == expected


def two_segments() -> ChunkTexts:
    def segment(first: int, texts: list[bytes]) -> Segment:
        size = np.array([len(text) for text in texts], np.int32)
        columns = {"span": np.cumsum(size) - size, "bytes": size, "tokens": size}
        keys = range(first, first + len(texts))
        return Segment(FactSlice(keys, columns), pa.py_buffer(b"".join(texts)))

    return ChunkTexts([segment(1, [b"a", b"bb", "ä".encode()]), segment(7, [b"seven", b"", b"9"])])


def test_texts_are_gathered_from_several_segments_in_the_order_asked_for() -> None:
    spans = two_segments().spans(np.array([9, 1, 7, 3, 8, 2, 9]))
    assert spans.nbytes == 1 + 1 + 5 + 2 + 0 + 2 + 1
    order = np.array([6, 0, 3, 1, 2, 5, 4, 4])
    assert spans.take(order).to_pylist() == ["9", "9", "ä", "a", "seven", "bb", "", ""]
    assert two_segments().facts.tokens(np.array([8, 3])).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("start", "length"), [(-1, 1), (0, -1), (0, 7), (6, 1), (1 << 62, 1), (3, 1 << 40)]
)
def test_nothing_outside_the_data_is_read(start: int, length: int) -> None:
    segment = Segment(FactSlice(range(0), {}), pa.py_buffer(b"abcdef"), Path("c.snapshot/t.arrow"))
    spans = TextSpans([segment], None, np.array([0, start]), np.array([2, length]))
    with pytest.raises(dp.DamagedFileError, match=r"delete the folder c\.snapshot"):
        spans.take(np.array([0, 1]))


def test_facts_of_keys_with_gaps() -> None:
    keys = np.array([2, 5, 9])
    facts = ChunkFacts(
        [FactSlice(keys, {"tokens": keys * 10, "weight": keys / 2}), FactSlice(range(0), {})]
    )
    assert facts[np.array([9, 2])]["weight"].tolist() == [4.5, 1.0]
    assert facts.tokens(np.array([5])).tolist() == [50]


@dataclass(frozen=True)
class Inner:
    values: np.ndarray
    name: str


@dataclass(frozen=True)
class Outer:
    number: int
    inner: Inner | None
    other: Inner | None
    flags: np.ndarray


ARRAYS = [
    np.zeros(0, np.int64),
    np.arange(5),
    np.arange(1, 5),
    np.full(7, 3, np.uint64),
    np.array([2**63 + 1, 5], np.uint64),
    np.array([True, False, True]),
    np.ones(9, bool),
    np.array([0.1, np.pi]),
    np.array([7], np.int32),
    np.arange(100_000) * 3,
    np.arange(3, dtype=np.int32),
]


def test_what_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    objects = {
        f"{a}-{b}": Outer(a, Inner(one, "ünï"), None if b % 2 else Inner(other, ""), one > 1)
        for a, one in enumerate(ARRAYS)
        for b, other in enumerate(ARRAYS)
    }
    bundle = array_bundle.write(tmp_path, 1, objects)
    opened = array_bundle.Opened(tmp_path, bundle)
    assert opened.keys == objects.keys()
    for key, expected in objects.items():
        found = opened.get(key, Outer)
        assert (found.number, found.other is None) == (expected.number, expected.other is None)
        for one, other in ((found.inner, expected.inner), (found.other, expected.other)):
            if one is not None and other is not None:
                assert one.name == other.name
                assert one.values.dtype == other.values.dtype
                assert one.values.tolist() == other.values.tolist()
        assert found.flags.tolist() == expected.flags.tolist()
    # Equal arrays lie there once.
    assert bundle.arrays.size < 2 * sum(array.nbytes for array in ARRAYS)
