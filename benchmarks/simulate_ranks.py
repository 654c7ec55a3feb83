"""Simulates a run of 10^10 positions by 1,024 ranks that fail, and counts promises that are broken.

    python benchmarks/simulate_ranks.py > benchmarks/simulate_ranks.json

    stints ─saves→ what was kept ─ranks' parts→ every position once?
    positions ─schedule→ counts of sources ─→ within the bound?      ─permutation→ every anchor once?

No text is read and no position walked: everything is asked of the closed forms by which samplers
themselves decide, at places drawn at random and where something begins or ends. A *stint* goes
from a save to the next failure; then the run begins again at its last save, on other ranks. What
the stint did after that save is lost with the weights it went into. Prints one JSON object.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from duckplets.order.mixture import Mixture, Phase
from duckplets.order.permute import key, ranks
from duckplets.order.ranks import RankPart, batch_size_of
from duckplets.order.schedule import Schedule

Found = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a run is simulated, and how often it is looked at."""

    positions: int = 10**10
    ranks: int = 1024
    batch: int = 122_880  # of all ranks: 1,024, 960, 768, 640, 512 … divide it
    save_every: int = 200  # steps
    between_failures: float = 500.0  # steps, on average, with all ranks
    workers: int = 2  # of a rank
    blocks: int = 6
    sources: tuple[int, ...] = (2, 12, 100)
    changes: int = 3  # of weights
    prefixes: int = 2000
    anchors: tuple[int, ...] = (3, 4096, 4097, 65_537, 1_000_003, 10**7, 10**8, 10**9)
    windows: int = 32
    window: int = 65_536
    seed: int = 7

    @property
    def steps(self) -> int:
        """Global batches; the last may be short."""
        return -(-self.positions // self.batch)


@dataclass(frozen=True)
class Stint:
    """Steps from a save to a failure, by so many ranks; from ``kept`` on they are done again."""

    start: int
    kept: int
    stop: int
    world: int


# ---- ranks that fail


def stints(size: Size) -> list[Stint]:
    """Return a history: failures come at random, and another number of ranks goes on."""
    draw = np.random.default_rng(size.seed)
    worlds = [w for w in range(size.ranks // 2, size.ranks + 1) if size.batch % w == 0]
    found, start, world = [], 0, size.ranks
    while start < size.steps:
        length = int(draw.exponential(size.between_failures * size.ranks / world)) + 1
        stop = min(start + length, size.steps)
        last = stop // size.save_every * size.save_every
        kept = stop if stop == size.steps else max(start, last)
        found.append(Stint(start, kept, stop, world))
        start, world = kept, int(draw.choice(worlds))
    return found


def coverage(size: Size, history: list[Stint]) -> Found:
    """Count the positions that what was kept of all stints leaves out or has twice.

    Of each stint the ranks' counts are added up, so a rank that took too little is missed as well.
    """
    changes: dict[int, int] = {0: 0, size.positions: 0}
    by_ranks = 0
    for stint in history:
        start, stop = (min(s * size.batch, size.positions) for s in (stint.start, stint.kept))
        changes[start] = changes.get(start, 0) + 1
        changes[stop] = changes.get(stop, 0) - 1
        full, short = divmod(stop - start, size.batch)
        for part in parts(size, stint.world):
            low, high = part.slice(0, short)
            by_ranks += full * part.batch_size + high - low
    missing = repeated = served = 0
    for (at, by), (following, _) in pairwise(sorted(changes.items())):
        served += by
        missing += (following - at) * (served == 0)
        repeated += (following - at) * max(0, served - 1)
    return {"missing": missing, "repeated": repeated, "taken_by_ranks": by_ranks}


def parts(size: Size, world: int) -> list[RankPart]:
    batch = batch_size_of(size.batch, world)
    return [RankPart(batch, rank, world) for rank in range(world)]


def slices(size: Size, history: list[Stint]) -> Found:
    """Lay the ranks' slices of some batches of every stint end to end."""
    draw = np.random.default_rng(size.seed + 1)
    looked, wrong = 0, 0
    for stint in history:
        for step in {stint.start, int(draw.integers(stint.start, stint.stop)), stint.stop - 1}:
            start = step * size.batch
            stop = min(start + size.batch, size.positions)
            edge = start
            for part in parts(size, stint.world):
                low, high = part.slice(start, stop)
                wrong += low != edge or high < low
                edge, looked = high, looked + 1
            wrong += edge != stop
    return {"slices": looked, "wrong_slices": wrong}


def blocks(size: Size, history: list[Stint]) -> Found:
    """Compare what all workers of all ranks plan of some blocks with the blocks' positions."""
    draw = np.random.default_rng(size.seed + 2)
    chosen = draw.choice(len(history), min(size.blocks, len(history)), replace=False).tolist()
    looked, wrong = 0, 0
    for stint in [*(history[i] for i in chosen), history[-1]]:
        step = max(stint.start, stint.stop - 2 * size.workers)
        start = step * size.batch
        stop = min(start + 2 * size.workers * size.batch, size.positions)
        taken = [
            RankPart(part.batch_size, part.rank, part.world_size, size.workers).own(
                start + worker * size.batch, stop
            )
            for part in parts(size, stint.world)
            for worker in range(size.workers)
        ]
        wrong += not np.array_equal(np.sort(np.concatenate(taken)), np.arange(start, stop))
        looked += stop - start
    return {"block_positions": looked, "wrong_blocks": wrong}


# ---- sources


def shares(size: Size, count: int) -> Found:
    """Compare counts of sources at prefixes with exact shares, since weights were last set."""
    draw = np.random.default_rng(size.seed + count)
    names = [f"s{number:03}" for number in range(count)]
    weights = draw.integers(1, 1000, (size.changes + 1, count)).tolist()
    starts = [size.steps * i // (size.changes + 1) for i in range(size.changes + 1)]
    first, *later = (dict(zip(names, each, strict=True)) for each in weights)
    phases = [Phase(s, each) for s, each in zip(starts[1:], later, strict=True)]
    schedule = Schedule(Mixture(first, phases=phases), names, seed=size.seed, batch=size.batch)
    bound = 1 if count == 2 else math.ceil(math.log2(count)) + 1
    changed = [start * size.batch for start in starts]
    bases = [schedule.dealt(at) for at in changed]
    edges = [at + by for at in changed for by in (0, 1, 2, 3) if at + by <= size.positions]
    asked = sorted({*draw.integers(0, size.positions, size.prefixes).tolist(), *edges})
    largest, over, uneven = 0.0, 0, 0
    for at, counts in zip(asked, map(schedule.dealt, asked), strict=True):
        phase = max(i for i, start in enumerate(changed) if start <= at)
        total, passed = sum(weights[phase]), at - changed[phase]
        uneven += sum(counts) != at
        for had, base, weight in zip(counts, bases[phase], weights[phase], strict=True):
            off = abs((had - base) * total - passed * weight)  # in parts of the total: exact
            largest, over = max(largest, off / total), over + (off >= bound * total)
    dealt = sum(_dealt_otherwise(schedule, at) for at in asked[:: len(asked) // 8])
    looked = {"prefixes": len(asked), "largest": round(largest, 3), "bound": bound}
    return looked | {"over": over, "uneven": uneven, "dealt_otherwise": dealt}


def _dealt_otherwise(schedule: Schedule, at: int, length: int = 4096) -> int:
    """Count sources of which dealing a stretch says anything else than counting up to both ends."""
    before, after = schedule.dealt(at), schedule.dealt(at + length)
    for share in schedule.deal(np.arange(at, at + length)):
        if share.indexes[0] == before[share.leaf]:
            before[share.leaf] += len(share.indexes)
    return sum(one != other for one, other in zip(before, after, strict=True))


# ---- anchors


def epochs(size: Size, count: int) -> Found:
    """Look for anchors that come twice, or not at all, in one epoch of a stream of so many.

    A short epoch is looked at as a whole, of a long one windows all over it, and the end of it.
    """
    draw = np.random.default_rng(size.seed + count)
    stream = key(size.seed, "simulated", count)
    epoch = int(draw.integers(0, max(1, size.positions // count - 1)))
    begin, end = epoch * count, (epoch + 1) * count
    if count <= size.windows * size.window:
        starts = range(begin, end, size.window)
    else:
        cells = draw.choice(count // size.window - 1, size.windows - 1, replace=False)
        starts = [*(begin + cells * size.window).tolist(), end - size.window // 2]
    own, following, wrong = [], [], 0
    for start in starts:
        stop = start + size.window
        items, of_epoch = ranks(stream, count, start, stop)
        wrong += int((of_epoch != np.arange(start, stop) // count).sum())
        wrong += int(((items < 0) | (items >= count)).sum())
        own.append(items[of_epoch == epoch])
        following.append(items[of_epoch == epoch + 1])
    seen = np.concatenate(own)
    twice = sum(len(found) - len(np.unique(found)) for found in (seen, np.concatenate(following)))
    whole = count <= size.windows * size.window
    return {
        "looked_at": len(seen),
        "twice": twice,
        "not_at_all": count - len(np.unique(seen)) if whole else 0,
        "wrong": wrong,
        "whole": whole,
        "twice_if_drawn": round(len(seen) + count * math.expm1(-len(seen) / count)),
    }


def simulated(size: Size) -> Found:
    """Return what a run of a size was like, and how many promises it broke."""
    begun, history = time.process_time(), stints(size)
    again = sum(stint.stop - stint.kept for stint in history) * size.batch
    run = {
        "failures": len(history) - 1,
        "world_sizes": len({stint.world for stint in history}),
        "least_ranks": min(stint.world for stint in history),
        "done_again": again,
        **coverage(size, history),
        **slices(size, history),
        **blocks(size, history),
    }
    return {
        "positions": size.positions,
        "ranks": size.ranks,
        "batch": size.batch,
        "save_every": size.save_every,
        "run": run,
        "changes": size.changes,
        "shares": {str(count): shares(size, count) for count in size.sources},
        "epochs": {str(count): epochs(size, count) for count in size.anchors},
        "cpu_s": round(time.process_time() - begun, 1),
    }


def broken(found: Found) -> int:
    """Return how many promises did not hold in what was simulated."""
    run = found["run"]
    names = ("missing", "repeated", "wrong_slices", "wrong_blocks")
    count = sum(run[name] for name in names) + (run["taken_by_ranks"] != found["positions"])
    for each in found["shares"].values():
        count += each["over"] + each["uneven"] + each["dealt_otherwise"]
    for each in found["epochs"].values():
        count += each["twice"] + each["not_at_all"] + each["wrong"]
    return int(count)


if __name__ == "__main__":
    result = simulated(Size())
    json.dump(result | {"broken": broken(result)}, sys.stdout, indent=1)
    print()
