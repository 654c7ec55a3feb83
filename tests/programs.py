"""Starting programs in tests: each is gone when its test is, with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parent.parent
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "tests")])  # the package, and what tests share
PATIENCE = 240  # seconds; a machine under load is slow, and a test that waits for ever says nothing

Stream = int | IO[Any] | None


@contextmanager
def started(
    *command: str | Path,
    stdin: Stream = None,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
    cwd: Path | None = None,
    env: Mapping[str, str] = {},
) -> Iterator[subprocess.Popen[str]]:
    """Start a program on this checkout, with more variables; kill its group in the end.

    It has a group of its own, so that what it starts ends with it.
    """
    with subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": PATHS, **env},
        text=True,
        start_new_session=True,
    ) as running:
        try:
            yield running
        finally:
            with suppress(ProcessLookupError, PermissionError):  # all of it has ended
                os.killpg(running.pid, signal.SIGKILL)


def python(*arguments: object, **options: Any) -> Any:
    """Start Python on this checkout: ``with python("-c", code, path) as running``."""
    return started(sys.executable, *map(str, arguments), **options)


def ran(
    *command: str | Path, typed: str | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    options = {"stdin": subprocess.DEVNULL if typed is None else subprocess.PIPE} | options
    with started(*command, **options) as running:
        out, err = running.communicate(typed, timeout=PATIENCE)
    return subprocess.CompletedProcess(command, running.returncode, out or "", err or "")


def said(*arguments: str | Path, **options: Any) -> str:
    """Run Python on this checkout, which succeeds, and return what it prints."""
    run = ran(sys.executable, *arguments, **options)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
