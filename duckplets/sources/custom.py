"""Users' sources: objects with ``batches(cursor)``, and objects with a length and numbered records.

batches() ─RecordFeed→ blocks of rows, places ─Lookahead→ rows and marks
(source's thread)                                (ingest's thread)
ranks(seed) ─→ numbers in order ─Lookahead→ get(i), get(j), … ─in order→ batches()

All of the user's code runs in one thread, so a SQLite connection opened there can be used there,
and reading continues while ingest stores. Only ``IndexedSource`` fetches with several threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields
from functools import cache, partial
from itertools import islice
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa

from duckplets.base.prefetch import Lookahead, StoppedError, ahead
from duckplets.base.settings import Bounds, checked
from duckplets.db.database import Database
from duckplets.errors import SourceError, nearest
from duckplets.order.permute import key, ranks
from duckplets.sources.mapping import PARTS, Mapped
from duckplets.sources.memory import row_of, table_blocks
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import DROPPED, RowBlock, Rows, Stoppable, cursor_of, with_place
from duckplets.sources.typed import ArrowRows, blocks_of, names_of
from duckplets.sources.values import Fault

Batches = Callable[[Any], Iterable[Any]]

_BLOCK_ROWS = 1_024
_BLOCK_BYTES = 4 << 20
_MOST_WAITING = 32  # blocks queued between the two threads
_BYTES_WAITING = 16 << 20  # of these blocks, or of fetched records
_PATIENCE = 5.0  # seconds that the user's code has to end
_END = object()
_REQUIRED = ("id", "anchor", "positive", "context", "text", "sections", "label")


class _RefusedError(Exception):
    """A record breaks the rules; the reader adds where."""


def _read_batches(
    reader: Database, mapping: Any, batches: Batches, cursor: Any, total: int | None = None
) -> Rows:
    """Start the thread of a source, and wait for its first records."""
    where = f"source {mapping.name!r}"
    place = cursor_of(cursor, where)
    are_own = not mapping.names() and mapping.converter is None
    feed = _RecordFeed(where, mapping, place["rows"], are_own=are_own)
    coming = ahead(
        feed.blocks(batches, place["at"]),
        f"duckplets-source-{mapping.name}",
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

    own = mapping
    if are_own:
        names = ("text_of", "on_error", "on_bad_date", "date_format", "null_values")
        own = OwnKeys(**{name: getattr(mapping, name) for name in names})
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


class _RecordFeed:
    """Call the user's code, and name source and row on failure."""

    def __init__(self, where: str, mapping: Mapped, row: int, *, are_own: bool) -> None:
        self._where, self._mapping, self._row, self._are_own = where, mapping, row, are_own

    def blocks(self, batches: Batches, cursor: Any) -> Generator[RowBlock, None, None]:
        """Yield blocks of records from ``batches``."""
        pairs = None
        try:
            pairs = self._tried(lambda: iter(batches(cursor)))
            while (pair := self._tried(next, pairs, _END)) is not _END:
                if not isinstance(pair, tuple) or len(pair) != 2:
                    raise self._error(
                        f"batches() gave {_shown(pair)}: yield pairs of the next records and a "
                        f"cursor"
                    )
                place = self._tried(_as_json, pair[1], "the cursor")
                yield from with_place(self._records(pair[0]), place)
        finally:
            with suppress(Exception):
                getattr(pairs, "close", lambda: None)()

    def _records(self, records: Any) -> Iterator[RowBlock]:
        if isinstance(records, (pa.RecordBatch, pa.Table, pa.RecordBatchReader)):
            blocks = self._tried(self._blocks_of_table, records)
            while (block := self._tried(next, blocks, None)) is not None:
                self._row += len(block.rows)
                yield block
            return
        if isinstance(records, (str, bytes, Mapping)) or not isinstance(records, Iterable):
            raise self._error(
                f"the records of a batch are {_shown(records)}: give a list of dictionaries, one "
                f"per record, or an Arrow table"
            )
        remaining, rows, size = self._tried(iter, records), list[Any](), 0
        while (record := self._tried(next, remaining, _END)) is not _END:
            row: Any = Fault(DROPPED) if record is None else row_of(record)
            if self._are_own and isinstance(row, dict):
                row = self._tried(_own, row)
            rows.append(row)
            self._row += 1
            if isinstance(row, dict):
                size += sum(len(value) for value in row.values() if type(value) is str)
            if len(rows) >= _BLOCK_ROWS or size >= _BLOCK_BYTES:
                yield RowBlock(rows)
                rows, size = [], 0
        if rows:
            yield RowBlock(rows)

    def _blocks_of_table(self, records: Any) -> Iterator[RowBlock]:
        try:
            names = names_of(records.schema, "its table")
            batches = [records] if isinstance(records, pa.RecordBatch) else records
            batches = records.to_batches() if isinstance(records, pa.Table) else batches
            if not self._are_own:
                return table_blocks(self._mapping, names, batches, "its table")
            _own(dict.fromkeys(names, ""))
            blocks = blocks_of(batches, "its table", columns=names)
        except SourceError as error:
            raise _RefusedError(str(error)) from error
        return (b._replace(rows=[_own(row) for row in b.rows], columns=None) for b in blocks)

    def _tried(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            bare = isinstance(error, _RefusedError)
            reason = str(error) if bare else f"{type(error).__name__}: {error}"
            raise self._error(reason) from (error.__cause__ if bare else error)

    def _error(self, message: str) -> SourceError:
        return SourceError(f"{self._where}: row {self._row + 1}: {message}")


def _own(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record that names its parts, after checking that they fit together."""
    for part in record:
        if part not in PARTS:
            raise _RefusedError(
                f"unknown key {part!r}{nearest(str(part), PARTS)}; the keys of a record are "
                f"{', '.join(PARTS)}; to read others: dp.CustomSource(source, anchor=…)"
            )
    parts = [part for part in _REQUIRED if part in record]
    if "text" in parts and ("anchor" in parts or "positive" in parts):
        parts = [part for part in parts if record[part] is not None]
    has_negative = record.get("negative") is not None
    _check_together(frozenset([*parts, "negative"] if has_negative else parts))
    return {k: v for k, v in record.items() if k in parts or k not in _REQUIRED}


@cache
def _check_together(parts: frozenset[str]) -> None:
    try:
        mapping: dict[str, Any] = dict(zip(parts, parts, strict=True))
        Mapped(**mapping)
    except SourceError as error:
        raise _RefusedError(str(error)) from None


def _as_json(value: Any, what: str) -> Any:
    """Return a value read back from its JSON, or refuse one that this changes."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
        found = json.loads(text)
        why = "" if found == value else f"it would come back as {_shown(found)}"
    except (TypeError, ValueError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
    if why:
        raise _RefusedError(
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


# -- the protocol ----------------------------------------------------------------------------------


@runtime_checkable
class PagedSource(Protocol):
    """A user's reader of anything: a database, an API, a queue.

    It may also have ``trust`` (a number from 0 to 1), ``kind`` (default: ``custom``), ``uri`` (an
    address without secrets) and ``mapping`` (arguments of ``CustomSource``). ``settings()`` returns
    plain JSON values, such as a filter, that must agree for a cursor to mean the same place.
    ``recipes`` is a list that replaces the default recipes. None keeps the earlier recipes, and an
    empty list removes them. Two sources may not have different recipes with one name.

    Attributes:
        name: The source's name in the corpus, unless ``ingest`` is given another.
    """

    name: str

    def batches(self, cursor: Any) -> Iterable[tuple[Any, Any]]:
        """Yield pairs of some records and a cursor, from a place on.

        It is called once for an ingest, and all of its code runs in one thread. An exception ends
        the ingest with a ``SourceError`` that names source and row. The next ingest continues from
        a cursor.

        Args:
            cursor: None for the beginning, or a cursor that was yielded, for the records after it.

        Yields:
            The next records, and the cursor behind them. Records are an iterable of
            dictionaries, or an Arrow table or record batch. Without a mapping their keys are
            ``anchor``, ``positive``, ``context``, ``negative``, ``text``, ``sections`` (a list of
            ``{"role", "heading", "text"}``), ``id``, ``date``, ``created_at``, ``updated_at``,
            ``group``, ``taxonomy``, ``meta`` (a dictionary), ``trust``, ``label`` and ``prefix``.
            Keys may differ from record to record. A text, id or label must not be blank, and an
            unknown key is an error. None instead of a record is counted as dropped. A cursor is a
            plain JSON value; reading cannot continue after None.
        """


@dataclass(frozen=True, slots=True, eq=False)
class CustomSource(Mapped):
    """A user's source whose records have other keys than ``PagedSource`` names.

    Without a mapping each record is mapped by its own keys.
    """

    source: Any
    """Object with ``name`` and ``batches(cursor)``; see ``PagedSource``."""

    in_pieces: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super(CustomSource, self).__post_init__()
        _check_source(self.source)
        if self.trust is None:
            trust = getattr(self.source, "trust", None)
            if isinstance(trust, str):
                raise SourceError(f"source {self.name!r}: trust={trust!r}: give a number, 0 to 1")
            object.__setattr__(self, "trust", trust)
            super(CustomSource, self).__post_init__()

    @property
    def name(self) -> str:
        """The source's name."""
        return str(self.source.name)

    @property
    def kind(self) -> str:
        """Kind given by the source, or ``custom``."""
        return str(getattr(self.source, "kind", None) or "custom")

    @property
    def uri(self) -> str | None:
        """Address given by the source."""
        uri = getattr(self.source, "uri", None)
        return None if uri is None else str(uri)

    def default_name(self) -> str:
        """Return the source's name."""
        return self.name

    def settings(self) -> dict[str, Any]:
        """Return the settings a cursor depends on."""
        settings = getattr(self.source, "settings", None)
        try:
            user = _as_json(settings() if callable(settings) else settings, "settings()")
        except _RefusedError as error:
            raise SourceError(f"source {self.name!r}: {error}") from None
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise SourceError(f"source {self.name!r}: settings(): {reason}") from error
        return _settings_of(self) | {"settings": user}

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Start reading at a cursor, and look at the first records."""
        return _read_batches(reader, self, self.source.batches, cursor)


def adapted(source: Any) -> Any:
    """Return a source that can be ingested, wrapping a user's own."""
    if callable(getattr(source, "open", None)) and hasattr(source, "default_name"):
        return source
    if isinstance(source, (str, PurePath)):
        raise SourceError(
            f"{str(source)!r} is a path, not a source: say how to read it, for example "
            f"dp.Source({str(source)!r}, anchor=…, positive=…)"
        )
    if isinstance(source, (list, tuple)) or hasattr(source, "__arrow_c_stream__"):
        raise SourceError(
            f"a {type(source).__name__} is not a source: give dp.Source(records, anchor=…)"
        )
    _check_source(source)
    mapping = getattr(source, "mapping", None) or {}
    known = [part.name for part in fields(Mapped)]
    if not isinstance(mapping, Mapping):
        raise SourceError(f"source {source.name!r}: mapping={mapping!r}: give a dictionary")
    for part in mapping:
        if part not in known:
            raise SourceError(
                f"source {source.name!r}: mapping has {part!r}{nearest(str(part), known)}; there "
                f"are {', '.join(known)}"
            )
    return CustomSource(source, **mapping)


def _check_source(source: Any) -> None:
    kind = type(source).__name__
    needs = "a source has a name and batches(cursor), which yields pairs of records and a cursor"
    if isinstance(source, type):
        raise SourceError(f"{source.__name__} is a class: give an object, {source.__name__}(…)")
    if not hasattr(source, "batches"):
        raise SourceError(f"{kind} has no batches(): {needs}")
    if not callable(source.batches):
        raise SourceError(f"{kind}.batches is no method: {needs}")
    if not isinstance(getattr(source, "name", None), str):
        has = f"name={source.name!r}" if hasattr(source, "name") else "no name"
        raise SourceError(f"{kind} has {has}: {needs}")


def _settings_of(source: Any) -> dict[str, Any]:
    described = {"name": source.name, "kind": source.kind, "uri": source.uri}
    return described | {"columns": source.read_settings()}


# -- records by number -----------------------------------------------------------------------------

_PLACE = {"done": range(1 << 63), "size": range(1 << 63)}
_BLOCK = 4_096  # numbers ordered at a time
_PORTION = 64  # records fetched by a call


@dataclass(frozen=True, slots=True, eq=False)
class IndexedSource(Mapped):
    """An object with a length and records by number.

    A record is a dictionary. Without a mapping each is mapped by its own keys, as ``PagedSource``
    says. None instead of a record is counted as ``dropped by the source``. An interrupted ingest
    continues where it stopped.
    """

    rows: Any = None
    """Object with ``len(rows)``, and ``rows.get(i)`` or ``rows[i]``, such as a list."""
    name: str = field(kw_only=True)
    """The source's name."""
    get: Callable[[int], Any] | None = field(default=None, kw_only=True)
    """Function that returns the i-th record, instead of ``rows``."""
    size: int | None = field(default=None, kw_only=True)
    """Number of records that ``get`` can return."""
    seed: int = field(default=42, kw_only=True)
    """Another seed gives another order."""
    shuffle: bool = field(default=True, kw_only=True)
    """Whether to read in a shuffled order, each record exactly once, or from 0 on."""
    threads: int = field(default=4, kw_only=True)
    """Number of threads that fetch records; 1 if threads are not safe."""

    kind: ClassVar[str] = "indexed"
    uri: ClassVar[str | None] = None
    in_pieces: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super(IndexedSource, self).__post_init__()
        if not isinstance(self.name, str) or not self.name:
            raise SourceError(f"IndexedSource: name={self.name!r}: give a text")
        where = f"source {self.name!r}"
        checked("seed", self.seed, int, SourceError, where)
        checked("threads", self.threads, Annotated[int, Bounds(1, 256)], SourceError, where)
        if (self.rows is None) == (self.get is None):
            raise self._error("give either rows, or get= and size=")
        if self.rows is not None and self.size is not None:
            raise self._error("size= goes with get=; of rows it is their length")
        if self.rows is not None and not hasattr(type(self.rows), "__len__"):
            raise self._error(f"{type(self.rows).__name__} has no length; give get= and size=")
        if hasattr(self.rows, "iloc"):  # its get() would look up a column
            raise self._error("a data frame needs get=lambda i: frame.iloc[i].to_dict(), size=…")
        if self.rows is not None and self._getter() is None:
            raise self._error(f"{type(self.rows).__name__} has neither get(i) nor [i]")
        if self.get is not None and not callable(self.get):
            raise self._error(f"get={self.get!r} is no function")
        is_size = type(self.size) is int and self.size >= 0
        if self.get is not None and not is_size:
            raise self._error(f"size={self.size!r}: say how many records get() can return")

    def _error(self, message: str) -> SourceError:
        return SourceError(f"source {self.name!r}: {message}")

    def _getter(self) -> Callable[[int], Any] | None:
        if self.get is not None:
            return self.get
        own = None if isinstance(self.rows, dict) else getattr(self.rows, "get", None)
        if callable(own):
            return own  # type: ignore[no-any-return]
        return self.rows.__getitem__ if hasattr(self.rows, "__getitem__") else None

    def default_name(self) -> str:
        """Return the source's name."""
        return self.name

    def settings(self) -> dict[str, Any]:
        """Return the settings a cursor depends on; the size is in the cursor."""
        return _settings_of(self) | {"seed": self.seed, "shuffle": self.shuffle}

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Start reading at a cursor."""
        try:
            size = len(self.rows) if self.size is None else self.size
        except Exception as error:
            raise self._error(f"its length: {type(error).__name__}: {error}") from error
        place = cursor_of(cursor, f"source {self.name!r}", _PLACE)["at"]
        if place is not None and place["size"] != size:
            raise self._error(
                f"it had {place['size']} records when its ingest began, and now has {size}: the "
                f"order is another; start again with restart=True"
            )
        return _read_batches(reader, self, self._batches(size), cursor, size)

    def _batches(self, size: int) -> Callable[[Any], Iterator[Any]]:
        getter = self._getter()
        stream = key(self.seed, "indexed source") if self.shuffle else None

        def batches(cursor: Any) -> Iterator[tuple[list[Any], Any]]:
            done = cursor["done"] if cursor else 0
            numbers = _numbers(stream, done, size)
            portions = iter(lambda: list(islice(numbers, _PORTION)), [])
            fetched = Lookahead(
                (partial(_fetch, getter, some) for some in portions),
                "duckplets-get",
                most=2 * self.threads - 1,
                threads=self.threads,
                most_bytes=_BYTES_WAITING,
                weigh=lambda found: _size_of(found[0]),
            )
            with closing(fetched):
                for records, error in fetched:
                    done += len(records)
                    yield records, {"done": done, "size": size}
                    if error is not None:
                        raise error

        return batches


def _numbers(stream: int | None, start: int, size: int) -> Iterator[int]:
    """Yield the numbers of records from a position of the order on, each once."""
    if stream is None:
        yield from range(start, size)
        return
    for first in range(start, size, _BLOCK):
        yield from ranks(stream, size, first, min(first + _BLOCK, size))[0].tolist()


def _fetch(get: Any, numbers: Sequence[int]) -> tuple[list[Any], Exception | None]:
    """Return the records of some numbers, up to the first that fails, and its error."""
    records: list[Any] = []
    for number in numbers:
        try:
            records.append(get(number))
        except Exception as error:
            fault = _RefusedError(f"get({number}): {type(error).__name__}: {error}")
            fault.__cause__ = error
            return records, fault
    return records, None


def _size_of(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return 64 + sum(map(_size_of, value.values()))
    return 64 + sum(map(_size_of, value)) if isinstance(value, (list, tuple)) else 64
