"""Stop statements that take too long, from a watching thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

from duckplets.base.settings import Bounds

STATEMENT_TIMEOUT = 60.0  # seconds for a statement over a pool
Timeout = Annotated[float, Bounds(above=0, most=threading.TIMEOUT_MAX)] | None

_PAUSE = 0.05  # seconds between attempts: a statement that has not begun ignores an attempt


@contextmanager
def deadline(seconds: float | None, stop: Callable[[], None]) -> Iterator[threading.Event]:
    """Call ``stop`` repeatedly once the block has taken ``seconds``; None means never."""
    passed, ended = threading.Event(), threading.Event()

    def watch() -> None:
        rest = seconds
        while not ended.wait(rest):
            passed.set()
            rest = _PAUSE
            with suppress(Exception):  # the connection may be closed by now
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
        thread.join()  # otherwise it could stop the next statement
