"""Measures texts that are left in their Parquet files beside the same texts inside a corpus.

    python benchmarks/in_place.py [--records 1000000] > benchmarks/in_place.json

Both corpora are made from one file of ``text.py`` and looked at in turns, in one process. Prints
one JSON object: the share of the text that a corpus takes besides it, seconds to ingest and to make
the snapshot, and triplets a second from it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import text

import duckplets as dp

COLUMNS = ("anchor", "positive", "negative")
PLACES = {"inside": False, "in_place": True}
TURNS = 5
SECONDS = 4.0  # of each turn


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def made(path: Path, source: dp.sources.ParquetSource, *, in_place: bool) -> tuple[dp.Corpus, Any]:
    """Return a corpus of a source, open, and what its making took."""
    corpus = dp.Corpus(path)
    took = seconds(
        lambda: corpus.ingest(
            source, name="text", progress=False, options=dp.IngestOptions(in_place=in_place)
        )
    )
    corpus.split()
    texts = path.with_suffix(".texts").glob("*")
    size = sum(file.stat().st_size for file in (path, *texts))
    prepared = seconds(lambda: corpus.prepare(progress=False))
    print(f"{path.stem} is done", file=sys.stderr, flush=True)
    return corpus, {"ingest_s": took, "bytes": size, "prepare_s": prepared}


def rate(sampler: dp.Sampler, length: float) -> float:
    """Return triplets a second as lists, over so many seconds."""
    started, count = time.perf_counter(), 0
    for batch in sampler:
        count += [len(batch[column]) for column in COLUMNS].pop()
        if time.perf_counter() - started > length:
            break
    return count / (time.perf_counter() - started)


def rates(corpora: dict[str, dp.Corpus]) -> dict[str, Any]:
    """Return the medians of rates that were measured in turns, and of their ratios."""
    with ExitStack() as held:
        samplers = {
            name: held.enter_context(corpus.sampler(batch_size=256))
            for name, corpus in corpora.items()
        }
        for sampler in samplers.values():
            rate(sampler, SECONDS / 2)
        found = [{n: rate(s, SECONDS) for n, s in samplers.items()} for _ in range(TURNS)]
    middle = {name: median(turn[name] for turn in found) for name in PLACES}
    ratio = median(turn["in_place"] / turn["inside"] for turn in found)
    return middle | {"ratio": ratio}


def measure(folder: Path, records: int) -> dict[str, Any]:
    """Return what is measured over so many records."""
    parquet, _ = text.write(folder, records)
    columns = pq.read_table(parquet, columns=["title", "body"])
    size = sum(pc.sum(pc.binary_length(column)).as_py() for column in columns.columns)
    del columns
    found: dict[str, Any] = {"records": records, "text_bytes": size, "cpus": os.cpu_count()}
    found["load_before"] = os.getloadavg()[0]
    found["parquet_bytes"] = parquet.stat().st_size
    source = dp.sources.ParquetSource(parquet, anchor="title", positive="body", id="id")
    with ExitStack() as held:
        corpora = {}
        for name, in_place in PLACES.items():
            path = folder / f"{name}.duckdb"
            corpus, found[name] = made(path, source, in_place=in_place)
            corpora[name] = held.enter_context(corpus)
            found[name]["share"] = found[name]["bytes"] / size
        found["from_snapshot"] = rates(corpora)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    with tempfile.TemporaryDirectory() as place:
        json.dump(measure(Path(place), parser.parse_args().records), sys.stdout, indent=2)
    print()
