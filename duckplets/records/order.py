"""Index samplers: the order of a corpus's records as a sequence of numbers, sharded or shuffled.

element i of shard s ─→ position p = i * shards + s ─order.ranks→ (epoch p // n, record key)

One endless stream of positions runs over all records; each epoch is a permutation of them. A shard
takes every ``shard_count``-th position: together the shards serve the stream exactly, and a shard
meets other records in every epoch. An element is a function of its number, so any can be computed
and resuming is free. Its generator is a function of seed and index, the same for any sharding.

Nothing here reads a record; ``Corpus.read`` does, by these samplers or by any other order.
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
    """An index or an order has no such entry."""


class RecordMetadata:
    """Which record comes next, and what goes with it.

    Two are equal if index, key and generator are; one that was looked at equals itself only.

    Args:
        index: Position in the order, over all shards: what tells how far a reader has come.
        record_key: The record to read; None stands for the index.
        rng: For random transformations of this record; None for an order without a seed.
    """

    __slots__ = ("_rng", "index", "record_key")
    __hash__ = None  # type: ignore[assignment] # its attributes can be set

    def __init__(self, index: int, record_key: int | None = None, rng: Any = None) -> None:
        self.index, self.record_key = index, record_key
        self._rng = rng  # or its hash key and index: to make it takes longer than all the rest

    @property
    def rng(self) -> Generator | None:
        """The record's own generator; None for an order without a seed."""
        if isinstance(self._rng, tuple):
            self._rng = Generator(Philox(_PhiloxKey(*self._rng)))  # type: ignore[arg-type]
        return cast("Generator | None", self._rng)

    def remove_record_key(self) -> RecordMetadata:
        """Return a copy without its record key, as Grain asks for after reading."""
        return RecordMetadata(self.index, None, self._rng)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordMetadata):
            return NotImplemented
        mine, its = ((of.index, of.record_key, of._rng) for of in (self, other))
        return mine == its

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
        """Return the two words of 64 bits that Philox asks for."""
        return np.array(self._key, dtype=np.uint64)


# -- orders -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """Which part of an order is served here.

    Attributes:
        shard_index: Number of this shard, from 0.
        shard_count: How many shards there are.
        drop_remainder: Whether every shard serves equally many records in each epoch. The
            ``num_records % shard_count`` left over are then left out: other ones in each epoch
            of a shuffled order, always the last ones of an order that is not shuffled.

    Raises:
        SamplerError: There is no such shard.
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
    """An order of records: anything that yields ``RecordMetadata`` one after the other."""

    def __iter__(self) -> Iterator[RecordMetadata]:
        """Return an iterator over the order."""
        ...

    def __next__(self) -> RecordMetadata:
        """Return the next element."""
        ...


# -- the samplers -------------------------------------------------------------------------------


class IndexSampler:
    """The order of the records of a corpus: sharded, shuffled, for some epochs or endless.

    Iterating yields ``RecordMetadata``. Every loop starts at the first element and knows nothing
    of other loops; ``next(sampler)`` goes on from the sampler's own place, which loops leave
    alone. ``sampler[i]`` is the i-th element of this shard, ``keys`` gives many at once, and
    ``elements(i)`` iterates from there: to resume, the number of elements taken is enough.

    ``index`` is the position in the order that the shards have in common, so element ``i`` of
    shard ``s`` has index ``i * shard_count + s``. With ``drop_remainder`` only what is served
    has a position. Over ``num_epochs`` epochs the shards together serve every record exactly
    ``num_epochs`` times, unless ``drop_remainder`` leaves some out.

    Args:
        num_records: How many records there are; their keys are 0 … ``num_records - 1``.
        shard_options: Which shard this is; by default the only one.
        shuffle: Permute all records, anew in each epoch, before they are dealt to the shards.
        num_epochs: How often to go through the records; None for endlessly.
        seed: Any integer; another one gives another order, and other generators. Needed to
            shuffle; without one no element has an ``rng``.

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
        left_out = self.num_records % shards if self.shard_options.drop_remainder else 0
        self._served = self.num_records - left_out  # in an epoch, over all shards
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
        """Return an iterator over this shard's elements from a number on.

        Raises:
            SamplerError: There are fewer.
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

    # -- any of them --------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of elements of this shard; ``sys.maxsize`` if they are endless."""
        return sys.maxsize if self.num_epochs is None else self._count

    def __getitem__(self, number: int) -> RecordMetadata:
        i = operator.index(number)
        if not 0 <= i < self._count:
            has = f"elements 0 to {self._count - 1}" if self._count else "none"
            raise EntryError(f"element {i}: this shard has {has}")
        index = self._range(i, i + 1)[0]
        epoch, rank = divmod(index, self._served)
        if self.shuffle:
            rank = item_at(self._order, self.num_records, epoch * self.num_records + rank)
        return RecordMetadata(index, rank, None if self._rngs is None else (self._rngs, index))

    def keys(self, start: int, stop: int) -> Integers:
        """Return the record keys of this shard's elements ``start … stop-1``.

        Raises:
            SamplerError: There are no such elements.
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
            SamplerError: There are no such elements.
        """
        span = self._range(*self._checked_span(start, stop))
        return np.arange(span.start, span.stop, span.step, dtype=np.int64)

    def _shuffled(self, positions: Integers) -> Integers:
        if self._served < self.num_records:  # elements left out of an epoch have a rank too
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
        """Return what another process needs to continue."""
        return self.__dict__ | {"_own": None}

    def __repr__(self) -> str:
        return (
            f"IndexSampler(num_records={self.num_records}, shard_options={self.shard_options}, "
            f"shuffle={self.shuffle}, num_epochs={self.num_epochs}, seed={self.seed})"
        )


class SequentialSampler(IndexSampler):
    """The records as they are stored, once.

    Args:
        num_records: How many records there are; their keys are 0 … ``num_records - 1``.
        shard_options: Which shard this is; by default the only one.
        seed: Any integer, for the generators; without one no element has an ``rng``.

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
            f"serve none of them; give at least {options.shard_count} records or fewer shards"
        )
    return options
