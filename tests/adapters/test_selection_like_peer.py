"""Policies leave what sentence-transformers' ``mine_hard_negatives`` takes, fed the same scores.

Both skip ``range_min`` of what margins and scores leave, and take so many of the rest.
"""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

from datasets import Dataset, disable_progress_bars  # noqa: E402
from effort import often  # noqa: E402
from mined_corpora import write_mining  # noqa: E402
from sentence_transformers.util import mine_hard_negatives  # noqa: E402

import duckplets as dp  # noqa: E402
from duckplets.mining import policy as policies  # noqa: E402
from duckplets.mining.store import Minings  # noqa: E402
from duckplets.recipes.mined import Mined  # noqa: E402

disable_progress_bars()

ANCHORS, DOCUMENTS = 5, 24
RECIPE = dp.TripletRecipe("peer", dp.role("anchor"), dp.role("context"), dp.role("context"))


class Scores:
    """Stands in for a model: similarities are the entries of a matrix, exactly."""

    device = torch.device("cpu")

    def __init__(self, matrix):
        self.matrix = matrix

    def encode_query(self, texts, **_):
        return self.matrix[numbers(texts)]

    def encode_document(self, texts, **_):
        return np.eye(self.matrix.shape[1])[numbers(texts)]

    def similarity(self, anchors, documents):
        return torch.as_tensor(anchors) @ torch.as_tensor(documents).T

    def similarity_pairwise(self, anchors, documents):
        return (torch.as_tensor(anchors) * torch.as_tensor(documents)).sum(dim=1)


def numbers(texts):
    return [int(text.split()[1]) for text in texts]


def theirs(settings, matrix, positives):
    found = [[] for _ in positives]
    pairs = [(f"query {a}", f"document {d}") for a, own in enumerate(positives) for d in own]
    knobs = ("range_min", "max_score", "min_score", "absolute_margin", "relative_margin")
    try:
        mined = mine_hard_negatives(
            Dataset.from_dict({"query": [a for a, _ in pairs], "answer": [d for _, d in pairs]}),
            Scores(matrix),
            corpus=[f"document {d}" for d in range(matrix.shape[1])],
            **{name: getattr(settings, name) for name in knobs},
            range_max=DOCUMENTS,
            num_negatives=settings.wanted,
            output_format="labeled-list",
            verbose=False,
        )
    except ZeroDivisionError:  # margins removed every hit, and it divides by how many are left
        return found
    for query, documents in zip(mined["query"], mined["answer"], strict=True):
        found[numbers([query])[0]] = numbers(documents[1:])
    return found


def ours(corpus, settings, matrix, positives):
    """What the policy leaves of the same scores, kept as candidates."""
    rows = {}
    for anchor, (scores, own) in enumerate(zip(matrix, positives, strict=True)):
        legal = [d for d in np.argsort(-scores, kind="stable").tolist() if d not in own]
        rows[anchor] = [(document, float(scores[document])) for document in legal]
    known = {a: float(matrix[a][own].min()) for a, own in enumerate(positives)}
    write_mining(corpus, RECIPE, rows, source="s", positives=known)
    found = [[] for _ in positives]
    (mining,) = Minings(corpus.database).found("peer")
    for anchors, _, documents, *_ in policies.survivors(
        corpus.database, mining, settings, corpus.version
    ):
        for anchor, document in zip(anchors.tolist(), documents.tolist(), strict=True):
            found[anchor].append(document)
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    with dp.Corpus(tmp_path_factory.mktemp("peer") / "c.duckdb") as corpus:
        rows = [{"id": "r", "q": "question", "a": "answer"}]
        corpus.ingest(rows, name="s", id="id", anchor="q", positive="a")
        corpus.split(1, 0, 0)
        yield corpus


SCORES = {
    "cosines": lambda draw: [draw.uniform(-1, 1) for _ in range(DOCUMENTS)],
    "two decimals": lambda draw: [n / 100 for n in draw.sample(range(-100, 101), DOCUMENTS)],
    "all negative": lambda draw: [-n / 8 for n in draw.sample(range(1, 60), DOCUMENTS)],
    "scores of BM25": lambda draw: [n / 2**20 for n in draw.sample(range(1 << 25), DOCUMENTS)],
}  # without ties in a row: among equal scores, theirs are in no order


def random_settings(draw, matrix):
    range_min = draw.choice([0, 0, 1, 4])
    knobs = {"range_min": range_min, "range_max": range_min + draw.randrange(1, 6)}
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
    return Mined(**knobs)


@pytest.mark.parametrize("kind", SCORES)
def test_the_same_matrix_gives_the_same_negatives(kind, corpus):
    draw = random.Random(kind)
    some = 0
    for _ in range(often(60, less=6)):
        matrix = np.array([SCORES[kind](draw) for _ in range(ANCHORS)])
        settings = random_settings(draw, matrix)
        positives = [draw.sample(range(DOCUMENTS), draw.randrange(1, 4)) for _ in matrix]
        expected = theirs(settings, matrix, positives)
        assert ours(corpus, settings, matrix, positives) == expected, settings
        some += any(expected)
    assert some > often(20, less=0)
