"""Mined negatives: through an anchor's candidates by visits, else at random.

The candidates kept for an anchor's section stand in a circle. With k negatives a sample, each visit
to the section takes the next k from a hashed start, so that after ceil(candidates / k) visits each
was used. A window that is illegal for a sample (a text it has already) gives way to the next
candidates; where there is none, or the section has too few, a draw at random takes its place.
"""

from __future__ import annotations

import numpy as np

from duckplets.base.arrays import Flags, Integers
from duckplets.order.permute import below, hashed
from duckplets.pools.legality import Anchored
from duckplets.sampling.candidates import Candidates
from duckplets.sampling.random_negatives import RandomNegatives

AT_RANDOM = -1  # in place of a candidate
_TRIES = 8


class MinedNegatives:
    """Draws negatives of one stream.

    Args:
        candidates: What to draw from.
        at_random: What to draw by if these do not do.
        start_key: Key of where a section's circle begins, or of draws from it.
        window_key: Key of the draws of one of a section's windows.
    """

    def __init__(
        self,
        candidates: Candidates,
        at_random: RandomNegatives,
        *,
        start_key: int,
        window_key: int,
    ) -> None:
        self._candidates = candidates
        self._at_random = at_random
        self._start_key, self._window_key = start_key, window_key

    def draw(
        self, samples: Anchored, windows: Integers, visits: Integers
    ) -> tuple[list[Integers], list[Integers]]:
        """Return a window of the pool, and its candidate, for every slot and sample.

        Args:
            samples: Samples with anchor and positive.
            windows: The anchor window of each.
            visits: How often the section of that window was visited before.
        """
        slots, pool = self._at_random.slots, self._at_random.law.pool
        circle = self._circle(samples, windows, visits)
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

    def _circle(self, samples: Anchored, windows: Integers, visits: Integers) -> _Circle:
        candidates, slots = self._candidates, self._at_random.slots
        row = candidates.rows[windows].astype(np.int64)
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
        """Return a window and its candidate for every sample, where one does."""
        found = np.zeros(len(samples.index), dtype=np.int64)
        places = np.full(len(samples.index), AT_RANDOM, dtype=np.int64)
        left = np.arange(len(samples.index))
        for attempt in range(_TRIES):
            left, candidate = circle.take(left, slot, attempt)
            if len(left) == 0:
                break
            rest = samples.part(left)
            at, legal = self._window(candidate, rest, attempt * self._at_random.slots + slot)
            found[left[legal]] = at[legal]
            places[left[legal]] = candidate[legal]
            left = left[~legal]
        return found, places

    def _window(
        self, candidate: Integers, samples: Anchored, counter: int
    ) -> tuple[Integers, Flags]:
        """Return one window of each candidate's document, and whether it is legal."""
        documents = self._candidates.documents
        document = self._candidates.numbers[candidate]
        first = documents.firsts[document]
        count = documents.firsts[document + 1] - first
        at = first
        if len(documents.keys) < documents.firsts[-1]:
            at = first + below(hashed(self._window_key, samples.index, counter), count)
        if documents.windows is not None:
            at = documents.windows[at]
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
