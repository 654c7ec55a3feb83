"""Measures ingest of a data set from a hub on this machine, beside the same files from disk.

    RECORDS=1000000 python benchmarks/hub.py [--folder FOLDER] [--runs 3]

The hub is the one of the tests, in a process of its own, as is each ingest, so that its peak
memory is its own. Each shard is brought over
HTTP, checked and written, while the one before is read. Prints one JSON object; runs of the two
take turns, and the best of each counts.
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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SHARDS = 8
MAPPING: dict[str, Any] = {"anchor": "title", "positive": "body", "id": "id"}


def write(folder: Path, records: int) -> Path:
    """Write the records as a data set of Parquet shards, unless it is there."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from text import batches

    data = folder / f"hub{records}" / "org" / "text" / "data"
    if not data.exists():
        aside = data.with_name("aside")
        aside.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_batches(batches(records))
        each = -(-records // SHARDS)
        for i in range(SHARDS):
            name = f"train-{i:05d}-of-{SHARDS:05d}.parquet"
            pq.write_table(table.slice(i * each, each), aside / name, row_group_size=50_000)
        aside.rename(data)
    return data


def ingest(kind: str, data: Path, folder: Path) -> None:
    """Ingest the data set, and print the seconds, those of all cores, and the peak in MB."""
    import duckplets as dp
    from duckplets.sources.remote.hub import HubSource

    path = folder / f"{kind}.duckdb"
    path.unlink(missing_ok=True)
    source: Any = HubSource("hf://org/text", **MAPPING)
    if kind == "disk":
        source = dp.sources.ParquetSource(sorted(data.glob("*.parquet")), **MAPPING)
    else:  # imports are no part of reading
        import huggingface_hub

        huggingface_hub.HfApi()
    started, used = time.perf_counter(), time.process_time()
    with dp.Corpus(path) as corpus:
        corpus.split()
        report = corpus.ingest(source, name="text", progress=False)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"seconds": seconds, "cpu_seconds": used, "peak_mb": peak, "records": report.added}
    print(json.dumps(found))


def measure(
    folder: Path | None = None, records: int | None = None, runs: int = 3
) -> dict[str, Any]:
    """Return the seconds and peaks of both, and their ratio.

    Args:
        folder: For the data, the corpora and the cache; by default a temporary one.
        records: How many; by default RECORDS of the environment, or a million.
        runs: Of each; the fastest counts.
    """
    folder = folder or Path(tempfile.gettempdir()) / "duckplets-bench"
    records = records or int(os.environ.get("RECORDS", 1_000_000))
    folder.mkdir(parents=True, exist_ok=True)
    data = write(folder, records)
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "hub_server.py"), str(data.parents[2])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    found: dict[str, list[dict[str, float]]] = {"disk": [], "hub": []}
    try:
        environment = {**os.environ, "HF_ENDPOINT": server.stdout.readline().strip()}
        for _ in range(runs):
            for kind, results in found.items():
                command = [sys.executable, __file__, "--one", kind, "--folder", str(folder)]
                done = subprocess.run(
                    [*command, "--data", str(data)],
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                    env=environment,
                )
                results.append(json.loads(done.stdout.splitlines()[-1]))
    finally:
        server.communicate()
    best = {kind: min(results, key=lambda r: r["seconds"]) for kind, results in found.items()}
    size = sum(file.stat().st_size for file in data.glob("*.parquet"))
    result: dict[str, Any] = {"records": records, "shards": SHARDS, "mb": round(size / 1e6, 1)}
    for kind, one in best.items():
        assert one["records"] == records
        result[f"{kind}_seconds"] = round(one["seconds"], 2)
        result[f"{kind}_cpu_seconds"] = round(min(r["cpu_seconds"] for r in found[kind]), 2)
        result[f"{kind}_peak_mb"] = round(max(r["peak_mb"] for r in found[kind]))
    result["ratio"] = round(best["hub"]["seconds"] / best["disk"]["seconds"], 3)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", choices=("disk", "hub"), help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        ingest(arguments.one, arguments.data, arguments.folder)
    else:
        print(json.dumps(measure(arguments.folder, runs=arguments.runs), indent=2))


if __name__ == "__main__":
    main()
