"""Knobs select what sentence-transformers' ``mine_hard_negatives`` selects, fed the same scores.

Its window holds ``range_max`` hits and as many more as any anchor has positives, among them the
positives; ours holds ``range_max`` candidates, of which positives are none. They are the same
window where all positives of an anchor are hits and no anchor has more of them. Where some are
not, its window reaches further by as many, and so is ours set here.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

from datasets import Dataset, disable_progress_bars  # noqa: E402
from effort import often  # noqa: E402
from sentence_transformers.util import mine_hard_negatives  # noqa: E402

from duckplets.mining.cutoffs import ceilings, count_above, select  # noqa: E402
from duckplets.recipes.bm25 import Bm25  # noqa: E402

disable_progress_bars()

ANCHORS, DOCUMENTS = 5, 24


class Scores:
    """Stands in for a model: similarities are the entries of a matrix, exactly."""

    device = torch.device("cpu")

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    def encode_query(self, texts: list[str], **_: Any) -> np.ndarray:
        return self.matrix[numbers(texts)]

    def encode_document(self, texts: list[str], **_: Any) -> np.ndarray:
        return np.eye(self.matrix.shape[1])[numbers(texts)]

    def similarity(self, anchors: Any, documents: Any) -> torch.Tensor:
        return torch.as_tensor(anchors) @ torch.as_tensor(documents).T

    def similarity_pairwise(self, anchors: Any, documents: Any) -> torch.Tensor:
        return (torch.as_tensor(anchors) * torch.as_tensor(documents)).sum(dim=1)


def numbers(texts: list[str]) -> list[int]:
    return [int(text.split()[1]) for text in texts]


def theirs(settings: Bm25, matrix: np.ndarray, positives: list[list[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in positives]
    pairs = [(a, d) for a, documents in enumerate(positives) for d in documents]
    try:
        mined = mined_by_them(settings, matrix.shape[1], Scores(matrix), pairs)
    except ZeroDivisionError:  # margins removed every hit, and it divides by how many are left
        return found
    for query, documents in zip(mined["query"], mined["answer"], strict=True):
        found[numbers([query])[0]] = numbers(documents[1:])
    return found


def mined_by_them(
    settings: Bm25, documents: int, model: Scores, pairs: list[tuple[int, int]]
) -> Dataset:
    columns = {
        "query": [f"query {a}" for a, _ in pairs],
        "answer": [f"document {d}" for _, d in pairs],
    }
    return mine_hard_negatives(
        Dataset.from_dict(columns),
        model,
        corpus=[f"document {d}" for d in range(documents)],
        range_min=settings.range_min,
        range_max=settings.range_max,
        max_score=settings.max_score,
        min_score=settings.min_score,
        absolute_margin=settings.absolute_margin,
        relative_margin=settings.relative_margin,
        num_negatives=settings.top_k,
        output_format="labeled-list",
        verbose=False,
    )


def ours(settings: Bm25, matrix: np.ndarray, positives: list[list[int]]) -> list[list[int]]:
    most = max(map(len, positives))
    found = []
    for scores, own in zip(matrix, positives, strict=True):
        ranked = np.argsort(-scores, kind="stable")
        assert settings.range_max is not None
        missed = most - np.isin(ranked[: settings.range_max + most], own).sum()
        window = replace(settings, range_max=settings.range_max + int(missed))
        found.append(of_one(window, scores, ranked[~np.isin(ranked, own)], scores[own].min()))
    return found


def of_one(settings: Bm25, scores: np.ndarray, legal: np.ndarray, positive: float) -> list[int]:
    high = ceilings(settings, np.array([positive]))
    above = count_above(high, np.array([0, len(legal)]), scores[legal]).max(axis=0)
    survivors = legal[above[0] :]
    selection = select(settings, np.array([0, len(survivors)]), scores[survivors], above)
    return survivors[selection.kept].tolist()


def distinct_scores(draw: random.Random, kind: str) -> np.ndarray:
    """A matrix without ties in a row: among equal scores, theirs are in no order."""
    rows = []
    for _ in range(ANCHORS):
        if kind == "cosines":
            row = [draw.uniform(-1, 1) for _ in range(DOCUMENTS)]
        elif kind == "two decimals":
            row = [n / 100 for n in draw.sample(range(-100, 101), DOCUMENTS)]
        elif kind == "all negative":
            row = [-n / 8 for n in draw.sample(range(1, 60), DOCUMENTS)]
        else:
            row = [n / 2**20 for n in draw.sample(range(1 << 25), DOCUMENTS)]
        rows.append(row)
    return np.array(rows)


def random_settings(draw: random.Random, matrix: np.ndarray, range_max: int | None) -> Bm25:
    top_k, range_min = draw.randrange(1, 6), draw.choice([0, 0, 1, 4])
    least = range_min + top_k
    knobs: dict[str, Any] = {
        "range_max": max(range_max or draw.randrange(least, DOCUMENTS), least),
        "top_k": top_k,
        "range_min": range_min,
        "when_short": "keep",
    }
    low, high = sorted(draw.choices(matrix.flatten().tolist(), k=2))
    scale = float(np.abs(matrix).mean())
    for name, value in {
        "min_score": low,
        "max_score": high,
        "absolute_margin": draw.choice([0, 0.01, 0.1, 0.3 * scale, -0.5 * scale]),
        "relative_margin": draw.choice([0, 0.05, 0.5, 1.5, -0.25]),
    }.items():
        if draw.random() < 0.4:
            knobs[name] = value
    return Bm25(**knobs)


@pytest.mark.parametrize("kind", ["cosines", "two decimals", "all negative", "scores of BM25"])
@pytest.mark.parametrize("window", ["within it", "all"])
def test_the_same_matrix_gives_the_same_negatives(kind: str, window: str) -> None:
    draw = random.Random(f"{kind} {window}")
    some = 0
    for _ in range(often(60, less=12)):
        matrix = distinct_scores(draw, kind)
        settings = random_settings(draw, matrix, None if window == "within it" else DOCUMENTS)
        positives = [draw.sample(range(DOCUMENTS), draw.randrange(1, 4)) for _ in matrix]
        expected = theirs(settings, matrix, positives)
        assert ours(settings, matrix, positives) == expected, settings
        some += any(expected)
    assert some > often(20, less=4)


def test_a_single_positive_among_the_hits_needs_no_other_window() -> None:
    draw = random.Random(4)
    for _ in range(often(60, less=12)):
        matrix = distinct_scores(draw, "cosines")
        settings = random_settings(draw, matrix, None)
        ranked = np.argsort(-matrix, axis=1)
        assert settings.range_max is not None
        own = [int(row[draw.randrange(settings.range_max)]) for row in ranked]
        found = [
            of_one(settings, scores, order[order != positive], float(scores[positive]))
            for scores, order, positive in zip(matrix, ranked, own, strict=True)
        ]
        assert found == theirs(settings, matrix, [[positive] for positive in own])


def test_the_matrix_reaches_them_as_it_is() -> None:
    matrix = distinct_scores(random.Random(1), "cosines")
    model = Scores(matrix)
    queries = model.encode_query([f"query {a}" for a in range(ANCHORS)])
    documents = model.encode_document([f"document {d}" for d in range(DOCUMENTS)])
    assert np.array_equal(model.similarity(queries, documents).numpy(), matrix)
    settings = Bm25(top_k=DOCUMENTS - 1, range_max=DOCUMENTS)
    for found in theirs(settings, matrix, [[0]] * ANCHORS):
        assert sorted(found) == list(range(1, DOCUMENTS))
