"""Make rows of records that are in memory already, dictionaries or Arrow data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.columns import portions
from duckplets.sources.formats.json_records import JsonEncoder
from duckplets.sources.formats.lines import json_rows, line_batch
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.mapped_columns import require_texts, resolve, telling
from duckplets.sources.mapping import Mapped
from duckplets.sources.row_batches import pick, rows_of
from duckplets.sources.rows import Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database

_SLICE = 1_024
_WHERE = "records"


@dataclass(frozen=True, slots=True, eq=False)
class MemorySource(Mapped):
    """Dictionaries, or Arrow data.

    Dictionaries go through JSON, so keys may differ, and numbers and texts may share a key.
    """

    records: Any
    """Iterable of dictionaries, or an Arrow Table, RecordBatch or RecordBatchReader."""

    kind: ClassVar[str] = "memory"

    @property
    def uri(self) -> str | None:
        """None: there is no place to read it again from."""
        return None

    def default_name(self) -> str:
        """Return ``memory``."""
        return "memory"

    def open(self, reader: Database) -> Rows:
        """Check the columns, then read the records; an iterator is used up."""
        records = self.records
        if isinstance(records, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
            return self._open_arrow(reader, records)
        if isinstance(records, (str, bytes, Mapping)) or not isinstance(records, Iterable):
            raise SourceError(
                f"{type(records).__name__} records: give a list of dictionaries, one per record, "
                f"or an Arrow table"
            )
        total = len(records) if isinstance(records, (list, tuple)) else None
        lines = JsonEncoder(self)
        return json_rows(reader, self, _pieces(iter(records), lines), _WHERE, total)

    def _open_arrow(self, reader: Database, records: Any) -> Rows:
        names = records.schema.names
        require_texts(self, names, _WHERE, type(self).__name__)
        places = resolve(self, names, _WHERE)
        batches = [records] if isinstance(records, pa.RecordBatch) else records
        if isinstance(records, pa.Table):
            batches = records.to_batches()
        pieces = telling(self, names, _picked(batches, places, limits_of(reader)))
        total = None if isinstance(records, pa.RecordBatchReader) else records.num_rows
        return Rows(rows_of(reader, self, pieces, _WHERE), self.defaults(), total)


def _picked(
    batches: Iterable[pa.RecordBatch], places: list[int], limits: Limits
) -> Iterator[pa.RecordBatch]:
    row = 0
    for batch in batches:
        for part in portions(batch.select(places), _WHERE, limits, row):
            yield pick(part, range(len(places)))
        row += batch.num_rows


def _pieces(records: Iterator[Any], lines: JsonEncoder) -> Iterator[pa.RecordBatch]:
    while part := list(islice(records, _SLICE)):
        made = [lines.line(record) for record in part]
        yield line_batch(pa.array(made, pa.binary()).view(pa.string()))
