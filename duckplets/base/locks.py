"""Lock a file among processes, until it is closed; the system does so when a process dies.

``filelock`` was tried: it cannot lock one shared, and importing it takes as long as duckplets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def lock(file: BinaryIO, *, wait: bool, shared: bool = False) -> bool:
    """Lock an open file until it is closed; returns whether it could be.

    Args:
        file: Unlocked when it is closed.
        wait: Whether to wait for who has locked it.
        shared: Whether others may lock it, shared too.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows deletes no file that is open
        return True
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, how if wait else how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def alone(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[bool]:
    """Hold a lock file for a while, and remove it then.

    What a killed process leaves behind holds nobody up, and goes with the next one.

    Args:
        path: Of the lock file.
        waiting: Called where somebody else holds it, before waiting for that.

    Yields:
        Whether nobody else holds it; without ``waiting`` it may be False.
    """
    while True:
        with path.open("ab") as file:
            if not lock(file, wait=False):
                if waiting is None:
                    yield False
                    return
                waiting()
                lock(file, wait=True)
            if not _is_at(file, path):  # who held it has removed it since it was opened
                continue
            try:
                yield True
            finally:
                with suppress(OSError):  # Windows deletes no file that is open
                    path.unlink(missing_ok=True)
            return


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
