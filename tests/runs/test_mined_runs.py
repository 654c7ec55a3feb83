"""Runs over mined negatives: where recipes take them from, what they are pinned to and count."""

import shutil
from collections import Counter
from dataclasses import replace

import pytest
from commands import error, lines, ok
from corpora import rows_of
from effort import often, some, thorough
from mined_corpora import CASES, guarded_corpus, rules_of, some_candidates, write_mining
from prebuilt import copying

import duckplets as dp
from duckplets.corpus import doctor
from duckplets.errors import DamagedFileError

OPEN = dp.TripletRecipe("open", **CASES["plain"]["recipe"])
OTHER = dp.TripletRecipe("other", **CASES["any"]["recipe"])
RANDOM = replace(OPEN, by="random")
MINED = replace(OPEN, by="bm25")
WIDE = replace(OPEN, name="wide", negatives_from="split")  # it cannot be mined
HALF = {"bm25": 0.5, "random": 0.5}
EVERY = dp.Mixture({}, omitted=1)
COLUMNS = ["anchor", "positive", "negative", "recipe", "negative_by", "negative_score"]
COLUMNS += ["negative_rank", "position"]
MORE = dp.sources.MemorySource(
    [
        {"id": f"n{i}", "title": f"new {i}", "body": f"new body {i}", "topic": "law"}
        | {"notes": f"note {i}", "g": f"n{i}"}
        for i in range(9)
    ],
    id="id",
    anchor="title",
    positive="body",
    context="notes",
    group="g",
    meta=["topic"],
)


corpus = copying(guarded_corpus, 40, 1)


@pytest.fixture(scope="module")
def mined(tmp_path_factory):
    """A corpus of which one source was mined, for reading."""
    with guarded_corpus(tmp_path_factory.mktemp("by") / "c.duckdb", 40, 1) as corpus:
        mine(corpus, 1)
        yield corpus


def mine(corpus, seed):
    rules = rules_of(corpus, CASES["plain"], "s0", "train")
    write_mining(corpus, OPEN, some_candidates(rules, seed))


def opened(corpus, *recipes, **more):
    given = {"recipes": recipes or (OPEN,), "batch_size": 8}
    return corpus.sampler(**given | {"mixture": {"s0": 1, "s1": 0}, "columns": COLUMNS} | more)


def tables(sampler, steps):
    return [next(sampler).table for _ in range(steps)]


# ---- where negatives come from


def test_none_takes_what_was_mined_where_something_was(mined):
    left_open, asked, named = (
        opened(mined),
        opened(mined, negatives=dp.Negatives(by="bm25")),
        opened(mined, MINED),
    )
    expected = rows_of(named, 9)
    assert "bm25" in {row["negative_by"] for row in expected}
    assert rows_of(left_open, 9) == rows_of(asked, 9) == expected
    assert left_open.settings.candidates == asked.settings.candidates
    assert left_open.notes == []
    assert "negatives mined" in left_open.describe()
    both = opened(mined, OPEN, OTHER, WIDE, mixture=EVERY)
    assert both.notes == []
    told = {tuple(line.split()[:2]): line for line in both.describe().splitlines()}
    assert "negatives mined" in told["s0", "open"]
    assert all("negatives random" in told[key] for key in [("s1", "open"), ("s0", "other")])
    for sampler in (opened(mined, negatives=dp.Negatives(by="random")), opened(mined, RANDOM)):
        assert sampler.settings.candidates.by_source == {}
        assert sampler.notes == []
        assert {row["negative_by"] for row in rows_of(sampler, 3)} == {"random"}


def test_a_recipe_without_mined_negatives_is_named(mined):
    sampler = opened(mined, OPEN, OTHER, WIDE, mixture=EVERY, negatives=dp.Negatives(by="bm25"))
    notes = {note.split("'")[1]: note for note in sampler.notes}
    lacks = "no mined negatives of bm25 in source s1, split 'train', so it draws at random"
    assert lacks in notes["open"]
    assert "in source s0, s1" in notes["other"]
    assert f"duckplets mine {mined.path} other" in notes["other"]
    assert "at random" in notes["wide"]
    ways = Counter((row["recipe"], row["negative_by"]) for row in rows_of(sampler, 12))
    assert ways["open", "bm25"]
    assert ways["open", "random"]
    assert {how for name, how in ways if name != "open"} == {"random"}


@pytest.mark.parametrize("shares", some([HALF, {"bm25": 0.1, "random": 1.009}], less=1))
def test_kinds_are_mixed_by_exact_share(mined, shares):
    exact = shares["bm25"] / sum(shares.values())
    for seed in range(often(9, less=1)):
        sampler = opened(
            mined, seed=seed, negatives=dp.Negatives(by=shares), options=dp.Options(swap=False)
        )
        rows = rows_of(sampler, 24)
        from_mined = [row["negative_by"] != "random" for row in rows]
        assert all(abs(sum(from_mined[:n]) - n * exact) < 1 for n in range(1, len(rows) + 1))
        every = rows_of(
            opened(
                mined, seed=seed, negatives=dp.Negatives(by="bm25"), options=dp.Options(swap=False)
            ),
            24,
        )
        for row, other in zip(rows, every, strict=True):
            if row["negative_by"] == "random":
                assert row["negative_rank"] is None
            else:
                assert row == other
        sampler.move(24 * 8)
        counted = sum(row["negative_by"] == "bm25_fallback" for row in rows)
        assert sampler.metrics().get("data/s0/fallbacks", 0) == counted


def test_negatives_that_cannot_be_drawn_are_refused(mined):
    command = r"corpus.mine\('other'\), or run: duckplets mine .* other"
    other = replace(OTHER, negative=dp.role("anchor"))  # another ground
    topic = dp.TripletRecipe("open", **CASES["topic"]["recipe"], by="bm25")
    for recipe, how, why in [
        (OPEN, {"negatives": {"by": "bm52"}}, "did you mean 'bm25'"),
        (OPEN, {"negatives": {"by": 3}}, "negatives: by=3: give up to 64"),
        (OPEN, {"negatives": {"by": {}}}, "one of them more than 0"),
        (OPEN, {"negatives": {"by": {"bm25": 0}}}, "more than 0"),
        (
            OPEN,
            {"negatives": {"by": {"bm52": 1, "random": 1}}},
            "scorer 'bm52' .did you mean 'bm25'",
        ),
        (
            OPEN,
            {"negatives": {"by": {"bm25": -1}}},
            r"by\['bm25'\]=-1: give a finite number from 0",
        ),
        (OPEN, {"negatives": {"by": {"bm25": True}}}, r"by\['bm25'\]=True"),
        (other, {"negatives": {"by": "bm25"}}, command),
        (other, {"negatives": {"by": HALF}}, command),
        (
            replace(RANDOM, name="r"),
            {"negatives": {"by": "bm25"}},
            "none leaves the choice of negatives open",
        ),
        (replace(other, name="hard", by="bm25"), {}, "'hard', source 's0', split 'train'.*mine"),
        (MINED, {"split": "test"}, "mine"),
        (MINED, {"mixture": {"s1": 1}}, "mine"),
        (topic, {}, "recipe has changed: .*strategy"),
        (MINED, {"negatives": {"by": "dens"}}, "of scorer 'dens'.*are: bm25"),
        (replace(OPEN, by="dens"), {}, "of scorer 'dens'.*are: bm25"),
    ]:
        with pytest.raises((dp.SamplerError, dp.StateMismatchError), match=why):
            opened(mined, recipe, **how)
    opened(mined, replace(OPEN, by=dp.Negatives(by="bm25", range_max=9)))
    how = {"columns": ["anchor_meta", "negative_meta"], "negatives": dp.Negatives(allow_stale=True)}
    for row in rows_of(opened(mined, topic, **how), 5):
        assert dict(row["anchor_meta"]) == dict(row["negative_meta"])


def test_stale_ones_are_refused_with_three_ways_out(corpus):
    mine(corpus, 1)
    corpus.add_recipe(OPEN)
    corpus.ingest(MORE, name="s0")
    with pytest.raises(dp.StateMismatchError, match="stale") as caught:
        opened(corpus)
    for way in ("duckplets mine", "by='random'", "allow_stale=True"):
        assert way in str(caught.value)
    assert opened(corpus, negatives=dp.Negatives(by="random")).settings.candidates.by_source == {}
    assert opened(corpus, negatives=dp.Negatives(allow_stale=True)).settings.candidates
    assert opened(corpus, mixture={"s1": 1}).settings.candidates.by_source == {}, (
        "it is not drawn from"
    )
    corpus.close()
    sample = ("sample", corpus.path, "--mixture", "s0=1,s1=0")
    assert "by='random'" in (shown := error(*sample))
    assert "allow_stale=True" in shown
    for way in (["--set", "allow_stale=true"], ["--by", "random"]):
        assert lines(ok(*sample, *way))


# ---- saved runs


def test_later_minings_are_for_new_runs(corpus):
    sampler = opened(corpus)
    expected = rows_of(sampler, 5)
    sampler.save()
    mine(corpus, 1)
    resumed = corpus.resume()
    assert rows_of(resumed, 5) == expected
    (note,) = resumed.notes
    assert "were mined after this run was opened; a new run uses them" in note
    new = opened(corpus, run="new")
    assert rows_of(new, 5) != expected
    with pytest.raises(dp.StateMismatchError, match="candidates"):
        new.load_state_dict(sampler.state_dict())


def test_another_policy_is_an_edit_of_the_future(mined, tmp_path):
    state = tmp_path / "s.duckdb"
    run = opened(mined, MINED, options=dp.Options(state=state))
    before = tables(run, 4)
    run.save()
    straight = tables(run, 9)
    policy = dp.Negatives(by="bm25", range_max=1, when_short="drop")
    edited = mined.resume(state=state, negatives=policy)
    assert "from step 4 on" in edited.notes[0]
    after = tables(edited, 30)
    edited.save()
    found = [row for table in after for row in table.to_pylist()]
    assert {(row["negative_by"], row["negative_rank"]) for row in found} == {("bm25", 1)}
    again = mined.resume(state=state, negatives=policy)
    assert again.step == 34
    again.move(0)
    assert tables(again, 34) == before + after, "what was served stays"
    back = mined.resume(state=state, negatives=dp.Negatives(by="bm25"))
    assert {row["negative_rank"] for table in tables(back, 9) for row in table.to_pylist()} > {1, 2}
    assert after[:9] != straight
    # Shares of kinds as well.
    run = opened(
        mined,
        OPEN,
        OTHER,
        run="half",
        negatives=dp.Negatives(by=HALF),
        options=dp.Options(state=state),
    )
    expected = rows_of(run, 9)
    run.move(3 * 8)
    run.save()
    for more in (
        {"negatives": dp.Negatives(by=HALF)},
        {"negatives": 1},
        {"recipes": [OPEN, OTHER]},
    ):
        assert rows_of(mined.resume("half", state=state, **more), 9) == expected
    edited = mined.resume(
        "half", state=state, negatives=dp.Negatives(by={"bm25": 0.4, "random": 0.6})
    )
    assert rows_of(edited, 3) == expected[:24], "what was drawn stays"
    assert rows_of(edited, 9)[24:] != expected[24:]
    with pytest.raises(dp.StateMismatchError, match="by"):
        opened(mined, OPEN, OTHER, negatives=dp.Negatives(by="random")).load_state_dict(
            run.state_dict()
        )


def test_fallbacks_are_counted_over_saves(mined, tmp_path):
    state, columns = tmp_path / "s.duckdb", ["negative_1_by", "negative_2_by"]
    sampler = opened(mined, MINED, columns=columns, negatives=2, options=dp.Options(state=state))
    expected = 0
    for step in range(12):
        batch = next(sampler)
        expected += sum(by == "bm25_fallback" for row in batch for by in row.values())
        if step in (3, 9):
            assert sampler.metrics()["data/s0/fallbacks"] == expected
            sampler.save()
            assert sampler.state_dict()["counts"]["sources"]["s0"][1] == expected
            sampler = mined.resume(state=state)
    assert 0 < sampler.metrics()["data/s0/fallbacks"] == expected < 12 * 16
    assert "data/s0/fallbacks" not in mined.sampler(negatives=dp.Negatives(by="random")).metrics()


@thorough
def test_later_records_join_with_negatives_that_are_mined_for_them(corpus):
    mine(corpus, 1)
    run = opened(corpus, MINED)
    before = tables(run, 4)
    run.save()
    pinned = run.served(0, 400)
    corpus.ingest(MORE, name="s0")
    corpus.split(0.6, 0.2, 0.2, seed=1)
    with pytest.raises(dp.StateMismatchError, match=r"source 's0'.*stale.*duckplets mine"):
        corpus.resume(version="newest")
    mine(corpus, 2)
    joined = corpus.resume(version="newest")
    served = joined.served(0, 400)
    changed = joined.changed_from
    assert changed is not None
    assert served.drop_columns(["version"]).slice(0, changed).equals(pinned.slice(0, changed))
    after = tables(joined, 40)
    joined.save()
    mine(corpus, 3)  # comes too late
    again = corpus.resume()
    again.move(0)
    assert tables(again, 44) == before + after
    new = [r for t in after for r in t.to_pylist() if r["anchor"].startswith("new ")]
    assert {row["negative_by"] for row in new} <= {"bm25", "bm25_fallback"}
    assert "bm25" in {row["negative_by"] for row in new}


def test_negatives_that_are_gone_or_others_are_refused(corpus):
    mine(corpus, 1)
    opened(corpus, MINED).save()
    folder = corpus.path.with_name("c.candidates")
    aside = folder.rename(corpus.path.with_name("aside"))
    with pytest.raises(dp.StateMismatchError, match=r"mining 1.* are not in .*c.candidates"):
        corpus.resume()
    mine(corpus, 2)  # of the same number
    with pytest.raises(dp.StateMismatchError, match=r"mining 1.*digest then: .* now: "):
        corpus.resume()
    shutil.rmtree(folder)
    aside.rename(folder)
    corpus.resume().close()
    (part,) = folder.glob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(DamagedFileError, match=f"{part.name}: it has .* bytes instead of"):
        corpus.resume(negatives=dp.Negatives(by="bm25", range_max=3))
    (told,) = folder.glob("mining-*.json")
    whole = told.read_bytes()
    told.write_bytes(whole[:-9])
    with pytest.raises(DamagedFileError, match=f"{told.name}: it is not as it was written"):
        corpus.resume(negatives=dp.Negatives(by="bm25", range_max=3))
    with pytest.raises(DamagedFileError, match="Delete the folder"):
        corpus.sampler(mixture={"s0": 1})
    told.write_bytes(whole)
    corpus.close()
    problems = [found.what for found in doctor.corpus(corpus.path) if not found.ok]
    assert any(f"{part.name} is not as it was written; put a copy" in what for what in problems)
