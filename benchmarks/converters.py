"""Measures converting Alpaca rows, beside a plain Python converter in the same run.

    python benchmarks/converters.py        # 300,000 rows; another number: RECORDS=10000

Every measurement is a process of its own, so that its peak memory is its own. Rows are read from
a file to the end of the source, with ids and checks; storing them in a corpus is not part of it.
Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from text import batches

RECORDS = int(os.environ.get("RECORDS", "300000"))
RUNS = int(os.environ.get("RUNS", "3"))  # the best of them counts: others use the machine too


def write(folder: Path) -> None:
    """Write Alpaca rows, a third with an input, a tenth with a system."""
    schema = pa.schema([(n, pa.string()) for n in ("system", "instruction", "input", "output")])
    with (
        (folder / "alpaca.jsonl").open("w", encoding="utf-8") as lines,
        pq.ParquetWriter(folder / "alpaca.parquet", schema) as out,
    ):
        for number, batch in enumerate(batches(RECORDS)):
            rows = [
                {
                    "system": "You are a helpful assistant." if i % 10 == 0 else "",
                    "instruction": row["title"],
                    "input": row["body"][-90:] if i % 3 == 0 else "",
                    "output": f"{row['body'][:270]}\n({number}, {i})",
                }
                for i, row in enumerate(batch.to_pylist())
            ]
            lines.writelines(json.dumps(row) + "\n" for row in rows)
            out.write_table(pa.Table.from_pylist(rows, schema))


def alpaca_jsonl(folder: Path) -> int:
    """Our converter over lines of JSON."""
    import duckplets as dp

    return _read(dp.sources.JsonSource(folder / "alpaca.jsonl", converter="alpaca"))


def alpaca_parquet(folder: Path) -> int:
    """Our converter over columns."""
    import duckplets as dp

    return _read(dp.sources.ParquetSource(folder / "alpaca.parquet", converter="alpaca"))


def columns_jsonl(folder: Path) -> int:
    """The same lines without a converter: instruction and output."""
    import duckplets as dp

    path = folder / "alpaca.jsonl"
    return _read(dp.sources.JsonSource(path, anchor="instruction", positive="output"))


def columns_parquet(folder: Path) -> int:
    """The same columns without a converter: instruction and output."""
    import duckplets as dp

    path = folder / "alpaca.parquet"
    return _read(dp.sources.ParquetSource(path, anchor="instruction", positive="output"))


def python_jsonl(folder: Path) -> int:
    """A function called once a row, as documented by LLaMA-Factory; no checks, no ids."""
    with (folder / "alpaca.jsonl").open(encoding="utf-8") as lines:
        return _written(json.loads(line) for line in lines)


def python_parquet(folder: Path) -> int:
    """The same function over the rows of Parquet's batches."""
    parts = pq.ParquetFile(folder / "alpaca.parquet").iter_batches(1_000)
    return _written(row for part in parts for row in part.to_pylist())


def function_jsonl(folder: Path) -> int:
    """The same function, registered as a converter of one's own."""
    import duckplets as dp
    from duckplets.sources.converters.registry import register_converter

    register_converter("plain", _convert)
    return _read(dp.sources.JsonSource(folder / "alpaca.jsonl", converter="plain"))


def _read(source: Any) -> int:
    from duckplets.db.database import Database

    reader = Database.reader()
    try:
        return sum(batch.num_rows for batch in source.open(reader).batches)
    finally:
        reader.close()


def _written(rows: Iterator[dict[str, Any]]) -> int:
    """Convert rows and write the messages as JSON, as ours are; nothing is kept."""
    return sum(1 for row in rows if json.dumps(_convert(row)["messages"], ensure_ascii=False))


def _convert(row: dict[str, Any]) -> dict[str, Any]:
    messages = []
    if row.get("system"):
        messages.append(_message("system", row["system"], 0.0))
    if "instruction" in row or "input" in row:
        messages.append(_message("user", row.get("instruction", "") + row.get("input", ""), 0.0))
    if "output" in row:
        messages.append(_message("assistant", row["output"], 1.0))
    return {"messages": messages}


def _message(role: str, text: str, weight: float) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "value": text}], "loss_weight": weight}


MEASUREMENTS: dict[str, Callable[[Path], int]] = {
    function.__name__: function
    for function in (
        *(alpaca_jsonl, columns_jsonl, python_jsonl, function_jsonl),
        *(alpaca_parquet, columns_parquet, python_parquet),
    )
}


def one(name: str, folder: Path) -> dict[str, float]:
    """Run a measurement here: rows a second by the clock and by the processor, and peak MB."""
    best, least = float("inf"), float("inf")
    for _ in range(RUNS):
        started, used = time.perf_counter(), time.process_time()
        rows = MEASUREMENTS[name](folder)
        best = min(best, time.perf_counter() - started)
        least = min(least, time.process_time() - used)
    if rows != RECORDS:
        raise SystemExit(f"{name}: {rows} rows of {RECORDS}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "rows_per_s": round(rows / best),
        "rows_per_cpu_s": round(rows / least),
        "peak_mb": round(peak),
    }


def measure() -> dict[str, Any]:
    """Measure everything, each in a process of its own."""
    found: dict[str, Any] = {"records": RECORDS, "cpus": os.cpu_count(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.check_call([sys.executable, __file__, "write", folder], env=os.environ | _path())
        for name in ("jsonl", "parquet"):
            found[f"{name}_mb"] = (Path(folder) / f"alpaca.{name}").stat().st_size / 1e6
        for name in MEASUREMENTS:
            command = [sys.executable, __file__, name, folder]
            found[name] = json.loads(subprocess.check_output(command, env=os.environ | _path()))
    return found


def _path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path[:1]])}


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]))
    elif len(sys.argv) == 3:
        print(json.dumps(one(sys.argv[1], Path(sys.argv[2]))))
    else:
        print(json.dumps(measure(), indent=1))
