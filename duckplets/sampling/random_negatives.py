"""Negatives at random: hashed draws from what an anchor's class may draw.

Draws are repeated while illegal, and in the end a scan finds one: the pool has made sure that
there is one. Everything is keyed and vectorised, nothing is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.errors import EmptyPoolError
from duckplets.order.permute import below, hashed
from duckplets.pools.arrays import Negatives, pair_hashes

_REDRAWS = 24  # after which one in 2^24 is left even if half of what can be drawn is illegal


@dataclass(frozen=True, slots=True)
class Anchored:
    """Samples that want negatives: shape (samples,) each.

    Attributes:
        index: Number of the sample in its stream.
        classes: Class of the anchor: row of ``Negatives.firsts``.
        records: Record key of the anchor.
        owners: Whose the anchor is; what is also theirs is no negative.
        normals: Hash of the normalised text of the anchor's section, where negatives are mined.
        hashes: Text hashes of what the samples have already, a column a slot.
    """

    index: Integers
    classes: Integers
    records: Integers
    owners: Integers
    normals: Words | None
    hashes: tuple[Words, ...]

    def part(self, rows: Integers | slice) -> Anchored:
        """Return some of the samples."""
        return Anchored(
            self.index[rows],
            self.classes[rows],
            self.records[rows],
            self.owners[rows],
            None if self.normals is None else self.normals[rows],
            tuple(column[rows] for column in self.hashes),
        )

    def having(self, hashes: Words) -> Anchored:
        """Return the samples with one slot more."""
        return replace(self, hashes=(*self.hashes, hashes))


@dataclass(frozen=True, slots=True)
class RandomNegatives:
    """Draws negatives of one stream.

    Attributes:
        pool: What to draw from.
        unit_key: Key of the draws of a unit.
        window_key: Key of the draws of one of its windows.
        slots: How many negatives a sample has.
        what: Recipe and source, for messages.
    """

    pool: Negatives
    unit_key: int
    window_key: int
    slots: int
    what: str

    def draw_all(self, samples: Anchored) -> list[Integers]:
        """Return one legal window of the pool for every slot and sample, of different texts."""
        found = []
        for slot in range(self.slots):
            found.append(self.draw(samples, slot))
            samples = samples.having(self.pool.hashes[found[-1]])
        return found

    def draw(self, samples: Anchored, slot: int) -> Integers:
        """Return one legal window of the pool for every sample."""
        pool = self.pool
        base = pool.sums[pool.firsts[samples.classes]]
        sizes = pool.sums[pool.firsts[samples.classes + 1]] - base
        found = np.empty(len(samples.index), dtype=np.int64)
        left = np.arange(len(samples.index))
        for attempt in range(_REDRAWS):
            rest = samples.part(left)
            counter = attempt * self.slots + slot
            words = hashed(self.unit_key, rest.index, counter)
            unit = _unit(pool, base[left] + below(words, sizes[left]))
            first = pool.starts[unit]
            count = pool.starts[unit + 1] - first
            words = hashed(self.window_key, rest.index, counter)
            at = first + below(words, count)
            legal = pool.owners[unit] != rest.owners
            legal &= self.is_legal(at, rest)
            found[left[legal]] = at[legal]
            left = left[~legal]
            if len(left) == 0:
                return found
        for row in left:
            one = samples.part(slice(row, row + 1))
            start = int(below(hashed(self.unit_key, one.index), sizes[row])[0])
            found[row] = self._scan(int(base[row]), int(sizes[row]), start, one)
        return found

    def is_legal(self, at: Integers, samples: Anchored) -> Flags:
        """Whether the text of a window is none its sample has already, nor one it must not have."""
        hashes = self.pool.hashes[at]
        legal = np.ones(len(at), dtype=bool)
        for other in samples.hashes:
            legal &= hashes != other
        legal &= ~_among(self.pool.illegal, samples.records, hashes)
        if samples.normals is not None:
            legal &= ~_among(self.pool.known, samples.normals, hashes)
        return legal

    def _scan(self, base: int, size: int, start: int, sample: Anchored) -> int:
        """Return the first legal window from a start on, once around the class: rarely needed."""
        pool, step = self.pool, 4096
        for offset in range(0, size, step):
            targets = (start + np.arange(offset, min(offset + step, size))) % size
            units = _unit(pool, base + targets)
            units = units[pool.owners[units] != sample.owners]
            at = _expand(pool.starts[units], pool.starts[units + 1])
            repeated = sample.part(np.zeros(len(at), dtype=np.int64))
            legal = np.flatnonzero(self.is_legal(at, repeated))
            if len(legal):
                return int(at[legal[0]])
        raise EmptyPoolError(
            f"{self.what}: no legal negative is left for record key {int(sample.records[0])}; the "
            f"corpus differs from the one the pool was made of"
        )


def _among(pairs: Words, owners: Integers | Words, hashes: Words) -> Flags:
    """Return which (owner, text) are among sorted ones."""
    if len(pairs) == 0:
        return np.zeros(len(hashes), dtype=bool)
    words = pair_hashes(owners, hashes)
    near = np.minimum(np.searchsorted(pairs, words), len(pairs) - 1)
    found: Flags = pairs[near] == words
    return found


def _unit(pool: Negatives, targets: Integers) -> Integers:
    """Return the unit at each place of the classes' ranges laid end to end."""
    if len(pool.lows) == 1:
        return np.asarray(pool.lows[0] + targets, np.int64)
    place = np.searchsorted(pool.sums, targets, side="right") - 1
    return np.asarray(pool.lows[place] + targets - pool.sums[place], np.int64)


def _expand(starts: Integers, ends: Integers) -> Integers:
    """Return all integers of the given ranges, in order."""
    counts = ends - starts
    before = np.cumsum(counts) - counts
    return np.asarray(np.repeat(starts - before, counts) + np.arange(counts.sum()), np.int64)
