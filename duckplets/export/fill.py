"""Draw random negatives for anchors with too few mined ones.

A hash of the anchor draws them from its legal documents, so an anchor's negatives depend on nothing
else.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import IntegerLists, Integers, Words, merged, places
from duckplets.db.database import Database
from duckplets.export.subject import Subject
from duckplets.mining.guards import Guards
from duckplets.mining.labels import relabelled_sections
from duckplets.order.permute import below, hashed, key
from duckplets.pools.read import PoolReader

FIRST_RANK = 1 << 20
"""Rank of the first random negative of an anchor, after all mined ones."""

_DRAWS = 64  # tries, and four more for each document; after them the anchor stays short


def fill(database: Database, subject: Subject, wanted: int) -> None:
    """Add random negatives to the mined ones, for anchors with fewer than ``wanted``."""
    relabelled = relabelled_sections(database, subject.version)
    for mining, pool in zip(subject.minings, subject.guarded(), strict=True):
        with PoolReader(database, [pool]) as reader:
            guards = Guards(database, reader, pool)
        for block in guards.blocks():
            anchors = guards.keys_of(block)  # ascending
            span = {"mining": mining.key, "low": int(anchors[0]), "high": int(anchors[-1])}
            mined = [c.to_numpy() for c in database.table("export/mined_between", span).columns]
            chosen, others = (_lists(guards, anchors, *pairs) for pairs in (mined, relabelled))
            excluded = guards.exclude(block)
            refused = merged([chosen, excluded.documents, others])[0]
            missing = np.maximum(wanted - chosen.lengths, 0)
            words = guards.sections.words[guards.anchors[block]]
            added = _drawn(words, missing, refused, excluded.allowed, guards.documents)
            owners = added.owners()
            rows = {
                "anchor_section_key": anchors[owners],
                "rank": FIRST_RANK + np.arange(len(owners)) - added.starts[owners],
                "negative_section_key": guards.sections.keys[added.values],
                "score": pa.nulls(len(owners), pa.float64()),
            }
            with database.registered(retained=pa.table(rows)):
                database.run("export/add_negatives", {"mining": mining.key})


def _lists(guards: Guards, anchors: Integers, owners: Integers, sections: Integers) -> IntegerLists:
    """Return the sections of each anchor, by the numbers of the guards."""
    at, number = places(anchors, owners), guards.sections.numbers(sections)
    known = (at >= 0) & (number >= 0)
    return IntegerLists.of(at[known], number[known], len(anchors))


def _drawn(
    anchors: Words,
    missing: Integers,
    refused: IntegerLists,
    allowed: IntegerLists | None,
    documents: Integers,
) -> IntegerLists:
    """Return the missing documents of each anchor, from its allowed ones, or from all if None."""
    purpose = key("fill")
    pool = allowed or IntegerLists(np.array([0, len(documents)]), documents)
    row = np.arange(len(anchors)) if allowed is not None else np.zeros(len(anchors), np.int64)
    sizes, width = pool.lengths[row], int(documents.max(initial=0)) + 1
    found = np.full((len(anchors), int(missing.max(initial=0))), -1, np.int64)
    count = np.zeros(len(anchors), np.int64)
    pairs = refused.owners() * width + refused.values  # ascending
    for draw in range(_DRAWS + 4 * found.shape[1]):
        short = np.flatnonzero((count < missing) & (sizes > 0))
        if len(short) == 0:
            break
        words = hashed(purpose, anchors[short], draw)
        drawn = pool.values[pool.starts[row[short]] + below(words, sizes[short])]
        legal = places(pairs, short * width + drawn) < 0
        legal &= ~(found[short] == drawn[:, None]).any(axis=1)
        short, drawn = short[legal], drawn[legal]
        found[short, count[short]] = drawn
        count[short] += 1
    starts = np.concatenate([[0], np.cumsum(count)])
    return IntegerLists(starts, found[found >= 0])
