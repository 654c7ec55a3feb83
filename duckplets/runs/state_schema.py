"""Read runs from a state file: what its tables hold, checked against its shape → Run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.plain import StoredJson
from duckplets.db.database import Database
from duckplets.order.changes import Event

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.runs.fingerprint import Fingerprint

Events = Mapping[int, Event]

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
    "preset?": (None, str),
    **dict.fromkeys(("mixture?", "splits?", "chunking?", "declared_prefixes?"), dict),
    "recipes?": {str: [dict]},
    "optional?": {str: [str]},
    "sources?": [str],
    "columns?": [str],
    "records?": [int],
    "index?": {
        str: {"size": (range((1 << 32) + 1), None), "size_mode": str, "weight": float, "seed": int}
    },
    "candidates?": {str: {str: {"mining": range(1 << 31), "digest": str}}},
}
_SETTINGS["eras?"] = [
    {
        **dict.fromkeys(("step", "corpus_version"), _COUNT),
        **dict.fromkeys(("declared_prefixes", "vectors"), dict),
        "lengths": {str: _COUNT},
        **{name: _SETTINGS[f"{name}?"] for name in ("recipes", "optional", "sources", "records")},
        **{name: _SETTINGS[f"{name}?"] for name in ("index", "candidates")},
    }
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """Where a run stands.

    Attributes:
        tag: Name of the checkpoint, or None for the latest save.
        position: First position not yet taken.
        step: First step not yet taken.
        epoch: Nominal epoch of the position.
        counts: [samples, tokens, fallbacks, displaced] of each source since the start; the last
            two are left out where they are 0.
        losses: Those reported for the steps before, as in ``Sampler.losses``; of one that was read.
    """

    tag: str | None
    position: int
    step: int
    epoch: int
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    losses: pa.Table | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedRun:
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

    def steps_to(self, position: int) -> int:
        """Return how many steps a position lies behind; the last of a run may be a short one."""
        batch = self.settings.get("batch_size", 1) * self.settings.get("world_size", 1)
        return -(-position // int(batch))

    @property
    def versions(self) -> list[int]:
        """The version it is pinned to, and those that have joined."""
        eras = self.settings.get("eras", [])
        return [self.corpus_version, *(int(era["corpus_version"]) for era in eras)]


def find_run(database: Database, run: str) -> SavedRun | None:
    """Return a saved run, None if the file has none of that name."""
    rows = database.run("runs/state/run", {"run": run})
    if not rows:
        return None
    kind, version, order_version, settings, fingerprint = rows[0]
    place = _place(database.path, "runs", run)
    told = place.read("settings", settings, _SETTINGS)
    if sorted(told.get("recipes", ())) != sorted(told.get("sources", ())):
        raise place.damage("settings", "names other sources than those it has recipes of")
    return SavedRun(
        name=run,
        kind=kind,
        corpus_version=version,
        order_version=order_version,
        settings=told,
        fingerprint=place.read("fingerprint", fingerprint, {"batch_size?": _GLOBAL_BATCH}),
        events={
            step: Event(
                _place(database.path, "weight_events", run, f", step {step}").read(
                    "weights", weights, {str: float}
                ),
                temperature,
            )
            for step, weights, temperature in events_of(database, run)
        },
    )


def _place(file: Path | None, table: str, run: str, more: str = "") -> StoredJson:
    way = f"Forget the run: duckplets cursor reset CORPUS --run {shlex.quote(run)}"
    return StoredJson(file, table, f"run {run!r}{more}", f"{way}; or put back an earlier copy.")


def counts_of(path: Path, run: str, tag: str | None, text: str | None) -> dict[str, list[int]]:
    """Return the counts of a cursor; nothing for one that has none."""
    place = _place(path, "cursors", run, "" if tag is None else f", tag {tag!r}")
    found = place.read("counts", text or "{}", {str: [range(1 << 63)]})
    if any(len(numbers) not in (2, 3, 4) for numbers in found.values()):
        raise place.damage("counts", "has another shape: two to four numbers a source are wanted")
    return dict(found)


def events_of(database: Database, run: str) -> list[tuple[int, str, float | None]]:
    """Return step, weights as they are stored, and temperature of what was set during a run."""
    rows = database.run("runs/state/events", {"run": run})
    return [(step, weights, temperature) for step, weights, temperature in rows]
