"""Read the files of a source in turn, after checking the columns of all.

A format is a class with two methods, ``look`` at a file and the ``blocks`` of its rows, and a line
in ``base/formats``.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from duckplets.base.formats import READERS
from duckplets.base.object_store import StoredObject, address_of
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.limits import limits_of, part_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.names import resolve
from duckplets.sources.remote.stores import arrivals, store_of
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import Blocks, Look, RowBlock, Rows, Stoppable

_Looked = tuple[Path | StoredObject, Path, Look, list[str]]
"""A file, where it lies on this machine, what it looks like, and the columns that are read."""


@dataclass(frozen=True, slots=True)
class Files(Mapped, ABC):
    """Arguments common to sources of files with columns, and how the files are read."""

    path: paths.Paths
    """File (also .gz and .zst), glob, or list of them; an address such as ``s3://bucket/key``,
    ``gs://…`` or ``az://…``, or a folder there."""
    in_pieces: bool = field(default=False, kw_only=True)
    """Whether records are stored in pieces as they come. An interrupted ingest then continues at
    the row where it stopped, if the files are the same."""

    @property
    def uri(self) -> str | None:
        """The path or address."""
        return paths.uri(self.path)

    def default_name(self) -> str:
        """Return the file's stem."""
        return paths.default_name(self.path)

    def __post_init__(self) -> None:
        Mapped.__post_init__(self)
        if hasattr(self, "encoding"):
            paths.codec_of(self.encoding)
        for each in self.path if isinstance(self.path, list | tuple) else [self.path]:
            if isinstance(each, str) and "://" in each:
                address_of(each, SourceError)

    def settings(self) -> dict[str, Any]:
        """Return how the files are read, with a digest of their paths, sizes and times."""
        names = ("encoding", "delimiter", "quote", "escape", "rows")
        how = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return self.read_settings() | how | {"files": digest_of(paths.files(self.path))}

    def look(self, file: Path, reader: Database) -> Look:
        """Return the columns of a file; nothing if its rows have keys of their own."""
        return Look()

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Return sentences on the counts of the files."""
        return []

    @abstractmethod
    def blocks(self, file: Path, look: Look, used: list[str], reader: Database) -> Blocks:
        """Yield the rows of a file with the columns used."""

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Check the columns of every file, then read them in turn."""
        files, stop = _arriving(self.path)
        looked: Iterable[_Looked] = (self._looked_at(*each, reader) for each in files)
        part = part_of(reader)
        counts = Counter[str]() if part is None else part.counts
        total: int | None = None
        if stop is None:  # they are here: each is looked at before the first is read
            looked = list(looked)
            rows_of = [look.rows for _, _, look, _ in looked]
            total = None if None in rows_of else sum(filter(None, rows_of))

        def blocks() -> Iterator[RowBlock]:
            for file, path, look, used in looked:
                partition = partition_of(str(file))
                columns, own = look.columns, used
                if partition and columns is not None:
                    own = [name for name in used if name in columns]
                    columns = [*columns, *partition.keys() - set(columns)]
                    partition = {n: partition[n] for n in used if n not in own}
                with called(path, file):
                    for block in self.blocks(path, look, own, reader):
                        if partition:
                            rows = [partition | r if isinstance(r, dict) else r for r in block.rows]
                            block = block._replace(rows=rows)
                        for name, number in block.counts.items():
                            counts[name.replace(str(path), str(file))] += number
                        yield block._replace(file=str(file), columns=columns)

        where = self.uri or ""
        how: Any = {"marks": self.in_pieces, "notes": lambda: self.notes(counts)}
        found = opened(reader, self, blocks(), where, cursor=cursor, total=total, **how)
        return Stoppable.of(found, stop)

    def _looked_at(self, file: Path | StoredObject, path: Path, reader: Database) -> _Looked:
        with called(path, file):
            look = self.look(path, reader)
        every = look.columns and list(dict.fromkeys((*look.columns, *partition_of(str(file)))))
        used = used_of(self, look._replace(columns=every), str(file), reader)
        return file, path, look, used


def reader_of(form: str) -> Any:
    """Return the class that reads a format of files."""
    module, _, name = READERS[form].reader.partition(":")
    return getattr(import_module(f"duckplets.sources.{module}"), name)


def partition_of(file: str) -> dict[str, str | None]:
    """Return the values that folders such as ``lang=en`` give to the rows of a file."""
    found = (_PARTITION.fullmatch(part) for part in file.split("/")[:-1])
    pairs = ((each[1], unquote(each[2])) for each in found if each)
    return {name: None if value == _NO_VALUE else value for name, value in pairs}


_PARTITION = re.compile(r"([A-Za-z_]\w*)=(.*)")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def used_of(mapping: Mapped, look: Look, where: str, reader: Database) -> list[str]:
    """Return the columns of a file that a mapping reads."""
    names, limits = look.columns, limits_of(reader)
    if names is None:
        return []
    if len(names) > limits.columns:
        raise limits.exceeded(where, f"{len(names):,} columns, more", "columns")
    return resolve(mapping, names, where)


def digest_of(each: Iterable[Path | StoredObject]) -> str:
    """Return a digest of files: paths, sizes, and times of change or ETags."""
    described = sorted(map(_identity, each))
    return hashlib.blake2b(repr(described).encode(), digest_size=16).hexdigest()


def _identity(file: Path | StoredObject) -> tuple[str, tuple[int, int | str]]:
    if isinstance(file, StoredObject):
        return str(file), (file.size, file.checksum)
    try:
        found = file.stat()
    except OSError as error:
        raise paths.unreadable(file, error) from error
    return str(file.absolute()), (found.st_size, found.st_mtime_ns)


def _arriving(
    places: paths.Paths,
) -> tuple[Iterable[tuple[Path | StoredObject, Path]], Callable[[], None] | None]:
    """Return the files of paths and addresses, each with a local path, and a way to stop them."""
    found = paths.files(places)
    objects = [each for each in found if isinstance(each, StoredObject)]
    if not objects:
        return [(each, each) for each in found if isinstance(each, Path)], None
    if len(objects) < len(found) or len({(each.scheme, each.bucket) for each in objects}) > 1:
        raise SourceError(
            f"{paths.uri(places)}: give files of one bucket, or of this machine alone"
        )
    store = store_of(objects[0].scheme, objects[0].bucket)
    return arrivals(objects, store.fetch, store.stop.set), store.stop.set


@contextmanager
def called(path: Path, file: Path | StoredObject | str) -> Iterator[None]:
    """Translate errors of reading a file into ours, with the user's name of the file."""
    try:
        with paths.reading(path):
            yield
    except SourceError as error:
        if path is file:
            raise
        raise type(error)(str(error).replace(str(path), str(file))) from error
