"""Views: what can be asked of a run besides its batches.

Ids and weights of samples are worked out again from their positions, so any stretch of the past
or future can be looked at, and whatever was left out of the columns of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from duckplets.base.checks import integer
from duckplets.errors import SamplerError
from duckplets.sampling import served
from duckplets.sampling.metrics import mean_by_source, similarities

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.sampling.batch import Batch
    from duckplets.sampling.blocks import Reader
    from duckplets.sampling.plan import Plan
    from duckplets.sampling.settings import RunSettings


class Views:
    """What a sampler can tell; ``Sampler`` adds where the run stands.

    Args:
        settings: Of the run.
        reader: Of the run.
    """

    def __init__(self, settings: RunSettings, reader: Reader) -> None:
        self._settings = settings
        self._reader = reader
        self._planner = reader.planner
        self._position = 0

    @property
    def settings(self) -> RunSettings:
        """What the run follows from."""
        return self._settings

    @property
    def text_columns(self) -> list[str]:
        """The text columns of a batch, in order; of messages theirs."""
        slots = self._reader.fetcher.slots
        return [column for column in self._settings.columns if column in slots]

    @property
    def _batch(self) -> int:
        return self._reader.part.batch

    # -- what it serves -----------------------------------------------------------------------

    def served(self, start: int, stop: int) -> pa.Table:
        """Return the ids of positions ``start … stop-1`` of all ranks, worked out again.

        Columns: ``step``, ``position``, ``source``, ``recipe``, ``swapped``, for pairs ``label``,
        and for each text ``anchor_record_id``, ``anchor_section``, ``anchor_window`` and so on; of
        messages ``record_id``.

        Raises:
            SamplerError: A bounded run has no such positions.
        """
        if not 0 <= start <= stop == self._reader.bounded(stop):
            end = "any" if self._reader.end is None else self._reader.end
            raise SamplerError(f"positions {start} to {stop}: give two in order, from 0 to {end}")
        return served.joined(self._identities(start, stop))

    def plan(self, steps: int) -> pa.Table:
        """Return the ids of what the next steps will serve; columns as of ``served``."""
        stop = self._reader.bounded(self._position + integer("steps", steps, 0) * self._batch)
        return self.served(self._position, stop)

    def _identities(self, start: int, stop: int) -> Iterator[pa.Table]:
        fetcher = self._reader.fetcher
        return served.tables(self._planner, fetcher, start, stop, batch=self._batch)

    def metrics(self) -> dict[str, float]:
        """Return what was taken of every source since the start of the run, by all ranks.

        ``data/NAME/samples``, ``data/NAME/tokens`` of all their texts, prefixes not counted (of
        messages those of the record's sections), and ``data/NAME/epochs``: samples to the number
        of its anchors. Where negatives are mined, ``data/NAME/fallbacks``: those that were drawn
        at random for want of mined ones.
        """
        counts = self._reader.counters.counts()
        streams = self._planner.streams
        mined = {stream.source for stream in streams if stream.pool.candidates is not None}
        found: dict[str, float] = {}
        for name in sorted(self._planner.schedule.drawn):
            samples, tokens, fallbacks = [*counts.get(name, ()), 0, 0, 0][:3]
            found[f"data/{name}/samples"] = samples
            found[f"data/{name}/tokens"] = tokens
            found[f"data/{name}/epochs"] = samples / self._planner.length_of(name)
            if name in mined:
                found[f"data/{name}/fallbacks"] = fallbacks
        return found

    def loss_by_source(self, batch: Batch, losses: Any) -> dict[str, float]:
        """Return ``loss/NAME``: the mean loss of the samples of every source in a batch.

        Args:
            batch: Of this run, as it was taken.
            losses: One number a sample: a list, an array or a tensor of shape (samples,).
        """
        if "source" in batch.keys():  # noqa: SIM118 - a batch iterates its columns, as a dict does
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
