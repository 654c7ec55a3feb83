"""Read JSON files into rows: an array or objects (.json), or one object a line (.jsonl, stdin).

Lines are cut here and judged by ``json_valid`` and ``json_type``: DuckDB's own reader turns a bad
line into a row of NULLs, and a byte order mark makes the first record NULL.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, cast

import pyarrow as pa

from duckplets.base.object_store import StoredObject
from duckplets.db.queries import query
from duckplets.errors import QueryError, SourceError
from duckplets.sources import paths
from duckplets.sources.files import Files, LocalFiles, named
from duckplets.sources.formats.decode import Transcoded, codec_of
from duckplets.sources.formats.lines import check_lengths, json_rows, line_batch, line_pieces
from duckplets.sources.limits import limits_of
from duckplets.sources.row_batches import refused
from duckplets.sources.row_provenance import Origins
from duckplets.sources.rows import Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database

_VALUE_ROWS = 256


@dataclass(frozen=True, slots=True)
class JsonSource(Files):
    """JSON files; whatever is not ``.json`` has one object a line.

    Keys may differ from object to object, and are matched over all the files. A bad line is
    counted and skipped; a broken array is an error.
    """

    path: paths.Paths
    """File (also .gz and .zst), glob, or list of them; ``-`` reads lines from standard input."""
    encoding: str | None = field(default=None, kw_only=True)
    """Of the text, as Python names it, such as ``"latin-1"``; else UTF-8."""

    kind: ClassVar[str] = "json"

    def __post_init__(self) -> None:
        Files.__post_init__(self)
        codec_of(self.encoding)

    def default_name(self) -> str:
        """Return the file's stem."""
        return "stdin" if self._is_stdin() else paths.default_name(self.path)

    def open(self, reader: Database) -> Rows:
        """Look at the keys of the first objects, then read the files in turn."""
        origins = Origins()
        if self._is_stdin():
            if sys.stdin is None:
                raise SourceError("standard input is closed, so there is nothing to read")
            where = "standard input"
            stdin: BinaryIO = sys.stdin.buffer
            if self.encoding is not None and codec_of(self.encoding):
                stdin = cast("BinaryIO", Transcoded(stdin, self.encoding))
            pieces = origins.reading(where, line_pieces(stdin, where, limits_of(reader)), 1)
        else:
            brought = LocalFiles(self.path)
            pieces = chain.from_iterable(
                named(file, path, self._read(reader, file, path, origins)) for file, path in brought
            )
            rows = json_rows(reader, self, pieces, self.uri or "", origins=origins)
            return brought.opened(rows)
        return json_rows(reader, self, pieces, where, origins=origins)

    def _read(
        self, reader: Database, file: Path | StoredObject, path: Path, origins: Origins
    ) -> Iterator[pa.RecordBatch]:
        form = _form(path, self.encoding)
        # That a file was cut short is an error, unless bad rows are let pass by who asks for it.
        to_the_cut = self.on_error in ("skip", "quarantine")
        pieces = pieces_of(reader, path, self.encoding, to_the_cut=to_the_cut)
        yield from origins.reading(str(file), pieces, 1 if form == "lines" else None)

    def _is_stdin(self) -> bool:
        return str(self.path) == "-"


def pieces_of(
    reader: Database, file: Path, encoding: str | None = None, *, to_the_cut: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield a file's objects as lines of JSON; of one that was cut short those before, if asked."""
    form = _form(file, encoding)
    if form != "lines":
        if codec_of(encoding) is None:
            yield from _values(reader, file, form)
        else:
            yield from _values_of_copy(reader, file, form, encoding)
        return
    opened = paths.UpToTheCut if to_the_cut else paths.open_bytes
    with paths.reading(file), closing(opened(file, encoding)) as stream:
        yield from line_pieces(cast("BinaryIO", stream), str(file), limits_of(reader))


def _values_of_copy(
    reader: Database, file: Path, form: str, encoding: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the objects of a file by way of a copy in UTF-8, which is all that DuckDB reads."""
    with tempfile.NamedTemporaryFile(suffix=".json") as copy:
        with paths.reading(file), paths.open_bytes(file, encoding) as stream:
            shutil.copyfileobj(stream, copy, 1 << 20)
        copy.flush()
        try:
            yield from _values(reader, Path(copy.name), form)
        except SourceError as error:
            raise SourceError(str(error).replace(copy.name, str(file))) from error


def _form(file: Path, encoding: str | None = None) -> str:
    """Return what a file holds: ``lines``, an ``array``, or objects on several lines."""
    if paths.inner_suffix(file) != ".json":
        return "lines"
    with paths.reading(file), paths.open_bytes(file, encoding) as stream:
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
