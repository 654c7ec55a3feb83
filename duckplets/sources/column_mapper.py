"""Map the columns of a block of rows to the columns of records.

block ─texts, cells→ columns of records, and the numbers of odd rows ─RowMapper→ records or reasons

Columns are those of Arrow data, whose rows are not made, or the values that dictionaries have.

A row is odd if it may be no record: it lacks a text, or a value has no meaning. The law of values
is that of ``RowMapper``: texts are told from blanks by their first bytes, or by ``is_filled``, and
other values are read once for each different one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duckplets.sources.names import follow
from duckplets.sources.rows import EXTRA_COLUMNS, HASHED, ROW_SCHEMA
from duckplets.sources.typed import BLOCK_BYTES, ArrowRows, class_name, values_of
from duckplets.sources.values import is_filled, is_utf8

if TYPE_CHECKING:
    from duckplets.sources.row_mapper import Name, RowMapper

KINDS = {field.name: field.type for field in ROW_SCHEMA} | EXTRA_COLUMNS
_TEXT = pa.string()
_TYPED = ("date", "trust", "label", "created_at", "updated_at", "prefix")
# The first two bytes of UTF-8 that white space beyond ASCII begins with, from U+1680 on.
_BLANKS = np.array([0xE19A, 0xE280, 0xE281, 0xE380])


@dataclass(frozen=True, slots=True)
class Columns:
    """What a batch maps to."""

    table: pa.Table  # records, with the row of each from 0 in ``row``
    sizes: NDArray[np.int64]  # of every row, 0 of odd ones
    odd: NDArray[np.intp]  # rows that are not in the table


class _Texts(NamedTuple):
    """The texts of a part, by ascending row."""

    texts: pa.Array
    rows: NDArray[np.intp]
    role: str
    heading: str | None

    def where(self, wanted: NDArray[np.bool_]) -> _Texts:
        """Return the texts of some rows."""
        kept = wanted[self.rows]
        if kept.all():
            return self
        return self._replace(texts=self.texts.filter(pa.array(kept)), rows=self.rows[kept])


class _Unsure(Exception):  # noqa: N818 - it is no error
    """A batch has to go by rows."""


@contextmanager
def _by_rows_on_error() -> Iterator[None]:
    """Let a block go by rows if an object of a user fails, so that its row is named."""
    try:
        yield
    except Exception as error:
        raise _Unsure from error


class _OfArrow:
    """The columns of Arrow data."""

    def __init__(self, rows: ArrowRows) -> None:
        self.odd = np.zeros(len(rows), np.bool_)
        self._named = {n: rows.batch.column(at) for at, n in enumerate(rows.batch.schema.names)}
        for name in rows.classes.keys() & self._named.keys():
            self._named[name] = self._classed(self._named[name], rows.classes[name])

    def column(self, name: Name, *, is_text: bool) -> Any:
        """Return a column."""
        _, key, steps, _ = name
        if steps or key not in self._named:
            raise _Unsure
        return self._named[key]

    def _classed(self, column: pa.Array, names: tuple[str, ...]) -> pa.Array:
        """Return the names of classes."""
        values, places = _different(column)
        found, wrong = [], list[bool]()
        for value in values:
            invalid: list[Any] = []
            found.append(class_name(value, names, invalid))
            wrong.append(bool(invalid))
        self.odd |= np.array(wrong, np.bool_)[places]
        return pa.array(found, _TEXT).take(pa.array(places))


class _OfRows:
    """The values that dictionaries have; a row that is none is odd."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.odd = np.array([type(row) is not dict for row in rows], np.bool_)
        self._rows = [row if type(row) is dict else {} for row in rows]

    def column(self, name: Name, *, is_text: bool) -> Any:
        """Return values as texts or lists of texts; if they need not be texts, also as they are."""
        _, key, steps, _ = name
        values = [row.get(key) for row in self._rows]
        if steps:
            with _by_rows_on_error():
                values = [follow(value, steps) for value in values]
        kinds = {*map(type, values)} - {type(None)}
        if is_text and kinds == {list}:
            items = [item for value in values if value for item in value]
            if {*map(type, items)} <= {str, type(None)}:
                return self._array(values, items, pa.list_(_TEXT))
        if not is_text and not kinds <= {str}:
            return values
        if not kinds <= {str}:
            self.odd |= np.array([type(v) is not str and v is not None for v in values])
            values = [value if type(value) is str else None for value in values]
        return self._array(values, values, _TEXT)

    def _array(self, values: list[Any], texts: list[Any], kind: pa.DataType) -> pa.Array:
        if sum(map(len, filter(None, texts))) > 2 * BLOCK_BYTES:  # rows fill batches by themselves
            raise _Unsure
        try:
            return pa.array(values, kind)
        except UnicodeEncodeError as error:
            if kind != _TEXT:
                raise _Unsure from error
        faulty = np.array([value is not None and not is_utf8(value) for value in values])
        self.odd |= faulty
        each = zip(faulty, values, strict=True)
        return pa.array([None if is_faulty else value for is_faulty, value in each], kind)


class ColumnMapper:
    """Split the columns of a block into texts and further values."""

    def __init__(self, rows: RowMapper) -> None:
        self._mapper = rows

    def mapped(self, rows: Sequence[Any]) -> Columns | None:
        """Return the records of a block; None if it has to go by rows."""
        try:
            of = _OfArrow(rows) if isinstance(rows, ArrowRows) else _OfRows(rows)
            return _MappedBlock(self._mapper, of).columns()
        except _Unsure:
            return None


class _MappedBlock:
    """A block that is mapped."""

    def __init__(self, mapper: RowMapper, of: _OfArrow | _OfRows) -> None:
        self._mapper, self._of, self._odd, self._count = mapper, of, of.odd, len(of.odd)

    def columns(self) -> Columns:
        mapper, made = self._mapper, dict[str, Any]()
        for part, name in mapper.cell_names:
            column = {"group": "group_key"}.get(part, part)
            made[column] = self._cell(part, name)
            if part in ("id", "label"):
                self._odd |= ~_valid(made[column])
        sections = self._sections()
        topics = [self._listed(name) for name in mapper.topic_names]
        metas = []
        for name in mapper.meta_names:
            values = self._cell("meta", name)
            there = _valid(values)
            texts = values.drop_null() if values.null_count else values
            metas.append(_Texts(texts, np.flatnonzero(there), "", name[0]))
        sizes = self._sizes(sections, metas)
        odd = sizes > mapper.most
        if odd.any():  # a value may be above the limit of a field
            self._odd |= odd
        sizes[self._odd] = 0
        kept = ~self._odd
        if not kept.all():
            made = {name: column.filter(pa.array(kept)) for name, column in made.items()}
        sections, topics, metas = (
            [of.where(kept) for of in each] for each in (sections, topics, metas)
        )
        made |= {"sections": self._merged(sections, "sections")}
        made |= {"taxonomy": self._merged(topics, "taxonomy"), "meta": self._merged(metas, "meta")}
        made["row"] = pa.array(np.flatnonzero(kept))
        return Columns(_whole(made, int(kept.sum())), sizes, np.flatnonzero(self._odd))

    # -- texts ------------------------------------------------------------------------------------

    def _sections(self) -> list[_Texts]:
        """Return the sections, in the order that those of a row have."""
        made = list[_Texts]()
        for part, role, candidates in self._mapper.candidates:
            waiting = np.ones(self._count, np.bool_)
            for name in candidates:
                found = self._listed(name, role)
                if part == "anchor" and len(np.unique(found.rows)) < len(found.rows):
                    raise _Unsure  # a list of anchors
                made.append(found.where(waiting))
                waiting[found.rows] = False
                if not waiting.any():
                    break
            self._odd |= waiting
        for part, role, name in self._mapper.others:
            found = self._listed(name, role)
            made.append(found)
            if part == "context" and not name[3]:
                lacks = np.ones(self._count, np.bool_)
                lacks[found.rows] = False
                self._odd |= lacks
        return made

    def _listed(self, name: Name, role: str = "") -> _Texts:
        """Return the texts of a column of texts, or of lists of them."""
        column, rows = self._of.column(name, is_text=True), np.arange(self._count)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
            rows, column = np.repeat(rows, lengths), column.flatten()
        texts = _strings(column)
        filled = _filled(texts)
        if not filled.all():
            texts, rows = texts.filter(pa.array(filled)), rows[filled]
        return _Texts(texts, rows, role, name[0])

    def _sizes(self, *parts: list[_Texts]) -> NDArray[np.int64]:
        """Return what each row counts for, as ``RowMapper`` has it."""
        sizes = np.full(self._count, 64.0)
        for each in (of for part in parts for of in part if len(of.rows)):
            lengths = pc.utf8_length(each.texts).to_numpy(zero_copy_only=False)
            sizes += np.bincount(each.rows, lengths, self._count)
        return sizes.astype(np.int64)

    def _merged(self, parts: list[_Texts], column: str) -> pa.Array:
        """Return the texts of several parts as lists, by row and part."""
        texts = pa.concat_arrays([pa.array([], _TEXT), *(of.texts for of in parts)])
        rows = np.concatenate([np.empty(0, np.intp), *(of.rows for of in parts)])
        number = np.repeat(np.arange(len(parts)), [len(of.rows) for of in parts])
        order = np.argsort(rows, kind="stable")
        if len(parts) > 1:
            texts, number = texts.take(pa.array(order)), pa.array(number[order])
        counts = np.bincount(rows, minlength=self._count)[~self._odd]
        ends = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        if column == "taxonomy":
            return pa.ListArray.from_arrays(ends, texts)
        headings = pa.array([of.heading for of in parts], _TEXT).take(pa.array(number))
        if column == "meta":
            return pa.MapArray.from_arrays(ends, headings, texts)
        roles = pa.array([of.role for of in parts], _TEXT).take(pa.array(number))
        each = pa.StructArray.from_arrays([roles, headings, texts], ["role", "heading", "text"])
        return pa.ListArray.from_arrays(ends, each)

    # -- other values -----------------------------------------------------------------------------

    def _cell(self, part: str, name: Name) -> pa.Array:
        """Return the values of a part."""
        column, types = self._of.column(name, is_text=False), pa.types
        if isinstance(column, pa.Array) and part not in _TYPED:
            if types.is_integer(column.type):
                return column.cast(_TEXT)
            if _is_text(column.type):
                texts = _strings(column)
                filled = _filled(texts)
                return texts if filled.all() else pc.if_else(pa.array(filled), texts, None)
        values, places = _different(column)
        with _by_rows_on_error():
            given = self._mapper.cells_of(part, values)
        found = self._mapper.meanings(part, given) if part in _TYPED else given
        wrong = [g is not None and f is None for g, f in zip(given, found, strict=True)]
        if any(wrong):
            self._odd |= np.array(wrong)[places]
        to = KINDS[part] if part in _TYPED else _TEXT
        try:
            return pa.array(found, to).take(pa.array(places))
        except (UnicodeEncodeError, pa.ArrowException) as error:
            raise _Unsure from error


def _different(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different values of a column, as rows have them, and the place of each."""
    if isinstance(column, list):
        return column, np.arange(len(column))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        raise _Unsure
    if pa.types.is_null(column.type):
        return [None], np.zeros(len(column), np.int64)
    if pa.types.is_dictionary(column.type):
        encoded = column.indices.dictionary_encode(null_encoding="encode")
        values = column.dictionary.take(encoded.dictionary)
    else:
        encoded = column.dictionary_encode(null_encoding="encode")
        values = encoded.dictionary
    return values_of(values), encoded.indices.to_numpy().astype(np.int64)


def _whole(made: dict[str, pa.Array], count: int) -> pa.Table:
    """Return a table with all columns that ``RowMapper`` makes."""
    more = {"id": _TEXT, "identity": _TEXT, "file": _TEXT}
    made["has_key"] = pa.array(np.ones(count, np.bool_))
    for name, kind in (KINDS | more).items():
        if name not in made and name not in HASHED:
            made[name] = pa.nulls(count, kind)
    return pa.table(made)


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind))


def _strings(column: pa.Array) -> pa.Array:
    """Return valid texts."""
    kind, types = column.type, pa.types
    if not _is_text(kind):
        raise _Unsure
    if types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        if (pc.sum(lengths).as_py() or 0) > BLOCK_BYTES:
            raise _Unsure
        column = column.dictionary_decode()
    column = column if types.is_string(column.type) else column.cast(_TEXT)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:  # invalid UTF-8
        raise _Unsure from error
    return column


def _filled(texts: pa.Array) -> NDArray[np.bool_]:
    """Return which texts have more than white space."""
    count = len(texts)
    _, ends, data = texts.buffers()
    if not count or data is None or not data.size:
        return np.zeros(count, np.bool_)
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + count + 1]
    letters = np.frombuffer(data, np.uint8)
    first = letters[np.minimum(offsets[:-1], len(letters) - 1)]
    there = (offsets[1:] > offsets[:-1]) & _valid(texts)
    sure = (first > 0x20) & (first != 0x7F) & (first != 0xC2)
    if (first >= 0xE1).any():
        second = letters[np.minimum(offsets[:-1] + 1, len(letters) - 1)]
        sure &= ~np.isin(first.astype(np.int32) << 8 | second, _BLANKS)
    doubt = np.flatnonzero(there & ~sure)
    found: NDArray[np.bool_] = there & sure
    if len(doubt):
        found[doubt] = [is_filled(text) for text in texts.take(pa.array(doubt)).to_pylist()]
    return found
