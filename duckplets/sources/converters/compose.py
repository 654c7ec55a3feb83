"""Compose the statement of a conversion: from a table of fields to prompt, reply and messages.

The table ``input`` holds the values of the converter's fields in one of three forms: columns of a
file (typed), texts with the kinds of JSON values, or what a user's function made. All become the
same columns first; from there on there is one statement a converter, in ``sql/converters/``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from duckplets.sources.converters.registry import Converter
from duckplets.sources.expressions import FILLED, as_text, call, filled_in, statement, struct

# What the statements for the one side of a pair call what belongs to the other.
_REJECTED = {
    "said": "rejected_said",
    "turns": "rejected_turns",
    "reply_place": "rejected_reply_place",
    "asked_place": "rejected_asked_place",
    "prompt": "rejected_prompt",
    "reply": "rejected",
    "messages": "rejected_messages",
    "identity": "rejected_identity",
}
_SHOWN = 60  # characters of a wrong value in a message
_PLAIN = {"text": "VARCHAR", "binary": "VARCHAR", "list": "ARRAY"}  # others are none of a text


@dataclass(frozen=True, slots=True)
class IfGiven:
    """Where the table has a field.

    Attributes:
        column: The column, or None where the input has no such field.
        shape: Of ``Cells`` for typed columns, ``list`` for lists of anything, ``json`` for a text
            beside its kind.
    """

    column: str | None
    shape: str = "text"

    def value(self) -> exp.Expr:
        """Return the value as text, or as JSON where it is not a text."""
        if self.column is None:
            return exp.cast(exp.null(), "VARCHAR")
        column = exp.column(self.column)
        if self.shape == "binary":
            return call("try", call("decode", column))
        if self.shape == "real":  # as everywhere, a number that is none is no value
            number = exp.case().when(call("isnan", column).not_(), column.copy())
            return as_text(call("to_json", number))
        is_json = self.shape in ("number", "boolean", "list", "nested")
        return as_text(call("to_json", column) if is_json else column)

    def kind(self) -> exp.Expr:
        """Return which kind of JSON value it is."""
        if self.shape == "json" and self.column is not None:
            return exp.column(f"{self.column}_kind")
        shape = "text" if self.column is None else self.shape
        return exp.Literal.string(_PLAIN.get(shape, "OTHER"))


def conversion(
    converter: Converter, given: Sequence[IfGiven], *, faulty: bool, each: bool = False
) -> exp.Select:
    """Return the SELECT from ``input`` to its columns, what was made of them, and ``problem``.

    Args:
        converter: Which.
        given: Where each of its fields is.
        faulty: Whether the input has ``reason`` and ``detail`` of what went wrong before.
        each: Whether every reply of a conversation makes a row, with its ``turn_number``.
    """
    fields = _fields(converter, given, faulty)
    select = filled_in(statement(converter.statement), "fields", fields)
    if converter.ready:
        return select
    sides = [{}, _REJECTED] if converter.rejected else [{}]
    for names in sides:
        select = filled_in(_renamed(statement("sources/converters/turns"), names), "told", select)
    place = "each_reply" if each else "last_reply"
    for names in sides:
        step = _renamed(statement(f"sources/converters/{place}"), names)
        select = filled_in(step, "heard_turns", select)
    for names in sides:
        step = _renamed(statement("sources/converters/conversation"), names)
        select = filled_in(step, "spoken", select)
    if converter.rejected:
        select = filled_in(statement("sources/converters/agreed"), "answered", select)
    return select


def parameters(converter: Converter, *, each: bool = False) -> dict[str, Any]:
    """Return the values of the parameters of a converter's statement."""
    if converter.ready:
        return {"filled": FILLED}
    rejected = {"rejected_field": converter.rejected} if converter.rejected else {}
    return rejected | {
        "tags": [json.dumps(tag) for tag in converter.roles],
        "known": ", ".join(converter.roles),
        "roles": list(converter.roles.values()),
        "tag_key": converter.tag,
        "value_key": converter.value,
        "blocks": converter.blocks,
        "field": converter.main,
        "filled": FILLED,
        "each": each,
    }


def document(columns: Sequence[tuple[str, str, str]]) -> exp.Expr:
    """Return a row that was readable as JSON, from ``(key, column, shape)`` of its columns."""
    pairs = [
        part
        for key, column, shape in columns
        for part in (exp.Literal.string(key), _json_value(column, shape))
    ]
    readable = exp.column("fault").is_(exp.null())
    return exp.case().when(readable, as_text(call("json_object", *pairs)))


def _json_value(column: str, shape: str) -> exp.Expr:
    value: exp.Expr = exp.column(column)
    if shape == "real":
        return exp.case().when(call("isfinite", value), value.copy())
    return call("try", call("decode", value)) if shape == "binary" else value


def _fields(converter: Converter, given: Sequence[IfGiven], faulty: bool) -> exp.Select:
    """Return the SELECT of a converter's fields by their names, and what is wrong with them."""
    places = range(len(given))
    values = [exp.alias_(given[i].value(), f"value{i}") for i in places]
    kinds = [exp.alias_(given[i].kind(), f"kind{i}") for i in places]
    raw = exp.select(exp.Star(), *values, *kinds).from_("input")
    sorts = list(converter.fields.values())
    empty = [exp.alias_(_not_empty(i), f"value{i}") for i in places if sorts[i] == "text"]
    if empty:
        replaced = exp.Star(replace=empty)
        raw = exp.select(replaced).from_(raw.subquery("given"))
    lists = {i: _list(i, sorts[i]) for i in places if sorts[i] != "text"}
    found = [exp.alias_(value, f"list{i}") for i, value in lists.items()]
    told = exp.select(exp.Star(), *found).from_(raw.subquery("raw"))
    used = [f"{part}{i}" for i in places for part in ("value", "kind")]
    used += [f"list{i}" for i in lists]
    rest = exp.Star(except_=[exp.to_identifier(name) for name in used])
    columns = [
        column for i, name in enumerate(converter.fields) for column in _read(i, name, sorts)
    ]
    select = exp.select(rest, *columns, exp.alias_(_problems(converter, faulty), "problem"))
    return select.from_(told.subquery("told"))


def _not_empty(i: int) -> exp.Expr:
    """Return a value, NULL for an empty list: in place of a text that is no text."""
    is_list = exp.column(f"kind{i}").eq(exp.Literal.string("ARRAY"))
    value = exp.column(f"value{i}")
    is_empty = exp.and_(is_list, value.copy().eq(exp.Literal.string("[]")))
    return exp.case().when(is_empty.not_(), value)


def _list(i: int, sort: str) -> exp.Expr:
    """Return a JSON list as text, also where a text holds one; else NULL."""
    value, kind = exp.column(f"value{i}"), exp.column(f"kind{i}")
    # Any text may begin with a bracket: one that is not to be a list must have an object in it.
    place, held = ("$[0]", "OBJECT") if sort == "either" else ("$", "ARRAY")
    type_ = call("try", call("json_type", value, exp.Literal.string(place)))
    begins = call("starts_with", call("ltrim", value.copy()), exp.Literal.string("["))
    is_list = exp.case().when(begins, type_.eq(exp.Literal.string(held)))
    case = exp.case().when(kind.eq(exp.Literal.string("ARRAY")), value.copy())
    inner = exp.case().when(is_list, value.copy())
    return case.when(kind.copy().eq(exp.Literal.string("VARCHAR")), inner)


def _read(i: int, name: str, sorts: Sequence[str]) -> list[exp.Expr]:
    """Return the columns of a field: its text, its list, or the one and the other."""
    value, found = exp.column(f"value{i}"), exp.column(f"list{i}")
    if sorts[i] != "either":
        return [exp.alias_(value if sorts[i] == "text" else found, name, quoted=True)]
    text = exp.case().when(found.copy().is_(exp.null()), value)
    return [
        exp.alias_(text, name, quoted=True),
        exp.alias_(found, f"{name}_list", quoted=True),
    ]


def _problems(converter: Converter, faulty: bool) -> exp.Expr:
    """Return the first thing that is wrong with the fields by themselves."""
    case = exp.case()
    if faulty:
        is_wrong: exp.Expr = exp.column("reason").is_(exp.null()).not_()
        case = case.when(is_wrong, _problem(exp.column("reason"), exp.column("detail")))
    for i, (name, sort) in enumerate(converter.fields.items()):
        value = exp.column(f"value{i}")
        if name in converter.needed:
            missing = _fault(name, "is missing", exp.Literal.string(f"field '{name}': missing"))
            case = case.when(value.is_(exp.null()), missing)
        nature = {"text": "text", "list": "a list", "either": "text or a list"}[sort]
        shown = call("left", value.copy(), exp.Literal.number(_SHOWN))
        opening = exp.Literal.string(f"field '{name}': not {nature}: ")
        is_wrong = exp.and_(value.copy().is_(exp.null()).not_(), _is_wrong(i, sort))
        fault = _fault(name, f"is not {nature}", call("concat", opening, shown))
        case = case.when(is_wrong, fault)
    return case


def _is_wrong(i: int, sort: str) -> exp.Expr:
    if sort == "list":
        return exp.column(f"list{i}").is_(exp.null())
    allowed = ("VARCHAR", "ARRAY") if sort == "either" else ("VARCHAR",)
    return exp.column(f"kind{i}").isin(*(exp.Literal.string(kind) for kind in allowed)).not_()


def _fault(name: str, reason: str, detail: exp.Expr) -> exp.Expr:
    return _problem(exp.Literal.string(f"{name} {reason}"), detail)


def _problem(reason: exp.Expr, detail: exp.Expr) -> exp.Expr:
    return struct(reason=reason, detail=detail)


def _renamed(select: exp.Select, names: dict[str, str]) -> exp.Select:
    """Return a SELECT about the other side, where there are other names for its columns."""
    for node in list(select.find_all(exp.Identifier)):
        column = node.parent
        of_struct = isinstance(column, (exp.Dot, exp.PropertyEQ)) or (
            isinstance(column, exp.Column) and column.table
        )
        if node.name in names and not of_struct:
            node.set("this", names[node.name])
    for parameter in list(select.find_all(exp.Placeholder)):
        if names and parameter.name == "field":
            parameter.set("this", "rejected_field")
    return select
