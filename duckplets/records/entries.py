"""Entries: rows of named data sets as two arrays of integers, and places in them.

What people give, a number of rows by name, a list of ``(name, row)`` or any choice of entries, is
checked here and turned into arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Integers
from duckplets.base.checks import integer
from duckplets.errors import SamplerError
from duckplets.records.copies import MOST

Codes = npt.NDArray[np.uint16] | npt.NDArray[np.int32]

_LAST_ROW = (1 << 63) - 1
_LOOKED = 1 << 20  # entries looked at, at once


class EntryError(SamplerError, IndexError):
    """An index has no such entry."""


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
    """Return entries that were given one by one."""
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
            f"(name, row), not {_short(entries)}"
        ) from error
    kind = code_type(len(places))
    return tuple(places), np.array(codes, kind), np.array(rows, np.int64)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise SamplerError(f"{name!r} is no name of a data set; give a text")
    return name


def joined(
    parts: Sequence[tuple[tuple[str, ...], Codes, Integers]],
) -> tuple[tuple[str, ...], Codes, Integers]:
    """Return names, codes and rows of several lists of entries as those of one."""
    names = tuple(dict.fromkeys(name for part in parts for name in part[0]))
    places = {name: place for place, name in enumerate(names)}
    size = sum(len(rows) for _, _, rows in parts)
    codes, rows = np.empty(size, code_type(len(names))), np.empty(size, np.int64)
    start = 0
    for of_names, of_codes, of_rows in parts:
        stop = start + len(of_rows)
        codes[start:stop] = np.array([places[n] for n in of_names], codes.dtype)[of_codes]
        rows[start:stop] = of_rows
        start = stop
    return names, codes, rows


def counts_of(codes: Codes, names: int) -> Integers:
    """Return the number of entries of every data set."""
    counts = np.zeros(names, dtype=np.int64)
    for start in range(0, len(codes), _LOOKED):
        counts += np.bincount(codes[start : start + _LOOKED], minlength=names)
    return counts


def stretches(codes: Codes) -> list[tuple[int, slice | Integers]]:
    """Return where the entries of every data set are, of those that come first first."""
    if not len(codes):
        return []
    starts = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1])
    first = codes[starts]
    if len(np.unique(first)) == len(first):
        ends = [*starts[1:].tolist(), len(codes)]
        lists = [slice(a, b) for a, b in zip(starts.tolist(), ends, strict=True)]
        return list(zip(first.tolist(), lists, strict=True))
    present = list(dict.fromkeys(first.tolist()))
    return [(code, np.flatnonzero(codes == code)) for code in present]


def code_type(names: int) -> Any:
    """Return the type of codes for so many data sets."""
    return np.uint16 if names <= 1 << 16 else np.int32


def is_integer(value: Any) -> bool:
    """Whether a value is one number; an array with one element is none."""
    if isinstance(value, bool | np.bool_ | np.ndarray):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def place_of(number: int, entries: int) -> int:
    """Return the place of a number, which counts from the end if it is negative.

    Raises:
        EntryError: There is no such place.
    """
    place = number + entries if number < 0 else number
    if not 0 <= place < entries:
        has = f"entries 0 to {entries - 1}" if entries else "no entries"
        raise EntryError(f"entry {number}: the index has {has}")
    return place


def places_of(selection: Any, entries: int) -> Integers:
    """Return numbers that were given, all of which have a place, as an array."""
    numbers = selection
    if not isinstance(selection, np.ndarray):
        is_list = isinstance(selection, Sequence) and not isinstance(selection, str | bytes)
        if is_list and all(map(is_integer, selection)):
            numbers = _array(selection)
        elif hasattr(selection, "__array__"):  # of another library
            numbers = np.asarray(selection)
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise SamplerError(
            f"{_short(selection)} chooses no entries: give an integer, a slice, or a list or an "
            f"array of integers (of a mask: numpy.flatnonzero(mask))"
        )
    if len(numbers):
        place_of(int(numbers.min()), entries)
        place_of(int(numbers.max()), entries)
    return numbers.astype(np.int64)


def _array(numbers: Sequence[Any]) -> Integers:
    try:
        return np.array(numbers, np.int64)
    except OverflowError as error:
        raise EntryError(f"entry {max(numbers, key=abs)}: no index has so many") from error


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
