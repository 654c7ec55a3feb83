"""Drawing prefixes: from definitions, position and slot, which line stands before a text.

    definition ─variants→ variant ─fields→ field ─values→ text (or a column of the record)
    (position, slot) ─shown?→ variant ─presence, rendering, order of every field→ line

Definitions are flat arrays, so that any number of them is drawn from by arithmetic. Every choice
is a hash of a key of its own with the position and the slot, for all texts of a block at once.
Lines are put together by Arrow, place by place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, Words
from duckplets.errors import DamagedFileError
from duckplets.order.permute import below, hashed, key
from duckplets.samples.prefixes.values import TextLists

if TYPE_CHECKING:
    from duckplets.db.database import Database

_WHOLE = float(1 << 53)  # probabilities are compared as integers of so many parts
_LAST = np.uint64((1 << 64) - 1)
_HEAD = "meta: "
_BETWEEN = " | "

# -- definitions --------------------------------------------------------------------------------


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
        return _catalog(database.table("samples/prefixes/parsed"))


def own_catalog(database: Database, record_keys: Integers) -> Catalog:
    """Return the definitions of records that have one of their own; their keys ascend."""
    with database.registered(wanted=pa.table({"record_key": record_keys})):
        return _catalog(database.table("samples/prefixes/own"))


def _catalog(rows: pa.Table) -> Catalog:
    prefixes = rows["prefix"].combine_chunks()
    variants, in_variants = _list(pc.struct_field(prefixes, "variants"))
    fields, members = _list(in_variants)
    values, texts = _list(pc.struct_field(members, "values"))
    columns = pc.struct_field(members, "column").dictionary_encode()
    needed = [pc.struct_field(prefixes, "probability"), prefixes]
    needed += [pc.struct_field(members, name) for name in ("key", "presence")]
    if any(array.null_count for array in needed) or not np.diff(variants).all():
        raise DamagedFileError(
            "table record_prefixes: a definition is damaged: it has no probability, no variant, or "
            "a field without key or presence. Put an earlier copy of the file in its place"
        )
    return Catalog(
        _parts(pc.struct_field(prefixes, "probability")),
        variants,
        fields,
        pc.struct_field(members, "key"),
        _parts(pc.struct_field(members, "presence")),
        columns.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64),
        values,
        texts,
        tuple(columns.dictionary.to_pylist()),
    )


def _parts(probabilities: pa.Array) -> Words:
    """Return probabilities in parts of 2^53, which is exact."""
    words: Words = (probabilities.to_numpy(zero_copy_only=False) * _WHOLE).astype(np.uint64)
    return words


def _happens(words: Words, parts: Words) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return whether hashes fall below probabilities: never for 0, always for 1."""
    return (words >> np.uint64(11)) < parts


def _list(lists: pa.Array) -> tuple[Integers, pa.Array]:
    """Return where every list starts among all elements, and the elements."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), lists.flatten()


def _chained(starts: Integers, more: Integers) -> Integers:
    return np.concatenate([starts, more[1:] + starts[-1]])


def _renumbered(catalog: Catalog, names: tuple[str, ...]) -> Integers:
    numbers = np.array([*(names.index(name) for name in catalog.names), -1], np.int64)
    return numbers[catalog.columns]


# -- draws --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """The choices of one run.

    Attributes:
        seed: Of the run.
    """

    seed: int

    @cached_property
    def _keys(self) -> dict[str, int]:
        names = ("shown", "variant", "presence", "rendering", "order")
        return {name: key(self.seed, "prefix", name) for name in names}

    def shown(self, catalog: Catalog, definitions: Integers, cells: Integers) -> Integers:
        """Return which of some texts get a prefix, unless all of its fields are absent.

        Args:
            catalog: The definitions.
            definitions: Of every text.
            cells: A number for every position and slot.
        """
        words = hashed(self._keys["shown"], cells)
        return np.flatnonzero(_happens(words, catalog.probabilities[definitions]))

    def lines(
        self,
        catalog: Catalog,
        definitions: Integers,
        cells: Integers,
        columns: Sequence[TextLists],
    ) -> pa.Array:
        """Return the line of each of n texts; null where all fields are absent.

        Args:
            catalog: The definitions.
            definitions: Of every text.
            cells: A number for every position and slot.
            columns: Renderings of the columns the catalog names, for each text.
        """
        starts = catalog.variants[definitions]
        count = catalog.variants[definitions + 1] - starts
        variants = starts + below(hashed(self._keys["variant"], cells), count)
        first, end = catalog.fields[variants], catalog.fields[variants + 1]
        places = int((end - first).max(initial=0))
        chosen = [
            self._field(catalog, first + i, first + i < end, cells, i, columns)
            for i in range(places)
        ]
        if not chosen:
            return pa.nulls(len(cells), pa.string())
        return _joined(
            catalog, columns, *(np.stack(parts, axis=1) for parts in zip(*chosen, strict=True))
        )

    def _field(
        self,
        catalog: Catalog,
        fields: Integers,
        there: np.ndarray,
        cells: Integers,
        number: int,
        columns: Sequence[TextLists],
    ) -> tuple[Integers, Integers, Words]:
        """Return the number-th field of every text: itself, its value and its place by hash."""
        fields = np.where(there, fields, 0)
        start, count = _renderings(catalog, fields, columns)
        is_in = there & (count > 0)
        is_in &= _happens(hashed(self._keys["presence"], cells, number), catalog.presences[fields])
        drawn = below(hashed(self._keys["rendering"], cells, number), np.maximum(count, 1))
        order = hashed(self._keys["order"], cells, number)
        # A bit of the hash marks those that are out, so that they come last.
        order = np.where(is_in, order >> np.uint64(1), _LAST)
        return fields, start + drawn, order


def _renderings(
    catalog: Catalog, fields: Integers, columns: Sequence[TextLists]
) -> tuple[Integers, Integers]:
    """Return where each field's values begin among all texts, and how many there are."""
    start = catalog.values[fields]
    count = catalog.values[fields + 1] - start
    base = len(catalog.texts)
    for number, lists in enumerate(columns):
        at = np.flatnonzero(catalog.columns[fields] == number)
        start[at] = base + lists.starts[at]
        count[at] = lists.counts[at]
        base += len(lists.texts)
    return start, count


def _joined(
    catalog: Catalog, columns: Sequence[TextLists], fields: Integers, values: Integers, order: Words
) -> pa.Array:
    """Return lines of the fields that are in, as drawn; shape (texts, fields) each."""
    some = np.flatnonzero((order != _LAST).any(axis=1))
    if len(some) == 0:
        return pa.nulls(len(order), pa.string())
    texts = pa.chunked_array([catalog.texts, *(lists.texts for lists in columns)])
    texts = texts.combine_chunks()
    pieces = []
    for place in np.argsort(order[some], axis=1, kind="stable").T:
        out = order[some, place] == _LAST
        field = pa.array(fields[some, place], mask=out)
        value = pa.array(values[some, place], mask=out)
        pieces.append(pc.binary_join_element_wise(catalog.keys.take(field), texts.take(value), "="))
    body = pc.binary_join_element_wise(*pieces, _BETWEEN, null_handling="skip")
    lines = pc.binary_join_element_wise(pa.scalar(_HEAD), body, "")
    if len(some) == len(order):
        return lines
    at = np.full(len(order), -1)
    at[some] = np.arange(len(some))
    return lines.take(pa.array(at, mask=at < 0))
