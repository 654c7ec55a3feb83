"""Measures text coming in through gates by two processes of this machine beside this one alone.

    python benchmarks/engine_ingest.py [--documents 100000]

The process alone has two threads, and both take in the same files, in turns: on two cores this
measures what an engine costs, not what more machines would gain. Documents are those of
``quality_gates.py``, in 16 files. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import engines
import pyarrow as pa
import pyarrow.parquet as pq
from quality_gates import documents

import duckplets as dp
from duckplets.engine import opened

FILES = 16


def texts(folder: Path, count: int) -> Any:
    """Write documents to Parquet files."""
    found = documents(count)
    for number in range(FILES):
        part = found[number::FILES]
        pq.write_table(pa.table({"text": part}), folder / f"{number:02}.parquet")
    return dp.ParquetSource(folder / "*.parquet", text="text")


def taken(folder: Path, source: Any, engine: Any) -> float:
    """Return rows a second."""
    path = folder / "corpus.duckdb"
    how = {"quality": dp.Quality(language=None), "progress": False}
    with dp.Corpus(path, threads=2) as corpus:
        begun = time.monotonic()
        report = corpus.ingest(source, name="s", engine=engine, **how)
        seconds = time.monotonic() - begun
    path.unlink()
    return report.read / seconds


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=2)
    arguments = parser.parse_args()
    logging.getLogger("duckplets").setLevel(logging.ERROR)
    best = {"alone": 0.0, "engine": 0.0}
    with opened("local:2") as engine, tempfile.TemporaryDirectory() as name:
        source = texts(Path(name), arguments.documents)
        for _ in range(arguments.turns):
            for how, by in (("alone", None), ("engine", engine)):
                best[how] = max(best[how], taken(Path(name), source, by))
        found: dict[str, Any] = {"documents": arguments.documents}
        ratio = round(best["engine"] / best["alone"], 2)
        found["gates"] = {how: round(rate) for how, rate in best.items()} | {"ratio": ratio}
        found["worker_peak_mb"] = engines.peak()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
