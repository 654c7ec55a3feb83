"""Intakes that are killed a while after some of their marks, and run again until they are whole.

A test names a job of ``test_kills.JOBS`` that calls ``dying`` with the numbers it gets, and runs as
a script with ``nursery``.
"""

from __future__ import annotations

import importlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import test_kills
from effort import THOROUGH, kills
from programs import python
from test_kills import Child, tell

from duckplets.db import database
from duckplets.ingest import checkpoint

# What the first intake imports: two of the four processor seconds of a child.
_ON_FIRST_USE = ("dateutil.tz", "pandas", "pyarrow.dataset", "sqlglot", "ssl", "tarfile")


def nursery() -> None:
    """Fork a child for every line of input, as ``test_kills.nursery``, with small costs of each."""
    for name in _ON_FIRST_USE:
        importlib.import_module(name)
    if not THOROUGH:
        settings = database._settings
        vars(database)["_settings"] = lambda memory, threads: settings(memory, threads or 1)
    test_kills.nursery()


def dying(marks: int | None = None, milliseconds: int = 0) -> None:
    """Tell of every mark that is to be committed; be killed a while after a number of them."""
    save, told = checkpoint.save, 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def die_at_the_last() -> None:
        if told == marks:
            threading.Timer(milliseconds / 1000, die).start() if milliseconds else die()

    def telling(*arguments: Any) -> None:
        nonlocal told
        save(*arguments)
        told += 1
        tell("mark")
        die_at_the_last()

    vars(checkpoint)["save"] = telling
    die_at_the_last()


@contextmanager
def running(script: str) -> Iterator[Callable[..., Child]]:
    """Run jobs of a script to their ends: ``run(job, path, marks, milliseconds)``."""
    with python(script, stdin=subprocess.PIPE, stderr=None) as process:

        def run(job: str, path: Path, *death: int) -> Child:
            child = Child(process, job, path, *death)
            child.end()
            return child

        yield run


def assert_kills_change_nothing(
    script: str, job: str, path: Path, fresh: Callable[[], None], stored: Callable[[], Any]
) -> None:
    """Check that a job that is killed and run again leaves what it leaves in one go.

    Args:
        script: The test's own file.
        job: Its name.
        path: The corpus it fills.
        fresh: Put an empty one there.
        stored: Return what is compared.
    """
    draw = random.Random(3)
    with running(script) as run:
        fresh()
        started = time.monotonic()
        whole = run(job, path)
        took = time.monotonic() - started
        assert whole.code == 0, whole.told
        expected = stored()
        marks = whole.told.count("mark")
        assert marks > 2
        fresh()
        deaths = [(marks // 2, 0)]  # for one, surely in the midst of it, with something committed
        for _ in range(kills(15, less=1)):
            deaths.append((draw.randrange(marks), int(draw.uniform(1, 1000 * took / marks))))
        for number, death in enumerate(deaths):
            child = run(job, path, *death)
            assert child.code == -signal.SIGKILL or (number and child.code == 0), child.told
            if child.code == 0:  # begin again
                assert stored() == expected
                fresh()
        last = run(job, path)
        assert last.code == 0, last.told
        assert stored() == expected
