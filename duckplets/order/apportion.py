"""Apportion positions: from weights to how many, and which, positions each leaf gets, exactly.

The leaves are the sources of a run, or the recipes of a source. ``exact_shares`` turns weights into
integers in their exact ratio. ``Apportionment`` deals by constant shares: nested two-way splits
with a closed form, so any stretch is dealt without walking there. ``Ramp`` deals while the shares
move linearly, step by step, from one set to another: the same tree, with a ratio of its own at
every step. Of the items that have come to a node, the left side has then got the integer part of
the sum of their ratios. Ratios are fixed-point numbers, so that sums are exact and a stretch can be
dealt from what was left over at the begin of a step. Those remainders are kept for every 4096th
step; the steps between are summed at once, not item by item.

Only integers decide, and floats rounded as IEEE 754 says, so the result is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

import numpy as np

from duckplets.base.arrays import Floats, Integers
from duckplets.order.permute import key

MAX_SPAN = 1 << 18  # positions apportioned at once

_HALF = 18  # bits of an item's number that are multiplied at once

_BITS = 40  # of a ratio: with 2^22 items a step and 2^22 steps at once sums stay below 2^63
_ONE = 1 << _BITS
_STEPS = 4096  # between two kept states
_AT_ONCE = 1 << 20  # steps times nodes that are dealt only to be counted


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

    @property
    def start(self) -> int:
        """Its own index of the first of them."""
        return int(self.indexes[0])


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

    def shares(self, start: int, stop: int) -> Iterator[Share]:
        """Yield the share of every leaf that has one in positions ``start … stop-1``."""
        if stop - start > MAX_SPAN:
            raise ValueError(f"at most {MAX_SPAN} positions at a time, not {stop - start}")
        yield from self.deal(np.arange(start, stop, dtype=np.int64))

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield the share of every leaf that has one in positions that ascend, gaps or not.

        The last is less than 2^34 after the first.
        """
        if len(positions):
            first = int(positions[0])
            offsets = np.arange(len(positions), dtype=np.int64)
            yield from _descend(self._root, first, positions - first, offsets)

    def count(self, leaf: int, positions: int) -> int:
        """Return how many of the first ``positions`` go to a leaf, in closed form."""
        node, t = self._root, positions
        if leaf not in node.leaves:
            return 0
        while node.left is not None and node.right is not None:
            left = (t * node.left_total + node.phase) // node.total
            node, t = (node.left, left) if leaf in node.left.leaves else (node.right, t - left)
        return t

    def parts(self) -> list[float]:
        """Return the share of every leaf; together 1."""
        return [weight / self._root.total for weight in self._weights]

    def counts_exactly(self, positions: int) -> list[int]:
        """Return the same as ``counts``, which is exact here."""
        return self.counts(positions)

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first ``positions`` go to each leaf, in closed form."""
        found = [0] * len(self._weights)
        waiting = [(self._root, positions)]
        while waiting:
            node, t = waiting.pop()
            if node.left is None or node.right is None:
                found[node.leaves[0]] = t
                continue
            left = (t * node.left_total + node.phase) // node.total
            waiting += [(node.left, left), (node.right, t - left)]
        return found


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


# -- shares that change -----------------------------------------------------------------------


class Ramp:
    """Deals items to leaves whose shares change linearly.

    Args:
        start: Integer shares at the first step; 0 means none.
        end: Integer shares that would be in force at step ``steps``, which is no more of it.
        steps: Number of steps.
        edges: Returns the first items of given steps, counted from the first of the ramp.
        step_of: Returns the steps of given items.
        purpose: Key that rotates the phases.
    """

    def __init__(
        self,
        start: Sequence[int],
        end: Sequence[int],
        steps: int,
        *,
        edges: Callable[[Integers], Integers],
        step_of: Callable[[Integers], Integers],
        purpose: int,
    ) -> None:
        self._edges = edges
        self._step_of = step_of
        self._nodes = 0
        self._steps = steps
        scaled = list(zip(_scaled(start), _scaled(end), strict=True))
        self._weights = scaled
        weights = {leaf: (low, high - low) for leaf, (low, high) in enumerate(scaled) if low + high}
        self._root = self._tree(tuple(weights), weights)
        phases = [key(purpose, "ramp", node) >> (64 - _BITS) for node in range(self._nodes)]
        self._kept = [_State(phases, [0] * len(start))]
        self._lock = Lock()

    def shares(self, start: int, stop: int) -> Iterator[Share]:
        """Yield the share of every leaf that has one in items ``start … stop-1``."""
        return self.deal(np.arange(start, stop, dtype=np.int64))

    def deal(self, items: Integers) -> Iterator[Share]:
        """Yield the share of every leaf that has one in items that ascend, gaps or not."""
        if len(items) == 0:
            return
        first, last = self._step_of(items[[0, -1]]).tolist()
        state = self._state(first)
        edges = self._edges(np.arange(first, last + 1, dtype=np.int64))
        # A row is one of the items, or what lies between two of them in one step.
        begins = np.unique(np.concatenate([edges, items, items[:-1] + 1]))
        begins = begins[: int(np.searchsorted(begins, items[-1])) + 1]
        sizes = np.diff(begins, append=items[-1] + 1)
        number = np.full(len(begins), -1, dtype=np.int64)
        number[np.searchsorted(begins, items)] = np.arange(len(items))
        counts, rows = state.counts.copy(), np.arange(len(begins))
        for leaf, own, taken in self._deal(self._root, rows, self._step_of(begins), sizes, state):
            (asked,) = np.nonzero(number[own] >= 0)
            if len(asked):
                before = np.cumsum(taken) - taken
                yield Share(leaf, number[own[asked]], before[asked] + counts[leaf])

    def counts_exactly(self, items: int) -> list[int]:
        """Return how many of the first ``items`` go to each leaf, however long dealing takes."""
        step = int(self._step_of(np.array([items]))[0])
        found = self._state(step).counts
        first = int(self._edges(np.array([step]))[0])
        for share in self.shares(first, items):
            found[share.leaf] += len(share.offsets)
        return found

    def count(self, leaf: int, items: int) -> int:
        """Return how many of the first ``items`` go to a leaf."""
        return self.counts_exactly(items)[leaf]

    def counts(self, items: int) -> list[int]:
        """Return how many of the first ``items`` go to each leaf.

        Where ``is_long``, they are worked out from the mean shares, without dealing a step: off by
        less than 2 for two leaves, else by less than ``2 * ceil(log2 leaves) + 1``.
        """
        step = int(self._step_of(np.array([items]))[0])
        first = int(self._edges(np.array([step]))[0])
        if self.is_long(items):
            both = zip(self.parts(0, step - 1), self.parts(step, step), strict=True)
            return _rounded([first * w + (items - first) * p for w, p in both], items)
        return self.counts_exactly(items)

    def is_long(self, items: int) -> bool:
        """Return whether dealing so many items, to count them, would take a tenth of a second."""
        return int(self._step_of(np.array([items]))[0]) * self._nodes > _AT_ONCE

    def parts(self, start: int, stop: int) -> list[float]:
        """Return the mean share of every leaf over steps ``start … stop``, both ends included.

        The shares add up to the same at every step, so each moves in a line.
        """
        way = (start + stop) / 2 / self._steps
        parts = [low + (high - low) * way for low, high in self._weights]
        return [part / sum(parts) for part in parts]

    def _tree(self, leaves: tuple[int, ...], weights: dict[int, tuple[int, int]]) -> _RampNode:
        total = [sum(weights[leaf][i] for leaf in leaves) for i in (0, 1)]
        if len(leaves) == 1:
            return _RampNode(-1, leaves[0], None, None, total[0], total[1], total[0], total[1])
        half = len(leaves) // 2
        lower = [sum(weights[leaf][i] for leaf in leaves[:half]) for i in (0, 1)]
        index, self._nodes = self._nodes, self._nodes + 1
        left, right = self._tree(leaves[:half], weights), self._tree(leaves[half:], weights)
        return _RampNode(index, -1, left, right, lower[0], lower[1], total[0], total[1])

    def _state(self, step: int) -> _State:
        """Return the state at the begin of a step."""
        with self._lock:
            while (len(self._kept) - 1) * _STEPS + _STEPS <= step:
                at = (len(self._kept) - 1) * _STEPS
                self._kept.append(self._forward(self._kept[-1], at, at + _STEPS))
            kept = step // _STEPS
            return self._forward(self._kept[kept], kept * _STEPS, step)

    def _forward(self, state: _State, start: int, stop: int) -> _State:
        """Return the state some steps later: a row is a whole step here, not an item."""
        state = state.copy()
        steps = np.arange(start, stop, dtype=np.int64)
        if len(steps) == 0:
            return state
        items = np.diff(self._edges(np.arange(start, stop + 1, dtype=np.int64)))
        for leaf, _, taken in self._deal(self._root, steps, steps, items, state):
            state.counts[leaf] += int(taken.sum())
        return state

    def _deal(
        self, node: _RampNode, rows: Integers, steps: Integers, items: Integers, state: _State
    ) -> Iterator[tuple[int, Integers, Integers]]:
        """Yield (leaf, rows, items of each row); remainders in the state are brought forward."""
        if len(rows) == 0:
            return
        if node.left is None or node.right is None:
            yield node.leaf, rows, items
            return
        mass = items * _ratios(node, steps / self._steps)
        low = np.cumsum(mass & (_ONE - 1)) + state.remainders[node.index]
        got = np.cumsum(mass >> _BITS) + (low >> _BITS)
        state.remainders[node.index] = int(low[-1]) & (_ONE - 1)
        lefts = np.diff(got, prepend=0)
        for side, taken in ((node.left, lefts), (node.right, items - lefts)):
            some = taken > 0
            yield from self._deal(side, rows[some], steps[some], taken[some], state)


@dataclass(frozen=True, slots=True)
class _RampNode:
    index: int
    leaf: int
    left: _RampNode | None
    right: _RampNode | None
    # Weight of the left side and of both at the first step, and how they change over the ramp.
    left_from: int
    left_by: int
    total_from: int
    total_by: int


@dataclass(slots=True)
class _State:
    """What is left over at every node, and what every leaf has got so far."""

    remainders: list[int]
    counts: list[int]

    def copy(self) -> _State:
        return _State(self.remainders.copy(), self.counts.copy())


def _ratios(node: _RampNode, way: Floats) -> Integers:
    """Return the part of the left side, in units of 2^-40, at parts of the way (0 to 1).

    Each operation is rounded as IEEE 754 says, one after the other, so the same everywhere.
    """
    left = node.left_from + node.left_by * way
    total = node.total_from + node.total_by * way
    parts = np.divide(left, total, out=np.zeros_like(way), where=total > 0)
    return np.asarray(np.floor(np.clip(parts, 0, 1) * _ONE), np.int64)


def _scaled(shares: Sequence[int]) -> list[int]:
    """Return shares that add up to about 2^52, exact as floats; none that is positive becomes 0."""
    total = sum(shares)
    return [max(1, (share << 52) // total) if share else 0 for share in shares]


def _rounded(parts: Sequence[float], total: int) -> list[int]:
    """Return whole numbers near the parts that add up to their total."""
    found = [int(part) for part in parts]
    by_rest = sorted(range(len(parts)), key=lambda leaf: found[leaf] - parts[leaf])
    for leaf in by_rest[: total - sum(found)]:
        found[leaf] += 1
    return found
