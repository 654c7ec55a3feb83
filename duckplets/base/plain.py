"""Decode JSON that lies in a file of ours or came from a hub, and check that it has its shape.

Such JSON was written by a program, so what is wrong with it is damage, or the work of somebody
else. Nothing is taken out of it before all of it was looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from duckplets.base.documents import SURROGATE, Unreadable
from duckplets.base.sanitize import shown
from duckplets.errors import DamagedFileError, DuckpletsError

Shape = Any
"""What JSON should be: a type (``int`` is no bool, ``float`` any number, ``object`` anything),
None, a range of integers, a frozenset of the texts it may be, a tuple of shapes of which one fits,
a list of the shape of all elements, ``{str: shape}`` of the shape of all values, or ``{"name":
shape, "other?": shape}``, of which the second may be missing. Other keys are let be."""

_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # of a pair, or alone


class StoredJson:
    """One place of a file where JSON is stored.

    Args:
        file: The corpus or state file.
        table: The table.
        row: Which row, in words.
        way: What to do where it is damaged.
    """

    def __init__(
        self,
        file: Path | None,
        table: str,
        row: str,
        way: str = "Put an earlier copy of the file in its place, or make it anew.",
    ) -> None:
        self._where = f"{file}: table {table}, {row}"
        self._way = way

    def read(self, column: str, text: Any, shape: Shape) -> Any:
        """Return what the JSON of a column says.

        Raises:
            DamagedFileError: It is no JSON, nested too deeply, or of another shape.
        """
        try:
            if not isinstance(text, str):
                raise Unreadable(f"is no text, but {shown(repr(text), 80)}")
            value = from_json(text)
        except Unreadable as error:
            raise self.damage(column, str(error)) from error
        if wrong := misfit(value, shape):
            raise self.damage(column, f"has another shape: {wrong}")
        return value

    @contextmanager
    def making(self, column: str) -> Iterator[None]:
        """Turn what is said of a value of ours into an error that says where it is stored."""
        try:
            yield
        except DuckpletsError as error:
            raise self.damage(column, f"has a wrong value: {error}") from error

    def damage(self, column: str, what: str) -> DamagedFileError:
        """Return the error for a column that is damaged."""
        return DamagedFileError(f"{self._where}: {column} is damaged: it {what}. {self._way}")


def from_json(text: str) -> Any:
    """Return what a JSON text says.

    Raises:
        Unreadable: It is no JSON, or nested too deeply.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error
    except ValueError as error:
        raise Unreadable(f"is not JSON: {error}") from error
    if _HALF.search(text) and SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise Unreadable("holds half of a pair of characters")
    return value


def misfit(value: Any, shape: Shape, at: str = "it") -> str:
    """Return where a value does not fit a shape and how, or an empty text."""
    if isinstance(shape, tuple):
        found = [misfit(value, one, at) for one in shape]
        return "" if "" in found else f"{at} is {_shown(value)}, not {_called(shape)}"
    is_nested = isinstance(shape, list | dict)
    if not (isinstance(value, type(shape)) if is_nested else _fits(value, shape)):
        return f"{at} is {_shown(value)}, not {_called(shape)}"
    if not is_nested:
        return ""
    for name, inner in _parts(value, shape):
        if inner is _MISSING:
            return f"{at} has no {name!r}"
        if wrong := misfit(value[name], inner, f"{at}[{shown(repr(name), 80)}]"):
            return wrong
    return ""


_MISSING = object()


def _parts(value: Any, shape: Shape) -> Iterator[tuple[Any, Shape]]:
    """Yield the places of a list or an object that are looked at, with their shapes."""
    if isinstance(shape, list):
        yield from ((place, shape[0]) for place in range(len(value)))
    elif str in shape:
        yield from ((name, shape[str]) for name in value)
    else:
        for name, inner in shape.items():
            if name.removesuffix("?") in value:
                yield name.removesuffix("?"), inner
            elif not name.endswith("?"):
                yield name, _MISSING


def _fits(value: Any, shape: Shape) -> bool:
    if shape is object:
        return True
    if shape is None or isinstance(value, bool):
        return value is None if shape is None else shape is bool
    if isinstance(shape, range):
        return isinstance(value, int) and value in shape
    if isinstance(shape, frozenset):
        return isinstance(value, str) and value in shape
    return isinstance(value, (int, float) if shape is float else shape)


def _called(shape: Shape) -> str:
    """Return a shape in words."""
    if isinstance(shape, tuple):
        return " or ".join(_called(one) for one in shape)
    if isinstance(shape, range):
        return f"an integer from {shape.start} to {shape.stop - 1}"
    if isinstance(shape, frozenset):
        return f"one of {', '.join(sorted(shape))}"
    if isinstance(shape, list | dict):
        return "a list" if isinstance(shape, list) else "an object"
    names = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}
    return names.get(shape, "null")


def _shown(value: Any) -> str:
    """Return a value as JSON has it, not in full."""
    if isinstance(value, list | dict):
        return f"{_called(type(value)())} of {len(value):,}"
    return shown(json.dumps(value), 80)
