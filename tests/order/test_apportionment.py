"""Apportionment: every prefix of positions is fair, and counts have a closed form."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from conftest import Golden
from dealing import stretch
from effort import often, some
from golden_numbers import listed
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.order.apportion import Apportionment, exact_weights
from duckplets.order.permute import hashed, key


def bound(weights: Iterable[int]) -> int:
    """How far a prefix's count may be from the exact share, not reaching it."""
    positive = sum(w > 0 for w in weights)
    return 1 if positive <= 2 else math.ceil(math.log2(positive)) + 1


def of_many(leaves: int) -> list[float]:
    """Return weights of every size, with zeros among them."""
    words = hashed(key("weights", leaves), np.arange(leaves)).tolist()
    rest = [0.0 if word % 7 == 0 else (word % 1000 + 1) / 10 ** (word % 4) for word in words[1:]]
    return [0.5, *rest]


def of_many_magnitudes(leaves: int) -> list[float]:
    """Return weights from a millionth to a million, all magnitudes as likely."""
    words = hashed(key("magnitudes", leaves), np.arange(leaves)).tolist()
    return [float(f"{word % 9999 + 1}e{word % 12 - 9}") for word in words]


SPECIAL: dict[str, list[float]] = {
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
WEIGHTS = SPECIAL.copy()
for leaves in (*range(2, 18), 31, 32, 33, 49, 50):
    WEIGHTS |= {
        f"magnitudes {leaves}": of_many_magnitudes(leaves),
        f"equal {leaves}": [1.0] * leaves,
        f"mixed {leaves}": of_many(leaves),
    }
CASES = pytest.mark.parametrize(
    "weights", some(WEIGHTS.values(), less=16), ids=some(WEIGHTS, less=16)
)


def check_stretch(exact: tuple[int, ...], purpose: str, start: int, stop: int) -> None:
    """Check that every prefix that ends in a stretch is fair, and counts those of the walk."""
    deal, total = Apportionment(exact, key(purpose)), sum(exact)
    before, after = deal.counts(start), deal.counts(stop)
    for t, counts in ((start, before), (stop, after)):
        assert sum(counts) == t
        for count, weight in zip(counts, exact, strict=True):
            assert abs(count * total - t * weight) < bound(exact) * total
            assert weight or not count
    leaf, index = stretch(deal, start, stop)
    walked = np.bincount(leaf, minlength=len(exact))
    assert (np.array(before) + walked).tolist() == after
    by_leaf = np.argsort(leaf, kind="stable")
    numbers = np.arange(len(leaf)) - np.repeat(np.cumsum(walked) - walked, walked)
    assert (index[by_leaf] == np.repeat(before, walked) + numbers).all()
    # A leaf is furthest behind right before it gets a position, and furthest ahead right after.
    # Products wrap at 2^64, differences do not: from one prefix to the next they change little.
    position, weights = np.arange(start, stop), np.array(exact)[leaf]
    assert (position * weights - index * total < bound(exact) * total).all()
    assert ((index + 1) * total - (position + 1) * weights < bound(exact) * total).all()


@CASES
@pytest.mark.parametrize("around", [10**9, 10**12, 2**50 + 1])
def test_every_prefix_around_a_far_position_is_fair(weights: list[float], around: int) -> None:
    check_stretch(exact_weights(weights), "around", around - 4000, around + 4000)


@CASES
def test_every_prefix_is_fair(weights: list[float]) -> None:
    check_stretch(exact_weights(weights), "fair", 0, often(1_000_000, less=20_000))


@settings(max_examples=often(100, less=8), deadline=None)
@given(
    weights=st.lists(st.floats(0, 1e6), min_size=2, max_size=50).filter(any),
    purpose=st.text(max_size=9),
    positions=st.integers(0, 10**12),
)
def test_prefixes_are_fair_for_all_weights(
    weights: list[float], purpose: str, positions: int
) -> None:
    check_stretch(exact_weights(weights), purpose, positions, positions + 9)


@pytest.mark.parametrize(
    ("weights", "integers"),
    [
        ([1, 1.009], (1000, 1009)),
        ([0.1, 0.2, 0.3], (1, 2, 3)),
        ([0.30, 0.10, 0.35, 0.25], (6, 2, 7, 5)),
        ([1e-6, 0, 1], (1, 0, 1_000_000)),
        ([2, 4, 6], (1, 2, 3)),
        ([0.5], (1,)),
        ([0, 0.0], (0, 0)),
        ([1, 2**43], (1, 2**43)),
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


DEALT: dict[str, tuple[list[float], int]] = {
    "shares_1_1.009": ([1, 1.009], 0),
    "shares_defaults": ([0.30, 0.10, 0.35, 0.25], 0),
    "shares_zero_among": ([1, 0, 2, 0.0, 3], 0),
    "shares_17": (of_many(17), 0),
    "shares_17_from_1000000000000": (of_many(17), 10**12),
}


@pytest.mark.parametrize("name", DEALT)
def test_the_first_thousand_positions_never_change(name: str, golden: Golden) -> None:
    weights, start = DEALT[name]
    deal = Apportionment(exact_weights(weights), key(7, "sources"))
    golden(f"order/{name}.txt", listed(stretch(deal, start, start + 1000)[0]))
