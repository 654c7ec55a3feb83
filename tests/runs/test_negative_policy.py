"""Where negatives come from in recipes that leave it open, and what a run says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import error, lines, ok
from effort import often, some
from mined_corpora import CASES, guarded_corpus, rules_of, some_candidates, write_mining

import duckplets as dp

pytestmark = pytest.mark.usefixtures("pools_once")

OPEN = dp.TripletRecipe("open", **CASES["plain"]["recipe"])
OTHER = dp.TripletRecipe("other", **CASES["any"]["recipe"])
RANDOM = replace(OPEN, by="random")
MINED = replace(OPEN, by="bm25")
WIDE = replace(OPEN, name="wide", negatives_from="split")  # it cannot be mined
ONE = {"s0": 1, "s1": 0}
COLUMNS = ["anchor", "positive", "negative", "recipe", "negative_by", "negative_rank", "position"]
HALF = {"bm25": 0.5, "random": 0.5}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Corpus]:
    with guarded_corpus(tmp_path_factory.mktemp("by") / "c.duckdb", 40, 1) as made:
        rules = rules_of(made, CASES["plain"], "s0", "train")
        write_mining(made, MINED, some_candidates(rules, 1))
        yield made


def opened(corpus: dp.Corpus, *recipes: dp.TripletRecipe, **more: Any) -> dp.Sampler:
    given: dict[str, Any] = {"recipes": recipes or (OPEN,), "batch_size": 8, "mixture": ONE}
    return corpus.sampler(**given | {"columns": COLUMNS} | more)


def rows_of(sampler: dp.Sampler, steps: int) -> list[dict[str, Any]]:
    return [row for step in range(steps) for row in sampler.batch_at(step).to_pylist()]


def test_none_takes_what_was_mined_where_something_was(corpus: dp.Corpus) -> None:
    left_open, asked, mined = opened(corpus), opened(corpus, by="bm25"), opened(corpus, MINED)
    expected = rows_of(mined, 9)
    assert "bm25" in {row["negative_by"] for row in expected}
    assert rows_of(left_open, 9) == rows_of(asked, 9) == expected
    assert left_open.settings.candidates == asked.settings.candidates
    assert left_open.notes == []
    assert "negatives mined" in left_open.describe()
    both = opened(corpus, OPEN, OTHER, WIDE, mixture=dp.Mixture({}, omitted=1))
    assert both.notes == []
    told = {tuple(line.split()[:2]): line for line in both.describe().splitlines()}
    assert "negatives mined" in told["s0", "open"]
    assert all("negatives random" in told[key] for key in [("s1", "open"), ("s0", "other")])
    for sampler in (opened(corpus, by="random"), opened(corpus, RANDOM)):
        assert sampler.settings.candidates == {}
        assert sampler.notes == []
        assert {row["negative_by"] for row in rows_of(sampler, 3)} == {"random"}


def test_stale_ones_are_refused_with_three_ways_out(tmp_path: Path) -> None:
    path = tmp_path / "c.duckdb"
    with guarded_corpus(path, 40, 1) as corpus:
        rules = rules_of(corpus, CASES["plain"], "s0", "train")
        write_mining(corpus, OPEN, some_candidates(rules, 1))
        corpus.add_recipe(OPEN)
        names = {"id": "id", "anchor": "title", "positive": "body", "context": "notes"}
        row = {"id": "new", "title": "new title", "body": "a new body", "notes": "x"}
        source = dp.MemorySource(
            [row | {"g": "new", "topic": "law"}], **names, group="g", meta="topic"
        )
        corpus.ingest(source, name="s0", progress=False)
        with pytest.raises(dp.StateMismatchError, match="stale") as caught:
            opened(corpus)
        for way in ("duckplets mine", "by='random'", "allow_stale=True"):
            assert way in str(caught.value)
        assert opened(corpus, by="random").settings.candidates == {}
        assert opened(corpus, allow_stale=True).settings.candidates
        assert opened(corpus, mixture={"s1": 1}).settings.candidates == {}, "it is not drawn from"
    shown = error("sample", path, "--mixture", "s0=1,s1=0")
    assert "by='random'" in shown
    assert "allow_stale=True" in shown
    for way in (["--allow-stale"], ["--by", "random"]):
        assert lines(ok("sample", path, "--mixture", "s0=1,s1=0", *way))


def test_what_is_mined_later_is_for_new_runs(tmp_path: Path) -> None:
    with guarded_corpus(tmp_path / "c.duckdb", 40, 1) as corpus:
        sampler = opened(corpus)
        expected = rows_of(sampler, 5)
        sampler.save()
        rules = rules_of(corpus, CASES["plain"], "s0", "train")
        write_mining(corpus, OPEN, some_candidates(rules, 1))
        resumed = corpus.resume()
        assert rows_of(resumed, 5) == expected
        (note,) = resumed.notes
        assert "came after this run was opened; a new run takes them" in note
        new = opened(corpus, run="new")
        assert rows_of(new, 5) != expected
        with pytest.raises(dp.StateMismatchError, match="candidates"):
            new.load_state_dict(sampler.state_dict())


def test_a_recipe_without_mined_negatives_is_named(corpus: dp.Corpus) -> None:
    sampler = opened(corpus, OPEN, OTHER, WIDE, by="bm25", mixture=dp.Mixture({}, omitted=1))
    notes = {note.split("'")[1]: note for note in sampler.notes}
    lacks = "no mined negatives of bm25 in source s1, split 'train', so it draws at random"
    assert lacks in notes["open"]
    assert "in source s0, s1" in notes["other"]
    assert f"duckplets mine {corpus.path} other" in notes["other"]
    assert "at random" in notes["wide"]
    ways = Counter((row["recipe"], row["negative_by"]) for row in rows_of(sampler, 12))
    assert ways["open", "bm25"]
    assert ways["open", "random"]
    assert {how for name, how in ways if name != "open"} == {"random"}


def test_if_no_recipe_has_any_the_command_is_given(corpus: dp.Corpus) -> None:
    for by in ("bm25", HALF):
        with pytest.raises(
            dp.StateMismatchError, match=r"corpus.mine\('other'\), or run: duckplets mine .* other"
        ):
            opened(corpus, OTHER, by=by)
    with pytest.raises(dp.StateMismatchError, match="none leaves open how they are chosen"):
        opened(corpus, replace(RANDOM, name="r"), by="bm25")


@pytest.mark.parametrize("shares", some([HALF, {"bm25": 0.1, "random": 1.009}], less=1))
def test_kinds_are_mixed_by_exact_share(corpus: dp.Corpus, shares: dict[str, float]) -> None:
    exact = shares["bm25"] / sum(shares.values())
    for seed in range(often(9, less=1)):
        sampler = opened(corpus, by=shares, seed=seed, swap=False)
        rows = rows_of(sampler, 24)
        mined = [row["negative_by"] != "random" for row in rows]
        assert all(abs(sum(mined[:n]) - n * exact) < 1 for n in range(1, len(rows) + 1))
        every = rows_of(opened(corpus, by="bm25", seed=seed, swap=False), 24)
        for row, other in zip(rows, every, strict=True):
            if row["negative_by"] == "random":
                assert row["negative_rank"] is None
            else:
                assert row == other
        sampler.move(24 * 8)
        counted = sum(row["negative_by"] == "bm25_fallback" for row in rows)
        assert sampler.metrics().get("data/s0/fallbacks", 0) == counted


def test_what_is_wrong_is_named(corpus: dp.Corpus) -> None:
    for by, why in [
        ("bm52", "did you mean 'bm25'"),
        (3, "by=3: give 'random', the name of a scorer such as 'bm25'"),
        ({}, "at least one of them more than 0"),
        ({"bm25": 0}, "more than 0"),
        ({"bm52": 1, "random": 1}, "scorer 'bm52' .did you mean 'bm25'"),
        ({"bm25": -1}, r"by\['bm25'\]=-1: give a finite number from 0"),
        ({"bm25": True}, r"by\['bm25'\]=True"),
    ]:
        with pytest.raises((dp.SamplerError, dp.StateMismatchError), match=why):
            opened(corpus, by=by)


def test_a_saved_run_keeps_it(corpus: dp.Corpus, tmp_path: Path) -> None:
    state = tmp_path / "s.duckdb"
    sampler = opened(corpus, OPEN, OTHER, by=HALF, state=state)
    expected = rows_of(sampler, 9)
    sampler.move(3 * 8)
    sampler.save()
    for more in ({"by": HALF}, {"by": None}, {"recipes": [OPEN, OTHER]}):
        assert rows_of(corpus.resume(state=state, **more), 9) == expected
    edited = corpus.resume(state=state, by={"bm25": 0.4, "random": 0.6})
    assert rows_of(edited, 3) == expected[:24], "what was drawn stays"
    assert rows_of(edited, 9)[24:] != expected[24:]
    with pytest.raises(dp.StateMismatchError, match="by"):
        opened(corpus, OPEN, OTHER, by="random").load_state_dict(sampler.state_dict())
