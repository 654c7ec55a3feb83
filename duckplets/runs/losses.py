"""Keep the losses that a training loop reports, by step and source, until a save writes them.

    report_loss ─→ Losses ─save→ table losses of the state file ─resume→ Losses

There is one loss a step and source: what is reported again takes the place of what was there. A
run that is resumed has the losses of the steps before its cursor. Of those that it goes through
anew the file keeps what it reports, and nothing of the pass before.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.sanitize import listed, shown
from duckplets.errors import SamplerError, nearest

Span = tuple[int, int]

SCHEMA = pa.schema([("step", pa.int64()), ("source", pa.string()), ("loss", pa.float64())])


class Losses:
    """The losses of one run, 20 bytes each.

    Args:
        known: Those of the file the run was resumed from, with the columns of ``SCHEMA``.
        first: The step from which on the file has none of this pass.
    """

    def __init__(self, known: pa.Table | None = None, first: int = 0) -> None:
        self._steps, self._sources, self._values = array("q"), array("i"), array("d")
        self._numbers: dict[str, int] = {}
        self._first = first
        self._left: list[Span] = []  # passes since the last save that the run has left
        if known is not None:
            self._extend(known)

    def _extend(self, more: pa.Table) -> None:
        names = more["source"].combine_chunks().dictionary_encode()
        numbers = [self._number(name) for name in names.dictionary.to_pylist()]
        of_rows = np.array(numbers, np.int32)[names.indices.to_numpy()]
        self._steps.frombytes(more["step"].to_numpy().astype(np.int64).tobytes())
        self._sources.frombytes(of_rows.tobytes())
        self._values.frombytes(more["loss"].to_numpy().tobytes())

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def report(self, step: int, losses: Mapping[str, float]) -> None:
        """Note the losses of sources at a step."""
        if step < self._first:
            self.begin(step)
        for name, loss in losses.items():
            self._steps.append(step)
            self._sources.append(self._number(name))
            self._values.append(loss)

    def begin(self, step: int) -> None:
        """Note that the run goes on at another step than the one it has come to."""
        last = max((s for s in self._steps[-1:] if s >= self._first), default=None)
        if last is not None:
            self._left.append((self._first, last + 1))
        self._first = step

    def add(self, others: Losses) -> None:
        """Take what was reported elsewhere, in one pass from the first of these steps on."""
        told = others.table([(0, 1 << 62)])
        self._extend(told)
        if told.num_rows:
            self._first = min(self._first, told["step"][0].as_py())

    def passed(self, stop: int, *, whole: bool) -> list[Span]:
        """Return the steps before ``stop`` that a file is to have as they are here.

        Args:
            stop: The step after those that were taken.
            whole: Whether the file has nothing of the run yet.
        """
        spans = [(0, stop)] if whole else [*self._left, (self._first, stop)]
        return [(low, min(high, stop)) for low, high in spans if low < min(high, stop)]

    def written(self, stop: int) -> None:
        """Note that the file has all before a step."""
        self._left, self._first = [], stop

    def table(self, spans: Collection[Span]) -> pa.Table:
        """Return the losses of some steps, by step and source; columns as in ``SCHEMA``."""
        steps, sources = np.array(self._steps), np.array(self._sources)
        values = np.array(self._values)
        found = np.zeros(len(steps), bool)
        for low, high in spans:
            found |= (low <= steps) & (steps < high)
        at = np.flatnonzero(found)
        names = sorted(self._numbers)
        places = np.argsort([self._numbers[name] for name in names])
        by_name = places[sources[at]] if names else sources[at]
        order = np.lexsort((by_name, steps[at]))  # stable: of equal ones the last counts
        at, by_name = at[order], by_name[order]
        last = np.ones(len(at), bool)
        last[:-1] = (np.diff(steps[at]) != 0) | (np.diff(by_name) != 0)
        told = pa.DictionaryArray.from_arrays(
            by_name[last].astype(np.int32), pa.array(names, pa.string())
        )
        columns = [steps[at[last]], told.cast(pa.string()), values[at[last]]]
        return pa.table([*map(pa.array, columns)], schema=SCHEMA)


def checked_losses(losses: Mapping[str, Any], sources: Collection[str]) -> dict[str, float]:
    """Return losses as floats, by source.

    Raises:
        SamplerError: A name is no source, or a loss no finite number.
    """
    if not isinstance(losses, Mapping):
        raise SamplerError(
            f"report_loss: {shown(repr(losses))}: give the loss of each source by its name, as in "
            f"{{'web': 2.1}}"
        )
    found = {}
    for name, loss in losses.items():
        source = name if name in sources else str(name).removeprefix("loss/")
        if source not in sources:
            raise SamplerError(
                f"report_loss: no source {shown(repr(name))}{nearest(source, sources)}; there are: "
                f"{listed(sources)}"
            )
        try:
            value = math.nan if isinstance(loss, str | bool) else float(loss)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not math.isfinite(value):
            raise SamplerError(
                f"report_loss: {source!r}: {shown(repr(loss), 80)} is no finite number"
            )
        found[source] = value
    return found
