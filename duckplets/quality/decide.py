"""Decide by metrics and thresholds what becomes of rows: nothing else is looked at.

metrics ─SQL, thresholds as parameters→ a rule for each gate ─first→ outcome, gate, rule
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.quality.conditions import Condition
from duckplets.quality.metrics import METRICS
from duckplets.quality.settings import Quality
from duckplets.quality.thresholds import PII, THRESHOLDS

__all__ = ["ACCEPTED", "GATES", "REJECTED", "decide"]

ACCEPTED, REJECTED = "accepted", "rejected"
GATES = ("duplicates", "schema", "content", "language_domain")

SAME_TEXT = "same text"


def decide(
    database: Database,
    metrics: pa.Table,
    quality: Quality,
    duplicate: pa.Array | None = None,
) -> pa.Table:
    """Return what becomes of rows, and by which gate and rule.

    Args:
        database: Any connection; nothing in it is read.
        metrics: ``row`` and columns of ``METRICS``: all that ``needed(quality)`` names. A column
            that is missing counts as NULL, which no rule fails by.
        quality: The settings. A rule has the name of the setting that a row does not meet; a gate
            of the user's own is its own rule, the last ones of ``content``.
        duplicate: For each row whether it is a duplicate, or by which rule it is one (null where
            it is none); None where there are none.

    Returns:
        ``row``, ``outcome`` (accepted or rejected), ``gate`` and ``rule`` (null where accepted),
        in the order of ``metrics``.
    """
    count = metrics.num_rows
    place = pa.array(np.arange(count))
    columns = {
        each.name: metrics[each.name]
        if each.name in metrics.column_names
        else pa.nulls(count, each.type)
        for each in METRICS
    }
    table = pa.table({"place": place, **columns})
    with database.registered(quality_metrics=table):
        found = database.table("quality/decide", _parameters(quality))
        own = [_failed(database, condition) for condition in quality.conditions]
    found = found.take(pc.sort_indices(found["place"]))
    rules = {
        "duplicates": _duplicates(duplicate, count) if quality.duplicates else _none(count),
        "schema": found["schema_rule"],
        "content": _first([found["content_rule"], *own]),
        "language_domain": found["domain_rule"],
    }
    gates = [
        pc.if_else(pc.is_valid(rules[gate]), pa.scalar(gate), pa.scalar(None, pa.string()))
        for gate in GATES
    ]
    rule, gate = _first([rules[gate] for gate in GATES]), _first(gates)
    outcome = pc.if_else(pc.is_valid(rule), pa.scalar(REJECTED), pa.scalar(ACCEPTED))
    decided = {"row": metrics["row"], "outcome": outcome, "gate": gate, "rule": rule}
    return pa.table(decided).combine_chunks()


def _parameters(quality: Quality) -> dict[str, Any]:
    licenses = quality.licenses
    thresholds = {name: getattr(quality, name) for name in THRESHOLDS}
    if quality.language is None:
        thresholds["min_language_probability"] = None
    return thresholds | {
        "required": list(quality.required),
        "licenses": None if licenses is None else [name.strip().lower() for name in licenses],
        "pii": quality.pii == "reject",
        **{kind: int(kind in quality.pii_kinds) for kind in PII},
        "copyright": bool(quality.copyright),
        "lorem_ipsum": quality.lorem_ipsum,
        "curly_brackets": quality.curly_brackets,
        "language": quality.language,
        "undetermined": quality.undetermined == "accept",
        "code_early_gate": quality.code_early_gate,
    }


def _failed(database: Database, condition: Condition) -> pa.ChunkedArray:
    """Return the text of a condition where it is not true, else null; in the order of places."""
    from sqlglot import exp, parse_one
    from sqlglot.dialects.duckdb import DuckDB

    if condition.looks:
        answer = exp.Bracket(
            this=exp.column("own"), expressions=[exp.Literal.string(condition.text)]
        )
        tree: Any = exp.EQ(this=answer, expression=exp.Literal.number(1))
    else:
        tree = parse_one(condition.sql, dialect=DuckDB)
    holds = exp.Anonymous(this="coalesce", expressions=[exp.Paren(this=tree), exp.false()])
    query = exp.select("place", exp.alias_(holds, "holds")).from_("quality_metrics")
    found = database.arrow(query.sql(dialect=DuckDB))
    holds = found["holds"].take(pc.sort_indices(found["place"]))
    return pc.if_else(holds, pa.scalar(None, pa.string()), pa.scalar(condition.text))


def _duplicates(duplicate: pa.Array | None, count: int) -> pa.Array:
    if duplicate is None:
        return _none(count)
    if pa.types.is_boolean(duplicate.type):
        is_one = pc.fill_null(duplicate, False)
        return pc.if_else(is_one, pa.scalar(SAME_TEXT), pa.scalar(None, pa.string()))
    return duplicate.cast(pa.string())


def _none(count: int) -> pa.Array:
    return pa.nulls(count, pa.string())


def _first(rules: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    return pc.coalesce(*rules)
