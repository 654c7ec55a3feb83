"""The rows that a source gives, checked for their shape."""

from __future__ import annotations

from typing import Any

from duckplets.db.database import Database
from duckplets.sources import ROW_SCHEMA, Source


def read(source: Source, reader: Database) -> list[dict[str, Any]]:
    rows = source.open(reader)
    batches = list(rows.batches)
    for batch in batches:  # what a row has there that is no text comes besides
        assert batch.select(ROW_SCHEMA.names).schema.equals(ROW_SCHEMA)
        assert set(batch.schema.names) <= {*ROW_SCHEMA.names, "complaint"}
    assert rows.rejected() == {}
    return [row for batch in batches for row in batch.to_pylist()]


def texts(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(section["role"], section["text"]) for section in row["sections"]]
