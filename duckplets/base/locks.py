"""Lock a file among processes until it is closed; the system unlocks it if a process dies.

``filelock`` has no shared locks, and importing it takes as long as importing duckplets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def lock(file: BinaryIO, *, wait: bool, shared: bool = False) -> bool:
    """Lock an open file until it is closed; return whether that succeeded."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows cannot delete an open file
        return True
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, mode if wait else mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def alone(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[bool]:
    """Hold a lock file and remove it at the end; without ``waiting`` yield False if it is taken."""
    while True:
        with path.open("ab") as file:
            if not lock(file, wait=False):
                if waiting is None:
                    yield False
                    return
                waiting()
                lock(file, wait=True)
            if not _is_at(file, path):  # the previous holder removed it after we opened it
                continue
            try:
                yield True
            finally:
                with suppress(OSError):  # Windows cannot delete an open file
                    path.unlink(missing_ok=True)
            return


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
