"""Name the records in which two corpora differ: an invertible Bloom lookup table.

Each record is in three cells. A cell has the number of its records, and the exclusive or of their
ids, contents and checks. One table less another holds the differences. A cell with one record names
it, and its removal from other cells frees more. See Goodrich and Mitzenmacher 2011,
arXiv:1101.2245, and Eppstein et al. 2011. Large tables name some 0.8 records a cell,
small ones fewer.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from duckplets.base.arrays import Integers, Words
from duckplets.errors import StateMismatchError
from duckplets.order.permute import below, hashed, key, mix

CELLS = 18_720  # in all: 512 kB of 28 bytes
_LEAST = 8  # in each of three parts
_ROUNDS = 200  # a table that somebody has edited may never come to an end
_PLACES = [key("sketch", part) for part in range(3)]
_CHECK = np.uint64(key("sketch", "check"))


def root_of(ids: Words, contents: Words) -> str:
    """Return a digest of records, whatever their order: SHA-256 of their sorted pairs."""
    order = np.lexsort([contents, ids])
    pairs = np.stack([ids[order], contents[order]], axis=1).astype("<u8")
    return hashlib.sha256(pairs.tobytes()).hexdigest()


def cells_for(records: int) -> int:
    """Return how many cells serve a number of records: no more than name each of them."""
    return min(CELLS, 3 * (_LEAST + -(-2 * records // 3)))


@dataclass(frozen=True, slots=True, eq=False)
class RecordSketch:
    """A table of cells, each with a count, and the sums of ids, contents and checks."""

    counts: Integers
    sums: Words  # shape (3, cells)

    @classmethod
    def of(cls, ids: Words, contents: Words, cells: int) -> Self:
        """Return the table of some records, which all differ."""
        found = cls(np.zeros(cells, np.int64), np.zeros((3, cells), np.uint64))
        found._add(ids, contents, np.ones(len(ids), np.int64))
        return found

    def _add(self, ids: Words, contents: Words, signs: Integers) -> None:
        check = _check(ids, contents)
        part = len(self.counts) // 3
        for number, purpose in enumerate(_PLACES):
            at = number * part + below(hashed(purpose, check), part)
            np.add.at(self.counts, at, signs)
            for sums, words in zip(self.sums, (ids, contents, check), strict=True):
                np.bitwise_xor.at(sums, at, words)

    def less(self, other: RecordSketch) -> RecordSketch:
        """Return the table of the differences from another of the same size."""
        return RecordSketch(self.counts - other.counts, self.sums ^ other.sums)

    def named(self) -> tuple[Words, Words, Integers, int]:
        """Take records out of a difference: ids, contents, signs (1, or -1 of the other's).

        The last value is how many could not be named, at least.
        """
        left = RecordSketch(self.counts.copy(), self.sums.copy())
        found: list[tuple[Words, Words, Integers]] = []
        for _ in range(_ROUNDS):
            ids, contents, checks = left.sums
            alone = (np.abs(left.counts) == 1) & (_check(ids, contents) == checks)
            at = np.flatnonzero(alone)
            at = at[np.unique(checks[at], return_index=True)[1]]  # one may be alone in several
            if not len(at):
                break
            one = ids[at], contents[at], left.counts[at]
            left._add(one[0], one[1], -one[2])
            found.append(one)
        rest = int(np.count_nonzero(left.counts | left.sums.any(axis=0)))
        none = np.zeros(0, np.uint64)
        found = found or [(none, none, np.zeros(0, np.int64))]
        one, two, three = zip(*found, strict=True)
        return np.concatenate(one), np.concatenate(two), np.concatenate(three), -(-rest // 3)

    def to_text(self) -> str:
        """Return it as text that JSON keeps as it is."""
        data = self.counts.astype("<i4").tobytes() + self.sums.astype("<u8").tobytes()
        return base64.b85encode(zlib.compress(data)).decode("ascii")

    @classmethod
    def of_text(cls, text: str, cells: int) -> Self:
        """Return the table of ``to_text``; refuse another size."""
        unpacked = zlib.decompressobj()
        try:
            data = unpacked.decompress(base64.b85decode(text), 28 * cells + 1)
        except (ValueError, zlib.error):
            data = b""
        if not data or len(data) != 28 * cells or cells % 3:
            raise StateMismatchError("the certificate's sketch of records is damaged")
        counts = np.frombuffer(data, "<i4", cells).astype(np.int64)
        return cls(counts, np.frombuffer(data, "<u8", offset=4 * cells).reshape(3, cells).copy())


def _check(ids: Words, contents: Words) -> Words:
    return mix(ids ^ mix(contents + _CHECK))
