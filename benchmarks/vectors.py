"""Measures vectors: into their file, its size, out with batches, and memory.

    python benchmarks/vectors.py [--records 200000] [--corpus FILE] [--dimension 384]
        [--seconds 6] [--only NAME …] > vectors.json

A corpus is made in a temporary folder, or the one that is given is copied there, with its snapshot.
Each measurement is a process of its own, after the one that fills the file. ``per_s`` is by the
clock, ``per_cpu_s`` by the processor time of the process. What is printed is JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

SLOTS = ("anchor", "positive", "negative")
BLOCK = 16_384
Found = dict[str, float]


def keys(corpus: Any) -> Any:
    """Return the key of one chunk of each text."""
    found = corpus.sql(
        "SELECT min(chunk_key) AS chunk_key FROM chunks GROUP BY text_hash ORDER BY 1"
    )
    return found["chunk_key"].combine_chunks()


def blocks(found: Any, dimension: int) -> Iterator[pa.RecordBatch]:
    """Yield vectors for some chunks; the same numbers again, so that making them costs nothing."""
    some = np.random.default_rng(0).standard_normal((BLOCK, dimension), np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(some.reshape(-1)), dimension)
    for low in range(0, len(found), BLOCK):
        part = found.slice(low, BLOCK)
        yield pa.RecordBatch.from_arrays([part, vectors[: len(part)]], ["chunk_key", "vector"])


def vectors_in(path: Path, dimension: int, _: float) -> Found:
    """Take a vector for every text of the corpus."""
    import duckplets as dp

    with dp.Corpus(path, read_only=True) as corpus:
        found = keys(corpus)
        schema = pa.schema(
            [("chunk_key", pa.int64()), ("vector", pa.list_(pa.float32(), dimension))]
        )
        source = blocks(found, dimension)
        rows = pa.RecordBatchReader.from_batches(schema, (b.cast(schema) for b in source))
        started, cpu = time.perf_counter(), time.process_time()
        report = corpus.add_vectors("default", rows, progress=False)
        spent, cpu = time.perf_counter() - started, time.process_time() - cpu
    size = path.with_suffix(".vectors.duckdb").stat().st_size
    return {
        "vectors": report.added,
        "per_s": report.added / spent,
        "per_cpu_s": report.added / cpu,
        "bytes_of_4_d_n": size / (4 * dimension * report.added),
    }


def _rate(path: Path, seconds: float, *, with_vectors: bool, size: int = 256) -> Found:
    import duckplets as dp

    columns = list(SLOTS) + [f"{slot}_vector" for slot in SLOTS if with_vectors]
    with dp.Corpus(path, read_only=True) as corpus:
        started = time.perf_counter()
        sampler = corpus.sampler(batch_size=size, columns=columns)
        opening = time.perf_counter() - started
        first = next(sampler)
        ready = time.perf_counter() - started

        def take() -> None:
            batch = next(sampler)
            for name in columns:
                if name.endswith("_vector"):
                    batch.to_numpy(name)
                else:
                    batch.column(name)

        until = time.perf_counter() + seconds / 3
        while time.perf_counter() < until:
            take()
        count, cpu, begun = 0, time.process_time(), time.perf_counter()
        while time.perf_counter() - begun < seconds:
            take()
            count += len(first)
        spent, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return {
        "opened_s": opening,
        "first_batch_s": ready,
        "per_s": count / spent,
        "per_cpu_s": count / cpu,
    }


def batches_without(path: Path, _: int, seconds: float) -> Found:
    """Take batches of texts as arrays."""
    return _rate(path, seconds, with_vectors=False)


def batches_with(path: Path, _: int, seconds: float) -> Found:
    """Take batches of texts and their vectors as arrays."""
    return _rate(path, seconds, with_vectors=True)


def lookup(path: Path, _: int, seconds: float) -> Found:
    """Look up every text in a random order, and gather some vectors."""
    from duckplets.vectors.opened import opened

    found = opened(path, "default")
    asked = np.random.default_rng(1).permutation(found.hashes)
    found.rows(asked[:1000])
    started = time.perf_counter()
    rows = found.rows(asked)
    looked_up = (time.perf_counter() - started) / len(asked)
    rows = rows[:65_536]
    found.take(rows)
    started = time.perf_counter()
    found.take(rows)
    return {
        "ns_a_text": looked_up * 1e9,
        "gathered_per_s": len(rows) / (time.perf_counter() - started),
    }


MEASURES = (vectors_in, lookup, batches_without, batches_with)


def place(folder: Path, given: Path | None, records: int) -> Path:
    """Put the corpus there, with its snapshot."""
    path = folder / "corpus.duckdb"
    if given is not None:
        shutil.copyfile(given, path)
        if (snapshot := given.with_suffix(".snapshot")).is_dir():
            shutil.copytree(snapshot, path.with_suffix(".snapshot"))
        return path
    from duckplets.testing import toy_corpus

    with toy_corpus(path, records) as corpus:
        corpus.prepare(progress=False)
    return path


def main() -> None:
    """Measure and print."""
    names = {measure.__name__: measure for measure in MEASURES}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--only", nargs="*", choices=list(names), default=list(names))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, path = given.one
        found = names[name](Path(path), given.dimension, given.seconds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({**found, "peak_bytes": peak}))
        return
    results: dict[str, Any] = {"dimension": given.dimension}
    with tempfile.TemporaryDirectory() as folder:
        path = place(Path(folder), given.corpus, given.records)
        wanted = dict.fromkeys(["vectors_in", *given.only])
        for name in wanted:
            how = ["--dimension", str(given.dimension), "--seconds", str(given.seconds)]
            command = [sys.executable, __file__, "--one", name, str(path), *how]
            told = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            results[name] = json.loads(told.stdout)
    if {"batches_with", "batches_without"} <= results.keys():
        both = (results[name]["per_s"] for name in ("batches_with", "batches_without"))
        results["share_of_rate"] = next(both) / next(both)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
