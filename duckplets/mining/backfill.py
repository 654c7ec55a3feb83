"""Turn what was found for a block of anchors into rows to store, backfilled where too few.

    Found ─select→ kept ─backfill→ rows of mined_anchors, rows of mined_negatives, counts

What is backfilled are legal documents, each drawn by a hash of the anchor's section key and a
counter. So what an anchor gets depends on nothing else: neither on blocks nor on other anchors.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Floats, IntegerLists, Integers, places
from duckplets.mining.bm25 import SCALE, TopDocuments
from duckplets.mining.cutoffs import OUTCOMES, select, tally
from duckplets.mining.guards import REASONS, Excluded, Guards
from duckplets.order.permute import below, hashed, key
from duckplets.recipes.bm25 import Bm25

_DRAWS = 64  # and four for each document wanted: then what is still missing stays so


def rows_of(
    settings: Bm25, guards: Guards, block: slice, excluded: Excluded, found: TopDocuments
) -> tuple[pa.Table, pa.Table, dict[str, int]]:
    """Return what a block of anchors adds to a mining, from what was found for it.

    Args:
        settings: Of mining.
        guards: Of the recipe.
        block: Which anchors.
        excluded: What they must not get.
        found: What was found for them.

    Returns:
        Rows of ``mined_anchors``, rows of ``mined_negatives``, and what became of every document
        that shares a term with an anchor; these counts add up.
    """
    keys = guards.sections.keys
    anchors = keys[guards.anchors[block]]
    there = found.documents >= 0
    starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    scores = found.scores[there] / SCALE
    chosen = select(settings, starts, scores, found.above.max(axis=0))
    outcomes = np.array(OUTCOMES, dtype=object)[chosen.outcomes]
    kept = IntegerLists(chosen.starts, found.documents[there][chosen.kept])
    missing = np.where(outcomes == "random", settings.wanted - kept.lengths, 0)
    further = backfill(
        kept, missing, excluded.documents, excluded.allowed, guards.documents, anchors
    )
    candidates = kept.lengths + further.lengths
    outcomes[(outcomes == "random") & (candidates == 0)] = "none"
    unknown = np.isnan(found.positive_scores)
    anchor_rows = {
        "anchor_section_key": anchors,
        "candidates": candidates.astype(np.int32),
        "outcome": pa.array(outcomes, pa.string()),
        "examined": found.matched,
        "positive_score": pa.array(found.positive_scores, mask=unknown),
        "positive_rank": pa.array(found.positive_ranks, mask=unknown),
    }
    negatives = _negatives(anchors, keys, kept, scores[chosen.kept], further)
    return pa.table(anchor_rows), negatives, _counts(settings, found)


def _negatives(
    anchors: Integers, keys: Integers, kept: IntegerLists, scores: Floats, further: IntegerLists
) -> pa.Table:
    """Return rows by anchor and rank: what was kept, with scores, then what was drawn, without."""
    owners = np.concatenate([kept.owners(), further.owners()])
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    starts = np.searchsorted(owners, np.arange(len(anchors)))
    documents = np.concatenate([kept.values, further.values])[order]
    scores = np.concatenate([scores, np.full(len(further.values), np.nan)])[order]
    rows = {
        "anchor_section_key": anchors[owners],
        "rank": (np.arange(len(owners)) - starts[owners] + 1).astype(np.int32),
        "negative_section_key": keys[documents],
        "score": pa.array(scores, mask=np.isnan(scores)),
    }
    return pa.table(rows)


def _counts(settings: Bm25, found: TopDocuments) -> dict[str, int]:
    legal = found.matched - found.guarded.sum(axis=0)
    guarded = found.guarded.sum(axis=1)
    guarded = np.append(guarded[:-2], guarded[-2] + guarded[-1])  # both are the strategy's
    counts = dict(zip(REASONS, guarded.tolist(), strict=True))
    return counts | tally(settings, legal, found.above, found.below)


def backfill(
    chosen: IntegerLists,
    missing: Integers,
    excluded: IntegerLists,
    allowed: IntegerLists | None,
    documents: Integers,
    keys: Integers,
) -> IntegerLists:
    """Return further documents for n anchors, none of them chosen or excluded.

    Args:
        chosen: Documents each anchor has already.
        missing: How many more each one wants, int64[n].
        excluded: Documents each anchor must not get.
        allowed: If given, the only ones each may get.
        documents: Numbers of all documents that may be negatives.
        keys: Section keys of the anchors.
    """
    purpose = key("fill")
    pool = allowed or IntegerLists(np.array([0, len(documents)]), documents)
    row = np.arange(len(keys)) if allowed is not None else np.zeros(len(keys), np.int64)
    sizes, width = pool.lengths[row], int(documents.max(initial=0)) + 1
    found = np.full((len(keys), int(missing.max(initial=0))), -1, np.int64)
    got = np.zeros(len(keys), np.int64)
    taken = [lists.owners() * width + lists.values for lists in (chosen, excluded)]
    refused = np.sort(np.concatenate(taken)) if missing.any() else got[:0]
    for draw in range(_DRAWS + 4 * found.shape[1]):
        left = np.flatnonzero((got < missing) & (sizes > 0))
        if len(left) == 0:
            break
        words = hashed(purpose, keys[left], draw)
        drawn = pool.values[pool.starts[row[left]] + below(words, sizes[left])]
        legal = places(refused, left * width + drawn) < 0
        legal &= ~(found[left] == drawn[:, None]).any(axis=1)
        left, drawn = left[legal], drawn[legal]
        found[left, got[left]] = drawn
        got[left] += 1
    starts = np.concatenate([[0], np.cumsum(got)])
    return IntegerLists(starts, found[found >= 0])
