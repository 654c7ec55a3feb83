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

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.pools.arrays import pair_hashes
from duckplets.sampling.pairs import without_negative
from duckplets.sampling.planned import joined
from duckplets.sampling.wanting import Found, Wanting, blank

if TYPE_CHECKING:
    from duckplets.sampling.planned import Plan
    from duckplets.sampling.stream import Stream

NoDuplicates: TypeAlias = bool | Literal["negatives"]

BLOCK_BATCHES = 64  # no more: the batches that have a text are the bits of one word

_REDRAWS = 24  # by hashes; half of what can be drawn taken leaves one in 2^24
_SOME = 6  # of them where all that can be drawn is looked at after that
_ROUNDS = 8  # of moving many samples at a time, while there are
_FEW = 24  # or more; fewer are faster moved one by one
_AT_ONCE = 512  # samples looked at for the places of a batch
_ONE = np.uint64(1)
_WORD = (1 << 64) - 1
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


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

    def again(self, rows: Integers, columns: Integers, attempt: int) -> tuple[Found, Flags]:
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

    def options(self, row: int) -> Found:
        """Return all negatives that a sample may have, each text once."""
        part, at = (of[self.draws[row : row + 1]] for of in self._owners)
        asked = self.asked[int(part[0])]
        return asked.stream.options(asked.wanting.part(at))

    def stream_of(self, row: int) -> Stream:
        """Return the stream that a sample with negatives is of."""
        return self.asked[int(self._owners[0][self.draws[row]])].stream

    def put(self, rows: Integers, columns: Integers, found: Found) -> None:
        """Give samples other negatives."""
        plan = self.plan
        for column in np.unique(columns).tolist():
            here = columns == column
            plan.chunks[column][rows[here]] = found.chunks[here]
            plan.hashes[column][rows[here]] = found.hashes[here]
            if plan.candidates is not None:
                told = plan.candidates[column - len(plan.chunks) + len(plan.candidates)]
                told[rows[here]] = found.told[here]


# -- negatives ------------------------------------------------------------------------------------


def redraw(drawn: Drawn, batch: Integers, attempts: int = _REDRAWS) -> tuple[Integers, Integers]:
    """Draw negatives that repeat a text of their batch again, until they differ from all it has.

    Anchors and positives stay, and so does the first of the negatives that have one text.

    Args:
        drawn: Its plan is changed.
        batch: Of every sample, in ascending order.
        attempts: How often each is drawn.

    Returns:
        Rows and columns of the texts that still repeat another of their batch.
    """
    texts, free = np.stack(drawn.plan.hashes), drawn.free
    # What stays comes first.
    order = np.concatenate([np.flatnonzero(~free), np.flatnonzero(free)])
    words = pair_hashes(batch, texts).reshape(-1)
    first = firsts(words[order])
    (again,) = np.nonzero(first != np.arange(len(order)))
    columns, rows = np.divmod(order[again], len(drawn))
    others = order[first[again]] % len(drawn) != rows  # else its own (SimCSE)
    columns, rows = columns[others], rows[others]
    todo = np.flatnonzero(free[columns, rows])
    repeats = np.ones(len(rows), dtype=bool)
    if len(todo):
        taken = _Taken(texts, batch, words)
    for attempt in range(attempts if len(todo) else 0):
        found, legal = drawn.again(rows[todo], columns[todo], attempt)
        legal[legal] = taken.take(batch[rows[todo[legal]]], found.hashes[legal])
        drawn.put(rows[todo[legal]], columns[todo[legal]], found.part(legal))
        repeats[todo[legal]] = False
        todo = todo[~legal]
        if len(todo) == 0:
            break
    return rows[repeats], columns[repeats]


class _Taken:
    """The texts that batches have.

    Args:
        texts: Of every sample, a row a slot.
        batch: Of every sample, in ascending order.
        words: ``pair_hashes`` of both.
    """

    def __init__(self, texts: Words, batch: Integers, words: Words) -> None:
        self._texts, self._batch = texts, batch
        self._shift = np.uint64(60 - len(words).bit_length())
        self._some = np.zeros(1 << (64 - int(self._shift)), dtype=bool)
        self._some[words >> self._shift] = True
        self._having: dict[int, set[int]] = {}
        self._new: set[int] = set()

    def take(self, batches: Integers, texts: Words) -> Flags:
        """Give batches texts that they do not have, one after the other; return which those are."""
        words = pair_hashes(batches, texts)
        taken = self._some[words >> self._shift]
        for at in np.flatnonzero(taken).tolist():  # few, mostly, and most of these by chance
            taken[at] = int(texts[at]) in self._texts_of(int(batches[at]))
        for at, word in enumerate(words.tolist()):
            taken[at] |= word in self._new
            self._new.add(word)
        missing: Flags = ~taken
        return missing

    def _texts_of(self, batch: int) -> set[int]:
        if batch not in self._having:
            low, high = np.searchsorted(self._batch, [batch, batch + 1])
            self._having[batch] = {*self._texts[:, low:high].reshape(-1).tolist()}
        return self._having[batch]


def settle(drawn: Drawn, rows: Integers) -> tuple[int, int] | None:
    """Give all negatives of a batch different texts, by augmenting paths (Kuhn).

    A negative takes a text that another one has, if that one can have yet another, and so on.

    Args:
        drawn: Its plan is changed.
        rows: The samples of the batch.

    Returns:
        None; or if there are not enough texts a sample that has none, and how many it and those
        that have these could take.
    """
    fixed = {text for row in rows.tolist() for text in drawn.fixed[row]}
    holder: dict[int, tuple[int, int]] = {}
    left = []
    for column, row in zip(*np.nonzero(drawn.free[:, rows]), strict=True):
        cell = int(rows[row]), int(column)
        text = int(drawn.plan.hashes[cell[1]][cell[0]])
        if text in fixed or text in holder:
            left.append(cell)
        else:
            holder[text] = cell
    options: dict[int, Found] = {}
    for cell in left:
        path, seen = _path(drawn, cell, holder, fixed, options)
        if not path:
            return cell[0], seen
        for (row, column), place in path:
            found = options[row].part(np.array([place]))
            drawn.put(np.array([row]), np.array([column]), found)
            holder[int(found.hashes[0])] = row, column
    return None


def _path(
    drawn: Drawn,
    cell: tuple[int, int],
    holder: dict[int, tuple[int, int]],
    fixed: set[int],
    options: dict[int, Found],
) -> tuple[list[tuple[tuple[int, int], int]], int]:
    """Return who takes which option so that a negative gets one, and how many texts were seen.

    Each of them leaves its text to the one before.
    """
    reached: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
    seen: set[int] = set()
    waiting = [cell]
    for one in waiting:
        if one[0] not in options:
            options[one[0]] = drawn.options(one[0])
        for place, text in enumerate(options[one[0]].hashes.tolist()):
            if text in seen or text in fixed:
                continue
            seen.add(text)
            if text in holder:
                reached[holder[text]] = (one, place)
                waiting.append(holder[text])
                continue
            path = [(one, place)]
            while one != cell:
                one, place = reached[one]
                path.append((one, place))
            return path, len(seen)
    return [], len(seen)


# -- samples --------------------------------------------------------------------------------------


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
    pool, beyond, filled = drawn, list[int](), list[tuple[Integers, Drawn]]()
    for batch in np.unique(block.batch[block.order < 0]).tolist():
        (places,) = np.nonzero(block.batch == batch)
        known = block.order[places].tolist()
        while True:
            chosen = [row for row in known if row >= 0]
            candidates = chain(moved[block.ring(batch)].tolist(), beyond)
            _take_fitting(pool.fixed, chosen, candidates, len(places))
            if len(chosen) == len(places) or (more := next(further, None)) is None:
                break
            beyond.extend(range(len(pool), len(pool) + len(more)))
            pool = pool.joined(more)
        made = pool.part(np.array(chosen, np.int64))
        if len(chosen) == len(places) and _differ(made):
            beyond = [row for row in beyond if row not in {*chosen}]
        else:
            made = spare(len(places)).part(slice(0, len(places)))
            moved[places] = -1
        filled.append((places, made))
    for places, made in filled:
        block.order[places] = len(pool) + np.arange(len(made))
        pool = pool.joined(made)
    return pool


def one_batch(tiers: Iterator[Drawn], room: int) -> Drawn:
    """Return samples of one batch that have no text twice: ``room``, or as many as are found.

    They are the first that fit, or, where these are fewer, those with rare texts before others.

    Args:
        tiers: The samples that there are, some at a time.
        room: How many are wanted.
    """
    pool, tried = next(tiers), False
    while True:
        rows = _fitting(pool, range(len(pool)), room)
        if len(rows) == room and not tried:
            made, tried = pool.part(rows), True
            if _differ(made):
                return made
        if (more := next(tiers, None)) is None:
            break
        pool = pool.joined(more)
    _, which, counts = np.unique(pool.staying, return_inverse=True, return_counts=True)
    often = counts[which.reshape(pool.staying.shape)].max(axis=0)
    rare = _fitting(pool, np.argsort(often, kind="stable").tolist(), room)
    return max(_most(pool, rows), _most(pool, rare), key=len)


def _most(drawn: Drawn, rows: Integers) -> Drawn:
    """Return the first of some samples, as many as there are different negatives for."""
    sizes = range(1, len(rows) + 1)
    most = bisect_left(sizes, True, key=lambda size: not _differ(drawn.part(rows[:size])))
    made = drawn.part(rows[:most])
    _differ(made)
    return made


def _differ(drawn: Drawn) -> bool:
    """Give the negatives of one batch different texts; return whether there are enough."""
    left, _ = redraw(drawn, np.zeros(len(drawn), np.int64), _SOME)
    return len(left) == 0 or settle(drawn, np.arange(len(drawn))) is None


def _fitting(drawn: Drawn, rows: Iterable[int], room: int) -> Integers:
    """Return the first of some samples that repeat no anchor or positive of another."""
    chosen: list[int] = []
    _take_fitting(drawn.fixed, chosen, rows, room)
    return np.array(chosen, np.int64)


def _take_fitting(
    fixed: Sequence[tuple[int, ...]], chosen: list[int], rows: Iterable[int], room: int
) -> None:
    """Add samples to those that are chosen while none of their texts that stay is repeated."""
    having = {text for row in chosen for text in fixed[row]}
    for row in rows:
        if len(chosen) >= room:
            return
        if having.isdisjoint(fixed[row]):
            having.update(fixed[row])
            chosen.append(row)


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
        self._texts, self._nothing = _shared(texts)
        # Bits: the batches that have each text, and those that have a hole.
        self._having = np.zeros(self._nothing + 1, dtype=np.uint64)
        self._open = 0
        self._able: tuple[Integers, Words] | None = None

    def move(self, moving: Integers) -> None:
        """Find other batches for samples that repeat a text; leave holes where there are none."""
        stays = np.ones(len(self.order), dtype=bool)
        stays[moving] = False
        self._note(self.order[stays], self.batch[stays])
        moving = moving[~self._seat(moving, moving)]  # who repeated a text of these only is back
        self.order[moving] = -1
        moving = self._many(moving)
        (holes,) = np.nonzero(self.order < 0)
        self._open = sum(1 << batch for batch in np.unique(self.batch[holes]).tolist())
        for sample in moving.tolist():
            self._exchange(sample)

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
        home, missing = sample // self._size, ~int(self._blocked(sample)) & _WORD
        if free := self._open & missing:
            self._put(sample, self._hole(_next_bit(free, home)))
            return True
        missing &= (1 << self._batches) - 1
        if not missing:
            return False
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
        self._put(other, self._hole(_next_bit(int(away[at]), home)))
        self._put(sample, place)
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
        texts = self._texts[:, samples[fitting]].T.tolist()
        for place, row in zip(places[fitting].tolist(), texts, strict=True):
            shared = [text for text in row if text != self._nothing]
            if holes and having.isdisjoint(shared):
                having.update(shared)
                self.order[holes.pop(0)] = self.order[place]
                self._served[place] += 1


def _numbered(groups: Integers) -> Integers:
    """Return for every item how many before it are of its group."""
    by_group = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    number = np.empty_like(groups)
    number[by_group] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return number


def _shared(texts: Words) -> tuple[Integers, int]:
    """Name the texts of several samples 0, 1, …; return the names, and how many there are.

    All other texts get the number after those, as do a sample's texts that it has in an earlier
    slot.
    """
    first = firsts(texts.reshape(-1)).reshape(texts.shape)
    again = np.zeros(texts.shape, dtype=bool)
    for slot in range(1, len(texts)):
        again[slot] = (first[slot] == first[:slot]).any(axis=0)
    several = np.bincount(first[~again], minlength=first.size) > 1
    nothing = int(several.sum())
    names = np.where(several, np.cumsum(several) - 1, nothing)[first]
    names[again] = nothing
    return names, nothing


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


def _next_bit(word: int, start: int) -> int:
    """Return the number of the first bit of a word from ``start`` on, or else from 0."""
    rest = word >> start << start or word
    return (rest & -rest).bit_length() - 1
