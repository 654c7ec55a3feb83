"""Where negatives come from in recipes that leave it open, and what a run says of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from effort import often, some
from mined_corpora import CASES, guarded_corpus, rules_of, some_candidates, write_mining

import duckplets as dp
from duckplets.recipes.files import from_dict

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


def test_the_sampler_takes_what_was_mined_where_a_recipe_leaves_it_open(corpus: dp.Corpus) -> None:
    taken = rows_of(opened(corpus, by="bm25"), 9)
    assert taken == rows_of(opened(corpus, MINED), 9)
    assert "bm25" in {row["negative_by"] for row in taken}
    both = rows_of(opened(corpus, RANDOM, MINED_TOO, by="bm25"), 9)
    assert {row["negative_by"] for row in both if row["recipe"] == "open"} == {"random"}
    assert "bm25" in {row["negative_by"] for row in both if row["recipe"] == "mined too"}


def test_none_draws_as_random_and_says_that_mined_negatives_lie_unused(corpus: dp.Corpus) -> None:
    left_open, chosen = opened(corpus), opened(corpus, RANDOM)
    assert rows_of(left_open, 5) == rows_of(chosen, 5) == rows_of(opened(corpus, by="random"), 5)
    (note,) = left_open.notes
    assert "source 's0', recipe 'open' draws at random" in note
    assert "are not used" in note
    assert "by='bm25'" in note
    for silent in (
        chosen,
        opened(corpus, by="random"),
        opened(corpus, MINED),
        opened(corpus, OTHER),
    ):
        assert silent.notes == []


def test_a_recipe_without_mined_negatives_is_named(corpus: dp.Corpus) -> None:
    sampler = opened(corpus, OPEN, OTHER, WIDE, by="bm25", mixture=dp.Mixture({}, omitted=1))
    notes = {note.split("'")[1]: note for note in sampler.notes}
    assert "no mined negatives in source s1, split 'train', so it draws at random" in notes["open"]
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


def test_a_share_of_one_kind_is_that_kind(corpus: dp.Corpus) -> None:
    assert opened(corpus, by={"bm25": 2, "random": 0}).settings.by == "bm25"
    assert opened(corpus, by={"random": 2}).settings.by == "random"


@pytest.mark.parametrize(
    ("by", "why"),
    [
        ("bm52", "did you mean 'bm25'"),
        (3, "by=3: give 'bm25', 'random', or shares"),
        ({}, "at least one of bm25, random more than 0"),
        ({"bm25": 0}, "more than 0"),
        ({"bm52": 1}, "no kind of negatives 'bm52'.*'bm25'"),
        ({"bm25": -1}, "share of bm25 must be a finite number"),
        ({"bm25": True}, "share of bm25"),
        ({"bm25": float("nan")}, "share of bm25"),
    ],
)
def test_what_is_wrong_is_named(corpus: dp.Corpus, by: Any, why: str) -> None:
    with pytest.raises(dp.SamplerError, match=why):
        opened(corpus, by=by)


def test_texts_have_no_negatives(corpus: dp.Corpus) -> None:
    with pytest.raises(dp.SamplerError, match="by='bm25': texts have no negatives"):
        corpus.sampler("texts", by="bm25")


@pytest.mark.parametrize("by", ["bm25", HALF])
def test_a_saved_run_keeps_it(corpus: dp.Corpus, by: Any, tmp_path: Path) -> None:
    state = tmp_path / "s.duckdb"
    sampler = opened(corpus, OPEN, OTHER, by=by, state=state)
    expected = rows_of(sampler, 9)
    sampler.move(3 * 8)
    sampler.save()
    for more in ({}, {"by": by}, {"recipes": [OPEN, OTHER]}):
        resumed = corpus.resume(state=state, **more)
        assert rows_of(resumed, 9) == expected
        assert next(resumed).to_pylist() == expected[24:32]
    for other in ("random", None, {"bm25": 0.4, "random": 0.6}):
        with pytest.raises(dp.SamplerError, match="keeps it; leave it out, or open another run"):
            corpus.resume(state=state, by=other)
    with pytest.raises(dp.StateMismatchError, match="by"):
        opened(corpus, OPEN, OTHER, state=state).load_state_dict(sampler.state_dict())


def test_a_run_of_an_earlier_version_goes_on(corpus: dp.Corpus, tmp_path: Path) -> None:
    """Its settings have no by, its recipes the random of those days, whoever wrote it."""
    state = tmp_path / "s.duckdb"
    sampler = opened(corpus, OPEN, state=state)
    expected = rows_of(sampler, 5)
    stored = sampler.settings.recipes["s0"][0]
    assert stored["by"] == "random"
    assert {"negatives_from", "when_short"}.isdisjoint(stored)
    assert from_dict(json.loads(json.dumps(stored))) == OPEN
    assert "by" not in sampler.settings.fingerprint()
    sampler.save()
    for recipe in (OPEN, RANDOM):
        assert rows_of(corpus.resume(state=state, recipes=[recipe]), 5) == expected
