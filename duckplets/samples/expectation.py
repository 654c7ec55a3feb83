"""Tell what a stream will draw without drawing: its pool and mined negatives → means and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from duckplets.base.arrays import Flags, Integers
from duckplets.pools.arrays import Anchors

if TYPE_CHECKING:
    from duckplets.samples.candidates import Candidates
    from duckplets.samples.stream import Stream


def fallback_anchors(anchors: Anchors, candidates: Candidates, slots: int) -> int:
    """Return how many anchors have a chunk with fewer mined candidates than a sample takes."""
    return with_any(anchors, candidates.own()[candidates.rows] < slots)


def with_any(anchors: Anchors, chunks: Flags) -> int:
    """Return how many anchors have one of some of their chunks."""
    return int(np.logical_or.reduceat(chunks, anchors.starts[:-1]).sum())


def mean_tokens(
    stream: Stream, tokens_of: Callable[[Integers], Integers], per_draw: int, *, swaps: bool
) -> float:
    """Return the tokens that a sample of a stream has, by the means of what its slots draw from.

    Args:
        stream: Whose samples.
        tokens_of: Returns how many tokens chunks have, by their keys.
        per_draw: Samples of a draw, one with the positive and the others with a negative each.
        swaps: Whether anchor and positive change places in half of the samples.
    """
    pool, k = stream.pool, stream.negatives
    anchor = _mean(
        tokens_of(pool.anchors.chunks), pool.anchors.starts[:-1], pool.anchors.starts[1:]
    )
    if pool.positives is None:
        return anchor
    positive, negative = anchor, 0.0
    if not pool.compiled.own_positive:
        starts = pool.positives.starts
        positive = _mean(tokens_of(pool.positives.chunks), starts, starts + pool.positives.counts)
    if pool.negatives is not None and len(pool.negatives.chunks):
        starts = pool.negatives.starts  # of the records, of which one is drawn first
        if pool.compiled.own_negatives:
            starts = np.arange(len(pool.negatives.chunks) + 1)
        negative = _mean(tokens_of(pool.negatives.chunks), starts[:-1], starts[1:])
    if per_draw == 1:
        return anchor + positive + k * negative
    if swaps:
        anchor = positive = (anchor + positive) / 2
    return anchor + (positive + (per_draw - 1) * negative) / per_draw


def _mean(tokens: Integers, starts: Integers, stops: Integers) -> float:
    """Return the mean over anchors of the mean of what each has."""
    upto = np.concatenate([[0], np.cumsum(tokens)])
    return float(((upto[stops] - upto[starts]) / np.maximum(stops - starts, 1)).mean())
