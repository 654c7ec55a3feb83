"""Data indexes: which rows of which data sets are read, in what order and how often.

    {"a": 1000, "b": 500} ─→ (a, 0) … (a, 999), (b, 0) … (b, 499) ─size, weight→ another index

An entry is the name of a data set and the number of a row, kept as two integers: a hundred million
need 1 GB, and none of them is an object. An index never changes; what adjusts one returns another.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast, overload

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Integers
from duckplets.base.checks import integer
from duckplets.errors import SamplerError, nearest
from duckplets.order.permute import key
from duckplets.records.copies import (
    MOST,
    SAME,
    Copies,
    SizeMode,
    check_mode,
    check_weight,
    of_size,
    of_weight,
    taken,
)
from duckplets.records.entries import (
    Codes,
    EntryError,
    all_rows,
    counts_of,
    is_integer,
    joined,
    listed_entries,
    place_of,
    places_of,
    stretches,
)

__all__ = ["DataIndex", "EntryError", "SizeMode"]

Selection = slice | Sequence[int] | npt.NDArray[np.integer[Any]]

_BLOCK = 1 << 16  # entries made into Python objects at once, while iterating


class DataIndex:
    """Rows of named data sets, in an order of their own: ``(name, row)``, each any number of times.

    ``index[i]`` and ``select(i)`` are one entry, numbered from 0 or, with a negative number, from
    the end; slices, lists and arrays of numbers give lists of entries. ``first + second`` has the
    entries of one and then of the other. ``corpus.read(index)`` reads what it names.

    Args:
        rows: Number of rows by name of the data set: every row once, in this order. Or entries.
        split: The split that the rows are counted in, where they are records of a corpus.

    Raises:
        SamplerError: A name or a number is wrong.

    Attributes:
        names: The data sets, in the order in which they came.
        codes: Place in ``names`` of the data set of every entry: shape (entries,).
        rows: Row of every entry, from 0: shape (entries,).
        split: As given.
    """

    __slots__ = ("codes", "names", "rows", "split")
    __hash__ = None  # type: ignore[assignment] # they are compared entry by entry

    names: tuple[str, ...]
    codes: Codes
    rows: Integers
    split: str | None

    def __init__(
        self, rows: Mapping[str, int] | Iterable[tuple[str, int]], *, split: str | None = None
    ) -> None:
        found = all_rows(rows) if isinstance(rows, Mapping) else listed_entries(rows)
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
            SamplerError: They are no indexes, or count their rows in different splits.
        """
        parts = list(indexes)
        if wrong := [part for part in parts if not isinstance(part, DataIndex)]:
            raise SamplerError(f"{wrong[0]!r}: only another dp.DataIndex can be added to one")
        splits = {part.split for part in parts} or {None}
        if len(splits) > 1:
            found = ", ".join(map(repr, sorted(splits, key=str)))
            raise SamplerError(f"the rows of the indexes are counted in different splits: {found}")
        made = joined([(part.names, part.codes, part.rows) for part in parts])
        return cls._of(*made, splits.pop())

    def __add__(self, other: DataIndex) -> DataIndex:
        return self.concatenate([self, other])

    # -- how many and how often -----------------------------------------------------------------

    def adjust(
        self,
        size: int | Mapping[str, int | None] | None = None,
        weight: float | Mapping[str, float | None] | None = None,
        *,
        mode: SizeMode = "first",
        seed: int = 42,
    ) -> DataIndex:
        """Return the index with a size and then a weight, as the two methods below do."""
        sized = self if size is None else self.adjust_by_size(size, mode=mode, seed=seed)
        return sized if weight is None else sized.adjust_by_weight(weight, seed=seed)

    def adjust_by_size(
        self, size: int | Mapping[str, int | None], *, mode: SizeMode = "first", seed: int = 42
    ) -> DataIndex:
        """Return an index of so many entries, or of so many of each data set that is named.

        Fewer than there are: the first ones, or a sample without replacement, in their order.
        More: whole copies, and then such a remainder. 0 leaves nothing. A larger sample holds the
        smaller ones of its seed.

        Args:
            size: Entries of the whole index. Or by name of a data set, None for no change: these
                are adjusted each on its own, and their entries come together.
            mode: ``first``, or ``sample`` for one that the seed chooses.
            seed: Any integer; another one gives another sample.

        Raises:
            SamplerError: An argument is wrong, or entries are to be made of none.
        """
        seed = integer("seed", seed)
        check_mode(mode)

        def copies(names: tuple[str, ...], entries: int, value: Any, what: str) -> Copies:
            wanted = integer(what, value, 0, MOST, say_high=False)
            if wanted and not entries:
                whose = f"data set {names[0]!r}" if len(names) == 1 else "the index"
                raise SamplerError(f"{what}={wanted}: {whose} has no rows to take; give 0")
            return of_size(entries, wanted, mode, key(seed, "data index size", *names))

        return self._adjusted("size", size, copies)

    def adjust_by_weight(
        self, weight: float | Mapping[str, float | None], *, seed: int = 42
    ) -> DataIndex:
        """Return an index that lists every entry ``weight`` times.

        1 changes nothing, 2.0 gives each entry twice, 0 none. Of 2.5 each is there twice, and half
        of them, a sample without replacement, once more. (The sample has ``round(fraction *
        entries)`` entries, with the fraction as it is written, and halves rounded to even.)

        Args:
            weight: Of the whole index. Or by name of a data set, None for no change: these are
                adjusted each on its own, and their entries come together.
            seed: Any integer; another one gives another sample.

        Raises:
            SamplerError: An argument is wrong.
        """
        seed = integer("seed", seed)

        def copies(names: tuple[str, ...], entries: int, value: Any, what: str) -> Copies:
            exact = check_weight(what, value)
            if exact * entries > MOST:
                raise SamplerError(f"{what}={value!r} of {entries} entries: at most {MOST} fit")
            return of_weight(entries, exact, key(seed, "data index weight", *names))

        return self._adjusted("weight", weight, copies)

    def _adjusted(
        self, what: str, value: Any, copies: Callable[[tuple[str, ...], int, Any, str], Copies]
    ) -> DataIndex:
        if isinstance(value, Mapping):
            return self._adjusted_each(what, value, copies)
        names = tuple(name for name, entries in self.counts().items() if entries) or self.names
        return self._with([(slice(None), copies(names, len(self), value, what))])

    def _adjusted_each(
        self,
        what: str,
        values: Mapping[str, Any],
        copies: Callable[[tuple[str, ...], int, Any, str], Copies],
    ) -> DataIndex:
        counts = self.counts()
        for name in values:
            if name not in counts:
                raise SamplerError(
                    f"{what}: no data set {name!r}{nearest(str(name), counts)}; there are: "
                    f"{', '.join(counts) or 'none'}"
                )
        chosen = {
            name: copies((name,), counts[name], value, f"{what}[{name!r}]")
            for name, value in values.items()
            if value is not None
        }
        if all(made.same for made in chosen.values()):
            return self
        places = stretches(self.codes)
        return self._with([(at, chosen.get(self.names[code], SAME)) for code, at in places])

    def _with(self, parts: list[tuple[slice | Integers, Copies]]) -> DataIndex:
        """Return the copies of some entries each, one after the other."""
        if len(parts) == 1 and parts[0][1].same:
            return self
        codes, rows = taken(self.codes, parts), taken(self.rows, parts)
        return self._of(self.names, codes, rows, self.split)

    @property
    def nbytes(self) -> int:
        """Bytes of the two arrays."""
        return self.codes.nbytes + self.rows.nbytes

    def counts(self) -> dict[str, int]:
        """Return the number of entries of every data set, 0 for one that is excluded."""
        counts = counts_of(self.codes, len(self.names)).tolist()
        return dict(zip(self.names, counts, strict=True))

    # -- entries ------------------------------------------------------------------------------

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
        """Return the entry ``(name, row)`` of a number, or a list of those of several numbers.

        Raises:
            EntryError: There is no such entry (an ``IndexError``).
            SamplerError: It is no integer, slice, list or array of integers (a ``ValueError``).
        """
        if is_integer(selection):
            at = place_of(operator.index(cast("int", selection)), len(self))
            return self.names[self.codes[at]], int(self.rows[at])
        codes, rows = self.arrays(cast("Selection", selection))
        return list(zip(map(self.names.__getitem__, codes.tolist()), rows.tolist(), strict=True))

    __getitem__ = select

    def arrays(self, selection: Selection) -> tuple[Codes, Integers]:
        """Return places in ``names`` and rows of entries: shape (entries,) each.

        Raises:
            SamplerError: As ``select``.
        """
        where = selection if isinstance(selection, slice) else places_of(selection, len(self))
        try:
            return self.codes[where], self.rows[where]
        except TypeError as error:
            raise SamplerError(f"{selection!r}: {error}") from error

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
        counts = ", ".join(f"{name}: {count}" for name, count in self.counts().items())
        where = "" if self.split is None else f"; split {self.split}"
        return f"<DataIndex of {len(self)} entries ({counts}{where})>"
