"""Read CSV and TSV files, slice by slice, into rows.

They are read with Python's ``csv`` module, a C reader, in slices of rows that become Arrow columns
at once (a million rows of 764 MB take it 3 s; DuckDB's reader takes 1 s). DuckDB's reader
(1.5.5) drops everything after a quote that is never closed without a word, and stops at lines that
end differently; every row must be read or counted.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.base import MAX_BYTES, Mapped, Rows
from duckplets.sources.feed import piece

if TYPE_CHECKING:
    from duckplets.db.database import Database

_DELIMITERS = (",", "\t", ";", "|")
_LONGEST_FIELD = 2**31 - 1  # csv's own default of 128 KiB is shorter than a chapter
_MOST_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class CsvSource(paths.Files):
    """CSV and TSV files, in UTF-8, whose first row names the columns."""

    path: paths.Paths
    """File (also .gz and .zst), glob, or list of them."""
    delimiter: str | None = field(default=None, kw_only=True)
    """One character; else a tab for .tsv, or the one of , tab ; | that the header has most of."""
    quote: str | None = field(default='"', kw_only=True)
    """What encloses fields (written twice within them), or None where quotes are plain text."""

    kind: ClassVar[str] = "csv"

    def __post_init__(self) -> None:
        Mapped.__post_init__(self)
        for name in ("delimiter", "quote"):
            value = getattr(self, name)
            if value is not None and (len(value) != 1 or value in "\r\n"):
                raise SourceError(f"{name}={value!r}: give one character")

    def open(self, reader: Database) -> Rows:
        """Check the header of every file, then read them in turn."""
        pieces = (part for chosen in self.placed(self._header) for part in self._pieces(*chosen))
        return self.rows(reader, pieces)

    def _header(self, file: Path) -> list[str]:
        with _text(file) as text:
            names = _next_row(file, self._reader(file, text))
        if not names:
            raise SourceError(f"{file} has no header row")
        if not "".join(names).isprintable():
            raise SourceError(f"{file}: the header is not UTF-8 text: {ascii(names)[:200]}")
        for place, name in enumerate(names):
            if not name.strip():
                raise SourceError(f"{file}: column {place + 1} of the header has no name: {names}")
            if name in names[:place]:
                raise SourceError(f"{file}: the header names column {name!r} twice")
        return names

    def _reader(self, file: Path, text: io.TextIOWrapper) -> Any:
        delimiter = self.delimiter or _delimiter(file, self.quote)
        return csv.reader(text, **_dialect(delimiter, self.quote), strict=True)

    def _pieces(self, file: Path, names: list[str], places: list[int]) -> Iterator[pa.RecordBatch]:
        with _text(file) as text:
            rows = self._reader(file, text)
            _next_row(file, rows)
            count, seen = 64, 0
            while slice_ := _slice(file, rows, count, seen):
                seen += len(slice_)
                part = _piece(slice_, names, places)
                yield part
                # A slice is a few megabytes, whatever the size of its texts.
                size = max(part.nbytes // max(len(slice_), 1), 1)
                count = max(1, min(2 * count, _MOST_ROWS, MAX_BYTES // 8 // size))


def _slice(file: Path, rows: Any, count: int, seen: int) -> list[list[str] | str]:
    """Return the next rows; in place of one that breaks the rules of quoting, the reason."""
    found: list[list[str] | str] = []
    while len(found) < count:
        before = len(found)
        try:
            # What was read before an error stays in the list.
            found.extend(islice(rows, count - before))
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                raise SourceError(
                    f"{file}, row {seen + len(found) + 1}: a quote is opened and never closed; "
                    f"where quotes are plain text, say quote=None"
                ) from error
            found.append("bad quoting")
        except (pa.ArrowException, OSError) as error:
            raise paths.unreadable(file, error) from error
        else:
            break
    return found


def _piece(rows: list[list[str] | str], header: list[str], places: list[int]) -> pa.RecordBatch:
    """Return the used columns of a slice of rows; blank lines are left out."""
    width = len(header)
    names = [header[place] for place in places]
    if set(map(type, rows)) == {list} and set(map(len, rows)) == {width}:
        cells = [list(map(itemgetter(place), rows)) for place in places]
        return piece([_column(column) for column in cells], names)
    faults: list[str | None] = []
    good: list[list[str] | tuple[None, ...]] = []
    for row in rows:
        if row:
            ragged = None if len(row) == width else "ragged row"
            faults.append(row if isinstance(row, str) else ragged)
            good.append((None,) * width if faults[-1] or isinstance(row, str) else row)
    arrays = [_column([row[place] for row in good]) for place in places]
    return piece(arrays, names).append_column("fault", pa.array(faults, pa.string()))


def _column(cells: Any) -> pa.Array:
    try:
        return pa.array(cells, pa.string())
    except UnicodeEncodeError:
        # Bytes that are no UTF-8 came in as surrogates; they go on as the bytes they were, and
        # the check of all text finds their rows.
        data = [cell if cell is None else cell.encode("utf-8", "surrogateescape") for cell in cells]
        return pa.array(data, pa.binary()).view(pa.string())


def _next_row(file: Path, rows: Any) -> list[str]:
    try:
        for row in rows:
            if row:
                return list(row)
    except csv.Error as error:
        raise SourceError(f"{file}: the header row cannot be read: {error}") from error
    except (pa.ArrowException, OSError) as error:
        raise paths.unreadable(file, error) from error
    return []


def _text(file: Path) -> io.TextIOWrapper:
    csv.field_size_limit(_LONGEST_FIELD)
    data = paths.open_bytes(file)
    return io.TextIOWrapper(data, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _dialect(delimiter: str, quote: str | None) -> dict[str, Any]:
    if quote is None:
        return {"delimiter": delimiter, "quoting": csv.QUOTE_NONE}
    return {"delimiter": delimiter, "quotechar": quote}


def _delimiter(file: Path, quote: str | None) -> str:
    if paths.inner_suffix(file) in (".tsv", ".tab"):
        return "\t"
    widths = {}
    for delimiter in _DELIMITERS:
        with _text(file) as text:
            rows = csv.reader(text, **_dialect(delimiter, quote), strict=False)
            widths[delimiter] = len(_next_row(file, rows))
    return max(widths, key=lambda delimiter: widths[delimiter])
