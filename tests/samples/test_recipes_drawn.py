"""Selectors, strategies, kinds of sample and weights that need more than a table of cases."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from corpora import Window, all_windows, by_record, odd_corpus, samples
from effort import some
from prebuilt import toy_corpus

import duckplets as dp

ANCHOR, CONTEXT, ANY = dp.role("anchor"), dp.role("context"), dp.any_section()


def train(corpus: dp.Corpus) -> list[Window]:
    return [w for w in all_windows(corpus) if w.split == "train"]


def draw(corpus: dp.Corpus, recipe: Any, epochs: int = 4, **more: Any) -> list[dict[str, Any]]:
    columns = ["anchor", "positive", "negative", "weight", "swapped"]
    columns += [f"{slot}_record_id" for slot in columns[:3]]
    sampler = corpus.sampler(
        recipes=[recipe], batch_size=5, swap=False, columns=columns, epochs=epochs, **more
    )
    return list(samples(sampler, epochs * sampler.epoch_length))


def nearest(windows: list[Window], days: int, *, other_sources: bool) -> dict[str, str]:
    """The record each dated record's near_date selector means, by the words of the rule."""
    records = {w.record_id: w for w in windows if w.role == "context"}
    found = {}
    for record_id, w in {w.record_id: w for w in windows}.items():
        if w.date is None:
            continue
        target = w.date + timedelta(days=days)
        candidates = [
            o
            for o in records.values()
            if o.date is not None
            and o.record_id != record_id
            and (o.source == w.source or (other_sources and o.area == w.area))
        ]
        if candidates:
            best = min(candidates, key=lambda o: (abs(o.date - target), o.record_id))
            found[record_id] = best.record_id
    return found


@pytest.mark.parametrize("days", some([3, 0, 400, -5], less=1))
def test_near_date_takes_the_nearest_other_record(tmp_path: Path, days: int) -> None:
    with odd_corpus(tmp_path / "c.duckdb", 40, 1, sources=2) as corpus:
        recipe = dp.TripletRecipe("near", ANCHOR, dp.near_date(days), CONTEXT)
        expected = nearest(train(corpus), days, other_sources=True)
        rows = draw(corpus, recipe)
        assert rows
        for row in rows:
            assert row["positive_record_id"] == expected[row["anchor_record_id"]]
            assert row["negative_record_id"] != row["anchor_record_id"]
        recipe = dp.TripletRecipe("near", ANCHOR, CONTEXT, dp.near_date(days))
        expected = nearest(train(corpus), days, other_sources=False)
        for row in draw(corpus, recipe):
            assert row["negative_record_id"] == expected[row["anchor_record_id"]]


def test_question_answer_mismatch_never_answers_the_same_question(tmp_path: Path) -> None:
    records = [{"q": f"question {i % 12}", "a": f"answer {i}", "id": f"r{i}"} for i in range(100)]
    with dp.Corpus(tmp_path / "qa.duckdb") as corpus:
        corpus.ingest(dp.MemorySource(records, anchor="q", positive="a", id="id"), name="qa")
        corpus.split(1, 0, 0)
        recipe = dp.TripletRecipe(
            "qa", ANCHOR, CONTEXT, CONTEXT, strategy="question_answer_mismatch"
        )
        question = {f"answer {i}": f"question {i % 12}" for i in range(100)}
        rows = draw(corpus, recipe)
        assert all(question[row["negative"]] != row["anchor"] for row in rows)
        plain = draw(corpus, dp.TripletRecipe("any", ANCHOR, CONTEXT, CONTEXT))
        assert any(question[row["negative"]] == row["anchor"] for row in plain)


def test_positives_rotate_and_meet_every_anchor_window(tmp_path: Path) -> None:
    with odd_corpus(tmp_path / "c.duckdb", 12, 4, repeats=0.0) as corpus:
        recipe = dp.TripletRecipe("pairs", ANY, CONTEXT, ANY)
        groups = by_record(train(corpus))
        seen: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for row in draw(corpus, recipe, epochs=60):
            seen[row["anchor_record_id"]].append((row["anchor"], row["positive"]))
        for windows in groups.values():
            anchors = {w.text for w in windows}
            positives = {w.text for w in windows if w.role == "context"}
            pairs = {(a, p) for a in anchors for p in positives if a != p}
            drawn = seen[windows[0].record_id]
            assert set(drawn) <= pairs
            if len(pairs) <= 12:
                assert set(drawn) == pairs
            single = [p for a, p in drawn if a == drawn[0][0]]
            count = len(positives - {drawn[0][0]})
            assert len(set(single[:count])) == min(count, len(single))


@pytest.mark.parametrize("negatives", [1, 2])
def test_pairs_are_the_triplets_taken_apart(tmp_path: Path, negatives: int) -> None:
    with toy_corpus(tmp_path / "toy.duckdb", 50) as corpus:
        columns = ["anchor", "positive"]
        columns += ["negative"] if negatives == 1 else ["negative_1", "negative_2"]
        triplets = corpus.sampler(negatives=negatives, columns=columns)
        pairs = corpus.sampler("pairs", negatives=negatives, batch_size=7)
        drawn = samples(pairs, 60 * (1 + negatives))
        for triplet in samples(triplets, 60):
            positive = next(drawn)
            assert (positive["anchor"], positive["other"]) == (
                triplet["anchor"],
                triplet["positive"],
            )
            assert (positive["label"], positive["reason"]) == (1, None)
            for column in columns[2:]:
                pair = next(drawn)
                assert (pair["anchor"], pair["other"]) == (triplet["anchor"], triplet[column])
                assert (pair["label"], pair["reason"]) == (0, "other_record")
        assert pairs.epoch_length == triplets.epoch_length * (1 + negatives)


def test_weights_of_samples(tmp_path: Path) -> None:
    long = " ".join(f"w{i}" for i in range(40))
    records = [
        {"t": f"title {i}", "b": f"{i} {long}", "trust": 0.2 + 0.6 * (i % 2)} for i in range(8)
    ]
    slots = ("anchor", "positive", "negative")
    with dp.Corpus(tmp_path / "w.duckdb") as corpus:
        source = dp.MemorySource(records, anchor="t", positive="b", trust="trust")
        corpus.ingest(source, name="w")
        corpus.split(1, 0, 0)
        corpus.chunk(dp.Chunking(max_tokens=10, overlap=(0,), summary_tokens=5, weight_floor=0.1))
        columns = ["recipe", "weight", *(f"{s}_{d}" for s in slots for d in ("trust", "window"))]
        recipes = [
            dp.TripletRecipe("titles", ANCHOR, CONTEXT, CONTEXT, weight=0.5),
            dp.TripletRecipe("windows", CONTEXT, CONTEXT, CONTEXT, weight=2.0),
        ]
        for row in samples(corpus.sampler(recipes=recipes, columns=columns), 400):
            found = []
            for slot in slots:
                window = row[f"{slot}_window"]
                base = 0.35 if window is None else 1 / (window + 1)
                found.append(min(1, max(0.1, row[f"{slot}_trust"] * base)))
            first, second = row["anchor_window"], row["positive_window"]
            if row["recipe"] == "windows" and None not in (first, second) and first != second:
                found[0] /= abs(first - second)
                found[1] /= abs(first - second)
            expected = {"titles": 0.5, "windows": 2.0}[row["recipe"]] * sum(found) / 3
            assert row["weight"] == pytest.approx(expected)


def test_start_ratio_weighs_by_the_first_token(tmp_path: Path) -> None:
    records = [{"t": f"title {i}", "b": " ".join(f"w{i}{j}" for j in range(40))} for i in range(6)]
    with dp.Corpus(tmp_path / "w.duckdb") as corpus:
        corpus.ingest(dp.MemorySource(records, anchor="t", positive="b"), name="w", trust=1.0)
        corpus.split(1, 0, 0)
        corpus.chunk(dp.Chunking(max_tokens=10, overlap=(0,), position_weight="start_ratio"))
        recipe = dp.TextRecipe("windows", dp.role("context", where="kind = 'window'"))
        sampler = corpus.sampler("texts", recipes=[recipe], columns=["weight", "text_window"])
        found = {(r["text_window"], r["weight"]) for r in samples(sampler, 200)}
        assert found == {(0, 1.0), (1, 0.75), (2, 0.5), (3, 0.25)}
