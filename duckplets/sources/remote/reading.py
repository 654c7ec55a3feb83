"""Read the shards of a data set, in order, as batches of rows with a mark after each.

A table gathers rows across the ends of shards, so marks are told from the numbers of its rows:
the row after the last one lies in the shard that began before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.columns import names_of, portions
from duckplets.sources.formats import arrow_file, csv_file, json_file, parquet_file
from duckplets.sources.formats.json_keys import Keys, judged
from duckplets.sources.labels import Labels, named, of_features, of_schema
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.mapped_columns import require_texts, resolve, telling
from duckplets.sources.mapping import Mapped
from duckplets.sources.remote.cache import HeldShard, ShardCache, arrivals
from duckplets.sources.remote.download import Hub, HubFile, imported
from duckplets.sources.remote.layout import form_of
from duckplets.sources.row_batches import gather, pick, run, table_bytes
from duckplets.sources.row_provenance import Origins
from duckplets.sources.rows import Mark, checked_cursor

if TYPE_CHECKING:
    from duckplets.db.database import Database

_Read = Callable[[list[int], int], Iterator[pa.RecordBatch]]
"""Yields the columns at some places, without so many rows at the beginning."""

_Table = tuple[list[str], Labels, _Read]
"""The columns of a shard, the classes' names that it says itself, and what reads it."""

_NUMBER = range(1 << 63)
_PLACE = {"revision": str, "file": str, "row": _NUMBER, "done": _NUMBER, "keys?": {str: str}}
_LINES = ("lines", "json")  # the forms that are lines of JSON; the others have columns
_SLICE = 8_192  # rows of a piece; marks fall between pieces
_ROWS = 1_000  # of what datasets reads, at a time


@dataclass(frozen=True, slots=True)
class CursorStart:
    """Where reading begins: the values of a cursor.

    Attributes:
        revision: The commit to read; nothing for the newest.
        file: Path of the shard; nothing for the first.
        row: Rows of it that are done.
        done: Rows of all shards that are done.
        keys: Of lines of JSON, the keys met for names of the mapping.
    """

    revision: str = ""
    file: str = ""
    row: int = 0
    done: int = 0
    keys: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: Any, uri: str) -> CursorStart:
        """Return the start that a cursor names.

        Raises:
            SourceError: It is none of ours.
        """
        found = checked_cursor(cursor, _PLACE, uri) or {}
        return cls(**{part.name: found[part.name] for part in fields(cls) if part.name in found})


class ShardReading:
    """How the shards of a data set are read.

    Args:
        uri: Of the data set, for messages.
        mapping: Which column plays which part.
        labels: The names of classes, as the card has them.
        start: Where to begin.
    """

    def __init__(self, uri: str, mapping: Mapped, labels: Labels, start: CursorStart) -> None:
        self._uri, self._mapping, self._labels = uri, mapping, labels
        self._start = start
        self._begun: list[tuple[int, str, int]] = []  # of shards: a row's number, path, place
        self._typed = False
        self._origins = Origins()

    def batches(
        self, reader: Database, hub: Hub, cache: ShardCache, revision: str, files: Sequence[HubFile]
    ) -> Iterator[pa.RecordBatch | Mark]:
        """Yield the batches of a revision's files, each followed by a mark."""
        keys = Keys(reader, self._mapping, self._uri)
        keys.found.update(self._start.keys)
        keys.seen = list(self._start.keys.values())
        arriving = arrivals(
            cache,
            hub.repo,
            self._left(files),
            lambda file, part: hub.fetch(file, revision, part),
            hub.stop,
        )
        with closing(arriving) as shards:
            tables = gather(self._pieces(reader, shards), table_bytes(self._mapping))
            values = (self._values(reader, table, keys) for table in tables)
            for batch in run(reader, self._mapping, values, self._uri, origins=self._origins):
                yield batch
                done = batch["row"][-1].as_py()
                following = (shard for shard in reversed(self._begun) if shard[0] <= done + 1)
                number, file, row = next(following)
                place = row + done + 1 - number
                yield Mark(asdict(CursorStart(revision, file, place, done, keys.found)))
        if not self._typed:
            list(keys.check_all())

    def _left(self, files: Sequence[HubFile]) -> Sequence[HubFile]:
        """Return the files from the one that the start is in."""
        if not self._start.file:
            return files
        there = [file.path for file in files]
        if self._start.file not in there:
            raise SourceError(
                f"{self._uri}: the unfinished ingest stopped in {self._start.file}, which is not "
                f"one of its files; discard it with restart=True"
            )
        return files[there.index(self._start.file) :]

    def _pieces(
        self, reader: Database, shards: Iterator[tuple[HubFile, HeldShard]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the shards' rows with their numbers."""
        number, skip = self._start.done + 1, self._start.row
        for file, held in shards:
            shard = _Shard(held.path, form_of(file.path), f"{self._uri}: {file.path}")
            self._begun.append((number, file.path, skip))
            self._typed |= shard.form not in _LINES
            self._origins.begin(file.path, skip + 1 if shard.form == "lines" else None, number)
            pieces = shard.pieces(reader, self._mapping, self._labels, skip)
            for piece in self._origins.counted(pieces):
                rows = range(number, number + piece.num_rows)
                yield piece.append_column("row", pa.array(rows, pa.int64()))
                number += piece.num_rows
            skip = 0

    def _values(self, reader: Database, table: pa.Table, keys: Keys) -> pa.Table:
        """Return a table of columns: of lines of JSON, the values of their keys."""
        if "line" not in table.column_names:
            return table
        (lines,) = judged(reader, [table], self._uri)
        if not keys.seen and not self._start.done:
            keys.learn(lines)
            require_texts(self._mapping, keys.seen, self._uri, "HubSource")
            keys.check_parts()
        values = keys.values(lines)
        columns = [keys.found.get(name, name) for name in self._mapping.names()]
        classes = [self._labels.get(column) for column in columns]
        if not any(classes) or not values.num_rows:
            return values
        (batch,) = values.combine_chunks().to_batches()
        return pa.Table.from_batches([named(batch, classes, columns)])


class _Shard:
    """A shard that has arrived, read by its form: a key of ``layout.FORMS``, or nothing.

    In messages it is called ``shown``, instead of by its path in the cache.
    """

    def __init__(self, path: Path, form: str | None, shown: str) -> None:
        self.path, self.form, self.shown = path, form, shown

    def pieces(
        self, reader: Database, mapping: Mapped, labels: Labels, skip: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the first ``skip``: lines of JSON, or the mapping's columns.

        Columns are ``c0, c1, …``, and those of classes hold their names: the shard's own, else
        those that the card has, in ``labels``.
        """
        try:
            if self.form in _LINES:
                pieces = _after(json_file.pieces_of(reader, self.path), skip)
            else:
                pieces = self._columns(mapping, labels, skip, limits_of(reader))
            for piece in pieces:
                for start in range(0, piece.num_rows, _SLICE):
                    yield piece.slice(start, _SLICE)
        except SourceError as error:
            raise SourceError(str(error).replace(str(self.path), self.shown)) from error

    def _columns(
        self, mapping: Mapped, labels: Labels, skip: int, limits: Limits
    ) -> Iterator[pa.RecordBatch]:
        names, own, read = self._opened(mapping, limits)
        if len(names) > limits.columns:
            raise limits.exceeded(self.shown, f"{len(names):,} columns, more", "columns")
        require_texts(mapping, names, self.shown, "HubSource")
        places = resolve(mapping, names, self.shown)
        columns = [names[place] for place in places]
        classes = [(labels | own).get(column) for column in columns]
        for piece in telling(mapping, names, read(places, skip)):
            yield named(piece, classes, columns)

    def _opened(self, mapping: Mapped, limits: Limits) -> _Table:
        path = self.path
        if self.form == "parquet":
            schema = parquet_file.schema_of(path)
            read = partial(parquet_file.pieces_of, path, limits=limits)
            return (
                names_of(schema, self.shown),
                of_schema(schema),
                lambda places, skip: read(places, skip=skip),
            )
        if self.form == "arrow":
            schema = arrow_file.schema_of(path)
            skipping = _skipping(partial(arrow_file.pieces_of, path, limits=limits))
            return names_of(schema, self.shown), of_schema(schema), skipping
        if self.form == "csv":
            parts = {part.name: getattr(mapping, part.name) for part in fields(Mapped)}
            csv = csv_file.CsvSource(path, **parts)
            names = csv.header(path, limits)
            return names, {}, _skipping(lambda places: csv.pieces(path, names, places, limits))
        return _by_datasets(path, limits)


def _by_datasets(path: Path, limits: Limits) -> _Table:
    """Open a shard of another form with the loader that ``datasets`` has for it, streaming.

    The loader is given the shard in the cache, not the repository: what to read, at which revision
    and with which token has been settled by then. Scripts of repositories are never run.

    Raises:
        SourceError: There is no loader for it, or the loader fails.
    """
    datasets = imported("datasets")
    files = {"train": [path.name]}
    with _told(path):
        found = datasets.load_dataset(
            str(path.parent), data_files=files, split="train", streaming=True
        )
        rows = found.with_format("arrow")
        first = next(iter(rows.iter(batch_size=1)), None)

    def pieces(places: list[int]) -> Iterator[pa.RecordBatch]:
        with _told(path):
            for table in rows.iter(batch_size=_ROWS):
                for batch in table.select(places).combine_chunks().to_batches():
                    for part in portions(batch, str(path), limits):
                        yield pick(part, range(len(places)), str(path))

    names = [] if first is None else first.schema.names
    return names, of_features(found.features), _skipping(pieces)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn whatever a loader raises into one sentence."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = ": ".join([type(error).__name__, *lines[:1]])
        raise SourceError(f"{path} cannot be read by datasets either: {said}") from None


def _skipping(read: Callable[[list[int]], Iterator[pa.RecordBatch]]) -> _Read:
    return lambda places, skip: _after(read(places), skip)


def _after(pieces: Iterator[pa.RecordBatch], skip: int) -> Iterator[pa.RecordBatch]:
    """Yield what comes after the first ``skip`` rows of pieces."""
    for piece in pieces:
        if skip < piece.num_rows:
            yield piece.slice(skip)
        skip = max(skip - piece.num_rows, 0)
