"""Read Arrow IPC files and streams, Feather files among them, batch by batch into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.columns import names_of, portions
from duckplets.sources.files import Files
from duckplets.sources.formats.decompressed import check_batches
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.row_batches import pick
from duckplets.sources.rows import Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database


@dataclass(frozen=True, slots=True)
class ArrowSource(Files):
    """Arrow IPC files or streams, and Feather (version 2) files."""

    path: paths.Paths
    """File, glob, or list of them."""

    kind: ClassVar[str] = "arrow"

    def open(self, reader: Database) -> Rows:
        """Check the columns of every file, then read them in turn."""
        limits = limits_of(reader)
        return self.of_columns(
            reader,
            lambda file: names_of(schema_of(file), str(file)),
            lambda file, _, places: pieces_of(file, places, limits),
        )


def pieces_of(file: Path, places: list[int], limits: Limits) -> Iterator[pa.RecordBatch]:
    """Yield the columns at some places, batch by batch."""
    with paths.reading(file), pa.memory_map(str(file)) as source:
        check_batches(memoryview(source.read_buffer()), str(file), limits)
    batches = schema_and_batches(file)
    next(batches)
    row = 0
    for batch in batches:
        for part in portions(batch.select(places), str(file), limits, row):
            yield pick(part, range(len(places)), str(file))
        row += batch.num_rows


def schema_of(file: Path) -> pa.Schema:
    """Return a file's schema."""
    return next(schema_and_batches(file))


def schema_and_batches(file: Path) -> Iterator[pa.Schema | pa.RecordBatch]:
    """Yield a file's schema, then its batches."""
    with paths.reading(file), pa.memory_map(str(file)) as source:
        magic = source.read(6)
        source.seek(0)
        if magic.startswith(b"FEA1"):
            raise SourceError(f"{file} is a Feather file of version 1; write it as version 2")
        if magic == b"ARROW1":
            reader = pa.ipc.open_file(source)
            yield reader.schema
            yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            stream = pa.ipc.open_stream(source)
            yield stream.schema
            yield from stream
