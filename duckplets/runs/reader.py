"""Read batches at any position from blocks, and prepare the next blocks in the background.

position ─Planner→ plan ─RankPart→ own samples ─FetchesSamples→ Block ─slices→ Batch

Only the fetcher knows whether samples are texts, messages or rows of tokens.

Blocks start small, so that the first batch comes soon, also after a jump. They grow as far as
memory allows. Their maker has no reference to the sampler, so a dropped sampler is freed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from duckplets.artifacts.read_ahead import ReadAhead
from duckplets.base.arrays import Integers
from duckplets.base.checks import MAX_POSITION
from duckplets.base.prefetch import BlocksAhead, IsStopped, StoppedError, never
from duckplets.errors import SamplerError
from duckplets.order.ranks import RankPart
from duckplets.order.schedule import RunSchedule
from duckplets.runs.metrics import SourceCounts
from duckplets.samples.plan import Plan, Planner, joined

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.samples.batch import Batch, Block

_FIRST_BLOCK = 256  # samples of the first block: reading a cold file touches few of its blocks
_SAMPLE_BYTES = 8192  # bytes of a sample's texts, assumed until a block was read
_GROWTH = 4
_LARGEST_BLOCK = 65_536
_MAPPED_BYTES = 192 << 20  # bytes of text of a block that has only spans
_LARGEST_SPAN = 1 << 20  # positions of all ranks planned for a block
_FARTHEST = 1 << 33  # most positions of a block: see ``Apportionment.deal``
_ALONE = 1024  # samples after set_weights before a thread prepares more
_PLANNED = 1 << 17  # samples planned at a time


class FetchesSamples(Protocol):
    """Turn plans into blocks, and describe their samples."""

    reads: ReadAhead  # reads of what is not in memory
    padded_from: int | None  # first position of samples that only fill the last batch

    @property
    def slots(self) -> Sequence[str]:
        """Columns with the samples' content."""

    def fetch(self, plan: Plan, *, start: int, stop: int, is_stopped: IsStopped = never) -> Any:
        """Return a plan's samples as a block of batches."""

    def count(self, plan: Plan, sources: Integers, size: int) -> Integers:
        """Return tokens, fallbacks and displaced samples of a plan by source: shape (size, 3)."""

    def identities(self, plan: Plan, batch: int) -> pa.Table:
        """Return the ids of a plan's samples."""

    def mean_tokens(self, stream: Any, per_draw: int, *, swaps: bool) -> float:
        """Return the expected tokens of a sample of a stream."""

    def sound(self) -> AbstractContextManager[None]:
        """Raise DamagedFileError for index errors, since intact files cause none."""

    def close(self) -> None:
        """Close what is open."""


class BatchReader:
    """Read the batches of one rank, or of one worker of a rank."""

    def __init__(
        self,
        planner: Planner,
        fetcher: FetchesSamples,
        part: RankPart,
        *,
        end: int | None,  # end position of a bounded run
        prefetch: int,  # blocks
        block_bytes: int,  # approximate bytes of text
    ) -> None:
        self.planner, self.fetcher, self.part, self.end = planner, fetcher, part, end
        self.counter = SourceCounts(planner, fetcher)
        self._until: int | None = None  # prepared blocks from there on are invalid
        self._prefetch, self._block_bytes = prefetch, block_bytes
        self._waits, self._waited = 0, 0.0  # seconds spent waiting for blocks
        self._dropped_bytes = 0  # bytes read ahead
        self._is_closed = False
        self._begin()

    def _begin(self, *, alone: int = 0) -> None:
        self._block: Block | None = None
        maker = self._maker(self.end)
        if alone:
            maker._target = 1  # one batch
        self._blocks = BlocksAhead(maker, maker.follow, self._prefetch, alone=alone)

    def _maker(self, end: int | None) -> BlockMaker:
        return BlockMaker(self.planner, self.fetcher, self.part, end, self._block_bytes)

    def check_open(self) -> None:
        """Refuse to read after closing."""
        if self._is_closed:
            raise SamplerError(
                "this sampler is closed, since it or its corpus was closed; open another with "
                "Corpus.sampler(…), or continue a saved run with duckplets.resume(…)"
            )

    def take(self, start: int) -> Batch:
        """Return the batch at a position."""
        self.check_open()
        stop, block = self.stop_of(start), self._block
        is_stale = self._until is not None and stop > self._until
        if block is None or not block.start <= start < block.stop or is_stale:
            if self._until is not None:  # weights changed, and may change again soon
                self._until = None
                self._stop()
                self._begin(alone=_ALONE * self.part.stride // self.part.batch_size)
            try:
                with nullcontext() if self._blocks.is_ready(start) else self._waiting():
                    block = self._block = self._blocks.take(start)
            except StoppedError:
                self.check_open()  # closed by another thread
                raise
        if block is None or block.stop < stop:
            with self._waiting():
                block = self._maker(self.end)(start, stop)
        return self._batch(block, start, stop)

    def _stop(self) -> None:
        """Stop preparing, and count the bytes of blocks that are dropped."""
        self._dropped_bytes += sum(block.read_bytes for block in self._blocks.waiting)
        self._blocks.stop()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self._waits += 1
        self._waited += time.perf_counter() - begun

    @property
    def prefetched(self) -> dict[str, float]:
        """Counts of prepared blocks and reads since opening; see ``Sampler.metrics``."""
        waiting, reads = self._blocks.waiting, self.fetcher.reads
        found: dict[str, float] = {"prefetch/blocks_ready": len(waiting)}
        found |= {"prefetch/waits": self._waits, "prefetch/seconds_waited": self._waited}
        if reads.reads:
            found |= {"read_ahead/reads": reads.reads, "read_ahead/bytes": reads.bytes}
            found["read_ahead/bytes_dropped"] = self._dropped_bytes
            found["read_ahead/seconds"] = reads.seconds
        return found

    def between(self, start: int, stop: int) -> Iterator[Batch]:
        """Yield the batches that begin in ``start … stop-1``."""
        self.check_open()
        maker = self._maker(self.bounded(stop))
        while span := maker.follow(start):
            block = maker(*span)
            for begin in self.part.batches(*span).tolist():
                yield self._batch(block, begin, min(self.part.end(begin), span[1]))
            start = span[1]

    def identities(self, spans: Sequence[tuple[int, int]]) -> pa.Table:
        """Return the ids of spans of positions, of all ranks."""
        self.check_open()
        with self.fetcher.sound():
            plan = joined([self.planner.plan(*span) for span in spans or [(0, 0)]])
            return self.fetcher.identities(plan, self.part.batch)

    def _batch(self, block: Block, start: int, stop: int) -> Batch:
        position, after = self.part.slice(start, stop)
        low = (start - block.start) // self.part.stride * self.part.batch_size
        step = start // self.part.batch
        sources = self.planner.schedule.at(step).names_at(step)
        high = low + after - position
        return block.batch(low, high, position=position, step=step, sources=sources)

    def stop_of(self, start: int) -> int:
        """Return the end of the global batch of a position."""
        return self.bounded(self.part.end(start))

    def bounded(self, position: int) -> int:
        """Return a position, or the end of a bounded run if it comes first."""
        return min(position, MAX_POSITION if self.end is None else self.end)

    def bound(self, start: int, end: int | None, padded_from: int | None) -> None:
        """Set the start of batches, the end, and the first sample that only fills a batch."""
        self.check_open()
        self.part = replace(self.part, origin=start % self.part.batch)
        self.end, self.fetcher.padded_from = end, padded_from
        self.forget()
        self._begin()

    def share(self, workers: int) -> None:
        """Take only every ``workers``-th batch from now on."""
        self.check_open()
        self.part = replace(self.part, workers=workers)
        self.forget()
        self._begin()

    def forget(self) -> None:
        """Drop prepared blocks: the position has jumped."""
        self._stop()
        self._blocks.close()
        self._block = None

    def change_schedule(self, schedule: RunSchedule, position: int) -> None:
        """Plan with another schedule from a position on; blocks before it stay valid."""
        self.check_open()
        self.counter.known(position)  # samples after it may change
        self.planner.deal_by(schedule)
        self._until = position if self._until is None else min(position, self._until)
        self._blocks.stop()

    def close(self) -> None:
        """Stop preparing and close the connection."""
        if not self._is_closed:
            self._is_closed = True
            self.forget()
            self.fetcher.close()


class BlockMaker:
    """Plan and fetch blocks, in the background or at once, of growing size."""

    def __init__(
        self,
        planner: Planner,
        fetcher: FetchesSamples,
        part: RankPart,
        end: int | None,
        most_bytes: int,  # approximate bytes fetched per sample
    ) -> None:
        self._planner, self._fetcher, self.part, self.end = planner, fetcher, part, end
        self._most_bytes = most_bytes
        self._target = _FIRST_BLOCK
        self._largest = max(1, min(_LARGEST_BLOCK, most_bytes // _SAMPLE_BYTES))
        self._next: int | None = None  # end of the last one

    def follow(self, start: int) -> tuple[int, int] | None:
        """Return the block at a position; None at the end of the run."""
        part, end = self.part, self.end
        if end is not None and start >= end:
            return None
        if start != self._next:  # after a jump the batch should come soon
            self._target = min(self._target, _FIRST_BLOCK)
        samples = min(self._target, self._largest)
        most = _LARGEST_SPAN if self._planner.newest.needs_all else _FARTHEST
        batches = min(samples // part.batch_size, most // part.stride)
        # a start inside a batch: the rest of it alone
        batches = 1 if part.within(start) else max(1, batches)
        stop = part.after(start) + (batches - 1) * part.stride
        self._next = stop if end is None else min(stop, end)
        return start, self._next

    def __call__(self, start: int, stop: int, is_stopped: IsStopped = never) -> Block:
        """Return the block of the batches from ``start`` to ``stop``."""
        own = self.part.own(start, stop)
        with self._fetcher.sound():
            parts = range(0, max(1, len(own)), _PLANNED)  # one if there are none
            plan = joined([self._planner.plan_at(own[at : at + _PLANNED]) for at in parts])
            block: Block = self._fetcher.fetch(plan, start=start, stop=stop, is_stopped=is_stopped)
        most = self._most_bytes if block.is_held else _MAPPED_BYTES
        self._largest = max(1, most // max(1, block.nbytes // max(1, len(own))))
        # only after the size of samples is known, since several blocks are planned ahead
        self._target = min(max(self._target, self.part.batch_size) * _GROWTH, _LARGEST_BLOCK)
        return block
