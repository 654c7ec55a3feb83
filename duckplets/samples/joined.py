"""Put plans end to end, where later versions of the corpus join a run.

Each part of a run is a plan of its own, over one version: from the step at which that joins on,
streams begin a new epoch. Parts count positions from where they begin; here positions, streams and
sources are those of the whole run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from duckplets.base.arrays import Floats, Integers
from duckplets.base.checks import MAX_POSITION
from duckplets.order.mixture import Event, Mixture
from duckplets.order.schedule import Events, Schedule
from duckplets.samples.plan import EndOf, EpochStart, Planner
from duckplets.samples.planned import Plan, joined
from duckplets.samples.stream import Stream

_NEVER = MAX_POSITION + 1  # the last part goes on until then


class JoinedSchedule(Schedule):
    """Deals a run by one schedule after the other, each from the step at which it begins."""

    def __init__(self, schedules: Sequence[Schedule]) -> None:
        self.schedules = list(schedules)
        self.sources = sorted({name for part in schedules for name in part.sources})
        self.numbers = {name: number for number, name in enumerate(self.sources)}
        last = self.schedules[-1]
        self.batch, self.samples_per_draw, self.begin = last.batch, last.samples_per_draw, 0
        self.mixture, self.planned = last.mixture, last.planned

    def _spans(self) -> Iterator[tuple[Schedule, int, int | None]]:
        """Yield every schedule with its first step and that of the next one, if there is one."""
        begins = [*(part.begin for part in self.schedules), None]
        for part, (start, stop) in zip(self.schedules, pairwise(begins), strict=True):
            yield part, start or 0, stop

    def at(self, step: int) -> Schedule:
        """Return the schedule of a step."""
        return self.schedules[bisect_right(self.schedules, step, key=lambda part: part.begin) - 1]

    @property
    def events(self) -> dict[int, Event]:
        """Weights set during the run, by the step from which on."""
        return self.schedules[-1].events

    def with_event(self, step: int, event: Event) -> JoinedSchedule:
        """Return the schedule with other weights from a step on, and without later events."""
        changed = []
        for part, _, stop in self._spans():
            is_over = stop is not None and stop <= step
            changed.append(part if is_over else part.with_event(step, event))
        return JoinedSchedule(changed)

    def with_events(self, events: Events) -> JoinedSchedule:
        """Return the schedule with these events instead of its own."""
        changed = []
        for part, _, stop in self._spans():
            own = {step: event for step, event in events.items() if stop is None or step < stop}
            changed.append(part.with_events(own))
        return JoinedSchedule(changed)

    @property
    def drawn(self) -> set[str]:
        """Names of the sources drawn from at some step, or whose anchors count for the others."""
        return {name for part in self.schedules for name in part.drawn}

    def samples(self, position: int) -> list[int]:
        """Return how many of the first so many positions each source gets, by its number."""
        found = [0] * len(self.sources)
        for part, start, stop in self._spans():
            last = position if stop is None else min(position, stop * self.batch)
            counts = part.samples(max(0, last - start * self.batch))
            for name, count in zip(part.sources, counts, strict=True):
                found[self.numbers[name]] += count
        return found

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Step and first draw of its schedule of every change of shares, and of every join."""
        return [
            (step, draw)
            for part, _, stop in self._spans()
            for step, draw in part.changes
            if stop is None or step < stop
        ]

    def names_at(self, step: int) -> tuple[str, ...]:
        """Return the names of the sources that are drawn from at a step."""
        return self.at(step).names_at(step)

    def parts(self, start: int, stop: int) -> list[float]:
        """Return the mean share of each source over steps in which nothing sets in."""
        at = self.at(start)
        shares = dict(zip(at.sources, at.parts(start, stop), strict=True))
        return [shares.get(name, 0.0) for name in self.sources]

    def is_overridden(self, step: int) -> bool:
        """Return whether a phase or an event holds at a step in the place of declared weights."""
        return self.at(step).is_overridden(step)

    def in_force(self, step: int) -> Mixture:
        """Return the mixture with the weights and the temperature that hold at a step."""
        return self.at(step).in_force(step)


def _schedules(schedule: Schedule) -> list[Schedule]:
    if not isinstance(schedule, JoinedSchedule):
        raise TypeError("a run that versions have joined has a schedule of each")
    return schedule.schedules


@dataclass(slots=True, eq=False)
class _Part:
    """A part of a run; positions and numbers are those of the run."""

    planner: Planner
    first: int  # position at which it begins
    stop: int  # position at which the next one does
    epoch: int  # nominal one at which it begins
    streams: Integers  # number of each of its streams


class JoinedPlanner(Planner):
    """Plans a run by one planner after the other; a stream of a later version is another stream."""

    def __init__(self, planners: Sequence[Planner]) -> None:
        self.planners = list(planners)
        last = self.planners[-1]
        self.needs_all, self.displaces = last.needs_all, last.displaces
        self.is_graded, self.swaps = last.is_graded, last.swaps
        self.samples_per_draw, self.epoch_length = last.samples_per_draw, last.epoch_length
        self.end = None
        self._schedule = JoinedSchedule([planner.schedule for planner in planners])
        firsts = [p.schedule.begin * p.schedule.batch for p in planners]
        self._parts: list[_Part] = []
        epoch = 0
        for planner, (first, stop) in zip(planners, pairwise([*firsts, _NEVER]), strict=True):
            self._parts.append(_Part(planner, first, stop, epoch, np.zeros(0, np.int64)))
            epoch -= (first - stop) // planner.epoch_length
        self.streams: list[Stream] = []
        for part in self._parts:
            self._number(part, part.planner.streams)

    def _number(self, part: _Part, streams: Sequence[Stream]) -> None:
        """Number streams of a part after all others."""
        new = len(self.streams) + np.arange(len(streams))
        part.streams = np.concatenate([part.streams, new])
        self.streams += streams
        numbers = self._schedule.numbers
        self.sources = np.array([numbers[stream.source] for stream in self.streams], np.int64)

    def add(self, streams: Sequence[Stream], number: int = -1) -> None:
        """Add the streams of sources that one of the planners draws from later on."""
        self.planners[number].add(streams)
        self._number(self._parts[number], streams)

    @property
    def schedule(self) -> Schedule:
        """Deals draws to sources; another one with the same past may take its place."""
        return self._schedule

    @schedule.setter
    def schedule(self, schedule: Schedule) -> None:
        self._schedule = JoinedSchedule(_schedules(schedule))
        for planner, own in zip(self.planners, self._schedule.schedules, strict=True):
            planner.schedule = own

    def end_at(self, end: int | None) -> None:
        """Set the position at which the last epoch of the run ends."""
        self.end = end
        self.planners[-1].end = None if end is None else end - self._parts[-1].first

    def _at(self, position: int) -> _Part:
        number = bisect_right(self._parts, position, key=lambda part: part.first) - 1
        return self._parts[number]

    def plan_at(self, positions: Integers) -> Plan:
        """Plan some positions; they ascend, gaps or not."""
        plans = list[Plan]()
        for part in self._parts:
            low, high = np.searchsorted(positions, [part.first, part.stop]).tolist()
            if low < high or (part is self._parts[-1] and not plans):
                plan = part.planner.plan_at(positions[low:high] - part.first)
                own, gave = plan.positions + part.first, plan.displaced
                plan = replace(plan, positions=own, streams=part.streams[plan.streams])
                if gave is not None:
                    plan = replace(plan, displaced=np.where(gave < 0, -1, part.streams[gave]))
                plans.append(plan)
        return joined(plans)

    # -- other weights ------------------------------------------------------------------------

    def block(self, position: int) -> tuple[int, int]:
        """Return the block, among whose positions samples change places, that has one of them."""
        part = self._at(position)
        low, high = part.planner.block(position - part.first)
        return part.first + low, min(part.first + high, part.stop)

    def first_change(self, before: Schedule, end_of: EndOf) -> int | None:
        """Return the first position whose sample differs from that by a schedule before."""
        for part, schedule in zip(self._parts, _schedules(before), strict=True):

            def own_end(start: EpochStart, part: _Part = part) -> int | None:
                end = end_of(lambda epoch: part.first + start(epoch - part.epoch))
                return None if end is None else end - part.first

            changed = part.planner.first_change(schedule, own_end)
            if changed is not None and part.first + changed < part.stop:
                return part.first + changed
        return None

    def check(self, schedule: Schedule, steps: Iterable[int], end: int | None) -> None:
        """Refuse a schedule by which batches at some steps of a run cannot be filled."""
        for step in steps:
            part = self._at(step * schedule.batch)
            own = _schedules(schedule)[self._parts.index(part)]
            part.planner.check(own, [step], None if end is None else end - part.first)

    # -- what is drawn ------------------------------------------------------------------------

    def length_of(self, source: str) -> int:
        """Return the positions in which every anchor of a source comes up once, in the newest."""
        return self.planners[-1].length_of(source)

    def samples(self, position: int) -> Integers:
        """Return how many of the first so many positions each stream gets."""
        found = np.zeros(len(self.streams), np.int64)
        for part in self._parts:
            own = max(0, min(position, part.stop) - part.first)
            found[part.streams] = part.planner.samples(own)
        return found

    def unreached(self) -> Iterator[tuple[int, int, int]]:
        """Yield of every join its step, and of the anchors before it how many are left out."""
        for part in self._parts[:-1]:
            streams, per_draw = part.planner.streams, self.samples_per_draw
            samples = part.planner.samples(part.stop - part.first) // per_draw
            left = [-int(n) % len(s) for n, s in zip(samples, streams, strict=True)]
            if some := sum(left):
                yield part.stop // self._schedule.batch, some, sum(map(len, streams))

    def parts(self, start: int, stop: int) -> Floats:
        """Return the mean share of each stream over steps in which nothing sets in."""
        part, found = self._at(start * self._schedule.batch), np.zeros(len(self.streams))
        found[part.streams] = part.planner.parts(start, stop)
        return found

    def recipe_parts(self) -> Floats:
        """Return the share of each stream of the newest version within its source."""
        part, found = self._parts[-1], np.zeros(len(self.streams))
        found[part.streams] = part.planner.recipe_parts()
        return found

    def epochs_of(self, source: str, samples: int) -> float:
        """Return how often the anchors of a source have come up in so many samples of it."""
        found = 0.0
        for part in self._parts:
            schedule, own = part.planner.schedule, samples
            if (leaf := schedule.numbers.get(source)) is not None:
                if part is not self._parts[-1]:
                    own = min(samples, schedule.samples(part.stop - part.first)[leaf])
                found += part.planner.epochs_of(source, own)
                samples -= own
        return found

    def epoch_at(self, position: int) -> int:
        """Return the nominal epoch of a position; one that a join cuts off counts."""
        part = self._at(position)
        return part.epoch + part.planner.epoch_at(position - part.first)

    def epoch_start(self, epoch: int) -> int:
        """Return the first position of a nominal epoch."""
        number = bisect_right(self._parts, epoch, key=lambda part: part.epoch) - 1
        part = self._parts[number]
        return part.first + part.planner.epoch_start(epoch - part.epoch)
