"""Run the parts of a work in this process, where nobody else is asked to.

    part ─drawn by who iterates→ function(job, input), there or in a thread ─in order→ taken

Nothing is serialised: a function gets the very job and input that it is given, so a job may hold a
connection that is another one on a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from functools import partial
from typing import Any

from duckplets.base.prefetch import Lookahead
from duckplets.engine.protocol import Engine, Part

__all__ = ["INLINE", "InlineEngine", "threaded"]


class InlineEngine:
    """Runs parts in this process; see ``Engine``.

    Args:
        threads: How many make the next parts while one is used; with 0 a part is made when its
            result is asked for, by who asks.
    """

    workers = 1

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads

    def map(
        self, function: Callable[[Any, Any], Any], job: Any, parts: Iterable[Part]
    ) -> Generator[Any, None, None]:
        """Yield what a function makes of every part, in their order; what it raises is raised."""
        calls = (partial(function, job, part.input) for part in parts)
        threads = self._threads
        with closing(
            Lookahead(calls, "duckplets-parts", most=min(threads, 1), threads=threads)
        ) as made:
            yield from made


INLINE = InlineEngine()


def threaded(engine: Engine, threads: int) -> Engine:
    """Return an engine that makes parts in threads where it would make them when asked for."""
    return InlineEngine(threads) if engine is INLINE else engine
