"""Slice a fetched block into batches, given as lists, Arrow or rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex, overload

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.base.columns import matrix_of, packed, unpacked, whole
from duckplets.base.sanitize import counted, html_table, shown
from duckplets.errors import DamagedFileError, ExtensionError
from duckplets.serving.spans import TextSpans

_ROWS = 1024  # samples turned into dicts at a time
_SHOWN = 5  # samples shown in a notebook
_TRANCHE = 4096  # samples; with 16,384 each string costs three times as much
_TRANCHE_BYTES = 32 << 20  # bytes of their texts
_TEXTS = re.compile(r"anchor|positive|negative(_\d+)?|other|documents|text|messages")

# Arrow arrays, or objects that gather samples ``low … high-1`` by ``take(low, high)``.
Columns = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SlotTexts:
    """The texts of one slot: for every sample the index of its text in the block."""

    texts: TextSpans | pa.Array
    places: Integers
    offsets: Integers | None = None  # of each list among places, and the end; None for no lists

    def take(self, low: int, high: int) -> pa.Array:
        """Return the texts of samples ``low … high-1``: a text or a list for each."""
        if self.offsets is None:
            return self.texts.take(self.places[low:high])
        offsets = self.offsets[low : high + 1]
        texts = self.texts.take(self.places[offsets[0] : offsets[-1]])
        return pa.ListArray.from_arrays(pa.array(offsets - offsets[0], pa.int32()), texts)


@dataclass(slots=True, eq=False)
class Block:
    """Samples of consecutive batches of one reader."""

    start: int  # position where the first batch begins
    stop: int  # position after the last batch
    size: int  # samples
    columns: Columns  # in order
    nbytes: int  # of all texts
    vector_bytes: int = 0  # bytes of the vectors of a sample
    origin: Path | None = None  # snapshot folder of the texts
    read_bytes: int = 0  # bytes read from disk
    _tranche: Tranche | None = field(default=None, init=False)  # of the last batch

    @property
    def is_held(self) -> bool:
        """Return whether its texts occupy memory of their own."""
        return self.read_bytes > 0

    def batch(
        self, low: int, high: int, *, position: int, step: int, sources: tuple[str, ...]
    ) -> Batch:
        """Return samples ``low … high-1``, cut from a tranche that later batches share."""
        tranche = self._tranche
        if tranche is None or not tranche.low <= low <= high <= tranche.high:
            each = self.nbytes // max(1, self.size) + self.vector_bytes
            most = min(_TRANCHE, _TRANCHE_BYTES // max(1, each))
            rows = max(1, high - low)
            end = min(low + max(1, most // rows) * rows, self.size)
            tranche = self._tranche = Tranche(self.columns, low, end, self.origin)
        return tranche.batch(low, high, position=position, step=step, sources=sources)


class Tranche:
    """Some thousand samples of a block, sliced into batches; each list is made once."""

    # threads may do the same work at the same time: their results are equal
    __slots__ = ("_block", "_columns", "_lists", "_table", "high", "low", "names", "origin")

    def __init__(self, columns: Columns, low: int, high: int, origin: Path | None = None) -> None:
        self.low, self.high = low, high
        self.names, self.origin = list(columns), origin
        self._block = columns
        self._columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        self._lists: dict[str, list[Any] | None] = {}
        self._table: pa.Table | None = None

    def batch(
        self, low: int, high: int, *, position: int, step: int, sources: tuple[str, ...]
    ) -> Batch:
        """Return samples ``low … high-1`` of the block as a batch."""
        batch = Batch.__new__(Batch)
        batch._tranche, batch._span = self, (low - self.low, high - self.low)
        batch._names = self.names
        batch.step, batch.position, batch.sources = step, position, sources
        return batch

    def column(self, name: str) -> pa.Array | pa.ChunkedArray:
        """Return a column, gathered on first use; it shares no memory with the block."""
        if name not in self._columns:
            column = self._block[name]
            if isinstance(column, pa.Array):
                self._columns[name] = pa.concat_arrays([column[self.low : self.high]])
            else:
                self._columns[name] = column.take(self.low, self.high)
        return self._columns[name]

    def values(self, name: str) -> list[Any] | None:
        """Return a column as a list, to be copied; None if its values are mutable."""
        if name not in self._lists:
            column = self.column(name)
            nested = pa.types.is_nested(column.type)
            self._lists[name] = None if nested else _values(column, name, self.origin)
        return self._lists[name]

    def table(self) -> pa.Table:
        """Return all columns."""
        if self._table is None:
            self._table = pa.table({name: self.column(name) for name in self.names})
        return self._table


class Batch:
    """One batch: ``batch["anchor"]`` is a list with one entry a sample, ``len(batch)`` long.

    ``batch[0]`` is a sample as a dict, ``batch[:3]`` a list of them, and a loop yields them one by
    one. By column a batch reads as a dict does: ``keys()``, ``values()``, ``items()``, ``get()``,
    ``in`` and ``**batch``. It is not a registered ``Mapping``, since trainers rebuild mappings.

    The text columns depend on the kind. Triplets have ``anchor``, ``positive`` and ``negative``, or
    ``negative_1`` and so on. Labelled pairs have ``anchor`` and ``other``, ``label`` and
    ``reason``. Lists have ``anchor``, and ``documents``, ``labels`` and ``scores`` of equal length.
    Other kinds have ``text`` or ``messages``. All have ``weight``, ``instruction``, ``recipe`` and
    ``source``. The argument ``columns=`` chooses from the list in the reference, under ``Columns of
    a batch``.

    Args:
        table: The samples.
        step: Number of the step it belongs to.
        position: Position of its first sample.
        sources: Names of all sources that its step draws from, even without a sample here.
    """

    __slots__ = ("_names", "_span", "_tranche", "position", "sources", "step")

    def __init__(
        self, table: pa.Table, step: int, position: int, sources: tuple[str, ...] = ()
    ) -> None:
        self._names: list[str] = table.column_names
        columns = {name: whole(table[name]) for name in table.column_names}
        self._tranche = Tranche(columns, 0, table.num_rows)
        self._span: tuple[int, int] = (0, table.num_rows)
        self.step, self.position, self.sources = step, position, sources

    @property
    def table(self) -> pa.Table:
        """The batch as an Arrow table, without a copy."""
        low, high = self._span
        return self._tranche.table().slice(low, high - low)

    def keys(self) -> list[str]:
        """Return the names of the columns, in order; ``dict(batch)`` and ``**batch`` work."""
        return list(self._names)

    def values(self) -> list[Any]:
        """Return the columns, in order, each as ``batch[name]`` is."""
        return [self[name] for name in self._names]

    def items(self) -> list[tuple[str, Any]]:
        """Return the columns with their names, in order."""
        return list(zip(self._names, self.values(), strict=True))

    def get(self, column: str, default: Any = None) -> Any:
        """Return a column, or the default if the batch has no column of that name."""
        return self[column] if column in self._names else default

    @overload
    def __getitem__(self, which: str) -> list[Any]: ...

    @overload
    def __getitem__(self, which: SupportsIndex) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, which: slice) -> list[dict[str, Any]]: ...

    def __getitem__(
        self, which: str | SupportsIndex | slice
    ) -> list[Any] | dict[str, Any] | list[dict[str, Any]]:
        """Return a column by its name, a sample by its number, or several by a slice."""
        if isinstance(which, str):
            return self._column(which)
        if isinstance(which, slice):
            numbers = range(*which.indices(len(self)))
            return self._rows(self.table.take(pa.array(numbers, pa.int64())))
        number = index(which)
        if not -len(self) <= number < len(self):
            raise IndexError(f"{number}; this batch has {counted(len(self), 'sample')}")
        return self._rows(self.table.slice(number % len(self), 1))[0]

    def _column(self, name: str) -> list[Any]:
        values = self._tranche.values(name) if name in self._names else None
        if values is not None:
            return values[self._span[0] : self._span[1]]
        return _values(self.column(name), name, self._tranche.origin)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the samples, each as a dict."""
        for low in range(0, len(self), _ROWS):
            yield from self._rows(self.table.slice(low, _ROWS))

    def _rows(self, table: pa.Table) -> list[dict[str, Any]]:
        names = table.column_names
        return _as_dicts(
            names, [_values(table[name], name, self._tranche.origin) for name in names]
        )

    def __contains__(self, column: object) -> bool:
        """Whether there is a column of that name."""
        return column in self._names

    def __len__(self) -> int:
        """Return the number of samples (not of columns)."""
        low, high = self._span
        return int(high - low)

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return the columns as a dict of lists."""
        return {name: self._column(name) for name in self._names}

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the samples as a list of dicts."""
        return _as_dicts(self._names, [self._column(name) for name in self._names])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the batch to readers of Arrow data, such as polars, pandas or DuckDB."""
        return self.table.__arrow_c_stream__(requested_schema)

    def column(self, name: str) -> pa.Array | pa.ChunkedArray:
        """Return a column as an Arrow array; other columns are not gathered.

        Raises:
            KeyError: There is no such column.
        """
        if name not in self._names:
            raise KeyError(f"{name!r}; this batch has {', '.join(self._names)}")
        low, high = self._span
        return self._tranche.column(name)[low:high]

    @overload
    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]: ...

    @overload
    def to_numpy(self, name: str) -> np.ndarray[Any, Any]: ...

    def to_numpy(
        self, name: str | None = None
    ) -> np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]]:
        """Return a column as an array, or all columns by name.

        Vectors have the shape (samples, dimension), read-only and without a copy; a text without a
        vector has NaN. Numbers have the shape (samples,), with NaN where one is missing. Texts and
        all other values are objects.

        Raises:
            KeyError: There is no such column.
            DamagedFileError: A text is not UTF-8.
        """
        if name is None:
            return {each: self.to_numpy(each) for each in self._names}
        found = self.column(name)
        if pa.types.is_fixed_size_list(found.type):
            return matrix_of(found)
        try:
            return np.asarray(found.to_numpy(zero_copy_only=False))
        except pa.ArrowException as error:
            raise _no_text(name, self._tranche.origin) from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the samples of this batch without the rest of its block."""
        return _received, (*packed(self.table), self.step, self.position, self.sources)

    def to_pandas(self) -> Any:
        """Return the samples as a pandas data frame.

        Raises:
            ExtensionError: pandas is not installed.
            DamagedFileError: A text is not UTF-8.
        """
        for name in self._names:  # pandas accepts any bytes as text
            try:
                self.column(name).validate(full=True)
            except pa.ArrowException as error:
                raise _no_text(name, self._tranche.origin) from error
        try:
            return self.table.to_pandas()
        except ModuleNotFoundError as error:
            raise ExtensionError(
                "to_pandas() needs the package 'pandas': pip install pandas; without it "
                "batch.table is an Arrow table, and batch.to_pylist() a list of dicts"
            ) from error

    def __repr__(self) -> str:
        more = ""
        if len(self) and self.texts:
            first = self[0]
            texts = (f"{name}={shown(first[name], 60)!r}" for name in self.texts)
            more = f", first: {', '.join(texts)}"
        return f"Batch(step={self.step}, position={self.position}, samples={len(self)}{more})"

    def _repr_html_(self) -> str:
        caption = f"step {self.step}, position {self.position}, {counted(len(self), 'sample')}"
        rows = (row.values() for row in self[:_SHOWN])
        return html_table(caption, self.keys(), rows)

    @property
    def texts(self) -> list[str]:
        """The names of the text columns."""
        return [name for name in self._names if _TEXTS.fullmatch(name)]


def _received(
    schema: bytes, rows: list[bytes], step: int, position: int, sources: tuple[str, ...]
) -> Batch:
    return Batch(unpacked(schema, rows), step, position, sources)


def _values(column: pa.Array | pa.ChunkedArray, name: str, origin: Path | None = None) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        raise _no_text(name, origin) from error
    if name in ("messages", "rejected_messages") and "tool_calls" in str(column.type):
        # only messages with tool calls have keys for them
        return [
            turns and [{k: v for k, v in turn.items() if v is not None} for turn in turns]
            for turns in values
        ]
    return values


def _no_text(name: str, origin: Path | None) -> DamagedFileError:
    where = "the file it was read from" if origin is None else f"the snapshot {origin}"
    return DamagedFileError(
        f"column {name!r} of a batch: a text is not UTF-8, so {where} is damaged. Find the file "
        f"with 'duckplets doctor'. You may delete a snapshot: the next run makes it again"
    )


def _as_dicts(names: Sequence[str], columns: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
