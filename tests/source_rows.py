"""The same records in every kind of source, and the rows that a source gives, checked in shape."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

import duckplets as dp
from duckplets.db.database import Database
from duckplets.sources import ROW_SCHEMA, Mark, Source
from duckplets.sources.custom import adapted
from duckplets.sources.rows import EXTRA_COLUMNS

NESTED = ("jsonl", "json", "parquet", "feather", "stream", "records", "table", "reader", "sql")
FILES = ("csv", *NESTED)
ALL = (*NESTED, "dataset", "custom", "tables", "indexed")


class Paged:
    """A source of one's own that yields batches, with their numbers as cursors."""

    name = "paged"

    def __init__(self, *batches: Any) -> None:
        self.given = batches

    def batches(self, cursor: Any) -> Any:
        for number, records in enumerate(self.given):
            if cursor is None or number > cursor:
                yield records, number


def write_csv(path: Path, records: list[dict[str, Any]]) -> Path:
    """Write records as CSV: None as nothing, what is no text as JSON."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        for record in records:
            cells = {
                n: v if isinstance(v, str | None) else json.dumps(v) for n, v in record.items()
            }
            writer.writerow(cells)
    return path


def every_source(
    folder: Path, records: list[dict[str, Any]], kinds: Sequence[str] = FILES, **mapping: Any
) -> dict[str, Any]:
    """Return sources of the same records, one of each kind, after their files are written."""
    table = pa.Table.from_pylist(records)

    def parquet() -> Path:
        pq.write_table(table, folder / "r.parquet", row_group_size=17)
        return folder / "r.parquet"

    def feather() -> Path:
        pyarrow.feather.write_feather(table, str(folder / "r.feather"))
        return folder / "r.feather"

    def stream() -> Path:
        with pa.ipc.new_stream(folder / "r.arrows", table.schema) as writer:
            writer.write_table(table)
        return folder / "r.arrows"

    def jsonl() -> Path:
        lines = (json.dumps(record, ensure_ascii=False) for record in records)
        (folder / "r.jsonl").write_bytes("\n".join(lines).encode())
        return folder / "r.jsonl"

    def array() -> Path:
        (folder / "r.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
        return folder / "r.json"

    def dataset() -> Any:
        import datasets

        return datasets.Dataset(table)

    made: dict[str, tuple[Any, Any]] = {
        "csv": (dp.sources.CsvSource, lambda: write_csv(folder / "r.csv", records)),
        "jsonl": (dp.sources.JsonSource, jsonl),
        "json": (dp.sources.JsonSource, array),
        "parquet": (dp.sources.ParquetSource, parquet),
        "feather": (dp.sources.ArrowSource, feather),
        "stream": (dp.sources.ArrowSource, stream),
        "records": (dp.sources.MemorySource, lambda: records),
        "table": (dp.sources.MemorySource, lambda: table),
        "reader": (dp.sources.MemorySource, lambda: table.to_reader(max_chunksize=7)),
        "sql": (dp.SqlSource, lambda: f"FROM '{parquet()}'"),
        "dataset": (dp.sources.DatasetSource, dataset),
        "custom": (dp.CustomSource, lambda: Paged(records)),
        "tables": (dp.CustomSource, lambda: Paged(table)),
        "indexed": (dp.IndexedSource, lambda: records),
    }
    more = {"indexed": {"name": "i", "shuffle": False}}
    return {kind: made[kind][0](made[kind][1](), **mapping, **more.get(kind, {})) for kind in kinds}


def read(source: Any, reader: Database, cursor: Any = None) -> list[dict[str, Any]]:
    made: Source = adapted(source)
    rows = made.open(reader, cursor)
    batches = [each for each in rows.batches if not isinstance(each, Mark)]
    names = ROW_SCHEMA.names
    assert all(batch.select(names).schema.equals(ROW_SCHEMA) for batch in batches)
    assert all({*batch.schema.names} <= {*names, *EXTRA_COLUMNS, "file"} for batch in batches)
    return [untold(row) for batch in batches for row in batch.to_pylist()]


def rows_in(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the rows of what a source gives, as they are."""
    return [row for item in items if not isinstance(item, Mark) for row in item.to_pylist()]


def rows_of(source: Any, reader: Database, cursor: Any = None) -> list[dict[str, Any]]:
    return rows_in(adapted(source).open(reader, cursor).batches)


def untold(row: dict[str, Any]) -> dict[str, Any]:
    """A row without where it stands, which differs between kinds of sources, and what it lacks."""
    told = {name: row.get(name) for name in ("value", "note", "line", "file", "left_out")}
    told["further"] = row.get("further") or None  # nothing is said where no list is read
    bare = {name: value for name, value in row.items() if name not in told}
    return bare | {name: told[name] for name in ("note", "further") if told[name]}


def texts(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(section["role"], section["text"]) for section in row["sections"]]
