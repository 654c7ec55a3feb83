"""What a run serves: ids of any stretch of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpora import counts_of
from prebuilt import toy_corpus

import duckplets as dp

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with toy_corpus(tmp_path / "c.duckdb", 120, sources=("a", "b")) as corpus:
        yield corpus


def ids(batch: dp.Batch) -> list[dict[str, Any]]:
    rows = batch.to_pylist()
    return [{"step": batch.step, **row} for row in rows]


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
