"""Detect use of an object in a forked process.

A fork copies every object but no thread, and possibly a lock that a thread held and nobody will
release. Objects with threads, locks or open files ask their ``Home`` first: in another process they
refuse, or start anew, without touching any of these.
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
        """Whether this is a process forked from that one."""
        return os.getpid() != self.process

    def need(self, what: str, instead: str) -> None:
        """Refuse to use ``what`` in another process, and say what to do instead."""
        if self.is_left:
            raise CorpusLockedError(
                f"{what} is of process {self.process}, from which this one ({os.getpid()}) was "
                f"forked, and cannot be used here; {instead}"
            )


class HomeLock:
    """A reentrant lock that refuses other processes, with a message."""

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
