"""Sources and recipes without an anchor: left out with a note, or refused where they were named."""

import re
from dataclasses import replace

import pytest
from commands import error, lines, ok
from effort import thorough
from prebuilt import prebuilt, reading

import duckplets as dp

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
SIZE = 120
GRADES = f"{SIZE} pairs have grades; give the least grade of a positive"


@prebuilt
def graded(path):
    """Two sources of pairs, one of grades, one of a single record."""
    corpus = dp.Corpus(path)
    for name in ("docs", "faq"):
        rows = [{"q": f"{name} asks {i}", "a": f"{name} says {i}"} for i in range(20)]
        corpus.ingest(rows, name=name, anchor="q", positive="a")
    rows = [{"q": f"one {i}", "a": f"other {i}", "score": i / SIZE} for i in range(SIZE)]
    corpus.ingest(rows, name="pairs", anchor="q", positive="a", label="score")
    corpus.ingest([{"q": "alone", "a": "single"}], name="single", anchor="q", positive="a")
    corpus.split(1, 0, 0)
    return corpus


@pytest.fixture
def path(tmp_path):
    graded(tmp_path / "c.duckdb").close()
    return tmp_path / "c.duckdb"


corpus = reading(graded)


def sources_of(sampler):
    return set(sampler.forecast().table["source"].to_pylist())


def test_what_nobody_named_is_left_out_with_a_note(corpus, tmp_path):
    own = dp.TripletRecipe("own", ANCHOR, CONTEXT, CONTEXT)
    for how, preset in (
        ({}, dp.Options()),
        ({}, dp.Options(preset="crate")),
        ({"recipes": ["anchor_context"]}, dp.Options()),
        ({"recipes": [own]}, dp.Options()),
    ):
        sampler = corpus.sampler(
            **how,
            run=str([*how.values()])[:9],
            options=replace(preset, state=tmp_path / "s.duckdb"),
        )
        (note,) = (n for n in sampler.notes if "left out" in n)
        assert f"in source 'pairs', split 'train': {GRADES}" in note
        assert "in source 'single', split 'train': 1 no negative" in note
        assert sources_of(sampler) == {"docs", "faq"}
    sampler.save()
    expected = next(sampler).to_pylist()
    with corpus.resume(sampler.settings.run, state=tmp_path / "s.duckdb") as resumed:
        assert next(resumed).to_pylist() == expected
        assert not any("left out" in note for note in resumed.notes)
        with pytest.raises(dp.EmptyPoolError, match="'pairs'"):
            resumed.set_weights({"pairs": 1})
    sampler = corpus.sampler(recipes=[replace(own, sources=("faq",))])
    assert sources_of(sampler) == {"faq"}
    assert any("source 'docs' has no recipe" in note for note in sampler.notes)


LATER = dp.Mixture({"docs": 1}, omitted=0, phases=[dp.Phase(9, {"pairs": 1})])
LIMITED = dp.TripletRecipe("one", ANCHOR, CONTEXT, CONTEXT, sources=("docs", "pairs"))
NOWHERE = dp.TripletRecipe("no", dp.role("anchor", "label > 7"), CONTEXT, CONTEXT)


NAMED = [
    ({"mixture": {"docs": 0.7, "pairs": 0.3}}, f"'anchor_context' .*'pairs'.*{GRADES}"),
    ({"mixture": LATER}, GRADES),
    ({"mixture": {"docs": 1, "single": 1}}, "'single', split 'train': 1 no negative"),
    ({"recipes": [LIMITED]}, f"recipe 'one' finds no anchor in source 'pairs'.*{GRADES}"),
    ({"recipes": ["anchor_context", NOWHERE]}, "recipe 'no' finds no anchor in source 'docs'"),
    ({"options": dp.Options(empty="error")}, f"{GRADES}.*1 no negative"),
]


def test_what_was_named_is_an_error_at_once(corpus):
    for how, message in NAMED:
        with pytest.raises(dp.EmptyPoolError, match=message):
            corpus.sampler(**how)
        if "options" not in how:
            assert sources_of(corpus.sampler(**how, options=dp.Options(empty="skip"))) <= {
                "docs",
                "faq",
            }


def test_recipes_of_weight_zero_are_not_read(corpus):
    weights = {"docs": 0.7, "faq": 0.3, "pairs": 0, "single": 0}
    sampler = corpus.sampler(mixture=weights, batch_size=10)
    assert not any("left out" in note for note in sampler.notes)
    assert sorted(next(sampler)["source"]) == ["docs"] * 7 + ["faq"] * 3
    corpus.sampler(mixture=weights, options=dp.Options(empty="error"))


def test_the_suggested_command_works_and_no_triplets_are_counted(path, tmp_path):
    assert f"{SIZE} grade without a condition" in ok("status", path)
    mixture = ("--mixture", "pairs=1,docs=0,faq=0,single=0")
    told = error("sample", path, *mixture)
    assert GRADES in told
    assert 'positive = { role = "context", where = "label >= 0.5" }' in told
    file = tmp_path / "graded.toml"
    shown = (
        "[[recipe]]\nname = "
        + re.search(r'"anchor_context"\n(?:.+\n)+', ok("show", path, "--recipes"))[0]
    )
    positive = 'positive = { role = "context" }'
    assert positive in shown
    edited = positive.replace(" }", ', where = "label >= 0.5" }')
    file.write_text(shown.replace(positive, edited), encoding="utf-8")
    found = lines(ok("sample", path, *mixture, "--recipes", file, "--batch-size", 64))
    assert len(found) == 64
    assert all(int(row["positive"].split()[1]) * 2 >= SIZE for row in found)
    with dp.Corpus(path) as corpus:
        counted = {row["source"]: row for row in corpus.status()["capacity"]}
        assert counted["faq"]["triplets"] == 20 * 19
        pairs = counted["pairs"]
        assert (pairs["triplets"], pairs["effective_triplets"], pairs["pairs"]) == (0, 0, SIZE)
        good = dp.TripletRecipe("good", ANCHOR, dp.role("context", "label >= 0.5"), CONTEXT)
        corpus.add_recipe(good)
        counted = {row["source"]: row for row in corpus.status()["capacity"]}
        assert counted["pairs"]["triplets"] == SIZE * (SIZE - 1)


@thorough
def test_mining_leaves_it_out_as_well(path):
    with dp.Corpus(path) as corpus:
        report = corpus.mine()
        mined = {(pair.source, pair.split) for pair in report.pairs}
        assert mined == {("docs", "train"), ("faq", "train")}
        first, second, *_ = report.notes
        assert f"finds no anchor in source 'pairs', split 'train': {GRADES}" in first
        assert second.endswith("finds no anchor in source 'single', split 'train': 1 no negative")
        assert corpus.sql("SELECT DISTINCT split FROM minings")["split"].to_pylist() == ["train"]
