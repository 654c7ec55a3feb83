"""Counters by source, skew, similarity and losses, against plain Python.

Losses that a loop reports are saved with the run, and exact wherever it is resumed.
"""

import math
import random
from collections import Counter
from itertools import islice

import duckdb
import numpy as np
import pytest
from corpora import counts_of
from effort import often, some
from prebuilt import copying, reading, toy_corpus

import duckplets as dp
from duckplets.runs.state import reset, state_path

corpus = reading(toy_corpus, 150, sources=("a", "b", "c"))


CONFIGURATIONS = [
    {"kind": "labelled_pairs", "batch_size": 9, "negatives": 2},
    {"kind": "texts", "mixture": {"a": 0, "b": 1, "c": 3}},
    {"no_duplicates": True, "negatives": 2, "batch_size": 8},
]


def test_losses_are_averaged_by_source(corpus):
    draw = random.Random(1)
    sampler = corpus.sampler(batch_size=20, columns=["anchor"])
    batch, names = next(sampler), next(corpus.sampler(batch_size=20))["source"]
    losses = [draw.random() for _ in names]
    expected = {
        f"loss/{name}": math.fsum(x for x, s in zip(losses, names, strict=True) if s == name)
        / names.count(name)
        for name in set(names)
    }
    for made in (losses, np.array(losses)):
        assert sampler.loss_by_source(batch, made) == pytest.approx(expected)
    for wrong in ([], [1.0] * 7, [[1.0]] * 20, np.ones((20, 2))):
        with pytest.raises(dp.SamplerError, match="one number for each sample"):
            sampler.loss_by_source(batch, wrong)


def test_skew_says_how_uneven_a_batch_is(corpus):
    batch = next(corpus.sampler(mixture={"a": 6, "b": 3, "c": 1}, batch_size=100))
    counts = Counter(batch["source"])
    for given in (batch, batch["source"], batch.to_pydict()):
        found = dp.metrics.source_skew(given)
        assert (found["total"], found["sources"]) == (100, 3)
        assert (found["min"], found["max"]) == (min(counts.values()), max(counts.values()))
        assert found["mean"] == pytest.approx(100 / 3)
        assert found["ratio"] == max(counts.values()) / min(counts.values())
        assert list(found["shares"]) == ["a", "b", "c"]
    assert not any(dp.metrics.source_skew([]).values())
    # Sources that a batch has nothing of count as well.
    mixture = dp.Mixture({"a": 998, "b": 1, "c": 1}, phases=[dp.Phase(1, {"b": 0})])
    sampler = corpus.sampler(mixture=mixture, batch_size=5)
    first, second = dp.metrics.source_skew(next(sampler)), dp.metrics.source_skew(next(sampler))
    assert (first["min"], first["max"], first["ratio"]) == (0, 5, math.inf)
    assert first["shares"] == {"a": 1, "b": 0, "c": 0}
    assert second["shares"] == {"a": 1, "c": 0}
    given = dp.metrics.source_skew(["a", "b", "b", "b"], sources=["a", "z"])
    assert given["shares"] == {"b": 0.75, "a": 0.25, "z": 0}
    assert (given["min"], given["mean"]) == (0, 4 / 3)


@pytest.mark.parametrize("configuration", some(CONFIGURATIONS, less=1), ids=str)
def test_counters_are_of_all_before_the_position(corpus, configuration):
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


SIMILAR = [
    ("", "", 0),
    ("a b", "", 0),
    ("A b!", "b, a", 1),
    ("one two three", "three four", 1 / 4),
    ("Straße 9", "STRASSE 9", 1),
    ("snake_case", "snake case", 1),
    ("你好 世界", "世界", 1 / 2),
]


# Counted anew from 0, or what lies between subtracted.
@pytest.mark.parametrize("back", some([2, 15], less=1))
def test_counts_of_changed_samples_are_forgotten(corpus, back):
    def told(seen_before):
        with corpus.sampler(
            batch_size=16, run=str(seen_before), options=dp.Options(prefetch=0, swap=True)
        ) as sampler:
            if seen_before:
                sampler.move(20 * 16)
                sampler.metrics()
            sampler.move(back * 16)
            assert sampler.set_weights({"a": 9, "b": 1, "c": 0.5}) == back
            sampler.move(18 * 16)
            found = sampler.metrics()
        return {name: value for name, value in found.items() if name.startswith("data/")}

    assert told(True) == told(False)


def test_similarity_is_the_share_of_common_words():
    for one, other, expected in SIMILAR:
        assert dp.metrics.lexical_similarity(one, other) == pytest.approx(expected), (one, other)
        assert dp.metrics.lexical_similarity(other, one) == pytest.approx(expected)


def test_diagnostics_are_of_the_batch(corpus):
    sampler = corpus.sampler(batch_size=8, negatives=2)
    batch = next(sampler)
    found = sampler.diagnostics(batch)
    rows = batch.to_pylist()
    for slot in ("positive", "negative_1", "negative_2"):
        similar = [dp.metrics.lexical_similarity(row["anchor"], row[slot]) for row in rows]
        assert found[f"anchor_{slot}_lexical_similarity"] == similar
    assert found["proximity"] == [None] * 8
    narrow = corpus.sampler(columns=["negative"])
    batch = next(narrow)
    with pytest.raises(dp.SamplerError, match="left out"):
        narrow.diagnostics(batch)


def test_proximity_is_that_of_the_windows(tmp_path):
    words = [{"t": " ".join(f"w{i}x{j}" for j in range(40))} for i in range(30)]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(dp.Chunking(max_tokens=10, overlap=(2,), summary_tokens=0))
        corpus.split(1, 0, 0)
        corpus.ingest(words, name="long", text="t")
        columns = ["anchor", "anchor_window", "positive_window"]
        sampler = corpus.sampler(batch_size=300, columns=columns)
        batch = next(sampler)
        apart = [abs(r["anchor_window"] - r["positive_window"]) for r in batch.to_pylist()]
        assert sampler.diagnostics(batch)["proximity"] == [1 / max(1, of) for of in apart]
        assert len({*apart}) > 2


# ---- losses that are reported

Rows = dict[tuple[int, str], float]
SOURCES = ("a", "b", "c")
TEXTS = {"kind": "texts", "batch_size": 4, "seed": 7}


own = copying(toy_corpus, 12, sources=SOURCES)


def rows(sampler):
    table = sampler.losses()
    found = {(row["step"], row["source"]): row["loss"] for row in table.to_pylist()}
    assert len(found) == table.num_rows, "one a step and source"
    assert list(found) == sorted(found)
    return found


def stored(path, run="default"):
    with duckdb.connect(path, read_only=True) as state:
        found = state.execute(
            "SELECT step, source, loss FROM losses WHERE run = $run", {"run": run}
        ).fetchall()
    assert len({row[:2] for row in found}) == len(found)
    return {(step, source): loss for step, source, loss in found}


def test_losses_are_of_the_batch_taken_last_and_saved_with_it(own):
    sampler = own.sampler(**TEXTS)
    with pytest.raises(dp.SamplerError, match="no batch was taken yet"):
        sampler.report_loss({"a": 1.0})
    for batch in islice(sampler, 3):
        sampler.report_loss({"a": np.float32(batch.step), "b": 0.1})
        sampler.report_loss(sampler.loss_by_source(batch, [2.0] * 4))  # of some source, or of all
    sampler.report_loss({"c": 5}, step=0)
    told = rows(sampler)
    assert told[0, "c"] == 5.0
    assert {step for step, _ in told} == {0, 1, 2}
    for losses in WRONG:
        with pytest.raises(dp.SamplerError, match="report_loss"):
            sampler.report_loss(losses)
    for step in (-1, 3, 1.5):
        with pytest.raises(dp.SamplerError, match="step="):
            sampler.report_loss({"a": 1.0}, step=step)
    assert rows(sampler) == told
    path = sampler.save()
    assert stored(path) == told
    sampler.report_loss({"a": 7.0})  # after the save, of a step before it
    sampler.save()
    assert stored(path) == told | {(2, "a"): 7.0}
    assert rows(own.resume()) == stored(path)


WRONG = [
    *({"nothing": 1.0}, {"a": math.nan}, {"a": math.inf}, {"a": "1"}, {"a": None}),
    *({"a": True}, [1.0], {1: 1.0}, {"a": 10**400}, {"b": 1.0, "loss/x": 2.0}),
]


def test_losses_are_exact_wherever_a_run_is_resumed(own):
    """Whatever is saved and resumed, in whatever order: the last pass over a step counts.

    What a file is to hold is told by plain dictionaries here: what the run knew when it saved, and
    of farther checkpoints what was there.
    """
    draw = random.Random(5)
    path = state_path(own.path)
    for case in range(often(12, less=1)):
        run, known, held, cursors = f"r{case}", Rows(), Rows(), dict[str | None, int]()
        sampler, passes = own.sampler(**TEXTS, run=run), 0
        for _ in range(14):
            what = draw.choice(["take", "take", "take", "save", "tag", "resume", "back"])
            if what == "take":
                for batch in islice(sampler, draw.randint(1, 6)):
                    told = dict.fromkeys(draw.sample(SOURCES, 2), passes + batch.step / 8)
                    if draw.random() < 0.7:
                        sampler.report_loss(told)
                        known |= {(batch.step, name): loss for name, loss in told.items()}
            elif what in ("save", "tag"):
                tag = None if what == "save" else f"t{len(cursors)}"
                sampler.save(tag)
                cursors[tag] = sampler.step
                farther = {k: v for k, v in held.items() if sampler.step <= k[0]}
                held = {k: v for k, v in known.items() if k[0] < sampler.step}
                held |= {k: v for k, v in farther.items() if k[0] <= max(cursors.values())}
                assert stored(path, run) == held
            elif what == "resume" and cursors:
                sampler.close()
                tag = draw.choice(list(cursors))
                sampler, passes = own.resume(run, tag), passes + 1
                known = {k: v for k, v in held.items() if k[0] < sampler.step}
            elif what == "back":  # in the same sampler: what it goes through anew is replaced
                sampler.move(4 * draw.randint(0, sampler.step))
                passes += 1
            expected = {k: v for k, v in known.items() if k[0] < sampler.step}
            assert rows(sampler) == expected
        sampler.close()


def test_every_file_of_a_run_has_its_losses(own, tmp_path):
    sampler = own.sampler(**TEXTS)
    for batch in islice(sampler, 4):
        sampler.report_loss({"a": batch.step})
    sampler.save("two", step=2)
    before, state = stored(sampler.save()), sampler.state_dict()
    next(sampler)
    sampler.report_loss({"b": 1.0})
    copy = sampler.save(path=tmp_path / "checkpoint" / "sampler.state.duckdb", step=4)
    assert len(stored(copy)) == 4  # of the step after it nothing yet
    other = own.sampler(**TEXTS)  # as a trainer does that keeps states in its own checkpoints
    other.load_state_dict(state)
    next(other)
    other.report_loss({"b": 50.0})
    assert stored(other.save()) == before | {(4, "b"): 50.0}
    with own.resume(state=copy, save_to=tmp_path / "new.state.duckdb") as resumed:
        next(resumed)
        resumed.report_loss({"c": 2.0})
        assert len(stored(resumed.save())) == 5
    # A run that is forgotten leaves no losses.
    reset(state_path(own.path), "default", after=2)
    assert max(stored(state_path(own.path)))[0] <= 2
    reset(state_path(own.path), "default")
    assert stored(state_path(own.path)) == {}


def test_the_samples_with_the_highest_losses_are_kept_and_found_again(own):
    sampler = own.sampler(**{**TEXTS, "batch_size": 40})
    draw, told = random.Random(3), dict[int, float]()
    for batch in islice(sampler, 5):
        losses = [draw.choice([1.0, draw.random()]) for _ in range(40)]
        sampler.report_loss(per_sample=np.array(losses, np.float32))
        of_step = {batch.position + i: float(np.float32(loss)) for i, loss in enumerate(losses)}
        told |= dict(sorted(of_step.items(), key=lambda item: (-item[1], item[0]))[:32])
    sampler.report_loss({"a": 1.0}, per_sample=[9.0, *[0.0] * 39], step=1)
    told = {at: loss for at, loss in told.items() if not 40 <= at < 80}
    told |= {40 + i: 9.0 * (i == 0) for i in range(32)}
    expected = sorted(told.items(), key=lambda item: (-item[1], item[0]))
    path = sampler.save()
    with own.resume() as resumed:
        for of in (sampler, resumed):
            worst = of.worst(50)
            assert [*zip(*(worst[n].to_pylist() for n in ("position", "loss")), strict=True)] == (
                expected[:50]
            )
            first = of.served(expected[0][0], expected[0][0] + 1)
            assert worst.slice(0, 1).drop_columns(["loss"]).to_pylist() == first.to_pylist()
        assert resumed.worst(0).num_rows == 0
        next(resumed)
        resumed.report_loss(per_sample=[10.0] * 40)
        resumed.save()
    with duckdb.connect(path, read_only=True) as state:
        rows = state.execute("SELECT count(*), max(loss) FROM sample_losses").fetchall()
    assert rows == [(6 * 32, 10.0)]
    for wrong in ([1.0], ["1"] * 40, [math.nan] * 40, [[1.0] * 40], None):
        with pytest.raises(dp.SamplerError, match="report_loss"):
            sampler.report_loss(per_sample=wrong)
