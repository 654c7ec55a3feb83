"""The order: bijections, pure functions of positions, hashed draws; and its golden files.

It looks random: what is counted of it is what is counted of true permutations. That is a fixed
function of fixed keys, so statistical bounds hold or do not: a test that passes today passes
always. They are set where a true permutation passes for nearly all keys.
"""

import math

import numpy as np
import pytest
from dealing import listed
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.order import permute as order
from duckplets.order.permute import below, hashed, key, ranks

SMALL = 5000
BOTH_WAYS = pytest.mark.parametrize("sorted_up_to", [SMALL, 0], ids=["sorted", "walked"])


def epoch(stream, n, e=0):
    return ranks(stream, n, e * n, (e + 1) * n)[0]


def is_permutation(items, n):
    return len(items) == n and bool((np.bincount(items, minlength=n) == 1).all())


@BOTH_WAYS
def test_every_epoch_is_a_bijection_for_every_small_n(sorted_up_to, monkeypatch):
    monkeypatch.setattr(order, "_SMALL", sorted_up_to)
    for n in [*range(1, 300), *range(300, SMALL + 1, often(1, less=19))]:
        assert is_permutation(epoch(key("bijection", n), n, n % 3), n), n


@pytest.mark.parametrize("e", [0, 1, 1_000_003])
def test_every_epoch_is_a_bijection_around_powers_of_two(e):
    for n in sorted({max(1, 2**k + d) for k in range(often(22, less=17)) for d in (-1, 0, 1)}):
        assert is_permutation(epoch(key("powers", n), n, e), n), n


def test_an_epoch_is_a_bijection_far_beyond_what_is_held_in_memory():
    n, start = 10**12 + 39, 7 * (10**12 + 39) - 500
    items, epochs = ranks(key("far"), n, start, start + 1000)
    assert (epochs == np.repeat([6, 7], 500)).all()
    assert len(np.unique(items[:500])) == len(np.unique(items[500:])) == 500
    assert items.min() >= 0
    assert items.max() < n


@settings(max_examples=often(150, less=20), deadline=None)
@given(
    n=st.one_of(st.integers(1, 60), st.integers(4090, 4100), st.integers(4097, 9000)),
    cuts=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    first=st.sampled_from([0, 1, 5, 10**6]),
)
def test_a_part_is_the_slice_of_the_whole(n, cuts, first):
    stream, origin, length = key("part", n), first * n, 3 * n
    low, high = sorted(int(c * length) for c in cuts)
    items, epochs = ranks(stream, n, origin, origin + length)
    assert epochs.tolist() == np.repeat([first, first + 1, first + 2], n).tolist()
    assert all(is_permutation(items[e * n : (e + 1) * n], n) for e in range(3))
    part, part_epochs = ranks(stream, n, origin + low, origin + high)
    assert part.tolist() == items[low:high].tolist()
    assert part_epochs.tolist() == epochs[low:high].tolist()


@pytest.mark.parametrize("n", [20, 300, 4096, 4097, 10_000])
def test_epochs_and_streams_have_orders_of_their_own(n):
    orders = [epoch(key("stream", s), n, e).tobytes() for s in range(12) for e in range(12)]
    assert len(set(orders)) == 144


ALONE = ["", "\x00", "é", "e\u0301", "🦆", "x" * 10_000]
ALONE += [0, 1, -1, "1", "1:int", "a:b", 2**64, 2**200, -(2**64)]
SEVERAL = [("a", "bc"), ("ab", "c"), ("a", "b"), ("b", "a"), ("a", ""), ("", "a"), (12, 3), (1, 23)]


def test_keys_tell_their_parts_apart():
    parts = [(), ("a",), *((part,) for part in ALONE), *SEVERAL]
    assert len({key(*of) for of in parts}) == len(parts)
    assert all(0 <= key(*of) < 2**64 for of in parts)


def permutation(n, first_epoch=0, seed=7):
    stream = key(seed, "faq", "anchor_context", "order")
    return lambda: ranks(stream, n, first_epoch * n, first_epoch * n + 1000)[0]


def drawn(limit, attempt=0):
    purpose = key(7, "faq", "anchor_context", "negative")
    return lambda: below(hashed(purpose, np.arange(1000), attempt), limit)


DRAWS = {
    "ranks_10": permutation(10),
    "ranks_1000": permutation(1000),
    "ranks_1000_seed_8": permutation(1000, seed=8),
    "ranks_1000_epoch_1000000": permutation(1000, 10**6),
    "ranks_4096": permutation(4096),
    "ranks_4097": permutation(4097),
    "ranks_65537": permutation(65_537),
    "ranks_65537_epoch_3": permutation(65_537, 3),
    "ranks_1000000000039": permutation(10**12 + 39),
    "below_2": drawn(2),
    "below_1000003": drawn(1_000_003),
    "below_4294967296_attempt_23": drawn(2**32, 23),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_first_thousand_draws_never_change(name, golden):
    golden(f"order/{name}.txt", listed(DRAWS[name]()))


def test_keys_and_hashes_never_change():
    assert order.ORDER_VERSION == 4
    purpose = key(7, "faq", "anchor_context", "order")
    assert purpose == 7957304198024520427
    assert hashed(purpose, np.arange(3)).tolist() == [
        1666717501503163999,
        2744892306673058906,
        9152409524096002205,
    ]


def surviving(items):
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


def test_pairs_do_not_show_that_a_feistel_network_made_them():
    for bits in (14, 16):
        for k in range(4):
            assert np.allclose(surviving(epoch(key("pairs", k), 2**bits)), 1, atol=0.05)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_every_order_of_a_few_items_is_as_likely(n):
    orders = math.factorial(n)
    items = ranks(key("few"), n, 0, 200 * orders * n)[0].reshape(-1, n)
    counts = np.unique(items @ (n ** np.arange(n)), return_counts=True)[1]
    assert len(counts) == orders
    assert chi_square(counts) < orders - 1 + 4 * math.sqrt(2 * (orders - 1))


def chi_square(counts):
    """Expected: cells - 1, with a standard deviation of the root of twice that."""
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("bound", [2, 3, 10, 97, 1000, 4096])
def test_draws_below_a_bound_are_uniform(bound):
    for attempt in (0, 1, 23):
        draws = below(hashed(key("uniform", bound), np.arange(100 * bound), attempt), bound)
        counts = np.bincount(draws, minlength=bound)
        assert len(counts) == bound
        assert abs(chi_square(counts) - (bound - 1)) < 4 * math.sqrt(2 * bound)
