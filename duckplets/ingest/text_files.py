"""Keep the texts of large ingests in Parquet files beside the corpus, ``NAME.texts/``.

sections ─text files→ file, row and first byte of each text ─before the commit→ placed_files

The decision that matters: the text is stored once, PLAIN and uncompressed. DuckDB reads it through
the view ``sections``, and a run gathers it from the same file. A writer removes files that the
corpus does not name: a killed ingest or an earlier ``compact`` left them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from duckplets.artifacts.folder import new_path
from duckplets.base.arrays import Integers
from duckplets.base.atomic import naming
from duckplets.base.columns import column
from duckplets.base.sanitize import shown
from duckplets.db import external_files, files
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.errors import ChangedFileError, QueryError
from duckplets.ingest import sections_view
from duckplets.sources.formats.columnar import opened
from duckplets.sources.formats.parquet_places import copied_bytes

_ROWS = 20_000  # of a row group: PyArrow makes one page of so many
_BYTES = 64_000_000  # of the same, but for a single longer text
_FULL = 1_000_000_000  # bytes of a file, after which the next one begins
_READ, _READ_BYTES = 4_096, 1 << 28  # sections that ``rewrite`` reads at a time, and their bytes
_KEY, _TEXT = "section_key", "text"
_SCHEMA = pa.schema(
    [pa.field(_KEY, pa.int64(), nullable=False), pa.field(_TEXT, pa.string(), nullable=False)]
)
_COLUMNS = [[None, "text", False]]  # in ``placed_files``: this column, whatever the heading
_KIND = re.compile(r"texts-[0-9a-f]{32}\.parquet")


def folder_of(database: Database) -> Path:
    """Return the folder of the texts of a corpus."""
    return files.next_to(Path(str(database.path)), files.TEXTS)


class _TextFile:
    """A file that is being written."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.path, self.rows = new_path(folder, "texts", ".parquet"), 0
        self.sink = pa.OSFile(str(self.path), "wb")
        self._writer = pq.ParquetWriter(
            self.sink,
            _SCHEMA.with_metadata({"duckplets": self.path.stem}),  # no two footers are equal
            compression="none",
            use_dictionary=False,
            column_encoding={_KEY: "DELTA_BINARY_PACKED"},
            write_statistics=[_KEY],  # a look-up skips row groups
            data_page_size=1 << 30,
        )

    def add(self, sections: pa.Table) -> Integers:
        """Write keys and texts, and return the first byte of each text."""
        sizes = pc.binary_length(sections[_TEXT]).to_numpy().astype(np.int64) + 4
        ends, places = np.cumsum(sizes), np.empty(len(sizes), np.int64)
        low = 0
        while low < len(sizes):
            before = ends[low] - sizes[low]
            most = int(np.searchsorted(ends, before + _BYTES, "right"))
            high = max(low + 1, min(low + _ROWS, most))
            self._writer.write_table(sections[low:high], high - low)
            # The texts are the last column of a row group.
            places[low:high] = self.sink.tell() - ends[high - 1] + ends[low:high] - sizes[low:high]
            low = high
        self.rows += len(sizes)
        return places + 4

    def close(self) -> external_files.FileState:
        """Finish the file, have it on disk, and return its state; copies have other times."""
        self._writer.close()
        self.sink.close()
        for path in (self.path, self.path.parent):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        state = external_files.state_of(self.path)
        return external_files.FileState(state.size, external_files.ANY_TIME, state.footer)

    def drop(self) -> None:
        """Remove the file."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._writer.is_open = False  # a full disk has no room for the footer either
        with suppress(OSError, pa.ArrowException):
            self.sink.close()
        with suppress(OSError):
            self.path.unlink()


class TextFiles:
    """The files of a writing verb: ``close`` before each commit, or ``drop``.

    Args:
        database: The corpus.
        inside: Bytes of texts that are left to it, before files begin.
    """

    def __init__(self, database: Database, inside: int) -> None:
        self._database, self._left = database, inside
        self._file: _TextFile | None = None
        self._done: list[dict[str, Any]] = []
        self._key = 0
        self.written = 0  # bytes of texts in files so far

    @property
    def size(self) -> int:
        """Bytes in files that no commit names yet."""
        now = 0 if self._file is None else int(self._file.sink.tell())
        return now + sum(int(row["size"]) for row in self._done)

    def add(self, sections: pa.Table) -> dict[str, pa.Array]:
        """Return columns with the places of texts; none if the texts stay inside."""
        size = sections[_TEXT].nbytes
        self._left -= size
        if self._left >= 0 or not size:
            return {}
        self.written += size
        folder = folder_of(self._database)
        try:
            with naming(folder):
                if self._file is None:
                    files.refuse_links(folder)
                    last = self._database.run("ingest/text_files/last")[0][0]
                    self._key = max(int(last), self._key) + 1
                    self._file = _TextFile(folder)
                first = self._file.rows
                place = self._file.add(sections.select([_KEY, _TEXT]).cast(_SCHEMA))
                key = np.full(len(place), self._key, np.int32)
                if self._file.sink.tell() > _FULL:
                    self._finish()
        except OSError as error:
            raise _unwritten(error) from error
        rows = np.arange(first, first + len(place))
        items = pa.nulls(len(place), pa.int32())
        found: dict[str, Any] = {"file_key": key, "file_row": rows, "place": place}
        return {name: column(values) for name, values in found.items()} | {"item": items}

    def _finish(self) -> None:
        if self._file is not None:
            state, path = self._file.close(), self._file.path
            where = external_files.OWN + path.name
            columns = json.dumps(_COLUMNS)
            row = {"file_key": self._key, "path": where, "columns": columns, **asdict(state)}
            self._done.append(row)
            self._file = None

    def close(self) -> None:
        """Have what was written on disk, and name it in the transaction."""
        try:
            self._finish()
        except OSError as error:
            raise _unwritten(error) from error
        if self._done:
            with self._database.registered(new_files=pa.Table.from_pylist(self._done)):
                self._database.run("ingest/external_text/add_files", {"source_id": _NO_SOURCE})
            self._done.clear()
            sections_view.refresh(self._database)

    def drop(self) -> None:
        """Remove the file that is not finished; finished ones are swept."""
        if self._file is not None:
            self._file.drop()
            self._file = None


_NO_SOURCE = 0  # of placed files: whose texts they are is in the sections


def sweep(database: Database) -> None:
    """Remove files that the corpus does not name, under the write lock."""
    folder = folder_of(database)
    if not folder.is_dir() or folder.is_symlink():
        return
    named = {name for _, name in _own(database)}
    for path in folder.iterdir():
        if _KIND.fullmatch(path.name) and path.name not in named:
            with suppress(OSError):
                path.unlink()


def _own(database: Database) -> Iterator[tuple[int, str]]:
    """Yield key and name of the files of our own."""
    for key, source_id, path, *_ in database.run("ingest/external_text/files"):
        if source_id == _NO_SOURCE:
            yield key, path.removeprefix(external_files.OWN)


def copied(database: Database) -> list[int]:
    """Return the keys of users' files with texts that a snapshot has to copy."""
    external_files.check(database)
    found, corpus = [], Path(str(database.path))
    for key, source_id, path, *_, columns in database.run("ingest/external_text/files"):
        if source_id != _NO_SOURCE:
            with opened(Path(external_files.located(path, corpus))) as parquet:
                if copied_bytes(parquet, [name for _, name, _ in json.loads(columns)]):
                    found.append(key)
    return found


def rewrite(database: Database, keys: list[int]) -> int:
    """Move the texts of users' files to files of the corpus; return their bytes."""
    texts, places = TextFiles(database, 0), []
    try:
        # The reader sees the state before the transaction. On one thread it keeps the order.
        with database.one_thread(), database.transaction(), closing(database.cursor()) as reader:
            # A batch of Arrow has at most 2 GB of text.
            longest = reader.run("ingest/text_files/longest", {"keys": keys})[0][0]
            at_once = max(1, min(_READ, _READ_BYTES // max(1, longest or 0)))
            statement = query("ingest/text_files/texts")
            for found in reader.stream(statement, {"keys": keys}, rows=at_once):
                place = texts.add(pa.Table.from_batches([found]))
                places.append(pa.table({_KEY: found[_KEY], **place}))
            if places:
                with database.registered(moved=pa.concat_tables(places)):
                    database.run("ingest/text_files/set_places")
            texts.close()
            sections_view.forget_unused(database)
    finally:
        texts.drop()
    return texts.written


def compact(new: Database, corpus: Path) -> None:
    """Write files again that have texts without sections, for the new file of a corpus."""
    folder = files.next_to(corpus, files.TEXTS)
    for key, name in _own(new):
        rows = new.table("ingest/text_files/rows", {"file_key": key})["file_row"].to_numpy()
        with _opened(folder / name, corpus) as old:
            if len(rows) in (0, old.metadata.num_rows):
                continue
            file, first = _TextFile(folder), 0
            try:
                for group in range(old.num_row_groups):
                    sections = old.read_row_group(group)
                    low, high = np.searchsorted(rows, [first, first + len(sections)])
                    file.add(sections.take(column(rows[low:high] - first)))
                    first += len(sections)
                state = file.close()
            except OSError as error:
                raise _unwritten(error) from error
            moved = {"path": external_files.OWN + file.path.name, "size": state.size}
            moved |= {"footer": state.footer, "file_key": key}
            new.run("ingest/text_files/move", moved)
            new.run("ingest/text_files/number_again", {"file_key": key})


def _opened(path: Path, corpus: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise ChangedFileError(
            f"{path} cannot be read, and has texts of {corpus.name}. The folder belongs to the "
            f"corpus: move or copy both, and put it back as it was"
        ) from error


def _unwritten(error: OSError) -> QueryError:
    return QueryError(
        f"{shown(error.filename or 'a file of texts')} cannot be written: {error.strerror or error}"
    )
