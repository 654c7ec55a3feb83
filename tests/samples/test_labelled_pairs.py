"""Pairs that were judged: each comes as it stands, once an epoch; none is a wrong positive."""

import random
from collections import Counter

import pyarrow as pa
import pytest
from corpora import rows_of
from effort import often
from prebuilt import prebuilt, reading

import duckplets as dp

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
COLUMNS = [
    *("anchor", "other", "label", "reason", "negative_by", "source", "position"),
    *("anchor_record_id", "other_record_id"),
]


@prebuilt
def judged(path, /, **sizes):
    """A source for each size: ``binary`` and ``graded`` ones have labels, others none."""
    corpus = dp.Corpus(path)
    corpus.split(1, 0, 0)
    for name, size in sizes.items():
        rows = [
            {"id": str(i), "a": f"{name} asks {i}", "p": f"{name} says {i}", "l": label(name, i)}
            for i in range(size)
        ]
        mapping = {} if name.startswith("plain") else {"label": "l"}
        corpus.ingest(rows, name=name, anchor="a", positive="p", id="id", **mapping)
    return corpus


def label(source, number):
    """Return how a pair was judged."""
    return number % 2 if source.startswith("binary") else number / 4


def check(row):
    """Check the label of a pair; returns whether it is one that was judged."""
    source, number = row["anchor_record_id"].split("/")
    is_own = row["anchor_record_id"] == row["other_record_id"]
    if row["reason"] != "given":
        assert row["label"] == is_own
        assert (row["reason"], row["negative_by"]) == (
            (None, None) if is_own else ("other_record", "random")
        )
        return False
    assert row["label"] == label(source, int(number))
    assert row["negative_by"] is None
    assert {row["anchor"], row["other"]} == {f"{source} asks {number}", f"{source} says {number}"}
    return True


SIZES = {"binary": 12, "graded": 15, "plain": 9}
GOOD = dp.TripletRecipe("good", ANCHOR, dp.role("context", "label >= 1"), CONTEXT)
SAME = dp.TripletRecipe("same", ANCHOR, ANCHOR, ANCHOR, allow_same_anchor_positive=True)
NEAR = dp.TripletRecipe("near", ANCHOR, dp.near_date(3), ANCHOR)
WINDOWS = dp.TripletRecipe("windows", CONTEXT, CONTEXT, CONTEXT)
# Which sources weigh anything, what is asked for, and which pairs these are; or what is refused.
CASES = {
    "labels": ({"binary", "graded"}, {}, "labelled"),
    "several": ({"plain"}, {"negatives": 3}, "drawn"),
    "both": ({"binary", "plain"}, {}, "source 'binary' has labels, and source 'plain' has none"),
    "negatives": (
        {"binary"},
        {"negatives": 2},
        r"Negatives\(2\): nothing is drawn for labelled pairs",
    ),
    "apart": ({"graded"}, {"no_duplicates": "negatives"}, "'negatives': nothing is drawn"),
    "simcse": ({"binary"}, {"recipes": [SAME]}, "its positive is the anchor itself"),
    "near": ({"binary"}, {"recipes": [NEAR]}, "its positive is of another record"),
    "windows": ({"binary"}, {"recipes": [WINDOWS]}, "finds no anchor"),
}


mixed = reading(judged, **SIZES)  # with labels of 0 and 1, with grades, and with none


def test_a_run_has_pairs_that_were_judged_or_pairs_that_are_drawn(mixed):
    for name, (sources, given, expected) in CASES.items():
        mixture = {source: float(source in sources) for source in SIZES}
        run = {"kind": "labelled_pairs", "batch_size": 6, "mixture": mixture, "run": name, **given}
        if expected not in ("labelled", "drawn"):
            with pytest.raises(dp.DuckpletsError, match=expected):
                mixed.sampler(**run)
            continue
        with mixed.sampler(**run, columns=COLUMNS) as sampler:
            rows, is_float = rows_of(sampler, 12), expected == "labelled"
            assert {row["source"] for row in rows} == sources
            assert {check(row) for row in rows} == {expected == "labelled"}
            # A source of the corpus that weighs 0 has grades.
            label = sampler.batch_at(0).table["label"].type
            assert label == (pa.float64() if is_float else pa.int64())
            assert sampler.settings.pairs == expected
            told = {"labelled": "given", "drawn": "random"}[expected]
            assert {*sampler.forecast().table["negatives"].to_pylist()} == {told}


@pytest.mark.parametrize("seed", range(often(40, less=2)))
def test_every_judged_pair_comes_once_an_epoch_with_its_own_label(tmp_path, seed):
    draw = random.Random(seed)
    kind = draw.choice(["binary", "graded"])
    size, batch = draw.choice([1, 2, 3, 7, 33, 64]), draw.choice([1, 3, 8])
    swap, apart = draw.random() < 0.5, draw.random() < 0.5 and size > batch
    with judged(tmp_path / "c.duckdb", **{kind: size}) as corpus:
        sampler = corpus.sampler(
            "labelled_pairs",
            batch_size=batch,
            columns=COLUMNS,
            epochs=3,
            seed=seed,
            no_duplicates=apart,
            options=dp.Options(swap=swap),
        )
        rows = [row for each in sampler for row in each.to_pylist()]
        assert all(map(check, rows))
        for epoch in range(3):
            seen = Counter(r["anchor_record_id"] for r in rows[epoch * size : (epoch + 1) * size])
            assert len(seen) == size or apart
        assert set(Counter(row["anchor_record_id"] for row in rows).values()) == {3}
        if not swap:
            assert all("asks" in row["anchor"] for row in rows)
        table = sampler.forecast().table
        assert table["samples"].to_pylist() == [3 * size]
        assert table["visits"].to_pylist() == [3.0]


def test_grades_make_all_labels_floats_and_the_run_says_so(mixed):
    how = {"columns": COLUMNS, "mixture": {"binary": 1, "graded": 1}}
    with mixed.sampler("labelled_pairs", batch_size=6, **how) as every:
        assert every.batch_at(0).table["label"].type == pa.float64()
        assert any("labels are floats, since 'graded' has grades" in n for n in every.notes)
        rows = rows_of(every, 30)
        assert Counter(row["source"] for row in rows if check(row)) == {"binary": 90, "graded": 90}
        assert "grades as given" in every.describe()


def test_a_positive_that_a_condition_takes_is_an_answer_whatever_its_grade(tmp_path):
    rows = [
        {"id": f"{n}", "q": f"ask {n}", "a": "x" if n < 3 else "y", "y": n / 4} for n in range(5)
    ]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(rows, name="s", id="id", anchor="q", positive="a", label="y")
        corpus.split(1, 0, 0)
        context = dp.role("context", where="label >= 0")
        recipe = dp.TripletRecipe("r", dp.role("anchor"), context, dp.role("context"))
        with corpus.sampler(recipes=[recipe], batch_size=5) as sampler:
            drawn = {(row["positive"], row["negative"]) for row in sampler.batch_at(0).to_pylist()}
        assert drawn == {("x", "y"), ("y", "x")}


def test_a_pair_judged_negative_is_no_positive_of_a_triplet(tmp_path):
    with judged(tmp_path / "c.duckdb", binary=60) as corpus:
        columns = ["anchor", "positive", "anchor_record_id", "positive_record_id"]
        for by in (None, "bm25"):
            if by:
                corpus.mine("anchor_context")
            sampler = corpus.sampler(
                batch_size=30, columns=columns, run=str(by), negatives=dp.Negatives(by=by)
            )
            for row in rows_of(sampler, 10):
                assert row["anchor_record_id"] == row["positive_record_id"]
                assert int(row["anchor_record_id"].split("/")[1]) % 2 == 1
        (pool,) = (p for p in corpus.status()["pools"] if p["split"] == "train")
        assert (pool["anchors"], pool["left_out"]) == (30, {"labelled negative": 30})


def test_a_grade_is_a_positive_only_by_a_condition(tmp_path):
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
