"""Records that a data index names: its data sets are sources, its rows their records by number.

The records of all sources that it names are laid end to end; an entry is then one number, as it is
in any other order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.db.database import Database
from duckplets.errors import SamplerError, nearest
from duckplets.records.data_index import DataIndex
from duckplets.records.elements import Elements, Part

_LOOKED = 1 << 20  # entries looked at, at once


def split_of(index: DataIndex, split: str | None) -> str | None:
    """Return the split that the rows of an index are counted in."""
    if index.split is not None and split not in (None, index.split):
        raise SamplerError(f"split={split!r}: the rows of the index count in {index.split!r}")
    return split if index.split is None else index.split


def indexed(
    database: Database, index: DataIndex, where: dict[str, Any]
) -> tuple[Integers, Elements]:
    """Return the records of the sources that an index names, end to end, and its entries."""
    split, source = where["split"], where["source"]
    known = database.run("records/controls/sources", {"split": split, "version": where["version"]})
    sizes = {
        name: records
        for name, _, records, *_ in sorted(known, key=lambda row: row[1])
        if source in (None, name)
    }
    elements = indexed_elements(index, sizes, f"split {split!r}" if split else "the corpus")
    named = [name for name in index.names if name in sizes]
    asked = {"sources": named, "split": split, "version": where["version"]}
    keys = database.table("records/read/keys_by_source", asked)["record_key"].to_numpy()
    return keys, elements


def indexed_elements(index: DataIndex, sizes: Mapping[str, int], where: str) -> Elements:
    """Return what takes the entries of an index over the records of its sources, end to end.

    Args:
        index: The index; its data sets are sources.
        sizes: Number of records by name of the source, others than those named too, in the order
            in which they lie.
        where: What the records are, for messages.

    Raises:
        SamplerError: It names a source or a record that is not there.
    """
    wanted = set(index.names)
    named = [name for name in sizes if name in wanted]
    starts = np.cumsum([0, *(sizes[name] for name in named)]).tolist()
    firsts = dict(zip(named, starts, strict=False))
    for name, entries in index.counts().items():
        if entries and name not in sizes:
            raise SamplerError(
                f"the index names {name!r}{nearest(name, sizes)}; the sources to read from are: "
                f"{', '.join(sizes) or 'none'}"
            )
    limits = np.array([sizes.get(name, 0) for name in index.names], dtype=np.int64)
    for start in range(0, len(index), _LOOKED):
        codes, rows = index.arrays(slice(start, start + _LOOKED))
        beyond = np.flatnonzero(rows >= limits[codes])
        if len(beyond):
            name, row = index.select(start + int(beyond[0]))
            records = f"records 0 to {sizes[name] - 1}" if sizes[name] else "no records"
            raise SamplerError(
                f"entry {start + int(beyond[0])} of the index names record {row} of {name!r}; "
                f"in {where} that has {records}"
            )
    return _Indexed(index, np.array([firsts.get(name, 0) for name in index.names], np.int64))


class _Indexed:
    """Takes entries of a data index, as arrays.

    Args:
        index: The index.
        firsts: For each of its names, the number of the first record of that source.
    """

    def __init__(self, index: DataIndex, firsts: Integers) -> None:
        self._index = index
        self._firsts = firsts
        self._taken = 0

    def take(self, size: int) -> Part:
        """Return the next entries; fewer than that at the end of the index."""
        start, stop = self._taken, min(self._taken + size, len(self._index))
        self._taken = stop
        codes, rows = self._index.arrays(slice(start, stop))
        numbers = np.arange(start, stop, dtype=np.int64)
        return Part(numbers, rows, self._firsts[codes] + rows)
