"""Stairs: an anneal's shares, dealt as near as constant ones, at any place and in any pieces."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from dealing import stretch
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.order.apportion import Stairs
from duckplets.order.mixture import Anneal, Mixture
from duckplets.order.permute import key
from duckplets.order.schedule import Schedule


def some_stairs(draw: random.Random, leaves: int, count: int, longest: int) -> tuple[Any, Any]:
    """Return shares of all sizes and edges of stairs, some of them empty."""
    shares = [[draw.choice([1, 1009, 10 ** draw.randint(0, 9)]) for _ in range(leaves)]]
    shares += [[max(1, w + draw.randint(-w, w)) for w in shares[0]] for _ in range(count - 1)]
    edges = [0]
    for _ in range(count):
        edges.append(edges[-1] + draw.randint(0, longest))
    return shares, edges


@pytest.mark.parametrize("leaves", range(1, 10))
def test_every_prefix_is_as_near_to_the_sum_of_shares_as_constant_ones(leaves: int) -> None:
    draw = random.Random(leaves)
    for count, longest in ((1, 500), (3, 7), (40, 90), (300, 2)):
        shares, edges = some_stairs(draw, leaves, count, longest)
        leaf, index = stretch(Stairs(shares, edges, key("near", count)), 0, edges[-1])
        stair = np.searchsorted(edges, np.arange(edges[-1]), side="right") - 1
        parts = (np.array(shares) / np.sum(shares, axis=1, keepdims=True))[stair]
        bound = 1 if leaves <= 2 else math.ceil(math.log2(leaves)) + 1
        for i in range(leaves):
            assert np.abs(np.cumsum((leaf == i) - parts[:, i])).max(initial=0) < bound + 1e-6
            assert (index[leaf == i] == np.arange((leaf == i).sum())).all()


@settings(max_examples=often(80, less=10), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    leaves=st.integers(1, 9),
    count=st.integers(1, 60),
    cuts=st.lists(st.floats(0, 1), max_size=8),
)
def test_cuts_change_nothing_and_counts_are_those_of_the_walk(
    seed: int, leaves: int, count: int, cuts: list[float]
) -> None:
    draw = random.Random(seed)
    shares, edges = some_stairs(draw, leaves, count, draw.choice([1, 5, 40]))
    stairs = Stairs(shares, edges, seed)
    leaf, index = stretch(stairs, 0, edges[-1])
    spans = list(pairwise(sorted({0, edges[-1], *(int(c * edges[-1]) for c in cuts)})))
    draw.shuffle(spans)
    for low, high in spans:
        found = stretch(Stairs(shares, edges, seed), low, high)
        assert found[0].tolist() == leaf[low:high].tolist()
        assert found[1].tolist() == index[low:high].tolist()
        assert stairs.counts(low) == [int((leaf[:low] == i).sum()) for i in range(leaves)]


@pytest.mark.parametrize("length", [1, 3, 1023, 1024, 1025, 5000, 10**6, 10**15])
def test_an_anneal_has_at_most_1024_stairs_with_the_shares_of_their_middles(length: int) -> None:
    mixture = Mixture({"a": 3, "b": 1, "c": 0}, anneal=Anneal(7, {"a": 0, "c": 2}, 7 + length))
    schedule = Schedule(mixture, ["a", "b", "c"], seed=1, batch=6)
    count = min(1024, length)
    for stair in {0, count // 2, count - 1}:
        first, last = (7 + j * length // count for j in (stair, stair + 1))
        way = Fraction(first + last - 14, 2 * length)
        low, high = (0.75, 0.25, 0), (0, 1 / 3, 2 / 3)
        due = [a + (b - a) * float(way) for a, b in zip(low, high, strict=True)]
        for step in {first, last - 1}:
            assert np.allclose(schedule.parts(step, step + 1), due, atol=1e-9)
    assert np.allclose(schedule.parts(7, 7 + length), [0.375, 7 / 24, 1 / 3], atol=1e-9)
    totals = (schedule.dealt(7 * 6), schedule.dealt((7 + length) * 6))
    for had, now, part in zip(*totals, (0.375, 7 / 24, 1 / 3), strict=True):
        assert abs(now - had - part * 6 * length) < 3 + length * 6e-12
    assert schedule.changes == [(0, 0), (7, 42), (7 + length, (7 + length) * 6)]


def test_a_leaf_that_has_no_share_gets_nothing() -> None:
    stairs = Stairs([[1, 0, 5, 0], [2, 0, 1, 0]], [0, 30, 500], 0)
    assert set(stretch(stairs, 0, 500)[0].tolist()) == {0, 2}
    assert stairs.counts(500)[1::2] == [0, 0]
