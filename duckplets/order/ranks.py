"""Which samples of every global batch a rank, or a worker of it, takes."""

# Rank r of w takes the r-th of w slices of a batch, so the slices are the batch for any number of
# ranks. Slices of a short last batch differ by at most one sample: all ranks see as many batches. A
# run inside a batch, as after another batch size, takes the rest of it first.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import SamplerError


@dataclass(frozen=True, slots=True)
class RankPart:
    """The part of every global batch that one reader, a rank or its worker, takes."""

    batch_size: int  # samples per batch of a rank
    rank: int = 0
    world_size: int = 1
    workers: int = 1  # number of workers that take the rank's batches in turn
    origin: int = 0  # a position at which a batch begins

    @property
    def batch(self) -> int:
        """Samples per global batch."""
        return self.batch_size * self.world_size

    @property
    def stride(self) -> int:
        """Positions from one batch of this reader to its next."""
        return self.batch * self.workers

    def within(self, start: int) -> int:
        """Return how many samples of its global batch come before a position."""
        return (start - self.origin) % self.batch

    def end(self, start: int) -> int:
        """Return the end of the global batch of a position."""
        return start - self.within(start) + self.batch

    def after(self, start: int) -> int:
        """Return the start of this reader's next batch after one."""
        return start - self.within(start) + self.stride

    def slice(self, start: int, stop: int) -> tuple[int, int]:
        """Return this rank's positions of the global batch ``start … stop-1``."""
        size = stop - start
        low, high = (size * rank // self.world_size for rank in (self.rank, self.rank + 1))
        return start + low, start + high

    def batches(self, start: int, stop: int) -> Integers:
        """Return the starts of this reader's batches in a block that begins with one of them."""
        return np.arange(start, stop, self.stride, dtype=np.int64)

    def own(self, start: int, stop: int) -> Integers:
        """Return all positions of this reader in such a block; its last batch may be short."""
        if self.within(start):  # the rest of a batch is a block
            return np.arange(*self.slice(start, min(stop, self.end(start))))
        begins = self.batches(start, stop)
        full = begins[begins + self.batch <= stop]
        found = (full[:, None] + np.arange(*self.slice(0, self.batch))).reshape(-1)
        short = [np.arange(*self.slice(begin, stop)) for begin in begins[len(full) :].tolist()]
        return np.concatenate([found, *short])


def batch_size_of(total: int, world_size: int) -> int:
    """Return the batch size of each rank."""
    if total % world_size:
        raise SamplerError(
            f"world_size={world_size}: {total} samples a batch of all ranks cannot be divided "
            f"among them; world sizes that would do: {world_sizes(total)}"
        )
    return total // world_size


def world_sizes(total: int) -> str:
    """Return the numbers of ranks that divide a global batch."""
    return ", ".join(str(size) for size in range(1, total + 1) if total % size == 0)
