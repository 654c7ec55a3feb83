"""Tell of rows where they stand, and of those that cannot be used what they were.

    pieces ─Origins→ file and line of every row       rows ─Judge→ raised, counted or set aside

Most rows are good: files and lines are arithmetic on their numbers, and what a bad row was is made
for bad rows only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import shown
from duckplets.errors import SourceError
from duckplets.sources.field_paths import NAME
from duckplets.sources.mapping import Mapped
from duckplets.sources.rows import DROPPED, LEFT_OUT

if TYPE_CHECKING:
    from numpy.typing import NDArray

BAD_DATE = "unreadable date"
AT = "at"
"""Column of a piece: the line of the file that each of its rows begins at."""
BROKEN = "broken"
"""Column of a piece: of a row that could not be read, as JSON, what it was."""
_MOST = 300  # characters of a value that is told


class Origins:
    """Where the rows of an opened source stand, from when they are read until they are rows."""

    def __init__(self) -> None:
        self.row = 0  # rows that were read
        self._first: list[int] = []  # row of each file, from 1
        self._files: list[str] = []
        self._line: list[int | None] = []  # that it begins at, where each row is a line
        self._at: list[tuple[int, NDArray[np.int64]]] = []  # first rows, and lines from there on

    def begin(self, file: Path | str, line: int | None = None, row: int | None = None) -> None:
        """Note that a file begins.

        Args:
            file: As it is told.
            line: That the first row is, where each row is a line.
            row: The number of the first row, where rows are not counted here.
        """
        self.row = self.row if row is None else row - 1
        self._first.append(self.row + 1)
        self._files.append(str(file).encode("utf-8", "backslashreplace").decode())
        self._line.append(line)

    def counted(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the pieces of the file that began last, without their lines, which are kept."""
        for piece in pieces:
            if AT in piece.schema.names:
                self._at.append((self.row + 1, piece.column(AT).to_numpy()))
                piece = piece.drop_columns([AT])
            self.row += piece.num_rows
            yield piece

    def reading(
        self, file: Path | str, pieces: Iterable[pa.RecordBatch], line: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the pieces of one more file; see ``begin``."""
        self.begin(file, line)
        yield from self.counted(pieces)

    def of(self, rows: pa.ChunkedArray) -> dict[str, pa.Array]:
        """Return columns of the files and lines of rows by their ascending numbers, if known."""
        if not self._files or not len(rows):
            return {}
        numbers = rows.to_numpy()
        place = np.searchsorted(self._first, numbers, "right") - 1
        files = pa.DictionaryArray.from_arrays(pa.array(place, pa.int32()), self._files)
        lines = np.zeros(len(numbers), np.int64)
        for i in np.unique(place).tolist():
            line = self._line[i]
            if line is not None:
                here = place == i
                lines[here] = numbers[here] - self._first[i] + line
        for first, at in self._at:
            low, high = np.searchsorted(numbers, [first, first + len(at)])
            lines[low:high] = at[numbers[low:high] - first]
        self._forget(int(numbers[-1]), int(place[-1]))
        return {"file": files, "line": pa.array(lines, pa.int64(), mask=lines == 0)}

    def _forget(self, row: int, place: int) -> None:
        """Forget what is only about rows up to one."""
        del self._first[:place], self._files[:place], self._line[:place]
        while self._at and self._at[0][0] + len(self._at[0][1]) <= row + 1:
            del self._at[0]


def raw(text: str | bytes) -> str:
    """Return what could not be read, as JSON."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    return json.dumps(text.rstrip("\r\n"), ensure_ascii=False)


def with_broken(values: pa.Table, table: pa.Table) -> pa.Table:
    """Return the values of lines of JSON with what those were that hold no object."""
    is_object = pc.fill_null(pc.equal(table["kind"], "OBJECT"), False)
    if pc.all(is_object).as_py() and table[BROKEN].null_count == table.num_rows:
        return values
    bad = table.filter(pc.or_(pc.invert(is_object), pc.is_valid(table[BROKEN])))
    numbers = values["row"].to_numpy()
    broken: list[str | None] = [None] * len(numbers)
    for row, line, known in zip(
        *(bad[name].to_pylist() for name in ("row", "line", BROKEN)), strict=True
    ):
        at = int(np.searchsorted(numbers, row))
        if at < len(numbers) and numbers[at] == row:  # else the line is blank
            broken[at] = known or (None if line is None else raw(line))
    return values.append_column(BROKEN, pa.array(broken, pa.string()))


class Judge:
    """Says of every row that cannot be used what it was, and does with it as the mapping says.

    Args:
        mapping: With what becomes of such rows.
        source: What messages call the source.
        origins: Where the rows stand.
    """

    def __init__(self, mapping: Mapped, source: str, origins: Origins) -> None:
        self._source = source
        self._origins = origins
        self._handling = mapping.handling()
        self._takes_bad_dates = mapping.on_bad_date == "null"

    @property
    def keeps(self) -> bool:
        """Whether rows that cannot be used are to be set aside, whole."""
        return self._handling == "quarantine"

    def before(self, table: pa.Table) -> pa.Table:
        """Return input in which a moment that no calendar has is no fault of its row."""
        wrong = pc.fill_null(pc.equal(table["fault"], BAD_DATE), False)
        if not self._takes_bad_dates or not pc.any(wrong).as_py():
            return table
        at = table.column_names.index("fault")
        return table.set_column(
            at, "fault", pc.if_else(wrong, pa.scalar(None, pa.string()), table["fault"])
        )

    def after(self, rows: pa.Table, table: pa.Table, documents: Any) -> pa.Table:
        """Return rows with what is told of them.

        Args:
            rows: Of ``ROW_SCHEMA``, and perhaps more.
            table: What they were made of.
            documents: Returns rows of a table as JSON objects.

        Raises:
            SourceError: One cannot be used, and that is an error.
        """
        broken = _broken(rows, table)
        rows = _with_left_out(self._noted(rows, broken), table)
        places = self._origins.of(rows["row"])
        bad = pc.is_valid(rows["skip"])
        if broken or pc.any(bad).as_py():
            rows = self._with_values(rows, broken)
        for name, column in places.items():
            rows = rows.append_column(name, column)
        if not pc.any(bad).as_py():
            return rows
        bad = pc.and_(bad, pc.fill_null(pc.not_equal(rows["skip"], DROPPED), True))
        if self._handling == "raise":
            self._refuse(rows.filter(bad))
        return self._kept(rows, table, broken, bad, documents) if self.keeps else rows

    def _noted(self, rows: pa.Table, broken: dict[int, str]) -> pa.Table:
        """Return rows of which one whose date cannot be read is a record, and noted."""
        wrong = pc.fill_null(pc.equal(rows["skip"], BAD_DATE), False)
        if self._takes_bad_dates and broken:  # moments that no calendar has, taken for no date
            numbers = pa.array([n for n, text in broken.items() if text.startswith("{")])
            lost = pc.is_in(rows["row"], numbers.cast(pa.int64()))
            wrong = pc.or_(wrong, pc.and_(lost, pc.is_null(rows["skip"])))
        if not self._takes_bad_dates or not pc.any(wrong).as_py():
            return rows
        none = pa.scalar(None, pa.string())
        at = rows.column_names.index("skip")
        rows = rows.set_column(at, "skip", pc.if_else(wrong, none, rows["skip"]))
        return rows.append_column("note", pc.if_else(wrong, pa.scalar(BAD_DATE), none))

    def _with_values(self, rows: pa.Table, broken: dict[int, str]) -> pa.Table:
        given = rows["value"] if "value" in rows.column_names else None
        values = given.to_pylist() if given is not None else [None] * rows.num_rows
        if broken:
            places = np.searchsorted(rows["row"].to_numpy(), list(broken))
            for place, text in zip(places.tolist(), broken.values(), strict=True):
                values[place] = values[place] or _value(text)
        column = pa.array([v and shown(v, _MOST) for v in values], pa.string())
        if given is None:
            return rows.append_column("value", column)
        return rows.set_column(rows.column_names.index("value"), "value", column)

    def _refuse(self, bad: pa.Table) -> None:
        if not bad.num_rows:
            return
        row = bad.slice(0, 1).drop_columns(["sections"]).to_pylist()[0]
        where = f"{self._source}, row {row['row']}"
        if row.get("file"):
            line = f", line {row['line']}" if row["line"] else ""
            where += f" ({row['file']}{line})"
        value = "" if row.get("value") is None else f": {row['value']!r}"
        said = row.get("complaint") or f"{row['skip']}{value}"
        raise SourceError(
            f"{where}: {said}; on_error='skip' or 'quarantine' goes on without such rows"
        )

    def _kept(
        self, rows: pa.Table, table: pa.Table, broken: dict[int, str], bad: Any, documents: Any
    ) -> pa.Table:
        """Return rows with those that are to be set aside, as JSON."""
        found: list[str | None] = [None] * rows.num_rows
        if "quarantined" in rows.column_names:
            found = rows["quarantined"].to_pylist()
            rows = rows.drop_columns(["quarantined"])
        numbers = rows["row"].to_numpy()
        bad_places = np.flatnonzero(bad.to_numpy())
        missing = [place for place in bad_places.tolist() if found[place] is None]
        places = np.searchsorted(table["row"].to_numpy(), numbers[missing])
        whole = documents(table.take(pa.array(places, pa.int64()))) if missing else []
        for place, text in zip(missing, whole, strict=True):
            found[place] = _mended(text, broken.get(int(numbers[place])))
        return rows.append_column("quarantined", pa.array(found, pa.string()))


def _with_left_out(rows: pa.Table, table: pa.Table) -> pa.Table:
    """Return rows with the fields of their input that nobody reads, where there are any."""
    if LEFT_OUT not in table.column_names or table[LEFT_OUT].null_count == table.num_rows:
        return rows
    places = np.searchsorted(table["row"].to_numpy(), rows["row"].to_numpy())
    return rows.append_column(LEFT_OUT, table[LEFT_OUT].take(pa.array(places, pa.int64())))


def _broken(rows: pa.Table, table: pa.Table) -> dict[int, str]:
    """Return what rows were that could not be read, by their numbers."""
    if BROKEN not in table.column_names or table[BROKEN].null_count == table.num_rows:
        return {}
    found = table.select(["row", BROKEN]).filter(pc.is_valid(table[BROKEN]))
    there = set(rows["row"].to_pylist())
    pairs = zip(found["row"].to_pylist(), found[BROKEN].to_pylist(), strict=True)
    return {row: text for row, text in pairs if row in there}


def _value(text: str) -> str:
    """Return what is told of something that could not be read: a value, or the whole row."""
    found = json.loads(text)
    if isinstance(found, dict):
        found = next(iter(found.values()))
    return found if isinstance(found, str) else text


def _mended(document: str | None, text: str | None) -> str | None:
    """Return a row as JSON, with what could not be read of it in its place."""
    if text is None or not text.startswith("{"):
        return text or document
    found = json.loads(document) if document else {}
    return json.dumps(found | json.loads(text), ensure_ascii=False)


def broken_value(column: pa.Array, field: pa.Field, row: int) -> str:
    """Return, as JSON, a value that could not be read: a line, or a column and what it holds."""
    value, kind = column[row], column.type
    if pa.types.is_temporal(kind):
        text: str | bytes = str(value.cast(pa.int64()).as_py()) if not _is_32(kind) else "?"
    elif hasattr(value, "as_buffer") and value.is_valid:
        text = value.as_buffer().to_pybytes()
    else:
        text = "?"
    name = (field.metadata or {}).get(NAME)
    if name is None:
        return raw(text)
    inner = json.loads(raw(text))
    return json.dumps({name.decode("utf-8", "replace"): inner}, ensure_ascii=False)


def _is_32(kind: pa.DataType) -> bool:
    return bool(pa.types.is_time32(kind) or pa.types.is_date32(kind))
