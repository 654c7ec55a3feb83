"""Measures text coming in: the Hub, converters, the denoiser, prefixes, data indexes.

    python benchmarks/text_in.py > benchmarks/text_in.json

Runs the scripts named below, one after the other; each can be run by itself. Prints one JSON
object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = ("hub", "converters", "denoiser", "prefixes", "data_index")


def measure() -> dict[str, Any]:
    """Return what every script prints, by its name."""
    found: dict[str, Any] = {"cpus": os.cpu_count(), "load_before": os.getloadavg()[0]}
    for name in SCRIPTS:
        printed = subprocess.check_output([sys.executable, str(HERE / f"{name}.py")], text=True)
        found[name] = json.loads(printed)
        print(f"{name} is done", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
    print()
