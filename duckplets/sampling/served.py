"""What a run serves: ids of any stretch of it, and a log of what was taken.

Nothing is kept for it: samples are a function of their positions, so their ids are worked out
again. The log is for those who want them in files: a folder of Parquet files, named by run, order
and positions. A save adds what was taken since the one before, so that every position taken up to a
save is in it, and once, however often a run was resumed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from duckplets.errors import SamplerError
from duckplets.sampling.fetch import Fetcher
from duckplets.sampling.plan import Planner

_ROWS = 1 << 16  # worked out at once

Span = tuple[int, int]


def tables(
    planner: Planner, fetcher: Fetcher, start: int, stop: int, *, batch: int
) -> Iterator[pa.Table]:
    """Yield the ids of positions ``start … stop-1`` in pieces; at least one, if empty."""
    for low in range(start, max(stop, start + 1), _ROWS):
        yield fetcher.identities(planner.plan(low, min(low + _ROWS, stop)), batch)


def joined(rows: Iterator[pa.Table]) -> pa.Table:
    """Return the pieces as one table."""
    return pa.concat_tables(list(rows)).combine_chunks()


@dataclass
class ServedLog:
    """A folder of Parquet files with the ids of what a run served.

    Attributes:
        folder: Made if it is not there.
        run: Name of the run.
        order: Names the order of its positions, so that another run of the name is told apart.
    """

    folder: Path
    run: str
    order: str
    _taken: list[Span] = field(default_factory=list)

    def take(self, start: int, stop: int) -> None:
        """Note that positions ``start … stop-1`` were taken."""
        if self._taken and self._taken[-1][1] == start:
            start = self._taken.pop()[0]
        self._taken.append((start, stop))

    def bring_up_to_date(self, rows: Callable[[int, int], Iterator[pa.Table]]) -> None:
        """Write what was taken and is in no file yet.

        Args:
            rows: Returns the ids of a span, in pieces.

        Raises:
            SamplerError: The folder cannot be written.
        """
        missing = _merged(self._taken)
        for written in sorted(self._files()):
            missing = [rest for span in missing for rest in _without(span, written)]
        for span in missing:
            self._write(span, rows(*span))
        self._taken.clear()

    def _write(self, span: Span, rows: Iterator[pa.Table]) -> None:
        """Add a file; it appears whole or not at all."""
        import pyarrow.parquet as pq

        aside = self.folder / f".{self._name(span)}.new"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            first = next(rows)
            with pq.ParquetWriter(aside, first.schema, compression="zstd") as writer:
                writer.write_table(first)
                for table in rows:
                    writer.write_table(table)
            aside.rename(self.folder / self._name(span))
        except OSError as error:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise SamplerError(
                f"log={str(self.folder)!r}: cannot write there: {error.strerror or error}"
            ) from error

    def forget_from(self, position: int) -> None:
        """Drop what is written of positions that are drawn anew from here on."""
        self._taken = [(low, min(high, position)) for low, high in self._taken if low < position]
        for span, path in self._files().items():
            if span[1] > position:
                path.unlink()
                if span[0] < position:
                    self._taken.append((span[0], position))

    def _name(self, span: Span) -> str:
        safe = re.sub(r"[^\w.-]", lambda found: f"%{ord(found[0]):x}", self.run)
        return f"{safe}-{self.order}-{span[0]:015d}-{span[1]:015d}.parquet"

    def _files(self) -> dict[Span, Path]:
        found = {}
        for path in self.folder.glob("*.parquet"):
            parts = path.stem.rsplit("-", 2)
            if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
                span = int(parts[1]), int(parts[2])
                if self._name(span) == path.name:
                    found[span] = path
        return found


def _merged(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _without(span: Span, gone: Span) -> list[Span]:
    before, after = (span[0], min(span[1], gone[0])), (max(span[0], gone[1]), span[1])
    return [part for part in (before, after) if part[0] < part[1]]
