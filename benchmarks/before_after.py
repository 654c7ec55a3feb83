"""Compares two checkouts: the same measurements by each, in turns, in processes of their own.

    python benchmarks/before_after.py BEFORE AFTER [--records 200000] [--rounds 5] [--only NAME …]

BEFORE and AFTER are folders with a checkout each, measured by the Python that runs this. Each makes
its own corpora, through names that users have, so formats may differ between them. Figures are
rates by processor time, or seconds of it; the ratio of each pair of turns is AFTER to BEFORE, such
that more than 1 is faster. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

SECONDS = 4.0  # of processor time, after a warm-up
SOURCES = 4_000
FAR = 10**9


# -- what is measured: in a process of one checkout ------------------------------------------------


def make(folder: Path, records: int) -> None:
    """Make the corpora: one source, ten, very many, and one with mined negatives."""
    import duckdb
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import duckplets as dp

    table = pq.read_table(folder.parent / "text.parquet")
    for name, sources in (("one", 1), ("ten", 10)):
        with dp.Corpus(folder / f"{name}.duckdb") as corpus:
            corpus.split()
            size = records // sources
            for i in range(sources):
                part = folder / "part.parquet"
                pq.write_table(table.slice(i * size, size), part)
                source = dp.sources.ParquetSource(part, anchor="title", positive="body", id="id")
                corpus.ingest(source, name=f"s{i}", progress=False)
    rows, of_each = table.slice(0, SOURCES * 4), 4
    pq.write_table(rows, folder / "part.parquet")
    with dp.Corpus(folder / "many.duckdb") as corpus:
        corpus.split()
        source = dp.sources.ParquetSource(
            folder / "part.parquet", anchor="title", positive="body", id="id"
        )
        corpus.ingest(source, name="s0", progress=False)
    with duckdb.connect(folder / "many.duckdb") as database:  # an ingest each would take minutes
        database.execute(
            "INSERT INTO sources BY NAME SELECT s.* REPLACE (n AS source_id, format('s{}', n - 1) "
            "AS name) FROM sources AS s, range(2, $sources + 1) AS t(n)",
            {"sources": SOURCES},
        )
        database.execute(
            "UPDATE records SET source_id = 1 + (record_key - 1) // $each", {"each": of_each}
        )
    with dp.Corpus(folder / "mined.duckdb") as corpus:
        corpus.split(train=1.0, validation=0.0, test=0.0)
        source = dp.sources.ParquetSource(
            folder.parent / "text.parquet", anchor="title", positive="body", id="id"
        )
        corpus.ingest(source, name="s0", progress=False)
        roles = (dp.role("anchor"), dp.role("context"), dp.role("context"))
        recipe = dp.TripletRecipe("mined", *roles)  # which draws what was given last
        corpus.add_recipe(recipe)
        ids = [f"s0/{name}" for name in table["id"].to_pylist()]
        draw = np.random.default_rng(1)
        anchors = np.repeat(np.arange(len(ids)), 8)
        given = {
            "anchor_id": pa.array(ids).take(pa.array(anchors)),
            "negative_id": pa.array(ids).take(pa.array(draw.integers(len(ids), size=len(anchors)))),
            "score": draw.random(len(anchors)),
        }
        corpus.add_negatives(pa.table(given), name=recipe, split="train", progress=False)


def _rate(take: Callable[[], Any], size: int) -> float:
    for _ in range(max(1, 200_000 // size)):
        take()
    count, begun = 0, time.process_time()
    while time.process_time() - begun < SECONDS:
        take()
        count += size
    return count / (time.process_time() - begun)


def _sampled(folder: Path, name: str = "one", size: int = 256, **more: Any) -> float:
    import duckplets as dp

    with dp.Corpus(folder / f"{name}.duckdb", read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=size, **more)
        return _rate(lambda: next(sampler).to_pydict(), size)


def lists_256(folder: Path, records: int) -> float:
    return _sampled(folder)


def lists_32(folder: Path, records: int) -> float:
    return _sampled(folder, size=32)


def arrow(folder: Path, records: int) -> float:
    import duckplets as dp

    with dp.Corpus(folder / "one.duckdb", read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=256)
        return _rate(lambda: next(sampler).table, 256)


def no_duplicates(folder: Path, records: int) -> float:
    return _sampled(folder, no_duplicates=True)


def ten_sources(folder: Path, records: int) -> float:
    import duckplets as dp

    weights = {f"s{i}": 1.0 + i for i in range(10)}
    steps = range(500, 50_000, 500)
    phases = [dp.Phase(step, {f"s{step // 500 % 10}": 20.0}) for step in steps]
    mixture = dp.Mixture(weights, temperature=1.5, phases=phases)
    return _sampled(folder, "ten", mixture=mixture)


def mined(folder: Path, records: int) -> float:
    return _sampled(folder, "mined", recipes=["mined"])


def one_of_eight(folder: Path, records: int) -> float:
    return _sampled(folder, rank=1, world_size=8)


def pairs(folder: Path, records: int) -> float:
    import duckplets as dp

    with dp.Corpus(folder / "one.duckdb", read_only=True) as corpus:
        sampler = corpus.sampler("labelled_pairs", batch_size=256)
        return _rate(lambda: next(sampler).to_pydict(), 256)


def texts(folder: Path, records: int) -> float:
    import duckplets as dp

    with dp.Corpus(folder / "one.duckdb", read_only=True) as corpus:
        sampler = corpus.sampler("texts", batch_size=256)
        return _rate(lambda: next(sampler).to_pydict(), 256)


def first_batch(folder: Path, records: int) -> float:
    """Seconds of a process that opens a sampler and takes a batch; imports are part of it."""
    import duckplets as dp

    with dp.Corpus(folder / "one.duckdb", read_only=True) as corpus:
        next(corpus.sampler(batch_size=256)).to_pydict()
    return time.process_time()


def resumed_far(folder: Path, records: int) -> float:
    """Seconds to resume at position 10^9 and take a batch."""
    import duckplets as dp

    state = folder / "far.state.duckdb"
    if not state.exists():
        with dp.Corpus(folder / "one.duckdb", read_only=True) as corpus:
            sampler = corpus.sampler(batch_size=250, options=dp.Options(state=state))
            sampler.move(FAR)
            sampler.save()
    begun = time.process_time()
    with dp.resume(folder / "one.duckdb", state=state) as sampler:
        next(sampler).to_pydict()
    return time.process_time() - begun


def opened_4000(folder: Path, records: int) -> float:
    """Seconds to open a run of 4,000 sources and take a batch, the second time."""
    import duckplets as dp

    with dp.Corpus(folder / "many.duckdb", read_only=True) as corpus:
        next(corpus.sampler(batch_size=256)).to_pydict()
        begun = time.process_time()
        next(corpus.sampler(batch_size=256)).to_pydict()
        return time.process_time() - begun


def _ingested(folder: Path, kind: str) -> float:
    import duckplets as dp

    path = folder / f"again-{kind}.duckdb"
    path.unlink(missing_ok=True)
    source = {"parquet": dp.sources.ParquetSource, "csv": dp.sources.CsvSource}[kind]
    file = folder.parent / f"text.{kind}"
    begun = time.process_time()
    with dp.Corpus(path) as corpus:
        corpus.split()
        text = source(file, anchor="title", positive="body", id="id")
        corpus.ingest(text, name="text", progress=False)
    return time.process_time() - begun


def ingest_parquet(folder: Path, records: int) -> float:
    return _ingested(folder, "parquet")


def ingest_csv(folder: Path, records: int) -> float:
    return _ingested(folder, "csv")


def gates(folder: Path, records: int) -> float:
    """Seconds to take texts in through all gates but the language's."""
    import duckplets as dp

    path = folder / "gated.duckdb"
    path.unlink(missing_ok=True)
    source = dp.sources.ParquetSource(folder.parent / "text.parquet", text="body", id="id")
    begun = time.process_time()
    with dp.Corpus(path) as corpus:
        quality = dp.Quality(language=None)
        corpus.ingest({"text": source}, quality=quality, progress=False)
    return time.process_time() - begun


def mine(folder: Path, records: int) -> float:
    """Seconds to mine a tenth of the records among each other, index included."""
    import inspect
    import shutil

    import duckplets as dp

    path = folder / "mine.duckdb"
    path.unlink(missing_ok=True)
    shutil.rmtree(path.with_suffix(".candidates"), ignore_errors=True)
    depth = "depth" if "depth" in inspect.signature(dp.Corpus.mine).parameters else "top_k"
    roles = (dp.role("anchor"), dp.role("context"), dp.role("context"))
    with dp.Corpus(path, threads=1) as corpus:
        corpus.split(train=1.0, validation=0.0, test=0.0)
        source = dp.sources.ParquetSource(
            folder.parent / "text.parquet", anchor="title", positive="body", id="id"
        )
        corpus.ingest(source, name="s0", limit=records // 10, progress=False)
        begun = time.process_time()
        recipe = dp.TripletRecipe("mined", *roles, by="bm25")
        corpus.mine(recipe, split="train", progress=False, **{depth: 100})
        return time.process_time() - begun


def read(folder: Path, records: int) -> float:
    """Records a second, in shuffled order."""
    import duckplets as dp

    with dp.Corpus(folder / "one.duckdb", read_only=True) as corpus:
        there = corpus.sql("SELECT count(*) AS n FROM live_records")["n"][0].as_py()
        order = dp.index.IndexSampler(there, shuffle=True, seed=1)
        batches = iter(corpus.read(order, batch_size=256))
        return _rate(lambda: next(batches).to_pydict(), 256)


def _tokenizer(folder: Path) -> Path:
    import duckplets as dp

    made = folder.parent / "tokenizer"
    if not made.exists():
        with dp.Corpus(folder / "one.duckdb", read_only=True) as corpus:
            dp.train_tokenizer(corpus, made, vocab_size=4_000, progress=False)
    return made / "tokenizer.json"


def shard(folder: Path, records: int) -> float:
    """Seconds to write token shards."""
    import shutil

    import duckplets as dp

    tokenizer, out = _tokenizer(folder), folder / "shards"
    shutil.rmtree(out, ignore_errors=True)
    with dp.Corpus(folder / "one.duckdb", read_only=True) as corpus:
        begun = time.process_time()
        corpus.shard(out, tokenizer=tokenizer, progress=False)
        return time.process_time() - begun


def token_batches(folder: Path, records: int) -> float:
    """Rows of 128 tokens a second, from token files."""
    import duckplets as dp

    tokenizer = _tokenizer(folder)
    with dp.Corpus(folder / "one.duckdb", read_only=True) as corpus:
        sampler = corpus.token_sampler(tokenizer, seq_length=128, batch_size=256)
        return _rate(lambda: next(sampler).table, 256)


RATES = (
    *(lists_256, lists_32, arrow, no_duplicates, ten_sources, mined, one_of_eight, pairs, texts),
    *(read, token_batches),
)
TIMES = (first_batch, resumed_far, opened_4000, ingest_parquet, ingest_csv, gates, mine, shard)
MEASUREMENTS = {of.__name__: of for of in (*RATES, *TIMES)}


# -- in turns -------------------------------------------------------------------------------------


def _write_text(folder: Path, records: int) -> None:
    import pyarrow.csv
    import pyarrow.parquet as pq
    import text

    made = text.write(folder, records)
    table = pq.read_table(made[0])
    pq.write_table(table, folder / "text.parquet")
    pyarrow.csv.write_csv(table, folder / "text.csv")


def _run(checkout: Path, what: str, folder: Path, records: int) -> float:
    command = [sys.executable, __file__, "--one", what, str(folder), str(checkout)]
    paths = os.pathsep.join([str(checkout), str(checkout / "benchmarks")])
    done = subprocess.run(
        [*command, "--records", str(records)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: {what}: {done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="with --one: the folder of corpora")
    parser.add_argument("after", type=Path)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=MEASUREMENTS, default=list(MEASUREMENTS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one == "make":
        make(given.before, given.records)
        print(0)
        return
    if given.one:
        print(MEASUREMENTS[given.one](given.before, given.records))
        return
    rates = {of.__name__ for of in RATES}
    found: dict[str, Any] = {"records": given.records, "rounds": given.rounds}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        _write_text(root, given.records)
        sides = {"before": given.before.resolve(), "after": given.after.resolve()}
        for side, checkout in sides.items():
            (root / side).mkdir()
            _run(checkout, "make", root / side, given.records)
        for name in given.only:
            turns: dict[str, list[float]] = {"before": [], "after": []}
            for turn in range(given.rounds):
                for side in sorted(sides, reverse=bool(turn % 2)):
                    turns[side].append(_run(sides[side], name, root / side, given.records))
            pairs_of = list(zip(turns["before"], turns["after"], strict=True))
            ratios = sorted(a / b if name in rates else b / a for b, a in pairs_of)
            found[name] = {
                **{side: round(median(of), 3) for side, of in turns.items()},
                "ratio": round(median(ratios), 3),
                "least": round(ratios[0], 3),
                "most": round(ratios[-1], 3),
            }
            print(name, found[name], file=sys.stderr)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
