"""Map the columns of a block to the columns of records, and judge its rows.

columns ─a part's texts by kernels, or values one by one→ sections, metadata, cells
        ─what rows lack, what has no meaning, what is unreadable→ reasons
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duckplets.base.sanitize import shown
from duckplets.sources.columns import (
    TEXT,
    ArrowColumns,
    RowColumns,
    check_size,
    different,
    each,
    filled,
    listed_strings,
    strings,
)
from duckplets.sources.converters.turns import Converted
from duckplets.sources.mapping import ROLES
from duckplets.sources.names import Steps
from duckplets.sources.rows import EXTRA_COLUMNS, HASHED, ROW_SCHEMA
from duckplets.sources.values import Fault, Odd, cell_text, escaped, is_utf8, plain, sections_of

if TYPE_CHECKING:
    from duckplets.sources.row_mapper import RowMapper

KINDS = {field.name: field.type for field in ROW_SCHEMA if field.name not in HASHED}
KINDS |= EXTRA_COLUMNS | {"id": TEXT, "identity": TEXT, "has_key": pa.bool_(), "file": TEXT}
BAD_DATE = "unreadable date"
_SHOWN = 60  # characters of a wrong value in a reason
_MOST_SHOWN = 300  # characters of a wrong value shown beside it
# Texts first, then typed parts in the order of what is wrong with a row: a record needs no date.
_CELLS = ("id", "group", "created_at", "updated_at", "trust", "prefix", "label", "date")
_TEXT_KEYS = frozenset({*ROLES, "sections", "label"} - {"negative"})


class PartName(NamedTuple):
    """A name of the mapping, and where its values are."""

    heading: str
    key: Any
    steps: Steps
    is_optional: bool


class _Texts(NamedTuple):
    """Texts by ascending row, each of a kind: what its heading is, say."""

    texts: pa.Array
    rows: NDArray[np.intp]
    kinds: NDArray[np.intp] | int


class MappedBlock:
    """A block that is mapped: its rows are those that become records."""

    def __init__(self, mapper: RowMapper, of: RowColumns | ArrowColumns, count: int) -> None:
        self._mapper, self._of, self._count, self._names = mapper, of, count, mapper.names
        self._faults = dict(of.faults)
        self._readable = np.ones(count, np.bool_)
        self._readable[list(of.faults)] = False
        self._sizes = np.full(count, 64.0)
        # Why rows are no records: what they lack, by rank, and which values have no meaning.
        self._lacks: list[tuple[int, str, NDArray[np.bool_]]] = []
        self._refused: dict[int, tuple[str, str | None]] = {}  # by a converter, with a complaint
        self._wrong: dict[int, tuple[str, str]] = {}
        self._untyped: dict[int, tuple[str, str]] = {}

    def records(
        self, converted: list[tuple[Converted, str | None]] | None
    ) -> tuple[pa.Table, NDArray[np.float64]]:
        """Return the records, and what each counts for."""
        made = self._sections() if converted is None else self._conversations(converted)
        listed = [self._listed(name, self._mapper.topics) for name in self._names["taxonomy"]]
        ends, topics, _ = self._merged([_Texts(texts, rows, 0) for texts, rows, _ in listed])
        made["taxonomy"] = pa.ListArray.from_arrays(ends, topics)
        made["meta"] = self._meta()
        for part in _CELLS:
            for name in self._names[part][:1]:
                cells, is_given = self._cell(part, name)
                made["group_key" if part == "group" else part] = cells
                if part in ("id", "label"):
                    lacks = ~is_given & self._has(part)
                    self._lacks.append((0 if part == "id" else 2, f"no {part}", lacks))
        if converted is not None:
            self._number(made, [one for one, _ in converted])
        made |= self._judged() | {"row": pa.nulls(self._count, pa.int64())}
        kinds = KINDS.items()
        columns = {n: made[n] if n in made else pa.nulls(self._count, kind) for n, kind in kinds}
        return pa.table(columns), self._sizes

    def _has(self, part: str) -> NDArray[np.bool_]:
        """Return which rows must have a part: with keys of their own, those that name it."""
        if not self._mapper.is_own:
            return np.ones(self._count, np.bool_)
        return np.array([part in row for row in self._of.rows], np.bool_)

    # -- the columns of a part ---------------------------------------------------------------------

    def _column(self, name: PartName) -> pa.Array | list[Any]:
        return self._of.column(name.key, name.steps)

    def _listed(
        self,
        name: PartName,
        make: Callable[[Any], list[str] | Odd],
        wanted: NDArray[np.bool_] | None = None,
    ) -> tuple[pa.Array, NDArray[np.intp], list[int]]:
        """Return texts of a column, the row of each, and rows that have something else."""
        column = self._column(name)
        if (found := listed_strings(column)) is not None:
            texts, rows = found
            kept = self._filled(texts)
            kept = kept if wanted is None else kept & wanted[rows]
            if not kept.all():
                texts, rows = texts.filter(pa.array(kept)), rows[kept]
            return texts, rows, []
        values = column if isinstance(column, list) else self._of.values(name.key, name.steps)
        if wanted is not None and not wanted.all():
            values = [value if is_ else None for value, is_ in zip(values, wanted, strict=True)]
        listed = each(make, values)
        odd = [row for row, one in enumerate(listed) if isinstance(one, Odd)]
        for row in odd:
            told = f"column '{name.heading}': {escaped(listed[row][:_SHOWN])}"
            self._wrong.setdefault(row, (f"not text: {listed[row].kind}", told))
            listed[row] = []
        texts, rows = self._flat(listed)
        return self._array(texts, rows), rows, odd

    def _flat(self, listed: list[list[Any]]) -> tuple[list[Any], NDArray[np.intp]]:
        """Return what rows have, and the row of each."""
        rows = np.repeat(np.arange(self._count), list(map(len, listed)))
        return list(chain.from_iterable(listed)), rows

    def _cell(self, part: str, name: PartName) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Return the values of a part that is no text, and which rows give one."""
        column, mapper = self._column(name), self._mapper
        typed = mapper.typed.get(part)
        if typed is None and isinstance(column, pa.Array):
            is_whole = pa.types.is_integer(column.type)
            if (texts := column.cast(TEXT) if is_whole else strings(column)) is not None:
                kept = self._filled(texts)
                return texts if kept.all() else pc.if_else(pa.array(kept), texts, None), kept
        values, places = different(column)
        given = each(partial(mapper.cell, part), values)
        is_given = np.array([text is not None for text in given], np.bool_)[places]
        if typed is None:
            texts = [given[place] for place in places.tolist()]
            return self._array(texts, range(self._count)), is_given
        found = mapper.meanings(part, given)
        wrong = [g is not None and f is None for g, f in zip(given, found, strict=True)]
        for row in np.flatnonzero(np.array(wrong, np.bool_)[places]).tolist():
            self._untyped.setdefault(row, (typed[1], str(given[places[row]])))
        kind = KINDS[part]
        array = escaped_texts(found) if kind == TEXT else pa.array(found, kind)
        return array.take(pa.array(places)), is_given

    def _filled(self, texts: pa.Array) -> NDArray[np.bool_]:
        """Return which texts are some: no white space, and no word for no value."""
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
        """Return the sections, in the order that those of a row have, and their further texts."""
        names, make, kinds = self._names, self._mapper.texts, list[tuple[str | None, ...]]()
        found, further = list[_Texts](), np.zeros(self._count, np.int64)
        for part, role in (("anchor", "anchor"), ("positive", "context"), ("text", "context")):
            waiting = self._readable.copy()
            for name in names[part]:
                if not waiting.any():
                    break
                texts, rows, odd = self._listed(name, make, waiting)
                waiting[rows] = waiting[odd] = False
                if part == "anchor":  # of a list the first
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
            lacks = np.array([not _TEXT_KEYS & row.keys() for row in self._of.rows], np.bool_)
            self._lacks.append((4, "no text", lacks))
        for name in names["sections"]:
            values = zip(self._of.values(name.key, name.steps), self._readable, strict=True)
            whole = each(sections_of, [value if is_ else None for value, is_ in values])
            for row, (_, fault) in enumerate(whole):
                if fault is not None:
                    self._wrong.setdefault(row, fault)
            found.append(self._told([made for made, _ in whole], kinds))
            if self._mapper.is_own or not (names["anchor"] or names["text"]):
                lacks = self._has("sections")
                lacks[found[-1].rows] = False
                self._lacks.append((4, "no text", lacks))
        made = {"sections": self._whole(found, kinds)}
        return made | ({"further": pa.array(further, mask=further == 0)} if further.any() else {})

    def _told(self, listed: list[Any], kinds: list[tuple[str | None, ...]]) -> _Texts:
        """Return texts of rows that come with their kinds, of which new ones are added."""
        every, rows = self._flat(listed)
        of = {kind: at for at, kind in enumerate(kinds)}
        numbers = np.array([of.setdefault(one[:-1], len(of)) for one in every], np.intp)
        kinds[:] = of
        for at, (*_, heading) in enumerate(kinds):
            if heading and not is_utf8(heading):
                of_it = rows[numbers == at]
                self._array([heading] * len(of_it), of_it)
        return _Texts(self._array([one[-1] for one in every], rows), rows, numbers)

    def _whole(self, parts: list[_Texts], kinds: list[tuple[str | None, ...]]) -> pa.Array:
        ends, texts, number = self._merged(parts, counts=True)
        each_of = [escaped_texts(of).take(number) for of in zip(*kinds, strict=True)]
        roles, headings = each_of or (texts, texts)
        parts_of = pa.StructArray.from_arrays([roles, headings, texts], ["role", "heading", "text"])
        return pa.ListArray.from_arrays(ends, parts_of)

    def _meta(self) -> pa.Array:
        kinds, parts = list[tuple[str | None, ...]](), list[_Texts]()
        if self._mapper.is_own and self._names["meta"]:
            parts.append(self._told(each(_own_meta, self._of.rows), kinds))
        else:
            for name in sorted(set(self._names["meta"])):
                texts, is_given = self._cell("meta", name)
                texts = texts if is_given.all() else texts.drop_null()
                parts.append(_Texts(texts, np.flatnonzero(is_given), len(kinds)))
                kinds.append((name.heading,))
        ends, texts, number = self._merged(parts, counts=True)
        names = escaped_texts([name for (name,) in kinds]).take(number)
        return pa.MapArray.from_arrays(ends, names, texts)

    def _merged(
        self, parts: Sequence[_Texts], *, counts: bool = False
    ) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return the texts of several parts by row: where those of a row end, and their kinds."""
        texts = pa.concat_arrays([pa.array([], TEXT), *(of.texts for of in parts)])
        rows = np.concatenate([np.empty(0, np.intp), *(of.rows for of in parts)])
        of_each = (np.broadcast_to(of.kinds, len(of.rows)) for of in parts)
        number = np.concatenate([np.empty(0, np.intp), *of_each])
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
        """Return what a converter made: sections, messages and what nobody reads."""
        every, kinds = [one for one, _ in converted], list[tuple[str | None, ...]]()
        for row, one in enumerate(every):
            if one.reason is not None:
                self._refused[row] = one.reason, one.detail
        found = self._told([one.sections for one in every], kinds)
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
        ids, groups = (made.get(n, [None] * self._count) for n in ("id", "group_key"))
        if not any(one.number for one in converted):
            return
        ids, groups = (of if isinstance(of, list) else of.to_pylist() for of in (ids, groups))
        for row, one in enumerate(converted):
            if one.number is not None:
                groups[row] = groups[row] or ids[row] or one.conversation
                ids[row] = ids[row] and f"{ids[row]}#{one.number}"
        made |= {"id": pa.array(ids, TEXT), "group_key": pa.array(groups, TEXT)}

    # -- reasons -----------------------------------------------------------------------------------

    def _judged(self) -> dict[str, pa.Array]:
        """Return why rows are no records, and what is unreadable in others."""
        lacks = {row: reason for row, (reason, _) in self._refused.items()}
        for _, reason, rows in sorted(self._lacks, key=lambda lack: lack[0]):
            for row in np.flatnonzero(rows).tolist():
                lacks.setdefault(row, reason)
        no_key = {*self._faults, *lacks, *self._wrong}
        found = {name: [None] * self._count for name in ("skip", "note", "value", "complaint")}
        of: dict[str, list[Any]] = found
        for row in no_key | self._untyped.keys():
            value: str | None = None
            if row in self._faults:
                reason, value, *_ = self._faults[row]
            elif row in self._wrong:
                reason, value = self._wrong[row]
            elif row in lacks:
                reason = lacks[row]
                of["complaint"][row] = self._refused.get(row, (None, None))[1]
            else:
                reason, value = self._untyped[row]
            is_record = reason == BAD_DATE and not self._mapper.needs_dates
            of["note" if is_record else "skip"][row] = reason
            of["value"][row] = None if value is None else shown(escaped(value), _MOST_SHOWN)
        has_key = np.ones(self._count, np.bool_)
        has_key[[*no_key]] = False
        made = {name: escaped_texts(values) for name, values in of.items() if any(values)}
        return made | {"has_key": pa.array(has_key)}


def _own_meta(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the metadata of a record that names its parts."""
    meta = plain(row.get("meta"))
    named = meta if isinstance(meta, dict) or meta is None else {"meta": meta}
    pairs = {str(key): cell_text(value) for key, value in (named or {}).items()}
    return [(key, text) for key in sorted(pairs) if (text := pairs[key]) is not None]


def escaped_texts(values: Sequence[str | None]) -> pa.Array:
    """Return texts, those of invalid UTF-8 escaped."""
    try:
        return pa.array(values, TEXT)
    except UnicodeEncodeError:
        return pa.array([value and escaped(value) for value in values], TEXT)
