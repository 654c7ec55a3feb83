"""What parts of the tests' own do on workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from duckplets.errors import SourceError


def waited(job: dict[str, Any], number: int) -> int:
    """Return twice a number, after a moment that differs from number to number."""
    time.sleep(number % job.get("modulus", 1) / 1000)
    return 2 * number


def refusing(job: dict[str, Any], number: int) -> int:
    """Raise an error of ours."""
    if number == 3:
        raise SourceError(f"row {number} is wrong")
    return number


def deadly(job: dict[str, Any], number: int) -> int:
    """End the process at one number, as often as the job says."""
    if number == job["at"] and _call(Path(job["folder"])) <= job["times"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def failing(job: dict[str, Any], number: int) -> int:
    """Raise at one number, as often as the job says."""
    if number == job["at"] and _call(Path(job["folder"])) <= job["times"]:
        raise OSError(28, "No space left on device")
    return number


def lasting(job: Any, folder: str) -> None:
    """Write files for ever, the first of which has the name of this process."""
    (Path(folder) / f"{os.getpid()}.pid").touch()
    for number in range(100_000):
        (Path(folder) / f"{os.getpid()}-{number}").touch()
        time.sleep(0.01)


def called(function: Any, number: int) -> Any:
    """Call what was sent."""
    return function(number)


def _call(folder: Path) -> int:
    """Return the number of this call, from 1: processes that end forget what they counted."""
    for number in range(1, 1000):
        try:
            (folder / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise AssertionError
