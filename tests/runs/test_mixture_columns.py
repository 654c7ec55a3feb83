"""Shares by values of records, and orders by one: which anchors come, how often, in which order."""

import json
import math
import random
from collections import Counter, defaultdict
from itertools import islice, pairwise

import pytest
from prebuilt import copying, prebuilt, reading, toy_corpus

import duckplets as dp
from duckplets import testing
from duckplets.errors import MixtureError

LANGUAGES = ("en", "en", "en", "de", "de", "fr", None)
LICENCES = ("mit", "gpl", "gpl")
COLUMN, BOTH = "meta['language']", ("meta['language']", "meta['licence']")
COLUMNS = ["source", "anchor", "anchor_record_id", "anchor_tokens", "positive_tokens"]
HOW = {"kind": "pairs", "batch_size": 12, "columns": COLUMNS, "options": dp.Options(prefetch=0)}
TITLED = {"id": "id", "anchor": "title", "positive": "body"}


def rows_of(name, count):
    draw = random.Random(name)
    for n, row in enumerate(testing.toy_records(count, seed=name)):
        row |= {"id": f"{name}{n}", "language": draw.choice(LANGUAGES)}
        hard = draw.choice([None, *range(9)]) if name == "one" else f"2024-03-{1 + n % 28:02}"
        yield row | {"licence": draw.choice(LICENCES), "hard": hard}


@prebuilt
def valued(path, sizes):
    corpus = dp.Corpus(path)
    for name, count in sizes.items():
        source = dp.sources.MemorySource(
            [*rows_of(name, count)], **TITLED, meta=["language", "licence", "hard"]
        )
        corpus.ingest(source, name=name, progress=False)
    corpus.split(1, 0, 0)
    return corpus


SIZES = {"one": 170, "two": 60}
ROWS = {
    f"{name}/{row['id']}": row | {"of": name}
    for name, n in SIZES.items()
    for row in rows_of(name, n)
}
corpus = reading(valued, SIZES)
own = copying(valued, SIZES)
many = reading(toy_corpus, 1600)


def drawn(sampler, steps):
    return [r for batch in islice(sampler, steps) for r in batch["anchor_record_id"]]


@pytest.mark.parametrize("unit", ["samples", "tokens"])
def test_shares_are_of_values_at_every_prefix(corpus, unit):
    weights = {"en": 2, "de": 1, "fr": 3, "null": 0.5}
    sampler = corpus.sampler(mixture=dp.Mixture(weights, column=COLUMN, unit=unit), **HOW)
    batches = [*islice(sampler, 60)]
    taken, of_value, whole, longest = Counter(), defaultdict(list), 0, 1
    for batch in batches:
        size = zip(batch["anchor_tokens"], batch["positive_tokens"], strict=True)
        for record, tokens in zip(batch["anchor_record_id"], map(sum, size), strict=True):
            name = ROWS[record]["language"] or "null"
            of_value[name].append(record)
            more = 1 if unit == "samples" else tokens
            taken[name], whole, longest = taken[name] + more, whole + more, max(longest, more)
            for value, weight in weights.items():
                off = abs(taken[value] - whole * weight / 6.5)
                assert off <= (1.7 * longest if unit == "tokens" else math.log2(4) + 1)
    # sources share a value by their anchors, and each anchor comes once an epoch of its recipe
    for value, records in of_value.items():
        for name in SIZES:
            members = {r for r, row in ROWS.items() if (row["language"] or "null") == value}
            anchors = {r for r in members if ROWS[r]["of"] == name}
            came = [r for r in records if r in anchors]
            assert abs(len(came) - len(records) * len(anchors) / len(members)) <= 1
            for low in range(0, len(came), len(anchors)):
                epoch = came[low : low + len(anchors)]
                assert len({*epoch}) == len(epoch)


def test_words_and_two_columns(corpus):
    counts = Counter(row["language"] for row in ROWS.values())
    sampler = corpus.sampler(mixture=dp.Mixture(column=COLUMN), **HOW)
    length = sampler.epoch_length
    said = f"{counts[None]} records of split 'train' have no value there, and are not drawn"
    assert said in sampler.describe()
    assert length == sum(counts.values()) - counts[None]
    assert {*drawn(sampler, length // 12)} == {
        r for r in ROWS if ROWS[r]["language"]
    } or length % 12
    equal = corpus.sampler(mixture=dp.Mixture("equal", column=COLUMN), **HOW)
    taken = Counter(ROWS[r]["language"] for r in drawn(equal, 20))
    assert {*taken.values()} == {80}
    both = corpus.sampler(mixture=dp.Mixture({"en / gpl": 3, "null / mit": 1}, column=BOTH), **HOW)
    taken = Counter((ROWS[r]["language"], ROWS[r]["licence"]) for r in drawn(both, 20))
    assert taken == {("en", "gpl"): 180, (None, "mit"): 60}
    every = {f"{row['language'] or 'null'} / {row['licence']}" for row in ROWS.values()}
    assert {*both.settings.names} == every
    by_source = corpus.sampler(
        mixture=dp.Mixture({"two / fr": 1}, column=("source", COLUMN)), **HOW
    )
    assert {(ROWS[r]["of"], ROWS[r]["language"]) for r in drawn(by_source, 9)} == {("two", "fr")}


def test_negatives_stay_those_of_the_source(corpus):
    columns = ["anchor_record_id", "negative_record_id"]
    how = {"mixture": dp.Mixture({"fr": 1}, column=COLUMN), "batch_size": 30, "columns": columns}
    found = [*islice(corpus.sampler(**how), 30)]
    pairs = [(a, n) for of in found for a, n in zip(*map(of.__getitem__, columns), strict=True)]
    assert {ROWS[a]["language"] for a, _ in pairs} == {"fr"}
    assert {ROWS[n]["language"] for _, n in pairs} == {*LANGUAGES}
    assert all(ROWS[a]["of"] == ROWS[n]["of"] for a, n in pairs)


@pytest.mark.parametrize(
    ("mixture", "more"),
    [
        (dp.Mixture({"en": 1, "de": 2}, column=COLUMN, phases=[dp.Phase(9, {"fr": 9})]), {}),
        (dp.Mixture("equal", column=COLUMN, unit="tokens", max_epochs={"fr": 2}), {}),
        (dp.Mixture(column=COLUMN), {"no_duplicates": True}),
        (dp.Mixture(order_by="meta['hard']", stairs=4, order_epochs=2), {}),
        (dp.Mixture(column=BOTH, order_by="length(record_id)"), {"kind": "texts"}),
    ],
)
def test_any_batch_is_the_same_from_anywhere(corpus, tmp_path, mixture, more):
    how = HOW | more | {"mixture": mixture, "options": dp.Options(state=tmp_path / "s.duckdb")}
    if more.get("kind"):
        how["columns"] = ["text", "text_record_id"]
    sampler = corpus.sampler(**how)
    table, states = [], {}
    for step in range(40):
        if step == 14 and mixture.columns == (COLUMN,):
            sampler.set_weights({"null": 3, "en": 1})
        states[step] = sampler.state_dict()
        if step == 25:
            sampler.save()
        table.append(next(sampler).table)
    other = corpus.sampler(**how)
    for step in (0, 13, 14, 15, 33):
        other.load_state_dict(json.loads(json.dumps(states[step])))
        assert next(other).table == table[step]
    for rank in (0, 2):
        part = corpus.resume(state=tmp_path / "s.duckdb", rank=rank, world_size=3)
        assert next(part).table.to_pydict() == table[25].slice(4 * rank, 4).to_pydict()


def test_a_value_that_joins_and_edits_of_a_saved_run(own):
    sampler = own.sampler(mixture=dp.Mixture("equal", column=COLUMN), **HOW)
    before = drawn(sampler, 5)
    sampler.save()
    with pytest.raises(MixtureError, match="keeps what its shares and its order are by, and col"):
        own.resume(mixture=dp.Mixture("equal"))
    with pytest.raises(MixtureError, match="stairs differs"):
        own.resume(mixture=dp.Mixture("equal", column=COLUMN, stairs=3))
    late = dp.Mixture("equal", column=COLUMN, phases=[dp.Phase(9, {"fr": 8})])
    assert own.resume(mixture=late).changed_from == 9 * 12
    rows = [row | {"id": f"it{n}", "language": "it"} for n, row in enumerate(rows_of("x", 30))]
    more = dp.sources.MemorySource(rows, **TITLED, meta=["language", "licence", "hard"])
    own.ingest(more, name="three", progress=False)
    own.split(1, 0, 0)
    joined = own.resume(version="newest")
    found = drawn(joined, 20)
    assert Counter("it" in r for r in found) == {True: 60, False: 180}
    joined.save()
    again = own.resume()
    assert drawn(again, 3) == drawn(joined, 3)
    assert again.batch_at(2)["anchor_record_id"] == before[24:36]


def test_the_first_epochs_go_up_the_stairs(corpus):
    for stairs, epochs in ((5, 2), (1, 1), (400, 1)):
        mixture = dp.Mixture(
            {"one": 1}, order_by="meta['hard']", stairs=stairs, order_epochs=epochs
        )
        size = SIZES["one"]
        plain = drawn(corpus.sampler(mixture={"one": 1}, **HOW), 60)
        found = drawn(corpus.sampler(mixture=mixture, **HOW), 60)
        hard = {r: math.inf if row["hard"] is None else row["hard"] for r, row in ROWS.items()}
        order = sorted(hard[r] for r in ROWS if ROWS[r]["of"] == "one")
        edges = [size * stair // stairs for stair in range(stairs + 1)]
        several = []
        for epoch in range(epochs):
            came = found[epoch * size : (epoch + 1) * size]
            assert len({*came}) == size
            for low, high in pairwise(edges):
                assert sorted(hard[r] for r in came[low:high]) == order[low:high]
            several.append([{*came[low:high]} for low, high in pairwise(edges)])
            if 1 < stairs < size:
                assert [hard[r] for r in came] != order  # shuffled within
        assert all(of == several[0] for of in several)  # ties are always on the same stair
        assert found[epochs * size :] == plain[epochs * size :]
    dated = dp.Mixture({"two": 1}, order_by="meta['hard']", stairs=60)
    days = [ROWS[r]["hard"] for r in drawn(corpus.sampler(mixture=dated, **HOW), 5)]
    assert days == sorted(days)


def test_columns_that_divide_or_order_nothing_are_refused(corpus):
    def opened(error, why, **mixture):
        with pytest.raises(error, match=why):
            corpus.sampler(mixture=dp.Mixture(**mixture), **HOW)

    opened(
        MixtureError,
        "mixture: no value 'dutch'.*there are: de, en",
        weights={"dutch": 1},
        column=COLUMN,
    )
    opened(dp.SamplerError, "column='nowhere': give one or two", column="nowhere")
    opened(dp.SamplerError, "order_by='a b': give a number or a date", order_by="a b")
    opened(
        dp.SamplerError,
        "give a column of numbers or of dates; source 'one' also has '(mit|gpl)'",
        order_by="meta['licence']",
    )
    mixed = "if(length(record_id) % 2 = 0, '7', '2024-01-01')"
    opened(
        dp.SamplerError,
        "source 'one' also has '2024-01-01'|also has '7'",
        order_by=mixed,
    )
    with pytest.raises(MixtureError, match="give one or two values of records"):
        dp.Mixture(column=["a", "b", "c"])
    one = (
        "if(length(record_id) % 2 = 0, 'x / y', 'x')",
        "if(length(record_id) % 2 = 0, 'z', 'y / z')",
    )
    opened(MixtureError, "values contain ' / '; name one column", column=one)
    assert not dp.Mixture(column="source").is_null("x / null")
    with pytest.raises(MixtureError, match="every source has weight 0"):
        corpus.sampler(mixture=dp.Mixture({"en": 0}, column=COLUMN), **HOW)
    for by in ("source", COLUMN):
        with pytest.raises(dp.SamplerError, match="batches of one key exclude shares"):
            corpus.sampler(mixture=dp.Mixture(column=COLUMN), batch_by=by, **HOW)


def test_a_column_of_too_many_values_is_refused(many):
    with pytest.raises(MixtureError, match=r"1,[2-9]\d\d values, more than 1,000"):
        many.sampler(mixture=dp.Mixture(column="record_id"))
