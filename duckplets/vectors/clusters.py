"""Group texts by their vectors, as keys that samples of a batch share.

vectors of a set ─sample─k-means→ centres ─nearest one after the other→ their order ─→ batch_keys
               └─────────────────────the nearest centre of each text──┘
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Words
from duckplets.base.checks import integer
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import ExtensionError, VectorError
from duckplets.ingest.batch_keys import BatchKeysReport, set_batch_keys
from duckplets.vectors.knn import Singles
from duckplets.vectors.opened import OpenedVectors, opened

_FITTED = 256 << 20  # bytes of the vectors that centres are fitted on
_PRODUCTS = 1 << 24  # products of texts and centres at a time
_EACH = 64  # vectors of a cluster that centres are fitted on


@changes("cluster the vectors of")
def cluster(
    corpus: CorpusFile,
    /,
    vectors: str,
    *,
    size: int,
    fit_on: str | None = "train",
    name: str | None = None,
    seed: int = 42,
) -> BatchKeysReport:
    """Group texts by their vectors, for ``batch_by=NAME``: spherical k-means, by scikit-learn.

    Every text of the set gets the number of its cluster as its key, and clusters are numbered from
    one to its nearest that has no number yet, so that near ones share mixed batches. The texts are
    those of now: cluster again when more have vectors.

    Args:
        vectors: A set of vectors.
        size: Texts a cluster on average: some times the samples of a batch that one key fills.
        fit_on: The split whose texts determine the centres; None for all.
        name: What ``batch_by=`` calls them; by default as the set.
        seed: Another one gives other clusters.

    Raises:
        ExtensionError: scikit-learn is missing.
        VectorError: There is no such set, or no text of the split has a vector.
    """
    try:
        from sklearn.cluster import MiniBatchKMeans
    except ImportError as error:
        raise ExtensionError(
            "cluster needs the package scikit-learn: pip install 'duckplets[cluster]'"
        ) from error
    size, of = integer("size", size, 2), opened(corpus.path, vectors)
    fitted = of.rows(_texts(corpus, fit_on)) if fit_on is not None else of.order
    fitted = np.sort(fitted[fitted >= 0])
    if not len(fitted):
        raise VectorError(f"fit_on={fit_on!r}: no text of this split has a vector of {vectors!r}")
    count = min(max(1, round(len(of.hashes) / size)), len(fitted))
    most = max(count, min(_EACH * count, _FITTED // (4 * of.of.dimension)))
    if len(fitted) > most:
        fitted = np.sort(np.random.default_rng(seed).choice(fitted, most, replace=False))
    model = MiniBatchKMeans(count, random_state=seed, n_init=1, batch_size=max(1024, count))
    model.fit(_unit(of.take(fitted)))
    order = _by_nearness(_unit(model.cluster_centers_))
    numbers = _nearest(of, model.cluster_centers_[order])
    rows = np.argsort(numbers, kind="stable")
    keys = pa.array(numbers[rows]).cast(pa.string())
    table = pa.table({"text_hash": of.hashes_by_row[rows], "key": keys})
    report = set_batch_keys(corpus, vectors if name is None else name, table)
    assert report is not None  # noqa: S101 - of a table
    return report


def _texts(corpus: CorpusFile, split: str) -> Words:
    where = {"split": split, "version": corpus.version}
    rows = corpus.database.table("vectors/clusters/texts_of_split", where)
    return np.asarray(rows["text_hash"].to_numpy())


def _unit(vectors: Any) -> Singles:
    single = np.asarray(vectors, np.float32)
    lengths = np.linalg.norm(single, axis=1, keepdims=True)
    return np.asarray(single / np.maximum(lengths, np.finfo(np.float32).tiny), np.float32)


def _by_nearness(centres: Singles) -> Integers:
    """Return an order of centres: one at the edge, and after each the nearest of the others."""
    order, is_left = np.zeros(len(centres), np.int64), np.ones(len(centres), dtype=bool)
    at = int(np.argmin(centres @ centres.mean(axis=0)))
    for place in range(len(centres)):
        order[place], is_left[at] = at, False
        at = int(np.argmax(np.where(is_left, centres @ centres[at], -np.inf)))
    return order


def _nearest(of: OpenedVectors, centres: Any) -> Integers:
    """Return the number of the centre nearest to each row."""
    units, rows = _unit(centres).T, max(1, _PRODUCTS // len(centres))
    parts = (of.matrix[low : low + rows] for low in range(0, len(of.matrix), rows))
    return np.concatenate([np.argmax(_unit(part) @ units, axis=1) for part in parts])
