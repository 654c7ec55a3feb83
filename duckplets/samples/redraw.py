"""Draw negatives of planned samples again until no text comes twice in a batch.

Drawn ─redraw→ negatives that differ, and what still repeats ─OneBatch→ all differ

Negatives that repeat a text of their batch are replaced, by hashed draws and finally by the first
free one of all the sample may have. All is a pure function of the samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Integers, Sketch, Words, places
from duckplets.mining.near import NearTexts
from duckplets.order.permute import mix
from duckplets.pools.arrays import NegativeRequests, pair_hashes
from duckplets.samples.negatives import FoundNegatives, blank
from duckplets.samples.plan import Plan, joined, without_negative
from duckplets.samples.stream import Stream

_Cell: TypeAlias = tuple[int, int]  # row and column of a text

# hashed attempts, some at once; if half of the options are taken, one in 2^24 fails
_ATTEMPTS = np.split(np.arange(24), [1, 16])
_SOME = 2  # attempts if all options are tried after that
_REFUSED = 16  # samples of a stream without negatives after which a batch takes none of it


@dataclass(frozen=True)
class Drawn:
    """Planned samples whose negatives can be replaced, in the arrays of the plan."""

    plan: Plan
    owners: Integers  # number of the requests of each sample
    places: Integers  # row of each in its requests
    shifts: Integers  # column of a sample + this = number of the negative in its draw
    requests: Sequence[tuple[Stream, NegativeRequests]]  # the requests they were drawn for
    near: Sequence[NearTexts] = ()  # of each stream, where texts near anchors are kept apart
    _fixed: dict[int, set[int]] = field(default_factory=dict, init=False)
    _kept: dict[int, set[int]] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.plan)

    def part(self, rows: slice | Integers) -> Drawn:
        """Return some of the samples."""
        columns = (self.owners[rows], self.places[rows], self.shifts[rows])
        return Drawn(self.plan.part(rows), *columns, self.requests, self.near)

    def joined(self, other: Drawn) -> Drawn:
        """Return these samples and others after them."""
        return Drawn(
            joined([self.plan, other.plan]),
            np.concatenate([self.owners, other.owners + len(self.requests)]),
            np.concatenate([self.places, other.places]),
            np.concatenate([self.shifts, other.shifts]),
            [*self.requests, *other.requests],
            self.near,
        )

    @cached_property
    def free(self) -> Flags:
        """Return which texts may be drawn again: shape (slots, samples)."""
        found = np.zeros(self.plan.hashes.shape, dtype=bool)
        if self.plan.labels is None:
            found[2 : len(self.plan.chunks)] = True
        else:
            found[1] = ~without_negative(self.plan)
        return found

    def fixed(self, row: int) -> set[int]:
        """Return the texts of a sample that are not drawn again."""
        if row not in self._fixed:
            texts = self.plan.hashes[:, row][~self.free[:, row]]
            self._fixed[row] = set(texts.tolist())
        return self._fixed[row]

    @cached_property
    def kept(self) -> tuple[Integers, Words]:
        """The texts that are kept from the batches of samples: row and hash."""
        return self.kept_from(np.arange(len(self)))

    def kept_from(self, some: Integers) -> tuple[Integers, Words]:
        """Return the texts that are kept from the batches of some samples, as ``kept``."""
        rows, words = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        if self.plan.anchors is not None:
            streams = self.plan.streams[some]
            for number in np.flatnonzero(np.bincount(streams)).tolist():
                mine = some[streams == number]
                counts, found = self.near[number].of(self.plan.anchors[0, mine])
                rows.append(np.repeat(mine, counts))
                words.append(found)
        return np.concatenate(rows), np.concatenate(words)

    def kept_by(self, row: int) -> set[int]:
        """Return the texts that are kept from the batch of a sample."""
        if row not in self._kept:
            self._kept[row] = {*self.kept_from(np.array([row]))[1].tolist()}
        return self._kept[row]

    def again(
        self, rows: Integers, columns: Integers, attempts: Integers
    ) -> tuple[FoundNegatives, Flags]:
        """Return other negatives for columns of samples, and which of them are legal."""
        found, legal = blank(len(rows)), np.zeros(len(rows), dtype=bool)
        owners, places, slots = self.owners[rows], self.places[rows], self.shifts[rows] + columns
        for owner, slot in {*zip(owners.tolist(), slots.tolist(), strict=True)}:
            (mine,) = np.nonzero((owners == owner) & (slots == slot))
            stream, requests = self.requests[owner]
            asked = requests.part(places[mine])
            drawn, legal[mine] = stream.again(asked, slot, attempts[mine])
            found.put(mine, drawn)
        return found, legal

    def options(self, row: int) -> FoundNegatives:
        """Return all negatives that a sample may have, once per text."""
        stream, requests = self.requests[int(self.owners[row])]
        return stream.options(requests.part(self.places[row : row + 1]))

    def put(self, rows: Integers, columns: Integers, found: FoundNegatives) -> None:
        """Set other negatives."""
        plan = self.plan
        plan.chunks[columns, rows] = found.chunks
        plan.hashes[columns, rows] = found.hashes
        if plan.candidates is not None:
            first = len(plan.chunks) - len(plan.candidates)  # columns other than negatives
            plan.candidates[columns - first, rows] = found.origins


def redraw(drawn: Drawn, batch: Integers) -> tuple[Integers, Integers]:
    """Replace negatives that repeat a text of their batch, as far as possible.

    Returns rows and columns of the texts that still repeat another; ``batch`` ascends.
    """
    free = drawn.free.reshape(-1)
    taken = _Taken(drawn, batch)
    some = taken.repeated()
    some = some[np.argsort(free[some], kind="stable")]  # fixed texts come first
    _, at, which = np.unique(taken.words[some], return_index=True, return_inverse=True)
    # not the first of its word, unless that is of the same sample (SimCSE)
    some = some[some[at[which]] % len(drawn) != some % len(drawn)]
    if len(drawn.kept[0]):
        some = np.flatnonzero(taken.kept_from_others(some))
    columns, rows = np.divmod(some, len(drawn))
    todo = np.flatnonzero(free[some])
    repeats = np.ones(len(rows), dtype=bool)
    for attempts in _ATTEMPTS:
        if len(todo) == 0:
            break
        cells = np.tile(todo, len(attempts))
        found, legal = drawn.again(rows[cells], columns[cells], np.repeat(attempts, len(todo)))
        found, cells = found.part(legal), cells[legal]
        took = taken.take(cells, batch[rows[cells]], found.hashes)
        drawn.put(rows[cells[took]], columns[cells[took]], found.part(took))
        repeats[cells[took]] = False
        todo = todo[repeats[todo]]
    return rows[repeats], columns[repeats]


class _Taken:
    """The texts of batches, and those kept from them."""

    def __init__(self, drawn: Drawn, batch: Integers) -> None:
        self._batch, self._hashes = batch, drawn.plan.hashes
        self.words = pair_hashes(batch, self._hashes).reshape(-1)  # of batch and text
        self._sorted = np.sort(self.words)
        self._new: set[int] = set()
        self._keeping, kept = drawn.kept
        self._kept = kept ^ mix(batch.astype(np.uint64))[self._keeping]

    def repeated(self) -> Integers:
        """Return the words that occur several times."""
        again = self._sorted[1:][self._sorted[1:] == self._sorted[:-1]]
        return self._at(again)

    def _at(self, words: Words) -> Integers:
        """Return which of the words are among some in ascending order."""
        at = Sketch(words).among(self.words)
        return at[places(words, self.words[at]) >= 0]

    def kept_from_others(self, and_also: Integers) -> Flags:
        """Return whether samples other than its own keep each word from the batch."""
        owners, kept = self._kept_among(self._batch, self._hashes)
        found, samples = np.zeros(len(self.words), dtype=bool), len(self._batch)
        found[and_also] = True
        order = np.lexsort((owners, kept))
        kept, owners, at = kept[order], owners[order], self._at(kept[order])
        # the first and the last that keep a word say whether another sample does
        low, high = (np.searchsorted(kept, self.words[at], side) for side in ("left", "right"))
        rows = at % samples
        found[at[(owners[low] != rows) | (owners[high - 1] != rows)]] = True
        return found

    def take(self, cells: Integers, batch: Integers, hashes: Words) -> Flags:
        """Add texts that are missing, one after the other and one a cell; return which."""
        words = pair_hashes(batch, hashes)
        missing: Flags = places(self._sorted, words) < 0
        if len(self._kept):
            missing &= places(np.sort(self._kept_among(batch, hashes)[1]), words) < 0
        served = set[int]()
        for at in np.flatnonzero(missing).tolist():
            word, cell = int(words[at]), int(cells[at])
            missing[at] = cell not in served and word not in self._new
            if missing[at]:
                served.add(cell)
                self._new.add(word)
        return missing

    def _kept_among(self, batch: Integers, hashes: Words) -> tuple[Integers, Words]:
        """Return what of batches and texts is kept, and more: samples and words."""
        # words are those of ``pair_hashes`` before they are mixed, which costs more than a look
        at = Sketch((hashes ^ mix(batch.astype(np.uint64))).reshape(-1)).among(self._kept)
        return self._keeping[at], mix(self._kept[at])


class OneBatch:
    """A batch without a text twice, composed sample by sample, the first that fits."""

    def __init__(self, drawn: Drawn) -> None:
        self._drawn = drawn
        self.rows: list[int] = []  # rows of its samples
        self.found: dict[_Cell, FoundNegatives] = {}  # negatives drawn again
        self._fixed: set[int] = set()  # texts of anchors and positives
        self._kept: dict[int, int] = {}  # texts kept from its anchors: by a row, or -1 by several
        self._holder: dict[int, _Cell] = {}  # of each other text
        self._options: dict[int, FoundNegatives] = {}
        self._refused: defaultdict[int, int] = defaultdict(int)  # samples, by stream

    def take(self, rows: Iterable[int], room: int) -> bool:
        """Add samples that fit, few of a stream without negatives; return whether it is full."""
        for row in rows:
            if len(self.rows) >= room:
                break
            if self._fits(row):
                stream = int(self._drawn.plan.streams[row])
                if self._refused[stream] < _REFUSED and not self.add(row):
                    self._refused[stream] += 1
        return len(self.rows) >= room

    def _fits(self, row: int) -> bool:
        """Whether anchor and positive of a sample and of those there get along."""
        texts, kept = self._drawn.fixed(row), self._drawn.kept_by(row)
        return self._fixed.isdisjoint(texts | kept) and self._kept.keys().isdisjoint(texts)

    def add(self, row: int) -> bool:
        """Add a sample if its negatives, and those with its texts, can be replaced."""
        texts, holder = self._drawn.fixed(row), self._holder
        kept = self._drawn.kept_by(row)
        held: dict[int, _Cell] = {}
        found: dict[_Cell, FoundNegatives] = {}

        def is_free(text: int, of: int = row) -> bool:
            taken = text in texts or text in held or text in holder or text in self._fixed
            barred = self._kept.get(text, of) != of or (of != row and text in kept)
            return not (taken or barred)

        again = [holder[text] for text in sorted(texts | kept) if text in holder]
        for column in np.flatnonzero(self._drawn.free[:, row]).tolist():
            if is_free(text := int(self._drawn.plan.hashes[column][row])):
                held[text] = (row, column)
            else:
                again.append((row, column))
        for cell in again:
            if (negative := self._another(*cell, partial(is_free, of=cell[0]))) is None:
                return False
            held[int(negative.hashes[0])], found[cell] = cell, negative
        self._fixed |= texts
        self._kept |= {text: row if self._kept.get(text, row) == row else -1 for text in kept}
        for text in (texts | kept) & holder.keys():
            del holder[text]
        holder |= held
        self.found |= found
        self.rows.append(row)
        return True

    def _another(
        self, row: int, column: int, is_free: Callable[[int], bool]
    ) -> FoundNegatives | None:
        for attempt in range(_SOME):
            cell = np.array([row]), np.array([column])
            found, legal = self._drawn.again(*cell, np.array([attempt]))
            if legal[0] and is_free(int(found.hashes[0])):
                return found
        if row not in self._options:
            self._options[row] = self._drawn.options(row)
        options = self._options[row]
        free = (at for at, text in enumerate(options.hashes.tolist()) if is_free(text))
        at = next(free, None)
        return None if at is None else options.part(slice(at, at + 1))

    def made(self) -> Drawn:
        """Return the samples with their negatives."""
        made = self._drawn.part(np.array(self.rows, np.int64))
        self.put_negatives(made, range(len(self.rows)))
        return made

    def put_negatives(self, made: Drawn, places: Iterable[int]) -> None:
        """Set the new negatives of its samples, by their places among others."""
        at = dict(zip(self.rows, places, strict=True))
        for (row, column), negative in self.found.items():
            made.put(np.array([at[row]]), np.array([column]), negative)


def one_batch(tiers: Iterable[Drawn], room: int) -> Drawn:
    """Return samples without a text twice, from ever more: ``room``, or what there is."""
    for pool in tiers:
        batch = OneBatch(pool)
        if batch.take(range(len(pool)), room):
            return batch.made()
    counts: defaultdict[int, int] = defaultdict(int)
    for row in range(len(pool)):
        for text in pool.fixed(row):
            counts[text] += 1
    often = [max(map(counts.__getitem__, pool.fixed(row)), default=0) for row in range(len(pool))]
    rare = OneBatch(pool)
    rare.take(np.argsort(often, kind="stable").tolist(), room)
    return max(batch, rare, key=lambda one: len(one.rows)).made()
