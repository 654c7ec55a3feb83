"""Values of prefixes: from the columns of records, a list of renderings for each of them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers
from duckplets.db.queries import query
from duckplets.text.prefix import date_renderings, meta_key

if TYPE_CHECKING:
    from duckplets.db.database import Database

_NO_DAY = np.iinfo(np.int32).min
_EPOCH = datetime.date(1970, 1, 1)
_MOST_VALUES = 100_000  # of a column that is kept for all records
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class TextLists:
    """A list of texts for each of n records.

    Attributes:
        starts: Where each begins in ``texts``: shape (n,).
        counts: How many it has.
        texts: The elements of all.
    """

    starts: Integers
    counts: Integers
    texts: pa.Array

    def part(self, rows: npt.NDArray[np.integer[Any]]) -> TextLists:
        """Return the lists of some records."""
        return TextLists(self.starts[rows], self.counts[rows], self.texts)

    def to_pylist(self) -> list[list[str]]:
        """Return them as lists."""
        texts, ends = self.texts.to_pylist(), (self.starts + self.counts).tolist()
        return [texts[low:high] for low, high in zip(self.starts.tolist(), ends, strict=True)]


@dataclass(frozen=True, slots=True)
class _Coded:
    """A column with few different values, kept for all records: 4 bytes a record.

    Attributes:
        codes: Row in ``lists`` of every record, by its key; -1, the last row, is of none.
        lists: Of every value.
    """

    codes: npt.NDArray[np.int32]
    lists: TextLists

    def of(self, records: Integers) -> TextLists:
        """Return the renderings for some records."""
        return self.lists.part(self.codes[records])


class Columns:
    """The columns of records that prefixes show.

    Those with few different values are read once: reading three of them for each block took as
    long as fetching its texts.

    Args:
        database: The corpus.
        names: Of the columns that many records show.
    """

    def __init__(self, database: Database, names: Sequence[str]) -> None:
        self._coded = {name: self._encoded(database, name) for name in names}

    def of(self, database: Database, records: Integers, names: Sequence[str]) -> list[TextLists]:
        """Return the renderings of some columns, for every one of some records."""
        others = [name for name in names if self._coded.get(name) is None]
        read = dict(zip(others, self._read(database, records, others), strict=True))
        coded = {name: of for name, of in self._coded.items() if of is not None}
        return [coded[n].of(records) if n in coded else read[n] for n in names]

    def _read(self, database: Database, records: Integers, names: Sequence[str]) -> list[TextLists]:
        if not names:
            return []
        keys, rows = np.unique(records, return_inverse=True)
        with database.registered(wanted=pa.table({"record_key": keys})):
            found = database.table("samples/prefixes/columns")
            meta = database.table("samples/prefixes/meta") if any(map(meta_key, names)) else None
        lists = []
        for name in names:
            key = meta_key(name)
            if key is not None and meta is not None:
                values = pc.map_lookup(meta["meta"].combine_chunks(), key, "first")
            else:
                values = found[name].combine_chunks()
            lists.append(_lists(name, values).part(rows))
        return lists

    def _encoded(self, database: Database, name: str) -> _Coded | None:
        """Read a column of all records; None if it has too many values for that."""
        if name == "taxonomy":
            return None
        where = {"column": name, "key": meta_key(name) or ""}
        keys, parts = [], []
        seen = pa.array([], pa.string())
        for batch in database.stream(query("samples/prefixes/values"), where):
            part = batch["value"].dictionary_encode()
            seen = pc.unique(pa.concat_arrays([seen, part.dictionary]))
            if len(seen) > _MOST_VALUES or seen.nbytes > _MOST_BYTES:
                return None
            keys.append(batch["record_key"].to_numpy())
            parts.append(pc.index_in(batch["value"], seen).fill_null(-1).to_numpy())
        codes = np.full(max((int(k.max(initial=0)) for k in keys), default=0) + 1, -1, np.int32)
        for records, part in zip(keys, parts, strict=True):
            codes[records] = part
        values = pa.concat_arrays([seen, pa.nulls(1, pa.string())])
        if name == "date":
            values = values.cast(pa.date32())
        return _Coded(codes, _lists(name, values))


def _lists(name: str, values: pa.Array) -> TextLists:
    """Return the renderings of a column's values."""
    if name == "date":
        return _dates(values)
    return _levels(values) if name == "taxonomy" else _single(values)


def _dates(dates: pa.Array) -> TextLists:
    days = dates.cast(pa.int32()).fill_null(_NO_DAY).to_numpy()
    different, rows = np.unique(days, return_inverse=True)
    found = [_renderings(day) for day in different.tolist()]
    counts = np.array([len(texts) for texts in found], np.int64)
    texts = pa.array([text for texts in found for text in texts], pa.string())
    return TextLists(np.cumsum(counts) - counts, counts, texts).part(rows)


@lru_cache(maxsize=_MOST_VALUES)  # making them takes longer than all the rest
def _renderings(day: int) -> list[str]:
    try:
        return date_renderings(_EPOCH + datetime.timedelta(days=day))
    except OverflowError:  # null, or a year that Python has no date for
        return []


def _single(texts: pa.Array) -> TextLists:
    texts = _plain(texts)
    counts = pc.greater(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    return TextLists(np.arange(len(texts)), counts.astype(np.int64), texts)


def _levels(lists: pa.Array) -> TextLists:
    owners = pc.list_parent_indices(lists).to_numpy()
    texts = _plain(lists.flatten())
    filled = pc.greater(pc.binary_length(texts), 0)
    owners = owners[filled.to_numpy(zero_copy_only=False)]
    counts = np.bincount(owners, minlength=len(lists)).astype(np.int64)
    return TextLists(np.cumsum(counts) - counts, counts, texts.filter(filled))


def _plain(texts: pa.Array) -> pa.Array:
    """Return texts with single blanks for white space, as a prefix is one line; null is empty."""
    texts = pc.utf8_trim_whitespace(texts.fill_null(""))
    return pc.binary_join(pc.utf8_split_whitespace(texts), " ")
