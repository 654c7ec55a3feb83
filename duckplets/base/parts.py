"""Say what an engine is: it runs a function over the parts of a work, wherever it likes.

    parts ─drawn as they are needed→ function(job, input) ─in the order of the parts→ results

The decision that matters: a part is a pure function of what it is sent, and whoever sent it takes
results in order and is the only one to write. So neither the number of workers, nor which of them
ended, nor how often, can be told from what is stored. Who is given no engine does without any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

__all__ = ["Engine", "Part", "mapped"]

J = TypeVar("J")
T = TypeVar("T")
R = TypeVar("R")


class Part(NamedTuple):
    """A part of a work.

    Attributes:
        label: What it is, for messages: a file, or some rows.
        input: What the function is called with; bytes, arrays, Arrow, or the name of a file that
            workers can read.
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
    """Yield items with what a function makes of the part that each is of a work.

    Args:
        engine: What runs it.
        function: As for ``Engine.map``.
        job: As for ``Engine.map``.
        items: Kept here until their results come.
        part_of: Returns the part of an item.
    """
    waiting: deque[T] = deque()

    def parts() -> Iterator[Part]:
        for item in items:
            waiting.append(item)
            yield part_of(item)

    with closing(engine.map(function, job, parts())) as results:
        for result in results:
            yield waiting.popleft(), result
