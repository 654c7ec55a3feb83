"""What serving.py compares with: batches of others over the same text.

Each is an endless iterator of dicts of lists. All draw every record once an epoch, in an order of
their own, but for the shuffle buffer; a negative is the body of another record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import serving_memory

Batch = dict[str, list[str]]
Integers = np.ndarray[Any, Any]
BUFFER = 10_000  # records, of the streaming shuffle


def grain(file: Path, size: int) -> Iterator[Batch]:
    """A Grain pipeline over lists in memory: title, body of the row, body of a random row."""
    import grain

    titles, bodies = _lists(file)
    records = len(titles)

    def triplet(i: int, rng: Any) -> dict[str, str]:
        other = int(rng.integers(records - 1))
        other += other >= i
        return {"anchor": titles[i], "positive": bodies[i], "negative": bodies[other]}

    def lists(rows: list[dict[str, str]]) -> Batch:
        return {column: [row[column] for row in rows] for column in rows[0]}

    data = grain.MapDataset.range(records).seed(42).shuffle().repeat().random_map(triplet)
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)  # the fastest here
    return iter(data.batch(size, batch_fn=lists).to_iter_dataset(options))


def datasets_random(file: Path, size: int) -> Iterator[Batch]:
    """``datasets``, memory-mapped: random batches, random negatives."""
    data = datasets_of(file)
    bodies = data.select_columns(["body"])
    for rows, others in _drawn(len(data), size):
        found = data[rows.tolist()]
        negatives = bodies[others.tolist()]["body"]
        yield {"anchor": found["title"], "positive": found["body"], "negative": negatives}


def datasets_arrow(file: Path, size: int) -> Iterator[Batch]:
    """The same, asked for as Arrow, of which lists are made: faster than its own."""
    data = datasets_of(file).with_format("arrow")
    bodies = data.select_columns(["body"])
    for rows, others in _drawn(len(data), size):
        found = data[rows.tolist()]
        yield {
            "anchor": found["title"].to_pylist(),
            "positive": found["body"].to_pylist(),
            "negative": bodies[others.tolist()]["body"].to_pylist(),
        }


def datasets_in_batch(file: Path, size: int) -> Iterator[Batch]:
    """``datasets``, memory-mapped: random batches, the negative is the next row's positive."""
    data = datasets_of(file)
    for rows, _ in _drawn(len(data), size):
        found = data[rows.tolist()]
        bodies = found["body"]
        negatives = [*bodies[1:], bodies[0]]
        yield {"anchor": found["title"], "positive": bodies, "negative": negatives}


def datasets_buffer(file: Path, size: int) -> Iterator[Batch]:
    """``datasets``, its streaming shuffle buffer: pairs only, roughly shuffled."""
    data = datasets_of(file).to_iterable_dataset(num_shards=64)
    epoch = 0
    while True:
        shuffled = data.shuffle(seed=42 + epoch, buffer_size=BUFFER)
        for found in shuffled.iter(batch_size=size, drop_last_batch=True):
            yield {"anchor": found["title"], "positive": found["body"]}
        epoch += 1


def python_lists(file: Path, size: int) -> Iterator[Batch]:
    """Lists in memory, indexed one by one by numbers that NumPy draws."""
    titles, bodies = _lists(file)
    for rows, others in _drawn(len(titles), size):
        listed = rows.tolist()
        yield {
            "anchor": [titles[i] for i in listed],
            "positive": [bodies[i] for i in listed],
            "negative": [bodies[i] for i in others.tolist()],
        }


def object_arrays(file: Path, size: int) -> Iterator[Batch]:
    """Python strings in memory in NumPy arrays of objects, indexed a batch at once."""
    titles, bodies = (np.array(texts, dtype=object) for texts in _lists(file))
    for rows, others in _drawn(len(titles), size):
        yield {
            "anchor": titles[rows].tolist(),
            "positive": bodies[rows].tolist(),
            "negative": bodies[others].tolist(),
        }


def datasets_of(file: Path) -> Any:
    """Return the records as ``datasets`` maps them: an Arrow file in its cache, in memory."""
    import datasets

    datasets.disable_progress_bars()
    cache = file.with_name("datasets")
    found = datasets.Dataset.from_parquet(str(file), cache_dir=str(cache))
    serving_memory.warm(Path(file["filename"]) for file in found.cache_files)
    return found.select_columns(["title", "body"])


def _lists(file: Path) -> tuple[list[str], list[str]]:
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    return table["title"].to_pylist(), table["body"].to_pylist()


def _drawn(records: int, size: int) -> Iterator[tuple[Integers, Integers]]:
    """Yield rows of batches, each row once an epoch, with another row for each."""
    draw = np.random.default_rng(42)
    while True:
        order = draw.permutation(records)
        for start in range(0, records - size + 1, size):
            rows = order[start : start + size]
            others = draw.integers(records - 1, size=size)
            others += others >= rows
            yield rows, others
