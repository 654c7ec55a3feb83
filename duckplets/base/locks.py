"""Lock a file among processes, until it is closed; the system does so when a process dies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
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


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Hold a lock file for a while, and remove it then; yields whether nobody else holds it.

    What a killed process leaves behind holds nobody up, and goes with the next one.
    """
    while True:
        with path.open("ab") as file:
            if not lock(file, wait=False):
                yield False
                return
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


@contextmanager
def in_turn(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file for a while, after all who hold it now; ``waiting`` says so if some do.

    Its file is removed at the end, and whoever waited for it makes another.
    """
    while True:
        with path.open("ab") as file:
            if not lock(file, wait=False):
                waiting()
                lock(file, wait=True)
            if not _is_at(file, path):  # who held it has removed it
                continue
            try:
                yield
            finally:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            return
