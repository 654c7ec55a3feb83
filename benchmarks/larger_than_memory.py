"""Measures what is served with memory for a tenth of what runs read, in turns with the disk itself.

    python benchmarks/larger_than_memory.py [--records 10000000] [--turns 3] [--seconds 60]
        [--long 600] [--in-place] [--folder FOLDER]

Needs a control group of its own, so root on Linux. A turn measures, each in a process of its own and
with no page of snapshot and texts in memory: the disk's random reads of 4 kB by 32 threads; the sampler
within a tenth of both and 300 MB, its first batch with ``no_duplicates`` too; ``datasets`` at
random within the same. Once besides: the sampler with all in memory, and a long turn. What a host
keeps of a file that was read cannot be seen from inside, so compare within a turn. With --in-place
records are sections of 600 bytes whose text stays in a Parquet file, and all is never in memory.
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import scale
import serving_corpora
import serving_memory
import serving_peers

BATCH = 256
BESIDE_MB = 300  # what a process may have besides a tenth of snapshot and texts
READS_A_TRIPLET = 3.5
THREADS = 32


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def served(batches: Iterator[Any], seconds: float) -> dict[str, float]:
    """Take batches as lists for some time."""
    count, begun, before = 0, time.perf_counter(), cpu()
    while (took := time.perf_counter() - begun) < seconds:
        batch = next(batches)
        count += len({name: batch[name] for name in batch.keys()}["anchor"])  # noqa: SIM118
    return {"per_s": count / took, "cpu_us": (cpu() - before) / count * 1e6}


def sampled(corpus: Path, folder: Path, seconds: float, seed: int, **how: Any) -> dict[str, Any]:
    """Measure a sampler, from opening on."""
    import duckplets as dp

    assert dp.Corpus, "it is imported when it is first used"
    begun = time.perf_counter()
    with (
        serving_memory.Peak() as peak,
        dp.Corpus(corpus, read_only=True) as opened,
        opened.sampler(
            batch_size=BATCH, seed=seed, **how, options=dp.Options(snapshot=folder)
        ) as sampler,
    ):
        opening = time.perf_counter() - begun
        next(sampler)
        first = time.perf_counter() - begun - opening
        found = served(sampler, seconds) if seconds else {}
        metrics = {k: v for k, v in sampler.metrics().items() if k.startswith("read_ahead")}
        begun = time.perf_counter()
    return {
        **found,
        **metrics,
        "opening_s": opening,
        "first_batch_s": first,
        "closing_s": time.perf_counter() - begun,
        "private_mb": peak.mb,
    }


def disk(files: list[Path], seconds: float) -> dict[str, float]:
    """Measure random reads of 4 kB in the largest of some files by threads."""
    file = max(files, key=lambda path: path.stat().st_size)
    pages, number = file.stat().st_size // 4096 - 1, os.open(file, os.O_RDONLY)
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM)
    counts, until = [0] * THREADS, time.perf_counter() + seconds

    def read(thread: int) -> None:
        draw = random.Random(os.getpid() * THREADS + thread)
        while time.perf_counter() < until:
            os.pread(number, 4096, draw.randrange(pages) * 4096)
            counts[thread] += 1

    threads = [threading.Thread(target=read, args=(n,)) for n in range(THREADS)]
    before = cpu()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count = sum(counts)
    return {"reads_per_s": count / seconds, "cpu_us": (cpu() - before) / count * 1e6}


def apart(what: str, arguments: argparse.Namespace, **how: Any) -> dict[str, Any]:
    """Measure one thing in a process of its own."""
    told = json.dumps({"what": what, **how})
    command = [sys.executable, __file__, "--folder", str(arguments.folder), "--one", told]
    command += ["--records", str(arguments.records)]
    command += ["--in-place"] * arguments.in_place
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [str(done.returncode)])[-1][:200]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def one(told: dict[str, Any], corpus: Path, folder: Path, parquet: Path) -> dict[str, Any]:
    """Measure one thing in this process."""
    files = serving_corpora.served_from(corpus)
    seconds, seed = float(told.get("seconds", 0)), int(told.get("seed", 1))
    if told["what"] == "warm":
        for path in files:
            with path.open("rb") as file:
                while file.read(1 << 24):
                    pass
        sampled(corpus, folder, 5, seed)
        return sampled(corpus, folder, seconds, seed)
    serving_memory.evict([*files, parquet])
    if told["what"] == "disk":
        return disk(files, seconds)
    size = sum(path.stat().st_size for path in files)
    with serving_memory.Held(size // 10 + (BESIDE_MB << 20)):
        if told["what"] == "datasets":
            return served(serving_peers.datasets_random(parquet, BATCH), seconds)
        more = {"no_duplicates": True} if told["what"] == "no_duplicates" else {}
        return sampled(corpus, folder, seconds, seed, **more)


def made(arguments: argparse.Namespace) -> tuple[Path, Path, Path]:
    """Return the corpus, its snapshot and the text that it was made from; they are made once."""
    import duckplets as dp

    if arguments.in_place:
        corpus, parquet = _left_in_place(arguments.folder, arguments.records)
    else:
        corpus = serving_corpora.plain(arguments.folder, arguments.records)
        parquet = serving_corpora.parquet(arguments.folder, arguments.records)
    if not (snapshot := serving_corpora.snapshot_of(corpus)).exists():
        with dp.Corpus(corpus, read_only=True) as opened:
            opened.prepare(progress=False)
    return corpus, snapshot, parquet


def _left_in_place(folder: Path, records: int) -> tuple[Path, Path]:
    import duckplets as dp

    parquet, corpus = scale.write(folder, records), folder / f"{records}.duckdb"
    if not corpus.exists():
        making = corpus.with_suffix(".making.duckdb")
        serving_corpora.remove(making)
        with dp.Corpus(making) as made:
            source = dp.sources.ParquetSource(parquet, text="text", id="id")
            made.ingest(source, name="text", in_place=True, progress=False)
            made.split(0.99, 0.005, 0.005)
        making.rename(corpus)
    return corpus, parquet


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*"))


def middle(turns: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> float:
    return median(value(turn) for turn in turns)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--long", type=float, default=600)
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", type=json.loads)
    arguments = parser.parse_args()
    if arguments.folder is None:
        arguments.folder = Path(tempfile.mkdtemp(prefix="duckplets-"))
    arguments.folder.mkdir(exist_ok=True)
    corpus, folder, parquet = made(arguments)
    if arguments.one:
        print(json.dumps(one(arguments.one, corpus, folder, parquet)))
        return
    load, turns = os.getloadavg()[0], []
    for number in range(arguments.turns):
        timed = {"seconds": arguments.seconds, "seed": number}
        turn = {"disk": apart("disk", arguments, seconds=min(20, arguments.seconds))}
        turn["held"] = apart("held", arguments, **timed)
        turn["no_duplicates"] = apart("no_duplicates", arguments, seed=number)
        if not arguments.in_place:
            turn["datasets"] = apart("datasets", arguments, seconds=min(20, arguments.seconds))
        turns.append(turn)
        print(json.dumps(turn), file=sys.stderr, flush=True)
    found = {
        "records": arguments.records,
        "corpus_bytes": corpus.stat().st_size,
        "parquet_bytes": parquet.stat().st_size,
        "snapshot_bytes": _bytes(folder),
        "texts_bytes": _bytes(serving_corpora.texts_of(corpus)),
        "load_before": load,
        "turns": turns,
        "reads_per_s": middle(turns, lambda turn: turn["disk"]["reads_per_s"]),
        "per_s": middle(turns, lambda turn: turn["held"]["per_s"]),
        "of_the_disk": middle(
            turns,
            lambda turn: turn["held"]["per_s"] * READS_A_TRIPLET / turn["disk"]["reads_per_s"],
        ),
    }
    if not arguments.in_place:
        found["warm"] = apart("warm", arguments, seconds=min(20, arguments.seconds))
    if arguments.long:
        found["long"] = apart("held", arguments, seconds=arguments.long, seed=99)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
