"""A format: what shapes its rows have, where they go, and who writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from duckplets.export.example import Example
from duckplets.export.reader import Reader
from duckplets.export.sinks import Row, Sink
from duckplets.export.wanted import Tally, Wanted, fit
from duckplets.export.whole import Place

Progress = Callable[[int, int | None], None]

_TOLD = 1000  # anchors between two calls of a progress


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A format.

    Attributes:
        places: What every shape makes; the first is the default. ``""`` is the only shape of a
            format that has no choice.
        scored: Shapes that have a place for scores.
        mined: Whether it is made of mined negatives.
        write: Writes a shape to a path, a folder that exists or a file that does not.
    """

    places: dict[str, Place]
    scored: tuple[str, ...] = ()
    mined: bool = True
    write: Callable[[Reader, Wanted, Path, Progress | None], Tally]


def write_examples(
    reader: Reader,
    wanted: Wanted,
    rows: Callable[[Example], Iterable[Row]],
    sink: Sink,
    progress: Progress | None,
) -> Tally:
    """Write the rows of every example there is; returns what was written and what was not."""
    tally, anchors = Tally(), reader.anchors()
    for done, example in enumerate(reader.examples(anchors, wanted.negatives), 1):
        fitted = fit(example, wanted, tally)
        if fitted is not None:
            for row in rows(fitted):
                sink.write(row)
                tally.rows += 1
        if progress and (done % _TOLD == 0 or done == anchors.num_rows):
            progress(done, anchors.num_rows)
    return tally
