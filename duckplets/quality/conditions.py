"""Read the gates that a user writes: SQL conditions over metrics and the text, and names.

    text ─name of a function─→ its value has to be True
         ─or a condition, checked as those of recipes─→ DuckDB's SQL over stored metrics

The decision that matters: a condition that looks at the text is answered when the text is
measured, and its answer stored as a metric of its own. One that looks at metrics alone is answered
whenever it is decided, so that other limits need no texts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from duckplets.errors import QualityError, RecipeError
from duckplets.quality import own
from duckplets.quality.metrics import METRICS

__all__ = ["Condition", "condition"]

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
    if taken := {"row", "text", *METRICS.names} & {*own.names()}:
        raise QualityError(f"gate name {min(taken)!r} is taken: a metric is called so")
    if own.is_registered(text):
        names = frozenset({f"own:{text}"})
        return Condition(text, _sql(_own(text), 1), False, (text,), True, names, names)
    if text.isidentifier() and text not in METRICS.names:
        own.gate(text)  # says how to register it
    return _parsed(text)


def _parsed(text: str) -> Condition:
    from sqlglot import exp

    from duckplets.recipes.conditions import free_condition

    names = [name for name in METRICS.names if name not in ("own", "present", "sha256")]
    columns = {name: name in _LONG for name in ("text", *names, *own.names())}
    try:
        tree = free_condition(text, columns)
    except RecipeError as error:
        raise QualityError(f"gates: {error}") from None
    used = {column.name for column in tree.find_all(exp.Column)}
    gates = tuple(sorted(used & set(own.names())))
    holder = exp.Paren(this=tree)
    for column in list(holder.find_all(exp.Column)):
        if column.name in gates:
            column.replace(_own(column.name))
    sql = holder.sql(dialect="duckdb")
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

    return exp.EQ(this=value, expression=exp.Literal.number(equals)).sql(dialect="duckdb")
