"""Lock a file among processes, until it is closed; the system does so when a process dies."""

from __future__ import annotations

from typing import BinaryIO


def lock(file: BinaryIO, *, wait: bool, shared: bool = False) -> bool:
    """Lock an open file; returns whether it could be.

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
