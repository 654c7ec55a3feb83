"""Read sources ahead of storing: each in a thread, or by the workers of an engine.

source ─thread→ rows and marks, waiting in memory ─┐
files ─engine→ parts, with continuous numbers ─────┼─in the order given→ store
source (waits until another one is stored) ────────┘

The decision that matters: one path stores the rows, in the order of the input. So nothing stored
depends on timing or on the number of readers. Waiting rows are not part of the corpus:
after a kill they are read again from the last mark.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.prefetch import Lookahead
from duckplets.base.sanitize import counted, shown
from duckplets.engine.inline import INLINE
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.errors import DuckpletsError
from duckplets.ingest.parts import (
    Item,
    Read,
    ReadJob,
    ReadPart,
    Transform,
    batches_of,
    read_part,
    transformed,
)
from duckplets.ingest.prepare import PreparedIngest
from duckplets.sources import Mark, Rows
from duckplets.sources.limits import FileReader
from duckplets.sources.partitions import Cut, PartOf, cuts_of, has_files, has_large
from duckplets.sources.retry import Rereading, is_local
from duckplets.sources.rows import cursor_of
from duckplets.text.chunking import Chunking

_MOST_WAITING = 256  # queued batches and marks of a source
_BYTES_WAITING = 32 << 20  # queued bytes of all sources, shared equally
_PATIENCE = 10.0  # seconds that a source's code has to end

_IDLE = (
    "the engine had nothing to do: only this process can read the source, and without gates and "
    "preprocessors there is nothing to be done before its rows are stored"
)
_LARGE = (
    "read by this process, not by the engine's workers: a file of it is large and cannot be cut; "
    "workers have its rows where there are gates or preprocessors"
)
_LATE = (
    "read by this process, not by the engine's workers: not all keys that the mapping names are "
    "among the first rows, so which are meant is known only to who reads all files in their order"
)


class Reading:
    """The rows of a source, read in a thread from ``begin`` on."""

    def __init__(
        self,
        prepared: PreparedIngest,
        engine: Engine,
        chunking: Chunking,
        folder: Path,
        retries: int,
        readers: int,
    ) -> None:
        self.prepared, self._engine = prepared, engine
        self._transform: Transform | None = None
        self._parts: _Parts | None = None
        self._rows: Rows | None = None  # the opened source, if workers read it
        self._notes: list[str] = []
        if engine is not INLINE:
            self._transform = Transform.of(chunking, prepared.gates)
            if has_files(prepared.source):
                self._parts = _Parts(prepared, self._transform, folder)
            elif self._transform is None:
                self._notes.append(_IDLE)
        self._again = Rereading(
            *(prepared.name, prepared.open, prepared.cursor, prepared.limits),
            retries=retries,
            is_local=is_local(prepared.source),
        )
        self._source = self._read()
        self._is_begun = False
        self.items: Lookahead[Any] = Lookahead(
            repeat(partial(next, self._source)),
            f"duckplets-ahead-{prepared.name}",
            most=_MOST_WAITING,
            most_bytes=_BYTES_WAITING // readers,
            weigh=lambda item: item.nbytes if isinstance(item, pa.RecordBatch) else 0,
            stop=self._again.stop,
            finish=self._source.close,
            patience=_PATIENCE,
        )

    def rows(self) -> Rows:
        """Wait until the source is open, and return its rows.

        If not begun, it is opened by the caller, so that Ctrl-C ends it at once.
        """
        opened: Any = next(self.items if self._is_begun else self._source)
        self.begin()
        rows: Rows = replace(opened, batches=self.items, notes=self._all_notes)
        return rows

    def begin(self) -> None:
        """Start reading ahead."""
        if not self.prepared.is_full:
            self._is_begun = True
            self.items.begin()

    def close(self) -> None:
        """End the reading."""
        self.items.close()

    def _all_notes(self) -> list[str]:
        self.close()  # a limit may end a source that is still being read
        rows = self._rows or self._again.rows
        return [*(rows.notes() if rows else ()), *self._again.notes, *self._notes]

    # -- in the thread ----------------------------------------------------------------------------

    def _read(self) -> Generator[Rows | Item, None, None]:
        """Yield the opened source, once, and then its rows and marks."""
        transform = self._transform
        with ExitStack() as held:
            if self._parts is not None:
                reader = held.enter_context(closing(FileReader.within(self.prepared.limits)))
                self._rows = self._parts.open(reader, self._notes)
            if self._parts is None or self._rows is None:
                items: Iterator[Any] = held.enter_context(closing(self._again.items()))
                yield next(items)
            else:
                yield self._rows
                items = self._parts.items(self._engine, self._notes)
                transform = None if self._parts.is_new else transform
            if transform is not None:
                items = self._worked(items, transform)
            yield from items

    def _worked(self, items: Iterator[Item], transform: Transform) -> Iterator[Item]:
        """Yield rows and marks, with rows new to the gates prepared."""
        name = shown(self.prepared.name)

        def part_of(item: tuple[list[Item], pa.RecordBatch | None]) -> Part:
            rows = item[1]
            if rows is None:
                return Part(name, None)
            table = pa.Table.from_batches([rows])
            return Part(f"{name}: {counted(rows.num_rows, 'row')}", table)

        portions = _portions(items, self.prepared.gates.last_row)
        with closing(mapped(self._engine, transformed, transform, portions, part_of)) as results:
            for (before, rows), found in results:
                yield from before
                if not isinstance(found, DuckpletsError):
                    yield from batches_of(found)
                elif rows is not None:  # the storing code reports the row
                    yield rows


def _portions(
    items: Iterator[Item], last_row: int
) -> Iterator[tuple[list[Item], pa.RecordBatch | None]]:
    """Yield the rows after the last one read before, a batch at a time."""
    before: list[Item] = []
    for item in items:
        if isinstance(item, Mark):
            before.append(item)
            continue
        is_old = pc.less_equal(item["row"], last_row)
        has_old = pc.any(is_old).as_py()
        before += [item.filter(is_old)] if has_old else []
        new = item.filter(pc.invert(is_old)) if has_old else item
        if new.num_rows:
            yield before, new
            before = []
    yield before, None


class _Parts:
    """A source of files that workers read."""

    def __init__(self, prepared: PreparedIngest, transform: Transform | None, folder: Path) -> None:
        source: Any = prepared.source
        self._prepared, self._source, self._folder = prepared, source, folder
        # Whether no row was read before: then workers prepare whatever they read.
        self.is_new = prepared.found is None and prepared.gates.last_row == 0
        self._transform = transform if self.is_new else None
        self._part = PartOf(source)  # the whole
        self._passed = 0  # rows before the first part

    def open(self, reader: FileReader, notes: list[str]) -> Rows | None:
        """Open it, checking what can be checked first; None if only one process can read it."""
        if has_large(self._source):
            notes.append(_LARGE)
            return None
        reader.part = self._part
        rows: Rows = self._source.open(reader)
        if self._source.kind == "json" and self._part.keys is None:
            notes.append(_LATE)
            return None
        return rows

    def items(self, engine: Engine, notes: list[str]) -> Iterator[Item]:
        """Yield its rows from the cursor on, with marks if it is resumable."""
        prepared = self._prepared
        can_go_on = prepared.settings is not None
        start = 0
        if can_go_on:
            start = int(cursor_of(prepared.cursor, f"source {prepared.name!r}")["rows"])
        cuts = self._cuts(start)
        row = self._passed
        for batch in self._batches(cuts, engine, notes):
            row += batch.num_rows
            if not can_go_on:
                yield batch
            elif row > start:
                fresh = min(row - start, batch.num_rows)
                yield batch.slice(batch.num_rows - fresh)
                yield Mark({"rows": row, "at": None, "of": None})

    def _cuts(self, start: int) -> Iterator[Cut]:
        """Return the parts, without those wholly before a row, where known."""
        cuts = cuts_of(self._source, numbered=start > 0)
        # Only after all parts is it known that no row has a path.
        has_paths = start and any(
            set(".[") & set(name) for name in getattr(self._source, "names", tuple)()
        )
        if has_paths:
            return cuts
        for cut in cuts:
            if cut.rows is None or self._passed + cut.rows > start:
                return chain([cut], cuts)
            self._passed += cut.rows
        return iter(())

    def _batches(
        self, cuts: Iterator[Cut], engine: Engine, notes: list[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of parts, numbered continuously."""
        job = ReadJob(self._source, self._part.keys, self._prepared.limits, self._transform)
        files = (self._folder / f"{number}.arrow" for number in count())

        def part_of(cut: Cut) -> Part:
            return Part(cut.label, ReadPart(cut.absolute(), next(files)))

        self._folder.mkdir(parents=True, exist_ok=True)
        self._part.counts.clear()  # what opening looked at is read again
        row = self._passed
        with closing(mapped(engine, read_part, job, cuts, part_of)) as results:
            for cut, found in results:
                if isinstance(found, Read):
                    part = found.part
                    yield from _numbered(found, row, cut.report())
                    row += part.rows
                    self._part.counts.update(part.counts)
                else:
                    part = replace(self._part, row=row + 1, names=None)
                    yield from self._read_here(cut, part)
                    row = part.rows
                    note = f"read by this process, as a worker could not: {cut.label}: {found}"
                    notes.append(note)
                if self._part.names is not None and part.names is not None:
                    self._part.names.add(part.names)
        if self._part.names is not None:
            self._part.names.check()

    def _read_here(self, cut: Cut, part: PartOf) -> Iterator[pa.RecordBatch]:
        """Read a part here that a worker refused, or raise why."""
        with closing(FileReader.within(self._prepared.limits)) as reader:
            yield from cut.open(self._source, reader, part).batches


def _numbered(read: Read, before: int, names: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part with their numbers in the whole, and files as they are named."""
    for batch in batches_of(read.batches):
        at = batch.schema.get_field_index("row")
        row = pc.add(batch.column(at), pa.scalar(before, pa.int64()))
        batch = batch.set_column(at, "row", row)
        at = batch.schema.get_field_index("file")
        if at >= 0 and names:
            files = pa.array([names.get(n, n) for n in batch.column(at).dictionary.to_pylist()])
            column = pa.DictionaryArray.from_arrays(batch.column(at).indices, files)
            batch = batch.set_column(at, "file", column)
        yield batch
