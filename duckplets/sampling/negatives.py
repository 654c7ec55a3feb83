"""Draw the negatives of a stream: at random, from mined candidates, or of the anchor's record.

All three take chunks of the pool that the law of ``pools.legality`` allows, and each draw is a hash
of the sample's number or of how often its anchor came before; nothing is remembered.

- At random: draws are repeated while illegal, and in the end a scan finds one, for the pool has
  made sure that there is one.
- Mined: the candidates kept for an anchor's section stand in a circle. With k negatives a sample,
  each visit to the section takes the next k from a hashed start, so that after
  ceil(candidates / k) visits each was used. A chunk that is illegal for a sample (a text it has
  already) gives way to the next candidates; where there is none, or the section has too few, a
  draw at random takes its place.
- Of the own record (strategy ``same_record``): a record has few and they are known beforehand, such
  as the rejected replies of a preference pair, so the illegal ones are left out as the pool is
  read, and visits go through the others in a circle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckplets.base.arrays import Flags, Integers
from duckplets.errors import EmptyPoolError
from duckplets.order.permute import below, hashed
from duckplets.pools.arrays import Negatives
from duckplets.pools.legality import Anchored, Legality
from duckplets.sampling.candidates import Candidates

AT_RANDOM = -1  # in place of a candidate
_REDRAWS = 24  # after which one in 2^24 is left even if half of what can be drawn is illegal
_TRIES = 8


@dataclass(frozen=True, slots=True)
class RandomNegatives:
    """Draw the negatives of one stream at random.

    Attributes:
        law: Tells which chunks of the pool are legal for a sample.
        unit_key: Key of the draws of a unit: the chunks of one record in one bin.
        within_key: Key of the draws of one of its chunks.
        slots: How many negatives a sample has.
        what: Recipe and source, for messages.
    """

    law: Legality
    unit_key: int
    within_key: int
    slots: int
    what: str

    def draw_all(self, samples: Anchored) -> list[Integers]:
        """Return one legal chunk of the pool for every slot and sample, of different texts."""
        found = []
        for slot in range(self.slots):
            found.append(self.draw(samples, slot))
            samples = samples.having(self.law.pool.hashes[found[-1]])
        return found

    def draw(self, samples: Anchored, slot: int) -> Integers:
        """Return one legal chunk of the pool for every sample."""
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
            words = hashed(self.within_key, rest.index, counter)
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
        """Return the first legal chunk from a start on, once around the class: rarely needed."""
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


# -- mined --------------------------------------------------------------------------------------


class MinedNegatives:
    """Draw the negatives of one stream from the candidates mined for its anchors.

    Args:
        candidates: What to draw from.
        at_random: What to draw by if these do not do.
        start_key: Key of where a section's circle begins, or of draws from it.
        within_key: Key of the draws of one of a section's chunks.
    """

    def __init__(
        self,
        candidates: Candidates,
        at_random: RandomNegatives,
        *,
        start_key: int,
        within_key: int,
    ) -> None:
        self._candidates = candidates
        self._at_random = at_random
        self._start_key, self._within_key = start_key, within_key

    def draw(
        self, samples: Anchored, anchor_at: Integers, visits: Integers
    ) -> tuple[list[Integers], list[Integers]]:
        """Return a chunk of the pool, and its candidate, for every slot and sample.

        Args:
            samples: Samples with anchor and positive.
            anchor_at: Place of the anchor chunk of each in the pool.
            visits: How often the section of that chunk was visited before.
        """
        slots, pool = self._at_random.slots, self._at_random.law.pool
        circle = self._circle(samples, anchor_at, visits)
        found, places = [], []
        for slot in range(slots):
            at, place = self._slot(samples, circle, slot)
            (missing,) = np.nonzero(place == AT_RANDOM)
            if len(missing):
                at[missing] = self._at_random.draw(samples.part(missing), slot)
            samples = samples.having(pool.hashes[at])
            found.append(at)
            places.append(place)
        return found, places

    def _circle(self, samples: Anchored, anchor_at: Integers, visits: Integers) -> _Circle:
        candidates, slots = self._candidates, self._at_random.slots
        row = candidates.rows[anchor_at].astype(np.int64)
        known = row >= 0
        row = np.where(known, row, 0)
        if len(candidates.keys) == 0:
            nothing = np.zeros(len(row), dtype=np.int64)
            return _Circle(nothing, nothing, nothing, slots)
        first = candidates.starts[row]
        count = np.where(known, candidates.starts[row + 1] - first, 0)
        if candidates.rotation is not None:
            count = np.minimum(count, candidates.rotation)
        if candidates.sampling == "random":
            return _Lots(first, count, samples.index, slots, self._start_key)
        base = np.zeros(len(row), dtype=np.int64)
        if candidates.sampling == "rotate":
            start = below(hashed(self._start_key, candidates.keys[row]), np.maximum(count, 1))
            base = (start + visits * slots) % np.maximum(count, 1)
        return _Circle(first, count, base, slots)

    def _slot(self, samples: Anchored, circle: _Circle, slot: int) -> tuple[Integers, Integers]:
        """Return a chunk and its candidate for every sample, where one does."""
        found = np.zeros(len(samples.index), dtype=np.int64)
        places = np.full(len(samples.index), AT_RANDOM, dtype=np.int64)
        left = np.arange(len(samples.index))
        for attempt in range(_TRIES):
            left, candidate = circle.take(left, slot, attempt)
            if len(left) == 0:
                break
            rest = samples.part(left)
            at, legal = self._chunk(candidate, rest, attempt * self._at_random.slots + slot)
            found[left[legal]] = at[legal]
            places[left[legal]] = candidate[legal]
            left = left[~legal]
        return found, places

    def _chunk(
        self, candidate: Integers, samples: Anchored, counter: int
    ) -> tuple[Integers, Flags]:
        """Return one chunk of each candidate's document, and whether it is legal."""
        documents = self._candidates.documents
        document = self._candidates.numbers[candidate]
        first = documents.firsts[document]
        count = documents.firsts[document + 1] - first
        at = first
        if len(documents.keys) < documents.firsts[-1]:
            at = first + below(hashed(self._within_key, samples.index, counter), count)
        if documents.chunks is not None:
            at = documents.chunks[at]
        law = self._at_random.law
        legal = law.is_legal(at, documents.kins[document], samples)
        return at, legal & law.suits(at, samples.classes)


class _Circle:
    """The candidates of each sample's section, from where the sample begins.

    Args:
        first: First candidate of the section.
        count: How many of them are drawn from.
        base: Which of these the sample begins with.
        slots: So many from there are the slots' own; those after them can take their place.
    """

    def __init__(self, first: Integers, count: Integers, base: Integers, slots: int) -> None:
        self._first, self._count, self._base = first, count, base
        self._spare = np.full(len(first), slots, dtype=np.int64)

    def take(self, left: Integers, slot: int, attempt: int) -> tuple[Integers, Integers]:
        """Return those of the samples that have another candidate for a slot, and which."""
        offset = self._spare[left] if attempt else np.full(len(left), slot, dtype=np.int64)
        if attempt:
            self._spare[left] += 1
        enough = offset < self._count[left]
        left, offset = left[enough], offset[enough]
        return left, self._first[left] + (self._base[left] + offset) % self._count[left]


class _Lots(_Circle):
    """Hashed draws without repetition instead, for samples of some numbers."""

    def __init__(
        self, first: Integers, count: Integers, index: Integers, slots: int, key: int
    ) -> None:
        super().__init__(first, count, index, slots)
        self._slots, self._key = slots, key
        self._spent = np.zeros(len(first), dtype=np.int64)
        self._drawn = np.zeros((0, len(first)), dtype=np.int64)

    def take(self, left: Integers, slot: int, attempt: int) -> tuple[Integers, Integers]:
        """Return those of the samples that have another candidate, and which."""
        left = left[self._spent[left] < self._count[left]]
        words = hashed(self._key, self._base[left], attempt * self._slots + slot)
        rank = below(words, self._count[left] - self._spent[left])
        for taken in np.sort(self._drawn[:, left], axis=0):
            rank += rank >= taken
        drawn = np.full(len(self._spent), np.iinfo(np.int64).max)
        drawn[left] = rank
        self._drawn = np.vstack([self._drawn, drawn])
        self._spent[left] += 1
        return left, self._first[left] + rank


# -- of the own record --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnNegatives:
    """Draw the negatives of one stream from the records of its anchors.

    Attributes:
        pool: What to draw from: of every record the legal chunks, of different texts.
        start_key: Key of where a record's circle begins.
        slots: How many negatives a sample has.
    """

    pool: Negatives
    start_key: int
    slots: int

    def draw_all(self, samples: Anchored, visits: Integers, period: Integers) -> list[Integers]:
        """Return one chunk of the pool for every slot and sample.

        Args:
            samples: Samples with anchor and positive.
            visits: How often the anchor of each came before.
            period: After how many visits its chunks and positives come again as they did. After
                each common cycle the circle moves on by one more, else some would never meet.
        """
        pool = self.pool
        place = pool.firsts[samples.classes]
        unit = pool.lows[place]
        first = pool.starts[unit]
        count = pool.starts[unit + pool.sums[place + 1] - pool.sums[place]] - first
        start = below(hashed(self.start_key, samples.records), count)
        cycle = np.lcm(period, count // np.gcd(count, self.slots))
        base = start + visits * self.slots + visits // cycle
        return [first + (base + slot) % count for slot in range(self.slots)]
