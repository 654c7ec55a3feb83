"""Read Parquet files, a few megabytes of a row group at a time, into rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from duckplets.sources import paths
from duckplets.sources.columns import names_of, portions
from duckplets.sources.files import Files
from duckplets.sources.formats.decompressed import Chunk, check_pages, chunks_of
from duckplets.sources.limits import Limits, limits_of, part_of
from duckplets.sources.row_batches import pick
from duckplets.sources.rows import MAX_BYTES, Rows

_UNKNOWN = 64  # rows at a time of a file of which only Arrow knows what is in it

if TYPE_CHECKING:
    from duckplets.db.database import Database


@dataclass(frozen=True, slots=True)
class ParquetSource(Files):
    """Parquet files, a row group's columns decoded a few megabytes at a time."""

    path: paths.Paths
    """File, glob, or list of them."""

    kind: ClassVar[str] = "parquet"

    def open(self, reader: Database) -> Rows:
        """Check the columns of every file, then read them in turn."""
        total = 0

        def checked(file: Path) -> list[str]:
            nonlocal total
            with opened(file) as parquet, paths.reading(file):
                total += parquet.metadata.num_rows
                return names_of(parquet.schema_arrow, str(file))

        limits, part = limits_of(reader), part_of(reader)
        groups = None if part is None else part.groups
        return self.of_columns(
            reader,
            checked,
            lambda file, _, places: pieces_of(file, places, limits, groups=groups),
            lambda: total,
        )


def opened(file: Path, encoded: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a file.

    Args:
        file: Where it is.
        encoded: Columns, by their paths, of which dictionaries are kept as such.

    Raises:
        SourceError: It is none of Parquet, or cannot be read.
    """
    with paths.reading(file):
        return pq.ParquetFile(file, pre_buffer=False, read_dictionary=list(encoded))


def schema_of(file: Path) -> pa.Schema:
    """Return a file's schema."""
    with opened(file) as parquet, paths.reading(file):
        return parquet.schema_arrow


def pieces_of(
    file: Path,
    places: list[int],
    limits: Limits,
    skip: int = 0,
    groups: range | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the columns at some places, without the first ``skip`` rows, of some row groups or all.

    Row groups that are skipped whole are not decoded.
    """
    with opened(file) as parquet, paths.reading(file):
        all_names = names_of(parquet.schema_arrow, str(file))
        names = [all_names[place] for place in places]
        starts = tuple(f"{name}." for name in names)  # a nested column has several parts
        chunks = [
            [chunk for chunk in group if f"{chunk.path}.".startswith(starts)]
            for group in chunks_of(file)
        ]
        paths_there = {str(parquet.schema.column(i).path) for i in range(len(parquet.schema.names))}
    encoded = {
        c.path for group in chunks for c in group if c.is_text and c.has_dictionary
    } & paths_there
    wanted = list(dict.fromkeys(names))
    row = 0
    with opened(file, sorted(encoded)) as parquet, paths.reading(file):
        for group in groups or range(parquet.metadata.num_row_groups):
            count = int(parquet.metadata.row_group(group).num_rows)
            if skip >= count:
                skip, row = skip - count, row + count
                continue
            known = chunks[group] if group < len(chunks) else []
            rows = batch_rows(known, count, check_pages(file, group, known, limits))
            for batch in parquet.iter_batches(rows, row_groups=[group], columns=wanted):
                if skip < batch.num_rows:
                    left = batch.slice(skip)
                    chosen = left.select([left.schema.names.index(name) for name in names])
                    for part in portions(chosen, str(file), limits, row + max(skip, 0)):
                        yield pick(part, range(len(names)), str(file))
                skip, row = max(skip - batch.num_rows, 0), row + batch.num_rows


def batch_rows(chunks: Sequence[Chunk], count: int, shared: int = 0) -> int:
    """Return how many rows of a row group make about a quarter of a table's bytes.

    Args:
        chunks: Of the columns that are read; with none nothing is known.
        count: How many rows the row group has.
        shared: The size of the largest page in which a value's beginning may be that of another,
            so that each may be as long as the page; 0 where there is none.
    """
    if not chunks:
        return _UNKNOWN
    most = MAX_BYTES // 4
    by_size = most * count // max(sum(chunk.size for chunk in chunks), 1)
    return max(1, min(16_384, by_size, most // shared if shared else by_size))
