"""Track live objects without keeping them alive, and clean up after dropped ones.

object dropped ─C callback→ queue ─thread→ its clean-up action

The decision that matters: no Python code runs at the moment an object is dropped. An exception in
a ``weakref`` callback is printed and lost, and Ctrl-C may land in one; that is what happens with
``WeakSet`` and ``weakref.finalize``. Signals are never delivered in other threads.
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

_PATIENCE = 10.0  # seconds to wait for a clean-up action


class LiveSet(Generic[T]):
    """A set of weakly referenced objects."""

    def __init__(self) -> None:
        self._refs: set[ref[T]] = set()
        self._gone: deque[ref[T]] = deque()

    def add(self, item: T) -> None:
        """Add an object."""
        with suppress(IndexError):
            while True:
                self._refs.discard(self._gone.popleft())
        self._refs.add(ref(item, self._gone.append))

    def discard(self, item: T) -> None:
        """Remove an object."""
        self._refs.discard(ref(item))

    def clear(self) -> None:
        """Remove all objects."""
        self._refs.clear()

    def __iter__(self) -> Iterator[T]:
        found = (each() for each in list(self._refs))
        return iter([item for item in found if item is not None])


class _Ending:
    """Actions to run when objects are dropped, and the thread that runs them."""

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
                with suppress(Exception):  # best effort
                    action()
                del action  # releases what the action holds


_ending = _Ending()


def when_dropped(item: Any, action: Callable[[], None]) -> ref[Any]:
    """Run an action in a thread when an object is dropped; the action must not hold it.

    Returns:
        A handle for ``forget``.
    """
    _ending.begin()
    mark = ref(item, _ending.dropped.put)
    _ending.actions[mark] = action
    return mark


def forget(mark: ref[Any]) -> None:
    """Cancel the action of a dropped object."""
    _ending.actions.pop(mark, None)


def settle() -> None:
    """Wait until the actions of all objects dropped so far have run."""
    if _ending.thread.is_alive() and threading.current_thread() is not _ending.thread:
        done = threading.Event()
        _ending.dropped.put(done)
        done.wait(_PATIENCE)


atexit.register(settle)  # a thread inside DuckDB at interpreter exit would crash


def _begin_anew() -> None:
    """Leave the parent's objects to the parent after a fork."""
    global _ending
    _ending = _Ending()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
