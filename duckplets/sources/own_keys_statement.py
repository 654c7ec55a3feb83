"""Compiles the SELECT that turns records with keys of their own into rows."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from sqlglot import exp

from duckplets.sources.expressions import call, each, filled, kept, statement
from duckplets.sources.feed import shapes_of
from duckplets.sources.statement import Cells

BESIDE = ("given", "meta", "prefix")
_LISTS = ("context", "taxonomy")


def own_keys_statement(parts: tuple[str, ...], schema: pa.Schema) -> str:
    """Return the SELECT from ``input`` to rows.

    Args:
        parts: What the columns c0, c1, … hold.
        schema: Of the input; besides those columns it has ``BESIDE``.
    """
    return _compiled(parts, Cells(shapes_of(schema, len(parts))))


@lru_cache(maxsize=64)
def _compiled(parts: tuple[str, ...], cells: Cells) -> str:
    mapped = statement("sources/own_keys")
    for blank in list(mapped.find_all(exp.Anonymous)):
        if blank.name == "filled":
            blank.replace(filled(blank.expressions[0]))
    _put(mapped, "cells", _cells(parts, cells))
    rows = statement("sources/rows").select("prefix")
    _put(rows, "mapped", mapped)
    return rows.sql(dialect="duckdb", comments=False)


def _put(tree: exp.Select, name: str, select: exp.Select) -> None:
    """Put a subquery in the place of the table of a name."""
    for table in list(tree.find_all(exp.Table)):
        if table.name == name:
            table.replace(select.subquery(name))


def _cells(parts: tuple[str, ...], cells: Cells) -> exp.Select:
    """Return the parts as texts and lists of texts, NULL and left out where blank."""
    raw, whole = _carried(), _carried()
    for place, part in enumerate(parts):
        name = exp.to_identifier(part, quoted=True)
        is_list = part in _LISTS
        value = cells.items(place) if is_list else cells.text(place)
        raw = raw.select(exp.alias_(value, name.copy()))
        column = exp.column(name.copy())
        shown = _present(column) if is_list else exp.case().when(filled(column), column.copy())
        whole = whole.select(exp.alias_(shown, name))
    return whole.from_(raw.from_("input").subquery("raw"))


def _present(texts: exp.Expr) -> exp.Expr:
    present = each(exp.column("x"), texts, filled(exp.column("x")))
    return call("coalesce", present, exp.Array())


def _carried() -> exp.Select:
    return kept().select(*BESIDE)
