"""The benchmark's text: records with a title of about 8 and a body of about 100 Zipf words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

VOCABULARY = 50_000
STEP = 50_000


def batches(records: int, seed: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield records with ``id``, ``title`` and ``body``, the same for the same seed."""
    draw = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(
        ["".join(draw.choice(letters, draw.integers(2, 11))) for _ in range(VOCABULARY)]
    )
    ranks = 1 / np.arange(1, VOCABULARY + 1) ** 1.05
    shares = np.cumsum(ranks / ranks.sum())

    def texts(count: int, mean: int) -> list[str]:
        lengths = draw.integers(mean * 3 // 4, mean * 5 // 4 + 1, count)
        drawn = words[
            np.minimum(np.searchsorted(shares, draw.random(lengths.sum())), VOCABULARY - 1)
        ]
        ends = np.cumsum(lengths)
        return [" ".join(drawn[e - n : e]) for e, n in zip(ends, lengths, strict=True)]

    for start in range(0, records, STEP):
        count = min(STEP, records - start)
        ids = [f"r{i}" for i in range(start, start + count)]
        columns = [ids, texts(count, 8), texts(count, 100)]
        yield pa.record_batch(columns, names=["id", "title", "body"])


def write(folder: Path, records: int) -> tuple[Path, Path]:
    """Write the records as Parquet and CSV, unless they are there; returns both paths."""
    parquet, csv = folder / f"{records}.parquet", folder / f"{records}.csv"
    if not (parquet.exists() and csv.exists()):
        schema = pa.schema([(name, pa.string()) for name in ("id", "title", "body")])
        with pq.ParquetWriter(parquet, schema) as out, pyarrow.csv.CSVWriter(csv, schema) as lines:
            for batch in batches(records):
                out.write_batch(batch)
                lines.write_batch(batch)
    return parquet, csv
