"""Make the pieces of SQL that the statements of sources are put together from."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from sqlglot import exp, parse_one
from sqlglot.dialects.duckdb import DuckDB

from duckplets.db.queries import query

Parts = tuple[tuple[str, tuple[str, ...]], ...]
"""For every part of a mapping its columns."""

# Everything that is whitespace to Python's str.isspace; RE2's \s knows ASCII only.
FILLED = (
    r"[^\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)


def names_of(parts: Parts) -> tuple[str, ...]:
    """Return every name of a mapping's parts, once, in order."""
    return tuple(dict.fromkeys(name for _, given in parts for name in given))


def kept() -> exp.Select:
    """Return a SELECT of the columns that every level hands on."""
    return exp.select(*(exp.column(name, quoted=True) for name in ("row", "fault", "modified")))


def each(value: exp.Expr, values: exp.Expr, condition: exp.Expr | None = None) -> exp.Expr:
    """Return ``[value FOR x IN values IF condition]``."""
    loop = exp.Comprehension(this=value, expression=exp.to_identifier("x"), iterator=values)
    if condition is not None:
        loop.set("condition", condition)
    return exp.Array(expressions=[loop])


def having(field: str, structs: exp.Expr) -> exp.Expr:
    """Return those of a list of structs that have a field."""
    there = exp.column(field, table="x").is_(exp.null()).not_()
    return each(exp.column("x"), structs, there)


def section(role: str, heading: exp.Expr, text: exp.Expr) -> exp.Expr:
    """Return one section."""
    return struct(role=exp.Literal.string(role), heading=heading, text=text)


def struct(**fields: exp.Expr) -> exp.Expr:
    """Return ``{'name': value, …}``."""
    named: Iterable[exp.Expr] = (
        exp.PropertyEQ(this=exp.to_identifier(name), expression=value)
        for name, value in fields.items()
    )
    return exp.Struct(expressions=list(named))


def filled(value: exp.Expr) -> exp.Expr:
    """Return whether a text has anything but whitespace."""
    return call("regexp_matches", value, exp.Literal.string(FILLED))


def as_text(value: exp.Expr) -> exp.Expr:
    """Return a value cast to text."""
    return exp.cast(value, "VARCHAR")


def call(function: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of a function by this very name."""
    # Anonymous, so that sqlglot prints the name as it is and leaves JSON pointers alone.
    return exp.Anonymous(this=function, expressions=list(arguments))


def statement(name: str) -> exp.Select:
    """Return the named statement, parsed."""
    return _parsed(name).copy()


@cache
def _parsed(name: str) -> exp.Select:
    return parse_one(query(name), into=exp.Select, dialect=DuckDB)


def filled_in(select: exp.Select, name: str, source: exp.Select) -> exp.Select:
    """Return a SELECT with another in the place of the table of a name."""
    for table in list(select.find_all(exp.Table)):
        if table.name == name:
            table.replace(source.subquery(name, copy=False))
    return select


def joined(sections: list[exp.Expr]) -> exp.Expr:
    """Return one list of sections and lists of sections."""
    runs: list[exp.Expr] = []
    for part in sections:
        if not isinstance(part, exp.Struct):
            runs.append(part)
        elif (
            runs
            and isinstance(runs[-1], exp.Array)
            and isinstance(runs[-1].expressions[0], exp.Struct)
        ):
            runs[-1].append("expressions", part)
        else:
            runs.append(exp.Array(expressions=[part]))
    # list_concat copies every text, which takes as long as hashing them.
    return runs[0] if len(runs) == 1 else call("list_concat", *runs)
