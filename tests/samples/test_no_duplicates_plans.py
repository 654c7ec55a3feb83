"""Blocks in which no batch has a text twice, arranged of plans made up by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.base.arrays import Integers
from duckplets.order.permute import below, hashed, key, mix
from duckplets.samples.no_duplicates import arranged
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


def drawn(name: str, samples: int, slots: int, texts: int) -> Integers:
    """Draw texts at random; the slots of one sample differ, as those of a triplet do."""
    cells = np.arange(samples * slots).reshape(samples, slots)
    found = below(hashed(key("distinct", name), cells), texts)
    for slot in range(1, slots):
        while (same := (found[:, slot, None] == found[:, :slot]).any(axis=1)).any():
            found[same, slot] = (found[same, slot] + 1) % texts
    return found


def batches_of(plan: Plan, size: int) -> list[list[set[int]]]:
    rows = [set(map(int, row)) for row in zip(*plan.hashes, strict=True)]
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def has_repeats(plan: Plan, size: int) -> bool:
    return any(
        max(Counter(text for texts in batch for text in texts).values()) > 1
        for batch in batches_of(plan, size)
    )


def arrange(plan: Plan, size: int) -> Plan:
    """Arrange a block; where it has too few texts, there are others that nobody has."""
    slots = len(plan.chunks)

    def drawn(plan: Plan) -> Drawn:
        row = np.arange(len(plan))
        return Drawn(plan, row * 0, row, row * 0, [])

    def others(start: int, count: int) -> Drawn:
        return drawn(plan_of(10**6 + start + np.arange(count * slots).reshape(count, slots)))

    def further() -> Iterator[Drawn]:
        for tier in range(3):
            yield others(0, 2 + 2 * tier)

    return arranged(drawn(plan), size, further(), lambda count: others(10**5, count))


def check(plan: Plan, size: int, *, displaced: int | None = 0) -> Plan:
    """Arrange a block, and check everything that is promised of every arrangement.

    So many samples give their places; None for any number.
    """
    found, again = arrange(plan, size), arrange(plan, size)
    assert found.displaced is not None
    assert not has_repeats(found, size)
    assert found.positions.tolist() == again.positions.tolist() == plan.positions.tolist()
    for column, twice in zip(columns(found), columns(again), strict=True):
        assert column.tolist() == twice.tolist()
    gave = found.displaced >= 0
    assert displaced in (None, gave.sum())
    order = found.chunks[0] // len(plan.chunks)
    own = np.unique(order[~gave])
    assert len(own) == len(plan) - gave.sum()  # each at one place, but those that were displaced
    missing = np.setdiff1d(np.arange(len(plan)), own)
    assert sorted(found.displaced[gave]) == sorted(plan.streams[missing])
    for column, expected in zip(columns(found), columns(plan), strict=True):
        assert column[~gave].tolist() == expected[order[~gave]].tolist()
    return found


def columns(plan: Plan) -> list[npt.NDArray[Any]]:
    return [plan.streams, *plan.chunks, *plan.hashes, plan.swapped]


def test_the_next_sample_that_fits_takes_a_place() -> None:
    texts = np.arange(12).reshape(12, 1)
    texts[[0, 2, 5, 6, 9]] = 100  # twice in the second batch; in the last it is missing
    texts[1] = 100
    found = check(plan_of(texts), 4, displaced=3)
    assert found.chunks[0].tolist() == [0, 4, 7, 3, 4, 5, 8, 7, 8, 9, 10, 11]


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
    check(plan, size, displaced=None)


def can_be_arranged(texts: list[list[int]], size: int) -> bool:
    """Try everything: samples with the fewest batches left first, batches that are alike once."""
    left = [size] * (len(texts) // size) + [len(texts) % size] * (len(texts) % size > 0)
    had: list[frozenset[int]] = [frozenset()] * len(left)

    def all_placed(waiting: dict[int, frozenset[int]]) -> bool:
        if not waiting:
            return True
        fitting = {
            sample: [b for b in range(len(left)) if left[b] and not had[b] & mine]
            for sample, mine in waiting.items()
        }
        sample = min(fitting, key=lambda s: len(fitting[s]))
        others = {s: mine for s, mine in waiting.items() if s != sample}
        for batch in {(left[b], had[b]): b for b in fitting[sample]}.values():
            before = had[batch]
            left[batch], had[batch] = left[batch] - 1, before | waiting[sample]
            if all_placed(others):
                return True
            left[batch], had[batch] = left[batch] + 1, before
        return False

    return all_placed({sample: frozenset(row) for sample, row in enumerate(texts)})


def small_block(draw: random.Random) -> tuple[list[list[int]], int]:
    """Draw texts of a few small batches, half of them mixed from batches without repeats."""
    batches, size, slots = draw.randint(2, 4), draw.randint(2, 5), draw.randint(1, 3)
    samples = (batches - 1) * size + draw.randint(1, size)
    if draw.random() < 0.5:
        vocabulary = range(draw.randint(max(slots, size * slots // 2), 3 * size * slots))
        return [draw.choices(vocabulary, k=slots) for _ in range(samples)], size
    vocabulary = range(size * slots + draw.randint(0, size * slots))
    dealt = [draw.sample(vocabulary, size * slots) for _ in range(batches)]
    rows = [row[at : at + slots] for row in dealt for at in range(0, len(row), slots)][:samples]
    draw.shuffle(rows)
    return rows, size


@pytest.mark.parametrize("seed", range(often(10, less=1)))
def test_hardly_a_place_is_given_where_all_could_be_arranged(seed: int) -> None:
    draw = random.Random(seed)
    arranged = gave = samples = 0
    for _ in range(150):
        texts, size = small_block(draw)
        plan = plan_of(np.array(texts))
        found = check(plan, size, displaced=None)
        if can_be_arranged(texts, size):
            assert found.displaced is not None
            arranged += has_repeats(plan, size)
            gave += int((found.displaced >= 0).sum())
            samples += len(plan)
    assert arranged > 50
    assert gave < 0.1 * samples
