"""Candidates belong to their ground: recipes of any name that have it draw from them."""

import pytest
from corpora import rows_of
from prebuilt import copying, toy_corpus

import duckplets as dp
from duckplets.mining.store import Minings

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
WHOLE = dp.TripletRecipe("whole", ANCHOR, CONTEXT, CONTEXT)
HALVES = [
    dp.TripletRecipe(name, dp.role("anchor", f"md5(record_id) {half}"), CONTEXT, CONTEXT)
    for name, half in (("even", "< '8'"), ("odd", ">= '8'"))
]
corpus = copying(toy_corpus)


def drawn(corpus, recipes, **options):
    given = {"batch_size": 8, "columns": ["recipe", "negative_by", "anchor_record_id"]}
    sampler = corpus.sampler(recipes=recipes, **given, **options)
    rows = rows_of(sampler, 8)
    return sampler, {(row["recipe"], row["negative_by"]) for row in rows}


def test_two_recipes_that_divide_the_anchors_draw_what_another_one_mined(corpus):
    corpus.mine(WHOLE)
    sampler, ways = drawn(corpus, HALVES)
    assert ways <= {(n, by) for n in ("even", "odd") for by in ("bm25", "bm25_fallback")}
    assert {("even", "bm25"), ("odd", "bm25")} <= ways
    assert "negatives mined" in sampler.describe()
    assert not [note for note in sampler.notes if "not mined" in note]
    named = dp.TripletRecipe(
        "other", ANCHOR, CONTEXT, CONTEXT, by=dp.Negatives(by="bm25", range_max=3)
    )
    assert ("other", "bm25") in drawn(corpus, [named])[1]
    other = dp.TripletRecipe("anchors", ANCHOR, CONTEXT, ANCHOR, by="bm25")  # another ground
    with pytest.raises(dp.StateMismatchError, match="no negatives have been mined"):
        corpus.sampler(recipes=[other], batch_size=8)


def test_anchors_that_were_not_mined_are_counted_and_draw_at_random(corpus):
    corpus.mine(HALVES[0])
    sampler, ways = drawn(corpus, [WHOLE])
    assert {("whole", "bm25"), ("whole", "bm25_fallback")} <= ways
    (note,) = [note for note in sampler.notes if "not mined" in note]
    odd = corpus.pool(HALVES[1]).num_rows
    assert f" {odd:,} of " in note
    assert "corpus.mine('whole')" in note
    sampler.save()
    corpus.mine(HALVES[1], progress=False)  # of several the one with most of its anchors
    of = Minings(corpus.database)
    pools = [corpus.pool(half).num_rows for half in HALVES]
    name = max(zip(pools, ["even", "odd"], strict=True))[1]
    assert of.serving(WHOLE, "toy", "train")["bm25"].recipe == name
    assert [of.serving(half, "toy", "train")["bm25"].recipe for half in HALVES] == ["even", "odd"]
    corpus.mine(WHOLE)
    assert not [note for note in drawn(corpus, [WHOLE])[0].notes if "not mined" in note]
    with corpus.resume() as saved:  # pinned
        assert [note for note in saved.notes if "not mined" in note] == [note]


def test_candidates_of_several_scorers_are_drawn_as_requested(corpus):
    corpus.mine(WHOLE)
    pairs = corpus.sql("SELECT record_id FROM live_records WHERE split = 'train'")["record_id"]
    first, second, *_ = pairs.to_pylist()
    rows = [{"anchor_id": first, "negative_id": second, "score": 1.0}]
    corpus.add_negatives(rows, name=WHOLE, scorer="judge")
    with pytest.raises(
        dp.StateMismatchError,
        match=r"bm25, judge have candidates; .*Negatives\(by='bm25'\), or by={'bm25'",
    ):
        drawn(corpus, HALVES)
    mixed = dp.Negatives(by={"bm25": 0.5, "judge": 0.5})
    assert ("even", "bm25") in drawn(corpus, HALVES, negatives=dp.Negatives(by="bm25"))[1]
    assert ("odd", "bm25") in drawn(corpus, HALVES, negatives=mixed)[1]
