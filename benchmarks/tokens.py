"""Measures the writing of token shards: encoding beside encode_batch alone, writing, verifying.

    python benchmarks/tokens.py        # 3,000 texts; another number: TEXTS=100000

Texts are documentation of Python's standard library, repeated with a number before each. Each rate
is the best of RUNS, for others use the machine too. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import pydoc
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import duckplets as dp
from duckplets.base.prefetch import Lookahead
from duckplets.tokens.encode import TokenEncoder, encoded
from duckplets.tokens.manifest import ShardEntry, ShardManifest
from duckplets.tokens.spool import Spool
from duckplets.tokens.texts import SplitTexts
from duckplets.tokens.write import ShardJob, plan, write_shard

TEXTS = int(os.environ.get("TEXTS", "3000"))
RUNS = int(os.environ.get("RUNS", "3"))
MODULES = "argparse asyncio collections csv datetime email http json logging os pathlib re ssl"
REPEATS = 40  # of the encoded texts, for the rate of writing
SHARD = 25_000_000  # bytes, so that there are some


def texts() -> list[dict[str, str]]:
    """Return pages of help, about 1.5 kB each."""
    pages = []
    for name in MODULES.split():
        module = import_module(name)
        for each in sorted(vars(module)):
            if callable(getattr(module, each)):
                page = pydoc.plain(pydoc.render_doc(getattr(module, each)))
                pages += [page[start : start + 1500] for start in range(0, len(page), 1500)]
    return [{"id": f"{n}", "text": f"{n} {pages[n % len(pages)]}"} for n in range(TEXTS)]


def best(work: Callable[[], Any]) -> float:
    """Return the seconds of the fastest run."""
    found = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def measured(folder: Path) -> dict[str, float]:
    with dp.Corpus(folder / "pages.duckdb") as corpus:
        corpus.ingest(dp.sources.MemorySource(texts(), id="id", text="text"), name="pages")
        corpus.split(train=1, validation=0, test=0)
        begun = time.perf_counter()
        dp.train_tokenizer(corpus, folder / "tokenizer", vocab_size=8000)
        found = {"train_s": time.perf_counter() - begun}
        encoder, read = TokenEncoder(folder / "tokenizer"), SplitTexts(corpus.database, "train")
        count = len(read.places.keys)
        blocks = [block.texts for block in read.blocks(0, count)]
        size = sum(len(text.encode()) for block in blocks for text in block) / 1e6

        def alone() -> None:
            for block in blocks:
                encoder.tokenizer.encode_batch(block, add_special_tokens=False)

        def ours() -> None:
            spool = Spool(folder, [(0, count)])
            spool.write(0, list(encoded(encoder, read.blocks(0, count))))

        found["encode_batch_mb_s"] = size / best(alone)
        found["encode_mb_s"] = size / best(ours)
        found["encode_ratio"] = found["encode_mb_s"] / found["encode_batch_mb_s"]
        rows = list(encoded(encoder, read.blocks(0, count)))
        begun = time.perf_counter()
        corpus.shard(folder / "shards", tokenizer=folder / "tokenizer")
        found["shard_s"] = time.perf_counter() - begun
    found |= written(folder / "many", rows, count, ShardManifest.read(folder / "shards"))
    return found | verified(folder / "many")


def written(folder: Path, rows: list[Any], count: int, like: ShardManifest) -> dict[str, float]:
    """Return the rate of writing shards from texts that are encoded, with two threads as it is."""
    folder.mkdir()
    spool = Spool(folder, [(n * count, (n + 1) * count) for n in range(REPEATS)])
    for part in range(REPEATS):
        spool.write(part, rows)
    shards = list(
        plan(
            np.asarray(spool.counts(), np.int64),
            ("train", "pages"),
            0,
            buckets=(512,),
            size=SHARD,
            seed=1,
        )
    )
    job = ShardJob(
        folder=folder,
        spool=spool,
        metrics=spool.metrics(),
        offsets=False,
        compression="zstd",
        row_group_size=8192,
    )
    size = sum(shard.tokens for shard in shards) * 4 / 1e6
    before = time.process_time()

    def write() -> list[ShardEntry]:
        calls = (partial(write_shard, job, shard) for shard in shards)
        return list(Lookahead(calls, "shards", most=1, threads=2))

    seconds = best(write)
    each = (time.process_time() - before) / RUNS
    replace(like, shards=write()).write(folder)
    return {"write_mb": size, "write_mb_s": size / seconds, "write_mb_per_cpu_s": size / each}


def verified(folder: Path) -> dict[str, float]:
    """Return the rate of verifying, and of reading the same files and nothing else."""
    files = [file for file in folder.rglob("*") if file.suffix in (".parquet", ".tsv")]
    size = sum(file.stat().st_size for file in files) / 1e6
    reading = best(lambda: [file.read_bytes() for file in files])
    return {
        "verify_mb_s": size / best(lambda: dp.verify(folder)),
        "read_mb_s": size / reading,
        "verify_mb": size,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    told = {name: round(n, 3) for name, n in found.items()}
    json.dump({"texts": TEXTS, **told, "peak_mb": peak}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
