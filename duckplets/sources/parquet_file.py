"""Read Parquet files, a few megabytes of a row group at a time, into rows."""

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
        pieces = (piece for file, _, places in chosen for piece in pieces_of(file, places))
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


def schema_of(file: Path) -> pa.Schema:
    """Return a file's schema."""
    with opened(file) as parquet:
        return parquet.schema_arrow


def pieces_of(file: Path, places: list[int], skip: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the columns at some places, without the first ``skip`` rows.

    Row groups that are skipped whole are not decoded.
    """
    with opened(file) as parquet:
        names = [parquet.schema_arrow.names[place] for place in places]
        wanted = list(dict.fromkeys(names))
        try:
            for group in range(parquet.metadata.num_row_groups):
                if skip >= parquet.metadata.row_group(group).num_rows:
                    skip -= parquet.metadata.row_group(group).num_rows
                    continue
                rows = batch_rows(parquet, group, names)
                for batch in parquet.iter_batches(rows, row_groups=[group], columns=wanted):
                    if skip < batch.num_rows:
                        left = batch.slice(skip)
                        yield pick(left, [left.schema.names.index(name) for name in names])
                    skip = max(skip - batch.num_rows, 0)
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
