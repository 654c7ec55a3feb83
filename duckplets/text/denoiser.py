"""Remove noise of OCR and spreadsheets from texts: table rules, unexplained digits.

    texts ─blocks→ bytes ─characters→ flags ─lines→ verdicts ─mask→ remaining bytes
    lines with work ─flags→ tokens ─waves→ remaining tokens ─gaps→ remaining bytes

The decision that matters: no Python for each line. Cleaning only removes bytes, or turns the first
byte of a gap into a space. So the result is a mask over the bytes of a block of texts. Line counts
come from flags by rank at line ends. Tokens are found only in lines that need it: table cells, and
waves around letters. Texts without noise are returned unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Bits, Bytes, Flags, Integers, Integers32
from duckplets.base.settings import Bounds, check
from duckplets.errors import ChunkingError
from duckplets.text.characters import DIGIT, LETTER, PIPE, SPACE, bytes_of, classes

_BLOCK = 1 << 18  # bytes of a block: they stay in the cache
_NEWLINE, _RETURN = 10, 13


@dataclass(frozen=True, kw_only=True, slots=True)
class Denoiser:
    r"""Removes unexplained digits, table rules and lines without letters from texts.

    Line ends become ``\n``. Then, line by line:

    1. With ``strip_markdown``, a line with ``|`` at its start, after white space, and another
       ``|`` is a row of a table. Rows with only ``|``, ``-``, ``:`` and white space are removed.
       In other rows the texts of cells stay, joined by a space.
    2. A line without a letter is removed.
    3. If digits / (digits + letters) of a line is above ``max_digit_ratio``, its tokens with a
       letter stay. Their neighbours on both sides stay in waves, while the ratio of all remaining
       tokens is not above the limit. A wave that would exceed it, and all further tokens, are
       removed. The remaining tokens are joined by a space.

    Blank lines stay, so prose and its paragraphs are unchanged. If noise between two lines is
    removed, the first run of blank lines there stays. At the top of a text none stays. Letters and
    digits of every script count: Unicode 14's letters (categories L), decimal digits (Nd), and
    characters for a single digit such as ``²`` and ``①``. Marks, Roman numerals and fractions
    count as neither.

    Attributes:
        max_digit_ratio: Largest share of digits among letters and digits, from 0 to 1.
        strip_markdown: Whether to replace table rows by the texts of their cells.
    """

    max_digit_ratio: Annotated[float, Bounds(0, 1)] = 0.35
    strip_markdown: bool = True

    def __post_init__(self) -> None:
        check(self, ChunkingError)

    def __call__(self, text: str) -> str | None:
        """Return a text without noise, or None if all lines are removed."""
        if not isinstance(text, str):
            raise ChunkingError(f"a text to clean is {type(text).__name__}: expected str")
        try:
            texts = pa.array([text], pa.large_string())
        except UnicodeEncodeError as error:
            raise ChunkingError(f"a text to clean has a lone surrogate: {error}") from None
        cleaned: str | None = self.apply(texts)[0].as_py()
        return cleaned

    def apply(self, texts: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return texts without noise, much faster than one by one.

        Args:
            texts: Strings, shape (n,).

        Returns:
            Strings, shape (n,), null if all lines are removed or the text was null.
        """
        if isinstance(texts, pa.ChunkedArray):
            texts = texts.combine_chunks()
        if texts.type not in (pa.string(), pa.large_string()):
            raise ChunkingError(f"texts to clean are {texts.type}: expected an array of strings")
        blocks = list(_blocks(texts))
        parts = [
            _cleaned(block, self.max_digit_ratio, tables=self.strip_markdown) for block in blocks
        ]
        if all(part is block for part, block in zip(parts, blocks, strict=True)):
            return texts
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _blocks(texts: pa.Array) -> Iterator[pa.Array]:
    """Yield slices of about a quarter of a megabyte."""
    _, bounds = bytes_of(texts)
    marks = np.searchsorted(bounds, np.arange(0, int(bounds[-1]), _BLOCK)[1:])
    cuts = np.unique([0, *marks.tolist(), len(texts)]).tolist()
    for start, stop in pairwise(cuts if len(cuts) > 1 else [0, 0]):
        yield texts.slice(start, stop - start)


def _cleaned(texts: pa.Array, limit: float, *, tables: bool) -> pa.Array:
    data, bounds = bytes_of(texts)
    if (data == _RETURN).any():
        import pyarrow.compute as pc

        for end in ("\r\n", "\r"):
            texts = pc.replace_substring(texts, end, "\n")
        data, bounds = bytes_of(texts)
    flags = classes(data)
    lines = _lines(data, bounds)
    found = _verdicts(data, flags, lines, limit, tables=tables)
    valid = np.bincount(lines.text, weights=found.stays, minlength=len(texts)) > 0
    if valid.all() and not found.goes.any() and not found.rewritten.any():
        return texts
    keep = _remaining_lines(lines, found)
    data = data.copy()
    _rewrite(data, flags, keep, lines, found, limit)
    keep &= np.repeat(valid, np.diff(bounds))
    return _array(data[keep], Bits(keep).rank(bounds), valid, texts.type)


def _array(data: Bytes, bounds: Integers, valid: Flags, kind: pa.DataType) -> pa.Array:
    width = np.int32 if kind == pa.string() else np.int64
    present = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [present, pa.py_buffer(bounds.astype(width)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(valid), buffers)


@dataclass(frozen=True, slots=True)
class _BlockLines:
    """Lines of all texts of a block."""

    start: Integers  # first byte
    end: Integers  # the byte after the last: the line feed, if any
    text: Integers  # index of the text
    last: Flags  # whether it is the last of its text, without a line feed


def _lines(data: Bytes, bounds: Integers) -> _BlockLines:
    feeds = np.flatnonzero(data == _NEWLINE)
    texts = len(bounds) - 1
    # By rank in the bounds: a line feed belongs to the last text that begins at or before it.
    owner = np.searchsorted(bounds, feeds, side="right") - 1
    number = np.bincount(owner, minlength=texts) + 1
    after = np.cumsum(number)
    first = np.zeros(len(feeds) + texts, np.bool_)
    first[after - number] = True
    last = np.zeros(len(first), np.bool_)
    last[after - 1] = True
    start, end = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    start[first], start[~first] = bounds[:-1], feeds + 1
    end[last], end[~last] = bounds[1:], feeds
    return _BlockLines(start, end, np.repeat(np.arange(texts), number), last)


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """The outcome of every line; a line that neither stays nor goes is blank."""

    stays: Flags  # whether it has text that stays
    goes: Flags  # whether it is noise
    table: Flags  # whether it stays and is a row of a table
    over: Flags  # whether it stays and has too many digits

    @property
    def rewritten(self) -> Flags:
        """Whether it stays and changes."""
        return self.table | self.over


def _verdicts(
    data: Bytes, flags: Bytes, lines: _BlockLines, limit: float, *, tables: bool
) -> _Verdicts:
    letters, digits = (_count(flags & flag, lines) for flag in (LETTER, DIGIT))
    solid = Bits(flags & SPACE == 0)
    filled = solid.rank(lines.end) > solid.rank(lines.start)
    table = np.zeros(len(filled), np.bool_)
    if tables and (data == ord("|")).any():
        at = np.flatnonzero(filled)
        at = at[data[solid.select(solid.rank(lines.start[at]))] == ord("|")]
        table[at] = _count(flags & PIPE, lines)[at] > 1
    with np.errstate(invalid="ignore"):  # no letters and digits: no ratio, and no letter
        over = digits / (letters + digits) > limit
    stays = letters > 0
    # table rules, |---|, have no letter either
    return _Verdicts(stays, filled & ~stays, stays & table, stays & over)


def _count(flagged: Bytes, lines: _BlockLines) -> Integers:
    """Return the number of nonzero bytes of each line."""
    bits = Bits(flagged != 0)
    return bits.rank(lines.end) - bits.rank(lines.start)


def _remaining_lines(lines: _BlockLines, found: _Verdicts) -> Flags:
    """Return which bytes belong to remaining lines, with the line feeds between them."""
    stays = found.stays | _remaining_blank(lines, found)
    at = np.flatnonzero(stays)
    text = lines.text[at]
    followed = np.zeros(len(stays), np.bool_)
    followed[at[:-1][text[:-1] == text[1:]]] = True
    keep = np.repeat(stays, lines.end - lines.start + ~lines.last)
    keep[lines.end[stays & ~followed & ~lines.last]] = False
    return keep


def _remaining_blank(lines: _BlockLines, found: _Verdicts) -> Flags:
    """Return the blank lines that stay: the first run between two remaining lines."""
    blank = ~(found.stays | found.goes)
    begins = np.ones(len(blank), np.bool_)  # of a text
    begins[1:] = lines.last[:-1]
    number = np.cumsum(begins | found.stays) - 1  # of the span from one such line to the next
    first = np.flatnonzero(begins | found.stays)
    run = blank.copy()
    run[1:] &= ~blank[:-1] | begins[1:]
    runs, gone = np.cumsum(run), np.cumsum(found.goes)
    nth: Integers = runs - (runs - run)[first][number]
    before: Integers = gone - (gone - found.goes)[first][number]
    # At the top of a text, a run after noise is removed.
    stays: Flags = blank & (nth == 1) & (found.stays[first][number] | (before == 0))
    return stays


def _rewrite(
    data: Bytes, flags: Bytes, keep: Flags, lines: _BlockLines, found: _Verdicts, limit: float
) -> None:
    """Remove cell borders and unexplained digits from the lines that need it."""
    # a text may be much longer than a block
    marks = np.searchsorted(lines.start, np.arange(0, len(data), 4 * _BLOCK)[1:])
    cuts = np.unique([0, *marks.tolist(), len(lines.start)]).tolist()
    for low, high in pairwise(cuts):
        if found.rewritten[low:high].any():
            here = slice(lines.start[low], lines.end[high - 1])
            spans = lines.start[low:high] - here.start, lines.end[low:high] - here.start
            _rewrite_lines(
                *(data[here], flags[here], keep[here], *spans),
                *(found.table[low:high], found.over[low:high], limit),
            )


# -- tokens of the lines that need work -------------------------------------------------------


def _rewrite_lines(
    data: Bytes,
    flags: Bytes,
    keep: Flags,
    start: Integers,
    end: Integers,
    table: Flags,
    over: Flags,
    limit: float,
) -> None:
    """Update ``keep`` and ``data``: lines keep their cells, and the tokens of the waves."""
    within = _bytes_of(table | over, start, end, len(data))
    solid = within & (flags & SPACE == 0)
    if table.any():
        solid &= (flags & PIPE == 0) | ~_bytes_of(table, start, end, len(data))
    first, after, owner = _tokens(solid, start, end)
    stays, crowded = np.ones(len(first), np.bool_), over[owner]
    if crowded.any():
        low, high = first[crowded], after[crowded]
        letters, digits = (_between(flags & flag, low, high) for flag in (LETTER, DIGIT))
        stays[crowded] = _waves(owner[crowded], letters, digits, limit)
        first, after, owner = first[stays], after[stays], owner[stays]
    joined = np.flatnonzero(owner[:-1] == owner[1:])
    # gaps within a cell stay; other gaps become one space
    whole = ~over[owner[joined]]
    if whole.any():
        whole &= _between(flags & PIPE, after[joined], first[joined + 1]) == 0
    spaced, linked = joined[~whole], joined[whole]
    data[after[spaced]] = ord(" ")
    after[spaced] += 1
    after[linked] = first[linked + 1]
    keep &= ~within
    keep |= _covered(first, after, len(data))


def _waves(owner: Integers, letters: Integers32, digits: Integers32, limit: float) -> Flags:
    """Return which tokens stay: tokens with a letter and waves of neighbours; lines ascend."""
    count = len(owner)
    if count == 0:
        return np.zeros(0, np.bool_)
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    size = np.diff(first, append=count)
    seed = letters > 0
    # the gap between lines is so large that the nearest token with a letter is in the same line
    place = np.arange(count) + np.repeat(np.arange(len(first)) * int(size.max()), size)
    before = np.maximum.accumulate(np.where(seed, place, -count))
    after = np.minimum.accumulate(np.where(seed, place, place[-1] + count)[::-1])[::-1]
    wave = np.minimum(place - before, after - place)  # its distance
    number = np.maximum.reduceat(wave, first) + 1  # number of waves of each line
    base = np.cumsum(number) - number
    cell = np.repeat(base, size) + wave
    total = np.cumsum(np.bincount(cell, weights=digits))
    own = np.zeros(len(base))
    own[1:] = total[base[1:] - 1]
    total -= np.repeat(own, number)
    fits = total / (total + np.repeat(np.add.reduceat(letters, first), number)) <= limit
    stays: Flags = seed | fits[cell]
    return stays


def _bytes_of(marked: Flags, start: Integers, end: Integers, size: int) -> Flags:
    """Return which bytes belong to marked lines, without line ends."""
    until = np.append(start[1:], size)
    within = np.repeat(marked, until - start)
    within[end[marked & (end < until)]] = False
    return within


def _tokens(solid: Flags, start: Integers, end: Integers) -> tuple[Integers, Integers, Integers]:
    """Return starts of tokens, the bytes after them, and their lines."""
    begins = solid.copy()
    begins[1:] &= ~solid[:-1]
    ends = solid.copy()
    ends[:-1] &= ~solid[1:]
    filled = end > start  # the texts of a block adjoin without a space
    begins[start[filled]] = solid[start[filled]]
    ends[end[filled] - 1] = solid[end[filled] - 1]
    bits = Bits(begins)
    owner = np.repeat(np.arange(len(start)), bits.rank(end) - bits.rank(start))
    return np.flatnonzero(begins), np.flatnonzero(ends) + 1, owner


def _between(flagged: Bytes | Flags, low: Integers, high: Integers) -> Integers32:
    """Return the number of flagged bytes from each low to each high place."""
    # a wrapping sum is right for short ranges, and three times as fast
    short = int((high - low).max(initial=0)) < 256
    count: Any = np.zeros(len(flagged) + 1, np.uint8 if short else np.int32)
    np.cumsum((flagged != 0).view(np.uint8), dtype=count.dtype, out=count[1:])
    found: Integers32 = (count[high] - count[low]).astype(np.int32)
    return found


def _covered(first: Integers, after: Integers, size: int) -> Flags:
    """Return which bytes lie in disjoint ranges."""
    edges = np.zeros(size + 1, np.int8)
    edges[first] += 1
    edges[after] -= 1
    return np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)
