"""Batches of token rows as NumPy arrays; masks and positions are derived on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers32
from duckplets.base.sanitize import counted
from duckplets.samples.batch import Batch, Tranche
from duckplets.tokens.rows import Gathered

ARRAYS = ("input_ids", "attention_mask", "position_ids", "document_ids")


class TokenBatch(Batch):
    """A batch of rows of tokens: ``batch["input_ids"]`` is an int32 array (rows, width).

    ``attention_mask`` is 1 for tokens and 0 for padding. ``document_ids`` count the texts of each
    row from 0. ``position_ids`` count the tokens of each text from 0 within the row. A text that
    continues from the previous row starts again at 0. In padding they are -1 and 0. ``source`` is a
    list of str, and ``row`` is the number of each row within its source, int64. With
    ``by_bucket=True`` rows are numbered within a bucket of a source, and ``bucket`` is the number
    of the bucket, int32. With ``remainder="pad"``, ``padded`` marks rows that only fill the last
    batch. Arrays are writable.
    """

    __slots__ = ("_arrays", "_begins", "_lengths", "_sources")

    _tranche = Tranche({}, 0, 0)  # rows of shards have no file of texts

    def __init__(
        self,
        gathered: Gathered,
        found: Mapping[str, Any],
        *,
        step: int,
        position: int,
        sources: tuple[str, ...],
    ) -> None:
        self._span = (0, len(gathered.ids))
        self._arrays: dict[str, Any] = {"input_ids": gathered.ids, **found}
        self._names = [*ARRAYS, *found]
        self._lengths = gathered.lengths
        self._begins = gathered.owners, gathered.columns
        self.step, self.position, self.sources = step, position, sources

    def __getitem__(self, which: str | SupportsIndex | slice) -> Any:
        """Return a column by name, a row by number, or several rows by slice."""
        if not isinstance(which, str):
            return super().__getitem__(which)
        if which not in self._names:
            raise KeyError(f"{which!r}; this batch has {', '.join(self._names)}")
        if which not in self._arrays:
            self._arrays[which] = getattr(self, f"_{which}")()
        return self._arrays[which]

    def _column(self, name: str) -> Any:
        return self[name]

    def _attention_mask(self) -> Integers32:
        return (self._places() < self._lengths[:, None]).astype(np.int32)

    def _document_ids(self) -> Integers32:
        found = np.zeros(self["input_ids"].shape, np.int32)
        found[self._begins] = 1
        np.cumsum(found, axis=1, out=found)
        return self._filled(found, -1)

    def _position_ids(self) -> Integers32:
        begins = np.zeros(self["input_ids"].shape, np.int32)
        begins[self._begins] = self._begins[1]
        np.maximum.accumulate(begins, axis=1, out=begins)
        return self._filled(self._places() - begins, 0)

    def _places(self) -> Integers32:
        return np.arange(self["input_ids"].shape[1], dtype=np.int32)

    def _filled(self, array: Integers32, value: int) -> Integers32:
        """Set a value in the padding."""
        for row in np.flatnonzero(self._lengths < array.shape[1]).tolist():
            array[row, self._lengths[row] :] = value
        return array

    @property
    def table(self) -> pa.Table:
        """The batch as an Arrow table; arrays become fixed-size lists."""
        return pa.table({name: self.column(name) for name in self._names})

    def column(self, name: str) -> pa.Array:
        """Return a column as Arrow; arrays become fixed-size lists without a copy."""
        values = self[name]
        if name in ARRAYS:
            return pa.FixedSizeListArray.from_arrays(values.reshape(-1), values.shape[1])
        return pa.array(values)

    def to_numpy(self, name: str | None = None) -> Any:
        """Return a column as an array, or all of them by name."""
        if name is None:
            return {column: self.to_numpy(column) for column in self._names}
        return np.asarray(self[name])

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as a list of dicts."""
        return list(self)

    def __reduce__(self) -> tuple[Any, ...]:
        gathered = Gathered(self["input_ids"], self._lengths, *self._begins)
        found = {name: self[name] for name in self._names if name not in ARRAYS}
        return _received, (gathered, found, self.step, self.position, self.sources)

    def __repr__(self) -> str:
        rows, width = self["input_ids"].shape
        tokens = counted(int(self._lengths.sum()), "token")
        at = f"step={self.step}, position={self.position}"
        return f"TokenBatch({at}, rows={rows}, width={width}, {tokens})"


def _received(
    gathered: Gathered, found: Mapping[str, Any], step: int, position: int, sources: Any
) -> TokenBatch:
    return TokenBatch(gathered, found, step=step, position=position, sources=sources)
