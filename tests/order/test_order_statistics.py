"""The order looks random: what is counted of it is what is counted of true permutations.

Everything here is a fixed function of fixed keys, so statistical bounds hold or do not: a test
that passes today passes always. They are set where a true permutation passes for nearly all keys.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from duckplets.base.arrays import Integers
from duckplets.order.permute import below, hashed, key, ranks


def epoch(stream: int, n: int, e: int = 0) -> Integers:
    return ranks(stream, n, e * n, (e + 1) * n)[0]


def surviving(items: Integers) -> list[float]:
    """Pairs that agree in one half of their bits going in, whose difference in the other half
    comes out as it went in: how many, in terms of those in a true permutation.

    It is 2 for a Feistel network of four rounds (Patarin, New Results on Pseudorandom
    Permutation Generators Based on the DES Scheme, 1991); n must be an even power of two.
    """
    n = len(items)
    half = (n - 1).bit_length() // 2
    low = (1 << half) - 1
    into, out = np.arange(n), items
    expected = n * low / 2 * 2**half / (n - 1)
    found = []
    for same, other in ((into & low, into >> half), (into >> half, into & low)):
        for half_out in (out & low, out >> half):
            counts = np.bincount((same << half) | (half_out ^ other), minlength=n)
            found.append(float((counts * (counts - 1) // 2).sum()) / expected)
    return found


def test_pairs_do_not_show_that_a_feistel_network_made_them() -> None:
    for bits in (14, 16):
        for k in range(4):
            assert np.allclose(surviving(epoch(key("pairs", k), 2**bits)), 1, atol=0.05)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_every_order_of_a_few_items_is_as_likely(n: int) -> None:
    orders = math.factorial(n)
    items = ranks(key("few"), n, 0, 200 * orders * n)[0].reshape(-1, n)
    counts = np.unique(items @ (n ** np.arange(n)), return_counts=True)[1]
    assert len(counts) == orders
    assert chi_square(counts) < orders - 1 + 4 * math.sqrt(2 * (orders - 1))


def chi_square(counts: Integers) -> float:
    """Expected: cells - 1, with a standard deviation of the root of twice that."""
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("bound", [2, 3, 10, 97, 1000, 4096])
def test_draws_below_a_bound_are_uniform(bound: int) -> None:
    for attempt in (0, 1, 23):
        draws = below(hashed(key("uniform", bound), np.arange(100 * bound), attempt), bound)
        counts = np.bincount(draws, minlength=bound)
        assert len(counts) == bound
        assert abs(chi_square(counts) - (bound - 1)) < 4 * math.sqrt(2 * bound)
