"""Measures index samplers: keys and elements a second, beside Grain's in the same run.

Part of ``run.py``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

SECONDS = 1.0  # of measuring each figure, after a warm-up of a tenth of that
SIZES = (1_000_000, 100, 3, 2, 1)
SHARDS = 8


def index_order(folder: Path, records: int) -> dict[str, float]:
    """Our sampler, shuffled: keys as arrays, elements, and elements with their generators."""
    import duckplets as dp

    found = {}
    for n in SIZES:
        sampler = dp.index.IndexSampler(n, shuffle=True, seed=42)
        found[f"keys_per_s_of_{n}"] = _keys(sampler)
        found[f"elements_per_s_of_{n}"] = _elements(sampler)
        found[f"generators_per_s_of_{n}"] = _elements(m.rng for m in sampler)
    shard = dp.index.IndexSampler(SIZES[0], dp.index.ShardOptions(3, SHARDS), shuffle=True, seed=42)
    found["keys_per_s_of_a_shard"] = _keys(shard)
    found["elements_per_s_of_a_shard"] = _elements(shard)
    return found


def grain_index_order(folder: Path, records: int) -> dict[str, float]:
    """Grain's sampler, shuffled: it has no arrays, and makes every generator at once."""
    import grain

    def elements(n: int, shards: int = 1) -> Iterator[Any]:
        options = grain.sharding.ShardOptions(shard_index=0, shard_count=shards)
        sampler = grain.samplers.IndexSampler(
            num_records=n, shard_options=options, shuffle=True, seed=42
        )
        return iter(sampler)

    found = {f"elements_per_s_of_{n}": _elements(elements(n)) for n in SIZES}
    return found | {"elements_per_s_of_a_shard": _elements(elements(SIZES[0], SHARDS))}


def _keys(sampler: Any, block: int = 1 << 16) -> float:
    starts = iter(range(0, 1 << 60, block))

    def take() -> None:
        start = next(starts)
        sampler.keys(start, start + block)

    return block * _rate(take)


def _elements(elements: Iterable[Any], block: int = 64) -> float:
    iterator = iter(elements)
    return block * _rate(lambda: deque(islice(iterator, block), 0))


def _rate(take: Callable[[], Any]) -> float:
    """Return how often a second something can be done."""
    for seconds in (SECONDS / 10, SECONDS):
        count, started = 0, time.perf_counter()
        while (passed := time.perf_counter() - started) < seconds:
            take()
            count += 1
    return count / passed
