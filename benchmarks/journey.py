"""Traces how far it is from ``Corpus.sampler`` to the first batch: functions, modules, call depth.

    python benchmarks/journey.py [--list]

A small corpus is opened and sampled twice, and the second time is traced, when nothing is imported
any more. Prints one JSON object, with the lines of each room; ``--list`` adds the modules that run.
These are gauges of how much a reader has to hold, not limits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import duckplets as dp

ROOT = Path(dp.__file__).parent
CORE = ("order", "pools", "recipes", "runs", "samples", "serving")


class Trace:
    """Counts the functions and modules of the package that run, and how deep calls go."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, int]] = set()
        self.modules: set[str] = set()
        self.depth = self.deepest = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call or a return."""
        code = frame.f_code
        if not code.co_filename.startswith(str(ROOT)):
            return
        if event == "call":
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
            self.functions.add((code.co_filename, code.co_firstlineno))
            self.modules.add(str(Path(code.co_filename).relative_to(ROOT)))
        elif event == "return":
            self.depth -= 1

    def __enter__(self) -> Trace:
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def journey(path: str) -> tuple[int, Trace]:
    """Return the functions that ran to open a sampler, and the trace up to its first batch."""
    trace = Trace()
    with dp.Corpus(path, read_only=True) as corpus:
        with trace:
            sampler = corpus.sampler(batch_size=16, options=dp.Options(prefetch=0))
        opened = len(trace.functions)
        with trace:
            next(sampler)["anchor"]
        sampler.close()
    return opened, trace


def lines_of_rooms() -> dict[str, int]:
    """Return the lines of Python of every folder of the package."""
    rooms: dict[str, int] = {}
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT).parts
        room = parts[0] if len(parts) > 1 else "top level"
        rooms[room] = rooms.get(room, 0) + len(file.read_text(encoding="utf-8").splitlines())
    return rooms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/journey.duckdb"
        with dp.Corpus(path) as corpus:
            rows = [{"q": f"question {i} of {i % 7}", "a": f"answer {i}"} for i in range(200)]
            corpus.ingest(dp.sources.MemorySource(rows, anchor="q", positive="a"), name="rows")
            corpus.split(train=0.8, validation=0.1, test=0.1)
        journey(path)
        opened, trace = journey(path)
    rooms = lines_of_rooms()
    found: dict[str, Any] = {
        "functions_to_open": opened,
        "modules_to_first_batch": len(trace.modules),
        "deepest_call": trace.deepest,
        "lines": rooms,
        "lines_of_core": sum(rooms[room] for room in CORE),
        "lines_in_all": sum(rooms.values()),
    }
    if arguments.list:
        found["modules"] = sorted(trace.modules)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
