"""Ingest, mine and shard several files with the workers of a cluster on this machine.

python examples/local_cluster.py

With workers on other machines only ``LocalCluster`` changes: see docs/scale.md. The result equals
the result of this process alone, as the end shows.
"""

import json
import tempfile
from pathlib import Path

from distributed import Client, LocalCluster

import duckplets as dp

TOPICS = ["tides", "lamps", "bridges", "bees"]
RECIPE = dp.TripletRecipe(
    "facts", dp.role("anchor"), dp.role("context"), dp.role("context"), by="bm25"
)


def write(folder):
    """Write a file of questions and answers for every topic."""
    for topic in TOPICS:
        rows = [
            {
                "id": f"{topic}{i}",
                "question": f"What about {topic} of kind {i}?",
                "answer": f"Of {topic} kind {i} has {i * 7 % 31} parts, {i * 5 % 23} in use.",
            }
            for i in range(60)
        ]
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{topic}.jsonl").write_text(lines, encoding="utf-8")


def make(folder, name, engine):
    """Make a corpus and its shards; returns its negatives and the checksums of the shards."""
    with dp.Corpus(folder / f"{name}.duckdb") as corpus:
        source = dp.Source(folder / "*.jsonl", id="id", anchor="question", positive="answer")
        corpus.ingest(source, name="facts", options=dp.IngestOptions(engine=engine))
        corpus.split(train=1, validation=0, test=0)
        report = corpus.mine(RECIPE, depth=8, engine=engine)
        if engine is not None:
            print(f"{report.anchors} anchors, {report.candidates} negatives")
            dp.train_tokenizer(corpus, folder / "tokenizer", vocab_size=400)
        # Workers write shards themselves: they must see this folder.
        out = folder / f"{name}.shards"
        corpus.shard(out, tokenizer=folder / "tokenizer", buckets=[32], engine=engine)
        negatives = corpus.sql("FROM hard_negatives ORDER BY ALL").to_pylist()
    shards = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["shards"]
    return negatives, [shard["sha256"] for shard in shards]


def main():
    """Start two workers, and compare their results with the results of this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            negatives, shards = make(folder, "by_workers", client)
        same = make(folder, "alone", None) == (negatives, shards)
        print(f"{len(shards)} shards; this process alone makes the same: {same}")


if __name__ == "__main__":  # LocalCluster starts this script again
    main()
