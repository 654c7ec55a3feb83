"""Stop what takes too long: one thread watches all deadlines of the process.

    with deadline(60, connection.interrupt) as running:   # another thread calls it after a minute
        …
    running.passed                                        # whether it did

Entering and leaving take microseconds, for the thread sleeps on until the time it knows of: there
are thousands of statements where there are thousands of sources.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Real
from typing import Any

from duckplets.errors import QueryError

STATEMENT_TIMEOUT = 60.0  # seconds, of one statement over a pool

_AGAIN = 0.05  # seconds: a statement that had not yet begun does not notice it was stopped


@dataclass(eq=False, slots=True)
class Deadline:
    """A time by which something has to be done.

    Attributes:
        at: By ``time.monotonic``.
        stop: Called after it, again and again until what takes so long has ended.
        passed: Whether it was called.
    """

    at: float
    stop: Callable[[], None]
    passed: bool = False


class _Watch:
    """The deadlines that are not over, and the thread that waits for the next of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: set[Deadline] = set()
        self._wakes = math.inf
        self._ended = False
        self._thread: threading.Thread | None = None

    def add(self, deadline: Deadline) -> None:
        with self._changed:
            self._open.add(deadline)
            if self._thread is None:
                name = "duckplets-deadlines"
                self._thread = threading.Thread(target=self._watch, name=name, daemon=True)
                self._thread.start()
            elif deadline.at < self._wakes:
                self._changed.notify()

    def remove(self, deadline: Deadline) -> None:
        with self._changed:  # what is stopped under the lock is stopped before it is left
            self._open.discard(deadline)

    def end(self) -> None:
        """End the thread: one that is alive when Python ends keeps all that it has seen."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        with self._changed:
            while not self._ended:
                now = time.monotonic()
                for deadline in self._open:
                    if deadline.at <= now:
                        deadline.passed, deadline.at = True, now + _AGAIN
                        with suppress(Exception):  # a connection that was closed meanwhile
                            deadline.stop()
                self._wakes = min((each.at for each in self._open), default=math.inf)
                rest = None if self._wakes == math.inf else max(0.0, self._wakes - now)
                self._changed.wait(rest)


_watch = _Watch()


def _begin_anew() -> None:
    """Forget, in a forked process, the thread of its parent."""
    global _watch
    _watch = _Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
atexit.register(lambda: _watch.end())


@contextmanager
def deadline(seconds: float | None, stop: Callable[[], None]) -> Iterator[Deadline]:
    """Call ``stop`` from another thread if what is done inside takes longer; None: never."""
    running = Deadline(math.inf if seconds is None else time.monotonic() + seconds, stop)
    if seconds is None:
        yield running
        return
    watch = _watch
    watch.add(running)
    try:
        yield running
    finally:
        watch.remove(running)


def checked_timeout(seconds: Any) -> float | None:
    """Return ``statement_timeout`` as a user gave it.

    Raises:
        QueryError: It is no number of seconds.
    """
    if seconds is None:
        return None
    known = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not known or not 0 < float(seconds) <= threading.TIMEOUT_MAX:
        raise QueryError(
            f"statement_timeout={seconds!r}: give a number of seconds above 0, or None for no end"
        )
    return float(seconds)
