"""Slice a fetched block into batches, and hand out a batch as lists, Arrow or rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex, overload

import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.base.shown import counted, html_table, shown
from duckplets.errors import ExtensionError
from duckplets.serving.texts import Spans

_ROWS = 1024  # turned into dicts at once
_SHOWN = 5  # samples in a notebook
_TEXTS = re.compile(r"anchor|positive|negative(_\d+)?|other|text|messages")


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
    texts: pa.Array | Spans
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
            name: self.texts.take(self.places[name][low:high])
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

    ``batch[0]`` is a sample as a dict, ``batch[:3]`` a list of them, and so is what a loop yields.

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

    @overload
    def __getitem__(self, which: str) -> list[Any]: ...

    @overload
    def __getitem__(self, which: SupportsIndex) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, which: slice) -> list[dict[str, Any]]: ...

    def __getitem__(
        self, which: str | SupportsIndex | slice
    ) -> list[Any] | dict[str, Any] | list[dict[str, Any]]:
        """Return a column by its name, a sample by its number, or several by a slice.

        Raises:
            KeyError: There is no such column.
            IndexError: There is no such sample.
        """
        if isinstance(which, str):
            if which not in self:
                raise KeyError(f"{which!r}; this batch has {', '.join(self._table.column_names)}")
            values: list[Any] = self._table.column(which).to_pylist()
            return values
        if isinstance(which, slice):
            numbers = range(*which.indices(len(self)))
            rows = self._table.take(pa.array(numbers, pa.int64())).to_pylist()
            return list(rows)
        number = index(which)
        if not -len(self) <= number < len(self):
            raise IndexError(f"{number}; this batch has {counted(len(self), 'sample')}")
        row: dict[str, Any] = self._table.slice(number % len(self), 1).to_pylist()[0]
        return row

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the samples, each as a dict."""
        for part in self._table.to_batches(max_chunksize=_ROWS):
            yield from part.to_pylist()

    def __contains__(self, column: object) -> bool:
        """Whether there is a column of that name."""
        return column in self._table.column_names

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

    def to_pandas(self) -> Any:
        """Return the samples as a pandas data frame.

        Raises:
            ExtensionError: pandas is not installed.
        """
        try:
            return self._table.to_pandas()
        except ModuleNotFoundError as error:
            raise ExtensionError(
                "to_pandas() needs the package 'pandas': pip install pandas; without it "
                "batch.table is an Arrow table, and batch.to_pylist() a list of dicts"
            ) from error

    def __repr__(self) -> str:
        more = ""
        if len(self) and self.texts:
            texts = (f"{name}={shown(self._first(name), 60)!r}" for name in self.texts)
            more = f", first: {', '.join(texts)}"
        return f"Batch(step={self.step}, position={self.position}, samples={len(self)}{more})"

    def _repr_html_(self) -> str:
        caption = f"step {self.step}, position {self.position}, {counted(len(self), 'sample')}"
        rows = (row.values() for row in self[:_SHOWN])
        return html_table(caption, self.keys(), rows)

    @property
    def texts(self) -> list[str]:
        """The names of the columns that hold what samples are made of."""
        return [name for name in self._table.column_names if _TEXTS.fullmatch(name)]

    def _first(self, column: str) -> Any:
        return self._table.column(column)[0].as_py()
