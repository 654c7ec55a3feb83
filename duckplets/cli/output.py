"""Samples in a file, JSON lines or Parquet, that has its name only when it is whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from duckplets.cli import jsonlines

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SUFFIXES = (".jsonl", ".parquet")

_ROW_GROUP = 16_384

Write = Callable[["pa.Table"], None]


@contextmanager
def tables_to(out: Path) -> Iterator[Write]:
    """Open what takes tables; the file has its name only when it is whole."""
    aside = out.with_name(f".{out.name}.{os.getpid()}.new")
    try:
        with (_parquet if out.suffix.lower() == ".parquet" else _json_lines)(aside) as write:
            yield write
        os.replace(aside, out)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def _json_lines(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        yield lambda table: jsonlines.write_rows(table, stream)


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    """Write row groups of thousands of samples, not one a batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    held: list[pa.Table] = []
    writer: pq.ParquetWriter | None = None

    def flush() -> None:
        nonlocal writer
        if held:
            table = pa.concat_tables(held)
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
            held.clear()

    def write(table: pa.Table) -> None:
        held.append(table)
        if sum(part.num_rows for part in held) >= _ROW_GROUP:
            flush()

    try:
        yield write
        flush()
    finally:
        if writer is not None:
            writer.close()
