"""Ramps: dealing positions to sources while their shares change from step to step.

Over ``steps`` steps the shares of the leaves move linearly from one set to another. As in
``Apportionment`` a balanced tree of two-way splits deals, here with a ratio of its own at every
step: of the items that have come to a node, the left side has got the integer part of the sum
of their ratios. Ratios are fixed-point numbers, so that sums are exact and any stretch of a ramp
can be dealt from what was left over at the begin of a step. Those remainders are kept for every
4096th step; the steps between are summed at once, not item by item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from duckplets.order.permute import Integers, Share, key

Floats = npt.NDArray[np.float64]

_BITS = 40  # of a ratio: with 2^22 items a step and 2^22 steps at once sums stay below 2^63
_ONE = 1 << _BITS
_STEPS = 4096  # between two kept states


@dataclass(frozen=True, slots=True)
class _Node:
    index: int
    leaf: int
    left: _Node | None
    right: _Node | None
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
        weights = {leaf: (low, high - low) for leaf, (low, high) in enumerate(scaled) if low + high}
        self._root = self._tree(tuple(weights), weights)
        phases = [key(purpose, "ramp", node) >> (64 - _BITS) for node in range(self._nodes)]
        self._kept = [_State(phases, [0] * len(start))]
        self._lock = Lock()

    def shares(self, start: int, stop: int) -> Iterator[Share]:
        """Yield the share of every leaf that has one in items ``start … stop-1``."""
        if stop <= start:
            return
        step = int(self._step_of(np.array([start]))[0])
        state = self._state(step)
        first = int(self._edges(np.array([step]))[0])
        items = np.arange(first, stop, dtype=np.int64)
        counts = state.counts.copy()
        ones = np.ones(len(items), dtype=np.int64)
        for leaf, rows, _ in self._deal(self._root, items, self._step_of(items), ones, state):
            before = int(np.searchsorted(rows, start))
            if before < len(rows):
                yield Share(leaf, rows[before:] - start, counts[leaf] + before)

    def count(self, leaf: int, items: int) -> int:
        """Return how many of the first ``items`` go to a leaf."""
        step = int(self._step_of(np.array([items]))[0])
        found = self._state(step).counts[leaf]
        first = int(self._edges(np.array([step]))[0])
        return found + sum(len(s.offsets) for s in self.shares(first, items) if s.leaf == leaf)

    def _tree(self, leaves: tuple[int, ...], weights: dict[int, tuple[int, int]]) -> _Node:
        total = [sum(weights[leaf][i] for leaf in leaves) for i in (0, 1)]
        if len(leaves) == 1:
            return _Node(-1, leaves[0], None, None, total[0], total[1], total[0], total[1])
        half = len(leaves) // 2
        lower = [sum(weights[leaf][i] for leaf in leaves[:half]) for i in (0, 1)]
        index, self._nodes = self._nodes, self._nodes + 1
        left, right = self._tree(leaves[:half], weights), self._tree(leaves[half:], weights)
        return _Node(index, -1, left, right, lower[0], lower[1], total[0], total[1])

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
        self, node: _Node, rows: Integers, steps: Integers, items: Integers, state: _State
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


def _ratios(node: _Node, way: Floats) -> Integers:
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
