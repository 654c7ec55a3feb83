"""Measure texts part by part, on an engine.

    items ─rows of each→ measure ─in order→ items with their metrics

Functions that users have registered go with the work: a worker registers them before it measures.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from duckplets.base.sanitize import counted
from duckplets.db.database import Database
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.quality import plugins
from duckplets.quality.settings import Quality

__all__ = ["MeasureJob", "measure_part", "measured_over", "scratch_of_worker"]

T = TypeVar("T")


class MeasureJob(NamedTuple):
    """What a worker needs to know to measure.

    Attributes:
        quality: Settings.
        registered: The functions that they name.
        database: A connection of this process; no worker gets it.
    """

    quality: Quality
    registered: list[plugins.Gate | plugins.Detector]
    database: Database | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the connection here."""
        return MeasureJob, (self.quality, self.registered)

    @classmethod
    def of(cls, quality: Quality, database: Database | None = None) -> MeasureJob:
        """Return what settings need."""
        registered: list[plugins.Gate | plugins.Detector] = [
            plugins.gate(name) for each in quality.conditions for name in each.gates
        ]
        if quality.language is not None and quality.detector != "py3langid":
            registered.append(plugins.detector(quality.detector))
        return cls(quality, registered, database)

    def measured(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as from ``preprocess`` with the metrics of their texts."""
        from duckplets.quality.verdicts import with_metrics

        plugins.register_all(self.registered)
        return with_metrics(scratch_of_worker().cursor(), batch, self.quality)


def measured_over(
    engine: Engine,
    database: Database,
    quality: Quality,
    items: Iterable[T],
    rows_of: Callable[[T], pa.Table],
) -> Generator[tuple[T, pa.Table], None, None]:
    """Yield items with the metrics of their rows; see ``measure``.

    Args:
        engine: What measures.
        database: Any connection of this process.
        quality: Settings.
        items: Taken as they are needed.
        rows_of: Returns the rows of an item, as ``measure`` takes them.
    """

    def part_of(item: T) -> Part:
        rows = rows_of(item)
        return Part(f"gates: {counted(rows.num_rows, 'text')}", rows)

    return mapped(engine, measure_part, MeasureJob.of(quality, database), items, part_of)


def measure_part(job: MeasureJob, rows: pa.Table) -> pa.Table:
    """Return the metrics of rows; see ``measure``."""
    from duckplets.quality.measure import measure

    plugins.register_all(job.registered)
    return measure(job.database or scratch_of_worker().cursor(), rows, job.quality)


@cache
def scratch_of_worker() -> Database:
    """Return the connection of a worker, which has no corpus."""
    return Database.scratch(threads=1)
