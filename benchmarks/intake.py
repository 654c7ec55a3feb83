"""Measures an ingest in processor time a row, beside a bare statement of DuckDB.

    python benchmarks/intake.py [--rows 200000] [--rounds 3] [--only NAME …] > benchmarks/intake.json

Each measurement runs in a process of its own, in turns; figures are medians over the rounds. The
bare statement reads the Parquet file, hashes each row twice and stores both texts, with DuckDB's
default number of threads. ``one_call`` ingests with ``prepare=True``, in place of ``split`` and
``prepare`` afterwards. ``datasets`` and ``lancedb`` are measured where they are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

NAMES = (
    *("bare", "parquet", "one_call", "in_place", "in_place_one_call", "beyond_ascii", "nulls"),
    *("typed", "csv", "jsonl", "datasets", "lancedb"),
)
BARE = """
CREATE TABLE records AS
SELECT row_number() OVER () AS record_key, id, sha256(concat(title, body)) AS digest
FROM read_parquet('{file}');
CREATE TABLE sections AS
SELECT row_number() OVER () AS section_key, md5(text) AS hash, text
FROM (SELECT unnest([title, body]) AS text FROM read_parquet('{file}'))
"""


def make(folder: Path, rows: int) -> None:
    """Write the files: an id, a title of some 50 bytes and a body of some 516."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet as pq

    words = np.array([f"{w}{i}" for i in range(500) for w in ("tree", "river", "a", "of")])
    drawn = np.random.default_rng(7).choice(words, (rows, 84)).tolist()
    table = pa.table(
        {
            "id": [f"r{i}" for i in range(rows)],
            "title": [" ".join(row[:8]) for row in drawn],
            "body": [" ".join(row[8:]) for row in drawn],
        }
    )
    pq.write_table(table, folder / "parquet.parquet")
    beyond = {n: pc.binary_join_element_wise("é", table[n], "") for n in ("title", "body")}
    pq.write_table(pa.table({"id": table["id"]} | beyond), folder / "beyond_ascii.parquet")
    body = pa.array(
        [None if i % 20 == 0 else row for i, row in enumerate(table["body"].to_pylist())]
    )
    pq.write_table(table.set_column(2, "body", body), folder / "nulls.parquet")
    days = pa.array(np.arange(rows) % 9_000, pa.int32()).cast(pa.date32())
    typed = table.set_column(0, "id", pa.array(range(rows))).append_column("day", days)
    typed = typed.append_column("kind", pa.array([f"k{i % 9}" for i in range(rows)]))
    pq.write_table(typed, folder / "typed.parquet")
    pa.csv.write_csv(table, folder / "csv.csv")
    with (folder / "jsonl.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in table.to_pylist())


def one(name: str, folder: Path) -> dict[str, float]:
    """Return the processor seconds of one measurement."""
    begun, wall = time.process_time(), time.monotonic()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        if name == "bare":
            import duckdb

            with duckdb.connect(f"{beside}/bare.duckdb") as database:
                database.execute(BARE.format(file=folder / "parquet.parquet"))
        elif name == "datasets":
            import datasets

            file = str(folder / "parquet.parquet")
            datasets.Dataset.from_parquet(file, cache_dir=beside)
        elif name == "lancedb":
            import lancedb
            import pyarrow.parquet as pq

            table = pq.read_table(folder / "parquet.parquet")
            lancedb.connect(beside).create_table("rows", table)
        else:
            found = _ingested(name, folder, Path(beside))
        return {"ingest": time.process_time() - begun, "wall": time.monotonic() - wall} | found


def _ingested(name: str, folder: Path, beside: Path) -> dict[str, float]:
    import duckplets as dp

    kinds: dict[str, Any] = {"csv": dp.sources.CsvSource, "jsonl": dp.sources.JsonSource}
    more = {"date": "day", "group": "kind", "meta": ["kind"]} if name == "typed" else {}
    file = next(folder.glob(f"{name}.*"), folder / "parquet.parquet")
    is_one_call = name.endswith("one_call")
    options = dp.IngestOptions(in_place="in_place" in name, prepare=is_one_call or None)
    source = kinds.get(name, dp.sources.ParquetSource)(
        file, anchor="title", positive="body", id="id", **more
    )
    with dp.Corpus(beside / "one.duckdb") as corpus:
        begun, wall = time.process_time(), time.monotonic()
        corpus.ingest(source, name="s", progress=False, options=options)
        ingest, wall = time.process_time() - begun, time.monotonic() - wall
        if not is_one_call:
            corpus.split()
            corpus.prepare()
        whole = time.process_time() - begun
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1e6
    return {"ingest": ingest, "wall": wall, "ingest_split_prepare": whole, "peak_gb": peak}


def main() -> None:
    """Measure everything and print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--one", nargs=2)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(asked.one[0], Path(asked.one[1]))))
        return
    found: dict[str, Any] = {"rows": asked.rows, "load_before": os.getloadavg()[0]}
    each: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), asked.rows)
        for _ in range(asked.rounds):
            for name in asked.only:
                command = [sys.executable, __file__, "--one", name, folder]
                ended = subprocess.run(command, capture_output=True, text=True, check=False)
                if ended.returncode == 0:
                    each.setdefault(name, []).append(json.loads(ended.stdout))
                elif "ModuleNotFoundError" not in ended.stderr:
                    sys.exit(ended.stderr)
    for name, rounds in each.items():
        middle = {key: median(of[key] for of in rounds) for key in rounds[0]}
        micros = {
            k: round(v if k == "peak_gb" else v / asked.rows * 1e6, 2) for k, v in middle.items()
        }
        found[name] = micros
        if "bare" in found:
            micros["ingest_to_bare"] = round(micros["ingest"] / found["bare"]["ingest"], 2)
    found |= {"unit": "microseconds a row; processor time but for wall", "cpus": os.cpu_count()}
    json.dump(found | {"load_after": os.getloadavg()[0]}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
