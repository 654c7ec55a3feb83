"""Find the texts that can be read where they lie, in the Parquet files they were left in.

sections ─file, column, row→ places ─compared with the texts→ a file's number and the first byte
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from duckplets.artifacts.arrays import MappedFile
from duckplets.base.arrays import Flags, Integers
from duckplets.base.columns import column
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.errors import DuckpletsError
from duckplets.ingest.external_text import PlacedFile
from duckplets.serving.spans import TextBytes, TextSpans
from duckplets.sources.formats import parquet_places

COLUMNS = ("file_key", "file_row", "heading")
PLACE = "place"  # a column of texts that were written to a file just now
_MOST = 128  # files of a segment that are open at a time; texts of more are copied


class FilePlaces:
    """Where texts of a segment lie in files.

    Args:
        database: The corpus.
        is_used: Whether texts may be read there; False: all are copied.

    """

    def __init__(self, database: Database, *, is_used: bool = True) -> None:
        self._database = database
        self._corpus, self._is_used = Path(str(database.path)), is_used
        self._open: dict[int, _OpenFile | None] = {}
        self._keys: list[int] = []  # of files with such a text, by number

    def files(self) -> list[list[Any]]:
        """Return path and state of each file with such a text, by number from 1."""
        known = {row[0]: [*row[2:6]] for row in self._database.run("ingest/external_text/files")}
        return [known[key] for key in self._keys]

    def _number(self, key: int) -> int:
        """Return the number of a file; 0 if there are too many."""
        if key not in self._keys and len(self._keys) < _MOST:
            self._keys.append(key)
        return self._keys.index(key) + 1 if key in self._keys else 0

    def of(self, sections: pa.Table) -> tuple[Integers, Integers] | None:
        """Return file and first byte of the text of each section: shape (n,), 0 for no file.

        None if none of them lies in such a file.
        """
        keys = sections["file_key"].fill_null(0).to_numpy()
        if not keys.any():
            return None
        if PLACE in sections.column_names:  # they have just been written there
            places = sections[PLACE].to_numpy()
            known, index = np.unique(keys, return_inverse=True)
            return np.array([*map(self._number, known.tolist())], np.int64)[index], places
        headings = sections["heading"].combine_chunks().dictionary_encode()
        codes = headings.indices.fill_null(-1).to_numpy()
        numbers, places = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        for key in np.unique(keys[keys > 0]).tolist():
            file = self._opened(key)
            for code, heading in enumerate(headings.dictionary.to_pylist() if file else ()):
                name = None if file is None else file.columns.get(heading, file.columns.get(None))
                if file is not None and name is not None:
                    at = np.flatnonzero((keys == key) & (codes == code))
                    rows = sections["file_row"].take(column(at)).to_numpy()
                    places[at] = file.places(name, rows)
                    texts = sections["text"].take(column(at)).combine_chunks()
                    there = at[file.has(places[at], texts)]
                    if len(there):
                        numbers[there] = self._number(key)
        return (numbers, places) if numbers.any() else None

    def of_stored(self, sections: pa.Table) -> tuple[Integers, Integers] | None:
        """Return the same of stored sections, by key, without gaps among those stored."""
        if not self._is_used or not self._database.run("db/external_files/files"):
            return None
        ends = (sections["section_key"][at].as_py() for at in (0, -1))
        asked = dict(zip(("low", "high"), ends, strict=True))
        places = self._database.table("serving/chunks/places", asked)
        for name in COLUMNS:
            sections = sections.append_column(name, places[name])
        return self.of(sections)

    def _opened(self, key: int) -> _OpenFile | None:
        if key not in self._open:
            known = {row[0]: row[2:] for row in self._database.run("ingest/external_text/files")}
            self._open[key] = None
            with suppress(OSError, pa.ArrowException, DuckpletsError):
                self._open[key] = _OpenFile(PlacedFile.noted(known[key]), self._corpus)
        return self._open[key]


class _OpenFile:
    """A file with texts, and the places of the row groups read last."""

    def __init__(self, placed: PlacedFile, corpus: Path) -> None:
        path = Path(external_files.located(placed.path, corpus))
        self._file = pq.ParquetFile(path, memory_map=True, pre_buffer=False)
        self.data = TextBytes.of(MappedFile(path, placed.state.size))
        each = ((h, parquet_places.column_of(self._file, name)) for h, name, _ in placed.columns)
        self.columns = {heading: number for heading, number in each if number is not None}
        metadata = self._file.metadata
        counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._firsts = np.cumsum([0, *counts])
        self._last: dict[int, tuple[int, Integers]] = {}  # by column: a row group, and its places

    def places(self, column_number: int, rows: Integers) -> Integers:
        """Return the first byte of the value of each row of a column; -1 where it is not known."""
        groups = np.searchsorted(self._firsts, rows, "right") - 1
        found = np.full(len(rows), -1, np.int64)
        for group in np.unique(groups).tolist():
            at = np.flatnonzero(groups == group)
            if not parquet_places.is_plain(self._file, group, column_number):
                continue
            if self._last.get(column_number, (-1,))[0] != group:
                places = parquet_places.places_of(self._file, group, column_number, self.data.data)
                self._last[column_number] = group, places
            found[at] = self._last[column_number][1][rows[at] - self._firsts[group]]
        return found

    def has(self, places: Integers, texts: pa.Array) -> Flags:
        """Return whether each text is at its place."""
        lengths = pc.cast(pc.binary_length(texts), pa.int64()).to_numpy()
        found: Flags = (places >= 0) & (places + lengths <= self.data.data.size)
        at = np.flatnonzero(found)
        there = TextSpans([self.data], None, places[at], lengths[at]).take(slice(None))
        found[at] = pc.equal(there, texts.take(column(at))).to_numpy(zero_copy_only=False)
        return found
