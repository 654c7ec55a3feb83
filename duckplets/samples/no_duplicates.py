"""Let no text come twice in a batch: draw negatives again, then let samples change places.

    block ─redraw→ negatives that differ ─move→ samples that repeat nothing ─fill→ places left over

Of the negatives that repeat a text of their batch, others are drawn; ``no_duplicates="negatives"``
asks for no more. A sample that still repeats a text goes to the first batch that has none of its
texts: into a place that another such sample left, or into that of one which can go there instead.
A sample that fits nowhere is displaced: its place goes to the next sample of the block that fits,
which is then served twice, and none a third time before all that fit were served twice. Where no
sample of the block does, the next ones of its streams are tried, and at last a batch that is known
to hold no text twice. All is a pure function of the block (``Schedule.stretch``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.samples.redrawn import Drawn, OneBatch, redraw

if TYPE_CHECKING:
    from duckplets.samples.planned import Plan

NoDuplicates: TypeAlias = bool | Literal["negatives"]

BLOCK_BATCHES = 64  # no more: the batches that have a text are the bits of one word

_ROUNDS = 8  # of moving many samples at a time, while there are
_FEW = 24  # or more; fewer are faster moved one by one
_AT_ONCE = 128  # samples looked at for the places of a batch
_ONE = np.uint64(1)
_TOP = np.uint64(48)
_WORD = (1 << 64) - 1


def arranged(
    drawn: Drawn,
    batch_size: int,
    further: Callable[[], Iterator[Drawn]],
    spare: Callable[[int], Drawn],
) -> Plan:
    """Return the plan of a block in which no batch has a text twice.

    A sample's own slots may share a text (SimCSE).

    Args:
        drawn: Of ``BLOCK_BATCHES`` batches or fewer; the last may be short. Changed.
        batch_size: Samples in every other batch.
        further: Yields samples of the same streams, after those of the block.
        spare: Returns so many samples or more of one batch that have no text twice.
    """
    batch = np.arange(len(drawn)) // batch_size
    repeating, _ = redraw(drawn, batch)
    plan = drawn.plan
    displaced = np.full(len(plan), -1)
    if len(repeating) == 0:
        return replace(plan, displaced=displaced)
    block = _Block(np.stack(plan.hashes), batch_size)
    block.move(np.unique(repeating))
    moved = block.order.copy()
    block.fill()
    if (block.order < 0).any():
        plan = _completed(drawn, block, moved, further(), spare).plan
    gone = np.ones(len(moved), dtype=bool)
    gone[moved[moved >= 0]] = False
    displaced[moved < 0] = drawn.plan.streams[gone]
    return replace(plan.part(block.order), positions=drawn.plan.positions, displaced=displaced)


def _completed(
    drawn: Drawn,
    block: _Block,
    moved: Integers,
    further: Iterator[Drawn],
    spare: Callable[[int], Drawn],
) -> Drawn:
    """Fill batches for which no sample of the block fits as it was drawn.

    Their negatives are drawn anew, for samples of the block or such as come after it. Where that
    does not do, the whole batch gives its places.

    Args:
        drawn: The block.
        block: Of which ``order`` is changed.
        moved: Who is where of the block itself; changed.
        further: As for ``arranged``.
        spare: As for ``arranged``.

    Returns:
        What the order counts in now: the block and more samples.
    """
    pool, own, beyond = drawn, moved.copy(), list[int]()
    filled: list[tuple[Integers, Drawn]] = []
    for number in np.unique(block.batch[block.order < 0]).tolist():
        (places,) = np.nonzero(block.batch == number)
        places = places[np.argsort(block.order[places] < 0, kind="stable")]  # holes come last
        known = block.order[places]
        known = known[known >= 0].tolist()
        while True:
            batch = OneBatch(pool)
            batch.take(chain(known, own[block.ring(number)].tolist(), beyond), len(places))
            if len(batch.rows) == len(places) or (more := next(further, None)) is None:
                break
            beyond.extend(range(len(pool), len(pool) + len(more)))
            pool = pool.joined(more)
        if len(batch.rows) == len(places):
            made = batch.made()
            beyond = [row for row in beyond if row not in {*batch.rows}]
        else:
            made = spare(len(places)).part(slice(0, len(places)))
            moved[places] = -1
        filled.append((places, made))
    for places, made in filled:
        block.order[places] = len(pool) + np.arange(len(made))
        pool = pool.joined(made)
    return pool


class _Block:
    """A block and who is where in it.

    Attributes:
        order: The sample at every place, or -1.
        batch: The batch of every place.
    """

    def __init__(self, texts: Words, batch_size: int) -> None:
        samples = texts.shape[1]
        self.order = np.arange(samples)
        self.batch = self.order // batch_size
        self._size = batch_size
        self._served = np.ones(samples, dtype=np.int8)  # how often who is at a place; 0 for holes
        self._batches = (samples - 1) // batch_size + 1
        # Only some texts have names: those of samples that move, and where that does not come out
        # even of batches with holes. No others say who fits where.
        self._hashes = texts
        self._is_named = np.zeros(1 << 16, dtype=bool)  # by their first bits, so some more are
        self._knows_open = False
        self._open = 0  # bits: the batches that have a hole
        self._able: tuple[Integers, Words] | None = None

    def move(self, moving: Integers) -> None:
        """Find other batches for samples that repeat a text; leave holes where there are none."""
        self.order[moving] = -1
        self._name(self._hashes[:, moving])
        moving = moving[~self._seat(moving, moving)]  # who repeated a text of these only is back
        moving = self._many(moving)
        (holes,) = np.nonzero(self.order < 0)
        self._open = sum(1 << batch for batch in np.unique(self.batch[holes]).tolist())
        choices = np.bitwise_count(~self._blocked(moving))
        for sample in moving[np.argsort(choices, kind="stable")].tolist():
            self._exchange(sample)

    def _name(self, wanted: Words) -> None:
        """Name texts 0, 1, …, these too, and note where they are; others get the number after."""
        self._is_named[wanted >> _TOP] = True
        some = np.nonzero(self._is_named[self._hashes >> _TOP])
        found, names = np.unique(self._hashes[some], return_inverse=True)
        self._nothing = len(found)
        self._texts = np.full(self._hashes.shape, self._nothing)
        self._texts[some] = names
        self._having = np.zeros(self._nothing + 1, dtype=np.uint64)  # bits: the batches with each
        (places,) = np.nonzero(self.order >= 0)
        self._note(self.order[places], self.batch[places])

    def _know_open(self) -> None:
        if not self._knows_open:
            self._knows_open = True
            is_open = np.isin(self.batch, self.batch[self.order < 0])
            self._name(self._hashes[:, self.order[is_open & (self.order >= 0)]])

    def _many(self, moving: Integers) -> Integers:
        """Fill holes with many samples at a time; return those for which that did not do."""
        (holes,) = np.nonzero(self.order < 0)
        everywhere = np.uint64((1 << self._batches) - 1)
        for further in range(_ROUNDS):
            moving = moving[self._blocked(moving) != everywhere]
            if len(moving) < _FEW:
                break
            batches, starts, counts = np.unique(
                self.batch[holes], return_index=True, return_counts=True
            )
            # Each into the next batch with holes after its own, later into one beyond that.
            target = np.searchsorted(batches, self.batch[moving], side="right") + further
            target %= len(batches)
            number = _numbered(target)
            (with_hole,) = np.nonzero(number < counts[target])
            places = holes[starts[target[with_hole]] + number[with_hole]]
            seated = np.zeros(len(moving), dtype=bool)
            seated[with_hole] = self._seat(moving[with_hole], places)
            moving, holes = moving[~seated], holes[self.order[holes] < 0]
        return moving

    def _seat(self, samples: Integers, places: Integers) -> Flags:
        """Put samples to places where their texts are missing; return which of them."""
        batches = self.batch[places]
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
        _, first, cell = np.unique(cells, return_index=True, return_inverse=True)
        repeating = np.zeros(len(samples), dtype=bool)
        repeating[which[which[first[cell]] != which]] = True  # else its own (SimCSE)
        return repeating

    def _note(self, samples: Integers, batches: Integers) -> None:
        """Note that batches have the texts of samples."""
        texts = self._texts[:, samples]
        slots, which = np.nonzero(texts < self._nothing)
        bits = _ONE << batches[which].astype(np.uint64)
        np.bitwise_or.at(self._having, texts[slots, which], bits)

    def _exchange(self, sample: int) -> bool:
        """Put a sample where it fits, letting one from there fill a hole if need be."""
        home, missing = sample // self._size, ~int(self._blocked(sample)) & _WORD
        if free := self._open & missing:
            self._put(sample, self._hole(_next_bit(free, home)))
            return True
        missing &= (1 << self._batches) - 1
        if not missing:
            return False
        self._know_open()
        if self._able is None:  # who can go to a hole, and to which batches
            (places,) = np.nonzero(self.order >= 0)
            away = ~self._blocked(self.order[places]) & np.uint64(self._open)
            self._able = places[away != 0], away[away != 0]
        places, away = self._able
        (fitting,) = np.nonzero(np.uint64(missing) >> self.batch[places].astype(np.uint64) & _ONE)
        if len(fitting) == 0:
            return False
        at = fitting[np.searchsorted(places[fitting], home * self._size) % len(fitting)]
        place, other = int(places[at]), int(self.order[places[at]])
        self._having[self._texts[:, other]] &= ~(_ONE << np.uint64(self.batch[place]))
        target = _next_bit(int(away[at]), home)
        self._put(other, self._hole(target))
        self._put(sample, place)
        if self._open >> target & 1 and self._nothing in self._texts[:, other]:
            self._name(self._hashes)  # for these texts count there, too
        return True

    def _blocked(self, samples: int | Integers) -> Words:
        """Return the batches, as bits, that have a text of each sample."""
        found: Words = np.bitwise_or.reduce(self._having[self._texts[:, samples]], axis=0)
        return found

    def _hole(self, batch: int) -> int:
        """Return the first hole of a batch, which is to be filled."""
        start = batch * self._size
        (holes,) = np.nonzero(self.order[start : start + self._size] < 0)
        if len(holes) == 1:
            self._open &= ~(1 << batch)
        return start + int(holes[0])

    def _put(self, sample: int, place: int) -> None:
        self.order[place] = sample
        self._having[self._texts[:, sample]] |= _ONE << np.uint64(self.batch[place])
        self._having[self._nothing] = 0
        self._able = None

    def ring(self, batch: int) -> Integers:
        """Return the places of the block's own samples after a batch and then before it.

        Those of samples that are served less often come first.
        """
        (places,) = np.nonzero(self._served)
        low, high = np.searchsorted(places, [batch * self._size, (batch + 1) * self._size])
        places = np.concatenate([places[high:], places[:low]])
        return places[np.argsort(self._served[places], kind="stable")]

    def fill(self) -> None:
        """Give every hole to the next sample of another batch that fits, those least served first.

        Holes stay where no sample does.
        """
        (holes,) = np.nonzero(self.order < 0)
        self._served[holes] = 0
        for batch in np.unique(self.batch[holes]).tolist():
            self._know_open()
            left, having = holes[self.batch[holes] == batch].tolist(), set[int]()
            ring = self.ring(batch)
            for at in range(0, len(ring), _AT_ONCE):
                if not left:
                    break
                self._fill_batch(batch, left, ring[at : at + _AT_ONCE], having)

    def _fill_batch(self, batch: int, holes: list[int], places: Integers, having: set[int]) -> None:
        """Give holes of a batch to samples at some places, as far as they fit."""
        samples = self.order[places]
        fitting = self._blocked(samples) >> np.uint64(batch) & _ONE == 0
        rows = self._hashes[:, samples[fitting]].T.tolist()
        for place, texts in zip(places[fitting].tolist(), rows, strict=True):
            if holes and having.isdisjoint(texts):
                having.update(texts)
                self.order[holes.pop(0)] = self.order[place]
                self._served[place] += 1


def _numbered(groups: Integers) -> Integers:
    """Return for every item how many before it are of its group."""
    by_group = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    number = np.empty_like(groups)
    number[by_group] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return number


def _next_bit(word: int, start: int) -> int:
    """Return the number of the first bit of a word from ``start`` on, or else from 0."""
    rest = word >> start << start or word
    return (rest & -rest).bit_length() - 1
