"""Bring the files of a source to this machine, look at their columns, and read them in turn.

    paths, globs ────→ files ──────────────────────────────────→ columns, all looked at first
    s3://bucket/… ─listed→ objects ─one ahead, to the cache→ files ─→ columns, of each in turn

The decision that matters: an object becomes a file on disk in one place, ``LocalFiles``, before
anything is read of it. DuckDB's own way to S3 is an extension that cannot be installed offline,
and lines, encodings, limits and pages are read here by code for files, some of it mapping them
into memory. Read through a stream of ranges, each of these would need a second form, and whatever
broke off would be read again from its beginning. In the cache, of ``DUCKPLETS_CACHE`` and
``DUCKPLETS_CACHE_LIMIT``, a file is whole or goes on at its last byte; two are held at a time, and
memory is that of reading files. A file's own ETag names it there, so nothing can be mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from duckplets.base.object_store import Store, StoredObject, address_of
from duckplets.errors import PassingError, SourceError
from duckplets.sources.limits import limits_of
from duckplets.sources.mapped_columns import require_texts, resolve, telling
from duckplets.sources.mapping import Mapped
from duckplets.sources.paths import Paths, default_name, files, uri
from duckplets.sources.remote.cache import arrivals, default_cache
from duckplets.sources.row_batches import rows_of
from duckplets.sources.row_provenance import Origins
from duckplets.sources.rows import Begun, Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database

_Placed = tuple[Path | StoredObject, Path, list[str], list[int]]
"""A file, where it lies on this machine, its columns, and the places of those that are named."""


@dataclass(frozen=True, slots=True)
class Files(Mapped):
    """The arguments common to sources of files with columns, and how they are opened in turn."""

    path: Paths
    """File (also .gz and .zst), glob, or list of them; ``s3://bucket/key``, or a folder there."""

    @property
    def uri(self) -> str | None:
        """Where it reads from."""
        return uri(self.path)

    def default_name(self) -> str:
        """Return the file's stem."""
        return default_name(self.path)

    def __post_init__(self) -> None:
        Mapped.__post_init__(self)
        for each in self.path if isinstance(self.path, list | tuple) else [self.path]:
            if isinstance(each, str) and "://" in each:
                address_of(each, SourceError)

    def of_columns(
        self,
        reader: Database,
        names_of: Callable[[Path], list[str]],
        read: Callable[[Path, list[str], list[int]], Iterable[pa.RecordBatch]],
        total: Callable[[], int | None] = lambda: None,
    ) -> Rows:
        """Return the rows of files with columns.

        Args:
            reader: An instance to run statements in.
            names_of: Looks at the columns of a file.
            read: Yields the columns at some places of a file with names.
            total: After a look at all files, how many rows they have.

        Raises:
            SourceError: A file cannot be read, or a column is not there.
        """
        limits = limits_of(reader)

        def looked_at(file: Path | StoredObject, path: Path) -> _Placed:
            with called(path, file):
                names = names_of(path)
            if len(names) > limits.columns:
                raise limits.exceeded(str(file), f"{len(names):,} columns, more", "columns")
            require_texts(self, names, str(file), type(self).__name__)
            return file, path, names, resolve(self, names, str(file))

        brought = LocalFiles(self.path)
        placed: Iterable[_Placed] = (looked_at(*each) for each in brought)
        if not brought.is_remote:  # all of them, before the first is read
            placed = list(placed)
        pieces = (
            (file, telling(self, names, named(file, path, read(path, names, places))))
            for file, path, names, places in placed
        )
        return self.rows(reader, pieces, brought, None if brought.is_remote else total())

    def rows(
        self,
        reader: Database,
        files: Iterable[tuple[Path | StoredObject, Iterable[pa.RecordBatch]]],
        brought: LocalFiles,
        total: int | None = None,
        line: int | None = None,
    ) -> Rows:
        """Return the rows of the files, each with its pieces of input.

        Args:
            reader: An instance to run statements in.
            files: Opened when they are asked for.
            brought: What brings them.
            total: How many rows they have.
            line: That the first row of a file is, where each row is a line.
        """
        origins = Origins()
        pieces = (p for file, parts in files for p in origins.reading(str(file), parts, line))
        rows = rows_of(reader, self, pieces, self.uri or "", origins)
        return brought.opened(Rows(rows, self.defaults(), total))


class LocalFiles(Iterator[tuple[Path | StoredObject, Path]]):
    """The files that paths and addresses name, each with where it lies on this machine.

    Objects are brought to the cache one ahead of reading. One stays until the next is asked for.

    Attributes:
        is_remote: Whether they are objects of stores.

    Raises:
        SourceError: As for ``files``; or some are objects and others are not.
    """

    def __init__(self, paths: Paths) -> None:
        found = files(paths)
        objects = [each for each in found if isinstance(each, StoredObject)]
        self.is_remote = bool(objects)
        if not objects:
            here = [each for each in found if isinstance(each, Path)]
            self._files: Iterator[tuple[Path | StoredObject, Path]] = zip(here, here, strict=True)
            return
        if len(objects) < len(found) or len({each.bucket for each in objects}) > 1:
            raise SourceError(f"{uri(paths)}: give files of one bucket, or of this machine alone")
        store = Store(objects[0].bucket, SourceError, PassingError)
        self._store = store
        arriving = arrivals(
            default_cache(), f"s3://{store.bucket}", objects, store.fetch, store.stop
        )
        self._files = ((each, held.path) for each, held in arriving)

    def __next__(self) -> tuple[Path | StoredObject, Path]:
        return next(self._files)

    def opened(self, rows: Rows) -> Rows:
        """Return rows of these files so that whoever needs no more can stop what is arriving."""
        if not self.is_remote:
            return rows
        return replace(rows, batches=Begun(rows.batches, self._store.stop.set))


@contextmanager
def called(path: Path, file: Path | StoredObject) -> Iterator[None]:
    """Let errors about what was brought to a path name the file."""
    try:
        yield
    except SourceError as error:
        if path is file:
            raise
        raise type(error)(str(error).replace(str(path), str(file))) from error


def named(
    file: Path | StoredObject, path: Path, pieces: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield pieces of a file that lies at a path; errors name the file."""
    with called(path, file):
        yield from pieces
