"""A rank's part: what ranks and workers take, and that all rows are taken as often as they are due.

No database here: streams over hand-made pools, dealt and planned as in a run.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from effort import often, some
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.order.permute import key, mix
from duckplets.order.ranks import RankPart, batch_size_of
from duckplets.order.schedule import Schedule
from duckplets.pools.arrays import Anchors, Pool
from duckplets.pools.compile import CompiledPool
from duckplets.runs.settings import RunSettings
from duckplets.samples.no_duplicates import PLANNERS
from duckplets.samples.plan import PartPlanner, Planner
from duckplets.samples.stream import Stream

WORLDS = range(1, 10)


def parts_of(batch_size: int, world_size: int, workers: int = 1) -> list[RankPart]:
    return [RankPart(batch_size, rank, world_size, workers) for rank in range(world_size)]


@settings(max_examples=often(200, less=12), deadline=None)
@given(
    batch_size=st.integers(1, 12),
    world_size=st.integers(1, 12),
    start=st.integers(0, 10**12),
    short=st.floats(0, 1),
)
def test_slices_laid_end_to_end_are_the_batch(
    batch_size: int, world_size: int, start: int, short: float
) -> None:
    ranks = parts_of(batch_size, world_size)
    for size in (ranks[0].batch, int(short * ranks[0].batch)):
        slices = [part.slice(start, start + size) for part in ranks]
        assert slices[0][0] == start
        assert slices[-1][1] == start + size
        assert all(one[1] == other[0] for one, other in pairwise(slices))
        sizes = [high - low for low, high in slices]
        assert max(sizes) - min(sizes) <= 1
    assert all(p.slice(start, start + p.batch)[0] == start + p.rank * batch_size for p in ranks)


@settings(max_examples=often(200, less=12), deadline=None)
@given(
    batch_size=st.integers(1, 9),
    world_size=st.integers(1, 9),
    workers=st.integers(1, 4),
    start=st.integers(0, 10**12),
    batches=st.integers(1, 6),
    cut=st.integers(0, 80),
)
def test_ranks_and_workers_share_out_a_block(
    batch_size: int, world_size: int, workers: int, start: int, batches: int, cut: int
) -> None:
    """Each takes whole slices of every batch that is its turn, in order; the last may be short."""
    ranks = parts_of(batch_size, world_size, workers)
    batch = ranks[0].batch
    stop = start + batches * ranks[0].stride
    end = max(start + 1, stop - cut)
    taken: list[int] = []
    for worker in range(workers):
        at = start + worker * batch
        # As a reader does: a worker's block begins with its own batch.
        high = min(at + batches * ranks[0].stride, end)
        if at >= end:
            continue
        begins = ranks[0].batches(at, high).tolist()
        whole = [p for b in begins for p in range(b, min(b + batch, end))]
        owns = [part.own(at, high).tolist() for part in ranks]
        for part, own in zip(ranks, owns, strict=True):
            slices = [part.slice(b, min(b + batch, end)) for b in begins]
            assert own == [p for low, high in slices for p in range(low, high)]
        assert sorted(p for own in owns for p in own) == whole
        taken += whole
    assert sorted(taken) == list(range(start, end))


def test_batches_are_divided_among_those_that_divide_them() -> None:
    for total in range(1, 100):
        divisors = [w for w in range(1, total + 1) if total % w == 0]
        for world_size in range(1, 110):
            if world_size in divisors:
                assert batch_size_of(total, world_size) * world_size == total
                continue
            with pytest.raises(dp.SamplerError, match=f"world_size={world_size}: ") as error:
                batch_size_of(total, world_size)
            assert str(error.value).endswith(f"do: {', '.join(map(str, divisors))}")


def stream(source: str, rows: int, seed: int, weight: float = 1) -> Stream:
    """A stream of texts over rows 0 … rows-1."""
    chunks = np.arange(rows, dtype=np.int64)
    hashes = mix(chunks.astype(np.uint64) + np.uint64(key(source) >> 1))
    starts, classes = np.arange(rows + 1), np.zeros(rows, dtype=np.int64)
    recipe = dp.TextRecipe(f"r{weight}", dp.any_section(), weight=weight)
    compiled = CompiledPool(recipe, {"source": source, "negatives": 1})
    return Stream(
        source, Pool(compiled, Anchors(chunks, hashes, classes, chunks, starts), None, None), seed
    )


def planner(
    rows: dict[str, int], batch: int, seed: int = 1, mixture: Any = None, *, distinct: bool = False
) -> PartPlanner:
    mixed = mixture or dp.Mixture(rows)  # in proportion to the rows, by default
    return PLANNERS[distinct](
        [stream(name, count, seed) for name, count in rows.items()],
        Schedule(mixed, list(rows), seed=seed, batch=batch),
        kind="texts",
        seed=seed,
        swap=True,
    )


def bounded(**arguments: Any) -> RunSettings:
    nothing: dict[str, Any] = {field.name: None for field in dataclasses.fields(RunSettings)}
    return RunSettings(**nothing | arguments)


def served(part: PartPlanner, run: RunSettings) -> list[list[list[tuple[str, int, int]]]]:
    """Return (source, row, position) of every sample of every batch of every rank."""
    planner = Planner([part], run.end)
    end = run.end(planner.epoch_start)
    assert end is not None
    plan = planner.plan(0, end)
    rows = [
        (planner.streams[i].source, row, position)
        for i, row, position in zip(plan.streams, plan.chunks[0], plan.positions, strict=True)
    ]
    found = []
    for rank in range(run.world_size):
        part = RankPart(run.batch_size, rank, run.world_size)
        spans = [part.slice(at, min(at + part.batch, end)) for at in range(0, end, part.batch)]
        found.append([rows[low:high] for low, high in spans])
    return found


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("distinct", [False, True])
def test_every_row_is_served_once_an_epoch_for_all_sizes(mixed: bool, distinct: bool) -> None:
    for n in some(range(1, 51), less=15):
        rows = {"a": n, "b": n % 7 + 1} if mixed else {"a": n}
        for world_size in WORLDS:
            size, epochs = (n + world_size) % 5 + 1, world_size % 3 + 1
            if distinct and size * world_size > sum(rows.values()):
                continue
            run = bounded(
                batch_size=size, world_size=world_size, epochs=epochs, remainder="keep", rank=0
            )
            plan = planner(rows, run.global_batch, seed=n, distinct=distinct)
            ranks = served(plan, run)
            assert {len(batches) for batches in ranks} == {
                -(-epochs * sum(rows.values()) // run.global_batch)
            }
            counts = Counter(s[:2] for batches in ranks for batch in batches for s in batch)
            assert counts == {(name, row): epochs for name in rows for row in range(rows[name])}


def test_drop_leaves_out_others_each_epoch() -> None:
    """Dropped at the end of the run only, so of 50 epochs nearly every row misses none."""
    run = bounded(batch_size=4, world_size=3, epochs=50, remainder="drop", rank=0)
    counts = Counter(
        s[1] for batches in served(planner({"a": 17}, 12), run) for batch in batches for s in batch
    )
    assert sorted(counts.values()) == [49] * (50 * 17 % 12) + [50] * (17 - 50 * 17 % 12)
