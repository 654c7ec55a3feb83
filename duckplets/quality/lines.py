"""Count lines and paragraphs of texts, and the repeated ones within a text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Bits, Bytes, Flags, Integers, stretches
from duckplets.quality.tokens import Columns, numbered
from duckplets.text.characters import bytes_of

BLANKS = " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u2002\u2003\u2009\u200a\u2028\u2029\u202f\u3000"
_BYTES, _TEXTS = 1 << 20, 4096  # bytes of a block; a longer text is a block by itself


def counts(texts: pa.Array) -> Columns:
    """Return counts of every text, by metric name."""
    sizes = pc.binary_length(texts).to_numpy()
    blocks = [_counted(texts[part]) for part in stretches(sizes, rows=_TEXTS, total=_BYTES)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _counted(texts: pa.Array) -> Columns:
    data, bounds = bytes_of(texts)
    breaks = np.flatnonzero(data == ord("\n"))
    first = np.searchsorted(breaks, bounds)  # the first break of each text
    begins, ends = _at_ends(data, bounds)
    lines = _TextParts(
        data,
        np.sort(np.append(bounds[:-1], breaks + 1)),
        np.sort(np.append(breaks, bounds[1:])),
        np.diff(first) + 1,
    )
    filled = pc.binary_length(pc.utf8_trim(lines.kinds, BLANKS)).to_numpy() > 0
    pieces, again, characters = lines.repeats(np.ones(len(filled), np.bool_))
    filled_lines, _, filled_characters = lines.repeats(filled)
    del lines
    paragraphs, repeated, in_repeated = _paragraphs(texts, data, bounds, breaks)
    return {
        "newlines": np.diff(first),
        "lines": np.diff(first) + ~ends,
        "pieces": pieces + begins + ends,
        "duplicate_lines": again + (begins & ends),
        "duplicate_line_characters": characters,
        "filled_lines": filled_lines,
        "duplicate_filled_characters": filled_characters,
        "paragraphs": paragraphs + (np.diff(bounds) == 0),
        "duplicate_paragraphs": repeated,
        "duplicate_paragraph_characters": in_repeated,
    }


def _at_ends(data: Bytes, bounds: Integers) -> tuple[Flags, Flags]:
    """Return which texts begin, and which end, with a line break."""
    filled = np.flatnonzero(np.diff(bounds))
    begins, ends = np.zeros((2, len(bounds) - 1), np.bool_)
    begins[filled] = data[bounds[:-1][filled]] == ord("\n")
    ends[filled] = data[bounds[1:][filled] - 1] == ord("\n")
    return begins, ends


def _paragraphs(
    texts: pa.Array, data: Bytes, bounds: Integers, breaks: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return the numbers of paragraphs, of repeated ones, and of characters in repeated ones."""
    owner = np.searchsorted(bounds, breaks, side="right") - 1
    same = owner[1:] == owner[:-1]
    parted = np.unique(owner[1:][same & (np.diff(breaks) == 1)])  # texts with a blank line
    low, high = bounds[:-1].copy(), bounds[1:].copy()
    if len(parted):
        trimmed = pc.utf8_ltrim(texts.take(pa.array(parted)), BLANKS)
        low[parted] = high[parted] - pc.binary_length(trimmed).to_numpy()
        trimmed = pc.utf8_rtrim(trimmed, BLANKS)
        high[parted] = low[parted] + pc.binary_length(trimmed).to_numpy()
    within = (breaks >= low[owner]) & (breaks < high[owner])
    breaks, owner = breaks[within], owner[within]
    separate = (np.diff(breaks) > 1) | (owner[1:] != owner[:-1])
    first = breaks[np.append(True, separate)[: len(breaks)]]  # of breaks without text between them
    last = breaks[np.append(separate, True)[: len(breaks)]]
    several = last > first
    first, last = first[several], last[several]
    parts = _TextParts(
        data,
        np.sort(np.append(low, last + 1)),
        np.sort(np.append(first, high)),
        np.bincount(np.searchsorted(bounds, first, side="right") - 1, minlength=len(low)) + 1,
    )
    return parts.repeats(np.ones(len(parts.kinds), np.bool_))


class _TextParts:
    """The nonempty parts of texts, in order, numbered by content in ``kinds``."""

    def __init__(self, data: Bytes, start: Integers, stop: Integers, counts: Integers) -> None:
        self._texts = len(counts)
        owner, filled = np.repeat(np.arange(len(counts)), counts), stop > start
        self._owner, start, stop = owner[filled], start[filled], stop[filled]
        self._number, kinds = numbered(data, start, stop)
        self.kinds = kinds.cast(pa.large_string())
        begins = Bits((data & 0xC0) != 0x80)
        self._characters = begins.rank(stop) - begins.rank(start)

    def repeats(self, chosen: Flags) -> tuple[Integers, Integers, Integers]:
        """Return the parts of some kinds by text, the repeated ones, and their characters."""
        at = np.flatnonzero(chosen[self._number])
        owner = self._owner[at]
        _, first = np.unique(owner * len(self.kinds) + self._number[at], return_index=True)
        again = np.ones(len(at), np.bool_)
        again[first] = False
        characters = np.where(again, self._characters[at], 0)
        return (
            np.bincount(owner, minlength=self._texts),
            np.bincount(owner[again], minlength=self._texts),
            np.bincount(owner, weights=characters, minlength=self._texts).astype(np.int64),
        )
