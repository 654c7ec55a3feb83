"""Compute the next items of an iterator in background threads.

calls ─drawn by the consumer→ waiting → being computed → done ─in order→ taken

The queue is bounded by number and by bytes, and keeps the order of the calls. An error is raised at
the place of its item and ends the items. Closing requests the running call to stop, if possible,
and waits for it. The threads of a dropped iterator end within a second. They check it regularly,
for Ctrl-C may be lost in Python code that runs at the moment an object is dropped.

``concurrent.futures`` would compute the whole queue before Python exits. Ctrl-C at the exit of one
of its conditions leaves a lock held.
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
from weakref import ref

from duckplets.base.fork_guard import Home
from duckplets.base.live_set import LiveSet

T = TypeVar("T")

Call = Callable[[], T]
IsStopped = Callable[[], bool]

_LOOK = 1.0  # seconds between two checks of an idle thread for its iterator
_PATIENCE = 10.0  # seconds to wait for the threads of dropped iterators


def never() -> bool:
    """Return False: the stop function of work that nobody stops."""
    return False


class StoppedError(Exception):
    """The items were closed while a consumer waited for one."""


class Lookahead(Iterator[T]):
    """Iterates over the results of calls in order; threads compute the next ones.

    The thread of the consumer draws the calls. A call that raises StopIteration ends the items at
    its place, like any error.
    """

    def __init__(
        self,
        calls: Iterable[Call[T]],
        name: str,
        *,
        most: int = 1,  # items to compute ahead; 0: on request, in the thread of the consumer
        threads: int = 1,
        most_bytes: int = 1,  # no further item is started while this many bytes wait
        weigh: Callable[[T], int] = lambda _: 0,  # returns the bytes of an item
        stop: Callable[[], None] = lambda: None,  # makes a running call return early
        finish: Callable[[], None] = lambda: None,  # called after the last call, in its thread
        patience: float | None = None,  # seconds to wait for a thread on closing; None: for ever
    ) -> None:
        self._calls = iter(calls)
        self._most = most
        self._work = _PrefetchQueue(self, name, threads, most_bytes, weigh, stop, finish, patience)
        self._last: Exception | None = None  # the exception that ended the calls
        self._ended = False

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        self._work.home.need("the thread that prepares items", "open the run in this process")
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
            del error  # breaks the cycle between the error and this frame

    @property
    def made(self) -> list[T]:
        """Computed items that wait to be taken, without failures."""
        waiting = list(self._work.items)
        return [item.result for item in waiting if item.made and item.result is not None]

    def begin(self) -> None:
        """Start computing before the first item is requested."""
        while self._last is None and len(self._work.items) <= self._most:
            try:
                call = next(self._calls)
            except Exception as error:  # StopIteration too, raised after the items before it
                # The traceback must not keep this frame and its consumer alive.
                inner = error.__traceback__ and error.__traceback__.tb_next
                self._last = error.with_traceback(inner)
            else:
                self._work.add(call)

    def _end(self) -> None:
        self._ended, self._last = True, None
        self.close()

    def stop(self) -> None:
        """Request the threads to end, without waiting."""
        self._work.stop()

    def close(self) -> None:
        """End the threads and drop the remaining items; another thread may be waiting."""
        self._work.stop()
        self._work.join()


def ahead(items: Iterator[T], name: str = "duckplets-ahead", **bounds: Any) -> Lookahead[T]:
    """Return an iterator whose next items are computed in a thread."""
    stop = getattr(items, "stop", lambda: None)
    finish = items.close if isinstance(items, Generator) else lambda: None
    calls = repeat(partial(next, items))
    return Lookahead(calls, name, stop=stop, finish=finish, **bounds)


class BlocksAhead(Generic[T]):
    """Hands out consecutive blocks; a thread computes the next ones."""

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
        self._next: int | None = None  # position of the next block

    def take(self, position: int) -> T | None:
        """Return the block that begins at a position; None at the end of the run."""
        if self._alone > 0 or not self._most:
            if (span := self._follow(position)) is None:
                return None
            self._alone -= span[1] - span[0]
            return self._prepare(*span, never)
        if self._coming is None or self._next != position:  # the cursor was moved
            self.close()
            stopped = threading.Event()
            calls = _blocks_from(position, self._prepare, self._follow, stopped.is_set)
            self._coming = Lookahead(calls, "duckplets-prefetch", most=self._most, stop=stopped.set)
        self._next = None  # Ctrl-C may arrive before the block
        found = next(self._coming, None)
        if found is None:
            return None
        self._next, block = found
        return block

    @property
    def waiting(self) -> list[T]:
        """Computed blocks that wait to be taken."""
        return [] if self._coming is None else [block for _, block in self._coming.made]

    def is_ready(self, position: int) -> bool:
        """Return whether the block at a position is computed."""
        return self._next == position and bool(self.waiting)

    def stop(self) -> None:
        """Request the thread to end after its current block, without waiting."""
        if self._coming is not None:
            self._coming.stop()

    def close(self) -> None:
        """Drop the computed blocks and end the thread after its current block."""
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.close()


def _blocks_from(
    position: int,
    prepare: Callable[[int, int, IsStopped], T],
    follow: Callable[[int], tuple[int, int] | None],
    is_stopped: IsStopped,
) -> Iterator[Call[tuple[int, T]]]:
    while span := follow(position):
        yield partial(lambda start, stop: (stop, prepare(start, stop, is_stopped)), *span)
        position = span[1]


class _Item(Generic[T]):
    """An item: its call, and its result or error."""

    __slots__ = ("call", "error", "made", "result", "size")

    def __init__(self, call: Call[T]) -> None:
        self.call: Call[T] | None = call
        self.result: T | None = None
        self.error: BaseException | None = None
        self.made = False
        self.size = 0


class _PrefetchQueue(Generic[T]):
    """The queue between the consumer and the computing threads, which refer to nothing else."""

    def __init__(
        self,
        owner: Lookahead[T],
        name: str,
        threads: int,
        most_bytes: int,
        weigh: Callable[[T], int],
        stop: Callable[[], None],
        finish: Callable[[], None],
        patience: float | None,
    ) -> None:
        self.home = Home()
        self.items: deque[_Item[T]] = deque()  # drawn, not yet taken; in order
        self.stopped = False
        self._owner = ref(owner)
        self._remaining: deque[_Item[T]] = deque()  # items not yet started
        self._name, self._most_threads = name, threads
        self._most_bytes, self._weigh = most_bytes, weigh
        self._stop, self._finish, self._patience = stop, finish, patience
        self._bytes = self._running = 0
        self._failed = False
        self._threads: list[threading.Thread] = []
        # Reentrant, since a garbage collection inside the lock may close the iterator. It is
        # acquired directly: Ctrl-C at the exit of a condition would leave it held.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    @property
    def is_dropped(self) -> bool:
        """Whether the iterator was dropped."""
        return self._owner() is None

    # -- in the thread of the consumer

    def add(self, call: Call[T]) -> None:
        """Queue a call, and start a thread if one more is allowed."""
        with self._lock:
            self.items.append(_Item(call))
            self._remaining.append(self.items[-1])
            self._changed.notify_all()
            if len(self._threads) < self._most_threads and not self.stopped:
                run = copy_context().run  # with the context variables of the caller
                thread = threading.Thread(
                    target=run, args=(self._make_items,), name=self._name, daemon=True
                )
                _AT_WORK.add(self)
                self._threads.append(thread)
                self._running += 1
                thread.start()

    def take(self) -> _Item[T]:
        """Wait for the next item and return it."""
        with self._lock:
            self._changed.wait_for(lambda: self.stopped or self.items[0].made)
            if self.stopped:
                raise StoppedError
            item = self.items.popleft()
            self._bytes -= item.size
            if item.size:  # there may be room for one more
                self._changed.notify_all()
            return item

    def stop(self) -> None:
        """Refuse further items, from any thread, without waiting."""
        if self.home.is_left:  # the threads and their locks belong to the parent process
            return
        with self._lock:
            if self.stopped:
                return
            self.stopped = True
            self._changed.notify_all()
        self._stop()
        if not self._threads:
            self._finish()

    def join(self, patience: float | None = None) -> None:
        """Wait for the threads to end, each for ``patience`` seconds or the default."""
        if self.home.is_left:
            return
        for thread in self._threads:
            if thread is not threading.current_thread():
                with suppress(RuntimeError):  # Ctrl-C arrived before the thread started
                    thread.join(self._patience if patience is None else patience)
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
                self._failed |= item.error is not None  # no item is started after an error
                self._changed.notify_all()
            del item  # otherwise it stays alive until the next one
        with self._lock:
            self._running -= 1
            is_last = not self._running
        if is_last:
            with suppress(Exception):
                self._finish()
        _ENDING.difference_update([thread for thread in list(_ENDING) if not thread.is_alive()])
        _ENDING.add(threading.current_thread())

    def _begun(self) -> _Item[T] | None:
        """Wait for a call to run; None if there are no more."""
        with self._lock:
            while not (self.stopped or self._failed or self.is_dropped):
                if self._remaining and self._bytes < self._most_bytes:
                    return self._remaining.popleft()
                self._changed.wait(_LOOK)  # dropping the iterator wakes nobody
            return None


_AT_WORK: LiveSet[_PrefetchQueue[Any]] = LiveSet()
_ENDING: set[threading.Thread] = set()  # threads that may still release a queue


def _after_in_child() -> None:
    _AT_WORK.clear()
    _ENDING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)


def settle() -> None:
    """End the threads of all dropped iterators, and release their objects."""
    for work in _AT_WORK:
        if work.is_dropped:
            work.stop()
            work.join(_PATIENCE)
    for thread in list(_ENDING):
        if thread is not threading.current_thread():
            thread.join(_PATIENCE)


@atexit.register
def _end_all() -> None:
    """End all threads before Python exits: a thread inside DuckDB would crash then."""
    for work in _AT_WORK:
        work.stop()
        work.join()
