"""Work out once a section what conditions ask of its text, in portions that fit into memory.

    condition ─told→ the same over facts + facts ─facts_statement, by portions→ section_facts

A section has its whole text in a condition, and its windows would each have it again: what depends
on a long text and is short itself, such as ``length(text) > 20``, is a fact of the section, worked
out before windows are joined. DuckDB makes the texts of 2,048 rows at once, uncounted, so sections
of long texts go a few at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckplets.errors import RecipeError
from duckplets.recipes.condition_rules import PIECES, SHORT, Costs

if TYPE_CHECKING:
    from sqlglot import exp

    from duckplets.db.database import Database

_OF_CHUNKS = {"kind", "window_index"}

_VECTOR = 2048  # sections of a vector, as they are stored
_AT_ONCE = 20_000_000  # characters that a statement reads and makes of texts, in a vector
_MOST_COPIED = 60_000_000  # that it makes of one text
_COMPARED = 50_000  # of a text that windows are compared by: it goes with each of them


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of a condition that depends on the text of a section, and not on windows."""

    sql: str  # over columns of ``slot``
    copies: int  # how many times it makes a text, at most


def told(tree: exp.Expression, where: str | None = None) -> tuple[exp.Expression, dict[str, Fact]]:
    """Replace what a condition asks of texts, of rows ``where``, by columns of facts by name."""
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    holder = exp.Paren(this=tree.copy())
    sizes, facts = Costs(holder).sizes, {}
    stack: list[Any] = [holder.this]
    while stack:
        node = stack.pop()
        columns = {column.name for column in node.find_all(exp.Column)}
        if "text" not in columns:
            continue
        value = type(node).__name__ not in PIECES | {"Column", "Paren"}
        if value and not columns & _OF_CHUNKS and not sizes[id(node)].is_long:
            sql = node.sql(dialect=DuckDB)
            sql = f"({sql})" if where is None else f"CASE WHEN {where} THEN ({sql}) END"
            name = f"fact_{hashlib.sha256(sql.encode()).hexdigest()[:16]}"
            facts[name] = Fact(sql, Costs(node).copies)
            node.replace(exp.column(name, table="slot"))
        else:
            stack.extend(node.iter_expressions())
    return holder.this, facts


def told_facts(
    database: Database,
    statements: Mapping[str, tuple[str, int, str]],
    where: Mapping[str, Any],
    *,
    compared: str = "",
) -> pa.Table | None:
    """Return the facts of all sections; None where there are none to tell.

    Args:
        database: The corpus.
        statements: For each recipe its statement, how many times that makes a text, and what
            the recipe is, for messages.
        where: ``split``, ``version``, and ``sources``, None for all.
        compared: What looks at whole texts besides, window by window, if anything does.

    Raises:
        RecipeError: A text is too long for what a condition makes of it.
        DeadlineError: It took too long.
    """
    if not statements and not compared:
        return None
    most = _AT_ONCE // (1 + max((copies for _, copies, _ in statements.values()), default=0))
    asked = {**where, "most": max(1, most), "long": most // _VECTOR}
    portions = database.run("pools/lists/text_portions", asked)
    longest = max((size for _, _, size in portions), default=0)
    if compared and longest > _COMPARED:
        raise RecipeError(
            f"{compared}: it compares whole texts window by window, and the longest has {longest} "
            f"characters, of {_COMPARED} that are allowed; compare text[:{SHORT}] or md5(text)"
        )
    columns: dict[str, Any] = {}
    for sql, copies, what in statements.values():
        if longest * copies > _MOST_COPIED:
            raise RecipeError(
                f"{what}: it makes up to {copies} times a text, and the longest text has {longest} "
                f"characters; look at its beginning, as in text[:{SHORT}]"
            )
        found = []
        for low, high, _ in portions or [(0, 0, 0)]:
            with database.deadline(what):
                found.append(database.arrow(sql, {**where, "low": low, "high": high}))
        table = pa.concat_tables(found)
        columns |= {name: table[name] for name in table.column_names}
    return pa.table(columns) if columns else None
