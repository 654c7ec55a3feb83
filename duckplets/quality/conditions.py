"""Read what a user asks of rows and texts: conditions in SQL, names of gates, and caps.

    text ─name of a function─→ its value has to be True
         ─or a condition, checked as those of recipes─→ DuckDB's SQL over stored metrics

The decision that matters: a condition that looks at the text is answered when the text is
measured, and its answer stored as a metric of its own. One that looks at metrics alone is answered
whenever it is decided, so that other limits need no texts.

``where=`` asks before any gate, and of a row as it was mapped: its ``record_id`` and ``source``,
its ``date``, ``group_key``, ``taxonomy``, ``meta``, ``trust``, ``created_at`` and ``updated_at``,
and its ``text``. Columns of a file that play another part are reached by ``meta``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.errors import QualityError, RecipeError, SourceError, nearest
from duckplets.quality import plugins
from duckplets.quality.metrics import METRICS
from duckplets.recipes.conditions import where_condition

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "Condition",
    "checked_limit",
    "checked_size",
    "checked_where",
    "chosen",
    "condition",
]

_LONG = frozenset({"text", "license", "language"})


class Condition(NamedTuple):
    """A gate of the user's own.

    Attributes:
        text: As it was written; the rule of the rows that fail it.
        sql: Over the columns of metrics, and ``text`` where it looks at that.
        looks: Whether it looks at the text.
        gates: Registered functions whose values it needs.
        alone: Whether it is the name of such a function.
        reads: The metrics that are in it, ``own:NAME`` for values of registered functions.
        metrics: What has to be stored to decide by it: these, or its own answer.
    """

    text: str
    sql: str
    looks: bool
    gates: tuple[str, ...]
    alone: bool
    reads: frozenset[str]
    metrics: frozenset[str]


def condition(text: str) -> Condition:
    """Return a gate as it was written.

    Raises:
        QualityError: It is neither the name of a registered function nor a condition.
    """
    text = text.strip()
    if taken := {"row", "text", *METRICS.names} & {*plugins.names()}:
        raise QualityError(f"gate name {min(taken)!r} is taken: a metric is called so")
    if plugins.is_registered(text):
        names = frozenset({f"own:{text}"})
        return Condition(text, _sql(_own(text), 1), False, (text,), True, names, names)
    if text.isidentifier() and text not in METRICS.names:
        plugins.gate(text)  # says how to register it
    return _parsed(text)


def _parsed(text: str) -> Condition:
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    from duckplets.recipes.conditions import free_condition

    names = [name for name in METRICS.names if name not in ("own", "present", "sha256")]
    columns = {name: name in _LONG for name in ("text", *names, *plugins.names())}
    try:
        tree = free_condition(text, columns)
    except RecipeError as error:
        raise QualityError(f"gates: {error}") from None
    used = {column.name for column in tree.find_all(exp.Column)}
    gates = tuple(sorted(used & set(plugins.names())))
    holder = exp.Paren(this=tree)
    for column in list(holder.find_all(exp.Column)):
        if column.name in gates:
            column.replace(_own(column.name))
    sql = holder.sql(dialect=DuckDB)
    reads = frozenset((used - {"text", *gates}) | {f"own:{name}" for name in gates})
    looks = "text" in used
    metrics = frozenset({f"own:{text}"}) if looks else reads
    return Condition(text, sql, looks, gates, False, reads, metrics)


def _own(name: str) -> Any:
    """Return the expression for a value that is measured besides."""
    from sqlglot import exp

    return exp.Bracket(this=exp.column("own"), expressions=[exp.Literal.string(name)])


def _sql(value: Any, equals: int) -> str:
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    return exp.EQ(this=value, expression=exp.Literal.number(equals)).sql(dialect=DuckDB)


# -- rows that are wanted --------------------------------------------------------------------------

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
    from sqlglot.dialects.duckdb import DuckDB

    columns = {column: rows[column] for column in _OF_ROWS} | {"text": texts, "record_id": ids}
    columns |= {
        "row": rows["row"],
        "trust": pc.fill_null(rows["trust"], trust),
        "source": pa.array([name] * rows.num_rows, pa.string()),
    }
    statement = parse_one(query("quality/intake/chosen"), dialect=DuckDB, into=exp.Select)
    sql = statement.where(condition.copy()).sql(dialect=DuckDB)
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
