"""Slice a fetched block into batches, and hand out a batch as lists, Arrow or rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from duckplets.base.arrays import Integers


@dataclass(frozen=True, slots=True)
class Block:
    """Samples of consecutive batches of one reader.

    Attributes:
        start: Position where the first batch begins.
        stop: Position after the last batch.
        columns: The columns in order; None stands for one of ``texts``.
        texts: All texts, in the order they were read.
        places: For every column of texts, where in them each sample's is.
        tally: The source and the tokens of every sample of these batches, of all ranks.
    """

    start: int
    stop: int
    columns: dict[str, pa.Array | None]
    texts: pa.Array
    places: dict[str, Integers]
    tally: Tally

    @property
    def nbytes(self) -> int:
        """Bytes of all texts."""
        return int(self.texts.nbytes)

    def batch(
        self, low: int, high: int, *, position: int, step: int, sources: tuple[str, ...]
    ) -> Batch:
        """Return samples ``low … high-1`` as the batch of a step.

        Its texts are gathered here, by the thread that uses them, while the next block is read.
        """
        columns = {
            name: self.texts.take(pa.array(self.places[name][low:high]))
            if column is None
            else column[low:high]
            for name, column in self.columns.items()
        }
        return Batch(pa.table(columns), step, position, sources)


@dataclass(frozen=True, slots=True)
class Tally:
    """Source, tokens and fallbacks of consecutive samples, to be counted: shape (samples,) each.

    Attributes:
        sources: Number of the source.
        tokens: Tokens of all texts.
        fallbacks: Negatives that stand in for such as lacked: mined ones, the record's own, or
            those of the source.
    """

    sources: Integers
    tokens: Integers
    fallbacks: Integers


class Batch:
    """One batch: ``batch["anchor"]`` is a list with one entry a sample, ``len(batch)`` long.

    Args:
        table: The samples.
        step: Number of the step it belongs to.
        position: Position of its first sample.
        sources: Names of the sources that its step draws from, also of those it has nothing of.
    """

    __slots__ = ("_table", "position", "sources", "step")

    def __init__(
        self, table: pa.Table, step: int, position: int, sources: tuple[str, ...] = ()
    ) -> None:
        self._table = table
        self.sources = sources
        self.step = step
        self.position = position

    @property
    def table(self) -> pa.Table:
        """The batch as an Arrow table, without a copy."""
        return self._table

    def keys(self) -> list[str]:
        """Return the names of the columns, in order; ``dict(batch)`` works."""
        return list(self._table.column_names)

    def __getitem__(self, column: str) -> list[Any]:
        if column not in self._table.column_names:
            raise KeyError(f"{column!r}; this batch has {', '.join(self._table.column_names)}")
        values: list[Any] = self._table.column(column).to_pylist()
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.column_names)

    def __len__(self) -> int:
        """Return the number of samples (not of columns)."""
        return int(self._table.num_rows)

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return the columns as a dict of lists."""
        columns: dict[str, list[Any]] = self._table.to_pydict()
        return columns

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the samples as a list of dicts."""
        rows: list[dict[str, Any]] = self._table.to_pylist()
        return rows

    def __repr__(self) -> str:
        return f"Batch(step={self.step}, position={self.position}, samples={len(self)})"
