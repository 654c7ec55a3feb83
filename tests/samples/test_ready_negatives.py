"""Negatives that records bring, filled up from others; and those that other sources lend."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from effort import often, some
from frozen_runs import titled
from test_preference_pairs import Pairs, some_records

import duckplets as dp
from duckplets.recipes.recipes import default_recipes

READY, _ = default_recipes("ready")
ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
WIDE = dp.TripletRecipe("wide", ANCHOR, CONTEXT, CONTEXT, negatives_from="split")


def ready(path: Path, records: Any, defaults: str = "ready") -> dp.Corpus:
    corpus = dp.Corpus(path)
    corpus.ingest(Pairs(records, defaults), name="ready", progress=False)
    corpus.split(1, 0, 0)
    return corpus


def served(sampler: dp.Sampler, steps: int) -> list[dict[str, Any]]:
    return [row for step in range(steps) for row in sampler.batch_at(step).to_pylist()]


def columns_of(negatives: int) -> list[str]:
    slots = ["negative"] if negatives == 1 else [f"negative_{i + 1}" for i in range(negatives)]
    columns = ["anchor", "positive", "recipe", "negative_by", "anchor_record_id", "source"]
    columns += [f"{slot}_{what}" for slot in slots for what in ("by", "record_id")]
    return list(dict.fromkeys([*columns, *slots]))


@pytest.mark.parametrize("negatives", some([1, 2, 3], less=2))
@pytest.mark.parametrize("seed", range(often(9, less=1)))
def test_every_negative_is_given_or_marked(tmp_path: Path, negatives: int, seed: int) -> None:
    records = some_records(40, seed)
    own = {f"ready/r{i}": texts for i, texts in enumerate(records)}
    every = {text for _, _, rejected in records for text in rejected}
    slots = ["negative"] if negatives == 1 else [f"negative_{i + 1}" for i in range(negatives)]
    with ready(tmp_path / "c.duckdb", records) as corpus:
        sampler = corpus.sampler(
            batch_size=40, negatives=negatives, swap=False, columns=columns_of(negatives), seed=seed
        )
        rows = served(sampler, 10)
        shares = Counter(row["recipe"] for row in rows)
        assert shares == {"ready_negative": 300, "anchor_context": 100}
        short, lacking = set(), 0
        for row in rows:
            asks, good, bad = own[row["anchor_record_id"]]
            assert row["anchor"] in asks
            assert row["positive"] in good
            if row["recipe"] != "ready_negative":
                continue
            usable = set(bad) - set(asks) - set(good)
            ways = [row[f"{slot}_by"] for slot in slots]
            given = min(negatives, len(usable))
            assert ways == ["given"] * given + ["random"] * (negatives - given)
            assert row["negative_by"] == ways[-1]
            texts = [row[slot] for slot in slots]
            assert len(set(texts)) == negatives
            assert set(texts[:given]) <= usable
            assert set(texts[given:]) <= every - set(asks) - set(good)
            others = {row[f"{slot}_record_id"] for slot in slots[given:]}
            assert row["anchor_record_id"] not in others
            lacking += negatives - given
            short |= {row["anchor_record_id"]} if given < negatives else set()
        assert lacking > 0
        table = sampler.forecast().table.to_pylist()
        [told] = [found for found in table if found["recipe"] == "ready_negative"]
        assert (told["negatives"], told["fallback_anchors"]) == ("given", len(short))
        sampler.move(10 * 40)
        assert sampler.metrics()["data/ready/fallbacks"] == lacking


def test_dropping_leaves_them_out_and_counts_them(tmp_path: Path) -> None:
    records = [
        ([f"ask {i}"], [f"good {i}"], [f"bad {i} {n}" for n in range(i % 3)]) for i in range(12)
    ]
    with ready(tmp_path / "c.duckdb", records) as corpus:
        dropping = replace(READY, name="dropping", when_short="drop")
        how: dict[str, Any] = {"negatives": 2, "batch_size": 8, "columns": columns_of(2)}
        rows = served(corpus.sampler(recipes=[dropping], **how), 2)
        assert {row["anchor_record_id"] for row in rows} == {f"ready/r{i}" for i in (2, 5, 8, 11)}
        assert {row["negative_by"] for row in rows} == {"same_record"}
        corpus.add_recipe(dropping)
        corpus.add_recipe(READY)
        pools = {row["recipe"]: row for row in corpus.status()["pools"] if row["split"] == "train"}
        for name, anchors, left_out in (
            ("dropping", 8, {"no negative": 4}),
            ("ready_negative", 12, {}),
        ):
            assert (pools[name]["anchors"], pools[name]["left_out"]) == (anchors, left_out)


@pytest.mark.parametrize("negatives", [1, 3])
def test_a_source_too_small_for_its_own_negatives_draws_from_the_split(
    tmp_path: Path, negatives: int
) -> None:
    sizes = {"one": 1, "three": 3, "many": 30}
    with titled(tmp_path / "c.duckdb", sizes) as corpus:
        plain = replace(WIDE, negatives_from="source")
        with pytest.raises(dp.EmptyPoolError, match="no negative"):
            corpus.sampler(recipes=[plain], negatives=negatives, empty="error")
        sampler = corpus.sampler(
            recipes=[WIDE], negatives=negatives, batch_size=30, columns=columns_of(negatives)
        )
        wide = {"one", "three"} if negatives == 3 else {"one"}
        forecast = sampler.forecast()
        found = {row["source"]: row["fallback_anchors"] for row in forecast.table.to_pylist()}
        assert found == {name: size * (name in wide) for name, size in sizes.items()}
        assert sum("draw from all sources" in w for w in forecast.warnings) == len(wide)
        lenders: dict[str, set[str]] = {name: set() for name in sizes}
        rows = served(sampler, 20)
        for row in rows:
            expected = "random_split" if row["source"] in wide else "random"
            assert row["negative_by"] == expected
            slots = [n for n in row if n.startswith("negative") and n.endswith("record_id")]
            assert row["anchor_record_id"] not in {row[slot] for slot in slots}
            lenders[row["source"]] |= {row[slot].split("/")[0] for slot in slots}
        every = {*sizes}
        assert lenders["one"] == every - {"one"}
        assert lenders["three"] == (every if negatives == 3 else {"three"})
        assert lenders["many"] == {"many"}
        sampler.move(20 * 30)
        lent = sum(row["negative_by"] == "random_split" for row in rows)
        metrics = sampler.metrics()
        counted = sum(metrics.get(f"data/{name}/fallbacks", 0) for name in sizes)
        assert counted == negatives * lent > 0
