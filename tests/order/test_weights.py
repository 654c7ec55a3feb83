"""Shares: integers in the ratio of tempered weights, exact where they can be, alike everywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.errors import MixtureError
from duckplets.order.apportion import exact_shares

MOST = 2**44
TEMPERATURES = [5e-324, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.3, 2.0, 5.0, 1e3, 1e9, 1e300]

weights = st.one_of(st.just(0.0), st.floats(1e-300, 1e300), st.floats(1e-3, 1e3))
several = st.lists(weights, min_size=1, max_size=50).filter(any)


# The digits are fixed: another value on any platform is another order for the same run.
SHARES = [
    ([0.7, 0.3], 1.5, (11216382242942, 6375803801472)),
    ([0.7, 0.3], 2.0, (10631944530656, 6960241513758)),
    ([0.7, 0.3], 0.5, (14862364072005, 2729821972409)),
    ([1.0, 1.009], 3.0, (8782957912211, 8809228132203)),
    ([1e-6, 1.0, 0.0, 1000.0], 1.5, (1, 10_000, 0, 1_000_000)),
    ([1e-6, 1.0, 0.0, 1000.0], 2.0, (539244314, 539244314329, 0, 17052402485768)),
    ([1e-6, 1.0, 0.0, 1000.0], 0.5, (1, 17592168, 0, 17592168452244)),
    ([8.0, 27.0, 1.0], 2.0, (5513632621881, 10129189914580, 1949363507952)),
    ([8.0, 27.0, 1.0], 0.5, (1418009958240, 16152019680576, 22156405597)),
    ([8.0, 27.0, 1.0], 3.0, (5864062014804, 8796093022206, 2932031007402)),
    ([1.0, 4.0, 16.0], 2.0, (1, 2, 4)),  # what comes out exactly is small integers
    ([1.0, 100.0], 0.5, (1, 10_000)),
    ([1.0, 1000.0, 0.0], 3.0, (1, 10, 0)),
    ([5.0, 5.0, 5.0], 1.7, (1, 1, 1)),
    ([0.1, 0.1], 0.01, (1, 1)),
    ([3e-320], 2.0, (1,)),
]


@pytest.mark.parametrize(("values", "temperature", "expected"), SHARES)
def test_shares_are_these_very_integers(
    values: list[float], temperature: float, expected: tuple[int, ...]
) -> None:
    assert exact_shares(values, temperature) == expected


@settings(max_examples=often(300, less=20), deadline=None)
@given(several, st.one_of(st.sampled_from(TEMPERATURES), st.floats(0.01, 100)))
def test_zero_stays_zero_the_rest_stays_above_and_order_is_kept(
    values: list[float], temperature: float
) -> None:
    shares = exact_shares(values, temperature)
    assert len(shares) == len(values)
    assert [share > 0 for share in shares] == [value > 0 for value in values]
    assert sum(shares) <= MOST
    by_weight = [share for _, share in sorted(zip(values, shares, strict=True))]
    assert by_weight == sorted(by_weight)


@settings(max_examples=often(100, less=8), deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=10))
def test_a_higher_temperature_is_flatter(values: list[float]) -> None:
    found = [exact_shares(values, t) for t in (0.1, 0.5, 1.0, 1.5, 2.0, 5.0, 100.0, 1e6)]
    tops, lows = ([most(of) / sum(of) for of in found] for most in (max, min))
    slack = 1e-12  # one part in 2^44 either way
    assert all(after <= before + slack for before, after in pairwise(tops))
    assert all(after >= before - slack for before, after in pairwise(lows))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("values", [[0.0, 0.0], [0.0], []])
def test_nothing_to_draw_from_is_refused(values: list[float], temperature: float) -> None:
    with pytest.raises(MixtureError, match="every weight is 0; give at least one"):
        exact_shares(values, temperature)
