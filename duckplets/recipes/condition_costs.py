"""Bound what a condition can cost before it runs: how long the texts it makes, how many its steps.

DuckDB stops a statement only between vectors of 2,048 rows, and does not count against its memory
limit what functions make of texts. So what grows with two texts at once (a distance, a search for
a text in another, a replacement by one) takes only one that is short; and a condition makes no
more than some copies of a text. Each value is bounded by so many characters of its own and so many
times the longest text of a row.

Checks raise a bare reason, as those of ``condition_rules``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from duckplets.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import exp

SHORT = 500  # characters of a text that a function may compare with another in all its places

_MOST_CHARACTERS = 10_000  # that all functions of a condition make, but for copies of the text
_MOST_COPIES = 200
_MOST_STEPS = SHORT * SHORT  # of distances: 2,048 rows of them take three seconds
_LIST = 40  # bytes that a list takes for a character: each may be an element
_NUMBER = 40  # characters of a number, a date, an interval


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LONG_COLUMNS = _words("record_id group_key heading text")
_LISTS = _words("taxonomy meta")
_SMALL = _words(
    "ascii bit_length char_length character_length contains damerau_levenshtein ends_with hamming "
    "instr jaccard jaro_similarity jaro_winkler_similarity len length length_grapheme levenshtein "
    "mismatches ord prefix regexp_full_match regexp_matches starts_with strlen strpos suffix "
    "unicode array_contains array_has array_has_all array_has_any array_length array_position "
    "cardinality list_avg list_contains list_count list_has list_has_all list_has_any list_indexof "
    "list_position list_sum list_unique map_contains map_contains_entry map_contains_value century "
    "date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day "
    "dayname dayofmonth dayofweek dayofyear decade epoch hour isodow isoyear julian last_day "
    "make_date make_time make_timestamp microsecond millisecond minute month monthname quarter "
    "second strptime time_bucket to_days to_hours to_minutes to_months to_seconds to_weeks "
    "to_years try_strptime week weekday weekofyear year yearweek abs cbrt ceil ceiling exp fdiv "
    "floor fmod gcd isfinite isinf isnan lcm ln log log10 log2 mod pi pow power round sign sqrt "
    "trunc chr md5 sha1 sha256"
)
_SPLITS = _words(
    "regexp_extract_all regexp_split_to_array split str_split str_split_regex string_split "
    "string_split_regex string_to_array"
)
_MAKES_LISTS = _words(
    "array_slice flatten list_append list_concat list_reverse list_slice list_value map_entries "
    "map_keys map_values map_extract"
)
_TAKES_OUT = _words(
    "array_extract element_at list_element list_extract list_first list_last list_max list_min "
    "map_extract_value"
)
_CHOOSES = _words("coalesce if ifnull nullif greatest least")
# How much longer a text can get, or what DuckDB needs meanwhile.
_GROWTH = {
    **dict.fromkeys(("lcase", "lower", "ucase", "upper", "regexp_escape"), 2),
    **dict.fromkeys(("nfc_normalize", "strip_accents"), 8),
    "translate": 4,
    "url_encode": 3,
    "split_part": _LIST,
}
_DISTANCES = {
    "levenshtein": 1,
    "damerau_levenshtein": 3,
    "jaro_similarity": 0.1,
    "jaro_winkler_similarity": 0.1,
}
_SEARCHES = _words(
    "contains instr replace split split_part str_split string_split string_to_array strpos"
)
_REGEXES = _words(
    "regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace "
    "regexp_split_to_array str_split_regex string_split_regex"
)
_REPEATED = _words("regexp_extract_all regexp_split_to_array str_split_regex string_split_regex")
_MATCHES = {"Like": "%", "ILike": "%", "Glob": "*"}
_ENDLESS = re.compile(r"(?<!\\)(?:\\\\)*[*+]|\{\d*,\}")
_ONE_ATOM = re.compile(r"(?:\\.|\[\^?\]?[^\]]*\]|[^\\\[(|])[*+]")
_COUNTED = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_WIDTH = re.compile(r"\d+")


class Bound(NamedTuple):
    """How long a value can be.

    Attributes:
        chars: Characters, apart from copies.
        copies: Times the longest text of the row.
        width: Bytes for each character: more than one for lists.
    """

    chars: int = 0
    copies: int = 0
    width: int = 1

    @property
    def is_short(self) -> bool:
        """Whether it may be compared with another in all its places."""
        return self.copies == 0 and self.chars <= SHORT


_NOTHING = Bound()


def check_costs(tree: exp.Expression, texts: frozenset[str] = LONG_COLUMNS) -> None:
    """Refuse a condition whose functions may take too many steps or make too much text.

    Args:
        tree: The condition.
        texts: Columns of texts of any length.
    """
    found = _Costs(tree, texts)
    if found.steps > _MOST_STEPS:
        raise RecipeError(
            f"its distances take {found.steps} steps a row, and {_MOST_STEPS} are allowed: compare "
            f"shorter texts, such as text[:100]"
        )
    if found.chars > _MOST_CHARACTERS:
        raise RecipeError(
            f"its functions can make {found.chars} characters a row, and {_MOST_CHARACTERS} are "
            f"allowed"
        )
    if found.copies > _MOST_COPIES:
        raise RecipeError(
            f"its functions can make {found.copies} times a text, and {_MOST_COPIES} times are "
            f"allowed: use fewer of them, or text[:{SHORT}]"
        )


def copies_of(tree: exp.Expression) -> int:
    """Return how many bytes a checked condition makes, at most, of each byte of a text."""
    return _Costs(tree).copies


def bounds_of(tree: exp.Expression) -> dict[int, Bound]:
    """Return by the id of a node how long its value can be, for a checked condition."""
    return _Costs(tree).bounds


class _Costs:
    """The bounds of all parts of a condition, and what they make together."""

    def __init__(self, tree: exp.Expression, texts: frozenset[str] = LONG_COLUMNS) -> None:
        self._texts = texts
        self.steps = self.chars = self.copies = 0
        self.bounds: dict[int, Bound] = {}
        for node in reversed(list(tree.walk())):
            name = type(node).__name__
            rule = getattr(self, f"_{name.lower()}", None)
            bound = rule(node) if rule is not None else _NOTHING
            if name not in ("Column", "Literal", "Paren"):
                self.chars += bound.chars
                self.copies += bound.copies * bound.width
            self.bounds[id(node)] = bound

    def _of(self, node: Any) -> Bound:
        return self.bounds.get(id(node), _NOTHING)

    def _column(self, node: Any) -> Bound:
        name = node.name.lower()
        if name in _LISTS:
            return Bound(0, 1, _LIST)
        return Bound(0, 1) if name in self._texts else Bound(_NUMBER)

    def _literal(self, node: Any) -> Bound:
        return Bound(len(node.name))

    def _paren(self, node: Any) -> Bound:
        return self._of(node.this)

    def _cast(self, node: Any) -> Bound:
        inner, to = self._of(node.this), str(getattr(node.args["to"].this, "name", ""))
        if to not in ("CHAR", "VARCHAR", "TEXT"):
            return _NOTHING
        return Bound(inner.chars + _NUMBER, inner.copies * (1 if inner.width == 1 else 3))

    _trycast = _cast

    def _dpipe(self, node: Any) -> Bound:
        return _sum([self._of(node.this), self._of(node.expression)])

    def _array(self, node: Any) -> Bound:
        return _sum([self._of(part) for part in node.expressions])._replace(width=_LIST)

    def _case(self, node: Any) -> Bound:
        values = [part.args.get("true") for part in node.args.get("ifs") or []]
        return _widest([self._of(part) for part in (*values, node.args.get("default"))])

    def _bracket(self, node: Any) -> Bound:
        inner = self._of(node.this)
        (index, *_) = node.expressions or [None]
        if type(index).__name__ != "Slice":
            return inner._replace(width=1)
        start, end = index.this, index.args.get("expression")
        if inner.width == 1 and (start is None or _integer(start) is not None):
            return _cut(inner, _integer(end))
        return inner

    def _in(self, node: Any) -> Bound:
        field = node.args.get("field")
        if field is not None and self._of(field).width == 1:
            self._search(node, self._of(field), self._of(node.this), "what is looked for")
        return _NOTHING

    def _like(self, node: Any) -> Bound:
        """Refuse patterns that DuckDB tries in all places of a text for each of several stars."""
        text, pattern = self._of(node.this), node.expression.unnest()
        if not pattern.is_string:
            raise RecipeError(
                f"a pattern is quoted text: {_sql(node)}; contains(), starts_with() and "
                f"ends_with() look for a computed one"
            )
        kind = type(node).__name__
        escaped = type(node.parent).__name__ == "Escape"
        star, name = _MATCHES[kind], pattern.name
        stars = 0 if kind == "Like" and "_" not in name and not escaped else _stars(name, star)
        if len(name) > SHORT or stars > (2 if text.is_short else 1):
            raise RecipeError(
                f"a text is searched anew for each {star} before the last, so {_sql(node)} takes "
                f"too long: write regexp_matches(text, …), or lower(text) LIKE … without _"
            )
        return _NOTHING

    _ilike = _glob = _like

    def _similarto(self, node: Any) -> Bound:
        self._regex(node, self._of(node.this), node.expression, repeated=False)
        return _NOTHING

    def _anonymous(self, node: Any) -> Bound:
        name, args = node.name.lower(), node.expressions
        bounds = [self._of(arg) for arg in args]
        self._check(node, name, args, bounds)
        if name in _SMALL:
            return Bound(64) if name in ("chr", "md5", "sha1", "sha256", "dayname") else _NOTHING
        if name in ("format", "printf"):
            return _formatted(node, name, args, bounds)
        if name == "strftime":
            return _strftime(node, bounds)
        if name in ("left", "right") and len(args) == 2:
            return _cut(bounds[0], _integer(args[1]))
        if name in ("substr", "substring") and len(args) == 3:
            return _cut(bounds[0], _integer(args[2]))
        if name in _TAKES_OUT:
            return bounds[0]._replace(width=1) if bounds else _NOTHING
        if name in _CHOOSES:
            return _widest(bounds)
        return self._grown(node, name, args, bounds)

    def _grown(self, node: Any, name: str, args: Sequence[Any], bounds: list[Bound]) -> Bound:
        """Return the bound of functions that make longer texts of texts, or lists of them."""
        first = bounds[0] if bounds else _NOTHING
        if name in _SPLITS:
            return first._replace(width=_LIST)
        if name in ("replace", "regexp_replace") and len(bounds) > 2:
            return self._replaced(node, name, args, bounds)
        if name == "array_to_string":
            between = bounds[1].chars if len(bounds) > 1 else 0
            self._short(node, bounds[1:2], "what stands between")
            return Bound(first.chars * (1 + between), first.copies * (1 + between))
        if name == "concat_ws":
            self._short(node, bounds[:1], "what stands between")
            total = _sum(bounds[1:])
            return Bound(total.chars + first.chars * len(bounds), total.copies)
        total = _sum(bounds if name in _MAKES_LISTS | {"concat"} else bounds[:1])
        if name in _MAKES_LISTS:
            return total._replace(width=_LIST)
        growth = _GROWTH.get(name, 1)
        # What is on no list is taken for a copy of all that it is given.
        total = total if name in _GROWTH or name == "concat" else _sum(bounds)
        return Bound(total.chars * growth, total.copies * growth, total.width)

    def _replaced(self, node: Any, name: str, args: Sequence[Any], bounds: list[Bound]) -> Bound:
        first, new = bounds[0], bounds[2]
        self._short(node, [new], "what is put in")
        growth = 1 + new.chars
        if name == "replace":
            old = args[1].unnest()
            size = max(1, len(old.name)) if old.is_string else 1
            growth = max(1, -(-new.chars // size))
        return Bound(first.chars * growth, first.copies * growth)

    def _check(self, node: Any, name: str, args: Sequence[Any], bounds: list[Bound]) -> None:
        """Refuse what takes more steps than there are characters of long texts."""
        if name in _DISTANCES:
            self._short(node, bounds, "each text")
            if len(bounds) > 1:
                self.steps += int(_DISTANCES[name] * bounds[0].chars * bounds[1].chars)
        elif name in _SEARCHES and len(bounds) > 1 and bounds[0].width == 1:
            self._search(node, bounds[0], bounds[1], "what is looked for")
        elif name in _REGEXES and len(args) > 1:
            options = args[3:] if name == "regexp_replace" else []
            repeated = any(not part.is_string or "g" in part.name for part in options)
            self._regex(node, bounds[0], args[1], repeated=repeated or name in _REPEATED)

    def _search(self, node: Any, text: Bound, wanted: Bound, what: str) -> None:
        if not text.is_short:
            self._short(node, [wanted], what)

    def _short(self, node: Any, bounds: Sequence[Bound], what: str) -> None:
        if not all(bound.is_short for bound in bounds):
            raise RecipeError(
                f"{what} has at most {SHORT} characters, as in text[:{SHORT}]: {_sql(node)}"
            )

    def _regex(self, node: Any, text: Bound, pattern: Any, *, repeated: bool) -> None:
        pattern = pattern.unnest()
        if not pattern.is_string or len(pattern.name) > SHORT:
            raise RecipeError(
                f"a regular expression is quoted text of at most {SHORT} characters: {_sql(node)}"
            )
        counts = 1
        for least, most in _COUNTED.findall(pattern.name):
            many = len(least + most) > 8
            counts *= SHORT + 1 if many else max(1, int(least or 0), int(most or 0))
        if counts > SHORT:
            raise RecipeError(f"it repeats {counts} times, and {SHORT} are allowed: {_sql(node)}")
        if repeated:
            self.copies += _LIST * text.copies
        endless = _ENDLESS.search(pattern.name) and not _ONE_ATOM.fullmatch(pattern.name)
        if repeated and endless and not text.is_short:
            raise RecipeError(
                f"a regular expression that is looked for again and again, with * or + beside "
                f"other things, takes texts of at most {SHORT} characters, as in "
                f"text[:{SHORT}]: {_sql(node)}"
            )


def _formatted(node: Any, name: str, args: Sequence[Any], bounds: list[Bound]) -> Bound:
    """Return the bound of ``format`` and ``printf``, whose widths are written out and small."""
    pattern = args[0].unnest() if args else None
    if pattern is None or not pattern.is_string:
        raise RecipeError(f"the format is quoted text: {_sql(node)}")
    text = pattern.name
    computed = re.search(r"\{[^{}]*\{" if name == "format" else r"%[^a-zA-Z%]*\*", text)
    if computed or any(len(number) > 3 for number in _WIDTH.findall(text)):
        raise RecipeError(f"widths are written out, and below 1000: {_sql(node)}")
    places = text.count("{" if name == "format" else "%")
    given = _widest(bounds[1:])
    # A double in full has 309 digits.
    chars = len(text) + sum(map(int, _WIDTH.findall(text))) + places * (350 + given.chars)
    return Bound(chars, given.copies * places)


def _strftime(node: Any, bounds: list[Bound]) -> Bound:
    if any(bound.copies for bound in bounds):
        raise RecipeError(f"the format is quoted text: {_sql(node)}")
    return Bound(_NUMBER * sum(bound.chars for bound in bounds) // 2)


def _cut(bound: Bound, chars: int | None) -> Bound:
    """Return the bound of the first so many characters of a text."""
    if chars is None:
        return bound
    return Bound(chars if bound.copies else min(chars, bound.chars))


def _integer(node: Any) -> int | None:
    """Return a literal number from 0, else None."""
    literal = node is not None and type(node).__name__ == "Literal" and not node.is_string
    return int(node.name) if literal and node.name.isdigit() and len(node.name) < 10 else None


def _sum(bounds: Sequence[Bound]) -> Bound:
    width = max((bound.width for bound in bounds), default=1)
    return Bound(sum(b.chars for b in bounds), sum(b.copies for b in bounds), width)


def _widest(bounds: Sequence[Bound]) -> Bound:
    return Bound(*map(max, zip(*bounds, strict=True))) if bounds else _NOTHING


def _stars(pattern: str, star: str) -> int:
    """Return for how many stars of a pattern all places of a text are tried."""
    return pattern.rstrip(star).count(star)


def _sql(node: Any) -> str:
    from sqlglot.dialects.duckdb import DuckDB

    text = node.sql(dialect=DuckDB)
    return text if len(text) <= 80 else f"{text[:79]}…"
