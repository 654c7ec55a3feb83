"""From a size or a weight, which entries of a list are kept and how often."""

# A sample is the entries with the smallest hashes, so a larger one contains a smaller one.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Integers
from duckplets.base.settings import Bounds, check
from duckplets.errors import SamplerError
from duckplets.order.apportion import exact
from duckplets.order.permute import hashed, key

SizeMode = Literal["first", "sample"]

MOST = 1 << 32  # entries of an index: 40 GB of them
Times = Annotated[float, Bounds(0)]  # largest number of copies of an entry
_BLOCK = 1 << 16  # entries hashed at a time: they stay in the cache


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Whole copies of a list, and a remainder."""

    whole: int
    rest: slice | Integers  # entries of the remainder, ascending
    extra: int  # size of the remainder

    @property
    def same(self) -> bool:
        """Whether the list stays as it is."""
        return self.whole == 1 and self.extra == 0

    def count(self, entries: int) -> int:
        """Return the number of entries made from a number of entries."""
        return self.whole * entries + self.extra

    def fill(self, out: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """Write the copies of values into an array of the right length."""
        copied = self.whole * len(values)
        if copied:
            out[:copied].reshape(self.whole, len(values))[:] = values
        out[copied:] = values[self.rest]


SAME = Copies(1, slice(0, 0), 0)


def sized(names: Sequence[str], entries: int, size: int, mode: SizeMode, seed: int) -> Copies:
    """Return the copies that make ``size`` entries from a list of these data sets."""
    whole, rest = divmod(size, entries) if entries else (0, 0)
    if mode == "first":
        return Copies(whole, slice(0, rest), rest)
    return Copies(whole, sampled(key(seed, "data index size", *names), entries, rest), rest)


def weighed(names: Sequence[str], entries: int, weight: Fraction, seed: int) -> Copies:
    """Return ``floor(weight)`` copies of a list, and a sample of ``round(fraction * entries)``."""
    whole, fraction = divmod(weight, 1)
    rest = round(fraction * entries)
    return Copies(whole, sampled(key(seed, "data index weight", *names), entries, rest), rest)


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The entries that an index lists of a data set."""

    entries: int  # entries, repeats included
    rows: Integers  # distinct rows, ascending


@dataclass(frozen=True, slots=True)
class IndexControls:
    """How an index lists the records of a source; ``DataIndex.adjust`` says it in full.

    Attributes:
        size: How many records it lists, or None for all.
        size_mode: ``first``, or ``sample`` for records that the seed chooses.
        weight: How often it lists each, after the size: 1 for once, 0 for never.
        seed: Seed of the sample: an integer of 64 bits.

    Raises:
        SamplerError: A value is wrong.
    """

    size: Annotated[int, Bounds(0, MOST)] | None = None
    size_mode: SizeMode = "first"
    weight: Times = 1.0
    seed: Annotated[int, Bounds(-(1 << 63), (1 << 63) - 1)] = 42

    def __post_init__(self) -> None:
        check(self, SamplerError)

    def listing(self, name: str, records: int) -> Listing:
        """Return what an index lists of a data set, after size and weight."""
        by_size = SAME
        if self.size is not None and records:
            by_size = sized((name,), records, self.size, self.size_mode, self.seed)
        entries = by_size.count(records)
        by_weight = weighed((name,), entries, exact(self.weight), self.seed)
        every = np.arange(records, dtype=np.int64)
        rows = every if by_size.whole else every[by_size.rest]
        if not by_weight.whole:
            # of whole copies and a remainder, the entries whose places are sampled
            places = np.arange(entries, dtype=np.int64)[by_weight.rest]
            copied, rest = by_size.whole * records, every[by_size.rest]
            low, high = places[places < copied], places[places >= copied]
            rows = np.unique(np.concatenate([low % max(1, records), rest[high - copied]]))
        return Listing(by_weight.count(entries), rows)


def sampled(purpose: int, entries: int, size: int) -> slice | Integers:
    """Return the entries with the smallest hashes, ascending."""
    if size in (0, entries):
        return slice(0, size)
    words = np.empty(entries, np.uint64)
    for block in _blocks(entries):
        words[block] = hashed(purpose, np.arange(block.start, block.stop))
    words.partition(size - 1)
    last, found = words[size - 1], []
    for block in _blocks(entries):
        chosen = hashed(purpose, np.arange(block.start, block.stop)) <= last
        found.append(np.flatnonzero(chosen) + block.start)
    return np.concatenate(found)


def _blocks(entries: int) -> Iterator[slice]:
    for start in range(0, entries, _BLOCK):
        yield slice(start, min(start + _BLOCK, entries))
