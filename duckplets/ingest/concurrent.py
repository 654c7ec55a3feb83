"""Read several sources at the same time, and store them one after the other.

    source ─thread→ rows and marks ─→ files on disk, bounded ─┐
    source ─thread→ rows and marks ─→ files on disk, bounded ─┼─in the order given→ store
    source   (waits until one of the others is read)         ─┘

The decision that matters: what is read side by side is stored by the very path that a source takes
that is read alone, in the order in which sources were given. So nothing that is stored can depend
on which of them was quicker. Rows that wait are no part of the corpus: who is killed reads them
again from the mark that was committed last.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from duckplets.base.atomic import aside_of, remove, sweep
from duckplets.base.prefetch import Lookahead
from duckplets.base.sanitize import shown
from duckplets.db.database import Database
from duckplets.engine.work import QUIET, Work
from duckplets.errors import DuckpletsError, SourceError
from duckplets.ingest.distributed import Elsewhere
from duckplets.ingest.ingest import store
from duckplets.ingest.prepare import PreparedIngest, prepare, refuse_shuffled
from duckplets.ingest.records import IngestReport
from duckplets.sources import Mark, Rows, Source
from duckplets.sources.retry import Rereading, is_local

_MB = 10**6
_MOST_WAITING = 10_000  # batches and marks of a source: its bytes bound it before
_WAITING_SOURCES = 4  # of each reader, that are read or wait for their turn
_PATIENCE = 10.0  # seconds for a source's code to come to an end


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """How sources are read side by side.

    Attributes:
        readers: How many are read at the same time.
        retries: How often a source that fails by what may pass is read on from its last mark,
            without one more row coming.
        spool_mb: Of rows of a source that wait on disk, in 10^6 bytes; then its reading waits.
    """

    readers: int = 4
    retries: int = 5
    spool_mb: float = 256

    def __post_init__(self) -> None:
        """Check every setting."""
        for name, least in (("readers", 1), ("retries", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1000:
                raise SourceError(f"{name}={value!r}: give a whole number from {least} to 999")
        value = self.spool_mb
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value < 1e9:
            raise SourceError(f"spool_mb={value!r}: give a number of 10^6 bytes above 0")


def prepare_beside(database: Database, source: Source, **asked: Any) -> PreparedIngest:
    """Prepare an ingest of a source that may be read again; see ``prepare``.

    Raises:
        SourceError: It is refused, or shuffled as it streams.
    """
    refuse_shuffled(source)
    return prepare(database, source, **asked)


def store_beside(
    database: Database,
    several: Sequence[PreparedIngest],
    how: Beside,
    work: Work = QUIET,
) -> Generator[tuple[PreparedIngest, IngestReport | DuckpletsError], None, None]:
    """Store sources that were prepared, in their order, while those that follow are being read.

    Whoever does not want the next one after an error closes the iterator. It ends all threads,
    and leaves no file that waits.

    Args:
        database: The corpus.
        several: What to read; no two have one name.
        how: How many are read at the same time, and what may wait.
        work: Reads files, in place of threads, and makes the rows of all sources ready.
    """
    elsewhere = Elsewhere(work.engine, database, several)
    here = [prepared for prepared in several if not elsewhere.reads(prepared)]
    readers = _Readers(database, here, how)
    try:  # no with: Ctrl-C while they begin has to end them as well
        readers.begin()
        for prepared in several:
            try:
                with (
                    readers.turn(prepared) as read,
                    elsewhere.turn(prepared, read) as rows,
                ):
                    report = store(database, prepared, work, rows=rows)
            except DuckpletsError as error:
                yield prepared, error
            else:
                yield prepared, report
    finally:
        elsewhere.close()
        readers.close()


class _Waiting(NamedTuple):
    """A batch in a file."""

    path: Path
    size: int

    def taken(self) -> pa.RecordBatch:
        """Return the batch; its file goes when nobody needs it any more."""
        with pa.memory_map(str(self.path)) as file:
            batch = pa.ipc.open_stream(file).read_next_batch()
        with suppress(OSError):
            self.path.unlink()
        return batch


def _weight(item: Rows | Mark | _Waiting) -> int:
    return item.size if isinstance(item, _Waiting) else 1


class _Ahead:
    """The rows of a source, read in a thread of its own and kept in files until they are wanted.

    Args:
        prepared: What is read.
        folder: For the files; made when there is one.
        how: What may wait.
        ended: Called once when it is read to its end, has failed or was stopped.
    """

    def __init__(
        self, prepared: PreparedIngest, folder: Path, how: Beside, readers: _Readers
    ) -> None:
        self._name, self._folder, self._readers = prepared.request.name, folder, readers
        self.is_reading = False
        self._reading = Rereading(
            self._name,
            prepared.open,
            prepared.cursor,
            prepared.limits,
            retries=how.retries,
            is_local=is_local(prepared.request.source),
        )
        items = self._items()
        self.coming: Lookahead[Rows | Mark | _Waiting] = Lookahead(
            repeat(partial(next, items)),
            f"duckplets-beside-{self._name}",
            most=_MOST_WAITING,
            most_bytes=int(how.spool_mb * _MB),
            weigh=_weight,
            stop=self._reading.stop,
            finish=items.close,
            patience=_PATIENCE,
        )

    def rows(self) -> Rows:
        """Return the rows as they come, waiting until the source is open."""
        opened = next(self.coming)
        if not isinstance(opened, Rows):
            raise TypeError("a source comes before its rows")
        return Rows(
            _TakenBatches(self.coming), opened.defaults, opened.total, self._rejected, self._notes
        )

    def close(self) -> None:
        """End the reading, and remove what waits."""
        self.coming.close()
        remove(self._folder)
        self._readers.ended(self)

    def _rejected(self) -> dict[str, int]:
        self.coming.close()  # where a cap ends the source it is still being read
        return self._reading.rows.rejected() if self._reading.rows else {}

    def _notes(self) -> list[str]:
        self.coming.close()
        return [*(self._reading.rows.notes() if self._reading.rows else ()), *self._reading.notes]

    def _items(self) -> Generator[Rows | Mark | _Waiting, None, None]:
        numbers = count()
        try:
            with closing(self._reading.items()) as items:
                for item in items:
                    is_batch = isinstance(item, pa.RecordBatch)
                    yield self._written(item, next(numbers)) if is_batch else item
        finally:
            self._readers.ended(self)

    def _written(self, batch: pa.RecordBatch, number: int) -> _Waiting:
        path = self._folder / f"{number}.arrow"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with pa.OSFile(str(path), "wb") as file:
                with pa.ipc.new_stream(file, batch.schema) as stream:
                    stream.write_batch(batch)
                return _Waiting(path, max(file.tell(), 1))
        except OSError as error:
            raise SourceError(
                f"source {self._name!r}: its rows cannot wait for their turn in {self._folder}: "
                f"{shown(error.strerror or error)}; make room there, or give a smaller spool_mb="
            ) from error


class _TakenBatches(Iterator[pa.RecordBatch | Mark]):
    """Batches and marks of what comes, the batches out of their files."""

    def __init__(self, coming: Lookahead[Rows | Mark | _Waiting]) -> None:
        self._coming = coming
        self.stop = coming.stop

    def __next__(self) -> pa.RecordBatch | Mark:
        item = next(self._coming)
        return item.taken() if isinstance(item, _Waiting) else item


class _Readers:
    """Has sources read in their order, some at the same time, each before its turn.

    No more than ``_WAITING_SOURCES`` for each reader are read or wait, so what waits on disk is
    bounded for any number of sources. The first that is not stored yet has always begun: readers
    take sources in order, and one that has come to its end gives its place to the next.
    """

    def __init__(self, database: Database, several: Sequence[PreparedIngest], how: Beside) -> None:
        beside = Path(f"{os.path.realpath(str(database.path))}.rows")
        sweep(beside)
        self._folder = aside_of(beside)
        self._how = how
        self._each = {
            id(prepared): _Ahead(prepared, self._folder / str(number), how, self)
            for number, prepared in enumerate(several)
            if not prepared.is_full
        }
        self._left = iter(list(self._each.values()))
        self._lock = threading.RLock()  # a thread that is dropped may end where one begins
        self._reading = self._waiting = 0
        self._is_over = False

    def close(self) -> None:
        """End all of them, and remove what waits."""
        with self._lock:
            self._is_over = True
        left = list(self._each.values())
        if left:  # together: each may wait for somebody's code
            with ThreadPoolExecutor(len(left)) as pool:
                list(pool.map(_Ahead.close, left))
        remove(self._folder)

    @contextmanager
    def turn(self, prepared: PreparedIngest) -> Iterator[Rows | None]:
        """Give the rows of a source, None where nothing is to be read, and end it afterwards."""
        ahead = self._each.get(id(prepared))
        if ahead is None:
            yield None
            return
        try:
            yield ahead.rows()
        finally:
            ahead.close()
            with self._lock:
                del self._each[id(prepared)]
                self._waiting -= 1
                self.begin()

    def ended(self, ahead: _Ahead) -> None:
        """Note that a source is read no more, and let the next one begin."""
        with self._lock:
            if ahead.is_reading:
                ahead.is_reading = False
                self._reading -= 1
                self.begin()

    def begin(self) -> None:
        """Have as many sources read as may be."""
        with self._lock:
            most = self._how.readers * _WAITING_SOURCES
            while not self._is_over and self._reading < self._how.readers and self._waiting < most:
                ahead = next(self._left, None)
                if ahead is None:
                    return
                ahead.is_reading = True
                self._reading += 1
                self._waiting += 1
                ahead.coming.begin()
