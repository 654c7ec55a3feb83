"""Refuse conditions that DuckDB's parser reads as anything but listed functions of known columns.

DuckDB's own reading of a text is searched, so a subquery, a lambda, a file or a setting has no
way in, however it is written. Functions are an allow-list, with how much longer than their
arguments their results can be: DuckDB calls ``getvariable`` and ``repeat`` consistent, too.

Checks raise a bare reason; ``conditions`` adds the condition it is about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from duckplets.errors import RecipeError, nearest

COLUMNS = (
    *("record_id", "date", "group_key", "taxonomy", "meta", "trust", "created_at", "updated_at"),
    *("source", "position", "role", "heading", "text", "token_count", "kind", "window_index"),
    "label",
)

Form = tuple[dict[str, Any], list[Any]]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions that make lists; those whose order hangs on a setting or a hash table are left out.
SPLITS = _words(
    "regexp_extract_all regexp_split_to_array str_split str_split_regex string_split "
    "string_split_regex string_to_array"
)
LISTS = SPLITS | _words(
    "array_slice flatten list_append list_concat list_reverse list_slice list_value map_entries "
    "map_extract map_keys map_values"
)
# How much longer a result can be than all arguments, or what DuckDB needs meanwhile.
GROWTH = {
    # numbers, truth values, dates
    **dict.fromkeys(
        _words(
            "abs array_contains array_has array_has_all array_has_any array_length array_position "
            "ascii bit_length cardinality cbrt ceil ceiling century char_length character_length "
            "contains damerau_levenshtein date_add date_diff date_part date_sub date_trunc "
            "datediff datepart datesub datetrunc day dayofmonth dayofweek dayofyear decade "
            "ends_with epoch exp fdiv floor fmod gcd hamming hour instr isfinite isinf isnan "
            "isodow isoyear jaccard jaro_similarity jaro_winkler_similarity julian last_day lcm "
            "len length length_grapheme levenshtein list_avg list_contains list_count list_has "
            "list_has_all list_has_any list_indexof list_position list_sum list_unique ln log "
            "log10 log2 make_date make_time make_timestamp map_contains map_contains_entry "
            "map_contains_value microsecond millisecond minute mismatches mod month ord pi pow "
            "power prefix quarter regexp_full_match regexp_matches round second sign sqrt "
            "starts_with strlen strpos strptime suffix time_bucket to_days to_hours to_minutes "
            "to_months to_seconds to_weeks to_years trunc try_strptime unicode week weekday "
            "weekofyear year yearweek"
        ),
        0,
    ),
    **dict.fromkeys(
        LISTS
        | _words(
            "array_extract array_to_string chr coalesce concat concat_ws dayname element_at format "
            "greatest if ifnull least left left_grapheme list_element list_extract list_first "
            "list_last list_max list_min ltrim map_extract_value md5 monthname nullif printf "
            "regexp_extract regexp_replace replace reverse right right_grapheme rtrim sha1 sha256 "
            "strftime substr substring substring_grapheme trim url_decode"
        ),
        1,
    ),
    **dict.fromkeys(_words("lcase lower regexp_escape ucase upper"), 2),
    **dict.fromkeys(_words("nfc_normalize strip_accents"), 8),
    "url_encode": 3,
    "translate": 4,
    "split_part": 40,
}
FUNCTIONS = frozenset(GROWTH)

_BEFORE = 8  # characters that the statement of db/parser has before a text
_LONGEST = 10_000  # characters
_DEEPEST = 20  # open brackets and CASEs: DuckDB 2.0 took 47 seconds for 5,000 of them

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
# DuckDB binds == and ~~ tighter than = and LIKE, and sqlglot does not.
_UNREAD = re.compile(r"--|/\*|==|:=|\b[a-z]''|[^\w\s()\[\],.:+\-*/%|=!<>'\"]", re.IGNORECASE)
_BRACKET = re.compile(r"[(\[\])]|\bcase\b|\bend\b", re.IGNORECASE)
_LINK = re.compile(r"[)\]]\s*[.\[]")  # on each sqlglot goes through all that stands before it
_CLASSES = _words("BETWEEN CASE CAST COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION TYPE")
_OPERATORS = _words(
    "ARRAY_EXTRACT ARRAY_SLICE COMPARE_IN COMPARE_NOT_IN OPERATOR_COALESCE OPERATOR_IS_NOT_NULL "
    "OPERATOR_IS_NULL OPERATOR_NOT"
)
# What signs, LIKE, trim() and lists in brackets are read as.
_SIGNS = _words(
    "+ - * / // % || ~~ !~~ ~~* !~~* ~~~ like_escape ilike_escape not_like_escape not_ilike_escape"
)
_GRAMMAR = _words("date_part list_value ltrim rtrim substring trim") | _SIGNS
_TYPES = _words(
    "boolean tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint float "
    "double decimal varchar date time timestamp"
)
_ALSO = {  # which DuckDB 2.0 leaves to the binder
    "bool": "boolean",
    "int": "integer",
    "int128": "hugeint",
    "real": "float",
    "string": "varchar",
    "text": "varchar",
    "datetime": "timestamp",
}
_CLOCKS = _words(
    "age current_date current_localtime current_localtimestamp current_time current_timestamp "
    "gen_random_uuid get_current_time get_current_timestamp localtime localtimestamp now random "
    "setseed today transaction_timestamp uuid uuidv4 uuidv7"
)
_POSITIVE = {
    "COMPARE_DISTINCT_FROM": "COMPARE_NOT_DISTINCT_FROM",
    "COMPARE_NOT_IN": "COMPARE_IN",
    "OPERATOR_IS_NOT_NULL": "OPERATOR_IS_NULL",
}


def short(text: str) -> str:
    """Cut a text that goes into a message."""
    return text if len(text) <= 80 else f"{text[:79]}…"


def check_text(text: str) -> None:
    """Refuse what no parser should see: what is too long or deep, and comments."""
    if len(text) > _LONGEST:
        raise RecipeError(f"{len(text)} characters, and {_LONGEST} are allowed")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise RecipeError("it holds a NUL or half a surrogate pair, which no text has")
    bare = _QUOTED.sub(lambda quoted: quoted[0][0] * 2, text)
    if found := _UNREAD.search(bare):
        what = "a comment" if found[0] in ("--", "/*") else found[0]
        raise RecipeError(f"{what} is not allowed: {short(bare[found.start() :])}")
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
    """Refuse a reading of ``SELECT (text)`` with anything in it but what is listed here.

    Returns:
        Its form, and how often a column is named in it.
    """
    found: list[dict[str, Any]] = []
    frame, selected = form(reading, found)
    if frame["error"]:
        raise RecipeError(f"not a condition in DuckDB's SQL: {short(frame['error_message'])}")
    if len(selected) != 1 or frame != form(plain)[0]:
        raise RecipeError("one condition is wanted, and nothing beside it")
    for node in reversed(found):
        kind = node.get("class", "CONSTANT")
        if kind not in _CLASSES and node["type"] not in _OPERATORS:
            what = node["type"] if kind == "OPERATOR" else kind
            raise RecipeError(f"a {what.lower()} is not allowed{_from(node, text)}")
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
    """Return what a node begins with in a text, for a message; nothing where that is not told."""
    place = int(node.get("query_location", 0)) - _BEFORE
    rest = text.encode()[place:].decode(errors="ignore") if 0 <= place < len(text.encode()) else ""
    return f": {short(rest)}" if rest else ""


def form(reading: str, found: list[dict[str, Any]] | None = None) -> Form:
    """Return what is around selected expressions, and these, in one spelling of each meaning.

    Args:
        reading: The JSON of DuckDB's parser.
        found: Gets all that is in it, the innermost first.
    """

    def gathered(node: dict[str, Any]) -> dict[str, Any]:
        if found is not None:
            found.append(node)
        return _form(node)

    parsed = json.loads(reading, object_hook=gathered)
    statements = parsed.get("statements") or [{"node": {}}]
    return parsed, statements[0]["node"].pop("select_list", [])


def _form(node: dict[str, Any]) -> dict[str, Any]:
    """Drop positions, and spell NOT, and numbers of intervals, in one way."""
    node = {key: value for key, value in node.items() if not key.startswith("query_location")}
    kind = str(node.get("type"))
    if kind == "COLUMN_REF":
        node["column_names"] = [name.lower() for name in node["column_names"]]
    elif kind == "TYPE":
        node["type_name"] = node["qualified_name"] = _type_name(node)
    elif kind == "VALUE_CONSTANT":
        value = node.get("value") or {"type": {}}  # of DuckDB 1.5; 2.0 has the literal
        known = {"kind": value["type"].get("id"), "text": value.get("value")}
        literal = node.get("literal") or known
        if literal["kind"] in ("INTEGER", "STRING", "VARCHAR"):
            number = literal["kind"] == "INTEGER"
            text = str(literal["text"]).replace("_", "") if number else literal["text"]
            node = {"class": "CONSTANT", "type": kind, "text": text}
    elif kind in _POSITIVE:
        node["type"] = _POSITIVE[kind]
        node = {"class": "OPERATOR", "type": "OPERATOR_NOT", "alias": "", "children": [node]}
    return node


def _type_name(node: dict[str, Any]) -> str:
    own = (node.get("type_info") or {}).get("name")  # of a type that DuckDB does not know
    name = str(own or node.get("id") or node.get("type_name")).lower()
    return _ALSO.get(name, name)


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
        whose = short(name)
        raise RecipeError(f"column {written}: say whose, as in anchor.{whose} or negative.{whose}")
    if not sides and qualifiers:
        raise RecipeError(
            f"column {written}: a selector looks at one row, so write {short(name)} alone"
        )
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
    raise RecipeError(f"{name} is not allowed: a sample must be the same whenever it is drawn")
