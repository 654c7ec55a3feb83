"""Detect use of an object in a forked process.

A fork copies every object but no thread, and possibly a lock that nobody will release. Objects with
threads, locks or open files check their ``Home`` first. In another process they raise an error, or
start again, without a use of threads, locks and files.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from duckplets.errors import CorpusLockedError

P = ParamSpec("P")
R = TypeVar("R")


class Home:
    """The process that created an object."""

    __slots__ = ("process",)

    def __init__(self) -> None:
        self.process = os.getpid()

    @property
    def is_left(self) -> bool:
        """Whether this is another process, after a fork."""
        return os.getpid() != self.process

    def need(self, what: str, instead: str) -> None:
        """Raise an error that names ``what`` and the advice ``instead`` in another process."""
        if self.is_left:
            raise CorpusLockedError(
                f"{what} is of process {self.process}, and this process ({os.getpid()}) was forked "
                f"from it, so it cannot be used here; {instead}"
            )


class HomeLock:
    """A reentrant lock that raises an error in other processes."""

    __slots__ = ("_instead", "_lock", "_what", "home")

    def __init__(self, what: str, instead: str) -> None:
        self.home = Home()
        self._lock = threading.RLock()
        self._what, self._instead = what, instead

    def __enter__(self) -> None:
        self.home.need(self._what, self._instead)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def alone(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Run a method inside the ``HomeLock`` its object has as ``alone``."""

    @functools.wraps(method)
    def run(self: Any, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self.alone:
            return method(self, *arguments, **named)

    return run
