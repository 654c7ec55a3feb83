"""Hold samples that want negatives, and the negatives that are found for them.

Every negative is told where it is from: from which candidate, or by which of the codes below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.pools.arrays import Negatives
from duckplets.pools.legality import NegativeRequests

# Where a negative is from, in place of the number of a candidate.
AT_RANDOM = -1  # drawn at random for want of a candidate
BY_CHANCE = -2  # drawn at random, as it was asked for
FROM_SPLIT = -3  # of all sources of the split, for want of enough in its own
OWN = -4  # of the anchor's own record
FILLED = -5  # of another record, for want of one of its own
LACKING = (AT_RANDOM, FROM_SPLIT, FILLED)


@dataclass(frozen=True, slots=True)
class Wanting:
    """Samples of a stream with anchor and positive, which want negatives: shape (samples,) each.

    Attributes:
        samples: What the law looks at.
        anchor_at: Place of the anchor chunk in the pool.
        visits: How often the anchor came before; where negatives are mined, the section of that
            chunk.
        period: After how many visits an anchor's chunks and positives come again as they did.
        supply: Number of the stream's supply that each draws from.
    """

    samples: NegativeRequests
    anchor_at: Integers
    visits: Integers
    period: Integers
    supply: Integers

    def part(self, rows: Integers) -> Wanting:
        """Return some of the samples."""
        columns = (self.anchor_at, self.visits, self.period, self.supply)
        return Wanting(self.samples.part(rows), *(column[rows] for column in columns))


@dataclass(frozen=True, slots=True)
class FoundNegatives:
    """Negatives, one for every sample or several for one: their chunks, texts, and where from."""

    chunks: Integers
    hashes: Words
    told: Integers

    def part(self, rows: Integers | Flags | slice) -> FoundNegatives:
        """Return some of them."""
        return FoundNegatives(self.chunks[rows], self.hashes[rows], self.told[rows])

    def put(self, rows: Integers | Flags, others: FoundNegatives) -> None:
        """Put others in the place of some of them."""
        self.chunks[rows] = others.chunks
        self.hashes[rows] = others.hashes
        self.told[rows] = others.told


def found_at(pool: Negatives, at: Integers, told: Integers | int) -> FoundNegatives:
    """Return the negatives at some places of a pool."""
    return FoundNegatives(
        pool.chunks[at], pool.hashes[at], np.broadcast_to(told, at.shape).astype(np.int64)
    )


def blank(size: int) -> FoundNegatives:
    """Return room for the negatives of some samples."""
    return FoundNegatives(
        np.zeros(size, np.int64), np.zeros(size, np.uint64), np.zeros(size, np.int64)
    )


class Supply(Protocol):
    """What negatives of a stream are drawn from."""

    def draw_all(self, wanting: Wanting) -> list[FoundNegatives]:
        """Return a legal negative for every slot and sample, of different texts in a sample."""

    def again(self, wanting: Wanting, slot: int, attempt: int) -> tuple[FoundNegatives, Flags]:
        """Return another negative for a slot of every sample, and whether it is legal."""

    def options(self, wanting: Wanting) -> FoundNegatives:
        """Return every negative that one sample could have, each text once."""
