"""Positions with gaps, as a rank plans them: dealt and permuted as if all of them were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dealing import dealt
from effort import often, some
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.order import permute
from duckplets.order.apportion import Apportionment
from duckplets.order.mixture import Anneal, Event, Mixture, Phase
from duckplets.order.permute import key, ranks, ranks_at
from duckplets.order.ranks import RankPart
from duckplets.order.schedule import Schedule

SOURCES = ["a", "b", "c"]
PHASES = [Phase(3, {"b": 0}), Phase(40, {"a": 0.1, "c": 1 / 3})]
MIXTURES = {
    "constant": Mixture({"a": 1.009, "b": 2}, omitted=1),
    "phases": Mixture({"a": 3}, phases=PHASES, omitted=1),
    "ramp": Mixture({"a": 5, "b": 0}, 2, anneal=Anneal(2, {"a": 0, "b": 1}, 60), omitted=1),
}
PARTS = st.builds(
    lambda size, rank, more, workers: RankPart(size, rank, rank + more, workers),
    st.integers(1, 9),
    st.integers(0, 5),
    st.integers(1, 4),
    st.integers(1, 3),
)


@pytest.mark.parametrize("name", MIXTURES)
@settings(max_examples=often(100, less=12), deadline=None)
@given(
    part=PARTS,
    start=st.integers(0, 50),
    batches=st.integers(1, 30),
    cut=st.integers(0, 3),
    per_draw=st.integers(1, 3),
    events=st.dictionaries(st.integers(0, 90), st.just(Event({"c": 2.5})), max_size=3),
)
def test_own_draws_are_dealt_as_among_all(
    name: str, part: RankPart, start: int, batches: int, cut: int, per_draw: int, events: Any
) -> None:
    schedule = Schedule(
        MIXTURES[name],
        SOURCES,
        seed=7,
        batch=part.batch,
        samples_per_draw=per_draw,
        events=events,
    )
    low = start * part.stride
    own = part.own(low, low + batches * part.stride - cut)
    draws = np.unique(own // per_draw)
    if not len(draws):
        return
    every = np.arange(draws[0], draws[-1] + 1)
    whole = dealt(schedule, every)
    for all_of_them, found in zip(whole, dealt(schedule, draws), strict=True):
        assert (found == all_of_them[draws - every[0]]).all()


@pytest.mark.parametrize("far", [0, 10**12])
@pytest.mark.parametrize("weights", [(1, 2, 5), ((1 << 43) + 1, (1 << 43) - 77, 12_345)])
def test_draws_far_apart_are_dealt_exactly(far: int, weights: tuple[int, ...]) -> None:
    deal = Apportionment(weights, key("far apart"))
    draws = np.unique(np.concatenate([np.arange(300) * 57_265_623, np.arange(300)])) + far
    leaves, indexes = dealt(deal, draws)
    for i in range(0, len(draws), 7):
        before, after = (deal.counts(int(draws[i]) + more) for more in (0, 1))
        assert after[leaves[i]] - before[leaves[i]] == 1
        assert before[leaves[i]] == indexes[i]


@pytest.mark.parametrize("n", some([1, 2, 7, 1000, 4096, 4097, 5000], less=5))
@pytest.mark.parametrize("gap", [1, 3, 700, 9000])
def test_ranks_with_gaps_are_those_among_all(n: int, gap: int) -> None:
    start, stop = 5 * n + 1, 5 * n + 1 + gap * 40
    items, epochs = ranks(99, n, start, stop)
    which = np.unique(np.concatenate([np.arange(0, stop - start, gap), [stop - start - 1]]))
    found = ranks_at(99, n, which + start)
    assert (found[0] == items[which]).all()
    assert (found[1] == epochs[which]).all()


def test_epochs_are_sorted_by_all_bits_of_their_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that hashes in place of which a part stands do not tell apart."""
    hashed = permute.hashed

    def alike(purpose: int, values: Any, attempt: int = 0) -> Any:
        words = hashed(purpose, values, attempt)  # several items with the same high bits
        return words & np.uint64(0xFF) | words >> np.uint64(40) << np.uint64(60)

    monkeypatch.setattr(permute, "hashed", alike)
    n = 200
    orders = permute._orders(5, n, np.arange(3))
    cells = np.arange(3 * n).reshape(3, n)
    assert (orders == np.argsort(alike(5, cells), axis=1, kind="stable")).all()
