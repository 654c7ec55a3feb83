"""Hash the n-grams of texts, and make MinHash bands of them, in NumPy.

    words, each with a space after it ─places→ spans of n words ─prefix sums→ 64-bit hashes
    hashes of a text ─84 multiplications, least of each→ a signature ─12 × 7→ bands

The decision that matters: an n-gram is a span of bytes, and its hash is a difference of two prefix
sums of a polynomial, so no n-gram is ever copied. The polynomial and all constants are our own:
what is a near-duplicate does not follow the version of NumPy, DuckDB or Python; what is a letter is
Unicode 14's, and lower case is Arrow's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Bits, Bytes, Flags, Floats, IntegerLists, Integers, Words
from duckplets.base.checks import integer
from duckplets.errors import SamplerError
from duckplets.text.characters import DIGIT, LETTER, MARK, SPACE, bytes_of, classes

__all__ = ["ALGORITHM", "Grams", "NearSettings", "bands_of", "mixed"]

ALGORITHM = 1
"""Changes whenever another n-gram, hash or band would be made of the same text."""

_PIECE = 1 << 19  # bytes that prefix sums are taken of at once: they stay in the cache
_GRAMS = 1 << 15  # hashes that signatures are made of at once, likewise
_RECALL = 0.99  # of the pairs that are just near enough, where bands follow the threshold
_FUNCTIONS, _MOST_ROWS, _MOST = 112, 16, 1000
_SPACE = ord(" ")
_GOLDEN = 0x9E3779B97F4A7C15
_BASE = 0xD6E8FEB86659FD93  # odd, so that it can be divided by
_ALL = (1 << 64) - 1


def words_of(texts: pa.Array) -> tuple[Bytes, Integers]:
    """Return the words of texts, each with a space after it, and where those of each text start.

    A word is a run of letters, digits and marks, in lower case; in scripts without spaces it is
    one character. Of a text without any the words are what white space parts.

    Args:
        texts: Strings, shape (n,).

    Returns:
        Bytes, and the first of each text with the end of the last, shape (n + 1,).
    """
    texts, nothing, space = texts.cast(pa.large_string()), *map(_large, ("", " "))
    data, bounds = bytes_of(pc.binary_join_element_wise(pc.utf8_lower(texts), nothing, space))
    data, bounds = _spread(data, bounds)
    flags = classes(data)
    inside = flags & (LETTER | DIGIT | MARK) != 0
    solid = flags & SPACE == 0
    wide = data >= 0x80
    if wide.any():
        inside = _to_whole_characters(data, inside)
    bits = Bits(inside)
    bare = bits.rank(bounds[1:]) == bits.rank(bounds[:-1])
    if bare.any():
        inside |= solid & np.repeat(bare, np.diff(bounds))
    keep = inside.copy()
    keep[1:] |= inside[:-1]
    data = np.where(inside, data, np.uint8(_SPACE))[keep]
    return data, Bits(keep).rank(bounds)


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _spread(data: Bytes, bounds: Integers) -> tuple[Bytes, Integers]:
    """Put spaces around characters that are words by themselves."""
    lead = np.flatnonzero(data >= 0xE0)
    if not len(lead):
        return data, bounds
    at = lead[_alone()[(data[lead].astype(np.int64) << 8) | data[lead + 1]]]
    if not len(at):
        return data, bounds
    size = np.where(data[at] >= 0xF0, 4, 3)
    places = np.unique(np.concatenate([at, at + size]))
    return np.insert(data, places, _SPACE), bounds + np.searchsorted(places, bounds)


def _to_whole_characters(data: Bytes, first: Flags) -> Flags:
    """Return which bytes are of characters whose first bytes are flagged."""
    at = np.flatnonzero(first & (data >= 0xC0))
    lead = data[at]
    for offset, least in ((1, 0xC0), (2, 0xE0), (3, 0xF0)):
        first[at[lead >= least] + offset] = True
    return first


@functools.cache
def _alone() -> Flags:
    """Return of what first two bytes the characters are words by themselves.

    Han, kana, Thai, Lao, Khmer and Myanmar: scripts that put no space between words.
    """
    found = np.zeros(1 << 16, np.bool_)
    for low, high in (
        *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF)),
        *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
    ):
        first, last = (chr(point).encode() for point in (low, high))
        found[first[0] << 8 | first[1] : (last[0] << 8 | last[1]) + 1] = True
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class NearSettings:
    """How near-duplicates are found.

    Attributes:
        near: Least Jaccard similarity of the n-grams of two texts; None for equal texts only.
        ngram: Words of an n-gram.
        bands: Of a signature.
        rows: Hash functions of a band.
        seed: Of the hash functions.
    """

    near: float | None
    ngram: int
    bands: int
    rows: int
    seed: int

    @classmethod
    def of(
        cls, *, near: float | None, ngram: int, bands: int | None, rows: int | None, seed: int
    ) -> NearSettings:
        """Check settings, and choose bands and rows that are not given.

        Of all that find 99 % of the pairs that are just near enough, with no more hash functions
        than a text's share of the time allows, those of the most rows: they propose the least
        that is not near.

        Raises:
            SamplerError: A setting is wrong.
        """
        one = {"bands": 1 if bands is None else bands, "rows": 1 if rows is None else rows}
        given = cls(near=near, ngram=ngram, **one, seed=seed)
        alike = given.near or 1.0
        for each in range(_MOST_ROWS, 0, -1) if rows is None else [given.rows]:
            least = _least_bands(alike, each)
            if (each * least <= _FUNCTIONS) if bands is None else (least <= given.bands):
                break
        return replace(given, bands=least if bands is None else given.bands, rows=each)

    @property
    def recall(self) -> float:
        """The share of pairs that share a band, of those whose similarity is just ``near``."""
        return float(1 - (1 - (self.near or 1.0) ** self.rows) ** self.bands)

    def __post_init__(self) -> None:
        """Check every field."""
        near = self.near
        if near is not None:
            if isinstance(near, bool) or not isinstance(near, int | float) or not 0 < near <= 1:
                raise SamplerError(
                    f"near={near!r}: give a similarity above 0 and up to 1, or None for equal texts"
                )
            object.__setattr__(self, "near", float(near))
        for name in ("ngram", "bands", "rows"):
            object.__setattr__(self, name, integer(name, getattr(self, name), 1, _MOST))
        object.__setattr__(self, "seed", integer("seed", self.seed, 0, 2**63 - 1))


def _least_bands(near: float, rows: int) -> int:
    """Return the fewest bands that find 99 % of the pairs of a similarity."""
    alike = near**rows
    return 1 if alike == 1 else min(_MOST, math.ceil(math.log(1 - _RECALL) / math.log1p(-alike)))


@dataclass(frozen=True, slots=True)
class Grams:
    """The n-grams of some texts, as spans of their bytes.

    Attributes:
        data: The words of the texts, each with a space after it.
        starts: First n-gram of each text, and the end; int64[texts + 1].
        first: First byte of each n-gram.
        after: The byte after its last.
    """

    data: Bytes
    starts: Integers
    first: Integers
    after: Integers

    @classmethod
    def of(cls, sections: pa.Array, texts: Integers, n: int, *, whole: bool) -> Grams:
        """Find the n-grams of texts.

        Args:
            sections: Strings, shape (sections,).
            texts: First section of each text, and the end; int64[texts + 1].
            n: Words of an n-gram.
            whole: Whether a text of fewer words is an n-gram by itself, or has none.
        """
        data, bounds = words_of(sections)
        ends = np.flatnonzero(data == _SPACE)
        word = np.searchsorted(ends, bounds[texts])  # the first of each text
        count = np.diff(word)
        grams = np.maximum(count - n + 1, np.minimum(count, 1) if whole else 0)
        starts = np.zeros(len(grams) + 1, np.int64)
        np.cumsum(grams, out=starts[1:])
        begin = np.arange(starts[-1]) + np.repeat(word[:-1] - starts[:-1], grams)
        last = begin + np.repeat(np.minimum(count, n), grams) - 1
        first = np.zeros(len(ends), np.int64)
        first[1:] = ends[:-1] + 1
        return cls(data, starts, first[begin], ends[last])

    def text(self, gram: int) -> str:
        """Return an n-gram, its words parted by spaces."""
        return self.data[self.first[gram] : self.after[gram]].tobytes().decode()

    def hashes(self) -> Words:
        """Return the hash of every n-gram: the same words have the same."""
        found = np.empty(len(self.first), np.uint64)
        low = 0
        while low < len(self.first):
            base = int(self.first[low])
            high = int(np.searchsorted(self.after, base + _PIECE, side="right"))
            if high > low:
                found[low:high] = self._within(base, low, high)
            else:
                high = low + 1
                found[low] = _long(self.data[base : int(self.after[low])])
            low = high
        return mixed(found)

    def _within(self, base: int, low: int, high: int) -> Words:
        """Return the hashes of n-grams that lie in one piece, not mixed."""
        forth, back = _powers()
        piece = self.data[base : int(self.after[high - 1])]
        sums = np.zeros(len(piece) + 1, np.uint64)
        np.cumsum(_values()[piece] * forth[: len(piece)], out=sums[1:])
        first = self.first[low:high] - base
        found: Words = (sums[self.after[low:high] - base] - sums[first]) * back[first]
        return found

    def similarities(self, one: Integers, other: Integers) -> Floats:
        """Return the Jaccard similarity of the n-grams of pairs of texts; float64[pairs].

        Args:
            one: The first text of each pair, which has at least one n-gram.
            other: The second.
        """
        hashes = self.hashes()
        order = np.argsort(hashes)
        numbers = np.zeros(len(hashes), np.int64)
        numbers[order[1:]] = np.cumsum(hashes[order[1:]] != hashes[order[:-1]])
        size = int(numbers.max(initial=0)) + 1
        owners = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        known = np.sort(owners * size + numbers)  # every (text, n-gram)
        known = known[np.diff(known, prepend=-1) != 0]
        lists = IntegerLists(
            np.searchsorted(known, np.arange(len(self.starts)) * size), known % size
        )
        ours = lists.take(one)
        wanted = np.repeat(other, ours.lengths) * size + ours.values
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        hits = np.concatenate([[0], np.cumsum(known[at] == wanted)])
        shared = hits[ours.starts[1:]] - hits[ours.starts[:-1]]
        similarity: Floats = shared / (lists.lengths[one] + lists.lengths[other] - shared)
        return similarity


def bands_of(hashes: Words, starts: Integers, bands: int, rows: int, seed: int) -> Words:
    """Return the MinHash bands of texts: equal ones make a candidate; uint64[texts, bands].

    Args:
        hashes: Of the n-grams of all texts.
        starts: First n-gram of each text, and the end; every text has one at least.
        bands: How many.
        rows: Hash functions of each.
        seed: Of the functions.
    """
    factors = _numbers(bands * rows, 2 * seed) | np.uint64(1)
    addends = _numbers(bands * rows, 2 * seed + 1)
    made = np.empty((len(starts) - 1, bands), np.uint64)
    for low, high in _portions(starts):
        part = hashes[starts[low] : starts[high]]
        first = starts[low:high] - starts[low]
        room = np.empty(len(part), np.uint64)
        for band in range(bands):
            found = np.full(high - low, band, np.uint64)
            for row in range(band * rows, (band + 1) * rows):
                np.multiply(part, factors[row], out=room)
                np.add(room, addends[row], out=room)
                found = mixed(found ^ np.minimum.reduceat(room, first))
            made[low:high, band] = found
    return made


def _portions(starts: Integers) -> Iterator[tuple[int, int]]:
    """Yield runs of texts that have few n-grams together, or are one text."""
    low, texts = 0, len(starts) - 1
    while low < texts:
        high = int(np.searchsorted(starts, starts[low] + _GRAMS, side="right")) - 1
        high = min(max(high, low + 1), texts)
        yield low, high
        low = high


def mixed(numbers: Words) -> Words:
    """Return numbers with their bits mixed, one to one (the finaliser of splitmix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed_: Words = numbers ^ (numbers >> np.uint64(31))
    return mixed_


def _numbers(count: int, seed: int) -> Words:
    """Return so many random numbers of a seed (splitmix64)."""
    start = int(mixed(np.array([seed & _ALL], np.uint64))[0])
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return mixed(steps + np.uint64(start))


@functools.cache
def _values() -> Words:
    return _numbers(256, 0xB17E5)


@functools.cache
def _powers() -> tuple[Words, Words]:
    """Return the powers of the base, and those of what undoes it, for every place of a piece."""
    both = []
    for base in (_BASE, pow(_BASE, -1, 1 << 64)):
        powers = np.full(_PIECE + 1, base, np.uint64)
        powers[0] = 1
        both.append(np.multiply.accumulate(powers))
    return both[0], both[1]


def _long(data: Bytes) -> np.uint64:
    """Return the hash of one n-gram that is longer than a piece, not mixed."""
    forth, _ = _powers()
    found, factor = 0, 1
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        found += int((_values()[piece] * forth[: len(piece)]).sum()) * factor
        factor = factor * int(forth[_PIECE]) & _ALL
    return np.uint64(found & _ALL)
