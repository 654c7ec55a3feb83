"""Compiles a mapping to the one SELECT that turns a table of input into rows.

Input is an Arrow table named ``input`` with ``row``, ``fault`` and ``modified``, and either one
column ``line`` of JSON or typed columns ``c0, c1, …``, one for each name of the mapping. Three
levels lie over it: *cells* makes every used column text (or a list of texts), *mapped* gives
cells their parts, and ``sql/sources/rows.sql`` checks and hashes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp, parse_one

from duckplets.queries import query

# Everything that is whitespace to Python's str.isspace; RE2's \s knows ASCII only.
_FILLED = (
    r"[^\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)


_PAIRS = "STRUCT(key VARCHAR, value VARCHAR)[]"


@dataclass(frozen=True, slots=True)
class TypedCells:
    """Cells of typed columns.

    Attributes:
        shapes: For each name of the mapping ``text``, ``binary``, ``nested``, ``list`` (of
            plain values) or ``nested list``.
    """

    shapes: tuple[str, ...]

    def origin(self) -> exp.Expression:
        """Return what the cells are selected from."""
        return exp.to_table("input")

    def text(self, place: int) -> exp.Expression:
        """Return the cell as text."""
        column, shape = exp.column(f"c{place}"), self.shapes[place]
        if shape == "text":
            return _text(column)
        if shape == "binary":
            return _call("try", _call("decode", column))
        return _text(_call("to_json", column))

    def may_be_list(self, place: int) -> bool:
        """Return whether the cell can hold several texts."""
        return self.shapes[place] in ("list", "nested list")

    def items(self, place: int) -> exp.Expression:
        """Return the cell as a list of texts, one where it is no list."""
        column, shape = exp.column(f"c{place}"), self.shapes[place]
        if shape == "list":
            return exp.cast(column, "VARCHAR[]", dialect="duckdb")
        if shape == "nested list":
            return _each(_text(_call("to_json", exp.column("x"))), column)
        return exp.Array(expressions=[self.text(place)])


@dataclass(frozen=True, slots=True)
class JsonCells:
    """Cells of JSON objects, all read in one pass.

    Every JSON function of a statement sets aside four times the longest line, so one serves for
    all the values: with three a line of 50 MB needed more than 1 GB.

    Attributes:
        keys: For each name of the mapping the key in the objects.
    """

    keys: tuple[str, ...]

    def origin(self) -> exp.Expression:
        """Return what the cells are selected from."""
        pointers = [self._pointer(place) for place in range(len(self.keys))]
        document = exp.column("document")
        texts = _call("json_extract_string", document, exp.Array(expressions=pointers))
        select = _kept().select(document.copy(), exp.alias_(texts, "texts"))
        return select.from_(_statement("sources/documents").subquery("documents")).subquery("read")

    def text(self, place: int) -> exp.Expression:
        """Return the value as text: a string as it is, anything else as JSON."""
        return _call("list_extract", exp.column("texts"), exp.Literal.number(place + 1))

    def may_be_list(self, place: int) -> bool:
        """Return whether the value can hold several texts: any may."""
        return place < len(self.keys)

    def items(self, place: int) -> exp.Expression:
        """Return an array's elements as texts, or the one value that is no array."""
        looks = _call("starts_with", self.text(place), exp.Literal.string("["))
        kind = _call("json_type", exp.column("document"), self._pointer(place))
        is_array = exp.case().when(looks, kind).eq(exp.Literal.string("ARRAY"))
        elements = _call("json_extract_string", self.text(place), exp.Literal.string("$[*]"))
        return exp.case().when(is_array, elements).else_(exp.Array(expressions=[self.text(place)]))

    def _pointer(self, place: int) -> exp.Expression:
        key = self.keys[place].replace("~", "~0").replace("/", "~1")
        return exp.Literal.string(f"/{key}")


Cells = TypedCells | JsonCells
Parts = tuple[tuple[str, tuple[str, ...]], ...]


@lru_cache(maxsize=64)
def rows_statement(parts: Parts, cells: Cells) -> str:
    """Return the SELECT from ``input`` to rows, for the mapping's parts and cells."""
    columns = dict(parts)
    names = tuple(dict.fromkeys(name for _, given in parts for name in given))
    place = {name: i for i, name in enumerate(names)}
    places = {part: [place[name] for name in columns[part]] for part in columns}
    lists = {i for i in places["context"] if cells.may_be_list(i)}
    select = _mapped(places, names, lists)
    lists.update(places["taxonomy"])
    select = select.from_(_cells(cells, len(names), lists).subquery("cells"))
    tree = _statement("sources/rows")
    for table in list(tree.find_all(exp.Table)):
        if table.name == "mapped":
            table.replace(select.subquery("mapped"))
    return tree.sql(dialect="duckdb", comments=False)


def _cells(cells: Cells, count: int, lists: set[int]) -> exp.Select:
    """Return t0, t1, … (NULL where blank), and of ``lists`` l0, … without their blanks."""
    raw, filled = _kept(), _kept()
    for place in range(count):
        name = f"t{place}"
        raw = raw.select(exp.alias_(cells.text(place), name))
        text = exp.case().when(_filled(exp.column(name)), exp.column(name))
        filled = filled.select(exp.alias_(text, name))
    for place in sorted(lists):
        name = f"l{place}"
        raw = raw.select(exp.alias_(cells.items(place), name))
        kept = _each(exp.column("x"), exp.column(name), _filled(exp.column("x")))
        filled = filled.select(exp.alias_(_call("coalesce", kept, exp.Array()), name))
    return filled.from_(raw.from_(cells.origin()).subquery("raw"))


def _mapped(parts: dict[str, list[int]], names: tuple[str, ...], lists: set[int]) -> exp.Select:
    none = exp.cast(exp.Array(), "VARCHAR[]", dialect="duckdb")
    columns = {
        "id": _first(parts["id"]),
        "sections": _sections(parts, names, lists),
        "date_text": _call("trim", _first(parts["date"])),
        "group_text": _first(parts["group"]),
        "taxonomy": _call("list_concat", none, *(_list(place) for place in parts["taxonomy"])),
        "meta": _meta(parts["meta"], names),
        "trust_text": _call("trim", _first(parts["trust"])),
        "lack": _lack(parts, names, lists),
    }
    return _kept().select(*(exp.alias_(value, name) for name, value in columns.items()))


def _kept() -> exp.Select:
    return exp.select(*(exp.column(name, quoted=True) for name in ("row", "fault", "modified")))


def _sections(
    parts: dict[str, list[int]], names: tuple[str, ...], lists: set[int]
) -> exp.Expression:
    """Return the list of sections: anchor, positive or text, then the contexts."""
    found: list[exp.Expression] = []
    for part in ("anchor", "positive", "text"):
        if places := parts[part]:
            role = "anchor" if part == "anchor" else "context"
            heading = exp.case()
            for place in places:
                heading = heading.when(_is_there(place), exp.Literal.string(names[place]))
            found.append(_section(role, heading, _first(places)))
    for place in parts["context"]:
        text = exp.column("x") if place in lists else _text_of(place)
        section = _section("context", exp.Literal.string(names[place]), text)
        found.append(_each(section, _list(place)) if place in lists else section)
    return _joined(found)


def _meta(places: list[int], names: tuple[str, ...]) -> exp.Expression:
    """Return the pairs of the columns that are not blank, by key: their order is hashed."""
    pairs = [
        _struct(key=exp.Literal.string(names[place]), value=_text_of(place))
        for place in sorted(set(places), key=lambda place: names[place])
    ]
    there = exp.column("value", table="x").is_(exp.null()).not_()
    array = exp.cast(exp.Array(expressions=pairs), _PAIRS, dialect="duckdb")
    return _each(exp.column("x"), array, there)


def _lack(parts: dict[str, list[int]], names: tuple[str, ...], lists: set[int]) -> exp.Expression:
    case = exp.case()
    for part in ("id", "anchor", "positive", "text"):
        if parts[part]:
            missing = _first(parts[part]).is_(exp.null())
            case = case.when(missing, exp.Literal.string(f"no {part}"))
    for place in parts["context"]:
        empty = _call("len", _list(place)).eq(exp.Literal.number(0))
        blank = empty if place in lists else _text_of(place).is_(exp.null())
        case = case.when(blank, exp.Literal.string(f"no context: {names[place]}"))
    return case


def _first(places: list[int]) -> exp.Expression:
    """Return the first of some columns that is not blank, else NULL."""
    if not places:
        return exp.cast(exp.null(), "VARCHAR")
    return _call("coalesce", *(_text_of(place) for place in places))


def _is_there(place: int) -> exp.Expression:
    return _text_of(place).is_(exp.null()).not_()


def _text_of(place: int) -> exp.Expression:
    return exp.column(f"t{place}")


def _list(place: int) -> exp.Expression:
    return exp.column(f"l{place}")


def _joined(sections: list[exp.Expression]) -> exp.Expression:
    """Return one list of sections and lists of sections."""
    runs: list[exp.Expression] = []
    for section in sections:
        if isinstance(section, exp.Array):
            runs.append(section)
        elif runs and isinstance(runs[-1].expressions[0], exp.Struct):
            runs[-1].append("expressions", section)
        else:
            runs.append(exp.Array(expressions=[section]))
    # list_concat copies every text, which takes as long as hashing them.
    return runs[0] if len(runs) == 1 else _call("list_concat", *runs)


def _each(
    value: exp.Expression, values: exp.Expression, condition: exp.Expression | None = None
) -> exp.Expression:
    """Return ``[value FOR x IN values IF condition]``."""
    loop = exp.Comprehension(this=value, expression=exp.to_identifier("x"), iterator=values)
    if condition is not None:
        loop.set("condition", condition)
    return exp.Array(expressions=[loop])


def _section(role: str, heading: exp.Expression, text: exp.Expression) -> exp.Expression:
    return _struct(role=exp.Literal.string(role), heading=heading, text=text)


def _struct(**fields: exp.Expression) -> exp.Expression:
    named: Iterable[exp.Expression] = (
        exp.PropertyEQ(this=exp.to_identifier(name), expression=value)
        for name, value in fields.items()
    )
    return exp.Struct(expressions=list(named))


def _filled(value: exp.Expression) -> exp.Expression:
    return _call("regexp_matches", value, exp.Literal.string(_FILLED))


def _text(value: exp.Expression) -> exp.Expression:
    return exp.cast(value, "VARCHAR")


def _call(function: str, *arguments: exp.Expression) -> exp.Expression:
    # Anonymous, so that sqlglot prints the name as it is and leaves JSON pointers alone.
    return exp.Anonymous(this=function, expressions=list(arguments))


def _statement(name: str) -> exp.Select:
    tree = parse_one(query(name), dialect="duckdb")
    assert isinstance(tree, exp.Select), name  # noqa: S101 - a fact about our own file
    return tree
