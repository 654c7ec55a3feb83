"""Elements: what an order gives, taken some at a time and checked.

Our own samplers are taken by arrays; anything else is iterated, lazily, in the thread
that asks.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, cast

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import SamplerError
from duckplets.records.data_index import DataIndex
from duckplets.records.metadata import RecordMetadata
from duckplets.records.order import IndexSampler, SequentialSampler

Order = Iterable[RecordMetadata] | Iterable[int] | DataIndex

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Part:
    """Some elements of an order.

    Attributes:
        indices: Index of every element: shape (elements,).
        keys: Record that every element names: shape (elements,).
        places: Number of that record among those that can be read, where it is not its key.
        error: What came after them.
    """

    indices: Integers
    keys: Integers
    places: Integers | None = None
    error: Exception | None = None

    def first(self, elements: int) -> Part:
        """Return so many of them, without the error."""
        places = None if self.places is None else self.places[:elements]
        return Part(self.indices[:elements], self.keys[:elements], places)


class _Sampled:
    """Takes elements of one of our samplers, as arrays."""

    def __init__(self, sampler: IndexSampler) -> None:
        self._sampler = sampler
        self._end = None if sampler.num_epochs is None else len(sampler)
        self._taken = 0

    def take(self, size: int) -> Part:
        """Return the next elements; fewer than that at the end of the order."""
        start, stop = self._taken, self._taken + size
        self._taken = stop = stop if self._end is None else min(stop, self._end)
        return Part(self._sampler.indices(start, stop), self._sampler.keys(start, stop))


class _Iterated:
    """Takes elements of any order, one by one."""

    def __init__(self, order: Order, records: int) -> None:
        try:
            self._elements: Iterator[Any] = iter(order)
        except TypeError as error:
            raise SamplerError(
                f"order={order!r}: give a dp.IndexSampler, or an iterable of dp.RecordMetadata "
                f"or of integers"
            ) from error
        self._records = records
        self._taken = 0

    def take(self, size: int) -> Part:
        """Return the next elements; fewer than that at the end of the order or at an error."""
        indices: list[int] = []
        keys: list[int] = []
        failed: Exception | None = None
        try:
            for element in islice(self._elements, size):
                index, record_key = self._named(element)
                indices.append(index)
                keys.append(record_key)
                self._taken += 1
        except Exception as error:
            failed = error
        return Part(np.array(indices, dtype=np.int64), np.array(keys, dtype=np.int64), error=failed)

    def _named(self, element: Any) -> tuple[int, int]:
        """Return index and key of an element, if there is such a record."""
        if hasattr(element, "record_key"):
            index = self._number(element.index, element)
            named = element.record_key
            record_key = index if named is None else self._number(named, element)
        else:
            index, record_key = self._taken, self._number(element, element)
        if not 0 <= record_key < self._records:
            there = f"records 0 to {self._records - 1}" if self._records else "no records"
            raise SamplerError(
                f"element {self._taken} of the order names record {record_key}; there are {there}"
            )
        return index, record_key

    def _number(self, value: Any, element: Any) -> int:
        with suppress(TypeError):
            number = operator.index(value)
            if _LOWEST <= number <= _HIGHEST and not isinstance(value, bool):
                return number
        raise SamplerError(
            f"element {self._taken} of the order is {element!r}; give dp.RecordMetadata with "
            f"integers of 64 bits as index and key, or such integers"
        )


class Elements(Protocol):
    """What takes the elements of an order, some at a time."""

    def take(self, size: int) -> Part:
        """Return the next elements; fewer than that at the end of the order or at an error."""
        ...


def elements_of(order: Order, records: int) -> Elements:
    """Return what takes the elements of an order over so many records.

    Raises:
        SamplerError: It is no order, or a sampler of more records than there are.
    """
    # A subclass may have changed how it iterates, so it is taken by iterating.
    if type(order) not in (IndexSampler, SequentialSampler):
        return _Iterated(order, records)
    sampler = cast("IndexSampler", order)
    if sampler.num_records > records:
        raise SamplerError(
            f"the order is over num_records={sampler.num_records}, and there are {records} "
            f"records to read; give it at most so many"
        )
    return _Sampled(sampler)
