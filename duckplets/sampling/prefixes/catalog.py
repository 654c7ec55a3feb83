"""Prefix definitions as flat arrays, so that any number of them is drawn from by arithmetic.

definition ─variants→ variant ─fields→ field ─values→ text (or a column of the record)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, Words

if TYPE_CHECKING:
    from duckplets.db.database import Database

_WHOLE = float(1 << 53)  # probabilities are compared as integers of so many parts


@dataclass(frozen=True, slots=True)
class Catalog:
    """Definitions of prefixes; each list is given by where it starts in the next array.

    Attributes:
        probabilities: Of every definition, in parts of 2^53.
        variants: First variant of every definition, and the end of the last.
        fields: First field of every variant, and the end of the last.
        keys: Of every field, text.
        presences: Of every field, in parts of 2^53.
        columns: Of every field the index of its column in ``names``, or -1.
        values: First value of every field, and the end of the last.
        texts: The values.
        names: Of columns.
    """

    probabilities: Words
    variants: Integers
    fields: Integers
    keys: pa.Array
    presences: Words
    columns: Integers
    values: Integers
    texts: pa.Array
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.probabilities)

    def __add__(self, other: Catalog) -> Catalog:
        """Return the definitions of both, those of ``other`` after these."""
        names = tuple(dict.fromkeys(self.names + other.names))
        columns = [_renumbered(catalog, names) for catalog in (self, other)]
        return Catalog(
            np.concatenate([self.probabilities, other.probabilities]),
            _chained(self.variants, other.variants),
            _chained(self.fields, other.fields),
            pa.concat_arrays([self.keys, other.keys]),
            np.concatenate([self.presences, other.presences]),
            np.concatenate(columns),
            _chained(self.values, other.values),
            pa.concat_arrays([self.texts, other.texts]),
            names,
        )

    def declared(self, definition: int) -> list[tuple[str, list[str], str | None]]:
        """Return key, values and column of all fields of a definition, in order."""
        first, last = self.fields[self.variants[definition : definition + 2]].tolist()
        found = []
        for field in range(first, last):
            low, high = self.values[field : field + 2].tolist()
            column = int(self.columns[field])
            texts = self.texts[low:high].to_pylist()
            found.append(
                (self.keys[field].as_py(), texts, None if column < 0 else self.names[column])
            )
        return found


def catalog_of(database: Database, definitions: Sequence[str]) -> Catalog:
    """Return definitions that are given as JSON, in order."""
    number = np.arange(len(definitions))
    rows = pa.table({"number": number, "definition": pa.array(definitions, pa.string())})
    with database.registered(written=rows):
        return _catalog(database.table("sampling/prefixes/parsed"))


def own_catalog(database: Database, record_keys: Integers) -> Catalog:
    """Return the definitions of records that have one of their own; their keys ascend."""
    with database.registered(wanted=pa.table({"record_key": record_keys})):
        return _catalog(database.table("sampling/prefixes/own"))


def _catalog(rows: pa.Table) -> Catalog:
    prefixes = rows["prefix"].combine_chunks()
    variants, in_variants = _list(_part(prefixes, "variants"))
    fields, members = _list(in_variants)
    values, texts = _list(_part(members, "values"))
    columns = _part(members, "column").dictionary_encode()
    return Catalog(
        thresholds(_part(prefixes, "probability").to_numpy(zero_copy_only=False)),
        variants,
        fields,
        _part(members, "key"),
        thresholds(_part(members, "presence").to_numpy(zero_copy_only=False)),
        columns.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64),
        values,
        texts,
        tuple(columns.dictionary.to_pylist()),
    )


def thresholds(probabilities: Any) -> Words:
    """Return probabilities in parts of 2^53, which is exact."""
    return (np.asarray(probabilities, np.float64) * _WHOLE).astype(np.uint64)


def happens(words: Words, parts: Words) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return whether hashes fall below thresholds: never for 0, always for 1."""
    return (words >> np.uint64(11)) < parts


def _part(structs: pa.Array, name: str) -> pa.Array:
    return pc.struct_field(structs, name)


def _list(lists: pa.Array) -> tuple[Integers, pa.Array]:
    """Return where every list starts among all elements, and the elements."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), lists.flatten()


def _chained(starts: Integers, more: Integers) -> Integers:
    return np.concatenate([starts, more[1:] + starts[-1]])


def _renumbered(catalog: Catalog, names: tuple[str, ...]) -> Integers:
    numbers = np.array([*(names.index(name) for name in catalog.names), -1], np.int64)
    return numbers[catalog.columns]
