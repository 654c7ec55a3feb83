"""Apportion positions: from weights to how many, and which, positions each leaf gets, exactly.

The leaves are the sources of a run, or the recipes of a source. ``Apportionment`` deals by constant
shares: nested two-way splits with a closed form, so any stretch is dealt without walking there.
``Stairs`` deals by shares that change at given positions, each stair in that closed form.

Only integers decide, so the result is the same everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.order.permute import key

MAX_SPAN = 1 << 18  # positions planned at once

_HALF = 18  # bits of an item's number that are multiplied at once

_BITS = 44  # of a ratio of stairs
_ONE = 1 << _BITS


# -- constant shares --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """What one leaf gets of some positions.

    Attributes:
        leaf: Index of the leaf among the weights.
        offsets: Which of the positions, counted from the first of those asked for.
        indexes: Its own index of each of them.
    """

    leaf: int
    offsets: Integers
    indexes: Integers


class Apportionment:
    """Deals positions to weighted leaves so that every prefix is as fair as can be.

    A balanced tree of two-way splits: of the first t items at a node ``(t*w + phase) // W`` go
    left, with the phase hashed from the key. After t positions each of S leaves is off its
    exact share by less than 1 (S = 2), else by less than ceil(log2 S) + 1.

    Args:
        weights: Integers from ``exact_weights``; a leaf of weight 0 gets nothing.
        purpose: Key that rotates the phases.
    """

    def __init__(self, weights: Sequence[int], purpose: int) -> None:
        self._weights = tuple(weights)
        leaves = tuple(i for i, w in enumerate(weights) if w > 0)
        self._root = _root(self._weights, leaves, purpose)

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield the share of every leaf that has one in positions that ascend, gaps or not.

        The last is less than 2^34 after the first.
        """
        if len(positions):
            first = int(positions[0])
            offsets = np.arange(len(positions), dtype=np.int64)
            yield from _descend(self._root, first, positions - first, offsets)

    def parts(self) -> list[float]:
        """Return the share of every leaf; together 1."""
        return [weight / self._root.total for weight in self._weights]

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first ``positions`` go to each leaf, in closed form."""
        return _counts(self._root, positions, len(self._weights))


@dataclass(frozen=True, slots=True)
class _Node:
    leaves: tuple[int, ...]
    total: int
    left_total: int
    phase: int
    left: _Node | None
    right: _Node | None


def _tree(weights: tuple[int, ...], leaves: tuple[int, ...], purpose: int) -> _Node:
    total = sum(weights[i] for i in leaves)
    if len(leaves) == 1:
        return _Node(leaves, total, total, 0, None, None)
    half = len(leaves) // 2
    lower, upper = leaves[:half], leaves[half:]
    left_total = sum(weights[i] for i in lower)
    phase = key(purpose, "phase", *leaves) * total >> 64
    left, right = _tree(weights, lower, purpose), _tree(weights, upper, purpose)
    return _Node(leaves, total, left_total, phase, left, right)


_root = lru_cache(maxsize=256)(_tree)


def _counts(root: _Node, items: int, leaves: int) -> list[int]:
    """Return how many of the first ``items`` at a node go to each leaf."""
    found = [0] * leaves
    waiting = [(root, items)]
    while waiting:
        node, t = waiting.pop()
        if node.left is None or node.right is None:
            found[node.leaves[0]] = t
            continue
        left = (t * node.left_total + node.phase) // node.total
        waiting += [(node.left, left), (node.right, t - left)]
    return found


def _descend(node: _Node, first: int, items: Integers, offsets: Integers) -> Iterator[Share]:
    """Deal items of a node, counted from the first of them."""
    if len(items) == 0:
        return
    if node.left is None or node.right is None:
        yield Share(node.leaves[0], offsets, items + first)
        return
    before, rest = divmod(first * node.left_total + node.phase, node.total)
    lefts, rests = _divided(items, node.left_total, rest, node.total)
    is_left = rests >= node.total - node.left_total
    yield from _descend(node.left, before, lefts[is_left], offsets[is_left])
    is_right = ~is_left
    yield from _descend(node.right, first - before, (items - lefts)[is_right], offsets[is_right])


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

    Args:
        shares: Integer shares of every stair: shape (stairs, leaves). 0 in all means none.
        edges: First item of every stair, from 0, and the end of the last.
        purpose: Key that rotates the phases.
    """

    def __init__(self, shares: Sequence[Sequence[int]], edges: Sequence[int], purpose: int) -> None:
        self._shares = np.array(shares, dtype=object)
        self._edges = list(edges)
        self._before = np.zeros(self._shares.shape, dtype=object)  # of each leaf in earlier stairs
        leaves = tuple(np.flatnonzero(self._shares.any(axis=0)).tolist())
        self._root = self._carried(leaves, np.diff(np.array(edges, dtype=object)), purpose)
        self._trees: dict[int, _Node] = {}

    def deal(self, items: Integers) -> Iterator[Share]:
        """Yield the share of every leaf that has one in items that ascend, gaps or not."""
        low = 0
        while low < len(items):
            stair = self._stair(int(items[low]))
            begin, end = self._edges[stair], self._edges[stair + 1]
            high = int(np.searchsorted(items, end)) if stair + 2 < len(self._edges) else len(items)
            first, counts = int(items[low]), self._before[stair]
            offsets = np.arange(low, high, dtype=np.int64)
            tree = self._tree_of(stair)
            for share in _descend(tree, first - begin, items[low:high] - first, offsets):
                yield Share(share.leaf, share.offsets, share.indexes + counts[share.leaf])
            low = high

    def counts(self, items: int) -> list[int]:
        """Return how many of the first ``items`` go to each leaf, in closed form."""
        stair = self._stair(items)
        own = _counts(self._tree_of(stair), items - self._edges[stair], self._shares.shape[1])
        return [a + b for a, b in zip(self._before[stair], own, strict=True)]

    def parts(self, weights: Sequence[float]) -> list[float]:
        """Return the mean share of every leaf, with a weight for each stair."""
        of_stairs = np.array(self._shares / self._shares.sum(axis=1, keepdims=True), np.float64)
        parts: list[float] = np.average(of_stairs, axis=0, weights=weights).tolist()
        return parts

    def _stair(self, item: int) -> int:
        return min(bisect_right(self._edges, item), len(self._edges) - 1) - 1

    def _carried(self, leaves: tuple[int, ...], items: Any, purpose: int) -> _Carried:
        """Return what comes to the leaves of a node in each stair, of so many items."""
        if len(leaves) == 1:
            self._before[1:, leaves[0]] = np.cumsum(items[:-1])
            return _Carried(leaves, items, items, None, None)
        half = len(leaves) // 2
        lower, both = (self._shares[:, of].sum(axis=1) for of in (leaves[:half], leaves))
        ratios = lower * _ONE // both
        phase = key(purpose, "stairs", *leaves) * _ONE >> 64
        sums = np.concatenate([[phase], phase + np.cumsum(items * ratios)])
        lefts = np.diff(sums >> _BITS)
        left = self._carried(leaves[:half], lefts, purpose)
        right = self._carried(leaves[half:], items - lefts, purpose)
        return _Carried(leaves, ratios, sums[:-1] & (_ONE - 1), left, right)

    def _tree_of(self, stair: int) -> _Node:
        if stair not in self._trees:
            self._trees[stair] = self._root.tree(stair)
        return self._trees[stair]


@dataclass(frozen=True, slots=True)
class _Carried:
    """A node of all stairs: arrays of Python integers with an entry a stair."""

    leaves: tuple[int, ...]
    ratios: Any  # of the left side, in units of 2^-44
    phases: Any
    left: _Carried | None
    right: _Carried | None

    def tree(self, stair: int) -> _Node:
        """Return what deals the items of one stair."""
        if self.left is None or self.right is None:
            return _Node(self.leaves, 1, 1, 0, None, None)
        left, right = self.left.tree(stair), self.right.tree(stair)
        ratio, phase = self.ratios[stair], self.phases[stair]
        return _Node(self.leaves, _ONE, ratio, phase, left, right)
