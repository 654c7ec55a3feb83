"""Mining without a recipe, and the notes of mining."""

import re

import pytest
from commands import error, lines, ok
from effort import thorough
from prebuilt import prebuilt

import duckplets as dp
from duckplets.errors import RecipeError

pytestmark = pytest.mark.usefixtures("pools_once")

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
VERBS = ["open", "close", "paint", "mend", "sell"]
NOUNS = ["door", "window", "car", "house", "book", "pen"]


@prebuilt
def chores(path):
    """Questions whose answers share words with each other; a third with none of the question."""
    corpus = dp.Corpus(path)
    rows = []
    for i, (verb, noun) in enumerate((v, n) for v in VERBS for n in NOUNS):
        answer = f"you {verb} the {noun} by hand" if i % 3 else f"ask number {i}"
        rows.append({"id": str(i), "q": f"how to {verb} a {noun}", "a": answer})
    corpus.ingest(rows, name="chores", id="id", anchor="q", positive="a")
    rows = [{"t": f"a {verb} of {noun}"} for verb in VERBS for noun in NOUNS]
    corpus.ingest(rows, name="plain", text="t")
    corpus.split(0.8, 0.2, 0, seed=1)
    return corpus


@pytest.fixture
def corpus(tmp_path):
    with chores(tmp_path / "c.duckdb") as corpus:
        yield corpus


def made(report):
    return {(pair.recipe, pair.source, pair.split) for pair in report.pairs}


@thorough
def test_without_a_name_every_drawn_recipe_is_mined(corpus):
    whole = made(corpus.mine())
    assert whole == {
        (recipe, source, split)
        for recipe, source in (("anchor_context", "chores"), ("simcse", "plain"))
        for split in ("train", "validation")  # no record is in test
    }
    sampler = corpus.sampler(batch_size=64, columns=["source", "negative_by"])
    found = next(sampler).to_pylist()
    assert {row["source"] for row in found if row["negative_by"] == "bm25"} == {"chores", "plain"}
    assert sampler.notes == []
    assert made(corpus.mine()) == set(), "it is there and current"


def test_stored_recipes_are_mined_except_those_with_other_negatives(corpus):
    roles = (ANCHOR, CONTEXT, CONTEXT)
    for recipe in (
        dp.TripletRecipe("open", *roles),
        dp.TripletRecipe("asks", *roles, by=dp.Negatives(by="bm25", range_max=3)),
        dp.TripletRecipe("chance", *roles, by="random"),
        dp.TripletRecipe("own", ANCHOR, CONTEXT, dp.role("rejected"), strategy="same_record"),
        dp.TripletRecipe("wide", *roles, negatives_from="split"),
        dp.TripletRecipe("never", *roles, weight=0),
    ):
        corpus.add_recipe(recipe)
    report = corpus.mine(source="chores", split="train")
    assert made(report) == {("open", "chores", "train"), ("asks", "chores", "train")}
    (note,) = corpus.mine("chance", source="chores", split="train").notes[:1]
    assert "no sampler will use these candidates; remove its by, or set it to 'bm25'" in note
    with pytest.raises(RecipeError, match="'same_record' takes sections of the anchor's own"):
        corpus.mine("own")
    for name in ("open", "asks"):
        corpus.remove(recipe=name)
    (note,) = corpus.mine().notes
    assert "nothing was mined" in note
    assert "chance (by='random')" in note


def test_export_mine_and_sample_in_a_row_need_no_option(tmp_path):
    path, out = tmp_path / "c.duckdb", tmp_path / "x.parquet"
    chores(path).close()
    export = ("export", path, out, "--format", "sentence-transformers")
    (command,) = re.findall(r"run: duckplets (mine \S+)\.", error(*export))
    shown = ok(*command.split())
    assert "anchor_context" in shown
    assert "simcse" in shown
    ok(*export)
    found = lines(ok("sample", path, "--batch-size", 64, "--columns", "negative_by"))
    assert {row["negative_by"] for row in found} <= {"bm25", "bm25_fallback"}


def test_plain_pairs_need_no_mining(corpus, tmp_path):
    how = {"negatives": 0, "progress": False, "overwrite": True}
    out = tmp_path / "pairs.jsonl"

    def rows():
        return lines(out.read_text(encoding="utf-8"))

    for shape in (None, "triplet", "n-tuple"):
        report = corpus.export(out, "sentence-transformers", shape=shape, **how)
        assert {tuple(row) for row in rows()} == {("anchor", "positive")}
        assert (report.recipe, report.sources) == ("anchor_context", ["chores"])
        assert (len(rows()), report.rows, report.anchors, report.negatives) == (20, 20, 20, 0)
    corpus.export(out, "sentence-transformers", shape="labeled-pair", **how)
    assert {row["label"] for row in rows()} == {1}
    corpus.export(out, "flagembedding", **how)
    assert {tuple(row["neg"]) for row in rows()} == {()}
    for wrong in ({"scores": True}, {"negatives": dp.Negatives(0, when_short="drop")}):
        with pytest.raises(dp.SamplerError, match=f"{next(iter(wrong))}.*plain pairs"):
            corpus.export(out, "flagembedding", **how | wrong)


def test_a_margin_that_cuts_most_is_named_with_its_numbers(corpus):
    where = {"source": "chores", "split": "train", "progress": False}
    plain = corpus.mine("anchor_context", **where)
    assert not any("margin" in note for note in plain.notes)
    for margin, value in (("relative_margin", 0.95), ("absolute_margin", 3.0)):
        by = dp.Negatives(by="bm25", **{margin: value})
        recipe = dp.TripletRecipe(margin, ANCHOR, CONTEXT, CONTEXT, by=by)
        report = corpus.mine(recipe, **where)
        cut, none = report.counts[margin], report.outcomes["none"]
        assert report.candidates == plain.candidates
        cuts, uncovered = report.notes
        assert (
            f"{margin}={value:g} cuts {cut:,} of {report.candidates:,} candidates, and "
            f"{none:,} of {report.anchors} anchors have no negative"
        ) in cuts
        assert f"{none:,} of {report.anchors} anchors have no candidate" in uncovered
        assert report.pairs[0].unranked > 0


def test_a_positive_that_was_not_ranked_has_no_score_and_no_rank(tmp_path):
    rows = [{"id": i, "q": f"where is the cat {i}", "a": f"the cat {i} is here"} for i in range(6)]
    rows += [{"id": "apart", "q": "where is the cat now", "a": "elsewhere"}]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(rows, name="s", id="id", anchor="q", positive="a")
        corpus.split(1, 0, 0)
        report = corpus.mine()
        found = corpus.sql(
            "SELECT DISTINCT record_id = 's/apart' AS apart, positive_score, positive_rank "
            "FROM candidates JOIN sections ON section_key = anchor_section_key "
            "JOIN records USING (record_key) ORDER BY apart"
        ).to_pylist()
        assert found[-1] == {"apart": True, "positive_score": None, "positive_rank": None}
        assert all(row["positive_score"] > 0 and row["positive_rank"] > 0 for row in found[:-1])
        (pair,) = report.pairs
        assert pair.unranked == 1
        assert pair.quantiles["positive_score"]["0 %"] > 0
        sampler = corpus.sampler(columns=["anchor", "positive_score"], batch_size=7, epochs=1)
        scores = dict(zip(*next(sampler).values(), strict=True))
        assert [anchor for anchor, of in scores.items() if of is None] == ["where is the cat now"]
        exported = corpus.export(tmp_path / "o.jsonl", "flagembedding", scores=True)
        assert exported.left_out == {"no score of its positive": 1}
