"""Parse expressions and queries with DuckDB, without binding or running anything in them."""

from __future__ import annotations

import os
import re
from functools import cache, lru_cache
from typing import Any

import duckdb

from duckplets.base.sanitize import shown
from duckplets.db import catalog
from duckplets.db.foreign import translated
from duckplets.db.queries import query
from duckplets.db.sessions import Session
from duckplets.errors import QueryError

# Table functions that only read, of DuckDB 1.5 and 2.0. Others log, write, or take addresses of
# memory; ``query`` hides a statement in a text.
_READING = re.compile(
    r"duckdb_\w+|generate_series|histogram(_values)?|icu_calendar_names|json_(each|tree)|parquet_\w+"
    r"|pg_timezone_names|pragma_\w+|query_table|range|read_\w+|repeat(_row)?|summary|test_\w+_types"
    r"|unnest|glob|sniff_csv"
)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?(\((ANALYZE|FORMAT)[^()]*\)\s*)?", re.IGNORECASE)

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


def check_query(sql: str) -> bool:
    """Refuse a statement that is no query, or calls a table function that does more than read."""
    explain = _EXPLAIN.match(sql)
    with translated():
        connection = _session(os.getpid()).connection.cursor()
        parts = catalog.parts_of(connection, sql[explain.end() :] if explain else sql)
    if parts is None:
        raise QueryError("sql() runs one SELECT, or EXPLAIN of one; PIVOT needs its IN (…)")
    is_of_recipe = False
    for part in parts:
        if part.get("type") == "TABLE_FUNCTION":
            name = str(part["function"].get("function_name", "")).lower()
            schema = str(part["function"].get("schema", "")).lower()
            is_of_recipe |= ("MACRO TABLE", schema) in catalog.RECIPE_MACROS
            if name in _built_in() and not _READING.fullmatch(name):
                raise QueryError(
                    f"{shown(name, 40)}() is no table function that only reads, and sql() runs "
                    f"no other; use the duckdb CLI for it"
                )
    return is_of_recipe


@cache
def _built_in() -> frozenset[str]:
    """Return the names of DuckDB's own table functions."""
    connection = _session(os.getpid()).connection.cursor()
    rows = connection.execute(query("db/parser/table_functions")).fetchall()
    return frozenset(name for (name,) in rows)


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
