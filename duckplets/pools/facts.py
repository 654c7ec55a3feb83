"""Work out once a section what conditions ask of its text, in portions that fit into memory.

    condition ─text_facts→ the same over facts + facts ─by portions→ section_facts

DuckDB makes the texts of 2,048 rows at once, uncounted, so sections of long texts go a few at a
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckplets.errors import RecipeError
from duckplets.pools.compile import CompiledPool, compares_texts, facts_of, facts_statement
from duckplets.recipes.condition_rules import SHORT

if TYPE_CHECKING:
    from duckplets.db.database import Database

_VECTOR = 2048  # sections of a vector, as they are stored
_AT_ONCE = 20_000_000  # characters that a statement reads and makes of texts, in a vector
_MOST_COPIED = 60_000_000  # that it makes of one text
_COMPARED = 50_000  # of a text that windows are compared by: it goes with each of them


def section_facts(
    database: Database, pools: Sequence[CompiledPool], where: Mapping[str, Any]
) -> pa.Table | None:
    """Return what conditions of pools ask of the texts of sections; None if they ask nothing.

    Args:
        database: The corpus.
        pools: All that are read.
        where: Their ``split`` and ``version``.

    Raises:
        RecipeError: A text is too long for what a condition makes of it.
        DeadlineError: It took too long.
    """
    alike = {pool.alike: pool for pool in reversed(pools)}.values()
    asking = {facts_statement(pool.recipe): pool for pool in alike if facts_of(pool.recipe)}
    comparing = [pool for pool in alike if compares_texts(pool.recipe)]
    if not asking and not comparing:
        return None
    # Only the nearest by date and negatives of a split can be of another source.
    beyond = any(pool.of_split or "nearest" in pool.sql(staged=True) for pool in alike)
    sources = None if beyond else sorted({pool.parameters["source"] for pool in pools})
    copies = {
        sql: sum(fact.copies for fact in facts_of(pool.recipe).values())
        for sql, pool in asking.items()
    }
    wanted, most = {**where, "sources": sources}, _AT_ONCE // (1 + max(copies.values(), default=0))
    asked = {**wanted, "most": max(1, most), "long": most // _VECTOR}
    portions = database.run("pools/lists/text_portions", asked)
    longest = max((size for _, _, size in portions), default=0)
    if comparing and longest > _COMPARED:
        raise RecipeError(
            f"{comparing[-1].described}: it compares whole texts window by window, and the longest "
            f"has {longest} characters, of {_COMPARED} that are allowed; compare text[:{SHORT}] or "
            f"md5(text)"
        )
    columns: dict[str, Any] = {}
    for sql, pool in asking.items():
        if longest * copies[sql] > _MOST_COPIED:
            raise RecipeError(
                f"{pool.described}: it makes up to {copies[sql]} times a text, and the longest "
                f"text has {longest} characters; look at its beginning, as in text[:{SHORT}]"
            )
        found = []
        for low, high, _ in portions or [(0, 0, 0)]:
            with database.deadline(pool.described):
                found.append(database.arrow(sql, {**wanted, "low": low, "high": high}))
        table = pa.concat_tables(found)
        columns |= {name: table[name] for name in table.column_names}
    return pa.table(columns) if columns else None
