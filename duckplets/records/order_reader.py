"""Read an order span by span as checked arrays of indices, keys and places.

IndexSampler, DataIndex, any iterable ─elements ``start … stop-1``→ Part(index, key, place)

Our own orders are read as arrays; anything else is iterated lazily in the caller's thread. Records
of the sources of a ``DataIndex`` are laid end to end, and an entry is a place among them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.base.sanitize import listed
from duckplets.errors import SamplerError, nearest
from duckplets.records.data_index import DataIndex
from duckplets.records.order import IndexSampler, RecordMetadata, SequentialSampler

Order = Iterable[RecordMetadata] | Iterable[int] | DataIndex

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_LOOKED = 1 << 20  # entries read at a time


@dataclass(frozen=True, slots=True)
class OrderPart:
    """Some elements of an order: the index of each, and the record it names."""

    indices: Integers
    keys: Integers
    places: Integers  # number of that record among all to be read


# Returns the elements ``start … stop-1``, fewer at the end. Calls continue where the previous one
# stopped.
Take = Callable[[int, int], OrderPart]


def elements_of(order: Order, records: int) -> Take:
    """Return the function that reads an order over so many records."""
    # A subclass may iterate differently, so it is iterated.
    if type(order) in (IndexSampler, SequentialSampler):
        return _sampled(cast("IndexSampler", order), records)
    return _iterated(order, records)


def _sampled(sampler: IndexSampler, records: int) -> Take:
    if sampler.num_records > records:
        raise SamplerError(
            f"the order is over num_records={sampler.num_records}, and there are {records} "
            f"records to read; give it at most so many"
        )
    end = None if sampler.num_epochs is None else len(sampler)

    def take(start: int, stop: int) -> OrderPart:
        stop = stop if end is None else min(stop, end)
        keys = sampler.keys(start, stop)
        return OrderPart(sampler.indices(start, stop), keys, keys)

    return take


# -- any order ----------------------------------------------------------------------------------


def _iterated(order: Order, records: int) -> Take:
    try:
        elements = iter(order)
    except TypeError as error:
        raise SamplerError(
            f"order={order!r}: give a dp.index.IndexSampler, or an iterable of "
            f"dp.index.RecordMetadata or of integers"
        ) from error

    def take(start: int, stop: int) -> OrderPart:
        found = [
            _named(number, element, records)
            for number, element in enumerate(islice(elements, stop - start), start)
        ]
        indices, keys = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return OrderPart(indices, keys, keys)

    return take


def _named(number: int, element: Any, records: int) -> tuple[int, int]:
    """Return index and key of an element, checked."""
    if hasattr(element, "record_key"):
        index = _integer(number, element.index, element)
        named = element.record_key
        record_key = index if named is None else _integer(number, named, element)
    else:
        index, record_key = number, _integer(number, element, element)
    if not 0 <= record_key < records:
        there = f"records 0 to {records - 1}" if records else "no records"
        raise SamplerError(
            f"element {number} of the order names record {record_key}; there are {there}"
        )
    return index, record_key


def _integer(number: int, value: Any, element: Any) -> int:
    with suppress(TypeError):
        found = operator.index(value)
        if _LOWEST <= found <= _HIGHEST and not isinstance(value, bool):
            return found
    raise SamplerError(
        f"element {number} of the order is {element!r}; give dp.index.RecordMetadata with "
        f"integers of 64 bits as index and key, or such integers"
    )


# -- a data index -------------------------------------------------------------------------------


def indexed_elements(index: DataIndex, sizes: Mapping[str, int], where: str) -> Take:
    """Return the function that reads an index over the records of its sources."""
    for name, entries in index.counts().items():
        if entries and name not in sizes:
            raise SamplerError(
                f"the index names {name!r}{nearest(name, sizes)}; the sources to read from are: "
                f"{listed(sizes) or 'none'}"
            )
    limits = np.array([sizes.get(name, 0) for name in index.names], dtype=np.int64)
    for start in range(0, len(index), _LOOKED):
        codes, rows = index.arrays(slice(start, start + _LOOKED))
        beyond = np.flatnonzero(rows >= limits[codes])
        if len(beyond):
            _refuse(index, start + int(beyond[0]), sizes, where)
    starts = dict.fromkeys(index.names, 0)
    records = 0
    for name in (name for name in sizes if name in starts):
        starts[name] = records
        records += sizes[name]
    firsts = np.array(list(starts.values()), dtype=np.int64)

    def take(start: int, stop: int) -> OrderPart:
        codes, rows = index.arrays(slice(start, stop))
        numbers = np.arange(start, start + len(rows), dtype=np.int64)
        return OrderPart(numbers, rows, firsts[codes] + rows)

    return take


def _refuse(index: DataIndex, entry: int, sizes: Mapping[str, int], where: str) -> None:
    name, row = index.select(entry)
    records = f"records 0 to {sizes[name] - 1}" if sizes[name] else "no records"
    raise SamplerError(
        f"entry {entry} of the index names record {row} of {name!r}; in {where} that has {records}"
    )
