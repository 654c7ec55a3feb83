"""Measures what it costs to say which samples share a batch, beside plain sampling.

    python benchmarks/batches.py [--records 100000] [--rounds 5] > benchmarks/batches.json

Records are pairs of a title and a body of about 40 words, every thousandth body that of its
neighbour, of 200 topics; for ``in_batch_margin`` each has four others, by chance, as near as its own, so
about one sample in a hundred has to change places. The runs take turns in one process, so that all
of them meet the same neighbours on the machine; rates are triplets a second of processor time, with
their texts as lists, the median of all rounds and its least and most. What is printed is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

BATCH, WARM, TOPICS = 256, 40, 200
COLUMNS = ("anchor", "positive", "negative")
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch_by='length'": {"batch_by": "length"},
    "batch_by=a topic": {"batch_by": "meta['topic']"},
    "no_duplicates=True": {"no_duplicates": True},
    "no_duplicates='group'": {"no_duplicates": "group"},
    "in_batch_margin=('near', 0.05)": {"in_batch_margin": ("near", 0.05)},
    "no_duplicates=True, batch_by=a topic": {"no_duplicates": True, "batch_by": "meta['topic']"},
}


def rows(records: int) -> list[dict[str, str]]:
    """Return records whose texts are drawn from 5,000 words."""
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(3, 9))) for _ in range(5000)]
    made: list[dict[str, str]] = []
    for number in range(records):
        body = " ".join(draw.choices(words, k=draw.randint(20, 60)))
        made.append(
            {
                "id": str(number),
                "title": f"{' '.join(draw.choices(words, k=5))} {number}",
                "body": made[-1]["body"] if number % 1000 == 999 else body,
                "topic": f"t{draw.randrange(TOPICS)}",
            }
        )
    return made


def add_near(corpus: Any, records: int) -> None:
    """Give each anchor four candidates that score nearly as its positive."""
    draw, table = random.Random(1), list[dict[str, Any]]()
    for number in range(records):
        near = [one for one in draw.sample(range(records), 4) if one != number]
        ids = [f"made/{one}" for one in (number, *near)]
        scores = [1.0] + [0.99] * len(near)
        table.append({"query_id": ids[0], "document_ids": ids, "scores": scores})
    corpus.add_negatives(table, name="anchor_context", scorer="near", progress=False)


def measured(corpus: Any, steps: int, given: dict[str, Any]) -> tuple[float, float]:
    """Return the seconds that opening takes, and triplets a second of processor time."""
    run = {name: value for name, value in given.items() if name != "in_batch_margin"}
    run["negatives"] = {"by": "random", **({} if run == given else given)}
    begun = time.process_time()
    with corpus.sampler(batch_size=BATCH, **run, options={"prefetch": 0}) as sampler:
        opened = time.process_time() - begun
        for _ in range(WARM):
            next(sampler)
        begun = time.process_time()
        for _ in range(steps):
            batch = next(sampler)
            for column in COLUMNS:
                batch[column]
        return opened, steps * BATCH / (time.process_time() - begun)


def main() -> None:
    """Print the rates of all runs as JSON."""
    parser = argparse.ArgumentParser()
    for name, default in (("records", 100_000), ("rounds", 5), ("steps", 1500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    import duckplets as dp

    found: dict[str, list[tuple[float, float]]] = {name: [] for name in RUNS}
    with (
        tempfile.TemporaryDirectory() as folder,
        dp.Corpus(Path(folder) / "batches.duckdb", threads=1) as corpus,
    ):
        source = dp.sources.MemorySource(
            rows(asked.records), id="id", anchor="title", positive="body", meta=["topic"]
        )
        corpus.ingest(source, name="made", progress=False)
        corpus.split(1, 0, 0)
        add_near(corpus, asked.records)
        for _ in range(asked.rounds):
            for name, given in RUNS.items():
                found[name].append(measured(corpus, asked.steps, given))
    plain = statistics.median(rate for _, rate in found["plain"])
    told = {}
    for name, pairs in found.items():
        opened, rates = (sorted(of) for of in zip(*pairs, strict=True))
        told[name] = {
            "triplets_per_second": round(statistics.median(rates)),
            "least": round(rates[0]),
            "most": round(rates[-1]),
            "of_plain": round(statistics.median(rates) / plain, 3),
            "opening_seconds": round(statistics.median(opened), 3),
        }
    settings = {**vars(asked), "batch": BATCH, "topics": TOPICS, "duckplets": dp.__version__}
    print(json.dumps({"settings": settings, "runs": told}, indent=2))


if __name__ == "__main__":
    main()
