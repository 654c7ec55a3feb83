"""Parse and evaluate users' conditions: SQL over rows and metrics, and names of gates."""

# A condition on the text is evaluated when the text is measured, and its answer is a metric. A
# condition on metrics is evaluated when rows are decided, so other limits need no texts.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Flags
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.errors import QualityError, RecipeError, SourceError, nearest
from duckplets.quality import plugins
from duckplets.quality.metrics import METRICS, whole

if TYPE_CHECKING:
    from sqlglot import exp

_LONG = frozenset({"text", "license", "language"})


class Condition(NamedTuple):
    """A user's gate."""

    text: str  # as written; names the rule in reports
    sql: str  # over the columns of metrics, and "text" if it needs the text
    needs_text: bool
    gates: tuple[str, ...]  # registered functions whose values it needs
    is_gate_name: bool  # the text is the name of one registered function
    reads: frozenset[str]  # metrics, "own:NAME" for registered functions

    @property
    def metrics(self) -> frozenset[str]:
        """Metrics to store: its own answer if it needs the text, else the metrics it reads."""
        return frozenset({f"own:{self.text}"}) if self.needs_text else self.reads


def condition(text: str) -> Condition:
    """Parse a gate."""
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    from duckplets.conditions.parse import free_condition

    text, gates = text.strip(), plugins.GATES.names()
    if taken := {"row", "text", *METRICS.names} & {*gates}:
        raise QualityError(f"gate name {min(taken)!r} is the name of a metric: choose another name")
    if text in gates:
        return Condition(text, _is_one(text), False, (text,), True, frozenset({f"own:{text}"}))
    if text.isidentifier() and text not in METRICS.names:
        plugins.gate(text)  # its error says how to register it
    names = [name for name in METRICS.names if name not in ("own", "present", "sha256")]
    try:
        tree = free_condition(text, {name: name in _LONG for name in ("text", *names, *gates)})
    except RecipeError as error:
        raise QualityError(f"gates: {error}") from None
    used = {column.name for column in tree.find_all(exp.Column)}
    used_gates = tuple(sorted(used & {*gates}))
    enclosed = exp.Paren(this=tree)
    for column in list(enclosed.find_all(exp.Column)):
        if column.name in used_gates:
            column.replace(_own(column.name))
    reads = frozenset((used - {"text", *used_gates}) | {f"own:{name}" for name in used_gates})
    return Condition(text, enclosed.sql(dialect=DuckDB), "text" in used, used_gates, False, reads)


def _own(name: str) -> Any:
    """Return the expression of a registered function's value."""
    from sqlglot import exp

    return exp.Bracket(this=exp.column("own"), expressions=[exp.Literal.string(name)])


def _is_one(name: str) -> str:
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    return exp.EQ(this=_own(name), expression=exp.Literal.number(1)).sql(dialect=DuckDB)


def is_true(database: Database, condition: Condition, metrics: pa.Table) -> Flags:
    """Return for which rows a user's gate is true, bool[rows]."""
    from sqlglot import parse_one
    from sqlglot.dialects.duckdb import DuckDB

    is_stored = condition.needs_text and "text" not in metrics.column_names
    sql = _is_one(condition.text) if is_stored else condition.sql
    return _places_where(database, parse_one(sql, dialect=DuckDB), whole(metrics))


def _places_where(database: Database, tree: Any, rows: pa.Table) -> Flags:
    from sqlglot import exp, parse_one
    from sqlglot.dialects.duckdb import DuckDB

    statement = parse_one(query("quality/decide"), dialect=DuckDB, into=exp.Select)
    sql = statement.where(tree.copy()).sql(dialect=DuckDB)
    true = np.zeros(rows.num_rows, np.bool_)
    with database.registered(quality_rows=rows.append_column("place", [np.arange(len(true))])):
        true[database.arrow(sql)["place"].to_numpy()] = True
    return true


# -- where= ----------------------------------------------------------------------------------------

_STORED_COLUMNS = ("date", "group_key", "taxonomy", "meta", "created_at", "updated_at")
COLUMNS = ("record_id", "source", *_STORED_COLUMNS, "trust", "text")


def checked_where(where: Any) -> exp.Expression | None:
    """Return ``where=`` as a checked tree over the columns of ``slot``, or None."""
    if where is None:
        return None
    from sqlglot import exp

    from duckplets.conditions.parse import where_condition

    if not isinstance(where, str) or not where.strip():
        raise SourceError(f'where={where!r}: give a condition in SQL, such as "trust > 0.5"')
    tree = where_condition(where)
    for column in tree.find_all(exp.Column):
        if column.name not in COLUMNS:
            raise SourceError(
                f"where={where!r}: {column.name} is no column of a row"
                f"{nearest(column.name, COLUMNS)}; the columns are {', '.join(COLUMNS)}"
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
) -> Flags:
    """Return for which rows ``where=`` is true, bool[rows]."""
    columns = {column: rows[column] for column in _STORED_COLUMNS}
    columns |= {"text": texts, "record_id": ids}
    columns["trust"] = pc.fill_null(rows["trust"], trust)
    columns["source"] = pa.array([name] * rows.num_rows, pa.string())
    with database.deadline("where="):
        return _places_where(database, condition, pa.table(columns))
