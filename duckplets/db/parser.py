"""Parse expressions with DuckDB, without binding or running anything in them."""

from __future__ import annotations

import os
from functools import cache, lru_cache
from typing import Any

import duckdb

from duckplets.db.foreign import translated
from duckplets.db.queries import query
from duckplets.db.sessions import Session

_SEALED: dict[str, Any] = {"threads": "1", "enable_external_access": "false"}


@lru_cache(maxsize=16)
def reading(*expressions: str) -> str:
    """Return DuckDB's JSON of a statement that selects the expressions, or of its error."""
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    before, after = _asked()
    quoted = exp.Literal.string("), (".join(expressions)).sql(dialect=DuckDB)
    with translated():
        cursor = _session(os.getpid()).connection.cursor()
        return str(cursor.execute(f"{before}{quoted}{after}").fetchall()[0][0])


@cache
def _asked() -> list[str]:
    """Return the parts of the statement before and after the expressions."""
    from sqlglot import parse_one
    from sqlglot.dialects.duckdb import DuckDB

    statement = parse_one(query("db/parser/reading"), dialect=DuckDB)
    return statement.sql(dialect=DuckDB, comments=False).split("$expressions")


@cache
def _session(process: int) -> Session:
    """Return this process's instance; a forked process opens its own."""
    return Session(duckdb.connect(config=_SEALED))
