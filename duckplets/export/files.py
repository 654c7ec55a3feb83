"""Write rows as JSON lines or Parquet; a file gets its name when it is complete."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import pyarrow as pa

from duckplets.base.atomic import aside_of, remove, sweep
from duckplets.errors import SamplerError

Row = Mapping[str, Any]

# A row group ends at a number of rows or characters. So its bounds depend on the rows alone, and
# memory is bounded for texts of any length.
_GROUP_ROWS = 16_384
_GROUP_CHARACTERS = 16 << 20

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
# JSON does not escape these, and some readers treat them as line ends.
_SEPARATORS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
_FILE_SUFFIXES = (".parquet", ".jsonl", ".json", ".tsv", ".csv")


# -- rows ---------------------------------------------------------------------------------------


def text_file(path: Path) -> TextIO:
    """Open a new text file; a lone surrogate is not in UTF-8 and gets its JSON escape."""
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")


def json_line(row: Row) -> str:
    """Return an object as a line of JSON."""
    line = _ENCODER.encode(row)
    return (line if line.isascii() else line.translate(_SEPARATORS)) + "\n"


def json_lines(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as JSON lines."""
    with text_file(path) as stream:
        stream.writelines(map(json_line, rows))


def parquet(path: Path, rows: Iterable[Row], schema: pa.Schema) -> None:
    """Write rows as Parquet."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group, characters = list[Row](), 0
    for row in rows:
        group.append(row)
        characters += sum(map(_characters, row.values()))
        if len(group) >= _GROUP_ROWS or characters >= _GROUP_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def write_tables(tables: Iterable[pa.Table], schema: pa.Schema, file: BinaryIO) -> int:
    """Write tables as Parquet in row groups of thousands of rows; return the rows."""
    import pyarrow.parquet as pq

    written, group = 0, list[pa.Table]()
    with pq.ParquetWriter(file, schema) as writer:
        for table in tables:
            group.append(table)
            written += table.num_rows
            if sum(part.num_rows for part in group) >= _GROUP_ROWS:
                writer.write_table(pa.concat_tables(group))
                group.clear()
        if group:
            writer.write_table(pa.concat_tables(group))
    return written


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(_characters, value)) if isinstance(value, list) else 0


# -- places -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportPlace:
    """The output of an export: a file with one of the suffixes, or a folder of files."""

    suffixes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def check(path: Path, place: ExportPlace, *, overwrite: bool) -> None:
    """Refuse a path that cannot be written, or an existing one that must not be replaced."""
    argument, suffix = f"path={str(path)!r}", path.suffix.lower()
    if place.suffixes and suffix not in place.suffixes:
        raise SamplerError(f"{argument}: give FILE{' or FILE'.join(place.suffixes)}")
    if place.files and suffix in _FILE_SUFFIXES:
        raise SamplerError(f"{argument}: give a folder, for {', '.join(place.files)}")
    if "\0" in str(path) or len(os.fsencode(path.name)) > 255:
        raise SamplerError(f"{argument}: no file can have that name")
    if not path.parent.is_dir():
        raise SamplerError(f"{argument}: there is no folder {path.parent}; make it first")
    if not os.path.lexists(path):
        return
    if place.files:
        raise SamplerError(f"{argument} exists, and a folder is never replaced; give another")
    if not overwrite:
        raise SamplerError(f"{argument} exists; give another, or overwrite=True")
    if not path.is_file():
        raise SamplerError(f"{argument} is no file, so it is not replaced; give another")


@contextmanager
def appearing(path: Path, place: ExportPlace, *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary path, and rename it after success."""
    temporary = aside_of(path)
    sweep(path)
    try:
        if place.files:
            temporary.mkdir()
        yield temporary
        check(path, place, overwrite=overwrite)
        os.replace(temporary, path)
    except OSError as error:
        # Arrow has its own messages, Python the system's.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise SamplerError(f"path={str(path)!r}: cannot write there: {reason}") from error
    finally:
        remove(temporary)
