"""Read a table of external scores, of whatever kind, as checked Arrow batches of one form.

Whatever speaks Arrow's stream protocol (tables of pyarrow, pandas, polars, DuckDB) or yields
dicts is read once, a batch at a time. Columns besides those named here are of no interest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import listed
from duckplets.errors import RecipeError, nearest

ANCHORS = ("anchor_id", "anchor_section_key")
NEGATIVES = ("negative_id", "negative_section_key")
SCORE = "score"

_TYPES = {ANCHORS[0]: pa.string(), ANCHORS[1]: pa.int64(), NEGATIVES[0]: pa.string()}
_TYPES |= {NEGATIVES[1]: pa.int64(), SCORE: pa.float64()}
_SCHEMA = pa.schema(_TYPES.items())
_MEANING = {pa.string(): "text", pa.int64(): "integers", pa.float64(): "numbers"}
_ROWS = 1 << 20  # rows a batch: looking up its ids reads the ids of all records once
_MOST = 1e300
_DICTS = 1 << 16


def batches(table: Any) -> Iterator[pa.Table]:
    """Yield the rows of a table in batches with all five columns.

    Of ids and section keys the table has the one or the other for anchors, and the one or the
    other for negatives; what it has not is null throughout.

    Raises:
        RecipeError: A column is missing, or holds something else; naming column and row.
    """
    names: Sequence[str] | None = None
    waiting: list[pa.Table] = []
    first = 0
    for batch in _read(table):
        names = _chosen(batch.column_names) if names is None else names
        waiting.append(_checked(batch, names, first))
        first += batch.num_rows
        if sum(part.num_rows for part in waiting) >= _ROWS:
            yield from _sliced(waiting)
            waiting = []
    if waiting:
        yield from _sliced(waiting)
    if not first:
        raise RecipeError("the table of negatives has no rows")


def _read(table: Any) -> Iterator[pa.Table]:
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if hasattr(table, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(table)
        for batch in reader:
            yield pa.Table.from_batches([batch])
        return
    if isinstance(table, Mapping | str | bytes) or not isinstance(table, Iterable):
        raise RecipeError(
            f"a table of negatives is a table that speaks Arrow (pyarrow, pandas, polars), or an "
            f"iterable of dicts, not {type(table).__name__}"
        )
    rows = iter(table)
    names: Sequence[str] | None = None
    while chunk := list(islice(rows, _DICTS)):
        names = _chosen(_keys(chunk[0])) if names is None else names
        yield _of_dicts(chunk, names)


def _keys(row: Any) -> list[str]:
    if isinstance(row, Mapping):
        return list(row)
    raise RecipeError(f"a row of negatives is a dict, not {type(row).__name__}: {row!r:.80}")


def _of_dicts(rows: list[Any], names: Sequence[str]) -> pa.Table:
    columns = {}
    for name in names:
        values = [row.get(name) if isinstance(row, Mapping) else _keys(row) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise _wrong(name, f"mixed values: {error}") from error
    return pa.table(columns)


def _chosen(names: Sequence[str]) -> tuple[str, str, str]:
    """Return which of the columns to read."""
    anchor, negative = _one_of(ANCHORS, names), _one_of(NEGATIVES, names)
    return anchor, negative, _one_of((SCORE,), names)


def _one_of(choices: tuple[str, ...], names: Sequence[str]) -> str:
    found = [choice for choice in choices if choice in names]
    if len(found) > 1:
        raise RecipeError(f"a table of negatives has either {' or '.join(choices)}, not both")
    if found:
        return found[0]
    others = [name for name in names if name not in _TYPES]
    hint = next(filter(None, (nearest(name, choices) for name in others)), "")
    have = listed(map(repr, names)) or "none"
    raise RecipeError(
        f"a table of negatives needs a column {' or '.join(map(repr, choices))}; it has {have}"
        f"{hint}"
    )


def _checked(batch: pa.Table, names: Sequence[str], first: int) -> pa.Table:
    """Return the chosen columns of a batch that begins at row ``first``, with all five names."""
    columns = {name: _typed(name, batch[name], first) for name in names}
    missing = pa.nulls(batch.num_rows)
    arrays = [columns.get(name, missing.cast(kind)) for name, kind in _TYPES.items()]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _typed(name: str, column: pa.ChunkedArray, first: int) -> pa.ChunkedArray:
    wanted = _TYPES[name]
    if column.null_count:
        raise _wrong(name, f"null in row {first + pc.index(pc.is_null(column), True).as_py()}")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not _fits(kind, wanted):
        raise _wrong(name, str(kind))
    try:
        column = column.cast(wanted)
    except pa.ArrowException as error:
        raise _wrong(name, str(error)) from error
    if wanted == pa.float64():
        usable = pc.less(pc.abs(column), _MOST)  # false for NaN
        if not pc.all(usable, min_count=0).as_py():
            row = pc.index(usable, False).as_py()
            raise _wrong(name, f"{column[row].as_py()} in row {first + row}")
    return column


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if wanted == pa.string():
        text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        return any(is_text(kind) for is_text in text)
    if wanted == pa.int64():
        return bool(pa.types.is_integer(kind))
    number = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)
    return any(is_number(kind) for is_number in number)


def _wrong(name: str, what: str) -> RecipeError:
    meaning = _MEANING[_TYPES[name]]
    example = ", as in 'source/key'" if meaning == "text" else ""
    return RecipeError(
        f"column {name!r} of the negatives holds {what}; it must be {meaning}{example}"
    )


def _sliced(parts: list[pa.Table]) -> Iterator[pa.Table]:
    whole = pa.concat_tables(parts)
    for start in range(0, whole.num_rows, _ROWS):
        yield whole.slice(start, _ROWS).combine_chunks()
