"""Plan the chunks of the samples at some positions: keys only, no text."""

# A plan follows from settings and positions, so any span can be planned alone. A rank plans only
# its own positions, unless samples depend on their batch (``no_duplicates``). A part has one
# version. A later version begins a new epoch; later minings do not, since anchors stay.

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import pairwise
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from duckplets.base.arrays import Array, ArrayRecord, Flags, Floats, Integers, Words
from duckplets.base.checks import MAX_POSITION
from duckplets.errors import MixtureError
from duckplets.mining.pins import Pins
from duckplets.order.apportion import Apportionment, exact, exact_weights
from duckplets.order.blocks import InBlocks
from duckplets.order.permute import hashed, key
from duckplets.order.schedule import RunSchedule, Schedule
from duckplets.order.tapes import SourceTape
from duckplets.samples.negatives import AT_RANDOM
from duckplets.samples.stream import Draw, Stream

SINGLE = ("texts", "messages")  # kinds with one slot: no positive, no negatives

# A stream's number, the draws it gets, and its samples for them.
Drawing: TypeAlias = tuple[int, Integers, Draw]
# Returns where a run ends, given where nominal epochs begin.
EndOf: TypeAlias = Callable[[Callable[[int], int]], int | None]


@dataclass(frozen=True, slots=True)
class Plan(ArrayRecord):
    """The samples at some positions, in order: the last axis of every array."""

    positions: Integers
    streams: Integers  # stream number of each
    chunks: Integers  # as in ``Draw``: shape (slots, samples)
    hashes: Words  # shape (slots, samples), and a row of families where batches separate them
    swapped: Flags  # whether anchor and positive are swapped
    # Labels of pairs: 1 for anchor and positive, 0 for anchor and negative, or as given.
    labels: Array | None = None
    # As in ``Draw``: shape (negatives, samples); drawn pairs have one row, positives too.
    candidates: Integers | None = None
    displaced: Integers | None = None  # stream that gave its position to each; -1 for most
    anchors: Integers | None = None  # as in ``Draw``: shape (1, samples)
    keys: Integers | None = None  # as in ``Draw``: shape (1, samples)
    counts: Integers | None = None  # as in ``Draw``: shape (1, samples)
    labelled: bool = False  # whether they are labelled pairs without drawn texts

    def __len__(self) -> int:
        return len(self.streams)

    @property
    def present(self) -> Flags | None:
        """Which slots of lists have a text: shape (slots, samples); None if all have."""
        if self.counts is None or self.candidates is None:
            return None
        found = np.ones(self.chunks.shape, bool)
        most = len(self.chunks) - len(self.candidates)  # the anchor and its positives
        found[:most] = np.arange(most)[:, None] <= self.counts
        return found


_ARRAYS = [field.name for field in fields(Plan) if field.name != "labelled"]
_OF_DRAWS = {
    **dict.fromkeys(("chunks", "candidates", "anchors", "keys", "counts"), np.int64),
    "hashes": np.uint64,
    "labels": np.float64,
}


def joined(parts: Sequence[Plan]) -> Plan:
    """Concatenate plans of one run."""
    if len(parts) == 1:
        return parts[0]
    found: dict[str, Any] = {}
    for name in _ARRAYS:
        columns = [getattr(part, name) for part in parts]
        if name == "displaced" and any(column is not None for column in columns):
            columns = [
                np.full(len(part), -1) if column is None else column
                for part, column in zip(parts, columns, strict=True)
            ]
        if columns[0] is not None:
            found[name] = np.concatenate(columns, axis=-1)
    return replace(parts[0], **found)


def scattered(drawings: Iterable[Drawing], size: int) -> dict[str, Array]:
    """Return the arrays of a plan from draws of some of its rows."""
    found: dict[str, Array] = {}
    for _, rows, draw in drawings:
        for name, dtype in _OF_DRAWS.items():
            columns = getattr(draw, name)
            if columns is not None and len(rows) == size:  # all belong to one stream
                found[name] = np.array(columns, dtype).reshape(len(columns), size)
                continue
            if columns is not None and name not in found:
                found[name] = np.zeros((len(columns), size), dtype)
            for row, column in zip(found.get(name, ()), columns or (), strict=False):
                row[rows] = column
    return found


def spread(draws: Plan, per_draw: int) -> Plan:
    """Return every draw as its pairs: anchor and positive, then anchor and each negative."""
    within = np.tile(np.arange(per_draw), len(draws))
    pairs = draws.part(np.repeat(np.arange(len(draws)), per_draw))
    candidates, slots = draws.candidates, len(draws.chunks)
    if candidates is not None:
        of_positives = np.full((1, len(draws)), AT_RANDOM)
        candidates = np.concatenate([of_positives, candidates]).T.reshape(1, -1)
    return replace(
        pairs,
        positions=pairs.positions * per_draw + within,
        chunks=np.stack([pairs.chunks[0], draws.chunks[1:].T.reshape(-1)]),
        hashes=np.stack(
            [pairs.hashes[0], draws.hashes[1:slots].T.reshape(-1), *pairs.hashes[slots:]]
        ),
        labels=(within == 0).astype(np.int64),
        candidates=candidates,
    )


def without_negative(plan: Plan) -> Flags:
    """Return which samples have no drawn negative; only pairs can lack one."""
    if plan.labels is None or plan.labelled:
        return np.full(len(plan), plan.labelled)
    found: Flags = plan.labels == 1
    return found


class PartPlanner:
    """Plan the samples of a part of a run; positions count from where it begins."""

    needs_all = False  # whether samples depend on others of their batch
    displaces = False  # whether samples may give their position to others

    def __init__(
        self,
        streams: Sequence[Any],
        schedule: Schedule,
        *,
        kind: str,
        seed: int,
        swap: bool,
        graded: bool = False,
        batch_by: str | None = None,  # "source", or another key of each batch
    ) -> None:
        self.streams: list[Stream] = []
        self.groups = np.zeros(0, np.int64)  # of streams whose samples share batches
        self._batch_by = batch_by
        self.sources = np.zeros(0, np.int64)  # source number of each stream
        self.schedule = schedule  # may be replaced by one with the same past
        self.samples_per_draw = schedule.samples_per_draw
        self.swaps = swap and kind not in SINGLE
        self.is_graded = graded  # whether labels are floats rather than integers
        self.end: int | None = None  # end of the last epoch of the run
        self.origin = schedule.begin * schedule.batch  # position of the run it counts from
        self.first = schedule.first * schedule.batch  # first position of the run it plans
        self.stop = MAX_POSITION + 1  # first position of the next part
        self.minings: Pins | None = None  # its minings, if it continues the epochs before it
        self.epoch = 0  # nominal epoch of the run at its origin
        self.numbers = np.zeros(0, np.int64)  # number of its first stream in the run
        self._seed, self._swap_key = seed, key(seed, "swap")
        self._recipes: dict[
            int, tuple[list[int], Any]
        ] = {}  # streams of each leaf, and their dealer
        self._lengths: dict[str, int] = {}  # streams of each source
        self.add(streams)
        self.epoch_length = sum(map(self.length_of, schedule.planned))

    def add(self, streams: Sequence[Any]) -> None:
        """Add the streams of sources that are drawn from later on."""
        sources, by_leaf = self.sources.tolist(), dict[tuple[int, str], list[int]]()
        for i, stream in enumerate(streams, start=len(self.streams)):
            leaf = self.schedule.leaf(stream.name, stream.bucket)
            by_leaf.setdefault((leaf, stream.name), []).append(i)
            sources.append(self.schedule.numbers[stream.name])
        self.streams += streams
        self.sources = np.array(sources, np.int64)
        self.groups = np.zeros_like(self.sources)
        if self._batch_by is not None:
            by_stream = np.arange(len(self.streams))
            self.groups = self.sources if self._batch_by == "source" else by_stream
        for (leaf, source), indexes in by_leaf.items():
            length, shares = 0, list[Fraction | float]()
            self.schedule.learn(leaf, sum(len(self.streams[i]) for i in indexes))
            for i in indexes:
                length += len(self.streams[i]) * self.samples_per_draw
                shares.append(self.streams[i].share)
            if self.streams[indexes[0]].value is not None:
                shares = self._of_sources([self.streams[i] for i in indexes])
            self._lengths[source] = self._lengths.get(source, 0) + length
            recipes: Any = Apportionment(exact_weights(shares), key(self._seed, "recipes", source))
            if self._batch_by not in (None, "source"):
                recipes = InBlocks(recipes, self.schedule.together)
            self._recipes[leaf] = indexes, recipes
            if self.schedule.tapes is not None:
                tapes = [tape for i in indexes if (tape := self.streams[i].tape)]
                self.schedule.tapes[leaf] = SourceTape(tapes, recipes, self.schedule.together)

    def _of_sources(self, streams: Sequence[Stream]) -> list[Fraction | float]:
        """Return shares of the streams of a value; each source counts by its anchors."""
        anchors, weights = Counter[str](), Counter[str]()
        for stream in streams:
            anchors[stream.source] += len(stream)
            weights[stream.source] += exact(stream.share)  # type: ignore[assignment]
        return [
            exact(stream.share) * anchors[stream.source] / weights[stream.source]
            for stream in streams
        ]

    def plan_at(self, positions: Integers) -> Plan:
        """Plan ascending positions, with or without gaps, that span less than 2^34."""
        per_draw = self.samples_per_draw
        if per_draw == 1:
            return self._planned(positions, [*self._draws(self.schedule, positions)])
        numbers = positions // per_draw
        numbers = numbers[np.diff(numbers, prepend=-1) > 0]
        pairs = self._planned(numbers, [*self._draws(self.schedule, numbers)])
        at = np.searchsorted(numbers, positions // per_draw) * per_draw + positions % per_draw
        return pairs.part(at)

    def dealt(
        self, schedule: Schedule, numbers: Integers
    ) -> Iterator[tuple[int, Integers, Integers]]:
        """Yield each stream's number, its draws among ascending ones, and their numbers in it."""
        for share in schedule.deal(numbers):
            indexes, recipes = self._recipes[share.leaf]
            for part in recipes.deal(share.indexes):
                yield indexes[part.leaf], share.offsets[part.offsets], part.indexes

    def _draws(self, schedule: Schedule, numbers: Integers) -> Iterator[Drawing]:
        for number, offsets, own in self.dealt(schedule, numbers):
            yield number, offsets, self.streams[number].draw_at(own)

    def _planned(self, numbers: Integers, drawings: Sequence[Drawing]) -> Plan:
        size, first = len(numbers), self.streams[0]
        streams = np.zeros(size, dtype=np.int64)
        nothing = streams[:0]
        drawings = drawings or [(0, nothing, first.draw_at(nothing))]
        for number, at, _ in drawings:
            streams[at] = number
        columns = scattered(drawings, size)
        labels = columns.pop("labels", None)
        if labels is not None:
            labels = labels[0] if self.is_graded else labels[0].astype(np.int64)
        swapped = np.zeros(size, dtype=bool)
        if self.swaps:
            swapped = (hashed(self._swap_key, numbers) >> np.uint64(63)).astype(bool)
            for rows in (columns["chunks"], columns["hashes"]):
                rows[:2] = np.where(swapped, rows[1::-1], rows[:2])
        plan = Plan(
            numbers, streams, swapped=swapped, labels=labels, labelled=first.is_given, **columns
        )
        return plan if self.samples_per_draw == 1 else spread(plan, self.samples_per_draw)

    def length_of(self, source: str) -> int:
        """Return the number of positions that use every anchor of a source once."""
        return self._lengths.get(source, 0)

    def samples(self, position: int) -> Integers:
        """Return how many positions before this one each stream gets."""
        whole, rest = divmod(position, self.samples_per_draw)
        before, after = (self._counts(draws) for draws in (whole, whole + (rest > 0)))
        found: Integers = before * self.samples_per_draw + (after - before) * rest
        return found

    def _counts(self, draws: int) -> Integers:
        found = np.zeros(len(self.streams), dtype=np.int64)
        dealt = self.schedule.dealt(draws)
        for leaf, (indexes, recipes) in self._recipes.items():
            found[indexes] = recipes.counts(dealt[leaf])
        return found

    def shares(self, start: int, stop: int) -> Floats:
        """Return the mean share of each stream over steps without a change, in its unit."""
        shares = self.sample_shares(start, stop)
        if self.schedule.tapes is not None:
            shares *= [stream.tape.mean if stream.tape else 1.0 for stream in self.streams]
            shares /= shares.sum()
        return shares

    def sample_shares(self, start: int, stop: int) -> Floats:
        """Return the mean share of each stream in samples; approximate if the unit is tokens."""
        of_sources = np.array(self.schedule.parts(start, stop, samples=True))
        shares: Floats = of_sources[self.sources] * self.recipe_parts()
        return shares

    def recipe_parts(self) -> Floats:
        """Return the share of each stream within its source."""
        found = np.zeros(len(self.streams))
        for indexes, recipes in self._recipes.values():
            length = sum(len(self.streams[i]) for i in indexes) * self.samples_per_draw
            of_source = length / self._lengths[self.streams[indexes[0]].name]
            found[indexes] = np.array(recipes.parts()) * of_source
        return found

    def block(self, position: int) -> tuple[int, int]:
        """Return start and end of the block of a position; samples change places within it."""
        return position, position + 1

    def first_change(self, before: Schedule, end: int | None) -> int | None:
        """Return the first position whose sample differs from another schedule and end."""
        return self.schedule.first_change(before)

    def check(self, schedule: Schedule, steps: Iterable[int], end: int | None) -> None:
        """Refuse a schedule whose batches cannot be filled at some steps."""


class Planner:
    """Plan the samples of a run by its parts; each part has its own streams."""

    def __init__(self, parts: Sequence[PartPlanner], end_of: EndOf) -> None:
        last = parts[-1]
        self.samples_per_draw, self.epoch_length = last.samples_per_draw, last.epoch_length
        for part, after in pairwise(parts):
            after.epoch = part.epoch - (part.origin - after.first) // part.epoch_length
        self._divide(parts)
        self.end_at(end_of)
        self.streams: list[Stream] = []
        for part in self.parts:
            part.numbers = part.numbers[:0]
            self._number(part, part.streams)

    def _end(self, part: PartPlanner, length: int, end_of: EndOf) -> int | None:
        """Return the end of the run, counted within a part, with epochs of this length."""
        stop = self.schedule.used_up
        end = end_of(
            lambda epoch: part.origin + (epoch - part.epoch) * length if stop is None else stop
        )
        ends = [end, self.schedule.out]
        return min((at - part.origin for at in ends if at is not None), default=None)

    def end_at(self, end_of: EndOf) -> None:
        """Change the end of the run."""
        for part in self.parts if self.parts[-1].needs_all else ():  # others do not depend on it
            part.end = self._end(part, part.epoch_length, end_of)

    def end(self, end_of: EndOf) -> int | None:
        """Return the end of a run; it comes before all sources are used up."""
        stop = self.schedule.used_up
        end = end_of(self.epoch_start if stop is None else lambda _: stop)
        _refuse_nothing(self.schedule, end)
        return end

    def add(self, part: PartPlanner, streams: Sequence[Any]) -> None:
        """Add the streams of sources that a part draws from later on."""
        part.add(streams)
        self._number(part, streams)

    def continue_with(self, part: PartPlanner) -> None:
        """Add a part that continues the epochs of the part in force at its start."""
        before = self.at(part.first)
        part.epoch, part.end = before.epoch, before.end
        self._number(part, part.streams)
        at = self.parts.index(before) + 1
        self._divide([*self.parts[:at], part, *self.parts[at:]])

    def without_later(self) -> None:
        """Remove the parts that continue the epochs of others."""
        self._divide([part for part in self.parts if part.minings is None])

    def _divide(self, parts: Sequence[PartPlanner]) -> None:
        """Use these parts, each up to the start of the next one."""
        stops = [*map(attrgetter("first"), parts[1:]), MAX_POSITION + 1]
        cut = list(parts)
        for number, stop in enumerate(stops):
            if parts[number].stop != stop:
                cut[number] = copy(parts[number])  # another thread may use it
                cut[number].stop = stop
        self.parts, self.newest = cut, cut[-1]
        self.schedule = RunSchedule([*map(attrgetter("schedule"), self.parts)])

    def _number(self, part: PartPlanner, streams: Sequence[Any]) -> None:
        new = len(self.streams) + np.arange(len(streams))
        part.numbers = np.concatenate([part.numbers, new])
        self.streams += streams
        names = map(attrgetter("name"), self.streams)
        self.sources = np.array([*map(self.schedule.numbers.__getitem__, names)], np.int64)

    def deal_by(self, schedule: RunSchedule) -> None:
        """Replace the schedule by another one with the same past."""
        self.schedule = schedule
        for part, own in zip(self.parts, schedule.parts, strict=True):
            part.schedule = own

    def at(self, position: int) -> PartPlanner:
        """Return the part of a position."""
        return self.parts[bisect_right(self.parts, position, key=lambda part: part.first) - 1]

    def plan(self, start: int, stop: int) -> Plan:
        """Plan positions ``start … stop-1``."""
        return self.plan_at(np.arange(start, stop, dtype=np.int64))

    def plan_at(self, positions: Integers) -> Plan:
        """Plan ascending positions, with or without gaps, that span less than 2^34."""
        plans = list[Plan]()
        for part in self.parts:
            low, high = np.searchsorted(positions, [part.first, part.stop]).tolist()
            if low < high or (part is self.newest and not plans):
                plan = part.plan_at(positions[low:high] - part.origin)
                own, gave = plan.positions + part.origin, plan.displaced
                plan = replace(plan, positions=own, streams=part.numbers[plan.streams])
                if gave is not None:
                    plan = replace(plan, displaced=np.where(gave < 0, -1, part.numbers[gave]))
                plans.append(plan)
        return joined(plans)

    def epochs(self, position: int) -> dict[str, float]:
        """Return the epochs of each source before a position."""
        found = dict.fromkeys(self.schedule.sources, 0.0)
        for part in self.parts:
            before, upto = part.first - part.origin, min(position, part.stop) - part.origin
            own = (part.schedule.samples(at) for at in (before, max(before, upto)))
            for name, earlier, count in zip(part.schedule.sources, *own, strict=True):
                found[name] += (count - earlier) / max(1, part.length_of(name))
        return found

    def epoch_at(self, position: int) -> int:
        """Return the nominal epoch of a position; an epoch cut by the end of a part counts."""
        part = self.at(position)
        return part.epoch + (position - part.origin) // part.epoch_length

    def epoch_start(self, epoch: int) -> int:
        """Return the first position of a nominal epoch."""
        number = bisect_right(self.parts, epoch, key=lambda part: part.epoch) - 1
        part = self.parts[number]
        return part.origin + (epoch - part.epoch) * part.epoch_length

    def block(self, position: int) -> tuple[int, int]:
        """Return start and end of the block of a position; samples change places within it."""
        part = self.at(position)
        low, high = part.block(position - part.origin)
        return part.origin + low, min(part.origin + high, part.stop)

    def next_change(self, position: int) -> int:
        """Return the first step, from a position on, at which the draws may change."""
        low, high = self.block(position)
        return -(-(low if low == position else high) // self.schedule.batch)

    def first_change(self, before: RunSchedule, end_of: EndOf) -> int | None:
        """Return the first position whose sample differs from an earlier schedule's."""
        for part, schedule in zip(self.parts, before.parts, strict=True):
            length = sum(map(part.length_of, schedule.planned))
            changed = part.first_change(schedule, self._end(part, length, end_of))
            if changed is not None and part.origin + changed < part.stop:
                return part.origin + changed
        return None

    def check(self, schedule: RunSchedule, steps: Iterable[int], end: int | None) -> None:
        """Refuse a schedule whose batches cannot be filled at some steps."""
        if schedule.used_up is None:
            _refuse_nothing(schedule, end)
        for part, own in zip(self.parts, schedule.parts, strict=True):
            some = [step for step in steps if part.first <= step * schedule.batch < part.stop]
            part.check(own, some, None if end is None else end - part.origin)


def _refuse_nothing(schedule: RunSchedule, end: int | None) -> None:
    """Refuse ``max_epochs`` that use up all sources before a run ends."""
    out = schedule.out
    if out is not None and (end is None or out < end):
        raise MixtureError(
            f"max_epochs: every source with a share is used up at step {out // schedule.batch:,} "
            f"(position {out:,}), before the run ends. Raise it, give steps= up to there, "
            f"or stop='all'"
        )
