"""Rows of a block: from what was found to what is stored, and the counts of everything else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Lists
from duckplets.mining.backfill import filled
from duckplets.mining.guards import REASONS, Excluded, Guards
from duckplets.mining.impacts import SCALE
from duckplets.mining.kernel import Found
from duckplets.mining.select import OUTCOMES, select, tally
from duckplets.recipes.bm25 import Bm25


class Rows:
    """What a block of anchors adds to the tables.

    Args:
        settings: The knobs.
        guards: Of the recipe.
        block: Which anchors.
        excluded: What they must not get.
        found: What was found for them.
    """

    def __init__(
        self, settings: Bm25, guards: Guards, block: slice, excluded: Excluded, found: Found
    ) -> None:
        self._settings, self._found = settings, found
        self._keys = guards.sections.keys
        self._anchors = self._keys[guards.anchors[block]]
        there = found.documents >= 0
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        scores = found.scores[there] / SCALE
        chosen = select(settings, starts, scores, found.above.max(axis=0))
        self._outcomes = np.array(OUTCOMES, dtype=object)[chosen.outcomes]
        self._kept = Lists(chosen.starts, found.documents[there][chosen.kept])
        self._scores = scores[chosen.kept]
        self._filled = Lists(np.zeros(len(self._anchors) + 1, np.int64), np.zeros(0, np.int64))
        missing = np.where(self._outcomes == "random", settings.wanted - self._kept.lengths, 0)
        if missing.any():
            self._filled = filled(
                self._kept,
                missing,
                excluded.documents,
                excluded.allowed,
                guards.documents,
                self._anchors,
            )

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return the rows of ``mined_anchors`` and of ``mined_negatives``."""
        found, kept, further = self._found, self._kept, self._filled
        candidates = kept.lengths + further.lengths
        unknown = np.isnan(found.positive_scores)
        outcomes = np.where(
            (self._outcomes == "random") & (candidates == 0), "none", self._outcomes
        )
        anchors = pa.table(
            {
                "anchor_section_key": self._anchors,
                "candidates": candidates.astype(np.int32),
                "outcome": pa.array(outcomes, pa.string()),
                "examined": found.matched,
                "positive_score": pa.array(found.positive_scores, mask=unknown),
                "positive_rank": pa.array(found.positive_ranks, mask=unknown),
            }
        )
        owners = np.concatenate([kept.owners(), further.owners()])
        order = np.argsort(owners, kind="stable")  # those that were drawn come after
        owners = owners[order]
        starts = np.concatenate([[0], np.cumsum(candidates)])
        scores = np.concatenate([self._scores, np.full(len(further.values), np.nan)])[order]
        documents = np.concatenate([kept.values, further.values])[order]
        negatives = pa.table(
            {
                "anchor_section_key": self._anchors[owners],
                "rank": (np.arange(len(owners)) - starts[owners] + 1).astype(np.int32),
                "negative_section_key": self._keys[documents],
                "score": pa.array(scores, mask=np.isnan(scores)),
            }
        )
        return anchors, negatives

    def counts(self) -> dict[str, int]:
        """Return what became of every document that shares a term; they add up."""
        found = self._found
        legal = found.matched - found.guarded.sum(axis=0)
        guarded = found.guarded.sum(axis=1)
        guarded = np.append(guarded[:-2], guarded[-2] + guarded[-1])  # both are the strategy's
        counts = dict(zip(REASONS, guarded.tolist(), strict=True))
        return counts | tally(self._settings, legal, found.above, found.below)
