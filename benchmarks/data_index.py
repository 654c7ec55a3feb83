"""Measures data indexes: making, adjusting and selecting, beside lists of tuples in the same run.

    python benchmarks/data_index.py [--entries 25000000] [--listed 1000000]

The other side is what an index of LLaMA-Factory is (commit ff6d4d12, written anew here): a list of
``(name, row)``, and ``random.choices`` for both size and weight. It draws with replacement, so it
does another job than ours; what is compared is what users wait for and hold in memory. Prints one
JSON object; each side is a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

ENTRIES = 25_000_000
LISTED = 1_000_000
SELECTED = 1_000_000
RUNS = 3


def ours(entries: int) -> dict[str, float]:
    """Two data sets as one index: all rows, half of them, and nine tenths."""
    import numpy as np

    from duckplets.records.data_index import DataIndex

    before = _peak_mb()
    sizes = {"large": entries * 4 // 5, "small": entries - entries * 4 // 5}
    made, index = _timed(lambda: DataIndex(sizes))
    first, _ = _timed(lambda: index.adjust_by_size(entries // 2))
    sample, _ = _timed(lambda: index.adjust_by_size(entries // 2, mode="sample"))
    weighted, adjusted = _timed(lambda: index.adjust_by_weight(0.9))
    peak = _peak_mb() - before
    numbers = np.random.default_rng(1).integers(0, len(adjusted), SELECTED)
    arrays, _ = _timed(lambda: adjusted.arrays(numbers))
    tuples, _ = _timed(lambda: adjusted.select(numbers))
    return {
        "entries": entries,
        "make_s": made,
        "size_first_s": first,
        "size_sample_s": sample,
        "weight_s": weighted,
        "make_size_sample_and_weight_s": made + sample + weighted,
        "select_arrays_per_s": SELECTED / arrays,
        "select_tuples_per_s": SELECTED / tuples,
        "bytes_per_entry": index.nbytes / entries,
        "peak_mb_above_import": peak,
    }


def listed(entries: int) -> dict[str, float]:
    """The same as a list of tuples, by ``random.choices``."""
    before = _peak_mb()

    def make() -> list[tuple[str, int]]:
        large = [("large", row) for row in range(entries * 4 // 5)]
        return large + [("small", row) for row in range(entries - len(large))]

    made, index = _timed(make)
    sized, _ = _timed(lambda: random.choices(index, k=entries // 2))
    weighted, adjusted = _timed(lambda: random.choices(index, k=int(entries * 0.9)))
    peak = _peak_mb() - before
    numbers = [random.randrange(len(adjusted)) for _ in range(SELECTED)]
    selected, _ = _timed(lambda: [adjusted[i] for i in numbers])
    return {
        "entries": entries,
        "make_s": made,
        "size_s": sized,
        "weight_s": weighted,
        "make_size_and_weight_s": made + sized + weighted,
        "select_tuples_per_s": SELECTED / selected,
        "distinct_rows_of_a_weight_of_1": len(set(random.choices(index, k=entries))) / entries,
        "peak_mb_above_import": peak,
    }


def measure(entries: int = ENTRIES, peer_entries: int = LISTED) -> dict[str, Any]:
    """Return the best figures of several runs of both, and ours at the size of the other."""
    found = {
        "ours": _best(ours, entries),
        "ours_at_the_lists_size": _best(ours, peer_entries),
        "list_of_tuples": _best(listed, peer_entries),
    }
    small, plain = found["ours_at_the_lists_size"], found["list_of_tuples"]
    found["ratios"] = {
        "time": plain["make_size_and_weight_s"] / small["make_size_sample_and_weight_s"],
        "memory": plain["peak_mb_above_import"] / small["peak_mb_above_import"],
    }
    return found


def _best(run: Callable[[int], dict[str, float]], entries: int) -> dict[str, float]:
    """Return the lowest times and highest rates of several processes."""
    runs = []
    for _ in range(RUNS):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            runs.append(pool.submit(run, entries).result())
    return {k: (max if k.endswith("per_s") else min)(r[k] for r in runs) for k in runs[0]}


def _timed(make: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    made = make()
    return time.perf_counter() - started, made


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--listed", type=int, default=LISTED)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.entries, arguments.listed), indent=2))
