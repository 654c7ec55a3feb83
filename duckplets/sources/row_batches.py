"""Map rows to records: batches of ``ROW_SCHEMA``, whatever the rows were read from.

blocks ─RowMapper→ columns of texts ─sql/sources/rows.sql→ checked, hashed ─Judge→ batches

Texts, and why a row has none, are decided here; dates, trusts and content hashes by the statement.
A batch has at most ``MAX_ROWS`` rows, or ``MAX_BYTES`` characters and one row.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import shown
from duckplets.db.foreign import MORE_MEMORY
from duckplets.db.queries import query
from duckplets.errors import QueryError, SourceError
from duckplets.sources.limits import Limits, limits_of, part_of
from duckplets.sources.mapping import Mapped, changed
from duckplets.sources.names import Names, require_texts
from duckplets.sources.row_mapper import TOLD, RowMapper
from duckplets.sources.rows import (
    DROPPED,
    EXTRA_COLUMNS,
    ROW_SCHEMA,
    Mark,
    RowBlock,
    Rows,
    cursor_of,
)
from duckplets.sources.values import Fault, document, is_utf8

if TYPE_CHECKING:
    from duckplets.db.database import Database

MAX_ROWS = 16_384
MAX_BYTES = 24 << 20
BAD_DATE = "unreadable date"
_MARK_SECONDS = 1.0  # so that a slow source gets its marks in time
_CHUNK_ROWS = 8_192  # rows that go to DuckDB together, enough for several threads
_MOST_SHOWN = 300  # characters of a wrong value shown
_ZONE = re.compile(r"\s*(?:[+-]\d\d:?\d\d|[A-Za-z]{1,5})\s*$")
_TEXT = pa.string()


def opened(
    reader: Database,
    mapping: Mapped,
    blocks: Iterator[RowBlock],
    where: str,
    *,
    cursor: Any = None,
    total: int | None = None,
    of: dict[str, Any] | None = None,
    known: bool = False,
    marks: bool = True,
    sure: int = 0,
    notes: Callable[[], list[str]] = list,
) -> Rows:
    """Return the rows of blocks, after looking at the first ones.

    ``of`` is what cursors are relative to; ``known`` says that blocks begin at the cursor and have
    places of their own; after ``sure`` rows, a text or id that none of them had is a typing error.
    """
    place, part = cursor_of(cursor, where), part_of(reader)
    names = Names(mapping, where if part is None else part.where, limits_of(reader))
    keys = place["of"] if part is None else part.keys
    keys = keys if keys and "found" in keys else None
    if keys:
        names.know(keys)
    if part is not None:
        part.names = names
    first = next(blocks, None)
    if first is not None and not keys:
        names.turn_to(first.columns)
        _look_for_sections(names, first)
        names.learn(first.rows)
        mapping = names.mapping
    is_table = first is not None and first.columns is not None
    if not keys and not is_table:
        require_texts(mapping, names.seen, where)
        rows = 0 if first is None else len(first.rows)
        if rows >= sure and (not place["rows"] or not known):
            names.check_texts()
    if part is not None and names.are_met:
        part.keys = names.known()
    if first is None:
        if keys and part is None:
            names.check()
        return Rows(iter(()), mapping.defaults(), total, notes=notes)
    reading = RowBatches(reader, names, where, place["rows"], known=known, of=of)
    batches = reading.batches(chain([first], blocks))
    if not marks:
        batches = (item for item in batches if not isinstance(item, Mark))
    return Rows(batches, mapping.defaults(), total, notes=notes)


def _look_for_sections(names: Names, block: RowBlock) -> None:
    """Use a key ``sections`` with whole sections if the mapping names no text."""
    mapping = names.mapping
    if mapping.converter is not None or mapping.part("sections") or block.columns is not None:
        return
    for row in block.rows:
        given = row.get("sections") if isinstance(row, dict) else None
        first = given[0] if isinstance(given, list) and given else None
        if isinstance(first, dict) and {"role", "text"} <= first.keys():
            names.mapping = changed(mapping, sections="sections")
            return


class RowBatches:
    """The batches of rows of an input."""

    def __init__(
        self,
        reader: Database,
        names: Names,
        where: str,
        start: int,
        *,
        known: bool,
        of: dict[str, Any] | None,
    ) -> None:
        part, mapping = part_of(reader), names.mapping
        self._reader, self._part = reader, part
        self._where = where if part is None else part.where
        self._names, self._mapping = names, mapping
        most = MAX_ROWS, MAX_BYTES
        self._mapper = RowMapper(mapping, names, limits_of(reader), where, most)
        self._judge = Judge(mapping, source_name(part.named(mapping) if part else mapping, where))
        self._start, self._known, self._of = start, known, of
        self.row = start if known else 0  # rows so far
        if part is not None:
            self.row, self._start = part.row - 1, 0
        self._marked = self.row, time.monotonic()

    def batches(self, blocks: Iterable[RowBlock]) -> Iterator[pa.RecordBatch | Mark]:
        """Yield batches, and marks at the places to continue from."""
        names, mapper, is_first = self._names, self._mapper, True
        place: Any = None  # last place met and not yet given
        ends = 0, 0
        try:
            for block in blocks:
                turned = names.turn_to(block.columns)
                if names.learn(block.rows) or turned or is_first:
                    mapper.bind()
                is_first = False
                passed = min(max(self._start - self.row, 0), len(block.rows))
                self.row += passed
                block = block.after(passed) if passed else block
                while block.rows:
                    taken = mapper.take(block, self.row + 1)
                    self.row += taken
                    block = block.after(taken)
                    if mapper.is_full and (block.rows or block.at is None):
                        yield from self.flushed()
                        yield from self._mark(None) if not self._known else ()
                        place = None
                if block.at is not None:
                    place, ends = block.at, (self.row, len(mapper.row))
                    if self._is_due():
                        yield from self._told(place)
                        place = None
        except SourceError:
            if place is not None:  # an ingest continues after the last complete batch
                self.row = ends[0]
                mapper.cut(ends[1])
                yield from self._told(place)
            raise
        yield from self.flushed()
        if not self._known or (place is not None and ends[0] == self.row):
            yield from self._mark(place)
        if self._part is None:
            names.check()
        else:
            self._part.rows = self.row

    def _told(self, place: Any) -> Iterator[pa.RecordBatch | Mark]:
        yield from self.flushed()
        yield from self._mark(place)

    def _is_due(self) -> bool:
        row, then = self._marked
        many = self.row - row >= MAX_ROWS or self._mapper.is_full
        return many or time.monotonic() - then > _MARK_SECONDS

    def _mark(self, at: Any) -> Iterator[Mark]:
        if self._part is None:
            of = (self._of or {}) | (self._names.known() if self._known else {})
            yield Mark({"rows": self.row, "at": at, "of": of or None})
            self._marked = self.row, time.monotonic()

    def flushed(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows taken since the last time."""
        taken = self._mapper.table()
        if taken is None:
            return
        table = self._by_form(taken)
        chunks = pa.Table.from_batches(table.to_batches(_CHUNK_ROWS), table.schema)
        try:
            with self._reader.registered(mapped=chunks):
                rows = self._reader.arrow(query("sources/rows"))
        except QueryError as error:
            raise refused(error, self._where, limits_of(self._reader)) from error
        made = self._judge.judged(rows, self._mapper)
        self._mapper.clear()
        batches = made.combine_chunks().to_batches(max_chunksize=MAX_ROWS)
        del taken, table, chunks, rows, made  # or they stay as long as the batches wait
        yield from batches

    def _by_form(self, table: pa.Table) -> pa.Table:
        """Return input with dates in a format of the mapping parsed."""
        days: pa.ChunkedArray | pa.Array = pa.nulls(table.num_rows, pa.date32())
        for form in self._mapping.part("date_format"):
            bare = form[:-2].rstrip() if form[-2:] in ("%z", "%Z") else form
            texts: Any = self._mapper.forms()
            if bare != form:  # the date is local, as written
                texts = [text and _ZONE.sub("", text) for text in texts]
            input_ = pa.table({"date_text": pa.array(texts, _TEXT)})
            with self._reader.registered(input=input_):
                found = self._reader.arrow(query("sources/dates"), {"form": bare})["day"]
            days = pc.coalesce(days, found.combine_chunks())
        return table.append_column("date_by_form", days)


def refused(error: QueryError, where: str, limits: Limits) -> SourceError:
    """Return the error for a statement the reader refused, naming the limit that helps."""
    more = f"the limit of {limits.memory} is the reader's: limits=dp.Limits(memory='2GB'), or "
    return SourceError(f"{where}: {error}".replace(MORE_MEMORY, f"{more}--reader-memory 2GB"))


def source_name(source: Any, where: str) -> str:
    """Return the name of a source in messages."""
    name = getattr(source, "default_name", None)
    if callable(name):
        return f"source {name()!r}"
    return where if where.startswith("source ") else f"source {where!r}"


class Judge:
    """Handle unusable rows as the mapping says, and record what they were."""

    def __init__(self, mapping: Mapped, source: str) -> None:
        self._source = source
        self._handling = mapping.handling()
        self._takes_bad_dates = mapping.on_bad_date == "null"
        self._converts = mapping.converter is not None
        self._label, self._prefix = bool(mapping.part("label")), bool(mapping.part("prefix"))

    def judged(self, rows: pa.Table, taken: RowMapper) -> pa.Table:
        """Return rows in the shape of ``ROW_SCHEMA``, with their reasons."""
        skips, values = rows["skip"].to_pylist(), rows["value"].to_pylist()
        notes: list[str | None] = [None] * len(skips)
        for i in np.flatnonzero(pc.is_valid(rows["skip"]).to_numpy()).tolist():
            if i in taken.faults:
                values[i] = taken.faults[i].value
            if skips[i] == BAD_DATE and self._takes_bad_dates and i not in taken.faults:
                skips[i], notes[i] = None, BAD_DATE
            values[i] = values[i] and shown(values[i], _MOST_SHOWN)
        made = rows.set_column(rows.column_names.index("skip"), "skip", pa.array(skips, _TEXT))
        made = made.select(ROW_SCHEMA.names).cast(ROW_SCHEMA)
        extra = self._extra(taken, skips, values, notes)
        always = ("messages", "complaint", "quarantined") if self._converts else ()
        for name, column in extra.items():
            if name in always or any(value is not None for value in column):
                made = made.append_column(name, pa.array(column, EXTRA_COLUMNS[name]))
        made = _with_files(made, taken)
        bad = [i for i, skip in enumerate(skips) if skip not in (None, DROPPED)]
        if bad and self._handling == "raise":
            self._refuse(made, bad[0])
        return made

    def _extra(
        self, taken: RowMapper, skips: list[Any], values: list[Any], notes: list[Any]
    ) -> dict[str, list[Any]]:
        faults = taken.values("fault")
        extra = {name: taken.values(name) for name in TOLD}
        extra |= {"value": values, "note": notes}
        complaints = zip(extra["complaint"], faults, strict=True)
        extra["complaint"] = [None if fault else said for said, fault in complaints]
        if self._label:
            extra["label"] = taken.values("label_number")
        if self._prefix:
            extra["prefix"] = taken.values("prefix")
        if self._handling == "quarantine":
            kept = taken.values("kept")
            extra["quarantined"] = [
                _whole(kept[i]) if skip not in (None, DROPPED) else None
                for i, skip in enumerate(skips)
            ]
        return extra

    def _refuse(self, rows: pa.Table, place: int) -> None:
        row = rows.slice(place, 1).drop_columns(["sections"]).to_pylist()[0]
        where = f"{self._source}, row {row['row']}"
        if row.get("file"):
            line = f", line {row['line']}" if row["line"] else ""
            where += f" ({row['file']}{line})"
        value = "" if row.get("value") is None else f": {row['value']!r}"
        said = row.get("complaint") or f"{row['skip']}{value}"
        raise SourceError(
            f"{where}: {said}; on_error='skip' or 'quarantine' goes on without such rows"
        )


def _whole(kept: tuple[Any, str | None]) -> str | None:
    """Return a row as JSON."""
    row, raw = kept
    if isinstance(row, Fault):
        return row.whole
    if raw is not None and is_utf8(raw):
        return raw.strip(" \t\r\n")
    return document(row)


def _with_files(rows: pa.Table, taken: RowMapper) -> pa.Table:
    """Return rows with their files and lines, if known."""
    each = taken.values("file")
    if each[0] is None:
        return rows
    files = list(dict.fromkeys(each))
    place = {file: i for i, file in enumerate(files)}
    indices = pa.array([place[file] for file in each], pa.int32())
    told = [str(f).encode("utf-8", "backslashreplace").decode() for f in files]
    rows = rows.append_column("file", pa.DictionaryArray.from_arrays(indices, told))
    return rows.append_column("line", pa.array(taken.values("line"), pa.int64()))
