"""Define array types and structures: records, ragged lists, packed flags, ranges.

``IntegerLists`` stores a list of integers for each owner in two flat arrays, looks them up and
chains them without a loop. ``Bits`` packs flags 64 to a word, and counts or finds them in constant
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Integers32 = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
Keys = npt.NDArray[np.int64 | np.uint32]  # int64 once drawn
Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

Array = np.ndarray[Any, np.dtype[Any]]

_MOST_BITS = 24  # a sketch has at most two to this power of bytes


class ArrayRecord:
    """A dataclass whose arrays have the same samples along their last axis; other fields stay."""

    __slots__ = ()

    def part(self, which: Integers | Flags | slice) -> Self:
        """Return some of the samples, by index or by flags."""
        index: Any = None if isinstance(which, slice) or which.dtype == np.bool_ else which
        found = dict[str, Any]()
        for name in self.__dataclass_fields__:  # type: ignore[attr-defined]
            values = getattr(self, name)
            if isinstance(values, np.ndarray):
                found[name] = values[..., which] if index is None else values.take(index, axis=-1)
        return replace(self, **found)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class IntegerLists:
    """A list of integers for each of n owners."""

    starts: Integers  # first value of each owner, and the end; int64[n + 1]
    values: Integers  # by owner

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, owner: int) -> Integers:
        return self.values[self.starts[owner] : self.starts[owner + 1]]

    @classmethod
    def of(cls, owners: Integers, values: Integers, count: int) -> IntegerLists:
        """Group values by owner (0 to ``count - 1``), ascending and without repeats."""
        order = _first_of_each(np.lexsort((values, owners)), owners, values)
        owners, values = owners[order], values[order]
        return cls(np.searchsorted(owners, np.arange(count + 1)), values)

    @property
    def lengths(self) -> Integers:
        """Number of values of each owner."""
        return np.diff(self.starts)

    def owners(self) -> Integers:
        """Return the owner of every value."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def take(self, owners: Integers) -> IntegerLists:
        """Return the lists of some owners, in their order."""
        counts = self.lengths[owners]
        return IntegerLists(offsets(counts), self.values[ranges(self.starts[:-1][owners], counts)])

    def then(self, other: IntegerLists) -> IntegerLists:
        """Return for each owner the values that ``other`` has for its values."""
        lists = other.take(self.values)
        return IntegerLists(lists.starts[self.starts], lists.values)

    def find(self, owners: Integers, values: Integers) -> Integers:
        """Return the index of each pair in ``values``, ascending by owner, or -1."""
        width = 1 + max(int(values.max(initial=0)), int(self.values.max(initial=0)))
        return places(self.owners() * width + self.values, owners * width + values)


def merged(parts: Sequence[IntegerLists]) -> tuple[IntegerLists, Integers]:
    """Merge lists of the same owners without repeats; return also the first part of each value."""
    owners = np.concatenate([part.owners() for part in parts])
    values = np.concatenate([part.values for part in parts])
    part = np.repeat(np.arange(len(parts)), [len(p.values) for p in parts])
    order = _first_of_each(np.lexsort((part, values, owners)), owners, values)
    starts = np.searchsorted(owners[order], np.arange(len(parts[0]) + 1))
    return IntegerLists(starts, values[order]), part[order]


def _first_of_each(order: Integers, owners: Integers, values: Integers) -> Integers:
    """Return an order of pairs without repeated pairs, which are adjacent in it."""
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (np.diff(owners[order]) != 0) | (np.diff(values[order]) != 0)
    return order[fresh]


def places(ascending: Keys | Words, wanted: Keys | Words) -> Integers:
    """Return the index of each wanted number in an ascending array, or -1."""
    if not len(ascending):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[at] == wanted, at, -1)


def turns(owners: Integers) -> Integers:
    """Return how many values of the same owner come before each; owners ascend from 0."""
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    return np.arange(len(owners)) - np.repeat(first, np.diff(first, append=len(owners)))


class Sketch:
    """Finds hashes that may be among others: all that are, and one in sixteen of the rest."""

    def __init__(self, others: Words) -> None:
        bits = min((16 * len(others) | 4096).bit_length() - 1, _MOST_BITS)
        self._shift = np.uint64(64 - bits)
        self._known = np.zeros(1 << bits, dtype=bool)
        self._known[others >> self._shift] = True

    def among(self, words: Words) -> Integers:
        """Return the indexes of hashes that may be among the others."""
        cells = (words >> self._shift).view(np.int64)
        # without a check of the indexes it takes half the time
        return np.flatnonzero(self._known.take(cells, mode="clip"))


def ranges(start: Integers, size: Integers) -> Integers:
    """Return the concatenated ranges ``start[i] … start[i] + size[i] - 1``."""
    ends = np.cumsum(size)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(start - ends + size, size)


def stretches(sizes: Integers, *, rows: int, total: int) -> Iterator[slice]:
    """Yield slices of at most ``rows`` rows and ``total`` size; a larger row is a slice."""
    ends = np.cumsum(sizes, dtype=np.int64)
    low = 0
    while low < len(ends):
        done = int(ends[low - 1]) if low else 0
        fitting = int(np.searchsorted(ends, done + total, "right"))
        high = max(low + 1, min(low + rows, fitting))
        yield slice(low, high)
        low = high


def in_order(keys: Integers) -> tuple[Integers, Integers]:
    """Sort non-negative keys stably; return them and their indexes."""
    bits = len(keys).bit_length()
    if not len(keys) or int(keys.max()) >> (63 - bits):
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    # Sorting plain integers is several times faster than argsort.
    both = keys << bits
    both += np.arange(len(keys))
    both.sort()
    ordered = both >> bits
    both &= (1 << bits) - 1
    return ordered, both


def offsets(sizes: npt.ArrayLike, kind: npt.DTypeLike = np.int64) -> Array:
    """Return the start of each of several sizes laid end to end, and the end; shape (n + 1,)."""
    starts = np.zeros(len(np.asarray(sizes)) + 1, kind)
    np.cumsum(sizes, out=starts[1:])
    return starts


class Bits:
    """Flags packed 64 to a word, with rank and select."""

    __slots__ = ("before", "words")

    def __init__(self, flags: Flags) -> None:
        size = len(flags)
        packed = np.zeros((size // 64 + 1) * 8, np.uint8)
        packed[: (size + 7) // 8] = np.packbits(flags, bitorder="little")
        packed[size // 8] |= np.uint8(1 << size % 8)
        self._set(packed.view("<u8"))

    def _set(self, words: Words) -> None:
        self.words, self.before = words, np.zeros(len(words) + 1, np.int64)
        np.cumsum(np.bitwise_count(words), out=self.before[1:])

    def runs(self, bounds: Integers) -> Bits:
        """Return the first flags of runs, and flags at bounds; the last bound is the size."""
        words: Words = self.words << np.uint64(1)
        words[1:] |= self.words[:-1] >> np.uint64(63)
        np.invert(words, out=words)
        words &= self.words
        flags = self.words[bounds >> 6] & np.uint64(1) << (bounds & 63).astype(np.uint64)
        np.bitwise_or.at(words, bounds >> 6, flags)
        found = Bits.__new__(Bits)
        found._set(words)
        return found

    def rank(self, at: Integers) -> Integers:
        """Return the number of set flags before each position."""
        below = (np.uint64(1) << (at & 63).astype(np.uint64)) - np.uint64(1)
        rank: Integers = self.before[at >> 6] + np.bitwise_count(self.words[at >> 6] & below)
        return rank

    def select(self, nth: Integers) -> Integers:
        """Return the position of the n-th set flag, from 0; the last is the size."""
        word: Integers = np.searchsorted(self.before, nth, side="right") - 1
        bits, rest = self.words[word], nth - self.before[word]
        at: Integers = word << 6
        for width in (32, 16, 8, 4, 2, 1):
            low = np.bitwise_count(bits & np.uint64((1 << width) - 1))
            above = rest >= low
            rest -= np.where(above, low, 0)
            bits >>= np.where(above, width, 0).astype(np.uint64)
            at += np.where(above, width, 0)
        return at
