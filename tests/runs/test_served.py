"""What a run serves: ids of any stretch of it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpora import counts_of
from effort import often, some
from prebuilt import toy_corpus

import duckplets as dp

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with toy_corpus(tmp_path / "c.duckdb", 120, sources=("a", "b")) as corpus:
        yield corpus


CONFIGURATIONS: list[dict[str, Any]] = [
    {"batch_size": 16},
    {"batch_size": 9, "kind": "pairs", "negatives": 2},
    {"batch_size": 16, "kind": "texts", "epochs": 1},
    {"batch_size": 13, "no_duplicates": True},
    {
        "batch_size": 8,
        "negatives": 3,
        "mixture": dp.Mixture({}, omitted=1, phases=[dp.Phase(5, {"a": 0.1})]),
    },
]


def ids(batch: dp.Batch) -> list[dict[str, Any]]:
    rows = batch.to_pylist()
    return [{"step": batch.step, **row} for row in rows]


@pytest.mark.parametrize("configuration", some(CONFIGURATIONS, less=2), ids=str)
def test_served_and_plan_are_what_was_yielded(
    corpus: dp.Corpus, configuration: dict[str, Any]
) -> None:
    slots = corpus.sampler(**configuration).text_columns
    columns = ["position", "source", "recipe", *(["label"] if "other" in slots else [])]
    columns += [f"{slot}_{d}" for slot in slots for d in ("record_id", "section", "window")]
    if configuration.get("kind") != "texts":
        columns.append("swapped")
    sampler = corpus.sampler(**configuration, columns=columns)
    planned = sampler.plan(12)
    batches = list(itertools.islice(sampler, 12))
    rows = [row for batch in batches for row in ids(batch)]
    assert planned.select(list(rows[0])).to_pylist() == rows
    served = sampler.served(0, sampler.position)
    assert served.equals(planned)
    draw = random.Random(1)
    for _ in range(often(20, less=6)):
        low, high = sorted(draw.choices(range(sampler.position + 1), k=2))
        assert sampler.served(low, high).equals(served.slice(low, high - low))
    for batch in batches:
        assert sampler.batch_at(batch.step).table.equals(batch.table)
    assert sampler.served(5, 5).num_rows == 0


def test_served_does_not_move_the_run(corpus: dp.Corpus) -> None:
    sampler, other = corpus.sampler(batch_size=8), corpus.sampler(batch_size=8)
    for _ in range(5):
        assert next(sampler).table.equals(next(other).table)
        sampler.served(3, 1000)
        sampler.plan(20)
    assert counts_of(sampler) == counts_of(other)


def test_positions_that_are_none_are_refused(corpus: dp.Corpus) -> None:
    sampler = corpus.sampler(epochs=1, batch_size=7)
    end = sampler.epoch_length
    assert sampler.plan(10**6).num_rows == end
    for start, stop in [(-1, 5), (5, 4), (0, end + 1)]:
        with pytest.raises(dp.SamplerError, match="from 0 to"):
            sampler.served(start, stop)
    for steps in (-1, 1.5, True):
        with pytest.raises(dp.SamplerError, match="steps="):
            sampler.plan(steps)  # type: ignore[arg-type]
