"""Work out once a section what conditions ask of its text, in portions that fit into memory.

    condition ─told→ the same over facts + facts ─facts_statement, by portions→ section_facts

A section has its whole text in a condition, and its windows would each have it again: what depends
on a long text and is short itself, such as ``length(text) > 20``, is a fact of the section, worked
out before windows are joined. DuckDB makes the texts of 2,048 rows at once, uncounted, so sections
of long texts go a few at a time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duckplets.recipes.condition_costs import bounds_of, copies_of
from duckplets.recipes.condition_rules import PIECES

if TYPE_CHECKING:
    from sqlglot import exp

_OF_CHUNKS = {"kind", "window_index"}


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of a condition that depends on the text of a section, and not on windows.

    Attributes:
        sql: Over columns of ``slot``.
        copies: How many times it makes a text, at most.
    """

    sql: str
    copies: int


def told(tree: exp.Expression, where: str | None = None) -> tuple[exp.Expression, dict[str, Fact]]:
    """Replace what a condition asks of texts by columns of facts; return these by name.

    Args:
        tree: Over columns of ``slot``.
        where: Rows of which it is asked; by default of all.
    """
    from sqlglot import exp

    holder = exp.Paren(this=tree.copy())
    bounds, facts = bounds_of(holder), {}
    stack: list[Any] = [holder.this]
    while stack:
        node = stack.pop()
        columns = {column.name for column in node.find_all(exp.Column)}
        if "text" not in columns:
            continue
        value = type(node).__name__ not in PIECES | {"Column", "Paren"}
        if value and not columns & _OF_CHUNKS and bounds[id(node)].copies == 0:
            sql = node.sql(dialect="duckdb")
            sql = f"({sql})" if where is None else f"CASE WHEN {where} THEN ({sql}) END"
            name = f"fact_{hashlib.sha256(sql.encode()).hexdigest()[:16]}"
            facts[name] = Fact(sql, copies_of(node))
            node.replace(exp.column(name, table="slot"))
        else:
            stack.extend(node.iter_expressions())
    return holder.this, facts
