"""Measures ingest, saves, orders and whole records, beside Grain in the same run.

    python benchmarks/run.py [--records 1000000] [--folder FOLDER] [--only NAME …]

Each measurement is a process of its own, so that its peak memory is its own. Prints one JSON
object; figures for the documentation are medians of several runs on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import index_order
from first_batch import of_status

SECONDS = 6.0  # of measuring, after a warm-up


def ingest_parquet(folder: Path, records: int) -> dict[str, float]:
    return _ingest(folder, records, "parquet")


def ingest_csv(folder: Path, records: int) -> dict[str, float]:
    return _ingest(folder, records, "csv")


def _ingest(folder: Path, records: int, kind: str) -> dict[str, float]:
    import duckplets as dp

    path = folder / f"{kind}.duckdb"
    path.unlink(missing_ok=True)
    sources = {"parquet": dp.sources.ParquetSource, "csv": dp.sources.CsvSource}
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
    source = dp.sources.MemorySource(rows, anchor="title", positive="body", id="id")
    started = time.perf_counter()
    with dp.Corpus(folder / "csv.duckdb") as corpus:
        corpus.ingest(source, name="text", progress=False)
    return {"seconds": time.perf_counter() - started}


def save(folder: Path, records: int) -> dict[str, float]:
    """A save of a run at position ten million."""
    import duckplets as dp

    with dp.Corpus(folder / "parquet.duckdb", read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=256)
        sampler.move(10**7)
        saved = []
        for _ in range(20):
            before = time.perf_counter()
            sampler.save()
            saved.append(time.perf_counter() - before)
    return {"save_ms": 1000 * sorted(saved)[10]}


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
            source = dp.sources.ParquetSource(part, anchor="title", positive="body", id="id")
            corpus.ingest(source, name=f"s{i}", progress=False)
            part.unlink()
    return {"records_per_s": records / (time.perf_counter() - started)}


def read_256(folder: Path, records: int) -> dict[str, float]:
    """Records read by a shuffled order, 256 a batch, as dicts of lists."""
    import duckplets as dp

    with dp.Corpus(folder / "parquet.duckdb", read_only=True) as corpus:
        order = dp.index.IndexSampler(records, shuffle=True, seed=42)
        batches = corpus.read(order, batch_size=256, columns=["record_id", "text"])
        for _ in range(1_000):
            next(batches)
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < SECONDS:
            count += len(next(batches).to_pydict()["text"])
        return {"reads_per_s": count / (time.perf_counter() - started)}


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
    mixture = Mixture(dict.fromkeys(names, 1.0), phases=phases)
    schedule = Schedule(mixture, names, seed=42, batch=256)
    block(0)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    block(10**12)
    return {"seconds": seconds, "far_seconds": time.perf_counter() - started}


MEASUREMENTS: dict[str, Callable[[Path, int], dict[str, float]]] = {
    f.__name__: f
    for f in (
        *(ingest_parquet, ingest_csv, ingest_ten_sources, second_ingest, save),
        *(ten_million_anchors, index_order.index_order, read_256),
        index_order.grain_index_order,
    )
}


def _mb(path: Path) -> float:
    return path.stat().st_size / 1e6


def _one(name: str, folder: Path, records: int) -> None:
    found = MEASUREMENTS[name](folder, records)
    found["peak_mb"] = of_status("VmHWM")  # ru_maxrss has that of the process that started this
    print(json.dumps({key: round(value, 3) for key, value in found.items()}))


def _all(names: list[str], folder: Path, records: int) -> dict[str, Any]:
    import duckdb

    from text import write  # isort: skip

    write(folder, records)
    (folder / "parquet.state.duckdb").unlink(missing_ok=True)
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
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
