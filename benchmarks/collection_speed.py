"""Measures a collection: reading, mining and drawing it, beside two peers on the same texts.

    python benchmarks/collection_speed.py [--documents 200000] [--queries 20000] [--torch PYTHON]
        > benchmarks/collections.json

Documents of 60 Zipf words, queries of 8 words of one document each, and one to six labels a query.
Each measurement is a process of its own; what counts is its processor time. bm25s ranks the same
queries over the same documents. ``mine_hard_negatives`` of sentence-transformers mines the same
pairs with vectors that cost nothing, as ours does. Prints one JSON object.
"""

# Not collections.py: beside other scripts it would take the place of Python's own module.

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from text import batches

WORDS, ASKED, DIMENSION, DEPTH = 60, 2_000, 256, 100
STEPS, BATCH = 400, 256
PART = 8  # the peer of vectors mines for an eighth of the queries


def made(folder: Path, documents: int, queries: int) -> None:
    """Write documents, queries and labels."""
    draw = np.random.default_rng(1)
    texts = [
        " ".join(body.split()[:WORDS])
        for part in batches(documents)
        for body in part["body"].to_pylist()
    ]
    pq.write_table(
        pa.table({"_id": [f"d{i}" for i in range(documents)], "text": texts}),
        folder / "documents.parquet",
    )
    own = draw.permutation(documents)[:queries]
    asked = [" ".join(draw.permutation(texts[i].split())[:8]) for i in own]
    pq.write_table(
        pa.table({"_id": [f"q{i}" for i in range(queries)], "text": asked}),
        folder / "queries.parquet",
    )
    more = draw.integers(0, 6, queries)
    query = np.concatenate([np.arange(queries), np.repeat(np.arange(queries), more)])
    document = np.concatenate([own, draw.integers(0, documents, more.sum())])
    pairs = np.unique(np.stack([query, document]), axis=1)
    columns = {
        "query_id": [f"q{i}" for i in pairs[0]],
        "document_id": [f"d{i}" for i in pairs[1]],
        "label": np.ones(pairs.shape[1], np.int64),
    }
    pq.write_table(pa.table(columns), folder / "labels.parquet")


def read(folder: Path) -> dict[str, float]:
    """Read the three tables."""
    import duckplets as dp

    (folder / "c.duckdb").unlink(missing_ok=True)
    files = {name: folder / f"{name}.parquet" for name in ("documents", "queries")}
    with dp.Corpus(folder / "c.duckdb", threads=2) as corpus:
        begin = time.process_time()
        collection = dp.Collection(**files, qrels={"train": folder / "labels.parquet"})
        report = corpus.ingest(collection, name="set", progress=False)
        found = {"seconds": time.process_time() - begin}
        size = len(corpus.sql("SELECT 1 FROM labels"))
    return found | {"labels": size, "added": report.added}


def _drawn(folder: Path, kind: str, **asked: Any) -> dict[str, float]:
    import duckplets as dp

    with dp.Corpus(folder / "c.duckdb", read_only=True, threads=2) as corpus:
        begin = time.process_time()
        sampler = corpus.sampler(kind, batch_size=BATCH, **asked)
        next(sampler)
        first = time.process_time() - begin
        begin = time.process_time()
        for _ in range(STEPS):
            next(sampler)["anchor"]
        seconds = time.process_time() - begin
    return {"first_batch_seconds": first, "samples_per_s": STEPS * BATCH / seconds}


def draw_at_random(folder: Path) -> dict[str, float]:
    """Draw triplets with negatives from all documents."""
    import duckplets as dp

    return _drawn(folder, "triplets", negatives=dp.Negatives(by="random"))


def mine(folder: Path) -> dict[str, float]:
    """Rank all queries over all documents, index and guards included."""
    import duckplets as dp

    with dp.Corpus(folder / "c.duckdb", threads=2) as corpus:
        begin = time.process_time()
        report = corpus.mine(progress=False, depth=DEPTH)
        seconds = time.process_time() - begin
        anchors = report.pairs[0].anchors
    return {"seconds": seconds, "queries_per_s": anchors / seconds}


def draw_mined(folder: Path) -> dict[str, float]:
    """Draw triplets with mined negatives."""
    return _drawn(folder, "triplets")


def draw_lists(folder: Path) -> dict[str, float]:
    """Draw lists of the positives and seven mined negatives, with labels and scores."""
    return _drawn(folder, "lists", negatives=7)


def draw_pairs(folder: Path) -> dict[str, float]:
    """Draw triplets of as many pairs, which have no labels, at random."""
    import duckplets as dp

    path = folder / "p.duckdb"
    path.unlink(missing_ok=True)
    asked, texts = (pq.read_table(folder / f"{n}.parquet") for n in ("queries", "documents"))
    table = asked.append_column("answer", texts["text"].slice(0, len(asked)))
    with dp.Corpus(path, threads=2) as corpus:
        source = dp.Source(table, id="_id", anchor="text", positive="answer")
        corpus.ingest(source, name="pairs", progress=False)
        corpus.split(1, 0, 0)
    path.rename(folder / "pairs.duckdb")
    (folder / "c.duckdb").rename(folder / "set.duckdb")
    try:
        (folder / "pairs.duckdb").rename(folder / "c.duckdb")
        return _drawn(folder, "triplets")
    finally:
        (folder / "c.duckdb").unlink()
        (folder / "set.duckdb").rename(folder / "c.duckdb")


def bm25s(folder: Path) -> dict[str, float]:
    """Rank some queries by bm25s with its compiled backend, in one thread."""
    import bm25s as library

    texts = pq.read_table(folder / "documents.parquet")["text"].to_pylist()
    asked = pq.read_table(folder / "queries.parquet")["text"].to_pylist()[:ASKED]
    begin = time.process_time()
    engine = library.BM25(k1=1.2, b=0.75, method="lucene", backend="numba")
    engine.index(library.tokenize(texts, stopwords=None, show_progress=False), show_progress=False)
    indexed = time.process_time() - begin
    queries = [text.split() for text in asked]
    engine.retrieve(queries[:50], k=DEPTH, show_progress=False, n_threads=1)
    begin = time.process_time()
    engine.retrieve(queries, k=DEPTH, show_progress=False, n_threads=1)
    seconds = time.process_time() - begin
    return {"index_seconds": indexed, "queries_per_s": len(queries) / seconds}


def _vectors(texts: list[str]) -> np.ndarray:
    """Return vectors of hashed words, which cost little."""
    found = np.zeros((len(texts), DIMENSION), np.float32)
    for row, text in enumerate(texts):
        for word in text.split():
            found[row, sum(map(ord, word)) * 31 % DIMENSION] += 1
    return found / np.maximum(np.linalg.norm(found, axis=1), 1e-9)[:, None]


def dense(folder: Path) -> dict[str, float]:
    """Mine all queries by vectors over all documents."""
    import duckplets as dp

    with dp.Corpus(folder / "c.duckdb", threads=2) as corpus:
        corpus.embed(_vectors, "v", batch_size=8192, progress=False)
        begin = time.process_time()
        report = corpus.mine(by=dp.Dense("v"), depth=DEPTH, progress=False)
        seconds = time.process_time() - begin
    return {"seconds": seconds, "queries_per_s": report.pairs[0].anchors / seconds}


def mine_hard_negatives(folder: Path) -> dict[str, float]:
    """Mine an eighth of the queries by sentence-transformers, with the same vectors."""
    import torch
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives as peer

    torch.set_num_threads(2)
    texts = pq.read_table(folder / "documents.parquet")["text"].to_pylist()
    labels = pq.read_table(folder / "labels.parquet").to_pylist()
    asked = pq.read_table(folder / "queries.parquet")["text"].to_pylist()
    few = len(asked) // PART
    pairs = [
        (asked[int(r["query_id"][1:])], texts[int(r["document_id"][1:])])
        for r in labels
        if int(r["query_id"][1:]) < few
    ]
    kept = dict(zip(texts, _vectors(texts), strict=True))
    kept |= dict(zip(asked[:few], _vectors(asked[:few]), strict=True))

    class Teacher:
        """A model whose vectors are there already."""

        similarity_fn_name, device = "cosine", torch.device("cpu")

        def encode(self, texts: list[str], **_: Any) -> np.ndarray:
            return np.stack([kept[text] for text in texts])

        encode_query = encode_document = encode

        def similarity(self, one: Any, other: Any) -> Any:
            return torch.as_tensor(one) @ torch.as_tensor(other).T

        def similarity_pairwise(self, one: Any, other: Any) -> Any:
            return (torch.as_tensor(one) * torch.as_tensor(other)).sum(1)

    dataset = Dataset.from_dict({"query": [q for q, _ in pairs], "answer": [d for _, d in pairs]})
    begin = time.process_time()
    peer(dataset, Teacher(), corpus=texts, range_max=DEPTH, num_negatives=16, verbose=False)
    seconds = time.process_time() - begin
    return {"seconds": seconds, "queries_per_s": few / seconds}


MEASUREMENTS: dict[str, Callable[[Path], dict[str, float]]] = {
    f.__name__: f
    for f in (
        *(read, draw_at_random, mine, draw_mined, draw_lists, draw_pairs, bm25s, dense),
        mine_hard_negatives,
    )
}
OF_TORCH = ("mine_hard_negatives",)


def one(name: str, folder: Path) -> None:
    """Print one measurement."""
    found = MEASUREMENTS[name](folder)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({key: round(value, 3) for key, value in found.items()}))


def main() -> None:
    """Run all, each in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--torch", default="", help="a Python with sentence-transformers")
    parser.add_argument("--one", nargs=2)
    parser.add_argument("--make", type=Path)
    given = parser.parse_args()
    if given.make:
        made(given.make, given.documents, given.queries)
        return
    if given.one:
        one(given.one[0], Path(given.one[1]))
        return
    results: dict[str, Any] = {"cpus": os.cpu_count(), "load_before": os.getloadavg()[0]}
    results |= {"documents": given.documents, "queries": given.queries}
    with tempfile.TemporaryDirectory() as folder:
        make = [sys.executable, __file__, "--make", folder, "--documents", str(given.documents)]
        # a process starts with the peak of the one that starts it
        subprocess.run([*make, "--queries", str(given.queries)], check=True)
        for name in MEASUREMENTS:
            if name in OF_TORCH and not given.torch:
                continue
            python = given.torch if name in OF_TORCH else sys.executable
            run = subprocess.run(
                [python, __file__, "--one", name, folder], stdout=subprocess.PIPE, check=True
            )
            results[name] = json.loads(run.stdout)
            print(name, run.stdout.decode().strip(), file=sys.stderr)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
