"""Draw the negatives of a stream: at random, from candidates, or from the anchor's record."""

# Each draw is a function of the sample's number, or of the earlier visits to its anchor. The pool
# guarantees that the final scan of a random draw finds a negative. Mined candidates, and negatives
# of the own record, rotate from a hashed start, k a visit: ceil(n / k) visits use all n of them.

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np

from duckplets.base.arrays import ArrayRecord, Flags, Integers, Words, ranges
from duckplets.errors import EmptyPoolError
from duckplets.order.permute import below, hashed
from duckplets.pools.arrays import NegativeRequests, PoolNegatives
from duckplets.samples.candidates import Candidates

# origin of a negative, instead of a candidate's number
AT_RANDOM = -1  # random, since a candidate is missing
BY_CHANCE = -2  # random, as requested
FROM_SPLIT = -3  # from all sources of the split, since its own has too few
OWN = -4  # from the anchor's own record
FILLED = -5  # from another record, since its own has too few
LACKING = (AT_RANDOM, FROM_SPLIT, FILLED)

_REDRAWS = 24  # attempts: one in 2^24 fails even if half of the draws are illegal
_SCANNED = 4096  # units scanned together
_TRIES = 8  # candidates tried for one slot
_NO_WORDS = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True)
class FoundNegatives(ArrayRecord):
    """Negatives, one for each sample or several for one sample."""

    chunks: Integers
    hashes: Words
    origins: Integers

    @classmethod
    def at(cls, pool: PoolNegatives, at: Integers, origins: Integers | int) -> FoundNegatives:
        """Return negatives by their index in a pool."""
        where_from = np.broadcast_to(origins, at.shape).astype(np.int64)
        return cls(pool.chunks[at].astype(np.int64, copy=False), pool.hashes[at], where_from)

    def put(self, rows: Integers | Flags | slice, others: FoundNegatives) -> None:
        """Replace the negatives of some rows."""
        self.chunks[rows] = others.chunks
        self.hashes[rows] = others.hashes
        self.origins[rows] = others.origins


def blank(size: int) -> FoundNegatives:
    """Return empty arrays for the negatives of some samples."""
    return FoundNegatives(
        np.zeros(size, np.int64), np.zeros(size, np.uint64), np.zeros(size, np.int64)
    )


@dataclass(frozen=True)
class RandomNegatives:
    """Draw negatives at random."""

    slots: int  # negatives per sample
    pool: PoolNegatives
    unit_key: int  # hash key of units: a unit is the chunks of one record in one class
    within_key: int  # hash key of chunks within a unit
    what: str  # recipe and source, for messages
    origin: int = BY_CHANCE

    def draw_all(self, requests: NegativeRequests) -> list[FoundNegatives]:
        """Return legal negatives for every slot and sample, of different texts in a sample."""
        found = list[FoundNegatives]()
        for slot in range(self.slots):
            found.append(self.draw(requests, slot))
            requests = requests.having(found[-1].hashes)
        return found

    def draw(self, requests: NegativeRequests, slot: int) -> FoundNegatives:
        """Return one legal negative for every sample."""
        at, legal = self._draw_once(requests, slot)
        missing = np.flatnonzero(~legal)
        for attempt in range(1, _REDRAWS):
            if len(missing) == 0:
                break
            again, legal = self._draw_once(requests.part(missing), attempt * self.slots + slot)
            at[missing[legal]] = again[legal]
            missing = missing[~legal]
        for row in missing.tolist():  # rarely needed: take the first legal one
            sample = requests.part(slice(row, row + 1))
            if (found := self._first_legal(sample)) is None:
                raise EmptyPoolError(
                    f"{self.what}: an anchor has no legal negative; the corpus has changed since "
                    f"the pool was made"
                )
            at[row] = found
        return FoundNegatives.at(self.pool, at, self.origin)

    def again(
        self, requests: NegativeRequests, slot: int, attempts: Integers
    ) -> tuple[FoundNegatives, Flags]:
        """Return another negative for a slot of every sample, and whether it is legal."""
        at, legal = self._draw_once(requests, (_REDRAWS + attempts) * self.slots + slot)
        return FoundNegatives.at(self.pool, at, self.origin), legal

    def _draw_once(
        self, requests: NegativeRequests, counter: int | Integers
    ) -> tuple[Integers, Flags]:
        """Return a chunk for every sample, and whether it is legal."""
        pool = self.pool
        base, size = self._range(requests.classes)
        unit = self._unit(base + below(hashed(self.unit_key, requests.index, counter), size))
        at = unit
        if len(pool.chunks) > len(pool.families):
            first = pool.starts[unit]
            words = hashed(self.within_key, requests.index, counter)
            at = first + below(words, pool.starts[unit + 1] - first)
        return at, self.pool.is_legal(at, pool.families[unit], requests)

    def _range(self, classes: Integers) -> tuple[Integers, Integers]:
        pool = self.pool
        if len(pool.firsts) == 2:  # for all samples, even with a class of another pool
            bounds = pool.sums[pool.firsts]
            return bounds[:1], np.diff(bounds)
        base = pool.sums[pool.firsts[classes]]
        return base, pool.sums[pool.firsts[classes + 1]] - base

    def _unit(self, targets: Integers) -> Integers:
        pool = self.pool
        if len(pool.lows) == 1:
            return np.asarray(pool.lows[0] + targets, np.int64)
        place = np.searchsorted(pool.sums, targets, side="right") - 1
        return np.asarray(pool.lows[place] + targets - pool.sums[place], np.int64)

    def _first_legal(self, sample: NegativeRequests) -> int | None:
        """Return the first legal chunk of a sample's class after a hashed start, or None."""
        pool = self.pool
        base, size = (int(numbers[0]) for numbers in self._range(sample.classes))
        start = int(below(hashed(self.unit_key, sample.index), max(size, 1))[0])
        for offset in range(0, size, _SCANNED):
            targets = (start + np.arange(offset, min(offset + _SCANNED, size))) % size
            units = self._unit(base + targets)
            counts = pool.starts[units + 1] - pool.starts[units]
            at = ranges(pool.starts[units], counts)
            repeated = sample.part(np.zeros(len(at), dtype=np.int64))
            at = at[pool.is_legal(at, np.repeat(pool.families[units], counts), repeated)]
            if len(at):
                return int(at[0])
        return None


class Rotation:
    """The options of every sample as a circle; slots take them in turn."""

    # A sample starts at option ``base`` of ``count``. Later options replace illegal ones. With
    # ``sums`` options are drawn by weight, without repetition.

    def __init__(
        self,
        first: Integers,
        count: Integers,
        base: Integers,
        slots: int,
        sums: Integers | None = None,  # cumulative weights of all options
        words: Words = _NO_WORDS,  # of every sample, for drawing by weight
    ) -> None:
        self._first, self._count, self._base, self._slots = first, count, base, slots
        self._sums, self._words = sums, words
        self._spare = np.full(len(first), slots, dtype=np.int64)
        self._drawn = np.zeros((0, len(first)), dtype=np.int64)

    def take(self, rows: Integers, slot: int, attempt: int) -> tuple[Integers, Integers]:
        """Return the samples that have an option for a slot, and the options."""
        offset = np.full(len(rows), slot, dtype=np.int64)
        if attempt:
            offset = self._spare[rows]
            self._spare[rows] += 1
        enough = offset < self._count[rows]
        rows, offset = rows[enough], offset[enough]
        if self._sums is None:
            return rows, self._at(rows, offset)
        return rows, self._draw(self._sums, rows, attempt * self._slots + slot)

    def _draw(self, sums: Integers, rows: Integers, counter: int) -> Integers:
        first = self._first[rows]
        drawn = np.sort(self._drawn[:, rows], axis=0)
        some = drawn < np.iinfo(np.int64).max
        at = np.where(some, drawn, 0)
        sizes = np.where(some, sums[at + 1] - sums[at], 0)
        remaining = sums[first + self._count[rows]] - sums[first] - sizes.sum(axis=0)
        target = sums[first] + below(hashed(counter, self._words[rows]), remaining)
        for one, size in zip(at, sizes, strict=True):
            target += np.where((size > 0) & (target >= sums[one]), size, 0)
        found = np.searchsorted(sums, target, side="right") - 1
        never = np.full(len(self._first), np.iinfo(np.int64).max)
        self._drawn = np.vstack([self._drawn, never])
        self._drawn[-1, rows] = found
        return np.asarray(found, np.int64)

    def beyond(self, offset: Integers) -> tuple[Integers, Integers]:
        """Return the samples with more options than their ``offset``, and that option."""
        rows = np.flatnonzero(offset < self._count)
        return rows, self._at(rows, offset[rows])

    def _at(self, rows: Integers, offset: Integers) -> Integers:
        turned = (self._base[rows] + offset) % self._count[rows]
        return np.asarray(self._first[rows] + turned, np.int64)


@dataclass(frozen=True)
class InTurn(ABC):
    """Draw the listed negatives of an anchor in turn, and random ones if there are too few."""

    slots: int  # negatives per sample
    pool: PoolNegatives  # the listed negatives
    others: RandomNegatives | None  # None if no anchor has too few
    start_key: int  # hash key of where a rotation begins

    @abstractmethod
    def _rotation(self, requests: NegativeRequests) -> Rotation:
        """Return the options of every sample."""

    @abstractmethod
    def _chunks(
        self, options: Integers, requests: NegativeRequests, rows: Integers, counter: int | Integers
    ) -> tuple[Integers, Integers, Flags]:
        """Return chunk, code and legality of options of some samples."""

    def draw_all(self, requests: NegativeRequests) -> list[FoundNegatives]:
        """Return negatives for every slot and sample, of different texts in a sample."""
        rotation, found = self._rotation(requests), list[FoundNegatives]()
        for slot in range(self.slots):
            found.append(self._draw(requests, slot, rotation))
            requests = requests.having(found[-1].hashes)
        return found

    def _draw(self, requests: NegativeRequests, slot: int, rotation: Rotation) -> FoundNegatives:
        size = len(requests.index)
        found, open_rows = blank(size), np.arange(size)
        missing = np.ones(size, dtype=bool)
        for attempt in count() if self.others is None else range(_TRIES):
            open_rows, options = rotation.take(open_rows, slot, attempt)
            if len(open_rows) == 0:
                break
            counter = attempt * self.slots + slot
            at, origins, legal = self._chunks(options, requests, open_rows, counter)
            if len(open_rows) == size and legal.all():
                return FoundNegatives.at(self.pool, at, origins)
            good = np.flatnonzero(legal)
            found.put(open_rows[good], FoundNegatives.at(self.pool, at[good], origins[good]))
            missing[open_rows[good]] = False
            open_rows = open_rows[~legal]
        if missing.any():
            if self.others is None:
                raise EmptyPoolError(
                    "an anchor has no negative in its own record; the corpus has changed since the "
                    "pool was made"
                )
            others = self.others.draw(requests.part(np.flatnonzero(missing)), slot)
            found.put(missing, others)
        return found

    def again(
        self, requests: NegativeRequests, slot: int, attempts: Integers
    ) -> tuple[FoundNegatives, Flags]:
        """Return the next option for a slot of every sample, or a random draw."""
        size = len(requests.visits)
        found, legal = blank(size), np.zeros(size, dtype=bool)
        rows, options = self._rotation(requests).beyond((1 + attempts) * self.slots + slot)
        at, origins, good = self._chunks(options, requests, rows, attempts[rows] * self.slots)
        found.put(rows[good], FoundNegatives.at(self.pool, at[good], origins[good]))
        legal[rows[good]] = True
        missing = np.flatnonzero(~legal)
        if self.others is not None and len(missing):
            part = requests.part(missing)
            others, legal[missing] = self.others.again(part, slot, attempts[missing])
            found.put(missing, others)
        return found, legal


@dataclass(frozen=True)
class MinedNegatives(InTurn):
    """Draw mined candidates."""

    others: RandomNegatives  # of the same pool
    candidates: Candidates
    within_key: int  # hash key of chunks within a section

    def _rotation(self, requests: NegativeRequests) -> Rotation:
        candidates, slots = self.candidates, self.slots
        row = candidates.rows[requests.anchor_at]
        first = candidates.starts[row]
        count = candidates.starts[row + 1] - first
        words = hashed(self.start_key, candidates.words[row])
        if candidates.weights is not None:
            words = hashed(self.start_key, words ^ requests.visits.view(np.uint64))
            return Rotation(first, count, np.zeros_like(first), slots, candidates.weights, words)
        some = np.maximum(count, 1)
        base = (below(words, some) + requests.visits * slots) % some
        return Rotation(first, count, base, slots)

    def _chunks(
        self, options: Integers, requests: NegativeRequests, rows: Integers, counter: int | Integers
    ) -> tuple[Integers, Integers, Flags]:
        documents = self.candidates.documents
        document = self.candidates.numbers[options]
        if len(rows) < len(requests.index):
            requests = requests.part(rows)
        at = documents.firsts[document]
        if len(documents.keys) < documents.firsts[-1]:
            count = documents.firsts[document + 1] - at
            at = at + below(hashed(self.within_key, requests.index, counter), count)
        if documents.chunks is not None:
            at = documents.chunks[at]
        legal = self.pool.is_legal(at, documents.families[document], requests)
        legal &= self.pool.suits(at, requests.classes)
        return at, options + self.candidates.first, legal


@dataclass(frozen=True)
class OwnNegatives(InTurn):
    """Draw from the anchor's record; the pool has its legal chunks, each text once."""

    @cached_property
    def _lists(self) -> tuple[Integers, Integers]:
        """First chunk of each record, and their number."""
        pool = self.pool
        firsts = np.zeros(len(pool.firsts) - 1, dtype=np.int64)
        some = pool.firsts[1:] > pool.firsts[:-1]
        firsts[some] = pool.starts[pool.lows[pool.firsts[:-1][some]]]
        return firsts, pool.counts()

    def _rotation(self, requests: NegativeRequests) -> Rotation:
        # One more after each common cycle; otherwise some pairs of texts would never meet.
        first, count = (numbers[requests.classes] for numbers in self._lists)
        some = np.maximum(count, 1)
        ids = requests.ids if requests.ids is not None else np.zeros(len(some), np.uint64)
        start = below(hashed(self.start_key, ids), some)
        cycle = np.lcm(requests.period, some // np.gcd(some, self.slots))
        base = start + requests.visits * self.slots + requests.visits // cycle
        return Rotation(first, count, base, self.slots)

    def _chunks(
        self, options: Integers, requests: NegativeRequests, rows: Integers, counter: int | Integers
    ) -> tuple[Integers, Integers, Flags]:
        of_rows = requests.part(rows) if len(rows) < len(requests.index) else requests
        legal = self.pool.is_legal(options, of_rows.families, of_rows)
        return options, np.full(len(rows), OWN), legal
