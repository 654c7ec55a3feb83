"""Convert tables of instruction data to rows with messages.

Tables are as in ``feed``; behind the columns of the mapping stand the converter's fields, as
``f0, f1, …`` with their kinds where the input is JSON (and the whole as ``document``), else as
columns of their own types, or all the columns of the input where whole rows are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from duckplets.errors import SourceError
from duckplets.sources.cells import Cells, shape_of
from duckplets.sources.converters.compose import IfGiven, conversion, document, parameters
from duckplets.sources.converters.registry import Converter, converter_of
from duckplets.sources.expressions import Parts, call, having, section
from duckplets.sources.field_paths import NAME, match
from duckplets.sources.mapping import Mapped
from duckplets.sources.statement import Made, composed

Ask = Callable[[str, pa.Table, Mapping[str, Any]], pa.Table]
_Columns = tuple[tuple[str, str, str], ...]
_DOCUMENT: _Columns = (("document", "document", "text"),)


class Conversion:
    """What a mapping's converter makes of tables.

    Args:
        mapping: With a converter.
    """

    def __init__(self, mapping: Mapped) -> None:
        converter = mapping.conversion()
        if converter is None:
            raise SourceError("no converter is given")
        self._mapping = mapping
        self._converter: Converter = converter

    def rows(self, ask: Ask, table: pa.Table, cells: Cells) -> pa.Table:
        """Return the rows of a table.

        Args:
            ask: Runs a statement over a table, with values of its parameters.
            table: The input.
            cells: How the columns of the mapping are to be read.
        """
        columns = _columns_of(table.schema, self._mapping)
        if self._converter.function is not None:
            table = self._called(ask, table, columns)
        kept = _DOCUMENT if "document" in table.column_names else columns
        whole = kept if self._mapping.handling() == "quarantine" else ()
        given = self._given(table.schema, columns)
        each = self._mapping.turns == "each"
        statement = converted_statement(
            self._mapping.parts(), cells, self._converter.name, given, whole, each=each
        )
        return ask(statement, table, parameters(self._converter, each=each))

    def _given(self, schema: pa.Schema, columns: _Columns) -> tuple[IfGiven, ...]:
        names = [name for name, _, _ in columns]
        given = []
        for i, field in enumerate(self._converter.fields):
            places = match(field, names)
            if f"f{i}" in schema.names:
                given.append(IfGiven(f"f{i}", "json"))
            else:
                given.append(IfGiven(*columns[places[0]][1:]) if places else IfGiven(None))
        return tuple(given)

    def _called(self, ask: Ask, table: pa.Table, columns: _Columns) -> pa.Table:
        """Return a table with the messages that the user's function makes of its rows."""
        if "document" not in table.column_names:
            text = exp.select(exp.alias_(document(columns), "document")).from_("input")
            rows = ask(text.sql(dialect=DuckDB), table, {})["document"]
            table = table.append_column("document", rows)
        made = called(self._converter, table["document"])
        for name, column in made.items():
            table = table.append_column(name, column)
        return table


def _columns_of(schema: pa.Schema, mapping: Mapped) -> _Columns:
    """Return ``(name in the input, column, shape)`` of what is not the mapping's."""
    first = len(mapping.names())
    places = [i for i, name in enumerate(schema.names) if name[0] == "c" and name[1:].isdigit()]
    found: dict[str, tuple[str, str, str]] = {}
    for place in places[first:]:
        field = schema.field(place)
        name = field.metadata[NAME].decode()
        shape = shape_of(field)
        found.setdefault(name, (name, field.name, "list" if shape.endswith("[]") else shape))
    return tuple(found.values())


def documents_of(ask: Ask, mapping: Mapped, table: pa.Table) -> list[str | None]:
    """Return rows of input, whatever is wrong with them, as JSON objects."""
    if "document" in table.column_names:
        return [text and text.strip(" \t\r\n") for text in table["document"].to_pylist()]
    columns = _columns_of(table.schema, mapping)
    if not columns:
        return [None] * table.num_rows
    at = table.column_names.index("fault")
    table = table.set_column(at, "fault", pa.nulls(table.num_rows, pa.string()))
    text = exp.select(exp.alias_(document(columns), "document")).from_("input")
    return list(ask(text.sql(dialect=DuckDB), table, {})["document"].to_pylist())


@lru_cache(maxsize=64)
def converted_statement(
    parts: Parts,
    cells: Cells,
    name: str,
    given: tuple[IfGiven, ...],
    whole: _Columns,
    *,
    each: bool = False,
) -> str:
    """Return the SELECT from ``input`` to rows with ``complaint``, of a converter by its name.

    Args:
        parts: The mapping's parts.
        cells: Its columns.
        name: Of the converter.
        given: Where its fields are.
        whole: The columns of rows that are kept if they cannot be converted; none to keep none.
        each: Whether every reply of a conversation makes a row.
    """
    converter = converter_of(name)
    texts = ["prompt", "prompt_heading", "reply", "reply_heading", "messages", "identity"]
    if converter.rejected:
        texts += ["rejected", "rejected_messages", "rejected_identity"]
    texts += ["turn_number", "conversation", "problem"] if each else ["problem"]
    columns = (*texts, *(column for _, column, _ in whole))
    select = conversion(converter, given, faulty=converter.function is not None, each=each)
    extra = _extra(converter, whole)
    reason = call("concat", exp.Literal.string(f"{name}: "), exp.column("reason", "problem"))
    lack = exp.case().when(_is_wrong(), reason)
    made = Made(select, columns, _sections(converter), lack, _identity(converter), extra, each=each)
    return composed(parts, cells, made)


def _sections(converter: Converter) -> exp.Expr:
    sections = [
        section("anchor", exp.column("prompt_heading"), exp.column("prompt")),
        section("context", exp.column("reply_heading"), exp.column("reply")),
    ]
    if converter.rejected is None:
        return exp.Array(expressions=sections)
    heading = exp.Literal.string(converter.rejected)
    sections.append(section("rejected", heading, exp.column("rejected")))
    return having("text", exp.Array(expressions=sections))


def _identity(converter: Converter) -> exp.Expr:
    parts = ["identity", "rejected_identity"] if converter.rejected else ["identity"]
    return call("concat", *(exp.column(part) for part in parts))


def _extra(converter: Converter, whole: _Columns) -> dict[str, exp.Expr]:
    detail = exp.column("detail", "problem")
    good = exp.column("problem").is_(exp.null())
    extra: dict[str, exp.Expr] = {"messages": exp.case().when(good, exp.column("messages"))}
    if converter.rejected:
        rejected = exp.column("rejected_messages")
        extra["rejected_messages"] = exp.case().when(good.copy(), rejected)
    if whole:
        line = call("trim", exp.column("document"), exp.Literal.string(" \t\r\n"))
        row = line if whole == _DOCUMENT else document(whole)
        extra["quarantined"] = exp.case().when(_is_wrong(), row)
    extra["complaint"] = exp.case().when(_is_wrong(), detail)
    return extra


def _is_wrong() -> exp.Expr:
    """Return whether a row was readable and could not be converted."""
    there = exp.column("problem").is_(exp.null()).not_()
    return exp.and_(exp.column("fault").is_(exp.null()), there)


def source_of(mapping: Mapped, where: str) -> str:
    """Return what messages call the source."""
    name = getattr(mapping, "default_name", None)
    if callable(name):
        return f"source {name()!r}"
    return where if where.startswith("source ") else f"source {where!r}"


# -- the user's own converters --------------------------------------------------------------------

_SHOWN = 200  # characters of an exception's text in a message


class _Refused(Exception):  # noqa: N818 - carries a reason to the row that it is about
    """What a function returned is not what it is to return."""


def called(converter: Converter, documents: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Return what a function makes of rows.

    Args:
        converter: With a function.
        documents: The rows as JSON objects; null for a row that is none.

    Returns:
        For the i-th of the converter's fields a column ``f{i}`` of JSON and ``f{i}_kind``; and
        ``reason`` and ``detail`` of what went wrong in the row.
    """
    rows = [_called_row(converter, text) for text in documents.to_pylist()]
    columns: dict[str, pa.Array] = {}
    for i in range(len(converter.fields)):
        columns[f"f{i}"] = pa.array([row[0][i][0] for row in rows], pa.string())
        columns[f"f{i}_kind"] = pa.array([row[0][i][1] for row in rows], pa.string())
    columns["reason"] = pa.array([row[1] for row in rows], pa.string())
    columns["detail"] = pa.array([row[2] for row in rows], pa.string())
    return columns


_Field = tuple[str | None, str | None]
_CalledRow = tuple[list[_Field], str | None, str | None]


def _called_row(converter: Converter, text: str | None) -> _CalledRow:
    nothing: list[_Field] = [(None, None)] * len(converter.fields)
    if text is None or converter.function is None:
        return nothing, None, None
    row = {key: value for key, value in json.loads(text).items() if value is not None}
    try:
        made = converter.function(row)
    except Exception as error:
        said = " ".join(str(error).split())[:_SHOWN]
        name = type(error).__name__
        return nothing, name, f"converter {converter.name!r}: {name}: {said}"
    try:
        return _checked(converter, made), None, None
    except _Refused as refused:
        return nothing, str(refused), f"converter {converter.name!r}: {refused}"


def _checked(converter: Converter, made: Any) -> list[_Field]:
    if not isinstance(made, Mapping):
        raise _Refused(f"returned {type(made).__name__}, not a dictionary")
    if made.get("messages") is None and made.get("chosen_messages") is None:
        raise _Refused("returned neither 'messages' nor 'chosen_messages'")
    return [_field(name, made.get(name)) for name in converter.fields]


def _field(name: str, value: Any) -> _Field:
    if value is None:
        return None, None
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _Refused(f"returned {type(value).__name__} for {name!r}, not a list")
    try:
        text = json.dumps(list(value), ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise _Refused(f"returned {name!r} that are no JSON") from error
    return text, "ARRAY"
