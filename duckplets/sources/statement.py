"""Compile a mapping to the one SELECT that turns a table of input into rows.

Input is an Arrow table named ``input`` with ``row``, ``fault`` and ``modified``, and typed columns
``c0, c1, …``, one for each name of the mapping. Three levels lie over it: *cells* makes every used
column text (or a list of texts), *mapped* gives cells their parts, and ``sql/sources/rows.sql``
checks and hashes. Lines of JSON first become such a table by a statement of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from duckplets.sources.base import GIVEN
from duckplets.sources.expressions import (
    Parts,
    as_text,
    call,
    each,
    filled,
    filled_in,
    having,
    kept,
    names_of,
    section,
    statement,
    struct,
)

_PAIRS = "STRUCT(key VARCHAR, value VARCHAR)[]"


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of typed columns.

    Attributes:
        shapes: For each name of the mapping ``text``, ``binary``, ``nested``, ``list`` (of
            plain values), ``nested list``, ``both``: a column of texts and one of lists, or
            ``moment``: a timestamp with a zone, and its local date in a column ``d0, d1, …``.
        forms: Of dates that are texts, besides those of ISO.
    """

    shapes: tuple[str, ...]
    forms: tuple[str, ...] = ()

    def text(self, place: int) -> exp.Expr:
        """Return the cell as text."""
        column, shape = exp.column(f"c{place}"), self.shapes[place]
        if shape in ("text", "both", "moment"):
            return as_text(column)
        if shape == "binary":
            return call("try", call("decode", column))
        return as_text(call("to_json", column))

    def may_be_list(self, place: int) -> bool:
        """Return whether the cell can hold several texts."""
        return self.shapes[place] in ("list", "nested list", "both")

    def items(self, place: int) -> exp.Expr:
        """Return the cell as a list of texts, one where it is no list."""
        column, shape = exp.column(f"c{place}"), self.shapes[place]
        if shape == "both":
            return exp.column(f"l{place}")
        if shape == "list":
            return exp.cast(column, "VARCHAR[]", dialect="duckdb")
        if shape == "nested list":
            return each(as_text(call("to_json", exp.column("x"))), column)
        return exp.Array(expressions=[self.text(place)])


@dataclass(frozen=True, slots=True)
class Made:
    """What takes the place of columns of texts.

    Attributes:
        select: The SELECT from ``input`` to its columns and those named here.
        columns: What is handed on from there.
        sections: One column of sections, as an expression.
        lack: The reason for which the row is no record, or NULL.
        identity: A text that tells apart what equal sections do not.
        extra: What the rows hold besides, by name.
    """

    select: exp.Select
    columns: tuple[str, ...]
    sections: exp.Expr
    lack: exp.Expr
    identity: exp.Expr
    extra: dict[str, exp.Expr]


@lru_cache(maxsize=64)
def rows_statement(parts: Parts, cells: Cells) -> str:
    """Return the SELECT from ``input`` to rows, for the mapping's parts and cells."""
    return composed(parts, cells, None)


def composed(parts: Parts, cells: Cells, made: Made | None) -> str:
    """Return the SELECT from ``input`` to rows, perhaps of texts that are made, not given."""
    columns = dict(parts)
    names = names_of(parts)
    place = {name: i for i, name in enumerate(names)}
    places = {part: [place[name] for name in columns[part]] for part in columns}
    lists = {i for i in places["context"] if cells.may_be_list(i)}
    select = _mapped(places, names, lists, made, cells)
    lists.update(places["taxonomy"])
    moments = [f"d{i}" for i in places["date"] if cells.shapes[i] == "moment"]
    carried = (*moments, *(["meta"] if GIVEN in columns else []))
    select = select.from_(_cells(cells, len(names), lists, made, carried).subquery("cells"))
    tree = filled_in(statement("sources/rows"), "mapped", select)
    extra = [*(made.extra if made else ()), *(["prefix"] if places["prefix"] else ())]
    tree = tree.select(*(exp.column(name) for name in extra))
    return tree.sql(dialect="duckdb", comments=False)


def _cells(
    cells: Cells, count: int, lists: set[int], made: Made | None, carried: tuple[str, ...]
) -> exp.Select:
    """Return t0, t1, … (NULL where blank), and of ``lists`` l0, … without their blanks."""
    raw, whole = kept(), kept()
    for name in (*(made.columns if made else ()), *carried):
        raw, whole = raw.select(exp.column(name)), whole.select(exp.column(name))
    for place in range(count):
        name = f"t{place}"
        raw = raw.select(exp.alias_(cells.text(place), name))
        text = exp.case().when(filled(exp.column(name)), exp.column(name))
        whole = whole.select(exp.alias_(text, name))
    for place in sorted(lists):
        name = f"l{place}"
        raw = raw.select(exp.alias_(cells.items(place), name))
        present = each(exp.column("x"), exp.column(name), filled(exp.column("x")))
        whole = whole.select(exp.alias_(call("coalesce", present, exp.Array()), name))
    source = made.select.subquery("made") if made else "input"
    return whole.from_(raw.from_(source).subquery("raw"))


def _mapped(
    parts: dict[str, list[int]],
    names: tuple[str, ...],
    lists: set[int],
    made: Made | None,
    cells: Cells,
) -> exp.Select:
    none = exp.cast(exp.Array(), "VARCHAR[]", dialect="duckdb")
    columns = {
        "id": _first(parts["id"]),
        "sections": made.sections if made else _sections(parts, names, lists),
        "date_text": call("trim", _date(parts["date"], cells)),
        "date_by_form": _by_form(_date(parts["date"], cells), cells.forms),
        "group_text": _first(parts["group"]),
        "taxonomy": call("list_concat", none, *(_list(place) for place in parts["taxonomy"])),
        "meta": _own_meta() if GIVEN in parts else _meta(parts["meta"], names),
        "trust_text": call("trim", _first(parts["trust"])),
        "lack": _lack(parts, names, lists, made),
        "prefix": _object(parts["prefix"]),
        "has_prefix": _first(parts["prefix"]).is_(exp.null()).not_(),
        "identity": made.identity if made else exp.cast(exp.null(), "VARCHAR"),
        **(made.extra if made else {}),
    }
    return kept().select(*(exp.alias_(value, name) for name, value in columns.items()))


def _sections(parts: dict[str, list[int]], names: tuple[str, ...], lists: set[int]) -> exp.Expr:
    """Return the list of sections: anchor, positive or text, then the contexts."""
    found: list[exp.Expr] = []
    for part in ("anchor", "positive", "text"):
        if places := parts[part]:
            role = "anchor" if part == "anchor" else "context"
            heading = exp.case()
            for place in places:
                there = _text_of(place).is_(exp.null()).not_()
                heading = heading.when(there, exp.Literal.string(names[place]))
            found.append(section(role, heading, _first(places)))
    for place in parts["context"]:
        text = exp.column("x") if place in lists else _text_of(place)
        shown = section("context", exp.Literal.string(names[place]), text)
        found.append(each(shown, _list(place)) if place in lists else shown)
    return having("text", _joined(found)) if GIVEN in parts else _joined(found)


def _meta(places: list[int], names: tuple[str, ...]) -> exp.Expr:
    """Return the pairs of the columns that are not blank, by key: their order is hashed."""
    pairs = [
        struct(key=exp.Literal.string(names[place]), value=_text_of(place))
        for place in sorted(set(places), key=lambda place: names[place])
    ]
    return having("value", exp.cast(exp.Array(expressions=pairs), _PAIRS, dialect="duckdb"))


def _own_meta() -> exp.Expr:
    """Return the pairs of the column ``meta`` that are not blank, in its order."""
    # Each value is read by itself: the whole as a JSON object takes many times its size.
    value = call("json_extract_string", exp.column("value", table="x"), exp.Literal.string("$"))
    members = call("map_entries", exp.column("meta"))
    pairs = each(struct(key=exp.column("key", table="x"), value=value), members)
    return each(exp.column("x"), pairs, filled(exp.column("value", table="x")))


def _lack(
    parts: dict[str, list[int]], names: tuple[str, ...], lists: set[int], made: Made | None
) -> exp.Expr:
    case = exp.case()
    for part in ("id", "anchor", "positive", "text"):
        if parts[part]:
            missing = _first(parts[part]).is_(exp.null())
            case = case.when(_is_required(missing, part, parts), exp.Literal.string(f"no {part}"))
    for place in parts["context"]:
        empty = call("len", _list(place)).eq(exp.Literal.number(0))
        blank = empty if place in lists else _text_of(place).is_(exp.null())
        reason = exp.Literal.string(f"no context: {names[place]}")
        case = case.when(_is_required(blank, "context", parts), reason)
    if GIVEN in parts:
        given = _first(parts[GIVEN])
        nothing = exp.or_(given.is_(exp.null()), given.copy().eq(exp.Literal.string("id")))
        case = case.when(nothing, exp.Literal.string("no text"))
    return case.when(made.lack.is_(exp.null()).not_(), made.lack.copy()) if made else case


def _is_required(missing: exp.Expr, part: str, parts: dict[str, list[int]]) -> exp.Expr:
    """Return whether a part is missing that the row has; a mapping's parts all rows have."""
    if GIVEN not in parts:
        return missing
    given = call("string_split", _first(parts[GIVEN]), exp.Literal.string(" "))
    return exp.and_(missing, call("list_contains", given, exp.Literal.string(part)))


def _first(places: list[int]) -> exp.Expr:
    """Return the first of some columns that is not blank, else NULL."""
    if not places:
        return exp.cast(exp.null(), "VARCHAR")
    return call("coalesce", *(_text_of(place) for place in places))


def _date(places: list[int], cells: Cells) -> exp.Expr:
    """Return the text of the date: where a zone is written, that of the place, not of UTC."""
    if places and cells.shapes[places[0]] == "moment":
        return exp.column(f"d{places[0]}")
    return _first(places)


_ZONE = r"\s*(?:[+-]\d\d:?\d\d|[A-Za-z]{1,5})\s*$"


def _by_form(text: exp.Expr, forms: tuple[str, ...]) -> exp.Expr:
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
    return exp.cast(moment, "DATE", dialect="duckdb")


def _object(places: list[int]) -> exp.Expr:
    """Return the first of some columns as a JSON object, else NULL."""
    if not places:
        return exp.cast(exp.null(), "VARCHAR")
    text = _first(places)
    is_object = call("json_type", text).eq(exp.Literal.string("OBJECT"))
    checked = exp.case().when(is_object, as_text(call("json", text.copy())))
    return exp.case().when(call("json_valid", text.copy()), checked)


def _text_of(place: int) -> exp.Expr:
    return exp.column(f"t{place}")


def _list(place: int) -> exp.Expr:
    return exp.column(f"l{place}")


def _joined(sections: list[exp.Expr]) -> exp.Expr:
    """Return one list of sections and lists of sections."""
    runs: list[exp.Expr] = []
    for part in sections:
        if isinstance(part, exp.Array):
            runs.append(part)
        elif runs and isinstance(runs[-1].expressions[0], exp.Struct):
            runs[-1].append("expressions", part)
        else:
            runs.append(exp.Array(expressions=[part]))
    # list_concat copies every text, which takes as long as hashing them.
    return runs[0] if len(runs) == 1 else call("list_concat", *runs)


# -- lines of JSON -------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def values_statement(
    parts: Parts, keys: tuple[str, ...], fields: tuple[str, ...] = (), *, whole: bool = False
) -> str:
    """Return the SELECT from a table of JSON lines to one of typed columns.

    Its columns are ``c0, c1, …``, the values as text (a string as it is, anything else as JSON),
    and ``l0, …`` where a value that is an array counts as several texts. It is a statement of its
    own, and one function reads all the values, because every JSON function in a statement sets
    aside four times the longest line: with three a line of 50 MB needed more than 1 GB.

    Args:
        parts: The mapping's parts.
        keys: For each name of the mapping the key in the objects.
        fields: The keys of a converter's fields; their values are in ``f0, f1, …``, and what kind
            of value each is in ``f0_kind, …``.
        whole: Whether the objects are handed on, as ``document``.
    """
    document = exp.column("document")
    read = kept().select(document.copy())
    if keys or fields:
        texts = call("json_extract_string", document.copy(), _pointers([*keys, *fields]))
        read = read.select(exp.alias_(texts, "texts"))
    if fields:
        kinds = call("json_type", document.copy(), _pointers(fields))
        read = read.select(exp.alias_(kinds, "kinds"))
    read = read.from_(statement("sources/lines/documents").subquery("documents"))
    values = kept()
    for place in range(len(keys)):
        values = values.select(exp.alias_(_value(place), f"c{place}"))
    for place in _list_places(parts):
        values = values.select(exp.alias_(_elements(place, keys[place]), f"l{place}"))
    for i in range(len(fields)):
        kind = call("list_extract", exp.column("kinds"), exp.Literal.number(i + 1))
        values = values.select(exp.alias_(_value(len(keys) + i), f"f{i}"))
        values = values.select(exp.alias_(kind, f"f{i}_kind"))
    if whole:
        values = values.select(document.copy())
    return values.from_(read.subquery("read")).sql(dialect="duckdb", comments=False)


def _value(place: int) -> exp.Expr:
    return call("list_extract", exp.column("texts"), exp.Literal.number(place + 1))


def _elements(place: int, key: str) -> exp.Expr:
    """Return an array's elements as texts, or the one value that is no array."""
    looks = call("starts_with", _value(place), exp.Literal.string("["))
    kind = call("json_type", exp.column("document"), _pointer(key))
    is_array = exp.case().when(looks, kind).eq(exp.Literal.string("ARRAY"))
    elements = call("json_extract_string", _value(place), exp.Literal.string("$[*]"))
    return exp.case().when(is_array, elements).else_(exp.Array(expressions=[_value(place)]))


def _pointers(keys: Sequence[str]) -> exp.Expr:
    return exp.Array(expressions=[_pointer(key) for key in keys])


def _pointer(key: str) -> exp.Expr:
    return exp.Literal.string("/" + key.replace("~", "~0").replace("/", "~1"))


def _list_places(parts: Parts) -> list[int]:
    """Return the places of the names whose lists count as several texts."""
    columns = dict(parts)
    names = names_of(parts)
    return sorted({names.index(name) for part in ("context", "taxonomy") for name in columns[part]})
