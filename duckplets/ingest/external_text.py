"""Leave texts in their Parquet files, and record where each one is.

files ─columns of strings, state→ placed_files, the view sections
rows ─places→ stored_sections ─at the end→ one sum of hashes, compared with that of the view

The decision that matters: ``sections`` is a view that reads every text where it is, so statements
that read texts are written once.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from duckplets.base.sanitize import counted, shown, size
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.external_files import FileState
from duckplets.errors import ChangedFileError, QueryError, SourceError
from duckplets.ingest.chunks import current_chunking
from duckplets.sources import Source
from duckplets.sources.formats.columnar import ParquetSource, opened
from duckplets.sources.formats.parquet_places import copied_bytes
from duckplets.sources.mapping import ROLES
from duckplets.sources.names import is_optional, match
from duckplets.sources.paths import local_files

INSTEAD = "leave out in_place=True (--in-place)"
_SERVED = "a snapshot copies none of them, and runs read them there"
_WORTH_TELLING = 1_000  # records
_GLOB = frozenset("*?[")  # pattern characters of DuckDB
_OWN = frozenset({"filename", "file_row_number", "file_index"})  # columns added by DuckDB

Columns = tuple[tuple[str | None, str, bool], ...]
"""For every heading its column, and whether that has lists; None for all headings."""


class PlacedFile(NamedTuple):
    """A file with texts, as recorded."""

    path: str  # as given; relative paths start at the corpus's folder
    state: FileState  # its identity
    columns: Columns  # columns with texts

    @classmethod
    def noted(cls, row: Sequence[Any]) -> PlacedFile:
        """Return one from its columns in ``placed_files``, from the path on."""
        path, size, modified, footer, columns = row
        found = tuple((h, str(c), bool(is_list)) for h, c, is_list in json.loads(columns))
        return cls(path, FileState(size, modified, footer), found)

    def row(self, key: int) -> dict[str, Any]:
        """Return the columns to store, by name."""
        columns = json.dumps(self.columns, ensure_ascii=False)
        return {"file_key": key, "path": self.path, "columns": columns, **asdict(self.state)}


def files_to_leave(
    database: Database, source: Source, pii: str | None
) -> list[tuple[PlacedFile, int, int]]:
    """Return the files of a source that its texts can stay in.

    Each comes with its rows, and with the bytes of texts that a snapshot copies.
    Statements may read them from now on. ``pii`` is what gates do about personal data.
    """
    if not isinstance(source, ParquetSource):
        raise SourceError(
            f"in_place=True leaves texts in Parquet files, and this source is of kind "
            f"{shown(source.kind)}; give a ParquetSource of local files, or {INSTEAD}"
        )
    makes = [
        f"{name}={getattr(source, name)!r}"
        for name in ("converter", "text_of", "sections")
        if getattr(source, name) is not None
    ]
    makes += ["a preprocessor of the corpus"] * bool(current_chunking(database).preprocessors)
    makes += ["pii='redact'"] * (pii == "redact")
    if makes:
        raise SourceError(
            f"{makes[0]} changes texts, so they cannot stay in their files: leave it out, or "
            f"{INSTEAD}"
        )
    corpus, found = Path(str(database.path)), []
    for file in local_files(source.path):
        with opened(file) as parquet:
            count = int(parquet.metadata.num_rows)
            columns = _columns(source, file, parquet.schema_arrow)
            copied = copied_bytes(parquet, [name for _, name, _ in columns])
        placed = PlacedFile(_path(file, corpus), external_files.state_of(file), columns)
        found.append((placed, count, copied))
    if len({file.path for file, *_ in found}) < len(found):
        raise SourceError(f"{source.uri} names a file twice; name each once, or {INSTEAD}")
    database.allow([external_files.located(file.path, corpus) for file, *_ in found])
    return found


def refuse_inside(database: Database, name: str) -> None:
    """Refuse to store texts of a source whose other texts stay in files."""
    if database.run("ingest/external_text/of_source", {"name": name})[0][0]:
        raise SourceError(
            f"the texts of source {shown(repr(name))} were left in their files: read it with "
            f"in_place=True (--in-place), or give another name"
        )


def _path(file: Path, corpus: Path) -> str:
    """Return the path to record."""
    path = os.path.abspath(file)
    if wrong := _GLOB & set(path):
        raise SourceError(f"{shown(path)} has a {min(wrong)!r} in it; rename it, or {INSTEAD}")
    return path if file.is_absolute() else os.path.relpath(path, external_files.folder_of(corpus))


def _columns(source: ParquetSource, file: Path, schema: pa.Schema) -> Columns:
    """Return the columns of a file that texts come from."""
    where, names = shown(str(file)), [str(name) for name in schema.names]
    folded = Counter(name.casefold() for name in names)
    if taken := sorted(_OWN & folded.keys()):
        raise SourceError(f"{where} has a column {taken[0]!r}, as DuckDB calls its own; {INSTEAD}")
    found = []
    for name in dict.fromkeys(name for part in ROLES for name in source.part(part)):
        places = match(name, names)
        kind = schema.field(places[0]).type if places else None
        is_list = isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType)
        if kind is None or not _is_text(kind.value_type if is_list else kind):
            raise SourceError(
                f"{where}: {shown(repr(name))} is no column of strings or of lists of strings "
                f"({kind or 'a path into one'}), which alone can be left in place; {INSTEAD}"
            )
        column = names[places[0]]
        if folded[column.casefold()] > 1:
            raise SourceError(f"{where} has columns that differ from {column!r} in case; {INSTEAD}")
        parts = sum(name in source.part(part) for part in ("positive", "context", "text"))
        if is_list and parts > 1:
            raise SourceError(f"{shown(repr(name))} has lists and plays two parts; {INSTEAD}")
        if is_list and source.null_values:
            raise SourceError(f"{shown(repr(name))} has lists, and null_values= is set; {INSTEAD}")
        heading = name[:-1] if is_optional(name, column) else name
        found.append((heading, column, is_list))
    return tuple(found)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pa.string(), pa.large_string(), pa.string_view())


class Placing:
    """The files of an ingest in place, from ``files_to_leave``."""

    def __init__(self, database: Database, found: Sequence[tuple[PlacedFile, int, int]]) -> None:
        self._database = database
        self._files = [file for file, *_ in found]
        self._copied = sum(copied for *_, copied in found)
        counts = np.array([rows for _, rows, _ in found], np.int64)
        self._starts = np.cumsum(counts) - counts
        self._keys = np.zeros(len(found), np.int32)
        self._first_section: int | None = None  # key
        self._gone: list[int] = []  # keys of changed files
        self._sums = (0, 0)  # number of new texts, and the sum of their hashes

    def begin(self, source_id: int, *, is_known: bool, remap: bool) -> None:
        """Record the files of a source, in a transaction.

        Raises:
            ChangedFileError: A file that the source was left in has changed; ``remap`` reads what
                there is now in place of it.
            SourceError: The texts of the source are in the corpus.
        """
        from duckplets.ingest.sections_view import refresh

        known: dict[PlacedFile, int] = {}
        last, has_files, corpus = 0, False, Path(str(self._database.path))
        for key, of_source, *row in self._database.run("ingest/external_text/files"):
            last, file = key, PlacedFile.noted(row)
            if of_source != source_id:
                continue
            has_files = True
            if file in self._files:
                known[file] = key
            elif why := external_files.change(
                external_files.located(file.path, corpus), file.state
            ):
                if not remap:
                    raise ChangedFileError(
                        f"{shown(file.path)} {why}, and texts of this source were left in it: put "
                        f"it back, or read all of it again with remap=True (--remap)"
                    )
                self._gone.append(key)
        if is_known and not (has_files or remap):
            raise SourceError(
                "the texts of this source are in the corpus: give remap=True (--remap) to read all "
                f"of it again, or {INSTEAD}"
            )
        # Files with equal columns get adjacent keys: one branch of the view reads them.
        fresh = sorted(set(self._files) - known.keys(), key=lambda f: (f.columns, f.path))
        keys = known | {file: last + 1 + i for i, file in enumerate(fresh)}
        self._keys[:] = [keys[file] for file in self._files]
        if fresh:
            new_files = pa.Table.from_pylist([file.row(keys[file]) for file in fresh])
            with self._database.registered(new_files=new_files):
                self._database.run("ingest/external_text/add_files", {"source_id": source_id})
        if fresh or self._gone:
            refresh(self._database, self._gone)

    def places(self, rows: pa.Array) -> dict[str, Any]:
        """Return file and row of rows by number, from 1."""
        numbers = rows.to_numpy() - 1
        at = np.searchsorted(self._starts, numbers, "right") - 1
        return {"file_key": self._keys[at], "file_row": numbers - self._starts[at]}

    def note(self, sections: pa.Table) -> None:
        """Add up the hashes of texts that are stored, for ``finish``."""
        if not sections.num_rows:
            return
        with self._database.registered(new_sections=sections.select(["section_key", "text"])):
            texts, total = self._database.run("ingest/external_text/sum_new")[0]
        self._sums = self._sums[0] + texts, self._sums[1] + total
        if self._first_section is None:
            self._first_section = sections["section_key"][0].as_py()

    def finish(self) -> None:
        """Forget the texts of changed files, and compare all new texts with their files."""
        from duckplets.ingest.sections_view import refresh

        if self._gone:
            gone = {"gone": self._gone}
            for step in ("mark_lost", "empty_lost", "forget_files"):
                self._database.run(f"ingest/external_text/{step}", gone)
            refresh(self._database)
        first = {"first": self._first_section}
        try:
            if self._sums != self._database.run("ingest/external_text/sum_stored", first)[0]:
                record = self._database.run("ingest/external_text/wrong", first)[0][0]
                raise SourceError(
                    f"the texts of record {shown(repr(record))} differ when they are read from "
                    f"their file; {INSTEAD}"
                )
        except QueryError as error:
            raise SourceError(f"texts cannot be left in place: {error}; {INSTEAD}") from error
        external_files.check(self._database)

    def corpus_size(self) -> int:
        """Return the bytes of the corpus file."""
        return Path(str(self._database.path)).stat().st_size

    def notes(self, added: int, before: int) -> list[str]:
        """Return in words what texts take in place, and the records without them."""
        grown = self.corpus_size() - before
        if added < _WORTH_TELLING or grown <= 0:
            return []  # DuckDB allocates blocks
        files = {file.path: file.state.size for file in self._files}
        how = _SERVED
        if self._copied:
            corpus = shown(Path(str(self._database.path)).name)
            how = f"a snapshot copies {size(self._copied)} of them, "
            how += f"unless duckplets prepare {corpus} --rewrite stores them for runs"
        return [
            f"texts stay in {counted(len(files), 'file')} of {size(sum(files.values()))}; the "
            f"corpus grew by {size(grown)}, {grown / added:,.0f} bytes a record, whatever the "
            f"length of its texts; {how}"
        ]
