"""Know which objects others still hold, and end what belonged to one that was dropped.

    object dropped ─one call of C→ queue ─a thread→ what is to be done then

The decision that matters: where an object is dropped no Python runs. A signal's handler that runs
in a callback of ``weakref`` raises to nobody, so Ctrl-C would be printed there and lost, which is
what a ``WeakSet`` or ``weakref.finalize`` does. Signals do not land in threads.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import ref

T = TypeVar("T")

_PATIENCE = 10.0  # seconds to wait for what is being ended


class LiveSet(Generic[T]):
    """Objects, each for as long as somebody else holds it."""

    def __init__(self) -> None:
        self._refs: set[ref[T]] = set()
        self._gone: deque[ref[T]] = deque()

    def add(self, item: T) -> None:
        """Have an object among them."""
        with suppress(IndexError):
            while True:
                self._refs.discard(self._gone.popleft())
        self._refs.add(ref(item, self._gone.append))

    def discard(self, item: T) -> None:
        """Have an object among them no more."""
        self._refs.discard(ref(item))

    def clear(self) -> None:
        """Have none."""
        self._refs.clear()

    def __iter__(self) -> Iterator[T]:
        found = (each() for each in list(self._refs))
        return iter([item for item in found if item is not None])


class _Ending:
    """What is to be done when objects are dropped, and the thread that does it."""

    def __init__(self) -> None:
        self.actions: dict[ref[Any], Callable[[], None]] = {}
        self.dropped: SimpleQueue[ref[Any] | threading.Event] = SimpleQueue()
        self.thread = threading.Thread(target=self._end, name="duckplets-dropped", daemon=True)
        self._lock = threading.Lock()

    def begin(self) -> None:
        with self._lock:
            if self.thread.ident is None:
                self.thread.start()

    def _end(self) -> None:
        while True:
            found = self.dropped.get()
            if isinstance(found, threading.Event):
                found.set()
            elif action := self.actions.pop(found, None):
                with suppress(Exception):  # it is over, whatever comes of it
                    action()
                del action  # with all that it holds


_ending = _Ending()


def when_dropped(item: Any, action: Callable[[], None]) -> ref[Any]:
    """Have something done, in a thread, when an object is dropped; what it needs is held so long.

    Returns:
        By what it is forgotten again.
    """
    _ending.begin()
    mark = ref(item, _ending.dropped.put)
    _ending.actions[mark] = action
    return mark


def forget(mark: ref[Any]) -> None:
    """Have nothing done any more when an object is dropped."""
    _ending.actions.pop(mark, None)


def settle() -> None:
    """Wait until all is done for what was dropped before."""
    if _ending.thread.is_alive() and threading.current_thread() is not _ending.thread:
        done = threading.Event()
        _ending.dropped.put(done)
        done.wait(_PATIENCE)


atexit.register(settle)  # a thread that is inside DuckDB when Python ends would crash


def _begin_anew() -> None:
    """Leave to the parent, in a forked process, what is its own."""
    global _ending
    _ending = _Ending()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
