"""Conditions that users write in recipes: parsed, checked, and handed on as sqlglot trees.

A condition is one boolean expression over the columns of a record and one of its sections. What
is not known to be harmless is refused: the syntax, the functions and the types are allow-lists,
so a subquery, a table, a file or a setting has no way in. Nothing here touches a database.

Functions reach DuckDB under the name the user gave: sqlglot's own function nodes are switched
off, because they rewrite calls between dialects. Where DuckDB's grammar and sqlglot's disagree
on precedence, parentheses are demanded, so that a tree means what its text says.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from duckplets.errors import RecipeError, nearest

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["COLUMNS", "FUNCTIONS", "PairCondition", "pair_condition", "where_condition"]

COLUMNS = (
    *("record_id", "date", "group_key", "taxonomy", "meta", "trust", "created_at", "updated_at"),
    *("source", "position", "role", "heading", "text", "token_count", "kind", "window_index"),
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
_PIECES = _words("DataType DataTypeParam Identifier If Slice Var")
_NODES = _PREDICATES | _LOGIC | _ARITHMETIC | _VALUES | _PIECES
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCondition:
    """A condition on an anchor and a candidate negative, taken apart for a join.

    Terms are evaluated for every row, also where a CASE or an AND around them would have spared
    it: ``try_cast`` is the safe way to turn text into a number.

    Attributes:
        tree: The condition over the columns ``anchor.a0, anchor.a1, …, negative.n0, …``.
        anchor_terms: What ``a0, a1, …`` stand for, over columns of ``slot``.
        negative_terms: What ``n0, n1, …`` stand for, over columns of ``slot``.
        equality: Where the condition is true, an anchor term equals a negative term.
        inequality: Where the condition is false, an anchor term equals a negative term. (Where
            it is NULL, as ``!=`` is beside a NULL, nothing is said.)
    """

    tree: exp.Expression
    anchor_terms: tuple[exp.Expression, ...]
    negative_terms: tuple[exp.Expression, ...]
    equality: bool
    inequality: bool


def where_condition(text: str) -> exp.Expression:
    """Parse the condition of a selector; its columns come back as those of ``slot``.

    Raises:
        RecipeError: It is not one condition over ``COLUMNS`` and ``FUNCTIONS``.
    """
    return _on_slot(_parse(text))


def pair_condition(text: str) -> PairCondition:
    """Parse the condition of an ``sql()`` strategy, over columns ``anchor.x`` and ``negative.x``.

    Raises:
        RecipeError: It is not one condition over ``COLUMNS`` and ``FUNCTIONS``.
    """
    tree, terms = _lift(_parse(text, "anchor", "negative"))
    return PairCondition(
        tree=tree,
        anchor_terms=tuple(terms["anchor"].values()),
        negative_terms=tuple(terms["negative"].values()),
        equality=_has_equality(tree, holds=True),
        inequality=_has_equality(tree, holds=False),
    )


def _parse(text: str, *sides: str) -> exp.Expression:
    """Parse and check a condition over plain columns, or over those of the named sides."""
    from sqlglot import errors, exp

    if not isinstance(text, str) or not text.strip():
        raise RecipeError(f"a condition is SQL text such as \"role = 'anchor'\", not {text!r}")
    try:
        _check_text(text)
        dialect, parser = _grammar()
        tokens = dialect.tokenize(text)
        _check_tokens(text, tokens)
        _check_types(tokens, parser.TYPE_TOKENS)
        trees = parser(dialect=dialect).parse_into(exp.Condition, tokens, text)
        if len(trees) != 1 or not isinstance(trees[0], exp.Expression):
            raise RecipeError("not one condition")
        _check_tree(trees[0], sides)
        _check_reading(trees[0], tokens)
    except errors.SqlglotError as error:
        raise _refusal(text, f"not a condition in DuckDB's SQL{_near(error)}") from error
    except RecursionError as error:
        raise _refusal(text, "nested too deeply") from error
    except RecipeError as error:
        raise _refusal(text, str(error)) from None
    return trees[0]


def _refusal(condition: str, why: str) -> RecipeError:
    return RecipeError(f"condition {_short(condition)!r}: {why}")


def _near(error: Any) -> str:
    """Say where sqlglot stopped, when it knows."""
    details = getattr(error, "errors", None)
    return f" near {details[0]['highlight']!r}" if details and details[0]["highlight"] else ""


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


@cache
def _grammar() -> tuple[Any, Any]:
    """Return DuckDB's dialect, and its parser less all knowledge of single functions."""
    from sqlglot.dialects.duckdb import DuckDB

    base: Any = DuckDB.Parser
    rules = {
        "FUNCTIONS": {},
        "FUNCTION_PARSERS": {n: base.FUNCTION_PARSERS[n] for n in ("CAST", "TRY_CAST", "EXTRACT")},
        "NO_PAREN_FUNCTIONS": {},
        "NO_PAREN_FUNCTION_PARSERS": {"CASE": base.NO_PAREN_FUNCTION_PARSERS["CASE"]},
    }
    return DuckDB(), type(base)("ConditionParser", (base,), rules)


def _check_text(text: str) -> None:
    if len(text) > _LONGEST:
        raise RecipeError(f"{len(text)} characters, and {_LONGEST} are allowed")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise RecipeError("it holds a NUL or half a surrogate pair, which no text has")


def _check_tokens(text: str, tokens: list[Any]) -> None:
    """Refuse comments and statements, and nesting that would exhaust the parser's stack."""
    end = depth = signs = 0
    before = "("
    for token in tokens:
        if text[end : token.start].strip():
            break
        end = token.end + 1
        kind, word = token.token_type.name, text[token.start : end]
        if kind == "SEMICOLON":
            raise RecipeError(
                f"one condition is wanted, and nothing after it: {_short(text[end:])}"
            )
        if word not in _SIGNS and not (word[0].isalnum() or word[0] in "_'\""):
            raise RecipeError(f"{_short(word)} is not allowed; signs: {' '.join(sorted(_SIGNS))}")
        signs = signs + 1 if kind in ("NOT", "DASH", "PLUS") else 0
        if word in ("(", "[") or kind == "CASE":
            depth += 1
        elif word in (")", "]") or kind == "END":
            depth -= 1
        if depth + signs > _DEEPEST:
            raise RecipeError(f"nested more than {_DEEPEST} deep")
        if before == "." and kind == "NUMBER":
            raise RecipeError(f"write 0.{word}, not .{word}")
        if before + word in ("(,", "[,", ",,", ",)", ",]"):
            raise RecipeError(f"nothing stands between {before} and {word}")
        before = word
    if text[end:].strip():
        raise RecipeError(f"a comment is not allowed: {_short(text[end:].strip())}")
    if depth:
        raise RecipeError("a bracket or a CASE is not closed")


def _check_types(tokens: list[Any], types: set[Any]) -> None:
    """Refuse names of types out of place: nested, they keep the parser busy for hours."""
    words = ["", *(token.text.lower() for token in tokens), ""]
    for i, token in enumerate(tokens, start=1):
        before, word, after = words[i - 1 : i + 2]
        if before in ("as", "::"):
            quoted = token.token_type.name == "IDENTIFIER"
            if quoted or (after == "(" and not _SIZE.match(" ".join(words[i + 1 : i + 6]))):
                raise RecipeError(
                    f"a cast to {_short(token.text)} is not allowed; types: {_TYPE_WORDS}"
                )
        elif token.token_type in types and word not in ("interval", "null", "unknown"):
            if word in _CLOCKS:
                _refuse_clock(word)
            follows = tokens[i].token_type.name if i < len(tokens) else ""
            if after == "(" or follows == "NUMBER" or not (follows == "STRING" or word in COLUMNS):
                raise RecipeError(f"{token.text} names a type, not a column or a function")


def _check_reading(tree: exp.Expression, tokens: list[Any]) -> None:
    """Refuse what sqlglot forgives or reads on into, so that nothing written goes unread."""
    _, parser = _grammar()
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
            if before.token_type in parser.TYPE_TOKENS and after is not None and after.text == "::":
                raise RecipeError(f"put parentheses around {before.text} {token.text!r}")


def _check_tree(tree: exp.Expression, sides: tuple[str, ...]) -> None:
    """Refuse whatever is not on the lists above, and what is no condition."""
    if _depth(tree) > _DEEPEST_TREE:
        raise RecipeError(f"a chain of more than {_DEEPEST_TREE}: use parentheses or IN (…)")
    for node in tree.walk():
        _check_node(node)
        if type(node).__name__ == "Column":
            _check_column(node, sides)
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


def _check_column(node: Any, sides: tuple[str, ...]) -> None:
    *qualifiers, name = [_short(part.name.lower()) for part in node.parts]
    written = _sql(node)
    if name in _CLOCKS and not qualifiers:
        _refuse_clock(name)
    if sides and (len(qualifiers) != 1 or qualifiers[0] not in sides):
        raise RecipeError(f"column {written}: say whose, as in anchor.{name} or negative.{name}")
    if not sides and qualifiers:
        raise RecipeError(f"column {written}: a selector looks at one row, so write {name} alone")
    if name not in COLUMNS:
        columns = ", ".join(COLUMNS)
        raise RecipeError(f"unknown column {written}{nearest(name, COLUMNS)}; columns: {columns}")


def _check_function(node: Any) -> None:
    name = _short(node.name.lower())
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
    return _short(node.sql(dialect="duckdb"))


def _on_slot(tree: exp.Expression) -> exp.Expression:
    """Name the columns of a tree in lower case as those of ``slot``."""
    from sqlglot import exp

    for column in list(tree.find_all(exp.Column)):
        new = exp.column(column.name.lower(), table="slot")
        if column is tree:
            return new
        column.replace(new)
    return tree


def _lift(tree: exp.Expression) -> tuple[exp.Expression, dict[str, dict[str, exp.Expression]]]:
    """Replace what looks at one side only, in the order of the text, by numbered columns.

    Returns:
        The new tree, and for each side its terms under their own SQL, which is what makes two
        spellings of one term the same term.
    """
    from sqlglot import exp

    sides = _sides(tree)
    terms: dict[str, dict[str, exp.Expression]] = {"anchor": {}, "negative": {}}
    holder = exp.Paren(this=tree)
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        seen = sides.get(id(node), frozenset())
        if len(seen) == 1 and type(node).__name__ not in _PIECES:
            (side,) = seen
            term = _on_slot(node.unnest().copy())
            sql = term.sql(dialect="duckdb")
            terms[side].setdefault(sql, term)
            number = list(terms[side]).index(sql)
            node.replace(exp.column(f"{side[0]}{number}", table=side))
        elif seen:
            stack.extend(reversed(list(node.iter_expressions())))
    return holder.this, terms


def _sides(tree: exp.Expression) -> dict[int, frozenset[str]]:
    """Return, by the id of a node, which sides the columns under it belong to."""
    from sqlglot import exp

    sides: dict[int, frozenset[str]] = {}
    for node in reversed(list(tree.walk())):
        if isinstance(node, exp.Column):
            sides[id(node)] = frozenset({node.table.lower()})
        if node.parent is not None and id(node) in sides:
            above = sides.get(id(node.parent), frozenset())
            sides[id(node.parent)] = above | sides[id(node)]
    return sides


def _has_equality(tree: exp.Expression, *, holds: bool) -> bool:
    """Say whether the tree being true (or false) makes two terms of both sides equal."""
    from sqlglot import exp

    stack: list[tuple[Any, bool]] = [(tree, holds)]
    while stack:
        node, truth = stack.pop()
        if isinstance(node, exp.Paren | exp.Not):
            stack.append((node.this, truth ^ isinstance(node, exp.Not)))
        elif isinstance(node, exp.And if truth else exp.Or):
            stack.extend((child, truth) for child in node.iter_expressions())
        elif type(node).__name__ in (("EQ", "NullSafeEQ") if truth else ("NEQ", "NullSafeNEQ")):
            columns = [c for c in (node.this, node.expression) if isinstance(c, exp.Column)]
            if {column.table for column in columns} == {"anchor", "negative"}:
                return True
    return False
