"""Define the protocol of engines: run a function over tasks, with results in order."""

# A task depends only on its input, and only the caller writes. So the number of workers, and the
# loss of some, cannot change the stored result.

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

AHEAD = 2  # tasks queued for each worker, after the running one
TRIES = 3  # attempts of a task that raises
MOST_LOSSES = 20  # workers that a task may be lost with

J = TypeVar("J")
T = TypeVar("T")
R = TypeVar("R")


class Part(NamedTuple):
    """A task: its name for messages, and its input.

    The input is bytes, arrays, Arrow, or the path of a file that workers can read.
    """

    label: str
    input: Any


@runtime_checkable
class Engine(Protocol):
    """Runs tasks. Any object with these two members is an engine."""

    @property
    def workers(self) -> int:
        """Number of tasks that run at the same time."""

    def map(
        self, function: Callable[[J, Any], R], job: J, parts: Iterable[Part]
    ) -> Generator[R, None, None]:
        """Yield the results of a function for every task, in order.

        Args:
            function: A module-level function, so that workers can import it.
            job: The shared settings of all tasks, sent once to every worker.
            parts: The tasks. The engine draws a few tasks for each worker in advance.

        Raises:
            EngineError: A task failed three times, or lost too many workers; it is named.
        """


def mapped(
    engine: Engine,
    function: Callable[[J, Any], R],
    job: J,
    items: Iterable[T],
    part_of: Callable[[T], Part],
) -> Generator[tuple[T, R], None, None]:
    """Yield items with the results of their tasks."""
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
    """Send tasks, at most ``most`` before a result is taken, and yield the results."""
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
    """Return the error of a task that failed at every attempt."""
    if isinstance(error, DuckpletsError):
        return error
    return EngineError(f"{label} failed {TRIES} times: {described(error)}")


def lethal(label: str, losses: int) -> EngineError:
    """Return the error of a task during which too many workers were lost."""
    return EngineError(
        f"{label}: {counted(losses, 'worker')} ended during this task, so it probably ends them: "
        f"check their memory; their messages are on stderr"
    )


def described(error: BaseException) -> str:
    """Return the text of an error, with its class if it is foreign."""
    text = str(error) if isinstance(error, PartError) else f"{type(error).__name__}: {error}"
    return shown(text, 300)


# -- on a worker ----------------------------------------------------------------------------------

# Packages that determine results; Dask compares its own.
_PACKAGES = ("duckplets", "duckdb", "numpy", "pyarrow")


class PartError(Exception):
    """An error of a task as text, since the caller may not have its class."""


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that determine results."""
    return {name: version(name) for name in _PACKAGES}


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function for the import in a worker."""
    return f"{function.__module__}:{function.__qualname__}"


def run_part(wanted: dict[str, str], name: str, job: Any, part: Any) -> Any:
    """Run a function of this package on the input of a task."""
    installed = versions()
    if wrong := [n for n in wanted if wanted[n] != installed[n]]:
        found = ", ".join(f"{name} {installed[name]} (wanted: {wanted[name]})" for name in wrong)
        raise EngineError(
            f"the worker {_here()} has {found}; its results could differ: install the same "
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
