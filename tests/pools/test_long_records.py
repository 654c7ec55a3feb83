"""A record of very many windows: pairs of them are arithmetic, and cost what the windows cost."""

from __future__ import annotations

import numpy as np
import pytest

from duckplets.pools.arrays import anchors_of, positives_of


@pytest.mark.parametrize("seed", range(20))
def test_positives_that_are_left_are_those_of_another_text(seed):
    draw = np.random.default_rng(seed)
    windows, texts = 60, draw.integers(1, 8)

    def rows(records):
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
