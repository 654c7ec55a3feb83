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
from duckplets.sources.feed import refused
from duckplets.sources.limits import limits_of
from duckplets.sources.lines import check_lengths, json_rows, line_batch, line_pieces

if TYPE_CHECKING:
    from duckplets.db.database import Database

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
            if sys.stdin is None:
                raise SourceError("standard input is closed, so there is nothing to read")
            where = "standard input"
            pieces = line_pieces(sys.stdin.buffer, where, limits_of(reader))
        else:
            files = paths.files(self.path)
            pieces = (piece for file in files for piece in pieces_of(reader, file))
            where = self.uri or ""
        return json_rows(reader, self, pieces, where)

    def _is_stdin(self) -> bool:
        return str(self.path) == "-"


def pieces_of(reader: Database, file: Path) -> Iterator[pa.RecordBatch]:
    """Yield a file's objects as lines of JSON."""
    form = _form(file)
    if form != "lines":
        yield from _values(reader, file, form)
        return
    with paths.reading(file), paths.open_bytes(file) as stream:
        yield from line_pieces(stream, str(file), limits_of(reader))


def _form(file: Path) -> str:
    """Return what a file holds: ``lines``, an ``array``, or objects on several lines."""
    if paths.inner_suffix(file) != ".json":
        return "lines"
    with paths.reading(file), paths.open_bytes(file) as stream:
        start = stream.read(1 << 20).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"["):
        return "array"
    try:  # many .json files are JSON lines by another name
        return "lines" if isinstance(json.loads(start.split(b"\n", 1)[0]), dict) else "unstructured"
    except (ValueError, RecursionError):
        return "unstructured"


def _values(reader: Database, file: Path, form: str) -> Iterator[pa.RecordBatch]:
    scan = reader.cursor()  # the reader itself runs other statements meanwhile
    size = file.stat().st_size
    compressed = paths.inner_suffix(file) != file.suffix.lower()
    limits = limits_of(reader)
    largest = limits.size("row") if compressed else min(size + 1024, limits.size("row"))
    count = 0
    values = {"path": str(file), "format": form, "largest": largest}
    try:
        for batch in scan.stream(query("sources/lines/json_values"), values, rows=_VALUE_ROWS):
            found = line_batch(batch.column("line").cast(pa.string()))
            check_lengths(found, f"{file}, value", limits, count)
            count += found.num_rows
            yield found
    except QueryError as error:
        if "maximum_object_size" in str(error):
            raise limits.exceeded(str(file), "a value is larger", "row") from error
        if "in record/value" not in str(error):
            raise refused(error, f"{file} cannot be read", limits) from error
        raise _broken(file, str(error)) from error
    finally:
        scan.close()


def _broken(file: Path, message: str) -> SourceError:
    found = re.search(r"in record/value (\d+): (.*)", message)
    number, reason = (found[1], found[2].rstrip(". ")) if found else ("0", message)
    # DuckDB counts the values from 1 and names the one after.
    return SourceError(f"{file} is broken JSON at value {max(int(number) - 1, 1)}: {reason}")
