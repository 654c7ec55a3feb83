"""A rank's part: what ranks and workers take, and that all rows are taken as often as they are due.

No database here: streams over hand-made pools, dealt and planned as in a run.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest
from effort import some

import duckplets as dp
from duckplets.order.permute import key, mix
from duckplets.order.ranks import RankPart
from duckplets.order.schedule import Schedule
from duckplets.pools.arrays import Anchors, Pool
from duckplets.pools.compile import CompiledPool
from duckplets.runs.settings import RunSettings
from duckplets.samples.no_duplicates import PLANNERS, NoDuplicatesPlanner
from duckplets.samples.plan import PartPlanner, Planner
from duckplets.samples.stream import Stream

WORLDS = range(1, 10)


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
    return PLANNERS.get(distinct, NoDuplicatesPlanner)(
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
