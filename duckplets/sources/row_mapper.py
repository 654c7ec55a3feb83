"""Split rows into the columns of records, and find why a row is none.

Rows of plain columns go by ``column_mapper``, all but odd ones. All that is known
of a row is decided here; only ids and hashes of contents are made elsewhere.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, SourceError
from duckplets.sources.column_mapper import KINDS, ColumnMapper, Columns
from duckplets.sources.limits import Limits
from duckplets.sources.mapping import PARTS, ROLES, Mapped, label_number, label_rules, null_words
from duckplets.sources.names import Names, follow, known_fields, left_out_of
from duckplets.sources.rows import DROPPED, HASHED, RowBlock
from duckplets.sources.values import (
    Fault,
    Odd,
    cell_text,
    day_of,
    document,
    escaped,
    identifier,
    is_utf8,
    items_of,
    json_text,
    moment_of,
    plain,
    prefix_of,
    sections_of,
    texts_of,
    trust_of,
    unread,
)

Name = tuple[str, str, Any, bool]
"""A name of the mapping as a heading, its key, the steps from there, and whether it may lack."""
_NOWHERE: Any = object()  # the key of a name that no row has had

_SHOWN = 60  # characters of a wrong value in a reason
_MOST_SHOWN = 300  # characters of a wrong value shown beside it
_TEXT = pa.string()
_CELLS = ("id", "date", "group", "trust", "label", "created_at", "updated_at", "prefix")
_TIMES = ("date", "created_at", "updated_at")
_BAD_DATE = "unreadable date"
_MOST_ODD = 0.1  # share of odd rows above which all rows of a block are made

Days = Callable[[list[str | None]], list[date | None]]
"""Returns the days that texts spell in a form of the mapping."""


class _Lists:
    """Texts of which a row has any number, in parallel columns."""

    def __init__(self, columns: int) -> None:
        self.ends = [0]
        self.columns: list[list[str | None]] = [[] for _ in range(columns)]

    def add(self, *values: str | None) -> None:
        """Add what one element has in each column."""
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)

    def end_row(self) -> None:
        """Note that what was added since the last time is of one row."""
        self.ends.append(len(self.columns[0]))

    def cut(self, rows: int) -> None:
        """Forget what came after some rows."""
        del self.ends[rows + 1 :]
        for column in self.columns:
            del column[self.ends[-1] :]


class RowMapper:
    """Split rows into texts and further values, and judge them."""

    def __init__(
        self,
        mapping: Mapped,
        names: Names,
        limits: Limits,
        where: str,
        most: tuple[int, int],
        days_of: Days,
    ) -> None:
        (self._most_rows, self._most_size), self._days_of = most, days_of
        self._mapping, self._names, self._limits, self._where = mapping, names, limits, where
        self.most = limits.size("field")
        self._as_json = mapping.text_of == "json"
        self._nulls = frozenset(null_words(mapping.null_values))
        self._converter = mapping.conversion()
        self._each = mapping.turns == "each"
        self._known = known_fields(mapping)
        self._keeps = mapping.handling() == "quarantine"
        self._needs_dates = mapping.on_bad_date == "fail"
        rules = dict(label_rules(mapping.labels))
        typed: dict[str, tuple[Callable[[str], Any], str]] = {
            "created_at": (moment_of, "unreadable created_at"),
            "updated_at": (moment_of, "unreadable updated_at"),
            "trust": (trust_of, "trust outside 0..1"),
            "prefix": (prefix_of, "unreadable prefix"),
            "label": (lambda text: label_number(text, rules), "unreadable label"),
            "date": (day_of, _BAD_DATE),  # the last, for a record may come in without its date
        }
        self._typed = {part: how for part, how in typed.items() if mapping.part(part)}
        self._get: dict[str, list[Name]] = {}
        self.clear()
        self.bind()

    def clear(self) -> None:
        """Forget the rows taken."""
        # What each row has: values by part, why it is no record, and where it stands.
        self.rows: list[dict[str, Any]] = []
        self._lists = self._sections, self._topics, self._metas = _Lists(3), _Lists(1), _Lists(2)
        self._tables: list[pa.Table] = []  # records that went by columns
        self._count = self._size = 0

    def cut(self, number: int) -> None:
        """Forget the rows after a number."""
        self._cut(bisect_right(self.rows, number, key=lambda of: int(of["row"])))
        self._tables = [
            each.slice(0, int(np.searchsorted(each["row"].to_numpy(), number, "right")))
            for each in self._tables
        ]

    def _cut(self, rows: int) -> None:
        del self.rows[rows:]
        for lists in self._lists:
            lists.cut(rows)

    @property
    def is_full(self) -> bool:
        """Whether the rows taken fill a batch."""
        count = len(self.rows) + self._count
        return count >= self._most_rows or self._size >= self._most_size

    def bind(self) -> None:
        """Look up the keys of the mapping's parts, as far as known."""
        own = self._mapping.are_own_keys
        for part in PARTS:
            self._get[part] = []
            for name in self._mapping.part(part):
                key, steps = (name, ()) if own else self._names.found.get(name, (_NOWHERE, ()))
                optional = name.endswith("?") and (bool(steps) or not str(key).endswith("?"))
                heading = name[:-1] if optional else name
                self._get[part].append((heading, key, steps, optional))
        self.cell_names = [(p, self._get[p][0]) for p in _CELLS if self._get[p]]
        self.meta_names, self.topic_names = sorted(set(self._get["meta"])), self._get["taxonomy"]
        self.candidates = [
            (part, "anchor" if part == "anchor" else "context", self._get[part])
            for part in ("anchor", "positive", "text")
            if self._get[part]
        ]
        self.others = [
            (part, role, name)
            for part, role in (("context", "context"), ("negative", "rejected"))
            for name in self._get[part]
        ]
        # Columns of a table that a built-in converter does not read.
        self._left_out = left_out_of(self._mapping, self._names.columns or ())
        self._fields = {}
        if self._converter is not None and not self._converter.is_own:
            there = self._names.found
            self._fields = {f: there[f][0] for f in self._converter.fields if f in there}
        by_rows = own or self._nulls or self._converter is not None or self._get["sections"]
        self._columns = None if by_rows else ColumnMapper(self)

    def take(self, block: RowBlock, number: int) -> int:
        """Take rows of a block; return their number."""
        found = self._columns.mapped(block.rows) if self._columns is not None else None
        if found is None or len(found.odd) > max(1, _MOST_ODD * len(block.rows)):
            return self._take_rows(block, number)
        return self._take_columns(block, number, found)

    def _take_columns(self, block: RowBlock, number: int, found: Columns) -> int:
        """Take rows that were mapped by columns, and the odd ones among them."""
        before, count, table = self._size, len(self.rows) + self._count, found.table
        records = np.ones(len(block.rows), np.int64)
        for at, odd in zip(found.odd.tolist(), block.single(found.odd), strict=True):
            size, rows = self._size, len(self.rows)
            self._take_rows(odd, number + at)
            found.sizes[at], records[at] = self._size - size, len(self.rows) - rows
        sizes = before + np.cumsum(found.sizes)
        full = int(np.searchsorted(sizes, self._most_size))
        full = min(full, int(np.searchsorted(count + np.cumsum(records), self._most_rows)))
        taken = min(len(records), full + 1)
        rows = table["row"].to_numpy()
        made = {"row": pa.array(rows + number), "file": pa.repeat(_named(block), len(rows))}
        if block.lines:
            made["line"] = pa.array(np.asarray(block.lines)[rows])
        for name, column in made.items():
            table = table.set_column(table.schema.get_field_index(name), name, column)
        self._tables.append(table)
        if taken < len(records):
            self.cut(number + taken - 1)
        self._size = int(sizes[taken - 1])
        self._count = sum(each.num_rows for each in self._tables)
        return taken

    def _take_rows(self, block: RowBlock, number: int) -> int:
        taken = 0
        file = _named(block).as_py()
        for i, row in enumerate(block.rows):
            taken = i + 1
            if row is None:  # a blank line
                continue
            first, size = len(self.rows), self._size
            if type(row) is Fault:
                self._add_fault(number + i, row)
            else:
                self._add_row(number + i, row)
            if self._size - size > self.most:
                self._check_fields(row, number + i)
            for made in self.rows[first:]:
                if file is not None:
                    made["file"] = file
                if block.lines:
                    made["line"] = block.lines[i]
                if self._keeps:
                    made["kept"] = row, block.raw[i] if block.raw else None
            if self.is_full:
                break
        return taken

    def _check_fields(self, row: Any, number: int) -> None:
        """Refuse a value above the limit of a field."""
        for name, value in row.items() if isinstance(row, dict) else ():
            text = value if isinstance(value, str) else json_text(value)
            size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            if size > self.most:
                larger = f"column {shown(repr(name))} has a value of {size:,} bytes, larger"
                raise self._limits.exceeded(f"{self._where}, row {number}", larger, "field")

    # -- one row ----------------------------------------------------------------------------------

    def _add_fault(self, number: int, fault: Fault) -> None:
        values = {} if fault.row is None else self._cells(fault.row)
        self._end(number, values | {"fault": fault}, fault.row)

    def _add_row(self, number: int, row: dict[str, Any]) -> None:
        before = len(self.rows)
        try:
            if self._converter is None:
                self._add(number, row)
            else:
                self._add_converted(number, row)
        except RecursionError:  # recursive, or nested too deeply
            self._cut(before)
            self._add_fault(number, Fault("invalid JSON"))
        except DuckpletsError:
            raise
        except Exception as error:  # an error of a user's object asked for its text
            said = f"{type(error).__name__}: {error}"
            raise SourceError(f"{self._where}: row {number}: {said}") from error

    def _add(self, number: int, row: dict[str, Any]) -> None:
        own = row if self._mapping.are_own_keys else None
        wrong: tuple[str, str] | None = None
        further, get = 0, self._get
        values = self._cells(row)
        lack = "no id" if get["id"] and "id" not in values else None
        if own is not None and "id" not in own:
            lack = None
        for part, role, candidates in self.candidates:
            texts, heading, fault = self._first(row, candidates)
            wrong = wrong or fault
            if part == "anchor":
                further, texts = max(len(texts) - 1, 0), texts[:1]
            for text in texts:
                self._section(role, heading, text)
            if not texts and lack is None and (own is None or part in own):
                lack = f"no {part}"
        if get["label"] and "label" not in values and lack is None:
            lack = "no label" if own is None or "label" in own else None
        for part, role, (heading, key, steps, optional) in self.others:
            found = self._texts(_value(row, key, steps))
            if isinstance(found, Odd):
                wrong, found = wrong or _wrong(found, heading), []
            for text in found:
                self._section(role, heading, text)
            missing = part == "context" and not optional and not found
            if missing and lack is None and (own is None or part in own):
                lack = f"no context: {heading}"
        given = 0
        if get["sections"]:
            _, key, steps, _ = get["sections"][0]
            made, fault = sections_of(_value(row, key, steps))
            for section in made:
                self._section(*section)
            given = len(made)
            wrong = wrong or fault
        if own is not None and lack is None and not _TEXT_KEYS & own.keys():
            lack = "no text"
        alone = "sections" in own if own is not None else not (get["anchor"] or get["text"])
        asked = get["sections"] and alone
        if asked and not given and lack is None:
            lack = "no text"
        if wrong is not None:
            lack, values["told"] = wrong
        if lack is not None:
            values["lack"] = lack
        if further:
            values["further"] = further
        self._end(number, values, row)

    def _first(
        self, row: dict[str, Any], candidates: list[Name]
    ) -> tuple[list[str], str | None, tuple[str, str] | None]:
        """Return the texts of the first candidate with some, and an invalid value before."""
        for heading, key, steps, _ in candidates:
            texts = self._texts(_value(row, key, steps))
            if isinstance(texts, Odd):
                return [], None, _wrong(texts, heading)
            if texts:
                return texts, heading, None
        return [], None, None

    def _texts(self, value: Any) -> list[str] | Odd:
        found = texts_of(value, as_json=self._as_json)
        if self._nulls and not isinstance(found, Odd):
            return [text for text in found if text.strip(" ") not in self._nulls]
        return found

    def _section(self, role: str, heading: str | None, text: str) -> None:
        self._sections.add(role, heading, text)
        self._size += len(text)

    def _cells(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a row besides texts, by part."""
        cells: dict[str, Any] = {}
        for part, (_, key, steps, _) in self.cell_names:
            text = self._cell(part, _value(row, key, steps))
            if text is not None:
                cells[part] = text
        return cells

    def _cell(self, part: str, value: Any) -> str | None:
        if part in ("id", "group") and type(value) is not str:
            value = identifier(value)
        text = self._text_of(value)
        if text is None or (part in _TIMES and text.strip(" ") == "NaT"):
            return None  # as pandas writes a missing time
        if part == "date" and type(value) is Odd:  # it needs no format
            return Odd(value.day or text, "date")
        return text

    def cells_of(self, part: str, values: list[Any]) -> list[str | None]:
        """Return the texts of values of a part that is no text of the record."""
        return [self._cell(part, value) for value in values]

    def _text_of(self, value: Any) -> str | None:
        text = cell_text(value)
        if self._nulls and text is not None and text.strip(" ") in self._nulls:
            return None
        return text

    def _end(self, number: int, values: dict[str, Any], row: dict[str, Any] | None = None) -> None:
        """Finish a row whose sections were added."""
        if row is not None:
            for _, key, steps, _ in self.topic_names:
                for topic in items_of(_value(row, key, steps)):
                    if topic.strip(" ") not in self._nulls:
                        self._topics.add(topic)
            if self._get["meta"]:
                self._add_meta(row)
        values["row"] = number
        self.rows.append(values)
        for lists in self._lists:
            lists.end_row()
        self._size += 64

    def _add_meta(self, row: dict[str, Any]) -> None:
        if self._mapping.are_own_keys:
            meta = plain(row.get("meta"))
            named = meta if isinstance(meta, dict) or meta is None else {"meta": meta}
            pairs = {str(key): cell_text(value) for key, value in (named or {}).items()}
            found = [(key, pairs[key]) for key in sorted(pairs)]
        else:
            found = [
                (n, self._text_of(_value(row, k, steps))) for n, k, steps, _ in self.meta_names
            ]
        for key, value in found:
            if value is not None:
                self._metas.add(key, value)
                self._size += len(value)

    # -- converters -------------------------------------------------------------------------------

    def _add_converted(self, number: int, row: dict[str, Any]) -> None:
        converter = self._converter
        assert converter is not None  # noqa: S101 - only rows for a converter come here
        cells = self._cells(row)
        lack = "no id" if self._get["id"] and "id" not in cells else None
        if self._get["label"] and "label" not in cells:
            lack = lack or "no label"
        others = self._left_out or (unread(row, self._known) if self._known else ())
        given = row if converter.is_own else {f: row.get(k) for f, k in self._fields.items()}
        for made in converter.converted(given, each=self._each):
            own = dict(cells)
            if made.number is not None:  # turns of a conversation stay together
                own["group"] = cells.get("group") or cells.get("id") or made.conversation
                if "id" in cells:
                    own["id"] = f"{cells['id']}#{made.number}"
            if made.reason is not None:
                own |= {"lack": f"{converter.name}: {made.reason}", "complaint": made.detail}
            else:
                for section in made.sections:
                    self._section(*section)
                own |= {"messages": made.messages, "rejected_messages": made.rejected_messages}
                own |= {"lack": lack, "identity": made.identity, "unpaired": made.unpaired}
                if others or made.left_out:
                    of_turns = {path for path in made.left_out if path.lower() not in self._known}
                    own["left_out"] = json.dumps([*others, *sorted(of_turns)])
                self._size += len(made.messages or "") + len(made.rejected_messages or "")
            self._end(number, own, row)

    # -- columns ----------------------------------------------------------------------------------

    def table(self) -> pa.Table | None:
        """Return the rows taken, but for their keys and hashes, and what these are made of."""
        tables = [*self._tables, *([self._made()] if self.rows else ())]
        if not tables:
            return None
        names = tables[0].column_names
        found = pa.concat_tables(of.select(names) for of in tables).combine_chunks()
        if self.rows and self._tables:
            found = found.take(pc.sort_indices(found["row"]))
        at = names.index("file")
        if found["file"].null_count == found.num_rows:
            return found.remove_column(at)
        return found.set_column(at, "file", found["file"].dictionary_encode())

    def _made(self) -> pa.Table:
        """Return the records of rows."""
        parts = [[self._strings(of, each.ends) for of in each.columns] for each in self._lists]
        ends = [pa.array(each.ends, pa.int32()) for each in self._lists]
        sections = pa.StructArray.from_arrays(parts[0], ["role", "heading", "text"])
        made = {
            "sections": pa.ListArray.from_arrays(ends[0], sections),
            "taxonomy": pa.ListArray.from_arrays(ends[1], *parts[1]),
            "meta": pa.MapArray.from_arrays(ends[2], *parts[2]),
        }
        for name, column in {"id": "id", "group": "group_key", "identity": "identity"}.items():
            each = [of.get(name) for of in self.rows]
            made[column] = self._strings(each, range(len(each) + 1))
        self._judge()
        used = set[str]().union(*self.rows)
        for name, kind in (KINDS | {"file": _TEXT}).items():
            if name not in made and name not in HASHED:
                made[name] = self._column(name, kind, used)
        has_key = [of.get("fault") is None and of.get("lack") is None for of in self.rows]
        made["has_key"] = pa.array(has_key, pa.bool_())
        return pa.table(made)

    def meanings(self, part: str, texts: Sequence[str | None]) -> list[Any]:
        """Return the typed values of a part's texts; None where a text has none."""
        typed, _ = self._typed[part]
        given: Sequence[Any] = texts
        if part == "date" and self._mapping.date_format is not None:
            days = self._days_of([None if isinstance(text, Odd) else text for text in texts])
            given = [day or text for day, text in zip(days, texts, strict=True)]
        return [None if value is None else typed(value) for value in given]

    def _judge(self) -> None:
        """Give rows their typed values, and say why some are no records."""
        wrong: dict[int, tuple[str, str]] = {}
        for part, (_, reason) in self._typed.items():
            texts = [of.get(part) for of in self.rows]
            for at, value in enumerate(self.meanings(part, texts)):
                if (text := texts[at]) is not None:
                    self.rows[at][part] = value
                    if value is None:
                        wrong.setdefault(at, (reason, text))
        for at, of in enumerate(self.rows):
            fault, lack = of.get("fault"), of.get("lack")
            if fault is not None:
                of.pop("complaint", None)
                self._reject(of, fault.reason, fault.value)
            elif lack is not None:
                self._reject(of, lack, of.get("told"))
            elif at in wrong:
                self._reject(of, *wrong[at])

    def _reject(self, of: dict[str, Any], reason: str, value: str | None) -> None:
        of["value"] = None if value is None else shown(escaped(value), _MOST_SHOWN)
        is_bare = reason == _BAD_DATE and not self._needs_dates
        of["note" if is_bare else "skip"] = reason
        if self._keeps and not is_bare and reason != DROPPED:
            of["quarantined"] = _whole(*of["kept"])

    def _column(self, name: str, kind: pa.DataType, used: set[str]) -> pa.Array:
        if name not in used:
            return pa.nulls(len(self.rows), kind)
        values = [of.get(name) for of in self.rows]
        return pa.array(values, kind) if kind != _TEXT else _escaped_texts(values)

    def _strings(self, values: Sequence[str | None], ends: Sequence[int]) -> pa.Array:
        """Return texts, of which rows have up to their end; invalid UTF-8 is a fault of its row."""
        try:
            return pa.array(values, _TEXT)
        except UnicodeEncodeError:
            for place, value in enumerate(values):
                if value and not is_utf8(value):
                    of = self.rows[int(np.searchsorted(ends, place, "right")) - 1]
                    of.setdefault("fault", Fault("invalid UTF-8", escaped(value)))
            return _escaped_texts(values)


def _named(block: RowBlock) -> pa.Scalar:
    """Return the file of a block, as storable text."""
    file = block.file and block.file.encode("utf-8", "backslashreplace").decode()
    return pa.scalar(file, _TEXT)


def _escaped_texts(values: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(values, _TEXT)
    except UnicodeEncodeError:
        return pa.array([value and escaped(value) for value in values], _TEXT)


def _whole(row: Any, raw: str | None) -> str | None:
    """Return a row as JSON."""
    if isinstance(row, Fault):
        return row.whole
    if raw is not None and is_utf8(raw):
        return raw.strip(" \t\r\n")
    return document(row)


_TEXT_KEYS = frozenset({*ROLES, "sections", "label"} - {"negative"})


def _value(row: dict[str, Any], key: str, steps: Any) -> Any:
    return follow(row.get(key), steps) if steps else row.get(key)


def _wrong(value: Odd, heading: str) -> tuple[str, str]:
    return f"not text: {value.kind}", f"column '{heading}': {escaped(value[:_SHOWN])}"
