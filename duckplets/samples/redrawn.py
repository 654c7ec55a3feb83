"""Draw negatives of planned samples again, until no text comes twice in a batch.

    draws ─repeats→ a few hashed draws ─what is left→ texts taken in turn, as in a matching

Anchors and positives stay, and so does the first of the negatives that have one text. What is drawn
again for a batch follows from that batch alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.pools.arrays import pair_hashes
from duckplets.samples.negative_request import FoundNegatives, Wanting, blank
from duckplets.samples.planned import joined, without_negative

if TYPE_CHECKING:
    from duckplets.samples.planned import Plan
    from duckplets.samples.stream import Stream

_REDRAWS = 24  # by hashes; half of what can be drawn taken leaves one in 2^24
_SOME = 2  # of them where all that can be drawn is looked at after that
_REFUSED = 16  # samples of a stream that lack negatives, after which a batch takes none of it

_Cell: TypeAlias = tuple[int, int]  # row and column of a text


@dataclass(frozen=True, slots=True)
class Asked:
    """The draws of one stream among others.

    Attributes:
        rows: Which of them.
        stream: Their stream.
        wanting: They themselves.
    """

    rows: Integers
    stream: Stream
    wanting: Wanting


@dataclass(frozen=True)
class Drawn:
    """Planned samples, and what their negatives may be drawn from again.

    Attributes:
        plan: The samples. Negatives are replaced in its arrays.
        draws: Row of the draw that each sample is of.
        shifts: What to add to a column of a sample for the number of the negative in its draw.
        asked: Draws by stream.
        count: How many draws there are.
    """

    plan: Plan
    draws: Integers
    shifts: Integers
    asked: Sequence[Asked]
    count: int

    def __len__(self) -> int:
        return len(self.plan)

    def part(self, rows: slice | Integers) -> Drawn:
        """Return some of the samples."""
        return replace(
            self, plan=self.plan.part(rows), draws=self.draws[rows], shifts=self.shifts[rows]
        )

    def joined(self, other: Drawn) -> Drawn:
        """Return these samples and others after them."""
        more = (replace(asked, rows=asked.rows + self.count) for asked in other.asked)
        return Drawn(
            joined([self.plan, other.plan]),
            np.concatenate([self.draws, other.draws + self.count]),
            np.concatenate([self.shifts, other.shifts]),
            [*self.asked, *more],
            self.count + other.count,
        )

    @cached_property
    def free(self) -> Flags:
        """Which texts may be drawn again: shape (slots, samples)."""
        found = np.zeros((len(self.plan.hashes), len(self)), dtype=bool)
        if self.plan.labels is None:
            found[2:] = True
        else:
            found[1] = ~without_negative(self.plan)
        return found

    @cached_property
    def staying(self) -> Words:
        """The texts of every sample that are not drawn again, a row a slot; some twice."""
        hashes, free = self.plan.hashes, self.free
        slots = [slot for slot in range(len(hashes)) if not free[slot].all()]
        return np.stack([np.where(free[slot], hashes[0], hashes[slot]) for slot in slots])

    @cached_property
    def fixed(self) -> list[tuple[int, ...]]:
        """The same of each sample."""
        return list(zip(*self.staying.tolist(), strict=True))

    @cached_property
    def _owners(self) -> tuple[Integers, Integers]:
        """For every draw which of ``asked`` it is in, and where there."""
        part, at = np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)
        for number, asked in enumerate(self.asked):
            part[asked.rows] = number
            at[asked.rows] = np.arange(len(asked.rows))
        return part, at

    def again(
        self, rows: Integers, columns: Integers, attempt: int
    ) -> tuple[FoundNegatives, Flags]:
        """Return other negatives for some columns of samples, and which of them are legal."""
        found, legal = blank(len(rows)), np.zeros(len(rows), dtype=bool)
        draws, slots = self.draws[rows], self.shifts[rows] + columns
        parts, at = (of[draws] for of in self._owners)
        for part, slot in {*zip(parts.tolist(), slots.tolist(), strict=True)}:
            (mine,) = np.nonzero((parts == part) & (slots == slot))
            asked = self.asked[part]
            drawn, legal[mine] = asked.stream.again(asked.wanting.part(at[mine]), slot, attempt)
            found.put(mine, drawn)
        return found, legal

    def options(self, row: int) -> FoundNegatives:
        """Return all negatives that a sample may have, each text once."""
        part, at = (of[self.draws[row : row + 1]] for of in self._owners)
        asked = self.asked[int(part[0])]
        return asked.stream.options(asked.wanting.part(at))

    def stream_of(self, row: int) -> Stream:
        """Return the stream that a sample with negatives is of."""
        return self.asked[int(self._owners[0][self.draws[row]])].stream

    def put(self, rows: Integers, columns: Integers, found: FoundNegatives) -> None:
        """Give samples other negatives."""
        plan = self.plan
        for column in np.unique(columns).tolist():
            here = columns == column
            plan.chunks[column][rows[here]] = found.chunks[here]
            plan.hashes[column][rows[here]] = found.hashes[here]
            if plan.candidates is not None:
                told = plan.candidates[column - len(plan.chunks) + len(plan.candidates)]
                told[rows[here]] = found.told[here]


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


def settle(drawn: Drawn, rows: Integers) -> tuple[int, int] | None:
    """Give all negatives of a batch different texts, whatever its anchors and positives are.

    Args:
        drawn: Its plan is changed.
        rows: The samples of the batch.

    Returns:
        None; or if there are not enough texts a sample that has none, and how many it and those
        that have these could take.
    """
    batch = OneBatch(drawn)
    batch.fixed.update(text for row in rows.tolist() for text in drawn.fixed[row])
    cells = [cell for row in rows.tolist() for cell in batch.cells(row)]
    for cell in [cell for cell in cells if not batch.keep(cell)]:
        if not batch.place(cell):
            return cell[0], batch.seen
    batch.put()
    return None


class OneBatch:
    """A batch without a text twice, put together sample by sample.

    A negative takes a text that another one has, if that one can have yet another, and so on: an
    augmenting path (Kuhn). So a sample is left out only if no choice of negatives lets it in.

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
        self._refused: Counter[int] = Counter()  # samples, by stream

    def fitting(self, rows: Iterable[int]) -> int:
        """Add samples up to one whose negatives do not fit; return how many."""
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
        texts = {*self._drawn.fixed[row]}
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
        path = self._path(cell)
        for one, found in path:
            self._found[one] = found
            self._holder[int(found.hashes[0])] = one
        return bool(path)

    def _path(self, cell: _Cell) -> list[tuple[_Cell, FoundNegatives]]:
        """Return who takes what so that a negative gets a text; each leaves its to the one before.

        Nothing, if no text is left.
        """
        reached: dict[_Cell, tuple[_Cell, FoundNegatives]] = {}
        seen: set[int] = set()
        waiting = [cell]
        for one in waiting:
            if one[0] not in self._options:
                self._options[one[0]] = self._drawn.options(one[0])
            options = self._options[one[0]]
            for place, text in enumerate(options.hashes.tolist()):
                if text in seen or text in self.fixed:
                    continue
                seen.add(text)
                step = one, options.part(slice(place, place + 1))
                if text in self._holder:
                    reached[self._holder[text]] = step
                    waiting.append(self._holder[text])
                    continue
                path = [step]
                while step[0] != cell:
                    step = reached[step[0]]
                    path.append(step)
                return path
        self.seen = len(seen)
        return []

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
    _, which, counts = np.unique(pool.staying, return_inverse=True, return_counts=True)
    often = counts[which.reshape(pool.staying.shape)].max(axis=0)
    rare = OneBatch(pool)
    rare.take(np.argsort(often, kind="stable").tolist(), room)
    return max(batch, rare, key=lambda one: len(one.rows)).made()
