"""Read the batches of a run at any position from blocks, the next of which are prepared meanwhile.

    position ─Planner→ plan ─RankPart→ own samples ─Fetcher→ Block ─slices→ Batch

Blocks start small, so that the first batch comes soon, and grow to what the memory allows. What
prepares them holds no reference to the sampler, so that a sampler nobody holds is let go.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from duckplets.base.checks import MAX_POSITION
from duckplets.base.lookahead import Lookahead, StoppedError
from duckplets.errors import SamplerError
from duckplets.order.ranks import RankPart
from duckplets.sampling.batch import Batch, Block, Tally, Tranche
from duckplets.sampling.fetch import Fetcher
from duckplets.sampling.metrics import Counters
from duckplets.sampling.plan import Plan, Planner, joined

_FIRST_BLOCK = 256  # samples: a first read of a cold file touches few of its blocks
_GROWTH = 4
_LARGEST_BLOCK = 65_536
_BLOCK_BYTES = 192 << 20  # of text in a block: with the prepared ones well below the limit
_LARGEST_SPAN = 1 << 20  # positions of all ranks that a block may go over
_PLANNED = 1 << 17  # of them planned at once


class Reader:
    """Read the batches of one rank.

    Args:
        planner: Of the run.
        fetcher: Of the run.
        part: What the rank takes.
        end: The position a bounded run ends at, or None.
        prefetch: Blocks to prepare in the background.

    Attributes:
        part: What this reader takes, maybe one of several workers of the rank.
        counters: Of the batches taken.
    """

    def __init__(
        self,
        planner: Planner,
        fetcher: Fetcher,
        part: RankPart,
        *,
        end: int | None,
        prefetch: int,
    ) -> None:
        self.planner = planner
        self.fetcher = fetcher
        self.part = part
        self.end = end
        self.counters = Counters(planner.schedule.sources)
        self._prefetch = prefetch
        self._tranche: Tranche | None = None  # of the batch taken last
        self._before: Tranche | None = None  # that of the batch before it, if another
        self._begin()

    def _begin(self, *, alone: bool = False) -> None:
        self._block: Block | None = None
        prepare = self._preparation(self.end)
        self._blocks = BlocksAhead(prepare, prepare.sizes.follow, self._prefetch, alone=alone)
        # Dropping a reader ends its thread and its connection, as closing it does.
        self._dropped = weakref.finalize(self, _let_go, self._blocks, self.fetcher)
        self._dropped.atexit = False

    def _preparation(self, end: int | None) -> Preparation:
        return Preparation(self.planner, self.fetcher, self.part, BlockSizes(self.part, end))

    def check_open(self) -> None:
        """Refuse to read after this was closed.

        Raises:
            SamplerError: It was.
        """
        if not self._dropped.alive:
            raise SamplerError(
                "this sampler is closed, by its close() or that of its corpus; open another with "
                "Corpus.sampler(…), or where it was saved with duckplets.resume(…)"
            )

    def take(self, start: int) -> Batch:
        """Return the batch that begins at a position, and count it."""
        self.check_open()
        stop, block = self.stop_of(start), self._block
        if block is None or not block.start <= start < block.stop:
            block = self._block = self._taken(start)
        if block is None or block.stop < stop:
            block = self._preparation(self.end)(start, stop)
        number = (start - block.start) // self.part.stride
        counted = number * self.part.batch
        self.counters.take(block.tally, counted, counted + stop - start)
        return self._batch(self._tranche_of(block, number), start, stop)

    def _tranche_of(self, block: Block, number: int) -> Tranche:
        """Return the tranche of a block's batch: the one of the batch before, if it has both.

        Whoever takes a batch mostly drops the one before it after that. So a tranche is let go one
        batch after its last; if somebody still has it then, it leaves its block.
        """
        if self._before is not None:
            before, self._before = weakref.ref(self._before), None
            _leave(before)
        tranche, row = self._tranche, number * self.part.batch_size
        if tranche is None or not tranche.is_of(block, row):
            self._before, self._tranche = tranche, block.tranche(row, self.part.batch_size)
            return self._tranche
        return tranche

    def counts_before(self, position: int, taken: int) -> dict[str, list[int]]:
        """Return the counts without the samples from a position up to where batches were taken."""
        return self.counters.counts(without=self._tallies(position, taken))

    def _tallies(self, start: int, stop: int) -> Iterator[Tally]:
        for low in range(start, stop, _PLANNED):
            plan = self.planner.plan(low, min(low + _PLANNED, stop))
            yield self.fetcher.tally(plan, self.planner.sources)

    def _taken(self, start: int) -> Block | None:
        try:
            return self._blocks.take(start)
        except StoppedError:
            self.check_open()  # another thread has closed it
            raise

    def at(self, start: int) -> Batch:
        """Return the batch that begins at a position, without counting it."""
        self.check_open()
        stop = self.stop_of(start)
        block = self._preparation(self.end)(start, stop)
        return self._batch(block.tranche(0, self.part.batch_size), start, stop)

    def count(self, start: int, stop: int) -> None:
        """Count positions as taken that are not read."""
        self.check_open()
        for low in range(start, stop, _PLANNED):
            plan = self.planner.plan(low, min(low + _PLANNED, stop))
            tally = self.fetcher.tally(plan, self.planner.sources)
            self.counters.take(tally, 0, len(plan))

    def between(self, start: int, stop: int) -> Iterator[Batch]:
        """Yield the batches that begin from ``start`` on before ``stop``, without counting them."""
        self.check_open()
        prepare = self._preparation(self.bounded(stop))
        while span := prepare.sizes.follow(start):
            block, tranche = prepare(*span), None
            for number, begin in enumerate(self.part.batches(*span).tolist()):
                row = number * self.part.batch_size
                if tranche is None or not tranche.is_of(block, row):
                    tranche = block.tranche(row, self.part.batch_size)
                yield self._batch(tranche, begin, min(begin + self.part.batch, span[1]))
            start = span[1]

    def _batch(self, tranche: Tranche, start: int, stop: int) -> Batch:
        position, after = self.part.slice(start, stop)
        low = (start - tranche.start) // self.part.stride * self.part.batch_size
        step = start // self.part.batch
        sources = self.planner.schedule.names_at(step)
        return tranche.batch(
            low, low + after - position, position=position, step=step, sources=sources
        )

    def stop_of(self, start: int) -> int:
        """Return where the batch of all ranks that begins at a position ends."""
        return self.bounded(start + self.part.batch)

    def bounded(self, position: int) -> int:
        """Return a position, or the last there can be of this run if that comes before."""
        return min(position, MAX_POSITION if self.end is None else self.end)

    def share(self, workers: int) -> None:
        """Take only every ``workers``-th batch from now on."""
        self.check_open()
        self.part = replace(self.part, workers=workers)
        self._dropped.detach()
        self._blocks.close()
        self._begin()

    def forget(self) -> None:
        """Drop what is prepared: the position has jumped."""
        self._blocks.close()
        self._block = None

    def renew(self) -> None:
        """Drop what is prepared, without waiting: other weights are in force.

        Weights may change at every step, so blocks begin small again, and the next one alone:
        whatever is prepared beside it would be dropped as well.
        """
        self.check_open()
        self._blocks.stop()
        self._dropped.detach()
        self._begin(alone=True)

    def close(self) -> None:
        """Stop preparing and close the connection."""
        self._block = None
        if self._dropped.detach():
            self._blocks.close()
            self._leave_tranches()
            self.fetcher.close()

    def _leave_tranches(self) -> None:
        """Let batches that somebody keeps hold no block, nor what it is read from."""
        kept = [weakref.ref(tranche) for tranche in (self._before, self._tranche) if tranche]
        self._before = self._tranche = None
        for tranche in kept:
            _leave(tranche)


def _let_go(blocks: BlocksAhead, fetcher: Fetcher) -> None:
    """Stop what nobody holds any more, without waiting: what a signal raises here is lost."""
    blocks.stop()
    fetcher.drop()


def _leave(tranche: weakref.ref[Tranche]) -> None:
    """Have a tranche leave its block, if somebody still has a batch of it."""
    if (held := tranche()) is not None:
        held.leave_block()


@dataclass
class BlockSizes:
    """How many positions each block goes over.

    Attributes:
        part: What the reader takes of them.
        end: The position a bounded run ends at, or None.
    """

    part: RankPart
    end: int | None
    _target: int = _FIRST_BLOCK
    _largest: int = _LARGEST_BLOCK

    def follow(self, start: int) -> tuple[int, int] | None:
        """Return the block that begins at a position; None at the end of the run."""
        if self.end is not None and start >= self.end:
            return None
        samples = min(self._target, self._largest)
        batches = min(samples // self.part.batch_size, _LARGEST_SPAN // self.part.stride)
        self._target = min(self._target * _GROWTH, _LARGEST_BLOCK)
        stop = start + max(1, batches) * self.part.stride
        return start, stop if self.end is None else min(stop, self.end)

    def learn(self, block: Block, samples: int) -> None:
        """Bound the next blocks by the size of this one's texts."""
        self._largest = max(1, _BLOCK_BYTES // max(1, block.nbytes // max(1, samples)))


@dataclass(frozen=True)
class Preparation:
    """Plan and fetch blocks, in the background or at once.

    Attributes:
        planner: Of the run.
        fetcher: Of the run.
        part: What the reader takes.
        sizes: Learn from every block.
    """

    planner: Planner
    fetcher: Fetcher
    part: RankPart
    sizes: BlockSizes = field(repr=False)

    def __call__(self, start: int, stop: int) -> Block:
        """Return the block of the batches from ``start`` to ``stop``."""
        own, shared = self.part.own(start, stop), self.part.shared(start, stop)
        sources = self.planner.sources
        parts: list[Plan] = []
        tallies: list[Tally] = []
        for low in range(start, stop, _PLANNED):
            high = min(low + _PLANNED, stop)
            plan = self.planner.plan(low, high)
            parts.append(plan.part(_within(own, low, high)))
            tallies.append(self.fetcher.tally(plan.part(_within(shared, low, high)), sources))
        tally = Tally(*(np.concatenate([getattr(t, f) for t in tallies]) for f in Tally.__slots__))
        block = self.fetcher.fetch(joined(parts), tally, start=start, stop=stop)
        self.sizes.learn(block, len(own))
        return block


def _within(positions: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return those of the sorted positions from ``low`` to ``high``, counted from ``low``."""
    first, last = np.searchsorted(positions, [low, high])
    return positions[first:last] - low


Prepare = Callable[[int, int], Block]
Follow = Callable[[int], tuple[int, int] | None]


class BlocksAhead:
    """Hands out consecutive blocks, some of them prepared in a thread before they are asked for.

    Blocks nobody took are neither lost nor counted: only taking a batch moves a cursor.

    Args:
        prepare: Makes the block of positions ``start … stop-1``.
        follow: Names the block that begins at a position, or None at the end of the run.
        most: How many blocks to prepare ahead; 0 prepares each when it is asked for.
        alone: Whether the first one is made when it is asked for, and none ahead of that.
    """

    def __init__(self, prepare: Prepare, follow: Follow, most: int, *, alone: bool = False) -> None:
        self._prepare, self._follow, self._most = prepare, follow, most
        self._alone = alone
        self._coming: Lookahead[tuple[int, Block]] | None = None
        self._next: int | None = None  # the position at which the next of them begins

    def take(self, position: int) -> Block | None:
        """Return the block that begins at a position; None at the end of the run."""
        if self._alone and (span := self._follow(position)):
            self._alone = False
            return self._prepare(*span)
        if self._coming is None or self._next != position:  # the cursor has jumped
            self.close()
            calls = _preparations(self._prepare, self._follow, position)
            self._coming = Lookahead(calls, "duckplets-prefetch", most=self._most)
        self._next = None  # Ctrl-C may come before the block does
        found = next(self._coming, None)
        if found is None:
            return None
        self._next, block = found
        return block

    def stop(self) -> None:
        """Let the thread end after the block it is at, without waiting for it."""
        if self._coming is not None:
            self._coming.stop()

    def close(self) -> None:
        """Forget what was prepared, and end the thread, after the block it is at."""
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.close()


def _preparations(
    prepare: Prepare, follow: Follow, position: int
) -> Iterator[Callable[[], tuple[int, Block]]]:
    while span := follow(position):
        yield partial(_prepared, prepare, *span)
        position = span[1]


def _prepared(prepare: Prepare, start: int, stop: int) -> tuple[int, Block]:
    return stop, prepare(start, stop)
