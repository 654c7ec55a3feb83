"""The processes that work for an engine of this machine: looked for from outside, and killed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil


def workers_of(parent: int | None = None) -> set[int]:
    """Return the ids of the processes that this one, or another, has started and that run."""
    found = set()
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(parent).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE and _works(child.cmdline()):
                    found.add(child.pid)
    return found


def _works(command: list[str]) -> bool:
    return any("duckplets.engine.local" in each or "distributed" in each for each in command)


def kill(pid: int) -> None:
    """Kill a process, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_one(besides: set[int]) -> list[int]:
    """Kill one of the workers, not of those, and return which, if there is one."""
    pids = sorted(workers_of() - besides)[:1]
    for pid in pids:
        kill(pid)
    return pids


@contextmanager
def watched(look: Callable[[set[int]], None], every: float) -> Iterator[None]:
    """Have the workers that were started since looked at from another thread, again and again."""
    before, ended = workers_of(), threading.Event()

    def run() -> None:
        while not ended.wait(every):
            look(workers_of() - before)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def killed(worked: float = 4.0) -> Iterator[list[int]]:
    """Kill a worker every second, if one has worked for some seconds of a processor by then.

    On a machine under load it takes longer than a second to start one, and a part takes longer than
    its worker may live: each may work a tenth longer than the one before.
    """
    gone: list[int] = []

    def look(pids: set[int]) -> None:
        if old := [pid for pid in sorted(pids) if _worked(pid) >= worked * 1.1 ** len(gone)]:
            gone.append(random.Random(len(gone)).choice(old))
            kill(gone[-1])

    with watched(look, every=1.0):
        yield gone


def _worked(pid: int) -> float:
    with suppress(psutil.NoSuchProcess):
        return sum(psutil.Process(pid).cpu_times()[:2])
    return 0.0


def wait_for_end(pids: set[int]) -> None:
    """Wait until processes have ended, whose parent may have ended before them."""
    until = time.monotonic() + 60
    while any(_runs(pid) for pid in pids):
        if time.monotonic() > until:
            for pid in pids:
                kill(pid)
            raise AssertionError(f"of {pids} some outlived their driver")
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
