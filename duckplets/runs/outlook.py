"""Work out what a run draws, from counts and the closed form of its order.

    schedule ─totals→ draws of sources ─recipes→ draws of streams ─┬→ Forecast
    pools ─Stream→ anchors, tokens of a visit, anchors that fall back ┘

All figures are those of all ranks together and begin at step 0, wherever the run stands. Weights
that were set on the way are part of it. Nothing is drawn, but with ``no_duplicates=True``: only a
plan tells which samples fit in no batch, so a short run is planned, and of a long one some blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Floats, Integers
from duckplets.base.checks import MAX_POSITION
from duckplets.base.sanitize import counted, listed, shown
from duckplets.runs.cautions import (
    TOLD,
    Unused,
    falling_back,
    left_alone,
    oddities,
    omitted,
)
from duckplets.runs.forecast import (
    NAME,
    SCHEMA,
    Forecast,
    aligned,
    figure,
    percent,
    swap_words,
)
from duckplets.samples import expectation

if TYPE_CHECKING:
    from duckplets.runs.reader import BatchReader
    from duckplets.runs.settings import RunSettings
    from duckplets.samples.stream import Stream

_STREAMS = 20  # of a short description
_PROPORTIONAL = "in proportion to anchors"
_PLANNED = 1 << 17  # samples that are planned, of a run that is longer some blocks
_BLOCKS = 8
_LARGEST_BLOCK = 1 << 22  # samples; of one with more nothing is planned
_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class _Stretches:
    """What is dealt between changes of shares.

    Attributes:
        steps: Where each begins.
        stops: Where each ends.
        samples: Shape (stretches, streams).
    """

    steps: list[int]
    stops: list[int]
    samples: Integers


class Outlook:
    """Work out what a run draws, and what is odd about it.

    Args:
        settings: Of the run.
        reader: Of the run.
        unused: Minings that the run leaves alone.
    """

    def __init__(
        self, settings: RunSettings, reader: BatchReader, unused: Sequence[Unused]
    ) -> None:
        self._settings = settings
        self._fetcher = reader.fetcher
        self._planner = reader.planner
        self._unused = unused
        self._streams: list[Stream] = self._planner.streams
        self._batch = settings.global_batch
        self._end = reader.end
        self._known_tokens: list[float] = []

    # -- the whole ----------------------------------------------------------------------------

    def positions(self, steps: int | None) -> int:
        """Return how many positions a forecast goes over.

        Args:
            steps: So many steps, or to the end of the run if that comes before; None for the end,
                or for one nominal epoch from where the last shares set in, or the last version of
                the corpus joins.
        """
        if steps is not None:
            wanted = steps * self._batch
        elif self._end is not None:
            wanted = self._end
        else:
            planner = self._planner
            last = max(step for step, _ in planner.schedule.changes)
            epoch = sum(planner.length_of(name) for name in planner.schedule.planned)
            wanted = last * self._batch + epoch
        return min(wanted, MAX_POSITION if self._end is None else self._end)

    def forecast(self, positions: int) -> Forecast:
        """Return the forecast of the first so many positions."""
        planner, settings = self._planner, self._settings
        dealt = self._stretches(positions)
        due = self._by_source(dealt.samples).sum(axis=0)
        planned, served, displaced = positions, dealt.samples, np.zeros_like(due)
        if planner.distinct_batch:
            planned, served, displaced = self._placed(dealt, positions)
        if exact := planned == positions:
            dealt = replace(dealt, samples=served)
        steps = -(-positions // self._batch)
        batches = counted(steps, "batch", "batches")
        epochs = figure(positions / planner.epoch_length)
        many = "epoch" if epochs == "1" else "epochs"
        return Forecast(
            table=self._table(dealt),
            warnings=[
                *self.warnings(),
                *self._used_up(dealt, steps),
                *self._displaced(displaced, due, planned, positions),
            ],
            title=f"{counted(positions, self._sample)} of {settings.split}: {batches} of "
            f"{self._batch:,}, {epochs} {many} of {planner.epoch_length:,}",
            exact=exact,
        )

    @property
    def _sample(self) -> str:
        """What one sample is called."""
        return self._settings.kind.removesuffix("s")

    def _placed(self, dealt: _Stretches, positions: int) -> tuple[int, Integers, Integers]:
        """Plan samples that change places: all, or if they are many, blocks all over the run.

        Returns:
            How many were planned; how many of each stretch and stream, if all; and how many samples
            of each source gave their positions to others.
        """
        planner, sources, planned = self._planner, self._planner.sources, 0
        served = np.zeros_like(dealt.samples)
        displaced = np.zeros(len(planner.schedule.sources), np.int64)
        for row, low, high in self._spans(dealt, positions):
            plan = planner.plan(low, high)
            gave = plan.displaced
            planned += len(plan)
            served[row] += np.bincount(plan.streams, minlength=len(self._streams))
            if gave is not None:
                displaced += np.bincount(sources[gave[gave >= 0]], minlength=len(displaced))
        return planned, served, displaced

    def _spans(self, dealt: _Stretches, positions: int) -> Iterator[tuple[int, int, int]]:
        """Yield positions that are planned at once, with the number of their stretch."""
        if positions <= _PLANNED:
            for row, (step, stop) in enumerate(zip(dealt.steps, dealt.stops, strict=True)):
                end = min(stop * self._batch, positions)
                for low in range(step * self._batch, end, _AT_ONCE):
                    yield row, low, min(low + _AT_ONCE, end)
            return
        left = _PLANNED
        for low, high in sorted(
            {self._planner.block(i * positions // _BLOCKS) for i in range(_BLOCKS)}
        ):
            if left > 0 and high - low <= _LARGEST_BLOCK:
                yield 0, low, min(high, positions)
                left -= high - low

    def _stretches(self, positions: int) -> _Stretches:
        """Return what is dealt of the first so many positions."""
        planner = self._planner
        begun = [change for change in planner.changes if change[1] < positions]
        changes = [step for step, _ in begun]
        upto = np.array([planner.samples(end) for end in (*(at for _, at in begun), positions)])
        samples = np.diff(upto, axis=0)
        stops = (
            [*changes[1:], max(-(-positions // self._batch), changes[-1] + 1)] if changes else []
        )
        some = np.flatnonzero(samples.any(axis=1)).tolist()
        return _Stretches([changes[i] for i in some], [stops[i] for i in some], samples[some])

    def _table(self, dealt: _Stretches) -> pa.Table:
        streams, planner, count = self._streams, self._planner, len(dealt.steps)
        anchors = np.array([len(stream) for stream in streams])
        visits = dealt.samples / planner.samples_per_draw / anchors
        phases = [planner.schedule.mixture.phase(step) for step in dealt.steps]
        parts = [planner.parts(*s) for s in zip(dealt.steps, dealt.stops, strict=True)]
        shares = np.array(parts).reshape(count, len(streams))

        def each(values: list[Any]) -> list[Any]:
            return values * count

        columns = [
            np.repeat(np.array(phases, np.int64), len(streams)),
            np.repeat(np.array(dealt.steps, np.int64), len(streams)),
            each([stream.source for stream in streams]),
            each([stream.recipe.name for stream in streams]),
            shares.reshape(-1),
            each(anchors.tolist()),
            dealt.samples.reshape(-1),
            np.rint(visits * self._tokens()).astype(np.int64).reshape(-1),
            visits.reshape(-1),
            each([stream.negatives_from for stream in streams]),
            each([stream.fallback_anchors for stream in streams]),
            each([planner.swaps] * len(streams)),
        ]
        arrays = [pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)]
        table = pa.table(arrays, schema=SCHEMA)
        versions = [stream.version for stream in streams]
        if len({*versions}) > 1:
            table = table.append_column("version", pa.array(each(versions), pa.int64()))
            # A stream has a row of every version; of each stretch one of them has all samples.
            table = table.filter(pa.array((shares + dealt.samples).reshape(-1) > 0))
        return table

    def _tokens(self) -> Floats:
        """Return the tokens of one visit to all anchors of every stream."""
        per_draw = self._planner.samples_per_draw  # of the pairs of a draw, one slot is the same
        times = ((per_draw + 1) / 2,) * 2 if self._planner.swaps else (per_draw, 1)
        fresh = self._streams[len(self._known_tokens) :]  # some are added when weights are set
        self._known_tokens += [expectation.tokens(s, self._fetcher.tokens, times) for s in fresh]
        return np.array(self._known_tokens)

    # -- in short -----------------------------------------------------------------------------

    def described(self, step: int) -> Iterator[str]:
        """Yield lines that say what is drawn from a step on."""
        planner, settings, streams = self._planner, self._settings, self._streams
        yield (
            f"{settings.kind} of split {settings.split}, run {shown(repr(settings.run), NAME)}: "
            f"batches of {self._batch:,}, epochs of {counted(planner.epoch_length, 'sample')}"
            f"{self._shares(step)}"
        )
        parts = planner.parts(step, step + 1)
        there = np.flatnonzero(self._are_at(step)).tolist()
        visits = parts * planner.epoch_length / planner.samples_per_draw
        drawn = [(streams[n], parts[n], visits[n] / len(streams[n])) for n in there]
        rows = [
            [
                *(shown(name, NAME) for name in (stream.source, stream.recipe.name)),
                percent(part),
                counted(len(stream), "anchor"),
                f"{figure(often)} visit{'s' * (figure(often) != '1')} an epoch",
                _negatives(stream),
            ]
            for stream, part, often in drawn[:_STREAMS]
        ]
        yield from (f"  {line}" for line in aligned(rows))
        if len(drawn) > _STREAMS:
            yield f"  and {len(drawn) - _STREAMS:,} more recipes of sources, in forecast()"
        yield from (
            f"from step {join['step']:,} on corpus version {join['corpus_version']}, every recipe "
            f"of a source in a new epoch"
            for join in settings.joins
        )
        later = [f"{at:,}" for at, _ in planner.schedule.changes if at > step]
        if later:
            yield f"other shares from step {listed(later, TOLD)} on"
        if streams[0].negatives_from is not None:
            yield swap_words(planner.swaps)

    def _are_at(self, step: int) -> Flags:
        """Return which streams are of the version of the corpus that is drawn from at a step."""
        settings = self._settings
        if not settings.joins:
            return np.ones(len(self._streams), dtype=bool)
        begun = sum(join["step"] <= step for join in settings.joins)
        version = settings.versions[begun].corpus_version
        return np.array([stream.version == version for stream in self._streams])

    def _shares(self, step: int) -> str:
        """Return in which shares sources are drawn at a step; nothing for a single one."""
        schedule = self._planner.schedule
        mixture, words = schedule.mixture, {"equal": "equal", "proportional": _PROPORTIONAL}
        if len(schedule.sources) == 1:
            return ""
        told = "as given"
        if isinstance(mixture.weights, str) and not schedule.is_overridden(step):
            told = words[mixture.weights]
        temperature = schedule.in_force(step).temperature
        return f", shares {told}" + f" (temperature {temperature:g})" * (temperature != 1)

    # -- warnings -----------------------------------------------------------------------------

    def warnings(self) -> Iterator[str]:
        """Yield what is odd about a run, however long it is."""
        yield from oddities(self._planner)
        schedule = self._planner.schedule
        undrawn = [name for name in self._settings.sources if name not in schedule.drawn]
        yield from omitted(schedule.mixture, undrawn)
        yield from left_alone(self._unused)
        there = np.flatnonzero(self._planner.recipe_parts()).tolist()
        yield from falling_back([self._streams[number] for number in there])

    def _used_up(self, dealt: _Stretches, steps: int) -> Iterator[str]:
        """Yield which sources begin again before the end, more often than was asked for."""
        planner, asked = self._planner, float(self._settings.epochs or 1)
        of_source = np.cumsum(self._by_source(dealt.samples), axis=0)
        if planner.schedule.mixture.weights == "proportional":  # all begin again, and evenly
            asked = max(asked, dealt.samples.sum() / planner.epoch_length)
        told = []
        for leaf, name in enumerate(planner.schedule.sources):
            length = planner.length_of(name)
            if not length or not len(of_source):
                continue
            total = int(of_source[-1, leaf])
            slack = max(0.1 * length, (ceil(log2(len(of_source[-1]))) + 1) * len(dealt.steps))
            times = planner.epochs_of(name, total)
            if times * length > asked * length + slack:
                at = self._step_of(leaf, length, of_source[:, leaf], dealt)
                told.append((at, f"{name!r} at about step {at:,} ({figure(times)} times)"))
        if told:
            yield (
                f"used up before step {steps:,}, and begun again: "
                f"{listed((text for _, text in sorted(told)), TOLD)}"
            )

    def _displaced(
        self, displaced: Integers, due: Integers, planned: int, positions: int
    ) -> Iterator[str]:
        """Yield of which sources samples fit in no batch of their block.

        Args:
            displaced: How many, by the number of the source, of the positions that were planned.
            due: Samples of each source in all positions.
            planned: How many positions were planned.
            positions: How many there are.
        """
        names, times = self._planner.schedule.sources, positions / max(planned, 1)
        told = [
            f"{counted(round(displaced[leaf] * times), 'sample')} of {names[leaf]!r} "
            f"({percent(displaced[leaf] * times / max(due[leaf], 1))})"
            for leaf in np.flatnonzero(displaced).tolist()
        ]
        if told:
            more = "" if planned == positions else f", estimated from {planned:,} samples"
            yield (
                f"{listed(told, TOLD)} repeat a text in every batch of their block, and others "
                f"take their positions (displaced{more})"
            )

    def _by_source(self, samples: Integers) -> Integers:
        found = np.zeros((len(samples), len(self._planner.schedule.sources)), np.int64)
        for column, leaf in zip(samples.T, self._planner.sources.tolist(), strict=True):
            found[:, leaf] += column
        return found

    def _step_of(self, leaf: int, wanted: int, upto: Integers, dealt: _Stretches) -> int:
        """Return the step in which a source has got about so many samples.

        Args:
            leaf: Number of the source.
            wanted: So many.
            upto: What it has got at the end of each stretch.
            dealt: The stretches.
        """
        at = int(np.searchsorted(upto, wanted))
        left = wanted - (int(upto[at - 1]) if at else 0)
        begin, low, high = dealt.steps[at], dealt.steps[at], dealt.stops[at]
        while high - low > 1:
            middle = (low + high) // 2
            part = self._planner.schedule.parts(begin, middle)[leaf]
            if (middle - begin) * self._batch * part < left:
                low = middle
            else:
                high = middle
        return low


def _negatives(stream: Stream) -> str:
    """Return where the negatives of a stream come from, in words; nothing for texts."""
    found = stream.negatives_from
    if found is None:
        return ""
    if stream.is_given:
        return "grades as given" if stream.graded else "labels as given"
    count = stream.fallback_anchors
    if not count:
        return f"negatives {found}"
    many = "anchor" if count == 1 else "anchors"
    whence = "all sources" if found == "random" else "random ones"
    return f"negatives {found}, for {count:,} {many} {whence}"
