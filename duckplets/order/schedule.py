"""Deal every position of a run to a source, through all changes of weights."""

# Segments begin where the mixture or ``set_weights`` says. Counts of earlier segments are added to
# a source's indices, so each continues its own order and any position is dealt without walking
# there. A draw is a position, or several positions for pairs, and belongs to the step in which it
# begins.

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, zip_longest
from math import ceil, inf
from operator import attrgetter
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.base.checks import MAX_POSITION
from duckplets.base.settings import checked
from duckplets.errors import MixtureError
from duckplets.order.apportion import Apportionment, Share, Stairs, exact_shares
from duckplets.order.blocks import InBlocks, InEpochs
from duckplets.order.by_tokens import ByTokens, Frontier
from duckplets.order.kinds import Factor, Shares, Step
from duckplets.order.mixture import Change, Event, Mixture, positive
from duckplets.order.permute import key
from duckplets.order.tapes import Tape

Events = Mapping[int, Event]

_MOST_STAIRS = 1024  # stairs of an anneal
_step, _start = attrgetter("step"), attrgetter("start")


@dataclass(frozen=True, slots=True)
class _Segment:
    """Draws from ``start`` on, dealt from ``step`` on; segments with equal ``how`` deal alike."""

    step: int
    start: int
    how: tuple[object, ...]
    deal: Any = field(compare=False)  # an ``Apportionment`` or ``Stairs``, or its like
    merge: ByTokens | None = field(compare=False)  # what deals by tokens, whole blocks perhaps
    names: tuple[str, ...] = field(compare=False)
    base: list[int] = field(compare=False)  # counts of each leaf before it; 0 where tokens count
    stairs: tuple[int, ...] = field(compare=False)  # first steps of the segments, and the end

    def upto(self, draws: int) -> list[int]:
        """Return the counts of each leaf after so many draws, which end in this segment."""
        own = self.deal.counts(draws - self.start)
        return [a + b for a, b in zip(self.base, own, strict=True)]


class Schedule:
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
        self.mixture = mixture
        self.sources = sorted(sources)
        self.numbers = {name: number for number, name in enumerate(self.sources)}
        self.batch, self.samples_per_draw, self.begin = batch, samples_per_draw, begin
        self.first = begin  # step from which on it deals
        self._seed = seed
        self.together = batch // samples_per_draw if batch_by else 1  # draws dealt together
        by_tokens = mixture.unit == "tokens"
        # other keys need batches of whole blocks
        self._keeps_epochs = batch_by == "source" and not by_tokens
        # by source the tokens of what is dealt together, for its planner to fill in
        self.tapes: dict[int, Tape] | None = {} if by_tokens else None
        self._changes = list(mixture.changes(self.sources))
        self._segments: list[_Segment] = []
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
        later.first = step
        return later

    def with_event(self, step: int, event: Event) -> Schedule:
        """Return the schedule with other weights from a step on, without later events."""
        changed = copy(self)
        changed._segments, changed.events = self._segments.copy(), self.events.copy()
        changed._set(step, event)
        return changed

    def with_events(self, events: Events) -> Schedule:
        """Return the schedule with these events instead of its own."""
        if events == self.events:
            return self
        changed = copy(self)
        changed._segments = self._declared.copy()
        changed._set_anew(events)
        return changed

    def deal(self, draws: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of ascending draws, with or without gaps."""
        low, size = 0, len(draws)
        while low < size:
            number = self._number_at(int(draws[low]))
            high, segment = size, self._segments[number]
            if number + 1 < len(self._segments):
                high = int(np.searchsorted(draws, self._segments[number + 1].start))
            for share in segment.deal.deal(draws[low:high] - segment.start):
                indexes = share.indexes + segment.base[share.leaf]
                yield Share(share.leaf, share.offsets + low, indexes)
            low = high

    def leaf(self, source: str, bucket: int | None) -> int:
        """Return the number of the leaf of a source, or of one of its buckets."""
        return (bucket or 0) * len(self.sources) + self.numbers[source]

    def dealt(self, draws: int) -> list[int]:
        """Return how many of the first draws each leaf gets."""
        return self._segments[self._number_at(draws)].upto(draws)

    def last_change(self, draws: int) -> list[Any] | None:
        """Return where shares of tokens last changed before some draws, as values for ``know``."""
        segment = self._segments[self._number_at(draws)]
        if segment.merge is None:
            return None
        return [segment.step, *segment.merge.last_start((draws - segment.start) // self.together)]

    def know(self, change: Sequence[Any]) -> None:
        """Take where shares last changed from a saved run, rather than find it."""
        segment = self._segments[self._number_of(int(change[0]))]
        if segment.merge is not None and segment.step == change[0]:
            segment.merge.know(segment.start // self.together, change[1:])

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
        return sorted({max(self.first, segment.step) for segment in self._segments})

    @property
    def ways(self) -> list[tuple[int, object]]:
        """The steps at which shares change, and by what."""
        own = self._segments[self._number_of(self.first) :]
        return [(max(self.first, of.step), of.how) for of in own]

    def names_at(self, step: int) -> tuple[str, ...]:
        """Return the names of the sources drawn at a step."""
        return self._segments[self._number_of(step)].names

    def mixed(self, step: int) -> tuple[float, set[str]]:
        """Return the share of samples in batches of several sources, and sources only there."""
        deal = self._segments[self._number_of(step)].deal
        if not isinstance(deal, InEpochs) or len(self.names_at(step)) == 1:
            return 0.0, set()
        whole = zip(self.sources, deal.whole, strict=True)
        names = {name for name, batches in whole if not batches}
        return deal.mixed / sum(deal.lengths), names & {*self.names_at(step)}

    def spans(self, first: int, stop: float, most: int) -> Iterator[tuple[int, int]]:
        """Yield from a step on the spans of steps without a change, at most ``most`` an anneal."""
        own = self._segments[self._number_of(self.first) :]
        for segment, after in zip(own, [*(of.step for of in own[1:]), stop], strict=True):
            step = max(self.first, segment.step)
            if first <= step < stop:
                end = int(min(after, stop, MAX_POSITION))
                stairs = segment.stairs[:: max(1, ceil(len(segment.stairs) / most))]
                yield from pairwise([step, *(at for at in stairs if step < at < end), end])

    def parts(self, start: int, stop: int, *, samples: bool = False) -> list[float]:
        """Return the mean share of each source over steps without a change.

        Where shares are of tokens, those in ``samples`` are about what comes.
        """
        segment = self._segments[self._number_of(start)]
        parts = segment.deal.parts
        if samples and segment.merge:
            parts = partial(segment.merge.parts, samples=True)
        if not segment.stairs:
            return list(parts())
        steps = (min(stop, b) - max(start, a) for a, b in pairwise(segment.stairs))
        return list(parts([max(0, of_stair) for of_stair in steps]))

    def first_change(self, other: Schedule) -> int | None:
        """Return the first position that another schedule may deal differently, or None."""
        for mine, theirs in zip_longest(self._segments, other._segments):
            if mine != theirs:
                starts = [segment.start for segment in (mine, theirs) if segment is not None]
                return min(starts) * self.samples_per_draw
        return None

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
        edges.update(self._position(of.step) for of in self._segments[number : number + 2])
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

    def first_draw(self, step: int) -> int:
        """Return the first draw that begins in a step."""
        return -(-self._position(step) // self.samples_per_draw)

    def _position(self, step: int) -> int:
        return max(0, step - self.begin) * self.batch

    def _event_before(self, step: int) -> int | None:
        return next((at for at in reversed(self.events) if at <= step), None)

    def _set_anew(self, events: Events) -> None:
        self.events: dict[int, Event] = {}  # weights set during the run, by ascending steps
        self._brought: set[str] = set()  # names of sources with a weight
        steps = sorted(events)
        for step, after in zip(steps, [*steps[1:], MAX_POSITION], strict=False):
            self._set(step, events[step], after)

    def _set(self, step: int, event: Event, until: int = MAX_POSITION) -> None:
        """Apply weights from a step on, with what was planned after it before the next change."""
        step = checked("step", step, Step, MixtureError, "set_weights")
        given = checked("weights", event.weights, Shares, MixtureError, "set_weights")
        names = self.sources
        changed = self.mixture.changed(names, given, "set_weights")
        count, temperature, replaced = len(self.events), event.temperature, self.events.get(step)
        while self.events and next(reversed(self.events)) >= step:
            self.events.popitem()
        if len(self.events) < count:
            merged = (self.mixture.changed(names, of.weights) for of in self.events.values())
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
        deal: Any
        merge: ByTokens | None = None
        of_stairs, edges = [list(shares)], [0, 0]
        if change.until > step:
            goal = exact_shares([target[name] for name in names], temperature)
            stairs, of_stairs = _stairs(change, step, shares, goal)
            edges = [(self.first_draw(edge) - start) // self.together for edge in stairs]
            how = (stairs, of_stairs[0], of_stairs[-1], purpose)
        del self._segments[bisect_left(self._segments, step, key=_step) :]
        before = self._segments[-1] if self._segments else None
        if self.tapes is not None:
            how, base = ("tokens", *how), partial(self._cut, before, start)
            deal = merge = ByTokens(of_stairs, edges[:-1], self.tapes, base)
        else:
            deal = (
                Stairs(of_stairs, edges, purpose) if stairs else self._dealer(shares, purpose, step)
            )
        if epoch := self._epoch(change, temperature):
            how, deal = (epoch, purpose), InEpochs(epoch, self.together, purpose)
        elif self.together > 1:
            deal = InBlocks(deal, self.together)
        drawn = tuple(n for n in names if weights[n] > 0 or target.get(n, 0) > 0)
        counts = [0] * (len(names) if merge else len(deal.counts(0)))
        if before and not merge:
            counts = before.upto(start)
        self._segments.append(_Segment(step, start, how, deal, merge, drawn, counts, stairs))

    def _cut(self, before: _Segment | None, draw: int) -> Frontier:
        """Return where leaves stand before a draw at which shares change."""
        if before is None or before.merge is None:
            return Frontier(0, [0] * len(self.sources), [0] * len(self.sources))
        return before.merge.cut((draw - before.start) // self.together)

    def _epoch(self, change: Change, temperature: float) -> tuple[int, ...]:
        """Return each source's draws an epoch if batches are dealt so; nothing otherwise."""
        lengths, declared = self.mixture.lengths, self.mixture.declared(self.sources)
        at_first = change.step <= self.begin and change.target is None
        is_exact = self.mixture.weights == "proportional" and temperature == 1
        if not (self._keeps_epochs and lengths and at_first and is_exact):
            return ()
        if change.weights != declared:
            return ()
        return tuple(lengths.get(name, 0) // self.samples_per_draw for name in self.sources)

    def _dealer(self, shares: tuple[int, ...], purpose: int, step: int) -> Any:
        return Apportionment(shares, purpose)

    def _number_of(self, step: int) -> int:
        """Return the number of the segment in force at a step."""
        return max(0, bisect_right(self._segments, step, key=_step) - 1)

    def _number_at(self, draw: int) -> int:
        """Return the number of the last segment that starts at a draw or before."""
        number = bisect_right(self._segments, draw, key=_start) - 1
        known = number
        while known >= 0 and (merge := self._segments[known].merge) and not merge.starts:
            known -= 1
        for segment in self._segments[known + 1 : number + 1]:
            if segment.merge:  # in order: thousands may not wait for each other
                segment.merge.start(0)
        return number


class RunSchedule:
    """Several schedules one after the other, each from the step at which it begins."""

    # Sources, weights and events are those of the newest, which has all of them.

    def __init__(self, parts: Sequence[Schedule]) -> None:
        self.parts, newest = list(parts), parts[-1]
        self.mixture, self.events, self.batch = newest.mixture, newest.events, newest.batch
        self.sources, self.numbers, self.planned = newest.sources, newest.numbers, newest.planned
        self._stops: list[float] = [*map(attrgetter("first"), parts[1:]), inf]

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
        own = ((p, {at: of for at, of in events.items() if at < stop}) for p, stop in parts)
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
        """The steps at which shares change, and by what: equal lists have equal shares."""
        parts = zip(self.parts, self._stops, strict=True)
        return [of for part, stop in parts for of in part.ways if of[0] < stop]

    def last_change(self, position: int) -> list[Any] | None:
        """Return where shares last changed before a position, as ``Schedule.last_change``."""
        part = self.at(position // self.batch)
        return part.last_change((position - part.begin * self.batch) // part.samples_per_draw)

    def over_time(self, first: int, most: int) -> Iterator[tuple[int, list[float]]]:
        """Yield the steps at which shares change, with all shares; of an anneal ``most`` means."""
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

    def shares(self, step: int) -> dict[str, float]:
        """Return the share of each source at a step."""
        at = self.at(step)
        shares = zip(at.sources, at.parts(step, step + 1), strict=True)
        return dict.fromkeys(self.sources, 0.0) | dict(shares)


def _stairs(
    change: Change, begin: int, start: Sequence[int], end: Sequence[int]
) -> tuple[tuple[int, ...], list[list[int]]]:
    """Return first steps (and the end) of an anneal's stairs, and the shares at their middles."""
    length = change.until - change.step
    count = min(_MOST_STAIRS, length)
    edges = [change.step + j * length // count for j in range(count + 1)]
    low, high = _scaled(start), _scaled(end)
    steps, shares = [], []
    for one, other in pairwise(edges):
        if other <= begin:
            continue
        way = one + other - 2 * change.step  # twice the distance of the middle
        pairs = zip(low, high, strict=True)
        mixed = [a * (2 * length - way) + b * way for a, b in pairs]
        shares.append([max(1, of // (2 * length)) if of else 0 for of in mixed])
        steps.append(max(one, begin))
    return (*steps, change.until), shares


def _scaled(shares: Sequence[int]) -> list[int]:
    """Return shares that add up to about 2^43, where no positive one becomes 0."""
    total = sum(shares)
    return [max(1, (share << 43) // total) if share else 0 for share in shares]
