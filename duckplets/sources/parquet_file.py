"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from duckplets.sources import paths
from duckplets.sources.feed import pick, rows_of
from duckplets.sources.mapping import Mapped, require_texts, resolve
from duckplets.sources.rows import MAX_BYTES, Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database


@dataclass(frozen=True, slots=True)
class ParquetSource(Mapped):
    """Parquet files, a row group's columns decoded a few megabytes at a time."""

    path: paths.Paths
    """File, glob, or list of them."""

    kind: ClassVar[str] = "parquet"

    @property
    def uri(self) -> str | None:
        """Where it reads from."""
        return paths.uri(self.path)

    def default_name(self) -> str:
        """Return the file's stem."""
        return paths.default_name(self.path)

    def open(self, reader: Database) -> Rows:
        """Check the columns of every file, then read them in turn."""
        files = paths.files(self.path)
        total = 0
        chosen = []
        for file in files:
            with opened(file) as parquet:
                names = parquet.schema_arrow.names
                total += parquet.metadata.num_rows
            require_texts(self, names, str(file), type(self).__name__)
            chosen.append(resolve(self, names, str(file)))
        pieces = (
            piece
            for file, places in zip(files, chosen, strict=True)
            for piece in pieces_of(file, places)
        )
        where = self.uri or ""
        return Rows(rows_of(reader, self, pieces, where), self.defaults(), total)


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
