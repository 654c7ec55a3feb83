"""Measures text coming in by two processes of this machine beside this process alone.

    python benchmarks/engine_ingest.py [--rows 1000000] [--documents 100000] [--only NAME …]

The process alone has two threads, and both take in the same files, in turns: on two cores this
measures what an engine costs, not what more machines would gain. Rows have a title and a body of
about 300 characters, in 16 files; documents are those of ``quality_gates.py``, through gates.
Planning lists files of ten rows. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engines
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from quality_gates import documents

import duckplets as dp
from duckplets.engine import opened
from duckplets.sources.limits import FileReader
from duckplets.sources.partitions import cuts_of

FILES = 16
WORDS = ["wind", "water", "stone", "bridge", "river", "garden", "morning", "letter", "window"]


def tables(count: int, several: int) -> list[pa.Table]:
    """Return rows of a title and a body, in several tables."""
    draw = random.Random(1)
    pool = [" ".join(draw.choices(WORDS, k=46)) for _ in range(1000)]
    found = []
    for number in range(several):
        each = range(number * count // several, (number + 1) * count // several)
        bodies = [f"{i} {draw.choice(pool)}" for i in each]
        titles = [body[:30] for body in bodies]
        found.append(pa.table({"id": [str(i) for i in each], "title": titles, "body": bodies}))
    return found


def parquet(folder: Path, count: int) -> Any:
    """Write rows to Parquet files."""
    for number, table in enumerate(tables(count, FILES)):
        pq.write_table(table, folder / f"{number:02}.parquet")
    return dp.sources.ParquetSource(folder / "*.parquet", id="id", anchor="title", positive="body")


def csv(folder: Path, count: int) -> Any:
    """Write rows to CSV files."""
    for number, table in enumerate(tables(count, FILES)):
        pyarrow.csv.write_csv(table, folder / f"{number:02}.csv")
    return dp.sources.CsvSource(folder / "*.csv", id="id", anchor="title", positive="body")


def texts(folder: Path, count: int) -> Any:
    """Write documents to Parquet files."""
    found = documents(count)
    for number in range(FILES):
        part = found[number::FILES]
        pq.write_table(pa.table({"text": part}), folder / f"{number:02}.parquet")
    return dp.sources.ParquetSource(folder / "*.parquet", text="text")


GATES = {"quality": dp.Quality(language=None)}
WORKS: dict[str, tuple[Callable[[Path, int], Any], dict[str, Any]]] = {
    "ingest_parquet": (parquet, {}),
    "ingest_csv": (csv, {}),
    "gates": (texts, GATES),
}


def taken(folder: Path, source: Any, engine: Any, count: int, **asked: Any) -> float:
    """Return rows a second."""
    path = folder / "corpus.duckdb"
    with dp.Corpus(path, threads=2) as corpus:
        begun = time.monotonic()
        report = corpus.ingest(
            source, name="s", progress=False, **asked, options=dp.IngestOptions(engine=engine)
        )
        seconds = time.monotonic() - begun
    path.unlink()
    return report.read / seconds


def planned(folder: Path, several: int) -> float:
    """Return the seconds that it takes to open so many small files, and to cut them into parts."""
    for number in range(several):
        (folder / f"{number}.csv").write_text("id,body\n" + "1,a few words\n" * 10)
    source = dp.sources.CsvSource(folder / "*.csv", id="id", text="body")
    begun = time.monotonic()
    source.open(FileReader.within(dp.sources.Limits()))
    list(cuts_of(source, numbered=False))
    return time.monotonic() - begun


def main() -> None:
    """Measure all, and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=WORKS, default=list(WORKS))
    arguments = parser.parse_args()
    logging.getLogger("duckplets").setLevel(logging.ERROR)
    found: dict[str, Any] = {"rows": arguments.rows, "documents": arguments.documents}
    with opened("local:2") as engine:
        for work in arguments.only:
            make, asked = WORKS[work]
            count = arguments.documents if work == "gates" else arguments.rows
            with tempfile.TemporaryDirectory() as name:
                place = Path(name)
                source = make(place, count)
                best = {"alone": 0.0, "engine": 0.0}
                for _ in range(arguments.turns):
                    for how, by in (("alone", None), ("engine", engine)):
                        rate = taken(place, source, by, count, **asked)
                        best[how] = max(best[how], rate)
            ratio = round(best["engine"] / best["alone"], 2)
            found[work] = {how: round(rate) for how, rate in best.items()} | {"ratio": ratio}
        found["worker_peak_mb"] = engines.peak()
    with tempfile.TemporaryDirectory() as name:
        found["planning"] = {"files": arguments.files}
        found["planning"]["seconds"] = round(planned(Path(name), arguments.files), 2)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
