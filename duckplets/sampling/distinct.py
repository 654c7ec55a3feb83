"""No text twice in a batch: rearranging samples within a block of batches.

Samples keep their places unless an earlier one of their batch has one of their texts. Those few
fill the places they leave, each in another batch; where that does not come out even, they change
places with a sample that can take such a place instead; and where the texts are too crowded for
that, others make room in turn (``ejection``). The block is a fixed stretch of positions
(``Schedule.stretch``), so the rearrangement is a pure function of it and no sample leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.errors import RecipeError
from duckplets.sampling.eviction import find_room

if TYPE_CHECKING:
    from duckplets.sampling.plan import Plan

BLOCK_BATCHES = 64  # no more: the batches that have a text are the bits of one word


_ROUNDS = 8  # of placing many samples at a time, while there are
_FEW = 24  # or more; fewer are faster placed one by one
_ONE = np.uint64(1)
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
        repeating[which[_firsts(cells.astype(np.uint64)) < np.arange(len(cells))]] = True
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
        texts = [[text for text in row if text != self._nothing] for row in self._texts.T.tolist()]
        order = self.order.tolist()
        found = find_room(order, self._batch.tolist(), texts, left)
        self.order[:] = order
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
    first = _firsts(texts.reshape(-1)).reshape(texts.shape)
    again = np.zeros(texts.shape, dtype=bool)
    for slot in range(1, len(texts)):
        again[slot] = (first[slot] == first[:slot]).any(axis=0)
    counts = np.bincount(first[~again], minlength=first.size)
    several = counts > 1
    nothing = int(several.sum())
    names = np.where(several, np.cumsum(several) - 1, nothing)[first]
    names[again] = nothing
    return names, np.append(counts[several], 1)


def _firsts(words: Words) -> Integers:
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
    for part in (word ^ low, low):
        rest = part
        while rest:
            bit = rest & -rest
            yield bit.bit_length() - 1
            rest ^= bit
