"""From the places of cells to expressions of what they say: texts, dates, objects."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from duckplets.sources.expressions import as_text, call

_POSITIVE = ("true", "yes", "positive", "entailment", "duplicate", "equivalent")
_NEGATIVE = ("false", "no", "negative", "contradiction")
_NOT = ("not_", "not ")  # before the last three that are positive
_ZONE = r"\s*(?:[+-]\d\d:?\d\d|[A-Za-z]{1,5})\s*$"


def text_at(place: int) -> exp.Expr:
    """Return the column of a cell's text, which is not blank."""
    return exp.column(f"t{place}")


def list_at(place: int) -> exp.Expr:
    """Return the column of what a cell holds as a list of texts."""
    return exp.column(f"l{place}")


def first_of(places: list[int]) -> exp.Expr:
    """Return the first of some columns that is not blank, else NULL."""
    if not places:
        return exp.cast(exp.null(), "VARCHAR")
    return call("coalesce", *(text_at(place) for place in places))


def date_of(places: list[int], shapes: Sequence[str]) -> exp.Expr:
    """Return the text of the date: where a zone is written, that of the place, not of UTC."""
    if places and shapes[places[0]] == "moment":
        return exp.column(f"d{places[0]}")
    return first_of(places)


def by_form(text: exp.Expr, forms: tuple[str, ...]) -> exp.Expr:
    """Return the date that a text spells in the first of some forms, else NULL.

    A zone at the end is passed over: the date is the one of the place, as it is written.
    """
    days: list[exp.Expr] = []
    for form in forms:
        bare = form[:-2].rstrip() if form[-2:] in ("%z", "%Z") else form
        given = call("trim", text.copy())
        if bare != form:
            nothing = exp.Literal.string("")
            given = call("regexp_replace", given, exp.Literal.string(_ZONE), nothing)
        days.append(call("try_strptime", given, exp.Literal.string(bare)))
    moment = call("coalesce", *days) if days else exp.null()
    return exp.cast(moment, "DATE", dialect=DuckDB)


def object_of(places: list[int]) -> exp.Expr:
    """Return the first of some columns as a JSON object, else NULL."""
    if not places:
        return exp.cast(exp.null(), "VARCHAR")
    text = first_of(places)
    is_object = call("json_type", text).eq(exp.Literal.string("OBJECT"))
    checked = exp.case().when(is_object, as_text(call("json", text.copy())))
    return exp.case().when(call("json_valid", text.copy()), checked)


def label_of(text: exp.Expr, rules: Sequence[tuple[str, float]]) -> exp.Expr:
    """Return the number that a label stands for, NULL where no rule knows it.

    Args:
        text: Of the label.
        rules: What values mean, trimmed and in lower case; without any the names that everybody
            uses, and all other numbers as they are.
    """
    folded = call("lower", call("trim", text.copy()))
    number = exp.TryCast(this=folded.copy(), to=exp.DataType.build("DOUBLE"))
    case = exp.case()
    if rules:
        for name, value in rules:
            case = case.when(folded.copy().eq(exp.Literal.string(name)), exp.Literal.number(value))
        for name, value in rules:  # 1 is 1.0, too
            if _is_number(name):
                same = number.copy().eq(exp.Literal.number(float(name)))
                case = case.when(same, exp.Literal.number(value))
        return exp.cast(case, "DOUBLE")
    negative = (*_NEGATIVE, *(no + name for no in _NOT for name in _POSITIVE[-3:]))
    for value, names in ((1, _POSITIVE), (0, negative)):
        literals = [exp.Literal.string(name) for name in names]
        case = case.when(folded.copy().isin(*literals), exp.Literal.number(value))
    return exp.cast(case.when(call("isfinite", number), number.copy()), "DOUBLE")


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False
