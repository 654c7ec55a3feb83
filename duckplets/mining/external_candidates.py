"""Candidates that were given, as a search would have found them: guarded, counted, cut to depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.base.arrays import Floats, Integers
from duckplets.mining.guards import REASONS, Excluded
from duckplets.mining.impacts import SCALE
from duckplets.mining.kernel import Found
from duckplets.mining.select import ceilings, count_above, count_below
from duckplets.recipes.bm25 import Bm25


def as_found(
    given: pa.Table, settings: Bm25, block: slice, excluded: Excluded, positives: Floats
) -> Found:
    """Return what was given for a block of anchors.

    Args:
        given: Columns ``anchor``, ``document`` and ``score``, by anchor, best first.
        settings: The knobs.
        block: Which anchors.
        excluded: What they must not get.
        positives: Score of every anchor's lowest-scoring positive; NaN if none was given.
    """
    owners = given["anchor"].to_numpy() - block.start
    documents, scores = given["document"].to_numpy(), given["score"].to_numpy()
    reasons = _reasons(excluded, owners, documents)
    legal = reasons < 0
    guarded = np.zeros((len(REASONS) + 1, len(positives)), np.int64)
    np.add.at(guarded, (reasons[~legal], owners[~legal]), 1)
    ranked = _Ranked(owners[legal], documents[legal], scores[legal], positives)
    return ranked.found(settings, np.bincount(owners, minlength=len(positives)), guarded)


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Legal candidates of a block, by anchor, best first."""

    owners: Integers
    documents: Integers
    scores: Floats
    positives: Floats

    def found(self, settings: Bm25, matched: Integers, guarded: Integers) -> Found:
        starts = np.searchsorted(self.owners, np.arange(len(self.positives) + 1))
        above = count_above(ceilings(settings, self.positives), starts, self.scores)
        known = ~np.isnan(self.positives)
        ceiling = np.where(known, self.positives, np.inf)
        better = count_above(ceiling[None], starts, self.scores)[0]
        depth = settings.range_min + settings.top_k
        documents, scores = self._best(starts[:-1] + above.max(axis=0), depth)
        return Found(
            documents=documents,
            scores=scores,
            matched=matched,
            guarded=guarded,
            above=above,
            below=count_below(settings, starts, self.scores),
            positive_scores=self.positives,
            positive_ranks=np.where(known, better + 1, 0),
        )

    def _best(self, first: Integers, depth: int) -> tuple[Integers, Any]:
        """Return so many candidates of every anchor, from the ``first`` on, in rows."""
        place = np.arange(len(self.owners)) - first[self.owners]
        near = (place >= 0) & (place < depth)
        cells = (self.owners[near], place[near])
        shape = (len(first), int(cells[1].max(initial=-1)) + 1)
        documents, scores = np.full(shape, -1, np.int64), np.zeros(shape)
        documents[cells] = self.documents[near]
        # Scores are kept in units: a power of two, which takes nothing from a float.
        scores[cells] = self.scores[near] * SCALE
        return documents, scores


def _reasons(excluded: Excluded, owners: Integers, documents: Integers) -> Integers:
    """Return which guard refuses each pair of an anchor and a document, or -1."""
    out, may = excluded.documents, excluded.allowed
    refused, at = _among(owners, documents, out.owners(), out.values)
    reasons = np.full(len(owners), -1, np.int64)
    reasons[refused] = excluded.reasons[at[refused]]
    if may is not None:
        allowed, _ = _among(owners, documents, may.owners(), may.values)
        reasons[~refused & ~allowed] = REASONS.index("strategy")
    return reasons


def _among(
    owners: Integers, documents: Integers, in_owners: Integers, in_documents: Integers
) -> tuple[npt.NDArray[np.bool_], Integers]:
    """Return which pairs are among others, which are in ascending order, and where."""
    if not len(in_owners):
        return np.zeros(len(owners), dtype=bool), np.zeros(len(owners), np.int64)
    width = 1 + max(int(documents.max(initial=0)), int(in_documents.max()))
    cells, ascending = owners * width + documents, in_owners * width + in_documents
    at = np.minimum(np.searchsorted(ascending, cells), len(ascending) - 1)
    return ascending[at] == cells, at
