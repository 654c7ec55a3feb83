"""Compiles a mapping to the SELECT that turns lines of JSON into typed columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sqlglot import exp

from duckplets.sources.expressions import Parts, call, kept, names_of, statement


@lru_cache(maxsize=64)
def values_statement(
    parts: Parts, keys: tuple[str, ...], fields: tuple[str, ...] = (), *, whole: bool = False
) -> str:
    """Return the SELECT from a table of JSON lines to one of typed columns.

    Its columns are ``c0, c1, …``, the values as text (a string as it is, anything else as JSON),
    and ``l0, …`` where a value that is an array counts as several texts. It is a statement of its
    own, and one function reads all the values, because every JSON function in a statement sets
    aside four times the longest line: with three a line of 50 MB needed more than 1 GB.

    Args:
        parts: The mapping's parts.
        keys: For each name of the mapping the key in the objects.
        fields: The keys of a converter's fields; their values are in ``f0, f1, …``, and what kind
            of value each is in ``f0_kind, …``.
        whole: Whether the objects are handed on, as ``document``.
    """
    document = exp.column("document")
    read = kept().select(document.copy())
    if keys or fields:
        texts = call("json_extract_string", document.copy(), _pointers([*keys, *fields]))
        read = read.select(exp.alias_(texts, "texts"))
    if fields:
        kinds = call("json_type", document.copy(), _pointers(fields))
        read = read.select(exp.alias_(kinds, "kinds"))
    read = read.from_(statement("sources/documents").subquery("documents"))
    values = kept()
    for place in range(len(keys)):
        values = values.select(exp.alias_(_value(place), f"c{place}"))
    for place in _list_places(parts):
        values = values.select(exp.alias_(_elements(place, keys[place]), f"l{place}"))
    for i in range(len(fields)):
        kind = call("list_extract", exp.column("kinds"), exp.Literal.number(i + 1))
        values = values.select(exp.alias_(_value(len(keys) + i), f"f{i}"))
        values = values.select(exp.alias_(kind, f"f{i}_kind"))
    if whole:
        values = values.select(document.copy())
    return values.from_(read.subquery("read")).sql(dialect="duckdb", comments=False)


def _value(place: int) -> exp.Expr:
    return call("list_extract", exp.column("texts"), exp.Literal.number(place + 1))


def _elements(place: int, key: str) -> exp.Expr:
    """Return an array's elements as texts, or the one value that is no array."""
    looks = call("starts_with", _value(place), exp.Literal.string("["))
    kind = call("json_type", exp.column("document"), _pointer(key))
    is_array = exp.case().when(looks, kind).eq(exp.Literal.string("ARRAY"))
    elements = call("json_extract_string", _value(place), exp.Literal.string("$[*]"))
    return exp.case().when(is_array, elements).else_(exp.Array(expressions=[_value(place)]))


def _pointers(keys: Sequence[str]) -> exp.Expr:
    return exp.Array(expressions=[_pointer(key) for key in keys])


def _pointer(key: str) -> exp.Expr:
    return exp.Literal.string("/" + key.replace("~", "~0").replace("/", "~1"))


def _list_places(parts: Parts) -> list[int]:
    """Return the places of the names whose lists count as several texts."""
    columns = dict(parts)
    names = names_of(parts)
    return sorted({names.index(name) for part in ("context", "taxonomy") for name in columns[part]})
