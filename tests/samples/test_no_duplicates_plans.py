"""Blocks in which no batch has a text twice, arranged of plans made up by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.base.arrays import Integers
from duckplets.order.permute import mix
from duckplets.samples.no_duplicates import Sharing, arranged
from duckplets.samples.plan import Plan
from duckplets.samples.redraw import Drawn

pytestmark = pytest.mark.usefixtures("pools_once")


def plan_of(texts: Integers, start: int = 0) -> Plan:
    """Make a plan of a row of texts (small integers) for every sample, a column a slot.

    Chunk keys number samples and slots, so that where a sample went can be read off them.
    """
    samples, slots = texts.shape
    row = np.arange(samples)
    return Plan(
        start + row,
        row % 3,
        np.stack([row * slots + slot for slot in range(slots)]),
        mix(texts.T.astype(np.uint64)),
        row % 2 == 0,
        labels=np.ones(samples, dtype=np.int64) if slots > 1 else None,  # so nothing is drawn again
    )


def has_repeats(plan: Plan, size: int) -> bool:
    rows = [set(map(int, row)) for row in zip(*plan.hashes, strict=True)]
    batches = [rows[at : at + size] for at in range(0, len(rows), size)]
    return any(sum(map(len, batch)) > len(set().union(*batch)) for batch in batches)


def arrange(plan: Plan, size: int) -> Plan:
    """Arrange a block; where it has too few texts, there are others that nobody has."""
    slots = len(plan.chunks)

    def drawn(plan: Plan) -> Drawn:
        row = np.arange(len(plan))
        return Drawn(plan, row * 0, row, row * 0, [])

    def others(start: int, count: int) -> Drawn:
        return drawn(plan_of(10**6 + start + np.arange(count * slots).reshape(count, slots)))

    def spare(count: int, group: int, batch: int) -> Drawn:
        return others(10**5 + batch * 100 * size, count)

    return arranged(drawn(plan), size, spare, Sharing(np.zeros(3, np.int64)))


def check(plan: Plan, size: int) -> None:
    """Arrange a block, and check everything that is promised of every arrangement."""
    found, again = arrange(plan, size), arrange(plan, size)
    assert found.displaced is not None
    assert not has_repeats(found, size)
    assert found.positions.tolist() == again.positions.tolist() == plan.positions.tolist()
    for column, twice in zip(columns(found), columns(again), strict=True):
        assert column.tolist() == twice.tolist()
    gave = found.displaced >= 0
    order = found.chunks[0] // len(plan.chunks)
    own = np.unique(order[~gave])
    assert len(own) == len(plan) - gave.sum()  # each at one place, but those that were displaced
    missing = np.setdiff1d(np.arange(len(plan)), own)
    assert sorted(found.displaced[gave]) == sorted(plan.streams[missing])
    for column, expected in zip(columns(found), columns(plan), strict=True):
        assert column[~gave].tolist() == expected[order[~gave]].tolist()


def columns(plan: Plan) -> list[npt.NDArray[Any]]:
    return [plan.streams, *plan.chunks, *plan.hashes, plan.swapped]


@settings(max_examples=often(200, less=40), deadline=None)
@given(data=st.data())
def test_any_block_is_mended(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 8), label="size")
    samples = data.draw(st.integers(1, 48), label="samples")
    slots = data.draw(st.integers(1, 4), label="slots")
    vocabulary = data.draw(st.integers(1, 300), label="vocabulary")
    rows = st.lists(st.integers(0, vocabulary), min_size=slots, max_size=slots)
    texts = data.draw(st.lists(rows, min_size=samples, max_size=samples), label="texts")
    plan = plan_of(np.array(texts, dtype=np.int64))
    check(plan, size)
