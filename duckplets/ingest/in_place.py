"""Leave the texts of Parquet files where they are, and note where each of them is.

    files ─placing→ placed_files ─refresh→ the view sections      rows ─places→ stored_sections

The decision that matters: ``sections`` is a view that reads each text where it is, so whatever
reads texts is written once. It is made of a branch for the texts in the corpus and one for every
run of files with the same columns. At the end of an ingest every text is read back through it and
compared with the hashes of what came in.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.shown import counted, shown
from duckplets.db import placed
from duckplets.db.database import Database
from duckplets.db.placed import State
from duckplets.errors import ChangedFileError, QueryError, SourceError
from duckplets.ingest.chunks import current_chunking
from duckplets.ingest.unfinished import UNPUBLISHED
from duckplets.sources import ParquetSource, Source
from duckplets.sources.base import ROLES
from duckplets.sources.mapped_columns import match
from duckplets.sources.parquet_file import opened
from duckplets.sources.paths import files as files_of

_CHECKED = 200_000  # sections that are read back at once
_GLOB = frozenset("*?[")  # DuckDB takes them for patterns
_OWN = frozenset({"filename", "file_row_number", "file_index"})  # columns that DuckDB adds
_INSTEAD = "leave out in_place=True (--in-place)"

Columns = tuple[tuple[str, str, bool], ...]
"""For every heading its column, and whether that has lists."""


class _File(NamedTuple):
    """A file, as it is noted."""

    path: str
    state: State
    columns: Columns


class Placing:
    """The files of an ingest that leaves their texts in them.

    Args:
        database: The corpus.
        source: Whose files they are.
        rows: How many each has.
        found: The files in their order.

    Attributes:
        gone: Keys of files that have changed, whose texts were to be found again.
    """

    def __init__(
        self, database: Database, source: ParquetSource, rows: Sequence[int], found: Sequence[_File]
    ) -> None:
        self._database, self._source, self._found = database, source, found
        self._starts = np.array([0, *accumulate(rows)][:-1], np.int64)
        self._keys = np.zeros(len(found), np.int32)
        self._first = 0  # key of the files that are new
        self.gone: list[int] = []

    def begin(self, source_id: int, *, in_pieces: bool) -> None:
        """Note the files, inside the transaction that stores what they have.

        Args:
            source_id: Of the source.
            in_pieces: Whether it is one of several: then all files have to be what they were.

        Raises:
            ChangedFileError: They are not.
        """
        from duckplets.ingest.sections_view import refresh

        corpus = Path(str(self._database.path))
        known: dict[_File, int] = {}
        last = 0
        for key, of_source, *noted in self._database.run("ingest/in_place/files"):
            last, file = key, _noted(noted)
            if of_source == source_id and file in self._found:
                known[file] = key
            elif of_source == source_id and (
                file.path in {new.path for new in self._found}
                or placed.change(placed.located(file.path, corpus), file.state)
            ):
                self.gone.append(key)
                if in_pieces:
                    raise ChangedFileError(
                        f"{shown(file.path)} has changed since texts were left in it, and rows "
                        f"that gates have judged are not judged again: remove the source, and "
                        f"read it anew"
                    )
        self._first = last + 1
        # Files with the same columns side by side: a branch of the view reads all of them.
        fresh = sorted(set(self._found) - known.keys(), key=lambda file: file.columns)
        keys = known | {file: self._first + i for i, file in enumerate(fresh)}
        self._keys[:] = [keys[file] for file in self._found]
        if fresh:
            added = pa.Table.from_pylist([_row(file, keys[file]) for file in fresh])
            with self._database.registered(new_files=added):
                self._database.run("ingest/in_place/add_files", {"source_id": source_id})
        refresh(self._database, self.gone)

    def places(self, rows: pa.Array) -> dict[str, Any]:
        """Return file and row of each row of the source, by its number from 1."""
        numbers = rows.to_numpy() - 1
        at = np.searchsorted(self._starts, numbers, "right") - 1
        return {"file_key": self._keys[at], "file_row": numbers - self._starts[at]}

    def move(self, batch: pa.RecordBatch, ids: pa.Array) -> None:
        """Note where the texts of records are that are known with the same content."""
        rows = self.places(batch["row"])
        if not batch.num_rows or int(rows["file_key"].max()) < self._first:
            return
        counts = pc.list_value_length(batch["sections"]).to_numpy(zero_copy_only=False)
        flat = batch["sections"].flatten()
        columns = {name: np.repeat(values, counts) for name, values in rows.items()}
        columns["position"] = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
        columns |= {name: flat.field(name) for name in ("role", "heading")}
        columns["record_id"] = ids.take(pc.list_parent_indices(batch["sections"]))
        with self._database.registered(moved=pa.table(columns)):
            given = {"gone": self.gone, "unpublished": UNPUBLISHED}
            self._database.run("ingest/in_place/move", given)

    def finish(self) -> None:
        """Let go what files that have changed had, and read every text back.

        Raises:
            ChangedFileError: Live records have texts in files that have changed, and came not again.
            SourceError: A text is read otherwise than it came.
        """
        from duckplets.ingest.sections_view import refresh

        gone = {"gone": self.gone}
        if self.gone:
            lost, record, path = self._database.run("ingest/in_place/lost", gone)[0]
            if lost:
                raise ChangedFileError(
                    f"{counted(lost, 'record')} had texts in {shown(path)}, which has changed or "
                    f"is gone, and came not again with the same content (the first is "
                    f"{shown(record)}); put the file back, or give remap=True (--remap), which "
                    f"removes records that are no more"
                )
            for step in ("mark_lost", "empty_lost", "forget_files"):
                self._database.run(f"ingest/in_place/{step}", gone)
            refresh(self._database)
        try:
            wrong = next(self._wrong(), None)
        except QueryError as error:
            raise self._unfit(f"DuckDB reads it otherwise: {error}") from error
        if wrong is not None:
            raise self._unfit(f"the texts of record {shown(wrong)} are read from it otherwise")
        for file in self._found:  # what was read is what is noted
            path = placed.located(file.path, Path(str(self._database.path)))
            if why := placed.change(path, file.state):
                raise self._unfit(f"{shown(path)} {why}: it changed while it was being read")

    def _wrong(self) -> Iterator[str]:
        """Yield records whose texts are not read as they came."""
        low, last = self._database.run("ingest/in_place/ends", {"first": self._first})[0]
        while low is not None and low <= last:
            span = {"first": self._first, "low": low, "high": low + _CHECKED - 1}
            count, record = self._database.run("ingest/in_place/wrong", span)[0]
            if count:
                yield str(record)
            low += _CHECKED

    def _unfit(self, why: str) -> SourceError:
        return SourceError(
            f"{shown(self._source.uri or '')} cannot be left in place: {why}; {_INSTEAD}"
        )


def placing_of(database: Database, source: Source, pii: str | None) -> Placing:
    """Check that the texts of a source can stay in its files, and let statements read these.

    Args:
        database: The corpus.
        source: What is read.
        pii: What gates do about personal data.

    Raises:
        SourceError: They cannot; the message says why.
        CorpusLockedError: The corpus is open a second time in this process.
    """
    if not isinstance(source, ParquetSource):
        raise SourceError(
            f"in_place=True leaves texts in Parquet files, and this source is of kind "
            f"{shown(source.kind)}; give a ParquetSource of local files, or {_INSTEAD}"
        )
    makes = [f"{n}={v!r}" for n in ("converter", "text_of", "sections") if (v := getattr(source, n))]
    makes += ["a preprocessor of the corpus"] * bool(current_chunking(database).preprocessors)
    makes += ["pii='redact'"] * (pii == "redact")
    if makes:
        raise SourceError(
            f"{makes[0]} makes texts that are not in the files, so they cannot stay there: "
            f"leave it out, or {_INSTEAD}"
        )
    corpus, found, rows = Path(str(database.path)), [], []
    for file in files_of(source.path):
        with opened(file) as parquet:
            schema, count = parquet.schema_arrow, int(parquet.metadata.num_rows)
        columns = _columns(source, file, schema)
        found.append(_File(_path(file, corpus), placed.state_of(file), columns))
        rows.append(count)
    if len({file.path for file in found}) < len(found):
        raise SourceError(f"{source.uri} names a file twice; {_INSTEAD}")
    database.allow([placed.located(file.path, corpus) for file in found])
    return Placing(database, source, rows, found)


def refuse_inside(database: Database, name: str) -> None:
    """Refuse to take texts of a source into the corpus of which others are left in their files.

    Raises:
        SourceError: Some are.
    """
    if database.run("ingest/in_place/of_source", {"name": name})[0][0]:
        raise SourceError(
            f"the texts of source {shown(name)} were left in their files: read it with "
            f"in_place=True (--in-place), or remove it first"
        )


def complete(database: Database) -> None:
    """Make the view of a corpus whose tables were copied, for the files that are still used."""
    from duckplets.ingest.sections_view import refresh

    database.run("ingest/in_place/forget_unused")
    corpus = Path(str(database.path))
    paths = [placed.located(row[0], corpus) for row in database.run("db/placed/files")]
    if paths:
        database.allow(paths)
        refresh(database)


def _path(file: Path, corpus: Path) -> str:
    """Return the path that is noted: as it was given, or from the folder of the corpus."""
    path = os.path.abspath(file)  # noqa: PTH100 - Path.resolve would follow links
    if wrong := _GLOB & set(path):
        raise SourceError(f"{shown(path)} has a {min(wrong)!r} in it; rename it, or {_INSTEAD}")
    return path if file.is_absolute() else os.path.relpath(path, placed.folder_of(corpus))


def _columns(source: ParquetSource, file: Path, schema: pa.Schema) -> Columns:
    """Return the columns of a file that texts come from."""
    parts = {part: source.part(part) for part in ROLES}
    found = []
    for name in dict.fromkeys(name for names in parts.values() for name in names):
        places = match(name, schema.names)
        column = schema.names[places[0]] if places else name
        kind = schema.field(places[0]).type if places else pa.null()
        twins = Counter(other.casefold() for other in schema.names)[column.casefold()] != 1
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        is_list = any(is_one(kind) for is_one in lists)
        if not places or twins or not _is_text(kind.value_type if is_list else kind):
            raise SourceError(
                f"{shown(str(file))}: column {shown(repr(name))} is no column of strings or lists "
                f"of strings, which alone can be left in place ({kind}); {_INSTEAD}"
            )
        if is_list and sum(name in parts[part] for part in ("positive", "context", "text")) > 1:
            raise SourceError(f"{shown(repr(name))} has lists and plays two parts; {_INSTEAD}")
        found.append((name, column, bool(is_list)))
    if taken := _OWN & {name.casefold() for name in schema.names}:
        raise SourceError(f"{shown(str(file))} has a column {min(taken)!r}; {_INSTEAD}")
    return tuple(found)


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_one(kind) for is_one in texts)


def _noted(row: Sequence[Any]) -> _File:
    path, size, modified, footer, columns = row
    of = tuple((str(h), str(c), bool(is_list)) for h, c, is_list in json.loads(columns))
    return _File(path, State(size, modified, footer), of)


def _row(file: _File, key: int) -> dict[str, Any]:
    state = {name: getattr(file.state, name) for name in ("size", "modified", "footer")}
    columns = json.dumps(file.columns, ensure_ascii=False)
    return {"file_key": key, "path": file.path, "columns": columns} | state
