"""Draw random negatives for anchors that were mined fewer than an export wants.

They are drawn by a hash of the anchor, from the documents its guards allow, so an anchor's
negatives depend on nothing else.
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
"""Rank of the first negative that is drawn for an anchor, behind all that were mined."""

_DRAWS = 64  # and four for each document wanted: then what is still missing stays so


def fill(database: Database, subject: Subject, wanted: int) -> None:
    """Add negatives to the table of mined ones, for anchors that have fewer than wanted."""
    relabelled = relabelled_sections(database, subject.version)
    for mining, pool in zip(subject.minings, subject.guarded(), strict=True):
        with PoolReader(database, [pool]) as reader:
            guards = Guards(database, reader, pool)
        for block in guards.blocks():
            anchors = guards.keys_of(block)  # ascending
            span = {"mining": mining.key, "low": int(anchors[0]), "high": int(anchors[-1])}
            mined = [c.to_numpy() for c in database.table("export/mined_between", span).columns]
            chosen, others = (_lists(guards, anchors, *of) for of in (mined, relabelled))
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
            with database.registered(left_rows=pa.table(rows)):
                database.run("export/add_negatives", {"mining": mining.key})


def _lists(guards: Guards, anchors: Integers, of: Integers, sections: Integers) -> IntegerLists:
    """Return the sections of each anchor, as the guards number them."""
    at, number = places(anchors, of), guards.sections.numbers(sections)
    there = (at >= 0) & (number >= 0)
    return IntegerLists.of(at[there], number[there], len(anchors))


def _drawn(
    anchors: Words,
    missing: Integers,
    refused: IntegerLists,
    allowed: IntegerLists | None,
    documents: Integers,
) -> IntegerLists:
    """Return as many documents as each anchor is missing, of those allowed, if named, or of all."""
    purpose = key("fill")
    pool = allowed or IntegerLists(np.array([0, len(documents)]), documents)
    row = np.arange(len(anchors)) if allowed is not None else np.zeros(len(anchors), np.int64)
    sizes, width = pool.lengths[row], int(documents.max(initial=0)) + 1
    found = np.full((len(anchors), int(missing.max(initial=0))), -1, np.int64)
    got = np.zeros(len(anchors), np.int64)
    pairs = refused.owners() * width + refused.values  # ascending
    for draw in range(_DRAWS + 4 * found.shape[1]):
        left = np.flatnonzero((got < missing) & (sizes > 0))
        if len(left) == 0:
            break
        words = hashed(purpose, anchors[left], draw)
        drawn = pool.values[pool.starts[row[left]] + below(words, sizes[left])]
        legal = places(pairs, left * width + drawn) < 0
        legal &= ~(found[left] == drawn[:, None]).any(axis=1)
        left, drawn = left[legal], drawn[legal]
        found[left, got[left]] = drawn
        got[left] += 1
    starts = np.concatenate([[0], np.cumsum(got)])
    return IntegerLists(starts, found[found >= 0])
