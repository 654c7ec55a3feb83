"""Refuse what a state file cannot take: the run it has and the one of now → StateMismatchError."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from duckplets.base.sanitize import listed
from duckplets.errors import StateMismatchError, nearest

if TYPE_CHECKING:
    from duckplets.runs.state_schema import SavedRun

_ELSEWHERE = (
    "go on in another file (save_to=…), open a run of another name (run=…), or forget what lies "
    "beyond"
)


def no_run(path: Path, run: str, names: Iterable[str]) -> StateMismatchError:
    """Return the error that says which runs a file has instead."""
    known = sorted(set(names))
    return StateMismatchError(
        f"{path} has no run {run!r}{nearest(run, known)}; it has: {listed(known) or 'none'}"
    )


def refuse_other(path: Path, known: SavedRun, run: SavedRun) -> None:
    """Refuse to save a run over another one of its name; names what differs."""
    from duckplets.runs.fingerprint import differing, refuse_mismatch

    try:
        told = differing(known.settings, run.settings)
        refuse_mismatch(known.fingerprint, run.fingerprint, told=told)
    except StateMismatchError as error:
        raise StateMismatchError(
            f"{path} has another run {run.name!r}: {error}. Save under another name (run=…) or "
            f"into another file (path=…), or forget that one: duckplets cursor reset … "
            f"--run {run.name}"
        ) from None


def refuse_farther(run: str, tag: str, step: int, changed: int) -> None:
    """Refuse other weights from a step on where a checkpoint lies beyond it."""
    if step > changed:
        raise StateMismatchError(
            f"run {run!r} has a checkpoint {tag!r} at step {step}, and the weights before it "
            f"would be others now, from step {changed} on; {_ELSEWHERE}: {_forget(run, changed)}"
        )


def refuse_beyond(
    run: str, saves: Iterable[tuple[str | None, int, int]], changed_from: int
) -> None:
    """Refuse other samples from a position on where a checkpoint lies beyond it.

    Args:
        run: Name of the run.
        saves: Tag, position and step of its cursors; no tag for the latest save.
        changed_from: The position.
    """
    beyond = [
        (tag, step) for tag, position, step in saves if tag is not None and position > changed_from
    ]
    if beyond:
        raise StateMismatchError(
            f"run {run!r} has checkpoints beyond position {changed_from}, from which on its "
            f"samples are others now: {', '.join(repr(tag) for tag, _ in beyond[:10])}"
            f"{', …' if len(beyond) > 10 else ''}; {_ELSEWHERE}: "
            f"{_forget(run, min(step for _, step in beyond) - 1)}"
        )


def _forget(run: str, step: int) -> str:
    """Return the command that forgets the cursors of a run beyond a step."""
    return f"duckplets cursor reset … --run {shlex.quote(run)} --after {step}"
