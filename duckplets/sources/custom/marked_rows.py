"""Make rows and marks of what comes from the thread of a user's source.

    batches() ─RecordFeed→ pieces and places ─Lookahead→ rows and marks
    (source's thread)                                  (ingest's thread)

All of one reading runs in one thread of its own, a bounded amount ahead: what is opened there
(a connection to SQLite, say) may be used there, and reading goes on while ingest stores.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckplets.base.prefetch import Lookahead, StoppedError, ahead
from duckplets.errors import SourceError
from duckplets.sources.custom.record_batches import BatchEnd, Batches, Piece, RecordFeed, weight
from duckplets.sources.custom.record_keys import RecordKeys
from duckplets.sources.mapping import Mapped
from duckplets.sources.rows import Mark, Rows, checked_cursor

if TYPE_CHECKING:
    from duckplets.db.database import Database

# A statement runs over about so much, and a mark follows it. A slow source gets its marks in
# time: what was read since the last one is read again after a kill.
_PLACE = {"cursor": object, "row": range(1 << 63), "state": (dict, None)}
_MARK_ROWS = 16_384
_MARK_BYTES = 16 << 20
_MARK_SECONDS = 1.0
# What may wait between the two threads: about as much as one statement takes.
_MOST_WAITING = 32
_BYTES_WAITING = 16 << 20
_PATIENCE = 5.0  # seconds for the user's code to come to an end


def opened(
    reader: Database,
    mapping: Mapped,
    name: str,
    batches: Batches,
    cursor: Any,
    total: int | None = None,
) -> Rows:
    """Start the thread of a source, and wait for its first records.

    Args:
        reader: An instance to run statements in.
        mapping: Which key plays which part; one without any is for records with keys of their own.
        name: Of the source, for messages.
        batches: The user's.
        cursor: Of a ``Mark``, or None for the beginning.
        total: How many rows there are, where that is known.

    Raises:
        SourceError: The user's code fails at once, or the first records do not fit the mapping.
    """
    where = f"source {name!r}"
    place = checked_cursor(cursor, _PLACE, where) or {"cursor": None, "row": 0, "state": None}
    form = RecordKeys(reader, mapping, where, place["state"])
    feed = RecordFeed(where, form, place["row"])
    items = feed.items(batches, place["cursor"])
    coming = ahead(
        items,
        f"duckplets-source-{name}",
        most=_MOST_WAITING,
        most_bytes=_BYTES_WAITING,
        weigh=weight,
        patience=_PATIENCE,
    )
    reading = _MarkedRows(where, form, coming, place["row"], place["row"])
    try:
        reading.begin()
    except BaseException:
        coming.close()
        raise
    return Rows(_Stoppable(coming, reading.rows()), form.defaults or "text", total)


class _Stoppable(Iterator[pa.RecordBatch | Mark]):
    """The rows of a reading, whose thread ends with them.

    Args:
        coming: Closed at the end, at an error, and by ``stop``.
        rows: Made of what comes.
    """

    def __init__(
        self, coming: Lookahead[Piece | BatchEnd], rows: Iterator[pa.RecordBatch | Mark]
    ) -> None:
        self._rows = rows
        self.stop = coming.close  # from any thread, also while another one waits for an item

    def __next__(self) -> pa.RecordBatch | Mark:
        try:
            return next(self._rows)
        except BaseException:
            self.stop()
            raise


@dataclass(slots=True)
class _MarkedRows:
    """Turns what comes from a source's thread into rows and marks."""

    where: str
    form: RecordKeys
    coming: Iterator[Piece | BatchEnd]
    row: int  # of the last piece that came
    row_marked: int
    first: list[Piece | BatchEnd] = field(default_factory=list)
    held: list[pa.RecordBatch] = field(default_factory=list)
    rows_held: int = 0
    bytes_held: int = 0
    whole: int = 0  # of the pieces held, those before the last place
    place: BatchEnd | None = None
    marked: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Wait for the first records: a source that cannot be read fails here."""
        for item in self.coming:
            self.first.append(item)
            if isinstance(item, Piece) and self.form.defaults is not None:
                break

    def rows(self) -> Iterator[pa.RecordBatch | Mark]:
        """Yield the rows, and a mark after some of the user's batches."""
        while (item := (yield from self._next())) is not None:
            if isinstance(item, Piece):
                self._hold(item.batch)
                if self._is_full():
                    yield from self._until_place()
                    yield from self._converted(len(self.held))
            elif item.cursor is not None:
                self.whole, self.place = len(self.held), item
                if self._is_due():
                    yield from self._until_place()
        yield from self._until_place()
        yield from self._converted(len(self.held), is_last=True)

    def _next(self) -> Generator[pa.RecordBatch | Mark, None, Piece | BatchEnd | None]:
        if self.first:
            return self.first.pop(0)
        try:
            return next(self.coming, None)
        except StoppedError:
            raise SourceError(f"{self.where}: reading was stopped") from None
        except SourceError:
            yield from self._until_place()  # an ingest goes on after the last whole batch
            raise

    def _hold(self, piece: pa.RecordBatch) -> None:
        self.held.append(piece)
        self.row += piece.num_rows
        self.rows_held += piece.num_rows
        self.bytes_held += piece.nbytes

    def _is_due(self) -> bool:
        many = self.row - self.row_marked >= _MARK_ROWS or self._is_full()
        return many or time.monotonic() - self.marked > _MARK_SECONDS

    def _is_full(self) -> bool:
        return self.rows_held >= _MARK_ROWS or self.bytes_held >= _MARK_BYTES

    def _until_place(self) -> Iterator[pa.RecordBatch | Mark]:
        place, self.place = self.place, None
        if place is not None:
            yield from self._converted(self.whole)
            state = self.form.state()
            yield Mark({"cursor": place.cursor, "row": place.row, "state": state})
            self.marked, self.row_marked = time.monotonic(), place.row

    def _converted(self, count: int, *, is_last: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the first pieces held."""
        pieces, left = self.held[:count], self.held[count:]
        self.held, self.whole, self.rows_held, self.bytes_held = [], 0, 0, 0
        rows = self.row - sum(piece.num_rows for piece in left)
        yield from self.form.rows(pieces)
        self.form.check(rows, is_last=is_last)
        self.row = rows
        for piece in left:
            self._hold(piece)
