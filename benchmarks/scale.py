"""Measures what records of 600 bytes take on disk and of processors, at several numbers of them.

    python benchmarks/scale.py [--records 1000000 …] [--beside FILE] > benchmarks/scale.json

A record has an id and one section of 600 characters of ASCII, words of a Zipf distribution. Every
stage is a process of its own. What counts is processor time, that of processes it started too, and
bytes: neither depends much on who else uses the machine, as seconds do. ``stages`` are measured on
few records, for their bytes are so many a record. Prints one JSON object, from which
``scale_report.py`` writes docs/scale.md; with ``--beside`` it has what an earlier one says of other
numbers of records, too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from duckplets.search.index import index as build_index

BYTES = 600  # of a record's text
RECORDS = (1_000_000, 3_000_000, 10_000_000)
FEW = 20_000  # records, for the stages
VOCABULARY, WORDS, STEP = 50_000, 320, 50_000
SECONDS = 5.0  # of sampling

Found = dict[str, float]


def write(folder: Path, records: int, seed: int = 1) -> Path:
    """Write records to a Parquet file, if it is not there; returns its path.

    Their texts are cut at other places out of the same long ones for every so many records.
    """
    path = folder / f"{records}.parquet"
    if path.exists():
        return path
    draw = np.random.default_rng(seed)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    sizes = draw.integers(3, 11, VOCABULARY)
    words = pa.array([bytes(draw.choice(letters, size)).decode() for size in sizes])
    ranks = 1 / np.arange(1, VOCABULARY + 1) ** 1.05
    drawn = draw.choice(VOCABULARY, min(STEP, records) * WORDS, p=ranks / ranks.sum())
    starts = np.arange(0, len(drawn) + 1, WORDS, dtype=np.int32)
    lists = pa.ListArray.from_arrays(pa.array(starts), words.take(pa.array(drawn)))
    long = pc.binary_join(lists, " ")
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        for number, start in enumerate(range(0, records, STEP)):
            count = min(STEP, records - start)
            ids = pa.array([f"r{i}" for i in range(start, start + count)])
            cut = 3 * (number % 200)
            texts = pc.utf8_slice_codeunits(long[:count], cut, cut + BYTES)
            out.write_batch(pa.record_batch([ids, texts], schema=schema))
    return path


def _corpus(folder: Path, records: int, **arguments: Any) -> Any:
    import duckplets as dp

    return dp.Corpus(folder / f"{records}.duckdb", **arguments)


def _mb(*files: Path) -> float:
    return sum(file.stat().st_size for file in files) / 1e6


# ---- at every number of records


def ingest(folder: Path, records: int) -> Found:
    import duckplets as dp

    parquet = write(folder, records)
    with _corpus(folder, records) as corpus:
        corpus.ingest(
            dp.sources.ParquetSource(parquet, text="text", id="id"), name="text", progress=False
        )
        corpus.split()
    texts = (folder / f"{records}.texts").glob("*")
    return {"parquet_mb": _mb(parquet), "corpus_mb": _mb(folder / f"{records}.duckdb", *texts)}


def prepare(folder: Path, records: int) -> Found:
    with _corpus(folder, records, read_only=True) as corpus:
        corpus.prepare(progress=False)
    snapshot, texts = (_mb(*(folder / f"{records}.{of}").glob("*")) for of in ("snapshot", "texts"))
    return {"snapshot_mb": snapshot, "served_mb": snapshot + texts}


def serve(folder: Path, records: int) -> Found:
    """Triplets a second of processor time, from the snapshot, and what opening costs."""
    before = time.process_time()
    with _corpus(folder, records, read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=256)
        next(sampler).to_pydict()
        opened = time.process_time() - before
        count, cpu, begun = 0, time.process_time(), time.monotonic()
        while time.monotonic() - begun < SECONDS:
            count += len(next(sampler).to_pydict()["anchor"])
        cpu = time.process_time() - cpu
        sampler.save()
    state = folder / f"{records}.state.duckdb"
    return {"open_cpu_s": opened, "per_cpu_s": count / cpu, "state_mb": _mb(state)}


def report(folder: Path, records: int) -> Found:
    """The page of what is prepared already."""
    page = folder / "page.html"
    with _corpus(folder, records) as corpus:
        before, begun = time.process_time(), time.monotonic()
        corpus.report(page)
        found = {
            "page_cpu_s": time.process_time() - before,
            "page_s": time.monotonic() - begun,
            "page_mb": _mb(page),
        }
    page.unlink()
    return found


# ---- of few


def index(folder: Path, records: int) -> Found:
    with _corpus(folder, records) as corpus:
        before = _used(corpus)
        reports = build_index(corpus, progress=False)
        return {
            "disk_mb": _used(corpus) - before,
            "tokens": sum(report.tokens for report in reports),
        }


def mine(folder: Path, records: int) -> Found:
    import duckplets as dp

    whole = dp.any_section()
    recipe = dp.TripletRecipe(
        "alike", whole, whole, whole, by="bm25", allow_same_anchor_positive=True
    )
    with _corpus(folder, records) as corpus:
        before = _used(corpus)
        report = corpus.mine(recipe, progress=False)
        files = (file for file in (folder / f"{records}.candidates").rglob("*") if file.is_file())
        disk = _used(corpus) - before + _mb(*files)
        return {"disk_mb": disk, "candidates": report.candidates}


def shard(folder: Path, records: int) -> Found:
    import duckplets as dp

    out = folder / "shards"
    with _corpus(folder, records) as corpus:
        dp.train_tokenizer(corpus, folder / "tokenizer", vocab_size=8000, progress=False)
        before = time.process_time()
        corpus.shard(out, tokenizer=folder / "tokenizer", progress=False)
        cpu = time.process_time() - before
    entries = [json.loads(file.read_text()) for file in out.glob("manifest.json")]
    tokens = sum(shard["tokens"] for entry in entries for shard in entry["shards"])
    files = (file for file in out.rglob("*") if file.is_file())
    return {"disk_mb": _mb(*files), "shard_cpu_s": cpu, "tokens": tokens}


def gates(folder: Path, records: int) -> Found:
    import duckplets as dp

    with _corpus(folder, records) as corpus:
        corpus.quality(apply=dp.Quality(language=None, duplicates=False), dry_run=True)
    return {}


def _used(corpus: Any) -> float:
    """Return the MB of the corpus file that hold something."""
    corpus.database.rows("CHECKPOINT")
    ((size, used),) = corpus.database.rows(
        "SELECT block_size, used_blocks FROM pragma_database_size()"
    )
    return size * used / 1e6


AT_EVERY = {f.__name__: f for f in (ingest, prepare, serve, report)}
STAGES = {f.__name__: f for f in (index, mine, shard, gates)}
MEASUREMENTS: dict[str, Callable[[Path, int], Found]] = AT_EVERY | STAGES


def measured(name: str, folder: Path, records: int) -> Found:
    """Return what a stage yields, with what this process has needed for it."""
    write(folder, records)
    before = os.times()
    found = MEASUREMENTS[name](folder, records)
    user, system, *children, seconds = (
        after - then for after, then in zip(os.times(), before, strict=True)
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cpu = user + system + sum(children)
    return {"cpu_s": cpu, "seconds": seconds, "peak_mb": peak} | found


def _apart(name: str, folder: Path, records: int) -> Found:
    command = [sys.executable, __file__, "--folder", str(folder), "--one", name]
    done = subprocess.run(
        [*command, "--records", str(records)], stdout=subprocess.PIPE, text=True, check=True
    )
    print(f"{records:,} records, {name}: {done.stdout.strip()}", file=sys.stderr, flush=True)
    found: Found = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, nargs="*", default=RECORDS)
    parser.add_argument("--beside", type=Path, help="output of an earlier run")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--one", choices=MEASUREMENTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one, given.folder, *given.records)))
        return
    earlier = json.loads(given.beside.read_text(encoding="utf-8")) if given.beside else {}
    every = earlier.get("records", {})
    for records in given.records:
        with tempfile.TemporaryDirectory() as name:
            found: Found = {"cpus": os.cpu_count() or 1}
            measures = {one: _apart(one, Path(name), records) for one in AT_EVERY}
            every[str(records)] = found | measures
    with tempfile.TemporaryDirectory() as name:
        stages = {one: _apart(one, Path(name), FEW) for one in ("ingest", *STAGES)}
    every = {name: every[name] for name in sorted(every, key=int)}
    told = {"bytes": BYTES, "records": every, "few": FEW, "stages": stages}
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
