"""What parts of the tests' own do on workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any


def doubled(job: dict[str, Any], number: int) -> int:
    """Return twice a number, after a moment."""
    time.sleep(job.get("seconds", 0))
    return 2 * number


def deadly(job: dict[str, Any], number: int) -> int:
    """End the process at one number, as often as the job says."""
    if number == job["at"] and _nth(Path(job["folder"])) <= job["times"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def failing(job: dict[str, Any], number: int) -> int:
    """Raise at one number, as often as the job says."""
    if number == job["at"] and _nth(Path(job["folder"])) <= job["times"]:
        raise OSError(28, "No space left on device")
    return number


def _nth(folder: Path) -> int:
    """Return the how many-th call this is."""
    for number in range(1, 1000):
        try:
            (folder / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise AssertionError
