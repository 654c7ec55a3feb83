"""Measures serving beside its peers in the same run, opening, snapshots, and memory.

    python benchmarks/serving.py [--records 1000000] [--folder FOLDER] [--only NAME …]
        [--seconds 6] [--rounds 3] [--sources 4000] [--beside 0] > benchmarks/serving.json

Each measurement is a process of its own. All of them are taken in turns, once a round; unless
``--rounds 1`` is given, a round before them does not count: it makes the corpora and compiles
bytecode. What is printed, as JSON, is the median of the rounds, and under ``rounds`` what each
gave. Corpora and snapshots stay in the folder; to have them made anew, delete it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import first_batch
import serving_corpora as corpora
import serving_memory
import serving_opening
import serving_peers as peers
import serving_snapshots

SECONDS = 6.0  # of measuring a rate, after a third of that
UNCOUNTED = 0.3  # instead, in the first round
CALLS = 500  # of set_weights
PROCESSES = 8
LEAST_HELD = 500 << 20  # bytes of memory: with less the kernel ends the process

Found = dict[str, float]


# ---- samples a second


def rate(take: Callable[[], Any], size: int) -> Found:
    """Return how many samples a second come of taking batches, after a warm-up."""
    started = time.perf_counter()
    while time.perf_counter() - started < SECONDS / 3:
        take()
    count, cpu, started = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        take()
        count += size
    spent = time.perf_counter() - started
    return {"per_s": count / spent, "per_cpu_s": count / (time.process_time() - cpu)}


def _lists(sampler: Any) -> None:
    batch = next(sampler)
    for name in ("anchor", "positive", "negative"):
        batch[name]


def _ours(
    corpus: Path, size: int, take: Callable[[Any], Any] = _lists, /, **arguments: Any
) -> Found:
    import duckplets as dp

    with dp.Corpus(corpus, read_only=True) as opened:
        sampler = opened.sampler(batch_size=size, **arguments)
        return rate(lambda: take(sampler), size)


def lists_256(folder: Path, records: int) -> Found:
    return _ours(corpora.prepared(corpora.plain(folder, records)), 256)


def lists_32(folder: Path, records: int) -> Found:
    return _ours(corpora.prepared(corpora.plain(folder, records)), 32)


def arrow_256(folder: Path, records: int) -> Found:
    path = corpora.prepared(corpora.plain(folder, records))
    return _ours(path, 256, lambda sampler: next(sampler).table)


def no_duplicates(folder: Path, records: int) -> Found:
    path = corpora.prepared(corpora.plain(folder, records))
    return _ours(path, 256, no_duplicates=True)


def ten_sources(folder: Path, records: int) -> Found:
    path = corpora.prepared(corpora.ten(folder, records))
    return _ours(path, 256, mixture=corpora.changing_mixture())


def mined(folder: Path, records: int) -> Found:
    path = corpora.prepared(corpora.mined(folder, records))
    return _ours(path, 256, recipes=[corpora.recipe()])


def one_of_eight(folder: Path, records: int) -> Found:
    path = corpora.prepared(corpora.plain(folder, records))
    return _ours(path, 256, rank=1, world_size=8)


def held(folder: Path, records: int) -> Found:
    """Batches of 256 with memory for a tenth of snapshot and texts, pages of files counted."""
    path = corpora.plain(folder, records)
    files = [path, *corpora.served_from(path)]
    size = max(LEAST_HELD, sum(file.stat().st_size for file in files[1:]) // 10)
    serving_memory.evict(files)
    with serving_memory.Held(size):
        found = _ours(path, 256)
    return found | {"held_mb": size / 1e6, "read_mb": first_batch.read_mb()}


def _peer(batches: Callable[[Path, int], Iterator[Any]], size: int) -> Callable[..., Found]:
    def measure(folder: Path, records: int) -> Found:
        made = batches(corpora.parquet(folder, records), size)
        return rate(lambda: next(made), size)

    return measure


# ---- weights


def set_weights_one(folder: Path, records: int) -> Found:
    path = corpora.prepared(corpora.plain(folder, records))
    return _set_weights(path, lambda call: {"text": 1.0 + call % 7})


def set_weights_ten(folder: Path, records: int) -> Found:
    path = corpora.prepared(corpora.ten(folder, records))
    return _set_weights(path, lambda call: {f"s{call % 10}": 1.0 + call % 7})


def _set_weights(corpus: Path, weights: Callable[[int], dict[str, float]]) -> Found:
    """Set other weights before every batch."""
    import duckplets as dp

    spent = []
    with dp.Corpus(corpus, read_only=True) as opened:
        sampler = opened.sampler(batch_size=256)
        for _ in range(20):
            _lists(sampler)
        for call in range(CALLS):
            started = time.perf_counter()
            sampler.set_weights(weights(call))
            _lists(sampler)
            spent.append(1000 * (time.perf_counter() - started))
    spent.sort()
    return {"median_ms": statistics.median(spent), "p99_ms": spent[len(spent) * 99 // 100]}


# ---- several processes


def eight_processes(folder: Path, records: int) -> Found:
    """Ranks of one run at the same time: samples a second, and private memory, of all."""
    corpora.prepared(corpora.plain(folder, records))
    command = [sys.executable, __file__, "--folder", str(folder), "--records", str(records)]
    told = ["--seconds", str(SECONDS), "--rank"]
    running = [
        subprocess.Popen(
            [*command, *told, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for rank in range(PROCESSES)
    ]
    try:
        for process in running:
            process.stdout.readline()
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        every = [json.loads(process.communicate()[0]) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    sums = {n: sum(one[n] for one in every) for n in ("per_s", "anonymous_mb")}
    return sums | {"per_cpu_s": statistics.mean(one["per_cpu_s"] for one in every)}


def _one_rank(folder: Path, records: int, rank: int) -> None:
    """Open a rank, say so, wait for the word, and sample."""
    import duckplets as dp

    with dp.Corpus(corpora.plain(folder, records), read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=256, rank=rank, world_size=PROCESSES)
        for _ in range(64):
            _lists(sampler)
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(rate(lambda: _lists(sampler), 256) | first_batch.memory()))


# What is compared stands close together: the load of the machine changes within a round.
MEASUREMENTS: dict[str, Callable[[Path, int], Found]] = {
    f.__name__: f
    for f in (
        *(lists_256, arrow_256, lists_32, no_duplicates, ten_sources, mined, one_of_eight),
        *(eight_processes, held, set_weights_one, set_weights_ten),
        *serving_opening.MEASUREMENTS,
        *serving_snapshots.MEASUREMENTS,
    )
}
PEERS = {
    "grain_256": _peer(peers.grain, 256),
    "grain_32": _peer(peers.grain, 32),
    **{
        f.__name__: _peer(f, 256)
        for f in (
            *(peers.python_lists, peers.object_arrays, peers.datasets_buffer),
            *(peers.datasets_random, peers.datasets_arrow, peers.datasets_in_batch),
        )
    },
}
EVERY = PEERS | MEASUREMENTS


def _one(name: str, folder: Path, records: int) -> None:
    found = EVERY[name](folder, records)
    print(json.dumps({k: round(value, 3) for k, value in (first_batch.memory() | found).items()}))


def medians(every: list[Found]) -> Found:
    """Return the median of each figure."""
    return {name: statistics.median(one[name] for one in every) for name in every[0]}


def _round(names: list[str], arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Return what each measurement gives, or why it fails."""
    found: dict[str, Any] = {}
    given = ("folder", "records", "sources")
    told = [part for n in given for part in (f"--{n}", str(getattr(arguments, n)))]
    for name in names:
        command = [sys.executable, __file__, "--one", name, "--seconds", str(seconds), *told]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        found[name] = json.loads(lines[-1]) if done.returncode == 0 else done.stderr[-500:]
        print(name, found[name], file=sys.stderr, flush=True)
        os.sync()  # what one has written is not written during the next
    return found


def _all(names: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "records": arguments.records,
        "seconds": arguments.seconds,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        **{name: version(name) for name in ("duckdb", "pyarrow", "grain", "datasets")},
        "buffer": peers.BUFFER,
        "calls": CALLS,
        "sampling": serving_opening.SAMPLING,
        "load_before": os.getloadavg()[0],
    }
    if arguments.rounds > 1:
        _round(names, arguments, UNCOUNTED)
    rounds = [_round(names, arguments, arguments.seconds) for _ in range(arguments.rounds)]
    for name in names:
        every = [one[name] for one in rounds]
        failed = [one for one in every if isinstance(one, str)]
        results[name] = failed[0] if failed else medians(every)
    if arguments.beside:
        few = argparse.Namespace(**{**vars(arguments), "records": arguments.beside})
        found = _round(["lists_256"], few, arguments.seconds)
        results["beside"] = {"records": arguments.beside, **found}
    return results | {"rounds": rounds}


def main() -> None:
    global SECONDS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "duckplets-serving"
    )
    parser.add_argument("--only", nargs="*", choices=EVERY)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sources", type=int, default=0, help="also open a corpus of so many")
    parser.add_argument(
        "--beside", type=int, default=0, help="so many records to compare the first figure with"
    )
    parser.add_argument("--one", choices=EVERY, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    SECONDS, serving_opening.SOURCES = arguments.seconds, arguments.sources
    if SECONDS < 1:
        serving_opening.hurry()
    if arguments.rank is not None:
        _one_rank(arguments.folder, arguments.records, arguments.rank)
    elif arguments.one:
        _one(arguments.one, arguments.folder, arguments.records)
    else:
        names = arguments.only or [
            n for n in EVERY if arguments.sources or n != "open_many_sources"
        ]
        print(json.dumps(_all(names, arguments), indent=2))


if __name__ == "__main__":
    main()
