"""Apportion positions: from weights to how many, and which, positions each leaf gets, exactly.

The leaves are the sources of a run, or the recipes of a source. ``Apportionment`` deals by constant
shares: nested two-way splits with a closed form, so any stretch is dealt without walking there.
``Stairs`` deals by shares that change at given positions, each stair in that closed form;
``Buckets`` deals whole batches to buckets and the draws within a bucket's batches to sources.

Only integers decide, so the result is the same everywhere.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import MixtureError
from duckplets.order.permute import key

MAX_SPAN = 1 << 18  # positions planned at once

_MAX_TOTAL = 1 << 44  # of integer weights
_HALF = 18  # bits of an item's number that are multiplied at once
_BITS = 44  # of a ratio of stairs
_ONE = 1 << _BITS

# Decimal's ln, exp and division round correctly, so the last digit is the same everywhere; those
# of floats are not. The digits beyond the kept ones go, so that 4 at T = 2 is 2 and not 1.99…9.
_FINE, _KEPT = Context(prec=60), Context(prec=40)
_LEAST_LOG = Decimal(-100)  # e^-100 is far less than one part in 2^44: all below is one part


# -- weights as integers ----------------------------------------------------------------------


def exact(weight: float | Fraction) -> Fraction:
    """Return a weight exactly as it is written: 0.1 is 1/10."""
    return Fraction(weight) if isinstance(weight, Rational) else Fraction(repr(float(weight)))


def exact_weights(weights: Sequence[float | Fraction]) -> tuple[int, ...]:
    """Return integers in the exact ratio of the weights as written (1.009 is 1009/1000).

    Ratios whose integers would add up to more than 2^44 are rounded to that precision: at
    position 10^12 that moves a count by less than a tenth of a sample a leaf.
    """
    return _integers(tuple(map(exact, weights)))


@lru_cache(maxsize=256)
def _integers(fractions: tuple[Fraction, ...]) -> tuple[int, ...]:
    total, most = sum(fractions), _MAX_TOTAL - len(fractions)
    common = math.lcm(*(fraction.denominator for fraction in fractions))
    integers = [int(fraction * common) for fraction in fractions]
    divisor = math.gcd(*integers) or 1
    integers = [integer // divisor for integer in integers]
    if sum(integers) > _MAX_TOTAL:
        integers = [max(1, round(f / total * most)) if f else 0 for f in fractions]
    return tuple(integers)


def exact_shares(weights: Sequence[float | Fraction], temperature: float) -> tuple[int, ...]:
    """Return integers in the ratio of ``weight ** (1 / temperature)``, the same everywhere.

    At temperature 1 the ratio is exact. Else it is computed in decimals of 40 digits. The sum
    is at most 2^44: a positive weight gets at least 1 of it (a sample in 17 million million),
    however small its share would be, and 0 stays 0.
    """
    fractions = [exact(weight) for weight in weights]
    heaviest = max(fractions, default=Fraction(0))
    if not heaviest:
        raise MixtureError("every weight is 0; give at least one more than that")
    if temperature != 1:
        divisor = Decimal(repr(float(temperature)))
        fractions = [_tempered(f / heaviest, divisor) if f else f for f in fractions]
    return _integers(tuple(fractions))


def _tempered(ratio: Fraction, temperature: Decimal) -> Fraction:
    """Return ``ratio ** (1 / temperature)`` for a ratio above 0 and up to 1."""
    decimal = _FINE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    exponent = _FINE.divide(_FINE.ln(decimal), temperature)
    return Fraction(_KEPT.plus(_FINE.exp(max(exponent, _LEAST_LOG))))


# -- constant shares --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """What one leaf gets of some positions."""

    leaf: int
    offsets: Integers  # which of the positions, counted from the first of those asked for
    indexes: Integers  # the leaf's own index of each of them


class Apportionment:
    """Deals positions to weighted leaves so that every prefix is as fair as can be.

    A balanced tree of two-way splits: of the first t items at a node ``(t*w + phase) // W`` go
    left, with the phase hashed from the key. After t positions each of S leaves is off its
    exact share by less than 1 (S = 2), else by less than ceil(log2 S) + 1.
    """

    def __init__(self, weights: Sequence[int], purpose: int) -> None:
        self._weights = tuple(weights)  # of ``exact_weights``; a leaf of weight 0 gets nothing
        leaves = tuple(i for i, w in enumerate(weights) if w > 0)
        self._root = _root(self._weights, leaves, purpose)

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of positions that ascend, with or without gaps.

        The last is less than 2^34 after the first.
        """
        if len(positions):
            first = int(positions[0])
            offsets = np.arange(len(positions), dtype=np.int64)
            yield from _descend(self._root, 0, first, positions - first, offsets)

    def parts(self) -> list[float]:
        """Return the share of every leaf; together 1."""
        total = sum(self._weights)
        return [weight / total for weight in self._weights]

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first ``positions`` go to each leaf, in closed form."""
        return _counts(self._root, 0, positions, len(self._weights))


@dataclass(frozen=True, slots=True)
class _Node:
    """A split of leaves in two, or one leaf; by stair, of which constant shares have one."""

    leaves: tuple[int, ...]
    totals: Sequence[int] = ()
    left_totals: Sequence[int] = ()  # parts of those
    phases: Sequence[int] = ()
    left: _Node | None = None
    right: _Node | None = None


def _tree(weights: tuple[int, ...], leaves: tuple[int, ...], purpose: int) -> _Node:
    if len(leaves) == 1:
        return _Node(leaves)
    half = len(leaves) // 2
    lower, upper = leaves[:half], leaves[half:]
    total, left_total = (sum(weights[i] for i in of) for of in (leaves, lower))
    phase = key(purpose, "phase", *leaves) * total >> 64
    left, right = _tree(weights, lower, purpose), _tree(weights, upper, purpose)
    return _Node(leaves, [total], [left_total], [phase], left, right)


_root = lru_cache(maxsize=256)(_tree)


def _counts(root: _Node, stair: int, items: int, leaves: int) -> list[int]:
    """Return how many of the first ``items`` at a node go to each leaf."""
    found = [0] * leaves
    waiting = [(root, items)]
    while waiting:
        node, t = waiting.pop()
        if node.left is None or node.right is None:
            found[node.leaves[0]] = t
            continue
        left = (t * node.left_totals[stair] + node.phases[stair]) // node.totals[stair]
        waiting += [(node.left, left), (node.right, t - left)]
    return found


def _descend(
    node: _Node, stair: int, first: int, items: Integers, offsets: Integers
) -> Iterator[Share]:
    """Deal items of a node, counted from the first of them."""
    if len(items) == 0:
        return
    if node.left is None or node.right is None:
        yield Share(node.leaves[0], offsets, items + first)
        return
    total, by = node.totals[stair], node.left_totals[stair]
    before, rest = divmod(first * by + node.phases[stair], total)
    lefts, rests = _divided(items, by, rest, total)
    is_left = rests >= total - by
    yield from _descend(node.left, stair, before, lefts[is_left], offsets[is_left])
    is_right, items = ~is_left, items - lefts
    yield from _descend(node.right, stair, first - before, items[is_right], offsets[is_right])


def _divided(items: Integers, by: int, plus: int, total: int) -> tuple[Integers, Integers]:
    """Return quotient and rest of ``(items * by + plus) / total``, exactly, for items to 2^34."""
    if int(items[-1]) * by + plus < 1 << 63:
        products = items * by + plus
        quotients = products // total
        return quotients, products - quotients * total
    whole, rest = divmod(by << _HALF, total)
    high, low = items >> _HALF, items & ((1 << _HALF) - 1)
    products = high * rest + low * by + plus  # 2^60 and 2^62 and 2^44
    quotients = products // total
    return high * whole + quotients, products - quotients * total


# -- shares that change in stairs ----------------------------------------------------------------


class Stairs:
    """Deals items to leaves whose shares change at given items.

    At every node of the tree, what one stair leaves of an item goes on to the next: the phase of a
    stair is the remainder of the one before. So counts stay as near to the sum of the shares as
    those of an ``Apportionment`` to its shares.
    """

    # ``shares`` has shape (stairs, leaves), 0 in all for none; ``edges`` the first item of every
    # stair, from 0, and the end of the last.
    def __init__(self, shares: Sequence[Sequence[int]], edges: Sequence[int], purpose: int) -> None:
        self._shares = np.array(shares, dtype=object)
        self._edges = list(edges)
        self._before = np.zeros(self._shares.shape, dtype=object)  # of each leaf in earlier stairs
        leaves = tuple(np.flatnonzero(self._shares.any(axis=0)).tolist())
        self._root = self._carried(leaves, np.diff(np.array(edges, dtype=object)), purpose)

    def deal(self, items: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of items that ascend, with or without gaps."""
        low = 0
        while low < len(items):
            stair = self._stair(int(items[low]))
            begin, end = self._edges[stair], self._edges[stair + 1]
            high = int(np.searchsorted(items, end)) if stair + 2 < len(self._edges) else len(items)
            first, counts = int(items[low]), self._before[stair]
            offsets = np.arange(low, high, dtype=np.int64)
            own = items[low:high] - first
            for share in _descend(self._root, stair, first - begin, own, offsets):
                yield Share(share.leaf, share.offsets, share.indexes + counts[share.leaf])
            low = high

    def counts(self, items: int) -> list[int]:
        """Return how many of the first ``items`` go to each leaf, in closed form."""
        stair = self._stair(items)
        own = _counts(self._root, stair, items - self._edges[stair], self._shares.shape[1])
        return [a + b for a, b in zip(self._before[stair], own, strict=True)]

    def parts(self, weights: Sequence[float]) -> list[float]:
        """Return the mean share of every leaf, with a weight for each stair."""
        of_stairs = np.array(self._shares / self._shares.sum(axis=1, keepdims=True), np.float64)
        parts: list[float] = np.average(of_stairs, axis=0, weights=weights).tolist()
        return parts

    def _stair(self, item: int) -> int:
        return min(bisect_right(self._edges, item), len(self._edges) - 1) - 1

    def _carried(self, leaves: tuple[int, ...], items: Any, purpose: int) -> _Node:
        """Return the node of some leaves, to which so many items come in each stair.

        Arrays are of Python integers; ratios in units of 2^-44.
        """
        if len(leaves) == 1:
            self._before[1:, leaves[0]] = np.cumsum(items[:-1])
            return _Node(leaves)
        half = len(leaves) // 2
        lower, both = (self._shares[:, of].sum(axis=1) for of in (leaves[:half], leaves))
        ratios = lower * _ONE // both
        phase = key(purpose, "stairs", *leaves) * _ONE >> 64
        sums = np.concatenate([[phase], phase + np.cumsum(items * ratios)])
        lefts = np.diff(sums >> _BITS)
        left = self._carried(leaves[:half], lefts, purpose)
        right = self._carried(leaves[half:], items - lefts, purpose)
        phases = (sums[:-1] & (_ONE - 1)).tolist()
        return _Node(leaves, [_ONE] * len(ratios), ratios.tolist(), phases, left, right)


# -- batches of one bucket each ------------------------------------------------------------------


class Buckets:
    """Deals whole batches to buckets, and the draws of a bucket to sources, by constant shares.

    Bucket b gets batches in the ratio of the sum over sources of share times the part of the
    source's items that are in b, and within b a source gets its term of that sum. So each source
    has its share again, and comes to its items equally often in all buckets. The bound on counts
    holds for the batches of every bucket, not for prefixes of the run.

    A leaf is the number of the bucket times the number of sources, plus that of the source.
    """

    def __init__(
        self, shares: Sequence[int], items: Sequence[Sequence[int]], purpose: int, batch: int
    ) -> None:
        self._shares, self._batch = shares, batch
        totals = [max(1, sum(of)) for of in items]
        parts = [
            [Fraction(share * n, total) for share, n, total in zip(shares, of, totals, strict=True)]
            for of in zip(*items, strict=True)
        ]
        weights = exact_weights([sum(of, Fraction(0)) for of in parts])
        self._steps = Apportionment(weights, purpose)
        self._within = [  # a bucket without shares gets no batch
            Apportionment(exact_weights(of), key(purpose, bucket)) if any(of) else None
            for bucket, of in enumerate(parts)
        ]

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of positions that ascend, with or without gaps."""
        if len(positions) == 0:
            return
        steps, within = np.divmod(positions, self._batch)
        first = np.diff(steps, prepend=-1) > 0
        of_step = np.cumsum(first) - 1
        for share in self._steps.deal(steps[first]):
            begins = np.full(of_step[-1] + 1, -1)
            begins[share.offsets] = share.indexes * self._batch
            at = np.flatnonzero(begins[of_step] >= 0)
            dealt: Any = self._within[share.leaf]
            for part in dealt.deal(begins[of_step[at]] + within[at]):
                leaf = share.leaf * len(self._shares) + part.leaf
                yield Share(leaf, at[part.offsets], part.indexes)

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first so many positions go to each leaf."""
        steps, rest = divmod(positions, self._batch)
        before, after = (self._steps.counts(n) for n in (steps, steps + (rest > 0)))
        found: list[int] = []
        for dealt, batches, upto in zip(self._within, before, after, strict=True):
            draws = batches * self._batch + (upto - batches) * rest
            found += [0] * len(self._shares) if dealt is None else dealt.counts(draws)
        return found

    def parts(self) -> list[float]:
        """Return the share of every source; together 1."""
        return [share / sum(self._shares) for share in self._shares]
