"""Report progress of long work: a bar on a terminal, or calls to the caller's function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Progress = Callable[[int, int | None], None]


@contextmanager
def bar(
    progress: Progress | bool | None,
    stream: TextIO | None,
    noun: str = "rows",
    *,
    rate: bool = False,
    note: Callable[[], str] | None = None,
) -> Iterator[Progress | None]:
    """Yield a function to call with rows done and total, or None for silence."""
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
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Display

        columns = [TextColumn(noun), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
        if rate or note:
            columns.append(TextColumn("{task.fields[rate]}"))
        if rate:
            columns.append(TimeRemainingColumn())
        begun = time.monotonic()

        def speed(done: int) -> str:
            rate = f"{done / max(time.monotonic() - begun, 1e-3):,.0f}/s"
            return f"{rate}, {note()}" if note else f"{rate}, left"

        with Display(*columns, console=Console(file=stream), transient=True) as display:
            task = display.add_task(noun, total=None, rate="")
            yield lambda done, total: display.update(
                task, completed=done, total=total, rate=speed(done)
            )
