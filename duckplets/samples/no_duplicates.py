"""Let no text come twice in a batch: draw negatives again, then let samples change places.

    block ─redraw→ negatives that differ ─move→ samples that repeat nothing ─fill→ places left over

Of the negatives that repeat a text of their batch, others are drawn; ``no_duplicates="negatives"``
asks for no more. A sample that still repeats a text goes to the first batch that has none of its
texts: into a place that another such sample left, or into that of one which can go there instead.
A sample that fits nowhere is displaced: its place goes to the next sample of the block that fits,
and none is served a third time before all that fit were served twice. Where no sample of the block
does, the batch is put together anew, with samples that come after the block too, and at last one
that is known to hold no text twice takes its place. All is a pure function of the block
(``Schedule.block``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.pools.arrays import pair_hashes
from duckplets.samples.planned import Drawn

if TYPE_CHECKING:
    from duckplets.samples.negatives import FoundNegatives
    from duckplets.samples.planned import Plan

NoDuplicates: TypeAlias = bool | Literal["negatives"]
_Cell: TypeAlias = tuple[int, int]  # row and column of a text

BLOCK_BATCHES = 64  # no more: the batches that have a text are the bits of one word

_REDRAWS = 24  # by hashes; half of what can be drawn taken leaves one in 2^24
_SOME = 2  # of them where all that can be drawn is looked at after that
_REFUSED = 16  # samples of a stream that lack negatives, after which a batch takes none of it
_DEEPEST = 200  # negatives that take a text one from another
_TOP = np.uint64(48)


# -- negatives that are drawn again ---------------------------------------------------------------


def redraw(drawn: Drawn, batch: Integers) -> tuple[Integers, Integers]:
    """Draw negatives that repeat a text of their batch again, until they differ from all it has.

    Anchors and positives stay, and so does the first of the negatives that have one text.

    Args:
        drawn: Its plan is changed.
        batch: Of every sample, in ascending order.

    Returns:
        Rows and columns of the texts that still repeat another of their batch.
    """
    free = drawn.free.reshape(-1)
    taken = _Taken(pair_hashes(batch, np.stack(drawn.plan.hashes)).reshape(-1))
    some = taken.repeated()
    some = some[np.argsort(free[some], kind="stable")]  # what stays comes first
    _, at, which = np.unique(taken.words[some], return_index=True, return_inverse=True)
    # Not the first of its word, unless that is of the same sample (SimCSE).
    some = some[some[at[which]] % len(drawn) != some % len(drawn)]
    columns, rows = np.divmod(some, len(drawn))
    todo = np.flatnonzero(free[some])
    repeats = np.ones(len(rows), dtype=bool)
    for attempt in range(_REDRAWS):
        if len(todo) == 0:
            break
        found, legal = drawn.again(rows[todo], columns[todo], attempt)
        legal[legal] = taken.take(pair_hashes(batch[rows[todo[legal]]], found.hashes[legal]))
        drawn.put(rows[todo[legal]], columns[todo[legal]], found.part(legal))
        repeats[todo[legal]] = False
        todo = todo[~legal]
    return rows[repeats], columns[repeats]


class _Taken:
    """The texts that batches have, in a hash table with the last of each cell.

    Args:
        words: ``pair_hashes`` of every batch and text.
    """

    def __init__(self, words: Words) -> None:
        self.words = words
        index = np.arange(len(words), dtype=np.int32)
        self._shift = np.uint64(64 - (4 * len(words)).bit_length())
        cells = words >> self._shift
        self._last = np.zeros(1 << (64 - int(self._shift)), dtype=np.int32)
        self._last[cells] = index
        several = np.zeros(len(self._last), dtype=bool)
        several[cells[self._last[cells] != index]] = True
        (self._crowded,) = np.nonzero(several[cells])
        self._sorted = np.sort(words[self._crowded])
        self._new: set[int] = set()

    def repeated(self) -> Integers:
        """Return the words that are there several times."""
        again = self._sorted[1:][self._sorted[1:] == self._sorted[:-1]]
        return self._crowded[_among(again, self.words[self._crowded])]

    def take(self, words: Words) -> Flags:
        """Add words that are missing, one after the other; return which those are."""
        missing: Flags = self.words[self._last[words >> self._shift]] != words
        missing &= ~_among(self._sorted, words)
        for at in np.flatnonzero(missing).tolist():
            missing[at] = (word := int(words[at])) not in self._new
            self._new.add(word)
        return missing


def _among(words: Words, wanted: Words) -> Flags:
    """Return which words are among sorted ones."""
    at = np.searchsorted(words, wanted)
    found: Flags = at < len(words)
    found[found] = words[at[found]] == wanted[found]
    return found


class OneBatch:
    """A batch without a text twice, put together sample by sample, the first that fits.

    A negative whose text is taken is drawn again, a few times by hashes; then it is the first free
    one of all that it may be, or that of another negative which can be yet another, and so on.

    Args:
        drawn: What the samples are of.

    Attributes:
        rows: The samples.
        fixed: The texts of their anchors and positives.
        seen: How many texts were looked at last.
    """

    def __init__(self, drawn: Drawn) -> None:
        self.rows: list[int] = []
        self.fixed: set[int] = set()
        self.seen = 0
        self._drawn = drawn
        self._holder: dict[int, _Cell] = {}  # of each other text
        self._found: dict[_Cell, FoundNegatives] = {}  # negatives that were drawn again
        self._options: dict[int, FoundNegatives] = {}
        self._refused: defaultdict[int, int] = defaultdict(int)  # samples, by stream

    def fitting(self, rows: Iterable[int]) -> int:
        """Add samples up to one that does not fit; return how many."""
        return sum(1 for _ in takewhile(self._add, rows))

    def take(self, rows: Iterable[int], room: int) -> None:
        """Add samples that fit, up to a number in all; few of a stream whose negatives do not."""
        streams = self._drawn.plan.streams
        for row in rows:
            if len(self.rows) >= room:
                return
            if self.fixed.isdisjoint(self._drawn.fixed[row]):
                stream = int(streams[row])
                if self._refused[stream] < _REFUSED and not self._add(row):
                    self._refused[stream] += 1

    def _add(self, row: int) -> bool:
        before = self.fixed.copy(), self._holder.copy(), self._found.copy()
        texts = self._drawn.fixed[row]
        self.fixed |= texts
        cells = [*(self._holder.pop(text) for text in texts & self._holder.keys())]
        cells += [cell for cell in self.cells(row) if not self.keep(cell)]
        if not all(self.place(cell) for cell in cells):
            self.fixed, self._holder, self._found = before
            return False
        self.rows.append(row)
        return True

    def cells(self, row: int) -> list[_Cell]:
        """Return the places of the negatives of a sample."""
        return [(row, int(column)) for column in np.flatnonzero(self._drawn.free[:, row])]

    def keep(self, cell: _Cell) -> bool:
        """Leave a negative as it was drawn, if its text is missing."""
        return self._hold(cell, int(self._drawn.plan.hashes[cell[1]][cell[0]]))

    def _hold(self, cell: _Cell, text: int) -> bool:
        if text in self.fixed or text in self._holder:
            return False
        self._holder[text] = cell
        return True

    def place(self, cell: _Cell) -> bool:
        """Find another text for a negative; return whether there was one."""
        row, column = np.array([cell[0]]), np.array([cell[1]])
        for attempt in range(_SOME):
            found, legal = self._drawn.again(row, column, attempt)
            if legal[0] and self._hold(cell, int(found.hashes[0])):
                self._found[cell] = found
                return True
        seen: set[int] = set()
        placed = self._found_for(cell, seen, _DEEPEST)
        self.seen = len(seen)
        return placed

    def _found_for(self, cell: _Cell, seen: set[int], depth: int) -> bool:
        """Give a negative a free text, or that of another one which finds yet another."""
        if cell[0] not in self._options:
            self._options[cell[0]] = self._drawn.options(cell[0])
        options = self._options[cell[0]]
        texts = options.hashes.tolist()
        free = (t for t in texts if t not in self.fixed and t not in self._holder)
        text = next(free, None)
        for other in () if text is not None or not depth else texts:
            if other not in self.fixed and other not in seen:
                seen.add(other)
                if self._found_for(self._holder[other], seen, depth - 1):
                    text = other
                    break
        if text is None:
            return False
        place = texts.index(text)
        self._holder[text], self._found[cell] = cell, options.part(slice(place, place + 1))
        return True

    def put(self) -> None:
        """Give the samples their negatives."""
        for (row, column), found in self._found.items():
            self._drawn.put(np.array([row]), np.array([column]), found)

    def made(self) -> Drawn:
        """Return the samples with their negatives."""
        found = self._drawn.part(np.array(self.rows, np.int64))
        at = {row: place for place, row in enumerate(self.rows)}
        for (row, column), negative in self._found.items():
            found.put(np.array([at[row]]), np.array([column]), negative)
        return found


def settle(drawn: Drawn, rows: Integers) -> tuple[int, int] | None:
    """Give all negatives of a batch different texts, whatever its anchors and positives are.

    Args:
        drawn: Its plan is changed.
        rows: The samples of the batch.

    Returns:
        None; or if there are not enough texts a sample that has none, and how many it could take.
    """
    batch = OneBatch(drawn)
    batch.fixed.update(text for row in rows.tolist() for text in drawn.fixed[row])
    cells = [cell for row in rows.tolist() for cell in batch.cells(row)]
    for cell in [cell for cell in cells if not batch.keep(cell)]:
        if not batch.place(cell):
            return cell[0], batch.seen
    batch.put()
    return None


def one_batch(tiers: Iterator[Drawn], room: int) -> Drawn:
    """Return samples of one batch that have no text twice: ``room``, or as many as are found.

    They are the first that fit, or, where these are fewer, those with rare texts before others.

    Args:
        tiers: The samples that there are, some at a time.
        room: How many are wanted.
    """
    pool = next(tiers)
    while True:
        batch = OneBatch(pool)
        batch.take(range(len(pool)), room)
        if len(batch.rows) == room:
            return batch.made()
        if (more := next(tiers, None)) is None:
            break
        pool = pool.joined(more)
    counts: defaultdict[int, int] = defaultdict(int)
    for texts in pool.fixed:
        for text in texts:
            counts[text] += 1
    rare = OneBatch(pool)
    often = [max(map(counts.__getitem__, texts), default=0) for texts in pool.fixed]
    rare.take(np.argsort(often, kind="stable").tolist(), room)
    return max(batch, rare, key=lambda one: len(one.rows)).made()


# -- samples that change places -------------------------------------------------------------------


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
        self.order = np.arange(texts.shape[1])
        self.batch = self.order // batch_size
        self._hashes = texts
        self._served = np.ones(len(self.order), dtype=np.int8)  # how often who is there; 0: a hole
        self._having: dict[int, int] = {}  # bits: the batches with each text of those that move
        self._able: dict[int, Flags] = {}  # by batch with a hole: which samples could go there

    def move(self, moving: Integers) -> None:
        """Find other batches for samples that repeat a text; leave holes where there are none."""
        self.order[moving] = -1
        self._note(moving)
        holes: dict[int, list[int]] = {}
        for place in moving.tolist()[::-1]:
            holes.setdefault(int(self.batch[place]), []).append(place)
        left = []
        for sample, texts in zip(moving.tolist(), self._hashes[:, moving].T.tolist(), strict=True):
            home = int(self.batch[sample])
            free = self._open(holes) & ~self._blocked(texts)
            if free:
                self._put(sample, texts, holes, _next_bit(free, home))
            else:
                left.append((sample, texts, home))
        for sample, texts, home in left:
            self._exchange(sample, texts, home, holes)

    def _note(self, moving: Integers) -> None:
        """Note which batches have texts of samples that move."""
        wanted = np.unique(self._hashes[:, moving])
        is_some = np.zeros(1 << 16, dtype=bool)  # by their first bits, so some more are
        is_some[wanted >> _TOP] = True
        slots, places = np.nonzero(is_some[self._hashes >> _TOP] & (self.order >= 0))
        at = np.searchsorted(wanted, self._hashes[slots, places])
        at[at == len(wanted)] = 0
        there = wanted[at] == self._hashes[slots, places]
        bits = np.zeros(len(wanted), dtype=np.uint64)
        ones = np.uint64(1) << self.batch[places[there]].astype(np.uint64)
        np.bitwise_or.at(bits, at[there], ones)
        self._having = dict(zip(wanted.tolist(), bits.tolist(), strict=True))

    def _open(self, holes: dict[int, list[int]]) -> int:
        return sum(1 << batch for batch in holes)

    def _blocked(self, texts: Sequence[int]) -> int:
        """Return the batches, as bits, that have one of some texts."""
        found = 0
        for text in texts:
            found |= self._having.get(text, 0)
        return found

    def _put(
        self, sample: int, texts: Sequence[int], holes: dict[int, list[int]], batch: int
    ) -> None:
        """Put a sample into the first hole of a batch."""
        self.order[holes[batch].pop()] = sample
        if not holes[batch]:
            del holes[batch]
        for text in texts:
            if text in self._having:
                self._having[text] |= 1 << batch
        self._able.pop(batch, None)

    def _exchange(
        self, sample: int, texts: list[int], home: int, holes: dict[int, list[int]]
    ) -> None:
        """Put a sample where it fits, letting one from there fill a hole if need be."""
        blocked = self._blocked(texts)
        if free := self._open(holes) & ~blocked:
            self._put(sample, texts, holes, _next_bit(free, home))
            return
        fits = np.array([not blocked >> batch & 1 for batch in range(int(self.batch[-1]) + 1)])
        for batch in sorted(holes, key=lambda hole: (hole < home, hole)):
            able = self._able_to(batch)[self.order]
            places = np.flatnonzero(able & fits[self.batch] & (self.order >= 0))
            if len(places) == 0:
                continue
            start = int(np.searchsorted(self.batch[places], home))
            place = int(places[start % len(places)])
            other, left = int(self.order[place]), int(self.batch[place])
            others = self._hashes[:, other].tolist()
            for text in others:
                if text in self._having:
                    self._having[text] &= ~(1 << left)
            self._put(other, others, holes, batch)
            holes.setdefault(left, []).append(place)
            self._put(sample, texts, holes, left)
            return

    def _able_to(self, batch: int) -> Flags:
        """Return which samples have no text of a batch."""
        if batch not in self._able:
            there = self.order[(self.batch == batch) & (self.order >= 0)]
            texts = np.sort(self._hashes[:, there], axis=None)
            among = _among(texts, self._hashes.reshape(-1)).reshape(self._hashes.shape)
            self._able[batch] = np.logical_not(among.any(axis=0))
        return self._able[batch]

    def ring(self, batch: int) -> Integers:
        """Return the places of the block's own samples after a batch and then before it.

        Those of samples that are served less often come first.
        """
        (places,) = np.nonzero(self._served)
        low, high = np.searchsorted(self.batch[places], [batch, batch + 1])
        places = np.concatenate([places[high:], places[:low]])
        return places[np.argsort(self._served[places], kind="stable")]

    def fill(self) -> None:
        """Give every hole to the next sample of another batch that fits, those least served first.

        Holes stay where no sample does.
        """
        (holes,) = np.nonzero(self.order < 0)
        self._served[holes] = 0
        for batch in np.unique(self.batch[holes]).tolist():
            left = holes[self.batch[holes] == batch].tolist()
            there = self.order[(self.batch == batch) & (self.order >= 0)]
            having, ring = {*self._hashes[:, there].reshape(-1).tolist()}, self.ring(batch)
            for place, texts in zip(
                ring.tolist(), self._hashes[:, self.order[ring]].T.tolist(), strict=True
            ):
                if not left:
                    break
                if having.isdisjoint(texts):
                    having.update(texts)
                    self.order[left.pop(0)] = self.order[place]
                    self._served[place] += 1


def _next_bit(word: int, start: int) -> int:
    """Return the number of the first bit of a word from ``start`` on, or else from 0."""
    rest = word >> start << start or word
    return (rest & -rest).bit_length() - 1
