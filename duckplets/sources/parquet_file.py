"""Reads Parquet files, a few megabytes of a row group at a time, into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from duckplets.sources import paths
from duckplets.sources.base import MAX_BYTES, Rows
from duckplets.sources.feed import pick

if TYPE_CHECKING:
    from duckplets.db.database import Database


@dataclass(frozen=True, slots=True)
class ParquetSource(paths.Files):
    """Parquet files, a row group's columns decoded a few megabytes at a time."""

    path: paths.Paths
    """File, glob, or list of them."""

    kind: ClassVar[str] = "parquet"

    def open(self, reader: Database) -> Rows:
        """Check the columns of every file, then read them in turn."""
        total = 0

        def names_of(file: Path) -> list[str]:
            nonlocal total
            with opened(file) as parquet:
                total += parquet.metadata.num_rows
                return list(parquet.schema_arrow.names)

        chosen = self.placed(names_of)
        pieces = (
            piece
            for file, names, places in chosen
            for piece in _pieces(file, [names[place] for place in places])
        )
        return self.rows(reader, pieces, total)


def opened(file: Path) -> pq.ParquetFile:
    """Open a file.

    Raises:
        SourceError: It is none of Parquet, or cannot be read.
    """
    try:
        return pq.ParquetFile(file, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise paths.unreadable(file, error) from error


def _pieces(file: Path, names: list[str]) -> Iterator[pa.RecordBatch]:
    with opened(file) as parquet:
        try:
            for group in range(parquet.metadata.num_row_groups):
                rows = batch_rows(parquet, group, names)
                wanted = list(dict.fromkeys(names))
                for batch in parquet.iter_batches(rows, row_groups=[group], columns=wanted):
                    yield pick(batch, [batch.schema.names.index(name) for name in names])
        except (pa.ArrowException, OSError) as error:
            raise paths.unreadable(file, error) from error


def batch_rows(parquet: pq.ParquetFile, group: int, names: list[str]) -> int:
    """Return how many rows of a row group make about a quarter of a table's bytes."""
    facts = parquet.metadata.row_group(group)
    leaves = [facts.column(i) for i in range(facts.num_columns)]
    of_name = tuple(f"{name}." for name in names)  # a nested column has several leaves
    size = sum(
        leaf.total_uncompressed_size
        for leaf in leaves
        if f"{leaf.path_in_schema}.".startswith(of_name)
    )
    return max(1, min(16_384, MAX_BYTES // 4 * int(facts.num_rows) // max(int(size), 1)))
