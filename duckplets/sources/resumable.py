"""Make sources of files ones that go on at a row, each piece stored for good as it comes.

A place is a number of rows. To go on there the rows before it are read again and passed over, which
takes about as long as reading without storing; so files must not have changed meanwhile.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckplets.base.object_store import StoredObject
from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.documents import listed
from duckplets.sources.formats.text_file import TextFileSource
from duckplets.sources.mapping import EARLIER, Mapped
from duckplets.sources.mapping_record import described
from duckplets.sources.rows import Mark, Rows, checked_cursor

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.sources import Source

_PLACES = ("path", "folder")
# Settings that an unfinished ingest of an earlier version does not have, unless they are given.
_LATER = (
    *("date_format", "on_bad_date", "encoding", "titles", "on_error"),
    *("negative", "sections", "text_of", "created_at", "updated_at", "label", "labels"),
)


@dataclass(frozen=True, slots=True)
class _Wrapped:
    """What is said of a source holds of what wraps it, too."""

    source: Source

    @property
    def kind(self) -> str:
        """What sort of source it is."""
        return self.source.kind

    @property
    def uri(self) -> str | None:
        """Where it reads from."""
        return self.source.uri

    @property
    def trust(self) -> float | str | None:
        """Trust in the source, from 0 to 1, or the column that says it per row."""
        return self.source.trust

    def default_name(self) -> str:
        """Return the name it goes by when the user gives none."""
        return self.source.default_name()

    def described(self) -> dict[str, Any] | None:
        """Return how rows are read."""
        return described(self.source)


@dataclass(frozen=True, slots=True)
class Resumable(_Wrapped):
    """A source of files whose ingest, if it stops half-way, goes on at the row it stopped at.

    Attributes:
        source: A source of files or of a folder of texts.

    Raises:
        SourceError: It is none of these: what has no files that can be told to be the same cannot
            be read again from a row on.
    """

    def __post_init__(self) -> None:
        given = self.source
        if not isinstance(given, Mapped | TextFileSource) or not _place(given):
            raise SourceError(
                f"{type(given).__name__} does not read files, so it cannot go on at a row"
            )
        if str(_place(given)) == "-":
            raise SourceError("standard input cannot be read again, so it cannot go on at a row")

    def settings(self) -> dict[str, Any]:
        """Return how the files are read, with a digest of their paths, sizes and times of change.

        In place of its time of change an object of a store has its ETag.

        Raises:
            SourceError: A file is not there.
        """
        described = sorted(map(_identity, self._files()))
        digest = hashlib.blake2b(repr(described).encode(), digest_size=16).hexdigest()
        values = {
            field.name: _plain(getattr(self.source, field.name))
            for field in fields(self.source)  # type: ignore[arg-type] # checked to be one of two
            if field.name not in _PLACES
        }
        if isinstance(self.source, Mapped):
            values["on_error"] = self.source.on_error or "raise"
        later = [name for name in _LATER if values.get(name, "null") in (None, "null", EARLIER)]
        return {n: value for n, value in values.items() if n not in later} | {"files": digest}

    def open(self, reader: Database) -> Rows:
        """Open at the beginning."""
        return self.open_at(reader, None)

    def open_at(self, reader: Database, cursor: Any) -> Rows:
        """Open at a place; see ``duckplets.sources.ResumableSource``.

        Args:
            reader: An instance to run statements in.
            cursor: Of a ``Mark``, or None for the beginning.
        """
        self.start_of(cursor)
        return self.going_on(self.source.open(reader), cursor)

    def start_of(self, cursor: Any) -> int:
        """Return how many rows come before a place."""
        checked_cursor(cursor, {"rows": range(1 << 63)}, f"source {self.default_name()!r}")
        return 0 if cursor is None else int(cursor["rows"])

    def going_on(self, rows: Rows, cursor: Any, passed: int = 0) -> Rows:
        """Return opened rows from a place on, with the places at which they could go on.

        Args:
            rows: Of all files, or without those that come first.
            cursor: As for ``open_at``.
            passed: How many rows those files have.
        """
        return replace(rows, batches=_marked(rows.batches, self.start_of(cursor), passed))

    def _files(self) -> list[Path | StoredObject]:
        place = _place(self.source)
        if isinstance(self.source, TextFileSource):
            found = listed(place, self.source.pattern)
            return [found.folder / file for file in found.files]
        return paths.files(place)


def in_pieces(source: Source) -> Source:
    """Return a source that goes on at a row where it reads files, else the source itself."""
    files = isinstance(source, Mapped | TextFileSource) and _place(source)
    return Resumable(source) if files and str(_place(source)) != "-" else source


def is_local(source: Source) -> bool:
    """Return whether a source reads files of this machine, or its standard input."""
    if isinstance(source, Resumable | Whole):
        return isinstance(source, Resumable) or is_local(source.source)
    return isinstance(source, Mapped | TextFileSource) and _place(source) is not None


@dataclass(frozen=True, slots=True)
class Whole(_Wrapped):
    """A resumable source whose records are stored in one piece, or not at all.

    Attributes:
        source: What it reads.
    """

    def open(self, reader: Database) -> Rows:
        """Open it, without the places at which it could go on."""
        rows = self.source.open(reader)
        batches = (item for item in rows.batches if not isinstance(item, Mark))
        return replace(rows, batches=batches)


def _marked(
    batches: Iterator[pa.RecordBatch | Mark], start: int, row: int
) -> Iterator[pa.RecordBatch | Mark]:
    """Yield the rows after the first ``start``, with a mark after every batch."""
    for batch in batches:
        if isinstance(batch, Mark):
            continue
        row += batch.num_rows
        if row > start:
            fresh = min(row - start, batch.num_rows)
            yield batch.slice(batch.num_rows - fresh)
            yield Mark({"rows": row})


def _place(source: Any) -> Any:
    return next((getattr(source, name) for name in _PLACES if hasattr(source, name)), None)


def _identity(file: Path | StoredObject) -> tuple[str, tuple[int, int | str]]:
    """Return where a file lies, with its size and its time of change or ETag."""
    if isinstance(file, StoredObject):
        return str(file), (file.size, file.checksum)
    try:
        found = file.stat()
    except OSError as error:
        raise paths.unreadable(file, error) from error
    return str(file.absolute()), (found.st_size, found.st_mtime_ns)


def _plain(value: Any) -> Any:
    """Return a value of a source's field as JSON has it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return dict(value) if hasattr(value, "keys") else value
