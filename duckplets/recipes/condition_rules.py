"""Refuse conditions with other columns, functions, signs, syntax or types than are listed here.

Checks raise a bare reason; ``conditions`` adds the condition it is about. Where DuckDB's grammar
and sqlglot's disagree on precedence, parentheses are demanded, so that a tree means what its text
says; what sqlglot forgives or reads on into is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from duckplets.errors import RecipeError, nearest

if TYPE_CHECKING:
    from sqlglot import exp

COLUMNS = (
    *("record_id", "date", "group_key", "taxonomy", "meta", "trust", "created_at", "updated_at"),
    *("source", "position", "role", "heading", "text", "token_count", "kind", "window_index"),
    "label",
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _words(
    # text
    "ascii bit_length char_length character_length chr concat concat_ws contains "
    "damerau_levenshtein ends_with format hamming instr jaccard jaro_similarity "
    "jaro_winkler_similarity lcase left left_grapheme len length length_grapheme levenshtein lower "
    "ltrim md5 mismatches nfc_normalize ord prefix printf regexp_escape regexp_extract "
    "regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array "
    "replace reverse right right_grapheme rtrim sha1 sha256 split_part starts_with str_split "
    "str_split_regex string_split string_split_regex string_to_array strip_accents strlen strpos "
    "substr substring substring_grapheme suffix translate trim ucase unicode upper url_decode "
    "url_encode "
    # lists and maps; those whose order hangs on a setting or a hash table are left out
    "array_contains array_extract array_has array_has_all array_has_any array_length "
    "array_position array_slice array_to_string cardinality element_at flatten list_append "
    "list_avg list_concat list_contains list_count list_element list_extract list_first list_has "
    "list_has_all list_has_any list_indexof list_last list_max list_min list_position "
    "list_reverse list_slice list_sum list_unique list_value map_contains map_contains_entry "
    "map_contains_value map_entries map_extract map_extract_value map_keys map_values "
    # dates
    "century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc "
    "day dayname dayofmonth dayofweek dayofyear decade epoch hour isodow isoyear julian last_day "
    "make_date make_time make_timestamp microsecond millisecond minute month monthname quarter "
    "second strftime strptime time_bucket to_days to_hours to_minutes to_months to_seconds "
    "to_weeks to_years try_strptime week weekday weekofyear year yearweek "
    # numbers and choices
    "abs cbrt ceil ceiling coalesce exp fdiv floor fmod gcd greatest if ifnull isfinite isinf "
    "isnan lcm least ln log log10 log2 mod nullif pi pow power round sign sqrt trunc"
)

_LONGEST = 10_000  # characters
_DEEPEST = 20  # open brackets, CASEs and signs: sqlglot takes up to 28 Python frames for each
_DEEPEST_TREE = 100  # chains such as a::int::int, which need no brackets

# DuckDB binds == and ~~ tighter than = and LIKE, and sqlglot does not: they are left out.
_SIGNS = _words("( ) [ ] , . : :: + - * / // % || = != <> < <= > >=")
_PREDICATES = _words(
    "Between EQ Escape GT GTE Glob ILike In Is LT LTE Like NEQ NullSafeEQ NullSafeNEQ SimilarTo"
)
_LOGIC = _words("And Not Or")
_ARITHMETIC = _words("Add DPipe Div IntDiv Mod Mul Neg Sub")
_VALUES = _words(
    "Anonymous Array Boolean Bracket Case Cast Column Extract Interval Literal Null Paren TryCast"
)
PIECES = _words("DataType DataTypeParam Identifier If Slice Var")
_NODES = _PREDICATES | _LOGIC | _ARITHMETIC | _VALUES | PIECES
_TYPES = _words(
    "BOOLEAN TINYINT SMALLINT INT BIGINT INT128 UTINYINT USMALLINT UINT UBIGINT FLOAT DOUBLE "
    "DECIMAL CHAR VARCHAR TEXT DATE TIME TIMESTAMP TIMESTAMPNTZ"
)
_TYPE_WORDS = "boolean, integers, floats, decimal, varchar, date, time, timestamp"
_SPAN = re.compile(r"\s*[+-]?\d+(\.\d+)?\s*[A-Za-z]*\s*")  # of interval '3 days'
_SIZE = re.compile(r"\( \d+ (, \d+ )?\)")  # of decimal(10, 2)
_UNITS = _words(
    "microsecond millisecond second minute hour day dow isodow doy week month quarter year "
    "isoyear decade century epoch"
)
_CLOCKS = _words(
    "age current_date current_localtime current_localtimestamp current_time current_timestamp "
    "gen_random_uuid get_current_time get_current_timestamp localtime localtimestamp now random "
    "setseed today transaction_timestamp uuid uuidv4 uuidv7"
)
_REFUSED = {
    **dict.fromkeys(("All", "Any", "Exists", "Select", "Subquery"), "a subquery"),
    **dict.fromkeys(("Comprehension", "Lambda"), "a lambda"),
    **dict.fromkeys(("Filter", "Window", "WithinGroup"), "a window function or an aggregate"),
    "AtTimeZone": "a time zone",
    "DataType": "a type outside CAST (text[1] reads as one: write substring(text, 1, 1))",
    "Dot": "a dotted name or method call (write lower(text), not text.lower())",
    "Placeholder": "a parameter",
    "Star": "a star",
}
# What a part of a node may be; elsewhere the two grammars bind differently, or DuckDB refuses.
_SHAPES = (
    ("Between", "symmetric", {"NoneType"}, "BETWEEN takes no SYMMETRIC"),
    ("Bracket", "this", {"Anonymous", "Array", "Bracket", "Column", "Paren"}, "add parentheses"),
    ("Cast", "format", {"NoneType"}, "CAST takes no FORMAT"),
    ("Escape", "expression", {"Literal"}, "ESCAPE takes one quoted character"),
    ("In", "field", {"Column", "NoneType"}, "write list_contains(list, value)"),
    ("Interval", "this", {"Literal", "Paren"}, "add parentheses"),
    ("Interval", "unit", {"Var"}, "write an interval as (interval 3 day), with one unit"),
    ("Is", "expression", {"Boolean", "Null"}, "add parentheses"),
)


def short(text: str) -> str:
    """Cut a text that goes into a message."""
    return text if len(text) <= 80 else f"{text[:79]}…"


def check_text(text: str) -> None:
    """Refuse what is too long, or no text DuckDB could hold."""
    if len(text) > _LONGEST:
        raise RecipeError(f"{len(text)} characters, and {_LONGEST} are allowed")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise RecipeError("it holds a NUL or half a surrogate pair, which no text has")


def check_tokens(text: str, tokens: list[Any]) -> None:
    """Refuse comments and statements, and nesting that would exhaust the parser's stack."""
    end = depth = signs = links = 0
    before = "("
    for token in tokens:
        if text[end : token.start].strip():
            break
        end = token.end + 1
        kind, word = token.token_type.name, text[token.start : end]
        if kind == "SEMICOLON":
            raise RecipeError(f"one condition is wanted, and nothing after it: {short(text[end:])}")
        if word not in _SIGNS and not (word[0].isalnum() or word[0] in "_'\""):
            raise RecipeError(f"{short(word)} is not allowed; signs: {' '.join(sorted(_SIGNS))}")
        signs = signs + 1 if kind in ("NOT", "DASH", "PLUS") else 0
        if word in ("(", "[") or kind == "CASE":
            depth += 1
        elif word in (")", "]") or kind == "END":
            depth -= 1
        if depth + signs > _DEEPEST:
            raise RecipeError(f"nested more than {_DEEPEST} deep")
        links += (before, word) in ((")", "."), ("]", "["), ("]", "."), (")", "["))
        if links > _DEEPEST:  # on each sqlglot goes through all that stands before it
            raise RecipeError(f"more than {_DEEPEST} subscripts or dots after a bracket")
        if before == "." and kind == "NUMBER":
            raise RecipeError(f"write 0.{word}, not .{word}")
        if before + word in ("(,", "[,", ",,", ",)", ",]"):
            raise RecipeError(f"nothing stands between {before} and {word}")
        before = word
    if text[end:].strip():
        raise RecipeError(f"a comment is not allowed: {short(text[end:].strip())}")
    if depth:
        raise RecipeError("a bracket or a CASE is not closed")


def check_types(tokens: list[Any], types: set[Any], columns: Collection[str] = COLUMNS) -> None:
    """Refuse names of types out of place: nested, they keep the parser busy for hours."""
    words = ["", *(token.text.lower() for token in tokens), ""]
    for i, token in enumerate(tokens, start=1):
        before, word, after = words[i - 1 : i + 2]
        if before in ("as", "::"):
            quoted = token.token_type.name == "IDENTIFIER"
            if quoted or (after == "(" and not _SIZE.match(" ".join(words[i + 1 : i + 6]))):
                raise RecipeError(
                    f"a cast to {short(token.text)} is not allowed; types: {_TYPE_WORDS}"
                )
        elif token.token_type in types and word not in ("interval", "null", "unknown"):
            if word in _CLOCKS:
                _refuse_clock(word)
            follows = tokens[i].token_type.name if i < len(tokens) else ""
            if after == "(" or follows == "NUMBER" or not (follows == "STRING" or word in columns):
                raise RecipeError(f"{token.text} names a type, not a column or a function")


def check_reading(tree: exp.Expression, tokens: list[Any], types: set[Any]) -> None:
    """Refuse what sqlglot forgives or reads on into, so that nothing written goes unread."""
    read = Counter(type(node).__name__ for node in tree.walk())
    written = Counter(token.text.upper() for token in tokens)
    counts = {"+": read["Add"], "AND": read["And"] + read["Between"], "THEN": read["If"]}
    counts["AS"] = written["CAST"] + written["TRY_CAST"]
    for word, count in counts.items():
        if written[word] != count:
            raise RecipeError(f"{word} is missing, or has nothing on one side")
    if written["INTERVAL"] != read["Interval"]:
        raise RecipeError("put parentheses around each interval, as in (interval 3 day)")
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.token_type.name == "STRING" and before is not None:
            if before.token_type.name == "INTERVAL" and not _SPAN.fullmatch(token.text):
                raise RecipeError(f"write an interval as (interval 3 day), not {token.text!r}")
            if before.token_type in types and after is not None and after.text == "::":
                raise RecipeError(f"put parentheses around {before.text} {token.text!r}")


def check_tree(
    tree: exp.Expression, sides: tuple[str, ...], columns: Collection[str] = COLUMNS
) -> None:
    """Refuse whatever is not on the lists above, and what is no condition."""
    if _depth(tree) > _DEEPEST_TREE:
        raise RecipeError(f"a chain of more than {_DEEPEST_TREE}: use parentheses or IN (…)")
    for node in tree.walk():
        _check_node(node)
        if type(node).__name__ == "Column":
            _check_column(node, sides, columns)
        elif type(node).__name__ == "Anonymous":
            _check_function(node)
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        name = type(node).__name__
        if name in _LOGIC | {"Paren"}:
            stack.extend(node.iter_expressions())
        elif name in ("Cast", "TryCast"):
            name = _type(node.args["to"]).title()
        if name not in _PREDICATES | _LOGIC | {"Paren", "Boolean", "Anonymous", "Case"}:
            raise RecipeError(f"{_sql(node)} is a value, not a condition: compare it")


def _depth(tree: exp.Expression) -> int:
    """Return the depth of the tree, a chain of ANDs or of ORs counted once."""
    deepest, stack = 0, [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        for child in node.iter_expressions():
            chain = type(child) is type(node) and type(node).__name__ in ("And", "Or")
            stack.append((child, depth if chain else depth + 1))
    return deepest


def _check_node(node: Any) -> None:
    name = type(node).__name__
    if name not in _NODES or (name == "DataType" and node.arg_key != "to"):
        what = _REFUSED.get(name, f"{name} syntax")
        raise RecipeError(f"{what} is not allowed: {_sql(node)}")
    if name == "DataType" and _type(node) not in _TYPES:
        raise RecipeError(f"a cast to {_sql(node)} is not allowed; types: {_TYPE_WORDS}")
    if name == "Var" and node.name.lower().removesuffix("s") not in _UNITS:
        raise RecipeError(f"unknown unit {node.name}{nearest(node.name, _UNITS)}")
    if name == "In" and not any(map(node.args.get, ("expressions", "field", "query"))):
        raise RecipeError(f"IN takes at least one value: {_sql(node)}")
    for kind, part, allowed, advice in _SHAPES:
        found = node.args.get(part)
        if name == kind and found is not False and type(found).__name__ not in allowed:
            raise RecipeError(f"{advice}: {_sql(node)}")
    if name in (_PREDICATES | _ARITHMETIC) - {"Escape"}:
        for child in node.iter_expressions():
            # Within IN (…) commas keep conditions apart; elsewhere grammars differ on precedence.
            listed = name == "In" and child.arg_key == "expressions"
            if type(child).__name__ in _PREDICATES | _LOGIC and not listed:
                raise RecipeError(f"put parentheses around {_sql(child)} in {_sql(node)}")


def _check_column(node: Any, sides: tuple[str, ...], columns: Collection[str]) -> None:
    *qualifiers, name = [short(part.name.lower()) for part in node.parts]
    written = _sql(node)
    if name in _CLOCKS and not qualifiers:
        _refuse_clock(name)
    if sides and (len(qualifiers) != 1 or qualifiers[0] not in sides):
        raise RecipeError(f"column {written}: say whose, as in anchor.{name} or negative.{name}")
    if not sides and qualifiers:
        raise RecipeError(f"column {written}: a selector looks at one row, so write {name} alone")
    if name not in columns:
        known = ", ".join(columns)
        raise RecipeError(f"unknown column {written}{nearest(name, columns)}; columns: {known}")


def _check_function(node: Any) -> None:
    name = short(node.name.lower())
    if not isinstance(node.this, str):
        raise RecipeError(f"a function's name goes without quotes: {_sql(node)}")
    if any(type(part).__name__ == "Lambda" for part in node.expressions):
        raise RecipeError(f"a lambda is not allowed: {_sql(node)}")
    if name in _CLOCKS:
        _refuse_clock(name)
    if name not in FUNCTIONS:
        hint = nearest(name, FUNCTIONS)
        raise RecipeError(f"function {name} is not on the list of pure scalar functions{hint}")
    if name in ("strptime", "try_strptime"):
        formats = node.expressions[1:]
        if not all(part.is_string and "%z" not in part.name.lower() for part in formats):
            raise RecipeError(f"a format is quoted and without a time zone: {_sql(node)}")


def _refuse_clock(name: str) -> None:
    raise RecipeError(f"{name} is not allowed: a sample must be the same whenever it is drawn")


def _type(node: Any) -> str:
    return str(getattr(node.this, "name", node.this))


def _sql(node: Any) -> str:
    from sqlglot.dialects.duckdb import DuckDB

    return short(node.sql(dialect=DuckDB))
