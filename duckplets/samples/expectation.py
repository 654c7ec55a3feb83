"""Tell what a stream will draw without drawing: its pool and mined negatives → means and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from duckplets.base.arrays import Flags, Floats, Integers
from duckplets.pools.arrays import Anchors, Negatives, Positives

if TYPE_CHECKING:
    from duckplets.samples.candidates import Candidates
    from duckplets.samples.stream import Stream


def fallback_anchors(anchors: Anchors, candidates: Candidates, slots: int) -> int:
    """Return how many anchors have a chunk with fewer mined candidates than a sample takes."""
    own = np.append(candidates.own(), 0)  # the last is of those without a row
    return with_any(anchors, own[candidates.rows] < slots)


def with_any(anchors: Anchors, chunks: Flags) -> int:
    """Return how many anchors have one of some of their chunks."""
    return int(np.logical_or.reduceat(chunks, anchors.starts[:-1]).sum())


def tokens(
    stream: Stream,
    tokens_of: Callable[[Integers], Integers],
    times: tuple[float, float] = (1, 1),
) -> float:
    """Return the tokens of one visit to every anchor, on average over many visits.

    What rotates comes up evenly; random negatives are taken to come from all that the anchor's
    class may draw, also from the few chunks that are illegal for one anchor.

    Args:
        stream: Whose anchors.
        tokens_of: Returns how many tokens chunks have, by their keys.
        times: How often a visit shows anchor and positive: of drawn pairs one of them several
            times.
    """
    pool = stream.pool
    anchors, positives, negatives = pool.anchors, pool.positives, pool.negatives
    own = tokens_of(anchors.chunks).astype(np.float64)
    total = own * times[0]
    if positives is not None:
        same = pool.compiled.own_positive
        of_positives = own if same else _of_positives(anchors, positives, own, tokens_of)
        total += times[1] * of_positives
    if negatives is not None:
        total += stream.negatives * _of_negatives(stream, negatives, tokens_of)
    return float(_by_anchor(anchors, total).sum())


def _by_anchor(anchors: Anchors, values: Floats) -> Floats:
    """Return the mean over each anchor's chunks."""
    starts = anchors.starts
    means: Floats = np.add.reduceat(values, starts[:-1]) / np.diff(starts)
    return means


def _of_positives(
    anchors: Anchors,
    positives: Positives,
    own: Floats,
    tokens_of: Callable[[Integers], Integers],
) -> Floats:
    """Return the mean tokens of the positives of every anchor chunk.

    Those it must not take have its own text, and so its own tokens.
    """
    sums = np.concatenate([[0], np.cumsum(tokens_of(positives.chunks))])
    last = positives.starts + positives.counts
    unit = np.repeat(np.arange(len(anchors)), np.diff(anchors.starts))
    total, count = (sums[last] - sums[positives.starts])[unit], positives.counts[unit]
    banned = 0 if positives.banned is None else positives.banned.counts
    means: Floats = (total - banned * own) / (count - banned)
    return means


def _of_negatives(
    stream: Stream, pool: Negatives, tokens_of: Callable[[Integers], Integers]
) -> Floats:
    """Return the mean tokens of a negative of every anchor chunk."""
    tokens = tokens_of(pool.chunks).astype(np.float64)
    whole = stream.pool.compiled.own_negatives  # drawn by the chunk, not by the record first
    of_classes = _at_random(pool, tokens, whole=whole)
    beyond = stream.pool.beyond
    if beyond is not None and len(beyond.chunks):  # where a class has too few of its own
        own = np.minimum(pool.counts() / stream.negatives, 1)
        of_classes = own * of_classes + (1 - own) * tokens_of(beyond.chunks).mean()
    at_random = of_classes[stream.pool.anchors.classes]
    candidates = stream.candidates
    if candidates is None:
        return at_random
    documents = candidates.documents
    tokens = tokens if documents.chunks is None else tokens[documents.chunks]
    of_documents = np.add.reduceat(tokens, documents.firsts[:-1]) / np.diff(documents.firsts)
    means, counts = candidates.means(of_documents, slots=stream.negatives)
    rows = candidates.rows
    mined = np.minimum(np.append(counts, 0)[rows] / stream.negatives, 1)
    return np.asarray(mined * np.append(means, 0)[rows] + (1 - mined) * at_random, np.float64)


def _at_random(pool: Negatives, tokens: Floats, *, whole: bool) -> Floats:
    """Return the mean tokens of a chunk that each class may draw, or of all of a record.

    0 for a class that has none.
    """
    chunks = np.diff(pool.starts)
    sums = _sums(tokens, pool.starts)
    values, counts = (sums, chunks) if whole else (sums / chunks, np.ones(len(chunks)))
    sizes = np.diff(pool.sums)
    found = []
    for of_units in (values, counts):
        upto = np.concatenate([[0], np.cumsum(of_units)])
        in_range = upto[pool.lows + sizes] - upto[pool.lows]
        found.append(_sums(in_range, pool.firsts))
    none = np.zeros(len(found[0]))
    return np.divide(found[0], found[1], out=none, where=found[1] > 0)


def _sums(values: Floats, starts: Integers) -> Floats:
    """Return the sum of every stretch of values; one may be empty."""
    upto = np.concatenate([[0.0], np.cumsum(values)])
    sums: Floats = upto[starts[1:]] - upto[starts[:-1]]
    return sums
