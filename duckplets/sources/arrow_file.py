"""Read Arrow IPC files and streams, Feather files among them, batch by batch into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.base import Rows
from duckplets.sources.feed import pick

if TYPE_CHECKING:
    from duckplets.db.database import Database


@dataclass(frozen=True, slots=True)
class ArrowSource(paths.Files):
    """Arrow IPC files or streams, and Feather (version 2) files."""

    path: paths.Paths
    """File, glob, or list of them."""

    kind: ClassVar[str] = "arrow"

    def open(self, reader: Database) -> Rows:
        """Check the columns of every file, then read them in turn."""
        chosen = self.placed(lambda file: next(schema_and_batches(file)).names)
        pieces = (piece for file, _, places in chosen for piece in pieces_of(file, places))
        return self.rows(reader, pieces)


def pieces_of(file: Path, places: list[int]) -> Iterator[pa.RecordBatch]:
    """Yield the columns at some places, batch by batch."""
    batches = schema_and_batches(file)
    next(batches)
    for batch in batches:
        yield pick(batch, places)


def schema_and_batches(file: Path) -> Iterator[pa.Schema | pa.RecordBatch]:
    """Yield a file's schema, then its batches."""
    try:
        with pa.memory_map(str(file)) as source:
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
    except (pa.ArrowException, OSError) as error:
        raise paths.unreadable(file, error) from error
