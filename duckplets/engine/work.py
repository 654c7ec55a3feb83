"""Hand down in one value who runs the parts of a work, and whom to tell how far it is."""

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
    """What a verb gives to all that it calls.

    Attributes:
        engine: Runs the parts.
        progress: Called with what is done and how much there is; None for silence.
    """

    engine: Engine = INLINE
    progress: Progress | None = None

    def tell(self, done: int, total: int | None = None) -> None:
        """Tell how far it is."""
        if self.progress is not None:
            self.progress(done, total)


QUIET = Work()  # in this process, in silence


@contextmanager
def working(
    engine: Any,
    progress: Progress | bool | None,
    what: str = "rows",
    *,
    rate: bool = False,
    told: Callable[[], str] | None = None,
) -> Iterator[Work]:
    """Yield the value made of a verb's arguments, for as long as the verb runs.

    Args:
        engine: As ``opened`` takes it.
        progress: As ``bar`` takes it.
        what: What is counted.
        rate: Whether a bar tells the time that is left.
        told: What else a bar tells.
    """
    with opened(engine) as by, bar(progress, sys.stderr, what, rate=rate, told=told) as advance:
        yield Work(by, advance)
