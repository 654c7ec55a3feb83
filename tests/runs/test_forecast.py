"""What a run says that it draws, against what it draws."""

import math
import re
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from itertools import product

import pyarrow.compute as pc
import pytest
from corpora import odd_corpus
from effort import some
from hostile import Tags
from mined_corpora import CASES, guarded_corpus, rules_of, some_candidates, write_mining
from prebuilt import reading, toy_corpus

import duckplets as dp

corpus = reading(toy_corpus, 60, sources=("a", "b", "c"))


ANNEAL = dp.Anneal(5, {"a": 7, "b": 0}, end_step=29)
RAMP = dp.Mixture({}, omitted=1, anneal=ANNEAL)
KINDS = [
    {"kind": "labelled_pairs", "batch_size": 7, "negatives": 2},
    {"kind": "texts", "batch_size": 3, "world_size": 3, "rank": 1},
]


def counted(sampler, stop, starts):
    """Samples by where shares set in, source and recipe, of what is served."""
    table, batch = sampler.served(0, stop), sampler.settings.global_batch
    steps = [position // batch for position in range(stop)]
    begun = [starts[bisect_right(starts, step) - 1] for step in steps]
    names = zip(begun, table["source"].to_pylist(), table["recipe"].to_pylist(), strict=True)
    return dict(Counter(names))


def forecast(sampler, steps):
    rows = sampler.forecast(steps).table.to_pylist()
    return {(r["start_step"], r["source"], r["recipe"]): r["samples"] for r in rows if r["samples"]}


def test_it_begins_at_the_start_with_the_weights_that_were_set(corpus):
    sampler = corpus.sampler(mixture=RAMP, batch_size=8)
    for weights in ({"a": 5, "b": 0}, {"c": 9}):
        for _ in range(10):
            next(sampler)
        sampler.set_weights(weights)
    assert forecast(sampler, 40) == counted(sampler, 320, [0, 5, 10, 20, 29])


def test_by_default_it_goes_to_the_end(corpus):
    for bounds in (
        {"steps": 9},
        {"epochs": 2, "options": dp.Options(remainder="drop")},
        {"epochs": 1},
    ):
        sampler = corpus.sampler(batch_size=8, **{**bounds, "options": dp.Options(remainder="pad")})
        served = sum(len(batch) for batch in sampler)
        assert forecast(sampler, None) == counted(sampler, served, [0])
        assert forecast(sampler, 10**6) == forecast(sampler, None)
    for steps in (-1, 2**62, 1.5, True):
        with pytest.raises(dp.SamplerError, match="steps"):
            sampler.forecast(steps)


def test_a_billion_samples_are_counted_not_drawn(corpus, monkeypatch):
    anneal = dp.Anneal(1000, {"a": 9}, end_step=3_000_000)
    sampler = corpus.sampler(mixture=dp.Mixture({}, omitted=1, anneal=anneal), batch_size=256)
    monkeypatch.setattr("duckplets.samples.stream.Stream.draw_at", None)
    monkeypatch.setattr("duckplets.order.apportion._descend", None)
    found = sampler.forecast(4_000_000)
    assert pc.sum(found.table["samples"]).as_py() == 4_000_000 * 256
    assert set(found.table["start_step"].to_pylist()) == {0, 1000, 3_000_000}


def test_shares_and_visits_match_the_samples(corpus):
    for kind in KINDS:
        sampler = corpus.sampler(mixture=RAMP, **kind)
        per_draw = 1 + kind["negatives"] if kind.get("kind") == "labelled_pairs" else 1
        rows = sampler.forecast(60).table.to_pylist()
        for start, stop in ((0, 5), (5, 29), (29, 60)):
            of_stretch = [row for row in rows if row["start_step"] == start]
            total = (stop - start) * sampler.settings.global_batch
            assert sum(row["share"] for row in of_stretch) == pytest.approx(1)
            for row in of_stretch:
                assert abs(row["samples"] - row["share"] * total) < 5 * per_draw
                assert row["visits"] == row["samples"] / per_draw / row["anchors"]
                assert row["phase"] == (start >= 5)


def tokens_taken(sampler):
    for _ in sampler:
        pass
    return int(sum(v for k, v in sampler.metrics().items() if k.endswith("/tokens")))


def tokens(sampler):
    return int(pc.sum(sampler.forecast().table["tokens"]).as_py())


odd = reading(odd_corpus, 30, 1)


def test_forecast_tokens_are_exact_for_texts_and_close_for_triplets(odd):
    chunks = dp.TextRecipe("chunks", dp.any_section(), per="chunk")
    records = dp.TextRecipe("records", dp.position(1))
    counts = odd.sql(
        "SELECT count(*) AS n FROM chunks JOIN sections USING (section_key) "
        "WHERE position = 1 GROUP BY chunks.record_key"
    )["n"].to_pylist()
    cycle = math.lcm(*counts)  # after which all chunks of each came equally often
    assert 1 < cycle < 500
    for recipe, epochs in ((chunks, 3), (records, cycle)):
        sampler = odd.sampler("texts", recipes=[recipe], epochs=epochs, batch_size=512)
        assert tokens(sampler) == tokens_taken(sampler) > 0
    roles = (dp.role("anchor"), dp.role("context"), dp.role("context"))
    for strategy, kind in some(
        product(["other_record", "other_date"], ["triplets", "labelled_pairs"]), less=2
    ):
        recipe = dp.TripletRecipe("r", *roles, strategy=strategy)
        sampler = odd.sampler(kind, recipes=[recipe], negatives=2, epochs=60, batch_size=99)
        assert tokens(sampler) == pytest.approx(tokens_taken(sampler), rel=0.03)


@pytest.mark.parametrize(("negatives", "rotation"), some([(3, 99), (1, 99), (2, 4)], less=1))
def test_anchors_that_fall_back_and_mined_negatives_left_alone_are_told(
    tmp_path, negatives, rotation
):
    with guarded_corpus(tmp_path / "c.duckdb", 60, 60) as corpus:
        recipe = dp.TripletRecipe("plain", **CASES["plain"]["recipe"], sources=("s0",))
        how = {"recipes": [recipe], "mixture": {"s0": 1}}
        corpus.sampler(**how).save()
        corpus.sampler(**how, run="chosen", negatives=dp.Negatives(by="random")).save()
        rules = rules_of(corpus, CASES["plain"], "s0", "train")
        rows = some_candidates(rules, 1)
        write_mining(corpus, recipe, rows)
        for run, told in (("default", True), ("chosen", False)):
            left = warned(corpus.resume(run), "are not used")
            assert bool(left) == told
            assert all("source 's0', recipe 'plain'" in warning for warning in left)
        assert not warned(corpus.sampler(**how), "not used")
        own = {section: len(found[:rotation]) for section, found in rows.items()}
        short = {
            p.record_id
            for p in rules.pieces
            if rules.is_anchor(p) and own.get(p.section, 0) < negatives
        }
        by = dp.Negatives(by="bm25", range_max=rotation)
        sampler = corpus.sampler(**how, run="mined", negatives=replace(by, num=negatives))
        found = sampler.forecast().table.to_pylist()[0]
        drawn = {*sampler.served(0, 4 * sampler.epoch_length)["anchor_record_id"].to_pylist()}
        expected = len(short & drawn)
        assert (found["negatives"], found["fallback_anchors"]) == ("mined", expected)
        assert 0 < expected < found["anchors"]
        assert warned(sampler, f"({expected:,} of {found['anchors']:,}) have fewer mined negatives")
        assert f"negatives mined, for {expected:,} anchors random ones" in sampler.describe()


def warned(sampler, word, steps=None):
    return [warning for warning in sampler.forecast(steps).warnings if word in warning]


def test_a_stream_visited_far_more_often_than_its_neighbour_is_told(corpus, caplog):
    where = "length(text) < 40"
    few = corpus.sql(
        f"SELECT count(*) AS n FROM section_texts WHERE source = 'a' AND split = 'train' "
        f"AND role = 'context' AND {where}"
    )["n"][0].as_py()
    assert 0 < few < 10
    anchor, context = dp.role("anchor"), dp.role("context")
    every = dp.TripletRecipe("every", anchor, context, context)
    sparse = dp.TripletRecipe("sparse", anchor, dp.role("context", where=where), context)
    sampler = corpus.sampler(recipes=[every, sparse], mixture={"a": 1})
    (told,) = warned(sampler, "times as often")
    assert f"recipe 'sparse' comes to each of its {few} anchors" in told
    assert told in sampler.notes
    next(sampler)
    assert told in [record.getMessage() for record in caplog.records]
    assert told in sampler.describe()
    fair = replace(sparse, weight=few / 60)
    assert not warned(corpus.sampler(recipes=[every, fair], mixture={"a": 1}), "times as often")


def test_a_source_that_is_used_up_is_told(corpus):
    mixture = dp.Mixture({"a": 8, "b": 1, "c": 1}, phases=[dp.Phase(20, {"a": 0, "c": 9})])
    sampler = corpus.sampler(mixture=mixture, batch_size=8, options=dp.Options(preset="crate"))
    assert not warned(sampler, "used up", 5)
    (told,) = warned(sampler, "used up", 100)
    drawn = Counter(sampler.served(0, 800)["source"].to_pylist())
    anchors = Counter[str]()
    for row in sampler.forecast(1).table.to_pylist():
        anchors[row["source"]] += row["anchors"]
    for name in "ac":
        times = round(drawn[name] / anchors[name])
        assert re.search(rf"'{name}' \(({times - 1}|{times}|{times + 1})[.\d]* times\)", told), told
    assert "'b'" not in told
    alike = corpus.sampler(mixture={"a": 1, "b": 1, "c": 1}, epochs=3, batch_size=8)
    assert not warned(alike, "used up")


def test_it_is_shown_as_lines_and_as_html_that_does_nothing(tmp_path):
    odd = "<script>x"
    with toy_corpus(tmp_path / "c.duckdb", 30, sources=(odd,)) as corpus:
        found = corpus.sampler(batch_size=4, options=dp.Options(preset="crate")).forecast()
        text = str(found)
        assert repr(found) == text
        assert len(found) == 2 == found.table.num_rows
        for word in (odd, "anchor_context", "anchor_anchor", "75 %", "25 %", "visits", "random"):
            assert word in text
        assert "swap on: anchor and positive change places in half of the samples" in text
        seen = Tags(found._repr_html_())
        assert seen.tags == {"pre"}
        assert odd in seen.text
        assert "anchor_context" in seen.text
