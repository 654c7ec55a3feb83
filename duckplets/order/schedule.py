"""Deal every position of a run to a source, through all changes of weights.

A schedule is a list of segments, each from the first draw of a step on: constant weights
(``Apportionment``) or shares that change linearly (``Ramp``). Segments begin where the mixture
says, and where ``set_weights`` was called. A segment counts afresh, but every source goes on in
its own order: what it has got in all segments before is added to its indexes. So nothing is
repeated and nothing skipped at a change, and any position can be dealt without walking there.

Draws are what is dealt: positions, or for pairs the several positions of one draw. A draw belongs
to the step in which it begins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice, zip_longest

import numpy as np

from duckplets.base.arrays import Grown, Integers
from duckplets.order.apportion import Apportionment, Ramp, Share
from duckplets.order.changes import Change, Event, with_joins
from duckplets.order.mixture import Mixture
from duckplets.order.permute import key
from duckplets.order.weights import Weight, checked_positive, checked_step, exact_shares

Events = Mapping[int, Event]


@dataclass(frozen=True, slots=True)
class _Segment:
    """Draws from ``start`` on, dealt from ``step`` on; two of the same ``how`` deal alike."""

    step: int
    start: int
    how: tuple[object, ...]
    deal: Apportionment | Ramp = field(compare=False)
    names: tuple[str, ...] = field(compare=False)


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
        joined: Sources that came later, with the step from which on they are drawn from.
        lengths: Samples an epoch of every source from later steps on, as ``Mixture.lengths``.

    Attributes:
        planned: Names of the sources that the mixture draws from at some step.
        sources: Names of all sources, sorted; those that joined stand last, so that all before them
            are dealt as without them.
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
        joined: Mapping[str, int] | None = None,
        lengths: Mapping[int, Mapping[str, int]] | None = None,
    ) -> None:
        self.mixture = mixture
        self._joined, self._lengths = dict(joined or {}), dict(lengths or {})
        self._mixtures = dict.fromkeys((0, *self._joined.values()), mixture)
        if isinstance(mixture.weights, str):
            for step, of_step in self._lengths.items():
                self._mixtures[step] = replace(mixture, lengths=of_step)
        self.sources = sorted(sources, key=lambda name: (self._joined.get(name, -1), name))
        self.numbers = {name: number for number, name in enumerate(self.sources)}
        self._events: Grown[tuple[int, Event]] = Grown()
        self._told: set[str] = set()  # what events give a weight, but for the last one
        self._seed = seed
        self._batch = batch
        self._per_draw = samples_per_draw
        self._changes = {s: list(m.changes(self.sources)) for s, m in self._mixtures.items()}
        self._planned = self._changes[0]
        self.planned = {
            name
            for changes in self._changes.values()
            for change in changes
            for name in self.sources
            if change.weights[name] > 0 or (change.target or {}).get(name, 0) > 0
        }
        segment = partial(self._segment, temperature=mixture.temperature)
        self._segments = Grown(map(segment, with_joins(self._changes, self._joined)))
        # What each source has got before a segment, by its number: of shared ones, of the others.
        self._bases, self._last_bases = {0: [0] * len(self.sources)}, dict[int, list[int]]()
        for step, event in sorted((events or {}).items(), key=lambda item: item[0]):
            self._set(checked_step("set_weights", "step", step), event)

    @property
    def events(self) -> dict[int, Event]:
        """Weights set during the run, by the step from which on."""
        return dict(self._events)

    @property
    def drawn(self) -> set[str]:
        """Names of the sources drawn from at some step, with those that events brought in.

        And of all whose anchors count for the shares of the others.
        """
        return self.planned | self._told | self._told_last | self._counting

    @cached_property
    def _counting(self) -> set[str]:
        declared = self.mixture.declared(self.sources)
        return {n for n, w in declared.items() if w > 0 and isinstance(self.mixture.weights, str)}

    @property
    def _told_last(self) -> set[str]:
        return _positive(self._events[len(self._events) - 1]) if len(self._events) else set()

    @property
    def batch(self) -> int:
        """Positions a step, of all ranks together."""
        return self._batch

    def with_event(self, step: int, event: Event) -> Schedule:
        """Return the schedule with other weights from a step on, and without later events.

        Raises:
            MixtureError: The weights do not fit the sources, or the temperature is wrong.
        """
        changed = copy(self)
        # There may be one at every step of a long run, so nothing here goes through them all.
        changed._set(step, event)
        return changed

    def with_events(self, events: Events) -> Schedule:
        """Return the schedule with these events instead of its own."""
        return Schedule(
            self.mixture,
            self.sources,
            seed=self._seed,
            batch=self._batch,
            samples_per_draw=self._per_draw,
            events=events,
            joined=self._joined,
            lengths=self._lengths,
        )

    def drawn_in(self, start: int, stop: int | None = None) -> set[str]:
        """Return the names of the sources drawn from in steps ``start … stop-1``, or from there."""
        found: set[str] = set()
        first = bisect_right(self._segments, start, key=lambda segment: segment.step) - 1
        for segment in islice(self._segments, first, None):
            if stop is not None and segment.step >= stop:
                break
            found.update(segment.names)
        return found

    def shares(self, start: int, stop: int) -> Iterator[Share]:
        """Yield shares of draws ``start … stop-1``; a leaf is the number of a source."""
        return self.deal(np.arange(start, stop, dtype=np.int64))

    def deal(self, draws: Integers) -> Iterator[Share]:
        """Yield shares of draws, ascending, gaps or not."""
        low, size = 0, len(draws)
        while low < size:
            number = self._number_at(int(draws[low]))
            high, segment = size, self._segments[number]
            if number + 1 < len(self._segments):
                high = int(np.searchsorted(draws, self._segments[number + 1].start))
            base = self._base(number)
            for share in segment.deal.deal(draws[low:high] - segment.start):
                yield Share(share.leaf, share.offsets + low, share.indexes + base[share.leaf])
            low = high

    def count(self, source: str, draws: int) -> int:
        """Return how many of the first ``draws`` go to a source."""
        leaf, number = self.numbers[source], self._number_at(draws)
        segment = self._segments[number]
        return self._base(number)[leaf] + segment.deal.count(leaf, draws - segment.start)

    def totals(self, draws: Sequence[int]) -> list[list[int]]:
        """Return how many of the first so many draws each source gets, by its number.

        Nothing is dealt for it, but for short ramps: see ``Ramp.counts``.

        Args:
            draws: Numbers of draws, ascending.
        """
        found, number, base = [], 0, [0] * len(self.sources)
        for wanted in draws:
            last = self._number_at(wanted)
            for i in range(number, last):
                segment, following = self._segments[i], self._segments[i + 1]
                base = _added(base, segment.deal.counts(following.start - segment.start))
            number, segment = last, self._segments[last]
            found.append(_added(base, segment.deal.counts(wanted - segment.start)))
        return found

    def samples(self, position: int) -> list[int]:
        """Return how many of the first so many positions each source gets, by its number."""
        whole, rest = divmod(position, self._per_draw)
        before, after = self.totals([whole, whole + (rest > 0)])
        return [b * self._per_draw + (a - b) * rest for b, a in zip(before, after, strict=True)]

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Step and first draw of every change of shares, with that at step 0."""
        return [(segment.step, segment.start) for segment in self._segments]

    def names_at(self, step: int) -> tuple[str, ...]:
        """Return the names of the sources that are drawn from at a step."""
        return self._in_force(step).names

    def shares_at(self, step: int) -> dict[str, float]:
        """Return the share of each source at a step."""
        return dict(zip(self.sources, self.parts(step, step + 1), strict=True))

    def _in_force(self, step: int) -> _Segment:
        number = bisect_right(self._segments, step, key=lambda segment: segment.step) - 1
        return self._segments[number]

    def parts(self, start: int, stop: int) -> list[float]:
        """Return the mean share of each source over steps ``start … stop-1``, in which none set in.

        Between two changes shares stay, or move in a line.
        """
        segment = self._in_force(start)
        if isinstance(segment.deal, Ramp):
            return segment.deal.parts(start - segment.step, stop - 1 - segment.step)
        return segment.deal.parts()

    def is_counted(self, draws: int) -> bool:
        """Return whether ``totals`` of so many draws is what is dealt, to the sample."""
        segments = islice(self._segments, self._number_at(draws) + 1)
        for number, segment in enumerate(segments):
            length = self._end(number, draws) - segment.start
            if isinstance(segment.deal, Ramp) and segment.deal.is_long(length):
                return False
        return True

    def first_change(self, other: Schedule) -> int | None:
        """Return the first position that another schedule may deal otherwise, if there is one.

        The other is of the same sources, seed and batch. Up to there all segments are the same.
        """
        for mine, theirs in zip_longest(self._segments, other._segments):
            if mine != theirs:
                starts = [segment.start for segment in (mine, theirs) if segment is not None]
                return min(starts) * self._per_draw
        return None

    def first_change_of_stretches(
        self, other: Schedule, length: int, end: int | None, other_end: int | None
    ) -> int | None:
        """Return where a stretch begins that is dealt or cut otherwise; None if there is none.

        Args:
            other: As for ``first_change``.
            length: As for ``stretch``.
            end: The position at which a run by this schedule ends, or None.
            other_end: That of a run by the other one.
        """
        changes = [c.step for c in self._planned], [c.step for c in other._planned]
        differing = {*changes[0]} ^ {*changes[1]}
        places = [self.first_change(other), *(step * self._batch for step in differing)]
        places += [] if end == other_end else [end, other_end]
        at = min((place for place in places if place is not None), default=None)
        if at is None:
            return None
        return min(self.stretch(at, length, end)[0], other.stretch(at, length, other_end)[0])

    def stretch(self, position: int, length: int, end: int | None = None) -> tuple[int, int]:
        """Return the start and end of the stretch of positions that holds one.

        Stretches begin at the multiples of their length, where the mixture changes, and at the
        end of the run.

        Args:
            position: Which one.
            length: Positions of a stretch; a multiple of the batch.
            end: The position at which a run ends, after which nothing is to be mixed in.
        """
        edges = {change.step * self._batch for change in self._planned} | {end or 0}
        low = position - position % length
        high = min([low + length, *(edge for edge in edges if edge > position)])
        low = max([low, *(edge for edge in edges if edge <= position)])
        # Those that events begin lie between, if not off by drift.
        number = bisect_right(self._segments, position // self._batch, key=lambda s: s.step)
        low = max(low, self._segments[number - 1].step * self._batch)
        if number < len(self._segments):
            high = min(high, self._segments[number].step * self._batch)
        return low, high

    def _set(self, step: int, event: Event) -> None:
        kept = bisect_left(self._events, step, key=lambda event: event[0])
        temperature = event.temperature
        if temperature is not None:
            temperature = checked_positive("set_weights", "temperature", temperature)
        elif kept:
            temperature = self._events[kept - 1][1].temperature
        changes = {
            start: [
                Change(step, mixture.changed(self.sources, event.weights, "set_weights")),
                *(change for change in self._changes[start] if change.step > step),
            ]
            for start, mixture in self._mixtures.items()
        }
        first = bisect_left(self._segments, step, key=lambda segment: segment.step)
        # Made before anything is shared: it may be refused.
        segment = partial(self._segment, temperature=temperature or self.mixture.temperature)
        made = [segment(change) for change in with_joins(changes, self._joined)]
        segments = self._segments.changed(first, made)
        if not segments.is_shared_with(self._segments):
            # A copy, which is made at once: another thread may be adding to it.
            bases = self._bases.copy()
            self._bases = {n: base for n, base in bases.items() if n < max(1, first)}
        self._segments, self._last_bases = segments, {}
        if kept == len(self._events):
            self._told = self._told | self._told_last  # another one, for others share it
        elif kept < len(self._events) - 1:
            self._told = set().union(*map(_positive, islice(self._events, kept)))
        self._events = self._events.changed(kept, [(step, Event(dict(event.weights), temperature))])

    def is_overridden(self, step: int) -> bool:
        """Return whether a phase or an event holds at a step in the place of declared weights."""
        return self.mixture.phase(step) > 0 or any(at <= step for at, _ in self._events)

    def in_force(self, step: int) -> Mixture:
        """Return the mixture with the weights and the temperature that hold at a step.

        Shares that change step by step are those of the step.
        """
        start = max(start for start in self._mixtures if start <= step)
        planned = bisect_right(self._planned, step, key=lambda change: change.step) - 1
        told = bisect_right(self._events, step, key=lambda event: event[0]) - 1
        change, declared = self._changes[start][planned], self._mixtures[start]
        at, event = self._events[told] if told >= 0 else (-1, Event({}))
        temperature, weights = event.temperature or declared.temperature, change.weights
        if at >= change.step:
            weights = declared.changed(self.sources, event.weights)
        elif change.target is not None:
            temperature, weights = 1.0, self.shares_at(step)
        as_declared = weights == declared.declared(self.sources)
        is_word = isinstance(declared.weights, str)
        if as_declared and temperature == declared.temperature and not is_word:
            return declared
        there = {n: float(w) for n, w in weights.items() if self._joined.get(n, 0) <= step}
        return replace(declared, weights=there, temperature=temperature, lengths={})

    def _segment(self, change: Change, temperature: float) -> _Segment:
        step, start = change.step, self.first_draw(change.step)
        purpose = key(self._seed, "sources", *([step] if step else []))
        weights, target = change.weights, change.target or {}
        shares = self._shares_of(weights, temperature)
        names = tuple(n for n in self.sources if weights[n] > 0 or target.get(n, 0) > 0)
        if change.target is None:
            return _Segment(step, start, (shares, purpose), Apportionment(shares, purpose), names)

        def edges(steps: Integers) -> Integers:
            return -(-((steps + step) * self._batch) // self._per_draw) - start

        def step_of(draws: Integers) -> Integers:
            return (draws + start) * self._per_draw // self._batch - step

        end = self._shares_of(target, temperature)
        shares = change.on_the_way(shares, end)
        length = change.until - step
        ramp = Ramp(shares, end, length, edges=edges, step_of=step_of, purpose=purpose)
        return _Segment(step, start, (shares, end, length, purpose), ramp, names)

    def _shares_of(self, weights: Mapping[str, Weight], temperature: float) -> tuple[int, ...]:
        return exact_shares([weights[name] for name in self.sources], temperature)

    def first_draw(self, step: int) -> int:
        """Return the number of the first draw that begins in a step."""
        return -(-(step * self._batch) // self._per_draw)

    def _number_at(self, draw: int) -> int:
        """Return the number of the last segment that starts at a draw or before."""
        return bisect_right(self._segments, draw, key=lambda segment: segment.start) - 1

    def _end(self, number: int, stop: int) -> int:
        following = number + 1
        return self._segments[following].start if following < len(self._segments) else stop

    def _base(self, number: int) -> list[int]:
        """Return what each source has got in all segments before one."""
        # Two threads may fill these at once: each writes the same.
        known = number
        while (found := self._bases_of(known).get(known)) is None:
            known -= 1
        for i in range(known, number):
            segment = self._segments[i]
            length = self._segments[i + 1].start - segment.start
            found = _added(found, segment.deal.counts_exactly(length))
            self._bases_of(i + 1)[i + 1] = found
        return found

    def _bases_of(self, number: int) -> dict[int, list[int]]:
        shared = number == 0 or number < self._segments.shared
        return self._bases if shared else self._last_bases


def _positive(event: tuple[int, Event]) -> set[str]:
    return {name for name, weight in event[1].weights.items() if weight > 0}


def _added(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
