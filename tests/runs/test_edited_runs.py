"""Runs that are resumed with something else: another future, and what may not be another."""

import copy
import pickle
import random
from itertools import islice

import pytest
from commands import cli, error
from effort import often, some
from frozen_runs import titled
from prebuilt import copied

import duckplets as dp
from duckplets.runs import state

PAIR = dp.TripletRecipe("pair", dp.role("anchor"), dp.role("context"), dp.role("context"))


def paired(path):
    corpus = titled(path, {"a": 37, "b": 50, "c": 8})
    corpus.add_recipe(PAIR)
    return corpus


@pytest.fixture
def path(tmp_path):
    copied(tmp_path / "c.duckdb", paired)
    return tmp_path / "c.duckdb"


@pytest.fixture
def corpus(path):
    with dp.Corpus(path, read_only=True) as corpus:
        yield corpus


def rows(sampler, steps):
    return [row for batch in islice(sampler, steps) for row in batch.to_pylist()]


def weights(draw, *, distinct=False):
    if distinct:  # a small source would have to repeat itself within 64 batches
        return {"a": draw.choice([0.3, 1]), "b": draw.choice([0.5, 1]), "c": 0}
    found = {name: draw.choice([0, 0.3, 1, 2.5]) for name in draw.sample("abc", draw.randint(1, 3))}
    return found if any(found.values()) and len(found) == 3 else found | {"a": 1}


def changes(draw, first, distinct):
    steps = sorted(draw.sample(range(first, first + 30), draw.randint(0, 3)))
    return [
        dp.Phase(step, weights(draw, distinct=distinct), draw.choice([1, 0.5])) for step in steps
    ]


def case(draw, step, distinct):
    """Return two mixtures that are the same before a step."""
    declared, temperature = weights(draw, distinct=distinct), draw.choice([1, 1, 2.5])
    early = [phase for phase in changes(draw, 0, distinct) if phase.start_step < step]

    def mixture():
        if early or draw.random() < 0.5:
            phases = [*early, *changes(draw, step, distinct)]
            return dp.Mixture(declared, temperature, phases, omitted=1)
        start = draw.randint(step, step + 9)
        end = draw.choice([None, start + draw.randint(1, 12)])
        anneal = dp.Anneal(start, weights(draw, distinct=distinct), end)
        return dp.Mixture(declared, temperature, anneal=anneal, omitted=1)

    return mixture(), mixture()


@pytest.mark.parametrize("seed", range(often(25, less=1)))
def test_an_edited_run_is_one_of_the_new_mixture_from_the_start(corpus, path, seed):
    draw = random.Random(seed)
    kind, distinct = draw.choice(["triplets", "pairs", "texts"]), draw.random() < 0.3
    arguments = {"kind": kind, "batch_size": 4, "recipes": ["pair"], "seed": seed}
    arguments |= {"columns": ["position", "source", "recipe"], "no_duplicates": distinct}
    stands = draw.randint(0, 20)
    old, new = case(draw, stands + (300 if distinct else 0), distinct)
    events = {
        step: weights(draw, distinct=distinct)
        for step in draw.sample(range(stands + 1), min(2, stands))
    }

    def with_events(mixture):
        sampler = corpus.sampler(mixture=mixture, run="whole", **arguments)
        for step in range(stands + 40):
            if step in events:
                sampler.set_weights(events[step])
            yield from next(sampler).to_pylist()

    sampler = corpus.sampler(mixture=old, **arguments)
    try:
        for step in range(stands):
            if step in events:
                sampler.set_weights(events[step])
            next(sampler)
        if stands in events:
            sampler.set_weights(events[stands])
        sampler.save()
        rest = list(with_events(new))[stands * 4 :]
    except dp.RecipeError:
        assert distinct  # too little lies between two changes for samples to change places in
        return
    edited = corpus.resume(mixture=new)
    assert rows(edited, 10) == rest[:40]
    edited.save()
    assert corpus.resume().settings.mixture == new
    assert rows(corpus.resume(), 10) == rest[40:80]
    ranks = [corpus.resume(rank=rank, world_size=2, mixture=new) for rank in range(2)]
    found = [rows(rank, 10) for rank in ranks]
    sliced = [row for step in range(10) for rank in found for row in rank[step * 2 : step * 2 + 2]]
    assert sliced == rest[40:80]


def test_another_past_is_refused_with_both_values_phase_by_phase(corpus):
    phases = [dp.Phase(4, {"b": 2}), dp.Phase(9, {"c": 0}, 0.5)]
    old = dp.Mixture({"a": 3}, phases=phases, omitted=1)
    sampler = corpus.sampler(mixture=old, batch_size=4)
    rows(sampler, 6)
    sampler.save()
    for changed, told in [
        (
            {"phases": [dp.Phase(5, {"b": 2})]},
            "would change samples from step 4, but the run is at step 6",
        ),
        ({}, "from step 4 (saved: {'b': 2.0}, lr_scale 1, now: none); from step 9 (saved"),
        (
            {"temperature": 2, "phases": phases},
            "from step 0, but the run is at step 6; use set_weights or a Phase from step 6",
        ),
        ({"anneal": dp.Anneal(4, {"b": 2}, 9)}, "from step 4 step by step to st"),
    ]:
        new = dp.Mixture({"a": 3}, omitted=1, **changed)
        with pytest.raises(dp.StateMismatchError) as caught:
            corpus.resume(mixture=new)
        assert told in str(caught.value), caught.value
        corpus.resume(mixture=new, allow_drift=("mixture",)).close()
    with pytest.raises(dp.StateMismatchError, match=r"seed \(saved.*; from step 4 \(saved"):
        corpus.resume(mixture={"a": 3}, seed=1)
    for wrong in ({"d": 1}, 7, {"a": -1}, "none.toml"):
        with pytest.raises(dp.errors.MixtureError):
            corpus.resume(mixture=wrong)
    # Equal samples are accepted, however they are written down.
    again = dp.Mixture({"a": 6, "b": 2, "c": 2}, phases=[dp.Phase(4, {"b": 4})])
    assert corpus.resume(mixture=again).changed_from == 36


def test_a_save_over_checkpoints_of_another_future_is_refused(corpus, path, tmp_path):
    sampler = corpus.sampler(batch_size=4)
    for tag in ("one", "two", "three"):
        rows(sampler, 2)
        sampler.save(tag=tag)
    sampler.save()
    new = dp.Mixture(phases=[dp.Phase(3, {"b": 0})])
    edited = corpus.resume(tag="one", mixture=new)
    expected = rows(edited, 3)
    with pytest.raises(dp.StateMismatchError, match=r"step 3,.*'two', 'three'.*--to 3 --reset$"):
        edited.save()
    other = tmp_path / "other.duckdb"
    apart = corpus.resume(tag="one", mixture=new, save_to=other)
    rows(apart, 3)
    assert apart.save() == other
    assert dp.resume(path, state=other).step == 5
    assert dp.resume(path).step == 6
    forget = ("runs", path, "default", "--to", "3", "--reset")
    assert "deleted 3 checkpoints" in cli(*forget).stderr
    edited.save()
    assert [row["tag"] for row in state.cursors(state.state_path(path))] == [None, "one"]
    assert rows(corpus.resume(tag="one"), 3) == expected
    with pytest.raises(dp.SamplerError, match="after=-1"):
        state.reset(state.state_path(path), "default", after=-1)


def test_a_file_and_the_command_line_edit_a_run(corpus, path):
    corpus.sampler(batch_size=4).save()
    file = path.with_name("m.toml")
    file.write_text("[[mixture.phases]]\nstart_step = 3\nweights = { b = 0 }\n")
    new = dp.Mixture(phases=[dp.Phase(3, {"b": 0})])
    whole = rows(corpus.sampler(batch_size=4, mixture=new), 6)
    assert rows(dp.resume(path, mixture=file), 6) == whole
    assert rows(dp.resume(path, mixture=str(file)), 6) == whole
    assert corpus.sampler(mixture=file).mixture.phases == new.phases
    result = cli("sample", path, "--resume", "--mixture", file, "--steps", "6", "--save")
    assert result.stdout.count("\n") == 24
    resumed = corpus.resume()
    assert (resumed.mixture.phases, resumed.step) == (new.phases, 6)
    assert "would change samples from" in error("sample", path, "--resume", "--mixture", "a=2")


def test_a_run_that_cannot_be_saved_is_known_at_once(corpus, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    for place, why in [
        (tmp_path / "file" / "s.duckdb", "file is no folder"),
        (tmp_path, "it is a folder"),
    ]:
        with pytest.raises(dp.SamplerError, match=why):
            corpus.sampler(options=dp.Options(state=place))
    corpus.sampler().save()
    before = set(tmp_path.iterdir())
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(dp.SamplerError, match="nothing may be written in"):
        corpus.sampler(options=dp.Options(state=tmp_path / "s.duckdb"))
    rows(corpus.sampler(batch_size=4), 2)  # maybe only to look at: it is read all the same
    assert caplog.text.count("this run cannot be saved in") == 1
    assert set(tmp_path.iterdir()) == before


def test_numbers_near_powers_of_two_are_right_or_refused(corpus):
    near = [2**k + d for k in some(range(70), less=4) for d in (-1, 0, 1)]
    near += [2**53 - 1, 2**53, 2**53 + 1, 10**5000]
    sampler = corpus.sampler(
        recipes=[PAIR], batch_size=4, columns=["position"], options=dp.Options(prefetch=0)
    )
    calls = [
        sampler.batch_at,
        sampler.set_epoch,
        lambda n: sampler.served(n - 3, n),
        lambda n: next(sampler.peek(n), None),
        lambda n: sampler.plan(n) if n > 2**30 else None,
        sampler.move,
    ]
    for n in near:
        accepted = True
        for call in calls:
            try:
                call(n)
            except dp.SamplerError:
                accepted = False
        if accepted:  # what can be saved can be resumed
            found = sampler.state_dict()
            batch = next(sampler, None)
            sampler.load_state_dict(found)
            assert sampler.position == found["position"] == n
            assert batch is None or batch["position"][0] == n


DAMAGED = [
    {"position": 2**70},
    {"position": -1},
    {"position": "x"},
    {"counts": {"position": 4, "sources": {"a": [2**70, 1, 0]}}},
    {"counts": {"position": 4, "sources": {"a": [float("inf"), 1, 0]}}},
    {"counts": {"position": 4, "sources": {"a": [-1, 1]}}},
    {"counts": {"position": -4, "sources": {}}},
    {"counts": 3},
    {"events": [[-3, {"a": 1}]]},
    {"events": [[2**70, {"a": 1}]]},
    {"events": [[3, {"z": 1}]]},
    {"events": [[3, 4]]},
    {"events": 5},
    {"fingerprint": 7},
]


def test_a_damaged_state_is_refused_whole(corpus):
    sampler = corpus.sampler(batch_size=4)
    rows(sampler, 2)
    good = sampler.state_dict()
    for damage in DAMAGED:
        with pytest.raises(dp.DuckpletsError):
            sampler.load_state_dict(good | damage)
    sampler.load_state_dict(good)
    assert sampler.position == 8


@pytest.mark.parametrize(("prefetch", "first"), some([(2, 2), (0, 2), (0, 0), (2, 0)], less=1))
def test_a_closed_sampler_does_not_end_in_silence(path, prefetch, first):
    for of in ("sampler", "corpus"):
        corpus = dp.Corpus(path, read_only=True)
        sampler = corpus.sampler(batch_size=4, options=dp.Options(prefetch=prefetch))
        rows(sampler, first)
        (sampler if of == "sampler" else corpus).close()
        for use in (next, lambda s: s.batch_at(1), lambda s: s.served(0, 4), lambda s: s.plan(1)):
            with pytest.raises(dp.SamplerError, match=r"this sampler is closed.*duckplets.resume"):
                use(sampler)
        with pytest.raises(dp.SamplerError, match="this sampler is closed"):
            list(sampler.peek(2))
        assert sampler.step == first
        sampler.close()
        corpus.close()


def test_samplers_and_corpora_are_not_sent_away(corpus):
    for what in (corpus, corpus.sampler()):
        for send in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(dp.SamplerError, match=r"duckplets.torch.SamplerDataset"):
                send(what)
