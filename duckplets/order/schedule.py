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
from dataclasses import dataclass, field
from itertools import zip_longest

from duckplets.base.arrays import Integers
from duckplets.order.apportion import Apportionment, Ramp, Share, exact_shares
from duckplets.order.mixture import Mixture
from duckplets.order.permute import key
from duckplets.order.weights import checked_step

Events = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class _Change:
    """From ``step`` on the weights are these, or on their way to those of ``until``."""

    step: int
    weights: Mapping[str, float]
    until: int = 0
    target: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class _Segment:
    """Draws from ``start`` on, dealt from ``step`` on; two of the same ``how`` deal alike."""

    step: int
    start: int
    how: tuple[object, ...]
    deal: Apportionment | Ramp = field(compare=False)
    names: tuple[str, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Differing:
    """A source whose share is another by another schedule.

    Attributes:
        start: The first step.
        stop: After the last, or None.
        source: Its name.
        before: Its shares at the first and the last of these steps.
        after: The same by the other schedule.
    """

    start: int
    stop: int | None
    source: str
    before: tuple[float, float]
    after: tuple[float, float]


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
    ) -> None:
        self.mixture = mixture
        self.sources = sorted(sources)
        self.numbers = {name: number for number, name in enumerate(self.sources)}
        self.events: dict[int, dict[str, float]] = {}
        self._told: set[str] = set()  # what events give a weight
        self._seed = seed
        self._batch = batch
        self._per_draw = samples_per_draw
        self._planned = list(self._changes())
        self.planned = {
            name
            for change in self._planned
            for name in self.sources
            if change.weights[name] > 0 or (change.target or {}).get(name, 0) > 0
        }
        self._segments = [self._segment(change) for change in self._planned]
        self._bases = {0: [0] * len(self.sources)}
        for step, weights in sorted((events or {}).items()):
            self._set(checked_step("set_weights", "step", step), weights)

    @property
    def drawn(self) -> set[str]:
        """Names of the sources drawn from at some step, with those that events brought in."""
        return self.planned | self._told

    @property
    def batch(self) -> int:
        """Positions a step, of all ranks together."""
        return self._batch

    def with_event(self, step: int, weights: Mapping[str, float]) -> Schedule:
        """Return the schedule with other weights from a step on, and without later events.

        Raises:
            MixtureError: The weights do not fit the sources.
        """
        changed = copy(self)
        # There may be one at every step of a long run, so nothing here goes through them all.
        changed.events, changed._told = dict(self.events), set(self._told)
        if self.events and next(reversed(self.events)) >= step:
            changed.events = {at: given for at, given in self.events.items() if at < step}
            given = (weights.items() for weights in changed.events.values())
            changed._told = {name for of in given for name, weight in of if weight > 0}
        changed._segments = list(self._segments)
        changed._set(step, weights)
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
        )

    def shares(self, start: int, stop: int) -> Iterator[Share]:
        """Yield shares of draws ``start … stop-1``; a leaf is the number of a source."""
        for number in range(self._number_at(start), len(self._segments)):
            segment = self._segments[number]
            low, high = max(start, segment.start), min(stop, self._end(number, stop))
            if segment.start >= stop:
                return
            if low >= high:
                continue
            base = self._base(number)
            for share in segment.deal.shares(low - segment.start, high - segment.start):
                offsets = share.offsets + (low - start)
                yield Share(share.leaf, offsets, base[share.leaf] + share.start)

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
                segment, following = self._segments[i : i + 2]
                base = _added(base, segment.deal.counts(following.start - segment.start))
            number, segment = last, self._segments[last]
            found.append(_added(base, segment.deal.counts(wanted - segment.start)))
        return found

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

    def differing(self, other: Schedule) -> Iterator[Differing]:
        """Yield for which steps and sources the shares of another schedule are others.

        The other may be of other sources: one that is not there has no share.
        """
        names = sorted({*self.sources, *other.sources})
        steps = sorted({step for step, _ in [*self.changes, *other.changes]})
        for start, stop in zip_longest(steps, steps[1:]):
            one, two = (schedule._shares_at(start, stop) for schedule in (self, other))
            for name in names:
                before, after = one.get(name, (0.0, 0.0)), two.get(name, (0.0, 0.0))
                if before != after:
                    yield Differing(start, stop, name, before, after)

    def _shares_at(self, start: int, stop: int | None) -> dict[str, tuple[float, float]]:
        """Return the shares of all sources at the first and the last of some steps."""
        ends = [(start, start + 1), (start if stop is None else stop - 1, stop or start + 1)]
        shares = zip(*(self.parts(*end) for end in ends), strict=True)
        return dict(zip(self.sources, shares, strict=True))

    def is_counted(self, draws: int) -> bool:
        """Return whether ``totals`` of so many draws is what is dealt, to the sample."""
        for number, segment in enumerate(self._segments[: self._number_at(draws) + 1]):
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
        while at:
            mine = self.stretch(at - 1, length, end)
            theirs = other.stretch(at - 1, length, other_end)
            if mine == theirs:
                break
            at = min(mine[0], theirs[0])
        return at

    def stretch(self, position: int, length: int, end: int | None = None) -> tuple[int, int]:
        """Return the start and end of the stretch of positions that holds one.

        Stretches are fixed, and none crosses a change of the mixture: from every change on, they
        follow each other with so many positions each. Where what is
        left before the next change is less, it and the last whole one are two halves instead:
        a short stretch would leave little room to change places in.

        Args:
            position: Which one.
            length: Positions of a stretch; a multiple of the batch.
            end: The position at which a run ends, after which nothing is to be mixed in.
        """
        edges = {change.step * self._batch for change in self._planned} | {end or 0}
        begin = max(edge for edge in edges if edge <= position)
        stop = min((edge for edge in edges if edge > position), default=None)
        low, high = self._piece(position - begin, length, stop and stop - begin)
        low, high = low + begin, high + begin
        for segment in self._segments:  # those that events begin lie between, if not off by drift
            at = segment.step * self._batch
            low, high = (max(low, at), high) if at <= position else (low, min(high, at))
        return low, high

    def _piece(self, place: int, length: int, whole: int | None) -> tuple[int, int]:
        """Return the piece that holds a place, of those that 0 … whole-1 is cut into."""
        low = place // length * length
        if whole is None:
            return low, low + length
        last = max(0, (whole // length - 1) * length)  # the last whole one, and what is left
        if low < last or whole % length == 0 or whole < length:
            return low, min(low + length, whole)
        half = last + -(-(whole - last) // (2 * self._batch)) * self._batch
        return (last, half) if place < half else (half, whole)

    def _changes(self) -> Iterator[_Change]:
        """Yield the mixture's changes in order."""
        mixture = self.mixture
        phases = [(p.start_step, mixture.changed(self.sources, p.weights)) for p in mixture.phases]
        if mixture.anneal is None:
            declared = {0: mixture.declared(self.sources)}
            for step, weights in (declared | dict(phases)).items():
                yield _Change(step, weights)
            return
        target = mixture.changed(self.sources, mixture.anneal.weights)
        start, end = mixture.anneal.start_step, mixture.anneal.end_step
        if start > 0:
            yield _Change(0, mixture.declared(self.sources))
        if end is not None:
            yield _Change(start, mixture.declared(self.sources), end, target)
        yield _Change(start if end is None else end, target)

    def _set(self, step: int, weights: Mapping[str, float]) -> None:
        told = _Change(step, self.mixture.changed(self.sources, weights, "set_weights"))
        later = [change for change in self._planned if change.step > step]
        kept = bisect_left(self._segments, step, key=lambda segment: segment.step)
        self._segments[kept:] = [self._segment(change) for change in (told, *later)]
        # A copy, which is made at once: another thread may be adding to it.
        self._bases = self._bases.copy()
        while self._bases and (last := next(reversed(self._bases))) >= max(1, kept):
            del self._bases[last]
        self.events[step] = dict(weights)
        self._told |= {name for name, weight in weights.items() if weight > 0}

    def _segment(self, change: _Change) -> _Segment:
        step, start = change.step, self._first_draw(change.step)
        purpose = key(self._seed, "sources", *([step] if step else []))
        shares = self._shares_of(change.weights)
        weights, target = change.weights, change.target or {}
        names = tuple(n for n in self.sources if weights[n] > 0 or target.get(n, 0) > 0)
        if change.target is None:
            return _Segment(step, start, (shares, purpose), Apportionment(shares, purpose), names)

        def edges(steps: Integers) -> Integers:
            return -(-((steps + step) * self._batch) // self._per_draw) - start

        def step_of(draws: Integers) -> Integers:
            return (draws + start) * self._per_draw // self._batch - step

        end = self._shares_of(change.target)
        length = change.until - step
        ramp = Ramp(shares, end, length, edges=edges, step_of=step_of, purpose=purpose)
        return _Segment(step, start, (shares, end, length, purpose), ramp, names)

    def _shares_of(self, weights: Mapping[str, float]) -> tuple[int, ...]:
        return exact_shares([weights[name] for name in self.sources], self.mixture.temperature)

    def _first_draw(self, step: int) -> int:
        return -(-(step * self._batch) // self._per_draw)

    def _number_at(self, draw: int) -> int:
        """Return the number of the last segment that starts at a draw or before."""
        return bisect_right(self._segments, draw, key=lambda segment: segment.start) - 1

    def _end(self, number: int, stop: int) -> int:
        following = number + 1
        return self._segments[following].start if following < len(self._segments) else stop

    def _base(self, number: int) -> list[int]:
        """Return what each source has got in all segments before one."""
        # Two threads may fill this at once: each writes the same.
        known = number
        while known not in self._bases:
            known -= 1
        for i in range(known, number):
            if i + 1 not in self._bases:
                segment = self._segments[i]
                length = self._segments[i + 1].start - segment.start
                self._bases[i + 1] = _added(self._bases[i], segment.deal.dealt(length))
        return self._bases[number]


def _added(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
