"""From shards to rows: in order, with a mark after every table.

A table gathers rows across the ends of shards, so marks are told from the numbers of its rows:
the row after the last one lies in the shard that began before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.base import Mapped, Mark, require_texts
from duckplets.sources.feed import gather, run, table_bytes
from duckplets.sources.hub.arrivals import arrivals
from duckplets.sources.hub.cache import Held, ShardCache
from duckplets.sources.hub.download import Hub, HubFile
from duckplets.sources.hub.layout import form_of
from duckplets.sources.hub.shards import LINES, Shard
from duckplets.sources.labels import Labels, named
from duckplets.sources.lines import Keys, judged

if TYPE_CHECKING:
    from duckplets.db.database import Database

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Start:
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
    def of(cls, cursor: Any, uri: str) -> Start:
        """Return the start that a cursor names.

        Raises:
            SourceError: It is none of ours.
        """
        if cursor is None:
            return cls()
        try:
            return cls(**cursor)
        except TypeError as error:
            raise SourceError(
                f"{uri}: the unfinished ingest was made by another version; discard it with "
                f"restart=True"
            ) from error

    def cursor(self) -> dict[str, Any]:
        """Return plain values for a ``Mark``."""
        return {
            "revision": self.revision,
            "file": self.file,
            "row": self.row,
            "done": self.done,
            "keys": self.keys,
        }


class _Places:
    """Which shard holds the row of a number."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._files: list[tuple[str, int]] = []

    def begin(self, number: int, file: str, skipped: int) -> None:
        """Note that a shard's row after the skipped ones has a number."""
        self._firsts.append(number)
        self._files.append((file, skipped))

    def find(self, number: int) -> tuple[str, int]:
        """Return the shard of a row, and how many of its rows come before."""
        at = bisect_right(self._firsts, number) - 1
        file, skipped = self._files[at]
        return file, skipped + number - self._firsts[at]


class Reading:
    """How the shards of a data set are read.

    Args:
        uri: Of the data set, for messages.
        mapping: Which column plays which part.
        labels: The names of classes, as the card has them.
        start: Where to begin.
    """

    def __init__(self, uri: str, mapping: Mapped, labels: Labels, start: Start) -> None:
        self._uri, self._mapping, self._labels = uri, mapping, labels
        self._start = start
        self._places = _Places()
        self._typed = False

    def batches(
        self, reader: Database, hub: Hub, cache: ShardCache, revision: str, files: Sequence[HubFile]
    ) -> Iterator[pa.RecordBatch | Mark]:
        """Yield the batches of a revision's files, each followed by a mark."""
        keys = Keys(reader, self._mapping, self._uri)
        keys.found.update(self._start.keys)
        keys.seen = list(self._start.keys.values())
        with closing(arrivals(hub, cache, revision, self._left(files))) as shards:
            tables = gather(self._pieces(reader, shards), self._uri, table_bytes(self._mapping))
            values = (self._values(reader, table, keys) for table in tables)
            for batch in run(reader, self._mapping, values, self._uri):
                yield batch
                done = batch["row"][-1].as_py()
                file, row = self._places.find(done + 1)
                yield Mark(Start(revision, file, row, done, dict(keys.found)).cursor())
        if not self._typed:
            list(keys.check_all())

    def _left(self, files: Sequence[HubFile]) -> Sequence[HubFile]:
        """Return the files from the one that the start is in."""
        if not self._start.file:
            return files
        paths = [file.path for file in files]
        if self._start.file not in paths:
            raise SourceError(
                f"{self._uri}: the unfinished ingest stopped in {self._start.file}, which is not "
                f"one of its files; discard it with restart=True"
            )
        return files[paths.index(self._start.file) :]

    def _pieces(
        self, reader: Database, shards: Iterator[tuple[HubFile, Held]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the shards' rows with their numbers."""
        number, skip = self._start.done + 1, self._start.row
        for file, held in shards:
            form = form_of(file.path)
            shard = Shard(held.path, form, f"{self._uri}: {file.path}")
            self._places.begin(number, file.path, skip)
            if form in LINES:
                pieces = shard.lines(reader, skip)
            else:
                self._typed = True
                pieces = shard.typed(self._mapping, self._labels, skip)
            for piece in pieces:
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
        if not any(classes):
            return values
        (batch,) = values.combine_chunks().to_batches() or [None]
        return pa.Table.from_batches([named(batch, classes, columns)]) if batch else values


class Begun(Iterator[T]):
    """Items after a look at the first of them: what is wrong from the start is said now.

    Args:
        items: Made one by one.
        stop: Makes the one that is waited for come to its end, for who needs no more of them.
    """

    def __init__(self, items: Iterator[T], stop: Callable[[], None]) -> None:
        self._items = chain(list(islice(items, 1)), items)
        self.stop = stop

    def __next__(self) -> T:
        return next(self._items)
