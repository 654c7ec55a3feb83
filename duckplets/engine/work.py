"""Pass the engine and the progress function of a verb as one value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from duckplets.base.progress import Progress, bar
from duckplets.engine import opened
from duckplets.engine.inline import INLINE
from duckplets.engine.protocol import Engine

__all__ = ["QUIET", "Work", "working"]


@dataclass(frozen=True, slots=True)
class Work:
    """The engine and the progress function of a verb."""

    engine: Engine = INLINE
    progress: Progress | None = None

    def tell(self, done: int, total: int | None = None) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(done, total)


QUIET = Work()  # inline and silent


@contextmanager
def working(
    engine: Any,
    progress: Progress | bool | None,
    noun: str = "rows",
    *,
    rate: bool = False,
    note: Callable[[], str] | None = None,
) -> Iterator[Work]:
    """Open the engine and the progress of a verb while it runs."""
    with opened(engine) as own, bar(progress, sys.stderr, noun, rate=rate, note=note) as advance:
        yield Work(own, advance)
