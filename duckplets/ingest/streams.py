"""Send rows from process to process as streams of Arrow, and put small batches of them together.

A batch has a stream of its own: those of a part need not be alike, as rare columns are there only
where they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Union

import pyarrow as pa

from duckplets.ingest.gates import METRICS
from duckplets.ingest.preprocess import is_cleaned
from duckplets.sources import Mark
from duckplets.sources.rows import MAX_BYTES, MAX_ROWS

Item = Union[pa.RecordBatch, Mark]  # noqa: UP007 - Arrow's types are none for a checker


def stream_of(batch: pa.RecordBatch) -> bytes:
    """Return a stream of Arrow with one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def batches_of(streams: bytes | Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of streams of Arrow; a file of them goes when it is open."""
    is_file = isinstance(streams, Path)
    source = pa.memory_map(str(streams)) if is_file else pa.BufferReader(streams)
    with source:
        if isinstance(streams, Path):
            with suppress(OSError):
                streams.unlink()
        while source.tell() < source.size():
            yield from pa.ipc.open_stream(source)


def in_full(items: Iterable[Item]) -> Iterator[Item]:
    """Yield rows in as few batches as may be, and marks where they are."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for item in items:
        if isinstance(item, Mark):
            yield from _one(held)
            held, rows, size = [], 0, 0
            yield item
            continue
        rows, size = rows + item.num_rows, size + item.nbytes
        if held and (rows > MAX_ROWS or size > MAX_BYTES or not _alike(held[0], item)):
            yield from _one(held)
            held, rows, size = [], item.num_rows, item.nbytes
        held.append(item)
    yield from _one(held)


def _alike(batch: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Return whether as much was done to the rows of one batch as to those of another."""
    same = (METRICS in batch.schema.names) == (METRICS in other.schema.names)
    return same and is_cleaned(batch) == is_cleaned(other)


def _one(held: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches as one, if there are any."""
    if len(held) < 2:
        yield from held
        return
    tables = [pa.Table.from_batches([batch]) for batch in held]
    whole = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
    yield from whole.combine_chunks().to_batches()
