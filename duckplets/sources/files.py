"""Read the files of a source in turn: their columns are looked at before the first row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.object_store import StoredObject, address_of
from duckplets.errors import SourceError
from duckplets.sources.arrivals import arrivals
from duckplets.sources.limits import limits_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.names import known_fields, require_texts, resolve
from duckplets.sources.paths import Paths, default_name, files, unreadable, uri
from duckplets.sources.remote.stores import store_of
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import RowBlock, Rows, Stoppable

if TYPE_CHECKING:
    from duckplets.db.database import Database

_Looked = tuple[Path | StoredObject, Path, list[str], list[str]]
"""A file, where it lies on this machine, its columns, and those that are read."""


@dataclass(frozen=True, slots=True)
class Files(Mapped):
    """The arguments common to sources of files with columns, and how they are opened in turn."""

    path: Paths
    """File (also .gz and .zst), glob, or list of them; ``s3://bucket/key``, ``gs://`` or ``az://``
    so, or a folder there."""
    in_pieces: bool = field(default=False, kw_only=True)
    """Whether records are stored in pieces as they come, so that an ingest that stops half-way
    goes on at the row it stopped at, if the files are the same."""

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

    def settings(self) -> dict[str, Any]:
        """Return how the files are read, with a digest of their paths, sizes and times of change.

        In place of its time of change an object of a store has its ETag.

        Raises:
            SourceError: A file is not there.
        """
        written = [
            each.name for each in fields(self) if each.name in ("encoding", "delimiter", "quote")
        ]
        how = {name: getattr(self, name) for name in written}
        return self.read_settings() | how | {"files": digest_of(files(self.path))}

    def of_columns(
        self,
        reader: Database,
        cursor: Any,
        names_of: Callable[[Path], list[str]],
        read: Callable[[Path, list[str], list[str]], Iterable[RowBlock]],
        total: Callable[[], int | None] = lambda: None,
    ) -> Rows:
        """Return the rows of files with columns.

        Args:
            reader: An instance to run statements in.
            cursor: Of a ``Mark``, or None for the beginning.
            names_of: Looks at the columns of a file.
            read: Yields rows of a file with names, of the columns that are used.
            total: After a look at all files, how many rows they have.

        Raises:
            SourceError: A file cannot be read, or a column is not there.
        """
        limits, known = limits_of(reader), known_fields(self)

        def looked_at(file: Path | StoredObject, path: Path) -> _Looked:
            with called(path, file):
                names = names_of(path)
            if len(names) > limits.columns:
                raise limits.exceeded(str(file), f"{len(names):,} columns, more", "columns")
            require_texts(self, names, str(file), type(self).__name__)
            return file, path, names, resolve(self, names, str(file))

        brought = LocalFiles(self.path)
        looked: Iterable[_Looked] = (looked_at(*each) for each in brought)
        if not brought.is_remote:  # all of them, before the first is read
            looked = list(looked)

        def blocks() -> Iterator[RowBlock]:
            for file, path, names, used in looked:
                others = [name for name in names if name.lower() not in known] if known else []
                with called(path, file):
                    for block in read(path, names, used):
                        yield block._replace(file=str(file), columns=names, left_out=others)

        count = None if brought.is_remote else total()
        return self.rows(reader, cursor, blocks(), brought, count)

    def rows(
        self,
        reader: Database,
        cursor: Any,
        blocks: Iterator[RowBlock],
        brought: LocalFiles,
        total: int | None = None,
    ) -> Rows:
        """Return the rows of blocks, which can be stopped while a file is being brought."""
        where = self.uri or ""
        rows = opened(reader, self, blocks, where, cursor=cursor, total=total, marks=self.in_pieces)
        return Stoppable.of(rows, brought.stop)


def digest_of(each: Iterable[Path | StoredObject]) -> str:
    """Return a digest of where files lie, of their sizes and times of change or ETags."""
    described = sorted(map(_identity, each))
    return hashlib.blake2b(repr(described).encode(), digest_size=16).hexdigest()


def _identity(file: Path | StoredObject) -> tuple[str, tuple[int, int | str]]:
    if isinstance(file, StoredObject):
        return str(file), (file.size, file.checksum)
    try:
        found = file.stat()
    except OSError as error:
        raise unreadable(file, error) from error
    return str(file.absolute()), (found.st_size, found.st_mtime_ns)


class LocalFiles(Iterator[tuple[Path | StoredObject, Path]]):
    """The files that paths and addresses name, each with where it lies on this machine.

    Objects are brought to a folder of the moment, one ahead of reading. One stays until the next
    is asked for.

    Attributes:
        is_remote: Whether they are objects of stores.

    Raises:
        SourceError: As for ``files``; or some are objects and others are not.
    """

    def __init__(self, paths: Paths) -> None:
        found = files(paths)
        objects = [each for each in found if isinstance(each, StoredObject)]
        self.is_remote, self.stop = bool(objects), None
        if not objects:
            here = [each for each in found if isinstance(each, Path)]
            self._files: Iterator[tuple[Path | StoredObject, Path]] = zip(here, here, strict=True)
            return
        if len(objects) < len(found) or len({(each.scheme, each.bucket) for each in objects}) > 1:
            raise SourceError(f"{uri(paths)}: give files of one bucket, or of this machine alone")
        store = store_of(objects[0].scheme, objects[0].bucket)
        self.stop = store.stop.set
        self._files = arrivals(objects, store.fetch, store.stop)

    def __next__(self) -> tuple[Path | StoredObject, Path]:
        return next(self._files)


@contextmanager
def called(path: Path, file: Path | StoredObject | str) -> Iterator[None]:
    """Let errors about what was brought to a path name the file."""
    try:
        yield
    except SourceError as error:
        if path is file:
            raise
        raise type(error)(str(error).replace(str(path), str(file))) from error
