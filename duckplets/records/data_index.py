"""Data indexes: lists of rows of data sets, in any order and number.

{"a": 1000, "b": 500} ─→ (a, 0) … (a, 999), (b, 0) … (b, 499) ─size, weight→ another index

An entry is the name of a data set and a row number, stored as two integers. A hundred million
entries need 1 GB and no Python objects. Indexes are immutable: adjusting and slicing return new
ones.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast, overload

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Integers
from duckplets.base.checks import integer
from duckplets.base.sanitize import listed
from duckplets.base.settings import checked
from duckplets.errors import SamplerError
from duckplets.order.apportion import exact
from duckplets.order.copies import MOST, Copies, SizeMode, Times, sized, weighed
from duckplets.records.order import EntryError

__all__ = ["DataIndex", "EntryError", "SizeMode"]


_BLOCK = 1 << 16  # entries converted to Python objects at a time
_COUNTED = 1 << 20  # entries counted at a time
_LAST_ROW = (1 << 63) - 1

Codes = npt.NDArray[np.uint16] | npt.NDArray[np.int32]
Selection = slice | Sequence[int] | npt.NDArray[np.integer[Any]]


class DataIndex:
    """Rows of named data sets in any order: entries ``(name, row)``, each any number of times.

    ``index[i]`` is one entry, numbered from 0 or, with a negative number, from the end.
    ``index[10:20]``, ``index[::2]`` and ``index[[3, 1, 3]]`` are indexes of these entries;
    ``select`` gives entries as a list. ``corpus.read(index)`` reads the records of the entries.
    ``index[IndexSampler(len(index), …).keys(start, stop)]`` shuffles it, or takes a shard of it.

    Args:
        rows: Number of rows by name of the data set: every row once, in this order. Or entries.
        split: The split that numbers the rows, if they are records of a corpus.

    Raises:
        SamplerError: A name or a number is wrong.

    Attributes:
        names: The data sets, in their order in ``rows``.
        codes: Place in ``names`` of the data set of every entry: shape (entries,).
        rows: Row of every entry, from 0: shape (entries,).
        split: The split that numbers the rows, or None.
    """

    __slots__ = ("codes", "names", "rows", "split")
    __hash__ = None  # type: ignore[assignment] # equality compares entries

    names: tuple[str, ...]
    codes: Codes
    rows: Integers
    split: str | None

    def __init__(
        self, rows: Mapping[str, int] | Iterable[tuple[str, int]], *, split: str | None = None
    ) -> None:
        found = _all_rows(rows) if isinstance(rows, Mapping) else _listed_entries(rows)
        self._set(*found, split)

    def _set(self, names: tuple[str, ...], codes: Codes, rows: Integers, split: str | None) -> None:
        codes.setflags(write=False)
        rows.setflags(write=False)
        self.names, self.codes, self.rows, self.split = names, codes, rows, split

    @classmethod
    def _of(
        cls, names: tuple[str, ...], codes: Codes, rows: Integers, split: str | None
    ) -> DataIndex:
        made = cls.__new__(cls)
        made._set(names, codes, rows, split)
        return made

    @classmethod
    def concatenate(cls, indexes: Iterable[DataIndex]) -> DataIndex:
        """Return the entries of several indexes, one after the other.

        Raises:
            SamplerError: An argument is no index, or their rows are of different splits.
        """
        parts = list(indexes)
        if wrong := [part for part in parts if not isinstance(part, DataIndex)]:
            raise SamplerError(f"{wrong[0]!r}: a dp.index.DataIndex can only add another one")
        splits = {part.split for part in parts} or {None}
        if len(splits) > 1:
            found = ", ".join(map(repr, sorted(splits, key=str)))
            raise SamplerError(f"the indexes number the rows of different splits: {found}")
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        places = {name: place for place, name in enumerate(names)}
        size = sum(map(len, parts))
        codes, rows = np.empty(size, _code_type(len(names))), np.empty(size, np.int64)
        start = 0
        for part in parts:
            stop = start + len(part)
            own = np.array([places[name] for name in part.names], codes.dtype)
            codes[start:stop], rows[start:stop] = own[part.codes], part.rows
            start = stop
        return cls._of(names, codes, rows, splits.pop())

    def __add__(self, other: DataIndex) -> DataIndex:
        return self.concatenate([self, other])

    # -- size and weight ------------------------------------------------------------------------

    def adjust(
        self,
        size: int | None = None,
        weight: float | None = None,
        *,
        mode: SizeMode = "first",
        seed: int = 42,
    ) -> DataIndex:
        """Apply a size and then a weight; see the two methods below."""
        sized = self if size is None else self.adjust_by_size(size, mode=mode, seed=seed)
        return sized if weight is None else sized.adjust_by_weight(weight, seed=seed)

    def adjust_by_size(self, size: int, *, mode: SizeMode = "first", seed: int = 42) -> DataIndex:
        """Return an index of ``size`` entries.

        A smaller size takes the first entries, or a sample without replacement, in their order. A
        larger size takes whole copies, and then a remainder in the same way. 0 gives an empty
        index. A larger sample contains the smaller samples of its seed.

        Args:
            size: Number of entries of the new index.
            mode: ``first``, or ``sample`` for a random sample.
            seed: Any integer; another seed gives another sample.

        Raises:
            SamplerError: An argument is wrong, or the index is empty and ``size`` is not 0.
        """
        size = integer("size", size, 0, MOST)
        checked("mode", mode, SizeMode, SamplerError)
        if size and not len(self):
            raise SamplerError(f"size={size}: the index is empty; give 0")
        return self._copied(sized(self._present(), len(self), size, mode, integer("seed", seed)))

    def adjust_by_weight(self, weight: float, *, seed: int = 42) -> DataIndex:
        """Return an index that lists every entry ``weight`` times.

        1 changes nothing, 2.0 gives each entry twice, and 0 gives an empty index. 2.5 gives each
        entry twice, and a sample of half of the entries once more, without replacement. (The sample
        has ``round(fraction * entries)`` entries, with the decimal fraction as written, and halves
        rounded to even.)

        Args:
            weight: Copies of each entry.
            seed: Any integer; another seed gives another sample.

        Raises:
            SamplerError: An argument is wrong.
        """
        checked("weight", weight, Times, SamplerError)
        times = exact(weight)
        if times * len(self) > MOST:
            raise SamplerError(f"weight={weight!r} of {len(self)} entries: the limit is {MOST}")
        return self._copied(weighed(self._present(), len(self), times, integer("seed", seed)))

    def _present(self) -> tuple[str, ...]:
        return tuple(name for name, entries in self.counts().items() if entries) or self.names

    def _copied(self, copies: Copies) -> DataIndex:
        if copies.same:
            return self
        size = copies.count(len(self))
        codes, rows = np.empty(size, self.codes.dtype), np.empty(size, np.int64)
        copies.fill(codes, self.codes)
        copies.fill(rows, self.rows)
        return self._of(self.names, codes, rows, self.split)

    # -- entries ------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Return the bytes of the two arrays; a slice shares them with its index."""
        return self.codes.nbytes + self.rows.nbytes

    def counts(self) -> dict[str, int]:
        """Return the number of entries of every data set, 0 for an excluded one."""
        counts = np.zeros(len(self.names), dtype=np.int64)
        for start in range(0, len(self), _COUNTED):
            counts += np.bincount(self.codes[start : start + _COUNTED], minlength=len(counts))
        return dict(zip(self.names, counts.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for start in range(0, len(self), _BLOCK):
            yield from self.select(slice(start, start + _BLOCK))

    @overload
    def select(self, selection: int) -> tuple[str, int]: ...

    @overload
    def select(self, selection: Selection) -> list[tuple[str, int]]: ...

    def select(self, selection: int | Selection) -> tuple[str, int] | list[tuple[str, int]]:
        """Return the entry ``(name, row)`` of a number, or a list of entries of several numbers.

        Raises:
            EntryError: The entry does not exist (an ``IndexError``).
            SamplerError: ``selection`` must be an integer, a slice, or a list or an array of
                integers (a ``ValueError``).
        """
        if _is_integer(selection):
            at = _place(operator.index(cast("int", selection)), len(self))
            return self.names[self.codes[at]], int(self.rows[at])
        codes, rows = self.arrays(cast("Selection", selection))
        return list(zip(map(self.names.__getitem__, codes.tolist()), rows.tolist(), strict=True))

    @overload
    def __getitem__(self, selection: int) -> tuple[str, int]: ...

    @overload
    def __getitem__(self, selection: Selection) -> DataIndex: ...

    def __getitem__(self, selection: int | Selection) -> tuple[str, int] | DataIndex:
        if _is_integer(selection):
            return self.select(cast("int", selection))
        return self._of(self.names, *self.arrays(cast("Selection", selection)), self.split)

    def arrays(self, selection: Selection) -> tuple[Codes, Integers]:
        """Return places in ``names`` and rows of entries: shape (entries,) each.

        Raises:
            SamplerError: As in ``select``.
        """
        where = selection if isinstance(selection, slice) else _places(selection, len(self))
        try:
            return self.codes[where], self.rows[where]
        except (TypeError, ValueError) as error:  # no integers, or a step of 0
            raise SamplerError(f"{_short(selection)}: {error}") from error

    # -- as an object -------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataIndex):
            return NotImplemented
        known = {name: place for place, name in enumerate(self.names)}
        theirs = np.array([known.get(name, -1) for name in other.names] or [-1])
        return bool(
            self.split == other.split
            and np.array_equal(self.rows, other.rows)
            and np.array_equal(self.codes, theirs[other.codes])
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return self._of, (self.names, self.codes, self.rows, self.split)

    def __repr__(self) -> str:
        counts = listed(f"{name}: {count}" for name, count in self.counts().items())
        where = "" if self.split is None else f"; split {self.split}"
        return f"<DataIndex of {len(self)} entries ({counts}{where})>"


# -- entries ------------------------------------------------------------------------------------


def _all_rows(sizes: Mapping[str, int]) -> tuple[tuple[str, ...], Codes, Integers]:
    checked = {_name(n): integer(f"rows[{n!r}]", sizes[n], 0, MOST) for n in sizes}
    total = sum(checked.values())
    if total > MOST:
        raise SamplerError(f"{total} rows: the limit of an index is {MOST}")
    codes, rows = np.empty(total, _code_type(len(checked))), np.empty(total, np.int64)
    start = 0
    for code, size in enumerate(checked.values()):
        codes[start : start + size] = code
        rows[start : start + size] = np.arange(size)
        start += size
    return tuple(checked), codes, rows


def _listed_entries(entries: Any) -> tuple[tuple[str, ...], Codes, Integers]:
    places: dict[str, int] = {}
    codes, rows = [], []
    try:
        for name, row in entries:
            codes.append(places.setdefault(_name(name), len(places)))
            rows.append(integer(f"row of {name!r}", row, 0, _LAST_ROW))
    except (TypeError, ValueError) as error:
        if isinstance(error, SamplerError):
            raise
        raise SamplerError(
            "give the number of rows by name of the data set, as in {'faq': 1000}, or entries "
            f"(name, row), not {_short(entries)}"
        ) from error
    kind = _code_type(len(places))
    return tuple(places), np.array(codes, kind), np.array(rows, np.int64)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise SamplerError(f"{name!r} is no name of a data set; give a text")
    return name


def _code_type(names: int) -> Any:
    """Return the integer type of codes for a number of data sets."""
    return np.uint16 if names <= 1 << 16 else np.int32


# -- places -------------------------------------------------------------------------------------


def _is_integer(value: Any) -> bool:
    """Return whether a value is one integer, and no array of one element."""
    with suppress(TypeError):
        operator.index(value)
        return not isinstance(value, bool | np.bool_ | np.ndarray)
    return False


def _place(number: int, entries: int) -> int:
    """Return the position of a number, counted from the end if negative."""
    at = number + entries if number < 0 else number
    if not 0 <= at < entries:
        range_ = f"entries 0 to {entries - 1}" if entries else "no entries"
        raise EntryError(f"entry {number}: the index has {range_}")
    return at


def _places(selection: Any, entries: int) -> Integers:
    """Return the positions of a selection as an array."""
    numbers = selection
    if not isinstance(selection, np.ndarray):
        # NumPy reads the tuple of ``index[1, 2]`` as row and column.
        is_list = isinstance(selection, Sequence) and not isinstance(selection, str | bytes | tuple)
        if is_list and all(map(_is_integer, selection)):
            try:
                numbers = np.array(selection, np.int64)
            except OverflowError as error:
                largest = max(selection, key=abs)
                raise EntryError(f"entry {largest}: no index is so large") from error
        elif hasattr(selection, "__array__"):  # another library's array
            numbers = np.asarray(selection)
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise SamplerError(
            f"{_short(selection)} chooses no entries: give an integer, a slice, or a list or an "
            f"array of integers (for a mask numpy.flatnonzero(mask))"
        )
    if len(numbers):
        _place(int(numbers.min()), entries)
        _place(int(numbers.max()), entries)
    return numbers.astype(np.int64)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
