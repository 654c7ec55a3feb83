"""Measures ingest, sampling, first batches, saves and memory, beside Grain in the same run.

    python benchmarks/run.py [--records 1000000] [--folder FOLDER] [--only NAME …]

Each measurement is a process of its own, so that its peak memory is its own. Prints one JSON
object; figures for the documentation are medians of several runs on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import index_order
import serving_peers

SECONDS = 6.0  # of measuring, after a warm-up


def ingest_parquet(folder: Path, records: int) -> dict[str, float]:
    return _ingest(folder, records, "parquet")


def ingest_csv(folder: Path, records: int) -> dict[str, float]:
    return _ingest(folder, records, "csv")


def _ingest(folder: Path, records: int, kind: str) -> dict[str, float]:
    import duckplets as dp

    path = folder / f"{kind}.duckdb"
    path.unlink(missing_ok=True)
    sources = {"parquet": dp.ParquetSource, "csv": dp.CsvSource}
    source = sources[kind](folder / f"{records}.{kind}", anchor="title", positive="body", id="id")
    started = time.perf_counter()
    with dp.Corpus(path) as corpus:
        corpus.split()
        corpus.ingest(source, name="text", progress=False)
    seconds = time.perf_counter() - started
    return {"records_per_s": records / seconds, "seconds": seconds, "file_mb": _mb(path)}


def second_ingest(folder: Path, records: int) -> dict[str, float]:
    import duckplets as dp

    rows = [
        {"id": f"new{i}", "title": f"title {i}", "body": f"{i} " + "a body of words " * 25}
        for i in range(10_000)
    ]
    source = dp.MemorySource(rows, anchor="title", positive="body", id="id")
    started = time.perf_counter()
    with dp.Corpus(folder / "csv.duckdb") as corpus:
        corpus.ingest(source, name="text", progress=False)
    return {"seconds": time.perf_counter() - started}


def first_batch(folder: Path, records: int) -> dict[str, float]:
    started = time.perf_counter()
    import duckplets as dp

    with dp.Corpus(folder / "parquet.duckdb", read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=256)
        next(sampler).to_pydict()
        seconds = time.perf_counter() - started
        for _ in range(10**7 // 256):
            sampler.move(sampler.position + 256)
        saved = []
        for _ in range(20):
            before = time.perf_counter()
            sampler.save()
            saved.append(time.perf_counter() - before)
    return {"seconds": seconds, "save_ms": 1000 * sorted(saved)[10]}


def resumed_batch(folder: Path, records: int) -> dict[str, float]:
    started = time.perf_counter()
    import duckplets as dp

    with dp.resume(folder / "parquet.duckdb") as sampler:
        next(sampler).to_pydict()
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "position": sampler.position}


def sample_256(folder: Path, records: int) -> dict[str, float]:
    return _sample(folder, 256)


def sample_32(folder: Path, records: int) -> dict[str, float]:
    return _sample(folder, 32)


def sample_small_memory(folder: Path, records: int) -> dict[str, float]:
    return _sample(folder, 256, memory_limit="500MB")


def sample_no_duplicates(folder: Path, records: int) -> dict[str, float]:
    return _sample(folder, 256, no_duplicates=True)


def ingest_ten_sources(folder: Path, records: int) -> dict[str, float]:
    """The same text as ten sources."""
    import pyarrow.parquet as pq

    import duckplets as dp

    path = folder / "ten.duckdb"
    path.unlink(missing_ok=True)
    table, tenth = pq.read_table(folder / f"{records}.parquet"), records // 10
    started = time.perf_counter()
    with dp.Corpus(path) as corpus:
        corpus.split()
        for i in range(10):
            part = folder / "part.parquet"
            pq.write_table(table.slice(i * tenth, tenth), part)
            source = dp.ParquetSource(part, anchor="title", positive="body", id="id")
            corpus.ingest(source, name=f"s{i}", progress=False)
            part.unlink()
    return {"records_per_s": records / (time.perf_counter() - started)}


def changing_mixture() -> Any:
    """Ten weights that change every 500 steps."""
    import duckplets as dp

    weights = {f"s{i}": 1.0 + i for i in range(10)}
    phases = [
        dp.Phase(step, {f"s{step // 500 % 10}": 20.0}, lr_scale=0.5)
        for step in range(500, 50_000, 500)
    ]
    return dp.Mixture(weights, temperature=1.5, phases=phases)


def sample_ten_sources(folder: Path, records: int) -> dict[str, float]:
    import duckplets as dp

    with dp.Corpus(folder / "ten.duckdb", read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=256, mixture=changing_mixture())
        return _rate(lambda: next(sampler).to_pydict(), 256)


def relative_costs(folder: Path, records: int) -> dict[str, float]:
    """Processor time of a batch against that of a plain one, by turns in one process."""
    import duckplets as dp

    with (
        dp.Corpus(folder / "parquet.duckdb", read_only=True) as one,
        dp.Corpus(folder / "ten.duckdb", read_only=True) as ten,
    ):
        samplers = {
            "plain": one.sampler(batch_size=256, prefetch=0),
            "ten_sources": ten.sampler(batch_size=256, prefetch=0, mixture=changing_mixture()),
            "no_duplicates": one.sampler(batch_size=256, prefetch=0, no_duplicates=True),
        }
        spent: dict[str, list[float]] = {name: [] for name in samplers}
        rounds, batches = (9, 512) if SECONDS > 1 else (1, 8)
        for sampler in samplers.values():
            for _ in range(batches):
                next(sampler)
        for _ in range(rounds):
            for name, sampler in samplers.items():
                before = time.process_time()
                for _ in range(batches):
                    next(sampler).to_pydict()
                spent[name].append(time.process_time() - before)
    median = {name: sorted(times)[len(times) // 2] for name, times in spent.items()}
    return {
        "ten_sources": median["ten_sources"] / median["plain"],
        "no_duplicates": median["no_duplicates"] / median["plain"],
    }


def sample_one_of_eight(folder: Path, records: int) -> dict[str, float]:
    """What rank 1 of 8 takes: it plans all positions, and fetches its own."""
    return _sample(folder, 256, rank=1, world_size=8)


def _sample(
    folder: Path, size: int, memory_limit: str | None = None, **more: Any
) -> dict[str, float]:
    import duckplets as dp

    path = folder / "parquet.duckdb"
    with dp.Corpus(path, read_only=True, memory_limit=memory_limit) as corpus:
        sampler = corpus.sampler(batch_size=size, **more)
        return _rate(lambda: next(sampler).to_pydict(), size)


def grain_256(folder: Path, records: int) -> dict[str, float]:
    return _grain(folder, records, 256)


def grain_32(folder: Path, records: int) -> dict[str, float]:
    return _grain(folder, records, 32)


def _grain(folder: Path, records: int, size: int) -> dict[str, float]:
    batches = serving_peers.grain(folder / f"{records}.parquet", size)
    return _rate(lambda: next(batches), size)


def _rate(take: Callable[[], Any], size: int) -> dict[str, float]:
    for _ in range(max(1, 200_000 // size)):
        take()
    count, cpu, started = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        take()
        count += size
    seconds = time.perf_counter() - started
    return {"per_s": count / seconds, "per_cpu_s": count / (time.process_time() - cpu)}


def read_256(folder: Path, records: int) -> dict[str, float]:
    """Records read by a shuffled order, 256 a batch, as dicts of lists."""
    import duckplets as dp

    with dp.Corpus(folder / "parquet.duckdb", read_only=True) as corpus:
        order = dp.IndexSampler(records, shuffle=True, seed=42)
        batches = corpus.read(order, batch_size=256, columns=["record_id", "text"])
        return {"reads_per_s": _rate(lambda: next(batches).to_pydict(), 256)["per_s"]}


def ten_million_anchors(folder: Path, records: int) -> dict[str, float]:
    """The order of a run over ten million anchors, in ten sources with phases: no texts.

    Made, and asked for the first block and for one at position 10^12.
    """
    import numpy as np

    from duckplets.order.mixture import Mixture, Phase
    from duckplets.order.permute import key, ranks_at
    from duckplets.order.schedule import Schedule

    def block(start: int) -> int:
        total = 0
        for share in schedule.deal(np.arange(start, start + 65_536)):
            stream = key(42, schedule.sources[share.leaf])
            items, _ = ranks_at(stream, 10**6, share.indexes)
            total += len(np.unique(items))
        return total

    started = time.perf_counter()
    names = [f"s{i}" for i in range(10)]
    phases = [Phase(step, {names[step // 1000]: 5.0}) for step in range(1000, 10_000, 1000)]
    schedule = Schedule(Mixture({}, phases=phases), names, seed=42, batch=256)
    block(0)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    block(10**12)
    return {"seconds": seconds, "far_seconds": time.perf_counter() - started}


MEASUREMENTS: dict[str, Callable[[Path, int], dict[str, float]]] = {
    f.__name__: f
    for f in (
        *(ingest_parquet, ingest_csv, ingest_ten_sources, second_ingest),
        *(first_batch, resumed_batch),
        *(sample_256, sample_32, sample_small_memory, sample_no_duplicates),
        *(sample_ten_sources, sample_one_of_eight, relative_costs),
        *(grain_256, grain_32),
        *(ten_million_anchors, index_order.index_order, read_256),
        index_order.grain_index_order,
    )
}


def _mb(path: Path) -> float:
    return path.stat().st_size / 1e6


def _one(name: str, folder: Path, records: int) -> None:
    found = MEASUREMENTS[name](folder, records)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({key: round(value, 3) for key, value in found.items()}))


def _all(names: list[str], folder: Path, records: int) -> dict[str, Any]:
    import duckdb

    from text import write  # isort: skip

    write(folder, records)
    (folder / "parquet.state.duckdb").unlink(missing_ok=True)
    results: dict[str, Any] = {
        "records": records,
        "python": platform.python_version(),
        "duckdb": duckdb.__version__,
        "cpus": os.cpu_count(),
        "load_before": os.getloadavg()[0],
    }
    for name in names:
        command = [sys.executable, __file__, "--one", name, "--folder", str(folder)]
        done = subprocess.run(
            [*command, "--records", str(records)], capture_output=True, text=True, check=False
        )
        lines = done.stdout.splitlines()
        results[name] = json.loads(lines[-1]) if done.returncode == 0 else done.stderr[-500:]
        print(name, results[name], file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "duckplets-bench"
    )
    parser.add_argument("--only", nargs="*", choices=MEASUREMENTS, default=list(MEASUREMENTS))
    parser.add_argument("--one", choices=MEASUREMENTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.one:
        _one(arguments.one, arguments.folder, arguments.records)
    else:
        print(json.dumps(_all(arguments.only, arguments.folder, arguments.records), indent=2))


if __name__ == "__main__":
    main()
