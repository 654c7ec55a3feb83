"""Make the next items of an iterator in background threads while one is used.

    calls ─drawn by whoever iterates→ waiting for a thread → being made → made ─in order→ taken

What waits is bounded by number and by bytes, and comes in the order of the calls, whichever thread
made it. An error surfaces where its item would have come, and ends the items. Closing tells the
call that is being made to stop, if it can be told, and waits for it.

The threads are no ``concurrent.futures``: those make all that waits before Python ends, and Ctrl-C
at the exit of one of their conditions leaves it held for good.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import repeat
from typing import Any, Generic, TypeVar

from duckplets.base.dropped import LiveSet, forget, when_dropped
from duckplets.base.fork_guard import Home

T = TypeVar("T")

Call = Callable[[], T]
IsStopped = Callable[[], bool]


def never() -> bool:
    """Let something come to its end, for nobody stops it."""
    return False


class StoppedError(Exception):
    """The items were closed while somebody waited for one."""


class Lookahead(Iterator[T]):
    """Iterates over the results of calls, in their order, making the next ones in threads.

    The calls themselves are drawn in the thread that iterates. One that raises StopIteration ends
    the items as any error does, at its place.

    Args:
        calls: What makes the items.
        name: Of the threads.
        most: How many items are being made or wait, besides the one asked for; with 0 each is
            made when it is asked for, by who asks.
        threads: How many make them.
        most_bytes: No further item is begun while so much waits.
        weigh: Returns the bytes of an item.
        stop: Makes a call that waits for something else come to its end.
        finish: Called once after the last call, in the thread that made it.
        patience: Seconds to wait for a thread that does not come to its end, or None for as long
            as it takes: no thread can be killed.
    """

    def __init__(
        self,
        calls: Iterable[Call[T]],
        name: str,
        *,
        most: int = 1,
        threads: int = 1,
        most_bytes: int = 1,
        weigh: Callable[[T], int] = lambda _: 0,
        stop: Callable[[], None] = lambda: None,
        finish: Callable[[], None] = lambda: None,
        patience: float | None = None,
    ) -> None:
        self._calls = iter(calls)
        self._most = most
        self._work = _PrefetchQueue(name, threads, most_bytes, weigh, stop, finish, patience)
        self._last: Exception | None = None  # what ended the calls
        self._ended = False
        # The threads know the work only, so whoever drops the items ends them.
        self._dropped = when_dropped(self, self._work.stop)

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        self._work.home.need("what prepares the next items", "begin anew in this process")
        if self._work.stopped:
            raise StoppedError
        if not self._most:
            try:
                return next(self._calls)()
            except BaseException:
                self._end()
                raise
        self.begin()
        error: BaseException | None = self._last
        if self._work.items:
            item = self._work.take()
            if item.error is None:
                return item.result  # type: ignore[return-value]
            error, item.error = item.error, None
        self._end()
        try:
            raise error or StopIteration
        finally:
            del error  # else it and this frame keep each other alive, and the thread's too

    @property
    def made(self) -> list[T]:
        """The items that are made and wait to be taken, but not what failed."""
        waiting = list(self._work.items)
        return [item.result for item in waiting if item.made and item.result is not None]

    def begin(self) -> None:
        """Have the next items made, before the first of them is asked for."""
        while self._last is None and len(self._work.items) <= self._most:
            try:
                call = next(self._calls)
            except Exception as error:  # StopIteration too: it comes after the items before it
                # This frame, and so whoever iterates, is not to be held by what waits here.
                inner = error.__traceback__ and error.__traceback__.tb_next
                self._last = error.with_traceback(inner)
            else:
                self._work.add(call)

    def _end(self) -> None:
        self._ended, self._last = True, None
        self.close()

    def stop(self) -> None:
        """Tell the threads to end, without waiting for them."""
        self._work.stop()

    def close(self) -> None:
        """End the threads, also while another one waits for an item; not made is what was not."""
        forget(self._dropped)
        self._work.stop()
        self._work.join()


def ahead(items: Iterator[T], name: str = "duckplets-ahead", **bounds: Any) -> Lookahead[T]:
    """Return the items of an iterator, all made in one thread while those before them are used.

    Closing tells the iterator to ``stop()``, or else closes it in that thread, if it can. Bounds
    are those of ``Lookahead``: one item ahead if nothing is said.
    """
    stop = getattr(items, "stop", lambda: None)
    finish = items.close if isinstance(items, Generator) else lambda: None
    calls = repeat(partial(next, items))
    return Lookahead(calls, name, stop=stop, finish=finish, **bounds)


class BlocksAhead(Generic[T]):
    """Hands out consecutive blocks, some of them prepared in a thread before they are asked for.

    Blocks nobody took are neither lost nor counted: only taking a batch moves a cursor.

    Args:
        prepare: Makes the block of positions ``start … stop-1``; asks now and then whether it is
            still wanted, and else raises ``StoppedError``.
        follow: Names the block that begins at a position, or None at the end of the run.
        most: How many blocks to prepare ahead; 0 prepares each when it is asked for.
        alone: Positions that are gone over before any block is prepared ahead.
    """

    def __init__(
        self,
        prepare: Callable[[int, int, IsStopped], T],
        follow: Callable[[int], tuple[int, int] | None],
        most: int,
        *,
        alone: int = 0,
    ) -> None:
        self._prepare, self._follow, self._most = prepare, follow, most
        self._alone = alone
        self._coming: Lookahead[tuple[int, T]] | None = None
        self._next: int | None = None  # the position at which the next of them begins

    def take(self, position: int) -> T | None:
        """Return the block that begins at a position; None at the end of the run."""
        if self._alone > 0 or not self._most:
            if (span := self._follow(position)) is None:
                return None
            self._alone -= span[1] - span[0]
            return self._prepare(*span, never)
        if self._coming is None or self._next != position:  # the cursor has jumped
            self.close()
            stopped = threading.Event()
            calls = self._blocks_from(position, stopped.is_set)
            self._coming = Lookahead(calls, "duckplets-prefetch", most=self._most, stop=stopped.set)
        self._next = None  # Ctrl-C may come before the block does
        found = next(self._coming, None)
        if found is None:
            return None
        self._next, block = found
        return block

    def _blocks_from(self, position: int, is_stopped: IsStopped) -> Iterator[Call[tuple[int, T]]]:
        prepare = self._prepare  # the thread is not to hold whoever takes
        while span := self._follow(position):
            yield partial(lambda start, stop: (stop, prepare(start, stop, is_stopped)), *span)
            position = span[1]

    @property
    def waiting(self) -> list[T]:
        """The blocks that are prepared and wait to be taken."""
        return [] if self._coming is None else [block for _, block in self._coming.made]

    def is_ready(self, position: int) -> bool:
        """Whether the block that begins at a position is prepared."""
        return self._next == position and bool(self.waiting)

    def stop(self) -> None:
        """Let the thread end after the block it is at, without waiting for it."""
        if self._coming is not None:
            self._coming.stop()

    def close(self) -> None:
        """Forget what was prepared, and end the thread, after the block it is at."""
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.close()


class _Item(Generic[T]):
    """One item: what makes it, and what became of that."""

    __slots__ = ("call", "error", "made", "result", "size")

    def __init__(self, call: Call[T]) -> None:
        self.call: Call[T] | None = call
        self.result: T | None = None
        self.error: BaseException | None = None
        self.made = False
        self.size = 0


class _PrefetchQueue(Generic[T]):
    """The items between the threads that make them and the one that takes them."""

    def __init__(
        self,
        name: str,
        threads: int,
        most_bytes: int,
        weigh: Callable[[T], int],
        stop: Callable[[], None],
        finish: Callable[[], None],
        patience: float | None,
    ) -> None:
        self.home = Home()
        self.items: deque[_Item[T]] = deque()  # drawn and not taken, in order
        self.stopped = False
        self._left: deque[_Item[T]] = deque()  # those among them that no thread has begun
        self._name, self._most_threads = name, threads
        self._most_bytes, self._weigh = most_bytes, weigh
        self._stop, self._finish, self._patience = stop, finish, patience
        self._bytes = self._running = 0
        self._failed = False
        self._threads: list[threading.Thread] = []
        # Whoever holds it may be the one that drops the items. It is entered itself, never by a
        # condition: Ctrl-C at the beginning of a condition's exit would leave it held for good.
        self._lock = threading.RLock()
        self._made = threading.Condition(self._lock)
        self._wanted = threading.Condition(self._lock)

    # -- on the side of who takes

    def add(self, call: Call[T]) -> None:
        """Have an item made, in another thread if there may be one more."""
        with self._lock:
            self.items.append(_Item(call))
            self._left.append(self.items[-1])
            self._wanted.notify()
            if len(self._threads) < self._most_threads and not self.stopped:
                inside = copy_context().run  # what the caller is about is known in the thread
                thread = threading.Thread(
                    target=inside, args=(self._make_items,), name=self._name, daemon=True
                )
                _AT_WORK.add(self)
                self._threads.append(thread)
                self._running += 1
                thread.start()

    def take(self) -> _Item[T]:
        """Wait for the next item to be made, and return it.

        Raises:
            StoppedError: Somebody else has ended the work.
        """
        with self._lock:
            self._made.wait_for(lambda: self.stopped or self.items[0].made)
            if self.stopped:
                raise StoppedError
            item = self.items.popleft()
            self._bytes -= item.size
            if item.size:
                self._wanted.notify_all()
            return item

    def stop(self) -> None:
        """Say that no item is wanted any more; from any thread, and without waiting."""
        if self.home.is_left:  # the threads stayed behind, perhaps with a lock in their hands
            return
        with self._lock:
            if self.stopped:
                return
            self.stopped = True
            self._made.notify_all()
            self._wanted.notify_all()
        self._stop()
        if not self._threads:
            self._finish()

    def join(self) -> None:
        """Wait for the threads to end."""
        if self.home.is_left:
            return
        for thread in self._threads:
            if thread is not threading.current_thread():
                with suppress(RuntimeError):  # Ctrl-C before it had begun: it ends at once
                    thread.join(self._patience)
        _AT_WORK.discard(self)

    # -- in the threads

    def _make_items(self) -> None:
        while (item := self._begun()) is not None:
            try:
                item.result = item.call()  # type: ignore[misc]
                item.size = self._weigh(item.result)
            except BaseException as error:
                item.error = error
            with self._lock:
                item.call, item.made = None, True
                self._bytes += item.size
                self._failed |= item.error is not None  # nothing is begun behind an error
                self._wanted.notify_all()
                self._made.notify_all()
            del item  # it would be held until the next one is wanted
        with self._lock:
            self._running -= 1
            is_last = not self._running
        if is_last:
            with suppress(Exception):
                self._finish()

    def _begun(self) -> _Item[T] | None:
        """Wait for an item to make; None if there are no more."""

        def is_ready() -> bool:
            has_room = self._bytes < self._most_bytes
            return self.stopped or self._failed or bool(self._left and has_room)

        with self._lock:
            self._wanted.wait_for(is_ready)
            return None if self.stopped or self._failed else self._left.popleft()


_AT_WORK: LiveSet[_PrefetchQueue[Any]] = LiveSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_AT_WORK.clear)


@atexit.register
def _end_all() -> None:
    """End the threads before Python does: one that is inside DuckDB then would crash."""
    for work in _AT_WORK:
        work.stop()
        work.join()
