"""Let no text come twice in a batch: draw negatives again, then let samples change places.

    block ─redraw→ negatives that differ ─_Block→ samples that fit in other batches ─_filled→ plan

Of the negatives that repeat a text of their batch, others are drawn; ``no_duplicates="negatives"``
asks for no more. A sample that still repeats a text goes to the first batch that has none of its
texts: into a place that another such sample left, or into that of one which can go there instead.
A sample that fits nowhere is displaced: its place goes to the next sample of the block that fits,
and none is served a third time before all that fit were served twice. Where no sample of the block
does, samples that come after the block are tried, and at last a batch that is known to hold no text
twice takes the place of all. All is a pure function of the block (``Schedule.block``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
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

    ``words``: ``pair_hashes`` of every batch and text.
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


def settle(drawn: Drawn, batch: Integers) -> int | None:
    """Give the negatives of every batch texts that nothing else of it has: by hashes, or any.

    Args:
        drawn: Its plan is changed.
        batch: Of every sample, in ascending order.

    Returns:
        A sample with a negative for which no text is left, or None.
    """
    rows, columns = redraw(drawn, batch)
    again = drawn.free[columns, rows]
    texts, known = set[int](), -1
    for row, column in sorted(zip(rows[again].tolist(), columns[again].tolist(), strict=True)):
        if batch[row] != known:
            known = batch[row]
            texts = {text for of in drawn.plan.hashes for text in of[batch == known].tolist()}
        options = drawn.options(row)
        free = (at for at, text in enumerate(options.hashes.tolist()) if text not in texts)
        if (at := next(free, None)) is None:
            return int(row)
        texts.add(int(options.hashes[at]))
        drawn.put(np.array([row]), np.array([column]), options.part(slice(at, at + 1)))
    return None


class OneBatch:
    """A batch without a text twice, put together sample by sample, the first that fits.

    A negative whose text is taken is drawn again, a few times by hashes; then it is the first free
    one of all that it may be.

    Attributes:
        rows: The samples, numbered in what they are of.
        found: Negatives that were drawn again.
    """

    def __init__(self, drawn: Drawn) -> None:
        self.rows: list[int] = []
        self.found: dict[_Cell, FoundNegatives] = {}
        self._drawn = drawn
        self._fixed: set[int] = set()  # texts of anchors and positives
        self._holder: dict[int, _Cell] = {}  # of each other text
        self._options: dict[int, FoundNegatives] = {}
        self._refused: defaultdict[int, int] = defaultdict(int)  # samples, by stream

    def take(self, rows: Iterable[int], room: int) -> bool:
        """Add samples that fit; return whether there is a number of them now.

        Of a stream whose samples find no negatives, few are tried.
        """
        for row in rows:
            if len(self.rows) >= room:
                break
            if self._fixed.isdisjoint(self._drawn.fixed(row)):
                stream = int(self._drawn.plan.streams[row])
                if self._refused[stream] < _REFUSED and not self.add(row):
                    self._refused[stream] += 1
        return len(self.rows) >= room

    def add(self, row: int) -> bool:
        """Add a sample, if its negatives and those whose texts it has find others."""
        texts, holder = self._drawn.fixed(row), self._holder
        held: dict[int, _Cell] = {}
        found: dict[_Cell, FoundNegatives] = {}

        def is_free(text: int) -> bool:
            taken = text in texts or text in held or text in holder
            return not (taken or text in self._fixed)

        again = [holder[text] for text in sorted(texts) if text in holder]
        for column in np.flatnonzero(self._drawn.free[:, row]).tolist():
            if is_free(text := int(self._drawn.plan.hashes[column][row])):
                held[text] = (row, column)
            else:
                again.append((row, column))
        for cell in again:
            if (negative := self._another(cell, is_free)) is None:
                return False
            held[int(negative.hashes[0])], found[cell] = cell, negative
        self._fixed |= texts
        self._holder = {text: cell for text, cell in holder.items() if text not in texts} | held
        self.found |= found
        self.rows.append(row)
        return True

    def _another(self, cell: _Cell, is_free: Callable[[int], bool]) -> FoundNegatives | None:
        row, column = np.array([cell[0]]), np.array([cell[1]])
        for attempt in range(_SOME):
            found, legal = self._drawn.again(row, column, attempt)
            if legal[0] and is_free(int(found.hashes[0])):
                return found
        if cell[0] not in self._options:
            self._options[cell[0]] = self._drawn.options(cell[0])
        options = self._options[cell[0]]
        places = (at for at, text in enumerate(options.hashes.tolist()) if is_free(text))
        at = next(places, None)
        return None if at is None else options.part(slice(at, at + 1))

    def made(self) -> Drawn:
        """Return the samples with their negatives."""
        made = self._drawn.part(np.array(self.rows, np.int64))
        at = {row: place for place, row in enumerate(self.rows)}
        for (row, column), negative in self.found.items():
            made.put(np.array([at[row]]), np.array([column]), negative)
        return made


def one_batch(tiers: Iterator[Drawn], room: int) -> Drawn:
    """Return samples of one batch that have no text twice: ``room``, or as many as are found.

    They are the first that fit, or, where these are fewer, those with rare texts before others.

    Args:
        tiers: The samples that there are, some at a time.
        room: How many are wanted.
    """
    pool = next(tiers)
    while not (batch := OneBatch(pool)).take(range(len(pool)), room):
        if (more := next(tiers, None)) is None:
            break
        pool = pool.joined(more)
    else:
        return batch.made()
    counts: defaultdict[int, int] = defaultdict(int)
    for row in range(len(pool)):
        for text in pool.fixed(row):
            counts[text] += 1
    often = [max(map(counts.__getitem__, pool.fixed(row)), default=0) for row in range(len(pool))]
    rare = OneBatch(pool)
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
    plan, displaced = drawn.plan, np.full(len(drawn), -1)
    if len(repeating) == 0:
        return replace(plan, displaced=displaced)
    own = _Block(np.stack(plan.hashes), batch, np.unique(repeating)).order
    made, own = _filled(drawn, batch, own, further(), spare)
    displaced[own < 0] = plan.streams[np.setdiff1d(np.arange(len(own)), own)]
    return replace(made.plan, positions=plan.positions, displaced=displaced)


def _filled(
    drawn: Drawn,
    batch: Integers,
    own: Integers,
    further: Iterator[Drawn],
    spare: Callable[[int], Drawn],
) -> tuple[Drawn, Integers]:
    """Give every hole to the next sample of another batch that fits, those least served first.

    Args:
        drawn: The block.
        batch: Of every place.
        own: The sample at every place, -1 for a hole.
        further: As for ``arranged``.
        spare: As for ``arranged``.

    Returns:
        What is served at every place, and which samples of the block are still at one.
    """
    pool, order, own = drawn, own.copy(), own.copy()
    served = (own >= 0).astype(np.int8)  # how often what is at a place; 0: a hole
    beyond: list[int] = []
    changed: list[tuple[int, int, FoundNegatives]] = []
    for number in np.unique(batch[own < 0]).tolist():
        (places,) = np.nonzero(batch == number)
        places = places[np.argsort(own[places] < 0, kind="stable")]  # holes come last
        there = own[places][own[places] >= 0]
        ring = np.roll(np.arange(len(own)), -int(places.max()) - 1)[: len(own) - len(places)]
        ring = ring[own[ring] >= 0]
        ring = ring[np.argsort(served[ring], kind="stable")]
        while True:
            one, candidates = OneBatch(pool), map(int, np.concatenate([there, own[ring]]))
            if one.take(chain(candidates, beyond), len(places)):
                order[places] = one.rows
                served[ring[np.isin(own[ring], one.rows)]] += 1
                beyond = [row for row in beyond if row not in {*one.rows}]
                at = dict(zip(one.rows, places.tolist(), strict=True))
                changed += [(at[row], column, of) for (row, column), of in one.found.items()]
                break
            if (more := next(further, None)) is None:
                order[places] = len(pool) + np.arange(len(places))
                pool = pool.joined(spare(len(places)).part(slice(0, len(places))))
                own[places] = -1
                break
            beyond.extend(range(len(pool), len(pool) + len(more)))
            pool = pool.joined(more)
    made = pool.part(order)
    for place, column, negative in changed:
        made.put(np.array([place]), np.array([column]), negative)
    return made, own


class _Block:
    """A block in which samples that repeat a text move to batches where they do not.

    Args:
        texts: Of every sample: shape (slots, samples).
        batch: Of every place.
        moving: The samples, ascending.

    Attributes:
        order: The sample at every place, or -1.
    """

    def __init__(self, texts: Words, batch: Integers, moving: Integers) -> None:
        self.order = np.arange(len(batch))
        self.order[moving] = -1
        self._texts, self._batch = texts, batch
        self._having = self._noted(moving)  # bits: the batches with each text of those that move
        self._able: dict[int, Flags] = {}  # by batch with a hole: which samples could go there
        self._holes: dict[int, list[int]] = {}  # places by batch, the first one last
        for place in moving.tolist()[::-1]:
            self._holes.setdefault(int(batch[place]), []).append(place)
        left = [sample for sample in moving.tolist() if not self._fits(sample)]
        for sample in left:
            if not self._fits(sample):
                self._exchange(sample)

    def _noted(self, moving: Integers) -> dict[int, int]:
        """Return which batches have texts of samples that move."""
        wanted = np.unique(self._texts[:, moving])
        is_some = np.zeros(1 << 16, dtype=bool)  # by their first bits, so some more are
        is_some[wanted >> _TOP] = True
        slots, places = np.nonzero(is_some[self._texts >> _TOP] & (self.order >= 0))
        at = np.minimum(np.searchsorted(wanted, self._texts[slots, places]), len(wanted) - 1)
        there = wanted[at] == self._texts[slots, places]
        bits = np.zeros(len(wanted), dtype=np.uint64)
        ones = np.uint64(1) << self._batch[places[there]].astype(np.uint64)
        np.bitwise_or.at(bits, at[there], ones)
        return dict(zip(wanted.tolist(), bits.tolist(), strict=True))

    def _blocked(self, sample: int) -> int:
        """Return the batches, as bits, that have a text of a sample."""
        found = 0
        for text in self._texts[:, sample].tolist():
            found |= self._having.get(text, 0)
        return found

    def _fits(self, sample: int) -> bool:
        """Put a sample into the first hole of a batch without its texts, its own batch first."""
        free = sum(1 << batch for batch in self._holes) & ~self._blocked(sample)
        home = int(self._batch[sample])
        first = free >> home << home or free
        if first:
            self._put(sample, (first & -first).bit_length() - 1)
        return bool(first)

    def _put(self, sample: int, batch: int) -> None:
        """Put a sample into the first hole of a batch."""
        self.order[self._holes[batch].pop()] = sample
        if not self._holes[batch]:
            del self._holes[batch]
        self._mark(sample, batch, there=True)
        self._able.pop(batch, None)

    def _mark(self, sample: int, batch: int, *, there: bool) -> None:
        for text in self._texts[:, sample].tolist():
            if text in self._having:
                self._having[text] &= ~(1 << batch)
                self._having[text] |= there << batch

    def _exchange(self, sample: int) -> None:
        """Put a sample where it fits in the place of one that can fill a hole, if there is one."""
        home, blocked = int(self._batch[sample]), self._blocked(sample)
        fits = np.array([not blocked >> batch & 1 for batch in range(int(self._batch[-1]) + 1)])
        for batch in sorted(self._holes, key=lambda hole: (hole < home, hole)):
            able = self._able_to(batch)[self.order]
            places = np.flatnonzero(able & fits[self._batch] & (self.order >= 0))
            if len(places):
                start = int(np.searchsorted(self._batch[places], home))
                place = int(places[start % len(places)])
                other, left = int(self.order[place]), int(self._batch[place])
                self._mark(other, left, there=False)
                self._put(other, batch)
                self._holes.setdefault(left, []).append(place)
                self._put(sample, left)
                return

    def _able_to(self, batch: int) -> Flags:
        """Return which samples have no text of a batch."""
        if batch not in self._able:
            there = self.order[(self._batch == batch) & (self.order >= 0)]
            texts = np.sort(self._texts[:, there], axis=None)
            among = _among(texts, self._texts.reshape(-1)).reshape(self._texts.shape)
            self._able[batch] = np.logical_not(among.any(axis=0))
        return self._able[batch]
