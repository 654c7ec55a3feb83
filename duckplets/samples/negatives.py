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
  read, and visits go through the others in a circle. Where a record has fewer than were asked for,
  and its recipe says so, draws at random among those of other records fill up.

Each tells of what it drew where it is from, and draws a negative again for a batch that has its
text already (``apart``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from duckplets.base.arrays import Flags, Integers
from duckplets.errors import EmptyPoolError
from duckplets.order.permute import below, hashed
from duckplets.pools.arrays import Negatives
from duckplets.pools.legality import Legality, NegativeRequests
from duckplets.samples.candidates import Candidates, Circle, Lots
from duckplets.samples.negative_request import (
    AT_RANDOM,
    BY_CHANCE,
    FILLED,
    OWN,
    FoundNegatives,
    Wanting,
    blank,
    found_at,
)

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
        told: Where what is drawn is from.
    """

    law: Legality
    unit_key: int
    within_key: int
    slots: int
    what: str
    told: int = BY_CHANCE

    def draw_all(self, wanting: Wanting) -> list[FoundNegatives]:
        """Return one legal negative for every slot and sample, of different texts."""
        found, samples = [], wanting.samples
        for slot in range(self.slots):
            found.append(found_at(self.law.pool, self.draw(samples, slot), self.told))
            samples = samples.having(found[-1].hashes)
        return found

    def again(self, wanting: Wanting, slot: int, attempt: int) -> tuple[FoundNegatives, Flags]:
        """Return another negative for a slot of every sample, and whether it is legal."""
        at, legal = self._draw_once(wanting.samples, (_REDRAWS + attempt) * self.slots + slot)
        return found_at(self.law.pool, at, self.told), legal

    def options(self, wanting: Wanting) -> FoundNegatives:
        """Return every negative that one sample could have, each text once."""
        pool, samples = self.law.pool, wanting.samples
        base = pool.sums[pool.firsts[samples.classes[0]]]
        size = pool.sums[pool.firsts[samples.classes[0] + 1]] - base
        at, legal = self._judged(base + np.arange(size), samples)
        at = at[legal]
        at = at[np.sort(np.unique(pool.hashes[at], return_index=True)[1])]
        start = int(below(hashed(self.unit_key, samples.index), max(len(at), 1))[0])
        return found_at(pool, np.roll(at, -start), self.told)

    def draw(self, samples: NegativeRequests, slot: int) -> Integers:
        """Return one legal chunk of the pool for every sample."""
        pool = self.law.pool
        base = pool.sums[pool.firsts[samples.classes]]
        sizes = pool.sums[pool.firsts[samples.classes + 1]] - base
        found = np.empty(len(samples.index), dtype=np.int64)
        left = np.arange(len(samples.index))
        for attempt in range(_REDRAWS):
            at, legal = self._draw_once(samples.part(left), attempt * self.slots + slot)
            found[left[legal]] = at[legal]
            left = left[~legal]
            if len(left) == 0:
                return found
        for row in left:
            one = samples.part(slice(row, row + 1))
            start = int(below(hashed(self.unit_key, one.index), sizes[row])[0])
            found[row] = self._scan(int(base[row]), int(sizes[row]), start, one)
        return found

    def _draw_once(self, samples: NegativeRequests, counter: int) -> tuple[Integers, Flags]:
        """Return a chunk for every sample, and whether it is legal."""
        pool = self.law.pool
        base = pool.sums[pool.firsts[samples.classes]]
        size = pool.sums[pool.firsts[samples.classes + 1]] - base
        unit = _unit(pool, base + below(hashed(self.unit_key, samples.index, counter), size))
        first = pool.starts[unit]
        words = hashed(self.within_key, samples.index, counter)
        at = first + below(words, pool.starts[unit + 1] - first)
        return at, self.law.is_legal(at, pool.kins[unit], samples)

    def _judged(self, targets: Integers, sample: NegativeRequests) -> tuple[Integers, Flags]:
        """Return all chunks at some places of a sample's class, and which of them are legal."""
        pool = self.law.pool
        units = _unit(pool, targets)
        starts, ends = pool.starts[units], pool.starts[units + 1]
        at = _expand(starts, ends)
        repeated = sample.part(np.zeros(len(at), dtype=np.int64))
        return at, self.law.is_legal(at, np.repeat(pool.kins[units], ends - starts), repeated)

    def _scan(self, base: int, size: int, start: int, sample: NegativeRequests) -> int:
        """Return the first legal chunk from a start on, once around the class: rarely needed."""
        step = 4096
        for offset in range(0, size, step):
            targets = (start + np.arange(offset, min(offset + step, size))) % size
            at, is_legal = self._judged(base + targets, sample)
            legal = np.flatnonzero(is_legal)
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

    def draw_all(self, wanting: Wanting) -> list[FoundNegatives]:
        """Return a negative for every slot and sample, and which candidate it is."""
        slots, pool = self._at_random.slots, self._at_random.law.pool
        circle, samples = self._circle(wanting), wanting.samples
        found = []
        for slot in range(slots):
            at, place = self._slot(samples, circle, slot)
            (missing,) = np.nonzero(place == AT_RANDOM)
            if len(missing):
                at[missing] = self._at_random.draw(samples.part(missing), slot)
            found.append(found_at(pool, at, place))
            samples = samples.having(found[-1].hashes)
        return found

    def again(self, wanting: Wanting, slot: int, attempt: int) -> tuple[FoundNegatives, Flags]:
        """Return the next candidate for a slot of every sample, else a draw at random."""
        found, legal = self._at_random.again(wanting, slot, attempt)
        if attempt < _TRIES:
            number = self._at_random.slots
            circle = self._circle(wanting)
            have, candidate = circle.beyond((1 + attempt) * number + slot)
            at, good = self._chunk(candidate, wanting.samples.part(have), attempt * number)
            found.put(have[good], found_at(self._at_random.law.pool, at[good], candidate[good]))
            legal[have[good]] = True
        return found, legal

    def options(self, wanting: Wanting) -> FoundNegatives:
        """Return every negative that one sample could have, each text once."""
        return self._at_random.options(wanting)

    def _circle(self, wanting: Wanting) -> Circle:
        candidates, slots = self._candidates, self._at_random.slots
        row = candidates.rows[wanting.anchor_at].astype(np.int64)
        known = row >= 0
        row = np.where(known, row, 0)
        if len(candidates.keys) == 0:
            nothing = np.zeros(len(row), dtype=np.int64)
            return Circle(nothing, nothing, nothing, slots)
        first = candidates.starts[row]
        count = np.where(known, candidates.starts[row + 1] - first, 0)
        if candidates.rotation is not None:
            count = np.minimum(count, candidates.rotation)
        if candidates.sampling == "random":
            return Lots(first, count, wanting.samples.index, slots, self._start_key)
        base = np.zeros(len(row), dtype=np.int64)
        if candidates.sampling == "rotate":
            start = below(hashed(self._start_key, candidates.keys[row]), np.maximum(count, 1))
            base = (start + wanting.visits * slots) % np.maximum(count, 1)
        return Circle(first, count, base, slots)

    def _slot(
        self, samples: NegativeRequests, circle: Circle, slot: int
    ) -> tuple[Integers, Integers]:
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
        self, candidate: Integers, samples: NegativeRequests, counter: int
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


# -- of the own record --------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnNegatives:
    """Draw the negatives of one stream from the records of its anchors.

    Attributes:
        pool: What to draw from: of every record the legal chunks, of different texts.
        start_key: Key of where a record's circle begins.
        slots: How many negatives a sample has.
        others: Fills up where a record has fewer; None where none has. Its anchors are of one
            class.
    """

    pool: Negatives
    start_key: int
    slots: int
    others: RandomNegatives | None = None

    def draw_all(self, wanting: Wanting) -> list[FoundNegatives]:
        """Return one negative for every slot and sample.

        After each common cycle of visits the circle moves on by one more, else some negatives
        would never meet some chunks and positives of their anchor.
        """
        first, count, base = self._circles(wanting)
        found, samples = [], self._of_others(wanting).samples
        for slot in range(self.slots):
            missing = slot >= count
            if self.others is None or not missing.any():
                found.append(found_at(self.pool, first + (base + slot) % count, OWN))
            else:
                drawn = self.others.draw(samples.part(np.flatnonzero(missing)), slot)
                found.append(blank(len(count)))
                found[-1].put(missing, found_at(self.others.law.pool, drawn, FILLED))
                own = first[~missing] + (base[~missing] + slot) % count[~missing]
                found[-1].put(~missing, found_at(self.pool, own, OWN))
            samples = samples.having(found[-1].hashes)
        return found

    def again(self, wanting: Wanting, slot: int, attempt: int) -> tuple[FoundNegatives, Flags]:
        """Return the next negative of the record for every sample, else one of another record."""
        first, count, base = self._circles(wanting)
        offset = (1 + attempt) * self.slots + slot
        own = offset < count
        found, legal = blank(len(count)), own.copy()
        if self.others is not None:
            found, legal = self.others.again(self._of_others(wanting), slot, attempt)
            legal |= own
        at = first[own] + (base[own] + offset) % count[own]
        found.put(own, found_at(self.pool, at, OWN))
        return found, legal

    def options(self, wanting: Wanting) -> FoundNegatives:
        """Return every negative that one sample could have, each text once."""
        first, count, base = self._circles(wanting)
        own = first + (base + np.arange(count[0])) % np.maximum(count, 1)
        found = found_at(self.pool, own, OWN)
        if self.others is None:
            return found
        more = self.others.options(self._of_others(wanting))
        new = ~np.isin(more.hashes, found.hashes)
        return FoundNegatives(
            np.concatenate([found.chunks, more.chunks[new]]),
            np.concatenate([found.hashes, more.hashes[new]]),
            np.concatenate([found.told, more.told[new]]),
        )

    def _of_others(self, wanting: Wanting) -> Wanting:
        """Return the samples as those see them that fill up."""
        one = np.zeros_like(wanting.samples.classes)
        return replace(wanting, samples=replace(wanting.samples, classes=one))

    def _circles(self, wanting: Wanting) -> tuple[Integers, Integers, Integers]:
        """Return the first of each record's chunks, how many it has, and where it begins."""
        records, classes = wanting.samples.records, wanting.samples.classes
        first, count = self._first_chunks[classes], self._counts[classes]
        some = np.maximum(count, 1)
        start = below(hashed(self.start_key, records), some)
        cycle = np.lcm(wanting.period, some // np.gcd(some, self.slots))
        return first, count, start + wanting.visits * self.slots + wanting.visits // cycle

    @cached_property
    def _counts(self) -> Integers:
        return self.pool.counts()

    @cached_property
    def _first_chunks(self) -> Integers:
        pool = self.pool
        found = np.zeros(len(pool.firsts) - 1, dtype=np.int64)
        some = pool.firsts[1:] > pool.firsts[:-1]
        found[some] = pool.starts[pool.lows[pool.firsts[:-1][some]]]
        return found
