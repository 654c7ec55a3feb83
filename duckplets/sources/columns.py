"""Make plain columns of Arrow data of any encoding, a bounded portion at a time.

    batch ─portions→ batches whose structure is sound and small once decoded ─plain→ columns

Files of Arrow hold what they say they hold only by their word: offsets may point anywhere, and what
is decoded before its structure has been validated kills the process. A few bytes may stand for a
great many: a dictionary's value, a run, what lists and texts look at in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import shown
from duckplets.errors import SourceError
from duckplets.sources.limits import Limits
from duckplets.sources.rows import MAX_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Sizes = NDArray[np.int64]

_PORTION = MAX_BYTES // 4
_ROWS = 65_536  # a batch may have any number of rows that take no bytes
_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# Of either sign, for timestamps and durations; the least timestamp that DuckDB has.
# How many of a unit may lie between 1970 and a timestamp, or be a duration.
_MOMENTS = {unit: 9_223_372_022_400 * second for unit, second in _SECOND.items() if unit != "ns"}
_MOMENTS["ns"] = 9_223_286_400 * _SECOND["ns"]


def names_of(schema: pa.Schema, where: str) -> list[str]:
    """Return the names of a schema's columns, as text that can be stored.

    Raises:
        SourceError: A name is not UTF-8.
    """
    try:
        names = [str(name) for name in schema.names]
        for name in names:
            name.encode()
    except UnicodeError as error:
        raise SourceError(f"{where}: a column's name is not UTF-8; the file is damaged") from error
    return names


def portions(
    batch: pa.RecordBatch, where: str, limits: Limits, row: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts that can be decoded, a quarter of a table each or one row.

    Args:
        batch: The columns that are read, encoded as they are.
        where: The file, for messages.
        limits: What a value may take.
        row: How many rows came before.

    Raises:
        SourceError: The data is damaged, or a value exceeds the limit; the message says where.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        _check_structure(column, f"{where}: column {shown(repr(name))}", row)
    expands = any(_expands(column.type) for column in batch.columns)
    for start in range(0, batch.num_rows, _ROWS):
        part = batch.slice(start, _ROWS)
        if not expands and part.nbytes <= min(_PORTION, limits.size("field")):
            yield part
            continue
        total = np.zeros(part.num_rows, np.int64)
        for name, column in zip(part.schema.names, part.columns, strict=True):
            sizes = weights(column)
            check_sizes(sizes, name, where, limits, row + start)
            total += sizes
        yield from _cut(part, total)


def check_sizes(sizes: Sizes, name: str, where: str, limits: Limits, row: int) -> None:
    """Refuse a value that is larger than the limit of a field.

    Raises:
        SourceError: One is; the message has file, row and column.
    """
    at = int(sizes.argmax()) if len(sizes) else 0
    if len(sizes) and sizes[at] > limits.size("field"):
        larger = f"column {shown(repr(name))} has a value of {sizes[at]:,} bytes, larger"
        raise limits.exceeded(f"{where}, row {row + at + 1}", larger, "field")


def _cut(batch: pa.RecordBatch, sizes: Sizes) -> Iterator[pa.RecordBatch]:
    ends = np.cumsum(sizes)
    start = 0
    while start < batch.num_rows:
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + _PORTION, "right")), start + 1)
        yield batch.slice(start, stop - start)
        start = stop


def _check_structure(column: pa.Array, where: str, row: int) -> None:
    """Refuse damaged data before anything is decoded; whether texts are UTF-8 is asked later."""
    try:
        try:
            looked_at = column.view(_as_bytes(column.type))
        except (pa.ArrowException, NotImplementedError):
            looked_at = column  # kinds that have no view
        looked_at.validate(full=True)
    except pa.ArrowException as error:
        if "UTF8" not in str(error):
            reason = " ".join(str(error).split())
            last = row + len(column)
            raise SourceError(
                f"{where} is damaged in rows {row + 1} to {last}: {shown(reason)}"
            ) from error


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts as bytes, at any depth."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_string_view(kind):
        return pa.binary_view()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _as_bytes(kind.value_type), kind.ordered)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        value = kind.value_field.with_type(_as_bytes(kind.value_type))
        return pa.list_(value) if pa.types.is_list(kind) else pa.large_list(value)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_as_bytes(kind.value_type)), kind.list_size)
    if pa.types.is_map(kind):
        return pa.map_(_as_bytes(kind.key_type), _as_bytes(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_as_bytes(part.type)) for part in kind])
    return kind


# -- how much rows take ---------------------------------------------------------------------------


def weights(column: pa.Array) -> Sizes:
    """Return how many bytes each row of a column takes once it stands for itself.

    What refers to the same bytes again and again (dictionaries, runs, views) counts every time.
    """
    kind, count = column.type, len(column)
    if pa.types.is_dictionary(kind):
        each = np.append(weights(column.dictionary), 0)  # the last for those that are null
        return np.asarray(each[_numbers(column.indices, -1)])
    if pa.types.is_run_end_encoded(kind):
        ends = _numbers(column.run_ends)
        runs = np.searchsorted(ends, np.arange(count) + column.offset, "right")
        return np.asarray(weights(column.values)[runs])
    if _is_view(kind):  # 16 bytes each, the first four of which are the length
        views = np.frombuffer(column.buffers()[1], np.int32)
        lengths = views.reshape(-1, 4)[column.offset : column.offset + count, 0]
        return np.where(pc.is_valid(column).to_numpy(zero_copy_only=False), lengths, 0)
    if _is_text(kind):
        return _numbers(pc.binary_length(column))
    if pa.types.is_struct(kind):
        return sum((weights(column.field(i)) for i in range(kind.num_fields)), _none(count))
    if _is_list(kind):
        return _of_lists(column)
    return np.full(count, max(column.nbytes // max(count, 1), 1), np.int64)


def _of_lists(lists: pa.Array) -> Sizes:
    kind = lists.type
    if pa.types.is_fixed_size_list(kind):
        starts = (np.arange(len(lists), dtype=np.int64) + lists.offset) * kind.list_size
        stops = starts + kind.list_size
    elif _is_list_view(kind):
        starts = _numbers(lists.offsets)
        stops = starts + _numbers(lists.sizes)
    else:
        starts, stops = _numbers(lists.offsets)[:-1], _numbers(lists.offsets)[1:]
    is_map = pa.types.is_map(kind)
    each = weights(lists.keys) + weights(lists.items) if is_map else weights(lists.values)
    total = np.append(0, np.cumsum(each + 1))
    there = pc.is_valid(lists).to_numpy(zero_copy_only=False)
    return np.where(there, total[np.where(there, stops, 0)] - total[np.where(there, starts, 0)], 0)


def _numbers(column: pa.Array, instead: int = 0) -> Sizes:
    """Return integers, with another in place of nulls."""
    filled = pc.fill_null(column.cast(pa.int64()), instead)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _none(count: int) -> Sizes:
    return np.zeros(count, np.int64)


def _expands(kind: pa.DataType) -> bool:
    """Return whether data of a type may stand for more bytes than it has."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return True
    if _is_view(kind) or _is_list_view(kind):
        return True
    return any(_expands(kind.field(i).type) for i in range(kind.num_fields))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _is_text(kind: pa.DataType) -> bool:
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return bool(is_binary or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    plain = pa.types.is_list(kind) or pa.types.is_large_list(kind) or _is_list_view(kind)
    return bool(plain or pa.types.is_fixed_size_list(kind) or pa.types.is_map(kind))


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


# -- plain columns --------------------------------------------------------------------------------


def plain(column: pa.Array) -> pa.Array:
    """Return a column in a type DuckDB takes; what has none becomes text."""
    kind = column.type
    if isinstance(kind, pa.UuidType):
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    if isinstance(kind, pa.BaseExtensionType):
        return plain(column.storage)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(column))
    wanted = _plain_type(kind)
    return column if wanted == kind else column.cast(wanted)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if not _expands(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_plain_type(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)), kind.list_size)
    value = kind.value_field.with_type(_plain_type(kind.value_type))
    large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    return pa.large_list(value) if large else pa.list_(value)


# -- values ---------------------------------------------------------------------------------------


def faults_of(column: pa.Array) -> dict[int, str]:
    """Return why rows of a column of sound structure cannot be read, by their places."""
    found: dict[int, str] = {}
    waiting = [(0, len(column))] if _fault_in(column) else []
    while waiting:
        start, stop = waiting.pop()
        part = column.take(pa.array(range(start, stop), pa.int64()))  # a slice has all the values
        fault = _fault_in(part)
        if fault is not None and stop - start == 1:
            found[start] = fault
        elif fault is not None:
            middle = (start + stop) // 2
            waiting += [(start, middle), (middle, stop)]
    return found


def _fault_in(column: pa.Array) -> str | None:
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return "invalid UTF-8"
    return None if _are_moments(column) else "unreadable date"


def _are_moments(column: pa.Array) -> bool:
    """Return whether DuckDB has all dates and times of a column, at any depth.

    It fails at a timestamp that it has not with the whole table, at such a time of day with the
    whole instance.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        return all(_are_moments(part) for part in column.flatten())
    if pa.types.is_map(kind):
        return _are_moments(column.keys) and _are_moments(column.items)
    if _is_list(kind):
        return _are_moments(column.flatten())
    if not pa.types.is_temporal(kind) or pa.types.is_date32(kind) or pa.types.is_interval(kind):
        return True
    numbers = column.view(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    least, most = -_MOMENTS[unit], _MOMENTS[unit]
    if pa.types.is_time(kind):
        least, most = 0, _SECOND[unit] * 86_400 - 1
    found = pc.min_max(numbers).as_py()
    return found["min"] is None or (found["min"] >= least and found["max"] <= most)
