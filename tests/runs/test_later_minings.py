"""``take_minings``: candidates mined while a run goes on, from a step on, as epochs go on."""

import random
from itertools import product

import pytest
from corpora import batches_of
from effort import often, some
from mined_corpora import write_mining
from prebuilt import prebuilt

import duckplets as dp
from duckplets.testing import assert_resumes_everywhere, toy_corpus

RECIPE = dp.TripletRecipe("r", dp.role("anchor"), dp.role("context"), dp.role("context"))
FOUR = {"a": 4.0, "b": 1.0}
RUNS = {
    "plain": {},
    "several": {"negatives": 3, "options": dp.Options(swap=True)},
    "pairs": {"kind": "labelled_pairs", "negatives": 2},
    "shares": {"negatives": dp.Negatives(by={"judge": 0.5, "random": 0.5})},
    "weighted": {"negatives": dp.Negatives(by="judge", range_max=3, sampling="score")},
    "mixture": {"mixture": dp.Mixture(FOUR, phases=[dp.Phase(12, {"a": 1.0})])},
    "no duplicates": {"no_duplicates": True, "batch_size": 4},
    "negatives": {"no_duplicates": "negatives", "negatives": 2},
    "apart": {"batch_size": 4, "negatives": dp.Negatives(in_batch_margin=("judge", 0.1))},
    "keys": {"batch_by": "meta['topic']", "batch_size": 8},
    "bounded apart": {"epochs": 3, "no_duplicates": True, "batch_size": 6},
    "bounded": {"epochs": 3, "options": dp.Options(remainder="pad")},
}


@prebuilt
def corpus_of(path):
    corpus = toy_corpus(path, 40, sources=("a", "b"))
    corpus.add_recipe(RECIPE)
    mine(corpus, 1)
    return corpus


def mine(corpus, seed, share=0.9, sources="ab"):
    """Write candidates for a share of the anchors, other ones for every seed."""
    draw = random.Random(seed)
    for source in sources:
        rows = corpus.sql(
            "SELECT section_key, role FROM sections JOIN live_records USING (record_key) "
            "WHERE split = 'train' AND source = $source ORDER BY section_key",
            {"source": source},
        ).to_pylist()
        anchors, texts = (
            [row["section_key"] for row in rows if row["role"] == role]
            for role in ("anchor", "context")
        )
        scores = {
            anchor: [
                (of, 9.0 - place)
                for place, of in enumerate(draw.sample(texts, min(draw.randrange(9), len(texts))))
            ]
            for anchor in anchors
            if draw.random() < share
        }
        write_mining(corpus, RECIPE, scores, source=source, scorer="judge")


def tables(sampler, steps):
    return [batch.table.combine_chunks() for batch in batches_of(sampler, steps)]


@pytest.mark.parametrize(("name", "at"), some(product(RUNS, [0, 1, 7, 20]), less=7))
def test_a_run_goes_on_as_if_it_had_had_the_later_minings_from_the_beginning(tmp_path, name, at):
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        run = {"recipes": ["r"], "batch_size": 16, "seed": 3, **RUNS[name]}
        sampler = corpus.sampler(**run)
        steps = 24
        if sampler.reader.end is not None:
            steps = min(steps, len(sampler))
        first = tables(sampler, steps)
        for _ in range(at := min(at, steps - 1)):
            next(sampler)
        assert sampler.take_minings() is None
        mine(corpus, 2, share=0.7)
        step = sampler.take_minings()
        assert step is not None
        assert sampler.take_minings() is None
        fresh = corpus.sampler(**run)
        # what is near stays what it was
        expected = tables(sampler if name == "apart" else fresh, steps)[step:]
        assert tables(sampler, steps) == [*first[:step], *expected]
        assert step >= at
        assert step == at or run.get("no_duplicates") is True or name == "apart"
        # epochs go on: anchors are the same whatever negatives are
        asked = sampler.served(0, steps * run["batch_size"])
        if not run.get("no_duplicates") and name != "apart":
            plain = fresh.served(0, steps * run["batch_size"])
            assert asked["anchor_record_id"] == plain["anchor_record_id"]
        keys = asked["generation"].to_pylist()
        of_second = {key for key in keys[step * run["batch_size"] :] if key is not None}
        assert of_second <= {3, 4}
        assert {key for key in keys[: step * run["batch_size"]] if key is not None} <= {1, 2}
        forecast = sampler.forecast(steps)
        assert sum(forecast.table["samples"].to_pylist()) == len(asked)
        if step < steps:
            assert f"from step {step:,} on: negatives of mining 3, 4" in sampler.describe()
        fresh.move(sampler.position)
        for figure in ("data/a/samples", "data/b/samples", "data/a/epochs", "data/b/epochs"):
            assert sampler.metrics()[figure] == fresh.metrics()[figure]
        assert sampler.epoch == fresh.epoch
        assert len(sampler.forecast(steps).warnings) == len(fresh.forecast(steps).warnings)
        assert_resumes_everywhere(sampler, often(4, less=2))
        sampler.save()
        mine(corpus, 9)  # not taken
        with corpus.resume() as resumed:
            assert resumed.position == sampler.position
            assert tables(resumed, steps) == [*first[:step], *expected]
        with corpus.resume(batch_size=run["batch_size"] // 2, world_size=2, rank=1) as half:
            own = [of.slice(len(of) - len(of) // 2) for of in [*first[:step], *expected]]
            if run["batch_size"] * steps <= (sampler.reader.end or 1 << 60):
                assert tables(half, steps) == own
        sampler.close()
        fresh.close()
        corpus.compact()
        with corpus.resume() as resumed:
            assert tables(resumed, steps) == [*first[:step], *expected]


def test_minings_weights_and_versions_may_all_come(tmp_path):
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        sampler = corpus.sampler(recipes=["r"], batch_size=16)
        next(sampler)
        mine(corpus, 2)
        assert sampler.take_minings() == 1
        next(sampler)
        assert sampler.set_weights({"a": 3.0, "b": 1.0}) == 2
        next(sampler)
        mine(corpus, 3)
        assert sampler.take_minings() == 3
        served = sampler.served(0, 320)
        sampler.save()
        sampler.save("here")
        mine(corpus, 4)
        back = corpus.resume()
        back.move(0)
        with pytest.raises(dp.StateMismatchError, match="checkpoints beyond"):
            back.take_minings()
        with corpus.resume() as resumed:
            assert resumed.served(0, 320) == served
            assert resumed.state_dict() == sampler.state_dict()
        corpus.ingest(
            dp.sources.MemorySource([{"q": f"q{i}", "t": f"t{i}"} for i in range(9)], anchor="q",
                            positive="t"), name="c",
        )  # fmt: skip
        with corpus.resume(version="newest") as joined:
            kept = 3 * 16
            assert joined.served(0, kept)["generation"] == served["generation"][:kept]
            assert set(joined.served(kept, 320)["version"].to_pylist()) == {corpus.version}
            for _ in range(8):
                next(joined)
            epoch = joined.epoch
            mine(corpus, 5)
            assert joined.take_minings() == 11
            assert joined.epoch == epoch > 0
            joined.set_epoch(epoch + 1)
            joined.save()
            again = joined.served(0, 320)
            assert {row["generation"] for row in again.slice(176).to_pylist()} >= {9, 10}
        with corpus.resume() as resumed:
            assert resumed.served(0, 320) == again


def test_minings_that_do_not_fit_are_refused_and_short_anchors_counted(tmp_path):
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        dropping = corpus.sampler(
            recipes=["r"], batch_size=16, negatives=dp.Negatives(by="judge", when_short="drop")
        )
        plain, random_ = (
            corpus.sampler(recipes=["r"], batch_size=16, negatives=dp.Negatives(by=by))
            for by in (None, "random")
        )
        mine(corpus, 5, share=0.2)
        with pytest.raises(dp.SamplerError, match="when_short='drop'"):
            dropping.take_minings()
        with pytest.raises(dp.SamplerError, match="opened without mined negatives"):
            random_.take_minings()
        step = plain.take_minings()
        assert step == 0
        for _ in range(12):
            next(plain)
        counts = plain.metrics()
        assert counts["data/a/fallbacks"] > 0.7 * counts["data/a/samples"]
        before = plain.forecast().table["fallback_anchors"].to_pylist()
        assert max(before) > 20
        # of another source alone: the first goes on with what it had
        mine(corpus, 6, sources="b")
        assert plain.take_minings() == 12
        generations = {
            (row["source"], row["generation"]) for row in plain.served(192, 400).to_pylist()
        }
        assert {of for of in generations if of[0] == "a"} == {("a", 3)}
        corpus.ingest(
            dp.sources.MemorySource([{"id": "new", "q": "one more", "t": "and its text"}], id="id",
                            anchor="q", positive="t"), name="a", remap=True,
        )  # fmt: skip
        mine(corpus, 7)
        with pytest.raises(dp.StateMismatchError, match="stale"):
            plain.take_minings()


def test_steps_that_were_skipped_are_on_record(tmp_path):
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        sampler = corpus.sampler(recipes=["r"], batch_size=16)
        first = tables(sampler, 8)
        next(sampler)
        assert sampler.skip(2) == 3
        assert next(sampler).table.equals(first[3])
        sampler.save()
        state = sampler.state_dict()
        for run in (sampler, corpus.resume(), corpus.sampler(recipes=["r"], batch_size=16)):
            run.load_state_dict(state)
            assert next(run).table.equals(first[4])
            rows = run.served(0, 80).to_pylist()
            assert {row["step"] for row in rows if row["skipped"]} == {1, 2}
        bounded = corpus.sampler(recipes=["r"], batch_size=16, steps=4)
        assert (bounded.skip(9), [*bounded]) == (4, [])
        with pytest.raises(dp.SamplerError, match="steps=-1"):
            bounded.skip(-1)


def test_a_source_that_is_first_drawn_later_has_the_minings_of_its_step(tmp_path):
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        run = {"recipes": ["r"], "batch_size": 16, "mixture": {"a": 1, "b": 0}}
        sampler = corpus.sampler(**run)
        next(sampler)
        mine(corpus, 2)
        assert sampler.take_minings() == 1
        next(sampler)
        assert sampler.set_weights({"a": 1, "b": 1}) == 2
        served = sampler.served(0, 160).to_pylist()
        of = {(row["source"], row["generation"], row["step"] > 0) for row in served}
        assert of - {("a", None, True), ("b", None, True), ("a", None, False)} == {
            *(("a", 1, False), ("a", 3, True), ("b", 4, True))
        }
        sampler.save()
        with corpus.resume() as resumed:
            assert resumed.served(0, 160).to_pylist() == served
