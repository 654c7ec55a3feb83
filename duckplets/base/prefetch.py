"""Preparing blocks ahead in one background thread, a bounded number of them.

Blocks nobody took are neither lost nor counted: only taking a batch moves a cursor. An error in
the thread surfaces where the block is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from duckplets.sampling.batch import Block

Prepare = Callable[[int, int], Block]
Follow = Callable[[int], tuple[int, int] | None]


class Prefetcher:
    """Hands out consecutive blocks.

    Args:
        prepare: Makes the block of positions ``start … stop-1``.
        follow: Names the block that begins at a position, or None at the end of the run.
        depth: How many blocks to prepare ahead; 0 prepares each when it is asked for.
    """

    def __init__(self, prepare: Prepare, follow: Follow, depth: int) -> None:
        self._prepare = prepare
        self._follow = follow
        self._depth = depth
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: deque[tuple[int, int, Future[Block]]] = deque()

    def take(self, position: int) -> Block | None:
        """Return the block that holds a position; None at the end of the run."""
        if self._ahead and self._ahead[0][0] != position:
            self.clear()  # the cursor has jumped
        if not self._ahead:
            span = self._follow(position)
            if span is None:
                return None
            if not self._depth:
                return self._prepare(*span)
            self._submit(span)
        _, stop, block = self._ahead.popleft()
        self._fill(stop)
        return block.result()

    def clear(self) -> None:
        """Forget what was prepared."""
        for _, _, block in self._ahead:
            block.cancel()
        self._ahead.clear()

    def close(self) -> None:
        """Stop the thread, after the block it is at."""
        self.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _fill(self, stop: int) -> None:
        while len(self._ahead) < self._depth:
            span = self._follow(self._ahead[-1][1] if self._ahead else stop)
            if span is None:
                return
            self._submit(span)

    def _submit(self, span: tuple[int, int]) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="duckplets-prefetch")
        self._ahead.append((*span, self._pool.submit(self._prepare, *span)))
