"""Read CSV and TSV files, slice by slice, into rows.

They are read with Python's ``csv`` module, a C reader, in slices of rows that become Arrow columns
at once (a million rows of 764 MB take it 3 s; DuckDB's reader takes 1 s). DuckDB's reader
(1.5.5) drops everything after a quote that is never closed without a word, and stops at lines that
end differently; every row must be read or counted.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from duckplets.base.sanitize import shown
from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.files import Files
from duckplets.sources.formats.decode import codec_of
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.row_batches import piece
from duckplets.sources.row_provenance import AT, BROKEN, raw
from duckplets.sources.rows import MAX_BYTES, Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database

_DELIMITERS = (",", "\t", ";", "|")
_MOST_ROWS = 4_096
_BLOCK = 256 << 10
_BOM = b"\xef\xbb\xbf"
# Fields of a row are counted before they are made where there may be more: a short one takes 60
# bytes.
_MANY = 1_000_000


@dataclass(frozen=True, slots=True)
class CsvSource(Files):
    """CSV and TSV files whose first row names the columns."""

    path: paths.Paths
    """File (also .gz and .zst), glob, or list of them."""
    delimiter: str | None = field(default=None, kw_only=True)
    """One character; else a tab for .tsv, or the one of , tab ; | that the header has most of."""
    quote: str | None = field(default='"', kw_only=True)
    """What encloses fields (written twice within them), or None where quotes are plain text."""

    encoding: str | None = field(default=None, kw_only=True)
    """Of the text, as Python names it, such as ``"latin-1"``; else UTF-8."""

    kind: ClassVar[str] = "csv"

    def __post_init__(self) -> None:
        Files.__post_init__(self)
        codec_of(self.encoding)
        for name in ("delimiter", "quote"):
            value = getattr(self, name)
            is_one = isinstance(value, str) and len(value) == 1 and value not in "\r\n"
            if value is not None and not is_one:
                raise SourceError(f"{name}={value!r}: give one character")

    def open(self, reader: Database) -> Rows:
        """Check the header of every file, then read them in turn."""
        limits = limits_of(reader)
        return self.of_columns(
            reader,
            lambda file: self.header(file, limits),
            lambda file, names, places: self.pieces(file, names, places, limits),
        )

    def header(self, file: Path, limits: Limits) -> list[str]:
        """Return the names of a file's columns.

        Raises:
            SourceError: It has no header row, or one that is no row of names.
        """
        with closing(self._lines(file, limits)) as lines:
            cells = lines.first_row()
            if len(cells) > limits.columns:
                raise limits.exceeded(str(file), f"{len(cells):,} columns, more", "columns")
            names = lines.names(cells)
        if not names:
            raise SourceError(f"{file} has no header row")
        before: set[str] = set()
        for place, name in enumerate(names):
            if not name.strip():
                raise SourceError(
                    f"{file}: column {place + 1} of the header has no name: {shown(names)}"
                )
            if name in before:
                raise SourceError(f"{file}: the header names column {shown(repr(name))} twice")
            before.add(name)
        return names

    def _lines(self, file: Path, limits: Limits) -> _CsvLines:
        delimiter = self.delimiter or _delimiter(file, self.quote, limits, self.encoding)
        return _CsvLines(file, delimiter, self.quote, limits, self.encoding)

    def pieces(
        self, file: Path, names: list[str], places: list[int], limits: Limits
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns at some places, slice by slice, with the lines rows begin at."""
        with closing(self._lines(file, limits)) as lines:
            lines.first_row()
            count = 64
            while slice_ := lines.slice(count):
                part = _piece(slice_, names, places, lines)
                yield part
                # A slice is a few megabytes, whatever the size of its texts.
                size = max(part.nbytes // max(len(slice_), 1), 1)
                count = max(1, min(2 * count, _MOST_ROWS, MAX_BYTES // 8 // size))


class _CsvLines:
    """The rows of a CSV file, made of its lines, which are bounded.

    Bytes are characters of Latin-1 here, each of one byte: among other characters a single emoji
    would make all of a long text take four times its size. A delimiter that is not ASCII needs
    UTF-8 all the same.

    Args:
        file: Read to its end.
        delimiter: Between fields.
        quote: What encloses fields, or None.
        limits: Of these, those of rows, fields and columns.
        text: Encoding of the file, else UTF-8.
        strict: Whether wrong quoting is an error.
    """

    def __init__(
        self,
        file: Path,
        delimiter: str,
        quote: str | None,
        limits: Limits,
        text: str | None = None,
        *,
        strict: bool = True,
    ) -> None:
        self._file, self._delimiter, self._limits = file, delimiter, limits
        self._dialect = _dialect(delimiter, quote)
        self.encoding = "latin-1" if f"{delimiter}{quote or ''}".isascii() else "utf-8"
        self._data = paths.open_bytes(file, text)
        self._last: list[str] = []  # lines that were given last
        self._before: list[str] = []  # those of the row under way, before these
        self._taken = 0  # characters of the row under way, before those
        self._fields = 0  # of the row under way
        self._given = 0  # lines that the reader has
        self._size = 0  # characters that it has
        self._ended = 0  # lines up to the end of the last whole row
        self._done = 0  # rows before those in _found
        self._found: list[list[str] | str] = []
        self.starts: list[int] = []  # lines at which those begin
        self.bad: dict[int, str] = {}  # lines of those that break the rules of quoting
        lines = chain.from_iterable(self._blocks())
        self._rows = csv.reader(lines, **self._dialect, strict=strict)

    def close(self) -> None:
        """Close the file."""
        self._data.close()

    def first_row(self) -> list[str]:
        """Return the first row that is not blank: the header, if there is one."""
        while found := self.slice(1, what="the header row"):
            if found[0]:
                self._done, self._found = 0, []  # rows are counted after it
                return list(found[0])
        return []

    def _decoded(self, lines: list[bytes]) -> list[str]:
        return [line.decode(self.encoding, "surrogateescape") for line in lines]

    def names(self, cells: list[str]) -> list[str]:
        """Return the names in a header row.

        Raises:
            SourceError: One is not UTF-8.
        """
        try:
            names = [cell.encode(self.encoding, "surrogateescape").decode() for cell in cells]
        except UnicodeDecodeError:
            names = ["\0"]
        if any("\0" in name for name in names):
            raise SourceError(f"{self._file}: the header is not UTF-8 text: {shown(cells)}")
        return names

    def slice(self, count: int, what: str = "") -> list[list[str] | str]:
        """Return the next rows; in place of one that breaks the rules of quoting, the reason.

        Args:
            count: At most so many; fewer where rows are long.
            what: That is read, where bad quoting is an error.
        """
        self._done += len(self._found)
        found = self._found = []
        starts = self.starts = []
        self.bad = {}
        # The limit is one of the process: that of another ingest may hold for a moment.
        csv.field_size_limit(self._limits.size("field"))
        full = self._size + MAX_BYTES // 8
        while len(found) < count and self._size <= full:
            try:
                with paths.reading(self._file):
                    for row in self._rows:
                        # What was read before an error stays in the list.
                        found.append(row)
                        starts.append(self._ended + 1)
                        self._ended = self._rows.line_num
                        if len(found) == count or self._size > full:
                            break
                    else:
                        break
            except csv.Error as error:
                start, self._ended = self._ended, self._rows.line_num
                if what:
                    raise SourceError(f"{self._file}: {what} cannot be read: {error}") from error
                self.bad[len(found)] = self._text(start)
                starts.append(start + 1)
                found.append(self._reason(error))
        return found

    def _reason(self, error: csv.Error) -> str:
        """Return why a row is to be skipped.

        Raises:
            SourceError: Nothing after it can be read either.
        """
        if "unexpected end of data" in str(error):
            raise SourceError(
                f"{self._row()}: a quote is opened and never closed: close it in line "
                f"{self.starts[-1]:,}, or where quotes are plain text, say quote=None"
            ) from error
        if "field limit" in str(error):
            stray = "a field is larger (is a quote opened there and never closed?)"
            raise self._limits.exceeded(self._row(), stray, "field") from error
        return "bad quoting"

    def _text(self, start: int) -> str:
        """Return the lines from one to the last that the reader has taken."""
        there = [*self._before, *self._last]
        first = self._given - len(there)
        return "".join(there[max(start - first, 0) : self._ended - first])

    def as_text(self, cell: str) -> str:
        """Return what was read as text; bytes that are no UTF-8 escaped."""
        data = cell.encode(self.encoding, "surrogateescape")
        return data.decode("utf-8", "backslashreplace")

    def _row(self) -> str:
        return f"{self._file}, row {self._done + len(self._found) + 1}"

    def _blocks(self) -> Iterator[list[str]]:
        r"""Yield the lines of the file, which end with ``\n``, ``\r`` or both, in blocks."""
        held: list[bytes] = []
        size, most = 0, self._limits.size("row")
        start = True
        while block := self._data.read(_BLOCK):
            if start:
                block, start = block.removeprefix(_BOM), False
            # An \r at the very end may be half of a line end.
            cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
            if cut:
                yield self._checked(b"".join([*held, block[:cut]]))
                held, size = [], 0
            held.append(block[cut:])
            size += len(block) - cut
            if size > most:
                raise self._limits.exceeded(self._row(), "the line is longer", "row")
        if rest := b"".join(held):
            yield self._checked(rest)

    def _checked(self, data: bytes) -> list[str]:
        """Return lines, after a look at what the row under way takes with them.

        It is under way because a quote is open, at the ends of all of its lines so far.
        """
        lines = self._decoded(data.splitlines(keepends=True))
        under_way = self._given - self._ended
        if under_way > len(self._last):
            self._taken += sum(map(len, self._last))
            self._before += self._last
        else:
            self._before = self._last[len(self._last) - under_way :]
            self._taken = sum(map(len, self._before))
            self._fields = 0
        if under_way and self._taken + len(lines[0]) > self._limits.size("row"):
            stray = "the row is longer (is a quote opened there and never closed?)"
            raise self._limits.exceeded(self._row(), stray, "row")
        opening = str(self._dialect.get("quotechar", "")) if under_way else ""
        self._check_long_line(opening + lines[0])
        if under_way:
            self._fields += self._count([opening + lines[0], *lines[1:]])
            if self._fields > self._limits.columns:
                raise self._limits.exceeded(self._row(), "the row has more fields", "columns")
        self._last = lines
        self._given += len(lines)
        self._size += len(data)
        return lines

    def _check_long_line(self, line: str) -> None:
        """Refuse a line of more fields than there may be columns, before they are made."""
        place = -1
        while line.count(self._delimiter, place + 1) > _MANY:
            for _ in range(_MANY):
                place = line.find(self._delimiter, place + 1)
            if self._count([line[: place + 1]]) > self._limits.columns:
                raise self._limits.exceeded(self._row(), "the row has more fields", "columns")

    def _count(self, lines: list[str]) -> int:
        """Return how many fields the first row of some lines has."""
        try:
            return len(next(csv.reader(lines, **self._dialect, strict=False), []))
        except csv.Error:  # a field that is too long: said when it is read
            return 0


def _piece(
    rows: list[list[str] | str], header: list[str], places: list[int], lines: _CsvLines
) -> pa.RecordBatch:
    """Return the used columns of a slice of rows; blank lines are left out."""
    width, encoding = len(header), lines.encoding
    names = [header[place] for place in places]
    starts = np.array(lines.starts, np.int64)
    if set(map(type, rows)) == {list} and set(map(len, rows)) == {width}:
        cells = [list(map(itemgetter(place), rows)) for place in places]
        return piece([_column(column, encoding) for column in cells], names).append_column(
            AT, pa.array(starts)
        )
    faults: list[str | None] = []
    broken: list[str | None] = []
    good: list[list[str] | tuple[None, ...]] = []
    for place, row in enumerate(rows):
        if row:
            ragged = None if len(row) == width else "ragged row"
            faults.append(row if isinstance(row, str) else ragged)
            if isinstance(row, str):
                broken.append(raw(lines.as_text(lines.bad[place])))
            else:
                cells_ = [lines.as_text(cell) for cell in row] if ragged else []
                broken.append(json.dumps(cells_, ensure_ascii=False) if ragged else None)
            good.append((None,) * width if faults[-1] or isinstance(row, str) else row)
    arrays = [_column([row[place] for row in good], encoding) for place in places]
    found = piece(arrays, names).append_column("fault", pa.array(faults, pa.string()))
    found = found.append_column(BROKEN, pa.array(broken, pa.string()))
    return found.append_column(AT, pa.array(starts[[bool(row) for row in rows]]))


def _column(cells: list[str] | list[str | None], encoding: str) -> pa.Array:
    """Return cells as the bytes they were: that they are UTF-8 is checked with all other text."""
    if None not in cells and "".join(cells).isascii():  # type: ignore[arg-type]
        return pa.array(cells, pa.string())  # in a quarter of the time
    data = [None if cell is None else cell.encode(encoding, "surrogateescape") for cell in cells]
    return pa.array(data, pa.binary()).view(pa.string())


def _dialect(delimiter: str, quote: str | None) -> dict[str, Any]:
    if quote is None:
        return {"delimiter": delimiter, "quoting": csv.QUOTE_NONE}
    return {"delimiter": delimiter, "quotechar": quote}


def _delimiter(file: Path, quote: str | None, limits: Limits, text: str | None) -> str:
    if paths.inner_suffix(file) in (".tsv", ".tab"):
        return "\t"
    widths = {}
    for delimiter in _DELIMITERS:
        with closing(_CsvLines(file, delimiter, quote, limits, text, strict=False)) as lines:
            widths[delimiter] = len(lines.first_row())
    return max(widths, key=lambda delimiter: widths[delimiter])
