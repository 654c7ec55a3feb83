"""A thread that makes items ahead of their use, within a bound on what waits."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# What may wait between the two threads: about as much as one statement takes.
_MOST_ROWS = 16_384
_MOST_BYTES = 16 << 20
_PATIENCE = 5.0  # seconds for the user's code to come to an end; a thread cannot be killed


class StoppedError(Exception):
    """The other side has gone."""


class Channel(Generic[T]):
    """A queue between two threads, bounded by rows and bytes."""

    def __init__(self, most_rows: int = _MOST_ROWS, most_bytes: int = _MOST_BYTES) -> None:
        self._most = (most_rows, most_bytes)
        self._waiting: deque[tuple[T, int, int]] = deque()
        self._rows = self._bytes = 0
        self._error: BaseException | None = None
        self._ended = self._closed = False
        self._changed = threading.Condition()

    def put(self, item: T, rows: int, size: int) -> None:
        """Add an item when there is room for it; an empty channel has room for any.

        Raises:
            StoppedError: Nobody takes it any more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room(rows, size))
            if self._closed:
                raise StoppedError
            self._waiting.append((item, rows, size))
            self._rows, self._bytes = self._rows + rows, self._bytes + size
            self._changed.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        """Say that nothing more comes, or what went wrong."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def take(self) -> T | None:
        """Return the next item, or None after the last.

        Raises:
            StoppedError: The channel was closed; else what ``end`` was given.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting or self._ended)
            if self._closed:
                raise StoppedError
            if not self._waiting:
                self._raise()
                return None
            item, rows, size = self._waiting.popleft()
            self._rows, self._bytes = self._rows - rows, self._bytes - size
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Wake both sides up for good."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # else it and this frame keep each other alive, and the thread's too

    def _has_room(self, rows: int, size: int) -> bool:
        most_rows, most_bytes = self._most
        fits = self._rows + rows <= most_rows and self._bytes + size <= most_bytes
        return fits or not self._waiting


class Production(Generic[T]):
    """Items that a daemon thread makes, from the first to the last in that one thread.

    Args:
        items: What to make; closed in the thread, too.
        weigh: Returns the rows and bytes of an item.
        name: Of the thread.
    """

    def __init__(
        self,
        items: Generator[T, None, None],
        weigh: Callable[[T], tuple[int, int]],
        name: str,
    ) -> None:
        self._channel: Channel[T] = Channel()
        arguments = (items, weigh, self._channel)
        self._thread = threading.Thread(target=_make, args=arguments, name=name, daemon=True)
        self._dropped = weakref.finalize(self, self._channel.close)
        self._thread.start()

    def take(self) -> T | None:
        """Return the next item, or None after the last; raises what the making raised."""
        return self._channel.take()

    def stop(self) -> None:
        """End the thread, from any other; waits a little for the item being made."""
        self._channel.close()
        if self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)


class Stoppable(Iterator[T]):
    """An iterator over what becomes of a production, which ends with it.

    Args:
        production: StoppedError at the end, at an error, and when this is dropped.
        items: Made of it.
    """

    def __init__(self, production: Production[Any], items: Iterator[T]) -> None:
        self._production = production
        self._items = items

    def __next__(self) -> T:
        try:
            return next(self._items)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the production; safe from any thread, also while another one waits for an item."""
        self._production.stop()


def _make(
    items: Generator[T, None, None], weigh: Callable[[T], tuple[int, int]], channel: Channel[T]
) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            channel.put(item, *weigh(item))
    except StoppedError:
        pass
    except BaseException as raised:
        error = raised
    with suppress(Exception):
        items.close()
    channel.end(error)
