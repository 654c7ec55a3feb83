"""Running the command line in tests: in this process, or as the real thing."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from subprocess import Popen
from typing import Any

import programs
from typer import testing
from typer.testing import CliRunner, Result

from duckplets.cli import app

# A runner makes the command anew for every call, from all signatures: half of what a call costs.
testing._get_command = cache(testing._get_command)

# What a run says of itself when a command opens it.
DESCRIPTION = re.compile(
    r"^(?:triplets|pairs|texts|messages) of split .+\n(?:(?:  |swap o|other shares|note: ).*\n)*",
    re.MULTILINE,
)


def talk(stderr: str) -> str:
    """Return what was said besides the description of a run."""
    return DESCRIPTION.sub("", stderr)


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
    said = talk(result.stderr)
    assert re.fullmatch(r"error: [^\n]+\n", said), result.stderr
    return said


def usage(*arguments: str | Path) -> str:
    result = cli(*arguments)
    assert result.exit_code == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return str(result.stderr)


def process(*arguments: str | Path, **streams: Any) -> AbstractContextManager[Popen[str]]:
    """Start the real thing."""
    return programs.python("-m", "duckplets", *arguments, **streams)


def finish(running: Popen[str]) -> tuple[int, str, str]:
    out, err = running.communicate(timeout=programs.PATIENCE)
    return running.returncode, out or "", talk(err or "")


def finished(*arguments: str | Path, **streams: Any) -> tuple[int, str, str]:
    """Run the real thing to its end, and return its exit code, stdout and stderr."""
    with process(*arguments, **streams) as running:
        return finish(running)


def files(folder: Path = Path()) -> set[str]:
    return {path.name for path in folder.iterdir()}
