"""Map rows to records: dictionaries become batches of ``ROW_SCHEMA``, whatever they were read from.

    blocks ─RowMapper→ columns of texts ─sql/sources/rows.sql→ checked, hashed ─Judge→ batches

What texts a row has, and why it has none, is decided here; dates, trusts and content hashes by the
statement. A batch has at most ``MAX_ROWS`` rows, or ``MAX_BYTES`` characters and one row.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import shown
from duckplets.db.foreign import MORE_MEMORY
from duckplets.db.queries import query
from duckplets.errors import QueryError, SourceError
from duckplets.sources.limits import Limits, limits_of, part_of
from duckplets.sources.mapping import ROLES, Mapped
from duckplets.sources.names import Names, follow, known_fields, require_texts
from duckplets.sources.rows import (
    DROPPED,
    EXTRA_COLUMNS,
    ROW_SCHEMA,
    Block,
    Mark,
    Rows,
    cursor_of,
)
from duckplets.sources.values import (
    Fault,
    Odd,
    cell_text,
    document,
    escaped,
    is_filled,
    items_of,
    json_text,
    plain,
    texts_of,
    unread,
)

if TYPE_CHECKING:
    from duckplets.db.database import Database

_Name = tuple[str, str | None, Any, bool]
"""A name of the mapping as a heading, its key, the steps from there, and whether it may lack."""

MAX_ROWS = 16_384
MAX_BYTES = 24 << 20
BAD_DATE = "unreadable date"
_MARK_SECONDS = 1.0  # a slow source gets its marks in time
_CHUNK_ROWS = 8_192  # of what goes to DuckDB at once, so that several threads find work
_SHOWN, _MOST_SHOWN = 60, 300  # characters of a wrong value in a reason, and beside one
_ZONE = re.compile(r"\s*(?:[+-]\d\d:?\d\d|[A-Za-z]{1,5})\s*$")
_TEXT, _REAL = pa.string(), pa.float64()
_SECTION = pa.struct([("role", _TEXT), ("heading", _TEXT), ("text", _TEXT)])
_PAIR = pa.struct([("key", _TEXT), ("value", _TEXT)])
_PLAIN_TEXTS = ("fault", "id", "date_text", "group_text", "trust_text", "created_text")
_TEXTS = (*_PLAIN_TEXTS, "updated_text", "lack", "label_text", "prefix", "identity", "told")
_TOLD = ("messages", "rejected_messages", "complaint", "left_out")
_AS_THEY_ARE = ("fault", "id", "lack", "told", "identity", *_TOLD)
_RECORD_ROLES = ("anchor", "context", "rejected")

_YES = ("true", "yes", "positive", "entailment", "duplicate", "equivalent")
_NO = ("false", "no", "negative", "contradiction")
_LABELS = dict.fromkeys(_YES, 1.0) | dict.fromkeys(_NO, 0.0)
_LABELS |= {f"{no}{name}": 0.0 for no in ("not_", "not ") for name in _YES[-3:]}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def opened(
    reader: Database,
    mapping: Mapped,
    blocks: Iterator[Block],
    where: str,
    *,
    cursor: Any = None,
    total: int | None = None,
    of: dict[str, Any] | None = None,
    known: bool = False,
    by_row: bool = False,
    marks: bool = True,
    kind: str = "",
    notes: Callable[[], list[str]] = list,
) -> Rows:
    """Return the rows of blocks, after a look at the first of them.

    Args:
        reader: An instance to run statements in.
        mapping: Which key plays which part.
        blocks: From the beginning, or from the place of the cursor if they know it.
        where: The input's name, for messages.
        cursor: Of a ``Mark``, or None for the beginning.
        total: How many rows there are, where that is known.
        of: What a place is a place in, for cursors.
        known: Whether the blocks begin at the cursor, and as a rule have places of their own.
        by_row: Whether they can all the same begin at any row.
        marks: Whether places to go on from are wanted.
        kind: What messages call the source's class.
        notes: After the last row, what is to be said of the reading.

    Raises:
        SourceError: No text is mapped, or a part's columns are in none of the first rows.
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
        require_texts(mapping, names.seen, where, kind or type(mapping).__name__)
        if not place["rows"] or not known:
            names.check_texts()
    if part is not None and names.are_met:
        part.keys = names.known()
    if first is None:
        return Rows(iter(()), mapping.defaults(), total, notes=notes)
    reading = RowBatches(reader, names, where, place["rows"], known=known, by_row=by_row, of=of)
    batches = reading.batches(chain([first], blocks))
    if not marks:
        batches = (item for item in batches if not isinstance(item, Mark))
    suited = mapping.defaults()
    if mapping.part("sections"):
        begun = list(islice(batches, 1))
        suited, batches = _suited_to(mapping, begun), chain(begun, batches)
    return Rows(batches, suited, total, notes=notes)


def _look_for_sections(names: Names, block: Block) -> None:
    """Take a key ``sections`` that holds sections given whole, where the mapping is silent."""
    mapping = names.mapping
    if mapping.converter is not None or mapping.part("sections") or block.columns is not None:
        return
    for row in block.rows:
        given = row.get("sections") if isinstance(row, dict) else None
        first = given[0] if isinstance(given, list) and given else None
        if isinstance(first, dict) and {"role", "text"} <= first.keys():
            names.mapping = mapping.changed(sections="sections")
            return


def _suited_to(mapping: Mapped, batches: Iterable[pa.RecordBatch | Mark]) -> str:
    """Return which default recipes suit rows that bring sections, by the roles they have."""
    roles = set()
    for batch in batches:
        if isinstance(batch, pa.RecordBatch):
            usable = batch.filter(pc.is_null(batch["skip"]))
            found = pc.struct_field(usable["sections"].flatten(), "role")
            roles |= set(pc.unique(found).to_pylist())
    if "rejected" in roles and "anchor" in roles:
        return "ready"
    return mapping.defaults() if mapping.part("anchor") or "anchor" in roles else "text"


class RowBatches:
    """The batches of rows of an input.

    Args:
        reader: An instance to run the statement in.
        names: Those of the mapping, learnt from the rows.
        where: The input's name, for messages.
        start: Rows that come before what is wanted.
        known: Whether the blocks begin after those rows.
        by_row: Whether they can begin after any row, so that they need no places of their own.
        of: What a place is a place in.
    """

    def __init__(
        self,
        reader: Database,
        names: Names,
        where: str,
        start: int = 0,
        *,
        known: bool = False,
        by_row: bool = False,
        of: dict[str, Any] | None = None,
    ) -> None:
        part, mapping = part_of(reader), names.mapping
        self._reader, self._part = reader, part
        self._where = where if part is None else part.where
        self._names, self._mapping = names, mapping
        self._mapper = RowMapper(mapping, names, limits_of(reader), where)
        self._judge = Judge(mapping, source_name(part.named(mapping) if part else mapping, where))
        self._start, self._known, self._of = start, known, of
        self._by_row = by_row or not known
        self.row = start if known else 0  # rows so far
        if part is not None:
            self.row, self._start = part.row - 1, 0
        self._marked = self.row, time.monotonic()

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch | Mark]:
        """Yield batches, and marks at the places that reading can go on from."""
        names, mapper, is_first = self._names, self._mapper, True
        place: Any = None  # the last that was met and not told yet
        ends: tuple[int, Any] = 0, None
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
                        yield from self._mark(None) if self._by_row else ()
                        place = None
                if block.at is not None:
                    place, ends = block.at, (self.row, mapper.ends())
                    if self._is_due():
                        yield from self._told(place)
                        place = None
        except SourceError:
            if place is not None:  # an ingest goes on after the last whole batch
                self.row = ends[0]
                mapper.cut(ends[1])
                yield from self._told(place)
            raise
        yield from self.flushed()
        if self._by_row or (place is not None and ends[0] == self.row):
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
        """Yield the rows that were taken since the last time."""
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
        yield from made.combine_chunks().to_batches(max_chunksize=MAX_ROWS)

    def _by_form(self, table: pa.Table) -> pa.Table:
        """Return input with the dates that are written in a form of the mapping."""
        days: pa.ChunkedArray | pa.Array = pa.nulls(table.num_rows, pa.date32())
        for form in self._mapping.part("date_format"):
            bare = form[:-2].rstrip() if form[-2:] in ("%z", "%Z") else form
            texts = table["date_text"].to_pylist()
            if bare != form:  # the date is the one of the place, as it is written
                texts = [text and _ZONE.sub("", text) for text in texts]
            input_ = pa.table({"date_text": pa.array(texts, _TEXT)})
            with self._reader.registered(input=input_):
                found = self._reader.arrow(query("sources/dates"), {"form": bare})["day"]
            days = pc.coalesce(days, found.combine_chunks())
        return table.append_column("date_by_form", days)


def refused(error: QueryError, where: str, limits: Limits) -> SourceError:
    """Return the error for a statement that the reader refused; what helps it is its own limit."""
    more = f"the limit of {limits.memory} is the reader's: limits=dp.Limits(memory='2GB'), or "
    return SourceError(f"{where}: {error}".replace(MORE_MEMORY, f"{more}--reader-memory 2GB"))


def source_name(source: Any, where: str) -> str:
    """Return what messages call a source."""
    name = getattr(source, "default_name", None)
    if callable(name):
        return f"source {name()!r}"
    return where if where.startswith("source ") else f"source {where!r}"


class RowMapper:
    """Takes rows apart, into the columns that ``sql/sources/rows.sql`` asks for.

    Args:
        mapping: Which key plays which part.
        names: The keys that stand for its names.
        limits: Of these, that of a field.
        where: The input's name, for messages.
    """

    def __init__(self, mapping: Mapped, names: Names, limits: Limits, where: str) -> None:
        self._mapping, self._names, self._limits, self._where = mapping, names, limits, where
        self._most = limits.size("field")
        self._as_json = mapping.text_of == "json"
        self._nulls = frozenset(mapping.null_words())
        self._labels = dict(mapping.label_rules())
        self._numbers = {float(n): v for n, v in self._labels.items() if _NUMBER.fullmatch(n)}
        self._converter = mapping.conversion()
        self._each = mapping.turns == "each"
        self._known = known_fields(mapping)
        self._keeps = mapping.handling() == "quarantine"
        self._get: dict[str, list[_Name]] = {}
        self.clear()
        self.bind()

    def clear(self) -> None:
        """Forget the rows that were taken."""
        self.row: list[int] = []
        self.columns: dict[str, list[Any]] = {name: [] for name in (*_TEXTS, *_TOLD)}
        self._sections: list[int] = [0]
        self._roles: list[str] = []
        self._headings: list[str | None] = []
        self._section_texts: list[str] = []
        self._topics: list[list[str]] = []
        self._metas: list[int] = [0]
        self._meta_keys: list[str] = []
        self._meta_values: list[str] = []
        self.labels: list[float | None] = []
        self._has_prefix: list[bool] = []
        self.further: list[int] = []
        self.kept: list[Any] = []  # rows, where they may have to be shown or set aside
        self.files: list[str | None] = []
        self.lines: list[int] = []
        self.faults: dict[int, Fault] = {}
        self._size = 0

    def ends(self) -> tuple[int, int, int]:
        """Return where the rows that were taken end."""
        return len(self.row), len(self._roles), len(self._meta_keys)

    def cut(self, ends: tuple[int, int, int]) -> None:
        """Forget the rows after an end."""
        rows, sections, metas = ends
        lists: list[tuple[list[Any], int]] = [(c, rows) for c in self.columns.values()]
        lists += [(c, rows) for c in (self.row, self._topics, self.labels, self._has_prefix)]
        lists += [(c, rows) for c in (self.further, self.kept, self.files, self.lines)]
        lists += [(c, rows + 1) for c in (self._sections, self._metas)]
        lists += [(c, sections) for c in (self._roles, self._headings, self._section_texts)]
        lists += [(c, metas) for c in (self._meta_keys, self._meta_values)]
        for each, end in lists:
            del each[end:]

    @property
    def is_full(self) -> bool:
        """Whether the rows that were taken make a batch."""
        return len(self.row) >= MAX_ROWS or self._size >= MAX_BYTES

    def bind(self) -> None:
        """Look up the keys of the mapping's parts, as far as they have been met."""
        own = self._mapping.are_own_keys
        for part in (*ROLES, *_FEATURES):
            self._get[part] = []
            for name in self._mapping.part(part):
                key, steps = (name, ()) if own else self._names.found.get(name, (None, ()))
                optional = name.endswith("?") and not (key or "").endswith("?")
                optional = optional or (name.endswith("?") and bool(steps))
                heading = name[:-1] if optional else name
                self._get[part].append((heading, key, steps, optional))
        self._fields = {}
        if self._converter is not None and not self._converter.is_own:
            there = self._names.found
            self._fields = {f: there[f][0] for f in self._converter.fields if f in there}

    def take(self, block: Block, number: int) -> int:
        """Take rows of a block; return how many.

        Args:
            block: With at least one.
            number: Of its first row.
        """
        rows, lines = block.rows, block.line
        for i, row in enumerate(rows):
            if row is None:  # a blank line
                continue
            before = len(self.row)
            size = self._size
            if isinstance(row, Fault):
                self._add_fault(number + i, row)
            else:
                self._add_row(number + i, row, block.left_out)
            added = len(self.row) - before
            if self._size - size > self._most:
                self._check_fields(row, number + i)
            self.files += [block.file] * added
            line = lines[i] if not isinstance(lines, int) else lines and lines + i
            self.lines += [line] * added
            raw = None if block.raw is None else block.raw[i]
            self.kept += [(row, raw) if self._keeps else None] * added
            if len(self.row) >= MAX_ROWS or self._size >= MAX_BYTES:
                return i + 1
        return len(rows)

    def _check_fields(self, row: Any, number: int) -> None:
        """Refuse a value that is larger than the limit of a field."""
        for name, value in row.items() if isinstance(row, dict) else ():
            text = value if isinstance(value, str) else json_text(value)
            size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            if size > self._most:
                larger = f"column {shown(repr(name))} has a value of {size:,} bytes, larger"
                raise self._limits.exceeded(f"{self._where}, row {number}", larger, "field")

    # -- one row ----------------------------------------------------------------------------------

    def _add_fault(self, number: int, fault: Fault) -> None:
        self.faults[len(self.row)] = fault
        cells = {} if fault.row is None else self._cells(fault.row)
        self._end(number, cells | {"fault": fault.reason}, fault.row)

    def _add_row(self, number: int, row: dict[str, Any], left_out: Sequence[str]) -> None:
        before = self.ends()
        try:
            if self._converter is None:
                self._add(number, row)
            else:
                self._add_converted(number, row, left_out)
        except RecursionError:  # it holds itself, or is nested without end
            self.cut(before)
            self._add_fault(number, Fault("invalid JSON"))

    def _add(self, number: int, row: dict[str, Any]) -> None:
        own = row if self._mapping.are_own_keys else None
        wrong: tuple[str, str] | None = None
        lack: str | None = None
        further = 0
        get = self._get
        cells = self._cells(row)
        lack = "no id" if get["id"] and cells["id"] is None else None
        if own is not None and "id" not in own:
            lack = None
        for part in ("anchor", "positive", "text"):
            if not get[part]:
                continue
            texts, heading, fault = self._first(row, get[part])
            wrong = wrong or fault
            if part == "anchor":
                further, texts = max(len(texts) - 1, 0), texts[:1]
            for text in texts:
                self._section("anchor" if part == "anchor" else "context", heading, text)
            if not texts and lack is None and (own is None or part in own):
                lack = f"no {part}"
        if get["label"] and cells["label"] is None and lack is None:
            lack = "no label" if own is None or "label" in own else None
        for part, role in (("context", "context"), ("negative", "rejected")):
            for heading, key, steps, optional in get[part]:
                found = self._texts(_value(row, key, steps))
                if isinstance(found, Odd):
                    wrong, found = wrong or _wrong(found, heading), []
                texts = found
                for text in texts:
                    self._section(role, heading, text)
                missing = part == "context" and not optional and not texts
                if missing and lack is None and (own is None or part in own):
                    lack = f"no context: {heading}"
        given = 0
        if get["sections"]:
            _, key, steps, _ = get["sections"][0]
            given, fault = self._given(_value(row, key, steps))
            wrong = wrong or fault
        if own is not None and lack is None and not _TEXT_KEYS & own.keys():
            lack = "no text"
        alone = own is not None or not (get["anchor"] or get["text"])
        asked = get["sections"] and alone and (own is None or "sections" in own)
        if asked and not given and lack is None:
            lack = "no text"
        told = None
        if wrong is not None:
            lack, told = wrong
        self._end(number, cells | {"lack": lack, "told": told}, row, further)

    def _first(
        self, row: dict[str, Any], candidates: list[_Name]
    ) -> tuple[list[str], str | None, tuple[str, str] | None]:
        """Return the texts of the first candidate that has some, and what is none before it."""
        for heading, key, steps, _ in candidates:
            texts = self._texts(_value(row, key, steps))
            if isinstance(texts, Odd):
                return [], None, _wrong(texts, heading)
            if texts:
                return texts, heading, None
        return [], None, None

    def _texts(self, value: Any) -> list[str] | Odd:
        if type(value) is str:
            found: list[str] | Odd = [value] if value and not value.isspace() else []
        elif value is None:
            return []
        else:
            found = texts_of(value, as_json=self._as_json)
        if self._nulls and not isinstance(found, Odd):
            return [text for text in found if text.strip(" ") not in self._nulls]
        return found

    def _section(self, role: str, heading: str | None, text: str) -> None:
        self._roles.append(role)
        self._headings.append(heading)
        self._section_texts.append(text)
        self._size += len(text)

    def _given(self, value: Any) -> tuple[int, tuple[str, str] | None]:
        """Add the sections that a row brings whole; return how many, or what is wrong with them."""
        value = plain(value)
        if value is None or (isinstance(value, str) and not is_filled(value)):
            return 0, None
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return 0, ("sections: not a list of sections", str(value)[:80])
        if not isinstance(value, list):
            return 0, ("sections: not a list of sections", json_text(value)[:80])
        made = []
        for i, each in enumerate(value, 1):
            each = plain(each)
            each = each if isinstance(each, dict) else {}
            role, heading, text = (plain(each.get(key)) for key in ("role", "heading", "text"))
            place = f"section {i}, "
            if type(role) is not str or role not in _RECORD_ROLES:
                reason, said = "a role that is not anchor, context or rejected", "missing"
                said = f"{place}role: {json_text(role) if 'role' in each else said}"
                return 0, (f"sections: {reason}", said[:80])
            if heading is not None and type(heading) is not str:
                said = f"{place}heading: {json_text(heading)}"
                return 0, ("sections: a heading that is not text", said[:80])
            if type(text) is not str and text not in (None, []):
                said = f"{place}text: {json_text(text)}"
                return 0, ("sections: a text that is not text", said[:80])
            if isinstance(text, str) and is_filled(text):
                made.append((role, heading, text))
        for section in made:
            self._section(*section)
        return len(made), None

    def _cells(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return what a row says besides texts."""
        get, cells = self._get, {}
        for part in ("id", "group", "trust", "label", "created_at", "updated_at", "prefix"):
            cells[part] = self._cell(row, *get[part][0]) if get[part] else None
        cells["day"] = None
        if get["date"]:
            heading, key, steps, optional = get["date"][0]
            value = _value(row, key, steps)
            is_moment = type(value) is Odd and value.day is not None
            cells["day"] = (
                value.day if is_moment else self._cell(row, heading, key, steps, optional)
            )
        return cells

    def _cell(
        self, row: dict[str, Any], heading: str, key: str | None, steps: Any, optional: bool
    ) -> str | None:
        text = cell_text(_value(row, key, steps))
        if self._nulls and text is not None and text.strip(" ") in self._nulls:
            return None
        return text

    def _end(
        self,
        number: int,
        values: dict[str, Any],
        row: dict[str, Any] | None = None,
        further: int = 0,
    ) -> None:
        """End a row whose sections have been added."""
        topics: list[str] = []
        if row is not None:
            for _, key, steps, _ in self._get["taxonomy"]:
                topics += self._but_null(items_of(_value(row, key, steps)))
            self._add_meta(row)
        self.row.append(number)
        columns, get = self.columns, values.get
        day, label, prefix = get("day"), get("label"), get("prefix")
        made, changed, trust = get("created_at"), get("updated_at"), get("trust")
        columns["date_text"].append(day and _moment(day))
        columns["group_text"].append(get("group"))
        columns["trust_text"].append(trust and trust.strip(" "))
        columns["created_text"].append(made and _moment(made))
        columns["updated_text"].append(changed and _moment(changed))
        columns["label_text"].append(label)
        columns["prefix"].append(prefix and _object(prefix))
        for name in _AS_THEY_ARE:
            columns[name].append(get(name))
        self._has_prefix.append(prefix is not None)
        self.labels.append(None if label is None else self._label(label))
        self.further.append(further)
        self._sections.append(len(self._roles))
        self._topics.append(topics)
        self._metas.append(len(self._meta_keys))
        self._size += 64

    def _but_null(self, texts: list[str]) -> list[str]:
        return [t for t in texts if t.strip(" ") not in self._nulls] if self._nulls else texts

    def _add_meta(self, row: dict[str, Any]) -> None:
        if self._mapping.are_own_keys:
            meta = plain(row.get("meta"))
            named = meta if isinstance(meta, dict) or meta is None else {"meta": meta}
            pairs = {str(key): cell_text(value) for key, value in (named or {}).items()}
            found = [(key, pairs[key]) for key in sorted(pairs)]
        else:
            names = {name: (name, *rest) for name, *rest in self._get["meta"]}
            found = [(name, self._cell(row, *names[name])) for name in sorted(names)]
        for key, value in found:
            if value is not None:
                self._meta_keys.append(key)
                self._meta_values.append(value)
                self._size += len(value)

    def _label(self, text: str) -> float | None:
        """Return the number that a label stands for, None where no rule knows it."""
        folded = text.strip(" ").lower()
        number = float(folded) if _NUMBER.fullmatch(folded) else math.nan
        if self._labels:
            return self._labels.get(folded, self._numbers.get(number))
        found = _LABELS.get(folded, number)
        return found if math.isfinite(found) else None

    # -- converters -------------------------------------------------------------------------------

    def _add_converted(self, number: int, row: dict[str, Any], left_out: Sequence[str]) -> None:
        converter = self._converter
        assert converter is not None  # noqa: S101 - only rows for a converter come here
        cells = self._cells(row)
        lack = "no id" if self._get["id"] and cells["id"] is None else None
        if self._get["label"] and cells["label"] is None:
            lack = lack or "no label"
        others = left_out or (unread(row, self._known) if self._known else ())
        values = cells | {"left_out": json.dumps(list(others)) if others else None}
        given = row if converter.is_own else {f: row.get(k) for f, k in self._fields.items()}
        for made in converter.converted(given, each=self._each):
            own = dict(values)
            if made.number is not None:  # turns of a conversation stay together
                own["group"] = cells["group"] or cells["id"] or made.conversation
                own["id"] = cells["id"] and f"{cells['id']}#{made.number}"
            if made.reason is not None:
                own |= {"lack": f"{converter.name}: {made.reason}", "complaint": made.detail}
            else:
                for section in made.sections:
                    self._section(*section)
                own |= {"messages": made.messages, "rejected_messages": made.rejected_messages}
                own |= {"lack": lack, "identity": made.identity}
                self._size += len(made.messages or "") + len(made.rejected_messages or "")
            self._end(number, own, row)

    # -- columns ----------------------------------------------------------------------------------

    def table(self) -> pa.Table | None:
        """Return the rows that were taken as the input of the statement."""
        if not self.row:
            return None
        texts = {name: self._column(name) for name in _TEXTS if name != "fault"}
        parts = [self._checked(part) for part in (self._section_texts, self._headings)]
        offsets = pa.array(self._sections, pa.int32())
        roles = pa.array(self._roles, _TEXT)
        structs = pa.StructArray.from_arrays([roles, parts[1], parts[0]], fields=list(_SECTION))
        pairs = [self._checked(part) for part in (self._meta_keys, self._meta_values)]
        metas = pa.StructArray.from_arrays(pairs, fields=list(_PAIR))
        made = {
            "row": pa.array(self.row, pa.int64()),
            **texts,
            "sections": pa.ListArray.from_arrays(offsets, structs),
            "taxonomy": self._nested(self._topics),
            "meta": pa.ListArray.from_arrays(pa.array(self._metas, pa.int32()), metas),
            "label": pa.array(self.labels, _REAL),
            "has_prefix": pa.array(self._has_prefix, pa.bool_()),
        }
        return pa.table(made | {"fault": pa.array(self.columns["fault"], _TEXT)})

    def _nested(self, lists: list[list[str]]) -> pa.Array:
        try:
            return pa.array(lists, pa.list_(_TEXT))
        except UnicodeEncodeError:
            for i, texts in enumerate(lists):
                self._look_at(i, texts)
            return pa.array([[t for t in texts if _is_utf8(t)] for texts in lists], pa.list_(_TEXT))

    def _column(self, name: str) -> pa.Array:
        values = self.columns[name]
        try:
            return pa.array(values, _TEXT)
        except UnicodeEncodeError:
            for i, value in enumerate(values):
                self._look_at(i, [value])
            self.columns[name] = [value and escaped(value) for value in values]
            return pa.array(self.columns[name], _TEXT)

    def _checked(self, values: Sequence[str | None]) -> pa.Array:
        """Return texts of sections or metadata; rows with one that is not UTF-8 get a fault."""
        try:
            return pa.array(values, _TEXT)
        except UnicodeEncodeError:
            ends = self._metas
            if values is self._section_texts or values is self._headings:
                ends = self._sections
            for place, value in enumerate(values):
                row = int(np.searchsorted(ends, place, "right")) - 1
                self._look_at(row, [value])
            return pa.array([value and escaped(value) for value in values], _TEXT)

    def _look_at(self, i: int, texts: Iterable[str | None]) -> None:
        wrong = next((text for text in texts if text and not _is_utf8(text)), None)
        if wrong is not None and self.columns["fault"][i] is None:
            self.columns["fault"][i] = "invalid UTF-8"
            self.faults[i] = Fault("invalid UTF-8", escaped(wrong))


_FEATURES = (
    *("sections", "id", "date", "group", "taxonomy", "meta", "trust", "prefix"),
    *("created_at", "updated_at", "label"),
)
_TEXT_KEYS = frozenset({*ROLES, "sections", "label"} - {"negative"})


def _value(row: dict[str, Any], key: str | None, steps: Any) -> Any:
    value = None if key is None else row.get(key)
    return follow(value, steps) if steps else value


def _wrong(value: Odd, heading: str) -> tuple[str, str]:
    return f"not text: {value.kind}", f"column '{heading}': {value[:_SHOWN]}"


def _moment(text: str) -> str | None:
    """Return the text of a date or time; pandas writes NaT for none."""
    bare = text.strip(" ")
    return None if bare in ("NaT", "") else bare


def _object(text: str) -> str | None:
    """Return a JSON object as compact text, None where it is none."""
    try:
        found = json.loads(text)
        return json_text(found) if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        return None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Judge:
    """Says of every row that cannot be used what it was, and does with it as the mapping says.

    Args:
        mapping: With what becomes of such rows.
        source: What messages call the source.
    """

    def __init__(self, mapping: Mapped, source: str) -> None:
        self._source = source
        self._handling = mapping.handling()
        self._takes_bad_dates = mapping.on_bad_date == "null"
        self._converts = mapping.converter is not None
        self._is_own = self._converts and bool(mapping.conversion().is_own)  # type: ignore[union-attr]
        self._label, self._prefix = bool(mapping.part("label")), bool(mapping.part("prefix"))

    def judged(self, rows: pa.Table, taken: RowMapper) -> pa.Table:
        """Return rows in the shape of ``ROW_SCHEMA``, with what is told of them.

        Raises:
            SourceError: One cannot be used, and that is an error.
        """
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
        for name, column in extra.items():
            kind = EXTRA_COLUMNS[name]
            if any(value is not None for value in column) or name in self._always():
                made = made.append_column(name, pa.array(column, kind))
        made = _with_files(made, taken)
        bad = [i for i, skip in enumerate(skips) if skip not in (None, DROPPED)]
        if bad and self._handling == "raise":
            self._refuse(made, bad[0])
        return made

    def _always(self) -> tuple[str, ...]:
        kept = ("quarantined",) if self._converts and self._handling == "quarantine" else ()
        return (*kept, "messages", "complaint") if self._converts else kept

    def _extra(
        self, taken: RowMapper, skips: list[Any], values: list[Any], notes: list[Any]
    ) -> dict[str, list[Any]]:
        complaints = taken.columns["complaint"]
        extra: dict[str, list[Any]] = {name: taken.columns[name] for name in _TOLD}
        extra |= {"value": values, "note": notes}
        extra["further"] = [n or None for n in taken.further]
        extra["complaint"] = [
            None if fault else c
            for c, fault in zip(complaints, taken.columns["fault"], strict=True)
        ]
        if self._label:
            extra["label"] = taken.labels
        if self._prefix:
            extra["prefix"] = taken.columns["prefix"]
        if self._handling == "quarantine":
            extra["quarantined"] = [
                _whole(taken.kept[i], taken.faults.get(i)) if skip not in (None, DROPPED) else None
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


def _whole(kept: tuple[Any, str | None], fault: Fault | None) -> str | None:
    """Return a row as JSON."""
    row, raw = kept
    if isinstance(row, Fault):
        return row.whole
    if raw is not None and _is_utf8(raw):
        return raw.strip(" \t\r\n")
    return document(row)


def _with_files(rows: pa.Table, taken: RowMapper) -> pa.Table:
    """Return rows with the files and lines that they are of, if they are known."""
    if taken.files[0] is None:
        return rows
    files = list(dict.fromkeys(taken.files))
    place = {file: i for i, file in enumerate(files)}
    indices = pa.array([place[file] for file in taken.files], pa.int32())
    told = [str(f).encode("utf-8", "backslashreplace").decode() for f in files]
    rows = rows.append_column("file", pa.DictionaryArray.from_arrays(indices, told))
    lines = np.array(taken.lines, np.int64)
    return rows.append_column("line", pa.array(lines, pa.int64(), mask=lines == 0))
