"""Mixtures in a run: weights that change repeat nothing, skip nothing, and are replayed."""

import logging
import random
from collections import Counter, defaultdict
from itertools import islice

import duckdb
import pytest
from corpora import counts_of
from effort import often, some
from frozen_runs import titled
from prebuilt import copying, reading

import duckplets as dp
from duckplets.runs import state as state_store

ROWS = {"a": 37, "b": 50, "c": 8}
TITLE = dp.TextRecipe("title", dp.role("anchor"))
PAIR = dp.TripletRecipe("pair", dp.role("anchor"), dp.role("context"), dp.role("context"))
TEXTS = {
    "kind": "texts",
    "recipes": [TITLE],
    "batch_size": 8,
    "columns": ["text_record_id", "source", "position"],
    "options": dp.Options(prefetch=0),
}
MIXTURES = {
    "phases": dp.Mixture(
        {"a": 3, "b": 1, "c": 0},
        phases=[dp.Phase(5, {"a": 0.1, "c": 0.2}, 0.5), dp.Phase(21, {"b": 0}, 0.25)],
        omitted=1,
    ),
    "from the start": dp.Mixture({"a": 0}, phases=[dp.Phase(0, {"a": 1, "b": 0}, 2)], omitted=1),
    "at once": dp.Mixture(
        {"c": 0}, anneal=dp.Anneal(13, {"a": 0, "c": 1}, lr_scale=0.1), omitted=1
    ),
    "ramp": dp.Mixture({"a": 9, "c": 0}, anneal=dp.Anneal(4, {"a": 0, "c": 2}, 30, 0.3), omitted=1),
    "temperature": dp.Mixture({"a": 100, "c": 0}, 4, phases=[dp.Phase(9, {"c": 16})], omitted=1),
}


corpus = reading(titled, ROWS)
own = copying(titled, ROWS)


def taken(sampler, steps):
    return [batch.to_pydict() for batch in islice(sampler, steps)]


def nothing_is_repeated_or_skipped(batches):
    """Check that each source's rows come as whole permutations; return how many of each."""
    ids = defaultdict(list)
    for batch in batches:
        for source, record in zip(batch["source"], batch["text_record_id"], strict=True):
            ids[source].append(record)
    for source, records in ids.items():
        n = ROWS[source]
        for start in range(0, len(records), n):
            epoch = records[start : start + n]
            assert len(set(epoch)) == len(epoch), f"{source}: repeated before its epoch ends"
    return Counter({source: len(records) for source, records in ids.items()})


@pytest.mark.parametrize("name", some(MIXTURES, less=2))
def test_a_change_in_mid_epoch_repeats_and_skips_nothing(corpus, name):
    sampler = corpus.sampler(mixture=MIXTURES[name], **TEXTS)
    counts = nothing_is_repeated_or_skipped(taken(sampler, 60))
    assert counts.total() == 480
    assert len(counts) > 1 or name == "from the start"
    assert {n: m for n, m in sampler.metrics().items() if n.endswith("samples") and m} == {
        f"data/{source}/samples": count for source, count in counts.items()
    }


HOT = 100**0.25
# The shares of a, b and c at some steps.
SHARES = {
    "phases": {
        4: (3 / 4, 1 / 4, 0),
        5: (0.1 / 1.3, 1 / 1.3, 0.2 / 1.3),
        20: (0.1 / 1.3, 1 / 1.3, 0.2 / 1.3),
        21: (1, 0, 0),  # of the declared weights: the phase before is no more
    },
    "from the start": {0: (0.5, 0, 0.5)},
    "at once": {12: (0.5, 0.5, 0), 13: (0, 0.5, 0.5)},
    "ramp": {  # of the stair's middle
        4: (0.9 * 51.5 / 52, 0.1 * 51 / 52 + 1 / 156, 2 / 156),
        17: (0.9 * 25 / 52, 0.1 * 25 / 52 + 9 / 52, 18 / 52),
        30: (0, 1 / 3, 2 / 3),
    },
    "temperature": {
        8: (HOT / (HOT + 1), 1 / (HOT + 1), 0),
        9: (HOT / (HOT + 3), 1 / (HOT + 3), 2 / (HOT + 3)),
    },
}


def test_every_step_is_drawn_by_its_weights(corpus):
    for name, mixture in MIXTURES.items():
        sampler = corpus.sampler(mixture=mixture, **TEXTS | {"batch_size": 400})
        for step, expected in SHARES[name].items():
            found = Counter(sampler.batch_at(step)["source"])
            for source, due in zip(ROWS, expected, strict=True):
                assert abs(found[source] / 400 - due) < (0.015 if due else 1e-9)


def shares_in(path, run):
    """Return the shares by step and source, and the sources, that a state file has of a run."""
    with duckdb.connect(path, read_only=True) as connection:
        rows = connection.execute(
            "SELECT start_step, coalesce(stop_step, 99), source, share FROM shares WHERE run = ?",
            [run],
        ).fetchall()
        recipes = connection.execute(
            "SELECT source, recipe FROM run_recipes WHERE run = ? ORDER BY ALL", [run]
        ).fetchall()
    found = {(step, of): share for low, high, of, share in rows for step in range(low, high)}
    assert len(found) == sum(high - low for low, high, *_ in rows)
    return found, recipes


@pytest.mark.parametrize("name", some(MIXTURES, less=3))
def test_the_state_file_has_the_shares_of_every_step(corpus, tmp_path, name):
    def check():
        found, recipes = shares_in(sampler.save(), name)
        schedule = sampler.planner.schedule
        assert recipes == [(source, "title") for source in sorted(ROWS)]
        assert {at for at, _ in found} == {*range(99)}
        for step in range(99):
            for source, share in schedule.shares(step).items():
                assert found[step, source] == pytest.approx(share, abs=1e-12)

    state = tmp_path / "s.duckdb"
    sampler = corpus.sampler(
        mixture=MIXTURES[name], run=name, **TEXTS | {"options": dp.Options(state=state)}
    )
    sampler.save(tag="first")
    for steps, weights in [(3, {"a": 0.2, "c": 1}), (4, {"b": 7}), (0, {"b": 1}), (30, {"a": 2})]:
        check()
        taken(sampler, steps)
        sampler.set_weights(weights, temperature=2)
    check()
    sampler = corpus.resume(name, state=state)
    taken(sampler, 2)
    check()
    early = corpus.resume(name, state=state, save_to=tmp_path / "copy.duckdb")
    early.save()
    early.set_weights({"c": 5})
    early.save()
    (tmp_path / "copy.duckdb").replace(state)  # another process went on
    check()
    other = corpus.sampler(run="other", **TEXTS | {"options": dp.Options(state=state)}).save()
    assert state_store.reset(other, name)
    assert shares_in(other, name) == ({}, [])
    assert shares_in(other, "other")[0]


def test_lr_scale_is_that_of_the_batch_taken_last(corpus):
    sampler = corpus.sampler(mixture=MIXTURES["phases"], **TEXTS)
    scales = [1.0] * 5 + [0.5] * 16 + [0.25] * 4
    states = []
    assert sampler.lr_scale == 1
    for step, scale in enumerate(scales):
        states.append(sampler.state_dict())
        assert next(sampler).step == step
        sampler.batch_at(0 if step > 15 else 30)  # looking elsewhere changes nothing
        assert sampler.lr_scale == scale
    for step in (0, 4, 5, 6, 21):
        sampler.load_state_dict(states[step])
        assert sampler.lr_scale == scales[step]  # of the next one, before any is taken


def lines(caplog):
    found = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    caplog.clear()
    return [line.partition(", shares: ")[0] for line in found]


@pytest.mark.parametrize("stop", some([6, 5, 0, 1, 4, 12], less=1))
def test_a_transition_is_logged_once_across_a_resume(corpus, tmp_path, caplog, stop):
    caplog.set_level(logging.INFO, "duckplets")
    told = "Phase transition at step 5: phase=1, lr_scale=0.5"
    state = tmp_path / "s.duckdb"
    sampler = corpus.sampler(
        mixture=MIXTURES["phases"], **TEXTS | {"options": dp.Options(state=state)}
    )
    taken(sampler, stop)
    sampler.save()
    assert lines(caplog) == ([told] if stop > 5 else [])
    with corpus.resume(state=state) as sampler:
        scale = "phase=1, lr_scale=0.5" if stop > 5 else "phase=0, lr_scale=1"
        assert lines(caplog) == ([f"Resumed at step {stop}: {scale}"] if stop else [])
        for step in range(stop, 24):
            next(sampler)
            second = "Phase transition at step 21: phase=2, lr_scale=0.25"
            assert lines(caplog) == {5: [told], 21: [second]}.get(step, [])
            sampler.batch_at(0)
        sampler.save()
    with corpus.resume(state=state, rank=1, world_size=2) as quiet:
        taken(quiet, 10)
    assert lines(caplog) == []


def test_set_weights_is_in_force_from_the_next_step(own):
    for prefetch in (2, 0)[: often(2, less=1)]:
        how = TEXTS | {
            "batch_size": 40,
            "run": f"r{prefetch}",
            "options": dp.Options(prefetch=prefetch),
        }
        sampler = own.sampler(mixture={"a": 1, "b": 1, "c": 0}, **how)
        length = sampler.epoch_length
        before = taken(sampler, 3)
        sampler.save()
        unset = sampler.batch_at(3).to_pydict()
        assert sampler.set_weights({"a": 0, "c": 3}) == 3  # a source of weight 0 is brought in
        assert sampler.epoch_length == length == 87
        after = taken(sampler, 4)
        assert all(Counter(b["source"]) == {"b": 10, "c": 30} for b in after)
        assert sampler.metrics()["data/c/samples"] == 120
        with own.resume(how["run"]) as other:  # does not know what was set after the save
            assert other.batch_at(3).to_pydict() == unset
            other.load_state_dict(sampler.state_dict())
            assert other.batch_at(6).to_pydict() == after[-1]
            assert counts_of(other) == counts_of(sampler)
        assert sampler.set_weights({"a": 3}) == 7  # of the declared weights, not of those before
        last = taken(sampler, 6)
        assert all(Counter(b["source"]) == {"a": 30, "b": 10} for b in last)
        nothing_is_repeated_or_skipped([*before, *after, *last])
        assert [sampler.batch_at(t).to_pydict() for t in range(13)] == [*before, *after, *last]


def test_set_weights_in_the_middle_of_a_batch_holds_from_the_next_one(corpus):
    """A run may stand in one, as after another batch size: its rest comes first."""
    sampler, position = corpus.sampler(**TEXTS), 95
    sampler.move(position)
    plain = sampler.served(position, (position // 8 + 1) * 8)["source"].to_pylist()
    assert sampler.set_weights({"a": 0, "b": 0}) == position // 8 + 1
    sources = [s for batch in taken(sampler, 4) for s in batch["source"]]
    edge = 8 - position % 8
    assert len(sources) == edge + 3 * 8
    assert sources[:edge] == plain
    assert set(sources[edge:]) == {"c"}


def test_with_no_duplicates_weights_change_at_the_next_block(tmp_path):
    with titled(tmp_path / "toy.duckdb", {"a": 300, "b": 300}) as corpus:
        mixture = dp.Mixture({}, omitted=1, phases=[dp.Phase(100, {"a": 3})])
        arguments = {"recipes": [PAIR], "batch_size": 8, "no_duplicates": True}
        sampler = corpus.sampler(mixture=mixture, **arguments)
        unchanged = taken(corpus.sampler(mixture=mixture, **arguments), 64)
        before = taken(sampler, 10)
        assert sampler.set_weights({"a": 0}) == 64
        batches = before + taken(sampler, 54)
        assert batches == unchanged  # those of the block go on as they were
        assert sampler.set_weights({"b": 0}) == 64
        batches += taken(sampler, 46)
        assert all(set(batch["source"]) == {"a"} for batch in batches[64:100])
        assert all(set(batch["source"]) == {"a", "b"} for batch in batches[100:])
        for batch in batches:
            slots = (batch[slot] for slot in ("anchor", "positive", "negative"))
            texts = [set(row) for row in zip(*slots, strict=True)]
            assert sum(map(len, texts)) == len(set().union(*texts))
        assert [sampler.batch_at(t).to_pydict() for t in (0, 63, 64, 99, 100, 109)] == [
            batches[t] for t in (0, 63, 64, 99, 100, 109)
        ]


TOLD = {3: {"a": 0.5}, 5: {"c": 4}, 9: {"b": 0}, 23: {"a": 0, "c": 1}}


@pytest.mark.parametrize("seed", range(often(2, less=1)))
def test_a_run_cut_anywhere_replays_what_it_was_told(own, seed):
    draw, expected = random.Random(seed), []
    unbroken = own.sampler(mixture=MIXTURES["phases"], **TEXTS)
    for step in range(28):
        if step in TOLD:
            assert unbroken.set_weights(TOLD[step]) == step
        expected += taken(unbroken, 1)
    sampler, step = own.sampler(mixture=MIXTURES["phases"], **TEXTS), 0
    sampler.save()
    while step < 28:
        known = step in dict(sampler.state_dict()["events"])
        if step in TOLD and (not known or draw.random() < 0.7):
            sampler.set_weights(TOLD[step])  # told again after a restart changes nothing
        assert taken(sampler, 1) == [expected[step]]
        step += 1
        what = draw.choice([*["go on"] * often(3, less=9), "save", "restart", "load"])
        if what == "save":
            sampler.save()
        elif what == "restart":
            sampler.close()
            for _ in range(2):  # twice in a row
                sampler = own.resume(options=dp.Options(prefetch=draw.choice([0, 1])))
            step = sampler.step
        elif what == "load":
            state = sampler.state_dict()
            sampler = own.sampler(mixture=MIXTURES["phases"], **TEXTS)
            sampler.load_state_dict(state)
    assert [sampler.batch_at(t).to_pydict() for t in range(28)] == expected


def test_going_back_and_telling_otherwise_is_another_run(own):
    sampler = own.sampler(**TEXTS)
    start = sampler.state_dict()
    sampler.save()
    taken(sampler, 3)
    sampler.set_weights({"a": 0})
    taken(sampler, 3)
    sampler.save(tag="after")
    sampler.load_state_dict(start)
    next(sampler)
    before = sampler.state_dict()
    # The checkpoint's past would be another one.
    with pytest.raises(dp.StateMismatchError, match=r"beyond step 1,.*'after'.*run="):
        sampler.set_weights({"b": 0})
    assert sampler.state_dict() == before
    with pytest.raises(dp.StateMismatchError, match=r"beyond step 3,.*'after'"):
        sampler.save()
    assert own.resume(tag="after").state_dict()["events"] == [[3, {"a": 0.0}]]
    with own.sampler(**TEXTS, run="other") as other:
        other.load_state_dict(before)
        assert other.set_weights({"b": 0}) == 1
        other.save()
