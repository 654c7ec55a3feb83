"""Measures token batches: the token file, packed and single rows, opening, memory, and a peer.

    python benchmarks/token_batches.py [--tokens 50000000] [--seconds 5] [--only NAME …] > FILE.json

A folder of shards of random tokens is made in a temporary folder: texts of 20 to 2,000 tokens, two
sources. Each measurement is a process of its own. Those of row groups mean something where the
tokens are several times what is kept of them: from 400 million on. ``tokens_per_s`` is by the clock,
``tokens_per_cpu_s`` by the processor time of the process and its threads, so of one core. The peer
is ``datasets``, streaming the same Parquet files through its shuffle buffer, with texts packed in
NumPy as they come; it is left out where it is not installed. What is printed is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LENGTH, BATCH = 2048, 8
BUCKETS = (128, 256, 512, 1024)
VOCABULARY = 32_000
ROWS = 20_000  # of a shard
BUFFER = 10_000  # texts of the peer's shuffle buffer
ARRAYS = ("input_ids", "attention_mask", "position_ids", "document_ids")
Found = dict[str, float]


def make(folder: Path, tokens: int) -> None:
    """Write shards of about so many tokens."""
    from duckplets.tokens.documents import fingerprint_of
    from duckplets.tokens.manifest import ShardManifest, TokenizerEntry

    generator, shards = np.random.default_rng(0), []
    for source, part in (("code", 0.3), ("web", 0.7)):
        lengths = np.exp(generator.uniform(np.log(20), np.log(2000), int(tokens * part / 430)))
        lengths = lengths.astype(np.int64)
        buckets = np.searchsorted(BUCKETS, lengths)
        for bucket in range(len(BUCKETS) + 1):
            of = lengths[buckets == bucket]
            for index, low in enumerate(range(0, len(of), ROWS)):
                some = of[low : low + ROWS]
                shards.append(_shard(folder, (source, bucket, index), some, generator))
    entry = TokenizerEntry(
        path="tokenizer.json", sha256="", fingerprint="", vocab_size=VOCABULARY,
        eos="</s>", eos_id=2, pad="<pad>", pad_id=1,
    )  # fmt: skip
    ShardManifest(
        shards=shards, tokenizer=entry, corpus={"name": "random", "version": 1}, splits=["train"],
        buckets=list(BUCKETS), longer="own", settings={}, seed=0, libraries={}, counts={},
        fingerprint=fingerprint_of([shard.sha256 for shard in shards]),
    ).write(folder)  # fmt: skip


def _shard(folder: Path, place: tuple[str, int, int], lengths: Any, generator: Any) -> Any:
    from duckplets.tokens.manifest import ShardEntry, ShardName

    source, bucket, index = place
    name = ShardName(split="train", source=source, bucket=bucket, index=index)
    path = folder / name.path
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = generator.zipf(1.3, int(lengths.sum())).clip(1, VOCABULARY - 10).astype(np.int32) + 5
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    records = pa.array([f"{source}/{bucket}-{index}-{i}" for i in range(len(lengths))])
    columns = {
        "text": pa.array([""] * len(lengths)),
        "tokens": pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids)),
        "meta": pa.StructArray.from_arrays(
            [records, pa.array(lengths, pa.int32())], ["record_id", "token_count"]
        ),
    }
    pq.write_table(pa.table(columns), path, compression="zstd", row_group_size=2_000)
    data = path.read_bytes()
    return ShardEntry(
        **asdict(name), records=len(lengths), tokens=len(ids), bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(), seed=0, tsv_sha256="",
    )  # fmt: skip


def _taken(batches: Iterator[int], seconds: float) -> Found:
    """Count tokens for some seconds, after a batch that opens all."""
    tokens = next(batches) * 0
    started, cpu = time.perf_counter(), time.process_time()
    for count in batches:
        tokens += count
        if time.perf_counter() - started > seconds:
            break
    spent, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {"tokens_per_s": tokens / spent, "tokens_per_cpu_s": tokens / cpu}


def _run(folder: Path, seconds: float, **how: Any) -> Found:
    import duckplets as dp

    def counted(sampler: Any) -> Iterator[int]:
        for batch in sampler:
            for name in ARRAYS:
                batch[name]
            yield int(batch["attention_mask"].sum())

    with dp.TokenShards(folder) as shards:
        started, cpu = time.perf_counter(), time.process_time()
        sampler = shards.sampler(seq_length=LENGTH, batch_size=BATCH, **how)
        next(sampler)
        opening = {
            "first_batch_s": time.perf_counter() - started,
            "first_batch_cpu_s": time.process_time() - cpu,
        }
        return opening | _taken(counted(sampler), seconds)


def token_file(folder: Path, _: float) -> Found:
    """Decode the shards into the token file, which later measurements map."""
    import duckplets as dp

    shards = dp.TokenShards(folder)
    started, cpu = time.perf_counter(), time.process_time()
    count = len(shards.file)
    spent, cpu = time.perf_counter() - started, time.process_time() - cpu
    size = shards.file.path.stat().st_size
    return {"tokens_per_s": count / spent, "tokens_per_cpu_s": count / cpu, "bytes": size}


def packed(folder: Path, seconds: float) -> Found:
    """Rows cut from texts laid end to end, all four arrays of every batch."""
    return _run(folder, seconds, pack=True)


def packed_without_ends(folder: Path, seconds: float) -> Found:
    """The same without a token between texts."""
    return _run(folder, seconds, pack=True, eos=None)


def packed_of_eight_ranks(folder: Path, seconds: float) -> Found:
    """What the third of eight ranks takes."""
    return _run(folder, seconds, pack=True, rank=2, world_size=8)


def single(folder: Path, seconds: float) -> Found:
    """A text a row, filled up; only tokens of texts are counted."""
    return _run(folder, seconds)


def by_bucket(folder: Path, seconds: float) -> Found:
    """A text a row, batches of one length class."""
    return _run(folder, seconds, by_bucket=True)


def peer_datasets(folder: Path, seconds: float) -> Found:
    """The same files by ``datasets``: streamed, shuffled through a buffer, packed as they come."""
    try:
        import datasets
    except ImportError:
        return {}
    files = sorted(map(str, folder.glob("train/*/b*/*.parquet")))
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    stream = stream.select_columns(["tokens"]).shuffle(seed=0, buffer_size=BUFFER)

    def rows() -> Iterator[int]:
        held, kept = 0, list[Any]()
        for text in stream.with_format("numpy"):
            kept.append(np.append(text["tokens"], np.int32(2)))
            held += len(kept[-1])
            if held >= LENGTH * BATCH:
                flat = np.concatenate(kept)
                batch = flat[: LENGTH * BATCH].reshape(BATCH, LENGTH)
                kept, held = [flat[LENGTH * BATCH :]], len(flat) - LENGTH * BATCH
                yield batch.size

    return _taken(rows(), seconds)


MEASUREMENTS: dict[str, Callable[[Path, float], Found]] = {
    measure.__name__: measure
    for measure in (
        token_file, packed, packed_without_ends, packed_of_eight_ranks, single, by_bucket,
        peer_datasets,
    )
}  # fmt: skip


def measured(name: str, folder: Path, seconds: float) -> Found:
    """Measure in a process of its own, with the most memory that was resident."""
    code = [sys.executable, __file__, "--one", name, "--folder", folder, "--seconds", seconds]
    done = subprocess.run([*map(str, code)], stdout=subprocess.PIPE, text=True, check=True)
    found: Found = json.loads(done.stdout)
    return found


def _peak() -> float:
    """Return the most memory that was resident, in MB: what is mapped, too.

    What getrusage says begins with that of the process which started this one.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(li for li in status.read_text().splitlines() if li.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Measure what is asked for and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=50_000_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", nargs="*", default=list(MEASUREMENTS), choices=list(MEASUREMENTS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        found = MEASUREMENTS[given.one](given.folder, given.seconds)
        print(json.dumps(found | {"peak_mb": _peak()}))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "shards"
        make(folder, given.tokens)
        names = dict.fromkeys(["token_file", *given.only])
        found = {name: measured(name, folder, given.seconds) for name in names}
    print(json.dumps({"tokens": given.tokens, **found}, indent=1))


if __name__ == "__main__":
    main()
