"""No text twice in a batch: rearranging samples within a block of batches.

Samples stay in their batch unless an earlier one there has one of their texts; those few change
places with samples of other batches of the same block. The block is a fixed, aligned run of
positions, so the rearrangement is a pure function of it and no sample leaves it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from duckplets.errors import RecipeError
from duckplets.order import Integers, Words, mix

if TYPE_CHECKING:
    from duckplets.plan import Plan

BLOCK_BATCHES = 64


def rearranged(plan: Plan, batch_size: int) -> Plan:
    """Return the plan of a block in an order where no batch holds a text twice.

    A sample's own slots may share a text (SimCSE). The last batch may be short.

    Raises:
        RecipeError: Some text comes too often for that.
    """
    batches = np.arange(len(plan)) // batch_size
    texts = np.stack(plan.hashes, axis=1)
    moving = _repeats(batches, texts)
    if len(moving) == 0:
        return plan
    order = np.arange(len(plan))
    _Block(batches, texts, moving).place(order, batch_size)
    return plan.reordered(order)


def _cells(batches: Integers, texts: Words) -> Words:
    """Return one word for each (batch, text)."""
    return mix(texts ^ mix(batches.astype(np.uint64) + np.uint64(1))[:, None])


def _repeats(batches: Integers, texts: Words) -> Integers:
    """Return the samples that share a text with an earlier one of their batch, in order."""
    cells = _cells(batches, texts)
    samples = np.repeat(np.arange(len(cells)), cells.shape[1])
    flat = cells.reshape(-1)
    by_cell = np.lexsort((samples, flat))
    again = flat[by_cell][1:] == flat[by_cell][:-1]
    again &= samples[by_cell][1:] != samples[by_cell][:-1]
    return np.unique(samples[by_cell][1:][again])


class _Block:
    """A block while its repeats look for new places."""

    def __init__(self, batches: Integers, texts: Words, moving: Integers) -> None:
        self.batches = batches
        self.texts = texts
        self.moving = moving
        self.holes: dict[int, list[int]] = {}
        for place in moving.tolist():
            self.holes.setdefault(int(batches[place]), []).append(place)
        self.blocked = self._blocked()
        self.added: set[tuple[int, int]] = set()

    def _blocked(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return (moving sample, batch): whether a sample that stays there has its text."""
        count = int(self.batches[-1]) + 1
        stays = np.ones(len(self.batches), dtype=bool)
        stays[self.moving] = False
        kept = np.unique(_cells(self.batches[stays], self.texts[stays]))
        if len(kept) == 0:
            return np.zeros((len(self.moving), count), dtype=bool)
        blocked = np.zeros((len(self.moving), count), dtype=bool)
        for batch in range(count):
            cells = _cells(np.full(len(self.moving), batch), self.texts[self.moving])
            near = np.minimum(np.searchsorted(kept, cells), len(kept) - 1)
            blocked[:, batch] = (kept[near] == cells).any(axis=1)
        return blocked

    def place(self, order: Integers, batch_size: int) -> None:
        """Write into ``order`` which sample comes at each place."""
        left = [row for row in range(len(self.moving)) if not self._into_hole(row, order)]
        if left:
            _Exchange(self.batches, self.texts, order, self.holes, self.moving, left).place()

    def _into_hole(self, row: int, order: Integers) -> bool:
        sample = int(self.moving[row])
        home = int(self.batches[sample])
        texts = set(self.texts[sample].tolist())
        candidates = sorted(self.holes, key=lambda batch: (batch < home, batch))
        for batch in candidates:
            if self.blocked[row, batch] or any((batch, text) in self.added for text in texts):
                continue
            place = self.holes[batch].pop(0)
            if not self.holes[batch]:
                del self.holes[batch]
            self.added.update((batch, text) for text in texts)
            order[place] = sample
            return True
        return False


class _Exchange:
    """The last resort for samples that fit no hole: another sample makes room."""

    def __init__(
        self,
        batches: Integers,
        texts: Words,
        order: Integers,
        holes: dict[int, list[int]],
        moving: Integers,
        left: list[int],
    ) -> None:
        self.batches = batches
        self.order = order
        self.samples = [int(moving[row]) for row in left]
        self.texts = [set(row) for row in texts.tolist()]
        self.empty = sorted(place for places in holes.values() for place in places)
        self.members: list[Counter[int]] = [Counter() for _ in range(int(batches[-1]) + 1)]
        vacant = set(self.empty)
        for place in range(len(batches)):
            if place not in vacant:
                self.members[batches[place]].update(self.texts[order[place]])

    def place(self) -> None:
        for sample in self.samples:
            if not self._place(sample):
                self._refuse(sample)

    def _fits(self, sample: int, batch: int, without: int | None = None) -> bool:
        gone = self.texts[without] if without is not None else set()
        members = self.members[batch]
        return all(members[text] - (text in gone) <= 0 for text in self.texts[sample])

    def _place(self, sample: int) -> bool:
        for hole in list(self.empty):
            if self._fits(sample, int(self.batches[hole])):
                self._put(sample, hole)
                return True
        vacant = set(self.empty)
        for place in range(len(self.batches)):
            if place in vacant:
                continue
            other, batch = int(self.order[place]), int(self.batches[place])
            if not self._fits(sample, batch, without=other):
                continue
            for hole in self.empty:
                if int(self.batches[hole]) != batch and self._fits(other, int(self.batches[hole])):
                    self.members[batch].subtract(self.texts[other])
                    self._put(other, hole)
                    self.order[place] = sample
                    self.members[batch].update(self.texts[sample])
                    return True
        return False

    def _put(self, sample: int, hole: int) -> None:
        self.order[hole] = sample
        self.members[self.batches[hole]].update(self.texts[sample])
        self.empty.remove(hole)

    def _refuse(self, sample: int) -> None:
        often = Counter(text for texts in self.texts for text in texts)
        count = max(often[text] for text in self.texts[sample])
        raise RecipeError(
            f"no_duplicates=True cannot be kept: one text comes {count} times in a block of "
            f"{len(self.members)} batches; lower batch_size, or remove repeated texts"
        )
