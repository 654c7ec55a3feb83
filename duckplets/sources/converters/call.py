"""Calls the user's own converter, a row at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from duckplets.sources.converters.registry import Converter

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
    rows = [_row(converter, text) for text in documents.to_pylist()]
    columns: dict[str, pa.Array] = {}
    for i in range(len(converter.fields)):
        columns[f"f{i}"] = pa.array([row[0][i][0] for row in rows], pa.string())
        columns[f"f{i}_kind"] = pa.array([row[0][i][1] for row in rows], pa.string())
    columns["reason"] = pa.array([row[1] for row in rows], pa.string())
    columns["detail"] = pa.array([row[2] for row in rows], pa.string())
    return columns


_Field = tuple[str | None, str | None]
_Row = tuple[list[_Field], str | None, str | None]


def _row(converter: Converter, text: str | None) -> _Row:
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
