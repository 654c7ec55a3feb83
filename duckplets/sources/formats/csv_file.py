"""Read CSV and TSV files with Python's ``csv`` module, in blocks of rows.

DuckDB's reader (1.5.5) swallows everything after an unclosed quote into one row; here every row is
read or counted, with its line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from duckplets.base.sanitize import shown
from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.files import Files
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.rows import Look, RowBlock
from duckplets.sources.values import Fault, escaped, json_text

if TYPE_CHECKING:
    from duckplets.db.database import Database

_DELIMITERS = (",", "\t", ";", "|")
_ROWS, _CHARACTERS = 2_048, 4 << 20  # rows of a block
_MANY = 8 << 20  # characters of a line or row above which fields are counted first


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
        for name in ("delimiter", "quote"):
            value = getattr(self, name)
            is_one = isinstance(value, str) and len(value) == 1 and value not in "\r\n"
            if value is not None and not is_one:
                raise SourceError(f"{name}={value!r}: give one character")

    def look(self, file: Path, reader: Database) -> Look:
        """Return the column names of a file.

        Raises:
            SourceError: It has no valid header row.
        """
        limits = limits_of(reader)
        with paths.open_text(file, self.encoding) as text:
            names = self._lines(file, text, limits).header()
        if len(names) > limits.columns:
            raise limits.exceeded(str(file), f"{len(names):,} columns, more", "columns")
        if not names:
            raise SourceError(f"{file} has no header row")
        before: set[str] = set()
        for place, name in enumerate(names):
            if not name.isprintable() and ("\0" in name or escaped(name) != name):
                raise SourceError(
                    f"{file}: the header is not UTF-8 text: {shown(names)}; {paths.ENCODED}"
                )
            if not name.strip():
                raise SourceError(
                    f"{file}: column {place + 1} of the header has no name: {shown(names)}"
                )
            if name in before:
                raise SourceError(f"{file}: the header names column {shown(repr(name))} twice")
            before.add(name)
        return Look(names)

    def _lines(self, file: Path, text: TextIO, limits: Limits) -> _CsvRows:
        delimiter = self.delimiter or self._delimiter(file, limits)
        return _CsvRows(file, text, delimiter, self.quote, limits)

    def _delimiter(self, file: Path, limits: Limits) -> str:
        if paths.inner_suffix(file) in (".tsv", ".tab"):
            return "\t"
        widths = {}
        for delimiter in _DELIMITERS:
            with paths.open_text(file, self.encoding) as text:
                rows = _CsvRows(file, text, delimiter, self.quote, limits, strict=False)
                widths[delimiter] = len(rows.header())
        return max(widths, key=lambda delimiter: widths[delimiter])

    def blocks(
        self, file: Path, look: Look, used: list[str], reader: Database
    ) -> Iterator[RowBlock]:
        """Yield the rows of a file with the columns used."""
        names = look.columns or []
        places = [(name, names.index(name)) for name in used]
        with paths.open_text(file, self.encoding) as text:
            rows = self._lines(file, text, limits_of(reader))
            rows.header()
            while found := rows.block():
                made = [_row(row, places, len(names)) for row in found]
                yield RowBlock(made, lines=list(rows.starts))


def _row(row: list[str] | Fault, places: list[tuple[str, int]], width: int) -> Any:
    if isinstance(row, Fault):
        return row
    if len(row) != width:
        cells = json_text([escaped(cell) for cell in row])
        return Fault("ragged row", cells, cells)
    return {name: row[place] for name, place in places}


class _CsvRows:
    """The rows of a CSV file, from bounded lines."""

    def __init__(
        self,
        file: Path,
        text: TextIO,
        delimiter: str,
        quote: str | None,
        limits: Limits,
        *,
        strict: bool = True,
    ) -> None:
        self._file, self._text, self._limits = file, text, limits
        self._dialect: dict[str, Any] = {"delimiter": delimiter, "quotechar": quote}
        if quote is None:
            self._dialect = {"delimiter": delimiter, "quoting": csv.QUOTE_NONE}
        self._under_way: list[str] = []  # lines of the current row
        self._size = 0  # characters of these lines
        self._number = 0  # rows so far
        self._ended = 0  # lines up to the end of the last complete row
        self.starts: list[int] = []  # first lines of the rows of the last block
        self._rows = csv.reader(self._lines(), **self._dialect, strict=strict)

    def header(self) -> list[str]:
        """Return the first row that is not blank; bad quoting is an error."""
        csv.field_size_limit(self._limits.size("field"))
        try:
            found = next((row for row in self._rows if row), [])
        except csv.Error as error:
            message = f"{self._file}: the header row cannot be read: {error}"
            raise SourceError(message) from error
        self._end()
        self._number = 0  # rows are counted from the one after it
        return found

    def block(self) -> list[list[str] | Fault]:
        """Return the next rows, without blank lines."""
        found: list[list[str] | Fault] = []
        self.starts, size = [], 0
        # csv's field limit is global: another ingest may have set it.
        csv.field_size_limit(self._limits.size("field"))
        while len(found) < _ROWS and size < _CHARACTERS:
            try:
                for row in islice(self._rows, _ROWS - len(found)):
                    size += self._size
                    if row:
                        self._check_width(row)
                        found.append(row)
                        self.starts.append(self._ended + 1)
                    self._end()
                    self._number += bool(row)
                    if size >= _CHARACTERS:
                        break
                else:
                    break
            except csv.Error as error:
                found.append(self._bad(error))
                self.starts.append(self._ended + 1)
                self._end()
                self._number += 1
        return found

    def _end(self) -> None:
        """Note that a row has ended."""
        self._ended = self._rows.line_num
        self._under_way, self._size = [], 0

    def _bad(self, error: csv.Error) -> Fault:
        """Return a faulty row."""
        if "unexpected end of data" in str(error):
            raise SourceError(
                f"{self._row()}: a quote is opened and never closed: close it in line "
                f"{self._ended + 1:,}, or where quotes are plain text, say quote=None (--no-quote)"
            ) from error
        if "field limit" in str(error):
            stray = "a field is larger (is a quote opened there and never closed?)"
            raise self._limits.exceeded(self._row(), stray, "field") from error
        return Fault.of("bad quoting", "".join(self._under_way))

    def _row(self) -> str:
        return f"{self._file}, row {self._number + 1}"

    def _check_width(self, row: list[str]) -> None:
        if len(row) > self._limits.columns:
            raise self._limits.exceeded(self._row(), "the row has more fields", "columns")

    def _lines(self) -> Iterator[str]:
        r"""Yield the lines of the file, ending with ``\n``, ``\r`` or both."""
        most, read = self._limits.size("row"), self._text.readline
        while line := read(most + 1):
            if len(line) > most:
                raise self._limits.exceeded(self._row(), "the line is longer", "row")
            self._size += len(line)
            self._under_way.append(line)
            if self._size > most:
                stray = "the row is longer (is a quote opened there and never closed?)"
                raise self._limits.exceeded(self._row(), stray, "row")
            is_much = self._size - len(line) <= _MANY < self._size  # for the first time of the row
            if len(line) > _MANY or is_much:
                start = line if len(line) > _MANY else self._under_way[0]
                start = start[: _MANY // 8]  # a short field takes 60 bytes of memory
                self._check_width(next(csv.reader([start], **self._dialect), []))
            yield line
