"""Refuse conditions whose functions may take too many steps, or produce too much text.

The cost of a condition is limited before it runs. DuckDB stops a statement only between vectors of
2,048 rows, and does not limit the texts that functions produce. So a function whose time grows with
two texts (a distance, a search, a replacement) needs one short text, and copies of a text are few.

Checks raise a bare reason; ``parse`` adds the condition.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from duckplets.conditions.allowed import FUNCTIONS, GROWTH, LISTS, SPLITS, short
from duckplets.errors import RecipeError

if TYPE_CHECKING:
    from sqlglot import exp

SHORT = 500  # characters of a text that a function may search for everywhere in another
LONG_COLUMNS = frozenset({"record_id", "group_key", "heading", "text"})
PIECES = {"DataType", "DataTypeParam", "Identifier", "If", "Slice", "Var"}  # not values

_LONGEST_CHAIN = 100  # links of a chain such as a::int::int, which has no brackets
_MOST = 10_000  # characters produced per row by all functions of a condition
_ANY_LENGTH = 50  # assumed for a text of unknown length: 200 copies of it are allowed
_LIST = 40  # bytes of a list per character: each may be an element
_NUMBER = 40  # characters of a number, a date, an interval
_FIXED = 64  # characters of a digest or of the name of a day
_STEPS = 25  # per character, for distances: 2,048 rows of them take three seconds

_DISTANCES = {
    "levenshtein": 1,
    "damerau_levenshtein": 3,
    "jaro_similarity": 0.1,
    "jaro_winkler_similarity": 0.1,
}
_REGEXES = frozenset(n for n in FUNCTIONS if "regex" in n) - {"regexp_escape"}
_SEARCHES = SPLITS - _REGEXES | {"contains", "instr", "replace", "split_part", "strpos"}
_CUTS = {"left": 1, "right": 1, "substr": 2, "substring": 2}  # and the argument with the length
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
            f"its functions produce up to {costs.made} characters a row; the limit is {_MOST} "
            f"(a text counts as {_ANY_LENGTH}, {_STEPS} steps of a distance as 1): write text[:100]"
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
            _check_short(sizes[0], "the searched text", node)
        if isinstance(node, exp.Predicate | exp.Interval | exp.Binary | exp.Unary | exp.Extract):
            return total if kind in ("DPipe", "Dot", "Paren") else Size()
        return total._replace(is_list=True) if kind == "Array" else total

    def _function(
        self, node: Any, name: str, args: list[Any], sizes: list[Size], total: Size
    ) -> Size:
        """Return the size of the result of a function, and check functions with many steps."""
        first, growth = sizes[0], GROWTH.get(name, _LIST)
        if name in _DISTANCES:
            for size in sizes:
                _check_short(size, "each text", node)
            self.made += int(_DISTANCES[name] * first.chars * sizes[-1].chars / _STEPS)
        elif name in _SEARCHES and len(args) > 1 and not first.is_list:
            _check_short(sizes[1], "the searched text", node)
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
            _check_short(sizes[2], "the replacement", node)
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
            is_huge = len(least + most) > 8
            counts *= SHORT + 1 if is_huge else max(1, int(least or 0), int(most or 0))
        _check(counts <= SHORT, f"it repeats more than {SHORT} times", node)
        if repeated:
            self._make(text._replace(is_list=True))
            if _ENDLESS.search(pattern.name) and not _ONE_ATOM.fullmatch(pattern.name):
                _check_short(text, "a text that is searched repeatedly for a* and more", node)


def _check(fits: bool, why: str, node: Any) -> None:
    if not fits:
        raise RecipeError(f"{why}: {sql_of(node)}")


def _check_short(size: Size, noun: str, node: Any) -> None:
    is_short = not size.is_long and size.chars <= SHORT
    _check(is_short, f"{noun} has at most {SHORT} characters, as in text[:{SHORT}]", node)


def _check_stars(node: Any, kind: str) -> None:
    """Refuse patterns with several stars: DuckDB tries every position for each of them."""
    pattern, star = node.expression.unnest(), _STARS[kind]
    why = "a pattern is quoted text (contains(), starts_with(), ends_with() take a computed one)"
    _check(pattern.is_string and len(pattern.name) <= SHORT, why, node)
    plain = kind == "Like" and "_" not in pattern.name and type(node.parent).__name__ != "Escape"
    why = f"each {star} before the last searches the text again: write regexp_matches(text, …)"
    _check(plain or pattern.name.rstrip(star).count(star) < 2, why, node)


def _cut(size: Size, end: Any) -> Size:
    """Return the size of a value cut after ``end`` characters."""
    chars = _integer(end)
    if chars is None or size.is_list:
        return size
    return Size(chars if size.is_long else min(chars, size.chars))


def _integer(node: Any) -> int | None:
    """Return a literal non-negative integer, or None."""
    literal = node is not None and type(node).__name__ == "Literal" and not node.is_string
    return int(node.name) if literal and node.name.isdigit() and len(node.name) < 10 else None


def sql_of(node: Any) -> str:
    """Return the SQL of a node, cut for messages."""
    from sqlglot.dialects.duckdb import DuckDB

    return short(node.sql(dialect=DuckDB))
