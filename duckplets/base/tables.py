"""Take tables that users give, block by block, with columns of the types that are needed.

Arrow, a data frame, a data set, dicts, a mapping, a Parquet file ─blocks→ tables ─typed→ columns

Every function takes ``what`` is done with the table, for messages, and the class of its errors.
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


def blocks(given: Any, what: str, error: type[DuckpletsError]) -> Iterator[pa.Table]:
    """Yield the rows of a table in blocks; the first may be empty."""
    try:
        for block in _read(given, what, error):
            for low in range(0, max(1, block.num_rows), _ROWS):
                yield block.slice(low, _ROWS)
    except (pa.ArrowException, OSError) as why:
        raise error(f"{what}: {shown(repr(given), 80)} cannot be read: {shown(why)}") from why


def table_of(given: Any, what: str, error: type[DuckpletsError]) -> pa.Table:
    """Return all rows of a table."""
    found = list(blocks(given, what, error))
    try:  # of dicts every block has the types and names that its own rows show
        return pa.concat_tables(found, promote_options="permissive") if found else pa.table({})
    except pa.ArrowException as why:
        raise error(f"{what}: its rows are of several types: {shown(why)}") from why


def _read(given: Any, what: str, error: type[DuckpletsError]) -> Iterator[pa.Table]:
    if isinstance(given, str | Path):
        from pyarrow import parquet

        with parquet.ParquetFile(given) as file:
            yield file.schema_arrow.empty_table()
            yield from map(_table, file.iter_batches(_ROWS))
    elif isinstance(given, Mapping):
        yield pa.table({name: _column(of, name, what, error) for name, of in given.items()})
    elif hasattr(given, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(given)
        yield pa.Table.from_batches([], reader.schema)
        yield from map(_table, reader)
    elif hasattr(given, "with_format"):  # a datasets.Dataset, whose dicts take far longer
        yield from given.with_format("arrow").iter(_ROWS)
    elif isinstance(given, Iterable) and not isinstance(given, bytes):
        rows = iter(given)
        while some := list(islice(rows, _ROWS)):
            if other := [row for row in some if not isinstance(row, Mapping)]:
                raise error(f"{what}: a row is no dict: {shown(repr(other[0]), 80)}")
            columns = {name: [row.get(name) for row in some] for name in some[0]}
            yield pa.table({name: _column(of, name, what, error) for name, of in columns.items()})
    else:
        raise error(
            f"{what}: {shown(repr(given), 80)} is no table; give Arrow, a data frame, dicts, a "
            f"mapping of columns, or the path of a Parquet file"
        )


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _column(values: Any, name: str, what: str, error: type[DuckpletsError]) -> pa.Array:
    """Return values as a column; a matrix becomes fixed-size lists without a copy."""
    try:
        if isinstance(values, np.ndarray) and values.ndim == 2:
            flat = column(np.ascontiguousarray(values).reshape(-1))
            return pa.FixedSizeListArray.from_arrays(flat, max(1, values.shape[1]))
        try:
            return pa.array(values)
        except OverflowError:  # half of all hashes: Arrow takes Python's integers for signed ones
            return pa.array(values, pa.uint64())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as why:
        raise error(f"{what}: {name} cannot be read: {shown(why)}") from why


def one_of(
    forms: Collection[tuple[str, ...]],
    names: Collection[str],
    what: str,
    error: type[DuckpletsError],
) -> tuple[str, ...]:
    """Return the set of columns, of several, that a table has; it must be one."""
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
    """Return columns in the types they must have, without nulls; its rows count from ``first``."""
    columns = {}
    for name, kind in kinds.items():
        if table.column_names.count(name) != 1:
            raise error(f"{what}: the table has no column {name!r}, or two")
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
