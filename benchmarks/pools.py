"""Measures the statements of pools: processor seconds, and the peak of memory.

    python benchmarks/pools.py [--records 1000000] [--skewed 100000] > benchmarks/pools.json

The law in plain Python is ``tests/plain_law.py``, and ``tests/pools/test_law.py`` holds the
statements to it. Each measurement is a process that runs one statement; of the even corpus the
median of several runs counts. ``lists`` opens a reader as a sampler does: all lists of the sources.

The form: joins of grouped counts. An anchor has ``texts - excluded - known + shared`` legal texts;
``shared``, the texts in both lists, is counted only where it decides. A strategy counts texts by
class. Where classes must not draw from bins, all texts count (part 0), less those that only such
bins have, plus what is left of these for other families (the sign). So it takes no more time than
there are chunks.

Tried on DuckDB 1.5.5, and failed:

- SEMI JOIN under LATERAL: "Unsupported join type for flattening correlated subquery" (2.0.0 runs it).
- ``shared`` as one join: the optimizer joins both lists on the text first, a square where all records
  share a text (6.1 s and 2.5 GB instead of 1.8 s and .4 GB). DISTINCT keeps it from that.
- Askers joined with answers before questions of several families are chosen: a square for one record
  of thousands of sections (10.6 s and 5.2 GB for 5,000). So askers are grouped by question first.
- What a family excludes by class together with the texts that only it has: no end in 60 s with one
  family and 3,000 dates. So these are left to ``sole``.
- The split as a column of the LATERAL, too, at 1,000 sources: ``own`` is then made for each source,
  and that run did not finish. With the split as a parameter ``own`` is made once.
- Two families that share all texts and have 3,000 dates: no end in 40 s. The join of family, class
  and text is a triangle; it starts from families, which suits shared texts.
- Sums and squares of families, to see if a text is left with one: families are 63 bits wide. The
  sum of distinct families is exact.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

import duckplets as dp
from duckplets.pools import macros
from duckplets.pools.compile import compile_pool
from duckplets.pools.read import PoolReader

STATEMENTS = Path(__file__).with_suffix(".sql")
SKEWED = (
    "one anchor text",
    "one anchor text but five",
    "one family",
    "one record",
    "one positive text",
    "two families",
)
TOPIC = "negative.meta['topic'] {} anchor.meta['topic']"
CONDITIONS = {
    "equality": TOPIC.format("="),
    "equality of dates": "negative.date = anchor.date",
    "inequality": TOPIC.format("IS DISTINCT FROM"),
    "other comparison": "negative.date > anchor.date",
}
KINDS = ("plain", "other_date", "same_record", *CONDITIONS)


def recipe_of(kind: str) -> dp.TripletRecipe:
    """Return the recipe of a kind that is measured."""
    strategy: Any = {"plain": "other_record"}.get(kind, kind)
    strategy = dp.sql(CONDITIONS[kind]) if kind in CONDITIONS else strategy
    roles = dp.role("anchor"), dp.role("context"), dp.role("context")
    return dp.TripletRecipe("r", *roles, strategy=strategy)


def made(path: Path, records: int, shape: str = "even", sources: int = 1) -> None:
    """Write a corpus of pairs, with what a shape says of its records or texts."""
    found = re.split(r"^-- name: (.+)\n", STATEMENTS.read_text(), flags=re.MULTILINE)
    run = dict(zip(found[1::2], found[2::2], strict=True))
    ready = path.with_name("empty.duckdb")
    if not ready.exists():
        dp.Corpus(ready).close()
    shutil.copy(ready, path)
    steps = ["sources", "versions", "records", "splits", "sections"]
    steps += [] if shape == "even" else [shape]
    if shape == "two families":
        steps += ["two families share", "two families in one split"]
    given = {"records": records, "sources": sources}
    with dp.Corpus(path, threads=2) as corpus:
        for step in (*steps, "hashes", "chunks"):
            text = run[step]
            asked = {name: value for name, value in given.items() if f"${name}" in text}
            corpus.database.rows(text, asked)
        with corpus.database.transaction():
            macros.write(corpus.database)  # as verbs do; opening compares them


def one(path: str, kind: str, what: str) -> None:
    """Run a statement in this process; prints its rows, processor seconds and peak of memory."""
    recipe = recipe_of(kind)
    where: dict[str, Any] = {"split": "train", "version": 1}
    if what == "pool":
        with duckdb.connect(path, read_only=True, config={"threads": 2}) as db:
            began = time.process_time()
            text = compile_pool(recipe, source="s0", **where).runnable()
            rows = len(db.execute(text).to_arrow_table())
    else:
        with dp.Corpus(path, read_only=True) as corpus:
            began = time.process_time()
            names = [name for (name,) in corpus.database.rows("SELECT name FROM sources")]
            pools = [compile_pool(recipe, source=name, **where) for name in names]
            rows = 0
            with PoolReader(corpus.database, pools) as reader:
                for pool in pools:
                    try:
                        rows += len(reader.read(pool).anchors)
                    except dp.EmptyPoolError:
                        continue
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rows": rows, "cpu_s": round(spent, 2), "peak_mb": round(peak)}))


def timed(path: Path, kind: str, what: str, runs: int, limit: float) -> Any:
    """Return the median of some runs, each a process of its own."""
    command, found = [sys.executable, __file__, "--one", str(path), kind, what], []
    for _ in range(runs):
        try:
            ran = subprocess.run(command, capture_output=True, check=True, timeout=limit, text=True)
        except subprocess.TimeoutExpired:
            return f"ended after {limit:g} s"
        except subprocess.CalledProcessError as error:
            return f"failed: {error.stderr[-300:]}"
        found.append(json.loads(ran.stdout))
    return sorted(found, key=lambda row: row["cpu_s"])[len(found) // 2]


def measured(
    folder: Path, records: int, skewed: int, runs: int, limit: float, shapes: Iterable[str] = SKEWED
) -> dict[str, Any]:
    """Time statements on an even corpus, on skewed ones, and on one of many sources."""
    path = folder / "c.duckdb"
    made(path, records)
    found: dict[str, Any] = {
        "even": {k: {"pool": timed(path, k, "pool", runs, limit)} for k in KINDS}
    }
    found["even"]["plain"]["lists"] = timed(path, "plain", "lists", runs, limit)
    for shape in shapes:
        made(path, skewed, shape)
        found[shape] = {kind: {"pool": timed(path, kind, "pool", 1, limit)} for kind in KINDS}
    made(path, skewed, sources=max(skewed // 100, 1))
    kinds = ("plain", "equality", "inequality")
    found["sources of 100 records"] = {
        k: {"lists": timed(path, k, "lists", 1, limit)} for k in kinds
    }
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    sizes = {"records": 1_000_000, "skewed": 100_000, "runs": 3, "limit": 60}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--one", nargs=3)
    asked = parser.parse_args()
    if asked.one:
        one(*asked.one)
        return
    given = {"source": "s", "split": "train", "version": 1}
    lines = {k: compile_pool(recipe_of(k), **given).runnable().count("\n") for k in KINDS}  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as name:
        found = {
            "duckdb": duckdb.__version__,
            "load_before": round(os.getloadavg()[0], 1),
            "lines": lines,
            "records": {"even": asked.records, "skewed": asked.skewed},
            "measured": measured(Path(name), asked.records, asked.skewed, asked.runs, asked.limit),
        }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
