"""Sources that are no files: records in memory, ``datasets``, query results."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import pyarrow as pa

from duckplets.base.sanitize import shown
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.errors import QueryError, SourceError
from duckplets.sources.limits import limits_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.names import resolve
from duckplets.sources.row_batches import opened, refused
from duckplets.sources.rows import MAX_BYTES, RowBlock, Rows, cursor_of, with_place
from duckplets.sources.typed import blocks_of, classes_of_features, names_of
from duckplets.sources.values import Fault, escaped

_WHERE = "records"
_MEMORY_ROWS = 1_024  # dictionaries in a block
_ROWS = 1_000  # rows of a data set's first batch; later batches have a few megabytes
_STREAM_ROWS = 512
_UUIDS = ("UUID", "UUID[]")


@dataclass(frozen=True, slots=True, eq=False)
class MemorySource(Mapped):
    """Dictionaries, or Arrow data; keys may differ, and numbers and texts may share a key."""

    records: Any
    """Iterable of dictionaries, or an object with ``__arrow_c_stream__``: an Arrow table, batch or
    reader, a frame of polars or pandas, a relation of DuckDB."""

    kind: ClassVar[str] = "memory"
    uri: ClassVar[str | None] = None
    in_pieces: ClassVar[bool] = False

    def default_name(self) -> str:
        """Return ``memory``."""
        return "memory"

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Check the columns, then read the records; an iterator is used up."""
        records, total = self.records, getattr(self.records, "num_rows", None)
        if hasattr(records, "columns") and (
            hasattr(records, "iloc") or hasattr(records, "to_series")
        ):
            blocks, total = _frame_blocks(self, records), len(records)
        elif hasattr(records, "__arrow_c_stream__"):
            blocks = table_blocks(self, *_streamed(records), _WHERE)
        elif isinstance(records, (str, bytes, Mapping)) or not isinstance(records, Iterable):
            raise SourceError(
                f"{type(records).__name__} records: give a list of dictionaries, one per record, "
                f"or an Arrow table"
            )
        else:
            blocks = _blocks(records)
            total = len(records) if isinstance(records, (list, tuple)) else None
        return opened(reader, self, blocks, _WHERE, total=total, marks=False)


def table_blocks(
    mapping: Mapped, names: list[str], batches: Iterable[pa.RecordBatch], where: str
) -> Iterator[RowBlock]:
    """Return the rows of Arrow data with columns of these names, after checking them."""
    blocks = blocks_of(batches, where, columns=resolve(mapping, names, where))
    return (block._replace(columns=names) for block in blocks)


def _streamed(records: Any) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """Return the column names and the batches of anything with ``__arrow_c_stream__``."""
    try:
        stream = pa.RecordBatchReader.from_stream(records)
        names = names_of(stream.schema, _WHERE)
    except SourceError:
        raise
    except Exception as error:
        reason = shown(" ".join(str(error).split()), 100)
        raise SourceError(
            f"{type(records).__name__} records cannot be read as a table: {reason}; give an Arrow "
            f"table or a frame with named columns"
        ) from error
    found = _guarded(((batch, None) for batch in stream), _WHERE, 0)
    return names, (batch for batch, _ in found)


def _frame_blocks(mapping: Mapped, frame: Any) -> Iterator[RowBlock]:
    """Yield the rows of a frame of pandas or polars, converting only columns that are read."""
    columns = _columns_of(frame)
    names = [name for name, _ in columns]
    arrays: dict[str, Any] = {}
    others: dict[str, Iterator[Any]] = {}
    for name in resolve(mapping, names, _WHERE):
        column = columns[names.index(name)][1]()
        try:
            if str(column.dtype) == "Object":  # of polars, which exports addresses
                raise TypeError(column.dtype)
            is_arrow = hasattr(column, "__arrow_c_stream__")
            arrays[name] = (
                pa.chunked_array(column) if is_arrow else pa.array(column, from_pandas=True)
            )
        except Exception:  # mixed types, or a type of the frame's own
            arrays[name], others[name] = pa.nulls(len(frame)), iter(column.to_list())
    for block in blocks_of(pa.table(arrays).to_batches(), _WHERE):
        if others:
            block = block._replace(rows=list(block.rows))
        for name, values in others.items():
            for row, value in zip(block.rows, values, strict=False):
                row[name] = value
        yield block._replace(columns=names)


def _columns_of(frame: Any) -> list[tuple[str, Callable[[], Any]]]:
    """Return names and values of a frame's columns; of pandas also named levels of its index."""
    names = [escaped(str(name)) for name in frame.columns]
    if not hasattr(frame, "iloc"):
        return [(name, partial(frame.to_series, i)) for i, name in enumerate(names)]
    index = frame.index
    found = [(n, partial(frame.iloc.__getitem__, (slice(None), i))) for i, n in enumerate(names)]
    levels = [(escaped(str(n)), i) for i, n in enumerate(index.names) if n is not None]
    return found + [(n, partial(index.get_level_values, i)) for n, i in levels if n not in names]


def row_of(record: Any) -> dict[str, Any] | Fault:
    """Return a record as a row."""
    if isinstance(record, dict):
        return record
    if isinstance(record, Mapping):
        return dict(record)
    return Fault("not an object")


def _blocks(records: Iterable[Any]) -> Iterator[RowBlock]:
    def batches() -> Iterator[tuple[list[Any], None]]:
        left = iter(records)
        while some := list(islice(left, _MEMORY_ROWS)):
            yield some, None

    for some, _ in _guarded(batches(), _WHERE, 0):
        yield RowBlock(list(map(row_of, some)))


# -- data sets of the library ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class DatasetSource(Mapped):
    """A ``datasets.Dataset`` or ``datasets.IterableDataset``.

    ``ClassLabel`` columns contain the names of the classes. An interrupted ingest of the same data
    set continues at the row where it stopped. A shuffled stream cannot continue.
    """

    dataset: Any
    """The data set."""

    kind: ClassVar[str] = "dataset"
    uri: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        found = self.dataset
        if not hasattr(found, "with_format") or not hasattr(found, "features"):
            splits = list(found) if hasattr(found, "keys") else []
            more = f"; choose one of {', '.join(map(repr, splits))}" if splits else ""
            kind = type(found).__name__
            raise SourceError(f"a {kind} is no datasets.Dataset or IterableDataset{more}")
        Mapped.__post_init__(self)

    @property
    def is_shuffled(self) -> bool:
        """Return whether its order changes while streaming, so that it cannot be resumed."""
        steps = [getattr(self.dataset, "_ex_iterable", None)]
        while steps:
            step = steps.pop()
            if step is None:
                continue
            if "Shuffle" in type(step).__name__ or "Randomly" in type(step).__name__:
                return True
            steps.append(getattr(step, "ex_iterable", None))
            steps.extend(getattr(step, "ex_iterables", ()))
        return False

    @property
    def in_pieces(self) -> bool:
        """Return whether an interrupted ingest of it can continue."""
        return not self.is_shuffled

    def default_name(self) -> str:
        """Return the name it was loaded by, or ``dataset``."""
        info = self.dataset.info
        name = str(info.dataset_name or info.builder_name or "dataset")
        return name.replace("/", "--")[:200] if name.isprintable() and name.strip() else "dataset"

    def settings(self) -> dict[str, Any]:
        """Return the identity of the data set and the mapping."""
        info, features = self.dataset.info, list(self.dataset.features or ())
        found: dict[str, Any] = {"name": info.dataset_name, "config": info.config_name}
        found |= {"split": str(self.dataset.split), "columns": features}
        if _streams(self.dataset):
            found["shards"] = self.dataset.num_shards
        else:
            found |= {"fingerprint": self.dataset._fingerprint, "rows": len(self.dataset)}
        return {"dataset": found, "mapping": self.read_settings()}

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Check the columns, and return the rows from a cursor on."""
        where = f"data set {self.default_name()!r}"
        if (getattr(self.dataset, "format", None) or {}).get("type") == "custom":
            raise SourceError(
                f"{where} has a transform, whose texts are not stored; apply it with "
                f"dataset.map(function), or take it off with dataset.with_format(None)"
            )
        place = cursor_of(cursor, where, (dict, None))
        features = self.dataset.features
        if features is not None:
            resolve(self, list(features), where)
        streams = _streams(self.dataset)
        start = place["rows"]
        batches = self._streamed(place["at"]) if streams else self._by_number(start)
        return opened(
            reader,
            self,
            self._blocks(batches, where, start),
            where,
            cursor=cursor,
            total=None if streams else len(self.dataset),
            known=True,
            marks=self.in_pieces,
        )

    def _blocks(
        self, batches: Iterator[tuple[Any, Any]], where: str, row: int
    ) -> Iterator[RowBlock]:
        features = self.dataset.features
        classes = classes_of_features(features.to_dict() if features else {})
        for found, at in _guarded(batches, where, row):
            if isinstance(found, list):
                row += len(found)
                yield RowBlock(found, at=at)
                continue
            names = found.schema.names
            used = resolve(self, names, where)
            parts = found.combine_chunks().to_batches()
            blocks = blocks_of(parts, where, columns=used, classes=classes, row=row)
            if found.num_rows:
                yield from with_place((block._replace(columns=names) for block in blocks), at)
            row += found.num_rows

    def _by_number(self, row: int) -> Iterator[tuple[pa.Table, Any]]:
        rows = self.dataset.with_format("arrow")
        count = _ROWS
        while row < len(rows):
            table = rows[row : row + count]
            row += table.num_rows
            yield table, {}  # a place to continue at: the number of rows is enough
            each = max(table.nbytes // max(table.num_rows, 1), 1)
            count = max(1, min(8 * _ROWS, MAX_BYTES // 8 // each))

    def _streamed(self, state: Any) -> Iterator[tuple[Any, Any]]:
        # Without features, datasets guesses the types of each batch from its rows, and
        # fails where they differ.
        known = self.dataset.features is not None
        rows = self.dataset.with_format("arrow" if known else None)
        if state is not None:
            rows.load_state_dict(state)
        for batch in rows.iter(batch_size=_ROWS):
            found = batch
            if not known:
                values = zip(*batch.values(), strict=True)
                found = [row_of(dict(zip(batch, each, strict=True))) for each in values]
            yield found, rows.state_dict()


def _guarded(batches: Iterator[tuple[Any, Any]], where: str, row: int) -> Iterator[tuple[Any, Any]]:
    """Yield batches; errors of the data set's code get the row number."""
    try:
        for found, at in batches:
            row += len(found)
            yield found, at
    except SourceError:
        raise
    except Exception as error:
        reason = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
        raise SourceError(f"{where}, after row {row}: {reason}") from error


def _streams(dataset: Any) -> bool:
    return hasattr(dataset, "load_state_dict")


# -- a query -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SqlSource(Mapped):
    """The rows of one SELECT over a DuckDB file, Parquet files, or anything DuckDB reads."""

    query: str
    """One SELECT in DuckDB's SQL."""
    database: str | PathLike[str] | None = field(default=None, kw_only=True)
    """DuckDB file whose tables the statement names; then the statement reads no other file."""

    kind: ClassVar[str] = "sql"
    in_pieces: ClassVar[bool] = False

    @property
    def uri(self) -> str | None:
        """Path of the database; statements may contain secrets."""
        return None if self.database is None else str(self.database)

    def default_name(self) -> str:
        """Return ``sql``."""
        return "sql"

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Check the statement and its columns, then stream its rows."""
        scan = _scanned(reader, self.database, self.query)
        try:
            blocks = table_blocks(self, next(scan), scan, "query")
        except BaseException:
            scan.close()
            raise
        return opened(reader, self, blocks, "query", marks=False)


def _scanned(
    reader: Database, database: str | PathLike[str] | None, text: str
) -> Generator[Any, None, None]:
    """Yield the columns of one SELECT, then its rows, over a connection of its own."""
    values = {"query": text}
    with closing(reader.cursor() if database is None else _opened(database)) as connection:
        try:
            found = connection.run("sources/sql_query/columns", values)
        except QueryError as error:
            raise SourceError(f"query: {error}") from error
        yield [name for name, *_ in found]
        uuids = {name for name, kind, *_ in found if kind in _UUIDS}
        statement = query("sources/sql_query/query")
        try:
            for batch in connection.stream(statement, values, rows=_STREAM_ROWS):
                yield _with_uuids(batch, uuids)
        except QueryError as error:
            raise refused(error, "query", limits_of(reader)) from error


def _opened(database: str | PathLike[str]) -> Database:
    """Open a DuckDB file alone, as its views and macros may read other files."""
    path = Path(os.path.expanduser(database))
    if not path.is_file():
        raise SourceError(f"{path} is not a file")
    try:
        return Database.only(path)
    except QueryError as error:
        raise SourceError(f"{path} cannot be opened: {error}") from error


def _with_uuids(batch: pa.RecordBatch, names: set[str]) -> pa.RecordBatch:
    """Return a batch with UUIDs in columns that DuckDB returns as text."""
    for at, name in enumerate(batch.schema.names):
        if name in names:
            column = batch.column(at)
            is_list = pa.types.is_list(column.type)
            each = [v and UUID(v).bytes for v in (column.values if is_list else column).to_pylist()]
            ids = pa.array(each, pa.binary(16)).cast(pa.uuid())
            if is_list:
                ids = pa.ListArray.from_arrays(column.offsets, ids)
            batch = batch.set_column(at, name, ids)
    return batch
