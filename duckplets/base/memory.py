"""Find out how much memory is available."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Return the bytes available to this process and the page cache; None if unknown."""
    found = []
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text().split("MemAvailable:")[1]
        found.append(int(text.split()[0]) << 10)
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers in ("", "memory"):
                found += _limits(_GROUPS / controllers, name.strip("/"))
    return min(found, default=None)


def _limits(root: Path, name: str) -> list[int]:
    """Return the limits of a control group and its parents."""
    found = []
    for group in (root / name, *(root / name).parents):
        for file in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # "max" means no limit
                found.append(int((group / file).read_text()))
        if group == root:
            break
    return found
