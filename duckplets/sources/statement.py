"""Compile a mapping to the one SELECT that turns a table of input into rows.

Input is an Arrow table named ``input`` with ``row``, ``fault`` and ``modified``, and typed columns
``c0, c1, …``, one for each name of the mapping. Three levels lie over it: *cells* makes every used
column text (or a list of texts, and what is no text), *mapped* gives cells their parts, and
``sql/sources/rows.sql`` checks and hashes. Lines of JSON first become such a table by statements of
their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from duckplets.sources.cell_texts import (
    by_form,
    date_of,
    first_of,
    label_of,
    list_at,
    object_of,
    text_at,
)
from duckplets.sources.cells import CellLayout, Cells
from duckplets.sources.expressions import (
    Parts,
    call,
    each,
    filled,
    filled_in,
    having,
    joined,
    kept,
    names_of,
    section,
    statement,
    struct,
)
from duckplets.sources.mapping import EARLIER, GIVEN, ROLES
from duckplets.sources.rows import FURTHER

_PAIRS = "STRUCT(key VARCHAR, value VARCHAR)[]"
# What json_extract_string returns of anything but a string looks so; strings may, too.
_ODD = r"^(\[|\{|true$|false$|-?[0-9][0-9.eE+-]*$)"


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
        each: Whether a row of the input may make several, by their ``turn_number``.
    """

    select: exp.Select
    columns: tuple[str, ...]
    sections: exp.Expr
    lack: exp.Expr
    identity: exp.Expr
    extra: dict[str, exp.Expr]
    each: bool = False


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
    bare = tuple(n[:-1] if i in cells.optional else n for i, n in enumerate(names))
    layout = CellLayout(places, bare, cells)
    moments = [f"d{i}" for i in places["date"] if cells.shapes[i] == "moment"]
    carried = (*moments, *(["meta"] if GIVEN in columns else []))
    source = _cells(layout, made, carried)
    if places["sections"]:
        given = exp.alias_(text_at(places["sections"][0]), "given_text")
        whole = exp.select(exp.Star(), given).from_(source.subquery("whole"))
        source = filled_in(statement("sources/sections"), "cells", whole)
    further = None if made else layout.further(places["anchor"])
    select = _mapped(layout, made)
    if further is not None:
        select = select.select(exp.alias_(further, FURTHER), copy=False)
    select = select.from_(source.subquery("cells", copy=False), copy=False)
    tree = filled_in(statement("sources/rows"), "mapped", select)
    own = [part for part in ("prefix", "label") if places[part]]
    extra = [*(made.extra if made else ()), *own]
    extra += [] if further is None else [FURTHER]
    tree = tree.select(*(exp.column(name) for name in extra), copy=False)
    return tree.sql(dialect=DuckDB, comments=False)


def _cells(layout: CellLayout, made: Made | None, carried: tuple[str, ...]) -> exp.Select:
    """Return the columns of cells, without what is blank.

    t0, t1, … are texts; l0, … of ``lists`` what they hold; of those judged s0, … are the texts, and
    w0, … says what they hold that is none.
    """
    cells = layout.cells
    raw: list[exp.Expr] = []
    whole: list[exp.Expr] = []
    for name in (*(made.columns if made else ()), *carried):
        raw.append(exp.column(name))
        whole.append(exp.column(name))
    for place in range(len(layout.names)):
        name = f"t{place}"
        raw.append(exp.alias_(cells.text(place), name))
        text = exp.case().when(cells.is_there(exp.column(name)), exp.column(name))
        whole.append(exp.alias_(text, name))
    judged = [i for i in layout.judged if layout.list_of(i) == f"s{i}"]
    lists = {f"l{i}": cells.items(i) for i in layout.lists}
    for name, items in (lists | {f"s{i}": cells.texts(i) for i in judged}).items():
        raw.append(exp.alias_(items, name))
        present = each(exp.column("x"), exp.column(name), cells.is_there(exp.column("x")))
        none = exp.cast(exp.Array(), "VARCHAR[]", dialect=DuckDB)
        whole.append(exp.alias_(call("coalesce", present, none), name))
    for place in judged:
        raw.append(exp.alias_(cells.wrong(place), f"w{place}"))
        whole.append(exp.column(f"w{place}"))
    source = made.select.subquery("made") if made else "input"
    inner = kept().select(*raw, copy=False).from_(source, copy=False)
    return kept().select(*whole, copy=False).from_(inner.subquery("raw", copy=False), copy=False)


def _mapped(layout: CellLayout, made: Made | None) -> exp.Select:
    parts = layout.parts
    none = exp.cast(exp.Array(), "VARCHAR[]", dialect=DuckDB)
    key, family = first_of(parts["id"]), first_of(parts["group"])
    if made and made.each:  # turns of a conversation stay together
        number = exp.Literal.string("#"), exp.column("turn_number")
        family = call("coalesce", family, key.copy(), exp.column("conversation"))
        key = exp.case().when(key.is_(exp.null()).not_(), call("concat", key.copy(), *number))
    columns = {
        "id": key,
        "sections": made.sections if made else _sections(layout),
        "date_text": _moment(date_of(parts["date"], layout.cells.shapes)),
        "date_by_form": by_form(date_of(parts["date"], layout.cells.shapes), layout.cells.forms),
        "group_text": family,
        "taxonomy": call("list_concat", none, *(list_at(place) for place in parts["taxonomy"])),
        "meta": _own_meta() if GIVEN in parts else _meta(parts["meta"], layout.names),
        "trust_text": call("trim", first_of(parts["trust"])),
        "created_text": _moment(first_of(parts["created_at"])),
        "updated_text": _moment(first_of(parts["updated_at"])),
        "lack": _lack(layout, made),
        "label_text": first_of(parts["label"]),
        "label": label_of(first_of(parts["label"]), layout.cells.labels),
        "prefix": object_of(parts["prefix"]),
        "has_prefix": first_of(parts["prefix"]).is_(exp.null()).not_(),
        "identity": made.identity if made else exp.cast(exp.null(), "VARCHAR"),
        "told": _told(layout, made),
        **(made.extra if made else {}),
    }
    return kept().select(*(exp.alias_(value, name) for name, value in columns.items()))


def _moment(text: exp.Expr) -> exp.Expr:
    """Return the text of a date or time; pandas writes NaT for none."""
    return call("nullif", call("trim", text), exp.Literal.string("NaT"))


def _told(layout: CellLayout, made: Made | None) -> exp.Expr:
    """Return what a row with what is no text has in its place, else NULL."""
    wrongs = [] if made else layout.wrongs()
    case = exp.case()
    for condition, _, shown in wrongs:
        case = case.when(condition, shown)
    return case if wrongs else exp.cast(exp.null(), "VARCHAR")


def _sections(layout: CellLayout) -> exp.Expr:
    """Return the list of sections: anchor, positive or text, the contexts, what is rejected."""
    parts, names = layout.parts, layout.names
    found: list[exp.Expr] = []
    if places := parts["anchor"]:
        found.append(section("anchor", layout.heading(places), layout.first(places)))
    for part in ("positive", "text"):
        places = parts[part]
        if places and all(layout.is_plain(place) for place in places):
            found.append(section("context", layout.heading(places), layout.first(places)))
        elif places:
            case = exp.case()
            for place in places:
                shown = layout.sections("context", place)
                some = shown if isinstance(shown, exp.Array) else exp.Array(expressions=[shown])
                case = case.when(layout.head(place).is_(exp.null()).not_(), some)
            found.append(case)
    found += [layout.sections("context", place) for place in parts["context"]]
    for place in parts["negative"]:
        heading, text = exp.Literal.string(names[place]), exp.column("x")
        texts: exp.Expr = exp.Array(expressions=[text_at(place)])
        if not layout.is_plain(place):
            texts = exp.column(layout.list_of(place))
        there = text.is_(exp.null()).not_()
        found.append(each(section("rejected", heading, text.copy()), texts, there))
    if parts["sections"]:
        found.append(_given())
    return having("text", joined(found)) if GIVEN in parts else joined(found)


def _given() -> exp.Expr:
    """Return the sections that a row brings whole, but for blank ones."""
    condition = filled(exp.column("text", table="x"))
    return each(exp.column("x"), exp.column("given_sections"), condition)


def _meta(places: list[int], names: tuple[str, ...]) -> exp.Expr:
    """Return the pairs of the columns that are not blank, by key: their order is hashed."""
    pairs = [
        struct(key=exp.Literal.string(names[place]), value=text_at(place))
        for place in sorted(set(places), key=lambda place: names[place])
    ]
    return having("value", exp.cast(exp.Array(expressions=pairs), _PAIRS, dialect=DuckDB))


def _own_meta() -> exp.Expr:
    """Return the pairs of the column ``meta`` that are not blank, in its order."""
    # Each value is read by itself: the whole as a JSON object takes many times its size.
    value = call("json_extract_string", exp.column("value", table="x"), exp.Literal.string("$"))
    members = call("map_entries", exp.column("meta"))
    pairs = each(struct(key=exp.column("key", table="x"), value=value), members)
    return each(exp.column("x"), pairs, filled(exp.column("value", table="x")))


def _lack(layout: CellLayout, made: Made | None) -> exp.Expr:
    parts, names = layout.parts, layout.names
    case = exp.case()
    for condition, reason, _ in layout.wrongs():
        case = case.when(condition, reason)
    for part in ("id", "anchor", "positive", "text", "label"):
        if parts[part]:
            is_cell = part in ("id", "label")
            first = first_of(parts[part]) if is_cell else layout.first(parts[part])
            missing = first.is_(exp.null())
            case = case.when(_is_required(missing, part, parts), exp.Literal.string(f"no {part}"))
    for place in (place for place in parts["context"] if place not in layout.cells.optional):
        blank = layout.head(place).is_(exp.null())
        reason = exp.Literal.string(f"no context: {names[place]}")
        case = case.when(_is_required(blank, "context", parts), reason)
    if GIVEN in parts:
        given = first_of(parts[GIVEN])
        nothing = exp.or_(given.is_(exp.null()), given.copy().eq(exp.Literal.string("id")))
        case = case.when(nothing, exp.Literal.string("no text"))
    if parts["sections"] and (GIVEN in parts or not (parts["anchor"] or parts["text"])):
        empty = call("len", _given()).eq(exp.Literal.number(0))
        case = case.when(_is_required(empty, "sections", parts), exp.Literal.string("no text"))
    return case.when(made.lack.is_(exp.null()).not_(), made.lack.copy()) if made else case


def _is_required(missing: exp.Expr, part: str, parts: dict[str, list[int]]) -> exp.Expr:
    """Return whether a part is missing that the row has; a mapping's parts all rows have."""
    if GIVEN not in parts:
        return missing
    given = call("string_split", first_of(parts[GIVEN]), exp.Literal.string(" "))
    return exp.and_(missing, call("list_contains", given, exp.Literal.string(part)))


# -- lines of JSON -------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def values_statement(
    parts: Parts,
    pointers: tuple[str, ...],
    fields: tuple[str, ...] = (),
    *,
    whole: bool = False,
    text_of: str | None = None,
) -> str:
    """Return the SELECT from a table of JSON lines to one of typed columns.

    Its columns are ``c0, c1, …``, the values as text (a string as it is, anything else as JSON);
    ``l0, …`` where a value that is an array counts as several texts; and ``k0, …`` with what kind
    of value those of texts are, null for a text, in rows that may have anything else. It is a
    statement of its own, and one function reads all the values, because every JSON function in a
    statement sets aside four times the longest line: with three a line of 50 MB needed more than
    1 GB.

    Args:
        parts: The mapping's parts.
        pointers: For each name of the mapping that to its values in the objects.
        fields: Those to a converter's fields; their values are in ``f0, f1, …``, and what kind
            of value each is in ``f0_kind, …``.
        whole: Whether the objects are handed on, as ``document``.
        text_of: As in the mapping.
    """
    document = exp.column("document")
    read = kept().select(document.copy())
    if pointers or fields:
        texts = call("json_extract_string", document.copy(), _literals([*pointers, *fields]))
        read = read.select(exp.alias_(texts, "texts"))
    if fields:
        kinds = call("json_type", document.copy(), _literals(fields))
        read = read.select(exp.alias_(kinds, "kinds"))
    read = read.from_(statement("sources/lines/documents").subquery("documents"))
    judged = text_places(parts, text_of)
    if judged:
        suspects = exp.or_(*(call("regexp_matches", _value(i), _literal(_ODD)) for i in judged))
        kinds = call("json_type", document.copy(), _literals([pointers[i] for i in judged]))
        told = exp.alias_(exp.case().when(suspects, kinds), "text_kinds")
        read = exp.select(exp.Star(), told).from_(read.subquery("told"))
    values = kept()
    for place in range(len(pointers)):
        values = values.select(exp.alias_(_value(place), f"c{place}"))
    for at, place in enumerate(judged):
        kind: exp.Expr = call("list_extract", exp.column("text_kinds"), _number(at + 1))
        for no_kind in ("VARCHAR", "NULL"):
            kind = call("nullif", kind, _literal(no_kind))
        values = values.select(exp.alias_(kind, f"k{place}"))
    for place in _list_places(parts, text_of):
        values = values.select(exp.alias_(_elements(place, pointers[place]), f"l{place}"))
    for i in range(len(fields)):
        kind = call("list_extract", exp.column("kinds"), _number(i + 1))
        values = values.select(exp.alias_(_value(len(pointers) + i), f"f{i}"))
        values = values.select(exp.alias_(kind, f"f{i}_kind"))
    if whole:
        values = values.select(document.copy())
    return values.from_(read.subquery("read")).sql(dialect=DuckDB, comments=False)


@lru_cache(maxsize=64)
def elements_statement(places: tuple[int, ...]) -> str:
    """Return the SELECT of a table of values with the texts of arrays, ``e0, …``, at some places.

    What an array holds that is no text makes its kind ``LIST``.
    """
    changed = []
    select = exp.select(exp.Star(except_=[exp.to_identifier(f"k{i}") for i in places]))
    for i in places:
        value, kind = exp.column(f"c{i}"), exp.column(f"k{i}")
        is_array = kind.eq(_literal("ARRAY"))
        every = _literal("$[*]")
        texts = exp.case().when(is_array, call("json_extract_string", value, every))
        kinds = call("json_type", value.copy(), every.copy())
        odd = each(
            exp.column("x"),
            kinds,
            exp.column("x").isin(_literal("VARCHAR"), _literal("NULL")).not_(),
        )
        is_odd = exp.and_(is_array.copy(), call("len", odd) > _number(0))
        told = exp.case().when(is_odd, _literal("LIST")).else_(kind.copy())
        changed += [exp.alias_(texts, f"e{i}"), exp.alias_(told, f"k{i}")]
    return select.select(*changed).from_("input").sql(dialect=DuckDB, comments=False)


def text_places(parts: Parts, text_of: str | None) -> list[int]:
    """Return the places of the names under text roles, where anything but text is looked for."""
    columns, names = dict(parts), names_of(parts)
    roles = () if text_of == EARLIER else ROLES
    return sorted({names.index(name) for part in roles for name in columns[part]})


def _value(place: int) -> exp.Expr:
    return call("list_extract", exp.column("texts"), _number(place + 1))


def _elements(place: int, at: str) -> exp.Expr:
    """Return an array's elements as texts, or the one value that is no array."""
    looks = call("starts_with", _value(place), _literal("["))
    kind = call("json_type", exp.column("document"), _literal(at))
    is_array = exp.case().when(looks, kind).eq(_literal("ARRAY"))
    elements = call("json_extract_string", _value(place), _literal("$[*]"))
    return exp.case().when(is_array, elements).else_(exp.Array(expressions=[_value(place)]))


def _literals(texts: Sequence[str]) -> exp.Expr:
    return exp.Array(expressions=[_literal(text) for text in texts])


def _literal(text: str) -> exp.Expr:
    return exp.Literal.string(text)


def _number(number: int) -> exp.Expr:
    return exp.Literal.number(number)


def _list_places(parts: Parts, text_of: str | None) -> list[int]:
    """Return the places of the names whose lists count as several texts, whatever they hold."""
    columns, names = dict(parts), names_of(parts)
    roles = ("context", "taxonomy") if text_of == EARLIER else ("taxonomy",)
    return sorted({names.index(name) for part in roles for name in columns[part]})
