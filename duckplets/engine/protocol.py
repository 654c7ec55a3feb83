"""Say what an engine is: it runs a function over the parts of a work, wherever it likes.

    parts ─drawn as they are needed→ function(job, input) ─in the order of the parts→ results

The decision that matters: a part is a pure function of what it is sent, and whoever sent it takes
results in order and is the only one to write. So neither the number of workers, nor which of them
ended, nor how often, can be told from what is stored.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from duckplets.base.sanitize import counted, shown
from duckplets.engine.serialization import packed, unpacked
from duckplets.errors import DuckpletsError, EngineError

AHEAD = 2  # parts for each worker, besides the one it is at
TRIES = 3  # of a part that raises
MOST_LOSSES = 20  # of workers that a part may be lost with

J = TypeVar("J")
T = TypeVar("T")
R = TypeVar("R")


class Part(NamedTuple):
    """A part of a work: what it is, for messages, and what the function is called with.

    That is bytes, arrays, Arrow, or the name of a file that workers can read.
    """

    label: str
    input: Any


@runtime_checkable
class Engine(Protocol):
    """Runs the parts of a work; any object with these two will do."""

    @property
    def workers(self) -> int:
        """How many parts run at the same time."""

    def map(
        self, function: Callable[[J, Any], R], job: J, parts: Iterable[Part]
    ) -> Generator[R, None, None]:
        """Yield what a function makes of every part, in their order.

        Args:
            function: Of a module, so that it has a name wherever it runs.
            job: What all parts have in common; sent once to every worker.
            parts: Drawn a few more than there are workers ahead of what is yielded.

        Raises:
            EngineError: A part failed thrice, or whoever it ran on was lost too often; it is named.
        """


def mapped(
    engine: Engine,
    function: Callable[[J, Any], R],
    job: J,
    items: Iterable[T],
    part_of: Callable[[T], Part],
) -> Generator[tuple[T, R], None, None]:
    """Yield items, kept here meanwhile, with what an engine's ``map`` makes of the part of each."""
    waiting: deque[T] = deque()

    def parts() -> Iterator[Part]:
        for item in items:
            waiting.append(item)
            yield part_of(item)

    with closing(engine.map(function, job, parts())) as results:
        for result in results:
            yield waiting.popleft(), result


def windowed(
    parts: Iterable[Part], most: int, send: Callable[[Part], None], take: Callable[[], R]
) -> Iterator[R]:
    """Send parts, so many of them ahead of those whose results are taken, and yield these."""
    sent = 0
    for part in parts:
        send(part)
        sent += 1
        if sent == most:
            yield take()
            sent -= 1
    for _ in range(sent):
        yield take()


def failed(label: str, error: BaseException) -> DuckpletsError:
    """Return the error of a part that has raised as often as it may."""
    if isinstance(error, DuckpletsError):
        return error
    return EngineError(f"{label} failed {TRIES} times: {said(error)}")


def lethal(label: str, losses: int) -> EngineError:
    """Return the error of a part with which as many workers were lost as may be."""
    return EngineError(
        f"{label}: {counted(losses, 'worker')} ended while they worked at it, so it is "
        f"likely what ends them: does it need more memory than they have?"
    )


def said(error: BaseException) -> str:
    """Return what an error says, with its class if that is not of this package."""
    return shown(
        str(error) if isinstance(error, PartError) else f"{type(error).__name__}: {error}", 300
    )


# -- on a worker ----------------------------------------------------------------------------------

# What decides the bytes of results; others are Dask's own to compare.
_PACKAGES = ("duckplets", "duckdb", "numpy", "pyarrow")


class PartError(Exception):
    """What a part has raised, in words: its own class need not be known to who asked for it."""


@cache
def versions() -> dict[str, str]:
    """Return the versions of what decides results."""
    return {name: version(name) for name in _PACKAGES}


def name_of(function: Callable[..., Any]) -> str:
    """Return by what name a worker finds a function."""
    return f"{function.__module__}:{function.__qualname__}"


def run_part(wanted: dict[str, str], name: str, job: Any, part: Any) -> Any:
    """Run a function of this package over a part.

    Raises:
        EngineError: The versions here are others, or the function has raised what is no error of
            this package.
    """
    has = versions()
    if others := [n for n in wanted if wanted[n] != has[n]]:
        told = ", ".join(f"{name} {has[name]} (wanted: {wanted[name]})" for name in others)
        raise EngineError(
            f"the worker {_here()} has {told}; results could be others there: install the same "
            f"versions on all workers"
        )
    module, _, function = name.partition(":")
    try:
        return packed(getattr(import_module(module), function)(job, unpacked(part)))
    except DuckpletsError:
        raise
    except Exception as error:
        raise PartError(f"{type(error).__name__}: {error} (on {_here()})") from None


def _here() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"
