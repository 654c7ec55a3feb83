"""What a process keeps to itself while it works, and which pages of files are in memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import first_batch
import numpy as np

INTERVAL = 0.05  # seconds between two looks


class Peak:
    """The most private memory that this process has within the block.

    Attributes:
        mb: It, when the block is left.
    """

    def __init__(self) -> None:
        self.mb = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._done.wait(INTERVAL):
            self._look()

    def _look(self) -> None:
        self.mb = max(self.mb, first_batch.of_status("RssAnon"))  # smaps would be walked


class Held:
    """A control group of the kernel that gives this process so much memory, pages of files too.

    Args:
        size: Bytes.

    Raises:
        OSError: This user may not make one.
    """

    def __init__(self, size: int) -> None:
        root = Path("/sys/fs/cgroup")
        old = root / "memory"
        name = f"duckplets-{os.getpid()}"
        self._parent = old if old.is_dir() else root
        self._group = self._parent / name
        self._limit = "memory.limit_in_bytes" if old.is_dir() else "memory.max"
        self._size = size

    def __enter__(self) -> Held:
        self._group.mkdir()
        (self._group / self._limit).write_text(str(self._size))
        (self._group / "cgroup.procs").write_text(str(os.getpid()))
        return self

    def __exit__(self, *_: object) -> None:
        (self._parent / "cgroup.procs").write_text(str(os.getpid()))
        self._group.rmdir()


def evict(files: Iterable[Path]) -> None:
    """Have the kernel drop the pages of files that no process has mapped."""
    os.sync()  # only what is on the disk can be dropped
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(files: Iterable[Path]) -> None:
    """Have the kernel keep the pages of files, by reading them in order."""
    buffer = bytearray(1 << 20)
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def resident_mb(path: Path) -> float:
    """Return how much of a file is in memory."""
    size = path.stat().st_size
    if not size:
        return 0.0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        whole = np.frombuffer(mapped, np.uint8)
        pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        place, length = ctypes.c_void_p(whole.ctypes.data), ctypes.c_size_t(size)
        failed = ctypes.CDLL(None).mincore(place, length, ctypes.c_void_p(pages.ctypes.data))
        del whole  # a mapping that is looked at cannot be closed
    if failed:
        raise OSError(f"mincore of {path} failed")
    return float(np.count_nonzero(pages & 1)) * mmap.PAGESIZE / 1e6
