"""Rows of tokens: packing loses none and repeats none, for any lengths, widths and ends."""

from pathlib import Path

import numpy as np
import pytest
from effort import often
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duckplets.errors import DamagedFileError
from duckplets.tokens.memmap import TokenFile
from duckplets.tokens.rows import PackedRows, SingleRows, TextSpan

END, OTHER, PAD = 1, 2, 0
LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=40)


def texts_of(lengths, first=0, stop=None):
    """Return texts as a token file has them, whose tokens all differ and are none of the above."""
    parts, offsets = [], [0]
    for length in lengths:
        parts += [*range(offsets[-1] + 10, offsets[-1] + 10 + length), END]
        offsets.append(len(parts))
    file = TokenFile(Path("x.tokens"), np.array(offsets), np.array(parts, np.int32))
    return TextSpan(file, first, len(lengths) if stop is None else stop)


def plain(texts, end):
    """Return the tokens of each text with what follows it."""
    of = texts.file
    return [
        [
            *of.tokens[of.offsets[n] : of.offsets[n + 1] - 1].tolist(),
            *([] if end is None else [end]),
        ]
        for n in range(texts.first, texts.stop)
    ]


def begins(gathered):
    return [gathered.columns[gathered.owners == row].tolist() for row in range(len(gathered.ids))]


@settings(max_examples=often(150, less=15), suppress_health_check=[HealthCheck.too_slow])
@given(LENGTHS, st.integers(1, 50), st.sampled_from([None, END, OTHER]), st.data())
def test_packed_rows_are_the_texts_laid_end_to_end(lengths, width, end, data):
    first = data.draw(st.integers(0, len(lengths) - 1))
    texts = texts_of(lengths, first, data.draw(st.integers(first + 1, len(lengths))))
    rows = PackedRows(texts, width, end, END, PAD)
    all_of, starts = [], []
    for tokens in plain(texts, end):
        starts.append(len(all_of))
        all_of += tokens
    assert rows.tokens == len(all_of)
    assert len(rows) == -(-len(all_of) // width)
    order = data.draw(st.permutations(range(len(rows))))
    gathered = rows.take(np.array(order))
    for row, ids, length, begun in zip(
        order, gathered.ids.tolist(), gathered.lengths.tolist(), begins(gathered), strict=True
    ):
        expected = all_of[row * width : (row + 1) * width]
        assert ids[:length] == expected
        assert set(ids[length:]) <= {PAD}
        assert length == width or row == len(rows) - 1
        assert begun == [s - row * width for s in starts if row * width < s < row * width + length]
    low, high = rows.texts(np.array(order))
    for row, one, other in zip(order, low.tolist(), high.tolist(), strict=True):
        within = [n for n, s in enumerate(starts) if s < min((row + 1) * width, len(all_of))]
        touched = [n for n in within if [*starts, len(all_of)][n + 1] > row * width]
        assert [one, other] == [first + touched[0], first + touched[-1] + 1]


@settings(max_examples=often(100, less=10), suppress_health_check=[HealthCheck.too_slow])
@given(LENGTHS, st.integers(1, 40))
def test_single_rows_are_a_text_each(lengths, width):
    texts = texts_of(lengths)
    rows = SingleRows(texts, width, PAD)
    gathered = rows.take(np.arange(len(rows)))
    cut = [tokens[:width] for tokens in plain(texts, None)]
    assert gathered.ids.tolist() == [[*one, *[PAD] * (width - len(one))] for one in cut]
    assert gathered.lengths.tolist() == [len(one) for one in cut]
    assert (rows.cut, rows.tokens) == (sum(n > width for n in lengths), sum(map(len, cut)))


@pytest.mark.parametrize("end", [None, END])
def test_offsets_that_lead_nowhere_are_damage(end):
    for broken in ([70, 20, 40, 60], [0, 20, 40, -1], [60, 40, 20, 0]):
        texts = texts_of([19, 19, 19])
        texts.file.offsets[:] = broken
        with pytest.raises(DamagedFileError, match="lead nowhere"):
            PackedRows(texts, 7, end, END, PAD).take(np.arange(9))
        with pytest.raises(DamagedFileError, match="lead nowhere"):
            SingleRows(texts, 7, PAD).take(np.arange(3))
