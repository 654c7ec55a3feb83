"""Draw the negatives of planned samples again until no batch repeats a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from duckplets.base.arrays import Flags, Integers, Sketch, Words, places
from duckplets.mining.near import NearTexts
from duckplets.order.permute import mix
from duckplets.pools.arrays import NegativeRequests
from duckplets.samples.negatives import FoundNegatives, blank
from duckplets.samples.plan import Plan, joined, without_negative
from duckplets.samples.stream import Stream

# Numbers of hashed attempts, in groups that are tried together. If half of the options are taken,
# one in 2^24 of the FEW fails. MANY are for samples that cannot move to another batch.
FEW, MANY = np.split(np.arange(24), [1, 16]), np.split(np.arange(512), [1, 16, 128])

_NOTHING: set[int] = set()
_TIMES = 16  # times that others of a stream replace its samples without negatives


@dataclass(frozen=True)
class Drawn:
    """Planned samples; negatives can be replaced in the arrays of the plan."""

    plan: Plan
    owners: Integers  # number of the requests of each sample
    places: Integers  # row of each in its requests
    shifts: Integers  # column of a sample + this = number of the negative in its draw
    requests: Sequence[tuple[Stream, NegativeRequests]]  # the requests they were drawn for
    near: Sequence[NearTexts] = ()  # of each stream, if texts near anchors are excluded
    _excluded: dict[int, set[int]] = field(default_factory=dict, init=False)

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
            drawn = () if self.plan.candidates is None else self.plan.candidates
            found[len(self.plan.chunks) - len(drawn) : len(self.plan.chunks)] = True
        else:
            found[1] = ~without_negative(self.plan)
        return found

    def fixed(self, row: int) -> set[int]:
        """Return the texts of a sample that are not drawn again."""
        return {*self.plan.hashes[:, row][~self.free[:, row]].tolist()}

    @cached_property
    def excluded(self) -> tuple[Integers, Words]:
        """The row of each sample and the hash of each text that it excludes from its batch."""
        return self.excluded_from(np.arange(len(self)))

    def excluded_from(self, some: Integers) -> tuple[Integers, Words]:
        """Return the texts that some samples exclude from their batches, as ``excluded``."""
        rows, words = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        if self.plan.anchors is not None:
            streams = self.plan.streams[some]
            for number in np.flatnonzero(np.bincount(streams)).tolist():
                mine = some[streams == number]
                counts, found = self.near[number].of(self.plan.anchors[0, mine])
                rows.append(np.repeat(mine, counts))
                words.append(found)
        return np.concatenate(rows), np.concatenate(words)

    def excluded_by(self, row: int) -> set[int]:
        """Return the texts that a sample excludes from its batch."""
        if self.plan.anchors is None:
            return _NOTHING
        if row not in self._excluded:
            self.look_up(np.array([row]))
        return self._excluded[row]

    def look_up(self, some: Integers) -> None:
        """Look up the texts of ``excluded_by`` for several samples at once."""
        rows, words = self.excluded_from(some)
        self._excluded.update((row, set()) for row in some.tolist())
        for row, word in zip(rows.tolist(), words.tolist(), strict=True):
            self._excluded[row].add(word)

    def again(
        self, rows: Integers, columns: Integers, attempts: Integers
    ) -> tuple[FoundNegatives, Flags]:
        """Return other negatives for columns of samples, and whether each is legal."""
        found, legal = blank(len(rows)), np.zeros(len(rows), dtype=bool)
        owners, places, slots = self.owners[rows], self.places[rows], self.shifts[rows] + columns
        for owner, slot in {*zip(owners.tolist(), slots.tolist(), strict=True)}:
            (mine,) = np.nonzero((owners == owner) & (slots == slot))
            stream, requests = self.requests[owner]
            some = requests.part(places[mine])
            drawn, legal[mine] = stream.again(some, slot, attempts[mine])
            found.put(mine, drawn)
        return found, legal

    def put(self, rows: Integers, columns: Integers, found: FoundNegatives) -> None:
        """Set other negatives."""
        plan = self.plan
        plan.chunks[columns, rows] = found.chunks
        plan.hashes[columns, rows] = found.hashes
        if plan.candidates is not None:
            first = len(plan.chunks) - len(plan.candidates)  # columns other than negatives
            plan.candidates[columns - first, rows] = found.origins


def redraw(
    drawn: Drawn, batch: Integers, attempts: Sequence[Integers] = FEW
) -> tuple[Integers, Integers]:
    """Replace negatives that repeat a text of their batch; return places that still repeat one."""
    free = drawn.free.reshape(-1)
    taken = _Taken(drawn, batch)
    some = taken.repeated()
    some = some[np.argsort(free[some], kind="stable")]  # fixed texts come first
    _, at, which = np.unique(taken.words[some], return_index=True, return_inverse=True)
    # not the first of its word, unless the same sample has it twice (SimCSE)
    some = some[some[at[which]] % len(drawn) != some % len(drawn)]
    if len(drawn.excluded[0]):
        some = np.flatnonzero(taken.excluded_by_others(some))
    columns, rows = np.divmod(some, len(drawn))
    todo = np.flatnonzero(free[some])
    repeats = np.ones(len(rows), dtype=bool)
    for several in attempts:
        if len(todo) == 0:
            break
        cells = np.tile(todo, len(several))
        found, legal = drawn.again(rows[cells], columns[cells], np.repeat(several, len(todo)))
        found, cells = found.part(legal), cells[legal]
        took = taken.take(cells, batch[rows[cells]], found.hashes)
        drawn.put(rows[cells[took]], columns[cells[took]], found.part(took))
        repeats[cells[took]] = False
        todo = todo[repeats[todo]]
    return rows[repeats], columns[repeats]


class _Taken:
    """The texts of batches, and the texts excluded from them."""

    def __init__(self, drawn: Drawn, batch: Integers) -> None:
        hashes, self._samples = drawn.plan.hashes, len(batch)
        self.words = _words(batch, hashes).reshape(-1)
        repeats_own = hashes == hashes[0]  # families are often their anchor's text
        repeats_own[0] = False
        self._sorted = np.sort(self.words[~repeats_own.reshape(-1)])
        self._new: set[int] = set()
        self._again = self._sorted[1:][self._sorted[1:] == self._sorted[:-1]]
        self._excluding, excluded = drawn.excluded
        self._excluded = _words(batch[self._excluding], excluded)

    def repeated(self) -> Integers:
        return self._at(self._again)

    def _at(self, words: Words) -> Integers:
        """Return the indexes of ``self.words`` that are among ascending words."""
        at = Sketch(words).among(self.words)
        return at[places(words, self.words[at]) >= 0]

    def excluded_by_others(self, and_also: Integers) -> Flags:
        """Return whether another sample excludes each word from its batch."""
        at = Sketch(self.words).among(self._excluded)
        owners, excluded = self._excluding[at], self._excluded[at]
        # most are a sample's own positive, which no other sample has
        is_own = np.zeros(len(excluded), dtype=bool)
        for words in self.words.reshape(-1, self._samples):
            is_own |= words[owners] == excluded
        is_own[Sketch(self._again).among(excluded)] = False
        owners, excluded = owners[~is_own], excluded[~is_own]
        found = np.zeros(len(self.words), dtype=bool)
        found[and_also] = True
        order = np.lexsort((owners, excluded))
        excluded, owners, at = excluded[order], owners[order], self._at(excluded[order])
        # compare the first and the last sample that exclude a word
        low, high = (np.searchsorted(excluded, self.words[at], side) for side in ("left", "right"))
        rows = at % self._samples
        found[at[(owners[low] != rows) | (owners[high - 1] != rows)]] = True
        return found

    def take(self, cells: Integers, batch: Integers, hashes: Words) -> Flags:
        """Add missing texts, in order and at most one for each cell; return which were added."""
        words = _words(batch, hashes)
        missing: Flags = places(self._sorted, words) < 0
        if len(self._excluded):
            excluded = self._excluded[Sketch(words).among(self._excluded)]
            missing &= places(np.sort(excluded), words) < 0
        served = set[int]()
        for at in np.flatnonzero(missing).tolist():
            word, cell = int(words[at]), int(cells[at])
            missing[at] = cell not in served and word not in self._new
            if missing[at]:
                served.add(cell)
                self._new.add(word)
        return missing


def _words(batch: Integers, hashes: Words) -> Words:
    """Return one word per (batch, text)."""
    return hashes ^ mix(batch.astype(np.uint64))


def one_batch(pool: Drawn, room: int) -> Drawn:
    """Choose up to ``room`` samples by their anchors and positives, then draw their negatives."""
    # Others replace samples without a negative; after ``_TIMES`` of them a stream gets fewer.
    refused, limits, times = set[int](), dict[int, int](), Counter[int]()
    while True:
        rows = _fitting(pool, room, refused, limits)
        batch = pool.part(rows)
        failing, _ = redraw(batch, np.zeros(len(batch), np.int64), MANY)
        if len(failing) == 0:
            return batch
        failing, streams = np.unique(failing), batch.plan.streams
        counts = np.bincount(streams)
        stream = int(streams[failing[counts[streams[failing]].argmax()]])
        failing = failing[streams[failing] == stream]
        failing = failing[-max(1, len(failing) // 4) :]
        refused.update(rows[failing].tolist())
        times[stream] += 1
        if times[stream] >= _TIMES:
            limits[stream] = int(counts[stream]) - len(failing)


def _fitting(drawn: Drawn, room: int, refused: set[int], limits: Mapping[int, int]) -> Integers:
    """Return the first samples whose fixed texts differ, up to the limit of each stream."""
    texts, excluded, rows, counts = set[int](), set[int](), list[int](), Counter[int]()
    for row, stream in enumerate(drawn.plan.streams.tolist()):
        if len(rows) >= room:
            break
        if row in refused or counts[stream] >= limits.get(stream, room):
            continue
        own, near = drawn.fixed(row), drawn.excluded_by(row)
        if texts.isdisjoint(own | near) and excluded.isdisjoint(own):
            texts |= own
            excluded |= near
            rows.append(row)
            counts[stream] += 1
    return np.array(rows, np.int64)
