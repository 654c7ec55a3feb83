"""The probe: its gradient, its loss, and its judge, against plain Python."""

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from effort import often

from duckplets.adapters.evaluation import Questions
from duckplets.advise.halving import Judge
from duckplets.advise.probe import DIMENSION, SCALE, WORDS, Probe, Words
from duckplets.search.analyzer_settings import Terms

WIDTH = 40  # pieces of a text


def batch(draw, texts, words=12):
    """Return tokens of texts, some of which have none, some a word twice."""
    tokens = np.full((texts, WIDTH), WORDS, np.uint16)
    for row in tokens:
        size = draw.choice([0, 1, 2, 5, WIDTH])
        row[:size] = [draw.randrange(words) for _ in range(size)]
    return tokens


def plain_loss(table, tokens, anchors):
    """Return the mean loss of a batch, text by text."""
    vectors = []
    for row in tokens:
        own = [table[word] for word in row if word < WORDS]
        mean = sum(own) / len(own) if own else np.zeros(DIMENSION)
        length = math.sqrt(mean @ mean)
        vectors.append(mean / length if length else mean)
    total = 0.0
    for n in range(anchors):
        scores = [SCALE * float(vectors[n] @ other) for other in vectors[anchors:]]
        total += math.log(sum(map(math.exp, scores))) - scores[n]
    return total / anchors


@pytest.mark.parametrize("seed", range(often(20, less=4)))
def test_loss_and_gradient_are_those_of_finite_differences(seed):
    draw, probe = random.Random(seed), Probe(seed)
    probe.table = probe.table.astype(np.float64)
    anchors = draw.randrange(1, 6)
    tokens = batch(draw, anchors * draw.choice([2, 3, 6]))
    loss, slopes = probe.loss(tokens, anchors)
    assert loss == pytest.approx(plain_loss(probe.table, tokens, anchors), abs=1e-9)
    rows, gradient = probe.by_word(tokens, slopes)
    assert rows.tolist() == sorted({*tokens[tokens < WORDS].tolist()})
    step = 1e-5
    for _ in range(10 if len(rows) else 0):
        place, number = draw.randrange(len(rows)), draw.randrange(DIMENSION)
        ends = []
        for sign in (1, -1):
            probe.table[rows[place], number] += sign * step
            ends.append(probe.loss(tokens, anchors)[0])
            probe.table[rows[place], number] -= sign * step
        difference = (ends[0] - ends[1]) / (2 * step)
        assert gradient[place, number] == pytest.approx(difference, abs=1e-6, rel=1e-4)


def test_loss_falls_and_only_words_of_batches_move():
    draw, probe = random.Random(1), Probe(1)
    before, tokens = probe.table.copy(), batch(draw, 90, words=500)
    losses = [probe.learn(tokens, 30) for _ in range(40)]
    assert losses[-1] < 0.5 * losses[0]
    moved = np.flatnonzero((probe.table != before).any(axis=1))
    assert moved.tolist() == sorted({*tokens[tokens < WORDS].tolist()})
    others = [Probe(seed) for seed in (1, 2)]
    for _ in range(40):
        others[0].learn(tokens, 30)
    assert (others[0].table == probe.table).all()
    assert (others[1].table != before).any()


def test_tokens_are_the_first_terms_of_any_script():
    texts = [
        "Red foxes, red FOX",
        "",
        "?!",
        "狐狸很快",
        "สุนัขจิ้งจอก",
        "a " * 10**6,
        "лиса, лиса",
        "foxtrot",
        "foxtail",
    ]
    words = Words(Terms(stemmer="none"))
    found = words.tokens(pa.array(texts))
    words.close()
    counts = (found < WORDS).sum(axis=1).tolist()
    assert counts[0] == 2 * (1 + 3) + (1 + 5) + (1 + 3)  # itself, and runs of three of ^red$
    assert counts[1:3] == [0, 0]
    assert min(counts[3:5]) > 1
    assert counts[5:7] == [32 * 2, 2 * (1 + 4)]
    assert (np.diff(found.astype(int), axis=1) >= 0).all()
    pieces = [{*row[row < WORDS].tolist()} for row in found]
    assert len(pieces[0]) == counts[0] - 4 - 2  # red comes twice, and ^fo and fox
    assert len(pieces[5]) == 2
    assert len(pieces[7] & pieces[8]) == 3  # ^fo, fox and oxt


class Fixed:
    """A probe whose vectors are given by the first token."""

    def __init__(self, vectors):
        self.vectors = vectors

    def encode(self, tokens):
        return self.vectors[tokens[:, 0]]


class Numbers:
    """Words whose only token is the number that a text is."""

    def tokens(self, texts):
        found = np.full((len(texts), WIDTH), WORDS, np.uint16)
        found[:, 0] = [int(text) for text in texts.to_pylist()]
        return found


def plain_ndcg(asked, vectors, query):
    """Rank families by their best document, ties by their first, and sum up the gains."""
    best = {}
    for place, (name, text) in enumerate(asked.documents.items()):
        score = float(vectors[int(asked.queries[query])] @ vectors[int(text)])
        head = asked.one_of.get(name, name)
        had = best.get(head, (math.inf, 0))
        best[head] = (min(had[0], -score), [*asked.documents].index(head))
        assert place >= 0
    ranked = sorted(best, key=best.get)
    gains = asked.gains[query]
    found = [gains.get(name, 0) for name in ranked[:10]]
    most = sorted(gains.values(), reverse=True)[:10]
    weigh = [1 / math.log2(n + 2) for n in range(10)]
    return sum(map(float.__mul__, map(float, found), weigh)) / sum(
        map(float.__mul__, map(float, most), weigh)
    )


@pytest.mark.parametrize("seed", range(often(20, less=3)))
def test_the_judge_ranks_as_plain_python_does(seed):
    draw = random.Random(seed)
    numbers = np.random.default_rng(seed).integers(-2, 3, (90, DIMENSION))
    vectors = numbers.astype(np.float32)  # whole, so that many scores are equal
    vectors[:, 3:] = 0
    documents = {f"d{n}": str(n) for n in range(draw.choice([5, 40]))}
    heads = [*documents][:: draw.choice([1, 2, 3])]
    one_of = {name: draw.choice(heads) for name in documents if name not in heads}
    one_of = {n: h for n, h in one_of.items() if [*documents].index(h) < [*documents].index(n)}
    left = [name for name in documents if name not in one_of]
    queries = {f"q{n}": str(draw.randrange(90)) for n in range(70)}
    gains = {
        query: {
            name: draw.choice([1.0, 1.0, 2.0])
            for name in draw.sample(left, draw.choice([1, 3]) % len(left) + 1)
        }
        for query in queries
    }
    asked = Questions(queries, documents, gains, one_of, {query: query for query in queries})
    found = Judge(asked, Numbers()).ndcg(Fixed(vectors))
    expected = [plain_ndcg(asked, vectors, query) for query in queries]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
