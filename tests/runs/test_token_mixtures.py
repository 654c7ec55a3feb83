"""Shares of tokens in a run: the tokens that are drawn, any position, changes, joins, ranks."""

import json
import random
from collections import defaultdict
from dataclasses import replace
from itertools import accumulate, islice

import numpy as np
import pytest
from effort import some
from frozen_runs import odd, titled
from prebuilt import copying, reading
from token_oracle import drawn

import duckplets as dp
from duckplets import testing
from duckplets.errors import MixtureError
from duckplets.report import drawn as drawn_page
from duckplets.samples.token_counts import measured

CHUNKS = dp.TripletRecipe(
    "chunks", dp.role("anchor"), dp.any_section(), dp.role("context"), per="chunk"
)
RUNS = {
    "triplets": {},
    "per chunk": {"recipes": [CHUNKS]},
    "texts": {"kind": "texts"},
    "drawn": {"kind": "labelled_pairs"},
    "divided": {
        "mixture": dp.Mixture(
            unit="tokens", column="length(record_id) % 3", order_by="length(record_id)", stairs=3
        )
    },
}
SIZES = {f"s{i}": 3 + 17 * i for i in range(8)}
MANY = {name: 1.9**i for i, name in enumerate(SIZES)}
COUNTED = ["source", "position", "anchor", "anchor_tokens", "positive_tokens"]
PAIRS = {"kind": "pairs", "batch_size": 12, "options": dp.Options(prefetch=0), "columns": COUNTED}
CHANGED = dp.Mixture(
    MANY, unit="tokens", phases=[dp.Phase(3, {"s2": 50, "s7": 0}), dp.Phase(9, {"s1": 90})]
)
ANNEALED = dp.Mixture(MANY, unit="tokens", anneal=dp.Anneal(2, {"s7": 0, "s3": 40, "s4": 80}, 31))

corpus = reading(odd)
several = reading(titled, SIZES)
own = copying(titled, {"a": 40, "b": 25, "c": 9})


def tokens_in(batch):
    """The tokens that count of each sample."""
    table = batch.table
    slots = ("text",) if "text_tokens" in table.column_names else ("anchor", "positive")
    return sum(np.array(table[f"{slot}_tokens"]) for slot in slots)


@pytest.mark.parametrize("how", RUNS)
def test_tokens_of_any_epochs_are_those_that_are_drawn(corpus, how):
    draw = random.Random(how)
    sampler = corpus.sampler(**{"mixture": dp.Mixture(unit="tokens"), **RUNS[how]})
    for stream in sampler.planner.streams:
        positives, size, tape = stream.pool.positives, len(stream), stream.tape
        windows = np.diff(stream.pool.anchors.starts)
        assert how != "triplets" or (windows.max() > 3 and positives.banned is not None)
        epochs = 120
        upto = [0, *accumulate(tape.between(0, epochs * size).tolist())]
        for index in [0, size, epochs * size, *draw.sample(range(epochs * size), 40)]:
            assert tape.upto(index) == upto[index]
        fresh = measured([replace(stream, tape=None)], sampler.reader.fetcher.tokens_of)
        for epoch in draw.sample(range(epochs), 30):
            assert fresh[0].tape.upto(epoch * size) == upto[epoch * size]


@pytest.mark.parametrize("weights", [{"odd0": 1, "odd1": 3}, "proportional", "equal"])
def test_a_run_draws_what_the_oracle_says(corpus, weights):
    for how in ("triplets", "texts"):
        columns = COUNTED if how == "triplets" else ["source", "text_tokens"]
        mixture = dp.Mixture(weights, unit="tokens")
        sampler = corpus.sampler(mixture=mixture, columns=columns, **RUNS[how])
        found, of_source = [], defaultdict(list)
        for batch in islice(sampler, 12):
            for source, tokens in zip(batch["source"], tokens_in(batch).tolist(), strict=True):
                found.append(source)
                of_source[source].append(tokens)
        shares = sampler.planner.schedule.mixture.declared(["odd0", "odd1"])
        lengths = [[*of_source[name], 0, 0] for name in shares]
        judge = drawn([*shares.values()], lambda s, i, of=lengths: of[s][i], [0, 0])
        known = len(found) - 40  # what comes last depends on samples that nobody drew
        assert [f"odd{s}" for s, _ in islice(judge, known)] == found[:known]
        for name, tokens in of_source.items():
            share = sum(tokens) / sum(map(sum, of_source.values()))
            assert abs(share - shares[name] / sum(shares.values())) < 0.01


def test_a_mean_epoch_in_proportion_is_a_pass_over_each_source(corpus):
    sampler = corpus.sampler(mixture=dp.Mixture(unit="tokens"), **RUNS["triplets"])
    length = sampler.epoch_length
    for name, samples in sampler.planner.schedule.samples(40 * length).items():
        assert abs(samples - 40 * sampler.planner.newest.length_of(name)) < 0.004 * 40 * length
    said = sampler.describe()
    assert "shares in proportion to tokens" in said
    assert "shares are of tokens (words): a sample counts the tokens of anchor and positive" in said
    assert "shares are of tokens (words)" in str(drawn_page.mixture(sampler)[0].note)
    assert sampler.forecast().table["share"].to_numpy().sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("mixture", "more"),
    some(
        [
            (CHANGED, {}),
            (ANNEALED, {}),
            (CHANGED, {"no_duplicates": True}),
            (CHANGED, {"batch_by": "source"}),
            (dp.Mixture(unit="tokens"), {"kind": "texts", "columns": ["position", "text"]}),
        ],
        less=3,
    ),
)
def test_any_batch_is_the_same_from_anywhere_and_on_any_ranks(several, tmp_path, mixture, more):
    how, state = PAIRS | more | {"mixture": mixture}, tmp_path / "s.duckdb"
    sampler = several.sampler(**how | {"options": dp.Options(prefetch=0, state=state)})
    table = [batch.table for batch in islice(sampler, 5)]
    events = {5: {"s5": 300}, 6: {"s5": 0}, 17: {"s1": 50, "s3": 4}}
    states = {}
    for step in range(5, 40):
        if step in events and not more:
            sampler.set_weights(events[step])
        states[step] = sampler.state_dict()
        if step == 20:
            sampler.save()
        table.append(next(sampler).table)
    assert max(len(json.dumps(of["change"])) for of in states.values()) < 500
    draw = random.Random(0)
    for step in draw.sample(range(40), 8):
        assert sampler.batch_at(step).table == table[step]
    ranks = [several.resume(state=state, rank=r, world_size=3) for r in range(3)]
    for step in range(20, 40):
        found = [part for rank in ranks for part in next(rank)["position"]]
        assert found == table[step]["position"].to_pylist()
    other = several.sampler(**how)
    for step in draw.sample(sorted(states), 6):
        other.load_state_dict(json.loads(json.dumps(states[step])))
        assert [next(other).table, other.batch_at(0).table] == [table[step], table[0]]
    damaged = states[39] | {"change": [*states[39]["change"][:4], [1], [1], []]}
    with pytest.raises(dp.StateMismatchError, match="damaged"):
        other.load_state_dict(damaged)


def test_a_saved_run_is_joined_and_keeps_its_unit(own, tmp_path):
    mixture = dp.Mixture("proportional", unit="tokens")
    sampler = own.sampler(mixture=mixture, **PAIRS)
    [*islice(sampler, 7)]
    sampler.save()
    with pytest.raises(dp.StateMismatchError, match=r"unit \(saved: tokens, now: samples\)"):
        own.resume(mixture=dp.Mixture())
    rows = [row | {"id": f"more{i}"} for i, row in enumerate(testing.toy_records(30, seed=4))]
    own.ingest(rows, name="d", id="id", anchor="title", positive="body")
    own.split(1, 0, 0)
    joined = own.resume(version="newest")
    batches = [*islice(joined, 40)]
    tokens = defaultdict(int)
    for batch in batches:
        for source, own_tokens in zip(batch["source"], tokens_in(batch).tolist(), strict=True):
            tokens[source] += own_tokens
    joined.save()
    shares = joined.planner.schedule.shares(20)
    for name, share in shares.items():
        assert abs(tokens[name] - share * sum(tokens.values())) < 1.7 * 40
    again = own.resume()
    assert next(again).to_pydict() == next(joined).to_pydict()
    assert again.batch_at(12).to_pydict() == batches[5].to_pydict()


def test_runs_without_shares_of_tokens_are_refused(several, corpus):
    streams = several.sampler(mixture={"s5": 1}, **PAIRS).planner.streams
    with pytest.raises(MixtureError, match="texts of 's5' have no tokens; give it weight 0"):
        measured(streams, lambda keys: np.zeros(len(keys), np.int64))
    with pytest.raises(MixtureError, match="lists have no share of tokens"):
        measured([replace(streams[0], listed=2)], lambda keys: keys)
    with pytest.raises(MixtureError, match=r"unit='words': give"):
        dp.Mixture(unit="words")
