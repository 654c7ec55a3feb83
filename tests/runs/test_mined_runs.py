"""Runs over mined negatives: what they are pinned to, what is refused, what is counted."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from effort import thorough
from mined_corpora import CASES, guarded_corpus, rules_of, some_candidates, write_mining

import duckplets as dp
from duckplets.corpus import doctor
from duckplets.errors import DamagedFileError

pytestmark = pytest.mark.usefixtures("pools_once")

RECIPE = dp.TripletRecipe("hard", **CASES["plain"]["recipe"], by="bm25")
COLUMNS = ["anchor", "positive", "negative", "negative_by", "negative_score", "negative_rank"]
MORE = dp.MemorySource(
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


@pytest.fixture
def corpus(tmp_path: Path) -> Any:
    with guarded_corpus(tmp_path / "c.duckdb", 40, 3) as corpus:
        yield corpus


def mine(corpus: dp.Corpus, seed: int, source: str = "s0", **more: Any) -> int:
    rules = rules_of(corpus, CASES["plain"], source, "train")
    return write_mining(corpus, RECIPE, some_candidates(rules, seed), source=source, **more)


def sampler_of(corpus: dp.Corpus, **more: Any) -> dp.Sampler:
    arguments = {"mixture": {"s0": 1}, "batch_size": 8, "columns": COLUMNS} | more
    return corpus.sampler(recipes=[RECIPE], **arguments)


def tables(sampler: dp.Sampler, steps: int) -> list[pa.Table]:
    return [next(sampler).table for _ in range(steps)]


def test_a_run_without_mined_negatives_is_refused(corpus: dp.Corpus) -> None:
    with pytest.raises(dp.StateMismatchError, match=r"'hard', source 's0', split 'train'.*mine"):
        sampler_of(corpus)
    mine(corpus, 1)
    sampler_of(corpus)
    for more in ({"split": "test"}, {"mixture": {"s1": 1}}):
        with pytest.raises(dp.StateMismatchError, match="mine"):
            sampler_of(corpus, **more)


def test_a_changed_recipe_makes_negatives_stale(corpus: dp.Corpus) -> None:
    mine(corpus, 1)
    changed = dp.TripletRecipe("hard", **CASES["topic"]["recipe"], by="bm25")
    how: dict[str, Any] = {"recipes": [changed], "mixture": {"s0": 1}, "batch_size": 50}
    with pytest.raises(dp.StateMismatchError, match="recipe has changed: anchor"):
        corpus.sampler(**how)
    columns = ["anchor_meta", "negative_meta"]
    for row in next(corpus.sampler(**how, allow_stale=True, columns=columns)).to_pylist():
        assert dict(row["anchor_meta"]) == dict(row["negative_meta"])
    drawn = replace(RECIPE, by=dp.bm25(range_max=9))
    corpus.sampler(**how | {"recipes": [drawn]})
    for recipe, more in ((drawn, {"by": "dens"}), (replace(RECIPE, by="dens"), {})):
        with pytest.raises(dp.StateMismatchError, match=r"of scorer 'dens'.*are: bm25"):
            corpus.sampler(**how | {"recipes": [recipe]}, **more)


@thorough
def test_later_records_join_with_negatives_that_are_mined_for_them(corpus: dp.Corpus) -> None:
    mine(corpus, 1)
    run = sampler_of(corpus)
    before = tables(run, 4)
    run.save()
    pinned = run.served(0, 400)
    corpus.ingest(MORE, name="s0", progress=False)
    corpus.split(0.6, 0.2, 0.2, seed=3)
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


def test_negatives_that_are_gone_or_others_are_refused(corpus: dp.Corpus) -> None:
    mine(corpus, 1)
    sampler_of(corpus).save()
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
        corpus.resume(by=dp.bm25(range_max=3))
    (told,) = folder.glob("mining-*.json")
    whole = told.read_bytes()
    told.write_bytes(whole[:-9])
    with pytest.raises(DamagedFileError, match=f"{told.name}: it is not as it was written"):
        corpus.resume(by=dp.bm25(range_max=3))
    with pytest.raises(DamagedFileError, match="delete the folder"):
        corpus.sampler(mixture={"s0": 1})
    told.write_bytes(whole)
    corpus.close()
    problems = [found.what for found in doctor.corpus(corpus.path) if not found.ok]
    assert any(f"{part.name} is not as it was written; put a copy" in what for what in problems)


def test_another_policy_is_an_edit_of_the_future(corpus: dp.Corpus) -> None:
    mine(corpus, 1)
    run = sampler_of(corpus)
    before = tables(run, 4)
    run.save()
    straight = tables(run, 9)
    policy = dp.mined("bm25", range_max=1, when_short="drop")
    edited = corpus.resume(by=policy)
    assert "from step 4 on" in edited.notes[0]
    after = tables(edited, 30)
    edited.save()
    mined = [row for table in after for row in table.to_pylist()]
    assert {(row["negative_by"], row["negative_rank"]) for row in mined} == {("bm25", 1)}
    again = corpus.resume(by=policy)
    assert again.step == 34
    again.move(0)
    assert tables(again, 34) == before + after, "what was served stays"
    back = corpus.resume(by="bm25")
    assert {row["negative_rank"] for table in tables(back, 9) for row in table.to_pylist()} > {1, 2}
    assert after[:9] != straight


def test_fallbacks_are_counted_over_saves(corpus: dp.Corpus) -> None:
    mine(corpus, 1)
    columns = ["negative_1_by", "negative_2_by"]
    sampler = sampler_of(corpus, negatives=2, columns=columns)
    expected = 0
    for step in range(20):
        batch = next(sampler)
        expected += sum(by == "bm25_fallback" for row in batch for by in row.values())
        if step in (3, 17):
            assert sampler.metrics()["data/s0/fallbacks"] == expected
            sampler.save()
            assert sampler.state_dict()["counts"]["sources"]["s0"][1] == expected
            sampler = corpus.resume()
    assert 0 < sampler.metrics()["data/s0/fallbacks"] == expected < 20 * 16
    assert "data/s0/fallbacks" not in corpus.sampler().metrics()
