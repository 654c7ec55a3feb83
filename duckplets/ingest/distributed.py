"""Have the workers of an engine read sources of files, and make rows ready to be stored.

    files ─parts→ read, clean, measured: on workers ─in order→ numbered on ─┐
    other sources ─read here→ rows ─clean, measured: on workers ─in order───┴→ store, here

The decision that matters: rows that come from workers are stored by the very path that those take
which one process reads, in the order of the input. So nothing that is stored can depend on who read
them, or how often. Parts of the sources that follow are read while one is being stored.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.atomic import aside_of, remove, sweep
from duckplets.base.prefetch import ahead
from duckplets.base.sanitize import counted, shown
from duckplets.db.database import Database
from duckplets.engine.inline import INLINE
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.errors import DuckpletsError
from duckplets.ingest.chunks import current_chunking
from duckplets.ingest.prepare import PreparedIngest
from duckplets.ingest.streams import Item, batches_of, in_full, stream_of
from duckplets.ingest.transform import Fresh, Transform, fresh
from duckplets.ingest.workers import Read, ReadJob, read_part, work_at
from duckplets.sources import Rows
from duckplets.sources.limits import FileReader
from duckplets.sources.partitions import Cut, PartOf, cuts_of, file_source
from duckplets.sources.rows import Mark, cursor_of

_IDLE = (
    "the engine had nothing to do: only this process can read the source, and without gates and "
    "preprocessors there is nothing to be done before its rows are stored"
)
_LATE = (
    "read by this process, not by the engine's workers: not all keys that the mapping names are "
    "among the first rows, so which are meant is known only to who reads all files in their order"
)


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

    def __init__(self, number: int, prepared: PreparedIngest, work: Transform | None) -> None:
        self.number, self.prepared, self.work = number, prepared, work
        self.source = file_source(prepared.request.source)
        gates = prepared.request.gates
        self.is_new = prepared.found is None and (gates is None or gates.last_row == 0)
        self.cuts: list[Cut] | None = None
        self.part = PartOf(self.source, getattr(self.source, "uri", None) or "")
        self.passed, self.is_over = 0, False
        self.notes: list[str] = []
        self._reader: FileReader | None = None
        self._rows: Rows | None = None
        self._row = 1  # the number of the next row

    def opened(self) -> Rows:
        """Open it, with what can be checked before anything is read, if it is not open yet."""
        if self._rows is None:
            self.close()
            self._reader = FileReader.within(self.prepared.limits)
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
        if self.prepared.settings is None:
            return rows
        return replace(rows, batches=_marked(rows.batches, self._start, self.passed))

    @property
    def _start(self) -> int:
        """How many rows come before what is wanted."""
        where = f"source {self.prepared.request.name!r}"
        return int(cursor_of(self.prepared.cursor, where)["rows"])

    def _cut(self) -> None:
        start = self._start if self.prepared.settings is not None else 0
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
        self._add(read.part)
        for batch in batches_of(read.batches):
            at = batch.schema.get_field_index("row")
            yield batch.set_column(at, "row", pc.add(batch.column(at), before))

    def read_here(self, cut: Cut, error: DuckpletsError) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part that a worker has refused, or raise why this process does."""
        part = replace(self.part, row=self._row, names=None)
        with closing(FileReader.within(self.prepared.limits)) as reader:
            yield from cut.open(self.source, reader, part).batches
        self._row = part.rows + 1
        self._add(part)
        self.notes.append(f"read by this process, as a worker could not: {cut.label}: {error}")

    def _add(self, part: PartOf) -> None:
        if self.part.names is not None and part.names is not None:
            self.part.names.add(part.names)

    def close(self) -> None:
        """Let go of what it was opened with."""
        self._rows = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class Elsewhere:
    """Reads sources by an engine, in their order.

    Args:
        engine: What runs the parts; the inline one leaves all to this process.
        database: The corpus.
        several: What is read.
    """

    def __init__(
        self, engine: Engine, database: Database, several: Sequence[PreparedIngest]
    ) -> None:
        beside = Path(f"{os.path.realpath(str(database.path))}.parts")
        sweep(beside)
        self._folder = aside_of(beside)
        self._engine = engine
        self._each: list[Parted] = []
        if engine is not INLINE:
            chunking = current_chunking(database)
            wanted = (one for one in several if not one.is_full)
            for number, one in enumerate(wanted):
                self._each.append(Parted(number, one, Transform.of(chunking, one.request.gates)))
        self._coming: Iterator[_Result] | None = None
        self._next: _Result | None = None

    def close(self) -> None:
        """Let go of all parts, and remove what waits."""
        for each in self._each:
            each.close()
        if isinstance(self._coming, Generator):
            self._coming.close()
        remove(self._folder)

    def reads(self, prepared: PreparedIngest) -> bool:
        """Return whether a source is one of files, which workers read."""
        return any(one.prepared is prepared and one.source is not None for one in self._each)

    @contextmanager
    def turn(self, prepared: PreparedIngest, rows: Rows | None = None) -> Iterator[Rows | None]:
        """Give the rows of a source whose turn it is; None where who asks is to read it.

        Args:
            prepared: The source.
            rows: As they come, where this process reads them already.
        """
        one = next((one for one in self._each if one.prepared is prepared), None)
        if one is None:
            yield rows
            return
        try:
            yield self._rows(one, rows)
        finally:
            one.is_over = True
            one.close()

    def _rows(self, one: Parted, rows: Rows | None) -> Rows:
        """Return what is to be stored of a source."""
        is_here = rows is None
        rows = one.opened() if rows is None else rows
        told, batches, work = rows.notes, rows.batches, one.work
        if one.cuts is not None:
            rows = one.resumed(replace(rows, batches=in_full(self._read(one))))
            batches, work = rows.batches, None if one.is_new else work
        elif one.source is not None:
            one.notes.append(_LATE)
            batches = one.resumed(rows).batches
        elif work is None:
            one.notes.append(_IDLE)
        if is_here and one.cuts is None:
            batches = _ahead(batches)
        if work is not None:
            batches = in_full(self._worked(one, batches))
        return replace(rows, batches=batches, notes=lambda: [*told(), *one.notes])

    # -- parts of files ---------------------------------------------------------------------------

    def _read(self, one: Parted) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a source of files, numbered on from part to part."""
        for cut, found in self._of(one):
            if isinstance(found, DuckpletsError):
                yield from one.read_here(cut, found)
            else:
                yield from one.taken(found)
        if one.part.names is not None:
            one.part.names.check()

    def _of(self, one: Parted) -> Iterator[tuple[Cut, Read | DuckpletsError]]:
        """Yield the parts of a source with what was read, letting go of those before them."""
        while True:
            try:
                if self._coming is None:
                    self._coming = self._begun(one.number)
                if self._next is None:
                    self._next = next(self._coming, None)
            except BaseException:  # nothing more comes of it: the sources that follow begin anew
                self._coming = self._next = None
                raise
            if self._next is None or self._next[0][0] > one.number:
                return
            (number, cut), found = self._next
            self._next = None
            if number == one.number:
                yield cut, found
            elif isinstance(found, Read) and isinstance(found.batches, Path):
                remove(found.batches)

    def _begun(self, first: int) -> Iterator[_Result]:
        """Have the parts of all sources from one on read."""
        job = tuple(one.work if one.is_new else None for one in self._each)
        files = (self._folder / f"{number}.arrow" for number in count())

        def part_of(item: tuple[int, Cut]) -> Part:
            one, cut = self._each[item[0]], item[1]
            named = {"number": one.number, "source": one.source, "keys": one.part.keys}
            given = ReadJob(
                **named,
                cut=cut.absolute(),
                told=cut.told(),
                limits=one.prepared.limits,
                file=next(files),
            )
            return Part(cut.label, given)

        self._folder.mkdir(parents=True, exist_ok=True)
        return mapped(self._engine, read_part, job, self._cuts(first), part_of)

    def _cuts(self, first: int) -> Iterator[tuple[int, Cut]]:
        for one in self._each[first:]:
            if one.source is not None and not one.is_over:
                with suppress(DuckpletsError):  # it is raised when it is its turn
                    one.opened()
                for cut in one.cuts or ():
                    if one.is_over:
                        break
                    yield one.number, cut

    # -- rows that were read here -----------------------------------------------------------------

    def _worked(self, one: Parted, items: Iterator[Item]) -> Iterator[Item]:
        """Yield rows and marks, those rows made ready that are new to the gates."""
        name = shown(one.prepared.request.name)

        def part_of(item: Fresh) -> Part:
            new = item[2]
            if new is None:
                return Part(name, (one.number, b""))
            return Part(f"{name}: {counted(new.num_rows, 'row')}", (one.number, stream_of(new)))

        job = tuple(each.work for each in self._each)
        portions = fresh(items, one.prepared.request.gates)
        with closing(mapped(self._engine, work_at, job, portions, part_of)) as results:
            for (marks, old, new), found in results:
                yield from marks
                yield from old
                if not isinstance(found, DuckpletsError):
                    yield from batches_of(found)
                elif new is not None:  # whoever stores them says what is wrong, and with which row
                    yield new


_Result = tuple[tuple[int, Cut], Read | DuckpletsError]


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield what this process reads, some of it ahead, in a thread that ends with this."""
    with closing(ahead(items)) as coming:
        yield from coming


def _marked(batches: Iterator[Item], start: int, row: int) -> Iterator[Item]:
    """Yield the rows after the first ``start``, with a mark after every batch.

    Args:
        batches: Of rows, without those that come first.
        start: How many are passed over.
        row: How many come first.
    """
    for batch in batches:
        if isinstance(batch, Mark):
            continue
        row += batch.num_rows
        if row > start:
            fresh = min(row - start, batch.num_rows)
            yield batch.slice(batch.num_rows - fresh)
            yield Mark({"rows": row, "at": None, "of": None})
