"""Flags, 64 to a word, that can be counted up to any place and found by their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

__all__ = ["Bits"]


class Bits:
    """Flags, 64 to a word, with the count before each word; one more flag stands at the end."""

    __slots__ = ("before", "words")

    def __init__(self, flags: Bools) -> None:
        size = len(flags)
        packed = np.zeros((size // 64 + 1) * 8, np.uint8)
        packed[: (size + 7) // 8] = np.packbits(flags, bitorder="little")
        packed[size // 8] |= np.uint8(1 << size % 8)
        self.words = packed.view("<u8")
        self.before = np.zeros(len(self.words) + 1, np.int64)
        np.cumsum(np.bitwise_count(self.words), out=self.before[1:])

    def rank(self, at: Ints) -> Ints:
        """Return how many flags are set before each position."""
        below = (np.uint64(1) << (at & 63).astype(np.uint64)) - np.uint64(1)
        rank: Ints = self.before[at >> 6] + np.bitwise_count(self.words[at >> 6] & below)
        return rank

    def select(self, nth: Ints) -> Ints:
        """Return the positions of the flags numbered ``nth``, from 0; the last is the size."""
        word: Ints = np.searchsorted(self.before, nth, side="right") - 1
        bits, left = self.words[word], nth - self.before[word]
        at: Ints = word << 6
        for width in (32, 16, 8, 4, 2, 1):
            low = np.bitwise_count(bits & np.uint64((1 << width) - 1))
            above = left >= low
            left -= np.where(above, low, 0)
            bits >>= np.where(above, width, 0).astype(np.uint64)
            at += np.where(above, width, 0)
        return at
