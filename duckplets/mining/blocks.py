"""Hold the excluded documents of a block of anchors, and the best documents that were found.

Documents are numbered among all sections of a mining, in the order of record ids. The smaller
number wins a tie.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Floats, IntegerLists, Integers, turns

REASONS = ("same record", "same group", "labelled", "same text", "strategy")  # of guards


@dataclass(frozen=True, slots=True)
class Excluded:
    """List the documents that each anchor of a block must not find."""

    documents: IntegerLists  # excluded for each anchor, ascending
    reasons: npt.NDArray[np.uint8]  # the first guard of each, an index of ``REASONS``
    allowed: IntegerLists | None  # the only allowed documents, if the strategy names them

    def reasons_of(self, owners: Integers, documents: Integers) -> Integers:
        """Return the guard that refuses each pair of an anchor and a document, or -1."""
        refused = self.documents.find(owners, documents)
        reasons = np.full(len(owners), -1, np.int64)
        reasons[refused >= 0] = self.reasons[refused[refused >= 0]]
        if self.allowed is not None:
            is_out = self.allowed.find(owners, documents) < 0
            reasons[(refused < 0) & is_out] = REASONS.index("strategy")
        return reasons


@dataclass(frozen=True, slots=True)
class RankedPositives:
    """List every positive of a block of anchors, with score and rank among legal negatives."""

    owners: Integers  # the anchor of each, ascending
    documents: Integers  # their numbers
    scores: Floats  # NaN: no score
    ranks: Integers  # 1 + the number of legal negatives with a higher score; 0: not ranked

    def lowest(self, count: int) -> tuple[Floats, Integers]:
        """Return score and rank of the lowest-scoring positive of each of ``count`` anchors."""
        scores, ranks = np.full(count, np.nan), np.zeros(count, np.int64)
        scored = np.flatnonzero(~np.isnan(self.scores))
        order = scored[np.lexsort((self.scores[scored], self.owners[scored]))]
        owners = self.owners[order]
        first = order[np.diff(owners, prepend=-1) > 0]
        scores[self.owners[first]], ranks[self.owners[first]] = (
            self.scores[first],
            self.ranks[first],
        )
        return scores, ranks


@dataclass(frozen=True, slots=True)
class TopDocuments:
    """List the best documents of n anchors, and count the others."""

    owners: Integers  # the anchor of each document, ascending
    documents: Integers  # their numbers, by anchor, the best first
    scores: Floats
    positives: RankedPositives
    matched: int  # possible negatives that share a term, of all anchors
    guarded: Integers  # the number of these that each guard excluded: int64[guards], by ``REASONS``
    others: dict[str, int] = field(default_factory=dict)  # counts of other outcomes


def top_of(
    pairs: tuple[Integers, Integers, Floats],  # owner, document and score of each
    positives: tuple[IntegerLists, Floats],  # of each anchor, with scores; NaN: no score
    depth: int,
    *,
    matched: int,
    guarded: Integers,
    others: dict[str, int],
) -> TopDocuments:
    """Return the best documents of anchors, from all pairs by owner and falling score."""
    (owners, documents, scores), (lists, known) = pairs, positives
    anchors = lists.owners()
    starts = np.searchsorted(owners, np.arange(len(lists) + 1))
    rivals = IntegerLists(starts, np.arange(len(owners))).take(anchors)
    positive = rivals.owners()
    above = positive[scores[rivals.values] > known[positive]]
    higher = np.bincount(above, minlength=len(known))
    ranks = np.where(np.isnan(known), 0, higher + 1)
    is_best = turns(owners) < depth
    best = owners[is_best], documents[is_best], scores[is_best]
    ranked = RankedPositives(anchors, lists.values, known, ranks)
    return TopDocuments(*best, ranked, matched, guarded, others)
