"""Records whose keys a mapping names, read bit by bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.feed import gather, pick, run
from duckplets.sources.lines import Keys, judged, line_batch
from duckplets.sources.mapping import Mapped, require_texts, resolve
from duckplets.sources.memory import json_line

if TYPE_CHECKING:
    from duckplets.db.database import Database

DROPPED = "dropped by the source"
_KIND = "CustomSource"
_SURE = 100  # rows after which a text or id that none of them had is a slip of the pen
_MOST_SEEN = 100  # keys that a cursor carries along, for messages


class RefusedError(Exception):
    """A record that breaks the rules; its text says which, and the reader says where."""


class Line(NamedTuple):
    """A record as a line of JSON.

    Attributes:
        json: UTF-8 as a rule; None for what is no record.
        fault: Why it is none.
        beside: What does not go through JSON.
    """

    json: bytes | None
    fault: str | None = None
    beside: tuple[Any, ...] = ()


class Form(Protocol):
    """How the records of a source become rows: first pieces of input, in the source's thread."""

    @property
    def defaults(self) -> str | None:
        """Which default recipes suit the rows; None before a record says it."""

    def line(self, record: Any) -> Line:
        """Return a record as a line.

        Raises:
            RefusedError: It breaks the rules.
        """

    def piece(self, lines: Sequence[Line], row: int) -> pa.RecordBatch:
        """Return lines as a piece of input, numbered from ``row``."""

    def arrow_piece(self, batch: pa.RecordBatch, row: int) -> pa.RecordBatch:
        """Return Arrow data as a piece of input, numbered from ``row``."""

    def rows(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pieces."""

    def check(self, row: int, *, is_last: bool) -> None:
        """Refuse a mapping that the rows so far do not fit.

        Args:
            row: How many there were.
            is_last: Whether that was all.

        Raises:
            SourceError: They do not fit.
        """

    def state(self) -> dict[str, Any]:
        """Return what must be known to go on after the rows so far, as plain values."""


class NamedKeys:
    """The form of records whose keys a mapping names.

    Args:
        reader: An instance to run statements in.
        mapping: Which key plays which part.
        where: The source, for messages.
        state: Of a place to go on from, or None at the beginning.
    """

    def __init__(
        self, reader: Database, mapping: Mapped, where: str, state: dict[str, Any] | None
    ) -> None:
        self._reader = reader
        self._mapping = mapping
        self._where = where
        self._arrow = bool(state and state["arrow"])
        self._keys = Keys(reader, mapping, where)
        if state:
            self._keys.found.update(state["names"])
            self._keys.seen = list(state["seen"])

    @property
    def defaults(self) -> str | None:
        """Which default recipes suit the rows."""
        return self._mapping.defaults()

    def line(self, record: Any) -> Line:
        """Return a record as a line."""
        return Line(None, DROPPED) if record is None else Line(json_line(record))

    def piece(self, lines: Sequence[Line], row: int) -> pa.RecordBatch:
        """Return lines as a piece of input."""
        return line_piece(lines, row)

    def arrow_piece(self, batch: pa.RecordBatch, row: int) -> pa.RecordBatch:
        """Return the columns that are used."""
        names = batch.schema.names
        try:
            require_texts(self._mapping, names, "its table", _KIND)
            places = resolve(self._mapping, names, "its table")
        except SourceError as error:
            raise RefusedError(str(error)) from error
        return numbered(pick(batch, places), row)

    def rows(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pieces."""
        for table in gather(pieces, self._where):
            if "line" in table.column_names:
                (lines,) = judged(self._reader, [table], self._where)
                table = self._keys.values(lines)
                require_texts(self._mapping, self._keys.seen, self._where, _KIND)
            else:
                self._arrow = True
            yield from run(self._reader, self._mapping, [table], self._where)

    def check(self, row: int, *, is_last: bool) -> None:
        """Refuse a text or id that no record had so far, and in the end any name."""
        if self._arrow or not self._keys.seen:
            return  # the columns of tables were looked up one by one
        if is_last or row >= _SURE:
            self._keys.check_parts()
        if is_last:
            list(self._keys.check_all())

    def state(self) -> dict[str, Any]:
        """Return the keys found so far for the mapping's names."""
        found, seen = self._keys.found, self._keys.seen[:_MOST_SEEN]
        return {"names": dict(found), "seen": seen, "arrow": self._arrow}


def line_piece(lines: Sequence[Line], row: int) -> pa.RecordBatch:
    """Return lines as a numbered piece of input."""
    texts = pa.array([line.json for line in lines], pa.binary()).view(pa.string())
    faults = pa.array([line.fault for line in lines], pa.string())
    return numbered(line_batch(texts).append_column("fault", faults), row)


def numbered(piece: pa.RecordBatch, row: int) -> pa.RecordBatch:
    """Return a piece with the numbers of its rows."""
    numbers = pa.array(range(row, row + piece.num_rows), pa.int64())
    return piece.append_column("row", numbers)
