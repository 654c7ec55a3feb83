"""Rows on stdout, or in a file that has its name only when it is whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from duckplets.cli import jsonlines
from duckplets.cli.app import say

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SUFFIXES = (".jsonl", ".parquet")

_ROW_GROUP = 16_384

Write = Callable[["pa.Table"], None]


def check(out: Path | None) -> None:
    """Refuse a file that cannot be written, before there is anything to write.

    Raises:
        typer.BadParameter: Its suffix is none of a format, or its folder is not there.
    """
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise typer.BadParameter(f"--out {out}: give FILE.jsonl or FILE.parquet")
    check_folder("--out", out)


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a file whose folder is not there.

    Raises:
        typer.BadParameter: It is not.
    """
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"{option} {path}: there is no folder {path.parent}")


def put(tables: Iterator[pa.Table], out: Path | None) -> int:
    """Write tables of samples to a file, or to stdout as JSON lines; returns the rows."""
    if out is None:
        rows = 0
        for table in tables:
            jsonlines.write_rows(table, sys.stdout)
            rows += table.num_rows
        sys.stdout.flush()
        return rows
    first = next(tables, None)
    if first is None:
        say(f"no samples to write: {out} is left as it is")
        return 0
    return _put_into(chain([first], tables), out)


def _put_into(tables: Iterator[pa.Table], out: Path) -> int:
    from duckplets.base.progress import bar

    rows = 0
    with tables_to(out) as write, bar(None, sys.stderr) as advance:
        for table in tables:
            write(table)
            rows += table.num_rows
            if advance:
                advance(rows, None)
    return rows


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
