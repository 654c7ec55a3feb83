"""Read a user's source in a thread of its own, a bounded amount ahead.

batches() ─RecordFeed→ blocks of rows, places ─Lookahead→ rows and marks
(source's thread)                                (ingest's thread)

All of the user's code runs in one thread, so a SQLite connection opened there can be used there,
and reading continues while ingest stores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from duckplets.base.prefetch import StoppedError, ahead
from duckplets.db.database import Database
from duckplets.errors import SourceError, nearest
from duckplets.sources.mapping import PARTS, Mapped
from duckplets.sources.memory import batches_of, row_of, table_blocks
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import DROPPED, RowBlock, Rows, Stoppable, cursor_of
from duckplets.sources.typed import ArrowRows, blocks_of, names_of
from duckplets.sources.values import Fault

Batches = Callable[[Any], Iterable[Any]]

_BLOCK_ROWS = 1_024
_BLOCK_BYTES = 4 << 20
_MOST_WAITING = 32  # blocks queued between the two threads
_BYTES_WAITING = 16 << 20
_PATIENCE = 5.0  # seconds that the user's code has to end
_END = object()
_REQUIRED = ("id", "anchor", "positive", "context", "text", "sections", "label")


class RefusedError(Exception):
    """A record breaks the rules; the reader adds where."""


def read_batches(
    reader: Database,
    mapping: Mapped,
    name: str,
    batches: Batches,
    cursor: Any,
    total: int | None = None,
) -> Rows:
    """Start the thread of a source, and wait for its first records."""
    where = f"source {name!r}"
    place = cursor_of(cursor, where)
    are_own = not mapping.names() and mapping.converter is None
    feed = RecordFeed(where, mapping, place["rows"], are_own=are_own)
    coming = ahead(
        feed.blocks(batches, place["at"]),
        f"duckplets-source-{name}",
        most=_MOST_WAITING,
        most_bytes=_BYTES_WAITING,
        weigh=_weight,
        patience=_PATIENCE,
    )

    def blocks() -> Iterator[RowBlock]:
        try:
            yield from coming
        except StoppedError:
            raise SourceError(f"{where}: reading was stopped") from None
        finally:
            coming.close()

    own = OwnKeys(**{n: getattr(mapping, n) for n in _HOW}) if are_own else mapping
    try:
        rows = opened(reader, own, blocks(), where, cursor=cursor, total=total, known=True)
        return Stoppable.of(rows, coming.close)
    except BaseException:
        coming.close()
        raise


def _weight(block: RowBlock) -> int:
    """Return the bytes that a queued block counts for, at least 1 KiB a row."""
    if isinstance(block.rows, ArrowRows):
        return max(int(block.rows.batch.nbytes), len(block.rows) << 10, 64)
    values = (value for row in block.rows if isinstance(row, dict) for value in row.values())
    size = sum(len(value) for value in values if isinstance(value, (str, bytes)))
    return max(size, len(block.rows) << 10, 64)


_HOW = ("text_of", "on_error", "on_bad_date", "date_format", "null_values")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKeys(Mapped):
    """The mapping of records that name their parts by key."""

    are_own_keys = True

    def __post_init__(self) -> None:
        """Accept parts that exclude each other in a mapping: no record has them all."""

    def part(self, part: str) -> tuple[str, ...]:
        """Return the key of a part."""
        return super(OwnKeys, self).part(part) if part == "date_format" else (part,)

    def names(self) -> tuple[str, ...]:
        """Return nothing: keys differ from record to record."""
        return ()


class RecordFeed:
    """Call the user's code, and name source and row on failure."""

    def __init__(self, where: str, mapping: Mapped, row: int, *, are_own: bool) -> None:
        self._where, self._mapping, self._row, self._are_own = where, mapping, row, are_own

    def blocks(self, batches: Batches, cursor: Any) -> Generator[RowBlock, None, None]:
        """Yield blocks of records from ``batches``."""
        given = None
        try:
            given = self._tried(lambda: iter(batches(cursor)))
            while (pair := self._tried(next, given, _END)) is not _END:
                records, place = self._pair(pair)
                held: RowBlock | None = None
                for block in self._records(records):
                    if held is not None:
                        yield held
                    held = block
                yield RowBlock([], at=place) if held is None else held._replace(at=place)
        finally:
            with suppress(Exception):
                getattr(given, "close", lambda: None)()

    def _pair(self, pair: Any) -> tuple[Any, Any]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise self._error(
                f"batches() gave {_shown(pair)}: yield pairs of the next records and a cursor"
            )
        records, cursor = pair
        return records, self._tried(as_json, cursor, "the cursor")

    def _records(self, records: Any) -> Iterator[RowBlock]:
        if isinstance(records, (pa.RecordBatch, pa.Table, pa.RecordBatchReader)):
            left = self._tried(self._of_table, records)
            while (block := self._tried(next, left, None)) is not None:
                self._row += len(block.rows)
                yield block
            return
        if isinstance(records, (str, bytes, Mapping)) or not isinstance(records, Iterable):
            raise self._error(
                f"the records of a batch are {_shown(records)}: give a list of dictionaries, one "
                f"per record, or an Arrow table"
            )
        left, rows, size = self._tried(iter, records), list[Any](), 0
        while (record := self._tried(next, left, _END)) is not _END:
            row: Any = Fault(DROPPED) if record is None else row_of(record)
            if self._are_own and isinstance(row, dict):
                row = self._tried(self._own, row)
            rows.append(row)
            self._row += 1
            if isinstance(row, dict):
                size += sum(len(value) for value in row.values() if type(value) is str)
            if len(rows) >= _BLOCK_ROWS or size >= _BLOCK_BYTES:
                yield RowBlock(rows)
                rows, size = [], 0
        if rows:
            yield RowBlock(rows)

    def _of_table(self, records: Any) -> Iterator[RowBlock]:
        try:
            names = names_of(records.schema, "its table")
            if not self._are_own:
                return table_blocks(self._mapping, names, batches_of(records), "its table")
            self._own(dict.fromkeys(names, ""))
            blocks = blocks_of(batches_of(records), "its table", columns=names)
        except SourceError as error:
            raise RefusedError(str(error)) from error
        return (b._replace(rows=[self._own(row) for row in b.rows], columns=None) for b in blocks)

    def _own(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a checked record that names its parts."""
        given = _required(row)
        return {k: v for k, v in row.items() if k in given or k not in _REQUIRED}

    def _tried(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            bare = isinstance(error, RefusedError)
            said = str(error) if bare else f"{type(error).__name__}: {error}"
            raise self._error(said) from (error.__cause__ if bare else error)

    def _error(self, message: str) -> SourceError:
        return SourceError(f"{self._where}: row {self._row + 1}: {message}")


def _required(record: Mapping[Any, Any]) -> list[str]:
    """Return the parts that must not be blank, after checking that they fit together."""
    for key in record:
        if key not in PARTS:
            raise RefusedError(
                f"unknown key {key!r}{nearest(str(key), PARTS)}; the keys of a record are "
                f"{', '.join(PARTS)}; to read others: dp.CustomSource(source, anchor=…)"
            )
    given = [part for part in _REQUIRED if part in record]
    if "text" in given and ("anchor" in given or "positive" in given):
        given = [part for part in given if record[part] is not None]
    has_negative = record.get("negative") is not None
    _check_together(frozenset([*given, "negative"] if has_negative else given))
    return given


@cache
def _check_together(parts: frozenset[str]) -> None:
    try:
        mapping: dict[str, Any] = dict(zip(parts, parts, strict=True))
        Mapped(**mapping)
    except SourceError as error:
        raise RefusedError(str(error)) from None


def as_json(value: Any, what: str) -> Any:
    """Return a value read back from its JSON, or refuse one that this changes."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
        found = json.loads(text)
        why = "" if found == value else f"it would come back as {_shown(found)}"
    except (TypeError, ValueError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
    if why:
        raise RefusedError(
            f"{what} {_shown(value)} is stored as JSON, so make it of texts, finite numbers, True, "
            f"False, None, lists, and dictionaries with texts as keys ({why})"
        )
    return found


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "?"
    return f"{text if len(text) <= 80 else text[:77] + '…'} ({type(value).__name__})"
