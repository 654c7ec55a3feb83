"""Map rows to records: batches of ``ROW_SCHEMA``, whatever the rows were read from.

blocks ─RowMapper→ columns, reasons ─hashed→ keys, hashes of contents → batches

A batch has at most ``MAX_ROWS`` rows, or ``MAX_BYTES`` characters and one row.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from hashlib import sha256
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.columns import whole
from duckplets.db.database import Database
from duckplets.db.foreign import MORE_MEMORY
from duckplets.db.queries import query
from duckplets.errors import QueryError, SourceError
from duckplets.sources.limits import Limits, limits_of, part_of
from duckplets.sources.mapping import Mapped, changed
from duckplets.sources.names import Names, require_texts
from duckplets.sources.row_mapper import RowMapper
from duckplets.sources.rows import (
    ADVICE,
    DROPPED,
    EXTRA_COLUMNS,
    HASHED,
    ROW_SCHEMA,
    Mark,
    RowBlock,
    Rows,
    cursor_of,
)

MAX_ROWS = 16_384
MAX_BYTES = 24 << 20
_SURE = 100  # first rows after which a text that none of them has is a typing error
_CHUNK_ROWS = 8_192  # rows that go to DuckDB together, enough for several threads
_LONG = 128  # bytes of a text on average, from which hashlib takes less time
_MARK_SECONDS = 1.0  # so that a slow source gets its marks in time
_ZONE = re.compile(r"\s*(?:[+-]\d\d:?\d\d|[A-Za-z]{1,5})\s*$")


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
    notes: Callable[[], list[str]] = list,
) -> Rows:
    """Return the rows of blocks, after looking at the first ones."""
    if mapping.is_raw:
        whole: Any = blocks
        return Rows(whole, total=total, notes=notes, of=of)
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
        if not known or (rows >= _SURE and not place["rows"]):
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
        value = row.get("sections") if isinstance(row, dict) else None
        first = value[0] if isinstance(value, list) and value else None
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
        self._mapper = RowMapper(mapping, names, limits_of(reader), where, most, self._days_of)
        is_part = part is not None and isinstance(mapping, type(part.source))
        source = part.source if part and is_part else mapping
        self._source = where if where.startswith("source ") else f"source {where!r}"
        if hasattr(source, "default_name"):
            self._source = f"source {source.default_name()!r}"
        self._start, self._known, self._of = start, known, of
        self.row = start if known else 0  # rows so far
        if part is not None:
            self.row, self._start = part.row - 1, 0
        self._marked = self.row, time.monotonic()

    def batches(self, blocks: Iterable[RowBlock]) -> Iterator[pa.RecordBatch | Mark]:
        """Yield batches, and marks at the places to continue from."""
        names, mapper, is_first = self._names, self._mapper, True
        place: Any = None  # last place met and not yet given
        end = 0
        try:
            for block in blocks:
                turned = names.turn_to(block.columns)
                if names.learn(block.rows) or turned or is_first:
                    mapper.bind()
                is_first = False
                passed = min(max(self._start - self.row, 0), len(block.rows))
                self.row += passed
                block = block.part(passed) if passed else block
                while block.rows:
                    taken = mapper.take(block, self.row + 1)
                    self.row += taken
                    block = block.part(taken)
                    if mapper.is_full and (block.rows or block.at is None):
                        yield from self.flushed()
                        yield from self._mark(None) if not self._known else ()
                        place = None
                if block.at is not None:
                    place, end = block.at, self.row
                    is_due = self.row - self._marked[0] >= MAX_ROWS or mapper.is_full
                    if is_due or time.monotonic() - self._marked[1] > _MARK_SECONDS:
                        yield from self.flushed()
                        yield from self._mark(place)
                        place = None
        except SourceError:
            if place is not None:  # an ingest continues after the last complete batch
                self.row = end
                mapper.cut(end)
                yield from self.flushed()
                yield from self._mark(place)
            raise
        yield from self.flushed()
        if not self._known or (place is not None and end == self.row):
            yield from self._mark(place)
        if self._part is None:
            names.check()
        else:
            self._part.rows = self.row

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
        if self._mapping.handling() == "raise":
            self._refuse(taken)
        try:
            made = hashed(self._reader, taken)
        except QueryError as error:
            raise refused(error, self._where, limits_of(self._reader)) from error
        columns = {
            name: whole(made[name]) if name in HASHED else taken[name]
            for name in (*ROW_SCHEMA.names, *self._extra(taken))
        }
        self._mapper.clear()
        batches = pa.table(columns).combine_chunks().to_batches(max_chunksize=MAX_ROWS)
        del taken, made, columns  # or they stay as long as the batches wait
        yield from batches

    def _extra(self, taken: pa.Table) -> list[str]:
        always = {"line", "file"} if "file" in taken.column_names else set()
        if self._mapping.converter is not None:
            always |= {"messages", "complaint"}
        if self._mapping.handling() == "quarantine":
            always.add("quarantined")
        filled = {n for n in EXTRA_COLUMNS if taken[n].null_count < taken.num_rows}
        return [name for name in (*EXTRA_COLUMNS, "file") if name in filled | always]

    def _days_of(self, texts: list[str | None]) -> list[date | None]:
        """Return the days that texts spell in the first form of the mapping that fits."""
        days: pa.ChunkedArray | pa.Array = pa.nulls(len(texts), pa.date32())
        for form in self._mapping.part("date_format"):
            bare, of_form = form, texts
            if form[-2:] in ("%z", "%Z"):  # the date is local, as written
                bare = form[:-2].rstrip()
                of_form = [text and _ZONE.sub("", text) for text in texts]
            input_ = pa.table({"date_text": pa.array(of_form, pa.string())})
            with self._reader.registered(input=input_):
                found = self._reader.arrow(query("sources/dates"), {"form": bare})["day"]
            days = pc.coalesce(days, found.combine_chunks())
        return list(days.to_pylist())

    def _refuse(self, taken: pa.Table) -> None:
        bad = taken.filter(pc.not_equal(taken["skip"], DROPPED)).slice(0, 1)
        if not bad.num_rows:
            return
        (row,) = bad.to_pylist()
        where = f"{self._source}, row {row['row']}"
        if row.get("file"):
            line = f", line {row['line']}" if row["line"] is not None else ""
            where += f" ({row['file']}{line})"
        value = "" if row["value"] is None else f": {row['value']!r}"
        reason = row["complaint"] or f"{row['skip']}{value}"
        advice = ADVICE.get(row["skip"]) if hasattr(self._mapping, "encoding") else None
        raise SourceError(
            f"{where}: {reason}; on_error='skip' or 'quarantine' continues without such rows"
            f"{f'; {advice}' if advice else ''}"
        )


def refused(error: QueryError, where: str, limits: Limits) -> SourceError:
    """Return the error for a statement the reader refused, naming the limit that helps."""
    more = f"the limit of {limits.memory} is the reader's: limits=dp.sources.Limits(memory='2GB')"
    return SourceError(f"{where}: {error}".replace(MORE_MEMORY, more))


# -- keys and hashes of contents -------------------------------------------------------------------
# The law is in sql/sources/rows.sql. DuckDB hashes 0.1 GB a second without the processor's
# instructions; hashlib uses them, but every call costs half a microsecond.


def hashed(reader: Database, rows: pa.Table) -> pa.Table:
    """Return ``key`` and ``content_hash`` of mapped rows."""
    texts = whole(rows["sections"]).flatten().field("text")
    is_long = texts.nbytes > _LONG * max(len(texts), 1)
    if is_long and all(
        rows[n].null_count == rows.num_rows for n in ("identity", "prefix", "label")
    ):
        return _by_hashlib(rows)
    chunks = pa.Table.from_batches(rows.to_batches(_CHUNK_ROWS), rows.schema)
    with reader.registered(mapped=chunks):
        return reader.arrow(query("sources/rows"))


def _by_hashlib(rows: pa.Table) -> pa.Table:
    digests = [sha256(content).digest()[:8] for content in _contents(rows)]
    keys = whole(rows["id"])
    if keys.null_count:
        has_key = rows["has_key"].to_pylist()
        made = [d.hex() if k else None for d, k in zip(digests, has_key, strict=True)]
        keys = pc.coalesce(keys, pa.array(made, pa.string()))
    hashes = np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)
    return pa.table({"key": keys, "content_hash": hashes})


def _contents(rows: pa.Table) -> Iterator[bytes]:
    """Yield the serialised content of each row."""
    lists = whole(rows["sections"])
    sections = lists.flatten()
    roles = sections.field("role").to_pylist()
    texts = sections.field("text").cast(pa.binary()).to_pylist()
    each = [f"{role} {sha256(t).hexdigest()}" for role, t in zip(roles, texts, strict=True)]
    ends = np.cumsum([0, *lists.value_lengths().to_pylist()]).tolist()
    for start, end, more in zip(ends, ends[1:], _more(rows), strict=False):
        yield f"{end - start} {' '.join(each[start:end])}{more}".encode()


def _more(rows: pa.Table) -> Iterator[str]:
    """Yield the serialised date, group, taxonomy and meta of each row."""
    names = ("date", "group_key", "taxonomy", "meta")
    values = sum(len(each.values) for name in names[2:] for each in rows[name].chunks)
    if not values and all(rows[name].null_count == rows.num_rows for name in names[:2]):
        yield from ["dg-t0 m0 "] * rows.num_rows
        return
    days = rows["date"].cast(pa.string()).to_pylist()
    others = (rows[name].to_pylist() for name in names[1:])
    for day, group, topics, metas in zip(days, *others, strict=True):
        of_group = "-" if group is None else _sized(group)
        of_metas = "".join(_sized(key) + _sized(value) for key, value in metas)
        of_topics = "".join(map(_sized, topics))
        yield f"d{day or ''}g{of_group}t{len(topics)} {of_topics}m{len(metas)} {of_metas}"


def _sized(text: str) -> str:
    return f"{len(text.encode())}:{text}"
