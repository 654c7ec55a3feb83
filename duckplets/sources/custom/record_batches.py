"""Make pieces of input, and places to go on from, of what a user's source yields."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.custom.record_keys import Line, RecordKeys, RefusedError

_PIECE_ROWS = 1_024
_PIECE_BYTES = 4 << 20
_PIECE_SECONDS = 0.05
_END = object()

Batches = Callable[[Any], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Piece:
    """Records, as the form of the source holds them."""

    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of one of the user's batches.

    Attributes:
        cursor: The user's, as it was when the batch came; None where one cannot go on.
        row: Rows so far.
    """

    cursor: Any
    row: int


def weight(item: Piece | BatchEnd) -> int:
    """Return how many bytes an item counts for that waits; a row counts for one KiB at least."""
    if isinstance(item, BatchEnd):
        return 64
    return max(int(item.batch.nbytes), int(item.batch.num_rows) << 10)


class RecordFeed:
    """Calls the user's code, and names source and row where it fails.

    Args:
        where: The source, for messages.
        form: What makes lines of records.
        row: Rows that were read before.
    """

    def __init__(self, where: str, form: RecordKeys, row: int) -> None:
        self._where = where
        self._form = form
        self._row = row
        self._lines: list[Line] = []  # the last ones, of which no piece is made yet
        self._bytes = 0
        self._place: BatchEnd | None = None  # the last one among them
        self._handed_on = 0.0

    def items(self, batches: Batches, cursor: Any) -> Generator[Piece | BatchEnd, None, None]:
        """Yield the pieces and places of what a call of ``batches`` gives.

        Raises:
            SourceError: The user's code fails, or gives what it should not; what came before the
                last place has been yielded then.
        """
        given = None
        try:
            given = self._tried(lambda: iter(batches(cursor)))
            while (pair := self._tried(next, given, _END)) is not _END:
                records, place = self._pair(pair)
                yield from self._pieces(records)
                if place is not None:
                    self._place = BatchEnd(place, self._row)
                # Small batches that come quickly are taken together.
                if time.monotonic() - self._handed_on > _PIECE_SECONDS:
                    yield from self._held()
            yield from self._held()
        except SourceError:
            yield from self._until_place()
            raise
        finally:
            with suppress(Exception):
                getattr(given, "close", lambda: None)()

    def _pair(self, pair: Any) -> tuple[Any, Any]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise self._error(
                f"batches() gave {_shown(pair)}: yield pairs of the next records and a cursor"
            )
        records, cursor = pair
        wrong = self._tried(not_plain, cursor)
        if wrong:
            raise self._error(
                f"the cursor {_shown(cursor)} holds {wrong}: it is stored as JSON, so make it of "
                f"texts, finite numbers, True, False, None, lists, and dictionaries with texts "
                f"as keys"
            )
        return records, json.loads(json.dumps(cursor))

    def _pieces(self, records: Any) -> Iterator[Piece | BatchEnd]:
        if isinstance(records, pa.RecordBatch):
            records = pa.Table.from_batches([records])
        if isinstance(records, (pa.Table, pa.RecordBatchReader)):
            yield from self._arrow_pieces(records)
            return
        if isinstance(records, (str, bytes, Mapping)) or not isinstance(records, Iterable):
            raise self._error(
                f"the records of a batch are {_shown(records)}: give a list of dictionaries, one "
                f"per record, or an Arrow table"
            )
        left = self._tried(iter, records)
        while self._take(left):
            yield from self._held()

    def _arrow_pieces(self, records: pa.Table | pa.RecordBatchReader) -> Iterator[Piece | BatchEnd]:
        left = iter(records if isinstance(records, pa.RecordBatchReader) else records.to_batches())
        while (batch := self._tried(next, left, None)) is not None:
            for start in range(0, batch.num_rows, _PIECE_ROWS):
                for part in self._form.portions(batch.slice(start, _PIECE_ROWS), self._row):
                    yield from self._held()
                    yield Piece(self._tried(self._form.arrow_piece, part, self._row + 1))
                    self._row += part.num_rows

    def _take(self, records: Iterator[Any]) -> bool:
        """Hold the next records as lines; returns whether they make a piece, else all are held."""
        try:
            for record in records:
                line = self._form.line(record)
                self._lines.append(line)
                self._row += 1
                self._bytes += len(line.json or b"")
                if len(self._lines) >= _PIECE_ROWS or self._bytes >= _PIECE_BYTES:
                    return True
        except Exception as error:
            raise self._located(error) from _cause(error)
        return False

    def _held(self) -> Iterator[Piece | BatchEnd]:
        """Yield what is held."""
        yield from self._until_place()
        if self._lines:
            yield self._piece(len(self._lines))

    def _until_place(self) -> Iterator[Piece | BatchEnd]:
        """Yield what is held before the last place, and that."""
        place, self._place = self._place, None
        if place is not None:
            before = len(self._lines) - (self._row - place.row)
            if before > 0:
                yield self._piece(before)
            yield place

    def _piece(self, count: int) -> Piece:
        lines, self._lines = self._lines[:count], self._lines[count:]
        first = self._row + 1 - len(lines) - len(self._lines)
        self._bytes = sum(len(line.json or b"") for line in self._lines)
        self._handed_on = time.monotonic()
        return Piece(self._tried(self._form.piece, lines, first))

    def _tried(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            raise self._located(error) from _cause(error)

    def _located(self, error: Exception) -> SourceError:
        bare = isinstance(error, RefusedError)
        return self._error(str(error) if bare else f"{type(error).__name__}: {error}")

    def _error(self, message: str) -> SourceError:
        return SourceError(f"{self._where}: row {self._row + 1}: {message}")


def not_plain(value: Any) -> str | None:
    """Return what in a value JSON would not give back as it is, or None."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return "text that is not UTF-8"
        return None
    if value is None or isinstance(value, (bool, int)):
        return None if type(value) in (bool, int, type(None)) else _shown(value)
    if type(value) is float and value - value == 0:
        return None
    if type(value) is list:
        return next(filter(None, map(not_plain, value)), None)
    if type(value) is dict and all(type(key) is str for key in value):
        return next(filter(None, map(not_plain, [*value, *value.values()])), None)
    return _shown(value)


def _cause(error: Exception) -> BaseException | None:
    return error.__cause__ if isinstance(error, RefusedError) else error


def _shown(value: Any) -> str:
    """Return a value and its type, short."""
    try:
        text = repr(value)
    except Exception:
        text = "?"
    return f"{text if len(text) <= 80 else text[:77] + '…'} ({type(value).__name__})"
