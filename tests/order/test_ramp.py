"""Ramps: shares that go in a straight line, dealt exactly, at any place and in any pieces."""

from __future__ import annotations

import math
import random
import threading
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from effort import often, some
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.base.arrays import Integers
from duckplets.order.apportion import Ramp
from duckplets.order.permute import key

pytestmark = pytest.mark.usefixtures("pools_once")


@dataclass(frozen=True)
class Case:
    """A ramp whose steps have ``batch`` positions, ``per_draw`` of which share a draw."""

    start: tuple[int, ...]
    end: tuple[int, ...]
    steps: int
    batch: int
    per_draw: int = 1
    purpose: int = 0

    def ramp(self) -> Ramp:
        return Ramp(
            self.start,
            self.end,
            self.steps,
            edges=self.edges,
            step_of=lambda draws: draws * self.per_draw // self.batch,
            purpose=key("ramp", self.purpose),
        )

    def edges(self, steps: Any) -> Any:
        return -(-(steps * self.batch) // self.per_draw)

    @property
    def items(self) -> int:
        return int(self.edges(self.steps))

    @property
    def bound(self) -> int:
        some = sum(a + b > 0 for a, b in zip(self.start, self.end, strict=True))
        return 2 * (math.ceil(math.log2(max(2, some))) + 1)

    def parts(self) -> np.ndarray[Any, Any]:
        """Return the part of every leaf at every step, shape (steps, leaves)."""
        low, high = (np.array(w) / sum(w) for w in (self.start, self.end))
        way = np.arange(self.steps)[:, None] / self.steps
        return low + (high - low) * way

    def due(self, leaf: int, steps: int) -> Fraction:
        """Return the exact sum of a leaf's parts over the first steps, one draw a position."""
        low, high = (Fraction(w[leaf], sum(w)) for w in (self.start, self.end))
        way = Fraction(steps * (steps - 1), 2 * self.steps)
        return self.batch * (low * steps + (high - low) * way)


def dealt(ramp: Ramp, start: int, stop: int) -> tuple[Integers, Integers]:
    """Return the leaf of every item, and how many that leaf had before it."""
    leaf = np.full(stop - start, -1, dtype=np.int64)
    index = np.full(stop - start, -1, dtype=np.int64)
    for share in ramp.shares(start, stop):
        assert len(share.offsets)
        assert (leaf[share.offsets] == -1).all()
        leaf[share.offsets] = share.leaf
        index[share.offsets] = share.start + np.arange(len(share.offsets))
    assert (leaf >= 0).all()
    return leaf, index


def random_ends(draw: random.Random, leaves: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shares of all sizes, with sources that come, go, or never are."""
    ends = []
    for _ in range(2):
        shares = [draw.choice([0, 1, 10 ** draw.randint(0, 9), 1009]) for _ in range(leaves)]
        shares[draw.randrange(leaves)] = draw.randint(1, 2000)
        ends.append(tuple(shares))
    return ends[0], ends[1]


@pytest.mark.parametrize("leaves", range(2, 13))
@pytest.mark.parametrize("per_draw", [1, 3])
def test_every_prefix_is_near_the_sum_of_the_shares(leaves: int, per_draw: int) -> None:
    draw = random.Random(leaves * 10 + per_draw)
    for length, batch in [
        (1, 4096),
        (2, 1),
        (7, 5),
        (300, 24),
        (9000, 1),
        (draw.randint(20, 60), 512),
    ]:
        case = Case(*random_ends(draw, leaves), length, batch, per_draw, draw.randint(0, 99))
        leaf, index = dealt(case.ramp(), 0, case.items)
        steps = np.arange(case.items) * per_draw // batch
        parts = case.parts()[steps]
        for i in range(leaves):
            off = np.cumsum((leaf == i) - parts[:, i])
            assert np.abs(off).max() < case.bound
            here = index[leaf == i]
            assert (here == np.arange(len(here))).all()
        assert (parts[np.arange(len(leaf)), leaf] > 0).all(), "a leaf of share 0 got something"


@pytest.mark.parametrize("leaves", some([2, 3, 5, 8, 12], less=2))
@pytest.mark.parametrize(
    ("length", "batch"),
    some([(20_000, 4096), (20_000, 1), (10**6, 4096), (10**7, 1 << 14), (4096, 100)], less=2),
)
def test_counts_of_long_ramps_are_near_the_sum_of_the_shares(
    leaves: int, length: int, batch: int
) -> None:
    draw = random.Random(length + leaves)
    case = Case(*random_ends(draw, leaves), length, batch)
    ramp = case.ramp()
    most = min(length, 10**6)  # what lies before a place is summed once, and kept
    for steps in sorted({1, 4095, 4096, 4097, most, *(draw.randint(0, most) for _ in range(3))}):
        steps = min(steps, most)
        counts = [ramp.count(leaf, steps * batch) for leaf in range(leaves)]
        assert sum(counts) == steps * batch
        for leaf, count in enumerate(counts):
            assert abs(count - case.due(leaf, steps)) < case.bound


@pytest.mark.parametrize("length", [10**9, 10**12, 10**15])
def test_a_ramp_may_be_as_long_as_any_run(length: int) -> None:
    case = Case((900_000, 100_000, 1), (1, 3, 5), length, 4096)
    ramp = case.ramp()
    for leaf in range(3):
        assert abs(ramp.count(leaf, 100_000 * 4096) - case.due(leaf, 100_000)) < case.bound


@settings(max_examples=often(80, less=6), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    leaves=st.integers(1, 12),
    length=st.sampled_from([1, 2, 40, 4095, 4096, 4097, 20_000]),
    batch=st.sampled_from([1, 2, 7, 24]),
    per_draw=st.sampled_from([1, 2, 3, 5]),
    cuts=st.lists(st.floats(0, 1), max_size=8),
)
def test_cuts_change_nothing_and_counts_are_those_of_the_walk(
    seed: int, leaves: int, length: int, batch: int, per_draw: int, cuts: list[float]
) -> None:
    draw = random.Random(seed)
    case = Case(*random_ends(draw, leaves), length, batch, per_draw, seed)
    # A window of it, begun anywhere: in the middle of a step, or right before its end.
    start = draw.randint(0, max(0, case.items - 1))
    stop = min(case.items, start + 400)
    leaf, index = dealt(case.ramp(), start, stop)
    ramp = case.ramp()
    spans = list(pairwise(sorted({start, stop, *(int(start + c * (stop - start)) for c in cuts)})))
    draw.shuffle(spans)
    for low, high in spans:
        part, part_index = dealt(ramp, low, high)
        assert part.tolist() == leaf[low - start : high - start].tolist()
        assert part_index.tolist() == index[low - start : high - start].tolist()
    for i in range(leaves):
        first = ramp.count(i, start)
        here = index[leaf == i]
        assert here.tolist() == list(range(first, first + len(here)))
        assert ramp.count(i, stop) == first + len(here)


def test_the_first_step_has_the_first_shares_and_the_last_nearly_the_last() -> None:
    case = Case((3, 1, 0), (0, 1, 3), 100, 4000)
    leaf, _ = dealt(case.ramp(), 0, case.items)
    by_step = [np.bincount(step, minlength=3).tolist() for step in leaf.reshape(100, 4000)]
    for found, expected in ((by_step[0], [3000, 1000, 0]), (by_step[-1], [30, 1000, 2970])):
        assert all(abs(a - b) <= 3 for a, b in zip(found, expected, strict=True))
    assert by_step[0][2] == 0
    firsts = [step[0] for step in by_step]
    assert all(before - after >= 27 for before, after in pairwise(firsts))


def test_a_leaf_that_has_no_share_gets_nothing() -> None:
    case = Case((1, 0, 5, 0), (2, 0, 0, 0), 50, 10)
    ramp = case.ramp()
    assert set(dealt(ramp, 0, 500)[0].tolist()) == {0, 2}
    assert [ramp.count(leaf, 500) for leaf in (1, 3)] == [0, 0]
    alone = Case((0, 4), (0, 9), 50, 10).ramp()
    assert dealt(alone, 0, 500)[0].tolist() == [1] * 500
    assert list(alone.shares(7, 7)) == []


def test_the_key_rotates_the_phases() -> None:
    found = {
        tuple(dealt(Case((1, 1, 1), (1, 2, 1), 9, 3, purpose=p).ramp(), 0, 27)[0].tolist())
        for p in range(20)
    }
    assert len(found) > 10


def test_what_threads_ask_at_once_is_what_one_gets() -> None:
    case = Case((1, 2, 0, 7), (5, 0, 3, 1), 60_000, 3)
    places = [170_000, 12_290, 12_288, 5, 100_000, 60_000]
    expected = {p: dealt(case.ramp(), p, p + 100)[0].tolist() for p in places}
    ramp = case.ramp()
    found: list[dict[int, list[int]]] = []

    def ask(shift: int) -> None:
        order = places[shift:] + places[:shift]
        found.append({p: dealt(ramp, p, p + 100)[0].tolist() for p in order})

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6
