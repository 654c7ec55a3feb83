"""Hold what a block of anchors must not find, and what was found for it.

Documents go by their numbers among all sections that a mining looks at. These are in the order of
record ids, so ties fall to the smaller number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Floats, IntegerLists, Integers, turns

REASONS = ("same record", "same group", "labelled", "same text", "strategy")  # of guards


@dataclass(frozen=True, slots=True)
class Excluded:
    """What a block of anchors must not find."""

    documents: IntegerLists  # that each anchor must not find, ascending
    reasons: npt.NDArray[np.uint8]  # which guard comes first, of each of these, as in ``REASONS``
    allowed: IntegerLists | None  # if the strategy names what may be found, that, ascending

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
    """Every positive of a block of anchors, with its score and its rank among legal negatives."""

    owners: Integers  # the anchor of each, ascending
    documents: Integers  # their numbers
    scores: Floats  # NaN: it has none
    ranks: Integers  # 1 + how many legal negatives score higher; 0: it is not ranked

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
    """The best documents of n anchors, and counts of the others."""

    owners: Integers  # the anchor of each document, ascending
    documents: Integers  # their numbers; of an anchor the best first
    scores: Floats
    positives: RankedPositives
    matched: int  # documents that may be negatives and share a term, of all anchors
    guarded: Integers  # of those, how many each guard excluded: int64[guards], as in ``REASONS``
    # what else became of documents, such as those that could not be scored
    others: dict[str, int] = field(default_factory=dict)


def top_of(
    pairs: tuple[Integers, Integers, Floats],  # owner, document and score of each
    positives: tuple[IntegerLists, Floats],  # of each anchor, and the score of each; NaN for none
    depth: int,
    *,
    matched: int,
    guarded: Integers,
    others: dict[str, int],
) -> TopDocuments:
    """Return the best documents of anchors, from all pairs by owner and falling score."""
    (owners, documents, scores), (lists, known) = pairs, positives
    asking = lists.owners()
    starts = np.searchsorted(owners, np.arange(len(lists) + 1))
    theirs = IntegerLists(starts, np.arange(len(owners))).take(asking)
    of = theirs.owners()
    above = of[scores[theirs.values] > known[of]]
    higher = np.bincount(above, minlength=len(known))
    ranks = np.where(np.isnan(known), 0, higher + 1)
    kept = turns(owners) < depth
    best = owners[kept], documents[kept], scores[kept]
    ranked = RankedPositives(asking, lists.values, known, ranks)
    return TopDocuments(*best, ranked, matched, guarded, others)
