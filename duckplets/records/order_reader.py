"""Read an order in spans, as checked arrays of indices, keys and places.

IndexSampler, DataIndex, any iterable ─elements ``start … stop-1``→ Part(index, key, place)

The package's own orders are read as arrays; other iterables are read lazily in the caller's thread.
The places of a ``DataIndex`` count the records of its sources, one source after the other.
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
_BLOCK = 1 << 20  # entries checked at a time


@dataclass(frozen=True, slots=True)
class OrderPart:
    """A span of an order: the index of each element, and its record."""

    indices: Integers
    keys: Integers
    places: Integers  # number of the record among all records to read


# Return the elements ``start … stop-1``, fewer at the end. A call continues at the previous stop.
Take = Callable[[int, int], OrderPart]


def elements_of(order: Order, records: int) -> Take:
    """Return the function that reads an order over ``records`` records."""
    # A subclass may iterate differently, so it is read as an iterable.
    if type(order) in (IndexSampler, SequentialSampler):
        return _sampled(cast("IndexSampler", order), records)
    return _iterated(order, records)


def _sampled(sampler: IndexSampler, records: int) -> Take:
    if sampler.num_records > records:
        raise SamplerError(
            f"the order has num_records={sampler.num_records}, and there are {records} records to "
            f"read; give at most {records}"
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
            _checked(number, element, records)
            for number, element in enumerate(islice(elements, stop - start), start)
        ]
        indices, keys = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return OrderPart(indices, keys, keys)

    return take


def _checked(number: int, element: Any, records: int) -> tuple[int, int]:
    if hasattr(element, "record_key"):
        index = _integer(number, element.index, element)
        key = element.record_key
        record_key = index if key is None else _integer(number, key, element)
    else:
        index, record_key = number, _integer(number, element, element)
    if not 0 <= record_key < records:
        known = f"records 0 to {records - 1}" if records else "no records"
        raise SamplerError(
            f"element {number} of the order names record {record_key}; there are {known}"
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
                f"the index names {name!r}{nearest(name, sizes)}; the sources to read are: "
                f"{listed(sizes) or 'none'}"
            )
    limits = np.array([sizes.get(name, 0) for name in index.names], dtype=np.int64)
    for start in range(0, len(index), _BLOCK):
        codes, rows = index.arrays(slice(start, start + _BLOCK))
        beyond = np.flatnonzero(rows >= limits[codes])
        if len(beyond):
            entry = start + int(beyond[0])
            name, row = index.select(entry)
            records = f"records 0 to {sizes[name] - 1}" if sizes[name] else "no records"
            raise SamplerError(
                f"entry {entry} of the index names record {row} of {name!r}; {where} has only "
                f"{records} of it"
            )
    starts = dict.fromkeys(index.names, 0)
    total = 0
    for name in (name for name in sizes if name in starts):
        starts[name] = total
        total += sizes[name]
    firsts = np.array(list(starts.values()), dtype=np.int64)

    def take(start: int, stop: int) -> OrderPart:
        codes, rows = index.arrays(slice(start, stop))
        numbers = np.arange(start, start + len(rows), dtype=np.int64)
        return OrderPart(numbers, rows, firsts[codes] + rows)

    return take
