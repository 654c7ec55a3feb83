"""Index samplers: the order of a corpus's records as a sequence of numbers, sharded or shuffled.

element i of shard s ─→ position p = i * shards + s ─order.ranks→ (epoch p // n, record key)

One endless stream of positions runs over all records; each epoch is a permutation of them. A shard
takes every ``shard_count``-th position. So the shards together serve the stream exactly, and a
shard gets other records in every epoch. An element is a function of its number, so any element can
be computed, and resuming is free. Its generator is a function of seed and index, for any sharding.

This module reads no record; ``Corpus.read`` reads records by these samplers or by any other order.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt
from numpy.random import Generator, Philox
from numpy.random.bit_generator import ISeedSequence

from duckplets.base.arrays import Integers
from duckplets.base.checks import integer
from duckplets.base.settings import checked
from duckplets.errors import SamplerError
from duckplets.order.permute import item_at, key, ranks_at

__all__ = ["IndexOrder", "IndexSampler", "RecordMetadata", "SequentialSampler", "ShardOptions"]

_BLOCK = 4096  # elements made at a time while iterating: 64 KB, 0.1 ms
_SPAN, _LEAST = 1 << 16, 1 << 10  # positions permuted at a time: they stay in the cache
_POSITIONS = 1 << 62  # most positions: doubled, they still fit 64 bits


# -- elements -----------------------------------------------------------------------------------


class EntryError(SamplerError, IndexError):
    """The entry does not exist in an index or an order."""


class RecordMetadata:
    """An element of an order: a record and its random generator.

    Two elements are equal if index, key and generator are equal. After access to ``rng`` an element
    equals only itself.

    Args:
        index: Position in the order over all shards; it shows the progress of a reader.
        record_key: The record to read; None means the index.
        rng: Generator for random transformations of this record; None in an order without a seed.
    """

    __slots__ = ("_rng", "index", "record_key")
    __hash__ = None  # type: ignore[assignment] # its attributes can be set

    def __init__(self, index: int, record_key: int | None = None, rng: Any = None) -> None:
        self.index, self.record_key = index, record_key
        self._rng = rng  # or its hash key and index: making a generator is the slowest part

    @property
    def rng(self) -> Generator | None:
        """Return the record's own generator; None in an order without a seed."""
        if isinstance(self._rng, tuple):
            self._rng = Generator(Philox(_PhiloxKey(*self._rng)))  # type: ignore[arg-type]
        return cast("Generator | None", self._rng)

    def remove_record_key(self) -> RecordMetadata:
        """Return a copy without its record key; Grain calls it after reading."""
        return RecordMetadata(self.index, None, self._rng)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordMetadata):
            return NotImplemented
        own = (self.index, self.record_key, self._rng)
        return own == (other.index, other.record_key, other._rng)

    def __repr__(self) -> str:
        rng = "Generator(Philox)" if isinstance(self._rng, tuple) else repr(self._rng)
        return f"RecordMetadata(index={self.index}, record_key={self.record_key}, rng={rng})"


class _PhiloxKey(ISeedSequence):
    """Provide Philox with its key, the hash of a seed and an index."""

    def __init__(self, purpose: int, index: int) -> None:
        self._key = (purpose, index)

    def generate_state(
        self, n_words: int, dtype: npt.DTypeLike = np.uint32
    ) -> npt.NDArray[np.uint32 | np.uint64]:
        """Return the two words of 64 bits for Philox."""
        return np.array(self._key, dtype=np.uint64)


# -- orders -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """The part of an order that this process serves.

    Attributes:
        shard_index: Number of this shard, from 0.
        shard_count: Number of shards.
        drop_remainder: Whether every shard serves the same number of records in each epoch. The
            ``num_records % shard_count`` remaining records are then dropped. A shuffled order
            drops other records in each epoch, an order without shuffling the last ones.

    Raises:
        SamplerError: The shard does not exist.
    """

    shard_index: int
    shard_count: int
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        count = integer("shard_count", self.shard_count, 1, _POSITIONS)
        index = integer("shard_index", self.shard_index, 0, count - 1)
        object.__setattr__(self, "shard_count", count)
        object.__setattr__(self, "shard_index", index)
        checked("drop_remainder", self.drop_remainder, bool, SamplerError)


_WHOLE = ShardOptions(0, 1)


@runtime_checkable
class IndexOrder(Protocol):
    """An order of records: an iterator of ``RecordMetadata``."""

    def __iter__(self) -> Iterator[RecordMetadata]:
        """Return an iterator over the order."""
        ...

    def __next__(self) -> RecordMetadata:
        """Return the next element."""
        ...


# -- the samplers -------------------------------------------------------------------------------


class IndexSampler:
    """Order the records of a corpus: sharded, shuffled, for a number of epochs or endless.

    Iterating yields ``RecordMetadata``. Every loop starts at the first element. ``next(sampler)``
    continues at the sampler's own position, which loops do not change. ``sampler[i]`` is the i-th
    element of this shard, ``keys`` gives several record keys, and ``elements(i)`` iterates from
    element i. To resume, only the number of taken elements is necessary.

    ``index`` is the position in the common order of all shards, so element ``i`` of shard ``s`` has
    index ``i * shard_count + s``. With ``drop_remainder`` only served elements have a position.
    Over ``num_epochs`` epochs the shards together serve every record exactly ``num_epochs`` times,
    except records dropped by ``drop_remainder``.

    Args:
        num_records: Number of records; their keys are 0 … ``num_records - 1``.
        shard_options: The shard of this process. Default: the only shard.
        shuffle: Permute all records in each epoch, before they are divided among the shards.
        num_epochs: Number of passes over the records; None for an endless order.
        seed: Any integer; another seed gives another order and other generators. Required to
            shuffle; without a seed no element has an ``rng``.

    Raises:
        SamplerError: An argument is wrong.
    """

    def __init__(
        self,
        num_records: int,
        shard_options: ShardOptions = _WHOLE,
        shuffle: bool = False,
        num_epochs: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.num_records = integer("num_records", num_records, 1, _POSITIONS)
        self.shard_options = _checked_shard(shard_options, self.num_records)
        self.shuffle = checked("shuffle", shuffle, bool, SamplerError)
        most = _POSITIONS // self.num_records
        self.num_epochs = None if num_epochs is None else integer("num_epochs", num_epochs, 1, most)
        self.seed = None if seed is None else integer("seed", seed)
        if shuffle and seed is None:
            raise SamplerError("shuffle=True needs a seed: give seed=, any integer")
        self._order = key(self.seed or 0, "index order")
        self._rngs = None if self.seed is None else key(self.seed, "index rng")
        shard, shards = self.shard_options.shard_index, self.shard_options.shard_count
        dropped = self.num_records % shards if self.shard_options.drop_remainder else 0
        self._served = self.num_records - dropped  # in an epoch, over all shards
        positions = _POSITIONS if self.num_epochs is None else self.num_epochs * self._served
        self._count = max(0, -(-(positions - shard) // shards))  # elements of this shard
        self._taken = 0
        self._own: Iterator[RecordMetadata] | None = None

    # -- one after the other ------------------------------------------------------------------

    def __iter__(self) -> Iterator[RecordMetadata]:
        return self.elements()

    def __next__(self) -> RecordMetadata:
        if self._own is None:
            self._own = self.elements(self._taken)
        element = next(self._own)
        self._taken += 1
        return element

    def elements(self, start: int = 0) -> Iterator[RecordMetadata]:
        """Return an iterator over this shard's elements from element ``start``.

        Raises:
            SamplerError: The shard has fewer elements.
        """
        return self._elements(integer("start", start, 0, self._count))

    def _elements(self, start: int) -> Iterator[RecordMetadata]:
        for first in range(start, self._count, _BLOCK):
            stop = min(first + _BLOCK, self._count)
            keys, places = self.keys(first, stop).tolist(), self._range(first, stop)
            if self._rngs is None:
                yield from map(RecordMetadata, places, keys)
            else:
                yield from map(RecordMetadata, places, keys, zip(repeat(self._rngs), places))

    # -- by number ----------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of elements in this shard; ``sys.maxsize`` for an endless order."""
        return sys.maxsize if self.num_epochs is None else self._count

    def __getitem__(self, number: int) -> RecordMetadata:
        i = operator.index(number)
        if not 0 <= i < self._count:
            range_ = f"elements 0 to {self._count - 1}" if self._count else "no elements"
            raise EntryError(f"element {i}: this shard has {range_}")
        index = self._range(i, i + 1)[0]
        epoch, rank = divmod(index, self._served)
        if self.shuffle:
            rank = item_at(self._order, self.num_records, epoch * self.num_records + rank)
        return RecordMetadata(index, rank, None if self._rngs is None else (self._rngs, index))

    def keys(self, start: int, stop: int) -> Integers:
        """Return the record keys of this shard's elements ``start … stop-1``.

        Raises:
            SamplerError: The shard has fewer elements.
        """
        start, stop = self._checked_span(start, stop)
        if not self.shuffle:
            return self.indices(start, stop) % self._served
        found = np.empty(stop - start, dtype=np.int64)
        step = max(_LEAST, _SPAN // self.shard_options.shard_count)
        for first in range(start, stop, step):
            part = self.indices(first, min(first + step, stop))
            found[first - start : first - start + len(part)] = self._shuffled(part)
        return found

    def indices(self, start: int, stop: int) -> Integers:
        """Return the positions of this shard's elements ``start … stop-1`` in the common order.

        Raises:
            SamplerError: The shard has fewer elements.
        """
        span = self._range(*self._checked_span(start, stop))
        return np.arange(span.start, span.stop, span.step, dtype=np.int64)

    def _shuffled(self, positions: Integers) -> Integers:
        if self._served < self.num_records:  # dropped elements of an epoch have a rank too
            epochs, rank = np.divmod(positions, self._served)
            positions = epochs * self.num_records + rank
        return ranks_at(self._order, self.num_records, positions)[0]

    def _range(self, start: int, stop: int) -> range:
        shards = self.shard_options.shard_count
        first = start * shards + self.shard_options.shard_index
        return range(first, first + (stop - start) * shards, shards)

    def _checked_span(self, start: int, stop: int) -> tuple[int, int]:
        stop = integer("stop", stop, 0, self._count)
        return integer("start", start, 0, stop), stop

    # -- as an object -------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process to continue."""
        return self.__dict__ | {"_own": None}

    def __repr__(self) -> str:
        return (
            f"IndexSampler(num_records={self.num_records}, shard_options={self.shard_options}, "
            f"shuffle={self.shuffle}, num_epochs={self.num_epochs}, seed={self.seed})"
        )


class SequentialSampler(IndexSampler):
    """Read the records once, in their stored order.

    Args:
        num_records: Number of records; their keys are 0 … ``num_records - 1``.
        shard_options: The shard of this process. Default: the only shard.
        seed: Any integer, for the generators; without a seed no element has an ``rng``.

    Raises:
        SamplerError: An argument is wrong.
    """

    def __init__(
        self, num_records: int, shard_options: ShardOptions = _WHOLE, seed: int | None = None
    ) -> None:
        super().__init__(num_records, shard_options, num_epochs=1, seed=seed)


def _checked_shard(options: Any, num_records: int) -> ShardOptions:
    if not isinstance(options, ShardOptions):
        raise SamplerError(
            f"shard_options={options!r}: give dp.index.ShardOptions(shard_index, shard_count)"
        )
    if options.drop_remainder and num_records < options.shard_count:
        raise SamplerError(
            f"num_records={num_records}: with drop_remainder=True, {options.shard_count} shards "
            f"drop all of them; give at least {options.shard_count} records or fewer shards"
        )
    return options
