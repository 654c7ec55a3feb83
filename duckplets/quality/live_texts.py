"""Read the words of records, a block after the other: the same words for all that compares texts.

    live records ─by source and key→ places ─blocks of some megabytes→ n-grams

A place is the rank by which one of several equal texts stays. Blocks are read in the order of keys,
in which texts lie in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.db.database import Database
from duckplets.quality.minhash import Grams

_BYTES = 4 << 20  # of the texts that are looked at together; one text may be longer
_RECORDS = 16_384


class GramBlock(NamedTuple):
    """Some records with their n-grams.

    Attributes:
        places: Of the records, ascending; int64[n].
        grams: Of their texts, in that order.
    """

    places: Integers
    grams: Grams


class RecordTexts(NamedTuple):
    """Some records with their texts.

    Attributes:
        places: Of the records, ascending; int64[n].
        sections: Their sections, one record's after the other's.
        starts: First section of each, and the end; int64[n + 1].
    """

    places: Integers
    sections: pa.Array
    starts: Integers

    def block(self, n: int, *, whole: bool) -> GramBlock:
        """Return the records with their n-grams."""
        return GramBlock(self.places, Grams.of(self.sections, self.starts, n, whole=whole))


@dataclass(frozen=True, slots=True)
class LiveTexts:
    """The records of a version that have text, by place: in the order of source_id and record_key.

    Attributes:
        database: The corpus.
        keys: The record_key of each place; int64[n].
        sizes: Bytes of the text of each place; int64[n].
    """

    database: Database
    keys: Integers
    sizes: Integers

    @classmethod
    def of(cls, database: Database, version: int, **which: Any) -> LiveTexts:
        """Look up the records of a version.

        Args:
            database: The corpus.
            version: Of the corpus.
            which: ``splits``, names of splits, and ``source``, the name of one, to take only the
                records there; ``without``, the name of a source to leave out.
        """
        given: dict[str, Any] = {"splits": None, "source": None, "without": None, **which}
        found = database.table("quality/texts/places", given | {"version": version})
        return cls(database, found["record_key"].to_numpy(), found["size"].to_numpy())

    def __len__(self) -> int:
        return len(self.keys)

    def blocks(self, n: int, *, whole: bool) -> Iterator[GramBlock]:
        """Yield all records with their n-grams, in the order of their keys.

        Args:
            n: Words of an n-gram.
            whole: Whether a text of fewer words is an n-gram by itself, or has none.
        """
        return (texts.block(n, whole=whole) for texts in self.texts())

    def block(self, places: Integers, n: int, *, whole: bool) -> GramBlock:
        """Return some records with their n-grams."""
        return self._texts(places).block(n, whole=whole)

    def texts(self) -> Iterator[RecordTexts]:
        """Yield the texts of all records, in the order of their keys, some megabytes at a time."""
        order = np.argsort(self.keys, kind="stable")
        for low, high in portions(self.sizes[order], _BYTES, _RECORDS):
            yield self._texts(order[low:high])

    def _texts(self, places: Integers) -> RecordTexts:
        table = self._asked("quality/texts/sections", places)
        place = table["place"].to_numpy()
        first = np.flatnonzero(np.diff(place, prepend=-1))
        return RecordTexts(place[first], combined(table["text"]), np.append(first, len(place)))

    def record_ids(self, places: Integers) -> list[str]:
        """Return what records are called."""
        requests = pa.table({"place": np.arange(len(places)), "record_key": self.keys[places]})
        with self.database.registered(requests=requests):
            found = self.database.table("quality/texts/record_ids")["record_id"]
        return list(found.to_pylist())

    def digests(self) -> pa.Table:
        """Return the SHA-256 of the text of every record, as ``place`` and ``digest``."""
        order = np.argsort(self.keys, kind="stable")
        parts = [
            self._asked("quality/texts/digests", order[low:high])
            for low, high in portions(self.sizes[order], _BYTES, _RECORDS)
        ]
        return pa.concat_tables(parts)

    def _asked(self, statement: str, places: Integers) -> pa.Table:
        keys = self.keys[places]
        requests = pa.table({"place": places, "record_key": keys})
        span = {"low": int(keys.min()), "high": int(keys.max())}
        with self.database.registered(requests=requests):
            return self.database.table(statement, span)


def combined(texts: pa.ChunkedArray) -> pa.Array:
    """Return texts in one piece, however large."""
    found = texts.cast(pa.large_string()).combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def portions(sizes: Integers, most: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield runs of rows that are together no larger than ``most``, or one row."""
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        limit = int(ends[low - 1] if low else 0) + most
        high = int(np.searchsorted(ends, limit, side="right"))
        high = min(max(high, low + 1), low + rows)
        yield low, high
        low = high
