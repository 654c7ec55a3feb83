"""Negatives at random: hashed draws from what an anchor's class may draw.

Draws are repeated while illegal, and in the end a scan finds one: the pool has made sure that
there is one. Everything is keyed and vectorised, nothing is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import EmptyPoolError
from duckplets.order.permute import below, hashed
from duckplets.pools.arrays import Negatives
from duckplets.pools.legality import Anchored, Legality

_REDRAWS = 24  # after which one in 2^24 is left even if half of what can be drawn is illegal


@dataclass(frozen=True, slots=True)
class RandomNegatives:
    """Draws negatives of one stream.

    Attributes:
        law: Of what to draw from.
        unit_key: Key of the draws of a unit.
        window_key: Key of the draws of one of its windows.
        slots: How many negatives a sample has.
        what: Recipe and source, for messages.
    """

    law: Legality
    unit_key: int
    window_key: int
    slots: int
    what: str

    def draw_all(self, samples: Anchored) -> list[Integers]:
        """Return one legal window of the pool for every slot and sample, of different texts."""
        found = []
        for slot in range(self.slots):
            found.append(self.draw(samples, slot))
            samples = samples.having(self.law.pool.hashes[found[-1]])
        return found

    def draw(self, samples: Anchored, slot: int) -> Integers:
        """Return one legal window of the pool for every sample."""
        pool = self.law.pool
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
            legal = self.law.is_legal(at, pool.kins[unit], rest)
            found[left[legal]] = at[legal]
            left = left[~legal]
            if len(left) == 0:
                return found
        for row in left:
            one = samples.part(slice(row, row + 1))
            start = int(below(hashed(self.unit_key, one.index), sizes[row])[0])
            found[row] = self._scan(int(base[row]), int(sizes[row]), start, one)
        return found

    def _scan(self, base: int, size: int, start: int, sample: Anchored) -> int:
        """Return the first legal window from a start on, once around the class: rarely needed."""
        pool, step = self.law.pool, 4096
        for offset in range(0, size, step):
            targets = (start + np.arange(offset, min(offset + step, size))) % size
            units = _unit(pool, base + targets)
            starts, ends = pool.starts[units], pool.starts[units + 1]
            at = _expand(starts, ends)
            repeated = sample.part(np.zeros(len(at), dtype=np.int64))
            kins = np.repeat(pool.kins[units], ends - starts)
            legal = np.flatnonzero(self.law.is_legal(at, kins, repeated))
            if len(legal):
                return int(at[legal[0]])
        raise EmptyPoolError(
            f"{self.what}: no legal negative is left for record key {int(sample.records[0])}; the "
            f"corpus differs from the one the pool was made of"
        )


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
