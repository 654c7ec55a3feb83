"""Search by vector: exactly what comparing every chunk with the query gives, and fused ranks."""

import json

import numpy as np
import pytest
from commands import error, ok
from corpora import odd_corpus
from effort import often, some, thorough
from hashed import DIMENSION, Embedder, hashed

import duckplets as dp
from duckplets.search.index import index as build_index
from duckplets.search.search import search
from duckplets.vectors import knn

COLUMNS = ["record_id", "score", "text", "source", "split", "section", "role", "snippet"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("nearest") / "c.duckdb"
    with odd_corpus(path, often(60, less=16), 4, sources=2) as corpus:
        corpus.embed(hashed, batch_size=50)
        corpus.embed(hashed, "half", dtype="float16")
        build_index(corpus, dp.Terms(stemmer="none"), progress=False)
    return path


@pytest.fixture
def corpus(path):
    with dp.Corpus(path, read_only=True) as opened:
        yield opened


def chunks_of(corpus, source, split):
    found = corpus.sql(
        "SELECT record_id, source, split, position, text FROM chunk_texts "
        "WHERE source = coalesce($source, source) AND split = coalesce($split, split)",
        {"source": source, "split": split},
    )
    return list(found.to_pylist())


def expected(corpus, query, source, split):
    """Compare every chunk, one by one."""
    chunks = chunks_of(corpus, source, split)
    vectors = hashed(chunk["text"] for chunk in chunks)
    scores = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    best = {}
    for chunk, score in zip(chunks, scores.tolist(), strict=True):
        key = (chunk["record_id"], chunk["position"])
        best[key] = max(score, best.get(key, -2))
    return [(*key, score) for key, score in sorted(best.items(), key=lambda x: (-x[1], x[0]))]


@pytest.mark.parametrize(
    ("source", "split"),
    some([(None, None), ("odd1", None), (None, "test"), ("odd0", "validation")], less=2),
)
def test_search_equals_a_comparison_of_every_chunk(corpus, monkeypatch, source, split):
    draw = np.random.default_rng(11)
    monkeypatch.setattr(knn, "_FIRST_TEXTS", 2)  # so that more are looked up
    monkeypatch.setattr(knn, "_GROWTH", 3)
    monkeypatch.setattr(knn, "_AT_ONCE", 64)
    for _ in range(often(20, less=1)):
        query = draw.normal(size=DIMENSION)
        wanted = expected(corpus, query, source, split)
        for k in (1, 7, 1000):
            for name, precision in {"default": 1e-5, "half": 3e-3}.items():
                found = corpus.search(query, k, source, split, by=name)
                assert found.column_names == COLUMNS
                rows = [(r["record_id"], r["section"], r["score"]) for r in found.to_pylist()]
                assert len(rows) == min(k, len(wanted))
                if name == "default":
                    assert [row[:2] for row in rows] == [row[:2] for row in wanted[:k]]
                assert np.allclose([r[2] for r in rows], [w[2] for w in wanted[:k]], atol=precision)


def test_a_query_has_the_prompt_of_anchors_and_fuses_with_bm25(corpus):
    text = "alpha beta gamma"
    lexical = corpus.search(text, 100).to_pylist()
    dense = corpus.search(text, 100, by="default", encoder=hashed).to_pylist()
    found = corpus.search(text, 12, by=["bm25", "default"], encoder=hashed)
    assert found.column_names == [*COLUMNS, "rank_bm25", "rank_default"]
    ranks = [
        {(row["record_id"], row["section"]): rank for rank, row in enumerate(rows, start=1)}
        for rows in (lexical, dense)
    ]
    scores = {
        key: sum(1 / (60 + of[key]) for of in ranks if key in of) for key in ranks[0] | ranks[1]
    }
    order = sorted(scores, key=lambda key: (-scores[key], key))[:12]
    assert [(row["record_id"], row["section"]) for row in found.to_pylist()] == order
    for row, key in zip(found.to_pylist(), order, strict=True):
        assert row["score"] == pytest.approx(scores[key])
        assert (row["rank_bm25"], row["rank_default"]) == tuple(of.get(key) for of in ranks)
    # The text search is what it was.
    assert corpus.search(text, 12).equals(search(corpus.database, text, 12))


@thorough
def test_later_vectors_are_found(tmp_path):
    with odd_corpus(tmp_path / "c.duckdb", 10, 1) as corpus:
        prompts = {"anchor": "q: "}
        corpus.embed(hashed, prompts=prompts, split="train")
        query = hashed(["q: brand new"])[0]
        asked = Embedder()
        before = corpus.search("brand new", 3, by="default", encoder=asked)
        assert asked.texts == ["q: brand new"]
        assert before.equals(corpus.search(query, 3, by="default"))
        assert before["score"][0].as_py() < 0.99
        corpus.ingest([{"t": "brand new"}], name="new", anchor="t")
        corpus.embed(hashed, prompts=prompts)
        assert corpus.search(query, 1, by="default")["source"].to_pylist() == ["new"]
        corpus.remove("new")
        after = corpus.search(query, 3, by="default")
        assert "new" not in after["source"].to_pylist()


def test_invalid_queries_are_named(corpus):
    vector = np.ones(DIMENSION)
    cases = [
        (vector, {"by": "defualt"}, r"no vectors are named 'defualt' \(did you mean 'default'\?\)"),
        (vector[:3], {"by": "default"}, r"shape \(3,\), but vectors of 'default' have 8 numbers"),
        (vector * np.nan, {"by": "default"}, "not finite"),
        (vector * 0, {"by": "default"}, "no direction"),
        ("a text", {"by": "default"}, "have no model that can be loaded.*hashed.hashed.*encoder="),
        ({"a": 1}, {"by": "default"}, "give a text or 8 numbers"),
        (vector, {"by": ["bm25", "default"]}, "by='bm25' needs a text, not a vector"),
        (vector, {"by": "default", "encoder": hashed}, "encoder= needs a text, not a vector"),
        ("a text", {"encoder": hashed}, "by='bm25' compares no vectors; remove encoder="),
        ("a text", {"by": []}, "by=.*give 'bm25', the name"),
        ("a text", {"by": ["default", "default"]}, "name each once"),
        ("a", {"by": "default", "encoder": lambda _: np.ones((1, 4))}, "of 4 numbers, not of 8"),
        (vector, {"by": "default", "source": "odd7"}, "no source 'odd7'"),
        (vector, {"by": "default", "k": 0}, "k=0"),
    ]
    for asked, options, message in cases:
        with pytest.raises(dp.DuckpletsError, match=message):
            corpus.search(asked, **options)


def test_the_command(path):
    asked = ("search", path, "alpha beta", "--k", "2", "--by", "bm25")
    assert [*json.loads(ok(*asked, "--json"))[0]] == COLUMNS
    assert "give encoder=" in error("search", path, "alpha", "--by", "default")
