"""Read tables from users block by block, and convert columns to the needed types.

Arrow, a data frame, a data set, dicts, a mapping, a Parquet file ─blocks→ tables ─typed→ columns

Every function takes ``what``, the use of the table in messages, and the class of its errors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.columns import column
from duckplets.base.sanitize import listed, shown
from duckplets.errors import DuckpletsError, nearest

_ROWS = 65_536  # rows of a block

_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_NUMBERS = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)
_FITTING: dict[pa.DataType, tuple[str, tuple[Any, ...]]] = {
    pa.string(): ("texts", _TEXTS),
    pa.int64(): ("integers", (pa.types.is_integer,)),
    pa.uint64(): ("integers", (pa.types.is_integer,)),
    pa.float64(): ("numbers", _NUMBERS),
}


def blocks(data: Any, what: str, error: type[DuckpletsError]) -> Iterator[pa.Table]:
    """Yield the rows of a table in blocks; the first may be empty."""
    try:
        for block in _read(data, what, error):
            for low in range(0, max(1, block.num_rows), _ROWS):
                yield block.slice(low, _ROWS)
    except (pa.ArrowException, OSError) as why:
        raise error(f"{what}: {shown(repr(data), 80)} cannot be read: {shown(why)}") from why


def table_of(data: Any, what: str, error: type[DuckpletsError]) -> pa.Table:
    """Return all rows of a table."""
    found = list(blocks(data, what, error))
    try:  # blocks of dicts may differ in types and names
        return pa.concat_tables(found, promote_options="permissive") if found else pa.table({})
    except pa.ArrowException as why:
        raise error(f"{what}: its rows are of several types: {shown(why)}") from why


def _read(data: Any, what: str, error: type[DuckpletsError]) -> Iterator[pa.Table]:
    if isinstance(data, str | Path):
        from pyarrow import parquet

        with parquet.ParquetFile(data) as file:
            yield file.schema_arrow.empty_table()
            for batch in file.iter_batches(_ROWS):
                yield pa.Table.from_batches([batch])
    elif isinstance(data, Mapping):
        yield _table(data, what, error)
    elif hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        yield pa.Table.from_batches([], reader.schema)
        for batch in reader:
            yield pa.Table.from_batches([batch])
    elif hasattr(data, "with_format"):  # a datasets.Dataset, whose dicts take far longer
        yield from data.with_format("arrow").iter(_ROWS)
    elif isinstance(data, Iterable) and not isinstance(data, bytes):
        rows = iter(data)
        while block := list(islice(rows, _ROWS)):
            if wrong := [row for row in block if not isinstance(row, Mapping)]:
                raise error(f"{what}: a row is no dict: {shown(repr(wrong[0]), 80)}")
            yield _table({name: [row.get(name) for row in block] for name in block[0]}, what, error)
    else:
        raise error(
            f"{what}: {shown(repr(data), 80)} is no table; give Arrow, a data frame, dicts, a "
            f"mapping of columns, or the path of a Parquet file"
        )


def _table(columns: Mapping[str, Any], what: str, error: type[DuckpletsError]) -> pa.Table:
    return pa.table({name: _column(values, name, what, error) for name, values in columns.items()})


def _column(values: Any, name: str, what: str, error: type[DuckpletsError]) -> pa.Array:
    """Return values as a column; a matrix becomes fixed-size lists without a copy."""
    try:
        if isinstance(values, np.ndarray) and values.ndim == 2:
            flat = column(np.ascontiguousarray(values).reshape(-1))
            return pa.FixedSizeListArray.from_arrays(flat, max(1, values.shape[1]))
        try:
            return pa.array(values)
        except OverflowError:  # half of all hashes: Arrow reads Python's integers as signed
            return pa.array(values, pa.uint64())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as why:
        raise error(f"{what}: {name} cannot be read: {shown(why)}") from why


def one_of(
    forms: Collection[tuple[str, ...]],
    names: Collection[str],
    what: str,
    error: type[DuckpletsError],
) -> tuple[str, ...]:
    """Return the one set of columns that a table has; refuse none or several."""
    found = [form for form in forms if {*form} <= {*names}]
    if len(found) == 1:
        return found[0]
    known = dict.fromkeys(name for form in forms for name in form)
    hints = (nearest(name, known) for name in names if name not in known)
    wanted = " or ".join(" with ".join(map(repr, form)) for form in forms)
    raise error(
        f"{what}: the table has the columns {listed(map(repr, names)) or 'none'}; give {wanted}"
        f"{', not both' if found else next(filter(None, hints), '')}"
    )


def typed(
    table: pa.Table,
    kinds: Mapping[str, pa.DataType],
    what: str,
    error: type[DuckpletsError],
    first: int = 0,
) -> pa.Table:
    """Return columns in needed types, without nulls; messages count rows from ``first``."""
    columns = {}
    for name, kind in kinds.items():
        if table.column_names.count(name) != 1:
            raise error(f"{what}: the table has no column {name!r}, or two; give one")
        found = table[name]
        if found.null_count:
            row = first + pc.index(pc.is_null(found), True).as_py()
            raise error(f"{what}: row {row} has no {name}, but null")
        own = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
        words, fitting = _FITTING[kind]
        if len(found) and not any(fits(own) for fits in fitting):
            raise error(f"{what}: {name} is of type {own}; give {words}")
        try:
            columns[name] = found.cast(kind)
        except pa.ArrowException as why:
            raise error(f"{what}: {name}: {shown(why)}; give {words}") from why
    return pa.table(columns)
