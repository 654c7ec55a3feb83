"""In which shares recipes and sources are drawn where nobody says so, and what is said of it."""

import re
import threading
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from corpora import all_windows, odd_corpus, samples
from effort import often, some
from frozen_runs import titled
from prebuilt import copying, prebuilt

import duckplets as dp

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
TITLE = dp.TripletRecipe("title", ANCHOR, CONTEXT, CONTEXT)
WORDS = " ".join(f"word{i}" for i in range(60))


@prebuilt
def sparse_corpus(path, count, long):
    """Records of a title and a short body, but for some whose body has several windows."""
    rows = [
        {"id": f"r{i}", "t": f"title {i}", "b": f"body {i} {WORDS if i < long else ''}"}
        for i in range(count)
    ]
    corpus = dp.Corpus(path)
    corpus.ingest(rows, name="s", id="id", anchor="t", positive="b")
    corpus.split(1, 0, 0)
    corpus.chunk(dp.Chunking(max_tokens=20, overlap=(5,), summary_tokens=0))
    return corpus


def drawn(sampler, count, *columns):
    """How often which values of some columns come among the next samples."""
    rows = samples(sampler, count)
    return Counter(
        tuple(row[c] for c in columns) if columns[1:] else row[columns[0]] for row in rows
    )


def test_a_long_document_has_about_its_own_share(tmp_path):
    records = often(5000, less=200)
    with sparse_corpus(tmp_path / "c.duckdb", records, 2) as corpus:
        for preset, recipes in ((None, 1), ("crate", 2)):
            sampler = corpus.sampler(
                batch_size=1000, columns=["recipe"], options=dp.Options(preset=preset)
            )
            assert sampler.epoch_length == recipes * records + 2
            seen = drawn(sampler, 2 * records, "recipe")
            # 1 · 2/5000 beside 1, or .75 and .25: one sample in 2,501.
            assert abs(seen["long_section"] - 2 * records * Fraction(2, records + 2)) < 2
        assert abs(seen["anchor_context"] - 3 * seen["anchor_anchor"]) < 4
        pools = {p["recipe"]: p for p in corpus.status()["pools"] if p["split"] == "train"}
        assert pools["long_section"]["left_out"] == {"with a single window": records - 2}
        assert pools["long_section"]["anchors"] == 2
        (row,) = corpus.status()["capacity"]
        assert (row["triplet_recipes"], row["triplets"]) == (2, (records + 2) * (records - 1))
        assert row["texts"] == corpus.sampler("texts").epoch_length


@pytest.mark.parametrize("long", some([3, 7, 1, 12], less=1))
def test_the_share_of_long_sections_is_exact_and_their_weight_whole(tmp_path, long):
    with sparse_corpus(tmp_path / "c.duckdb", 12, long) as corpus:
        columns = ["recipe", "weight", "anchor_trust", "anchor_window", "positive_window"]
        sampler = corpus.sampler(columns=columns, options=dp.Options(swap=False))
        rows = list(samples(sampler, 1200))
        counts, share = Counter(row["recipe"] for row in rows), Fraction(long, 12)
        total = 1 + share
        for name, weight in (("anchor_context", 1), ("long_section", share)):
            assert abs(counts[name] - 1200 * Fraction(weight) / total) < 3
        first = next(r for r in rows if r["recipe"] == "long_section")
        assert first["weight"] > first["anchor_trust"] * 0.1  # as of weight 1, not of its share
        alone = corpus.sampler(
            recipes=["long_section"], columns=columns, options=dp.Options(swap=False)
        )
        assert {r["weight"] for r in rows if r["recipe"] == "long_section"} <= {
            r["weight"] for r in samples(alone, 400)
        }


PLACE = ("text_record_id", "text_section", "text_window", "text")
BODY = dp.role("context", where="position = 1")
# Stored triplet recipes, and which windows their texts are.
UNIONS = {
    "none": ([], lambda w: True),
    "overlapping conditions": (
        [
            dp.TripletRecipe("a", BODY, CONTEXT, dp.position(1), weight=0.1),
            dp.TripletRecipe("b", dp.position(1), BODY, dp.role("context", "kind = 'summary'")),
        ],
        lambda w: w.role == "context",
    ),
    "by topic": (
        [dp.TripletRecipe("a", ANCHOR, dp.any_section("meta['topic'] = 'law'"), ANCHOR)],
        lambda w: w.role == "anchor" or w.topic == "law",
    ),
    "dates": (
        [dp.TripletRecipe("a", ANCHOR, dp.near_date(2, "trust > 0"), ANCHOR)],
        lambda w: True,
    ),
}


@pytest.mark.parametrize("case", some(UNIONS, less=2))
@pytest.mark.parametrize("seed", range(often(4, less=1)))
def test_texts_are_every_chunk_that_triplets_take_once_an_epoch(tmp_path, case, seed):
    recipes, taken = UNIONS[case]
    with odd_corpus(tmp_path / "c.duckdb", 20 + seed, seed) as corpus:
        for recipe in recipes:
            corpus.add_recipe(recipe)
        windows = [w for w in all_windows(corpus) if w.split == "train" and taken(w)]
        pool = corpus.pool("texts")["anchors"].to_pylist()
        assert sorted(key for keys in pool for key in keys) == sorted(w.key for w in windows)
        how = {"epochs": 1 + seed % 3, "batch_size": 7 + seed, "seed": seed}
        sampler = corpus.sampler("texts", **how, columns=["recipe", *PLACE])
        rows = [row for batch in sampler for row in batch.to_pylist()]
        found = Counter(tuple(row[c] for c in PLACE) for row in rows)
        assert set(found.values()) == {1 + seed % 3}
        assert sorted(text for *_, text in found) == sorted(w.text for w in windows)
        assert len(found) == sampler.epoch_length
        assert {row["recipe"] for row in rows} == {"texts"}
        assert corpus.sql(corpus.pool("texts", sql=True))["anchors"].to_pylist() == pool


class Shop:
    """A user's source with recipes of its own."""

    name = "shop"
    recipes: Any = (dp.TripletRecipe("own", ANCHOR, CONTEXT, CONTEXT, instruction="find"),)

    def batches(self, cursor):
        yield (
            [{"id": f"{i}", "anchor": f"a {i}", "positive": f"b {i} {WORDS}"} for i in range(9)],
            1,
        )


def test_a_source_may_have_its_own_recipes(tmp_path):
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(dp.Chunking(max_tokens=20))
        corpus.ingest(Shop())
        rows = [{"id": f"{i}", "a": f"c {i}", "b": f"d {i}"} for i in range(9)]
        corpus.ingest(rows, name="plain", id="id", anchor="a", positive="b")
        corpus.split(1, 0, 0)
        sampler = corpus.sampler(mixture="equal", columns=["source", "recipe"])
        seen = drawn(sampler, 800, "source", "recipe")
        assert seen == {("shop", "own"): 400, ("plain", "anchor_context"): 400}
        said = ["source", "instruction"]
        texts = drawn(corpus.sampler("texts", columns=said), 90, *said)
        assert set(texts) == {("shop", "find"), ("plain", None)}
        again = Shop()
        for recipes, stays in ((None, True), ([], False)):  # None says nothing
            again.recipes = recipes
            corpus.ingest(again)
            names = drawn(corpus.sampler(columns=["recipe"]), 20, "recipe")
            assert ("own" in names) == stays
        given = corpus.sampler(recipes=[TITLE], columns=["recipe"])
        assert drawn(given, 20, "recipe") == {"title": 20}
        for wrong, told in (
            ("own", "recipes='own'.*give a list"),
            ([TITLE, 3], "recipes: 3 is not a recipe; give TripletRecipe"),
            ([TITLE, TITLE], "recipes: two recipes are named 'title'"),
        ):
            again.recipes = wrong
            with pytest.raises(dp.RecipeError, match=f"source 'shop': {told}"):
                corpus.ingest(again)


NAMES = ("a", "b", "c")
# Controls, the mixture that is given, and the weights that come of it beside the listed records.
SIZES = {
    "a size": ({"a": {"size": 3}}, None, "no mixture= is given.*a 3, b 40, c 40"),
    "a sample": ({"a": {"size": 3, "size_mode": "sample", "seed": 5}}, None, "a 3, b 40"),
    "a weight": ({"a": {"weight": 2.5}, "b": {"weight": 0.25}}, None, "a 100, b 10, c 40"),
    "never": ({"b": {"weight": 0}, "c": {"size": 0}}, None, r"b 0 \(never\), c 0 \(never\)"),
    "more than there are": ({"a": {"size": 90, "weight": 0.5}}, None, "a 45, b 40"),
    "a mixture replaces shares": (
        {"a": {"size": 4, "weight": 3}, "b": {"weight": 0}},
        {"a": 1, "b": 1, "c": 0},
        "mixture= replaces the shares.*sizes apply.*a 4 of 40",
    ),
}


corpus = copying(titled, dict.fromkeys(NAMES, 40))


@pytest.mark.parametrize(
    ("case", "kind"), some([(c, k) for c in SIZES for k in ("triplets", "texts")], less=2)
)
def test_shares_and_anchors_are_those_that_index_controls_list(corpus, case, kind):
    controls, mixture, told = SIZES[case]
    for name, control in controls.items():
        corpus.set_index_controls(name, **control)
    index = corpus.data_index("train")
    counts = index.counts() if mixture is None else mixture
    if mixture is not None:  # which replaces weights, not sizes
        for name, control in controls.items():
            corpus.set_index_controls(name, **{**control, "weight": 1.0})
        index = corpus.data_index("train")
        for name, control in controls.items():
            corpus.set_index_controls(name, **control)
    text = "text" if kind == "texts" else "anchor"
    columns = ["source", f"{text}_record_id"]
    sampler = corpus.sampler(
        kind,
        mixture=mixture,
        recipes=[TITLE],
        columns=columns,
        batch_size=50,
        options=dp.Options(swap=False),
    )
    (note,) = sampler.notes
    assert re.search(told, note)
    rows = list(samples(sampler, 1200))
    seen = Counter(row["source"] for row in rows)
    total = sum(counts.values())
    for name, count in counts.items():
        assert abs(seen[name] - 1200 * count / total) < 3
    records = corpus.sql("SELECT record_id FROM live_records ORDER BY record_key")
    ids = [i for i in records["record_id"].to_pylist() if i]
    every = {name: [i for i in ids if i.startswith(f"{name}/")] for name in NAMES}
    listed = {every[name][row] for name, row in index if counts[name]}
    assert {row[columns[1]] for row in rows} == listed


def test_a_saved_run_stores_its_controls(corpus):
    corpus.set_index_controls("a", size=7, size_mode="sample")
    sampler = corpus.sampler(columns=["source", "anchor_record_id"], batch_size=20)
    next(sampler)
    sampler.save()
    following = [next(sampler).to_pydict() for _ in range(5)]
    corpus.set_index_controls("a", size=0)
    with corpus.resume() as resumed:
        assert [next(resumed).to_pydict() for _ in range(5)] == following
    with pytest.raises(dp.StateMismatchError, match="index "):
        corpus.sampler(batch_size=20).load_state_dict(sampler.state_dict())
    with pytest.raises(dp.EmptyPoolError, match=r"source 'a'.*controls list 0 of its records"):
        corpus.sampler(mixture={"a": 1})
    corpus.set_index_controls("a")
    assert "index" not in corpus.sampler().state_dict()["fingerprint"]


def test_a_declared_mixture_holds_where_none_is_given(corpus):
    assert corpus.sampler().notes == []
    for name, weight in (("a", 3), ("b", 0)):
        given = {"name": name, "weight": weight}
        corpus.database.rows("UPDATE sources SET weight = $weight WHERE name = $name", given)
    sampler = corpus.sampler(columns=["source"])
    assert sampler.notes == [
        "no mixture= is given, so the declared weights of sources apply: a 3, b 0; each of "
        "the others counts 1"
    ]
    assert drawn(sampler, 400, "source") == {"a": 300, "c": 100}
    weights = {row["name"]: row["weight"] for row in corpus.status()["sources"]}
    assert weights == {"a": 3, "b": 0, "c": None}
    assert corpus.sampler(mixture={"c": 1, "a": 0, "b": 0}).notes == []


def test_setting_weights_waits_for_no_block(corpus):
    sampler = corpus.sampler(batch_size=8, columns=["source"], options=dp.Options(prefetch=2))
    begun, go = threading.Event(), threading.Event()
    fetch = sampler.reader.fetcher.fetch

    def slow(plan, *, start, stop, **how):
        if threading.current_thread().name == "duckplets-prefetch" and start:
            begun.set()
            assert go.wait(60)
        return fetch(plan, start=start, stop=stop, **how)

    sampler.reader.fetcher.fetch = slow
    next(sampler)
    assert begun.wait(60)
    for step in range(1, 4):  # while the thread is still at the block after the first
        assert sampler.set_weights({"a": step}) == step
        assert len(next(sampler)) == 8
    go.set()


def test_drift_shows_the_values_that_differ(corpus):
    corpus.sampler(recipes=[TITLE], mixture={"a": 2}).save()
    for other, told in (
        (replace(TITLE, weight=0.5), "recipe 'title': weight .saved: 1.0, now: 0.5."),
        (replace(TITLE, name="x"), "recipe 'title': saved only.*'x': now"),
    ):
        with pytest.raises(dp.StateMismatchError, match=told):
            corpus.resume(recipes=[other], mixture={"a": 3})
    with pytest.raises(dp.StateMismatchError, match=r"mixture: weights \(saved: {'a': 2.0}, n"):
        corpus.sampler(recipes=[TITLE], mixture={"a": 3}).save()
