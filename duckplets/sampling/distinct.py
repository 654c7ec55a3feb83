"""Rearrange the samples of a block of batches so that no batch holds a text twice.

Samples keep their places unless an earlier one of their batch has one of their texts. Those few
fill the places they leave, each in another batch; where that does not come out even, they change
places with a sample that can take such a place instead; and where the texts are too crowded for
that, others make room in turn (the eviction search). The block is a fixed stretch of positions
(``Schedule.stretch``), so the rearrangement is a pure function of it and no sample leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.errors import RecipeError

if TYPE_CHECKING:
    from duckplets.sampling.planned import Plan

BLOCK_BATCHES = 64  # no more: the batches that have a text are the bits of one word


_ROUNDS = 8  # of placing many samples at a time, while there are
_FEW = 24  # or more; fewer are faster placed one by one
_STEPS = 4000  # of the eviction search; small blocks are mostly solved in less than a hundred
_ONE = np.uint64(1)
_WORD = (1 << 64) - 1
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def rearranged(plan: Plan, batch_size: int) -> Plan:
    """Return the plan of a block in an order where no batch holds a text twice.

    A sample's own slots may share a text (SimCSE).

    Args:
        plan: Of ``BLOCK_BATCHES`` batches or fewer; the last may be short.
        batch_size: Samples in every other batch.

    Raises:
        RecipeError: Some text comes too often for that.
    """
    if len(plan) == 0:
        return plan
    if len(plan) > batch_size * BLOCK_BATCHES:
        raise ValueError(
            f"at most {BLOCK_BATCHES} batches of {batch_size}, not {len(plan)} samples"
        )
    block = _Block(np.stack(plan.hashes), batch_size)
    moving = block.repeats()
    if len(moving) == 0:
        return plan
    block.rearrange(moving)
    return plan.reordered(block.order)


class _Block:
    """A block and who is where in it.

    Attributes:
        order: The sample at every place, or -1.
    """

    def __init__(self, texts: Words, batch_size: int) -> None:
        samples = texts.shape[1]
        self.order = np.arange(samples)
        self._size = batch_size
        self._batch = self.order // batch_size
        self._batches = (samples - 1) // batch_size + 1
        self._texts, self._counts = _shared(texts)
        self._nothing = len(self._counts) - 1
        # Bits: the batches that have each text, and those that have a hole.
        self._having = np.zeros(len(self._counts), dtype=np.uint64)
        self._open = 0

    def repeats(self) -> Integers:
        """Return the samples that share a text with an earlier one of their batch, in order."""
        return self.order[self._repeating(self.order, self._batch)]

    def rearrange(self, moving: Integers) -> None:
        """Find places for the samples that repeat a text.

        Raises:
            RecipeError: There are none, or none were found.
        """
        most = int(self._counts.max())
        if most > self._batches:
            raise RecipeError(
                f"no_duplicates=True cannot be kept: one text comes {most} times in a block of "
                f"{self._batches} batches; lower batch_size, or remove repeated texts"
            )
        tight, others = self._tight(self._removed(moving))
        left = self._one_by_one(tight.tolist())
        left = self._one_by_one(left + self._many(others).tolist())
        if left and not self._search(left):
            raise RecipeError(
                f"no_duplicates=True cannot be kept: found no way to deal the {len(self.order)} "
                f"samples of a block to its {self._batches} batches of {self._size}, so often do "
                f"texts repeat (one of them {most} times); lower batch_size, or remove repeated "
                f"texts"
            )

    def _removed(self, moving: Integers) -> Integers:
        """Take samples out; return them but for those that repeated only a text of another."""
        stays = np.ones(len(self.order), dtype=bool)
        stays[moving] = False
        self._note(self.order[stays], self._batch[stays])
        moving = moving[~self._seat(moving, moving)]
        self.order[moving] = -1
        return moving

    def _tight(self, moving: Integers) -> tuple[Integers, Integers]:
        """Split off the samples with texts of nearly every batch, least choice first."""
        often = self._counts[self._texts[:, moving]].max(axis=0)
        is_tight = often * 4 > self._batches * 3
        tight = moving[is_tight]
        choice = np.bitwise_count(~self._blocked(tight))
        return tight[np.argsort(choice, kind="stable")], moving[~is_tight]

    def _many(self, moving: Integers) -> Integers:
        """Fill holes with many samples at a time; return those for which that did not do."""
        holes = np.flatnonzero(self.order < 0)
        for further in range(_ROUNDS):
            if len(moving) < _FEW:
                break
            batches, starts, counts = np.unique(
                self._batch[holes], return_index=True, return_counts=True
            )
            # Each into the next batch with holes after its own, later into one beyond that.
            target = np.searchsorted(batches, self._batch[moving], side="right") + further
            target %= len(batches)
            number = _numbered(target)
            with_hole = np.flatnonzero(number < counts[target])
            places = holes[starts[target[with_hole]] + number[with_hole]]
            seated = np.zeros(len(moving), dtype=bool)
            seated[with_hole] = self._seat(moving[with_hole], places)
            moving, holes = moving[~seated], holes[self.order[holes] < 0]
        return moving

    def _one_by_one(self, moving: list[int]) -> list[int]:
        """Place samples by holes and exchanges; return those for which there were none."""
        holes = np.flatnonzero(self.order < 0)
        self._open = sum(1 << batch for batch in np.unique(self._batch[holes]).tolist())
        return [sample for sample in moving if not self._exchange(sample)]

    def _seat(self, samples: Integers, places: Integers) -> Flags:
        """Put samples to places where their texts are missing; return which of them."""
        batches = self._batch[places]
        seated: Flags = self._blocked(samples) >> batches.astype(np.uint64) & _ONE == 0
        seated[seated] = ~self._repeating(samples[seated], batches[seated])
        self.order[places[seated]] = samples[seated]
        self._note(samples[seated], batches[seated])
        return seated

    def _repeating(self, samples: Integers, batches: Integers) -> Flags:
        """Return which of the samples share a text with an earlier one, if put into batches."""
        texts = self._texts[:, samples]
        which, slots = np.nonzero((texts < self._nothing).T)
        cells = texts[slots, which] * self._batches + batches[which]
        repeating = np.zeros(len(samples), dtype=bool)
        repeating[which[firsts(cells.astype(np.uint64)) < np.arange(len(cells))]] = True
        return repeating

    def _note(self, samples: Integers, batches: Integers) -> None:
        """Note that batches have the texts of samples."""
        texts = self._texts[:, samples]
        slots, which = np.nonzero(texts < self._nothing)
        bits = _ONE << batches[which].astype(np.uint64)
        np.bitwise_or.at(self._having, texts[slots, which], bits)

    def _exchange(self, sample: int) -> bool:
        """Put a sample where it fits, letting one from there fill a hole if need be."""
        blocked, home = int(self._blocked(sample)), sample // self._size
        if free := self._open & ~blocked:
            self._put(sample, self._take(next(_bits(free, home))))
            return True
        for batch in _bits(~blocked & (1 << self._batches) - 1, home):
            start = batch * self._size  # of a batch without a hole
            others = self.order[start : start + self._size]
            away = ~self._blocked(others) & np.uint64(self._open)
            (able,) = np.nonzero(away)
            if len(able):
                place, other = start + int(able[0]), int(others[able[0]])
                self._having[self._texts[:, other]] &= ~(_ONE << np.uint64(batch))
                self._put(other, self._take(next(_bits(int(away[able[0]]), home))))
                self._put(sample, place)
                return True
        return False

    def _search(self, left: list[int]) -> bool:
        """Find places for samples by sending others away; return whether that came out."""
        texts = [[text for text in row if text != self._nothing] for row in self._texts.T.tolist()]
        search = _EvictionSearch(self.order.tolist(), self._batch.tolist(), texts, left)
        found = search.run()
        self.order[:] = search.order
        return found

    def _blocked(self, samples: int | Integers) -> Words:
        """Return the batches, as bits, that have a text of each sample."""
        found: Words = np.bitwise_or.reduce(self._having[self._texts[:, samples]], axis=0)
        return found

    def _take(self, batch: int) -> int:
        start = batch * self._size
        (holes,) = np.nonzero(self.order[start : start + self._size] < 0)
        if len(holes) == 1:
            self._open &= ~(1 << batch)
        return start + int(holes[0])

    def _put(self, sample: int, place: int) -> None:
        self.order[place] = sample
        self._having[self._texts[:, sample]] |= _ONE << np.uint64(place // self._size)
        self._having[self._nothing] = 0


def _numbered(groups: Integers) -> Integers:
    """Return for every item how many before it are of its group."""
    by_group = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    number = np.empty_like(groups)
    number[by_group] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return number


def _shared(texts: Words) -> tuple[Integers, Integers]:
    """Name the texts of several samples 0, 1, …; return the names and how many samples have each.

    All other texts get the number after those, as do a sample's texts that it has in an earlier
    slot.
    """
    first = firsts(texts.reshape(-1)).reshape(texts.shape)
    again = np.zeros(texts.shape, dtype=bool)
    for slot in range(1, len(texts)):
        again[slot] = (first[slot] == first[:slot]).any(axis=0)
    counts = np.bincount(first[~again], minlength=first.size)
    several = counts > 1
    nothing = int(several.sum())
    names = np.where(several, np.cumsum(several) - 1, nothing)[first]
    names[again] = nothing
    return names, np.append(counts[several], 1)


def firsts(words: Words) -> Integers:
    """Return for every word the index of the first one equal to it.

    A table of hashes finds nearly all; only words that share a cell with others are sorted.
    """
    index = np.arange(len(words))
    bits = (4 * len(words)).bit_length()
    table = np.empty(1 << bits, dtype=np.int64)
    cells = (words * _SPREAD >> np.uint64(64 - bits)).astype(np.int64)
    table[cells[::-1]] = index[::-1]  # the first in a cell is written last, and stays
    first = table[cells]
    (met,) = np.nonzero(words[first] != words)
    if len(met):
        _, at, which = np.unique(words[met], return_index=True, return_inverse=True)
        first[met] = met[at[which]]
    return first


def _bits(word: int, start: int) -> Iterator[int]:
    """Yield the numbers of a word's bits, from ``start`` upwards and then from 0."""
    low = word & (1 << start) - 1
    for rest in (word ^ low, low):
        while rest:
            bit = rest & -rest
            yield bit.bit_length() - 1
            rest ^= bit


class _EvictionSearch:
    """Search places in a crowded block, where putting one sample in sends another away.

    A sample without a place goes to the batch where that costs least: where it sends away few
    samples, and such as were rarely sent away before. They seek places in turn. What keeps coming
    back is thus left alone more and more, until all fit or the search gives up. From time to time
    it begins anew with nobody in place. All choices are a fixed function of the block.

    Args:
        order: The sample at every place, or -1; rewritten.
        batch: Of every place, in ascending order.
        texts: Of every sample, each text once.
        left: Samples that are at no place.
    """

    def __init__(
        self, order: list[int], batch: list[int], texts: list[list[int]], left: list[int]
    ) -> None:
        self.order = order
        self._batch = batch
        self._texts = texts
        self._left = left
        self._sent = [0] * len(order)  # how often each sample was sent away
        self._place = [-1] * len(order)
        self._state = len(order)
        batches = range(batch[-1] + 1)
        self._places: list[list[int]] = [[] for _ in batches]
        self._holes: list[list[int]] = [[] for _ in batches]
        self._holder: list[dict[int, int]] = [{} for _ in batches]  # of each text
        for place, sample in enumerate(order):
            self._places[batch[place]].append(place)
            self._holes[batch[place]].append(place)
            if sample >= 0:
                self._put(sample, batch[place])

    def run(self) -> bool:
        """Return whether all samples found a place."""
        samples, batches = len(self.order), len(self._holes)
        patience = 500 + 2 * samples
        steps = _STEPS + 32_000 // batches + samples // 4 + 2 * len(self._left)
        for step in range(steps):
            if not self._left:
                return True
            if step % patience == patience - 1:
                self._begin_anew()
            self._seat(self._left.pop(self._draw(len(self._left))))
        return not self._left

    def _begin_anew(self) -> None:
        self._sent = [0] * len(self.order)
        for sample in self.order:
            if sample >= 0:
                self._send_away(sample)

    def _seat(self, sample: int) -> None:
        batches = len(self._holes)
        start = self._draw(batches)
        least, chosen, sent_away = -1, 0, [0]
        for batch in (*range(start, batches), *range(start)):
            others = self._in_the_way(sample, batch)
            cost = sum(1 + self._sent[other] for other in others)
            cost *= 1000 + self._draw(1000)  # no two batches cost the same forever
            if least < 0 or cost < least:
                least, chosen, sent_away = cost, batch, others
            if not others:
                break
        for other in sent_away:
            self._send_away(other)
            self._sent[other] += 1
        self._put(sample, chosen)

    def _in_the_way(self, sample: int, batch: int) -> list[int]:
        """Return who has to leave a batch so that a sample can come."""
        holder = self._holder[batch]
        others = list({holder[text]: None for text in self._texts[sample] if text in holder})
        if others or self._holes[batch]:
            return others
        # Anybody: the one least sent away of a few, so that a step costs the same in large blocks.
        places = self._places[batch]
        few = 1 + 64 // len(self._places)
        if len(places) > few:
            places = [places[self._draw(len(places))] for _ in range(few)]
        return [min((self.order[place] for place in places), key=self._sent.__getitem__)]

    def _put(self, sample: int, batch: int) -> None:
        place = self._holes[batch].pop()
        self.order[place] = sample
        self._place[sample] = place
        self._holder[batch].update(dict.fromkeys(self._texts[sample], sample))

    def _send_away(self, sample: int) -> None:
        place = self._place[sample]
        batch = self._batch[place]
        self.order[place] = -1
        self._holes[batch].append(place)
        for text in self._texts[sample]:
            del self._holder[batch][text]
        self._left.append(sample)

    def _draw(self, bound: int) -> int:
        """Return the next of a fixed row of numbers below a bound (Knuth's MMIX generator)."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _WORD
        return (self._state >> 32) * bound >> 32
