"""An element of an order: the record it names, and its random generator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.random import Generator, Philox
from numpy.random.bit_generator import ISeedSequence


class RecordMetadata:
    """Which record comes next, and what goes with it.

    Two are equal if they name the same element: the same index, key and seed of ``rng``,
    whatever was drawn from it since. A generator given by hand equals itself only.

    Args:
        index: Position in the order, over all shards: what tells how far a reader has come.
        record_key: The record to read; None stands for the index.
        rng: For random transformations of this record.
    """

    __slots__ = ("_rng", "_seed", "index", "record_key")
    __match_args__ = ("index", "record_key", "rng")
    __hash__ = None  # type: ignore[assignment] # its attributes can be set

    def __init__(
        self, index: int, record_key: int | None = None, rng: Generator | None = None
    ) -> None:
        self.index = index
        self.record_key = record_key
        self._rng = rng
        self._seed: tuple[int, int] | None = None

    @property
    def rng(self) -> Generator | None:
        """The record's own generator; None for an order without a seed.

        It is made when it is first looked at, for that takes longer than all the rest.
        """
        if self._rng is None and self._seed is not None:
            self._rng = generator(*self._seed)
        return self._rng

    @rng.setter
    def rng(self, rng: Generator | None) -> None:
        self._rng, self._seed = rng, None

    def remove_record_key(self) -> RecordMetadata:
        """Return a copy without its record key, as Grain asks for after reading."""
        left = RecordMetadata(self.index, None, self._rng)
        left._seed = self._seed
        return left

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordMetadata):
            return NotImplemented
        mine = (self.index, self.record_key, self._seed)
        if mine != (other.index, other.record_key, other._seed):
            return False
        return self._seed is not None or self._rng is other._rng

    def __repr__(self) -> str:
        rng = "Generator(Philox)" if self._seed is not None else repr(self._rng)
        return f"RecordMetadata(index={self.index}, record_key={self.record_key}, rng={rng})"


def seeded(index: int, record_key: int, purpose: int) -> RecordMetadata:
    """Return an element whose generator depends on a hash key and its index."""
    metadata = RecordMetadata(index, record_key)
    metadata._seed = (purpose, index)
    return metadata


def generator(purpose: int, index: int) -> Generator:
    """Return the generator of an index under a hash key."""
    return Generator(Philox(_PhiloxKey(purpose, index)))  # type: ignore[arg-type]


class _PhiloxKey(ISeedSequence):
    """Provide Philox with its key, the hash of a seed and an index."""

    def __init__(self, purpose: int, index: int) -> None:
        self._key = (purpose, index)

    def generate_state(
        self, n_words: int, dtype: npt.DTypeLike = np.uint32
    ) -> npt.NDArray[np.uint32 | np.uint64]:
        """Return the two words of 64 bits that Philox asks for."""
        return np.array(self._key, dtype=np.uint64)
