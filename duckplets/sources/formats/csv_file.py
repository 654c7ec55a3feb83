"""Read CSV and TSV files with Python's ``csv`` module, in blocks of rows.

DuckDB's reader (1.5.5) puts the rest of a file after an unclosed quote into one row. Here every row
is read or counted, with its line.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TextIO

from duckplets.base.sanitize import counted, shown
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.files import Files
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.rows import BAD_QUOTES, ENCODED, Blocks, Look, RowBlock
from duckplets.sources.values import Fault, escaped, json_text

_DELIMITERS = (",", "\t", ";", "|")
_ROWS, _CHARACTERS = 2_048, 4 << 20  # rows of a block
_MANY = 8 << 20  # characters of a line or row above which fields are counted first
_CHUNK = 1 << 20
_SEPARATOR = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)  # Excel's first line
_MARK = "\ufeff"
_LINE_END = re.compile(r"\r\n|\r|\n")
_AT = "at "  # before the place of the first row that may have swallowed others


class _Dialect(NamedTuple):
    """How the fields of a file are written."""

    delimiter: str
    quote: str | None
    escape: str | None
    is_spaced: bool = False  # whether blanks after a delimiter are skipped

    def reader(self, lines: Iterable[str], *, strict: bool = True) -> Any:
        """Return the rows of lines."""
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote,
            escapechar=self.escape,
            quoting=csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL,
            skipinitialspace=self.is_spaced,
            strict=strict,
        )


@dataclass(frozen=True, slots=True)
class CsvSource(Files):
    """CSV and TSV files whose first row names the columns.

    A column without a name is called by its place, ``Unnamed: 0``, as in pandas. Excel's line
    ``sep=;`` gives the delimiter. Blanks between a delimiter and a quote are skipped if the first
    million characters contain some.
    """

    delimiter: str | None = field(default=None, kw_only=True)
    """One character. Default: a tab for .tsv, or the most frequent of , tab ; | in the header."""
    quote: str | None = field(default="auto", kw_only=True)
    """The character that encloses fields, written twice within them; None: quotes are text.
    ``auto``: ``"``, but text in a file with tabs where a quoted field is not whole. Default:
    ``auto``."""
    escape: str | None = field(default=None, kw_only=True)
    """A character that makes the next one text, such as the backslash of Spark and MySQL. Default:
    none."""

    encoding: str | None = field(default=None, kw_only=True)
    """Encoding of the text, as Python names it, such as ``"latin-1"``. Default: UTF-8."""

    kind: ClassVar[str] = "csv"

    def __post_init__(self) -> None:
        Files.__post_init__(self)
        for name in ("delimiter", "quote", "escape"):
            value = getattr(self, name)
            is_one = isinstance(value, str) and len(value) == 1 and value not in "\r\n"
            if value is not None and not is_one and (name, value) != ("quote", "auto"):
                raise SourceError(f"{name}={value!r}: give one character")

    def look(self, file: Path, reader: Database) -> Look:
        """Return the column names of a file."""
        limits = limits_of(reader)
        dialect = self._dialect(file, limits)
        with paths.open_text(file, self.encoding) as text:
            names = _CsvRows(file, text, dialect, limits).header()
        if len(names) > limits.columns:
            raise limits.exceeded(str(file), f"{len(names):,} columns, more", "columns")
        if not any(map(str.strip, names)):
            raise SourceError(f"{file} has no header row that names columns")
        before: set[str] = set()
        for place, name in enumerate(names):
            if not name.isprintable() and ("\0" in name or escaped(name) != name):
                advice = "is it UTF-16? give encoding='utf-16-le'" if "\0" in name else ENCODED
                raise SourceError(
                    f"{file}: the header is not UTF-8 text: {shown(names, 80)}; {advice}"
                )
            name = names[place] = name if name.strip() else f"Unnamed: {place}"
            if name in before:
                raise SourceError(f"{file}: the header names column {shown(repr(name))} twice")
            before.add(name)
        return Look(names, dialect=dialect)

    def _dialect(self, file: Path, limits: Limits) -> _Dialect:
        quote = '"' if self.quote == "auto" else self.quote
        found = _Dialect(self.delimiter or "", quote, self.escape)
        if not self.delimiter:
            found = found._replace(delimiter=self._delimiter(file, found, limits))
        is_tabbed = self.quote == "auto" and found.delimiter == "\t"
        if is_tabbed and not self._is_whole(file, found, limits):
            return found._replace(quote=None)
        return found._replace(is_spaced=self._is_spaced_out(file, found))

    def _is_spaced_out(self, file: Path, dialect: _Dialect) -> bool:
        """Return whether blanks come before quotes, in the first rows of a file."""
        with paths.open_text(file, self.encoding) as text:
            start = text.read(_CHUNK)
        if dialect.quote is None or f" {dialect.quote}" not in start:
            return False
        as_text, skipped = (
            sum(
                cell.startswith(" ") and cell.lstrip(" ").startswith(dialect.quote)
                for row in one.reader(io.StringIO(start, newline=""), strict=False)
                for cell in row
            )
            for one in (dialect, dialect._replace(is_spaced=True))
        )
        return bool(as_text > skipped)

    def _delimiter(self, file: Path, dialect: _Dialect, limits: Limits) -> str:
        with paths.open_text(file, self.encoding) as text:
            found = _SEPARATOR.fullmatch(text.readline(10))
        if found:
            return found[1]
        if paths.inner_suffix(file) in (".tsv", ".tab"):
            return "\t"
        widths = {}
        for delimiter in _DELIMITERS:
            one = dialect._replace(delimiter=delimiter)
            with paths.open_text(file, self.encoding) as text:
                widths[delimiter] = len(_CsvRows(file, text, one, limits, strict=False).header())
        return max(widths, key=widths.__getitem__)

    def _is_whole(self, file: Path, dialect: _Dialect, limits: Limits) -> bool:
        """Return whether every field that begins with a quote ends with one, in its own row."""
        starts = [f"{sign}{dialect.quote}" for sign in (dialect.delimiter, "\n", "\r")]
        before = "\n"
        with paths.open_text(file, self.encoding) as text:
            while chunk := text.read(_CHUNK):
                if any(start in before + chunk for start in starts):
                    break
                before = chunk[-1]
            else:
                return True  # no field begins with a quote
        with paths.open_text(file, self.encoding) as text:
            rows = _CsvRows(file, text, dialect, limits)
            try:
                width = len(rows.header())
                while found := rows.block():
                    if rows.counts["swallowed"] or any(isinstance(row, Fault) for row in found):
                        return False
                    if any(len(found[place]) != width for place in rows.lines):
                        return False
            except SourceError:
                return False
        return True

    def blocks(self, file: Path, look: Look, used: list[str], reader: Database) -> Blocks:
        """Yield the rows of a file with the columns used."""
        names = look.columns or []
        places = [(name, names.index(name)) for name in used]
        with paths.open_text(file, self.encoding) as text:
            rows = _CsvRows(file, text, look.dialect, limits_of(reader))
            header = rows.header()
            width = len(header)
            if self.quote == "auto" and look.dialect.quote is None:
                rows.counts["quotes are text"] += 1
            while True:
                found = rows.block()
                made = [
                    {name: row[place] for name, place in places}
                    if len(row) == width and type(row) is list and row != header
                    else _odd(row, header, rows.lines.get(at, 1))
                    for at, row in enumerate(found)
                ]
                yield RowBlock(made, lines=rows.starts, counts=rows.counts)
                if not found:
                    break
                rows.counts = Counter()

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Return the numbers of lines, and signs of damage."""
        rows, further, several = counts["row"], counts["further"], counts["several"]
        header, blank, swallowed = counts["header"], counts["blank"], counts["swallowed"]
        notes = []
        if further or blank:
            more = f", {further:,} further of {counted(several, 'row')} with line breaks"
            notes.append(
                f"{counted(header + rows + further + blank, 'line')}: {header:,} of headers, "
                f"{rows:,} of rows{more * bool(further)}{f', {blank:,} blank' * bool(blank)}"
            )
        if counts["quotes are text"]:
            files = counted(counts["quotes are text"], "file")
            notes.append(f"quotes are text in {files} with tabs, as a quoted field is not whole")
        if swallowed:
            first = next(name for name in counts if name.startswith(_AT)).removeprefix(_AT)
            notes.append(
                f"look: {swallowed:,} of {counted(several, 'row')} with line breaks may have "
                f"swallowed others (first {shown(first)}): {BAD_QUOTES}"
            )
        if counts["mark"]:
            marks = counted(counts["mark"], "byte order mark")
            notes.append(f"look: {marks} left out within files; were files joined?")
        return notes


def _odd(row: list[str] | Fault, header: list[str], lines: int) -> Fault:
    if isinstance(row, Fault):
        return row
    cells = json_text([escaped(cell) for cell in row])
    if row == header:
        return Fault("the header again", None, cells)
    if lines > 1:
        return Fault("ragged row of several lines", f"{lines} lines: {cells}", cells)
    return Fault("ragged row", cells, cells)


class _CsvRows:
    """The rows of a CSV file, from bounded lines; each line is counted."""

    def __init__(
        self, file: Path, text: TextIO, dialect: _Dialect, limits: Limits, *, strict: bool = True
    ) -> None:
        self._file, self._text, self._limits, self._dialect = file, text, limits, dialect
        self._is_separated = False
        self._under_way: list[str] = []  # lines of the current row
        self._size = 0  # characters of these lines
        self._number = 0  # rows so far
        self._ended = 0  # lines up to the end of the last complete row
        self._width = 0  # fields of the header
        self.starts: list[int] = []  # first lines of the rows of the last block
        self.lines: dict[int, int] = {}  # how many lines those of several have, by place
        self.counts = Counter[str]()  # lines by what they are, and what looks wrong
        self._rows = dialect.reader(self._lines(), strict=strict)

    def header(self) -> list[str]:
        """Return the first row that is not blank; bad quoting is an error."""
        csv.field_size_limit(self._limits.size("field"))
        found: list[str] = []
        try:
            for found in self._rows:
                self._end("header" if found or self._is_separated else "blank")
                self._is_separated = False
                if found:
                    break
        except csv.Error as error:
            message = f"{self._file}: the header row cannot be read: {error}"
            raise SourceError(message) from error
        self._width = len(found)
        return found

    def block(self) -> list[list[str] | Fault]:
        """Return the next rows, without blank lines."""
        found: list[list[str] | Fault] = []
        self.starts, self.lines, size = [], {}, 0
        # csv's field limit is global: another ingest may have set it.
        csv.field_size_limit(self._limits.size("field"))
        rows, most = self._rows, self._limits.columns
        while len(found) < _ROWS and size < _CHARACTERS:
            try:
                for row in islice(rows, _ROWS - len(found)):
                    size += self._size
                    if not row:
                        self._end("blank")
                        continue
                    if len(row) > most:
                        self._check_width(row)
                    if len(self._under_way) > 1:
                        self._note(row)
                        self._note_lines(len(found))
                    found.append(row)
                    self.starts.append(self._ended + 1)
                    self._number += 1
                    self._ended += len(self._under_way)
                    self._under_way, self._size = [], 0
                    if size >= _CHARACTERS:
                        break
                else:
                    break
            except csv.Error as error:
                self._note_lines(len(found))
                found.append(self._bad(error))
                self.starts.append(self._ended + 1)
                self._number += 1
                self._end("bad")
        self.counts["row"] += len(found)
        return found

    def _end(self, kind: str) -> None:
        """Count the lines of a header, blank lines, or bad lines."""
        self.counts[kind] += len(self._under_way)
        self._ended += len(self._under_way)
        self._under_way, self._size = [], 0

    def _note_lines(self, place: int) -> None:
        """Count the lines of a row, if it has several."""
        if (lines := len(self._under_way)) > 1:
            self.lines[place] = lines
            self.counts["further"] += lines - 1
            self.counts["several"] += 1

    def _note(self, row: list[str]) -> None:
        if self._width == len(row) and any(map(self._has_rows, row)):
            if not self.counts["swallowed"]:
                self.counts[f"{_AT}{self._file}:{self._ended + 1}"] += 1
            self.counts["swallowed"] += 1

    def _has_rows(self, cell: str) -> bool:
        """Return whether a quote may have swallowed rows: the lines of a cell look like them."""
        first, *inner = (line.count(self._dialect.delimiter) for line in _LINE_END.split(cell))
        last = inner.pop() if inner else -1
        return 0 < first + last == self._width - 1 and set(inner) <= {first + last}

    def _bad(self, error: csv.Error) -> Fault:
        if "unexpected end of data" in str(error):
            raise SourceError(
                f"{self._row()}: a quote is opened and never closed: close it in line "
                f"{self._ended + 1:,}, or where quotes are plain text, give quote=None"
            ) from error
        if "field limit" in str(error):
            stray = "a field is larger (is a quote opened there and never closed?)"
            raise self._limits.exceeded(self._row(), stray, "field") from error
        fault = Fault.of("bad quoting", "".join(self._under_way))
        lines = len(self._under_way)
        return fault._replace(value=f"{lines} lines: {fault.value}") if lines > 1 else fault

    def _row(self) -> str:
        return f"{self._file}, row {self._number + 1}"

    def _check_width(self, row: list[str]) -> None:
        if len(row) > self._limits.columns:
            raise self._limits.exceeded(self._row(), "the row has more fields", "columns")

    def _lines(self) -> Iterator[str]:
        r"""Yield the lines of the file, ending with ``\n``, ``\r`` or both."""
        most, read = self._limits.size("row"), self._text.readline
        is_first = True
        while line := read(most + 1):
            if len(line) > most:
                raise self._limits.exceeded(self._row(), "the line is longer", "row")
            if is_first and _SEPARATOR.fullmatch(line):
                line, self._is_separated = "\n", True  # the header is in the next line
            is_first = False
            if line[0] == _MARK and not self._under_way:
                line = line[1:]
                self.counts["mark"] += 1
            self._size += len(line)
            self._under_way.append(line)
            if self._size > most:
                stray = "the row is longer (is a quote opened there and never closed?)"
                raise self._limits.exceeded(self._row(), stray, "row")
            is_much = self._size - len(line) <= _MANY < self._size  # for the first time of the row
            if len(line) > _MANY or is_much:
                start = line if len(line) > _MANY else self._under_way[0]
                start = start[: _MANY // 8]  # a short field takes 60 bytes of memory
                self._check_width(next(self._dialect.reader([start], strict=False), []))
            yield line
