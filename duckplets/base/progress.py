"""Tell how far a long job is: by a bar on a terminal, or by calls to what the caller gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Progress = Callable[[int, int | None], None]


@contextmanager
def bar(
    progress: Progress | bool | None, stream: TextIO | None, what: str = "rows"
) -> Iterator[Progress | None]:
    """Yield what to call with rows done and rows in all, or None for silence.

    Args:
        progress: A callable to use as it is; True for a bar, False for none, None for a bar if
            the stream is a terminal.
        stream: Where the bar goes; None for nowhere, as stderr is where it is closed.
        what: What is counted.
    """
    if callable(progress):
        yield progress
    elif progress is False or stream is None or (progress is None and not stream.isatty()):
        yield None
    else:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.progress import Progress as Display

        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Display(*columns, console=Console(file=stream), transient=True) as shown:
            task = shown.add_task(what, total=None)
            yield lambda done, total: shown.update(task, completed=done, total=total)
