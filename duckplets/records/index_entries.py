"""Parse entries of an index, and selections of positions."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Integers
from duckplets.base.checks import integer
from duckplets.errors import SamplerError
from duckplets.order.copies import MOST

Codes = npt.NDArray[np.uint16] | npt.NDArray[np.int32]
Selection = slice | Sequence[int] | npt.NDArray[np.integer[Any]]

_LAST_ROW = (1 << 63) - 1


class EntryError(SamplerError, IndexError):
    """An index or an order has no such entry."""


# -- entries ------------------------------------------------------------------------------------


def all_rows(sizes: Mapping[str, int]) -> tuple[tuple[str, ...], Codes, Integers]:
    """Return every row of every data set."""
    checked = {_name(n): integer(f"rows[{n!r}]", sizes[n], 0, MOST, say_high=False) for n in sizes}
    total = sum(checked.values())
    if total > MOST:
        raise SamplerError(f"{total} rows: an index holds at most {MOST}")
    codes, rows = np.empty(total, code_type(len(checked))), np.empty(total, np.int64)
    start = 0
    for code, size in enumerate(checked.values()):
        codes[start : start + size] = code
        rows[start : start + size] = np.arange(size)
        start += size
    return tuple(checked), codes, rows


def listed_entries(entries: Any) -> tuple[tuple[str, ...], Codes, Integers]:
    """Return entries from ``(name, row)`` pairs."""
    places: dict[str, int] = {}
    codes, rows = [], []
    try:
        for name, row in entries:
            codes.append(places.setdefault(_name(name), len(places)))
            rows.append(integer(f"row of {name!r}", row, 0, _LAST_ROW, say_high=False))
    except (TypeError, ValueError) as error:
        if isinstance(error, SamplerError):
            raise
        raise SamplerError(
            "give the number of rows by name of the data set, as in {'faq': 1000}, or entries "
            f"(name, row), not {short(entries)}"
        ) from error
    kind = code_type(len(places))
    return tuple(places), np.array(codes, kind), np.array(rows, np.int64)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise SamplerError(f"{name!r} is no name of a data set; give a text")
    return name


def code_type(names: int) -> Any:
    """Return the integer type of codes for so many data sets."""
    return np.uint16 if names <= 1 << 16 else np.int32


# -- places -------------------------------------------------------------------------------------


def is_integer(value: Any) -> bool:
    """Return whether a value is one integer; an array of one element is not."""
    with suppress(TypeError):
        operator.index(value)
        return not isinstance(value, bool | np.bool_ | np.ndarray)
    return False


def place(number: int, entries: int) -> int:
    """Return the position of a number, counted from the end if negative."""
    at = number + entries if number < 0 else number
    if not 0 <= at < entries:
        has = f"entries 0 to {entries - 1}" if entries else "no entries"
        raise EntryError(f"entry {number}: the index has {has}")
    return at


def places(selection: Any, entries: int) -> Integers:
    """Return the positions of a selection as an array."""
    numbers = selection
    if not isinstance(selection, np.ndarray):
        # NumPy reads the tuple of ``index[1, 2]`` as row and column.
        is_list = isinstance(selection, Sequence) and not isinstance(selection, str | bytes | tuple)
        if is_list and all(map(is_integer, selection)):
            try:
                numbers = np.array(selection, np.int64)
            except OverflowError as error:
                largest = max(selection, key=abs)
                raise EntryError(f"entry {largest}: no index has so many") from error
        elif hasattr(selection, "__array__"):  # another library's array
            numbers = np.asarray(selection)
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise SamplerError(
            f"{short(selection)} chooses no entries: give an integer, a slice, or a list or an "
            f"array of integers (of a mask: numpy.flatnonzero(mask))"
        )
    if len(numbers):
        place(int(numbers.min()), entries)
        place(int(numbers.max()), entries)
    return numbers.astype(np.int64)


def short(value: Any) -> str:
    """Return the ``repr`` of a value, cut if long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
