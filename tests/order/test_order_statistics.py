"""The order looks random: what is counted of it is what is counted of true permutations.

Everything here is a fixed function of fixed keys, so statistical bounds hold or do not: a test
that passes today passes always. They are set where a true permutation passes for nearly all keys.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from effort import often, some

from duckplets.base.arrays import Integers
from duckplets.order import permute as order
from duckplets.order.permute import below, hashed, key, ranks


def epoch(stream: int, n: int, e: int = 0) -> Integers:
    return ranks(stream, n, e * n, (e + 1) * n)[0]


# ---- from one item to the next


def neighbours(items: Integers) -> dict[str, float]:
    """What is seen of an order from one item to the next, each expected to be near 0."""
    n = len(items)
    pairs = items[: n // 2 * 2].reshape(-1, 2)
    xors = len(np.unique(pairs[:, 0] ^ pairs[:, 1]))
    # n/2 draws from n-1 values: how many different ones to expect, where n is a power of two.
    expected = (n - 1) * -math.expm1(-(n / 2) / (n - 1))
    return {
        "xors": xors / expected - 1 if n.bit_count() == 1 else 0.0,
        "correlation": float(np.corrcoef(items[:-1], items[1:])[0, 1]),
        "difference": float(np.abs(np.diff(items)).mean()) * 3 / (n + 1) - 1,
    }


@pytest.mark.parametrize("n", some([2048, 4096, 8192, 16_384, 2**18, 2**18 + 1, 100_000], less=3))
def test_neighbours_are_those_of_a_true_permutation(n: int) -> None:
    keys = 40 if n < 50_000 else 8
    seen = [neighbours(epoch(key("neighbours", n, k), n)) for k in range(keys)]
    deviation = 1 / math.sqrt(n * keys)  # of the mean correlation; the others deviate less
    for name in ("xors", "correlation", "difference"):
        assert abs(np.mean([s[name] for s in seen])) < 3.5 * deviation, name
        assert max(abs(s[name]) for s in seen) < 4.5 / math.sqrt(n), name


LIKE_NUMPY = [65_536, 65_537, 100_003, 1_048_577]
COUNTED = ["xors", "size", "rises", "correlation", "spread", "documents", "near", "next"]


def counted(items: Integers) -> npt.NDArray[np.float64]:
    """Count what a batch or a model could notice of an order.

    How many different values neighbours give when combined bit by bit, pair after pair; how far
    neighbours lie apart, how often the second is greater, how much they are correlated, how evenly
    their differences are spread, how often they are 8 or fewer apart, or 1; and pairs of one
    document in a batch of 256, with 8 chunks a document.
    """
    n, steps = len(items), np.diff(items)
    pairs = items[: n // 2 * 2].reshape(-1, 2)
    seen = np.zeros(1 << (n - 1).bit_length(), dtype=bool)
    seen[pairs[:, 0] ^ pairs[:, 1]] = True
    bins = np.bincount(steps % n * 64 // n, minlength=64)
    documents = np.sort(items[: n // 256 * 256].reshape(-1, 256) // 8, axis=1)
    same = sum((documents[:, d:] == documents[:, :-d]).sum() for d in range(1, 8))
    found = [
        *(seen.sum(), np.abs(steps).mean(), (steps > 0).sum()),
        *(np.corrcoef(items[:-1], items[1:])[0, 1], chi_square(bins), same),
        *((np.abs(steps) <= 8).sum(), (np.abs(steps) == 1).sum()),
    ]
    return np.array(found, dtype=np.float64)


def deviations(n: int, orders: int = 4) -> tuple[npt.NDArray[np.float64], ...]:
    """Compare orders with NumPy's: their mean, and the one that is furthest off.

    Both in standard deviations. RandomState's permutations are the same in all versions of NumPy.
    """
    others = [counted(np.random.RandomState(k).permutation(n)) for k in range(16)]
    expected, spread = np.mean(others, axis=0), np.std(others, axis=0, ddof=1)
    ours = [counted(epoch(key("like numpy", n, k), n)) for k in range(orders)]
    mean = (np.mean(ours, axis=0) - expected) / spread / math.sqrt(1 / orders + 1 / 16)
    furthest = np.abs(ours - expected).max(axis=0) / spread / math.sqrt(1 + 1 / 16)
    return mean, furthest


@pytest.mark.parametrize("n", LIKE_NUMPY[: often(4, less=2)])
def test_an_order_is_like_one_of_numpys(n: int) -> None:
    mean, furthest = deviations(n)
    assert dict(zip(COUNTED, np.abs(mean) < 4.5, strict=True)) == dict.fromkeys(COUNTED, True)
    assert dict(zip(COUNTED, furthest < 5, strict=True)) == dict.fromkeys(COUNTED, True)


# ---- what a Feistel network of few rounds would show


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


def test_four_rounds_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_ROUNDS", 4)
    for bits in (14, 16):
        found = [surviving(epoch(key("pairs", k), 2**bits)) for k in range(4)]
        assert max(np.mean(found, axis=0)) > 1.8


# ---- positions where orders agree, with 0, 1, 2, … and with each other


@pytest.mark.parametrize("n", some([2, 10, 3, 4097, 4096, 5000, 8192, 1000], less=3))
def test_one_item_stays_in_place_on_average(n: int) -> None:
    keys = 400
    fixed = [int((epoch(key("fixed", n, k), n) == np.arange(n)).sum()) for k in range(keys)]
    assert abs(np.mean(fixed) - 1) < 3.5 / math.sqrt(keys)
    if n > 3:
        assert 0.7 < np.var(fixed) < 1.4


@pytest.mark.parametrize("n", some([1000, 4097], less=1))
def test_one_item_agrees_on_average_between_epochs(n: int) -> None:
    orders = [epoch(key("epochs"), n, e) for e in range(300)]
    agreeing = [int((a == b).sum()) for a, b in itertools.pairwise(orders)]
    assert abs(np.mean(agreeing) - 1) < 3.5 / math.sqrt(300)


def agreements(orders: Integers) -> Integers:
    """Return for every two of the orders, one a row, at how many positions they agree."""
    count = len(orders)
    by_item = np.argsort(orders, axis=0, kind="stable")
    sorted_items = np.take_along_axis(orders, by_item, axis=0)
    found = np.zeros(count * count, dtype=np.int64)
    for apart in range(1, count):
        same = sorted_items[apart:] == sorted_items[:-apart]
        if not same.any():
            break
        pairs = by_item[:-apart][same] * count + by_item[apart:][same]
        found += np.bincount(pairs, minlength=count * count)
    return found.reshape(count, count)[np.triu_indices(count, 1)]


@pytest.mark.parametrize("n", [1000, 4097, 5003][:: often(1, less=3)])
def test_no_two_of_a_thousand_orders_agree_more_than_by_chance(n: int) -> None:
    """Two true permutations agree at k positions with a probability of 1/(e k!), nearly."""
    pairs = itertools.product(range(100), range(10))
    found = agreements(np.stack([epoch(key(seed, "agree", n), n, e) for seed, e in pairs]))
    assert len(found) == 499_500
    assert abs(found.mean() - 1) < 5 / math.sqrt(len(found))
    assert found.max() <= 12  # one more comes once in 30,000 such thousands
    counts = np.bincount(found, minlength=9)
    for k in range(9):
        expected = len(found) / math.e / math.factorial(k)
        assert abs(counts[k] - expected) < 5 * math.sqrt(expected), k


# ---- all orders and all draws are as likely


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
@pytest.mark.parametrize("attempt", [0, 1, 23])
def test_draws_below_a_bound_are_uniform(bound: int, attempt: int) -> None:
    draws = below(hashed(key("uniform", bound), np.arange(100 * bound), attempt), bound)
    counts = np.bincount(draws, minlength=bound)
    assert len(counts) == bound
    assert abs(chi_square(counts) - (bound - 1)) < 4 * math.sqrt(2 * bound)
