"""Where negatives come from in recipes that leave it open, and what a run says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import error, lines, ok
from effort import often, some, thorough
from mined_corpora import CASES, guarded_corpus, rules_of, some_candidates, write_mining

import duckplets as dp

pytestmark = pytest.mark.usefixtures("pools_once")

OPEN = dp.TripletRecipe("open", **CASES["plain"]["recipe"])
OTHER = dp.TripletRecipe("other", **CASES["any"]["recipe"])
RANDOM = replace(OPEN, by="random")
MINED = replace(OPEN, by="bm25")
MINED_TOO = replace(MINED, name="mined too")
WIDE = replace(OPEN, name="wide", negatives_from="split")  # it cannot be mined
ONE = {"s0": 1, "s1": 0}
COLUMNS = ["anchor", "positive", "negative", "recipe", "negative_by", "negative_rank", "position"]
HALF = {"bm25": 0.5, "random": 0.5}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Corpus]:
    with guarded_corpus(tmp_path_factory.mktemp("by") / "c.duckdb", 40, 1) as made:
        rules = rules_of(made, CASES["plain"], "s0", "train")
        for recipe in (MINED, MINED_TOO):
            write_mining(made, recipe, some_candidates(rules, 1))
        yield made


def opened(corpus: dp.Corpus, *recipes: dp.TripletRecipe, **more: Any) -> dp.Sampler:
    given: dict[str, Any] = {"recipes": recipes or (OPEN,), "batch_size": 8, "mixture": ONE}
    return corpus.sampler(**given | {"columns": COLUMNS} | more)


def rows_of(sampler: dp.Sampler, steps: int) -> list[dict[str, Any]]:
    return [row for step in range(steps) for row in sampler.batch_at(step).to_pylist()]


@thorough
def test_the_sampler_takes_what_was_mined_where_a_recipe_leaves_it_open(corpus: dp.Corpus) -> None:
    taken = rows_of(opened(corpus, by="bm25"), 9)
    assert taken == rows_of(opened(corpus, MINED), 9)
    assert "bm25" in {row["negative_by"] for row in taken}
    both = rows_of(opened(corpus, RANDOM, MINED_TOO, by="bm25"), 9)
    assert {row["negative_by"] for row in both if row["recipe"] == "open"} == {"random"}
    assert "bm25" in {row["negative_by"] for row in both if row["recipe"] == "mined too"}


def test_none_takes_what_was_mined_where_something_was(corpus: dp.Corpus) -> None:
    left_open, asked = opened(corpus), opened(corpus, by="bm25")
    assert rows_of(left_open, 9) == rows_of(asked, 9)
    assert left_open.settings.candidates == asked.settings.candidates
    assert left_open.notes == []
    assert "negatives mined" in left_open.describe()
    both = opened(corpus, OPEN, OTHER, WIDE, mixture=dp.Mixture({}, omitted=1))
    assert both.notes == []
    told = {tuple(line.split()[:2]): line for line in both.describe().splitlines()}
    assert "negatives mined" in told["s0", "open"]
    assert all("negatives random" in told[key] for key in [("s1", "open"), ("s0", "other")])


def test_random_leaves_what_was_mined_alone(corpus: dp.Corpus) -> None:
    asked, chosen = opened(corpus, by="random"), opened(corpus, RANDOM)
    assert rows_of(asked, 5) == rows_of(chosen, 5) != rows_of(opened(corpus), 5)
    for sampler in (asked, chosen):
        assert sampler.settings.candidates == {}
        assert sampler.notes == []
        assert "negatives random" in sampler.describe()


def test_stale_ones_are_refused_with_three_ways_out(tmp_path: Path) -> None:
    path = tmp_path / "c.duckdb"
    with guarded_corpus(path, 40, 1) as corpus:
        rules = rules_of(corpus, CASES["plain"], "s0", "train")
        write_mining(corpus, OPEN, some_candidates(rules, 1))
        corpus.add_recipe(OPEN)
        row = {
            "id": "new",
            "title": "new title",
            "body": "a new body",
            "notes": "x",
            "topic": "law",
        }
        source = dp.MemorySource(
            [row | {"g": "new"}], id="id", anchor="title", positive="body", context="notes",
            group="g", meta=["topic"],
        )  # fmt: skip
        corpus.ingest(source, name="s0", progress=False)
        with pytest.raises(dp.StateMismatchError, match="stale") as caught:
            opened(corpus)
        told = str(caught.value)
        for way in ("duckplets mine", "by='random'", "allow_stale=True"):
            assert way in told
        assert opened(corpus, by="random").settings.candidates == {}
        assert opened(corpus, allow_stale=True).settings.candidates
        assert opened(corpus, mixture={"s1": 1}).settings.candidates == {}, "it is not drawn from"
    shown = error("sample", path, "--mixture", "s0=1,s1=0")
    assert "by='random'" in shown
    assert "allow_stale=True" in shown
    assert lines(ok("sample", path, "--mixture", "s0=1,s1=0", "--allow-stale"))
    assert lines(ok("sample", path, "--mixture", "s0=1,s1=0", "--by", "random"))


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


@pytest.mark.parametrize(
    "shares", some([HALF, {"random": 1, "bm25": 3}, {"bm25": 0.1, "random": 1.009}], less=2)
)
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
        counted = sum(row["negative_by"] == "bm25_fallback" for row in rows)
        for _ in range(24):
            next(sampler)
        assert sampler.metrics().get("data/s0/fallbacks", 0) == counted


@pytest.mark.parametrize(
    ("by", "why"),
    [
        ("bm52", "did you mean 'bm25'"),
        (3, "by=3: give 'random', the name of a scorer such as 'bm25'"),
        ({}, "at least one of them more than 0"),
        ({"bm25": 0}, "more than 0"),
        ({"bm52": 1, "random": 1}, "scorer 'bm52' .did you mean 'bm25'"),
        ({"bm25": -1}, r"by\['bm25'\]=-1: give a finite number from 0"),
        ({"bm25": True}, r"by\['bm25'\]=True"),
        ({"bm25": float("nan")}, r"by\['bm25'\]=nan"),
    ],
)
def test_what_is_wrong_is_named(corpus: dp.Corpus, by: Any, why: str) -> None:
    with pytest.raises((dp.SamplerError, dp.StateMismatchError), match=why):
        opened(corpus, by=by)


@pytest.mark.parametrize("by", some([HALF, "bm25"], less=1))
def test_a_saved_run_keeps_it(corpus: dp.Corpus, by: Any, tmp_path: Path) -> None:
    state = tmp_path / "s.duckdb"
    sampler = opened(corpus, OPEN, OTHER, by=by, state=state)
    expected = rows_of(sampler, 9)
    sampler.move(3 * 8)
    sampler.save()
    for more in ({}, {"by": by}, {"by": None}, {"recipes": [OPEN, OTHER]}):
        resumed = corpus.resume(state=state, **more)
        assert rows_of(resumed, 9) == expected
        assert next(resumed).to_pylist() == expected[24:32]
    for other in ("random", {"bm25": 0.4, "random": 0.6}):
        edited = corpus.resume(state=state, by=other)
        assert rows_of(edited, 3) == expected[:24], "what was drawn stays"
        assert rows_of(edited, 9)[24:] != expected[24:]
    with pytest.raises(dp.StateMismatchError, match="by"):
        opened(corpus, OPEN, OTHER, state=state, by="random").load_state_dict(sampler.state_dict())
