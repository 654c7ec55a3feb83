"""Make Arrow arrays of NumPy's and of texts without pandas, which ``pa.array`` loads to ask it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def column(values: np.ndarray[Any, Any]) -> pa.Array:
    """Return numbers or flags as an Arrow array, numbers without a copy: shape (n,)."""
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), np.packbits(values, bitorder="little")
    else:
        kind, data = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])


def text_column(values: Sequence[str | None]) -> pa.Array:
    """Return some texts as an Arrow array; None is null."""
    data = [b"" if value is None else value.encode() for value in values]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int32)
    there = np.packbits([value is not None for value in values], bitorder="little")
    buffers = [pa.py_buffer(part) for part in (there, ends, b"".join(data))]
    return pa.Array.from_buffers(pa.string(), len(data), buffers)
