"""Find out how much memory a process may fill."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Return the bytes that this process and pages of files may still take; None if nobody says.

    The least of what the system has available and of what the control groups of the process allow.
    """
    found = []
    with suppress(OSError, ValueError, IndexError):
        told = Path("/proc/meminfo").read_text().split("MemAvailable:")[1]
        found.append(int(told.split()[0]) << 10)
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers in ("", "memory"):
                found += _limits(_GROUPS / controllers, name.strip("/"))
    return min(found, default=None)


def _limits(root: Path, name: str) -> list[int]:
    """Return the limits of a control group and of those that it is in."""
    found = []
    for group in (root / name, *(root / name).parents):
        for file in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # "max" is none
                found.append(int((group / file).read_text()))
        if group == root:
            break
    return found
