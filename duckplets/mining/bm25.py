"""Score a block of queries against document shards by exact BM25, in NumPy.

    DocumentShard (impacts) ─add up a query's terms→ one integer a document ─top→ its best documents

The top k are looked for among the documents that reach the k-th largest of the maxima of runs of
64 documents: a bound on the k-th score that costs one pass. With that and the dense rows of the
frequent terms, 50,000 documents of 120 words and queries of 30 made 4,600 queries a
second on one core, five times as many as a bincount of the concatenated postings and more than
bm25s compiled with numba.

An impact is what one term adds to a document's score: round(2^20 · idf · tf part), see ``shards``.
Impacts are integers, so sums do not depend on their order and equal scores are equal; 2^20 because
with 2^16 the rounding reorders documents whose scores nearly agree.

Nothing is pruned. All documents are numbered in the order of their record ids, so that ties fall
to the smaller number, whatever the shards are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Floats, IntegerLists, Integers, places

REASONS = ("same record", "same group", "same text", "strategy")  # of guards
SCALE = 1 << 20  # impact of a score of 1
RUN = 64  # documents per run of which the largest score is taken
PADDING = (1 << 32) - 1

Impacts = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class DocumentShard:
    """A document shard: the postings of some documents, by term, with local document numbers.

    First come those that may be negatives, padded to a multiple of 64, then those that are only
    scored, as positives.
    """

    numbers: Integers  # of every local document among all; ascending in both parts, then padding
    eligible: int  # local numbers below it may be negatives; a multiple of 64
    starts: Integers  # first posting of every term, and the end; int64[terms + 1]
    documents: Integers | Impacts  # local number of every posting; int32 in the file
    impacts: Impacts  # of every posting
    rows: Impacts  # dense row of every term, or -1; int32[terms]
    dense: Impacts  # impacts of the most frequent terms, int32[rows, width]

    def save(self, folder: Path, name: str) -> None:
        """Write the arrays to files of a folder, which several processes can map."""
        for each in fields(self):
            np.save(folder / f"{name}.{each.name}.npy", getattr(self, each.name))

    @classmethod
    def load(cls, folder: Path, name: str) -> DocumentShard:
        """Memory-map the document shard that ``save`` wrote."""
        arrays: dict[str, Any] = {
            each.name: np.load(folder / f"{name}.{each.name}.npy", mmap_mode="r")
            for each in fields(cls)
        }
        arrays["eligible"] = int(arrays["eligible"])
        # as wide as an address: else every scatter would widen its part again
        arrays["documents"] = arrays["documents"].astype(np.intp)
        return cls(**arrays)


@dataclass(frozen=True, slots=True)
class Queries:
    """A block of anchors to find documents for; documents go by their numbers among all."""

    terms: IntegerLists  # the distinct terms of every query
    positives: IntegerLists  # their scores make the margins
    excluded: IntegerLists  # documents that must not be found
    reasons: npt.NDArray[np.uint8]  # for each of these which guard it is, from 0
    allowed: IntegerLists | None = None  # if not None, only these may be found, ascending
    shards: Integers | None = None  # if not None, the only document shard each query looks into

    def __len__(self) -> int:
        return len(self.terms)


@dataclass(frozen=True, slots=True)
class TopDocuments:
    """The best documents of n queries, and counts of the others."""

    documents: Integers  # numbers of the best, best first: int64[n, depth]; -1 where there are none
    scores: Floats  # of these, [n, depth]
    matched: int  # documents that may be negatives and share a term, of all queries
    guarded: Integers  # of those, how many each guard excluded: int64[guards], as in ``REASONS``
    positive_scores: Floats  # of the lowest-scoring positive; NaN if none is known. [n]
    positive_ranks: Integers  # 1 + how many of the rest score higher; 0 if it is not ranked. [n]
    # what else became of documents, such as those that could not be scored
    others: dict[str, int] = field(default_factory=dict)


def top_of(
    pairs: tuple[Integers, Integers, Floats],  # owner, document and score of each
    positives: Floats,
    depth: int,
    *,
    matched: int,
    guarded: Integers,
) -> TopDocuments:
    """Return the best documents of queries, from pairs by owner and falling score."""
    owners, _, scores = pairs
    best, best_scores = first_of(*pairs, (len(positives), depth))
    higher = np.bincount(owners[scores > positives[owners]], minlength=len(positives))
    ranks = np.where(np.isnan(positives), 0, higher + 1)
    return TopDocuments(best, best_scores, matched, guarded, positives, ranks)


def first_of(
    owners: Integers, documents: Integers, scores: Floats, shape: tuple[int, int]
) -> tuple[Integers, Floats]:
    """Return the first documents of each owner, -1 where there are no more, and their scores.

    ``owners`` ascend; ``shape`` is their number, and the most documents of each.
    """
    place = np.arange(len(owners)) - np.searchsorted(owners, np.arange(shape[0]))[owners]
    kept = place < shape[1]
    first, first_scores = np.full(shape, -1, np.int64), np.zeros(shape)
    first[owners[kept], place[kept]] = documents[kept]
    first_scores[owners[kept], place[kept]] = scores[kept]
    return first, first_scores


def search(shards: Iterable[DocumentShard], queries: Queries, depth: int) -> TopDocuments:
    """Return the best documents of every query, from all document shards; they are read twice."""
    search = _Search(queries, depth, positive_scores(shards, queries))
    own = None if queries.shards is None else set(queries.shards.tolist())
    for number, shard in enumerate(shards):
        if own is None or number in own:
            search.go_through(shard, number)
    return search.found()


class _Search:
    """A block of queries being searched in the document shards."""

    def __init__(self, queries: Queries, depth: int, positives: Floats) -> None:
        count = len(queries)
        self.queries, self.depth = queries, depth
        self.positives = positives
        self.positive = np.rint(np.nan_to_num(positives) * SCALE).astype(np.int64)
        self.ranks = (self.positive > 0).astype(np.int64)
        self.best = [np.zeros(0, np.int64)] * count
        self.matched = 0
        self.guarded = np.zeros(len(REASONS), np.int64)

    def go_through(self, shard: DocumentShard, number: int) -> None:
        """Score all queries against one shard."""
        excluded, kept = _within(shard, self.queries.excluded)
        reasons = self.queries.reasons[kept]
        allowed = None
        if self.queries.allowed is not None:
            allowed, _ = _within(shard, self.queries.allowed)
        scores = np.zeros(len(shard.numbers), np.int32)
        candidates = scores[: shard.eligible]
        own = self.queries.shards
        mine = range(len(self.queries)) if own is None else np.flatnonzero(own == number).tolist()
        for query in mine:
            _score(shard, self.queries.terms[query], scores)
            self.matched += int(np.count_nonzero(candidates))
            out = excluded[query]
            if len(out):
                hit = candidates[out] > 0
                span = slice(excluded.starts[query], excluded.starts[query + 1])
                self.guarded += np.bincount(reasons[span][hit], minlength=len(REASONS))
                candidates[out] = 0
            if allowed is None:
                self._take(query, shard, candidates, None)
            else:
                left = np.count_nonzero(candidates)
                self._take(query, shard, candidates[allowed[query]], allowed[query])
                legal = np.count_nonzero(candidates[allowed[query]])
                self.guarded[-1] += left - legal

    def _take(
        self, query: int, shard: DocumentShard, scores: Impacts, places: Integers | None
    ) -> None:
        """Rank the positive among a shard's legal scores, and keep the best documents."""
        if self.ranks[query]:
            self.ranks[query] += np.count_nonzero(scores > self.positive[query])
        at = _top(scores, self.depth)
        local = at if places is None else places[at]
        keys = (scores[at].astype(np.int64) << 32) | (PADDING - shard.numbers[local])
        keys = np.concatenate([self.best[query], keys])
        keys.sort()
        self.best[query] = keys[-self.depth :]

    def found(self) -> TopDocuments:
        """Return the results after all shards."""
        count = len(self.queries)
        keys = np.zeros((count, self.depth), np.int64)
        for query, best in enumerate(self.best):
            keys[query, : len(best)] = best[::-1]
        some = keys > 0
        return TopDocuments(
            documents=np.where(some, PADDING - (keys & PADDING), -1),
            scores=(keys >> 32) / SCALE,
            matched=self.matched,
            guarded=self.guarded,
            positive_scores=self.positives,
            positive_ranks=self.ranks,
        )


def _score(shard: DocumentShard, terms: Integers, scores: Impacts) -> None:
    """Write the score of every document of a shard into ``scores``."""
    rows = shard.rows[terms]
    dense = rows[rows >= 0].tolist()
    if dense:
        np.copyto(scores, shard.dense[dense[0]])
    else:
        scores.fill(0)
    for row in dense[1:]:
        np.add(scores, shard.dense[row], out=scores)
    sparse = terms[rows < 0]
    for low, high in zip(
        shard.starts[sparse].tolist(), shard.starts[sparse + 1].tolist(), strict=True
    ):
        np.add.at(scores, shard.documents[low:high], shard.impacts[low:high])


def _top(scores: Impacts, depth: int) -> Integers:
    """Return the indices of the ``depth`` best scores in any order, ties included."""
    runs = len(scores) // RUN
    bound = 1
    if runs > 2 * depth:
        maxima = scores[: runs * RUN].reshape(runs, RUN).max(axis=1)
        bound = max(1, int(np.partition(maxima, runs - depth)[runs - depth]))
    return np.flatnonzero(scores >= bound)


def _within(
    shard: DocumentShard, lists: IntegerLists
) -> tuple[IntegerLists, npt.NDArray[np.bool_]]:
    """Return lists restricted to this shard's eligible documents, by local number, and which."""
    local = places(shard.numbers[: shard.eligible], lists.values)
    kept = local >= 0
    counts = np.concatenate([[0], np.cumsum(kept)])
    return IntegerLists(counts[lists.starts], local[kept]), kept


def positive_scores(shards: Iterable[DocumentShard], queries: Queries) -> Floats:
    """Return the score of every query's lowest-scoring positive; NaN if none is known.

    A positive that shares no term with its anchor scores 0.
    """
    lowest = np.full(len(queries), np.inf)
    owners, wanted = queries.positives.owners(), queries.positives.values
    for shard in shards:
        for low, high in ((0, shard.eligible), (shard.eligible, len(shard.numbers))):
            local = places(shard.numbers[low:high], wanted)
            here = local >= 0
            scores = _pair_scores(shard, queries.terms, owners[here], local[here] + low)
            np.minimum.at(lowest, owners[here], scores / SCALE)
    return np.where(np.isinf(lowest), np.nan, lowest)


def _pair_scores(
    shard: DocumentShard, terms: IntegerLists, owners: Integers, local: Integers
) -> Integers:
    """Return the score of each pair of a query and a local document."""
    counts = np.diff(terms.starts)[owners]
    pair = np.repeat(np.arange(len(owners)), counts)
    before = np.cumsum(counts) - counts
    term = terms.values[terms.starts[owners][pair] + np.arange(len(pair)) - before[pair]]
    low, end = shard.starts[term].copy(), shard.starts[term + 1]
    high, wanted, last = end.copy(), local[pair], len(shard.documents) - 1
    while np.any(low < high):
        middle = (low + high) // 2
        right = (low < high) & (shard.documents[np.minimum(middle, last)] < wanted)
        low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
    hit = np.flatnonzero(low < end)
    hit = hit[shard.documents[low[hit]] == wanted[hit]]
    scores = np.zeros(len(owners), np.int64)
    np.add.at(scores, pair[hit], shard.impacts[low[hit]])
    return scores
