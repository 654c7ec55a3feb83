"""Keep the texts of a batch distinct: samples change places within blocks of batches."""

# A sample that still repeats a text after ``redraw`` moves to the first batch without its texts, or
# takes a place whose sample can move there. Otherwise the next sample that fits displaces it; no
# sample is served a third time before all that fit were served twice. If none fits, samples that
# are known to repeat no text replace the whole batch.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TypeAlias

import numpy as np

from duckplets.base.arrays import Integers, Sketch, Words, places
from duckplets.base.sanitize import listed, shown
from duckplets.errors import RecipeError
from duckplets.order.schedule import Schedule
from duckplets.pools.arrays import NegativeRequests
from duckplets.samples.plan import Drawing, PartPlanner, Plan, joined
from duckplets.samples.redraw import MANY, Drawn, one_batch, redraw
from duckplets.samples.stream import Stream

NoDuplicates: TypeAlias = bool | str  # "negatives", "group" or a value of records

BLOCK_BATCHES = 64

_ANY = -1  # group of batches of several sources
_KNOWN = 1 << 17  # samples of a block that is cached
_FURTHER = 8  # growth of the number of samples drawn if there are too few
_FARTHEST = 1 << 20  # most samples tried of a stream with fewer anchors


class _Redrawing(PartPlanner):
    """Plan whole batches whose negatives can be drawn again."""

    needs_all = True

    def _drawn(self, numbers: Integers, drawings: Sequence[Drawing]) -> Drawn:
        requests = list[tuple[Stream, NegativeRequests]]()
        owners, places = np.zeros((2, len(numbers)), np.int64)
        for number, at, draw in drawings:
            if draw.requests is not None:
                owners[at], places[at] = len(requests), np.arange(len(at))
                requests.append((self.streams[number], draw.requests))
        plan, per_draw = self._planned(numbers, drawings), self.samples_per_draw
        draws, within = np.divmod(plan.positions, per_draw)
        draws -= numbers[:1]
        near = [stream.near for stream in self.streams if stream.near is not None]
        return Drawn(plan, owners[draws], places[draws], within - 2, requests, near)

    def _span(self, schedule: Schedule, low: int, high: int) -> Drawn:
        """Draw the samples at positions ``low … high-1``; they may repeat texts."""
        per_draw = self.samples_per_draw
        numbers = np.arange(low // per_draw, -(-high // per_draw))
        first = int(numbers[0]) * per_draw
        drawn = self._drawn(numbers, [*self._draws(schedule, numbers)])
        return drawn.part(slice(low - first, high - first))


def _places(positions: Integers, offset: int) -> slice | Integers:
    """Return the indices of ascending positions in a plan that begins at ``offset``."""
    low, high = int(positions[0]) - offset, int(positions[-1]) - offset + 1
    return slice(low, high) if high - low == len(positions) else positions - offset


class DistinctNegativesPlanner(_Redrawing):
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
        batch = np.arange(len(drawn)) // size
        rows, columns = redraw(drawn, batch, MANY)
        if len(rows := rows[drawn.free[columns, rows]]):
            stream = self.streams[drawn.plan.streams[rows.min()]]
            raise RecipeError(
                f"no_duplicates='negatives': in batch "
                f"{self.schedule.begin + batch[rows.min()] + low // size}, all negatives of a "
                f"sample of recipe {stream.recipe.name!r}, source {stream.source!r} are texts of "
                f"other samples; lower negatives= or batch_size="
            )
        return drawn.plan.part(_places(positions, low))

    def first_change(self, before: Schedule, end: int | None) -> int | None:
        """Return the first position whose sample differs from an earlier schedule's."""
        changes = [super().first_change(before, end)]
        if self.end != end:  # the batch in which the run ends is different
            least = min(one for one in (self.end, end) if one is not None)
            changes.append(least - least % self.schedule.batch)
        return min((change for change in changes if change is not None), default=None)


class NoDuplicatesPlanner(_Redrawing):
    """Plan batches without a repeated text; samples change places within a block."""

    displaces = True
    _known: tuple[Schedule, tuple[int, int], Plan] | None = None  # the last block

    @cached_property
    def _spares(self) -> dict[tuple[tuple[int, ...], int], Drawn]:
        """Samples of batches without a repeated text, by the streams in force and a number."""
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
            plan = arranged(
                drawn.part(slice(low - first, high - first)),
                schedule.batch,
                partial(self._spare, schedule, schedule.begin + low // schedule.batch),
                self._sharing(schedule, schedule.begin + low // schedule.batch),
            )
            parts.append(plan)
        if blocks:
            self._known = (schedule, blocks[-1], parts[-1]) if len(parts[-1]) <= _KNOWN else None
        return joined(parts).part(_places(positions, offset))

    def _sharing(self, schedule: Schedule, step: int) -> Sharing:
        few, streams = set[int](), self._in_force(schedule, step)
        if schedule.mixed(step)[0]:  # others fill batches of sources with few texts
            groups = {*self.groups[streams].tolist()}
            size = schedule.batch
            few = {at for at in groups if len(self._one_batch(schedule, step, at)[1]) < size}
        return Sharing(self.groups, tuple(few))

    def _one_batch(
        self, schedule: Schedule, step: int, group: int, number: int = 0
    ) -> tuple[Sequence[int], Drawn]:
        """Return the streams of a group, and a batch without a repeated text; 0 is the largest."""
        among = self._in_force(schedule, step)
        at = tuple(n for n in among if group in (_ANY, self.groups[n]))
        if (at, number) not in self._spares:
            for pool in self._turns(at, schedule.batch, number):
                found = self._spares[at, number] = one_batch(pool, schedule.batch)
                if number or len(found) >= schedule.batch:
                    break
        return at, self._spares[at, number]

    def _spare(
        self, schedule: Schedule, step: int, room: int, group: int, number: int = 0
    ) -> Drawn:
        """Return a batch without a repeated text; refuse fewer samples than ``room``.

        Each batch of a block has a number, so that a tight run does not repeat one batch.
        """
        for turn in dict.fromkeys((number, 0)):
            at, found = self._one_batch(schedule, step, group, turn)
            if len(found) >= room:
                return found
        among = dict.fromkeys(self.streams[number].source for number in at)
        names = listed(shown(repr(name)) for name in among)
        raise RecipeError(
            f"no_duplicates: step {step:,} needs {room:,} samples for all ranks, and {names} can "
            f"fill only {len(found):,} without a repeated text, family or text near an anchor. "
            f"Lower batch_size so that a batch has at most {len(found):,}"
        )

    def _in_force(self, schedule: Schedule, step: int) -> list[int]:
        leaves = map(schedule.numbers.__getitem__, schedule.names_at(step))
        return sorted(number for leaf in leaves for number in self._recipes[leaf][0])

    def _turns(self, streams: Sequence[int], count: int, number: int) -> Iterator[Drawn]:
        """Yield ``count`` samples of each stream, after ``number`` times as many; then more."""
        most, first = [self._visits(number) for number in streams], number * count
        while True:
            turns = [first + np.arange(min(count, visits)) for visits in most]
            place = np.argsort(np.argsort(np.concatenate(turns), kind="stable"))
            ends = np.cumsum([len(turn) for turn in turns])
            each = zip(streams, np.split(place, ends[:-1]), turns, strict=True)
            drawings = [
                (number, at, self.streams[number].draw_at(turn)) for number, at, turn in each
            ]
            yield self._drawn(np.arange(len(place)), drawings)
            if count >= max(most):
                break
            count *= _FURTHER

    def _visits(self, number: int) -> int:
        """Return the number of draws that visit all pairs of a stream."""
        stream = self.streams[number]
        pool, times = stream.pool, int(np.diff(stream.pool.anchors.starts).max())
        if pool.positives is not None and not pool.compiled.own_positive:
            times = max(times, int(pool.positives.counts.max()))
        return min(len(stream) * times, max(len(stream), _FARTHEST))

    def block(self, position: int, schedule: Schedule | None = None) -> tuple[int, int]:
        """Return start and end of the block of a position; samples change places within it."""
        schedule = schedule or self.schedule
        return schedule.block(position, schedule.batch * BLOCK_BATCHES, self.end)

    def first_change(self, before: Schedule, end: int | None) -> int | None:
        """Return the start of the first block that an earlier schedule planned otherwise."""
        length = self.schedule.batch * BLOCK_BATCHES
        return self.schedule.first_change_of_blocks(before, length, self.end, end)

    def check(self, schedule: Schedule, steps: Iterable[int], end: int | None) -> None:
        """Refuse a schedule whose sources have fewer different texts than a batch."""
        size = schedule.batch
        names = {schedule.names_at(step): step for step in sorted(steps, reverse=True)}
        for step in sorted(names.values()):
            room = size if end is None else min(size, end - (step - schedule.begin) * size)
            streams = self._in_force(schedule, step) if room > 0 else []
            groups = {_ANY} if schedule.mixed(step)[0] else {*self.groups[streams].tolist()}
            for group in groups if streams else ():
                self._spare(schedule, step, room, group)


PLANNERS: Mapping[NoDuplicates, type[PartPlanner]] = {
    False: PartPlanner,
    "negatives": DistinctNegativesPlanner,
}  # all others are NoDuplicatesPlanner


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which samples may share a batch: samples of its key or group; any if it is mixed."""

    groups: Integers  # group of each stream
    few: tuple[int, ...] = ()  # groups with too few texts for a batch: their batches are mixed

    def of(self, plan: Plan) -> tuple[Integers, Integers]:
        """Return two labels of each sample: of its key, and of mixed batches."""
        groups = self.groups[plan.streams]
        keys = 0 if plan.keys is None else plan.keys[0] + 1
        return (groups << 32) + keys, _ANY - 1 - groups

    def places(self, plan: Plan, batch: Integers) -> Integers:
        """Return the label of every place; samples with this label may take it."""
        keys, groups = self.of(plan)
        labels = keys
        if plan.keys is not None:
            labels = np.where(_different(keys, batch)[batch] > 1, groups, keys)
        if not self.groups.any():  # one group
            return labels
        mixed = _different(groups, batch)[batch] > 1
        return np.where(mixed | np.isin(self.groups[plan.streams], self.few), _ANY, labels)


def _different(labels: Integers, batch: Integers) -> Integers:
    """Return the number of different labels in each batch."""
    order = np.lexsort((labels, batch))
    is_new = np.diff(labels[order], prepend=0) != 0
    is_new |= np.diff(batch[order], prepend=-1) != 0
    found: Integers = np.bincount(batch[order], weights=is_new).astype(np.int64)
    return found


def arranged(
    drawn: Drawn, batch_size: int, spare: Callable[[int, int, int], Drawn], sharing: Sharing
) -> Plan:
    """Return the plan of a block without a repeated text in a batch; the last may be short."""
    plan, displaced = drawn.plan, np.full(len(drawn), -1)
    repeating, _ = redraw(drawn, np.arange(len(drawn)) // batch_size)
    if len(repeating) == 0:
        return replace(plan, displaced=displaced)
    made, own = _Block(drawn, batch_size, np.unique(repeating), sharing).filled(spare)
    gave = np.ones(len(own), dtype=bool)
    gave[own[own >= 0]] = False
    displaced[own < 0] = plan.streams[gave]
    return replace(made, positions=plan.positions, displaced=displaced)


class _Block:
    """A block in which ``moving`` samples go to batches without their texts."""

    def __init__(self, drawn: Drawn, size: int, moving: Integers, sharing: Sharing) -> None:
        batch = np.arange(len(drawn)) // size
        self._drawn, self._size = drawn, size
        self._keys, self._groups = sharing.of(drawn.plan)
        self._labels = sharing.places(drawn.plan, batch)
        self._order = np.arange(len(drawn))  # the sample at every place; -1: a hole
        self._holes: dict[int, list[int]] = {}  # their places by batch
        for place in moving.tolist():
            self._order[place] = -1
            self._holes.setdefault(place // size, []).append(place)
        # by text of moving samples the batches, as bits, that contain it, and that exclude it
        self._having, self._excluding = defaultdict[int, int](int), defaultdict[int, int](int)
        self._note(moving)
        # by batch its texts, and the texts excluded from it
        self._contents: dict[int, tuple[set[int], set[int]]] = {}
        remaining = [sample for sample in moving.tolist() if not self._placed(sample)]
        for sample in remaining:
            if not self._placed(sample):
                self._exchange(sample)

    def _note(self, moving: Integers) -> None:
        """Note which batches contain or exclude the texts of moving samples."""
        self._drawn.look_up(moving)
        hashes, stays = self._drawn.plan.hashes, self._order >= 0
        texts, (rows, excluded) = hashes.reshape(-1), self._drawn.excluded
        own, near = hashes[:, moving].reshape(-1), self._drawn.excluded_from(moving)[1]
        at = _among(np.concatenate([own, near]), texts)
        at = at[stays[at % len(stays)]]
        batches = at % len(stays) // self._size
        for text, batch in zip(texts[at].tolist(), batches.tolist(), strict=True):
            self._having[text] |= 1 << batch
        at = _among(own, excluded)
        at = at[stays[rows[at]]]
        for text, row in zip(excluded[at].tolist(), rows[at].tolist(), strict=True):
            self._excluding[text] |= 1 << row // self._size

    def _of_batch(self, batch: int) -> range:
        return range(batch * self._size, min((batch + 1) * self._size, len(self._order)))

    def _content(self, batch: int) -> tuple[set[int], set[int]]:
        if batch not in self._contents:
            samples = self._order[self._of_batch(batch)]
            samples = samples[samples >= 0]
            texts = self._drawn.plan.hashes[:, samples].reshape(-1)
            excluded = self._drawn.excluded_from(samples)[1]
            self._contents[batch] = {*texts.tolist()}, {*excluded.tolist()}
        return self._contents[batch]

    def _texts_of(self, sample: int) -> list[int]:
        found: list[int] = self._drawn.plan.hashes[:, sample].tolist()
        return found

    def _fits(self, sample: int, batch: int) -> bool:
        texts, excluded = self._content(batch)
        own = self._texts_of(sample)
        if not (texts.isdisjoint(own) and excluded.isdisjoint(own)):
            return False
        return texts.isdisjoint(self._drawn.excluded_by(sample))

    def _blocked(self, sample: int) -> int:
        """Return the batches, as bits, that a moving sample does not fit into."""
        found = 0
        for text in self._texts_of(sample):
            found |= self._having.get(text, 0) | self._excluding.get(text, 0)
        for text in self._drawn.excluded_by(sample):
            found |= self._having.get(text, 0)
        return found

    def _hole(self, sample: int, batch: int) -> int | None:
        """Return the first hole in a batch that a sample may take."""
        labels = (self._keys[sample], self._groups[sample], _ANY)
        return next((at for at in self._holes[batch] if self._labels[at] in labels), None)

    def _batches(self, home: int) -> Iterator[int]:
        return chain(range(home, -(-len(self._order) // self._size)), range(home))

    def _placed(self, sample: int) -> bool:
        """Put a sample into the first hole that fits, from its own batch on."""
        blocked = self._blocked(sample)
        for batch in self._batches(sample // self._size):
            if blocked >> batch & 1 or batch not in self._holes:
                continue
            if (place := self._hole(sample, batch)) is not None:
                self._put(sample, place)
                return True
        return False

    def _put(self, sample: int, place: int) -> None:
        batch = place // self._size
        self._order[place] = sample
        self._holes[batch].remove(place)
        if not self._holes[batch]:
            del self._holes[batch]
        texts, excluded = self._texts_of(sample), self._drawn.excluded_by(sample)
        for batches, some in ((self._having, texts), (self._excluding, excluded)):
            for text in some:
                batches[text] |= 1 << batch
        if batch in self._contents:
            self._contents[batch][0].update(texts)
            self._contents[batch][1].update(excluded)

    def _leave(self, place: int) -> None:
        """Make a place a hole. Texts that its sample excluded stay excluded from the batch."""
        batch, texts = place // self._size, self._texts_of(int(self._order[place]))
        for text in texts:
            self._having[text] &= ~(1 << batch)
        if batch in self._contents:
            self._contents[batch][0].difference_update(texts)
        self._order[place] = -1
        self._holes.setdefault(batch, []).append(place)

    def _exchange(self, sample: int) -> None:
        """Put a sample where it fits; the sample of that place fills a hole."""
        blocked, batches = self._blocked(sample), [*self._batches(sample // self._size)]
        fitting = [batch for batch in batches if not blocked >> batch & 1]
        if not fitting:
            return
        places = (np.array(fitting)[:, None] * self._size + np.arange(self._size)).reshape(-1)
        places = places[places < len(self._order)]
        taken = np.isin(self._labels[places], [self._keys[sample], self._groups[sample], _ANY])
        places = places[taken & (self._order[places] >= 0)]
        others = self._order[places]
        for batch in filter(self._holes.__contains__, batches):
            labels = self._labels[self._holes[batch]]
            may_fill = np.isin(self._keys[others], labels) | np.isin(self._groups[others], labels)
            for place in places[may_fill | (_ANY in labels)].tolist():
                other = int(self._order[place])
                hole = self._hole(other, batch)
                if hole is not None and self._fits(other, batch):
                    self._leave(place)
                    self._put(other, hole)
                    self._put(sample, place)
                    return

    def filled(self, spare: Callable[[int, int, int], Drawn]) -> tuple[Plan, Integers]:
        """Fill every hole with the next sample that fits, least served first."""
        own, keys, groups = self._order.copy(), self._keys, self._groups
        served = np.zeros(len(own), np.int64)  # times after the first
        for batch in sorted(self._holes):
            places = self._of_batch(batch)
            labels = self._labels[places]
            group = _ANY if labels[0] == _ANY else groups[places[0]]
            ring = np.roll(own, -places.stop)[: len(own) - len(places)]
            ring = ring[(ring >= 0) & ((groups[ring] == group) | (group == _ANY))]
            others = ~np.isin(keys[ring], labels) & (labels[0] != group)
            for sample in ring[np.lexsort((served[ring], others))].tolist():
                if batch not in self._holes:
                    break
                if self._fits(sample, batch):
                    self._put(sample, self._holes[batch][0])
                    served[sample] += 1
            if batch in self._holes:
                others = spare(len(places), _ANY if group == _ANY else _ANY - 1 - int(group), batch)
                if not self._filled_by(others, batch):
                    own[places] = -1
        return self._drawn.part(self._order).plan, own

    def _filled_by(self, others: Drawn, batch: int) -> bool:
        """Fill the holes of a batch with others that fit, or replace the whole batch by them."""
        first = len(self._drawn)
        self._drawn = self._drawn.joined(others)
        for sample in range(first, len(self._drawn)):
            if batch in self._holes and self._fits(sample, batch):
                self._put(sample, self._holes[batch][0])
        if not self._holes.pop(batch, None):
            return True
        places = self._of_batch(batch)
        self._order[places] = first + np.arange(len(places))
        return False


def _among(words: Words, others: Words) -> Integers:
    """Return the indexes of ``others`` that are among ``words``."""
    words = np.unique(words)
    at = Sketch(words).among(others)
    return at[places(words, others[at]) >= 0]
