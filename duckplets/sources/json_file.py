"""Read JSON files into rows: an array or objects (.json), or one object a line (.jsonl, stdin).

Lines are cut here and judged by ``json_valid`` and ``json_type``: DuckDB's own reader turns a bad
line into a row of NULLs, and a byte order mark makes the first record NULL.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from duckplets.db.queries import query
from duckplets.errors import QueryError, SourceError
from duckplets.sources import paths
from duckplets.sources.base import Rows
from duckplets.sources.lines import json_rows, line_batch, line_pieces

if TYPE_CHECKING:
    from duckplets.db.database import Database

# read_json_objects sets aside twice this much; a .json file's values are at most this long.
_LARGEST_VALUE = 128 << 20
_VALUE_ROWS = 256


@dataclass(frozen=True, slots=True)
class JsonSource(paths.Files):
    """JSON files; whatever is not ``.json`` has one object a line.

    Keys may differ from object to object, and are matched over all the files. A bad line is
    counted and skipped; a broken array is an error.
    """

    path: paths.Paths
    """File (also .gz and .zst), glob, or list of them; ``-`` reads lines from standard input."""

    kind: ClassVar[str] = "json"

    def default_name(self) -> str:
        """Return the file's stem."""
        return "stdin" if self._is_stdin() else paths.default_name(self.path)

    def open(self, reader: Database) -> Rows:
        """Look at the keys of the first objects, then read the files in turn."""
        if self._is_stdin():
            pieces, where = line_pieces(sys.stdin.buffer), "standard input"
        else:
            files = paths.files(self.path)
            pieces = (piece for file in files for piece in pieces_of(reader, file))
            where = self.uri or ""
        return Rows(json_rows(reader, self, pieces, where), self.defaults())

    def _is_stdin(self) -> bool:
        return str(self.path) == "-"


def pieces_of(reader: Database, file: Path) -> Iterator[pa.RecordBatch]:
    """Yield a file's objects as lines of JSON."""
    form = _form(file)
    if form != "lines":
        yield from _values(reader, file, form)
        return
    try:
        with paths.open_bytes(file) as stream:
            yield from line_pieces(stream)
    except (pa.ArrowException, OSError) as error:
        raise paths.unreadable(file, error) from error


def _form(file: Path) -> str:
    """Return what a file holds: ``lines``, an ``array``, or objects on several lines."""
    if paths.inner_suffix(file) != ".json":
        return "lines"
    try:
        with paths.open_bytes(file) as stream:
            start = stream.read(1 << 20).removeprefix(b"\xef\xbb\xbf").lstrip()
    except (pa.ArrowException, OSError) as error:
        raise paths.unreadable(file, error) from error
    if start.startswith(b"["):
        return "array"
    try:  # many .json files are JSON lines by another name
        return "lines" if isinstance(json.loads(start.split(b"\n", 1)[0]), dict) else "unstructured"
    except ValueError:
        return "unstructured"


def _values(reader: Database, file: Path, form: str) -> Iterator[pa.RecordBatch]:
    scan = reader.cursor()  # the reader itself runs other statements meanwhile
    size = file.stat().st_size
    compressed = paths.inner_suffix(file) != file.suffix.lower()
    largest = _LARGEST_VALUE if compressed else min(size + 1024, _LARGEST_VALUE)
    values = {"path": str(file), "format": form, "largest": largest}
    try:
        for batch in scan.stream(query("sources/lines/json_values"), values, rows=_VALUE_ROWS):
            yield line_batch(batch.column("line").cast(pa.string()))
    except QueryError as error:
        raise _broken(file, str(error)) from error
    finally:
        scan.close()


def _broken(file: Path, message: str) -> SourceError:
    found = re.search(r"in record/value (\d+): (.*)", message)
    if found:  # DuckDB counts the values from 1 and names the one after
        value, reason = max(int(found[1]) - 1, 1), found[2].rstrip(". ")
        return SourceError(f"{file} is broken JSON at value {value}: {reason}")
    return SourceError(f"{file} cannot be read: {message}")
