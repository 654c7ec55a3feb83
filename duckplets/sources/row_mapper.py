"""Split rows into texts and further values, and find why a row is no record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, SourceError
from duckplets.sources.limits import Limits
from duckplets.sources.mapping import PARTS, ROLES, Mapped, label_number, label_rules, null_words
from duckplets.sources.names import Names, follow, known_fields
from duckplets.sources.rows import RowBlock
from duckplets.sources.values import (
    Fault,
    Odd,
    cell_text,
    escaped,
    is_utf8,
    items_of,
    json_text,
    plain,
    sections_of,
    texts_of,
    unread,
)
from duckplets.text.prefix import Prefix

_Name = tuple[str, str, Any, bool]
"""A name of the mapping as a heading, its key, the steps from there, and whether it may lack."""
_NOWHERE: Any = object()  # the key of a name that no row has had

_SHOWN = 60  # characters of a wrong value in a reason
_TEXT, _REAL = pa.string(), pa.float64()
_TEXTS = {  # the statement's columns by their meaning here
    "id": "id",
    "date": "date_text",
    "group": "group_text",
    "trust": "trust_text",
    "created_at": "created_text",
    "updated_at": "updated_text",
    "lack": "lack",
    "label": "label_text",
    "prefix": "prefix",
    "identity": "identity",
    "told": "told",
}
TOLD = ("messages", "rejected_messages", "complaint", "left_out", "further")
_CELLS = ("id", "date", "group", "trust", "label", "created_at", "updated_at", "prefix")
_COLUMNS = (*_TEXTS, *TOLD, "fault", "label_number", "file", "line", "kept")


class _Lists:
    """Texts of which a row has any number, in parallel columns."""

    def __init__(self, *names: str) -> None:
        self.names, self.ends = names, [0]
        self.columns: list[list[str | None]] = [[] for _ in names]

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
    """Split rows into the columns that ``sql/sources/rows.sql`` expects."""

    def __init__(
        self, mapping: Mapped, names: Names, limits: Limits, where: str, most: tuple[int, int]
    ) -> None:
        self._most_rows, self._most_size = most
        self._mapping, self._names, self._limits, self._where = mapping, names, limits, where
        self._most = limits.size("field")
        self._as_json = mapping.text_of == "json"
        self._nulls = frozenset(null_words(mapping.null_values))
        self._labels = dict(label_rules(mapping.labels))
        self._converter = mapping.conversion()
        self._each = mapping.turns == "each"
        self._known = known_fields(mapping)
        self._keeps = mapping.handling() == "quarantine"
        self._get: dict[str, list[_Name]] = {}
        self.clear()
        self.bind()

    def clear(self) -> None:
        """Forget the rows taken."""
        self.row: list[int] = []
        self._columns: dict[str, dict[int, Any]] = {name: {} for name in _COLUMNS}
        self._sections = _Lists("role", "heading", "text")
        self._topics, self._metas = _Lists("topic"), _Lists("key", "value")
        self._lists = (self._sections, self._topics, self._metas)
        self.faults: dict[int, Fault] = {}
        self._size = 0

    def values(self, name: str) -> list[Any]:
        """Return the values of a column; None where a row has none."""
        found: list[Any] = [None] * len(self.row)
        for i, value in self._columns[name].items():
            found[i] = value
        return found

    def cut(self, rows: int) -> None:
        """Forget what came after some rows."""
        for column in (*self._columns.values(), self.faults):
            for i in [i for i in column if i >= rows]:
                del column[i]
        del self.row[rows:]
        for lists in self._lists:
            lists.cut(rows)

    @property
    def is_full(self) -> bool:
        """Whether the rows taken fill a batch."""
        return len(self.row) >= self._most_rows or self._size >= self._most_size

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
        self._cell_names = [(p, self._get[p][0]) for p in _CELLS if self._get[p]]
        self._meta_names = sorted(self._get["meta"])
        self._candidates = [
            (part, "anchor" if part == "anchor" else "context", self._get[part])
            for part in ("anchor", "positive", "text")
            if self._get[part]
        ]
        self._others = [
            (part, role, name)
            for part, role in (("context", "context"), ("negative", "rejected"))
            for name in self._get[part]
        ]
        self._fields = {}
        if self._converter is not None and not self._converter.is_own:
            there = self._names.found
            self._fields = {f: there[f][0] for f in self._converter.fields if f in there}

    def take(self, block: RowBlock, number: int) -> int:
        """Take rows of a block; return their number."""
        before, taken, lines = len(self.row), 0, block.line
        for i, row in enumerate(block.rows):
            taken = i + 1
            if row is None:  # a blank line
                continue
            first, size = len(self.row), self._size
            if type(row) is Fault:
                self._add_fault(number + i, row)
            else:
                self._add_row(number + i, row, block.left_out)
            if self._size - size > self._most:
                self._check_fields(row, number + i)
            for at in range(first, len(self.row)) if lines or self._keeps else ():
                if lines:
                    self._columns["line"][at] = lines + i if isinstance(lines, int) else lines[i]
                if self._keeps:
                    self._columns["kept"][at] = row, None if block.raw is None else block.raw[i]
            if self.is_full:
                break
        self._columns["file"].update(dict.fromkeys(range(before, len(self.row)), block.file))
        return taken

    def _check_fields(self, row: Any, number: int) -> None:
        """Refuse a value above the limit of a field."""
        for name, value in row.items() if isinstance(row, dict) else ():
            text = value if isinstance(value, str) else json_text(value)
            size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            if size > self._most:
                larger = f"column {shown(repr(name))} has a value of {size:,} bytes, larger"
                raise self._limits.exceeded(f"{self._where}, row {number}", larger, "field")

    # -- one row ----------------------------------------------------------------------------------

    def _add_fault(self, number: int, fault: Fault) -> None:
        self.faults[len(self.row)] = fault
        values = {} if fault.row is None else self._cells(fault.row)
        self._end(number, values | {"fault": fault.reason}, fault.row)

    def _add_row(self, number: int, row: dict[str, Any], left_out: Sequence[str]) -> None:
        before = len(self.row)
        try:
            if self._converter is None:
                self._add(number, row)
            else:
                self._add_converted(number, row, left_out)
        except RecursionError:  # recursive, or nested too deeply
            self.cut(before)
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
        for part, role, candidates in self._candidates:
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
        for part, role, (heading, key, steps, optional) in self._others:
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
        self, row: dict[str, Any], candidates: list[_Name]
    ) -> tuple[list[str], str | None, tuple[str, str] | None]:
        """Return the texts of the first candidate with some, and an invalid value before."""
        for heading, key, steps, _ in candidates:
            texts = self._texts(row.get(key) if not steps else _value(row, key, steps))
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
        roles, headings, texts = self._sections.columns  # for speed not by ``add``
        roles.append(role)
        headings.append(heading)
        texts.append(text)
        self._size += len(text)

    def _cells(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a row besides texts, by part."""
        cells: dict[str, Any] = {}
        for part, (_, key, steps, _) in self._cell_names:
            value = row.get(key) if not steps else _value(row, key, steps)
            text = self._text_of(value)
            if text is None:
                continue
            if part == "date" and type(value) is Odd:  # it needs no format
                text = Odd(value.day or text, "date")
            cells[part] = text
        return cells

    def _text_of(self, value: Any) -> str | None:
        if type(value) is str:
            text = value if value and not value.isspace() else None
        else:
            text = None if value is None else cell_text(value)
        if self._nulls and text is not None and text.strip(" ") in self._nulls:
            return None
        return text

    def _end(self, number: int, values: dict[str, Any], row: dict[str, Any] | None = None) -> None:
        """Finish a row whose sections were added."""
        if row is not None:
            for _, key, steps, _ in self._get["taxonomy"]:
                for topic in items_of(_value(row, key, steps)):
                    if topic.strip(" ") not in self._nulls:
                        self._topics.add(topic)
            if self._get["meta"]:
                self._add_meta(row)
        at, columns = len(self.row), self._columns
        self.row.append(number)
        for name, value in values.items():
            columns[name][at] = value
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
                (n, self._text_of(_value(row, k, steps))) for n, k, steps, _ in self._meta_names
            ]
        for key, value in found:
            if value is not None:
                self._metas.add(key, value)
                self._size += len(value)

    # -- converters -------------------------------------------------------------------------------

    def _add_converted(self, number: int, row: dict[str, Any], left_out: Sequence[str]) -> None:
        converter = self._converter
        assert converter is not None  # noqa: S101 - only rows for a converter come here
        cells = self._cells(row)
        lack = "no id" if self._get["id"] and "id" not in cells else None
        if self._get["label"] and "label" not in cells:
            lack = lack or "no label"
        others = left_out or (unread(row, self._known) if self._known else ())
        if others:
            cells["left_out"] = json.dumps(list(others))
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
                own |= {"lack": lack, "identity": made.identity}
                self._size += len(made.messages or "") + len(made.rejected_messages or "")
            self._end(number, own, row)

    # -- columns ----------------------------------------------------------------------------------

    def table(self) -> pa.Table | None:
        """Return the rows taken as input of the statement."""
        if not self.row:
            return None
        columns = self._columns
        for name in ("date", "created_at", "updated_at"):
            given = columns[name].items()
            columns[name] = {i: m for i, v in given if (m := v if type(v) is Odd else _moment(v))}
        trusts = {i: v.strip(" ") for i, v in columns["trust"].items()}
        has_prefix = [i in columns["prefix"] for i in range(len(self.row))]
        columns["prefix"] = {i: _prefix(v) for i, v in columns["prefix"].items()}
        columns["label_number"] = {
            i: label_number(v, self._labels) for i, v in columns["label"].items()
        }
        columns["trust"] = trusts
        made = {
            "row": pa.array(self.row, pa.int64()),
            **{name: self._column(of) for of, name in _TEXTS.items()},
            "sections": self._nested(self._sections),
            "taxonomy": self._nested(self._topics),
            "meta": self._nested(self._metas),
            "label": pa.array(self.values("label_number"), _REAL),
            "has_prefix": pa.array(has_prefix, pa.bool_()),
        }
        return pa.table(made | {"fault": pa.array(self.values("fault"), _TEXT)})

    def _nested(self, lists: _Lists) -> pa.Array:
        parts = [self._checked(values, lists.ends) for values in lists.columns]
        values = parts[0]
        if len(parts) > 1:
            values = pa.StructArray.from_arrays(parts, list(lists.names))
        return pa.ListArray.from_arrays(pa.array(lists.ends, pa.int32()), values)

    def _column(self, name: str) -> pa.Array:
        if not self._columns[name]:
            return pa.nulls(len(self.row), _TEXT)
        values = self.values(name)
        try:
            return pa.array(values, _TEXT)
        except UnicodeEncodeError:
            for i, value in enumerate(values):
                self._look_at(i, [value])
            self._columns[name] = {i: escaped(v) for i, v in self._columns[name].items() if v}
            return pa.array(self.values(name), _TEXT)

    def forms(self) -> list[str | None]:
        """Return the dates that may be in a format of the mapping."""
        return [None if isinstance(day, Odd) else day for day in self.values("date")]

    def _checked(self, values: Sequence[str | None], ends: Sequence[int]) -> pa.Array:
        """Return texts that rows have several of; rows with invalid UTF-8 get a fault."""
        try:
            return pa.array(values, _TEXT)
        except UnicodeEncodeError:
            for place, value in enumerate(values):
                row = int(np.searchsorted(ends, place, "right")) - 1
                self._look_at(row, [value])
            return pa.array([value and escaped(value) for value in values], _TEXT)

    def _look_at(self, i: int, texts: Iterable[str | None]) -> None:
        wrong = next((text for text in texts if text and not is_utf8(text)), None)
        if wrong is not None and i not in self._columns["fault"]:
            self._columns["fault"][i] = "invalid UTF-8"
            self.faults[i] = Fault("invalid UTF-8", escaped(wrong))


_TEXT_KEYS = frozenset({*ROLES, "sections", "label"} - {"negative"})


def _value(row: dict[str, Any], key: str, steps: Any) -> Any:
    return follow(row.get(key), steps) if steps else row.get(key)


def _wrong(value: Odd, heading: str) -> tuple[str, str]:
    return f"not text: {value.kind}", f"column '{heading}': {escaped(value[:_SHOWN])}"


def _moment(text: str) -> str | None:
    """Return the text of a date or time; pandas writes NaT for a missing one."""
    bare = text.strip(" ")
    return None if bare in ("NaT", "") else bare


@lru_cache(1024)  # usually shared by many records
def _prefix(text: str) -> str | None:
    """Return the JSON definition of a prefix as compact text; None if it is none."""
    try:
        found = json.loads(text)
        Prefix.from_dict(found)
    except (ValueError, RecursionError, SourceError):
        return None
    return json_text(found)
