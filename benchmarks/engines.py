"""Measures work by two processes of this machine beside the same work by this process alone.

    python benchmarks/engines.py [--anchors 100000] [--only NAME …] > benchmarks/engines.json

The process alone has two threads, and both do the same work over copies of one corpus, in turns:
on two cores this measures what an engine costs, not what more machines would gain. Documents are
those of ``mining.py``. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from mining import _recipe, write

import duckplets as dp
from duckplets.engine import opened
from duckplets.search.index import index as build_index

Work = Callable[[dp.Corpus, Path, Any], Any]


def mine(corpus: dp.Corpus, folder: Path, engine: Any) -> None:
    corpus.mine(_recipe(), depth=16, engine=engine, progress=False)


def index(corpus: dp.Corpus, folder: Path, engine: Any) -> None:
    build_index(corpus, engine=engine, progress=False)


def gates(corpus: dp.Corpus, folder: Path, engine: Any) -> None:
    corpus.quality(apply=dp.Quality(language=None, duplicates=False), dry_run=True, engine=engine)


def duplicates(corpus: dp.Corpus, folder: Path, engine: Any) -> None:
    corpus.deduplicate(dry_run=True, engine=engine, progress=False)


def shards(corpus: dp.Corpus, folder: Path, engine: Any) -> None:
    out = folder / "shards"
    corpus.shard(out, tokenizer=folder / "tokenizer", engine=engine, progress=False)
    shutil.rmtree(out)


WORKS: dict[str, Work] = {
    "index": index,
    "mine": mine,
    "gates": gates,
    "duplicates": duplicates,
    "shards": shards,
}


def prepared(folder: Path, count: int) -> Path:
    """Make the corpus that all work is done over, and a tokenizer of its texts."""
    path = folder / "corpus.duckdb"
    with dp.Corpus(path) as corpus:
        source = dp.sources.ParquetSource(write(folder, count), id="id", text="text")
        corpus.ingest(source, name="documents", progress=False)
        corpus.split(train=1, validation=0, test=0)
        dp.train_tokenizer(corpus, folder / "tokenizer", vocab_size=8000, progress=False)
    return path


def measured(work: str, path: Path, engine: Any, count: int) -> float:
    """Return records a second."""
    copy = path.with_name("copy.duckdb")
    shutil.copyfile(path, copy)
    with dp.Corpus(copy, threads=2) as corpus:
        if work == "mine":
            build_index(corpus, progress=False)
        begun = time.monotonic()
        WORKS[work](corpus, path.parent, engine)
        seconds = time.monotonic() - begun
    copy.unlink()
    return count / seconds


def peak() -> int:
    """Return the most memory that a process which this one has started has had, in MB."""
    statuses = [
        Path(f"/proc/{child.pid}/status").read_text() for child in psutil.Process().children()
    ]
    return max(int(re.search(r"VmHWM:\s+(\d+)", each)[1]) for each in statuses) >> 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--anchors", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", choices=WORKS, default=list(WORKS))
    parser.add_argument("--turns", type=int, default=2)
    arguments = parser.parse_args()
    logging.getLogger("duckplets").setLevel(logging.ERROR)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, opened("local:2") as engine:
        path = prepared(Path(name), arguments.anchors)
        for work in arguments.only:
            alone, by_engine = 0.0, 0.0
            for _ in range(arguments.turns):
                alone = max(alone, measured(work, path, None, arguments.anchors))
                by_engine = max(by_engine, measured(work, path, engine, arguments.anchors))
            found[work] = {
                "alone": round(alone),
                "engine": round(by_engine),
                "ratio": round(by_engine / alone, 2),
            }
        found["worker_peak_mb"] = peak()
    print(json.dumps({"records": arguments.anchors, "works": found}, indent=1))


if __name__ == "__main__":
    main()
