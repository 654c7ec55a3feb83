"""Reads of a file on a file system that takes a while for each: what reading ahead makes of it.

    python benchmarks/delayed_disk.py [--delay-ms 10] [--reads 20000]

As root on Linux. A file system of the kernel's FUSE protocol, spoken here over ``/dev/fuse``, serves
one file of zeros and waits before it answers a read, as many at the same time as the kernel asks
for. So advised reads are delayed too, which a wrapper round ``pread`` would not do. Prints one JSON
object: reads a second by touching mapped pages, by one thread that reads, and by reading ahead.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

SIZE = 1 << 30  # of the file
NAME = b"zeros"
HEADER = struct.Struct("<IIQQIIII")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
# What the kernel asks for, as linux/fuse.h numbers it.
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, INIT = 1, 2, 3, 14, 15, 18, 26
FLUSH, OPENDIR, BATCH_FORGET = 25, 27, 42
ASYNC_READ, BIG_WRITES = 1, 1 << 5
ROOT, FILE = 1, 2
IN_FLIGHT = 512  # reads that the kernel may have asked for at once


class DelayedDisk:
    """A mounted file system with one file, each read of which takes some seconds."""

    def __init__(self, folder: Path, delay: float) -> None:
        self.folder, self.delay, self.reads = folder, delay, 0
        self._device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0".encode()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"duckplets", bytes(folder), b"fuse", 1, options):
            raise OSError(ctypes.get_errno(), "mount")
        self._unmount = lambda: libc.umount2(bytes(folder), 2)
        self._threads = ThreadPoolExecutor(IN_FLIGHT)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Take it from its folder."""
        self._unmount()

    def _serve(self) -> None:
        while True:
            try:
                asked = os.read(self._device, 1 << 17)
            except OSError as error:
                if error.errno == errno.ENODEV:  # it is unmounted
                    return
                continue
            _, what, unique, node, *_ = HEADER.unpack_from(asked)
            body = asked[HEADER.size :]
            if what == READ:
                self.reads += 1
                self._threads.submit(self._read, unique, body)
            elif what not in (FORGET, BATCH_FORGET):
                self._answer(unique, *self._found(what, node, body))

    def _read(self, unique: int, body: bytes) -> None:
        time.sleep(self.delay)
        _, offset, size = struct.unpack_from("<QQI", body)
        self._answer(unique, 0, bytes(max(0, min(size, SIZE - offset))))

    def _found(self, what: int, node: int, body: bytes) -> tuple[int, bytes]:
        if what == INIT:
            major, _, ahead, flags = struct.unpack_from("<IIII", body)
            flags &= ASYNC_READ | BIG_WRITES
            limits = (IN_FLIGHT, IN_FLIGHT, 1 << 16, 1)  # background, congestion, write, time
            return 0, struct.pack("<IIIIHHII", major, 31, ahead, flags, *limits) + bytes(36)
        if what == LOOKUP:
            if body.rstrip(b"\0") != NAME:
                return errno.ENOENT, b""
            return 0, struct.pack("<QQQQII", FILE, 0, 3600, 3600, 0, 0) + self._attributes(FILE)
        if what == GETATTR:
            return 0, struct.pack("<QII", 3600, 0, 0) + self._attributes(node)
        if what in (OPEN, OPENDIR):
            return 0, struct.pack("<QII", 0, 2, 0)  # what is cached may stay
        if what in (RELEASE, FLUSH):
            return 0, b""
        return errno.ENOSYS, b""

    def _attributes(self, node: int) -> bytes:
        mode, size = (0o100444, SIZE) if node == FILE else (0o040555, 0)
        return ATTRIBUTES.pack(node, size, -(-size // 512), *(0,) * 6, mode, 1, 0, 0, 0, 4096, 0)

    def _answer(self, unique: int, error: int, body: bytes) -> None:
        head = struct.pack("<IiQ", 16 + len(body), -error, unique)
        os.writev(self._device, [head, body])


def measured(folder: Path, delay: float, count: int) -> dict[str, float]:
    """Return reads a second, each of places of the file that nobody has read."""
    from duckplets.artifacts.read_ahead import ReadAhead

    path = folder / NAME.decode()
    number = os.open(path, os.O_RDONLY)
    mapped = mmap.mmap(number, 0, access=mmap.ACCESS_READ)
    file: Any = SimpleNamespace(descriptor=number, path=path, buffer=SimpleNamespace(size=SIZE))
    places = np.random.default_rng(1).permutation(SIZE // 4096 - 1).astype(np.int64) * 4096
    few = max(20, min(100, count // 100))

    def rate(act: Callable[[], Any], reads: int) -> float:
        begun = time.perf_counter()
        act()
        return reads / (time.perf_counter() - begun)

    def touch() -> None:
        for at in places[:few].tolist():
            mapped[at]

    def read() -> None:
        for at in places[few : 2 * few].tolist():
            os.pread(number, 600, at)

    found = {"touched": rate(touch, few), "read": rate(read, few)}
    reads = ReadAhead()
    starts = places[2 * few :][:count]
    found["read_ahead"] = rate(lambda: reads.touch(file, starts, np.full_like(starts, 600)), count)
    assert reads.reads == count, "nothing of it was in memory"
    return found | {"delay_ms": delay * 1000}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=10)
    parser.add_argument("--reads", type=int, default=20_000)
    parser.add_argument("--on", type=Path)
    arguments = parser.parse_args()
    if arguments.on:  # in another process than the file system, which would wait for itself
        print(json.dumps(measured(arguments.on, arguments.delay_ms / 1000, arguments.reads)))
        return
    with tempfile.TemporaryDirectory() as folder:
        disk = DelayedDisk(Path(folder), arguments.delay_ms / 1000)
        try:
            command = [sys.executable, __file__, *sys.argv[1:], "--on", folder]
            subprocess.run(command, check=True, timeout=300)
        finally:
            disk.close()


if __name__ == "__main__":
    main()
