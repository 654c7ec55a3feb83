"""Convert Arrow data of any encoding to plain row values, a bounded block at a time.

Arrow files may contain other data than they declare, so structure is validated before values are
read. Values are read when a row is looked at; ``columns`` reads plain values by kernels instead.
Rows share the values of dictionaries and runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duckplets.base.sanitize import shown
from duckplets.errors import SourceError
from duckplets.sources.rows import RowBlock
from duckplets.sources.values import Fault, Odd, cell_text, document

BLOCK_ROWS = 4_096
BLOCK_BYTES = 8 << 20


def names_of(schema: pa.Schema, where: str) -> list[str]:
    """Return the column names of a schema, as storable text."""
    try:
        names = [str(name) for name in schema.names]
        for name in names:
            name.encode()
    except UnicodeError as error:
        raise SourceError(f"{where}: a column's name is not UTF-8; the file is damaged") from error
    return names


def blocks_of(
    batches: Iterable[pa.RecordBatch],
    where: str,
    *,
    columns: Iterable[str] | None = None,
    classes: Classes | None = None,
    row: int = 0,
) -> Iterator[RowBlock]:
    """Yield the rows of batches."""
    wanted = None if columns is None else list(columns)
    for batch in batches:
        if wanted is not None and batch.schema.names != wanted:
            batch = batch.select([batch.schema.names.index(name) for name in wanted])
        for column, name in zip(batch.columns, batch.schema.names, strict=True):
            _check_structure(column, f"{where}: column {shown(repr(name))}", row)
        shared: dict[int, list[Any]] = {}
        names = batch.schema.names
        is_plain = len(set(names)) == len(names) > 0 and all(map(_is_plain, batch.schema.types))
        for start, count in _parts(batch):
            part = batch.slice(start, count)
            copied = _but_views(part) if is_plain else None
            rows = ArrowRows(part if copied is None else copied, where, classes or {}, shared)
            yield RowBlock(list(rows) if copied is None else rows, columns=names)
        row += batch.num_rows


def _but_views(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """Return a batch with copies of text views, which ``take`` lacks; None if too large."""
    columns = list(batch.columns)
    for at, column in enumerate(columns):
        if pa.types.is_string_view(column.type):
            views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)
            lengths = views[column.offset : column.offset + len(column), 0]
            if lengths.sum(dtype=np.int64) > 2 * BLOCK_BYTES:  # they may share their letters
                return None
            columns[at] = column.cast(pa.string())
    return pa.record_batch(columns, batch.schema.names)


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether values of a type can always be read, so that they may be read later."""
    types = pa.types
    if types.is_dictionary(kind) or types.is_list(kind) or types.is_large_list(kind):
        return bool(types.is_string(kind.value_type) or types.is_large_string(kind.value_type))
    are_numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    are_moments = types.is_date(kind) or types.is_timestamp(kind)
    are_others = types.is_boolean(kind) or types.is_null(kind)
    return bool(_is_text(kind) or are_numbers or are_moments or are_others)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield bounded parts of a batch; one row may exceed the bound."""
    each = [c for c in batch.columns if not pa.types.is_dictionary(c.type)]
    waiting = [(0, batch.num_rows)]
    while waiting:
        start, count = waiting.pop()
        size = sum(c.slice(start, count).nbytes for c in each) if count > 1 else 0
        if count > BLOCK_ROWS or size > BLOCK_BYTES:
            half = count // 2
            waiting += [(start + half, count - half), (start, half)]
        elif count:
            yield start, count


class ArrowRows(Sequence[Any]):
    """Rows of a batch that become dictionaries when they are looked at."""

    def __init__(
        self, batch: pa.RecordBatch, where: str, classes: Classes, shared: dict[int, list[Any]]
    ) -> None:
        self.batch, self.classes = batch, classes
        self._where, self._shared = where, shared  # values of dictionaries, by column
        self._rows: Sequence[Any] | None = None

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __iter__(self) -> Iterator[Any]:
        if self._rows is None:
            names = self.batch.schema.names
            found = [self._values(at) for at in range(len(names))]
            rows = [dict(zip(names, values, strict=True)) for values in zip(*found, strict=True)]
            self._rows = with_classes(rows or [{} for _ in range(len(self))], self.classes)
        return iter(self._rows)

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            return list(self)[at]
        start, stop, _ = at.indices(len(self))
        batch = self.batch.slice(start, max(stop - start, 0))
        return ArrowRows(batch, self._where, self.classes, self._shared)

    def at(self, places: NDArray[Any]) -> ArrowRows:
        """Return the rows at places."""
        batch = self.batch.take(pa.array(places))
        return ArrowRows(batch, self._where, self.classes, self._shared)

    def _values(self, at: int) -> list[Any]:
        """Return the values of a column; values of a dictionary are made once."""
        column = self.batch.column(at)
        try:
            if not pa.types.is_dictionary(column.type):
                return values_of(column)
            if at not in self._shared:
                self._shared[at] = [*values_of(column.dictionary), None]
            return _by_index(column, self._shared[at])
        except Exception as error:  # Arrow has no value in Python, or fails to make it
            where = f"{self._where}: column {shown(repr(self.batch.schema.names[at]))}"
            reason = shown(f"{column.type}: {error}", 100)
            raise SourceError(f"{where}: cannot read {reason}; leave the column out") from error


def _by_index(column: pa.Array, values: list[Any]) -> list[Any]:
    """Return the values of a dictionary-encoded column; the last value is for null."""
    return [values[i] for i in pc.fill_null(column.indices.cast(pa.int64()), -1).to_pylist()]


def _check_structure(column: pa.Array, where: str, row: int) -> None:
    """Refuse damaged data; UTF-8 is checked value by value."""
    try:
        viewed = column.view(_as_bytes(column.type))
    except (pa.ArrowException, NotImplementedError):
        viewed = column  # types without a view variant
    faults = []
    for looked_at in (viewed, column):  # a view of nulls in lists has a wrong length
        try:
            looked_at.validate(full=True)
            return
        except pa.ArrowException as error:
            faults.append(error)
    reason = " ".join(str(faults[0]).split())
    if "UTF8" not in reason:
        last = row + len(column)
        raise SourceError(
            f"{where} is damaged in rows {row + 1} to {last}: {shown(reason)}"
        ) from faults[0]


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts as bytes, at any depth."""
    types = pa.types
    if types.is_string(kind):
        return pa.binary()
    if types.is_large_string(kind):
        return pa.large_binary()
    if types.is_string_view(kind):
        return pa.binary_view()
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _as_bytes(kind.value_type), kind.ordered)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        value = kind.value_field.with_type(_as_bytes(kind.value_type))
        if types.is_fixed_size_list(kind):
            return pa.list_(value, kind.list_size)
        return pa.list_(value) if types.is_list(kind) else pa.large_list(value)
    if types.is_map(kind):
        return pa.map_(_as_bytes(kind.key_type), _as_bytes(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([part.with_type(_as_bytes(part.type)) for part in kind])
    return kind


def values_of(column: pa.Array) -> list[Any]:
    """Return the plain values of a column."""
    kind, types = column.type, pa.types
    if _is_text(kind):
        try:
            return list(column.to_pylist())
        except UnicodeDecodeError:
            data = column.view(_as_bytes(kind)).to_pylist()
            return [None if v is None else v.decode("utf-8", "surrogateescape") for v in data]
    if types.is_dictionary(kind):
        return _by_index(column, [*values_of(column.dictionary), None])
    if types.is_run_end_encoded(kind):
        each = values_of(column.values)
        places = np.arange(len(column)) + column.offset
        ends = column.run_ends.to_numpy(zero_copy_only=False)
        return [each[i] for i in np.searchsorted(ends, places, "right").tolist()]
    if types.is_null(kind):
        return [None] * len(column)
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.UuidType):
        return values_of(column.storage)
    if types.is_temporal(kind):
        return _moments(column)
    if types.is_floating(kind):
        return _reals(column)
    if types.is_struct(kind):
        names = [part.name for part in kind]
        parts = [values_of(part) for part in column.flatten()]
        rows = zip(*parts, strict=True) if parts else ((),) * len(column)
        made = [dict(zip(names, values, strict=True)) for values in rows]
        return _but_null(column, made)
    if types.is_nested(kind) and not types.is_union(kind):
        return _lists(column)
    return list(column.to_pylist())


def _but_null(column: pa.Array, values: list[Any]) -> list[Any]:
    if not column.null_count:
        return values
    there = pc.is_valid(column).to_pylist()
    return [value if is_there else None for value, is_there in zip(values, there, strict=True)]


def _lists(column: pa.Array) -> list[Any]:
    """Return lists of any kind; maps become dictionaries."""
    kind, is_map = column.type, pa.types.is_map(column.type)
    if pa.types.is_fixed_size_list(kind):
        starts = [(i + column.offset) * kind.list_size for i in range(len(column))]
        stops = [start + kind.list_size for start in starts]
    elif hasattr(column, "sizes"):  # list views
        starts = column.offsets.to_pylist()
        stops = [a + n for a, n in zip(starts, column.sizes.to_pylist(), strict=True)]
    else:
        ends = column.offsets.to_pylist()
        starts, stops = ends[:-1], ends[1:]
    first, last = min(starts, default=0), max(stops, default=0)
    parts = [column.keys, column.items] if is_map else [column.values]
    inner = [values_of(part.slice(first, last - first)) for part in parts]
    values = list(zip(*inner, strict=True)) if is_map else inner[0]
    cut = (values[a - first : b - first] for a, b in zip(starts, stops, strict=True))
    return _but_null(column, [dict(each) if is_map else each for each in cut])


def _reals(column: pa.Array) -> list[Any]:
    """Return numbers; 32-bit ones by their shortest text."""
    found: list[Any] = column.to_pylist()
    if not pa.types.is_float64(column.type):
        kind = np.float32 if pa.types.is_float32(column.type) else np.float16
        found = [None if v is None else float(str(kind(v))) for v in found]
    numbers = np.abs(pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False))
    odd = np.flatnonzero((numbers >= 1e16) | ((numbers < 1e-4) & (numbers > 0)))
    for i in odd.tolist():
        found[i] = Odd(repr(found[i]), "number")
    return found


def _moments(column: pa.Array) -> list[Any]:
    """Return dates and times as text; moments of a zone in UTC, with their day in that zone."""
    kind = column.type
    if pa.types.is_interval(kind) or pa.types.is_duration(kind):
        return [None if v is None else Odd(str(v), "date") for v in column.to_pylist()]
    zone = kind.tz if pa.types.is_timestamp(kind) else None
    texts = (column if zone is None else column.cast(pa.timestamp(kind.unit))).cast(pa.string())
    texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    texts = pc.replace_substring_regex(texts, r"(\.\d*[1-9])0+$", r"\1")
    if zone is None:
        return [None if text is None else Odd(text, "date") for text in texts.to_pylist()]
    try:
        local = pc.local_timestamp(column).cast(pa.string())
    except pa.ArrowInvalid:  # no such zone: all tools take it for UTC
        local = texts
    days = pc.utf8_slice_codeunits(local, 0, 10).to_pylist()
    each = zip(texts.to_pylist(), days, strict=True)
    return [None if text is None else Odd(f"{text}+00", "date", day) for text, day in each]


# -- names of classes -----------------------------------------------------------------------------


Classes = Mapping[str, tuple[str, ...]]


def with_classes(rows: Sequence[Any], classes: Classes) -> Sequence[Any]:
    """Return rows with class names instead of numbers."""
    if not classes:
        return rows
    found: list[Any] = []
    for row in rows:
        made, fault = dict(row) if isinstance(row, dict) else row, None
        for name in classes.keys() & row.keys() if isinstance(row, dict) else ():
            wrong: list[Any] = []
            made[name] = class_name(row[name], classes[name], wrong)
            if wrong:
                fault = Fault(f"unknown label: {name}", cell_text(wrong[0]), document(row), made)
        found.append(fault or made)
    return found


def class_name(value: Any, names: tuple[str, ...], wrong: list[Any]) -> Any:
    """Return the name of a class, or add the value to ``wrong``; names pass."""
    if isinstance(value, list):
        return [class_name(item, names, wrong) for item in value]
    if isinstance(value, str):
        if value in names or not value.strip():
            return value
        number = re.fullmatch(r"\s*(-?[0-9]{1,9})(\.0)?\s*", value)
        value = int(number[1]) if number else len(names)
    if value is None or value == -1:
        return None
    if isinstance(value, (int, float)) and 0 <= value < len(names):
        return names[int(value)]
    wrong.append(value)
    return None


def classes_of_schema(schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """Return the class names of a file's columns, as ``datasets`` stores them."""
    try:
        found = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return classes_of_features(found)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def classes_of_features(features: Any) -> dict[str, tuple[str, ...]]:
    """Return the class names of columns, from ``datasets.Features`` as a dictionary."""
    return {name: names for name, each in features.items() if (names := _names(each))}


def _names(feature: Any) -> tuple[str, ...]:
    while isinstance(feature, (Mapping, list)):
        if isinstance(feature, list):
            feature = feature[0] if len(feature) == 1 else None
        elif feature.get("_type") == "ClassLabel":
            return tuple(map(str, feature.get("names") or ()))
        else:
            feature = feature.get("feature")
    return ()
