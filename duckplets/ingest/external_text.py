"""Leave the texts of Parquet files where they are, and note where each of them is.

    files ─begin→ placed_files, the view sections      rows ─places→ stored_sections
    all of it ─finish→ read back through the view, and compared with what came in

The decision that matters: ``sections`` is a view that reads every text where it is, so statements
that read texts are written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import counted, shown, size
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.errors import ChangedFileError, QueryError, SourceError
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.ingest.external_columns import INSTEAD, PlacedFile

_READ_BACK = 200_000  # sections at once
_WORTH_TELLING = 1_000  # records


class Placing:
    """The files of an ingest that leaves their texts in them.

    Args:
        database: The corpus.
        found: The files in the order in which they are read, each with its rows.
    """

    def __init__(self, database: Database, found: Sequence[tuple[PlacedFile, int]]) -> None:
        self._database = database
        self._files = [file for file, _ in found]
        self._starts = np.array([0, *accumulate(rows for _, rows in found)][:-1], np.int64)
        self._keys = np.zeros(len(found), np.int32)
        self._first = 0  # the first key of files that are new
        self._gone: list[int] = []  # keys of those that are not what they were any more

    def begin(self, source_id: int, *, is_judged: bool) -> None:
        """Note the files of a source, inside a transaction.

        Raises:
            ChangedFileError: One has changed, of which gates have judged the rows.
        """
        from duckplets.ingest.sections_view import refresh

        known: dict[PlacedFile, int] = {}
        last = 0
        for key, of_source, *row in self._database.run("ingest/external_text/files"):
            last, file = key, PlacedFile.noted(row)
            if of_source == source_id and file in self._files:
                known[file] = key
            elif of_source == source_id and self._has_changed(file):
                self._gone.append(key)
                if is_judged:
                    raise ChangedFileError(
                        f"{shown(file.path)} has changed since texts were left in it, and rows "
                        f"that were judged are not judged again: remove the source, compact, and "
                        f"read it anew"
                    )
        self._first = last + 1
        # Those with the same columns side by side, for one branch of the view reads all of them.
        fresh = sorted(set(self._files) - known.keys(), key=lambda f: (f.columns, f.path))
        keys = known | {file: self._first + i for i, file in enumerate(fresh)}
        self._keys[:] = [keys[file] for file in self._files]
        if fresh:
            new_files = pa.Table.from_pylist([file.row(keys[file]) for file in fresh])
            with self._database.registered(new_files=new_files):
                self._database.run("ingest/external_text/add_files", {"source_id": source_id})
        if fresh or self._gone:
            refresh(self._database, self._gone)

    def _has_changed(self, file: PlacedFile) -> bool:
        corpus = Path(str(self._database.path))
        is_read = file.path in {other.path for other in self._files}  # with another state
        return is_read or bool(
            external_files.change(external_files.located(file.path, corpus), file.state)
        )

    def places(self, rows: pa.Array) -> dict[str, Any]:
        """Return the file and the row in it of rows by their numbers, which count from 1."""
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
            asked = {"gone": self._gone, "unpublished": UNPUBLISHED}
            self._database.run("ingest/external_text/move", asked)

    def finish(self) -> None:
        """Let go what files had that have changed, and read every text back.

        Raises:
            ChangedFileError: Live records had texts in files that have changed, and did not come
                again.
            SourceError: A text is read otherwise than it came.
        """
        if self._gone:
            self._let_go()
        try:
            wrong = next(self._wrong(), None)
        except QueryError as error:
            raise SourceError(f"texts cannot be left in place: {error}; {INSTEAD}") from error
        if wrong is not None:
            raise SourceError(
                f"the texts of record {shown(repr(wrong))} are read from their file otherwise than "
                f"they came; {INSTEAD}"
            )
        external_files.check(self._database)

    def corpus_size(self) -> int:
        """Return the bytes of the corpus file."""
        return Path(str(self._database.path)).stat().st_size

    def told(self, added: int, before: int) -> list[str]:
        """Return what the texts take where they are, and the records without them.

        Args:
            added: Records that were stored.
            before: The size of the corpus file before.
        """
        grown = self.corpus_size() - before
        if added < _WORTH_TELLING or grown <= 0:
            return []  # DuckDB takes room by blocks
        files = {file.path: file.state.size for file in self._files}
        return [
            f"texts stay in {counted(len(files), 'file')} of {size(sum(files.values()))}; the "
            f"corpus grew by {size(grown)}, {grown / added:,.0f} bytes a record, whatever the "
            f"length of its texts"
        ]

    def _let_go(self) -> None:
        from duckplets.ingest.sections_view import refresh

        gone = {"gone": self._gone}
        lost, record, path = self._database.run("ingest/external_text/lost", gone)[0]
        if lost:
            raise ChangedFileError(
                f"{shown(path)} has changed or is gone, and {counted(lost, 'record')} that had "
                f"texts in it did not come again with the same content, the first of them "
                f"{shown(repr(record))}: put the file back, or give remap=True (--remap), which "
                f"removes what is no more"
            )
        for step in ("mark_lost", "empty_lost", "forget_files"):
            self._database.run(f"ingest/external_text/{step}", gone)
        refresh(self._database)

    def _wrong(self) -> Iterator[str]:
        """Yield records whose texts are not read as they came."""
        low, last = self._database.run("ingest/external_text/ends", {"first": self._first})[0]
        while low is not None and low <= last:
            span = {"first": self._first, "low": low, "high": low + _READ_BACK - 1}
            count, record = self._database.run("ingest/external_text/wrong", span)[0]
            if count:
                yield str(record)
            low += _READ_BACK
