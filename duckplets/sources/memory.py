"""Make rows of records that are in memory already, dictionaries or Arrow data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.mapping import Mapped
from duckplets.sources.names import known_fields, require_texts, resolve
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import RowBlock, Rows
from duckplets.sources.typed import blocks_of, names_of
from duckplets.sources.values import Fault

if TYPE_CHECKING:
    from duckplets.db.database import Database

_ROWS = 1_024
_WHERE = "records"


@dataclass(frozen=True, slots=True, eq=False)
class MemorySource(Mapped):
    """Dictionaries, or Arrow data; keys may differ, and numbers and texts may share a key."""

    records: Any
    """Iterable of dictionaries, or anything with ``__arrow_c_stream__``: an Arrow table, batch or
    reader, a frame of polars or pandas, a relation of DuckDB."""

    kind: ClassVar[str] = "memory"
    in_pieces: ClassVar[bool] = False

    @property
    def uri(self) -> str | None:
        """None: there is no place to read it again from."""
        return None

    def default_name(self) -> str:
        """Return ``memory``."""
        return "memory"

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Check the columns, then read the records; an iterator is used up."""
        records = self.records
        if hasattr(records, "__arrow_c_stream__"):
            total = getattr(records, "num_rows", None)
            blocks = table_blocks(self, pa.RecordBatchReader.from_stream(records), _WHERE)
            return opened(reader, self, blocks, _WHERE, total=total, marks=False)
        if isinstance(records, (str, bytes, Mapping)) or not isinstance(records, Iterable):
            raise SourceError(
                f"{type(records).__name__} records: give a list of dictionaries, one per record, "
                f"or an Arrow table"
            )
        total = len(records) if isinstance(records, (list, tuple)) else None
        blocks = _blocks(iter(records))
        return opened(reader, self, blocks, _WHERE, total=total, marks=False)


def table_blocks(mapping: Mapped, records: Any, where: str) -> Iterator[RowBlock]:
    """Return the rows of Arrow data, after a look at its columns."""
    names = names_of(records.schema, where)
    require_texts(mapping, names, where, type(mapping).__name__)
    used, known = resolve(mapping, names, where), known_fields(mapping)
    others = [name for name in names if name.lower() not in known] if known else []
    blocks = blocks_of(batches_of(records), where, columns=used)
    return (block._replace(columns=names, left_out=others) for block in blocks)


def batches_of(records: Any) -> Iterable[pa.RecordBatch]:
    """Return the batches of Arrow data."""
    if isinstance(records, pa.RecordBatch):
        return [records]
    found: Iterable[pa.RecordBatch] = records
    return records.to_batches() if isinstance(records, pa.Table) else found


def row_of(record: Any) -> dict[str, Any] | Fault:
    """Return a record as a row."""
    if isinstance(record, dict):
        return record
    if isinstance(record, Mapping):
        return dict(record)
    return Fault("not an object")


def _blocks(records: Iterator[Any]) -> Iterator[RowBlock]:
    while some := list(islice(records, _ROWS)):
        yield RowBlock(list(map(row_of, some)))
