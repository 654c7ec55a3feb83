"""Runs whose sources end after some epochs: any batch from anywhere, and where a run ends."""

import json
import random
from collections import Counter
from itertools import islice

import pytest
from frozen_runs import titled
from prebuilt import copying, reading

import duckplets as dp
from duckplets import testing
from duckplets.errors import MixtureError

SIZES = {f"s{i}": 3 + 17 * i for i in range(6)}
CAPS = {"s1": 2, "s3": 1, "s4": 3}
PAIRS = {"kind": "pairs", "batch_size": 12, "options": dp.Options(prefetch=0)}
PHASED = [dp.Phase(4, {"s4": 9}), dp.Phase(21, {"s5": 0, "s0": 2})]
RUNS = [
    (dp.Mixture("equal", max_epochs=CAPS, phases=PHASED), {}),
    (dp.Mixture("equal", max_epochs=CAPS, unit="tokens"), {}),
    (dp.Mixture(max_epochs=CAPS), {"batch_by": "source"}),
    (dp.Mixture("equal", max_epochs=CAPS), {"no_duplicates": True}),
    (dp.Mixture("equal", max_epochs=CAPS, unit="tokens"), {"no_duplicates": "group"}),
    (
        dp.Mixture(dict.fromkeys(SIZES, 1), max_epochs=CAPS, anneal=dp.Anneal(2, {"s4": 8}, 30)),
        {"kind": "labelled_pairs", "negatives": 2},
    ),
]

several = reading(titled, SIZES)
own = copying(titled, {"a": 40, "b": 25, "c": 90})


@pytest.mark.parametrize(("mixture", "more"), RUNS)
def test_any_batch_of_a_capped_run_is_the_same_from_anywhere(several, mixture, more):
    how = PAIRS | more | {"mixture": mixture}
    sampler = several.sampler(**how)
    states, table, ranks = {}, [], 3
    for step in range(60):
        if step == 17 and "batch_by" not in more:
            sampler.set_weights({"s1": 4, "s2": 2, "s5": 1})
        states[step] = sampler.state_dict()
        table.append(next(sampler).table)
    taken = Counter(name for of in table for name in of["source"].to_pylist())
    done = [name for name, at in sampler.planner.schedule.ends.items() if at <= 720]
    assert done
    for name in done if "no_duplicates" not in more else ():
        due, rest = CAPS[name] * SIZES[name], taken[name] // sampler.planner.samples_per_draw
        assert rest == due + -due % (12 if "batch_by" in more else 1)
    draw = random.Random(0)
    others = [several.sampler(**how | {"batch_size": 4}, rank=r, world_size=ranks) for r in (0, 2)]
    whole = several.sampler(**how)
    for step in draw.sample(sorted(states), 6):
        saved = json.loads(json.dumps(states[step]))
        whole.load_state_dict(saved)
        assert next(whole).table == table[step]
        for rank, other in zip((0, 2), others, strict=True):
            other.load_state_dict(saved)
            part = table[step].slice(4 * rank, 4)
            assert next(other).table.to_pydict() == part.to_pydict()
    ends = whole.planner.schedule.ends
    assert {*ends} <= {*CAPS}
    if {*ends} == {*CAPS}:
        said = str(whole.forecast(130))
        for name, at in ends.items():
            assert f"'{name}' is used up at step {at // 12:,} (position {at:,})" in said


@pytest.mark.parametrize("more", [{}, {"no_duplicates": True}])
@pytest.mark.parametrize("unit", ["samples", "tokens"])
def test_a_run_ends_with_its_sources(several, unit, more):
    def opened(**mixture):
        return several.sampler(mixture=dp.Mixture("equal", unit=unit, **mixture), **PAIRS, **more)

    every = opened(max_epochs=dict.fromkeys(SIZES, 2), stop="all")
    taken = Counter(name for batch in every for name in batch["source"])
    assert more or taken == {name: 2 * size for name, size in SIZES.items()}
    assert sum(taken.values()) == 2 * sum(SIZES.values()) == every.reader.end
    first = opened(stop="first", max_epochs={"s0": 9})
    taken = Counter(name for batch in first for name in batch["source"])
    assert more or (taken["s1"] == SIZES["s1"]) + (taken["s0"] == 9 * SIZES["s0"]) == 1
    assert "the run ends at step" in first.describe()
    if not more:
        first = opened(stop="first")
        first.set_weights({"s0": 0.01})  # another source is the first now
        taken = Counter(name for batch in first for name in batch["source"])
        assert taken["s1"] == SIZES["s1"]
    for steps in (46, None):
        with pytest.raises(MixtureError, match=r"is used up at step 45 \(position 546\)"):
            opened_for(several, unit, steps)
    assert len([*opened_for(several, unit, 45)]) == 45


def opened_for(corpus, unit, steps):
    mixture = dp.Mixture("equal", max_epochs=dict.fromkeys(SIZES, 2), unit=unit)
    return corpus.sampler(mixture=mixture, **PAIRS, steps=steps)


def test_weights_set_later_may_leave_nothing(several):
    mixture = dp.Mixture("equal", max_epochs={"s1": 1})
    sampler = several.sampler(mixture=mixture, **PAIRS, steps=90)
    [*islice(sampler, 20)]
    with pytest.raises(MixtureError, match=r"max_epochs: every source .* used up at step 20"):
        sampler.set_weights({"s1": 1} | {n: 0 for n in SIZES if n != "s1"})


def test_bad_caps_and_ends_are_refused(several):
    for wrong, why in [
        ({"max_epochs": {"s1": 0}}, "max_epochs\\['s1'\\]=0: give an integer from 1"),
        ({"max_epochs": {"s1": 1.5}}, "max_epochs\\['s1'\\]=1.5: give an integer from 1"),
        ({"stop": "last"}, "stop='last': give 'first', 'all'"),
    ]:
        with pytest.raises(MixtureError, match=why):
            dp.Mixture(**wrong)
    with pytest.raises(MixtureError, match=r"max_epochs: no source 's11'.*'s1'"):
        several.sampler(mixture=dp.Mixture(max_epochs={"s11": 1}), **PAIRS)
    for more in ({"steps": 5}, {"epochs": 1}, {"options": dp.Options(remainder="pad")}):
        with pytest.raises(dp.SamplerError, match="stop='all' sets the end of a run; leave out"):
            several.sampler(mixture=dp.Mixture(stop="all"), **PAIRS | more)


def test_a_saved_run_keeps_its_caps_through_edits_and_joins(own, tmp_path):
    mixture = dp.Mixture("equal", max_epochs={"a": 2, "b": 3})
    sampler = own.sampler(mixture=mixture, **PAIRS)
    before = [batch["source"] for batch in islice(sampler, 8)]
    sampler.save()
    edited = own.resume(mixture=dp.Mixture("equal", max_epochs={"a": 1, "b": 3}))
    at = edited.planner.schedule.ends["a"]
    assert edited.changed_from == at > 96
    with pytest.raises(dp.StateMismatchError, match="max_epochs"):
        own.resume(mixture=dp.Mixture("equal", max_epochs={"b": 1}), allow_drift=())
    rows = [row | {"id": f"more{i}"} for i, row in enumerate(testing.toy_records(10, seed=4))]
    more = dp.sources.MemorySource(rows, id="id", anchor="title", positive="body")
    own.ingest(more, name="a", progress=False)
    own.split(1, 0, 0)
    joined = own.resume(version="newest")
    batches = [batch["source"] for batch in islice(joined, 60)]
    had = Counter(name for of in before for name in of)
    taken = Counter(name for of in batches for name in of)
    # epochs before count as far as they went
    assert taken["a"] == -((2 * 40 - had["a"]) * 50 // -40)
    assert taken["b"] == 3 * 25 - had["b"]
    joined.save()
    assert own.resume().batch_at(30)["source"] == batches[22]
