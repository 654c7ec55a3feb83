"""Measures mining by the cosine of vectors beside the bare matrix product, in the same process.

    python benchmarks/dense.py [--records 100000] [--dimension 384] [--depth 100] > dense.json

Records are pairs of a question and an answer, whose vectors lie around a point of their own, and
these around one of 500, so that most positives are among the nearest. The bare product multiplies
the same numbers of vectors, in blocks as large, and does nothing with what comes out. Mining is
called twice, the second time for a recipe that is equal but for its name, so that what is done once
a corpus (hashes of texts, lengths) is not counted. What is printed is JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

TOPICS = 500
ANCHORS, DOCUMENTS = 1024, 8192  # of a block of the bare product


def product(records: int, dimension: int) -> tuple[float, float]:
    """Return wall and processor seconds of all products of unit vectors."""
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((records, dimension), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    wall, processor = time.perf_counter(), time.process_time()
    for low in range(0, records, ANCHORS):
        for first in range(0, records, DOCUMENTS):
            vectors[low : low + ANCHORS] @ vectors[first : first + DOCUMENTS].T
    return time.perf_counter() - wall, time.process_time() - processor


def mined(folder: Path, records: int, dimension: int, depth: int) -> tuple[float, float, int]:
    """Return wall and processor seconds of mining, and how many candidates there are."""
    import duckplets as dp

    draw = np.random.default_rng(1)
    points = draw.standard_normal((TOPICS, dimension), np.float32)
    own = draw.standard_normal((records, dimension), np.float32)

    def embedded(texts: list[str]) -> np.ndarray:
        numbers = np.array([int(text.split()[1]) for text in texts])
        noise = draw.standard_normal((len(texts), dimension), np.float32)
        return points[numbers % TOPICS] + own[numbers] + noise / 2

    rows = {
        "question": [f"question {i}" for i in range(records)],
        "answer": [f"answer {i}" for i in range(records)],
    }
    anchor, context = dp.role("anchor"), dp.role("context")
    with dp.Corpus(folder / "dense.duckdb") as corpus:
        import pyarrow as pa

        corpus.ingest(pa.table(rows), name="s", anchor="question", positive="answer")
        corpus.split(1, 0, 0)
        corpus.embed(embedded, name="v", progress=False)
        how: dict[str, Any] = {"scorer": dp.Dense("v"), "depth": depth, "progress": False}
        corpus.mine(dp.TripletRecipe("few", anchor, context, context), **how | {"depth": 1})
        wall, processor = time.perf_counter(), time.process_time()
        report = corpus.mine(dp.TripletRecipe("all", anchor, context, context), **how)
        return time.perf_counter() - wall, time.process_time() - processor, report.candidates


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--depth", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wall, processor, candidates = mined(Path(folder), **vars(given))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    bare, bare_processor = product(given.records, given.dimension)
    found = {
        **vars(given),
        "candidates": candidates,
        "seconds": round(wall, 2),
        "processor_seconds": round(processor, 2),
        "product_seconds": round(bare, 2),
        "product_processor_seconds": round(bare_processor, 2),
        "part_of_product": round(bare / wall, 3),
        "part_of_product_processor": round(bare_processor / processor, 3),
        "peak_mb": peak,
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
