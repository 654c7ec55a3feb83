"""Print results: tables for people, JSON for programs, samples to stdout or a file.

Control characters are escaped in both; tables also cut long cells. A file gets its name when it is
complete.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from duckplets.base.atomic import written_aside
from duckplets.base.sanitize import harmless_json, tallied, text_table
from duckplets.cli.app import say, tell

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.ingest.records import IngestReport

_ROWS = 4096  # rows converted to Python at a time


# -- tables and JSON ------------------------------------------------------------------------------


def show_table(columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as a table, numbers aligned to the right."""
    for line in text_table([*columns], rows):
        print(line)  # cells are escaped


def table_lines(rows: pa.Table) -> list[str]:
    """Return a table as lines for people."""
    cells = ([_cell(value) for value in row.values()] for row in rows.to_pylist())
    return text_table(rows.column_names, cells)


def show_rows(rows: Sequence[Mapping[str, Any]], *, json: bool = False) -> None:
    """Print mappings as a table of all their keys, or as one JSON document."""
    if json:
        print_document(rows)
        return
    columns = dict.fromkeys(name for row in rows for name in row)
    if rows:
        show_table(columns, ([_cell(row.get(name)) for name in columns] for row in rows))


def show(report: Any, *, json: bool = False) -> None:
    """Print a report as text or JSON."""
    if json:
        path = getattr(report, "path", None)
        print_document(asdict(report) | ({} if path is None else {"path": str(path)}))
    else:
        tell(*str(report).split("\n"))


def show_ingested(reports: Mapping[str, IngestReport], *, json: bool) -> None:
    """Print the counts of rows of each source."""
    if json:
        print_lines({"source": name, **asdict(report)} for name, report in reports.items())
    elif reports:
        columns = ("read", "added", "replaced", "skipped", "failed", "seconds")
        rows = []
        for name, r in reports.items():
            joined = {"joined a family of several splits": r.spanning} if r.spanning else {}
            reasons = tallied(r.reasons | r.dropped_sections | joined) or "-"
            rows.append((name, *(getattr(r, column) for column in columns), reasons))
        show_table(("source", *columns, "reasons"), rows)


def print_lines(values: Iterable[Any]) -> None:
    """Print JSON values, one a line."""
    for value in values:
        print(harmless_json(_ENCODER.encode(value)))


def print_document(value: Any) -> None:
    """Print an indented JSON document."""
    print(harmless_json(json.dumps(value, ensure_ascii=False, indent=2, default=_plain)))


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(str(_cell(each)) for each in value)
    return f"{value:.4f}" if isinstance(value, float) else value


def _plain(value: Any) -> Any:
    if isinstance(value, date):  # a datetime is a date
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no JSON value")


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_plain)


# -- samples --------------------------------------------------------------------------------------


def check(out: Path | None) -> None:
    """Raise ``BadParameter`` for an output file of unknown suffix, or in a missing folder."""
    if out is not None and out.suffix.lower() not in (".jsonl", ".parquet"):
        raise typer.BadParameter(f"--out {out}: give FILE.jsonl or FILE.parquet")
    if out is not None and not os.path.isdir(out.parent):
        raise typer.BadParameter(f"--out {out}: there is no folder {out.parent}")


def put(tables: Iterator[pa.Table], out: Path | None) -> int:
    """Write tables of samples to a file, or to stdout as JSON lines; return the rows.

    The file gets its name when it is complete.
    """
    if out is None:
        sys.stdout.flush()
        return _put_lines(tables, sys.stdout.buffer)
    from duckplets.export.files import write_tables

    first = next(tables, None)
    if first is None:
        say(f"no samples to write: {out} is unchanged")
        return 0
    tables = _shown(chain([first], tables))
    existed, is_lines = out.exists(), out.suffix.lower() == ".jsonl"
    with written_aside(out) as file:
        rows = _put_lines(tables, file) if is_lines else write_tables(tables, first.schema, file)
    if existed:
        say(f"replaced the earlier {out}")
    return rows


def _put_lines(tables: Iterable[pa.Table], stream: BinaryIO) -> int:
    written = 0
    for table in tables:
        stream.writelines(json_lines([table]))
        stream.flush()
        written += table.num_rows
    return written


def json_lines(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """Yield pieces of JSON lines; maps become objects, dates ISO texts."""
    for table in tables:
        for start in range(0, table.num_rows, _ROWS):
            rows = table.slice(start, _ROWS).to_pylist(maps_as_pydicts="strict")
            yield "".join(f"{harmless_json(_ENCODER.encode(row))}\n" for row in rows).encode()


def _shown(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables while a bar on a terminal counts their rows."""
    from duckplets.base.progress import bar

    rows = 0
    with bar(None, sys.stderr) as advance:
        for table in tables:
            yield table
            rows += table.num_rows
            if advance:
                advance(rows, None)
