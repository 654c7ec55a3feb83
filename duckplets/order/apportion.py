"""Apportion positions to weighted leaves exactly: how many each gets, and which."""

# Leaves are the sources of a run, or the recipes of a source. Splits are in closed form, so any
# span is dealt without walking there; all decisions are made on integers.

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from numbers import Rational
from typing import Any, TypeAlias

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import MixtureError
from duckplets.order.permute import encoded, key

_MAX_TOTAL = 1 << 44  # of integer weights
_HALF = 18  # bits of an item's number multiplied at a time
_BITS = 44  # of a ratio of stairs
_ONE = 1 << _BITS

# Decimal's ln, exp and division are correctly rounded, unlike those of floats, so the last digit
# is the same everywhere. Guard digits are dropped, so that 4 at T = 2 is 2 and not 1.99…9.
_FINE, _KEPT = Context(prec=60), Context(prec=40)
_LEAST_LOG = Decimal(-100)  # e^-100 is far below one part in 2^44


def exact(weight: float | Fraction) -> Fraction:
    """Return a weight as the exact decimal fraction it is written as: 0.1 is 1/10."""
    return Fraction(*_ratio(weight))


def _ratio(weight: float | Fraction) -> tuple[int, int]:
    if isinstance(weight, Rational):
        return int(weight.numerator), int(weight.denominator)
    return Decimal(repr(float(weight))).as_integer_ratio()


def exact_weights(weights: Sequence[float | Fraction]) -> tuple[int, ...]:
    """Return integers in the exact ratio of the weights as written (1.009 is 1009/1000)."""
    # Their sum is at most 2^44; rounding moves a count of 10^12 by less than a tenth a leaf.
    return _integers([*map(_ratio, weights)])


def _integers(ratios: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    common = math.lcm(*(divisor for _, divisor in ratios))
    integers = [number * (common // divisor) for number, divisor in ratios]
    divisor = math.gcd(*integers) or 1
    integers = [integer // divisor for integer in integers]
    total, most = sum(integers), _MAX_TOTAL - len(integers)
    if total > _MAX_TOTAL:
        integers = [max(1, round(Fraction(i * most, total))) if i else 0 for i in integers]
    return tuple(integers)


def exact_shares(weights: Sequence[float | Fraction], temperature: float) -> tuple[int, ...]:
    """Return integers in the ratio of ``weight ** (1 / temperature)``, the same everywhere."""
    # The sum is at most 2^44, and a positive weight gets at least 1.
    ratios = [*map(_ratio, weights)]
    if not any(number for number, _ in ratios):
        raise MixtureError("every weight is 0; give at least one more than that")
    if temperature != 1:
        divisor, fractions = (
            Decimal(repr(float(temperature))),
            [Fraction(*ratio) for ratio in ratios],
        )
        heaviest = max(fractions)
        ratios = [_tempered(f / heaviest, divisor) if f else (0, 1) for f in fractions]
    return _integers(ratios)


def _tempered(ratio: Fraction, temperature: Decimal) -> tuple[int, int]:
    """Return ``ratio ** (1 / temperature)`` for a ratio in (0, 1]."""
    decimal = _FINE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    exponent = _FINE.divide(_FINE.ln(decimal), temperature)
    return _KEPT.plus(_FINE.exp(max(exponent, _LEAST_LOG))).as_integer_ratio()


@dataclass(frozen=True, slots=True)
class Share:
    """The positions that a leaf gets."""

    leaf: int
    offsets: Integers  # indices among the positions asked for
    indexes: Integers  # the leaf's own index for each


class Apportionment:
    """Deals positions to weighted leaves so that every prefix is as fair as can be."""

    # Of the first t items at a node of a balanced tree, ``(t*w + phase) // W`` go left. After t
    # positions each of S leaves is off its share by less than 1 (S = 2), otherwise by less than
    # ceil(log2 S) + 1.

    def __init__(self, weights: Sequence[int], purpose: int) -> None:
        self._weights, self._purpose = tuple(weights), purpose  # integers from ``exact_weights``
        self._leaves = tuple(leaf for leaf, weight in enumerate(weights) if weight > 0)
        self._sums = [0, *accumulate(weights[leaf] for leaf in self._leaves)]

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of ascending positions that span less than 2^34."""
        if len(positions):
            first = int(positions[0])
            yield from _descend(self._leaves, self._split, first, positions - first)

    def parts(self) -> list[float]:
        """Return the share of every leaf; they sum to 1."""
        total = sum(self._weights)
        return [weight / total for weight in self._weights]

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first ``positions`` each leaf gets, in closed form."""
        return _counts(self._leaves, self._split, positions, len(self._weights))

    def upto(self, leaf: int, positions: Integers) -> Integers:
        """Return how many of the first ``positions`` a leaf gets; they ascend."""
        low, high, at = 0, len(self._leaves), bisect_left(self._leaves, leaf)
        if len(positions) == 0 or leaf not in self._leaves[at : at + 1]:
            return np.zeros_like(positions)
        first = int(positions[0])
        items = positions - first
        while high - low > 1:
            middle = (low + high) // 2
            by, total, phase = self._split(low, middle, high)
            before, rest = divmod(first * by + phase, total)
            lefts, _ = divided(items, by, rest, total)
            if at < middle:
                first, items, high = before, lefts, middle
            else:
                first, items, low = first - before, items - lefts, middle
        return items + first

    def _split(self, low: int, middle: int, high: int) -> tuple[int, int, int]:
        start, total = self._sums[low], self._sums[high] - self._sums[low]
        phase = _phase(self._purpose, self._leaves[low:high]) * total >> 64
        return self._sums[middle] - start, total, phase


@lru_cache(maxsize=1 << 14)
def _phase(purpose: int, leaves: tuple[int, ...]) -> int:
    return key(purpose, _phase_of(leaves))


@lru_cache(maxsize=1 << 14)
def _phase_of(leaves: tuple[int, ...]) -> bytes:
    return b"".join(map(encoded, ("phase", *leaves)))


# How a node, of the leaves numbered ``low … high-1``, is split at the middle one: what goes left of
# how many items, and the phase.
_Split: TypeAlias = Callable[[int, int, int], tuple[int, int, int]]


def _counts(leaves: Sequence[int], split: _Split, items: int, size: int) -> list[int]:
    """Return how many of the first items each of ``size`` leaves gets."""
    found = [0] * size
    waiting = [(0, len(leaves), items)] if leaves else []
    while waiting:
        low, high, t = waiting.pop()
        if high - low == 1:
            found[leaves[low]] = t
            continue
        middle = (low + high) // 2
        by, total, phase = split(low, middle, high)
        left = (t * by + phase) // total
        waiting += [(low, middle, left), (middle, high, t - left)]
    return found


def _descend(leaves: Sequence[int], split: _Split, first: int, items: Integers) -> Iterator[Share]:
    """Deal ascending items, counted from the first of them."""
    waiting = [(0, len(leaves), first, items, np.arange(len(items), dtype=np.int64))]
    while waiting:
        low, high, first, items, offsets = waiting.pop()
        if len(items) == 0:
            continue
        if high - low == 1:
            yield Share(leaves[low], offsets, items + first)
            continue
        middle = (low + high) // 2
        by, total, phase = split(low, middle, high)
        before, rest = divmod(first * by + phase, total)
        lefts, rests = divided(items, by, rest, total)
        is_left = rests >= total - by
        is_right, rights = ~is_left, items - lefts
        waiting.append((middle, high, first - before, rights[is_right], offsets[is_right]))
        waiting.append((low, middle, before, lefts[is_left], offsets[is_left]))


def divided(items: Integers, by: int, plus: int, total: int) -> tuple[Integers, Integers]:
    """Return quotient and remainder of ``(items * by + plus) / total``, exactly."""
    if int(items[-1]) >> 34:
        products = items.astype(object) * by + plus
        quotients = products // total
        return quotients.astype(np.int64), (products - quotients * total).astype(np.int64)
    if int(items[-1]) * by + plus < 1 << 63:
        products = items * by + plus
        quotients = products // total
        return quotients, products - quotients * total
    whole, rest = divmod(by << _HALF, total)
    high, low = items >> _HALF, items & ((1 << _HALF) - 1)
    products = high * rest + low * by + plus  # 2^60 and 2^62 and 2^44
    quotients = products // total
    return high * whole + quotients, products - quotients * total


class Stairs:
    """Deal items to leaves whose shares change at given items."""

    # The phase of a stair at a node is the remainder of the previous one, so counts stay close.

    # ``shares`` has shape (stairs, leaves), 0 in all for none; ``edges`` the first item of every
    # stair, from 0, and the end of the last.
    def __init__(self, shares: Sequence[Sequence[int]], edges: Sequence[int], purpose: int) -> None:
        self._shares = np.array(shares, dtype=object)
        self._edges = list(edges)
        self._before = np.zeros(self._shares.shape, dtype=object)  # counts before each stair
        self._leaves = tuple(np.flatnonzero(self._shares.any(axis=0)).tolist())
        self._splits: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        items = np.diff(np.array(edges, dtype=object))
        self._carry(0, len(self._leaves), items, purpose)

    def deal(self, items: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of ascending items, with or without gaps."""
        low = 0
        while low < len(items):
            stair = self._stair(int(items[low]))
            begin, end = self._edges[stair], self._edges[stair + 1]
            high = int(np.searchsorted(items, end)) if stair + 2 < len(self._edges) else len(items)
            first, counts = int(items[low]), self._before[stair]
            split, own = partial(self._split, stair), items[low:high] - first
            for share in _descend(self._leaves, split, first - begin, own):
                yield Share(share.leaf, share.offsets + low, share.indexes + counts[share.leaf])
            low = high

    def counts(self, items: int) -> list[int]:
        """Return how many of the first ``items`` each leaf gets, in closed form."""
        stair, size = self._stair(items), self._shares.shape[1]
        split = partial(self._split, stair)
        own = _counts(self._leaves, split, items - self._edges[stair], size)
        return [a + b for a, b in zip(self._before[stair], own, strict=True)]

    def parts(self, weights: Sequence[float]) -> list[float]:
        """Return the mean share of every leaf, weighted by stair."""
        of_stairs = np.array(self._shares / self._shares.sum(axis=1, keepdims=True), np.float64)
        parts: list[float] = np.average(of_stairs, axis=0, weights=weights).tolist()
        return parts

    def _stair(self, item: int) -> int:
        return min(bisect_right(self._edges, item), len(self._edges) - 1) - 1

    def _split(self, stair: int, low: int, _: int, high: int) -> tuple[int, int, int]:
        ratios, phases = self._splits[low, high]
        return ratios[stair], _ONE, phases[stair]

    def _carry(self, low: int, high: int, items: Any, purpose: int) -> None:
        """Set ratio (in 2^-44) and phase of a node in every stair, from the items in each."""
        leaves = self._leaves[low:high]
        if high - low == 1:
            self._before[1:, leaves[0]] = np.cumsum(items[:-1])
            return
        middle = (low + high) // 2
        left, both = (
            self._shares[:, numbers].sum(axis=1) for numbers in (leaves[: middle - low], leaves)
        )
        ratios = left * _ONE // both
        phase = key(purpose, "stairs", *leaves) * _ONE >> 64
        sums = np.concatenate([[phase], phase + np.cumsum(items * ratios)])
        self._splits[low, high] = ratios.tolist(), (sums[:-1] & (_ONE - 1)).tolist()
        lefts = np.diff(sums >> _BITS)
        self._carry(low, middle, lefts, purpose)
        self._carry(middle, high, items - lefts, purpose)
