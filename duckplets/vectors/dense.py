"""Rank candidates by the cosine of vectors: exactly, by blocks of matrix products."""

# The score of two sections is the score of their closest windows. Pairs within 2e-5 of the last
# candidate, or of the positive, are scored again in double precision, in steps of 2^-20. The
# smaller record id wins a tie. So blocks, threads and workers change nothing.

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.base.arrays import Flags, IntegerLists, Integers, merged, places, stretches, turns
from duckplets.base.prefetch import Lookahead
from duckplets.base.settings import Name, check
from duckplets.db.database import Database
from duckplets.errors import RecipeError, VectorError
from duckplets.mining.blocks import REASONS, Excluded, RankedPositives, TopDocuments
from duckplets.mining.bm25 import SCALE
from duckplets.mining.guards import Guards
from duckplets.mining.job import Job, Scorer, Searched, own_name
from duckplets.vectors.opened import OpenedVectors, opened
from duckplets.vectors.store import VectorStore

Singles = npt.NDArray[np.float32]
Query = Literal["anchor", "positive", "both"]

_ANCHORS = 512  # anchors of a block; at most 1,024, because ``_sorted`` has ten bits for them
_WINDOWS = 2048  # documents compared at a time
_PAIRS, _CACHED = 1 << 16, 512  # pairs scored again together, and multiplied together
_MANY = 8  # mean number of documents per query from which one matrix product is faster
_UNSURE = 1e-4  # of a step of 2^-20: far above the effect of the order of 65,536 summands
_NEAR = np.float32(2e-5)  # above the error of single precision for unit vectors
_LOWEST = np.float32(-4)  # below any cosine


@dataclass(frozen=True, slots=True)
class Dense(Scorer):
    """Rank candidates by the cosine of their vectors, as in ``mine(by=dp.Dense("default"))``.

    Attributes:
        vectors: Name of a set of vectors. All texts of the recipe need a vector.
        query: The text that is compared with documents: the ``anchor``, its ``positive``, or the
            closer of ``both``.
        name: Name of the scorer, as in ``dp.Negatives(by="dense")``.

    Raises:
        RecipeError: A value is wrong.
    """

    vectors: Annotated[str, Name(200)] = "default"
    query: Query = "anchor"
    name: Annotated[str, Name(64)] = "dense"

    def __post_init__(self) -> None:
        check(self, RecipeError, "dense")
        own_name(self.name, "dense: name")

    def settings(self, job: Job) -> dict[str, Any]:
        """Return the set of vectors and the query, which determine its candidates.

        Raises:
            VectorError: There is no such set.
        """
        digest = VectorStore(Path(str(job.database.path))).need(self.vectors).digest
        return {"vectors": self.vectors, "digest": digest, "query": self.query}

    def search(self, job: Job, guards: Guards, start: int) -> Searched:
        """Yield every block of anchors from number ``start``, with the best documents.

        Raises:
            VectorError: Texts lack a vector.
        """
        from threadpoolctl import threadpool_limits

        database, path = job.database, Path(str(job.database.path))
        windows = _Windows(database, opened(path, self.vectors), guards)

        def searched(block: slice) -> tuple[slice, TopDocuments]:
            anchors = guards.anchors[block]
            own = IntegerLists(np.arange(len(anchors) + 1), anchors)
            positives = guards.positives_of(block)
            lists = {"anchor": [own], "positive": [positives], "both": [own, positives]}[self.query]
            queries, _ = merged([sections.then(windows.of_section) for sections in lists])
            return block, _best(windows, queries, positives, guards.exclude(block), job.depth)

        calls = (partial(searched, block) for block in guards.blocks(start, most=_ANCHORS))
        found = Lookahead(calls, "duckplets-dense", most=job.threads - 1, threads=job.threads)
        # a thread for each block: BLAS threads would spin between products
        with threadpool_limits(1, "blas"), closing(found):
            yield from found


class _Windows:
    """Hold the windows of all sections with their vectors, by number of section."""

    def __init__(self, database: Database, vectors: OpenedVectors, guards: Guards) -> None:
        keys = guards.sections.keys
        numbered = pa.table({"section": np.arange(len(keys)), "section_key": keys})
        with database.registered(wanted=numbered):
            found = database.table("vectors/dense/windows")
        self._vectors, name = vectors, vectors.vector_set.name
        self._rows = vectors.rows(found["text_hash"].to_numpy())
        if missing := int(np.count_nonzero(self._rows < 0)):
            raise VectorError(
                f"{missing:,} of {len(self._rows):,} windows have no vector in {name!r}; make "
                f"them: duckplets embed {database.path} … --name {name}"
            )
        sections = found["section"].to_numpy()
        starts = np.searchsorted(sections, np.arange(len(keys) + 1))
        self.of_section = IntegerLists(starts, np.arange(len(sections)))
        self.documents = guards.documents
        self._lengths = np.ones(len(self._rows))
        for low in range(0, len(self._rows), _WINDOWS):
            own = vectors.take(self._rows[low : low + _WINDOWS]).astype(np.float64)
            self._lengths[low : low + _WINDOWS] = np.sqrt((own * own).sum(axis=1))
        self._lengths[self._lengths == 0] = 1

    def take(self, windows: Integers) -> Singles:
        """Return unit vectors of windows in single precision."""
        found = self._vectors.take(self._rows[windows]).astype(np.float32, copy=False)
        found /= self._lengths[windows].astype(np.float32)[:, None]
        return found

    def blocks(self) -> Iterator[tuple[Integers, Singles, Integers]]:
        """Yield documents with the vectors of their windows, and the first window of each."""
        sizes = self.of_section.lengths[self.documents]
        for part in stretches(sizes, rows=_WINDOWS, total=_WINDOWS):
            windows = self.of_section.take(self.documents[part])
            yield self.documents[part], self.take(windows.values), windows.starts[:-1]

    def scores(self, queries: IntegerLists, owners: Integers, documents: Integers) -> Integers:
        """Return the scores of pairs of a query and a document, in steps of 2^-20."""
        scores = np.full(len(owners), -2 * SCALE, np.int64)
        for low in range(0, len(owners), _PAIRS):
            part = slice(low, low + _PAIRS)
            own = queries.take(owners[part])
            others = self.of_section.take(documents[part][own.owners()])
            starts = others.starts[own.starts]
            some = starts[:-1] < starts[1:]
            if some.any():
                found = self._cosines(own.values[others.owners()], others.values)
                scores[part][some] = np.maximum.reduceat(found, starts[:-1][some])
        return scores

    def _cosines(self, left: Integers, right: Integers) -> Integers:
        """Return the scores of pairs of windows, in steps of 2^-20."""
        lengths = self._lengths[left] * self._lengths[right]
        begins = np.flatnonzero(np.diff(left, prepend=-1))
        if len(left) < _MANY * len(begins):
            return np.rint(self._summed(left, right) / lengths * SCALE).astype(np.int64)
        found = np.empty(len(left))
        for low, high in zip(begins, [*begins[1:], len(left)], strict=True):
            one, others = self._rows[left[low : low + 1]], self._rows[right[low:high]]
            own = self._vectors.take(one).astype(np.float64)[0]
            found[low:high] = self._vectors.take(others).astype(np.float64) @ own
        found *= SCALE / lengths
        # sums of BLAS have any order, so sums near a rounding limit are added again in our order
        (unsure,) = np.nonzero(np.abs(found - np.floor(found) - 0.5) < _UNSURE)
        again = self._summed(left[unsure], right[unsure])
        found[unsure] = again / lengths[unsure] * SCALE
        return np.rint(found).astype(np.int64)

    def _summed(self, left: Integers, right: Integers) -> npt.NDArray[np.float64]:
        """Return the products of pairs of windows, added up in one order."""
        found = np.empty(len(left))
        for low in range(0, len(left), _CACHED):  # longer parts leave the cache: half as fast
            part = slice(low, low + _CACHED)
            one, other = (self._vectors.take(self._rows[at[part]]) for at in (left, right))
            found[part] = np.multiply(one, other, dtype=np.float64).sum(axis=1)
        return found


def _best(
    windows: _Windows,
    queries: IntegerLists,
    positives: IntegerLists,
    excluded: Excluded,
    depth: int,
) -> TopDocuments:
    """Return the best documents of a block of anchors."""
    count = len(queries)
    anchors = positives.owners()  # the anchor of every positive
    scored = windows.scores(queries, anchors, positives.values)
    near, edge = _Near(count, depth), (scored / SCALE).astype(np.float32)
    higher, doubtful = np.zeros(len(anchors), np.int64), [(np.zeros(0, np.int64),) * 2]
    own = IntegerLists(positives.starts, np.arange(len(anchors)))
    for documents, products in _products(windows, queries, excluded):
        rows, columns, found = near.add(products, documents)
        lists = own.take(rows)
        at, place = lists.values, lists.owners()  # numbers of positives, and of pairs
        columns, found = columns[place], found[place]
        # if the floor is below a positive, all documents as near as it are among the pairs
        whole = edge[at] - _NEAR >= near.floor[anchors[at]]
        at, columns, found = at[whole], columns[whole], found[whole]
        above, perhaps = found > edge[at] + _NEAR, found >= edge[at] - _NEAR
        higher += np.bincount(at[above], minlength=len(anchors))
        doubtful.append((at[perhaps & ~above], documents[columns[perhaps & ~above]]))
        (deep,) = np.nonzero(edge - _NEAR < near.floor[anchors])
        if len(deep):
            sure, rows, columns = _higher(products[anchors[deep]], edge[deep])
            higher[deep] += sure
            doubtful.append((deep[rows], documents[columns]))
    at, documents = (np.concatenate(each) for each in zip(*doubtful, strict=True))
    again = windows.scores(queries, anchors[at], documents)
    higher += np.bincount(at[again > scored[at]], minlength=len(anchors))
    owners, documents = near.pairs()
    scores = windows.scores(queries, owners, documents)
    owners, documents, scores = _sorted(owners, documents, scores)
    is_best, total = turns(owners) < depth, count * len(windows.documents)
    guarded = np.bincount(excluded.reasons, minlength=len(REASONS))
    if (allowed := excluded.allowed) is not None:
        refused = excluded.documents.find(allowed.owners(), allowed.values) >= 0
        guarded[-1] = total - len(excluded.reasons) - np.count_nonzero(~refused)
    return TopDocuments(
        owners=owners[is_best],
        documents=documents[is_best],
        scores=scores[is_best] / SCALE,
        positives=RankedPositives(anchors, positives.values, scored / SCALE, higher + 1),
        matched=total,
        guarded=guarded,
    )


def _products(
    windows: _Windows, queries: IntegerLists, excluded: Excluded
) -> Iterator[tuple[Integers, Singles]]:
    """Yield documents with their cosines to queries; excluded ones are below all others."""
    vectors = windows.take(queries.values)
    for documents, others, starts in windows.blocks():
        products = vectors @ others.T
        if len(starts) < len(others):
            products = np.maximum.reduceat(products, starts, axis=1)
        if len(vectors) > len(queries):
            products = np.maximum.reduceat(products, queries.starts[:-1], axis=0)
        _mask(products, documents, excluded)
        yield documents, products


def _higher(products: Singles, edge: Singles) -> tuple[Integers, Integers, Integers]:
    """Return the number of products surely above the edge of each row, and the doubtful ones."""
    above, perhaps = products > edge[:, None] + _NEAR, products >= edge[:, None] - _NEAR
    # one call per row takes a fifth of the time of a call with axis=1
    sure, most = (np.fromiter(map(np.count_nonzero, f), np.int64) for f in (above, perhaps))
    (odd,) = np.nonzero(most > sure)
    rows, columns = _where(perhaps[odd] & ~above[odd])
    return sure, odd[rows], columns


def _sorted(
    owners: Integers, documents: Integers, scores: Integers
) -> tuple[Integers, Integers, Integers]:
    """Sort pairs by owner, falling score and document."""
    # one word per pair, of 10, 22 and 31 bits, sorts several times as fast as three keys
    words = np.sort((owners << 53) + ((SCALE - scores) << 31) + documents)
    return words >> 53, words & ((1 << 31) - 1), SCALE - ((words >> 31) & ((1 << 22) - 1))


def _mask(products: Singles, documents: Integers, excluded: Excluded) -> None:
    """Set excluded documents below all others."""
    owners, at = _within(documents, excluded.documents)
    products[owners, at] = _LOWEST
    if excluded.allowed is not None:
        owners, at = _within(documents, excluded.allowed)
        legal = products[owners, at]
        products.fill(_LOWEST)
        products[owners, at] = legal


def _within(documents: Integers, lists: IntegerLists) -> tuple[Integers, Integers]:
    """Return the owner and place of each listed document that is among some documents."""
    at = places(documents, lists.values)
    return lists.owners()[at >= 0], at[at >= 0]


def _where(flags: Flags) -> tuple[Integers, Integers]:
    """Return rows and columns of set flags: ten times as fast as ``np.nonzero`` if few are set."""
    return np.divmod(np.flatnonzero(flags), flags.shape[1])


class _Near:
    """Collect the pairs that may be among the best of each anchor, range by range."""

    def __init__(self, count: int, depth: int) -> None:
        self._depth = depth
        self._bound = np.full(count, _LOWEST, np.float32)
        self._owners = np.zeros(0, np.int64)
        self._documents = np.zeros(0, np.int64)
        self._scores = np.zeros(0, np.float32)

    def add(self, products: Singles, documents: Integers) -> tuple[Integers, Integers, Singles]:
        """Add documents; return rows, columns and products at or above the floor."""
        width = products.shape[1]
        if width > self._depth and self._bound.min() <= _LOWEST:
            own = np.partition(products, width - self._depth, axis=1)[:, width - self._depth]
            np.maximum(self._bound, own, out=self._bound)
        self.floor = np.maximum(self._bound - _NEAR, _LOWEST / 2)
        rows, columns = _where(products >= self.floor[:, None])
        self._owners = np.concatenate([self._owners, rows])
        self._documents = np.concatenate([self._documents, documents[columns]])
        found = products[rows, columns]
        self._scores = np.concatenate([self._scores, found])
        if len(self._owners) > 2 * self._depth * len(self._bound):
            self._prune()
        return rows, columns, found

    def pairs(self) -> tuple[Integers, Integers]:
        """Return owners and documents of all pairs to score again."""
        self._prune()
        return self._owners, self._documents

    def _prune(self) -> None:
        # sort by owner and falling score in one word: float bits sort like floats after this change
        bits = self._scores.view(np.int32)
        bits = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
        order = np.argsort((self._owners << 32) - bits)
        owners, scores = self._owners[order], self._scores[order]
        last = np.flatnonzero(turns(owners) == self._depth - 1)
        self._bound[owners[last]] = np.maximum(self._bound[owners[last]], scores[last])
        is_near = scores >= self._bound[owners] - _NEAR
        self._owners, self._scores = owners[is_near], scores[is_near]
        self._documents = self._documents[order][is_near]
