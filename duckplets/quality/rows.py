"""Which rows of an intake are wanted: ``where=``, checked as a recipe's conditions, and the caps.

A condition looks at a row as it was mapped, before any gate: at its ``record_id`` and ``source``,
its ``date``, ``group_key``, ``taxonomy``, ``meta``, ``trust``, ``created_at`` and ``updated_at``,
and at its ``text``. Columns of a file that play another part are reached by ``meta``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.errors import SourceError, nearest
from duckplets.recipes.conditions import where_condition

if TYPE_CHECKING:
    from sqlglot import exp

_OF_ROWS = ("date", "group_key", "taxonomy", "meta", "created_at", "updated_at")
COLUMNS = ("record_id", "source", *_OF_ROWS, "trust", "text")


def checked_where(where: Any) -> exp.Expression | None:
    """Return a condition as a tree over the columns of ``slot``, None for none.

    Raises:
        SourceError, RecipeError: It is no condition over ``COLUMNS``.
    """
    if where is None:
        return None
    from sqlglot import exp

    if not isinstance(where, str) or not where.strip():
        raise SourceError(f'where={where!r}: give a condition in SQL, such as "trust > 0.5"')
    tree = where_condition(where)
    for column in tree.find_all(exp.Column):
        if column.name not in COLUMNS:
            raise SourceError(
                f"where={where!r}: {column.name} is no column of a row"
                f"{nearest(column.name, COLUMNS)}; these are {', '.join(COLUMNS)}"
            )
    return tree


def chosen(
    database: Database,
    condition: exp.Expression,
    rows: pa.RecordBatch,
    texts: pa.Array,
    ids: pa.Array,
    *,
    name: str,
    trust: float,
) -> Any:
    """Return for which rows a condition is true, bool[rows].

    Args:
        database: The corpus.
        condition: As from ``checked_where``.
        rows: As from ``preprocess``.
        texts: Of the rows.
        ids: Of the records they would be.
        name: Of the source.
        trust: Of the source, for rows without their own.
    """
    from sqlglot import exp, parse_one

    columns = {column: rows[column] for column in _OF_ROWS} | {"text": texts, "record_id": ids}
    columns |= {
        "row": rows["row"],
        "trust": pc.fill_null(rows["trust"], trust),
        "source": pa.array([name] * rows.num_rows, pa.string()),
    }
    statement = parse_one(query("quality/intake/chosen"), dialect="duckdb", into=exp.Select)
    sql = statement.where(condition.copy()).sql(dialect="duckdb")
    with database.registered(mapped_rows=pa.table(columns)), database.deadline("where="):
        found = database.arrow(sql)
    return pc.is_in(rows["row"], found["row"].combine_chunks()).to_numpy(zero_copy_only=False)


def checked_size(size_mb: Any) -> float | None:
    """Return a cap of text in 10^6 bytes, None for none.

    Raises:
        SourceError: It is no such number.
    """
    if size_mb is None:
        return None
    is_number = isinstance(size_mb, int | float) and not isinstance(size_mb, bool)
    if not is_number or not 0 <= size_mb < 1e12:
        raise SourceError(f"size_mb={size_mb!r}: give a number of 10^6 bytes, 0 or more")
    return float(size_mb)


def checked_limit(limit: Any) -> int | None:
    """Return a cap of records, None for none.

    Raises:
        SourceError: It is no such number.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise SourceError(f"limit={limit!r}: give a whole number of records, 0 or more")
    return limit
