"""Pairs that were judged: each comes as it stands, once an epoch; none is a wrong positive."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from effort import often
from prebuilt import prebuilt

import duckplets as dp
from duckplets.pools.compile import compile_pool

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
COLUMNS = [
    *("anchor", "other", "label", "reason", "negative_by", "source", "position"),
    *("anchor_record_id", "other_record_id"),
]


@prebuilt
def judged(path: Path, /, **sizes: int) -> dp.Corpus:
    """A source for each size: ``binary`` and ``graded`` ones have labels, others none."""
    corpus = dp.Corpus(path)
    corpus.split(1, 0, 0)
    for name, size in sizes.items():
        rows = [
            {"id": str(i), "a": f"{name} asks {i}", "p": f"{name} says {i}", "l": label(name, i)}
            for i in range(size)
        ]
        mapping: dict[str, Any] = {} if name.startswith("plain") else {"label": "l"}
        source = dp.MemorySource(rows, anchor="a", positive="p", id="id", **mapping)
        corpus.ingest(source, name=name, progress=False)
    return corpus


def label(source: str, number: int) -> float:
    """Return how a pair was judged."""
    return number % 2 if source.startswith("binary") else number / 4


def rows_of(sampler: dp.Sampler, steps: int) -> list[dict[str, Any]]:
    return [row for step in range(steps) for row in sampler.batch_at(step).to_pylist()]


def check(row: dict[str, Any]) -> bool:
    """Check the label of a pair; returns whether it is one that was judged."""
    source, number = row["anchor_record_id"].split("/")
    is_own = row["anchor_record_id"] == row["other_record_id"]
    if source.startswith("plain") or not is_own:
        assert row["label"] == is_own
        assert (row["reason"], row["negative_by"]) == (
            (None, None) if is_own else ("other_record", "random")
        )
        return False
    assert row["label"] == label(source, int(number))
    assert (row["reason"], row["negative_by"]) == ("given", None)
    assert {row["anchor"], row["other"]} == {f"{source} asks {number}", f"{source} says {number}"}
    return True


def test_no_pair_with_a_text_of_another_record_is_labelled_positive(tmp_path: Path) -> None:
    with judged(tmp_path / "c.duckdb", binary=400) as corpus:
        wide = corpus.sampler(
            "pairs", batch_size=100, columns=COLUMNS, structural_negatives=True, seed=3
        )
        rows = rows_of(wide, 8)
        made = [row for row in rows if not check(row)]
        assert len(made) == 400
        assert {row["label"] for row in made} == {0}
        bare = rows_of(corpus.sampler("pairs", batch_size=100, columns=COLUMNS, run="bare"), 4)
        assert all(map(check, bare))
        assert Counter(row["label"] for row in bare) == {0: 200, 1: 200}


@pytest.mark.parametrize("seed", range(often(40, less=2)))
def test_every_judged_pair_comes_once_an_epoch_with_its_own_label(
    tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    kind = draw.choice(["binary", "graded"])
    size, batch = draw.choice([1, 2, 3, 7, 33, 64]), draw.choice([1, 3, 8])
    swap = draw.random() < 0.5
    apart: Any = draw.choice([False, True, "negatives"])
    with judged(tmp_path / "c.duckdb", **{kind: size}) as corpus:
        sampler = corpus.sampler(
            "pairs", batch_size=batch, columns=COLUMNS, epochs=3, seed=seed, swap=swap,
            no_duplicates=apart if size > batch else False,
        )  # fmt: skip
        rows = [row for each in sampler for row in each.to_pylist()]
        assert all(map(check, rows))
        for epoch in range(3):
            seen = Counter(r["anchor_record_id"] for r in rows[epoch * size : (epoch + 1) * size])
            assert len(seen) == size or apart is True
        assert set(Counter(row["anchor_record_id"] for row in rows).values()) == {3}
        if not swap:
            assert all("asks" in row["anchor"] for row in rows)
        table = sampler.forecast().table
        assert table["samples"].to_pylist() == [3 * size]
        assert table["visits"].to_pylist() == [3.0]
        assert table["negatives"].to_pylist() == ["given"]


def test_grades_make_all_labels_floats_and_the_run_says_so(tmp_path: Path) -> None:
    with judged(tmp_path / "c.duckdb", binary=12, graded=15, plain=9) as corpus:
        one = corpus.sampler(
            "pairs", batch_size=6, mixture=dp.Mixture({"graded": 0, "plain": 0}, omitted=1)
        )
        assert one.batch_at(0).table["label"].type == pa.int64()
        with pytest.raises(dp.SamplerError, match=r"'graded' has grades.*are integers"):
            one.set_weights({"graded": 1})
        columns = COLUMNS
        options: dict[str, Any] = {"negatives": 2, "columns": columns, "mixture": "equal"}
        every = corpus.sampler("pairs", batch_size=6, run="every", **options)
        assert every.batch_at(0).table["label"].type == pa.float64()
        assert any("labels are floats, for there are grades in 'graded'" in n for n in every.notes)
        rows = rows_of(every, 30)
        assert Counter(row["source"] for row in rows if check(row)) == {"binary": 60, "graded": 60}
        assert "grades as given" in every.describe()
        assert any("labels are floats" in warning for warning in every.forecast().warnings)
        # By position alone, whatever the ranks and wherever it begins.
        for rank in range(2):
            options |= {"run": f"r{rank}", "rank": rank, "world_size": 2}
            part = corpus.sampler("pairs", batch_size=3, **options)
            for step in (0, 7, 29):
                whole = every.batch_at(step).table
                assert part.batch_at(step).table.equals(whole.slice(3 * rank, 3))
        served = every.served(0, 60)
        assert served["label"].to_pylist() == [row["label"] for row in rows[:60]]


def test_a_run_goes_on_where_it_was_saved_with_and_without_a_snapshot(tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 7, "columns": COLUMNS, "structural_negatives": True}
    with judged(tmp_path / "c.duckdb", binary=20, graded=11) as corpus:
        held = corpus.sampler("pairs", **options, snapshot=False)
        expected = [held.batch_at(step).table for step in range(12)]
        corpus.prepare()
        sampler = corpus.sampler("pairs", **options)
        for step in range(5):
            assert next(sampler).table.equals(expected[step])
        sampler.save()
        with pytest.raises(dp.StateMismatchError, match="structural_negatives"):
            corpus.resume(structural_negatives=False)
        again = corpus.resume()
        assert [next(again).table.equals(expected[step]) for step in range(5, 12)] == [True] * 7
        kept = corpus.sampler("pairs", **options | {"structural_negatives": False}, run="given")
        assert "structural_negatives" not in kept.settings.fingerprint()
        assert all(check(row) for row in rows_of(kept, 4))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"kind": "triplets", "structural_negatives": True}, "triplets have no labels"),
    "bool": ({"structural_negatives": 1}, "give True or False"),
    "none": ({"negatives": 2}, "come as they were judged; give structural_negatives=True"),
    "simcse": (
        {"recipes": [dp.TripletRecipe("same", ANCHOR, ANCHOR, ANCHOR, allow_same_anchor_positive=True)]},  # noqa: E501
        "its positive is the anchor itself",
    ),
    "near": (
        {"recipes": [dp.TripletRecipe("near", ANCHOR, dp.near_date(3), ANCHOR)]},
        "its positive is of another record",
    ),
    "windows": (
        {"recipes": [dp.TripletRecipe("windows", CONTEXT, CONTEXT, CONTEXT)]},
        "finds no anchor",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_label_judges_is_refused(tmp_path: Path, name: str) -> None:
    given, message = REFUSED[name]
    arguments = {"kind": "pairs", "batch_size": 2, **given}
    with (
        judged(tmp_path / "c.duckdb", binary=6) as corpus,
        pytest.raises(dp.DuckpletsError, match=message),
    ):
        corpus.sampler(**arguments)


def test_without_labels_there_are_no_structural_negatives(tmp_path: Path) -> None:
    with judged(tmp_path / "c.duckdb", plain=6) as corpus:
        with pytest.raises(dp.SamplerError, match="no source has labels"):
            corpus.sampler("pairs", structural_negatives=True)
        labels = corpus.sampler("pairs", batch_size=4).batch_at(0).table["label"]
        assert labels.type == pa.int64()


# ---- triplets


def test_a_pair_judged_negative_is_no_positive_of_a_triplet(tmp_path: Path) -> None:
    with judged(tmp_path / "c.duckdb", binary=60) as corpus:
        columns = ["anchor", "positive", "anchor_record_id", "positive_record_id"]
        for by in (None, "bm25"):
            if by:
                corpus.mine("anchor_context", progress=False)
            sampler = corpus.sampler(batch_size=30, columns=columns, by=by, run=str(by))
            for row in rows_of(sampler, 10):
                assert row["anchor_record_id"] == row["positive_record_id"]
                assert int(row["anchor_record_id"].split("/")[1]) % 2 == 1
        (pool,) = (p for p in corpus.status()["pools"] if p["split"] == "train")
        assert (pool["anchors"], pool["left_out"]) == (30, {"labelled negative": 30})


def test_its_other_side_is_a_legal_negative_of_the_anchor(tmp_path: Path) -> None:
    """The one anchor has a good answer and a bad one, and they are all there is."""
    rows = [{"a": "ask", "p": "good", "l": "yes"}, {"a": "ask", "p": "bad", "l": "no"}]
    recipes = [
        dp.TripletRecipe("other", ANCHOR, CONTEXT, CONTEXT),
        dp.TripletRecipe("asked", ANCHOR, CONTEXT, CONTEXT, strategy="question_answer_mismatch"),
    ]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.split(1, 0, 0)
        source = dp.MemorySource(rows, anchor="a", positive="p", label="l")
        corpus.ingest(source, name="s", progress=False)
        for recipe in recipes:
            sampler = corpus.sampler(batch_size=2, recipes=[recipe], swap=False, run=recipe.name)
            (row, _) = sampler.batch_at(0).to_pylist()
            assert (row["anchor"], row["positive"], row["negative"]) == ("ask", "good", "bad")


def test_a_grade_is_a_positive_only_by_a_condition(tmp_path: Path) -> None:
    good = dp.TripletRecipe("good", ANCHOR, dp.role("context", "label >= 4"), CONTEXT)
    asks = dp.TripletRecipe("asks", dp.role("anchor", "label < 1"), CONTEXT, CONTEXT)
    with judged(tmp_path / "c.duckdb", graded=24) as corpus:
        with pytest.raises(dp.EmptyPoolError, match=r"24 pairs have grades.*label >= 0.5"):
            corpus.sampler(batch_size=4)
        for recipe, wanted in ((good, range(16, 24)), (asks, range(4))):
            sampler = corpus.sampler(batch_size=16, recipes=[recipe], run=recipe.name)
            rows = [row for step in range(2) for row in sampler.batch_at(step).to_pylist()]
            found = {text for row in rows for text in (row["anchor"], row["positive"])}
            assert found == {f"graded {verb} {i}" for i in wanted for verb in ("asks", "says")}


def test_only_what_was_judged_positive_is_relevant(tmp_path: Path) -> None:
    recipe = dp.TripletRecipe("evaluation", ANCHOR, CONTEXT, CONTEXT)
    with judged(tmp_path / "c.duckdb", binary=20) as corpus:
        out = tmp_path / "beir"
        corpus.export_negatives(out, format="beir", split="train", recipe=recipe, progress=False)
    rows = (out / "qrels" / "train.tsv").read_text().splitlines()[1:]
    numbers = [int(line.split("\t")[0].split("/")[1].split("#")[0]) for line in rows]
    assert sorted(numbers) == list(range(1, 20, 2))
    assert len((out / "corpus.jsonl").read_text().splitlines()) == 20


def test_sources_without_labels_have_the_statements_they_had() -> None:
    recipe = dp.TripletRecipe("r", ANCHOR, CONTEXT, CONTEXT)
    where: dict[str, Any] = {"source": "s", "split": "train", "version": 1}
    plain, binary = (compile_pool(recipe, **where, labels=kind) for kind in (None, "binary"))
    assert "label" not in plain.sql()
    added = [line for line in binary.sql().splitlines() if line not in plain.sql().splitlines()]
    assert len(added) == 3  # in anchors, in positives, and the reason
    windows = dp.TripletRecipe("w", CONTEXT, CONTEXT, CONTEXT)
    assert compile_pool(windows, **where, labels="graded").labels is None
