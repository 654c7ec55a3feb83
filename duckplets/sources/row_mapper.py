"""Map blocks of rows to the columns of records, and find why a row is none.

block ─columns→ a part's texts by kernels, or values one by one → sections, metadata, cells
      ─missing parts, values without meaning, unreadable rows→ reasons → records

A part of the mapping is read from one column at a time. Only ids and hashes of contents are made
elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duckplets.base.sanitize import shown
from duckplets.errors import SourceError
from duckplets.sources.columns import (
    TEXT,
    ArrowColumns,
    Failed,
    RowColumns,
    TooLarge,
    check_size,
    different,
    each,
    escaped_texts,
    filled,
    listed_strings,
    strings,
)
from duckplets.sources.converters.turns import Converted
from duckplets.sources.limits import Limits
from duckplets.sources.mapping import PARTS, ROLES, Mapped, label_number, label_rules, null_words
from duckplets.sources.names import Names, Steps, known_fields
from duckplets.sources.rows import DROPPED, EXTRA_COLUMNS, HASHED, ROW_SCHEMA, RowBlock
from duckplets.sources.typed import ArrowRows
from duckplets.sources.values import (
    BAD_DATE,
    TYPED,
    Fault,
    Odd,
    Reading,
    cell_text,
    document,
    escaped,
    identifier,
    is_utf8,
    items_of,
    json_text,
    own_meta,
    sections_of,
    texts_of,
    unread,
)

Kind = tuple[str | None, ...]
"""The role and heading of a text, or the key of metadata."""

KINDS = {field.name: field.type for field in ROW_SCHEMA if field.name not in HASHED}
KINDS |= EXTRA_COLUMNS | {"id": TEXT, "identity": TEXT, "has_key": pa.bool_(), "file": TEXT}
_SHOWN = 60  # characters of a wrong value in a reason
_MOST_SHOWN = 300  # characters of a wrong value shown with its reason
# Typed parts in the order of a row's reasons: a record needs no date.
_CELLS = ("id", "group", "created_at", "updated_at", "trust", "prefix", "label", "date")
_TEXT_KEYS = frozenset({*ROLES, "sections", "label"} - {"negative"})
_NOWHERE: Any = object()  # the key of a name that no row has had


class PartName(NamedTuple):
    """A name of the mapping, and the place of its values."""

    heading: str
    key: Any
    steps: Steps
    is_optional: bool


class _Texts(NamedTuple):
    """Texts by ascending row, each with the number of its kind."""

    texts: pa.Array
    rows: NDArray[np.intp]
    kinds: NDArray[np.intp] | int


class RowMapper:
    """Split rows into texts and further values, and judge them."""

    def __init__(
        self,
        mapping: Mapped,
        names: Names,
        limits: Limits,
        where: str,
        most: tuple[int, int],
        days_of: Callable[[list[str | None]], list[date | None]],
    ) -> None:
        (self._most_rows, self._most_size), self._days_of = most, days_of
        self._mapping, self._names, self._limits, self._where = mapping, names, limits, where
        self.nulls = frozenset(null_words(mapping.null_values))
        self._converter = mapping.conversion()
        self._known = known_fields(mapping)
        self.is_own = mapping.are_own_keys
        self.needs_dates = mapping.on_bad_date == "fail"
        label = partial(label_number, rules=dict(label_rules(mapping.labels)))
        self.typed: dict[str, Reading] = {**TYPED, "label": (label, "unreadable label")}
        self.names: dict[str, list[PartName]] = {}
        self.clear()
        self.bind()

    def clear(self) -> None:
        """Forget the rows taken."""
        self._tables: list[pa.Table] = []
        self._count = self._size = 0

    def cut(self, number: int) -> None:
        """Forget the rows after a number."""
        self._tables = [
            table.slice(0, int(np.searchsorted(table["row"].to_numpy(), number, "right")))
            for table in self._tables
        ]

    @property
    def is_full(self) -> bool:
        """Whether the rows taken fill a batch."""
        return self._count >= self._most_rows or self._size >= self._most_size

    def bind(self) -> None:
        """Look up the keys of the mapping's parts, as far as known."""
        there = self._names.found
        for part in PARTS:
            self.names[part] = []
            for name in self._mapping.part(part):
                key, steps = there.get(name, (_NOWHERE, ()))
                key = name if self.is_own else key
                optional = name.endswith("?") and (bool(steps) or not str(key).endswith("?"))
                heading = name[:-1] if optional else name
                self.names[part].append(PartName(heading, key, steps, optional))
        # Columns of a table that a built-in converter does not read.
        columns, self._fields = self._names.columns if self._known else None, {}
        self._left_out = [name for name in columns or () if name.lower() not in self._known]
        if self._converter is not None and not self._converter.is_own:
            self._fields = {f: there[f][0] for f in self._converter.fields if f in there}

    def table(self) -> pa.Table | None:
        """Return the records taken; ``has_key`` says whether the content can be a key."""
        if not self._tables:
            return None
        found = pa.concat_tables(self._tables).combine_chunks()
        at = found.column_names.index("file")
        if found["file"].null_count == found.num_rows:
            return found.remove_column(at)
        return found.set_column(at, "file", found["file"].dictionary_encode())

    def take(self, block: RowBlock, number: int) -> int:
        """Take rows of a block; return their number."""
        most = max(1, self._most_rows - self._count)
        block = block.part(0, most) if len(block.rows) > most else block
        try:
            return self._take(block, number)
        except TooLarge:
            if len(block.rows) > 1:
                return self.take(block.part(0, len(block.rows) // 2), number)
            self._check_fields(block.rows[0], number)
            where = f"{self._where}, row {number}"
            raise self._limits.exceeded(where, "it is larger", "row") from None
        except Failed as failed:
            if failed.row:  # the rows before it come first
                return self.take(block.part(0, failed.row), number)
            error = failed.__cause__
            if not isinstance(error, RecursionError):
                message = f"{self._where}: row {number}: {type(error).__name__}: {error}"
                raise SourceError(message) from error
        # Recursive, or nested too deeply.
        whole = _whole(None, block.raw[0]) if block.raw else None
        rows = [Fault("invalid JSON", whole=whole), *list(block.rows)[1:]]
        return self.take(block._replace(rows=rows), number)

    def _take(self, block: RowBlock, number: int) -> int:
        rows, made = block.rows, None
        columns: RowColumns | ArrowColumns
        if isinstance(rows, ArrowRows) and self._converter is None:
            columns, places = ArrowColumns(rows), np.arange(len(rows))
        else:
            rows = list(rows)
            places = np.array([at for at, row in enumerate(rows) if row is not None], np.intp)
            if self._converter is not None:
                converted = each(self._converted, rows)
                places = np.repeat(np.arange(len(rows)), list(map(len, converted)))
                made = list(chain.from_iterable(converted))
            columns = RowColumns([rows[place] for place in places.tolist()])
        if not len(places):  # blank lines
            return len(rows)
        try:
            table, sizes = _MappedBlock(self, columns).records(made)
        except Failed as failed:
            raise Failed(int(places[failed.row])) from failed.__cause__
        of_row = np.bincount(places, sizes, len(rows))
        records = np.bincount(places, minlength=len(rows))
        full = int(np.searchsorted(self._size + np.cumsum(of_row), self._most_size))
        full = min(full, int(np.searchsorted(self._count + np.cumsum(records), self._most_rows)))
        taken = min(len(rows), full + 1)
        for at in np.flatnonzero(of_row[:taken] > self._limits.size("field")).tolist():
            self._check_fields(block.rows[at], number + at)
        table = table.slice(0, int(np.searchsorted(places, taken)))
        places = places[: table.num_rows]
        file = block.file and block.file.encode("utf-8", "backslashreplace").decode()
        more = {
            "row": pa.array(places + number),
            "file": pa.repeat(pa.scalar(file, TEXT), len(places)),
        }
        if block.lines:
            more["line"] = pa.array(np.asarray(block.lines)[places])
        if self._mapping.handling() == "quarantine":
            more["quarantined"] = _quarantined(table["skip"], places, block)
        for name, column in more.items():
            table = table.set_column(table.schema.get_field_index(name), name, column)
        self._tables.append(table)
        self._count += table.num_rows
        self._size += int(of_row[:taken].sum())
        return taken

    def _check_fields(self, row: Any, number: int) -> None:
        """Refuse a value above the limit of a field."""
        most = self._limits.size("field")
        for name, value in row.items() if isinstance(row, dict) else ():
            text = value if isinstance(value, str) else json_text(value)
            size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            if size > most:
                larger = f"column {shown(repr(name))} has a value of {size:,} bytes, larger"
                raise self._limits.exceeded(f"{self._where}, row {number}", larger, "field")

    # -- the values of a part ----------------------------------------------------------------------

    def texts(self, value: Any) -> list[str] | Odd:
        """Return the texts of a value, or an ``Odd`` for any other value."""
        found = texts_of(value, as_json=self._mapping.text_of == "json")
        if self.nulls and not isinstance(found, Odd):
            return [text for text in found if text.strip(" ") not in self.nulls]
        return found

    def topics(self, value: Any) -> list[str]:
        """Return the categories of a value."""
        return [topic for topic in items_of(value) if topic.strip(" ") not in self.nulls]

    def cell(self, part: str, value: Any) -> str | None:
        """Return the value of a typed part as one text."""
        if part in ("id", "group") and type(value) is not str:
            value = identifier(value)
        text = cell_text(value)
        bare = None if text is None else text.strip(" ")
        if text is None or bare in self.nulls:
            return None
        if part in ("date", "created_at", "updated_at") and bare == "NaT":
            return None  # as pandas writes a missing time
        if part == "date" and type(value) is Odd:  # it needs no format
            return Odd(value.day or text, "date")
        return text

    def meanings(self, part: str, texts: Sequence[str | None]) -> list[Any]:
        """Return the typed values of a part's texts; None where a text has none."""
        typed, _ = self.typed[part]
        values: Sequence[Any] = texts
        if part == "date" and self._mapping.date_format is not None:
            days = self._days_of([None if isinstance(text, Odd) else text for text in texts])
            values = [day or text for day, text in zip(days, texts, strict=True)]
        return [None if value is None else typed(value) for value in values]

    def _converted(self, row: Any) -> list[tuple[Converted, str | None]]:
        """Return the records that a converter makes of a row, with the fields left unread."""
        if not isinstance(row, dict):
            return [] if row is None else [(Converted(), None)]
        converter, found = self._converter, list[tuple[Converted, str | None]]()
        assert converter is not None  # noqa: S101 - only rows for a converter come here
        others = self._left_out or (unread(row, self._known) if self._known else ())
        values = row if converter.is_own else {f: row.get(k) for f, k in self._fields.items()}
        for made in converter.converted(values, each=self._mapping.turns == "each"):
            left_out = None
            if made.reason is not None:
                made = made._replace(reason=f"{converter.name}: {made.reason}")
            elif others or made.left_out:
                of_turns = {path for path in made.left_out if path.lower() not in self._known}
                left_out = json.dumps([*others, *sorted(of_turns)])
            found.append((made, left_out))
        return found


class _MappedBlock:
    """A block that is mapped, one record a row."""

    def __init__(self, mapper: RowMapper, columns: RowColumns | ArrowColumns) -> None:
        self._mapper, self._columns, self._count = mapper, columns, len(columns.rows)
        self._faults = dict(columns.faults)
        self._readable = np.ones(self._count, np.bool_)
        self._readable[list(columns.faults)] = False
        self._sizes = np.full(self._count, 64.0)
        # Why rows are no records: missing parts by rank, and values without meaning.
        self._lacks: list[tuple[int, str, NDArray[np.bool_]]] = []
        self._refused: dict[int, tuple[str, str | None]] = {}  # by a converter, with a complaint
        self._wrong: dict[int, tuple[str, str]] = {}
        self._untyped: dict[int, tuple[str, str]] = {}

    def records(
        self, converted: list[tuple[Converted, str | None]] | None
    ) -> tuple[pa.Table, NDArray[np.float64]]:
        """Return the records, and the size of each."""
        names = self._mapper.names
        made = self._sections() if converted is None else self._conversations(converted)
        listed = [self._listed(name, self._mapper.topics) for name in names["taxonomy"]]
        ends, topics, _ = self._merged([_Texts(texts, rows, 0) for texts, rows, _ in listed])
        made["taxonomy"] = pa.ListArray.from_arrays(ends, topics)
        made["meta"] = self._meta()
        for part in _CELLS:
            for name in names[part][:1]:
                cells, is_given = self._cell(part, name)
                made["group_key" if part == "group" else part] = cells
                if part in ("id", "label"):
                    lacks = ~is_given & self._has(part)
                    self._lacks.append((0 if part == "id" else 2, f"no {part}", lacks))
        if converted is not None:
            self._number(made, [one for one, _ in converted])
        made |= self._reasons() | {"row": pa.nulls(self._count, pa.int64())}
        kinds = KINDS.items()
        columns = {n: made[n] if n in made else pa.nulls(self._count, kind) for n, kind in kinds}
        return pa.table(columns), self._sizes

    def _has(self, part: str) -> NDArray[np.bool_]:
        """Return which rows must have a part; rows with own keys must have the parts they name."""
        if not self._mapper.is_own:
            return np.ones(self._count, np.bool_)
        return np.array([part in row for row in self._columns.rows], np.bool_)

    # -- the columns of a part ---------------------------------------------------------------------

    def _listed(
        self,
        name: PartName,
        make: Callable[[Any], list[str] | Odd],
        wanted: NDArray[np.bool_] | None = None,
    ) -> tuple[pa.Array, NDArray[np.intp], list[int]]:
        """Return texts of a column, the row of each, and rows with other values."""
        column = self._columns.column(name.key, name.steps)
        if (found := listed_strings(column)) is not None:
            texts, rows = found
            is_text = self._filled(texts)
            is_text = is_text if wanted is None else is_text & wanted[rows]
            if not is_text.all():
                texts, rows = texts.filter(pa.array(is_text)), rows[is_text]
            return texts, rows, []
        is_list = isinstance(column, list)
        values = column if is_list else self._columns.values(name.key, name.steps)
        if wanted is not None and not wanted.all():
            values = [value if is_ else None for value, is_ in zip(values, wanted, strict=True)]
        listed = each(make, values)
        odd = [row for row, one in enumerate(listed) if isinstance(one, Odd)]
        for row in odd:
            value = f"column '{name.heading}': {escaped(listed[row][:_SHOWN])}"
            self._wrong.setdefault(row, (f"not text: {listed[row].kind}", value))
            listed[row] = []
        flat, rows = self._flat(listed)
        return self._array(flat, rows), rows, odd

    def _flat(self, listed: list[list[Any]]) -> tuple[list[Any], NDArray[np.intp]]:
        """Return the items of all rows, and the row of each."""
        rows = np.repeat(np.arange(self._count), list(map(len, listed)))
        return list(chain.from_iterable(listed)), rows

    def _cell(self, part: str, name: PartName) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Return the values of a part that is no text, and which rows give one."""
        column, mapper = self._columns.column(name.key, name.steps), self._mapper
        typed = mapper.typed.get(part)
        if typed is None and isinstance(column, pa.Array):
            is_whole = pa.types.is_integer(column.type)
            if (texts := column.cast(TEXT) if is_whole else strings(column)) is not None:
                is_given = self._filled(texts)
                if not is_given.all():
                    texts = pc.if_else(pa.array(is_given), texts, None)
                return texts, is_given
        values, places = different(column)
        cells = each(partial(mapper.cell, part), values)
        is_given = np.array([cell is not None for cell in cells], np.bool_)[places]
        if typed is None:
            return self._array([cells[at] for at in places.tolist()], range(self._count)), is_given
        found = mapper.meanings(part, cells)
        wrong = [c is not None and f is None for c, f in zip(cells, found, strict=True)]
        for row in np.flatnonzero(np.array(wrong, np.bool_)[places]).tolist():
            self._untyped.setdefault(row, (typed[1], str(cells[places[row]])))
        kind = KINDS[part]
        array = escaped_texts(found) if kind == TEXT else pa.array(found, kind)
        return array.take(pa.array(places)), is_given

    def _filled(self, texts: pa.Array) -> NDArray[np.bool_]:
        """Return which texts have more than white space or a null word."""
        found = filled(texts)
        if nulls := self._mapper.nulls:
            are_words = pc.is_in(pc.utf8_trim(texts, " "), pa.array([*nulls], TEXT))
            found &= ~are_words.to_numpy(zero_copy_only=False)
        return found

    def _array(self, texts: list[Any], rows: Iterable[int]) -> pa.Array:
        """Return texts of rows as an array; invalid UTF-8 is a fault of its row."""
        check_size(texts, self._count)
        try:
            return pa.array(texts, TEXT)
        except UnicodeEncodeError:
            for row, text in zip(rows, texts, strict=True):
                if text and not is_utf8(text):
                    self._faults.setdefault(int(row), Fault("invalid UTF-8", escaped(text)))
            return escaped_texts(texts)

    # -- texts -------------------------------------------------------------------------------------

    def _sections(self) -> dict[str, pa.Array]:
        """Return the sections of each row, and the number of its further anchors."""
        names, make, kinds = self._mapper.names, self._mapper.texts, list[Kind]()
        found, further = list[_Texts](), np.zeros(self._count, np.int64)
        for part, role in (("anchor", "anchor"), ("positive", "context"), ("text", "context")):
            waiting = self._readable.copy()
            for name in names[part]:
                if not waiting.any():
                    break
                texts, rows, odd = self._listed(name, make, waiting)
                waiting[rows] = waiting[odd] = False
                if part == "anchor":  # the first of a list
                    is_first = np.diff(rows, prepend=-1) > 0
                    further += np.bincount(rows[~is_first], minlength=self._count)
                    texts, rows = texts.filter(pa.array(is_first)), rows[is_first]
                found.append(_Texts(texts, rows, len(kinds)))
                kinds.append((role, name.heading))
            if names[part]:
                self._lacks.append((1, f"no {part}", waiting & self._has(part)))
        for part, role in (("context", "context"), ("negative", "rejected")):
            for name in names[part]:
                texts, rows, _ = self._listed(name, make, self._readable)
                found.append(_Texts(texts, rows, len(kinds)))
                kinds.append((role, name.heading))
                if part == "context" and not name.is_optional:
                    lacks = self._has(part)
                    lacks[rows] = False
                    self._lacks.append((3, f"no context: {name.heading}", lacks))
        if self._mapper.is_own:
            lacks = np.array([not _TEXT_KEYS & row.keys() for row in self._columns.rows], np.bool_)
            self._lacks.append((4, "no text", lacks))
        for name in names["sections"]:
            values = zip(self._columns.values(name.key, name.steps), self._readable, strict=True)
            whole = each(sections_of, [value if is_ else None for value, is_ in values])
            for row, (_, fault) in enumerate(whole):
                if fault is not None:
                    self._wrong.setdefault(row, fault)
            found.append(self._with_kinds([made for made, _ in whole], kinds))
            if self._mapper.is_own or not (names["anchor"] or names["text"]):
                lacks = self._has("sections")
                lacks[found[-1].rows] = False
                self._lacks.append((4, "no text", lacks))
        made = {"sections": self._whole(found, kinds)}
        return made | ({"further": pa.array(further, mask=further == 0)} if further.any() else {})

    def _with_kinds(self, listed: list[Any], kinds: list[Kind]) -> _Texts:
        """Return texts of rows that come with their kinds, adding new kinds."""
        every, rows = self._flat(listed)
        number_of = {kind: at for at, kind in enumerate(kinds)}
        numbers = np.array([number_of.setdefault(x[:-1], len(number_of)) for x in every], np.intp)
        kinds[:] = number_of
        for at, (*_, heading) in enumerate(kinds):
            if heading and not is_utf8(heading):
                of_it = rows[numbers == at]
                self._array([heading] * len(of_it), of_it)
        return _Texts(self._array([one[-1] for one in every], rows), rows, numbers)

    def _whole(self, parts: list[_Texts], kinds: list[Kind]) -> pa.Array:
        ends, texts, number = self._merged(parts, counts=True)
        names = [escaped_texts(name).take(number) for name in zip(*kinds, strict=True)]
        fields = [*(names or (texts, texts)), texts]
        sections = pa.StructArray.from_arrays(fields, ["role", "heading", "text"])
        return pa.ListArray.from_arrays(ends, sections)

    def _meta(self) -> pa.Array:
        kinds, parts, names = list[Kind](), list[_Texts](), self._mapper.names["meta"]
        if self._mapper.is_own and names:
            parts.append(self._with_kinds(each(own_meta, self._columns.rows), kinds))
        else:
            for name in sorted(set(names)):
                texts, is_given = self._cell("meta", name)
                texts = texts if is_given.all() else texts.drop_null()
                parts.append(_Texts(texts, np.flatnonzero(is_given), len(kinds)))
                kinds.append((name.heading,))
        ends, texts, number = self._merged(parts, counts=True)
        keys = escaped_texts([key for (key,) in kinds]).take(number)
        return pa.MapArray.from_arrays(ends, keys, texts)

    def _merged(
        self, parts: Sequence[_Texts], *, counts: bool = False
    ) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return the end of each row among the texts of all parts, the texts, and their kinds."""
        texts = pa.concat_arrays([pa.array([], TEXT), *(part.texts for part in parts)])
        rows = np.concatenate([np.empty(0, np.intp), *(part.rows for part in parts)])
        numbers = (np.broadcast_to(part.kinds, len(part.rows)) for part in parts)
        number = np.concatenate([np.empty(0, np.intp), *numbers])
        if len(parts) > 1:
            order = np.argsort(rows, kind="stable")
            texts, rows, number = texts.take(pa.array(order)), rows[order], number[order]
        if counts and len(rows):
            lengths = pc.utf8_length(texts).to_numpy(zero_copy_only=False)
            self._sizes += np.bincount(rows, lengths, self._count)
        ends = np.append(0, np.bincount(rows, minlength=self._count).cumsum())
        return pa.array(ends, pa.int32()), texts, pa.array(number)

    # -- conversations -----------------------------------------------------------------------------

    def _conversations(self, converted: list[tuple[Converted, str | None]]) -> dict[str, pa.Array]:
        """Return the sections, messages and unread fields of converted rows."""
        every, kinds = [one for one, _ in converted], list[Kind]()
        for row, one in enumerate(every):
            if one.reason is not None:
                self._refused[row] = one.reason, one.detail
        found = self._with_kinds([one.sections for one in every], kinds)
        made = {"sections": self._whole([found], kinds)}
        for column in ("messages", "rejected_messages"):
            texts = [getattr(one, column) for one in every]
            made[column] = escaped_texts(texts)
            self._sizes += [len(text or "") for text in texts]
        made["identity"] = pa.array([one.identity for one in every], TEXT)
        made["unpaired"] = pa.array([one.unpaired for one in every], pa.int64())
        return made | {"left_out": escaped_texts([left_out for _, left_out in converted])}

    def _number(self, made: dict[str, pa.Array], converted: list[Converted]) -> None:
        """Number the records of a conversation, and keep them together."""
        if not any(one.number for one in converted):
            return
        none = [None] * self._count
        ids, groups = (
            list(made[n].to_pylist() if n in made else none) for n in ("id", "group_key")
        )
        for row, one in enumerate(converted):
            if one.number is not None:
                groups[row] = groups[row] or ids[row] or one.conversation
                ids[row] = ids[row] and f"{ids[row]}#{one.number}"
        made |= {"id": pa.array(ids, TEXT), "group_key": pa.array(groups, TEXT)}

    # -- reasons -----------------------------------------------------------------------------------

    def _reasons(self) -> dict[str, pa.Array]:
        """Return why rows are no records, and the unreadable values of other rows."""
        lacks = {row: reason for row, (reason, _) in self._refused.items()}
        for _, reason, rows in sorted(self._lacks, key=lambda lack: lack[0]):
            for row in np.flatnonzero(rows).tolist():
                lacks.setdefault(row, reason)
        no_key = {*self._faults, *lacks, *self._wrong}
        found = dict[str, list[Any]]()
        for name in ("skip", "note", "value", "complaint"):
            found[name] = [None] * self._count
        for row in no_key | self._untyped.keys():
            value: str | None = None
            if row in self._faults:
                reason, value, *_ = self._faults[row]
            elif row in self._wrong:
                reason, value = self._wrong[row]
            elif row in lacks:
                reason = lacks[row]
                found["complaint"][row] = self._refused.get(row, (None, None))[1]
            else:
                reason, value = self._untyped[row]
            is_record = reason == BAD_DATE and not self._mapper.needs_dates
            found["note" if is_record else "skip"][row] = reason
            found["value"][row] = None if value is None else shown(escaped(value), _MOST_SHOWN)
        has_key = np.ones(self._count, np.bool_)
        has_key[[*no_key]] = False
        made = {name: escaped_texts(values) for name, values in found.items() if any(values)}
        return made | {"has_key": pa.array(has_key)}


def _quarantined(reasons: pa.Array, places: NDArray[np.intp], block: RowBlock) -> pa.Array:
    """Return the rows that are no records, as JSON."""
    found: list[str | None] = [None] * len(places)
    skips = pc.fill_null(pc.not_equal(reasons, DROPPED), False)
    rejected = np.flatnonzero(skips.to_numpy())
    rows: Any = block.rows
    if isinstance(rows, ArrowRows):  # no other row is made
        rows = dict(zip(places[rejected].tolist(), rows.at(places[rejected]), strict=True))
    for at, place in zip(rejected.tolist(), places[rejected].tolist(), strict=True):
        found[at] = _whole(rows[place], block.raw[place] if block.raw else None)
    return escaped_texts(found)


def _whole(row: Any, raw: str | None) -> str | None:
    if isinstance(row, Fault):
        return row.whole
    if raw is not None and is_utf8(raw):
        return raw.strip(" \t\r\n")
    return document(row)
