"""The order: bijections that look random, exact apportionment, hashed draws; and its golden files.

Everything here is a fixed function of fixed keys, so statistical bounds hold or do not: a test
that passes today passes always. They are set where a true permutation passes for nearly all keys.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
import pytest
from conftest import Golden
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets import order
from duckplets.order import (
    MAX_SPAN,
    Apportionment,
    Integers,
    below,
    exact_weights,
    hashed,
    key,
    ranks,
)

SORTED, WALKED = 4096, 0  # the two ways to permute: all of these n by sorting, or none
POWERS = sorted({max(1, 2**k + d) for k in range(19) for d in (-1, 0, 1)} | {4095, 4096, 4097})


def epoch(stream: int, n: int, e: int = 0) -> Integers:
    return ranks(stream, n, e * n, (e + 1) * n)[0]


def is_permutation(items: Integers, n: int) -> bool:
    return len(items) == n and bool((np.bincount(items, minlength=n) == 1).all())


# ---- permutations: bijections


@pytest.mark.parametrize("small", [SORTED, WALKED])
def test_every_epoch_is_a_bijection_for_every_small_n(
    small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "_SMALL", small)
    for n in range(1, 1501):
        items, epochs = ranks(key("bijection", n), n, 0, 2 * n)
        assert is_permutation(items[:n], n), n
        assert is_permutation(items[n:], n), n
        assert (epochs == np.repeat([0, 1], n)).all(), n


@pytest.mark.parametrize("e", [0, 1, 1_000_003])
def test_every_epoch_is_a_bijection_around_powers_of_two(e: int) -> None:
    for n in POWERS:
        items, epochs = ranks(key("powers", n), n, e * n, (e + 1) * n)
        assert is_permutation(items, n), n
        assert (epochs == e).all(), n


def test_an_epoch_is_a_bijection_far_beyond_what_is_held_in_memory() -> None:
    n, start = 10**12 + 39, 7 * (10**12 + 39) - 500
    items, epochs = ranks(key("far"), n, start, start + 1000)
    assert (epochs == np.repeat([6, 7], 500)).all()
    assert len(np.unique(items[:500])) == len(np.unique(items[500:])) == 500
    assert items.min() >= 0
    assert items.max() < n


# ---- permutations: pure functions of the position


@settings(max_examples=150, deadline=None)
@given(
    n=st.one_of(st.integers(1, 60), st.integers(4090, 4100), st.integers(4097, 9000)),
    cuts=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    first=st.sampled_from([0, 1, 5, 10**6]),
)
def test_a_part_is_the_slice_of_the_whole(n: int, cuts: tuple[float, float], first: int) -> None:
    stream, origin, length = key("part", n), first * n, 3 * n
    low, high = sorted(int(c * length) for c in cuts)
    items, epochs = ranks(stream, n, origin, origin + length)
    part, part_epochs = ranks(stream, n, origin + low, origin + high)
    assert part.tolist() == items[low:high].tolist()
    assert part_epochs.tolist() == epochs[low:high].tolist()


@pytest.mark.parametrize("n", [1, 10, 4096, 4097, 70_000])
def test_nothing_is_asked_and_nothing_comes(n: int) -> None:
    for position in (0, n, 10 * n + 1):
        items, epochs = ranks(key("nothing"), n, position, position)
        assert len(items) == len(epochs) == 0


@pytest.mark.parametrize("n", [20, 300, 4096, 4097, 10_000])
def test_epochs_and_streams_have_orders_of_their_own(n: int) -> None:
    orders = [epoch(key("stream", s), n, e).tobytes() for s in range(12) for e in range(12)]
    assert len(set(orders)) == 144


# ---- permutations: as random as NumPy's


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


@pytest.mark.parametrize("n", [2048, 4096, 8192, 16_384, 100_000, 2**18, 2**18 + 1])
def test_neighbours_are_those_of_a_true_permutation(n: int) -> None:
    keys = 40 if n < 50_000 else 8
    seen = [neighbours(epoch(key("neighbours", n, k), n)) for k in range(keys)]
    deviation = 1 / math.sqrt(n * keys)  # of the mean correlation; the others deviate less
    for name in ("xors", "correlation", "difference"):
        assert abs(np.mean([s[name] for s in seen])) < 3.5 * deviation, name
        assert max(abs(s[name]) for s in seen) < 4.5 / math.sqrt(n), name


def test_pairs_do_not_show_that_a_feistel_network_made_them() -> None:
    for bits in (14, 16):
        for k in range(4):
            assert np.allclose(surviving(epoch(key("pairs", k), 2**bits)), 1, atol=0.05)


def test_four_rounds_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_ROUNDS", 4)
    for bits in (14, 16):
        found = [surviving(epoch(key("pairs", k), 2**bits)) for k in range(4)]
        assert max(np.mean(found, axis=0)) > 1.8


@pytest.mark.parametrize("n", [2, 3, 10, 1000, 4096, 4097, 5000, 8192])
def test_one_item_stays_in_place_on_average(n: int) -> None:
    keys = 400
    fixed = [int((epoch(key("fixed", n, k), n) == np.arange(n)).sum()) for k in range(keys)]
    assert abs(np.mean(fixed) - 1) < 3.5 / math.sqrt(keys)
    if n > 3:
        assert 0.7 < np.var(fixed) < 1.4


@pytest.mark.parametrize("n", [1000, 4097])
def test_one_item_agrees_on_average_between_epochs(n: int) -> None:
    orders = [epoch(key("epochs"), n, e) for e in range(300)]
    agreeing = [int((a == b).sum()) for a, b in itertools.pairwise(orders)]
    assert abs(np.mean(agreeing) - 1) < 3.5 / math.sqrt(300)


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


# ---- hashed draws


@pytest.mark.parametrize("bound", [2, 3, 10, 97, 1000, 4096])
@pytest.mark.parametrize("attempt", [0, 1, 23])
def test_draws_below_a_bound_are_uniform(bound: int, attempt: int) -> None:
    draws = below(hashed(key("uniform", bound), np.arange(100 * bound), attempt), bound)
    counts = np.bincount(draws, minlength=bound)
    assert len(counts) == bound
    assert abs(chi_square(counts) - (bound - 1)) < 4 * math.sqrt(2 * bound)


@pytest.mark.parametrize("bound", [1, 2, 3, 2**16 + 1, 2**31, 2**32 - 1, 2**32])
def test_draws_are_the_product_with_the_bound(bound: int) -> None:
    words = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 2**32, 2**64 - 1]
    words += hashed(key("product"), np.arange(500)).tolist()
    draws = below(np.array(words, dtype=np.uint64), bound)
    assert draws.dtype == np.int64
    assert draws.tolist() == [word * bound >> 64 for word in words]


def test_bounds_may_differ_from_draw_to_draw() -> None:
    bounds = np.arange(1, 5001)
    words = hashed(key("bounds"), bounds)
    draws = below(words, bounds)
    assert ((draws >= 0) & (draws < bounds)).all()
    assert draws.tolist() == [int(below(w, b)) for w, b in zip(words, bounds, strict=True)]


def test_hashes_of_a_purpose_do_not_collide() -> None:
    words = hashed(key("collide"), np.arange(200_000))
    assert len(np.unique(words)) == 200_000


def test_hashes_of_attempts_and_purposes_are_unrelated() -> None:
    values = np.arange(4000)
    families = [hashed(key("one"), values, a) for a in range(4)] + [hashed(key("two"), values)]
    families.append(hashed(key("one") + 1, values))
    for i, a in enumerate(families):
        for b in families[:i]:
            assert not np.intersect1d(a, b).size
            flipped = np.unpackbits((a ^ b).view(np.uint8)).mean()
            assert abs(flipped - 0.5) < 4 * 0.5 / math.sqrt(64 * len(values))


def test_hashes_do_not_depend_on_how_values_are_held() -> None:
    values = list(range(1000))
    kinds = (np.int64, np.int32, np.uint64, np.uint16)
    found = [hashed(key("held"), np.array(values, dtype=kind)).tolist() for kind in kinds]
    found.append([int(hashed(key("held"), [value])[0]) for value in values])
    assert all(words == found[0] for words in found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "bc"), ("ab", "c")),
        (("a", "b"), ("a:b",)),
        (("a", "b"), ("b", "a")),
        (("a",), ("a", "")),
        (("", "a"), ("a", "")),
        ((1,), ("1",)),
        ((12, 3), (1, 23)),
        (("1:int",), (1,)),
        ((7, "faq", "order"), (8, "faq", "order")),
        ((-1,), (1,)),
        ((), ("",)),
    ],
)
def test_keys_tell_their_parts_apart(
    one: tuple[str | int, ...], other: tuple[str | int, ...]
) -> None:
    assert key(*one) != key(*other)
    assert key(*one) == key(*one)
    assert 0 <= key(*one) < 2**64


def test_keys_take_any_text_and_any_integer() -> None:
    parts: list[str | int] = [
        "",
        "\x00",
        "é",
        "e\u0301",
        "🦆",
        "x" * 10_000,
        0,
        -1,
        2**64,
        2**200,
        -(2**64),
    ]
    assert len({key(part) for part in parts}) == len(parts)


# ---- apportionment


def dealt(deal: Apportionment, start: int, stop: int, leaves: int) -> tuple[Integers, Integers]:
    """Return the leaf of every position, and how many that leaf had before it."""
    leaf = np.full(stop - start, -1, dtype=np.int64)
    index = np.full(stop - start, -1, dtype=np.int64)
    for share in deal.shares(start, stop):
        assert 0 <= share.leaf < leaves
        assert len(share.offsets)
        assert (np.diff(share.offsets) > 0).all()
        assert (leaf[share.offsets] == -1).all()
        leaf[share.offsets] = share.leaf
        index[share.offsets] = share.start + np.arange(len(share.offsets))
    assert (leaf >= 0).all()
    return leaf, index


def bound(weights: Iterable[int]) -> int:
    """How far a prefix's count may be from the exact share, not reaching it."""
    positive = sum(w > 0 for w in weights)
    return 1 if positive <= 2 else math.ceil(math.log2(positive)) + 1


def of_many(leaves: int) -> list[float]:
    """Return weights of every size, with zeros among them."""
    words = hashed(key("weights", leaves), np.arange(leaves)).tolist()
    rest = [0.0 if word % 7 == 0 else (word % 1000 + 1) / 10 ** (word % 4) for word in words[1:]]
    return [0.5, *rest]


WEIGHTS: dict[str, list[float]] = {
    "one": [3.0],
    "equal": [1, 1],
    "1.009": [1, 1.009],
    "millionth": [1e-6, 1],
    "zero first": [0, 1],
    "zero among": [1, 0, 2, 0.0, 3],
    "halves": [0.75, 0.25],
    "defaults": [0.30, 0.10, 0.35, 0.25],
    "floats": [0.1 + 0.2, 0.3, 0.1],
    "steep": [1e-300, 1e-9, 1.0, 1e9],
    "powers": [2.0**-i for i in range(30)],
}
for leaves in (*range(2, 18), 31, 32, 33, 49, 50):
    WEIGHTS |= {f"equal {leaves}": [1.0] * leaves, f"mixed {leaves}": of_many(leaves)}
CASES = pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)


@CASES
def test_every_prefix_is_fair(weights: list[float]) -> None:
    exact, positions = exact_weights(weights), 20_000
    leaf, index = dealt(Apportionment(exact, key("fair")), 0, positions, len(exact))
    t, total = np.arange(positions + 1), sum(exact)
    for i, weight in enumerate(exact):
        counts = np.concatenate([[0], np.cumsum(leaf == i)])
        assert (np.abs(counts * total - t * weight) < bound(exact) * total).all(), i
        assert index[leaf == i].tolist() == list(range(counts[-1])), i
        assert weight or counts[-1] == 0, i


@CASES
def test_counts_are_those_of_the_walk(weights: list[float]) -> None:
    exact = exact_weights(weights)
    deal = Apportionment(exact, key("walk"))
    leaf, _ = dealt(deal, 0, 3000, len(exact))
    for i in range(len(exact)):
        walked = [0, *np.cumsum(leaf == i).tolist()]
        assert [deal.count(i, t) for t in range(3001)] == walked


@CASES
@pytest.mark.parametrize("start", [10**9, 10**12, 2**50 + 1])
def test_far_positions_are_dealt_without_walking(weights: list[float], start: int) -> None:
    exact, length = exact_weights(weights), 1000
    deal, total = Apportionment(exact, key("far")), sum(exact)
    leaf, index = dealt(deal, start, start + length, len(exact))
    counts = [deal.count(i, start) for i in range(len(exact))]
    assert sum(counts) == start
    for i, weight in enumerate(exact):
        assert abs(counts[i] * total - start * weight) < bound(exact) * total
        here = index[leaf == i].tolist()
        assert here == list(range(counts[i], counts[i] + len(here)))
        assert deal.count(i, start + length) == counts[i] + len(here)


@settings(max_examples=100, deadline=None)
@given(
    weights=st.lists(st.integers(0, 10_000), min_size=2, max_size=50).filter(any),
    purpose=st.integers(0, 2**64 - 1),
    start=st.sampled_from([0, 1, 10**9, 10**12]),
    cuts=st.lists(st.integers(0, 600), max_size=8),
)
def test_cuts_change_nothing(weights: list[int], purpose: int, start: int, cuts: list[int]) -> None:
    deal = Apportionment(weights, purpose)
    leaf, index = dealt(deal, start, start + 600, len(weights))
    edges = sorted({0, 600, *cuts})
    parts = [
        dealt(deal, start + low, start + high, len(weights))
        for low, high in itertools.pairwise(edges)
    ]
    assert np.concatenate([p[0] for p in parts]).tolist() == leaf.tolist()
    assert np.concatenate([p[1] for p in parts]).tolist() == index.tolist()


@settings(max_examples=100, deadline=None)
@given(
    weights=st.lists(st.floats(0, 1e6), min_size=2, max_size=50).filter(any),
    purpose=st.integers(0, 2**64 - 1),
    positions=st.integers(0, 10**12),
)
def test_counts_are_fair_for_all_weights(
    weights: list[float], purpose: int, positions: int
) -> None:
    exact = exact_weights(weights)
    deal, total = Apportionment(exact, purpose), sum(exact)
    counts = [deal.count(i, positions) for i in range(len(exact))]
    assert sum(counts) == positions
    for count, weight in zip(counts, exact, strict=True):
        assert abs(count * total - positions * weight) < bound(exact) * total


def test_phases_are_rotated_by_the_key() -> None:
    deals = [Apportionment((1, 1, 1, 1), key("phase", seed)) for seed in range(64)]
    firsts = [dealt(deal, 0, 1, 4)[0][0] for deal in deals]
    assert set(firsts) == {0, 1, 2, 3}


def test_a_small_weight_is_not_put_off_to_the_end() -> None:
    """In 1000 positions a leaf of one in a thousand comes once, and anywhere among them."""
    firsts = []
    for seed in range(200):
        leaf, _ = dealt(Apportionment((1, 999), key("small", seed)), 0, 1000, 2)
        (place,) = np.flatnonzero(leaf == 0)
        firsts.append(place)
    assert 400 < np.mean(firsts) < 600


def test_the_greatest_span_is_exact() -> None:
    exact = exact_weights([1e-300, 1, 1 / 3, 1e9])
    deal = Apportionment(exact, key("span"))
    for start in (0, 10**12):
        whole = list(deal.shares(start, start + MAX_SPAN))
        for share in whole:
            grown = deal.count(share.leaf, start + MAX_SPAN) - deal.count(share.leaf, start)
            assert grown == len(share.offsets)
    with pytest.raises(ValueError, match=str(MAX_SPAN)):
        list(deal.shares(0, MAX_SPAN + 1))


def test_no_positions_have_no_shares() -> None:
    assert list(Apportionment((1, 2), key("none")).shares(5, 5)) == []


# ---- weights as integers


@pytest.mark.parametrize(
    ("weights", "integers"),
    [
        ([1, 1.009], (1000, 1009)),
        ([1.0, 1.009], (1000, 1009)),
        ([0.1, 0.2, 0.3], (1, 2, 3)),
        ([0.30, 0.10, 0.35, 0.25], (6, 2, 7, 5)),
        ([1e-6, 1], (1, 1_000_000)),
        ([1e-6, 0, 1], (1, 0, 1_000_000)),
        ([2, 4, 6], (1, 2, 3)),
        ([5], (1,)),
        ([0.5], (1,)),
        ([0, 3], (0, 1)),
        ([0, 0.0], (0, 0)),
        ([1, 2**43], (1, 2**43)),
        ([1.5, 1e12], (3, 2 * 10**12)),
        ([1.000000000001, 1], (10**12 + 1, 10**12)),
        ([np.float64(1), np.float64(1.009)], (1000, 1009)),
    ],
)
def test_weights_keep_the_ratios_they_were_written_in(
    weights: list[float], integers: tuple[int, ...]
) -> None:
    found = exact_weights(weights)
    assert found == integers
    assert all(type(w) is int for w in found)


@pytest.mark.parametrize(
    "weights",
    [
        [1e-300, 1],
        [1e300, 1],
        [5e-324, 1.7e308, 1],
        [0.1 + 0.2, 0.3],
        [1, 2**60],
        [2**60 + 1, 2**60],
        [1 / 3] * 7 + [1e-17, 0],
        [1e-300] * 50 + [1],
    ],
)
def test_extreme_ratios_are_rounded_but_nothing_vanishes(weights: list[float]) -> None:
    found = exact_weights(weights)
    assert sum(found) <= 2**44
    total = sum(Fraction(w) for w in weights)
    for weight, integer in zip(weights, found, strict=True):
        assert (integer > 0) == (weight > 0)
        moved = abs(Fraction(integer, sum(found)) - Fraction(weight) / total) * 10**12
        assert moved < 0.1 * len(weights)  # samples, at position 10^12


# ---- golden files: the first thousand of each


def listed(values: Integers) -> str:
    rows = [values[i : i + 20] for i in range(0, len(values), 20)]
    return "".join(" ".join(str(v) for v in row) + "\n" for row in rows)


def permutation(n: int, first_epoch: int = 0, seed: int = 7) -> Callable[[], Integers]:
    stream = key(seed, "faq", "anchor_context", "order")
    return lambda: ranks(stream, n, first_epoch * n, first_epoch * n + 1000)[0]


def apportioned(weights: list[float], start: int = 0, seed: int = 7) -> Callable[[], Integers]:
    def leaves() -> Integers:
        deal = Apportionment(exact_weights(weights), key(seed, "sources"))
        return dealt(deal, start, start + 1000, len(weights))[0]

    return leaves


def drawn(limit: int, attempt: int = 0) -> Callable[[], Integers]:
    purpose = key(7, "faq", "anchor_context", "negative")
    return lambda: below(hashed(purpose, np.arange(1000), attempt), limit)


DRAWS: dict[str, Callable[[], Integers]] = {
    "ranks_10": permutation(10),
    "ranks_1000": permutation(1000),
    "ranks_1000_seed_8": permutation(1000, seed=8),
    "ranks_1000_epoch_1000000": permutation(1000, 10**6),
    "ranks_4096": permutation(4096),
    "ranks_4097": permutation(4097),
    "ranks_65537": permutation(65_537),
    "ranks_65537_epoch_3": permutation(65_537, 3),
    "ranks_1000000000039": permutation(10**12 + 39),
    "shares_1_1.009": apportioned([1, 1.009]),
    "shares_defaults": apportioned([0.30, 0.10, 0.35, 0.25]),
    "shares_zero_among": apportioned([1, 0, 2, 0.0, 3]),
    "shares_17": apportioned(of_many(17)),
    "shares_17_from_1000000000000": apportioned(of_many(17), 10**12),
    "below_2": drawn(2),
    "below_1000003": drawn(1_000_003),
    "below_4294967296_attempt_23": drawn(2**32, 23),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_first_thousand_draws_never_change(name: str, golden: Golden) -> None:
    golden(f"order/{name}.txt", listed(DRAWS[name]()))


def test_keys_and_hashes_never_change() -> None:
    assert order.ORDER_VERSION == 1
    purpose = key(7, "faq", "anchor_context", "order")
    assert purpose == 7957304198024520427
    assert hashed(purpose, np.arange(3)).tolist() == [
        1666717501503163999,
        2744892306673058906,
        9152409524096002205,
    ]
