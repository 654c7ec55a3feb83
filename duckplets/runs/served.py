"""Tell what a run serves: ids and figures of any stretch of it.

Samples are a function of their positions, so their ids and weights are worked out again: nothing
is kept for it, and what was left out of the columns of a batch can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.base.sanitize import ShownDict, html_table
from duckplets.errors import SamplerError
from duckplets.runs.cautions import Unused
from duckplets.runs.metrics import mean_by_source, similarities
from duckplets.runs.outlook import Outlook

if TYPE_CHECKING:
    from duckplets.order.mixture import Mixture
    from duckplets.order.schedule import Schedule
    from duckplets.runs.forecast import Forecast
    from duckplets.runs.reader import BatchReader
    from duckplets.runs.settings import RunSettings
    from duckplets.samples.batch import Batch
    from duckplets.samples.planned import Plan

_ROWS = 1 << 16  # worked out at once
_MOST_ROWS = 1 << 24  # in one table: a few GB of ids

Span = tuple[int, int]


class Metrics(ShownDict):
    """What was taken of every source, by name: numbers, for any logger."""


class Views:
    """Tell what a run serves, whatever its position; ``Sampler`` adds where it stands.

    Args:
        settings: Of the run.
        reader: Of the run.

    Attributes:
        notes: What is logged as warnings when the first batch is taken.
        unused: Source, recipe and anchors of minings that the run leaves alone.
    """

    def __init__(self, settings: RunSettings, reader: BatchReader) -> None:
        self._settings = settings
        self._reader = reader
        self._planner = reader.planner
        self._position = 0
        self.notes: list[str] = []
        self.unused: list[Unused] = []

    @property
    def settings(self) -> RunSettings:
        """What the run follows from."""
        return self._settings

    @property
    def mixture(self) -> Mixture:
        """Weights of the sources and temperature that are in force now, and all phases.

        After ``set_weights``, a phase or a join the weights are those that hold from there; in
        proportion to anchors, they are the shares.
        """
        return self._planner.schedule.in_force(self._position // self._batch)

    @property
    def epoch_length(self) -> int:
        """Samples of a nominal epoch: the anchors of all active streams."""
        return self._planner.epoch_length

    @property
    def text_columns(self) -> list[str]:
        """The text columns of a batch, in order; of messages theirs."""
        slots = self._reader.fetcher.slots
        return [column for column in self._settings.columns if column in slots]

    @property
    def _batch(self) -> int:
        return self._reader.part.batch

    # -- what it serves -----------------------------------------------------------------------

    def first_change(self, before: Schedule) -> int:
        """Return the first position whose sample is another than by that schedule.

        Where there is none, a later one than there is.
        """
        changed = self._planner.first_change(before, replace(self._settings, steps=None).end)
        return MAX_POSITION + 1 if changed is None else changed

    def served(self, start: int, stop: int) -> pa.Table:
        """Return the ids of positions ``start … stop-1`` of all ranks, worked out again.

        Columns: ``step``, ``position``, ``source``, ``recipe``, where the run has taken later ones
        the ``version`` of the corpus that it is drawn from, with ``no_duplicates=True``
        ``displaced`` (the source of the sample that gave its position to this one; null for most),
        ``swapped``, for pairs ``label``, and for each text ``anchor_record_id``,
        ``anchor_section``, ``anchor_window`` and so on; of messages ``record_id``.

        Raises:
            SamplerError: A bounded run has no such positions.
        """
        last = self._reader.bounded(MAX_POSITION)
        start = integer("start", start, -MAX_POSITION, MAX_POSITION, say_high=False)
        stop = integer("stop", stop, -MAX_POSITION, MAX_POSITION, say_high=False)
        if not 0 <= start <= stop <= last:
            end = "any" if self._reader.end is None else self._reader.end
            raise SamplerError(f"positions {start} to {stop}: give two in order, from 0 to {end}")
        if stop - start > _MOST_ROWS:
            raise SamplerError(
                f"positions {start} to {stop}: ask for {_MOST_ROWS:,} of them at most at once"
            )
        self._reader.check_open()
        return pa.concat_tables(self._identities(start, stop)).combine_chunks()

    def plan(self, steps: int) -> pa.Table:
        """Return the ids of what the next steps will serve; columns as of ``served``."""
        steps = integer("steps", steps, 0, MAX_POSITION, say_high=False)
        stop = self._reader.bounded(self._position + steps * self._batch)
        return self.served(self._position, stop)

    def forecast(self, steps: int | None = None) -> Forecast:
        """Return what the run draws from step 0 on: shares, samples, tokens, visits, warnings.

        Worked out from counts alone, so it takes no longer for a run of 10^9 samples. It begins at
        step 0 wherever the run stands, and weights set on the way are part of it.

        Args:
            steps: So many steps, but none after the end of a bounded run; by default to that end,
                or one nominal epoch from where the last phase begins, or the last version joins.
        """
        if steps is not None:
            most = MAX_POSITION // self._batch
            steps = integer("steps", steps, 0, most, say_high=False)
        outlook = self._outlook
        return outlook.forecast(outlook.positions(steps))

    def describe(self) -> str:
        """Return in short what is drawn from here on, in lines: a recipe each, swap, warnings."""
        outlook, notes = self._outlook, list(self.notes)
        notes += [warning for warning in outlook.warnings() if warning not in notes]
        step = self._position // self._batch
        return "\n".join([*outlook.described(step), *(f"note: {note}" for note in notes)])

    def _repr_html_(self) -> str:
        s = self._settings
        caption = f"Sampler {s.kind}, split {s.split}, run {s.run}, position {self._position:,}"
        lines = ([line] for line in self.describe().splitlines())
        return html_table(caption, ("what is drawn from here on",), lines)

    @cached_property
    def _outlook(self) -> Outlook:
        return Outlook(self._settings, self._reader, self.unused)

    def _identities(self, start: int, stop: int) -> Iterator[pa.Table]:
        """Yield the ids of positions ``start … stop-1`` in pieces; at least one, if empty."""
        for low in range(start, max(stop, start + 1), _ROWS):
            with self._reader.fetcher.sound():
                plan = self._planner.plan(low, min(low + _ROWS, stop))
                found = self._reader.fetcher.identities(plan, self._batch)
            yield found

    def count_to(self, position: int) -> None:
        """Go to a later position and count what lies between as taken, without reading it.

        Raises:
            SamplerError: It lies before the present one, or beyond the end of a bounded run.
        """
        last = self._reader.bounded(MAX_POSITION)
        position = integer("position", position, self._position, last)
        self._reader.count(self._position, position)
        self._position = position
        self._reader.forget()

    def metrics(self) -> dict[str, float]:
        """Return what was taken of every source, and how long blocks were waited for.

        Since the start of the run, by all ranks: ``data/NAME/samples``, ``data/NAME/tokens`` of all
        their texts, prefixes not counted (of messages those of the record's sections), and
        ``data/NAME/epochs``: samples to the number of its anchors. Where some negatives can lack,
        ``data/NAME/fallbacks``: those drawn at random for want of mined ones, of other records for
        want of the anchor's own, or of all sources of the split for want of enough in their own.
        With ``no_duplicates=True``, ``data/NAME/displaced``: samples that fit in no batch and gave
        their positions to others.

        Of this sampler since it was opened: ``prefetch/blocks_ready``, prepared and not begun;
        ``prefetch/waits``, how often a block was not ready when it was needed, as the first one;
        and ``prefetch/seconds_waited`` for these. Where they grow with the steps, training waits
        for data.
        """
        counts = self._reader.counters.counts()
        streams = self._planner.streams
        telling = {stream.source for stream in streams if stream.tells}
        found = Metrics()
        for name in sorted(self._planner.schedule.drawn):
            samples, tokens, fallbacks, displaced = [*counts.get(name, ()), *[0] * 4][:4]
            found[f"data/{name}/samples"] = samples
            found[f"data/{name}/tokens"] = tokens
            found[f"data/{name}/epochs"] = self._planner.epochs_of(name, samples)
            if name in telling:
                found[f"data/{name}/fallbacks"] = fallbacks
            if self._planner.distinct_batch:
                found[f"data/{name}/displaced"] = displaced
        found |= {f"prefetch/{name}": of for name, of in self._reader.prefetched.items()}
        return found

    def loss_by_source(self, batch: Batch, losses: Any) -> dict[str, float]:
        """Return ``loss/NAME``: the mean loss of the samples of every source in a batch.

        Args:
            batch: Of this run, as it was taken.
            losses: One number a sample: a list, an array or a tensor of shape (samples,).
        """
        if "source" in batch:
            return mean_by_source(batch["source"], losses)
        names = self._planner.schedule.sources
        numbers = self._planner.sources[self._plan_of(batch).streams]
        return mean_by_source([names[number] for number in numbers], losses)

    def diagnostics(self, batch: Batch) -> dict[str, list[Any]]:
        """Return figures on the samples of a batch of this run, a list with one entry a sample.

        ``anchor_positive_lexical_similarity``, ``anchor_negative_lexical_similarity`` and so on
        (``lexical_similarity`` of the texts as they were served, prefixes included), and
        ``proximity``: 1/distance of the windows of anchor and positive where both are of one
        section, else None.
        """
        first, slots = self._reader.fetcher.slots[0], self.text_columns
        if first not in slots:
            raise SamplerError(
                f"diagnostics compare texts with the {first}, which columns= left out; this run "
                f"has {', '.join(self._settings.columns)}"
            )
        near = self._reader.fetcher.proximity(self._plan_of(batch))
        ordered = [first, *(slot for slot in slots if slot != first)]
        return {**similarities(batch, ordered), "proximity": near}

    def _plan_of(self, batch: Batch) -> Plan:
        return self._planner.plan(batch.position, batch.position + len(batch))
