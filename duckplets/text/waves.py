"""Tokens of the lines that need work: cells of tables, and waves around what holds a letter.

lines ─flags→ tokens ─waves→ those that stay ─gaps→ the ranges of bytes that stay
"""

from __future__ import annotations

from typing import Any

import numpy as np

from duckplets.base.arrays import Bits, Bytes, Flags, Integers, Integers32
from duckplets.text.characters import DIGIT, LETTER, PIPE, SPACE

__all__ = ["rewrite", "waves"]


def rewrite(
    data: Bytes,
    flags: Bytes,
    keep: Flags,
    start: Integers,
    end: Integers,
    table: Flags,
    over: Flags,
    limit: float,
) -> None:
    """Change ``keep`` and ``data`` so that lines keep only their cells, and tokens in waves.

    Args:
        data: The bytes of adjoining lines, shape (n,).
        flags: What characters they are, shape (n,).
        keep: Which stay, shape (n,).
        start: First byte of each line, shape (lines,).
        end: The byte after its last, shape (lines,).
        table: Whether it is a row of a table, shape (lines,).
        over: Whether it has too many digits, shape (lines,).
        limit: Largest share of digits.
    """
    within = _bytes_of(table | over, start, end, len(data))
    solid = within & (flags & SPACE == 0)
    if table.any():
        solid &= (flags & PIPE == 0) | ~_bytes_of(table, start, end, len(data))
    first, after, owner = _tokens(solid, start, end)
    kept, crowded = np.ones(len(first), np.bool_), over[owner]
    if crowded.any():
        low, high = first[crowded], after[crowded]
        letters, digits = (_between(flags & flag, low, high) for flag in (LETTER, DIGIT))
        kept[crowded] = waves(owner[crowded], letters, digits, limit)
        first, after, owner = first[kept], after[kept], owner[kept]
    joined = np.flatnonzero(owner[:-1] == owner[1:])
    # Within a cell the gap between two tokens stays as it is; elsewhere it becomes one space.
    whole = ~over[owner[joined]]
    if whole.any():
        whole &= _between(flags & PIPE, after[joined], first[joined + 1]) == 0
    spaced, linked = joined[~whole], joined[whole]
    data[after[spaced]] = ord(" ")
    after[spaced] += 1
    after[linked] = first[linked + 1]
    keep &= ~within
    keep |= _covered(first, after, len(data))


def waves(owner: Integers, letters: Integers32, digits: Integers32, limit: float) -> Flags:
    """Return which tokens stay: those with a letter, and in waves their neighbours.

    Args:
        owner: Line of each token, ascending, shape (tokens,); every line has a letter.
        letters: Letters of each token, shape (tokens,).
        digits: Digits of each token, shape (tokens,).
        limit: Largest share of digits in what stays of a line.
    """
    count = len(owner)
    if count == 0:
        return np.zeros(0, np.bool_)
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    size = np.diff(first, append=count)
    seed = letters > 0
    # Lines lie so far apart here that the nearest token with a letter is of the same line.
    place = np.arange(count) + np.repeat(np.arange(len(first)) * int(size.max()), size)
    before = np.maximum.accumulate(np.where(seed, place, -count))
    after = np.minimum.accumulate(np.where(seed, place, place[-1] + count)[::-1])[::-1]
    wave = np.minimum(place - before, after - place)  # its distance from that
    number = np.maximum.reduceat(wave, first) + 1  # of waves, of each line
    base = np.cumsum(number) - number
    cell = np.repeat(base, size) + wave
    total = np.cumsum(np.bincount(cell, weights=digits))
    own = np.zeros(len(base))
    own[1:] = total[base[1:] - 1]
    total -= np.repeat(own, number)
    fits = total / (total + np.repeat(np.add.reduceat(letters, first), number)) <= limit
    kept: Flags = seed | fits[cell]
    return kept


def _bytes_of(marked: Flags, start: Integers, end: Integers, size: int) -> Flags:
    """Return which bytes are of marked lines, without what ends them."""
    until = np.append(start[1:], size)
    within = np.repeat(marked, until - start)
    within[end[marked & (end < until)]] = False
    return within


def _tokens(solid: Flags, start: Integers, end: Integers) -> tuple[Integers, Integers, Integers]:
    """Return where tokens begin, the bytes after them, and their lines."""
    begins = solid.copy()
    begins[1:] &= ~solid[:-1]
    ends = solid.copy()
    ends[:-1] &= ~solid[1:]
    filled = end > start  # the texts of a block adjoin, and no space parts their lines
    begins[start[filled]] = solid[start[filled]]
    ends[end[filled] - 1] = solid[end[filled] - 1]
    bits = Bits(begins)
    owner = np.repeat(np.arange(len(start)), bits.rank(end) - bits.rank(start))
    return np.flatnonzero(begins), np.flatnonzero(ends) + 1, owner


def _between(flagged: Bytes | Flags, low: Integers, high: Integers) -> Integers32:
    """Return how many bytes are flagged from each low to each high place."""
    # A sum that wraps around is right for short ranges, and three times as fast.
    short = int((high - low).max(initial=0)) < 256
    count: Any = np.zeros(len(flagged) + 1, np.uint8 if short else np.int32)
    np.cumsum((flagged != 0).view(np.uint8), dtype=count.dtype, out=count[1:])
    found: Integers32 = (count[high] - count[low]).astype(np.int32)
    return found


def _covered(first: Integers, after: Integers, size: int) -> Flags:
    """Return which bytes lie in ranges that do not overlap."""
    edges = np.zeros(size + 1, np.int8)
    edges[first] += 1
    edges[after] -= 1
    return np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)
