"""Let no text come twice in a batch: samples change places within blocks of batches.

block ─redraw→ negatives that differ ─_Block→ samples that fit in other batches ─_filled→ plan

Negatives that repeat a text of their batch are drawn again; ``no_duplicates="negatives"`` does no
more; ``"group"`` treats the family of a sample's record as one more of its texts. A sample that
still repeats a text moves to the first batch without its texts: into a place another such sample
left, or into that of one which can move there instead. A sample that fits nowhere is displaced: its
place goes to the next sample of the block that fits, and none is served a third time before all
that fit were served twice. If no sample of the block fits, samples after the block are tried, and
finally a batch known to hold no text twice replaces the whole batch. All is a pure function of the
block (``Schedule.block``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Integers, Sketch, Words, places
from duckplets.base.sanitize import listed, shown
from duckplets.errors import RecipeError
from duckplets.order.schedule import Schedule
from duckplets.pools.arrays import NegativeRequests
from duckplets.samples.plan import Dealt, PartPlanner, Plan, joined
from duckplets.samples.redraw import Drawn, OneBatch, one_batch, redraw
from duckplets.samples.stream import Draw, Stream

NoDuplicates: TypeAlias = bool | str  # "negatives", "group" or a value of records

BLOCK_BATCHES = 64  # at most 64: the batches with a text are the bits of one word

_KNOWN = 1 << 17  # samples of a block that is cached
_FURTHER = 8  # growth of the number of samples drawn if those did not suffice
_FARTHEST = 1 << 20  # samples tried of a stream, if it has no more anchors


class _Redrawing(PartPlanner):
    """Plan whole batches whose negatives can be drawn again."""

    needs_all = True

    def _drawn(self, numbers: Integers, dealt: Iterable[Dealt]) -> Drawn:
        requests = list[tuple[Stream, NegativeRequests]]()
        owners, places = np.zeros((2, len(numbers)), np.int64)

        def note(number: int, at: Integers, draw: Draw) -> None:
            if draw.requests is not None:
                owners[at], places[at] = len(requests), np.arange(len(at))
                requests.append((self.streams[number], draw.requests))

        plan, per_draw = self._draws(numbers, dealt, note), self.samples_per_draw
        draws, within = np.divmod(plan.positions, per_draw)
        draws -= numbers[:1]
        near = [stream.near for stream in self.streams if stream.near is not None]
        return Drawn(plan, owners[draws], places[draws], within - 2, requests, near)

    def _span(self, schedule: Schedule, low: int, high: int) -> Drawn:
        """Draw the samples at positions ``low … high-1``, whatever they repeat."""
        per_draw = self.samples_per_draw
        numbers = np.arange(low // per_draw, -(-high // per_draw))
        first = int(numbers[0]) * per_draw
        drawn = self._drawn(numbers, self._dealt(schedule, numbers))
        return drawn.part(slice(low - first, high - first))


def _places(positions: Integers, offset: int) -> slice | Integers:
    """Return the indices of ascending positions in a plan that begins at ``offset``."""
    low, high = int(positions[0]) - offset, int(positions[-1]) - offset + 1
    return slice(low, high) if high - low == len(positions) else positions - offset


class NegativesApartPlanner(_Redrawing):
    """Plan batches whose negatives differ from all other texts of their batch."""

    def plan_at(self, positions: Integers) -> Plan:
        """Plan ascending positions, with the whole batches around them."""
        if len(positions) == 0:
            return super().plan_at(positions)
        start, stop, size = int(positions[0]), int(positions[-1]) + 1, self.schedule.batch
        low, high = start - start % size, stop + -stop % size
        if self.end is not None and stop <= self.end:
            high = min(high, self.end)
        drawn = self._span(self.schedule, low, high)
        batch = drawn.plan.positions // size
        rows, columns = redraw(drawn, batch)
        for number in np.unique(batch[rows[drawn.free[columns, rows]]]).tolist():
            one, (rows,) = OneBatch(drawn), np.nonzero(batch == number)
            for row in rows.tolist():
                if not one.add(row):
                    raise self._refused(drawn, row, rows, len(one.rows))
            one.put_negatives(drawn, one.rows)
        return drawn.plan.part(_places(positions, low))

    def _refused(self, drawn: Drawn, row: int, rows: Integers, fitting: int) -> RecipeError:
        """Return the error for the first sample of a batch that cannot be made to fit."""
        stream = self.streams[drawn.plan.streams[row]]
        free, fixed = drawn.free[:, rows].sum(), map(drawn.fixed, rows.tolist())
        batch = self.schedule.begin + drawn.plan.positions[row] // self.schedule.batch
        return RecipeError(
            f"no_duplicates='negatives' cannot be kept: batch {batch} "
            f"wants {free} different negatives that are none of the {len(set().union(*fixed))} "
            f"texts of its anchors and positives, and one of them (recipe {stream.recipe.name!r}, "
            f"source {stream.source!r}) has no text left to choose; lower negatives"
            + (f", or batch_size to at most {fitting:,} for all ranks" if fitting else "")
        )

    def first_change(self, before: Schedule, end: int | None) -> int | None:
        """Return the first position whose sample differs from an earlier schedule's."""
        changes = [super().first_change(before, end)]
        if self.end != end:  # the batch in which the run ends is different
            least = min(one for one in (self.end, end) if one is not None)
            changes.append(least - least % self.schedule.batch)
        return min((change for change in changes if change is not None), default=None)


class NoDuplicatesPlanner(_Redrawing):
    """Plan batches in which no text comes twice; samples change places within a block."""

    displaces = True
    _known: tuple[Schedule, tuple[int, int], Plan] | None = None  # the last block

    @cached_property
    def _spares(self) -> dict[tuple[int, ...], Drawn]:
        """By the streams in force: samples of one batch without a text twice."""
        return {}

    def plan_at(self, positions: Integers) -> Plan:
        """Plan ascending positions, with the whole blocks around them."""
        if len(positions) == 0:
            return super().plan_at(positions)
        start, stop = int(positions[0]), int(positions[-1]) + 1
        # another thread may set another schedule meanwhile
        schedule, known = self.schedule, self._known
        blocks = [self.block(start, schedule)]
        while blocks[-1][1] < stop:
            blocks.append(self.block(blocks[-1][1], schedule))
        parts, offset = [], blocks[0][0]
        if known is not None and known[0] is schedule and known[1] == blocks[0]:
            del blocks[0]
            parts.append(known[2])
        if blocks:
            first = blocks[0][0]
            drawn = self._span(schedule, first, blocks[-1][1])  # in one call: each has a cost
        for low, high in blocks:
            step, draws = schedule.begin + low // schedule.batch, -(-high // self.samples_per_draw)
            plan = arranged(
                drawn.part(slice(low - first, high - first)),
                schedule.batch,
                self._further(schedule, step, draws),
                partial(self._spare, schedule, step),
                Sharing(self.groups, self._several),
            )
            parts.append(plan)
        if blocks:
            self._known = (schedule, blocks[-1], parts[-1]) if len(parts[-1]) <= _KNOWN else None
        return joined(parts).part(_places(positions, offset))

    def _further(self, schedule: Schedule, step: int, draws: int) -> Iterator[Drawn]:
        """Yield samples of the streams in force at a step, from after some draws."""
        yield from self._turns(self._reached(schedule, step, draws), schedule.batch)

    def _spare(self, schedule: Schedule, step: int, room: int, group: int) -> Drawn:
        """Return samples for a batch without a text twice; refuse fewer than ``room``."""
        reached = self._reached(schedule, step, schedule.first_draw(step))
        reached = {number: at for number, at in reached.items() if self.groups[number] == group}
        at = tuple(sorted(reached))
        if at not in self._spares:
            turns = self._turns(dict.fromkeys(reached, 0), schedule.batch)
            self._spares[at] = one_batch(turns, schedule.batch)
        found = self._spares[at]
        if len(found) >= room:
            return found
        among = dict.fromkeys(self.streams[number].source for number in reached)
        names = listed(shown(repr(name)) for name in among)
        raise RecipeError(
            f"no_duplicates cannot be kept: at step {step:,} a batch of all ranks has {room:,} "
            f"samples, and what is drawn there ({names}) has different texts (and families, or "
            f"texts near anchors, where kept apart) for {len(found):,}; lower batch_size so it has "
            f"at most {len(found):,}"
        )

    def _reached(self, schedule: Schedule, step: int, draws: int) -> dict[int, int]:
        """Return how many of the first draws each stream in force at a step gets."""
        dealt, found = schedule.dealt(draws), dict[int, int]()
        for name in schedule.names_at(step):
            indexes, recipes = self._recipes[schedule.numbers[name]]
            found |= zip(indexes, recipes.counts(dealt[schedule.numbers[name]]), strict=True)
        return found

    def _turns(self, starts: Mapping[int, int], count: int) -> Iterator[Drawn]:
        """Yield samples of streams from some draws on: ``count`` of each, then ever more."""
        most = {number: self._visits(number) for number in starts}
        while True:
            turns = [np.arange(min(count, most[number])) for number in starts]
            place = np.argsort(np.argsort(np.concatenate(turns), kind="stable"))
            dealt, at = list[Dealt](), 0
            for (number, start), turn in zip(starts.items(), turns, strict=True):
                dealt.append((number, place[at : at + len(turn)], start + turn))
                at += len(turn)
            yield self._drawn(np.arange(len(place)), dealt)
            if count >= max(most.values()):
                break
            count *= _FURTHER

    def _visits(self, number: int) -> int:
        """Return how many draws of a stream visit all it has."""
        stream = self.streams[number]
        pool, times = stream.pool, int(np.diff(stream.pool.anchors.starts).max())
        if pool.positives is not None and not pool.compiled.own_positive:
            times = max(times, int(pool.positives.counts.max()))
        return min(len(stream) * times, max(len(stream), _FARTHEST))

    def block(self, position: int, schedule: Schedule | None = None) -> tuple[int, int]:
        """Return the block, within which samples change places, of a position."""
        schedule = schedule or self.schedule
        return schedule.block(position, schedule.batch * BLOCK_BATCHES, self.end)

    def first_change(self, before: Schedule, end: int | None) -> int | None:
        """Return the start of the first block that differs from an earlier schedule's."""
        length = self.schedule.batch * BLOCK_BATCHES
        return self.schedule.first_change_of_blocks(before, length, self.end, end)

    def check(self, schedule: Schedule, steps: Iterable[int], end: int | None) -> None:
        """Refuse a schedule whose sources have fewer different texts than a batch."""
        size = schedule.batch
        names = {schedule.names_at(step): step for step in sorted(steps, reverse=True)}
        for step in sorted(names.values()):
            room = size if end is None else min(size, end - (step - schedule.begin) * size)
            reached = self._reached(schedule, step, schedule.first_draw(step)) if room > 0 else ()
            for group in {*self.groups[list(reached)].tolist()}:
                self._spare(schedule, step, room, group)


PLANNERS: Mapping[NoDuplicates, type[PartPlanner]] = {
    False: PartPlanner,
    "negatives": NegativesApartPlanner,
}  # all others are NoDuplicatesPlanner


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which samples may share a batch: those of its keys, or if it is mixed of its group."""

    groups: Integers  # of streams
    several: int = 1  # keys of a batch that is not mixed

    def of(self, plan: Plan) -> tuple[Integers, Integers]:
        """Return labels of samples: that of their key, and that of mixed batches."""
        groups = self.groups[plan.streams]
        keys = 0 if plan.keys is None else plan.keys[0] + 1
        return (groups << 32) + keys, -1 - groups

    def places(self, plan: Plan, batch: Integers) -> Integers:
        """Return the label of every place: which samples may take it."""
        keys, groups = self.of(plan)
        if plan.keys is None:
            return keys
        order = np.lexsort((keys, batch))
        is_new = np.diff(keys[order], prepend=-1) != 0
        is_new |= np.diff(batch[order], prepend=-1) != 0
        counts = np.bincount(batch[order], weights=is_new)
        return np.where(counts[batch] > self.several, groups, keys)


def arranged(
    drawn: Drawn,
    batch_size: int,
    further: Iterator[Drawn],
    spare: Callable[[int, int], Drawn],
    sharing: Sharing,
) -> Plan:
    """Return the plan of a block in which no batch has a text twice; the last may be short.

    ``further`` yields ever more samples of its streams, ``spare`` some of a group that differ.
    """
    batch = np.arange(len(drawn)) // batch_size
    repeating, _ = redraw(drawn, batch)
    plan, displaced = drawn.plan, np.full(len(drawn), -1)
    if len(repeating) == 0:
        return replace(plan, displaced=displaced)
    own = _Block(drawn, batch, np.unique(repeating), sharing).order
    made, own = _filled(drawn, batch, own, further, spare, sharing)
    gave = np.ones(len(own), dtype=bool)
    gave[own[own >= 0]] = False
    displaced[own < 0] = plan.streams[gave]
    return replace(made.plan, positions=plan.positions, displaced=displaced)


def _filled(
    drawn: Drawn,
    batch: Integers,
    own: Integers,
    further: Iterator[Drawn],
    spare: Callable[[int, int], Drawn],
    sharing: Sharing,
) -> tuple[Drawn, Integers]:
    """Fill every hole with the next sample of another batch that fits, least served first."""
    pool, order, own = drawn, own.copy(), own.copy()
    served = (own >= 0).astype(np.int8)  # times the sample of a place is served; 0: a hole
    beyond: list[int] = []
    mended: list[tuple[OneBatch, list[int]]] = []  # with their places
    (keys, groups), labels = sharing.of(drawn.plan), sharing.places(drawn.plan, batch)
    for number in np.unique(batch[own < 0]).tolist():
        (places,) = np.nonzero(batch == number)
        places = places[np.argsort(own[places] < 0, kind="stable")]  # holes come last
        there = own[places][own[places] >= 0]
        ring = np.roll(np.arange(len(own)), -int(places.max()) - 1)[: len(own) - len(places)]
        group = int(groups[places[0]])
        ring = ring[(own[ring] >= 0) & (groups[own[ring]] == group)]
        others = ~np.isin(keys[own[ring]], labels[places]) & (labels[places[0]] != group)
        ring = ring[np.lexsort((served[ring], others))]
        while True:
            one, candidates = OneBatch(pool), map(int, np.concatenate([there, own[ring]]))
            if one.take(chain(candidates, beyond), len(places)):
                order[places] = one.rows
                served[ring[np.isin(own[ring], one.rows)]] += 1
                beyond = [row for row in beyond if row not in {*one.rows}]
                mended.append((one, places.tolist()))
                break
            if (more := next(further, None)) is None:
                order[places] = len(pool) + np.arange(len(places))
                pool = pool.joined(spare(len(places), -1 - group).part(slice(0, len(places))))
                own[places] = -1
                break
            some = np.flatnonzero(sharing.of(more.plan)[1] == group)
            beyond += (len(drawn) + some[some >= len(pool) - len(drawn)]).tolist()
            pool = drawn.joined(more)
    made = pool.part(order)
    for one, at in mended:
        one.put_negatives(made, at)
    return made, own


class _Block:
    """A block in which ``moving`` samples go to batches without their texts."""

    def __init__(self, drawn: Drawn, batch: Integers, moving: Integers, sharing: Sharing) -> None:
        self._sharing = sharing.of(drawn.plan)  # labels of samples
        self._labels = sharing.places(drawn.plan, batch)
        self.order = np.arange(len(batch))  # the sample at every place, or -1
        self.order[moving] = -1
        self._drawn, self._batch, self._hashes = drawn, batch, drawn.plan.hashes
        self._now = _bits(batch)  # the batch of every sample, as a bit; 0 while it moves
        self._now[moving] = 0
        self._ever = self._now.copy()  # and those that it has left
        self._ables: dict[int, Flags] = {}  # which samples fit into a batch
        # places by batch and label, the first one last
        self._holes: dict[tuple[int, int], list[int]] = {}
        self._free = defaultdict[int, int](int)  # batches with a hole of a label, as bits
        for place in moving.tolist()[::-1]:
            self._open(place)
        for sample in self._left(moving):
            blocked = int(self._blocked(np.array([sample]))[0])
            if not self._fits(sample, blocked):
                self._exchange(sample, blocked)

    def _left(self, moving: Integers) -> list[int]:
        """Put samples into the first batch that they fit into; return those that fit nowhere."""
        own = self._hashes[:, moving]
        kept = {sample: list[int]() for sample in moving.tolist()}
        rows, words = _among(self._drawn.kept_from(moving), own.reshape(-1))
        for sample, text in zip(rows.tolist(), words.tolist(), strict=True):
            kept[sample].append(text)
        # the batches, as bits, that moving samples with each text went to, or that keep it
        having, barred = defaultdict[int, int](int), defaultdict[int, int](int)
        blocked_of, left = self._blocked(moving).tolist(), list[int]()
        for sample, texts, blocked in zip(kept, own.T.tolist(), blocked_of, strict=True):
            for text in texts:
                blocked |= having[text] | barred[text]
            for text in kept[sample]:
                blocked |= having[text]
            if not self._fits(sample, blocked):
                left.append(sample)
                continue
            bit = int(self._now[sample])
            for text in texts:
                having[text] |= bit
            for text in kept[sample]:
                barred[text] |= bit
        return left

    def _blocked(self, samples: Integers) -> Words:
        """Return the batches, as bits, that ascending samples do not fit into."""
        hashes, own = self._hashes.reshape(-1), self._hashes[:, samples].reshape(-1)
        keeping, near = _among(self._drawn.kept_from(samples), hashes)
        words = np.concatenate([own, near])
        at = Sketch(words).among(hashes)
        having = _joined(hashes[at], self._now[at % len(self._now)], words)
        rows, barred = _among(self._drawn.kept, own)
        having[: len(own)] |= _joined(barred, self._ever[rows], own)
        found, each = np.zeros(len(samples), np.uint64), np.arange(len(samples))
        np.bitwise_or.at(found, np.tile(each, len(self._hashes)), having[: len(own)])
        np.bitwise_or.at(found, np.searchsorted(samples, keeping), having[len(own) :])
        return found

    def _fits(self, sample: int, blocked: int) -> bool:
        """Put a sample into the first hole of a batch without its texts, its own batch first."""
        free = sum(self._free[int(of[sample])] for of in self._sharing) & ~blocked
        home = int(self._batch[sample])
        first = free >> home << home or free
        if first:
            self._put(sample, (first & -first).bit_length() - 1)
        return bool(first)

    def _open(self, place: int) -> None:
        batch, label = int(self._batch[place]), int(self._labels[place])
        self._holes.setdefault((batch, label), []).append(place)
        self._free[label] |= 1 << batch

    def _put(self, sample: int, batch: int) -> None:
        label = next(
            int(of[sample]) for of in self._sharing if (batch, int(of[sample])) in self._holes
        )
        holes = self._holes[batch, label]
        self.order[holes.pop()] = sample
        if not holes:
            del self._holes[batch, label]
            self._free[label] ^= 1 << batch
        self._ables.pop(batch, None)
        self._now[sample] = 1 << batch
        self._ever[sample] |= self._now[sample]

    def _exchange(self, sample: int, blocked: int) -> None:
        """Put a sample where it fits in place of one that can fill a hole."""
        home, fits = int(self._batch[sample]), _bits(self._batch) & np.uint64(blocked) == 0
        fits &= self.order >= 0
        keys, groups = self._sharing
        fits &= (self._labels == keys[sample]) | (self._labels == groups[sample])
        if not fits.any():
            return
        for batch, label in sorted(self._holes, key=lambda hole: (hole[0] < home, hole)):
            if batch not in self._ables:
                self._ables[batch] = self._able(batch)
            able = self._ables[batch] & ((keys == label) | (groups == label))
            rows = np.flatnonzero(fits & able[self.order])
            if len(rows):
                start = int(np.searchsorted(self._batch[rows], home))
                place = int(rows[start % len(rows)])
                left = int(self._batch[place])
                self._put(int(self.order[place]), batch)
                self._open(place)
                self._put(sample, left)
                return

    def _able(self, batch: int) -> Flags:
        """Return which samples fit into a batch."""
        hashes, able = self._hashes.reshape(-1), np.ones(len(self.order), dtype=bool)
        inside = np.unique(self._hashes[:, self._now == _bits(batch)])
        _, kept = self._drawn.kept_from(np.flatnonzero(self._ever & _bits(batch)))
        barred = np.union1d(inside, kept)
        at = Sketch(barred).among(hashes)
        able[at[places(barred, hashes[at]) >= 0] % len(able)] = False
        rows, words = _among(self._drawn.kept, inside)
        able[rows[places(inside, words) >= 0]] = False
        return able


def _among(kept: tuple[Integers, Words], words: Words) -> tuple[Integers, Words]:
    """Return what of kept texts may be among words."""
    at = Sketch(words).among(kept[1])
    return kept[0][at], kept[1][at]


def _joined(words: Words, bits: Words, wanted: Words) -> Words:
    """Return for each wanted word the bits of all that are equal to it."""
    distinct, which = np.unique(words, return_inverse=True)
    found = np.zeros(len(distinct) + 1, np.uint64)
    np.bitwise_or.at(found, which, bits)
    return found[places(distinct, wanted)]  # the last is 0


def _bits(batches: Integers | int) -> Words:
    return np.left_shift(np.uint64(1), np.asarray(batches, np.uint64))
