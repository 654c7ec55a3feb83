"""Filling up: hashed legal documents for anchors that mining left short.

Every draw is a hash of the anchor's section key and a counter, so what an anchor gets depends on
nothing else: neither on blocks nor on other anchors.
"""

from __future__ import annotations

import numpy as np

from duckplets.base.arrays import Integers, Lists
from duckplets.order.permute import below, hashed, key

_DRAWS = 64  # and four for each document wanted: then what is still missing stays so


def filled(
    chosen: Lists,
    missing: Integers,
    excluded: Lists,
    allowed: Lists | None,
    documents: Integers,
    keys: Integers,
) -> Lists:
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
    pool = allowed or Lists(np.array([0, len(documents)]), documents)
    row = np.arange(len(keys)) if allowed is not None else np.zeros(len(keys), np.int64)
    sizes, width = pool.lengths[row], int(documents.max(initial=0)) + 1
    taken = [_cells(chosen, width), _cells(excluded, width)]
    found = np.full((len(keys), int(missing.max(initial=0))), -1, np.int64)
    got = np.zeros(len(keys), np.int64)
    refused = np.sort(np.concatenate(taken))
    for draw in range(_DRAWS + 4 * found.shape[1]):
        left = np.flatnonzero((got < missing) & (sizes > 0))
        if len(left) == 0:
            break
        words = hashed(purpose, keys[left], draw)
        drawn = pool.values[pool.starts[row[left]] + below(words, sizes[left])]
        legal = ~_among(left * width + drawn, refused)
        legal &= ~(found[left] == drawn[:, None]).any(axis=1)
        left, drawn = left[legal], drawn[legal]
        found[left, got[left]] = drawn
        got[left] += 1
    starts = np.concatenate([[0], np.cumsum(got)])
    return Lists(starts, found[found >= 0])


def _cells(lists: Lists, width: int) -> Integers:
    return lists.owners() * width + lists.values


def _among(cells: Integers, refused: Integers) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    if not len(refused):
        return np.zeros(len(cells), dtype=bool)
    at = np.minimum(np.searchsorted(refused, cells), len(refused) - 1)
    same: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = refused[at] == cells
    return same
