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

from duckplets.base.aside import aside_of, remove, sweep
from duckplets.base.lookahead import ahead
from duckplets.base.parts import Engine, Part, mapped
from duckplets.base.shown import counted, shown
from duckplets.db.database import Database
from duckplets.errors import DuckpletsError
from duckplets.ingest.chunks import current_chunking
from duckplets.ingest.parted import Parted
from duckplets.ingest.prepare import Prepared
from duckplets.ingest.streams import Item, batches_of, in_full, stream_of
from duckplets.ingest.work import Fresh, Work, fresh
from duckplets.ingest.workers import Given, Read, read_part, work_at
from duckplets.sources import Rows
from duckplets.sources.parts import Cut

_IDLE = (
    "the engine had nothing to do: only this process can read the source, and without gates and "
    "preprocessors there is nothing to be done before its rows are stored"
)
_LATE = (
    "read by this process, not by the engine's workers: not all keys that the mapping names are "
    "among the first rows, so which are meant is known only to who reads all files in their order"
)


class Elsewhere:
    """Reads sources by an engine, in their order.

    Args:
        engine: What runs the parts; None leaves all to this process.
        database: The corpus.
        several: What is read.
    """

    def __init__(
        self, engine: Engine | None, database: Database, several: Sequence[Prepared]
    ) -> None:
        beside = Path(f"{os.path.realpath(str(database.path))}.parts")
        sweep(beside)
        self._folder = aside_of(beside)
        self._engine = engine
        self._each: list[Parted] = []
        if engine is not None:
            chunking = current_chunking(database)
            wanted = (one for one in several if not one.is_full)
            for number, one in enumerate(wanted):
                self._each.append(Parted(number, one, Work.of(chunking, one.request.gates)))
        self._coming: Iterator[_Result] | None = None
        self._next: _Result | None = None

    def close(self) -> None:
        """Let go of all parts, and remove what waits."""
        for each in self._each:
            each.close()
        if isinstance(self._coming, Generator):
            self._coming.close()
        remove(self._folder)

    def reads(self, prepared: Prepared) -> bool:
        """Return whether a source is one of files, and there is an engine to read them."""
        return any(one.prepared is prepared and one.source is not None for one in self._each)

    @contextmanager
    def turn(self, prepared: Prepared, rows: Rows | None = None) -> Iterator[Rows | None]:
        """Give the rows of a source whose turn it is; None where who asks is to read it.

        Args:
            prepared: The source.
            rows: As they come, where this process reads them already.
        """
        one = next((one for one in self._each if one.prepared is prepared), None)
        if one is None or self._engine is None:
            yield rows
            return
        try:
            yield self._rows(self._engine, one, rows)
        finally:
            one.is_over = True
            one.close()

    def _rows(self, engine: Engine, one: Parted, rows: Rows | None) -> Rows:
        """Return what is to be stored of a source."""
        is_here = rows is None
        rows = one.opened() if rows is None else rows
        told, batches, work = rows.notes, rows.batches, one.work
        if one.cuts is not None:
            rows = one.resumed(replace(rows, batches=in_full(self._read(engine, one))))
            batches, work = rows.batches, None if one.is_new else work
        elif one.source is not None:
            one.notes.append(_LATE)
            batches = one.resumed(rows).batches
        elif work is None:
            one.notes.append(_IDLE)
        if is_here and one.cuts is None:
            batches = _ahead(batches)
        if work is not None:
            batches = in_full(self._worked(engine, one, batches))
        return replace(rows, batches=batches, notes=lambda: [*told(), *one.notes])

    # -- parts of files ---------------------------------------------------------------------------

    def _read(self, engine: Engine, one: Parted) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a source of files, numbered on from part to part."""
        for cut, found in self._of(engine, one):
            if isinstance(found, DuckpletsError):
                yield from one.read_here(cut, found)
            else:
                yield from one.taken(found)
        if one.part.paths is not None:
            one.part.paths.check()

    def _of(self, engine: Engine, one: Parted) -> Iterator[tuple[Cut, Read | DuckpletsError]]:
        """Yield the parts of a source with what was read, letting go of those before them."""
        while True:
            try:
                if self._coming is None:
                    self._coming = self._begun(engine, one.number)
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

    def _begun(self, engine: Engine, first: int) -> Iterator[_Result]:
        """Have the parts of all sources from one on read."""
        job = tuple(one.work if one.is_new else None for one in self._each)
        files = (self._folder / f"{number}.arrow" for number in count())

        def part_of(item: tuple[int, Cut]) -> Part:
            one, cut = self._each[item[0]], item[1]
            named = {"number": one.number, "source": one.source, "keys": one.part.keys}
            given = Given(
                **named,
                cut=cut.absolute(),
                told=cut.told(),
                limits=one.prepared.limits,
                file=next(files),
            )
            return Part(cut.label, given)

        self._folder.mkdir(parents=True, exist_ok=True)
        return mapped(engine, read_part, job, self._cuts(first), part_of)

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

    def _worked(self, engine: Engine, one: Parted, items: Iterator[Item]) -> Iterator[Item]:
        """Yield rows and marks, those rows made ready that are new to the gates."""
        name = shown(one.prepared.request.name)

        def part_of(item: Fresh) -> Part:
            new = item[2]
            if new is None:
                return Part(name, (one.number, b""))
            return Part(f"{name}: {counted(new.num_rows, 'row')}", (one.number, stream_of(new)))

        job = tuple(each.work for each in self._each)
        portions = fresh(items, one.prepared.request.gates)
        with closing(mapped(engine, work_at, job, portions, part_of)) as results:
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
