"""Batches of one bucket each: every source's items come in its own order, and shares add up."""

from collections import Counter, defaultdict
from fractions import Fraction
from math import ceil, log2

import dealing
import numpy as np
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.order.mixture import Event
from duckplets.tokens.buckets import BucketSchedule

NAMES = ["alpha", "bravo", "charlie"]
WEIGHTS = st.sampled_from([0, 1, 1.009, 0.1, 3, 7.5])


@st.composite
def schedules(draw):
    names = NAMES[: draw(st.integers(1, 3))]
    weights = {name: draw(WEIGHTS) for name in names}
    weights[names[0]] = 2.0
    buckets = draw(st.integers(1, 4))
    items = {name: [draw(st.integers(0, 60)) for _ in range(buckets)] for name in names}
    for of in items.values():
        of[0] += 1
    steps = sorted(draw(st.sets(st.integers(1, 40), max_size=3)))
    phases = [dp.Phase(step, {names[-1]: draw(st.sampled_from([0.5, 4]))}) for step in steps]
    events = {
        draw(st.integers(0, 50)): Event({names[0]: 5.0}) for _ in range(draw(st.integers(0, 2)))
    }
    batch = draw(st.integers(1, 9))
    made = BucketSchedule(
        dp.Mixture(weights, phases=phases),
        items,
        seed=draw(st.integers(0, 99)),
        batch=batch,
        events=events,
    )
    return made, batch


def dealt(schedule, draws):
    """Return leaf and index of every draw."""
    return list(zip(*(part.tolist() for part in dealing.dealt(schedule, draws)), strict=True))


@settings(max_examples=often(80, less=8), deadline=None)
@given(schedules(), st.integers(0, 400), st.data())
def test_batches_are_of_one_bucket_and_streams_go_on(made, size, data):
    schedule, batch = made
    found = dealt(schedule, np.arange(size))
    following = Counter[int]()
    buckets = defaultdict(set)
    for draw, (leaf, index) in enumerate(found):
        assert index == following[leaf]
        following[leaf] += 1
        buckets[draw // batch].add(leaf // len(schedule.sources))
    assert all(len(of) == 1 for of in buckets.values())
    counts = schedule.dealt(size)
    assert counts == [following[leaf] for leaf in range(len(counts))]
    of_sources = np.array(counts).reshape(-1, len(schedule.sources)).sum(0).tolist()
    assert schedule.samples(size) == of_sources
    some = sorted(data.draw(st.sets(st.integers(0, max(0, size - 1)), max_size=20)))
    if size:
        assert dealt(schedule, np.array(some, np.int64)) == [found[draw] for draw in some]
    step = data.draw(st.integers(0, 60))
    changed = schedule.with_event(step, Event({schedule.sources[0]: 9}))
    assert dealt(changed, np.arange(size))[: step * batch] == found[: step * batch]
    assert dealt(changed.with_events(changed.events), np.arange(size)) == dealt(
        changed, np.arange(size)
    )


@pytest.mark.parametrize("seed", range(often(3, less=1)))
def test_counts_are_as_near_to_shares_as_for_texts(seed):
    weights = {"alpha": 0.5, "bravo": 0.3, "charlie": 0.2}
    items = {"alpha": [300, 200, 0], "bravo": [10, 40, 50], "charlie": [5, 5, 90]}
    schedule = BucketSchedule(dp.Mixture(weights), items, seed=seed, batch=8)
    found = dealt(schedule, np.arange(24_000))
    parts = [
        [Fraction(str(weights[s])) * items[s][b] / sum(items[s]) for s in NAMES] for b in range(3)
    ]
    bound = ceil(log2(3)) + 1
    by_bucket = [[], [], []]
    for leaf, _ in found:
        by_bucket[leaf // 3].append(leaf % 3)
    for shares, leaves in zip(parts, by_bucket, strict=True):
        assert abs(len(leaves) / 8 - 3_000 * sum(shares)) < bound
        for source, share in enumerate(shares):
            upto = np.cumsum(np.array(leaves) == source)
            exact = np.arange(1, len(leaves) + 1) * float(share / sum(shares))
            assert np.abs(upto - exact).max() < bound
    whole = Counter(leaf % 3 for leaf, _ in found)
    for source, name in enumerate(NAMES):
        assert abs(whole[source] / 24_000 - weights[name]) < 0.002
