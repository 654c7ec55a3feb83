"""One process to its first batch and on: what it costs, and what it keeps in memory.

    python benchmarks/first_batch.py BEGAN CORPUS STATE SECONDS

BEGAN is when the process was started, by ``time.monotonic()``. With a STATE file that run is
resumed, without ("") one is opened. It ends so many SECONDS after it was started, or with its
first batch. Imports little by itself, for that is part of what is measured.
"""

import sys
import time


def of_status(name: str) -> float:
    """Return a figure of this process's memory, in MB."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def memory() -> dict[str, float]:
    """Return this process's private memory, and its peak with mapped pages, in MB."""
    with open("/proc/self/smaps_rollup") as lines:
        anonymous = next(line for line in lines if line.startswith("Anonymous:"))
    return {"anonymous_mb": int(anonymous.split()[1]) / 1024, "peak_mb": of_status("VmHWM")}


def read_mb() -> float:
    """Return what this process has read from the disk, its mapped pages too."""
    with open("/proc/self/io") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes")) / 1e6


def main(began: float, corpus: str, state: str, seconds: float) -> None:
    """Measure and print."""
    import duckplets as dp

    if state:
        sampler = dp.resume(corpus, state=state)
    else:
        sampler = dp.Corpus(corpus, read_only=True).sampler(batch_size=256)
    served = len(next(sampler).to_pydict()["anchor"])
    found = {
        "cpu_s": time.process_time(),
        "wall_s": time.monotonic() - began,
        "imports_sqlglot": float("sqlglot" in sys.modules),
        **memory(),
    }
    while time.monotonic() - began < seconds:
        batch = next(sampler)
        served += sum(len(batch[name]) for name in ("anchor", "positive", "negative")) // 3
    if seconds:
        spent = time.monotonic() - began
        found |= {"served_per_s": served / spent, "read_mb": read_mb()}
        found |= {f"later_{name}": value for name, value in memory().items()}

    import json

    print(json.dumps(found))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]))
