"""Deal every position of a run to a source, through all changes of weights."""

# Segments begin where the mixture or ``set_weights`` says; ``pieces`` deals them. A draw is a
# position, or several positions for pairs, and belongs to the step in which it begins.

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise, zip_longest
from math import ceil, inf
from operator import attrgetter
from typing import Any

from duckplets.base.checks import MAX_POSITION
from duckplets.base.settings import checked
from duckplets.errors import MixtureError
from duckplets.order.apportion import exact_shares
from duckplets.order.blocks import InEpochs
from duckplets.order.kinds import Factor, Shares, Step
from duckplets.order.mixture import Change, Event, Mixture, positive
from duckplets.order.permute import key
from duckplets.order.pieces import Pieces, Stretch, scaled

Events = Mapping[int, Event]

_MOST_STAIRS = 1024  # stairs of an anneal
_STAIRS_OF_TOKENS = 128  # likewise: each is searched for
_step, _start = attrgetter("step"), attrgetter("start")


class Schedule(Pieces):
    """Deal the draws of a run to its sources, or to the buckets of its sources."""

    def __init__(
        self,
        mixture: Mixture,  # checked against the sources
        sources: Sequence[str],
        *,
        seed: int,
        batch: int,  # positions per step, over all ranks
        samples_per_draw: int = 1,
        events: Events | None = None,  # each holds until the mixture's next change
        begin: int = 0,  # first step; counts of sources begin at 0 there
        batch_by: str | None = None,  # what batches share; sources are dealt whole batches
    ) -> None:
        super().__init__(mixture, sources, batch, samples_per_draw, begin)
        self.together = batch // samples_per_draw if batch_by else 1
        self.first = begin  # step from which on it deals
        self._seed = seed
        # other keys need batches of whole blocks
        self._keeps_epochs = batch_by == "source" and self.tapes is None
        self._changes = list(mixture.changes(self.sources))
        for change in self._changes:
            self._append(change, mixture.temperature)
        self._declared = self._segments.copy()
        self.planned = {name for segment in self._segments for name in segment.names}
        self._set_anew(events or {})

    @property
    def drawn(self) -> set[str]:
        """Names of the sources drawn at some step, or whose anchors determine other shares."""
        found = self.planned | self._brought
        if isinstance(self.mixture.weights, str):
            found |= positive([self.mixture.declared(self.sources)])
        return found

    def since(self, step: int) -> Schedule:
        """Return the schedule as one that deals from a later step on, and counts as before."""
        later = copy(self)
        later.first, later._pieces = step, self._pieces.copy()
        return later

    def with_event(self, step: int, event: Event) -> Schedule:
        """Return the schedule with other weights from a step on, without later events."""
        changed = copy(self)
        changed._segments, changed._pieces = self._segments.copy(), self._pieces.copy()
        changed.events = self.events.copy()
        changed._set(step, event)
        return changed

    def with_events(self, events: Events) -> Schedule:
        """Return the schedule with these events instead of its own."""
        if events == self.events:
            return self
        changed = copy(self)
        changed._segments, changed._pieces = self._declared.copy(), []
        changed._set_anew(events)
        return changed

    def leaf(self, source: str, bucket: int | None) -> int:
        """Return the number of the leaf of a source, or of one of its buckets."""
        return (bucket or 0) * len(self.sources) + self.numbers[source]

    def samples(self, position: int) -> list[int]:
        """Return how many of the first positions each source gets, by its number."""
        whole, rest = divmod(position, self.samples_per_draw)
        each = zip(self.dealt(whole), self.dealt(whole + (rest > 0)), strict=True)
        of_leaves = [b * self.samples_per_draw + (a - b) * rest for b, a in each]
        size = len(self.sources)
        return [sum(of_leaves[number::size]) for number in range(size)]

    @property
    def changes(self) -> list[int]:
        """The steps at which shares change, including the beginning."""
        steps = [segment.step for segment in self._segments]
        steps += [piece.step for piece in self._capped if piece.gone]
        return sorted({max(self.first, step) for step in steps})

    @property
    def ways(self) -> list[tuple[int, object]]:
        """The steps at which shares change, with the reason of each."""
        own = self._segments[self._number_of(self.first) :]
        return [(max(self.first, segment.step), segment.how) for segment in own]

    def names_at(self, step: int) -> tuple[str, ...]:
        """Return the names of the sources drawn at a step."""
        piece, size = self._of_step(step), len(self.sources)
        gone = {self.sources[leaf % size] for leaf in piece.gone}
        return tuple(name for name in piece.segment.names if name not in gone)

    def mixed(self, step: int) -> tuple[float, set[str]]:
        """Return the share of samples in batches of several sources, and sources only there."""
        deal = self._of_step(step).deal
        if not isinstance(deal, InEpochs) or len(self.names_at(step)) == 1:
            return 0.0, set()
        whole = zip(self.sources, deal.whole, strict=True)
        names = {name for name, batches in whole if not batches}
        return deal.mixed / sum(deal.lengths), names & {*self.names_at(step)}

    def spans(self, first: int, stop: float, most: int) -> Iterator[tuple[int, int]]:
        """Yield from a step on the spans of steps without a change, at most ``most`` an anneal."""
        changes = self.changes
        for step, after in zip(changes, [*changes[1:], stop], strict=True):
            if first <= step < stop:
                end, stairs = int(min(after, stop, MAX_POSITION)), self._of_step(step).stairs
                stairs = stairs[:: max(1, ceil(len(stairs) / most))]
                yield from pairwise([step, *(at for at in stairs if step < at < end), end])

    def parts(self, start: int, stop: int, *, samples: bool = False) -> list[float]:
        """Return the mean share of each source over steps without a change.

        Where shares are of tokens, ``samples`` gives an estimate in samples.
        """
        piece = self._of_step(start)
        if piece.deal is None:
            return [0.0] * len(self.sources)
        parts = piece.deal.parts
        if samples and piece.merge:
            parts = partial(piece.merge.parts, samples=True)
        if not piece.stairs:
            return list(parts())
        steps = (min(stop, b) - max(start, a) for a, b in pairwise(piece.stairs))
        return list(parts([max(0, of_stair) for of_stair in steps]))

    def first_change(self, other: Schedule) -> int | None:
        """Return the first position that another schedule may deal differently, or None."""
        starts = list[int]()
        for mine, theirs in zip_longest(self._segments, other._segments):
            if mine != theirs:
                starts = [segment.start for segment in (mine, theirs) if segment is not None]
                break
        # up to where the first cap that differs is reached they deal alike
        caps, others = self._caps(self.mixture.max_epochs), self._caps(other.mixture.max_epochs)
        every = {**caps, **others}
        goals = {leaf: min(caps.get(leaf, cap), cap) for leaf, cap in every.items()}
        goals = {leaf: cap for leaf, cap in goals.items() if caps.get(leaf) != others.get(leaf)}
        if (reached := self.reached(goals)) is not None:
            starts.append(reached)
        return min(starts) * self.samples_per_draw if starts else None

    def first_change_of_blocks(
        self, other: Schedule, length: int, end: int | None, other_end: int | None
    ) -> int | None:
        """Return the start of the first block that differs from another schedule's, or None."""
        differing = {*map(_step, self._changes)} ^ {*map(_step, other._changes)}
        places = [self.first_change(other), *map(self._position, differing)]
        places += [] if end == other_end else [end, other_end]
        at = min((place for place in places if place is not None), default=None)
        if at is None:
            return None
        return min(self.block(at, length, end)[0], other.block(at, length, other_end)[0])

    def block(self, position: int, length: int, end: int | None = None) -> tuple[int, int]:
        """Return the block that contains a position, cut by changes and the end of the run."""
        low = position - position % length
        edges = {self._position(change.step) for change in self._changes} | {end or 0}
        # blocks that events begin lie between, off the grid
        number = self._number_of(self.begin + position // self.batch)
        edges.update(
            self._position(segment.step) for segment in self._segments[number : number + 2]
        )
        return (
            max([low, *(edge for edge in edges if edge <= position)]),
            min([low + length, *(edge for edge in edges if edge > position)]),
        )

    def is_overridden(self, step: int) -> bool:
        """Return whether a phase or an event overrides the declared weights at a step."""
        return self.mixture.phase(step) > 0 or self._event_before(step) is not None

    def in_force(self, step: int) -> Mixture:
        """Return the mixture with weights and temperature at a step; for an anneal its shares."""
        change = self._changes[bisect_right(self._changes, step, key=_step) - 1]
        declared, weights, temperature = self.mixture, change.weights, self.mixture.temperature
        at = self._event_before(step)
        if at is not None:
            temperature = self.events[at].temperature or temperature
        if at is not None and at >= change.step:
            weights = declared.changed(self.sources, self.events[at].weights)
        elif change.target is not None:
            temperature = 1.0
            weights = dict(zip(self.sources, self.parts(step, step + 1), strict=True))
        as_declared = weights == declared.declared(self.sources)
        is_word = isinstance(declared.weights, str)
        if as_declared and temperature == declared.temperature and not is_word:
            return declared
        plain = {name: float(weight) for name, weight in weights.items()}
        return replace(declared, weights=plain, temperature=temperature, lengths={})

    def _event_before(self, step: int) -> int | None:
        return next((at for at in reversed(self.events) if at <= step), None)

    def _set_anew(self, events: Events) -> None:
        self.events: dict[int, Event] = {}  # weights set during the run, by ascending steps
        self._brought: set[str] = set()  # names of sources with a weight
        steps = sorted(events)
        for step, after in zip(steps, [*steps[1:], MAX_POSITION], strict=False):
            self._set(step, events[step], after)

    def _set(self, step: int, event: Event, until: int = MAX_POSITION) -> None:
        """Apply weights from a step on, and planned changes before the next event."""
        step = checked("step", step, Step, MixtureError, "set_weights")
        given = checked("weights", event.weights, Shares, MixtureError, "set_weights")
        names = self.sources
        changed = self.mixture.changed(names, given, "set_weights")
        count, temperature, replaced = len(self.events), event.temperature, self.events.get(step)
        while self.events and next(reversed(self.events)) >= step:
            self.events.popitem()
        if len(self.events) < count:
            merged = (
                self.mixture.changed(names, earlier.weights) for earlier in self.events.values()
            )
            self._brought = positive(merged)
        if temperature is not None:
            temperature = checked("temperature", temperature, Factor, MixtureError, "set_weights")
        elif replaced is not None:
            temperature = replaced.temperature
        elif self.events:
            temperature = self.events[next(reversed(self.events))].temperature
        self.events[step] = Event(dict(given), temperature)
        self._brought = self._brought | positive([changed])  # also what a phase had at 0
        later = (change for change in self._changes if step < change.step <= until)
        for change in (Change(step, changed), *later):
            self._append(change, temperature or self.mixture.temperature)

    def _append(self, change: Change, temperature: float) -> None:
        step, names, weights = max(change.step, self.begin), self.sources, change.weights
        start, target, stairs = self.first_draw(step), change.target or {}, tuple[int, ...]()
        shares = exact_shares([weights[name] for name in names], temperature)
        purpose = key(self._seed, "sources", *([step] if step else []))
        how: tuple[object, ...] = (shares, purpose)
        rows, edges = [list(shares)], [0, 0]
        if change.until > step:
            goal = exact_shares([target[name] for name in names], temperature)
            most = _MOST_STAIRS if self.tapes is None else _STAIRS_OF_TOKENS
            stairs, rows = _stairs(change, step, shares, goal, most)
            edges = [(self.first_draw(edge) - start) // self.together for edge in stairs]
            how = (stairs, rows[0], rows[-1], purpose)
        if self.tapes is not None:
            how = ("tokens", *how)
        if epoch := self._epoch(change, temperature):
            how = (epoch, purpose)
        del self._segments[bisect_left(self._segments, step, key=_step) :]
        del self._pieces[bisect_left(self._pieces, start, key=_start) :]
        drawn = tuple(n for n in names if weights[n] > 0 or target.get(n, 0) > 0)
        made = Stretch(step, start, how, drawn, rows, edges, stairs, purpose, epoch)
        self._segments.append(made)

    def _epoch(self, change: Change, temperature: float) -> tuple[int, ...]:
        """Return each source's draws an epoch if batches are dealt so; nothing otherwise."""
        lengths, declared = self.mixture.lengths, self.mixture.declared(self.sources)
        at_first = change.step <= self.begin and change.target is None
        is_exact = self.mixture.weights == "proportional" and temperature == 1
        is_exact = is_exact and not self.mixture.max_epochs
        if not (self._keeps_epochs and lengths and at_first and is_exact):
            return ()
        if change.weights != declared:
            return ()
        return tuple(lengths.get(name, 0) // self.samples_per_draw for name in self.sources)


class RunSchedule:
    """Several schedules one after the other, each from the step at which it begins."""

    # Sources, weights and events are those of the newest, which has all of them.

    def __init__(self, parts: Sequence[Schedule]) -> None:
        self.parts, newest = list(parts), parts[-1]
        self.mixture, self.events, self.batch = newest.mixture, newest.events, newest.batch
        self.sources, self.numbers, self.planned = newest.sources, newest.numbers, newest.planned
        self._stops: list[float] = [*map(attrgetter("first"), parts[1:]), inf]
        for before, part in pairwise(parts):
            if part.begin == before.begin:  # it goes on with the same epochs
                part._earlier = before._earlier
            else:
                part.follow(before, before.first_draw(part.begin))

    def at(self, step: int) -> Schedule:
        """Return the schedule of a step."""
        return self.parts[bisect_right(self._stops, step)]

    def with_event(self, step: int, event: Event) -> RunSchedule:
        """Return the schedule with other weights from a step on, without later events."""
        parts = zip(self.parts, self._stops, strict=True)
        return RunSchedule([p if stop <= step else p.with_event(step, event) for p, stop in parts])

    def with_events(self, events: Events) -> RunSchedule:
        """Return the schedule with these events instead of its own."""
        parts = zip(self.parts, self._stops, strict=True)
        own = ((p, {at: event for at, event in events.items() if at < stop}) for p, stop in parts)
        return RunSchedule([part.with_events(some) for part, some in own])

    @property
    def drawn(self) -> set[str]:
        """Names of the sources drawn at some step, or whose anchors determine other shares."""
        return {name for part in self.parts for name in part.drawn}

    @property
    def changes(self) -> list[int]:
        """The steps at which shares change, including joins."""
        parts = zip(self.parts, self._stops, strict=True)
        return [step for part, stop in parts for step in part.changes if step < stop]

    @property
    def ways(self) -> list[tuple[int, object]]:
        """The steps at which shares change, with reasons: equal lists have equal shares."""
        parts = zip(self.parts, self._stops, strict=True)
        return [way for part, stop in parts for way in part.ways if way[0] < stop]

    def last_change(self, position: int) -> list[Any] | None:
        """Return where shares last changed before a position, as ``Schedule.last_change``."""
        part = self.at(position // self.batch)
        return part.last_change((position - part.begin * self.batch) // part.samples_per_draw)

    def over_time(self, first: int, most: int) -> Iterator[tuple[int, list[float]]]:
        """Yield steps at which shares change, and all shares; an anneal gives ``most`` means."""
        at_once = max(1, most // len(self.sources))
        for part, stop in zip(self.parts, self._stops, strict=True):
            for begin, end in part.spans(first, stop, at_once):
                own = dict(zip(part.sources, part.parts(begin, end), strict=True))
                yield begin, [own.get(name, 0.0) for name in self.sources]

    def samples(self, position: int) -> dict[str, int]:
        """Return how many of the first positions each source gets."""
        found = dict.fromkeys(self.sources, 0)
        for part, stop in zip(self.parts, self._stops, strict=True):
            upto = int(min(position, stop * self.batch)) - part.begin * self.batch
            before = (part.first - part.begin) * self.batch
            own = zip(part.samples(max(before, upto)), part.samples(before), strict=True)
            for name, (count, earlier) in zip(part.sources, own, strict=True):
                found[name] += count - earlier
        return found

    @cached_property
    def ends(self) -> dict[str, int]:
        """The sources that have had their last epoch, and the position from which on."""
        found = dict[str, int]()
        for part, stop in zip(self.parts, self._stops, strict=True):
            for name, draw in part.ends.items():
                if (position := part.position(draw)) < stop * self.batch:
                    found.setdefault(name, max(position, part.first * self.batch))
        return found

    @cached_property
    def out(self) -> int | None:
        """The first position for which every source is used up, or None."""
        return self._position([part.out for part in self.parts])

    @cached_property
    def used_up(self) -> int | None:
        """The position at which a run ends by the mixture's ``stop``; None without one."""
        if self.mixture.stop is None:
            return None
        newest = self.parts[-1]
        names = sorted(newest.planned | newest._brought)
        if self.mixture.stop == "first":
            return self._reached(names)
        ends = list[int]()
        for name in names:
            if (end := self._reached([name])) is None:
                raise MixtureError(
                    f"stop='all': source {name!r} is never used up, because its weight becomes "
                    f"0 first; give it a weight, or give steps="
                )
            ends.append(end)
        return max(ends)

    def _reached(self, names: Collection[str]) -> int | None:
        """Return the first position by which one of some sources is used up."""
        return self._position([part.reached(part.goals(names)) for part in self.parts])

    def _position(self, draws: Sequence[int | None]) -> int | None:
        """Return the first position of the draws of all parts, or None."""
        for part, draw, stop in zip(self.parts, draws, self._stops, strict=True):
            if draw is not None and (at := part.position(draw)) <= stop * self.batch:
                return max(at, part.first * self.batch)
        return None

    def shares(self, step: int) -> dict[str, float]:
        """Return the share of each source at a step."""
        at = self.at(step)
        shares = zip(at.sources, at.parts(step, step + 1), strict=True)
        return dict.fromkeys(self.sources, 0.0) | dict(shares)


def _stairs(
    change: Change, begin: int, start: Sequence[int], end: Sequence[int], most: int
) -> tuple[tuple[int, ...], list[list[int]]]:
    """Return first steps (and the end) of an anneal's stairs, and the shares at their middles."""
    length = change.until - change.step
    count = min(most, length)
    edges = [change.step + j * length // count for j in range(count + 1)]
    low, high = scaled(start), scaled(end)
    steps, shares = [], []
    for one, other in pairwise(edges):
        if other <= begin:
            continue
        way = one + other - 2 * change.step  # twice the distance of the middle
        pairs = zip(low, high, strict=True)
        mixed = [a * (2 * length - way) + b * way for a, b in pairs]
        shares.append([max(1, share // (2 * length)) if share else 0 for share in mixed])
        steps.append(max(one, begin))
    return (*steps, change.until), shares
