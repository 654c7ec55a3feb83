"""Convert between Arrow and NumPy without pandas, and pack tables for sending."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers


def column(values: np.ndarray[Any, Any]) -> pa.Array:
    """Return numbers or flags of shape (n,) as an Arrow array; numbers are not copied."""
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), np.packbits(values, bitorder="little")
    else:
        kind, data = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])


def text_column(values: Sequence[str | None]) -> pa.Array:
    """Return texts as an Arrow array; None is null."""
    data = [b"" if value is None else value.encode() for value in values]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int32)
    valid = np.packbits([value is not None for value in values], bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, ends, b"".join(data))]
    return pa.Array.from_buffers(pa.string(), len(data), buffers)


def whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; ``combine_chunks`` alone copies a single chunk, too."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def numbers_of(vectors: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the flat values of a fixed-size list column, including the values of nulls."""
    vectors = whole(vectors)
    width = vectors.type.list_size
    return vectors.values.slice(vectors.offset * width, len(vectors) * width)


def matrix_of(vectors: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return a fixed-size list column as an array (rows, dimension), without a copy."""
    numbers = numbers_of(vectors).to_numpy(zero_copy_only=False)
    return np.asarray(numbers.reshape(len(vectors), vectors.type.list_size))


def shaped_type(shape: Any) -> pa.DataType:
    """Return the Arrow type of a shape of the SQL function ``from_json``."""
    if isinstance(shape, list):
        return pa.list_(shaped_type(shape[0]))
    if isinstance(shape, dict):
        return pa.struct([(name, shaped_type(inner)) for name, inner in shape.items()])
    return pa.float64() if shape == "DOUBLE" else pa.string()


def packed(table: pa.Table) -> tuple[bytes, list[bytes]]:
    """Return the schema and the rows of a table as separate Arrow IPC messages."""
    rows = [part.serialize().to_pybytes() for part in table.to_batches()]
    return table.schema.serialize().to_pybytes(), rows


def unpacked(schema: bytes, rows: list[bytes]) -> pa.Table:
    """Return the table of packed messages, without copying its texts."""
    known = _schema(schema)
    return pa.Table.from_batches([pa.ipc.read_record_batch(part, known) for part in rows], known)


@lru_cache(16)  # all batches of a run share a schema
def _schema(schema: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(schema))


def byte_spans(
    texts: pa.Array, rows: Integers, starts: Integers, lengths: Integers
) -> tuple[Integers, Integers]:
    """Return first byte and number of bytes of spans of characters; length -1 is the whole text."""
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    offsets = ends.astype(np.int64) - int(ends[0])
    first = offsets[rows].copy()
    size = offsets[rows + 1] - first
    parts = np.flatnonzero(lengths >= 0)
    if len(parts) == 0:
        return first, size
    distinct, owner = np.unique(rows[parts], return_inverse=True)
    cut = texts.take(column(distinct))
    within = np.frombuffer(cut.buffers()[1], np.int32)[: len(cut) + 1].astype(np.int64)
    data = np.frombuffer(cut.buffers()[2] or b"", np.uint8)[within[0] : within[-1]]
    within -= within[0]
    # A character begins at every byte that is no continuation byte.
    heads = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    at = np.searchsorted(heads, within[owner]) + starts[parts]
    begins = heads[at]
    size[parts] = heads[at + lengths[parts]] - begins
    first[parts] += begins - within[owner]
    return first, size
