"""Drawing prefixes: which line stands before a text, as a function of position and slot.

    (position, slot) ─shown?→ variant ─presence, rendering, order of every field→ line

Every choice is a hash of a key of its own with the position and the slot, for all texts of a
block at once. Lines are put together by Arrow, place by place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, Words
from duckplets.order.permute import below, hashed, key
from duckplets.sampling.prefixes.catalog import Catalog, happens
from duckplets.sampling.prefixes.values import Lists

_LAST = np.uint64((1 << 64) - 1)
_HEAD = "meta: "
_BETWEEN = " | "


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
        return np.flatnonzero(happens(words, catalog.probabilities[definitions]))

    def lines(
        self,
        catalog: Catalog,
        definitions: Integers,
        cells: Integers,
        columns: Sequence[Lists],
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
        columns: Sequence[Lists],
    ) -> tuple[Integers, Integers, Words]:
        """Return the number-th field of every text: itself, its value and its place by hash."""
        fields = np.where(there, fields, 0)
        start, count = _renderings(catalog, fields, columns)
        is_in = there & (count > 0)
        is_in &= happens(hashed(self._keys["presence"], cells, number), catalog.presences[fields])
        drawn = below(hashed(self._keys["rendering"], cells, number), np.maximum(count, 1))
        order = hashed(self._keys["order"], cells, number)
        # A bit of the hash marks those that are out, so that they come last.
        order = np.where(is_in, order >> np.uint64(1), _LAST)
        return fields, start + drawn, order


def _renderings(
    catalog: Catalog, fields: Integers, columns: Sequence[Lists]
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
    catalog: Catalog, columns: Sequence[Lists], fields: Integers, values: Integers, order: Words
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
