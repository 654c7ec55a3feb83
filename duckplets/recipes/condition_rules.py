"""Refuse conditions that are anything but listed functions of known columns, within bounds.

DuckDB's own reading of a text is searched, so a subquery, a lambda, a file or a setting has no
way in, however it is written. Functions are an allow-list (``condition_rules.toml``), with how much
longer than their arguments their results can be: DuckDB calls ``getvariable`` and ``repeat``
consistent, too.

What a condition costs is bounded before it runs: DuckDB stops a statement only between vectors of
2,048 rows, and counts not what functions make of texts. So what grows with two texts at once (a
distance, a search, a replacement) takes only one that is short, and copies of a text are few.

Checks raise a bare reason; ``conditions`` adds the condition it is about.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from duckplets.errors import RecipeError, nearest

if TYPE_CHECKING:
    from sqlglot import exp

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
_LINK = re.compile(r"[)\]]\s*[.\[]")  # at each, sqlglot walks all that precedes it
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
    """Refuse texts that no parser should see: too long, too deep, or with comments."""
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
    """Check a reading of ``SELECT (text)``; return its form and its columns."""
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
    """Return where in a text a node begins, as words for a message; empty if unknown."""
    place = int(node.get("query_location", 0)) - _BEFORE
    rest = text.encode()[place:].decode(errors="ignore") if 0 <= place < len(text.encode()) else ""
    return f": {short(rest)}" if rest else ""


def form(reading: str, found: list[dict[str, Any]] | None = None) -> Form:
    """Return frame and selected expressions of a reading, adding its parts to ``found``."""

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
        value = node.get("value") or {"type": {}}  # of DuckDB 1.5; 2.0 has the literal
        known = {"kind": value["type"].get("id"), "text": value.get("value")}
        literal = node.get("literal") or known
        if literal["kind"] in ("INTEGER", "STRING", "VARCHAR"):
            number = literal["kind"] == "INTEGER"
            text = str(literal["text"]).replace("_", "") if number else literal["text"]
            node = {"class": "CONSTANT", "type": kind, "text": text}
        elif literal["kind"] == "DECIMAL" and value["type"]:  # .5 has less digits than 0.5
            value["type"]["type_info"].pop("width")
    elif kind in _POSITIVE:
        node["type"] = _POSITIVE[kind]
        node = {"class": "OPERATOR", "type": "OPERATOR_NOT", "alias": "", "children": [node]}
    return node


def _type_name(node: dict[str, Any]) -> str:
    own = (node.get("type_info") or {}).get("name")  # of a type unknown to DuckDB
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


SHORT = 500  # characters of a text that a function may search for everywhere in another
LONG_COLUMNS = frozenset({"record_id", "group_key", "heading", "text"})
PIECES = {"DataType", "DataTypeParam", "Identifier", "If", "Slice", "Var"}  # not values

_LONGEST_CHAIN = 100  # links of a chain such as a::int::int, which has no brackets
_MOST = 10_000  # characters produced per row by all functions of a condition
_ANY_LENGTH = 50  # assumed for a text of unknown length: 200 copies of it are allowed
_LIST = 40  # bytes of a list per character: each may be an element
_NUMBER = 40  # characters of a number, a date, an interval
_FIXED = 64  # of a digest or of the name of a day
_STEPS = 25  # per character, for distances: 2,048 rows of them take three seconds

_DISTANCES = {
    "levenshtein": 1,
    "damerau_levenshtein": 3,
    "jaro_similarity": 0.1,
    "jaro_winkler_similarity": 0.1,
}
_REGEXES = frozenset(n for n in FUNCTIONS if "regex" in n) - {"regexp_escape"}
_SEARCHES = SPLITS - _REGEXES | {"contains", "instr", "replace", "split_part", "strpos"}
_CUTS = {"left": 1, "right": 1, "substr": 2, "substring": 2}  # and which argument says how short
_PUT_IN = ("replace", "regexp_replace")  # their third argument
_SHORTENED = ("chr", "dayname", "md5", "monthname", "sha1", "sha256")
_EITHER = ("coalesce", "concat", "greatest", "if", "ifnull", "least", "nullif")  # list or text
_STARS = {"Like": "%", "ILike": "%", "Glob": "*"}

_ENDLESS = re.compile(r"(?<!\\)(?:\\\\)*[*+]|\{\d*,\}")
_ONE_ATOM = re.compile(r"(?:\\.|\[\^?\]?[^\]]*\]|[^\\\[(|])[*+]")
_COUNTED = re.compile(r"\{(\d*)(?:,(\d*))?\}")


class Size(NamedTuple):
    """The possible length of a value."""

    chars: int = 0  # a text of unknown length counts as a fixed one
    is_long: bool = False  # whether it contains such a text
    is_list: bool = False


def check_costs(tree: exp.Expression, texts: frozenset[str] = LONG_COLUMNS) -> None:
    """Refuse conditions whose functions may take too many steps or produce too much text."""
    costs = Costs(tree, texts)
    if costs.depth > _LONGEST_CHAIN:
        raise RecipeError(f"a chain of more than {_LONGEST_CHAIN}: use parentheses or IN (…)")
    if costs.made > _MOST:
        raise RecipeError(
            f"its functions make up to {costs.made} characters a row, and {_MOST} are allowed (a "
            f"text counts as {_ANY_LENGTH}, {_STEPS} steps of a distance as one): write text[:100]"
        )


class Costs:
    """The sizes of all parts of a condition, and the total they produce."""

    def __init__(self, tree: exp.Expression, texts: frozenset[str] = LONG_COLUMNS) -> None:
        self._texts = texts
        self.made = 0  # characters produced per row by all functions
        self.depth = 0  # depth of the tree, not counting chains of ANDs or ORs
        self.copies = 0  # most bytes produced per byte of a text
        self.sizes: dict[int, Size] = {}  # by the id of a node
        depths: dict[int, int] = {}
        for node in reversed(list(tree.walk())):
            below = max((depths[id(part)] for part in node.iter_expressions()), default=0)
            self.depth = depths[id(node)] = below + (type(node).__name__ not in ("And", "Or"))
            size = self._size(node)
            if type(node).__name__ not in ("Column", "Literal", "Paren"):
                self._make(size)
            self.sizes[id(node)] = size

    def _make(self, size: Size) -> None:
        made = size.chars * (_LIST if size.is_list and size.is_long else 1)
        self.made += made
        self.copies += made // _ANY_LENGTH if size.is_long else 0

    def _size(self, node: Any) -> Size:
        from sqlglot import exp

        kind, parts = type(node).__name__, list(node.iter_expressions())
        sizes = [self.sizes[id(part)] for part in parts]
        total = Size(
            sum(s.chars for s in sizes), any(s[1] for s in sizes), any(s[2] for s in sizes)
        )
        if kind == "Column":
            name = node.name.lower()
            is_list = name in ("taxonomy", "meta")
            is_long = is_list or name in self._texts
            return Size(_ANY_LENGTH if is_long else _NUMBER, is_long, is_list)
        if kind == "Literal":
            return Size(len(node.name))
        if kind in ("Cast", "TryCast"):
            if not node.is_type("text", "varchar", "char"):
                return Size()
            return Size(total.chars * (3 if total.is_list else 1) + _NUMBER, total.is_long)
        if kind == "Bracket":
            inner, index = sizes[0], parts[1]
            start, end = index.args.get("this"), index.args.get("expression")
            if type(index).__name__ != "Slice":
                return inner._replace(is_list=False)
            return _cut(inner, end) if start is None or _integer(start) is not None else inner
        if kind == "Anonymous" and parts:
            return self._function(node, node.name.lower(), parts, sizes, total)
        if kind in _STARS:
            _check_stars(node, kind)
        elif kind == "SimilarTo":
            self._check_regex(node, sizes[0], parts[1], repeated=False)
        elif kind == "In" and node.args.get("field") and not sizes[1].is_list:
            _check_short(sizes[0], "what is looked for", node)
        if isinstance(node, exp.Predicate | exp.Interval | exp.Binary | exp.Unary | exp.Extract):
            return total if kind in ("DPipe", "Dot", "Paren") else Size()
        return total._replace(is_list=True) if kind == "Array" else total

    def _function(
        self, node: Any, name: str, args: list[Any], sizes: list[Size], total: Size
    ) -> Size:
        """Return the size of a function's result, checking functions that take many steps."""
        first, growth = sizes[0], GROWTH.get(name, _LIST)
        if name in _DISTANCES:
            for size in sizes:
                _check_short(size, "each text", node)
            self.made += int(_DISTANCES[name] * first.chars * sizes[-1].chars / _STEPS)
        elif name in _SEARCHES and len(args) > 1 and not first.is_list:
            _check_short(sizes[1], "what is looked for", node)
        elif name in _REGEXES and len(args) > 1:
            options = args[3:] if name == "regexp_replace" else []
            repeated = any(not part.is_string or "g" in part.name for part in options)
            self._check_regex(node, first, args[1], repeated=repeated or name in SPLITS)
        elif name in ("strptime", "try_strptime"):
            fixed = all(part.is_string and "%z" not in part.name.lower() for part in args[1:])
            _check(fixed, "a format is quoted and without a time zone", node)
        if name in _SHORTENED:
            return Size(_FIXED)
        if len(args) - 1 == _CUTS.get(name):
            return _cut(first, args[-1])
        if name in _PUT_IN and len(args) > 2:
            _check_short(sizes[2], "what is put in", node)
            growth += sizes[2].chars
            if name == "replace" and args[1].is_string:
                growth = max(1, -(-sizes[2].chars // max(1, len(args[1].name))))
        is_list = name in LISTS or (name in _EITHER and total.is_list)
        return Size(total.chars * growth, total.is_long, is_list)

    def _check_regex(self, node: Any, text: Size, pattern: Any, *, repeated: bool) -> None:
        pattern, counts = pattern.unnest(), 1
        fixed = pattern.is_string and len(pattern.name) <= SHORT
        _check(fixed, f"a regular expression is quoted text of at most {SHORT} characters", node)
        for least, most in _COUNTED.findall(pattern.name):
            many = len(least + most) > 8
            counts *= SHORT + 1 if many else max(1, int(least or 0), int(most or 0))
        _check(counts <= SHORT, f"it repeats more than {SHORT} times", node)
        if repeated:
            self._make(text._replace(is_list=True))
            if _ENDLESS.search(pattern.name) and not _ONE_ATOM.fullmatch(pattern.name):
                _check_short(text, "what is searched again and again for a* beside others", node)


def _check(holds: bool, why: str, node: Any) -> None:
    if not holds:
        raise RecipeError(f"{why}: {sql_of(node)}")


def _check_short(size: Size, what: str, node: Any) -> None:
    is_short = not size.is_long and size.chars <= SHORT
    _check(is_short, f"{what} has at most {SHORT} characters, as in text[:{SHORT}]", node)


def _check_stars(node: Any, kind: str) -> None:
    """Refuse patterns for which DuckDB tries every position for each of several stars."""
    pattern, star = node.expression.unnest(), _STARS[kind]
    why = "a pattern is quoted text (contains(), starts_with(), ends_with() take a computed one)"
    _check(pattern.is_string and len(pattern.name) <= SHORT, why, node)
    plain = kind == "Like" and "_" not in pattern.name and type(node.parent).__name__ != "Escape"
    why = f"a text is searched anew for each {star} before the last: write regexp_matches(text, …)"
    _check(plain or pattern.name.rstrip(star).count(star) < 2, why, node)


def _cut(size: Size, end: Any) -> Size:
    """Return the size of a value cut after so many characters."""
    chars = _integer(end)
    if chars is None or size.is_list:
        return size
    return Size(chars if size.is_long else min(chars, size.chars))


def _integer(node: Any) -> int | None:
    """Return a literal non-negative integer, else None."""
    literal = node is not None and type(node).__name__ == "Literal" and not node.is_string
    return int(node.name) if literal and node.name.isdigit() and len(node.name) < 10 else None


def sql_of(node: Any) -> str:
    """Return the SQL of a node, cut for messages."""
    from sqlglot.dialects.duckdb import DuckDB

    return short(node.sql(dialect=DuckDB))
