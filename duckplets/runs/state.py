"""Save runs and where they stand to a state file, and load them from there.

A state file lies beside its corpus and is opened for writing only for the moment of a save, in
one transaction: a kill at any instant leaves the last completed save. What must agree for a
cursor to be valid is kept as a fingerprint, field by field, so a mismatch can say what differs.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.db import files, migrate
from duckplets.db.database import Database
from duckplets.db.short_open import for_a_moment
from duckplets.errors import (
    CorpusLockedError,
    DuckpletsError,
    MissingFileError,
    StateMismatchError,
)
from duckplets.runs.state_conflicts import no_run, refuse_beyond, refuse_farther, refuse_other
from duckplets.runs.state_schema import Cursor, Events, SavedRun, counts_of, events_of, find_run

if TYPE_CHECKING:
    from duckplets.runs.fingerprint import Fingerprint
    from duckplets.runs.losses import Losses

log = logging.getLogger("duckplets")

_STILL = 0.05  # seconds: file systems tell times of writing to 10 ms


def state_path(corpus: Path) -> Path:
    """Return where a corpus keeps its runs: NAME.duckdb has NAME.state.duckdb beside it."""
    return files.beside(corpus, files.STATE)


def save(
    path: Path,
    run: SavedRun,
    cursor: Cursor,
    *,
    drifted_from: Fingerprint | None = None,
    changed_from: int | None = None,
    losses: Losses | None = None,
) -> None:
    """Write a cursor and what its run is opened with, in one transaction.

    Args:
        path: The state file; made if it is not there.
        run: The run, new or known.
        cursor: Where it stands.
        drifted_from: The fingerprint the run was resumed from, where it was allowed to differ.
        changed_from: The first position whose sample another mixture has changed since, if one
            was given.
        losses: Those of the run; of the steps before the cursor the file is to have them.

    Raises:
        StateMismatchError: A run of that name has other settings, the tag exists, or another
            checkpoint needs weights that are no more those of this run.
    """
    if not path.exists():
        files.make_folder(path)
        migrate.create(path, "state")
    with _writing(path) as database:
        is_new = _write_run(database, path, run, drifted_from, changed_from)
        _write_events(database, run.name, run.events)
        replaced = _write_cursor(database, path, run.name, cursor)
        if losses is not None:
            _write_losses(database, run, cursor, losses, whole=is_new)
    if replaced > cursor.step:
        log.warning(
            "run %r is saved at step %d in %s, which replaces the save at step %d",
            *(run.name, cursor.step, path, replaced),
        )


def latest(path: Path, run: str, fingerprint: Fingerprint) -> tuple[int, int] | None:
    """Return position and step of the latest save of a run, if the file has this run saved."""
    if not path.exists():
        return None
    with _reading(path) as database:
        known = find_run(database, run)
        rows = database.run("runs/state/cursor", {"run": run, "tag": None})
    same = known is not None and known.fingerprint == fingerprint
    return (rows[0][0], rows[0][1]) if rows and same else None


def farthest_tag(path: Path, run: str, fingerprint: Fingerprint) -> tuple[str, int] | None:
    """Return the checkpoint of a run that is farthest, with its step, if the file has one."""
    with _reading(path) as database:
        known = find_run(database, run)
        rows = database.run("runs/state/latest_tag", {"run": run, "step": -1})
    same = known is not None and known.fingerprint == fingerprint
    return (rows[0][0], rows[0][1]) if rows and same else None


def load(path: Path, run: str, tag: str | None = None) -> tuple[SavedRun, Cursor]:
    """Read a run and one of its cursors.

    Raises:
        StateMismatchError: There is no such file, run or tag.
    """
    if not path.exists():
        raise StateMismatchError(f"no run is saved: {path} does not exist; call save() first")
    with _reading(path) as database:
        found = find_run(database, run)
        if found is None:
            raise no_run(path, run, (row[0] for row in _cursors(database)))
        rows = database.run("runs/state/cursor", {"run": run, "tag": tag})
        if not rows:
            tags = ", ".join(_tags(database, run))
            raise StateMismatchError(
                f"run {run!r} has no save tagged {tag!r}; its tags: {tags or 'none'}"
            )
        before = {"run": run, "stop": found.steps_to(rows[0][0])}
        losses = database.table("runs/state/losses", before)
    position, step, epoch, counts = rows[0]
    told = {"counts": counts_of(path, run, tag, counts), "losses": losses}
    return found, Cursor(tag=tag, position=position, step=step, epoch=epoch, **told)


def cursors(path: Path) -> list[dict[str, Any]]:
    """Return every saved cursor of a state file, the latest of each run first.

    ``later_versions`` are those of the corpus that joined its run, with the step of each.
    """
    if not path.exists():
        return []
    names = ("run", "tag", "kind", "corpus_version", "position", "step", "epoch", "saved_at")
    with _reading(path) as database:
        rows = _cursors(database)
    return [
        {
            **dict(zip(names, row, strict=False)),
            "later_versions": [
                {"version": version, "step": step}
                for version, step in zip(row[-2] or (), row[-1] or (), strict=True)
            ],
        }
        for row in rows
    ]


def runs(path: Path) -> list[SavedRun]:
    """Return every saved run of a state file, by name; none if there is no file."""
    if not path.exists():
        return []
    with _reading(path) as database:
        names = sorted({str(row[0]) for row in _cursors(database)})
        return [run for name in names if (run := find_run(database, name)) is not None]


def reset(path: Path, run: str, *, after: int | None = None) -> int:
    """Forget a run and its cursors; returns how many cursors that were.

    Args:
        path: The state file.
        run: Name of the run.
        after: Forget only the cursors of steps beyond this one; with none left, the run too.
    """
    step = -1 if after is None else integer("after", after, 0, MAX_POSITION, say_high=False)
    found = cursors(path)
    names = {row["run"] for row in found}
    if run not in names:
        raise no_run(path, run, names)
    with _writing(path) as database:
        of_run = {"run": run, "step": step}
        removed = database.run("runs/state/delete_cursors", of_run)[0][0]
        if all(row["step"] > step for row in found if row["run"] == run):
            database.run("runs/state/delete_events", {"run": run, "step": 0})
            database.run("runs/state/delete_run", {"run": run})
        database.run("runs/state/delete_losses_beyond", {"run": run})
    return int(removed)


def refuse_tags(path: Path, run: str, changed_from: int) -> None:
    """Refuse a run whose samples are others from a position on, where it has checkpoints beyond."""
    if path.exists():
        with _reading(path) as database:
            refuse_beyond(run, _saves(database, run), changed_from)


@contextmanager
def copied(path: Path, *, seconds: float = 0.0) -> Iterator[Path]:
    """Copy a state file for a while, so that nobody who saves to it waits for who looks at it.

    To open the file itself, even to read, makes a save wait. A copy of what was written meanwhile
    is none: the file has to be the same for a moment before it and until it is made.

    Args:
        path: The state file.
        seconds: How long to try.

    Raises:
        CorpusLockedError: It was being written all the while.
        MissingFileError: It is not there.
    """
    deadline = time.monotonic() + seconds
    with TemporaryDirectory(prefix="duckplets-") as folder:
        copy = Path(folder) / path.name
        while not _copy(path, copy):
            if time.monotonic() > deadline:
                raise CorpusLockedError(f"{path} is being written all the time; try again")
        try:
            yield copy
        except DuckpletsError as error:
            raise type(error)(str(error).replace(str(copy), str(path))) from error


def _copy(path: Path, copy: Path) -> bool:
    """Copy a file with its WAL and return whether nobody wrote it meanwhile."""
    before = files.signature(path)
    time.sleep(_STILL)
    for file, to in ((path, copy), (files.wal_of(path), files.wal_of(copy))):
        try:
            shutil.copyfile(file, to)
        except FileNotFoundError:
            to.unlink(missing_ok=True)
    if not copy.exists():
        raise MissingFileError(f"{path} does not exist")
    return files.signature(path) == before


@contextmanager
def _writing(path: Path) -> Iterator[Database]:
    """Open a state file for one transaction."""
    with for_a_moment(path) as database:
        migrate.migrate(database, "state")
        with database.transaction():
            yield database


@contextmanager
def _reading(path: Path) -> Iterator[Database]:
    """Open a state file to read."""
    with for_a_moment(path, read_only=True) as database:
        migrate.check(database, "state")
        yield database


def _cursors(database: Database) -> list[tuple[Any, ...]]:
    return database.run("runs/state/cursors_of_runs")


def _saves(database: Database, run: str) -> list[tuple[str | None, int, int]]:
    """Return tag, position and step of a run's cursors."""
    return [(row[1], row[4], row[5]) for row in _cursors(database) if row[0] == run]


def _write_run(
    database: Database,
    path: Path,
    run: SavedRun,
    drifted_from: Fingerprint | None,
    changed_from: int | None,
) -> bool:
    """Write a run and return whether the file had none of its name."""
    settings, fingerprint = json.dumps(run.settings), json.dumps(run.fingerprint)
    definition = {"run": run.name, "settings": settings, "fingerprint": fingerprint}
    known = find_run(database, run.name)
    if known is not None:
        edited = {n: run.fingerprint[n] for n in ("mixture", "versions") if n in run.fingerprint}
        if changed_from is not None and known.fingerprint | edited == run.fingerprint:
            if known.fingerprint != run.fingerprint:
                refuse_beyond(run.name, _saves(database, run.name), changed_from)
        elif known.fingerprint != drifted_from or _tags(database, run.name):
            refuse_other(path, known, run)
        # Its bounds, columns and the like may be others than at the last save.
        database.run("runs/state/update_run", definition)
        return False
    versions = {"corpus_version": run.corpus_version, "order_version": run.order_version}
    database.run("runs/state/add_run", definition | versions | {"kind": run.kind})
    return True


def _write_events(database: Database, run: str, events: Events) -> None:
    """Replace the weights of a run from the first step on at which they differ."""
    now = [
        (step, json.dumps(dict(events[step].weights)), events[step].temperature)
        for step in sorted(events)
    ]
    known = events_of(database, run)
    same = 0
    while same < min(len(now), len(known)) and now[same] == known[same]:
        same += 1
    differing = [step for step, *_ in (*now[same:], *known[same:])]
    if not differing:
        return
    first = {"run": run, "step": min(differing)}
    for tag, step in database.run("runs/state/latest_tag", first):
        refuse_farther(run, tag, step, min(differing))
    database.run("runs/state/delete_events", first)
    for step, weights, temperature in now[same:]:
        event = {"run": run, "step": step, "weights": weights, "temperature": temperature}
        database.run("runs/state/add_event", event)


def _tags(database: Database, run: str) -> list[str]:
    """Return the names of a run's checkpoints: they are of the order it was saved with."""
    return sorted(tag for name, tag, *_ in _cursors(database) if name == run and tag)


def _write_cursor(database: Database, path: Path, run: str, cursor: Cursor) -> int:
    """Write a cursor and return the step of the save that it replaces, -1 for none."""
    which: dict[str, Any] = {"run": run, "tag": cursor.tag}
    replaced = -1
    if cursor.tag is None:
        for (step,) in database.run("runs/state/delete_latest", {"run": run}):
            replaced = step
    elif database.run("runs/state/cursor", which):
        raise StateMismatchError(
            f"{path} has a save tagged {cursor.tag!r} of run {run!r} already; give another tag"
        )
    which |= {"position": cursor.position, "step": cursor.step, "epoch": cursor.epoch}
    database.run("runs/state/add_cursor", which | {"counts": json.dumps(dict(cursor.counts))})
    return replaced


def _write_losses(
    database: Database, run: SavedRun, cursor: Cursor, losses: Losses, *, whole: bool
) -> None:
    """Put losses in the place of those of the steps that a run went through since its last save."""
    spans = losses.passed(run.steps_to(cursor.position), whole=whole)
    for first, stop in spans:
        of_span = {"run": run.name, "first": first, "stop": stop}
        database.run("runs/state/delete_losses", of_span)
    database.run("runs/state/delete_losses_beyond", {"run": run.name})
    told = losses.table(spans)
    if told.num_rows:
        with database.registered(told=told):
            database.run("runs/state/add_losses", {"run": run.name})
