"""The kernel: exact scores and ranks, whatever the shards, blocks and processes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from itertools import product

import numpy as np
import pytest
from effort import often, some

from duckplets.base.arrays import IntegerLists, merged
from duckplets.mining import shards
from duckplets.mining.bm25 import SCALE, DocumentShard, Queries, TopDocuments, search
from duckplets.mining.shards import impacts, shard_of
from duckplets.recipes.bm25 import Bm25

GUARDS = 2


def lists(values: Sequence[Sequence[int]]) -> IntegerLists:
    starts = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(np.int64)
    return IntegerLists(starts, np.array([x for v in values for x in v], np.int64))


class World:
    """Random documents and queries, with an oracle in plain Python.

    Some documents can only be positives, some texts are empty or equal to others.
    """

    def __init__(self, seed: int, documents: int = 300, terms: int = 40, queries: int = 25) -> None:
        rng = np.random.default_rng(seed)
        self.terms = terms
        zipf = 1 / np.arange(1, terms + 1)
        lengths = rng.integers(0, 15, documents)
        self.texts = [rng.choice(terms, n, p=zipf / zipf.sum()).tolist() for n in lengths]
        for copy in rng.integers(0, documents, documents // 8):
            self.texts[copy] = self.texts[int(rng.integers(documents))]
        self.eligible = rng.random(documents) < 0.9
        self.queries = [sorted(set(rng.choice(terms, 8).tolist())) for _ in range(queries)]
        self.positives = [rng.choice(documents, rng.integers(0, 3)).tolist() for _ in self.queries]
        candidates = np.flatnonzero(self.eligible)
        self.excluded = [
            sorted(set(rng.choice(candidates, rng.integers(0, 6)).tolist())) for _ in self.queries
        ]
        self.reasons = [int(rng.integers(GUARDS)) for e in self.excluded for _ in e]
        self.allowed = [
            sorted(set(rng.choice(candidates, rng.integers(0, 90)).tolist())) for _ in self.queries
        ]
        order = rng.permutation(documents)  # documents fall to shards by a hash
        self.order = order.tolist()
        found = [Counter(text) for text in self.texts]
        self.counts = [
            sum(t in c for c, e in zip(found, self.eligible, strict=True) if e)
            for t in range(terms)
        ]
        self.number = int(self.eligible.sum())
        tokens = sum(len(t) for t, e in zip(self.texts, self.eligible, strict=True) if e)
        self.average = tokens / self.number
        self.found = found

    def impact(self, term: int, document: int) -> int:
        tf, df = self.found[document][term], self.counts[term]
        if not tf or not df:
            return 0
        idf = math.log10(1 + (self.number - df + 0.5) / (df + 0.5))
        saturation = 1.2 * (1 - 0.75 + 0.75 * (len(self.texts[document]) / self.average))
        return round(SCALE * (idf * (tf * 2.2 / (tf + saturation))))

    def score(self, query: int, document: int) -> int:
        return sum(self.impact(term, document) for term in self.queries[query])

    def shards(self, size: int) -> list[DocumentShard]:
        made = []
        for low in range(0, len(self.order), size):
            part = sorted(self.order[low : low + size], key=lambda d: (not self.eligible[d], d))
            rows = [(t, i, f, d) for i, d in enumerate(part) for t, f in self.found[d].items()]
            term, place, frequency, document = (
                np.array(column, np.int64)
                for column in (zip(*rows, strict=True) if rows else [[], [], [], []])
            )
            weights = impacts(
                frequency,
                np.array(self.counts)[term],
                np.array([len(t) for t in self.texts])[document],
                documents=self.number,
                average=self.average,
            )
            count = int(self.eligible[part].sum())
            made.append(shard_of(np.array(part), count, self.terms, (term, place, weights)))
        return made

    def asked(self, *, allowed: bool = False, part: slice = slice(None)) -> Queries:
        reasons = np.array(self.reasons, np.uint8)
        before = lists(self.excluded).starts
        low, high, _ = part.indices(len(self.queries))
        return Queries(
            terms=lists(self.queries[part]),
            positives=lists(self.positives[part]),
            excluded=lists(self.excluded[part]),
            reasons=reasons[before[low] : before[high]],
            allowed=lists(self.allowed[part]) if allowed else None,
        )

    def expect(self, query: int, settings: Bm25, *, allowed: bool) -> dict[str, object]:
        scores = {d: self.score(query, d) for d in range(len(self.texts)) if self.eligible[d]}
        matched = {d: s for d, s in scores.items() if s}
        guarded = [0] * (GUARDS + 1)
        before = int(lists(self.excluded).starts[query])
        for i, document in enumerate(self.excluded[query]):
            if matched.get(document):
                guarded[self.reasons[before + i]] += 1
        legal = {d: s for d, s in matched.items() if d not in self.excluded[query]}
        if allowed:
            guarded[-1] = sum(d not in self.allowed[query] for d in legal)
            legal = {d: s for d, s in legal.items() if d in self.allowed[query]}
        positive = min((self.score(query, d) for d in self.positives[query]), default=None)
        tops = [math.inf] * 3
        if positive is not None and settings.absolute_margin is not None:
            tops[0] = positive / SCALE - settings.absolute_margin
        if positive is not None and settings.relative_margin is not None:
            tops[1] = positive / SCALE * (1 - settings.relative_margin)
        if settings.max_score is not None:
            tops[2] = settings.max_score
        ranked = sorted(legal, key=lambda d: (-legal[d], d))
        kept = [d for d in ranked if legal[d] / SCALE <= min(tops)]
        depth = settings.range_min + settings.top_k
        low = settings.min_score or 0
        return {
            "documents": kept[:depth],
            "scores": [legal[d] for d in kept[:depth]],
            "matched": len(matched),
            "guarded": guarded,
            "above": [sum(s / SCALE > top for s in legal.values()) for top in tops],
            "below": sum(s / SCALE < low for s in legal.values()),
            "positive_scores": None if positive is None else positive / SCALE,
            "positive_ranks": 0
            if positive is None
            else 1 + sum(s > positive for s in legal.values()),
        }


def plain(found: TopDocuments, query: int) -> dict[str, object]:
    there = found.documents[query] >= 0
    score = float(found.positive_scores[query])
    return {
        "documents": found.documents[query][there].tolist(),
        "scores": found.scores[query][there].tolist(),
        "matched": int(found.matched[query]),
        "guarded": found.guarded[:, query].tolist(),
        "above": found.above[:, query].tolist(),
        "below": int(found.below[query]),
        "positive_scores": None if math.isnan(score) else score,
        "positive_ranks": int(found.positive_ranks[query]),
    }


def same(one: TopDocuments, other: TopDocuments) -> bool:
    return all(
        np.array_equal(
            getattr(one, f.name), getattr(other, f.name), equal_nan=f.name[:10] == "positive_s"
        )
        for f in fields(TopDocuments)
    )


SETTINGS = [
    Bm25(top_k=5),
    Bm25(top_k=1),
    Bm25(top_k=1000),
    Bm25(top_k=6, range_min=4, relative_margin=0.25),
    Bm25(top_k=6, absolute_margin=0.25, relative_margin=0.125, max_score=1.0, min_score=0.5),
]


@pytest.mark.parametrize(
    ("settings", "allowed", "seed"), some(product(SETTINGS, (False, True), range(4)), less=10)
)
def test_everything_found_is_what_plain_python_finds(
    seed: int, allowed: bool, settings: Bm25, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # no dense rows
        monkeypatch.setattr(shards, "_FREQUENT", 1.0)
    world = World(seed)
    found = search(world.shards(1000), world.asked(allowed=allowed), settings, guards=GUARDS)
    for query in range(len(world.queries)):
        assert plain(found, query) == world.expect(query, settings, allowed=allowed)


@pytest.mark.parametrize("settings", some(SETTINGS, less=2), ids=str)
def test_shards_and_blocks_change_nothing(settings: Bm25) -> None:
    world = World(11, documents=500)
    whole = search(world.shards(1000), world.asked(), settings, guards=GUARDS)
    for size in (500, 77, 10):
        assert same(search(world.shards(size), world.asked(), settings, guards=GUARDS), whole)
    for block in (1, 7):
        for low in range(0, len(world.queries), block):
            part = slice(low, low + block)
            found = search(world.shards(200), world.asked(part=part), settings, guards=GUARDS)
            assert found.documents.tolist() == whole.documents[part].tolist()
            assert found.scores.tolist() == whole.scores[part].tolist()


def test_a_query_looks_into_its_own_shard_only() -> None:
    world = World(8)
    shards = world.shards(100)
    asked = world.asked()
    own = np.arange(len(asked)) % len(shards)
    alone = Queries(
        asked.terms, asked.positives, asked.excluded, asked.reasons, None, own.astype(np.int64)
    )
    found = search(shards, alone, Bm25(top_k=1000), guards=GUARDS)
    for query, shard in enumerate(own.tolist()):
        numbers = set(found.documents[query][found.documents[query] >= 0].tolist())
        assert numbers
        assert numbers <= set(shards[shard].numbers.tolist())


def test_a_term_that_no_document_has_adds_nothing() -> None:
    none = impacts(np.ones(1, int), np.zeros(1, int), np.ones(1, int), documents=3, average=1.0)
    assert none.tolist() == [0]


# ---- lists


@pytest.mark.parametrize("seed", range(often(20, less=5)))
def test_lists_are_looked_up_and_chained(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain_lists = [sorted(set(rng.integers(0, 9, rng.integers(0, 6)).tolist())) for _ in range(12)]
    others = [rng.integers(0, 99, rng.integers(0, 4)).tolist() for _ in range(9)]
    made = lists(plain_lists)
    pairs = [(o, v) for o, values in enumerate(plain_lists) for v in values]
    mixed = [pairs[i] for i in rng.integers(0, len(pairs), 3 * len(pairs))] + pairs
    owners, values = (np.array(column) for column in zip(*mixed, strict=True))
    grouped = IntegerLists.of(owners, values, 12)
    assert [grouped[i].tolist() for i in range(12)] == plain_lists
    taken = rng.integers(0, 12, 20)
    assert [made.take(taken)[i].tolist() for i in range(20)] == [plain_lists[t] for t in taken]
    chained = made.then(lists(others))
    for owner, values_of in enumerate(plain_lists):
        assert chained[owner].tolist() == [x for v in values_of for x in others[v]]
    more = lists([rng.integers(0, 9, 2).tolist() for _ in range(12)])
    union, first = merged([made, more])
    for owner in range(12):
        assert union[owner].tolist() == sorted({*plain_lists[owner], *more[owner].tolist()})
        for value, part in zip(
            union[owner].tolist(), first[union.starts[owner] : union.starts[owner + 1]], strict=True
        ):
            assert part == (0 if value in plain_lists[owner] else 1)


def test_empty_lists_stay_empty() -> None:
    nothing = IntegerLists.of(np.zeros(0, np.int64), np.zeros(0, np.int64), 3)
    assert nothing.starts.tolist() == [0, 0, 0, 0]
    assert len(nothing.then(nothing).values) == 0
    assert len(nothing.take(np.array([2, 0])).values) == 0
    assert len(merged([nothing, nothing])[0].values) == 0
