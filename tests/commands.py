"""Running the command line in tests: in this process, or as the real thing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from typer.testing import CliRunner, Result

from duckplets.cli import app

ROOT = Path(__file__).parent.parent


def cli(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def ok(*arguments: str | Path, stdin: str | None = None) -> str:
    """Run a command that succeeds and return its stdout."""
    result = cli(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return str(result.stdout)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def error(*arguments: str | Path, stdin: str | None = None) -> str:
    """Run a command that fails in the one way errors look, and return the error."""
    result = cli(*arguments, stdin=stdin)
    assert result.exit_code == 1, result.stdout + result.stderr
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    return str(result.stderr)


def usage(*arguments: str | Path) -> str:
    result = cli(*arguments)
    assert result.exit_code == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return str(result.stderr)


def process(
    *arguments: str | Path, stdin: int | None = None, stdout: int | IO[Any] = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start the real thing."""
    return subprocess.Popen(
        [sys.executable, "-m", "duckplets.cli", *map(str, arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def finish(running: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = running.communicate(timeout=50)
    return running.returncode, out or "", err


def files(folder: Path = Path()) -> set[str]:
    return {path.name for path in folder.iterdir()}
