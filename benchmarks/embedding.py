"""Measures what `embed` costs beside the function, and exact search among many vectors.

    python benchmarks/embedding.py [--folder FOLDER] [--records N] [--vectors N] [--dimension D]

Records of ``text.py``. The function returns at once: a piece of one array. For the search the set
is filled up with vectors of texts that the corpus does not have. Peaks are of this process, pages
of mapped files among them; ``anonymous_mb`` leaves these out. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import text
from first_batch import memory

SEARCHES = 9


def embedding(path: Path, records: int, dimension: int) -> dict[str, Any]:
    """Return how many texts a second are embedded by a function that returns at once."""
    import duckplets as dp

    ready = np.random.default_rng(0).normal(size=(1 << 17, dimension)).astype(np.float32)

    calls = [0]

    def at_once(texts: list[str]) -> Any:
        start = calls.pop()
        calls.append((start + 257) % (len(ready) - len(texts)))
        return ready[start : start + len(texts)]

    with dp.Corpus(path) as corpus:
        table = pa.Table.from_batches(list(text.batches(records)))
        source = dp.sources.MemorySource(table, id="id", anchor="title", positive="body")
        corpus.ingest(source, name="texts", progress=False)
        corpus.split()
        report = corpus.embed(at_once, progress=False)
        again = corpus.embed(at_once, progress=False)
    size = report.path.stat().st_size
    return {
        "texts": report.texts,
        "embedded_per_s": report.rate,
        "seconds": report.seconds,
        "nothing_to_do_seconds": again.seconds,
        "file_ratio": size / (4 * dimension * report.embedded),
        **{f"embed_{name}": value for name, value in memory().items()},
    }


def searching(path: Path, vectors: int, dimension: int) -> dict[str, Any]:
    """Return the seconds of a search among so many vectors, the first apart."""
    import duckplets as dp
    from duckplets.vectors.store import VectorStore

    draw, block = np.random.default_rng(1), 1 << 16
    store = VectorStore(path)
    of = store.need("default")
    begun, there = time.perf_counter(), of.vectors
    counts = (min(block, vectors - low) for low in range(there, vectors, block))
    store.append(
        of,
        (
            (
                draw.integers(1 << 63, dtype=np.uint64, size=count),
                draw.random((count, dimension), np.float32) - np.float32(0.5),
            )
            for count in counts
        ),
    )
    filled = time.perf_counter() - begun
    seconds = []
    with dp.Corpus(path, read_only=True) as corpus:
        for _ in range(SEARCHES):
            query = draw.normal(size=dimension)
            begun = time.perf_counter()
            corpus.search(query, 10, by="default")
            seconds.append(time.perf_counter() - begun)
    return {
        "vectors": vectors,
        "filled_per_s": (vectors - there) / filled,
        "first_search_seconds": seconds[0],
        "search_seconds": float(np.median(seconds[1:])),
        "best_search_seconds": min(seconds[1:]),
        **{f"search_{name}": value for name, value in memory().items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=384)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "embedding.duckdb"
        found = embedding(path, given.records, given.dimension)
        found |= searching(path, given.vectors, given.dimension)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
