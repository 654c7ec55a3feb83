"""Run tasks in this process; the default engine. Nothing is serialised."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from functools import partial
from typing import Any

from duckplets.base.prefetch import Lookahead
from duckplets.engine.protocol import Engine, Part

__all__ = ["INLINE", "InlineEngine", "threaded"]


class InlineEngine:
    """Runs tasks in this process, ahead of the consumer with ``threads``, or on request."""

    workers = 1

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads

    def map(
        self, function: Callable[[Any, Any], Any], job: Any, parts: Iterable[Part]
    ) -> Generator[Any, None, None]:
        """Yield the results of a function for every task, in order; errors pass through."""
        calls = (partial(function, job, part.input) for part in parts)
        threads = self._threads
        with closing(
            Lookahead(calls, "duckplets-parts", most=min(threads, 1), threads=threads)
        ) as results:
            yield from results


INLINE = InlineEngine()


def threaded(engine: Engine, threads: int) -> Engine:
    """Return an engine that computes ahead in threads, instead of the inline engine."""
    return InlineEngine(threads) if engine is INLINE else engine
