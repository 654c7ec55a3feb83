"""Counters by source, losses, skew and similarity, against plain Python."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import counts_of
from effort import some
from prebuilt import toy_corpus

import duckplets as dp

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Corpus]:
    path = tmp_path_factory.mktemp("metrics") / "c.duckdb"
    with toy_corpus(path, 150, sources=("a", "b", "c")) as corpus:
        yield corpus


CONFIGURATIONS: list[dict[str, Any]] = [
    {"kind": "pairs", "negatives": 2, "batch_size": 9},
    {"kind": "texts", "mixture": {"a": 0, "b": 1, "c": 3}},
    {"no_duplicates": True, "negatives": 2, "batch_size": 8},
]


@pytest.mark.parametrize("made", [list, np.array], ids=["list", "array"])
def test_losses_are_averaged_by_source(corpus: dp.Corpus, made: Any) -> None:
    draw = random.Random(1)
    sampler = corpus.sampler(batch_size=20, columns=["anchor"])
    batch, names = next(sampler), next(corpus.sampler(batch_size=20))["source"]
    losses = [draw.random() for _ in names]
    expected = {
        f"loss/{name}": math.fsum(x for x, s in zip(losses, names, strict=True) if s == name)
        / names.count(name)
        for name in set(names)
    }
    assert sampler.loss_by_source(batch, made(losses)) == pytest.approx(expected)
    for wrong in ([], [1.0] * 7, [[1.0]] * 20, np.ones((20, 2))):
        with pytest.raises(dp.SamplerError, match="one number a sample"):
            sampler.loss_by_source(batch, wrong)


def test_skew_says_how_uneven_a_batch_is(corpus: dp.Corpus) -> None:
    batch = next(corpus.sampler(mixture={"a": 6, "b": 3, "c": 1}, batch_size=100))
    counts = Counter(batch["source"])
    for given in (batch, batch["source"], batch.to_pydict()):
        found = dp.source_skew(given)
        assert (found["total"], found["sources"]) == (100, 3)
        assert (found["min"], found["max"]) == (min(counts.values()), max(counts.values()))
        assert found["mean"] == pytest.approx(100 / 3)
        assert found["ratio"] == max(counts.values()) / min(counts.values())
        assert list(found["shares"]) == ["a", "b", "c"]
    assert dp.source_skew([]) == {
        **dict.fromkeys(("total", "sources", "min", "max", "mean", "ratio"), 0),
        "shares": {},
    }
    assert dp.source_skew(["b", "a"])["shares"] == {"a": 0.5, "b": 0.5}


def test_skew_counts_sources_that_a_batch_has_nothing_of(corpus: dp.Corpus) -> None:
    mixture = dp.Mixture({"a": 998, "b": 1, "c": 1}, phases=[dp.Phase(1, {"b": 0})])
    sampler = corpus.sampler(mixture=mixture, batch_size=5)
    first, second = dp.source_skew(next(sampler)), dp.source_skew(next(sampler))
    assert (first["min"], first["max"], first["ratio"]) == (0, 5, math.inf)
    assert first["shares"] == {"a": 1, "b": 0, "c": 0}
    assert second["shares"] == {"a": 1, "c": 0}
    given = dp.source_skew(["a", "b", "b", "b"], sources=["a", "z"])
    assert given["shares"] == {"b": 0.75, "a": 0.25, "z": 0}
    assert (given["min"], given["mean"]) == (0, 4 / 3)


@pytest.mark.parametrize("configuration", some(CONFIGURATIONS, less=1), ids=str)
def test_counters_are_of_all_before_the_position(
    corpus: dp.Corpus, configuration: dict[str, Any]
) -> None:
    taken, moved = (corpus.sampler(**configuration) for _ in range(2))
    expected = [counts_of(taken)]
    for _ in range(9):
        next(taken)
        expected.append(counts_of(taken))
    for step in (3, 4, 9, 8, 1, 0, 7):
        moved.move(step * taken.settings.batch_size)
        assert counts_of(moved) == expected[step]
        state = taken.state_dict(step)
        assert state["counts"]["position"] <= state["position"]
        other = corpus.sampler(**configuration)
        other.load_state_dict(state)
        assert counts_of(other) == expected[step]


SIMILAR: list[tuple[str, str, float]] = [
    ("", "", 0),
    ("a b", "", 0),
    ("A b!", "b, a", 1),
    ("one two three", "three four", 1 / 4),
    ("Straße 9", "STRASSE 9", 1),
    ("snake_case", "snake case", 1),
    ("你好 世界", "世界", 1 / 2),
]


@pytest.mark.parametrize("back", [2, 15])  # counted anew from 0, or what lies between subtracted
def test_counts_of_what_is_drawn_otherwise_now_are_forgotten(corpus: dp.Corpus, back: int) -> None:
    def told(seen_before: bool) -> dict[str, float]:
        with corpus.sampler(batch_size=16, prefetch=0, swap=True, run=str(seen_before)) as sampler:
            if seen_before:
                sampler.move(20 * 16)
                sampler.metrics()
            sampler.move(back * 16)
            assert sampler.set_weights({"a": 9, "b": 1, "c": 0.5}) == back
            sampler.move(18 * 16)
            found = sampler.metrics()
        return {name: value for name, value in found.items() if name.startswith("data/")}

    assert told(True) == told(False)


@pytest.mark.parametrize(("one", "other", "expected"), SIMILAR, ids=repr)
def test_similarity_is_the_share_of_common_words(one: str, other: str, expected: float) -> None:
    assert dp.lexical_similarity(one, other) == pytest.approx(expected)
    assert dp.lexical_similarity(other, one) == pytest.approx(expected)


def test_diagnostics_are_of_the_batch(corpus: dp.Corpus) -> None:
    sampler = corpus.sampler(batch_size=8, negatives=2)
    batch = next(sampler)
    found = sampler.diagnostics(batch)
    rows = batch.to_pylist()
    for slot in ("positive", "negative_1", "negative_2"):
        similar = [dp.lexical_similarity(row["anchor"], row[slot]) for row in rows]
        assert found[f"anchor_{slot}_lexical_similarity"] == similar
    assert found["proximity"] == [None] * 8
    narrow = corpus.sampler(columns=["negative"])
    batch = next(narrow)
    with pytest.raises(dp.SamplerError, match="left out"):
        narrow.diagnostics(batch)


def test_proximity_is_that_of_the_windows(tmp_path: Path) -> None:
    words = [{"t": " ".join(f"w{i}x{j}" for j in range(40))} for i in range(30)]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(dp.Chunking(max_tokens=10, overlap=(2,), summary_tokens=0))
        corpus.split(1, 0, 0)
        corpus.ingest(dp.MemorySource(words, text="t"), name="long")
        columns = ["anchor", "anchor_window", "positive_window"]
        sampler = corpus.sampler(batch_size=300, columns=columns)
        batch = next(sampler)
        apart = [abs(r["anchor_window"] - r["positive_window"]) for r in batch.to_pylist()]
        assert sampler.diagnostics(batch)["proximity"] == [1 / max(1, of) for of in apart]
        assert len({*apart}) > 2
