"""Measures indexes, mining and sampling of mined negatives, beside match_bm25 and bm25s.

    python benchmarks/mining.py [--folder FOLDER] [--only NAME …] > benchmarks/mining.json

Documents of about 120 words, Zipf-distributed over 60,000 words and 500 topics, from a fixed
seed; queries are the first 30 words of documents. Each measurement is a process of its own; the
peers answer the same queries over the same documents in the same run. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duckplets.search.index import index as build_index

WORDNET = Path(__file__).parents[2] / "shared" / "corpora" / "wordnet.parquet"
SMALL, LARGE, QUERIES, RECORDS = 50_000, 500_000, 4_000, 500_000
ANCHORS = 20_000  # to mine negatives for; fewer in a large corpus
WORDS = 30


def write(folder: Path, documents: int, seed: int = 0) -> Path:
    """Write documents to a Parquet file, if it is not there yet; returns its path."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    path = folder / f"documents{documents}.parquet"
    if path.exists():
        return path
    draw = np.random.default_rng(seed)
    vocabulary = 60_000
    shares = 1 / np.arange(1, vocabulary + 1)
    lengths = draw.integers(60, 181, documents)
    tokens = draw.choice(vocabulary, size=lengths.sum(), p=shares / shares.sum())
    topic = np.repeat(draw.integers(0, 500, documents), lengths)
    of_topic = draw.random(len(tokens)) < 0.3
    tokens[of_topic] = (topic[of_topic] * 97 + draw.integers(0, 200, of_topic.sum())) % vocabulary
    words = pa.array([f"w{number:x}" for number in range(vocabulary)])
    texts = pa.DictionaryArray.from_arrays(pa.array(tokens, pa.int32()), words)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(starts), texts.cast(pa.string()))
    rows = {"id": np.arange(documents), "text": pc.binary_join(lists, " ")}
    pq.write_table(pa.table(rows), path)
    return path


def _recipe() -> Any:
    """Documents as their own queries: what they share words with."""
    import duckplets as dp

    whole = dp.any_section()
    return dp.TripletRecipe(
        "alike", whole, whole, whole, by="bm25", allow_same_anchor_positive=True
    )


def _ingested(folder: Path, documents: int) -> dict[str, float]:
    import duckplets as dp

    path = folder / f"documents{documents}.duckdb"
    path.unlink(missing_ok=True)
    parquet = write(folder, documents)
    started = time.perf_counter()
    with dp.Corpus(path) as corpus:
        source = dp.sources.ParquetSource(parquet, text="text", id="id")
        corpus.ingest(source, name="text", progress=False)
        corpus.split(train=1.0, validation=0.0, test=0.0)
    return {"seconds": time.perf_counter() - started}


def documents_small(folder: Path) -> dict[str, float]:
    return _ingested(folder, SMALL)


def documents_large(folder: Path) -> dict[str, float]:
    return _ingested(folder, LARGE)


def index_small(folder: Path) -> dict[str, float]:
    return _index(folder, SMALL)


def index_large(folder: Path) -> dict[str, float]:
    return _index(folder, LARGE)


def _index(folder: Path, documents: int) -> dict[str, float]:
    import duckplets as dp

    with dp.Corpus(folder / f"documents{documents}.duckdb") as corpus:
        started = time.perf_counter()
        (report,) = build_index(corpus, dp.Terms(stemmer="none"), progress=False)
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "tokens_per_s": report.tokens / seconds}


def mine_small_one_core(folder: Path) -> dict[str, float]:
    return _mine(folder, SMALL, threads=1, anchors=ANCHORS)


def mine_small(folder: Path) -> dict[str, float]:
    return _mine(folder, SMALL, threads=os.cpu_count() or 1, anchors=2 * ANCHORS)


def mine_large_one_core(folder: Path) -> dict[str, float]:
    return _mine(folder, LARGE, threads=1, anchors=ANCHORS // 2)


def mine_large(folder: Path) -> dict[str, float]:
    return _mine(folder, LARGE, threads=os.cpu_count() or 1, anchors=ANCHORS)


class _EnoughError(Exception):
    """So many anchors are done."""


def _mine(folder: Path, documents: int, *, threads: int, anchors: int) -> dict[str, float]:
    """Rate of mining once it is under way, and how long the first anchors took."""
    import duckplets as dp

    begun = time.perf_counter()
    times: list[tuple[int, float]] = []

    def note(done: int, _: int | None) -> None:
        times.append((done, time.perf_counter()))
        if done >= anchors:
            raise _EnoughError

    with dp.Corpus(folder / f"documents{documents}.duckdb", threads=threads) as corpus:
        with contextlib.suppress(_EnoughError):
            corpus.mine(_recipe(), depth=32, query_tokens=WORDS, progress=note)
        _forget(corpus)
    (first, since), (last, until) = times[0], times[-1]
    return {"queries_per_s": (last - first) / (until - since), "ready_s": since - begun}


def _forget(corpus: Any) -> None:
    """Let the next measurement mine again."""
    shutil.rmtree(corpus.path.with_name(f"{corpus.path.stem}.candidates"), ignore_errors=True)


def _queries(folder: Path, count: int) -> tuple[list[str], list[str]]:
    """Return the documents, and the first 30 words of some of them."""
    import pyarrow.parquet as pq

    texts = pq.read_table(write(folder, SMALL))["text"].to_pylist()
    return texts, [" ".join(text.split()[:WORDS]) for text in texts[:count]]


def match_bm25(folder: Path) -> dict[str, float]:
    """DuckDB's own ranking, one query a statement."""
    import pyarrow as pa

    from duckplets.db.extensions import stemming

    texts, queries = _queries(folder, 30)
    database = stemming()
    with database.registered(given=pa.table({"id": range(len(texts)), "text": texts})):
        database.rows("CREATE TABLE documents AS FROM given")
    started = time.perf_counter()
    database.rows(
        "PRAGMA create_fts_index('documents', 'id', 'text', stemmer='none', stopwords='none', "
        r"ignore='[^\p{L}\p{N}]+')"
    )
    built = time.perf_counter() - started
    ask = (
        "SELECT id, fts_main_documents.match_bm25(id, $text) AS score FROM documents "
        "WHERE score IS NOT NULL ORDER BY score DESC, id LIMIT 32"
    )
    started = time.perf_counter()
    for text in queries:
        database.rows(ask, {"text": text})
    return {
        "queries_per_s": len(queries) / (time.perf_counter() - started),
        "index_seconds": built,
    }


def bm25s_numba(folder: Path) -> dict[str, float]:
    """The library bm25s with its compiled backend: one thread, and two."""
    import bm25s

    texts, queries = _queries(folder, QUERIES)
    started = time.perf_counter()
    tokens = bm25s.tokenize(texts, stopwords=None, show_progress=False)
    engine = bm25s.BM25(k1=1.2, b=0.75, method="lucene", backend="numba")
    engine.index(tokens, show_progress=False)
    built = time.perf_counter() - started
    asked = [text.split() for text in queries]
    found: dict[str, float] = {"index_seconds": built}
    for threads, name in ((1, "queries_per_s"), (2, "queries_per_s_of_two")):
        engine.retrieve(asked[:50], k=32, show_progress=False, n_threads=threads)
        started = time.perf_counter()
        engine.retrieve(asked, k=32, show_progress=False, n_threads=threads)
        found[name] = len(asked) / (time.perf_counter() - started)
    return found


def wordnet(folder: Path) -> dict[str, float]:
    """All of WordNet: title to definitions of its source and split, index included."""
    import duckplets as dp

    path = folder / "wordnet.duckdb"
    path.unlink(missing_ok=True)
    recipe = dp.TripletRecipe(
        "title", dp.role("anchor"), dp.role("context"), dp.role("context"), by="bm25"
    )
    with dp.Corpus(path) as corpus:
        source = dp.sources.ParquetSource(
            WORDNET, anchor="title", positive="definition", id="id", group="hypernym"
        )
        corpus.ingest(source, name="wordnet", progress=False)
        corpus.split()
        started = time.perf_counter()
        report = corpus.mine(recipe, progress=False)
        return {
            "seconds": time.perf_counter() - started,
            "anchors": report.anchors,
            "negatives": report.candidates,
        }


def sample_mined(folder: Path) -> dict[str, float]:
    """Triplets with mined negatives and with random ones, by turns in one process."""
    import text as made

    import duckplets as dp

    path = folder / "sampled.duckdb"
    path.unlink(missing_ok=True)
    parquet = folder / f"{RECORDS}.parquet"
    if not parquet.exists():
        made.write(folder, RECORDS)
    roles = (dp.role("anchor"), dp.role("context"), dp.role("context"))
    mined = dp.TripletRecipe("mined", *roles, by="bm25")
    plain = dp.TripletRecipe("plain", *roles)
    with dp.Corpus(path) as corpus:
        corpus.ingest(
            dp.sources.ParquetSource(parquet, anchor="title", positive="body", id="id"),
            name="text",
            progress=False,
        )
        corpus.split()
        # What is measured is drawing, and any 32 candidates do for that.
        corpus.mine(mined, split="train", scope="shard", progress=False)
    with dp.Corpus(path, read_only=True) as corpus:
        started = time.perf_counter()
        samplers = {"mined": corpus.sampler(recipes=[mined], batch_size=256)}
        opened = time.perf_counter() - started
        samplers["random"] = corpus.sampler(recipes=[plain], batch_size=256)
        rates: dict[str, list[float]] = {name: [] for name in samplers}
        rounds, batches = (5, 1024) if RECORDS > 100_000 else (1, 8)
        for sampler in samplers.values():
            for _ in range(batches):
                next(sampler)
        for _ in range(rounds):
            for name, sampler in samplers.items():
                before = time.perf_counter()
                for _ in range(batches):
                    next(sampler).to_pydict()
                rates[name].append(256 * batches / (time.perf_counter() - before))
    median = {name: sorted(found)[len(found) // 2] for name, found in rates.items()}
    return {
        "mined_per_s": median["mined"],
        "random_per_s": median["random"],
        "open_seconds": opened,
    }


MEASUREMENTS: dict[str, Callable[[Path], dict[str, float]]] = {
    f.__name__: f
    for f in (
        *(documents_small, index_small, mine_small_one_core, mine_small, match_bm25, bm25s_numba),
        *(wordnet, documents_large, index_large, mine_large_one_core, mine_large, sample_mined),
    )
}


def _one(name: str, folder: Path) -> None:
    found = MEASUREMENTS[name](folder)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({key: round(value, 3) for key, value in found.items()}))


def _all(names: list[str], folder: Path) -> dict[str, Any]:
    import duckdb

    results: dict[str, Any] = {"duckdb": duckdb.__version__, "cpus": os.cpu_count()}
    results["load_before"] = os.getloadavg()[0]
    for name in names:
        print(name, end=": ", file=sys.stderr, flush=True)
        run = subprocess.run(
            [sys.executable, __file__, "--folder", str(folder), "--one", name],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        results[name] = json.loads(run.stdout)
        print(run.stdout.strip(), file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="keeps what is made; a temporary one else")
    parser.add_argument("--only", nargs="*", choices=list(MEASUREMENTS))
    parser.add_argument("--one", choices=list(MEASUREMENTS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        _one(given.one, given.folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        names = given.only or [n for n in MEASUREMENTS if n != "wordnet" or WORDNET.exists()]
        print(json.dumps(_all(names, folder), indent=2))


if __name__ == "__main__":
    main()
