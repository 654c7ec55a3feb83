"""Candidates by the cosine of vectors: exactly the closest legal documents."""

import hashlib
from collections import defaultdict
from functools import cache
from itertools import product

import numpy as np
import pytest
from effort import often, some
from mining_oracle import BOTH, STRATEGIES, Oracle, mined, odd_corpus, sections

import duckplets as dp
from duckplets.mining import guards
from duckplets.vectors import dense as dense_mining

DIMENSION = 8


@cache
def vector(text):
    """A vector that is the same in three texts of four, so that many scores are equal."""
    word = hashlib.sha256(text[:3].encode()).digest()
    found = np.frombuffer(word[:DIMENSION], np.int8).astype(np.float32)
    return found + np.float32(text.count("a")) / 8


def embedded(texts):
    return np.stack([vector(text) for text in texts])


def recipe(**options):
    return dp.TripletRecipe("mined", *BOTH, **options)


@cache
def cosine(one, other):
    a, b = (vector(text).astype(np.float64) for text in (one, other))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


QUERIES, HOW = ["anchor", "positive", "both"], ["other_record", "equality", "inequality"]


@pytest.mark.parametrize(("query", "strategy"), some(product(QUERIES, HOW), less=3))
def test_candidates_are_the_closest_legal_documents(tmp_path, query, strategy, monkeypatch):
    how, allowed = STRATEGIES[strategy]
    monkeypatch.setattr(dense_mining, "_WINDOWS", 23)
    monkeypatch.setattr(dense_mining, "_ANCHORS", 17)
    monkeypatch.setattr(dense_mining, "_MANY", 1)
    depth = 6
    with odd_corpus(tmp_path / "c.duckdb", often(150, less=50), 4, threads=3) as corpus:
        corpus.embed(embedded, name="v")
        report = corpus.mine(
            recipe(strategy=how), by=dp.Dense("v", query=query), depth=depth, split="train"
        )
        oracle = Oracle(sections(corpus), "odd0", "train", allowed=allowed)
        found = defaultdict(list)
        for row in corpus.sql("FROM candidates ORDER BY anchor_section_key, rank").to_pylist():
            found[row["anchor_section_key"]].append(row)
        compared = 0
        for anchor in oracle.anchors:
            own = oracle.positives[anchor.record]
            asked = {"anchor": [anchor], "positive": own, "both": [anchor, *own]}[query]

            def score(section, asked=asked):
                best = max(cosine(one.text, section.text) for one in asked)
                return round(best * 2**20) / 2**20

            legal = [d for d in oracle.documents if oracle.legal(anchor, d)]
            ranked = sorted(legal, key=lambda d: (-score(d), d.record_id, d.position))
            mine = found[anchor.key]
            assert [row["score"] for row in mine] == [score(d) for d in ranked[:depth]]
            assert [row["negative_section_key"] for row in mine] == [d.key for d in ranked[:depth]]
            positive = min(map(score, own))
            for row in mine:
                assert row["positive_score"] == positive
                assert row["positive_rank"] == 1 + sum(score(d) > positive for d in legal)
            compared += len(mine)
        (pair,) = report.pairs
        assert compared == pair.candidates > 100
        counts = pair.counts
        beyond = ("same record", "same group", "same text", "strategy", "beyond depth")
        looked_at = sum(counts[name] for name in beyond) + pair.candidates
        assert looked_at == pair.anchors * pair.searched


def test_blocks_change_nothing_and_an_interrupted_one_goes_on(tmp_path, monkeypatch):
    with odd_corpus(tmp_path / "c.duckdb", often(80, less=50), 9, threads=2) as corpus:
        corpus.embed(embedded, name="v")
        how = {"by": dp.Dense("v"), "depth": 9, "split": "train"}
        corpus.mine(recipe(), **how)
        reference = mined(corpus)
        assert corpus.mine(recipe(), **how).pairs == ()
        monkeypatch.setattr(dense_mining, "_WINDOWS", 7)
        monkeypatch.setattr(dense_mining, "_ANCHORS", 5)
        monkeypatch.setattr(dense_mining, "_MANY", 1000)
        monkeypatch.setattr(guards, "_BLOCK_PAIRS", 300)
        monkeypatch.setattr("duckplets.mining.store._PART_ROWS", 60)
        calls = []

        def stop(done, _):
            calls.append(done)
            if len(calls) == 4:
                raise KeyboardInterrupt

        how["depth"] = 10
        with pytest.raises(KeyboardInterrupt):
            corpus.mine(recipe(), **how, progress=stop)
        (pair,) = corpus.mine(recipe(), **how).pairs
        assert pair.resumed > 0
        again = [row for row in mined(corpus) if row[5] <= 9]
        assert again == reference
        drawn = corpus.sampler(recipes=[recipe()], mixture={"odd0": 1}, columns=["negative_by"])
        assert "dense" in next(drawn)["negative_by"]
        policies = corpus.negatives(negatives=dp.Negatives(by="dense")).to_pylist()
        assert policies[0]["relative_margin"] > 0, "a margin of .05, unless another is given"
        corpus.mine(recipe(), split="train")
        both = corpus.sampler(
            recipes=[recipe()],
            columns=["negative_by"],
            negatives=dp.Negatives(by={"bm25": 0.5, "dense": 0.5}),
        )
        assert {"bm25", "dense"} <= set(next(both)["negative_by"])


def test_what_is_wrong_is_named(tmp_path):
    with odd_corpus(tmp_path / "c.duckdb", 40, 5) as corpus:
        with pytest.raises(dp.errors.VectorError, match=r"none"):
            corpus.mine(recipe(), by=dp.Dense("none"))
        corpus.embed(embedded, name="v", split="test")
        with pytest.raises(
            dp.errors.VectorError, match=r"windows have no vector in 'v'.*duckplets embed"
        ):
            corpus.mine(recipe(), by=dp.Dense("v"))
        with pytest.raises(dp.RecipeError, match="query='title'"):
            dp.Dense("v", query="title")
        with pytest.raises(dp.RecipeError, match=r"give 'bm25', 'judged', or dp.Dense"):
            corpus.mine(recipe(), by="dense")
