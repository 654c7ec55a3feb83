"""Take a source of files in by its parts: numbered on, with what was found out about the whole.

parts, read anywhere ─in order→ rows numbered on, or the part read here ─→ rows and marks
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.errors import DuckpletsError
from duckplets.ingest.prepare import Prepared
from duckplets.ingest.streams import batches_of
from duckplets.ingest.work import Work
from duckplets.ingest.workers import Read
from duckplets.sources import Rows
from duckplets.sources.limits import Reader
from duckplets.sources.parts import Cut, PartOf, cuts_of, file_source
from duckplets.sources.resumable import Resumable


class Parted:
    """A source that an engine has to do with.

    Attributes:
        source: What reads its files; None where only this process can read it.
        work: What is done to its rows, if anything is.
        is_new: Whether no row of it was read before, so that workers are at all they read.
        cuts: The parts that are read, once it is open; None while this process reads it.
        part: The whole of it, and what was found out so far.
        passed: How many rows come before the first part.
        is_over: Whether nothing more of it is wanted.
    """

    def __init__(self, number: int, prepared: Prepared, work: Work | None) -> None:
        self.number, self.prepared, self.work = number, prepared, work
        self.source = file_source(prepared.request.source)
        gates = prepared.request.gates
        self.is_new = prepared.found is None and (gates is None or gates.last_row == 0)
        self.cuts: list[Cut] | None = None
        self.part = PartOf(self.source, getattr(self.source, "uri", None) or "")
        self.passed, self.is_over = 0, False
        self.notes: list[str] = []
        self._reader: Reader | None = None
        self._rows: Rows | None = None
        self._row = 1  # the number of the next row

    def opened(self) -> Rows:
        """Open it, with what can be checked before anything is read, if it is not open yet."""
        if self._rows is None:
            self.close()
            self._reader = Reader.within(self.prepared.limits)
            if self.source is None:
                self._rows = self.prepared.open(self._reader, self.prepared.cursor)
                return self._rows
            self._reader.part = self.part
            rows = self.source.open(self._reader)
            if self.source.kind != "json" or self.part.keys is not None:
                self._cut()
            self._rows = rows
        return self._rows

    def resumed(self, rows: Rows) -> Rows:
        """Return rows of its files with marks, from its cursor on, if it can be resumed."""
        whole = self.prepared.request.source
        if not isinstance(whole, Resumable):
            return rows
        return whole.going_on(rows, self.prepared.cursor, passed=self.passed)

    def _cut(self) -> None:
        whole = self.prepared.request.source
        start = whole.start_of(self.prepared.cursor) if isinstance(whole, Resumable) else 0
        cuts = cuts_of(self.source, numbered=start > 0)
        # A path that no row has is found out by reading all of them.
        has_paths = start and any(
            set(".[") & set(name) for name in getattr(self.source, "names", tuple)()
        )
        while cuts and not has_paths and cuts[0].rows is not None:
            if self.passed + cuts[0].rows > start:
                break
            self.passed += cuts.pop(0).rows or 0
        self.cuts, self._row = cuts, self.passed + 1

    def taken(self, read: Read) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part, numbered on."""
        before = pa.scalar(self._row - 1, pa.int64())
        self._row += read.rows
        self.part.counts.update(read.part.counts)
        if read.part.paths is not None:
            if self.part.paths is None:
                self.part.paths = read.part.paths
            else:
                self.part.paths.add(read.part.paths)
        for batch in batches_of(read.batches):
            at = batch.schema.get_field_index("row")
            yield batch.set_column(at, "row", pc.add(batch.column(at), before))

    def read_here(self, cut: Cut, error: DuckpletsError) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part that a worker has refused, or raise why this process does."""
        part = replace(self.part, row=self._row, origins=None)
        with closing(Reader.within(self.prepared.limits)) as reader:
            yield from cut.open(self.source, reader, part).batches
        self._row = part.origins.row + 1 if part.origins else self._row
        self.part.paths = part.paths
        self.notes.append(f"read by this process, as a worker could not: {cut.label}: {error}")

    def close(self) -> None:
        """Let go of what it was opened with."""
        self._rows = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
