"""The reader: the batches of a run at any position, one block of them ahead of the other.

position ─Planner→ plan ─Portion→ own samples ─Fetcher→ Block ─slices→ Batch
                                                        (the next block meanwhile)
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from duckplets.order.ranks import Portion
from duckplets.sampling.batch import Batch, Block
from duckplets.sampling.blocks import BlocksAhead, BlockSizes, Preparation
from duckplets.sampling.fetch import Fetcher
from duckplets.sampling.metrics import Counters
from duckplets.sampling.plan import Planner


class Reader:
    """Reads the batches of one rank.

    Args:
        planner: Of the run.
        fetcher: Of the run.
        portion: What the rank takes.
        end: The position a bounded run ends at, or None.
        prefetch: Blocks to prepare ahead.

    Attributes:
        planner: Of the run.
        fetcher: Of the run.
        portion: What this reader takes.
        end: The position a bounded run ends at, or None.
        counters: Of the batches taken.
    """

    def __init__(
        self,
        planner: Planner,
        fetcher: Fetcher,
        portion: Portion,
        *,
        end: int | None,
        prefetch: int,
    ) -> None:
        self.planner = planner
        self.fetcher = fetcher
        self.portion = portion
        self.end = end
        self.counters = Counters(planner.schedule.sources)
        self._prefetch = prefetch
        self._block: Block | None = None
        self._ahead = self._blocks()
        # Dropping a reader ends its thread and its connection, as closing it does.
        self._dropped = weakref.finalize(self, _let_go, self._ahead, fetcher)
        self._dropped.atexit = False

    def _blocks(self) -> BlocksAhead:
        sizes = BlockSizes(self.portion, self.end)
        prepare = Preparation(self.planner, self.fetcher, self.portion, sizes)
        return BlocksAhead(prepare, sizes.follow, self._prefetch)

    def take(self, start: int) -> Batch:
        """Return the batch that begins at a position, and count it."""
        stop, block = self.stop_of(start), self._block
        if block is None or not block.start <= start < block.stop:
            block = self._block = self._ahead.take(start)
        if block is None or block.stop < stop:
            block = self._fetched(start, stop)
        number = (start - block.start) // self.portion.stride
        counted = number * self.portion.batch
        self.counters.take(block.tally, counted, counted + stop - start)
        return self._batch(block, number, start, stop)

    def at(self, start: int) -> Batch:
        """Return the batch that begins at a position, without counting it."""
        stop = self.stop_of(start)
        return self._batch(self._fetched(start, stop), 0, start, stop)

    def between(self, start: int, stop: int) -> Iterator[Batch]:
        """Yield the batches that begin from ``start`` on before ``stop``, without counting them."""
        sizes = BlockSizes(self.portion, self.bounded(stop))
        prepare = Preparation(self.planner, self.fetcher, self.portion, sizes)
        while span := sizes.follow(start):
            block = prepare(*span)
            for number, begin in enumerate(self.portion.batches(*span).tolist()):
                yield self._batch(block, number, begin, min(begin + self.portion.batch, span[1]))
            start = span[1]

    def _batch(self, block: Block, number: int, start: int, stop: int) -> Batch:
        position, after = self.portion.slice(start, stop)
        low = number * self.portion.batch_size
        step = start // self.portion.batch
        return block.batch(low, low + after - position, position=position, step=step)

    def _fetched(self, start: int, stop: int) -> Block:
        sizes = BlockSizes(self.portion, self.end)
        return Preparation(self.planner, self.fetcher, self.portion, sizes)(start, stop)

    def stop_of(self, start: int) -> int:
        """Return where the batch of all ranks that begins at a position ends."""
        return self.bounded(start + self.portion.batch)

    def bounded(self, position: int) -> int:
        """Return a position, or the end of the run if that comes before."""
        return position if self.end is None else min(position, self.end)

    def share(self, workers: int) -> None:
        """Take only every ``workers``-th batch from now on."""
        self.portion = replace(self.portion, workers=workers)
        self._dropped.detach()
        self._ahead.close()
        self._block, self._ahead = None, self._blocks()
        self._dropped = weakref.finalize(self, _let_go, self._ahead, self.fetcher)
        self._dropped.atexit = False

    def forget(self) -> None:
        """Drop what is prepared: the position has jumped, or other weights are in force."""
        self._ahead.close()
        self._block = None

    def close(self) -> None:
        """Stop preparing and close the connection."""
        self._block = None
        self._dropped()


def _let_go(ahead: BlocksAhead, fetcher: Fetcher) -> Any:
    ahead.close()
    fetcher.close()
