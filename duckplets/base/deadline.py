"""Stop what takes too long, from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from numbers import Real
from typing import Any

from duckplets.errors import QueryError

STATEMENT_TIMEOUT = 60.0  # seconds, of one statement over a pool

_AGAIN = 0.05  # seconds: a statement that had not yet begun does not notice it was stopped


@contextmanager
def deadline(seconds: float | None, stop: Callable[[], None]) -> Iterator[threading.Event]:
    """Call ``stop`` again and again if what is done inside takes longer; None: never.

    Yields:
        What is set once the time is over.
    """
    passed, ended = threading.Event(), threading.Event()

    def watch() -> None:
        rest = seconds
        while not ended.wait(rest):
            passed.set()
            rest = _AGAIN
            with suppress(Exception):  # a connection that was closed meanwhile
                stop()

    if seconds is None:
        yield passed
        return
    thread = threading.Thread(target=watch, name="duckplets-deadline", daemon=True)
    thread.start()
    try:
        yield passed
    finally:
        ended.set()
        thread.join()  # else it might stop the next statement


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
