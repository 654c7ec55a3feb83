"""Measures mining with one teacher beside ``mine_hard_negatives`` of sentence-transformers.

    python benchmarks/dense_peer.py [--records 30000 100000] [--dimension 384] > benchmarks/dense_peer.json

Both get the same vectors, which cost nothing: records are pairs whose vectors lie around a point of
their own, and these around one of 500. Each arm runs in a process of its own, which first reads all
vectors; what counts is processor time from there on, and the peak of memory above what it then had.
The peer mines anew for another margin; here another margin is another policy over candidates that
are there. What is printed is JSON; needs PyTorch and sentence-transformers.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

TOPICS, KEPT, DEPTH = 500, 16, 100


def vectors(records: int, dimension: int, seed: int) -> np.ndarray:
    """Return unit vectors of one side."""
    draw = np.random.default_rng(0)
    points = draw.standard_normal((TOPICS, dimension), np.float32)
    own = draw.standard_normal((records, dimension), np.float32)
    noise = np.random.default_rng(seed).standard_normal((records, dimension), np.float32)
    found = points[np.arange(records) % TOPICS] + own + noise / 2
    return found / np.linalg.norm(found, axis=1)[:, None]


class Clock:
    """Processor seconds and peak memory above a beginning."""

    def __init__(self) -> None:
        self._memory, self._begin = _peak_mb(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return both, and begin anew with the time."""
        seconds, self._begin = time.process_time() - self._begin, time.process_time()
        return {"processor_seconds": seconds, "mb_above_vectors": _peak_mb() - self._memory}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peer(folder: Path, records: int, dimension: int) -> dict[str, Any]:
    """Mine by sentence-transformers, twice with different margins."""
    import sentence_transformers
    import torch
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    torch.set_num_threads(2)
    sides = {
        name: torch.from_numpy(vectors(records, dimension, seed))
        for seed, name in enumerate(("question", "answer"), 1)
    }

    class Teacher:
        """A model whose vectors are there already."""

        similarity_fn_name, device = "cosine", torch.device("cpu")

        def encode(self, texts: list[str], **_: Any) -> np.ndarray:
            side, rows = texts[0].split()[0], [int(text.split()[1]) for text in texts]
            return sides[side][rows].numpy()

        encode_query = encode_document = encode

        def similarity(self, one: Any, other: Any) -> torch.Tensor:
            return torch.as_tensor(one) @ torch.as_tensor(other).T

        def similarity_pairwise(self, one: Any, other: Any) -> torch.Tensor:
            return (torch.as_tensor(one) * torch.as_tensor(other)).sum(1)

    pairs = {side: [f"{side} {i}" for i in range(records)] for side in sides}
    dataset, found, clock = Dataset.from_dict(pairs), [], Clock()
    for margin in (0.05, 0.03):
        mined = mine_hard_negatives(
            dataset,
            Teacher(),
            range_max=DEPTH,
            num_negatives=KEPT,
            relative_margin=margin,
            output_format="n-tuple",
            verbose=False,
        )
        found.append(clock.read() | {"margin": margin, "anchors": len(mined)})
    return {"version": sentence_transformers.__version__, "mined": found}


def made(folder: Path, records: int, dimension: int) -> None:
    """Make the corpus, with vectors."""
    import duckplets as dp

    sides = {
        name: vectors(records, dimension, seed)
        for seed, name in enumerate(("question", "answer"), 1)
    }
    anchor, context = dp.role("anchor"), dp.role("context")
    recipe = dp.TripletRecipe("pairs", anchor, context, context)
    rows = [{"q": f"question {i}", "a": f"answer {i}"} for i in range(records)]
    with dp.Corpus(folder / "c.duckdb", threads=2) as corpus:
        corpus.ingest(
            dp.sources.MemorySource(rows, anchor="q", positive="a"), name="s", progress=False
        )
        corpus.split(1, 0, 0)
        corpus.add_recipe(recipe)
        corpus.embed(
            lambda texts: np.array([sides[t.split()[0]][int(t.split()[1])] for t in texts]),
            "teacher",
            batch_size=4096,
            progress=False,
        )


def ours(folder: Path, records: int, dimension: int) -> dict[str, Any]:
    """Mine once, and open a run with each margin."""
    import duckplets as dp

    with dp.Corpus(folder / "c.duckdb", read_only=True, threads=2) as corpus:
        kept = corpus.vectors("teacher")
        clock = Clock()
        corpus.mine(by=dp.Dense("teacher"), depth=DEPTH, progress=False)
        found = [clock.read() | {"what": "mining"}]
        for margin in (0.05, 0.03):
            by = dp.Negatives(by="dense", range_max=KEPT, relative_margin=margin)
            sampler = corpus.sampler(batch_size=256, negatives=by)
            anchors = len(sampler.planner.streams[0]) - sampler.planner.streams[0].fallback_anchors
            sampler.close()
            found.append(clock.read() | {"what": "policy", "margin": margin, "anchors": anchors})
    return {"version": dp.__version__, "vectors": len(kept), "mined": found}


def main() -> None:
    """Run each arm in a process, and print what both needed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[30_000, 100_000])
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--arm", choices=["made", "peer", "ours"])
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.arm:
        arm = {"made": made, "peer": peer, "ours": ours}[asked.arm]
        print(json.dumps(arm(asked.folder, asked.records[0], asked.dimension)))
        return
    print(json.dumps([beside(records, asked.dimension) for records in asked.records], indent=2))


def beside(records: int, dimension: int) -> dict[str, Any]:
    """Return what both need for a number of pairs."""
    found: dict[str, Any] = {"records": records, "dimension": dimension}
    found |= {"depth": DEPTH, "kept": KEPT}
    given = [f"--records={records}", f"--dimension={dimension}"]
    with tempfile.TemporaryDirectory() as folder:
        for arm in ("made", "ours", "peer"):
            run = [sys.executable, __file__, *given, "--folder", folder, "--arm", arm]
            done = subprocess.run(run, check=True, capture_output=True, text=True)
            found[arm] = json.loads(done.stdout.splitlines()[-1])
    del found["made"]
    first, again = found["peer"]["mined"]
    mining, _, policy = found["ours"]["mined"]
    found["mining_to_peer"] = mining["processor_seconds"] / first["processor_seconds"]
    found["memory_to_peer"] = mining["mb_above_vectors"] / first["mb_above_vectors"]
    found["policy_to_peer"] = policy["processor_seconds"] / again["processor_seconds"]
    return found


if __name__ == "__main__":
    main()
