"""Drawing from one stream: which windows its i-th samples are made of.

A stream is one (source, recipe). Its i-th sample takes anchor ``order(epoch)[rank]``; the
epoch counts the visits to that anchor, and by visits the anchor's windows and positives rotate
from a hashed start, each used once before any twice. Negatives are hashed draws from what the
anchor's class may draw, redrawn while illegal, and found by a scan in the end: the pool has
made sure that there is one. Everything is keyed and vectorised, nothing is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from duckplets.errors import EmptyPoolError
from duckplets.order import Integers, Words, below, hashed, key, ranks
from duckplets.pools import Negatives, Pool, Positives, pair_hashes
from duckplets.recipes import TextRecipe, TripletRecipe

_REDRAWS = 24  # after which one in 2^24 is left even if half of what can be drawn is illegal


@dataclass(frozen=True, slots=True)
class Draw:
    """Windows of consecutive samples of a stream, a column a slot.

    Attributes:
        chunks: Chunk keys: anchor, positive, negatives; for texts the anchor alone.
        hashes: Their text hashes.
    """

    chunks: list[Integers]
    hashes: list[Words]


@dataclass(frozen=True)
class Stream:
    """One recipe over one source.

    Attributes:
        source: Name of the source.
        pool: What it draws from.
        seed: Of the run.
        negatives: How many a sample has.
    """

    source: str
    pool: Pool
    seed: int
    negatives: int = 1

    @property
    def recipe(self) -> TripletRecipe | TextRecipe:
        """The recipe."""
        return self.pool.compiled.recipe

    def __len__(self) -> int:
        return len(self.pool.anchors)

    def purpose(self, name: str) -> int:
        """Return the key of a purpose within this stream."""
        return key(self.seed, self.source, self.recipe.name, name)

    @cached_property
    def _keys(self) -> dict[str, int]:
        names = ("order", "window", "positive", "negative", "negative window")
        return {name: self.purpose(name) for name in names}

    def draw(self, start: int, stop: int) -> Draw:
        """Return the windows of the stream's samples ``start … stop-1``."""
        anchors = self.pool.anchors
        units, visits = ranks(self._keys["order"], len(anchors), start, stop)
        windows = self._windows(units, visits)
        draw = Draw([anchors.chunks[windows]], [anchors.hashes[windows]])
        if self.pool.positives is not None and self.pool.negatives is not None:
            taken = self._positive(self.pool.positives, units, windows, visits)
            draw.chunks.append(taken.chunks[0])
            draw.hashes.append(taken.hashes[0])
            index = np.arange(start, stop, dtype=np.int64)
            self._negative(self.pool.negatives, index, units, windows, draw)
        return draw

    def _windows(self, units: Integers, visits: Integers) -> Integers:
        """Rotate through an anchor's windows: the visit-th from a hashed start."""
        anchors = self.pool.anchors
        if len(anchors.chunks) == len(anchors):
            return units
        first = anchors.starts[units]
        count = anchors.starts[units + 1] - first
        start = below(hashed(self._keys["window"], anchors.records[units]), count)
        return first + (start + visits) % count

    def _positive(
        self, positives: Positives, units: Integers, windows: Integers, visits: Integers
    ) -> Draw:
        """Rotate through an anchor's positives, so that every pairing comes up in time.

        Both rotations step with the visits; after each common cycle the positive moves on by
        one more, else pairs whose counts share a divisor would never meet.
        """
        anchors = self.pool.anchors
        if self.pool.compiled.own_positive:
            return Draw([anchors.chunks[windows]], [anchors.hashes[windows]])
        low = positives.banned_starts[windows]
        banned = positives.banned_starts[windows + 1] - low
        count = positives.counts[units] - banned
        start = below(hashed(self._keys["positive"], anchors.records[units]), count)
        cycle = np.lcm(anchors.starts[units + 1] - anchors.starts[units], count)
        rank = (start + visits + visits // cycle) % count
        for i in range(int(banned.max(initial=0))):
            has = banned > i
            skip = np.zeros(len(rank), dtype=np.int64)
            skip[has] = rank[has] >= positives.banned[low[has] + i]
            rank += skip
        at = positives.starts[units] + rank
        return Draw([positives.chunks[at]], [positives.hashes[at]])

    def _negative(
        self, pool: Negatives, index: Integers, units: Integers, windows: Integers, draw: Draw
    ) -> None:
        classes = self.pool.anchors.classes[windows]
        records = self.pool.anchors.records[units]
        for slot in range(self.negatives):
            at = self._redrawn(pool, index, slot, classes, records, draw)
            draw.chunks.append(pool.chunks[at])
            draw.hashes.append(pool.hashes[at])

    def _redrawn(
        self,
        pool: Negatives,
        index: Integers,
        slot: int,
        classes: Integers,
        records: Integers,
        draw: Draw,
    ) -> Integers:
        """Draw one legal window of the pool for every sample."""
        base = pool.sums[pool.firsts[classes]]
        sizes = pool.sums[pool.firsts[classes + 1]] - base
        found = np.empty(len(index), dtype=np.int64)
        left = np.arange(len(index))
        for attempt in range(_REDRAWS):
            counter = attempt * self.negatives + slot
            words = hashed(self._keys["negative"], index[left], counter)
            unit = _unit(pool, base[left] + below(words, sizes[left]))
            first = pool.starts[unit]
            count = pool.starts[unit + 1] - first
            words = hashed(self._keys["negative window"], index[left], counter)
            at = first + below(words, count)
            legal = pool.records[unit] != records[left]
            legal &= self._legal_text(pool, at, records[left], [h[left] for h in draw.hashes])
            found[left[legal]] = at[legal]
            left = left[~legal]
            if len(left) == 0:
                return found
        for row in left:
            chosen = [h[row : row + 1] for h in draw.hashes]
            start = int(below(hashed(self._keys["negative"], index[row : row + 1]), sizes[row])[0])
            found[row] = self._scan(
                pool, int(base[row]), int(sizes[row]), start, records[row], chosen
            )
        return found

    @staticmethod
    def _legal_text(
        pool: Negatives, at: Integers, records: Integers, chosen: list[Words]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Whether the text is none the sample has already, and no other of the record's own."""
        hashes = pool.hashes[at]
        legal = np.ones(len(at), dtype=bool)
        for other in chosen:
            legal &= hashes != other
        if len(pool.illegal):
            words = pair_hashes(records, hashes)
            near = np.minimum(np.searchsorted(pool.illegal, words), len(pool.illegal) - 1)
            legal &= pool.illegal[near] != words
        return legal

    def _scan(
        self,
        pool: Negatives,
        base: int,
        size: int,
        start: int,
        record: int,
        chosen: list[Words],
    ) -> int:
        """Return the first legal window from a start on, once around the class: rarely needed."""
        step = 4096
        for offset in range(0, size, step):
            targets = (start + np.arange(offset, min(offset + step, size))) % size
            units = _unit(pool, base + targets)
            units = units[pool.records[units] != record]
            at = _expand(pool.starts[units], pool.starts[units + 1])
            if len(at) == 0:
                continue
            owners = np.full(len(at), record)
            legal = np.flatnonzero(self._legal_text(pool, at, owners, chosen))
            if len(legal):
                return int(at[legal[0]])
        raise EmptyPoolError(
            f"recipe {self.recipe.name!r}, source {self.source!r}: no legal negative is left for "
            f"record key {record}; the corpus differs from the one the pool was made of"
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
