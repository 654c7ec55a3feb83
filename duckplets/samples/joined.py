"""Put plans end to end, where later versions of the corpus join a run.

Each part of a run is a plan of its own, over one version: from the step at which that joins on,
streams begin a new epoch. Parts count positions from where they begin; here positions, streams and
sources are those of the whole run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from duckplets.base.arrays import Floats, Integers
from duckplets.order.mixture import Event, Mixture
from duckplets.order.schedule import Events, Schedule
from duckplets.samples.plan import Planner
from duckplets.samples.planned import Plan, joined
from duckplets.samples.stream import Stream


class JoinedSchedule(Schedule):
    """Deals a run by one schedule after the other, each from the step at which it begins.

    Attributes:
        schedules: Those.
        sources: Names of all sources, sorted.
        numbers: The number of each source: its place among them.
    """

    def __init__(self, schedules: Sequence[Schedule]) -> None:
        self.schedules = list(schedules)
        self.sources = sorted({name for part in schedules for name in part.sources})
        self.numbers = {name: number for number, name in enumerate(self.sources)}
        last = self.schedules[-1]
        self.batch, self.samples_per_draw, self.begin = last.batch, last.samples_per_draw, 0
        self.mixture, self.planned = last.mixture, last.planned

    @property
    def events(self) -> dict[int, Event]:
        """Weights set during the run, by the step from which on."""
        return self.schedules[-1].events

    def spans(self) -> Iterator[tuple[Schedule, int, int | None]]:
        """Yield every schedule with its first step and that of the next one, if there is one."""
        begins = [*(part.begin for part in self.schedules), None]
        for part, (start, stop) in zip(self.schedules, pairwise(begins), strict=True):
            yield part, start or 0, stop

    def at(self, step: int) -> Schedule:
        """Return the schedule of a step."""
        return self.schedules[bisect_right(self.schedules, step, key=lambda part: part.begin) - 1]

    @property
    def drawn(self) -> set[str]:
        """Names of the sources drawn from at some step, or whose anchors count for the others."""
        return {name for part in self.schedules for name in part.drawn}

    def with_event(self, step: int, event: Event) -> JoinedSchedule:
        """Return the schedule with other weights from a step on, and without later events."""
        return JoinedSchedule(
            [
                part.with_event(step, event) if stop is None or step < stop else part
                for part, _, stop in self.spans()
            ]
        )

    def with_events(self, events: Events) -> JoinedSchedule:
        """Return the schedule with these events instead of its own."""
        return JoinedSchedule(
            [
                part.with_events({s: e for s, e in events.items() if stop is None or s < stop})
                for part, _, stop in self.spans()
            ]
        )

    def samples(self, position: int) -> list[int]:
        """Return how many of the first so many positions each source gets, by its number."""
        found = [0] * len(self.sources)
        for part, start, stop in self.spans():
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
            for part, _, stop in self.spans()
            for step, draw in part.changes
            if stop is None or step < stop
        ]

    def names_at(self, step: int) -> tuple[str, ...]:
        """Return the names of the sources that are drawn from at a step."""
        return self.at(step).names_at(step)

    def shares_at(self, step: int) -> dict[str, float]:
        """Return the share of each source at a step."""
        return dict(zip(self.sources, self.parts(step, step + 1), strict=True))

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


def _parts(schedule: Schedule) -> list[Schedule]:
    if not isinstance(schedule, JoinedSchedule):
        raise TypeError("a run that versions have joined has a schedule of each")
    return schedule.schedules


class JoinedPlanner(Planner):
    """Plans a run by one planner after the other.

    Args:
        planners: Those, of the versions in order.

    Attributes:
        planners: Those.
        streams: All of them; that of a later version is another stream.
        firsts: The position of the run at which each planner begins.
    """

    def __init__(self, planners: Sequence[Planner]) -> None:
        self.planners = list(planners)
        last = self.planners[-1]
        self.kind, self.is_graded, self.swaps = last.kind, last.is_graded, last.swaps
        self.distinct_batch, self._apart_batch = last.distinct_batch, last._apart_batch
        self.samples_per_draw, self.epoch_length = last.samples_per_draw, last.epoch_length
        self.firsts = [p.schedule.begin * p.schedule.batch for p in planners]
        self._epochs = [0]  # the first one of each planner
        for planner, (start, stop) in zip(planners, pairwise(self.firsts), strict=False):
            self._epochs.append(self._epochs[-1] - (start - stop) // planner.epoch_length)
        self.streams: list[Stream] = []
        self._schedule: Schedule = JoinedSchedule([planner.schedule for planner in planners])
        self._numbers: list[Integers] = [np.zeros(0, np.int64) for _ in planners]
        for number, planner in enumerate(self.planners):
            self._number(number, planner.streams)

    def _number(self, number: int, streams: Sequence[Stream]) -> None:
        """Number the streams of a planner after all others."""
        new = len(self.streams) + np.arange(len(streams))
        self._numbers[number] = np.concatenate([self._numbers[number], new])
        self.streams += streams
        numbers = self._schedule.numbers
        self.sources = np.array([numbers[stream.source] for stream in self.streams], np.int64)

    def add(self, streams: Sequence[Stream], number: int = -1) -> None:
        """Add the streams of sources that one of the planners draws from later on."""
        self.planners[number].add(streams)
        self._number(number, streams)

    @property
    def schedule(self) -> Schedule:
        """Deals draws to sources."""
        return self._schedule

    @schedule.setter
    def schedule(self, schedule: Schedule) -> None:
        self._schedule = schedule
        for planner, part in zip(self.planners, _parts(schedule), strict=True):
            planner.schedule = part

    @property
    def end(self) -> int | None:
        """The position at which the last epoch of a run ends, or None."""
        end = self.planners[-1].end
        return None if end is None else self.firsts[-1] + end

    @end.setter
    def end(self, end: int | None) -> None:
        self.planners[-1].end = None if end is None else end - self.firsts[-1]

    # -- plans --------------------------------------------------------------------------------

    def plan(self, start: int, stop: int) -> Plan:
        """Plan positions ``start … stop-1``."""
        return self.plan_at(np.arange(start, stop, dtype=np.int64))

    def plan_at(self, positions: Integers) -> Plan:
        """Plan some positions; they ascend, gaps or not."""
        edges = [0, *np.searchsorted(positions, self.firsts[1:]).tolist(), len(positions)]
        parts = []
        for number, (low, high) in enumerate(pairwise(edges)):
            if low < high or (not len(positions) and number == 0):
                first = self.firsts[number]
                plan = self.planners[number].plan_at(positions[low:high] - first)
                streams, gave = self._numbers[number], plan.displaced
                if gave is not None:
                    gave = np.where(gave < 0, -1, streams[gave])
                parts.append(
                    replace(
                        plan,
                        positions=plan.positions + first,
                        streams=streams[plan.streams],
                        displaced=gave,
                    )
                )
        return joined(parts)

    def _at(self, position: int) -> int:
        return bisect_right(self.firsts, position) - 1

    def block(self, position: int) -> tuple[int, int]:
        """Return the block, among whose positions samples change places, of one of them."""
        number = self._at(position)
        first = self.firsts[number]
        low, high = self.planners[number].block(position - first)
        return first + low, min([first + high, *self.firsts[number + 1 : number + 2]])

    def next_change(self, position: int) -> int:
        """Return the first step from a position on at which what is drawn may change."""
        low, high = self.block(position) if self.distinct_batch else (position, position)
        return -(-(low if low == position else high) // self._schedule.batch)

    def go_on_with(self, schedule: Schedule, position: int) -> None:
        """Plan by a schedule that deals all before a position as the one so far."""
        self._schedule = schedule
        parts = zip(self.planners, _parts(schedule), self.firsts, strict=True)
        for planner, part, first in parts:
            planner.go_on_with(part, max(0, position - first))

    def first_change(
        self, before: Schedule, end_of: Callable[[Callable[[int], int]], int | None]
    ) -> int | None:
        """Return the first position whose sample differs from that by a schedule before."""
        stops = [*self.firsts[1:], None]
        parts = zip(self.planners, _parts(before), self.firsts, self._epochs, stops, strict=True)
        for planner, schedule, first, begun, stop in parts:

            def own_end(
                start: Callable[[int], int], first: int = first, begun: int = begun
            ) -> int | None:
                end = end_of(lambda epoch: first + start(epoch - begun))
                return None if end is None else end - first

            changed = planner.first_change(schedule, own_end)
            if changed is not None and (stop is None or first + changed < stop):
                return first + changed
        return None

    def check(self, schedule: Schedule, steps: Iterable[int], end: int | None) -> None:
        """Refuse sources that have fewer different texts than a batch has."""
        for step in steps:
            number = self._at(step * schedule.batch)
            own = None if end is None else end - self.firsts[number]
            self.planners[number].check(_parts(schedule)[number], [step], own)

    # -- what is drawn ------------------------------------------------------------------------

    def lengths(self, sources: Sequence[str]) -> dict[str, int]:
        """Return in how many positions the anchors of each source come up once, in the newest."""
        return self.planners[-1].lengths(sources)

    def length_of(self, source: str) -> int:
        """Return the same of one source."""
        return self.planners[-1].length_of(source)

    def samples(self, position: int) -> Integers:
        """Return how many of the first so many positions each stream gets: shape (streams,)."""
        found = np.zeros(len(self.streams), np.int64)
        stops = [*self.firsts[1:], position]
        for planner, numbers, first, stop in zip(
            self.planners, self._numbers, self.firsts, stops, strict=True
        ):
            found[numbers] = planner.samples(max(0, min(position, stop) - first))
        return found

    def unreached(self) -> Iterator[tuple[int, int, int]]:
        """Yield the step of every join, and of the anchors before it how many it leaves out."""
        for part, (start, stop) in zip(self.planners, pairwise(self.firsts), strict=False):
            samples = part.samples(stop - start) // part.samples_per_draw
            left = [-int(n) % len(s) for n, s in zip(samples, part.streams, strict=True)]
            if some := sum(left):
                yield stop // part.schedule.batch, some, sum(map(len, part.streams))

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Step of every change of shares, and the position from which on it holds."""
        batch, firsts = self._schedule.batch, self.firsts
        return [
            (step, firsts[self._at(step * batch)] + draw * self.samples_per_draw)
            for step, draw in self._schedule.changes
        ]

    def parts(self, start: int, stop: int) -> Floats:
        """Return the mean share of each stream over steps in which nothing sets in."""
        number = self._at(start * self._schedule.batch)
        found = np.zeros(len(self.streams))
        found[self._numbers[number]] = self.planners[number].parts(start, stop)
        return found

    def recipe_parts(self) -> Floats:
        """Return the share of each stream of the newest version within its source."""
        found = np.zeros(len(self.streams))
        found[self._numbers[-1]] = self.planners[-1].recipe_parts()
        return found

    def epochs_of(self, source: str, samples: int) -> float:
        """Return how often the anchors of a source have come up in so many samples of it."""
        found = 0.0
        for planner, (start, stop) in zip(
            self.planners, pairwise([*self.firsts, None]), strict=True
        ):
            leaf, own = planner.schedule.numbers.get(source), samples
            if leaf is not None and start is not None:
                if stop is not None:
                    own = min(samples, planner.schedule.samples(stop - start)[leaf])
                found += planner.epochs_of(source, own)
                samples -= own
        return found

    def epoch_at(self, position: int) -> int:
        """Return the nominal epoch of a position; one that a join cuts off counts."""
        number = self._at(position)
        planner = self.planners[number]
        return self._epochs[number] + planner.epoch_at(position - self.firsts[number])

    def epoch_start(self, epoch: int) -> int:
        """Return the first position of a nominal epoch."""
        number = bisect_right(self._epochs, epoch) - 1
        planner = self.planners[number]
        return self.firsts[number] + planner.epoch_start(epoch - self._epochs[number])
