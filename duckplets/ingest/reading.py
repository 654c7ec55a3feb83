"""Read sources ahead of storing, each in a thread; workers of an engine prepare the rows.

source ─thread→ rows and marks, waiting in memory ──────────────┐
source ─thread→ rows ─engine→ cleaned and measured, and marks ──┼─in the order given→ store
source   (waits until one of the others is stored) ─────────────┘

The decision that matters: however many read at the same time, rows are stored by one path in the
order of the input, so nothing stored depends on timing. Waiting rows are not part of the corpus:
after a kill they are read again from the last mark.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any, Union

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.prefetch import Lookahead
from duckplets.base.sanitize import counted, shown
from duckplets.engine.inline import INLINE
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.errors import DuckpletsError
from duckplets.ingest.prepare import PreparedIngest
from duckplets.ingest.transform import Transform, transformed
from duckplets.sources import Mark, Rows
from duckplets.sources.retry import Rereading, is_local
from duckplets.text.chunking import Chunking

Item = Union[pa.RecordBatch, Mark]  # noqa: UP007 - Arrow's types are none for a checker

_MOST_WAITING = 256  # queued batches and marks of a source
_BYTES_WAITING = 32 << 20  # queued bytes of all sources, shared equally
_PATIENCE = 10.0  # seconds that a source's code has to end

_IDLE = (
    "the engine had nothing to do: without gates and preprocessors there is nothing to be done "
    "with rows between reading and storing"
)


class Reading:
    """The rows of a source, read in a thread from ``begin`` on."""

    def __init__(
        self,
        prepared: PreparedIngest,
        engine: Engine,
        chunking: Chunking,
        retries: int,
        readers: int,
    ) -> None:
        self.prepared, self._engine = prepared, engine
        self._transform: Transform | None = None
        self._notes: list[str] = []
        if engine is not INLINE:
            self._transform = Transform.of(chunking, prepared.gates)
            self._notes += [_IDLE] if self._transform is None else []
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
        rows: Rows = replace(opened, batches=self.items, notes=self._told)
        return rows

    def begin(self) -> None:
        """Start reading ahead."""
        if not self.prepared.is_full:
            self._is_begun = True
            self.items.begin()

    def close(self) -> None:
        """End the reading."""
        self.items.close()

    def _told(self) -> list[str]:
        self.close()  # a limit may end a source that is still being read
        rows = self._again.rows
        return [*(rows.notes() if rows else ()), *self._again.notes, *self._notes]

    # -- in the thread ----------------------------------------------------------------------------

    def _read(self) -> Generator[Rows | Item, None, None]:
        """Yield the opened source, once, and then its rows and marks."""
        with closing(self._again.items()) as items:
            yield next(items)
            rows: Iterator[Any] = items
            yield from rows if self._transform is None else self._worked(rows, self._transform)

    def _worked(self, items: Iterator[Item], transform: Transform) -> Iterator[Item]:
        """Yield rows and marks, with rows new to the gates prepared by workers."""
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
                    for table in found:
                        yield from table.to_batches()
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
