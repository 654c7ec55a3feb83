"""Judge the cells of typed columns: what is text, what holds several, what is no text.

A string is a text, and so are UTF-8 bytes. A list of strings holds several. Nothing else is one,
unless the mapping asks for its JSON; what there is no value of (null, blank, ``[]``, NaN) is no
text, and no mistake either.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from duckplets.sources.cell_texts import text_at
from duckplets.sources.expressions import as_text, call, each, filled, having, section
from duckplets.sources.field_paths import KIND
from duckplets.sources.mapping import EARLIER, MARK, MARKED, ROLES

# What a value under a text role is called that is none, by the shape of its column.
_NO_TEXT = {
    "number": "number",
    "real": "number",
    "boolean": "boolean",
    "date": "date",
    "moment": "date",
    "uuid": "UUID",
    "nested": "map",
}
# The same by json_type; LIST is an ARRAY that has anything but texts in it.
_JSON_KINDS = {
    "number": ("UBIGINT", "BIGINT", "HUGEINT", "DOUBLE"),
    "boolean": ("BOOLEAN",),
    "list": ("LIST",),
}
_SHOWN = 60  # characters of a wrong value in a message
_PLAIN = ("text", "number", "real", "boolean", "date", "uuid")  # a list of them is of plain values


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of typed columns.

    Attributes:
        shapes: For each name of the mapping ``text``, ``binary``, ``number``, ``real``,
            ``boolean``, ``date``, ``moment`` (a timestamp with a zone, and its local date in a
            column ``d0, d1, …``), ``uuid`` (as text), ``nested``, one of these with ``[]`` for
            lists of it, or ``both``: a column of texts and one of lists, ``l0, l1, …``.
        told: The places of texts beside which stands what kind of JSON value each is, in
            ``k0, k1, …`` (null for a text), and the texts of lists, in ``e0, e1, …``.
        text_of: As in the mapping, or ``EARLIER``.
        forms: Of dates that are texts, besides those of ISO.
        labels: What values of labels mean; see ``Mapped.label_rules``.
        nulls: Words that stand for no value.
        optional: The places of contexts that a row may have none of.
    """

    shapes: tuple[str, ...]
    told: frozenset[int] = frozenset()
    text_of: str | None = None
    forms: tuple[str, ...] = ()
    labels: tuple[tuple[str, float], ...] = ()
    nulls: tuple[str, ...] = ()
    optional: frozenset[int] = frozenset()

    def text(self, place: int) -> exp.Expr:
        """Return the cell as text."""
        column, shape = exp.column(f"c{place}"), self.shapes[place]
        if shape == "binary":
            return _decoded(column)
        if shape == "real" and self.text_of != EARLIER:
            return exp.case().when(call("isnan", column).not_(), as_text(column.copy()))
        if shape == "nested" or shape.endswith("[]"):
            return as_text(call("to_json", column))
        return as_text(column)

    def is_there(self, text: exp.Expr) -> exp.Expr:
        """Return whether a text says something: it is neither blank nor a word for no value."""
        if not self.nulls:
            return filled(text)
        words = (exp.Literal.string(word) for word in self.nulls)
        return exp.and_(filled(text), call("trim", text.copy()).isin(*words).not_())

    def items(self, place: int) -> exp.Expr:
        """Return the cell as a list of texts, whatever it holds, one where it is no list."""
        column, shape = exp.column(f"c{place}"), self.shapes[place]
        if shape == "both":
            return exp.column(f"l{place}")
        if shape.removesuffix("[]") in _PLAIN and shape.endswith("[]"):
            return exp.cast(column, "VARCHAR[]", dialect=DuckDB)
        if shape == "binary[]" and self.text_of != EARLIER:
            return each(_decoded(exp.column("x")), column)
        if shape.endswith("[]"):
            return each(as_text(call("to_json", exp.column("x"))), column)
        return exp.Array(expressions=[self.text(place)])

    def may_be_list(self, place: int) -> bool:
        """Return whether the cell can hold several texts."""
        return self.shapes[place].endswith("[]") or self.shapes[place] == "both"

    def is_plain(self, place: int) -> bool:
        """Return whether under a text role the cell's text is all there is to say of it."""
        if self.text_of == EARLIER:
            return True
        if place in self.told or (self.may_be_list(place) and self.shapes[place] != "both"):
            return False
        is_any = self.text_of == "json" and self.shapes[place] != "binary"
        return is_any or self.shapes[place] in ("text", "both")

    def texts(self, place: int) -> exp.Expr:
        """Return the texts under a text role, as a list."""
        column, shape = exp.column(f"c{place}"), self.shapes[place]
        if place in self.told:
            one = exp.Array(expressions=[column])
            case = exp.case().when(exp.column(f"k{place}").is_(exp.null()), one)
            is_list = exp.column(f"k{place}").eq(exp.Literal.string("ARRAY"))
            case = case.when(is_list, exp.column(f"e{place}"))
            return case.else_(one.copy()) if self.text_of == "json" else case
        if shape in ("text[]", "binary", "binary[]"):
            return self.items(place)
        one = exp.Array(expressions=[self.text(place)])
        some = call("len", self._there(place)) > exp.Literal.number(0)
        return exp.case().when(some, one) if self.text_of == "json" else exp.Array()

    def wrong(self, place: int) -> exp.Expr:
        """Return what the cell holds under a text role that is no text, else NULL."""
        column, shape = exp.column(f"c{place}"), self.shapes[place]
        if shape == "binary":
            odd = exp.and_(_is_there(column), _decoded(column.copy()).is_(exp.null()))
            return exp.case().when(odd, exp.Literal.string("binary"))
        if shape == "binary[]":
            x = exp.column("x")
            odd = exp.and_(_is_there(x), _decoded(x.copy()).is_(exp.null()))
            some = call("len", each(x.copy(), column, odd)) > exp.Literal.number(0)
            return exp.case().when(some, exp.Literal.string("list"))
        if shape == "text[]" or self.text_of == "json":
            return exp.cast(exp.null(), "VARCHAR")
        if place in self.told:
            return _json_wrong(place)
        if shape.endswith("[]"):
            some = call("len", self._there(place)) > exp.Literal.number(0)
            return exp.case().when(some, exp.Literal.string("list"))
        is_there = self.text(place).is_(exp.null()).not_() if shape == "real" else _is_there(column)
        return exp.case().when(is_there, exp.Literal.string(_NO_TEXT[shape]))

    def shown(self, place: int) -> exp.Expr:
        """Return the text of a cell as a report shows it: of a marked value the value."""
        text = text_at(place)
        if place not in self.told:
            return text
        pattern = exp.Literal.string(f'^{{"{MARK}":"[A-Za-z]+","value":"([^"]*)')
        marked = call("starts_with", text, exp.Literal.string(f'{{"{MARK}":"'))
        found = call("regexp_extract", text.copy(), pattern, exp.Literal.number(1))
        return exp.case().when(marked, found).else_(text.copy())

    def _there(self, place: int) -> exp.Expr:
        """Return the elements of a list that are no nulls; NaN is null."""
        x = exp.column("x")
        there = _is_there(x)
        if self.shapes[place] == "real[]":
            there = exp.and_(there, call("isnan", x.copy()).not_())
        return each(x.copy(), exp.column(f"c{place}"), there)


@dataclass(frozen=True, slots=True)
class CellLayout:
    """Which cells play which part.

    Attributes:
        parts: The places of each part's columns.
        names: Of the columns, for headings and reasons.
        cells: What they are.
    """

    parts: dict[str, list[int]]
    names: tuple[str, ...]
    cells: Cells

    @property
    def lists(self) -> list[int]:
        """The places read as lists of anything."""
        earlier = self.cells.text_of == EARLIER
        contexts = [i for i in self.parts["context"] if earlier and self.cells.may_be_list(i)]
        return sorted({*self.parts["taxonomy"], *contexts})

    @property
    def judged(self) -> list[int]:
        """The places under text roles that may hold several texts, or what is no text."""
        return sorted({i for part in ROLES for i in self.parts[part] if not self.is_plain(i)})

    def is_plain(self, place: int) -> bool:
        """Return whether a cell's text is all there is to say of it under a text role."""
        return self.cells.is_plain(place) and place not in self._several

    @property
    def _several(self) -> list[int]:
        return self.lists if self.cells.text_of == EARLIER else []

    def list_of(self, place: int) -> str:
        """Return the column of a cell's texts, of one that is not plain."""
        return f"l{place}" if place in self._several else f"s{place}"

    def head(self, place: int) -> exp.Expr:
        """Return the first text of a cell, or NULL."""
        if self.is_plain(place):
            return text_at(place)
        return call("list_extract", exp.column(self.list_of(place)), exp.Literal.number(1))

    def first(self, places: list[int]) -> exp.Expr:
        """Return the first text of the first of some cells that has one, else NULL."""
        if not places:
            return exp.cast(exp.null(), "VARCHAR")
        return call("coalesce", *(self.head(place) for place in places))

    def heading(self, places: list[int]) -> exp.Expr:
        """Return the name of the first of some columns that has text."""
        heading = exp.case()
        for place in places:
            there = self.head(place).is_(exp.null()).not_()
            heading = heading.when(there, exp.Literal.string(self.names[place]))
        return heading

    def further(self, places: list[int]) -> exp.Expr | None:
        """Return how many texts the cell has after its first, of the first that has one.

        Returns None where no cell can hold several.
        """
        if all(self.is_plain(place) for place in places):
            return None
        case = exp.case()
        for place in places:
            count: exp.Expr = exp.Literal.number(0)
            if not self.is_plain(place):
                count = call("len", exp.column(self.list_of(place))) - exp.Literal.number(1)
            case = case.when(self.head(place).is_(exp.null()).not_(), count)
        return case

    def sections(self, role: str, place: int) -> exp.Expr:
        """Return a section for each text of a cell, as a list; of a plain one a section."""
        heading = exp.Literal.string(self.names[place])
        if self.is_plain(place):
            one = section(role, heading, text_at(place))
            there = having("text", exp.Array(expressions=[one]))
            return there if place in self.cells.optional else one
        return each(section(role, heading, exp.column("x")), exp.column(self.list_of(place)))

    def wrongs(self) -> list[tuple[exp.Expr, exp.Expr, exp.Expr]]:
        """Return conditions for a row with what is no text, its reason and what it has there."""
        found = []
        judged = [i for i in self.judged if i not in self._several]
        for part in ("anchor", "positive", "text"):
            before: list[exp.Expr] = []  # a candidate after one that has text is not looked at
            for place in self.parts[part]:
                if place in judged:
                    found.append(self._wrong(place, before))
                before.append(self.head(place).is_(exp.null()))
        for part in ("context", "negative"):
            found += [self._wrong(place, []) for place in self.parts[part] if place in judged]
        if self.parts["sections"]:
            reason, shown = exp.column("given_problem"), exp.column("given_shown")
            found.append((reason.copy().is_(exp.null()).not_(), reason, shown))
        return found

    def _wrong(self, place: int, before: list[exp.Expr]) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
        kind = exp.column(f"w{place}")
        condition = exp.and_(*(part.copy() for part in before), kind.is_(exp.null()).not_())
        reason = call("concat", exp.Literal.string("not text: "), kind.copy())
        opening = exp.Literal.string(f"column '{self.names[place]}': ")
        cut = call("left", self.cells.shown(place), exp.Literal.number(_SHOWN))
        return condition, reason, call("concat", opening, cut)


def cells_of(
    schema: pa.Schema, count: int, text_of: str | None, forms: tuple[str, ...] = ()
) -> Cells:
    """Return how the first columns ``c0, c1, …`` of a table are to be read."""
    names = set(schema.names)
    shapes = ["both" if f"l{i}" in names else shape_of(schema.field(f"c{i}")) for i in range(count)]
    told = frozenset(i for i in range(count) if f"k{i}" in names)
    return Cells(tuple(shapes), told, text_of, forms)


def shape_of(field: pa.Field) -> str:
    """Return the shape of a plain column."""
    told = (field.metadata or {}).get(KIND)
    return told.decode() if told else _shape(field.type)


def _shape(kind: pa.DataType) -> str:
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _shape(kind.value_type)
        return "nested[]" if inner.endswith("[]") else f"{inner}[]"
    if types.is_nested(kind):
        return "nested"
    if types.is_timestamp(kind) and kind.tz is not None:
        return "moment"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_floating(kind):
        return "real"
    if types.is_integer(kind) or types.is_decimal(kind):
        return "number"
    return "date" if types.is_temporal(kind) else "text"


def _json_wrong(place: int) -> exp.Expr:
    kind, text = exp.column(f"k{place}"), exp.column(f"c{place}")
    case = exp.case()
    for said, kinds in _JSON_KINDS.items():
        names = [exp.Literal.string(name) for name in kinds]
        case = case.when(kind.copy().isin(*names), exp.Literal.string(said))
    is_map = kind.copy().eq(exp.Literal.string("OBJECT"))
    inner = exp.case()
    for said in MARKED:
        opening = exp.Literal.string(f'{{"{MARK}":"{said}"')
        inner = inner.when(call("starts_with", text.copy(), opening), exp.Literal.string(said))
    return case.when(is_map, inner.else_(exp.Literal.string("map")))


def _is_there(column: exp.Expr) -> exp.Expr:
    return column.is_(exp.null()).not_()


def _decoded(column: exp.Expr) -> exp.Expr:
    """Return bytes as text, NULL where they are not UTF-8."""
    return call("try", call("decode", column))
