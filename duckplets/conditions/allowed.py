"""Refuse conditions with anything except listed functions of known columns.

The check searches the tree of DuckDB's own parser. So it finds a subquery, a lambda, a file or a
setting in any spelling. Functions are on a list (``allowed.toml``), with the growth of their
results over their arguments. DuckDB's own label does not suffice: it calls ``getvariable`` and
``repeat`` consistent, too.

Checks raise a bare reason; ``parse`` adds the condition.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from duckplets.errors import RecipeError, nearest

COLUMNS = (
    *("record_id", "date", "group_key", "taxonomy", "meta", "trust", "created_at", "updated_at"),
    *("source", "position", "role", "heading", "text", "token_count", "kind", "window_index"),
    "label",
)

Form = tuple[dict[str, Any], list[Any]]


_RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _words(table: str, *names: str) -> frozenset[str]:
    return frozenset(word for name in names for word in _RULES[table][name].split())


SPLITS, LISTS = _words("lists", "splits"), _words("lists", "splits", "others")
GROWTH = dict.fromkeys(LISTS, 1) | {
    name: int(growth) for growth, names in _RULES["functions"].items() for name in names.split()
}
FUNCTIONS = frozenset(GROWTH)

_BEFORE = 8  # characters before a text in the statement of db/parser
_LONGEST = 10_000  # characters
_DEEPEST = 20  # nesting of brackets and CASEs: DuckDB 2.0 took 47 seconds for 5,000

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
# DuckDB binds == and ~~ tighter than = and LIKE, and sqlglot does not.
_UNREAD = re.compile(r"--|/\*|==|:=|\b[a-z]''|[^\w\s()\[\],.:+\-*/%|=!<>'\"]", re.IGNORECASE)
_BRACKET = re.compile(r"[(\[\])]|\bcase\b|\bend\b", re.IGNORECASE)
_LINK = re.compile(r"[)\]]\s*[.\[]")  # at each, sqlglot walks all text before it
_CLASSES, _OPERATORS = _words("grammar", "classes"), _words("grammar", "operators")
_SIGNS, _GRAMMAR = _words("grammar", "signs"), _words("grammar", "signs", "calls")
_TYPES, _CLOCKS = _words("names", "types"), _words("names", "clocks")
_POSITIVE = {
    "COMPARE_DISTINCT_FROM": "COMPARE_NOT_DISTINCT_FROM",
    "COMPARE_NOT_IN": "COMPARE_IN",
    "OPERATOR_IS_NOT_NULL": "OPERATOR_IS_NULL",
}


def short(text: str) -> str:
    """Cut a text for a message."""
    return text if len(text) <= 80 else f"{text[:79]}…"


def check_text(text: str) -> None:
    """Refuse texts that are too long or too deep for a parser, or have comments."""
    if len(text) > _LONGEST:
        raise RecipeError(f"{len(text)} characters, and {_LONGEST} are allowed")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise RecipeError("it holds a NUL or half a surrogate pair: remove it")
    bare = _QUOTED.sub(lambda quoted: quoted[0][0] * 2, text)
    if found := _UNREAD.search(bare):
        name = "a comment" if found[0] in ("--", "/*") else found[0]
        raise RecipeError(f"{name} is not allowed: {short(bare[found.start() :])}")
    if len(_LINK.findall(bare)) > _DEEPEST:
        raise RecipeError(f"more than {_DEEPEST} subscripts or dots after a bracket")
    depth = 0
    for bracket in _BRACKET.findall(bare):
        depth += 1 if bracket.lower() in ("(", "[", "case") else -1
        if depth > _DEEPEST:
            raise RecipeError(f"nested more than {_DEEPEST} deep")
        if depth < 0:
            break
    if depth:
        raise RecipeError("a bracket or a CASE is opened or closed without its other half")


def check_reading(
    reading: str,
    plain: str,
    sides: Collection[str] = (),
    columns: Collection[str] = COLUMNS,
    text: str = "",
) -> tuple[Form, int]:
    """Check a reading of ``SELECT (text)``; return its form and the number of its columns."""
    found: list[dict[str, Any]] = []
    frame, selected = form(reading, found)
    if frame["error"]:
        raise RecipeError(f"not a condition in DuckDB's SQL: {short(frame['error_message'])}")
    if len(selected) != 1 or frame != form(plain)[0]:
        raise RecipeError("give one condition, without any other SQL")
    for node in reversed(found):
        kind = node.get("class", "CONSTANT")
        if kind not in _CLASSES and node["type"] not in _OPERATORS:
            name = node["type"] if kind == "OPERATOR" else kind
            raise RecipeError(f"a {name.lower()} is not allowed{_from(node, text)}")
    for node in found:
        if node.get("alias") or (node.get("name") and "expression" in node):
            raise RecipeError("a named argument is not allowed")
        if node.get("class") == "COLUMN_REF":
            _check_column(node["column_names"], sides, columns)
        elif node.get("class") == "FUNCTION":
            _check_function(node)
        elif "cast_type" in node or node.get("class") == "TYPE":
            _check_type(_type_name(node.get("cast_type", node)))
    return (frame, selected), sum(node.get("class") == "COLUMN_REF" for node in found)


def _from(node: dict[str, Any], text: str) -> str:
    """Return the text from the beginning of a node, for a message, or "" if unknown."""
    place = int(node.get("query_location", 0)) - _BEFORE
    rest = text.encode()[place:].decode(errors="ignore") if 0 <= place < len(text.encode()) else ""
    return f": {short(rest)}" if rest else ""


def form(reading: str, found: list[dict[str, Any]] | None = None) -> Form:
    """Return frame and selected expressions of a reading; add its parts to ``found``."""

    def gathered(node: dict[str, Any]) -> dict[str, Any]:
        if found is not None:
            found.append(node)
        return _form(node)

    parsed = json.loads(reading, object_hook=gathered)
    statements = parsed.get("statements") or [{"node": {}}]
    return parsed, statements[0]["node"].pop("select_list", [])


def _form(node: dict[str, Any]) -> dict[str, Any]:
    """Drop positions, and normalise NOT and interval numbers."""
    node = {key: value for key, value in node.items() if not key.startswith("query_location")}
    kind = str(node.get("type"))
    if kind == "COLUMN_REF":
        node["column_names"] = [name.lower() for name in node["column_names"]]
    elif kind == "TYPE":
        node["type_name"] = node["qualified_name"] = _type_name(node)
    elif kind == "VALUE_CONSTANT":
        value = node.get("value") or {"type": {}}  # DuckDB 1.5; 2.0 has ``literal``
        known = {"kind": value["type"].get("id"), "text": value.get("value")}
        literal = node.get("literal") or known
        if literal["kind"] in ("INTEGER", "STRING", "VARCHAR"):
            number = literal["kind"] == "INTEGER"
            text = str(literal["text"]).replace("_", "") if number else literal["text"]
            node = {"class": "CONSTANT", "type": kind, "text": text}
        elif literal["kind"] == "NUMERIC":  # 2.0: .5 is 0.5
            node = {"class": "CONSTANT", "type": kind, "text": literal["text"].lstrip("0")}
        elif literal["kind"] == "DECIMAL":  # 1.5, where .5 has fewer digits
            value["type"]["type_info"].pop("width")
    elif kind in _POSITIVE:
        node["type"] = _POSITIVE[kind]
        node = {"class": "OPERATOR", "type": "OPERATOR_NOT", "alias": "", "children": [node]}
    return node


def _type_name(node: dict[str, Any]) -> str:
    own = (node.get("type_info") or {}).get("name")  # for a type unknown to DuckDB
    name = str(own or node.get("id") or node.get("type_name")).lower()
    return str(_RULES["types"].get(name, name))


def _check_type(name: str) -> None:
    if name not in _TYPES:
        known = " ".join(sorted(_TYPES))
        raise RecipeError(f"a cast to {short(name)} is not allowed; types: {known}")


def _check_column(parts: list[str], sides: Collection[str], columns: Collection[str]) -> None:
    written = short(".".join(parts))
    *qualifiers, name = [part.lower() for part in parts]
    if name in _CLOCKS and not qualifiers:
        _refuse_clock(name)
    if sides and (len(qualifiers) != 1 or qualifiers[0] not in sides):
        bare = short(name)
        raise RecipeError(f"column {written}: write anchor.{bare} or negative.{bare}")
    if not sides and qualifiers:
        raise RecipeError(f"column {written}: a selector reads one row, so write {short(name)}")
    if name not in columns:
        known = ", ".join(columns)
        raise RecipeError(f"unknown column {written}{nearest(name, columns)}; columns: {known}")


def _check_function(node: dict[str, Any]) -> None:
    name, path = str(node["function_name"]), [p for p in (node["catalog"], node["schema"]) if p]
    if name in _CLOCKS:
        _refuse_clock(name)
    if name not in FUNCTIONS | _SIGNS:
        hint = nearest(name, FUNCTIONS)
        raise RecipeError(f"function {short(name)} is not on the list of pure functions{hint}")
    if path and (path != ["main"] or name not in _GRAMMAR):
        raise RecipeError(
            f"{short('.'.join((*path, name)))}: a dotted name or method call is not allowed "
            f"(write lower(text), not text.lower())"
        )
    if node["distinct"] or node["filter"] or node["order_bys"]["orders"] or node["export_state"]:
        raise RecipeError(f"DISTINCT, ORDER BY or FILTER of an aggregate is not allowed in {name}")


def _refuse_clock(name: str) -> None:
    raise RecipeError(f"{name} is not allowed: a sample must be the same at any time")
