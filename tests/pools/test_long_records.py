"""A record of very many windows: pairs of them are arithmetic, and cost what the windows cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import duckplets as dp
from duckplets.pools.arrays import Rows, anchors_of, positives_of


@pytest.mark.parametrize("seed", range(20))
def test_positives_that_are_left_are_those_of_another_text(seed: int) -> None:
    draw = np.random.default_rng(seed)
    windows, texts = 60, draw.integers(1, 8)

    def rows(records: int) -> Rows:
        owners = np.sort(draw.integers(0, records, windows))
        keys, hashes = np.arange(windows) + 100, draw.integers(0, texts, windows).astype(np.uint64)
        return {"record_key": owners, "chunk_key": keys, "text_hash": hashes}

    asking, listed = rows(draw.integers(1, 20)), rows(draw.integers(1, 20))
    per = str(draw.choice(["record", "chunk"]))
    anchors = anchors_of(asking, np.zeros(windows, np.int64), per)
    positives = positives_of(anchors, listed, distinct=True)
    owners, found = listed["record_key"], listed["text_hash"]
    units = np.repeat(np.arange(len(anchors)), np.diff(anchors.starts))
    for chunk, unit in enumerate(units):
        own = np.flatnonzero(owners == anchors.records[unit])
        legal = own[found[own] != anchors.hashes[chunk]]
        if len(own) < 2 or len(legal) == 0:
            continue  # the pool's statement has left such anchors out
        at = np.full(len(legal), chunk)
        left, skipped = np.arange(len(legal)), 0
        if positives.banned is not None:
            assert positives.counts[unit] - positives.banned.counts[chunk] == len(legal)
            skipped = positives.banned.skipped(at, left)
        np.testing.assert_array_equal(positives.starts[unit] + left + skipped, legal)


def test_one_text_in_very_many_windows_costs_what_they_cost(tmp_path: Path) -> None:
    windows = 20_000
    with dp.Corpus(tmp_path / "long.duckdb") as corpus:
        corpus.chunk(dp.Chunking(max_tokens=1, overlap=0, summary_tokens=0))
        records = [{"t": "a " * windows + "b"}, {"t": "c"}]
        corpus.ingest(dp.MemorySource(records, context="t"), name="s")
        corpus.split(1, 0, 0)
        anything = dp.any_section()
        recipe = dp.TripletRecipe("windows", anything, anything, anything)
        sampler = corpus.sampler(recipes=[recipe], batch_size=64)
        pool = sampler._reader.planner.streams[0].pool
        assert pool.positives is not None
        assert pool.positives.banned is not None
        assert len(pool.positives.banned.passed) == windows + 1
        for _ in range(4):
            batch = next(sampler)
            pairs = zip(batch["anchor"], batch["positive"], strict=True)
            assert {frozenset(pair) for pair in pairs} == {frozenset("ab")}
