"""The command `sql`: print the rows of a query, or the SQL of a recipe's pool."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import harmless
from duckplets.cli import bounded, output
from duckplets.cli.app import corpus_at
from duckplets.cli.verbs import command

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus

_SQL_TEXT = re.compile(r"""'((?:[^']|'')*)'|"(?:[^"]|"")*"|--.*""")
_ROWS = 1000


@command()
def sql(corpus: Path, query: str, limit: int | None = None, json: bool = False) -> None:
    """Print the rows of a query, or the SQL of a recipe's pool.

    A query is one SELECT over the tables and views of the corpus. It runs in a child process,
    which may use 4 GB of memory and 75 seconds. The duckdb CLI can run the SQL of a pool; the
    query FROM pools.RECIPE('SOURCE', 'SPLIT') returns its rows.

    Args:
        query (QUERY|RECIPE): A SELECT, or the name of a recipe.
        limit: Print at most N rows. [default: 1000]
        json: Print rows as JSON lines instead of a table.

    Example:
        duckplets sql faq.duckdb "FROM split_counts"
        duckplets sql faq.duckdb anchor_context | duckdb -readonly faq.duckdb
    """
    if not re.search(r"\s", query.strip()):
        with corpus_at(corpus, read_only=True) as opened:
            print(_harmless_sql(str(opened.pool(query, sql=True))), end="")
        return
    sys.stdout.flush()
    how = {"query": query, "limit": _ROWS if limit is None else limit, "json": json}
    for line in bounded.lines("cli.sql:rows", corpus, how):
        sys.stdout.buffer.write(line)


def rows(corpus: Corpus, query: str, limit: int, json: bool) -> Iterator[bytes]:
    """Return the first rows of a query as lines; runs in the child process."""
    found: Any = corpus.sql(query).slice(0, limit)
    if json:
        return output.json_lines([found])
    return (f"{line}\n".encode() for line in output.table_lines(found))


def _harmless_sql(statement: str) -> str:
    """Return an equivalent statement with control characters escaped."""

    def escaped(match: re.Match[str]) -> str:
        if match[1] is None or harmless(match[1], None) == match[1]:
            return match[0]
        signs = (f"' || chr({ord(s)}) || '" if harmless(s) != s else s for s in match[1])
        return f"('{''.join(signs)}')"

    return harmless(_SQL_TEXT.sub(escaped, statement), None)
