"""Stairs: an anneal's shares, dealt as near as constant ones, at any place and in any pieces."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from dealing import stretch

from duckplets.order.apportion import Stairs
from duckplets.order.mixture import Anneal, Mixture
from duckplets.order.permute import key
from duckplets.order.schedule import Schedule


@pytest.mark.parametrize("leaves", range(1, 10))
def test_every_prefix_is_as_near_to_the_sum_of_shares_as_constant_ones(leaves: int) -> None:
    draw = random.Random(leaves)
    for count, longest in ((1, 500), (3, 7), (40, 90), (300, 2)):  # some stairs are empty
        shares = [[draw.choice([1, 1009, 10 ** draw.randint(0, 9)]) for _ in range(leaves)]]
        shares += [[max(1, w + draw.randint(-w, w)) for w in shares[0]] for _ in range(count - 1)]
        edges = [0, *accumulate(draw.randint(0, longest) for _ in range(count))]
        leaf, index = stretch(Stairs(shares, edges, key("near", count)), 0, edges[-1])
        stair = np.searchsorted(edges, np.arange(edges[-1]), side="right") - 1
        parts = (np.array(shares) / np.sum(shares, axis=1, keepdims=True))[stair]
        bound = 1 if leaves <= 2 else math.ceil(math.log2(leaves)) + 1
        for i in range(leaves):
            assert np.abs(np.cumsum((leaf == i) - parts[:, i])).max(initial=0) < bound + 1e-6
            assert (index[leaf == i] == np.arange((leaf == i).sum())).all()


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
    assert schedule.changes == [0, 7, 7 + length]
