"""The rows that a source gives, checked for their shape."""

from __future__ import annotations

from typing import Any

from duckplets.db.database import Database
from duckplets.sources import ROW_SCHEMA, Source
from duckplets.sources.rows import EXTRA_COLUMNS


def read(source: Source, reader: Database) -> list[dict[str, Any]]:
    rows = source.open(reader)
    batches = list(rows.batches)
    names = ROW_SCHEMA.names
    assert all(batch.select(names).schema.equals(ROW_SCHEMA) for batch in batches)
    assert all({*batch.schema.names} <= {*names, *EXTRA_COLUMNS, "file"} for batch in batches)
    assert rows.rejected() == {}
    return [untold(row) for batch in batches for row in batch.to_pylist()]


def untold(row: dict[str, Any]) -> dict[str, Any]:
    """A row without where it stands, which differs between kinds of sources, and what it lacks."""
    told = {name: row.get(name) for name in ("value", "note", "line", "file", "left_out")}
    told["further"] = row.get("further") or None  # nothing is said where no list is read
    bare = {name: value for name, value in row.items() if name not in told}
    return bare | {name: told[name] for name in ("note", "further") if told[name]}


def texts(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(section["role"], section["text"]) for section in row["sections"]]
