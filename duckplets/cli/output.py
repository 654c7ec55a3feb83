"""Print results: tables for people, JSON for programs, samples to stdout or a file.

Control characters are escaped in both; tables also cut long cells. A file gets its name once it
is complete.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from duckplets.base.atomic import aside_of, sweep
from duckplets.base.sanitize import counted, harmless_json, shown, tallied, text_table
from duckplets.cli.app import say, tell

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.cli.inputs import FoundSource
    from duckplets.ingest.records import IngestReport
    from duckplets.ingest.splits import SplitReport
    from duckplets.sources.limits import Limits
    from duckplets.sources.mapping import OnError

SUFFIXES = (".jsonl", ".parquet")

_ROWS = 4096  # rows converted to Python at a time
_ROW_GROUP = 16_384


# -- tables -----------------------------------------------------------------------------------


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as a table, numbers aligned to the right."""
    for line in text_table(columns, rows):
        print(line)  # cells are escaped


def show_columns(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print some columns of mappings as a table."""
    show_table(columns, ([row[column] for column in columns] for row in rows))


def show(report: Any, *, json: bool = False) -> None:
    """Print a report as text or JSON."""
    if json:
        path = getattr(report, "path", None)
        print_document(asdict(report) | ({} if path is None else {"path": str(path)}))
    else:
        tell(*str(report).split("\n"))


def show_ingested(reports: Sequence[tuple[str, IngestReport]], *, json: bool) -> None:
    """Print what became of the rows of each source."""
    if json:
        print_lines({"source": name, **asdict(report)} for name, report in reports)
    elif reports:
        columns = ("read", "added", "replaced", "skipped", "failed", "seconds")
        rows = []
        for name, r in reports:
            joined = {"joined a family of several splits": r.spanning} if r.spanning else {}
            reasons = tallied(r.reasons | r.dropped_sections | joined) or "-"
            rows.append((name, *(getattr(r, column) for column in columns), reasons))
        show_table(("source", *columns, "reasons"), rows)


def show_records(
    found: FoundSource, n: int, on_error: OnError | None, limits: Limits, *, json: bool
) -> None:
    """Print the first records that a source would become."""
    from duckplets.ingest.preview import preview

    seen = preview(found.source, n, on_error=on_error, limits=limits)
    if json:
        print_lines([{"source": found.name, **asdict(seen)}])
    else:
        tell(*f"{shown(found.name)}: {seen}".splitlines())


def say_kept(unfinished: Iterable[Mapping[str, Any]]) -> None:
    """Print which rows of unfinished ingests are kept, and how to go on."""
    for kept in unfinished:
        say(
            f"kept of {kept['source']}: {counted(kept['rows'], 'row')}; the same command goes on "
            f"from there, and --restart discards what is kept"
        )


def show_split(report: SplitReport, keep_together: str) -> None:
    """Print the records of each split, and what splits share."""
    from duckplets.corpus.status_text import shared_anchors

    show_table(("split", "records"), report.items())
    say(report.shares)
    for name, anchors in report.anchors.items():
        say(shared_anchors(name, anchors, report.shared_anchors[name]))
    if any(report.shared_anchors.values()) and keep_together == "group":
        say("to keep equal texts together: duckplets split … --keep-together text --reassign")
    if report.spanning:
        say(f"{counted(report.spanning, 'family', 'families')} with records in more than one split")


# -- JSON -------------------------------------------------------------------------------------


def write_rows(table: pa.Table, stream: TextIO) -> None:
    """Write rows as JSON lines; maps become objects, dates ISO texts."""
    for start in range(0, table.num_rows, _ROWS):
        rows = table.slice(start, _ROWS).to_pylist(maps_as_pydicts="strict")
        stream.writelines(f"{harmless_json(line)}\n" for line in map(_ENCODER.encode, rows))


def print_lines(values: Iterable[Any]) -> None:
    """Print JSON values, one a line."""
    for value in values:
        print(harmless_json(_ENCODER.encode(value)))


def print_document(value: Any) -> None:
    """Print an indented JSON document."""
    print(harmless_json(json.dumps(value, ensure_ascii=False, indent=2, default=_plain)))


def stdout() -> TextIO:
    """Return stdout.

    Raises:
        OSError: It is closed.
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed, so there is nowhere to write", "stdout")
    return sys.stdout


def _plain(value: Any) -> Any:
    if isinstance(value, date):  # a datetime is a date
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no JSON value")


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_plain)


# -- samples ----------------------------------------------------------------------------------


def check(out: Path | None) -> None:
    """Refuse an output file that cannot be written, before any work.

    Raises:
        typer.BadParameter: It has an unknown suffix, or no folder.
    """
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise typer.BadParameter(f"--out {out}: give FILE.jsonl or FILE.parquet")
    check_folder("--out", out)


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a file in a missing or inaccessible folder.

    Raises:
        typer.BadParameter: It is.
    """
    if path is None:
        return
    try:
        why = "" if stat.S_ISDIR(path.parent.stat().st_mode) else f"{path.parent} is no folder"
    except FileNotFoundError:
        why = f"there is no folder {path.parent}"
    except OSError as error:  # no access to a parent, or too long a name
        why = f"{path.parent}: {error.strerror}"
    if why:
        raise typer.BadParameter(f"{option} {path}: {why}")


def put(tables: Iterator[pa.Table], out: Path | None) -> int:
    """Write tables of samples to a file, or to stdout as JSON lines; return the rows.

    The file gets its name once it is complete.
    """
    if out is None:
        stream = stdout()
        rows = _put_lines(tables, stream)
        stream.flush()
        return rows
    first = next(tables, None)
    if first is None:
        say(f"no samples to write: {out} is left as it is")
        return 0
    aside = aside_of(out)
    sweep(out)
    try:
        rows = _put_aside(_shown(chain([first], tables)), first.schema, aside)
        os.replace(aside, out)
    except OSError as error:
        if error.filename == str(aside):
            error.filename = str(out)  # the path the user knows
        raise
    finally:
        with suppress(OSError):
            aside.unlink()
    return rows


def _put_lines(tables: Iterable[pa.Table], stream: TextIO) -> int:
    rows = 0
    for table in tables:
        write_rows(table, stream)
        rows += table.num_rows
    return rows


def _put_aside(tables: Iterator[pa.Table], schema: pa.Schema, path: Path) -> int:
    """Write JSON lines, or Parquet in row groups of thousands of samples."""
    if path.suffix.lower() != ".parquet":
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            return _put_lines(tables, stream)
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, held = 0, list[pa.Table]()
    with path.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
        for table in tables:
            held.append(table)
            rows += table.num_rows
            if sum(part.num_rows for part in held) >= _ROW_GROUP:
                writer.write_table(pa.concat_tables(held))
                held.clear()
        if held:
            writer.write_table(pa.concat_tables(held))
    return rows


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
