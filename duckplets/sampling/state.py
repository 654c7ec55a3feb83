"""Save runs and where they stand to a state file, and load them from there.

A state file lies beside its corpus and is opened for writing only for the moment of a save, in
one transaction: a kill at any instant leaves the last completed save. What must agree for a
cursor to be valid is kept as a fingerprint, field by field, so a mismatch can say what differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duckplets.db import migrate
from duckplets.db.database import Database, open_patiently
from duckplets.errors import StateMismatchError, nearest
from duckplets.order.ranks import world_sizes

Fingerprint = dict[str, Any]
Events = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """Where a run stands.

    Attributes:
        tag: Name of the checkpoint, or None for the latest save.
        position: First position not yet taken.
        step: First step not yet taken.
        epoch: Nominal epoch of the position.
        counts: [samples, tokens] taken of each source since the start of the run, and fallbacks
            if there were any.
    """

    tag: str | None
    position: int
    step: int
    epoch: int
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What a run draws from and how.

    Attributes:
        name: Its name.
        kind: ``triplets``, ``pairs``, ``texts`` or ``messages``.
        corpus_version: The version it is pinned to.
        order_version: The version of its order.
        settings: What opens its sampler again.
        fingerprint: What must agree for its cursors to be valid.
        events: Weights that were set during the run, by the step from which on.
    """

    name: str
    kind: str
    corpus_version: int
    order_version: int
    settings: dict[str, Any]
    fingerprint: Fingerprint
    events: Events = field(default_factory=dict)


def digest(value: Any) -> str:
    """Return a short name of a plain value: equal values have equal ones."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def state_path(corpus: Path) -> Path:
    """Return where a corpus keeps its runs: NAME.duckdb has NAME.state.duckdb beside it."""
    stem = corpus.name.removesuffix(".duckdb")
    return corpus.with_name(f"{stem}.state.duckdb")


def save(path: Path, run: Run, cursor: Cursor, *, drifted_from: Fingerprint | None = None) -> None:
    """Write a cursor and what its run is opened with, in one transaction.

    Args:
        path: The state file; made if it is not there.
        run: The run, new or known.
        cursor: Where it stands.
        drifted_from: The fingerprint the run was resumed from, where it was allowed to differ.

    Raises:
        StateMismatchError: A run of that name has other settings, the tag exists, or another
            checkpoint needs weights that are no more those of this run.
    """
    if not path.exists():
        migrate.create(path, "state")
    with _writing(path) as database:
        _write_run(database, path, run, drifted_from)
        _write_events(database, run.name, run.events)
        _write_cursor(database, path, run.name, cursor)


def save_events(path: Path, run: str, fingerprint: Fingerprint, events: Events) -> None:
    """Write the weights set during a run, if the file knows this run; a save does it else."""
    if not path.exists():
        return
    with _reading(path) as database:
        known = _find_run(database, run)
    if known is not None and known.fingerprint == fingerprint:
        with _writing(path) as database:
            _write_events(database, run, events)


def load(path: Path, run: str, tag: str | None = None) -> tuple[Run, Cursor]:
    """Read a run and one of its cursors.

    Raises:
        StateMismatchError: There is no such file, run or tag.
    """
    if not path.exists():
        raise StateMismatchError(f"no run is saved: {path} does not exist; call save() first")
    with _reading(path) as database:
        found = _find_run(database, run)
        if found is None:
            raise _no_run(path, run, (row[0] for row in _cursors(database)))
        rows = database.run("sampling/state/cursor", {"run": run, "tag": tag})
        if not rows:
            tags = ", ".join(_tags(database, run))
            raise StateMismatchError(
                f"run {run!r} has no save tagged {tag!r}; its tags: {tags or 'none'}"
            )
    position, step, epoch, counts = rows[0]
    counts = json.loads(counts or "{}")
    return found, Cursor(tag=tag, position=position, step=step, epoch=epoch, counts=counts)


def cursors(path: Path) -> list[dict[str, Any]]:
    """Return every saved cursor of a state file, the latest of each run first."""
    if not path.exists():
        return []
    names = ("run", "tag", "kind", "corpus_version", "position", "step", "epoch", "saved_at")
    with _reading(path) as database:
        return [dict(zip(names, row, strict=True)) for row in _cursors(database)]


def reset(path: Path, run: str) -> int:
    """Forget a run and its cursors; returns how many cursors that were."""
    names = {row["run"] for row in cursors(path)}
    if run not in names:
        raise _no_run(path, run, names)
    with _writing(path) as database:
        removed = database.run("sampling/state/delete_cursors", {"run": run})[0][0]
        database.run("sampling/state/delete_events", {"run": run, "step": 0})
        database.run("sampling/state/delete_run", {"run": run})
    return int(removed)


def refuse_mismatch(
    saved: Fingerprint, now: Fingerprint, *, allow_drift: Collection[str] = ()
) -> None:
    """Refuse a fingerprint that differs.

    Raises:
        StateMismatchError: With every differing field and both values.
    """
    unknown = set(allow_drift) - now.keys()
    if unknown:
        name = sorted(unknown)[0]
        raise StateMismatchError(
            f"allow_drift: no field {name!r}{nearest(name, now)}; there are {', '.join(now)}"
        )
    differing = [
        f"{name} (saved: {saved.get(name)!r}, now: {now.get(name)!r})"
        for name in {**saved, **now}
        if saved.get(name) != now.get(name) and name not in allow_drift
    ]
    if differing:
        hint = ""
        if "batch_size" not in allow_drift and saved.get("batch_size") != now.get("batch_size"):
            hint = (
                " (batch_size is that of all ranks together; world sizes that divide it: "
                f"{world_sizes(int(saved.get('batch_size', 0)))})"
            )
        raise StateMismatchError(
            f"the saved run does not fit: {'; '.join(differing)}{hint}. Open it with what it was "
            f"saved with, or accept another order with allow_drift=(…)"
        )


@contextmanager
def _writing(path: Path) -> Iterator[Database]:
    """Open a state file for one transaction."""
    database = open_patiently(path)
    try:
        migrate.migrate(database, "state")
        with database.transaction():
            yield database
    finally:
        database.close()


@contextmanager
def _reading(path: Path) -> Iterator[Database]:
    """Open a state file to read."""
    database = Database.open(path, read_only=True, threads=1)
    try:
        migrate.check(database, "state")
        yield database
    finally:
        database.close()


def _cursors(database: Database) -> list[tuple[Any, ...]]:
    return database.run("sampling/state/cursors_of_runs")


def _no_run(path: Path, run: str, names: Iterable[str]) -> StateMismatchError:
    known = sorted(set(names))
    return StateMismatchError(
        f"{path} has no run {run!r}{nearest(run, known)}; it has: {', '.join(known) or 'none'}"
    )


def _find_run(database: Database, run: str) -> Run | None:
    rows = database.run("sampling/state/run", {"run": run})
    if not rows:
        return None
    kind, version, order_version, settings, fingerprint = rows[0]
    return Run(
        name=run,
        kind=kind,
        corpus_version=version,
        order_version=order_version,
        settings=json.loads(settings),
        fingerprint=json.loads(fingerprint),
        events={step: json.loads(weights) for step, weights in _events(database, run)},
    )


def _events(database: Database, run: str) -> list[tuple[int, str]]:
    return [(row[0], row[1]) for row in database.run("sampling/state/events", {"run": run})]


def _write_run(database: Database, path: Path, run: Run, drifted_from: Fingerprint | None) -> None:
    settings, fingerprint = json.dumps(run.settings), json.dumps(run.fingerprint)
    definition = {"run": run.name, "settings": settings, "fingerprint": fingerprint}
    known = _find_run(database, run.name)
    if known is not None:
        if known.fingerprint != drifted_from or _tags(database, run.name):
            _refuse_other(path, known, run)
        # Its bounds, columns and the like may be others than at the last save.
        database.run("sampling/state/update_run", definition)
        return
    versions = {"corpus_version": run.corpus_version, "order_version": run.order_version}
    database.run("sampling/state/add_run", definition | versions | {"kind": run.kind})


def _write_events(database: Database, run: str, events: Events) -> None:
    """Replace the weights of a run from the first step on at which they differ."""
    now = [(step, json.dumps(dict(weights))) for step, weights in sorted(events.items())]
    known = _events(database, run)
    same = 0
    while same < min(len(now), len(known)) and now[same] == known[same]:
        same += 1
    differing = [step for step, _ in (*now[same:], *known[same:])]
    if not differing:
        return
    if farther := database.run("sampling/state/latest_tag", {"run": run, "step": min(differing)}):
        tag, step = farther[0]
        raise StateMismatchError(
            f"run {run!r} has a checkpoint {tag!r} at step {step}, and the weights before it "
            f"would be others now, from step {min(differing)} on; go on under another name (run=…)"
        )
    database.run("sampling/state/delete_events", {"run": run, "step": min(differing)})
    for step, weights in now[same:]:
        database.run("sampling/state/add_event", {"run": run, "step": step, "weights": weights})


def _refuse_other(path: Path, known: Run, run: Run) -> None:
    try:
        refuse_mismatch(known.fingerprint, run.fingerprint)
    except StateMismatchError as error:
        raise StateMismatchError(
            f"{path} has another run {run.name!r}: {error}. Save under another name (run=…) or "
            f"into another file (path=…), or forget that one: duckplets cursor reset … "
            f"--run {run.name}"
        ) from None


def _tags(database: Database, run: str) -> list[str]:
    """Return the names of a run's checkpoints: they are of the order it was saved with."""
    return sorted(tag for name, tag, *_ in _cursors(database) if name == run and tag)


def _write_cursor(database: Database, path: Path, run: str, cursor: Cursor) -> None:
    which = {"run": run, "tag": cursor.tag}
    if cursor.tag is None:
        database.run("sampling/state/delete_latest", {"run": run})
    elif database.run("sampling/state/cursor", which):
        raise StateMismatchError(
            f"{path} has a save tagged {cursor.tag!r} of run {run!r} already; give another tag"
        )
    where = {"position": cursor.position, "step": cursor.step, "epoch": cursor.epoch}
    counts = json.dumps(dict(cursor.counts))
    database.run("sampling/state/add_cursor", which | where | {"counts": counts})
