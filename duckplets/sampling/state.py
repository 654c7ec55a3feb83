"""Save runs and where they stand to a state file, and load them from there.

A state file lies beside its corpus and is opened for writing only for the moment of a save, in
one transaction: a kill at any instant leaves the last completed save. What must agree for a
cursor to be valid is kept as a fingerprint, field by field, so a mismatch can say what differs.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.base.plain import Stored
from duckplets.base.shown import listed
from duckplets.db import files, migrate, probe
from duckplets.db.database import Database, for_a_moment
from duckplets.errors import StateMismatchError, nearest
from duckplets.sampling.fingerprint import Fingerprint, differing, refuse_mismatch

_TABLES = ("runs", "cursors", "weight_events", "schema_migrations")
_PATIENCE = 60.0  # seconds for reading them all, which takes a tenth of one

Events = Mapping[int, Mapping[str, float]]


# Of a run that another version saved some may be missing.
_GLOBAL_BATCH = range(1, (1 << 22) + 1)
_COUNT = range((1 << 53) + 1)
_SETTINGS: dict[Any, Any] = {
    **dict.fromkeys(("kind?", "split?", "run?", "remainder?"), str),
    **dict.fromkeys(("batch_size?", "world_size?"), _GLOBAL_BATCH),
    **dict.fromkeys(("rank?", "prefetch?", "corpus_version?"), _COUNT),
    **dict.fromkeys(("steps?", "epochs?"), (_COUNT, None)),
    "seed?": int,
    "negatives?": range(1, 1 << 16),
    **dict.fromkeys(("swap?", "prefixes?"), bool),
    "no_duplicates?": (bool, str),
    "by?": (None, str, {str: float}),
    **dict.fromkeys(("mixture?", "splits?", "chunking?", "declared_prefixes?"), dict),
    "recipes?": {str: [dict]},
    "optional?": {str: [str]},
    "sources?": [str],
    "columns?": [str],
    "log?": (str, None),
    "records?": [int],
    "index?": {
        str: {"size": (range((1 << 32) + 1), None), "size_mode": str, "weight": float, "seed": int}
    },
    "candidates?": {str: {str: {"mining": range(1 << 31), "digest": str}}},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """Where a run stands.

    Attributes:
        tag: Name of the checkpoint, or None for the latest save.
        position: First position not yet taken.
        step: First step not yet taken.
        epoch: Nominal epoch of the position.
        counts: [samples, tokens] taken of each source since the start, and fallbacks if any.
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


def state_path(corpus: Path) -> Path:
    """Return where a corpus keeps its runs: NAME.duckdb has NAME.state.duckdb beside it.

    Beside the file itself, where the path is a link to it.
    """
    if corpus.is_symlink():
        corpus = Path(os.path.realpath(corpus))
    stem = corpus.name.removesuffix(".duckdb")
    return corpus.with_name(f"{stem}.state.duckdb")


def save(
    path: Path,
    run: Run,
    cursor: Cursor,
    *,
    drifted_from: Fingerprint | None = None,
    changed_from: int | None = None,
) -> None:
    """Write a cursor and what its run is opened with, in one transaction.

    Args:
        path: The state file; made if it is not there.
        run: The run, new or known.
        cursor: Where it stands.
        drifted_from: The fingerprint the run was resumed from, where it was allowed to differ.
        changed_from: The first position whose sample another mixture has changed since, if one
            was given.

    Raises:
        StateMismatchError: A run of that name has other settings, the tag exists, or another
            checkpoint needs weights that are no more those of this run.
    """
    if not path.exists():
        files.make_folder(path)
        migrate.create(path, "state")
        probe.trust(path)
    with _writing(path) as database:
        _write_run(database, path, run, drifted_from, changed_from)
        _write_events(database, run.name, run.events)
        _write_cursor(database, path, run.name, cursor)


def save_events(path: Path, run: str, fingerprint: Fingerprint, events: Events) -> None:
    """Write the weights set during a run, if the file knows this run; a save does it else."""
    with _reading(path) as database:
        known = _find_run(database, run)
    if known is not None and known.fingerprint == fingerprint:
        with _writing(path) as database:
            _write_events(database, run, events)


def farthest_tag(path: Path, run: str, fingerprint: Fingerprint) -> tuple[str, int] | None:
    """Return the checkpoint of a run that is farthest, with its step, if the file has one."""
    with _reading(path) as database:
        known = _find_run(database, run)
        rows = database.run("sampling/state/latest_tag", {"run": run, "step": -1})
    same = known is not None and known.fingerprint == fingerprint
    return (rows[0][0], rows[0][1]) if rows and same else None


def refuse_farther(run: str, tag: str, step: int, changed: int) -> None:
    """Refuse other weights from a step on where a checkpoint lies beyond it."""
    if step > changed:
        raise StateMismatchError(
            f"run {run!r} has a checkpoint {tag!r} at step {step}, and the weights before it "
            f"would be others now, from step {changed} on; {_ELSEWHERE}: {_forget(run, changed)}"
        )


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
    of_sources = _counts(path, run, tag, counts)
    return found, Cursor(tag=tag, position=position, step=step, epoch=epoch, counts=of_sources)


def cursors(path: Path) -> list[dict[str, Any]]:
    """Return every saved cursor of a state file, the latest of each run first."""
    if not path.exists():
        return []
    names = ("run", "tag", "kind", "corpus_version", "position", "step", "epoch", "saved_at")
    with _reading(path) as database:
        return [dict(zip(names, row, strict=True)) for row in _cursors(database)]


def runs(path: Path) -> list[Run]:
    """Return every saved run of a state file, by name; none if there is no file."""
    if not path.exists():
        return []
    with _reading(path) as database:
        names = sorted({str(row[0]) for row in _cursors(database)})
        return [run for name in names if (run := _find_run(database, name)) is not None]


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
        raise _no_run(path, run, names)
    with _writing(path) as database:
        of_run = {"run": run, "step": step}
        removed = database.run("sampling/state/delete_cursors", of_run)[0][0]
        if all(row["step"] > step for row in found if row["run"] == run):
            database.run("sampling/state/delete_events", {"run": run, "step": 0})
            database.run("sampling/state/delete_run", {"run": run})
    return int(removed)


def refuse_tags(path: Path, run: str, changed_from: int) -> None:
    """Refuse a run whose samples are others from a position on, where it has checkpoints beyond."""
    if path.exists():
        with _reading(path) as database:
            _refuse_tags(database, run, changed_from)


@contextmanager
def _writing(path: Path) -> Iterator[Database]:
    """Open a state file for one transaction."""
    migrate.check_whole(path, _TABLES, seconds=_PATIENCE)
    with for_a_moment(path) as database:
        migrate.migrate(database, "state")
        with database.transaction():
            yield database
    probe.trust(path)


@contextmanager
def _reading(path: Path) -> Iterator[Database]:
    """Open a state file to read."""
    migrate.check_whole(path, _TABLES, seconds=_PATIENCE)
    with for_a_moment(path, read_only=True) as database:
        migrate.check(database, "state")
        yield database


def _cursors(database: Database) -> list[tuple[Any, ...]]:
    return database.run("sampling/state/cursors_of_runs")


def _no_run(path: Path, run: str, names: Iterable[str]) -> StateMismatchError:
    known = sorted(set(names))
    return StateMismatchError(
        f"{path} has no run {run!r}{nearest(run, known)}; it has: {listed(known) or 'none'}"
    )


def _find_run(database: Database, run: str) -> Run | None:
    rows = database.run("sampling/state/run", {"run": run})
    if not rows:
        return None
    kind, version, order_version, settings, fingerprint = rows[0]
    place = _place(database.path, "runs", run)
    told = place.read("settings", settings, _SETTINGS)
    if sorted(told.get("recipes", ())) != sorted(told.get("sources", ())):
        raise place.damage("settings", "names other sources than those it has recipes of")
    return Run(
        name=run,
        kind=kind,
        corpus_version=version,
        order_version=order_version,
        settings=told,
        fingerprint=place.read("fingerprint", fingerprint, {"batch_size?": _GLOBAL_BATCH}),
        events={
            step: _place(database.path, "weight_events", run, f", step {step}").read(
                "weights", weights, {str: float}
            )
            for step, weights in _events(database, run)
        },
    )


def _place(file: Path | None, table: str, run: str, more: str = "") -> Stored:
    way = f"Forget the run: duckplets cursor reset CORPUS --run {shlex.quote(run)}"
    return Stored(file, table, f"run {run!r}{more}", f"{way}; or put back an earlier copy.")


def _counts(path: Path, run: str, tag: str | None, text: str | None) -> dict[str, list[int]]:
    """Return the counts of a cursor; nothing for one that has none."""
    place = _place(path, "cursors", run, "" if tag is None else f", tag {tag!r}")
    found = place.read("counts", text or "{}", {str: [range(1 << 63)]})
    if any(len(numbers) not in (2, 3) for numbers in found.values()):
        raise place.damage("counts", "has another shape: two or three numbers a source are wanted")
    return dict(found)


def _events(database: Database, run: str) -> list[tuple[int, str]]:
    return [(row[0], row[1]) for row in database.run("sampling/state/events", {"run": run})]


def _write_run(
    database: Database,
    path: Path,
    run: Run,
    drifted_from: Fingerprint | None,
    changed_from: int | None,
) -> None:
    settings, fingerprint = json.dumps(run.settings), json.dumps(run.fingerprint)
    definition = {"run": run.name, "settings": settings, "fingerprint": fingerprint}
    known = _find_run(database, run.name)
    if known is not None:
        mixture = {"mixture": run.fingerprint.get("mixture")}
        if changed_from is not None and known.fingerprint | mixture == run.fingerprint:
            if known.fingerprint != run.fingerprint:
                _refuse_tags(database, run.name, changed_from)
        elif known.fingerprint != drifted_from or _tags(database, run.name):
            _refuse_other(path, known, run)
        # Its bounds, columns and the like may be others than at the last save.
        database.run("sampling/state/update_run", definition)
        return
    versions = {"corpus_version": run.corpus_version, "order_version": run.order_version}
    database.run("sampling/state/add_run", definition | versions | {"kind": run.kind})


def _refuse_tags(database: Database, run: str, changed_from: int) -> None:
    beyond = [
        (row[1], row[5])
        for row in _cursors(database)
        if row[0] == run and row[1] is not None and row[4] > changed_from
    ]
    if beyond:
        raise StateMismatchError(
            f"run {run!r} has checkpoints beyond position {changed_from}, from which on its "
            f"samples are others now: {', '.join(repr(tag) for tag, _ in beyond[:10])}"
            f"{', …' if len(beyond) > 10 else ''}; {_ELSEWHERE}: "
            f"{_forget(run, min(step for _, step in beyond) - 1)}"
        )


_ELSEWHERE = (
    "go on in another file (save_to=…), open a run of another name (run=…), or forget what lies "
    "beyond"
)


def _forget(run: str, step: int) -> str:
    """Return the command that forgets the cursors of a run beyond a step."""
    return f"duckplets cursor reset … --run {shlex.quote(run)} --after {step}"


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
    first = {"run": run, "step": min(differing)}
    for tag, step in database.run("sampling/state/latest_tag", first):
        refuse_farther(run, tag, step, min(differing))
    database.run("sampling/state/delete_events", first)
    for step, weights in now[same:]:
        database.run("sampling/state/add_event", {"run": run, "step": step, "weights": weights})


def _refuse_other(path: Path, known: Run, run: Run) -> None:
    try:
        told = differing(known.settings, run.settings)
        refuse_mismatch(known.fingerprint, run.fingerprint, told=told)
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
    which: dict[str, Any] = {"run": run, "tag": cursor.tag}
    if cursor.tag is None:
        database.run("sampling/state/delete_latest", {"run": run})
    elif database.run("sampling/state/cursor", which):
        raise StateMismatchError(
            f"{path} has a save tagged {cursor.tag!r} of run {run!r} already; give another tag"
        )
    which |= {"position": cursor.position, "step": cursor.step, "epoch": cursor.epoch}
    database.run("sampling/state/add_cursor", which | {"counts": json.dumps(dict(cursor.counts))})
