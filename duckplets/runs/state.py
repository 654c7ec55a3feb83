"""Save runs to a state file and load them: a row per save, with all that opens the run.

A state file is next to its corpus. It is open for writing only during a save, in one transaction,
so a kill at any time leaves the last completed save. A run is opened as it was saved last. A
checkpoint has its own position, and the counts up to there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import pyarrow as pa

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.base.documents import StoredJson
from duckplets.base.sanitize import listed, shown
from duckplets.base.settings import misfit, to_plain
from duckplets.db import files, migrate
from duckplets.db.database import Database
from duckplets.db.short_open import for_a_moment
from duckplets.errors import DuckpletsError, SamplerError, StateMismatchError, nearest
from duckplets.mining.pins import Pins
from duckplets.order.mixture import Event, Mixture, differences
from duckplets.order.ranks import world_sizes
from duckplets.order.schedule import Events, RunSchedule

if TYPE_CHECKING:
    from duckplets.runs.metrics import Losses

log = logging.getLogger("duckplets")

Fingerprint = dict[str, Any]
Counts = tuple[int, Mapping[str, Sequence[int]]]
"""A position, and the tokens, fallbacks and displaced samples before it by source."""

Ways: TypeAlias = list[tuple[int, object]]  # the steps at which shares change, and the cause

_COLUMNS = ("tag", "kind", "corpus_version", "order_version", "position", "step", "epoch", "joins")
_OF_RUN = ("settings", "fingerprint", "joins", "events", "minings", "skipped")
_MOST_SHARES = 1 << 16  # of an anneal
_SHOWN = 5  # differing recipes named in a message
_COUNT = range((1 << 53) + 1)
_COUNTS = {"position": _COUNT, "sources": {str: [_COUNT]}}
_STATE: dict[Any, Any] = {
    "settings": {"batch_size": range(1, 1 << 23), "world_size": range(1, 1 << 23)},
    "fingerprint": {"batch_size": range(1, 1 << 23)},
    "events": list,
    "samples": {str: _COUNT},
    "counts": _COUNTS,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPosition:
    """The position of a run, and the changes and counts before it."""

    position: int  # first position not yet taken
    fingerprint: Fingerprint  # if it agrees, positions mean the same samples
    events: Events = field(default_factory=dict)  # weights set during the run, by step
    counts: Counts = (0, {})
    minings: tuple[tuple[int, Pins], ...] = ()  # a step, and the minings drawn from since
    skipped: tuple[tuple[int, int], ...] = ()  # a step, and the number of steps skipped there
    change: list[Any] | None = None  # last change of token shares: see ``Schedule.last_change``
    losses: pa.Table | None = None  # saved losses of the steps before
    sample_losses: pa.Table | None = None  # the highest losses of samples of these steps

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values, without its position and empty fields."""
        position, by_source = self.counts
        named = by_source.items()
        sources = {name: [*map(int, numbers)] for name, numbers in named if any(numbers)}
        events = [
            [
                step,
                dict(event.weights),
                *(() if event.temperature is None else (event.temperature,)),
            ]
            for step, event in self.events.items()
        ]
        optional = {"minings": self.minings, "skipped": self.skipped}
        return {
            "fingerprint": self.fingerprint,
            "events": events,
            "counts": {"position": position, "sources": sources},
            **{name: to_plain(value) for name, value in optional.items() if value},
            **({} if self.change is None else {"change": self.change}),
        }

    @classmethod
    def of_plain(cls, state: Mapping[str, Any], **others: Any) -> Self:
        """Return the position of a run from ``Sampler.state_dict``."""
        state = unfolded(state)
        if not {"position", "fingerprint"} <= set(state):
            raise StateMismatchError(
                f"this is not a sampler's state, which has position and fingerprint; it has "
                f"{', '.join(map(str, state)) or 'nothing'}"
            )
        counts = state.get("counts", {"position": 0, "sources": {}})
        minings, skipped = state.get("minings", []), state.get("skipped", [])
        try:
            wrong = misfit(counts, _COUNTS)
            change = state.get("change")
            if change is not None:
                single, lists = change[:4], change[4:]
                wrong = wrong or misfit(single, [_COUNT]) or misfit(lists, [[int]])
                wrong = wrong or ("" if len(change) == 7 else "change is seven values")
            if wrong or any(len(numbers) != 3 for numbers in counts["sources"].values()):
                raise ValueError(wrong or "counts are three numbers a source")
            return cls(
                position=state["position"],
                fingerprint=dict(state["fingerprint"]),
                events={int(step): Event(*values) for step, *values in state.get("events", [])},
                counts=(counts["position"], counts["sources"]),
                minings=tuple((int(step), Pins.of_plain(numbers)) for step, numbers in minings),
                skipped=tuple((int(step), int(steps)) for step, steps in skipped),
                change=change,
                **others,
            )
        except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
            raise _damaged(error) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Save(RunPosition):
    """A run and its position."""

    run: str
    tag: str | None  # tag of the checkpoint; None for the latest save
    kind: str
    corpus_version: int  # corpus version it was opened at
    order_version: int
    settings: dict[str, Any]  # settings that open its sampler
    joins: Sequence[Sequence[int]]  # step and number of every corpus version that joined
    step: int
    epoch: int  # nominal epoch of the position
    samples: Mapping[str, int]  # before the position, by source
    drifted_from: Fingerprint | None = None  # for checks only: fingerprint of the resumed run
    changed_from: int | None = None  # for checks only: first position of other samples

    @property
    def batch(self) -> int:
        """Samples per step, over all ranks."""
        return int(self.settings["batch_size"] * self.settings["world_size"])

    @property
    def steps(self) -> int:
        """Steps before the position; the last of a run may be short."""
        return -(-self.position // self.batch)

    @property
    def versions(self) -> list[int]:
        """The corpus version it was opened at, and the versions that joined."""
        return [self.corpus_version, *(version for _, version in self.joins)]


def state_path(corpus: Path, path: str | Path | None = None) -> Path:
    """Return a state file, checked; by default NAME.state.duckdb next to NAME.duckdb.

    Raises:
        SamplerError: It is the corpus itself.
    """
    default = files.next_to(corpus, files.STATE)
    if path is not None and Path(path).resolve() == corpus.resolve():
        raise SamplerError(
            f"state={str(path)!r} is the corpus itself; by default a run is saved next to it, in "
            f"{default.name}"
        )
    return default if path is None else Path(path).absolute()


def state_paths(corpus: Path, paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """Return the default state file of a corpus, and one or several others.

    Raises:
        StateMismatchError: One of the others does not exist.
    """
    several = [paths] if isinstance(paths, str | Path) else paths
    others = [state_path(corpus, path) for path in several]
    for path in others:
        if not path.exists():
            raise StateMismatchError(f"state={str(path)!r} does not exist")
    return [state_path(corpus), *others]


def save(
    path: Path,
    saved: Save,
    losses: Losses,
    schedule: RunSchedule,
    before: tuple[Save, Ways] | None = None,
) -> None:
    """Write a save, the losses before its position and changed shares in one transaction.

    ``before`` is the caller's last save; its shares count if it is still the last in the file.
    """
    run = saved.run
    if not path.exists():
        files.make_folder(path)
        migrate.create(path, "state")
    with _writing(path) as database:
        saves, last = _refuse_clash(database, path, saved)
        plain = saved.plain() | {"settings": saved.settings, "samples": dict(saved.samples)}
        replaced = [one["step"] for one in saves if one["tag"] == saved.tag]
        if saved.tag is None:
            database.run("runs/state/delete_latest", {"run": run})
        row = {name: getattr(saved, name) for name in ("run", *_COLUMNS)}
        database.run("runs/state/add", row | {"state": json.dumps(plain)})
        _write_losses(database, saved, losses, whole=not saves)
        then, known = before or (None, [])
        if not (then and last) or (then.fingerprint, then.events) != (
            last.fingerprint,
            last.events,
        ):
            known = []
        if (shares := _changed_shares(schedule, known)) is not None:
            first, rows = shares
            database.run("runs/state/delete_shares", {"run": run, "first": first})
            with database.registered(reported=rows):
                database.run("runs/state/add_shares", {"run": run})
    if any(step > saved.step for step in replaced):
        log.warning(
            "run %r is saved at step %d in %s, which replaces the save at step %d",
            *(run, saved.step, path, *replaced),
        )


def _changed_shares(schedule: RunSchedule, known: Ways) -> tuple[int, pa.Table] | None:
    """Return the first step at which shares differ from the known ones, and the new shares."""
    ways = schedule.ways
    if ways == known:
        return None
    pairs = enumerate(zip_longest(known, ways))
    number = next(number for number, (one, other) in pairs if one != other)
    first = (
        min(known_ways[number][0] for known_ways in (known, ways) if number < len(known_ways))
        if known
        else 0
    )
    found = [*schedule.over_time(first, _MOST_SHARES)]
    steps = np.array([step for step, _ in found], np.int64)
    columns = {
        "start_step": steps.repeat(len(schedule.sources)),
        "source": pa.array(schedule.sources * len(found), pa.string()),
        "share": np.array([known_ways for _, known_ways in found], np.float64).reshape(-1),
    }
    return first, pa.table(columns)


def refuse_save(path: Path, saved: Save) -> None:
    """Refuse a save that ``save`` would refuse now."""
    if path.exists():
        with _reading(path) as database:
            _refuse_clash(database, path, saved)


def _refuse_clash(
    database: Database, path: Path, saved: Save
) -> tuple[list[dict[str, Any]], Save | None]:
    """Refuse a save that contradicts its run; return the earlier saves, and the last."""
    run, saves = saved.run, _cursors(database, saved.run)
    tags = [one["tag"] for one in saves if one["tag"]]
    if last := _last(database, run):
        before, now = last.fingerprint, saved.fingerprint
        edited = {name: now[name] for name in ("mixture", "versions") if name in now}
        if saved.changed_from is not None and before | edited == now:
            if before != now:
                refuse_beyond(run, saves, saved.changed_from, saved.batch)
        elif before != saved.drifted_from or tags:
            try:
                refuse_mismatch(before, now, described=differing(last.settings, saved.settings))
            except StateMismatchError as error:
                raise StateMismatchError(
                    f"{path} has another run {run!r}: {error}. Save under another name (run=…) or "
                    f"into another file (path=…), or forget that run: duckplets runs … "
                    f"{run} --reset"
                ) from None
        for pair in zip_longest(_taken(last), _taken(saved)):
            if pair[0] != pair[1]:  # weights or minings; a checkpoint may be later
                step = min(change[0] for change in pair if change is not None)
                refuse_beyond(run, saves, step * saved.batch, saved.batch)
                break
    if saved.tag in tags:
        raise StateMismatchError(
            f"{path} has a save tagged {saved.tag!r} of run {run!r} already; give another tag"
        )
    return saves, last


def load(path: Path, run: str, tag: str | None = None) -> Save:
    """Return a run with its last settings, at one of its saves."""
    from duckplets.runs.metrics import KNOWN

    if not path.exists():
        raise StateMismatchError(f"no run is saved: {path} does not exist; call save() first")
    with _reading(path) as database:
        found = _last(database, run)
        if found is None:
            raise _no_run(path, run, _cursors(database))
        rows = database.run("runs/state/save", {"run": run, "tag": tag})
        if not rows:
            tags = listed(sorted(one["tag"] for one in _cursors(database, run) if one["tag"]))
            raise StateMismatchError(
                f"run {run!r} has no save tagged {tag!r}; its tags: {tags or 'none'}"
            )
        there = found if found.tag == tag else _read(path, run, rows[0])
        upto = {"run": run, "stop": there.steps}
        losses = {"losses": database.table("runs/state/losses", upto)}
        worst = database.table("runs/state/sample_losses", {**upto, "most": KNOWN})
        losses |= {"sample_losses": worst}
    taken = [
        [change for change in _taken(one) if change[0] < there.steps] for one in (found, there)
    ]
    if taken[0] != taken[1]:  # the run has changed since this checkpoint
        return replace(there, **losses)
    last = {name: getattr(found, name) for name in _OF_RUN}
    return replace(there, **last, **losses)


def runs(path: Path) -> list[Save]:
    """Return the last save of every run of a state file, by name; none without a file."""
    if not path.exists():
        return []
    with _reading(path) as database:
        names = sorted({one["run"] for one in _cursors(database)})
        return [run for name in names if (run := _last(database, name))]


def cursors(
    path: Path, run: str | None = None, *, fingerprint: Fingerprint | None = None
) -> list[dict[str, Any]]:
    """Return all saves, or the saves of a run with this fingerprint; the latest is first."""
    if not path.exists():
        return []
    with _reading(path) as database:
        if run is not None and fingerprint is not None:
            known = _last(database, run)
            if known is None or known.fingerprint != fingerprint:
                return []
        return _cursors(database, run)


def reset(path: Path, run: str, *, after: int | None = None) -> int:
    """Forget a run, or its saves beyond a step; return the number of saves removed.

    Args:
        path: The state file.
        run: Name of the run.
        after: Keep saves up to this step.
    """
    step = -1 if after is None else integer("after", after, 0, MAX_POSITION)
    known = cursors(path)
    if all(one["run"] != run for one in known):
        raise _no_run(path, run, known)
    with _writing(path) as database:
        removed = database.run("runs/state/delete_beyond", {"run": run, "step": step})[0][0]
        database.run("runs/state/delete_losses_beyond", {"run": run})
        database.run("runs/state/delete_sample_losses", {"run": run, "first": 0, "stop": 0})
        if removed == sum(one["run"] == run for one in known):
            database.run("runs/state/delete_shares", {"run": run, "first": 0})
    return int(removed)


def refuse_beyond(
    run: str, saves: Iterable[Mapping[str, Any]], changed_from: int, batch: int
) -> None:
    """Refuse to change samples from a position on if a later checkpoint needs them."""
    beyond = [repr(one["tag"]) for one in saves if one["tag"] and one["position"] > changed_from]
    if beyond:
        step = changed_from // batch
        raise StateMismatchError(
            f"run {run!r} has checkpoints beyond step {step}, where its samples would change: "
            f"{listed(beyond, 10)}. Save to another file (save_to=…), open a run of another name "
            f"(run=…), or forget them: duckplets runs … {shlex.quote(run)} --to {step} --reset"
        )


@contextmanager
def _reading(path: Path) -> Iterator[Database]:
    with for_a_moment(path, read_only=True) as database:
        migrate.check(database, "state")
        yield database


@contextmanager
def _writing(path: Path) -> Iterator[Database]:
    with for_a_moment(path) as database:
        migrate.migrate(database, "state")
        with database.transaction():
            yield database


class SavingNote(str):
    """A note that matters only if the run is saved."""


def not_of_saving(notes: Iterable[str]) -> list[str]:
    """Return the notes that matter even if the run is not saved."""
    return [note for note in notes if not isinstance(note, SavingNote)]


def behind(run: str, fingerprint: Fingerprint, path: Path, position: int) -> list[str]:
    """Return a note if a run begins before its latest save and would replace it."""
    try:
        saved = cursors(path, run, fingerprint=fingerprint)
    except DuckpletsError as error:  # only a save fails because of it
        return [SavingNote(f"this run cannot be saved in {shown(path)}: {error}")]
    latest = [one for one in saved if one["tag"] is None and one["position"] > position]
    if not latest:
        return []
    step = position // fingerprint["batch_size"]
    return [
        SavingNote(
            f"run {run!r} was saved at step {latest[0]['step']:,}; this run begins at step "
            f"{step:,}, and saving it replaces that save. To continue from there, resume it with "
            f"duckplets.resume or --resume"
        )
    ]


def unsavable(path: Path, *, required: bool) -> list[str]:
    """Return a note if a run cannot be saved in a file; refuse a required file."""
    if not (why := migrate.unwritable(path)):
        return []
    note = SavingNote(f"this run cannot be saved in {shown(path)}: {why}")
    if required:
        raise SamplerError(f"{note}; name another file")
    return [note]


def folded(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state as its position and one text, for trainers without nested values."""
    rest = {name: value for name, value in state.items() if name != "position"}
    return {"position": state["position"], "run": json.dumps(rest, ensure_ascii=False)}


def unfolded(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state without the folding of ``folded``."""
    try:
        found = dict(state)
        return json.loads(found.pop("run")) | found if "run" in found else found
    except (TypeError, ValueError) as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> StateMismatchError:
    return StateMismatchError(
        f"this sampler's state is damaged: {error}; give what state_dict() returned"
    )


def _last(database: Database, run: str) -> Save | None:
    rows = database.run("runs/state/last", {"run": run})
    return _read(database.path, run, rows[0]) if rows else None


def _read(path: Path | None, run: str, row: Sequence[Any]) -> Save:
    *columns, text = row
    forget = f"Forget the run: duckplets runs CORPUS {shlex.quote(run)} --reset"
    place = StoredJson(path, "saves", f"run {run!r}", f"{forget}; or put back an earlier copy.")
    content = place.read("state", text, _STATE)
    others = dict(zip(_COLUMNS, columns, strict=True), run=run)
    others |= {name: content[name] for name in ("settings", "samples")}
    with place.making("state"):
        Mixture.from_dict(content["settings"].get("mixture", {}))
        return Save.of_plain(content | {"position": others.pop("position")}, **others)


def _cursors(database: Database, run: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = database.table("runs/state/saves", {"run": run}).to_pylist()
    for one in found:
        joins = one.pop("joins")
        one["later_versions"] = [{"version": version, "step": step} for step, version in joins]
    return found


def _no_run(path: Path, run: str, saves: Iterable[Mapping[str, Any]]) -> StateMismatchError:
    known = sorted({one["run"] for one in saves})
    return StateMismatchError(
        f"{path} has no run {run!r}{nearest(run, known)}; it has: {listed(known) or 'none'}"
    )


def _taken(saved: Save) -> list[tuple[int, Any]]:
    """Return weights and minings that changed during a run, by step."""
    return sorted([*saved.events.items(), *saved.minings], key=itemgetter(0))


def _write_losses(database: Database, saved: Save, losses: Losses, *, whole: bool) -> None:
    """Replace the losses of the steps since a run's last save."""
    first, stop = 0 if whole else min(losses.first, saved.steps), saved.steps
    database.run("runs/state/delete_losses", {"run": saved.run, "first": first, "stop": stop})
    database.run("runs/state/delete_losses_beyond", {"run": saved.run})
    rows = losses.table(first, stop)
    if rows.num_rows:
        with database.registered(reported=rows):
            database.run("runs/state/add_losses", {"run": saved.run})
    span = {"run": saved.run, "first": first, "stop": stop}
    database.run("runs/state/delete_sample_losses", span)
    if (rows := losses.samples(first, stop)).num_rows:
        with database.registered(reported=rows):
            database.run("runs/state/add_sample_losses", {"run": saved.run})


def digest(value: Any) -> str:
    """Return a short digest of a plain value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def refuse_mismatch(
    saved: Fingerprint,
    now: Fingerprint,
    *,
    allow_drift: Collection[str] = (),
    described: Mapping[str, str] = {},
    edited: Mapping[str, str] = {},
) -> None:
    """Refuse a fingerprint that differs in more than ``edited``; callers check these fields."""
    for name in sorted(set(allow_drift) - now.keys()):
        raise StateMismatchError(
            f"allow_drift: no field {name!r}{nearest(name, now)}; there are {', '.join(now)}"
        )
    other = [name for name in {**saved, **now} if saved.get(name) != now.get(name)]
    differing = [name for name in other if name not in allow_drift]
    if set(differing) - edited.keys():
        words, hint = {**described, **edited}, ""
        words_of = [
            words.get(name, f"{name} (saved: {saved.get(name)!r}, now: {now.get(name)!r})")
            for name in differing
        ]
        if "batch_size" in differing:
            hint = (
                " (batch_size counts all ranks together; world sizes that divide it: "
                f"{world_sizes(int(saved.get('batch_size', 0)))})"
            )
        raise StateMismatchError(
            f"the saved run does not fit: {'; '.join(words_of)}{hint}. Open it with the saved "
            f"values, or accept another order with allow_drift=(…)"
        )


def differing(saved: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return in words how recipes and mixture of two settings differ."""
    mixtures = [Mixture.from_dict(settings.get("mixture", {})) for settings in (saved, now)]
    described = {"mixture": differences(*mixtures)}
    one, other = (
        {
            (source, recipe.get("name")): recipe
            for source, some in each["recipes"].items()
            for recipe in some
        }
        for each in (saved, now)
    )
    places = [place for place in {**one, **other} if one.get(place) != other.get(place)]
    described["recipes"] = "; ".join(
        f"source {at[0]!r}, recipe {at[1]!r}: {_fields(one.get(at, {}), other.get(at, {}))}"
        for at in places[:_SHOWN]
    )
    if len(places) > _SHOWN:
        described["recipes"] += f"; and {len(places) - _SHOWN:,} recipes more"
    return {field: f"{field}: {words}" for field, words in described.items() if words}


def _fields(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if not (saved and now):
        return "saved only" if saved else "now only"
    both = ((name, saved.get(name), now.get(name)) for name in {**saved, **now})
    return ", ".join(
        f"{name} (saved: {shown(repr(one), 80)}, now: {shown(repr(other), 80)})"
        for name, one, other in both
        if one != other
    )
