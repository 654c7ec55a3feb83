"""What is drawn of each source where no mixture names any: as much as it has, or all alike."""

import random
from collections import Counter

import pytest
from commands import cli, lines, usage
from effort import often
from frozen_runs import titled
from prebuilt import copying, reading
from token_shards import lengths_of, numbered, write_shards

import duckplets as dp

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")


def recipe(name, weight=1.0, **more):
    return dp.TripletRecipe(name, ANCHOR, CONTEXT, CONTEXT, weight=weight, **more)


def opened(corpus, kind="triplets", **how):
    plain = {
        "kind": kind,
        "batch_size": 4,
        "recipes": [recipe("r")],
        "options": dp.Options(swap=False),
    }
    return corpus.sampler(**{**plain, **({"recipes": None} if kind == "texts" else {}), **how})


def assert_passes(sampler, epochs):
    """In each nominal epoch every source got as many samples as it has, one stream each anchor."""
    length, streams = sampler.epoch_length, Counter[str]()
    anchors = Counter[str]()
    for row in sampler.forecast().table.to_pylist():
        streams[row["source"]] += 1
        anchors[row["source"]] += row["anchors"]
    a_draw = length // sum(anchors.values())  # samples that an anchor gives: of pairs several
    columns = sampler.served(0, 1).column_names
    who = next(n for n in ("anchor_record_id", "text_record_id", "record_ids") if n in columns)
    for epoch in range(epochs):
        rows = sampler.served(epoch * length, (epoch + 1) * length).to_pylist()
        assert Counter(row["source"] for row in rows) == {n: a * a_draw for n, a in anchors.items()}
        seen = Counter(
            (row["source"], *unit(row, who)) for row in rows if streams[row["source"]] == 1
        )
        assert set(seen.values()) <= {a_draw}
        assert len(seen) == sum(n for name, n in anchors.items() if streams[name] == 1)


def unit(row, who):
    """What an anchor is: a record; of texts a chunk; of tokens a row."""
    if who == "record_ids":
        return (row["bucket"], row["row"])
    return (row[who], row["text_section"]) if who == "text_record_id" else (row[who],)


def test_every_source_is_passed_once_in_each_epoch_of_any_corpus(tmp_path):
    for seed in range(often(40, less=1)):
        rng = random.Random(seed)
        sizes = [rng.choice((3, 4, rng.randint(3, 30), rng.randint(3, 200))) for _ in range(4)]
        recipes = [recipe("r")]
        for name in rng.sample("abcd", rng.randint(0, 3)):
            weights = (rng.choice((0.1, 1 / 3, 0.5, 1.0, 2.75)) for _ in range(2))
            recipes += [recipe(f"{name}{i}", w, sources=(name,)) for i, w in enumerate(weights)]
        with titled(tmp_path / f"{seed}.duckdb", dict(zip("abcd", sizes, strict=True))) as corpus:
            for kind, more in (
                ("triplets", {}),
                ("labelled_pairs", {"negatives": 2}),
                ("texts", {}),
            ):
                given = {"recipes": recipes} if kind != "texts" else {}
                sampler = opened(corpus, kind, seed=seed, run=kind, **given, **more)
                assert_passes(sampler, 3)
                sampler.close()


def test_messages_and_rows_of_tokens_are_passed_once_in_each_epoch(tmp_path):
    with dp.Corpus(tmp_path / "m.duckdb") as corpus:
        for name, size in (("few", 3), ("more", 11)):
            rows = [{"instruction": f"{name} {i}", "output": f"{name} {i}!"} for i in range(size)]
            corpus.ingest(rows, name=name, converter="alpaca")
        corpus.split(1, 0, 0)
        sampler = corpus.sampler("messages", batch_size=4, epochs=2)
        ids = sampler.served(0, 28)["record_id"].to_pylist()
        assert [Counter(ids[:14]), Counter(ids[14:])] == [Counter(set(ids))] * 2
        assert len(set(ids)) == 14
    texts = {name: numbered(lengths_of(n, n)) for name, n in (("few", 5), ("more", 23))}
    shards = dp.TokenShards(write_shards(tmp_path / "shards", {"train": texts}))
    for pack in (False, True):
        sampler = shards.sampler(batch_size=3, seq_length=16, pack=pack, run=f"{pack}")
        assert_passes(sampler, 3)
        assert "shares in proportion to anchors" in sampler.describe()
        sampler.save()
        with shards.resume(f"{pack}") as resumed:
            assert resumed.mixture == sampler.mixture
    shards.close()


SIZES = {"a": 8, "b": 24, "c": 32}

corpus = copying(titled, SIZES)
whole = reading(titled, SIZES)


def shares(sampler, steps=16):
    return dict(Counter(sampler.served(0, steps * 4)["source"].to_pylist()))


IN_PROPORTION, ALIKE = {"a": 8, "b": 24, "c": 32}, {"a": 21, "b": 21, "c": 22}
MEANT = [
    (None, IN_PROPORTION, "in proportion to anchors"),
    ("proportional", IN_PROPORTION, "in proportion to anchors"),
    (dp.Mixture(), IN_PROPORTION, "in proportion to anchors"),
    ("equal", ALIKE, "equal"),
    (dp.Mixture("equal"), ALIKE, "equal"),
    ({"a": 1, "c": 3}, {"a": 16, "c": 48}, "as given"),
    (dp.Mixture({"a": 2}, omitted=1), {"a": 32, "b": 16, "c": 16}, "as given"),
    # 8, 24 and 32 to the half: 2.83, 4.90 and 5.66 of 13.38
    (dp.Mixture("proportional", temperature=2), {"a": 14, "b": 23, "c": 27}, "(temperature 2)"),
    # shares that sum to 1 stay beside what a phase gives: 1/8, 3/8 and 1/2
    (
        dp.Mixture("proportional", phases=[dp.Phase(0, {"a": 0.625})]),
        {"a": 27, "b": 16, "c": 21},
        "as given",
    ),
]


def test_what_a_mixture_means(whole, tmp_path):
    for mixture, expected, told in MEANT:
        with opened(whole, mixture=mixture) as sampler:
            found = shares(sampler)
            assert all(abs(found[name] - n) <= 1 for name, n in expected.items())
            assert found.keys() == expected.keys()
            if expected is IN_PROPORTION:
                assert found == expected
            assert told in sampler.describe().splitlines()[0]
    file = tmp_path / "m.toml"
    for text, wrong in (('[mixture]\nweights = "all"\n', "'proportional', 'equal'"),):
        file.write_text(text)
        with pytest.raises(dp.errors.MixtureError, match=wrong):
            opened(whole, mixture=file)
    with pytest.raises(dp.errors.MixtureError, match=r"did you mean 'proportional'\?"):
        opened(whole, mixture="proportionally")
    file.write_text('[mixture]\nweights = "equal"\n')
    assert shares(opened(whole, mixture=file)) == pytest.approx(ALIKE, abs=1)


def test_what_is_not_named_is_left_out_and_named_in_a_note(corpus, caplog, tmp_path):
    note = "does not name 'b': nothing is drawn from there"
    file = tmp_path / "m.toml"
    file.write_text("[mixture]\nweights = { a = 1, c = 1 }\n")
    for mixture in ({"a": 1, "c": 1}, file):
        sampler = opened(corpus, mixture=mixture)
        assert note in sampler.describe()
        caplog.clear()
        next(sampler)
        assert note in caplog.text
        assert shares(sampler) == {"a": 32, "c": 32}
    corpus.close()
    result = cli("sample", corpus.path, "--mixture", "a=1,c=1", "--steps", "8")
    assert note in result.stderr
    assert {row["source"] for row in lines(result.stdout)} == {"a", "c"}
    assert "shares equal" in cli("sample", corpus.path, "--mixture", "equal", "--steps", 1).stderr
    assert "SOURCE=WEIGHT" in usage("sample", corpus.path, "--mixture", "equa")


def test_a_saved_run_stores_the_meaning_of_a_word(corpus):
    sampler = opened(corpus, mixture="proportional")
    sampler.move(3 * 4)
    sampler.save()
    expected = [sampler.batch_at(step)["anchor"] for step in range(9)]
    rows = [{"q": f"more {i}", "a": f"more {i}!"} for i in range(90)]
    corpus.ingest(rows, name="d", anchor="q", positive="a")
    for anew in ({}, {"mixture": "proportional"}):
        with corpus.resume(**anew) as resumed:
            assert [resumed.batch_at(step)["anchor"] for step in range(9)] == expected
    with pytest.raises(dp.StateMismatchError, match="change samples from step 0, but the run is"):
        corpus.resume(mixture="equal")
    later = dp.Mixture("proportional", phases=[dp.Phase(3, {"a": 0})])
    with corpus.resume(mixture=later) as resumed:
        assert {name for _ in range(9) for name in next(resumed)["source"]} == {"b", "c"}


def test_shares_follow_the_version_that_joins(corpus):
    sampler = opened(corpus)
    sampler.move(16)
    sampler.save()
    rows = [{"q": f"more {i}", "a": f"more {i}!"} for i in range(64)]
    corpus.ingest(rows, name="d", anchor="q", positive="a")
    resumed = corpus.resume(version="newest", recipes=[recipe("r")])
    assert resumed.mixture.weights == {"a": 0.0625, "b": 0.1875, "c": 0.25, "d": 0.5}
    # as much as an epoch of the newest version beyond the join
    assert sum(resumed.forecast().table["samples"].to_pylist()) == 4 * 4 + 128
    later = resumed.served(16, 16 + 128)
    assert Counter(later["source"].to_pylist()) == {"a": 8, "b": 24, "c": 32, "d": 64}
    resumed.save()
    with corpus.resume() as again:
        assert again.served(16, 16 + 128) == later


def test_mixture_is_the_current_one_and_a_set_temperature_stays(corpus):
    mixture = dp.Mixture({"a": 1, "b": 3}, phases=[dp.Phase(2, {"a": 5}), dp.Phase(50, {"c": 4})])
    sampler = opened(corpus, mixture=mixture)
    assert sampler.mixture == mixture
    sampler.move(8)
    assert sampler.mixture.weights == {"a": 5, "b": 3, "c": 0}
    for step, (weights, how) in enumerate([({"b": 1}, {"temperature": 2}), ({"b": 16}, {})], 2):
        assert sampler.set_weights(weights, **how) == step
        assert sampler.mixture.weights == {"a": 1, "c": 0} | weights
        assert sampler.mixture.temperature == 2
        next(sampler)
    for wrong in (0, -1, float("nan"), "2"):
        with pytest.raises(dp.errors.MixtureError, match="temperature"):
            sampler.set_weights({}, temperature=wrong)
    sampler.save()
    served = sampler.served(0, 240)
    found = Counter(served["source"].to_pylist()[3 * 4 : 50 * 4])
    assert found == pytest.approx({"a": 188 / 5, "b": 188 * 4 / 5}, abs=1)  # 1 : 4
    with corpus.resume() as sampler:
        assert sampler.mixture.weights == {"a": 1, "b": 16, "c": 0}
        assert sampler.served(0, 240) == served
        sampler.move(50 * 4)
        assert sampler.mixture.weights == {"a": 1, "b": 3, "c": 4}
        assert sampler.mixture.temperature == 2  # to the end of the run
