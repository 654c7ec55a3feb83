"""Deal every position of a run to a source, through all changes of weights.

A schedule is a list of segments, each from the first draw of a step on: constant weights
(``Apportionment``) or those of an anneal (``Stairs``). Segments begin where the mixture says, and
where ``set_weights`` was called. A segment counts afresh, but every source goes on in its own
order: what it has got in all segments before is added to its indexes. So nothing is repeated and
nothing skipped at a change, and any position can be dealt without walking there.

Draws are what is dealt: positions, or for pairs the several positions of one draw. A draw belongs
to the step in which it begins. Steps are those of the run; draws and positions count from the step
at which the schedule begins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise, zip_longest
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.base.settings import checked
from duckplets.errors import MixtureError
from duckplets.order.apportion import Apportionment, Share, Stairs
from duckplets.order.mixture import Mixture
from duckplets.order.permute import key
from duckplets.order.weights import Change, Event, Factor, Step, exact_shares

Events = Mapping[int, Event]

_MOST_STAIRS = 1024  # of an anneal


@dataclass(frozen=True, slots=True)
class _Told:
    """Weights that were set from a step on; ``drawn``: sources of these and earlier ones."""

    step: int
    event: Event
    drawn: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Segment:
    """Draws from ``start`` on, dealt from ``step`` on; two of the same ``how`` deal alike."""

    step: int
    start: int
    how: tuple[object, ...]
    deal: Any = field(compare=False)  # an Apportionment, Stairs, or what deals like these
    names: tuple[str, ...] = field(compare=False)
    base: list[int] = field(compare=False)  # what each source has got before
    stairs: tuple[int, ...] = field(compare=False, default=())  # their first steps, and the end
    told: _Told | None = field(compare=False, default=None)  # what was set, if it begins this


class Schedule:
    """Deals the draws of a run to its sources.

    Args:
        mixture: Checked against the sources.
        sources: Names of all sources of the run.
        seed: Of the run.
        batch: Positions a step, of all ranks together.
        samples_per_draw: Positions a draw.
        events: Weights set during the run, by the step from which on. Each overrides the declared
            weights until the mixture's next change.
        begin: The first step that is dealt. Sources count from 0 there.

    Attributes:
        planned: Names of the sources that the mixture draws from at some step.
        sources: Names of all sources, sorted.
        numbers: The number of each source: its place among them.
    """

    def __init__(
        self,
        mixture: Mixture,
        sources: Sequence[str],
        *,
        seed: int,
        batch: int,
        samples_per_draw: int = 1,
        events: Events | None = None,
        begin: int = 0,
    ) -> None:
        self.mixture = mixture
        self.sources = sorted(sources)
        self.numbers = {name: number for number, name in enumerate(self.sources)}
        self.batch, self.samples_per_draw, self.begin = batch, samples_per_draw, begin
        self._seed = seed
        self._early: list[_Told] = []  # what was set before the begin
        self._planned = list(mixture.changes(self.sources))
        self._segments: list[_Segment] = []
        for change in self._planned:
            self._append(change, mixture.temperature)
        self.planned = {name for segment in self._segments for name in segment.names}
        for step, event in sorted((events or {}).items(), key=lambda item: item[0]):
            self._set(checked("step", step, Step, MixtureError, "set_weights"), event)

    @property
    def events(self) -> dict[int, Event]:
        """Weights set during the run, by the step from which on."""
        later = (of.told for of in self._segments if of.told is not None)
        return {told.step: told.event for told in (*self._early, *later)}

    @property
    def drawn(self) -> set[str]:
        """Names of the sources drawn from at some step, with those that events brought in.

        And of all whose anchors count for the shares of the others.
        """
        found, told = set(self.planned), self._told_before(len(self._segments))
        if isinstance(self.mixture.weights, str):
            declared = self.mixture.declared(self.sources)
            found |= {name for name, weight in declared.items() if weight > 0}
        return found | told.drawn if told else found

    def with_event(self, step: int, event: Event) -> Schedule:
        """Return the schedule with other weights from a step on, and without later events.

        Raises:
            MixtureError: The weights do not fit the sources, or the temperature is wrong.
        """
        changed = copy(self)
        changed._segments, changed._early = self._segments.copy(), self._early.copy()
        changed._set(step, event)
        return changed

    def with_events(self, events: Events) -> Schedule:
        """Return the schedule with these events instead of its own."""
        return Schedule(
            self.mixture,
            self.sources,
            seed=self._seed,
            batch=self.batch,
            samples_per_draw=self.samples_per_draw,
            events=events,
            begin=self.begin,
        )

    def drawn_in(self, start: int, stop: int | None = None) -> set[str]:
        """Return the names of the sources drawn from in steps ``start … stop-1``, or from there."""
        found: set[str] = set()
        for segment in islice(self._segments, self._number_of(start), None):
            if stop is not None and segment.step >= max(stop, start + 1):
                break
            found.update(segment.names)
        return found

    def deal(self, draws: Integers) -> Iterator[Share]:
        """Yield shares of draws, ascending, gaps or not."""
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
        """Return the number that shares of a source have; here it has no buckets."""
        return self.numbers[source]

    def dealt(self, draws: int) -> list[int]:
        """Return how many of the first so many draws each leaf gets."""
        return _upto(self._segments[self._number_at(draws)], draws)

    def totals(self, draws: Sequence[int]) -> list[list[int]]:
        """Return how many of the first so many draws each source gets, by its number."""
        return [self.dealt(wanted) for wanted in draws]

    def samples(self, position: int) -> list[int]:
        """Return how many of the first so many positions each source gets, by its number."""
        whole, rest = divmod(position, self.samples_per_draw)
        before, after = self.totals([whole, whole + (rest > 0)])
        each = zip(before, after, strict=True)
        return [b * self.samples_per_draw + (a - b) * rest for b, a in each]

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Step and first draw of every change of shares, with that at the begin."""
        return [(segment.step, segment.start) for segment in self._segments]

    def names_at(self, step: int) -> tuple[str, ...]:
        """Return the names of the sources that are drawn from at a step."""
        return self._segments[self._number_of(step)].names

    def shares_at(self, step: int) -> dict[str, float]:
        """Return the share of each source at a step."""
        return dict(zip(self.sources, self.parts(step, step + 1), strict=True))

    def parts(self, start: int, stop: int) -> list[float]:
        """Return the mean share of each source over steps ``start … stop-1``, in which none set in.

        Between two changes shares stay, or go in stairs.
        """
        segment = self._segments[self._number_of(start)]
        if isinstance(segment.deal, Stairs):
            steps = (min(stop, b) - max(start, a) for a, b in pairwise(segment.stairs))
            return segment.deal.parts([max(0, of_stair) for of_stair in steps])
        parts: list[float] = segment.deal.parts()
        return parts

    def first_change(self, other: Schedule) -> int | None:
        """Return the first position that another schedule may deal otherwise, if there is one.

        The other is of the same sources, seed and batch. Up to there all segments are the same.
        """
        for mine, theirs in zip_longest(self._segments, other._segments):
            if mine != theirs:
                starts = [segment.start for segment in (mine, theirs) if segment is not None]
                return min(starts) * self.samples_per_draw
        return None

    def first_change_of_blocks(
        self, other: Schedule, length: int, end: int | None, other_end: int | None
    ) -> int | None:
        """Return where a block begins that is dealt or cut otherwise; None if there is none.

        Args:
            other: As for ``first_change``.
            length: As for ``block``.
            end: The position at which a run by this schedule ends, or None.
            other_end: That of a run by the other one.
        """
        differing = {*(c.step for c in self._planned)} ^ {*(c.step for c in other._planned)}
        places = [self.first_change(other), *map(self._position, differing)]
        places += [] if end == other_end else [end, other_end]
        at = min((place for place in places if place is not None), default=None)
        if at is None:
            return None
        return min(self.block(at, length, end)[0], other.block(at, length, other_end)[0])

    def block(self, position: int, length: int, end: int | None = None) -> tuple[int, int]:
        """Return the start and end of the block of positions that holds one.

        Blocks begin at the multiples of their length, where weights change, and at the end of the
        run.

        Args:
            position: Which one.
            length: Positions of a block; a multiple of the batch.
            end: The position at which a run ends, after which nothing is to be mixed in.
        """
        low = position - position % length
        edges = {self._position(change.step) for change in self._planned} | {end or 0}
        # Those that events begin lie between, if not off by drift.
        number = self._number_of(self.begin + position // self.batch)
        edges.update(self._position(of.step) for of in self._segments[number : number + 2])
        return (
            max([low, *(edge for edge in edges if edge <= position)]),
            min([low + length, *(edge for edge in edges if edge > position)]),
        )

    def is_overridden(self, step: int) -> bool:
        """Return whether a phase or an event holds at a step in the place of declared weights."""
        told = self._told_before(self._number_of(step) + 1)
        return self.mixture.phase(step) > 0 or told is not None

    def in_force(self, step: int) -> Mixture:
        """Return the mixture with the weights and the temperature that hold at a step.

        Shares of an anneal are those of the step.
        """
        change = self._planned[bisect_right(self._planned, step, key=lambda of: of.step) - 1]
        declared, weights, temperature = self.mixture, change.weights, self.mixture.temperature
        told = self._told_before(self._number_of(step) + 1)
        if told is not None:
            temperature = told.event.temperature or temperature
        if told is not None and told.step >= change.step:
            weights = declared.changed(self.sources, told.event.weights)
        elif change.target is not None:
            temperature, weights = 1.0, self.shares_at(step)
        as_declared = weights == declared.declared(self.sources)
        is_word = isinstance(declared.weights, str)
        if as_declared and temperature == declared.temperature and not is_word:
            return declared
        plain = {name: float(weight) for name, weight in weights.items()}
        return replace(declared, weights=plain, temperature=temperature, lengths={})

    def first_draw(self, step: int) -> int:
        """Return the number of the first draw that begins in a step."""
        return -(-self._position(step) // self.samples_per_draw)

    def _position(self, step: int) -> int:
        return max(0, step - self.begin) * self.batch

    def _set(self, step: int, event: Event) -> None:
        self._early = [told for told in self._early if told.step < step]
        before = self._told_before(
            bisect_left(self._segments, step, key=lambda segment: segment.step)
        )
        temperature = event.temperature
        if temperature is not None:
            temperature = checked("temperature", temperature, Factor, MixtureError, "set_weights")
        elif before is not None:
            temperature = before.event.temperature
        weights = self.mixture.changed(self.sources, event.weights, "set_weights")
        drawn = frozenset(name for name, weight in event.weights.items() if weight > 0)
        if before is not None:
            drawn = before.drawn if drawn <= before.drawn else before.drawn | drawn
        told = _Told(step, Event(dict(event.weights), temperature), drawn)
        self._append(Change(step, weights), temperature or self.mixture.temperature, told)
        if step < self.begin:
            self._early.append(told)
        for change in self._planned:
            if change.step > step:
                self._append(change, temperature or self.mixture.temperature)

    def _told_before(self, number: int) -> _Told | None:
        """Return what was set last before a segment."""
        for i in range(number - 1, -1, -1):
            if told := self._segments[i].told:
                return told
        return self._early[-1] if self._early else None

    def _append(self, change: Change, temperature: float, told: _Told | None = None) -> None:
        """Let a change set in, in the place of all from its step on."""
        step = max(change.step, self.begin)
        segment = replace(self._segment(change, step, temperature), told=told)
        del self._segments[bisect_left(self._segments, step, key=lambda of: of.step) :]
        if self._segments:
            segment = replace(segment, base=_upto(self._segments[-1], segment.start))
        self._segments.append(segment)

    def _segment(self, change: Change, step: int, temperature: float) -> _Segment:
        """Return a change from a step on, as if nothing was dealt before."""

        def shares_of(weights: Mapping[str, object]) -> tuple[int, ...]:
            return exact_shares([weights[name] for name in self.sources], temperature)  # type: ignore[misc]

        start, base = self.first_draw(step), [0] * len(self.sources)
        purpose = key(self._seed, "sources", *([step] if step else []))
        weights, target = change.weights, change.target or {}
        names = tuple(n for n in self.sources if weights[n] > 0 or target.get(n, 0) > 0)
        shares = shares_of(weights)
        if change.target is None or change.until <= step:
            deal = Apportionment(shares, purpose)
            return _Segment(step, start, (shares, purpose), deal, names, base)
        steps, of_stairs = _stairs(change, step, shares, shares_of(target))
        edges = [self.first_draw(edge) - start for edge in steps]
        how = (steps, of_stairs[0], of_stairs[-1], purpose)
        stairs = Stairs(of_stairs, edges, purpose)
        return _Segment(step, start, how, stairs, names, base, steps)

    def _number_of(self, step: int) -> int:
        """Return the number of the segment in force at a step, from the begin on."""
        return max(0, bisect_right(self._segments, step, key=lambda segment: segment.step) - 1)

    def _number_at(self, draw: int) -> int:
        """Return the number of the last segment that starts at a draw or before."""
        return bisect_right(self._segments, draw, key=lambda segment: segment.start) - 1


def _upto(segment: _Segment, draws: int) -> list[int]:
    """Return what each source has got in the first so many draws, which end in a segment."""
    own = segment.deal.counts(draws - segment.start)
    return [a + b for a, b in zip(segment.base, own, strict=True)]


def _stairs(
    change: Change, begin: int, start: Sequence[int], end: Sequence[int]
) -> tuple[tuple[int, ...], list[list[int]]]:
    """Return the first steps of the stairs of an anneal from a step on, with its end, and shares.

    Each has the shares of its middle, on a straight line from ``start`` to ``end``.
    """
    length = change.until - change.step
    count = min(_MOST_STAIRS, length)
    edges = [change.step + j * length // count for j in range(count + 1)]
    low, high = _scaled(start), _scaled(end)
    steps, shares = [], []
    for one, other in pairwise(edges):
        if other <= begin:
            continue
        way = one + other - 2 * change.step  # twice as far as the middle
        pairs = zip(low, high, strict=True)
        mixed = [a * (2 * length - way) + b * way for a, b in pairs]
        shares.append([max(1, of // (2 * length)) if of else 0 for of in mixed])
        steps.append(max(one, begin))
    return (*steps, change.until), shares


def _scaled(shares: Sequence[int]) -> list[int]:
    """Return shares that add up to about 2^43, of which none that is positive becomes 0."""
    total = sum(shares)
    return [max(1, (share << 43) // total) if share else 0 for share in shares]
