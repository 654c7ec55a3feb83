"""Keep what an interrupted ingest has stored, invisible, until it continues or is discarded.

begin ─save (with the rows, in one transaction)→ … ─publish→ a version
                                                   └discard→ as if it had never been

The decision that matters: unpublished records lie in their final tables, marked by a version that
no run can have. So nothing is copied at the end, and statements about a version skip them. An
interrupted ingest leaves the same tables as an unbroken one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from duckplets.base.documents import StoredJson
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.ingest import records

UNPUBLISHED = 2**63 - 1
"""Stands for the versions that add and remove an unpublished record."""

_PORTION = 250_000  # records that are discarded at a time
_WAY = "Discard what it has stored: ingest that source with restart=True (--restart)."
_NUMBER = range(1 << 63)
_SETTINGS = {
    "kind": str,
    "uri": (str, None),
    "trust?": (float, None),
    "source?": object,
    "quality?": object,
    "where?": (str, None),
}
_TEXT = (str, _NUMBER, None)
_COUNTS = {
    "read?": _NUMBER,
    "added?": _NUMBER,
    "replaced?": _NUMBER,
    "reasons?": {str: _NUMBER},
    "dropped_sections?": {str: _NUMBER},
    "incomplete?": {str: _NUMBER},
    "left_out?": {str: _NUMBER},
    "quarantined?": _NUMBER,
    "examples?": {str: [{"row": _NUMBER, "file": _TEXT, "line": _TEXT, "value": _TEXT}]},
}


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An interrupted ingest."""

    name: str
    source_id: int
    started_at: str  # ISO text, UTC
    saved_at: str
    _place: StoredJson
    _json: dict[str, Any]

    # Parsed on demand: a damaged one can still be discarded.

    @property
    def can_go_on(self) -> bool:
        """Return whether its source can be resumed; others leave something only after a kill."""
        return bool(self._json["settings"] != "null")

    @property
    def settings(self) -> dict[str, Any]:
        """The source and its settings, as plain values."""
        return dict(self._place.read("settings", self._json["settings"], _SETTINGS))

    @property
    def cursor(self) -> Any:
        """Where its source continues."""
        return self._place.read("cursor", self._json["cursor"], object)

    @property
    def counts(self) -> dict[str, Any]:
        """Counts so far."""
        return dict(self._place.read("counts", self._json["counts"], _COUNTS))

    @property
    def has_stored(self) -> bool:
        """Whether there is something to continue: gates note every row read."""
        return bool(self.counts.get("read" if "quality" in self.settings else "added"))


def ingests(database: Database) -> list[Unfinished]:
    """Return the interrupted ingests by name."""
    return [
        Unfinished(
            name,
            int(source_id),
            started_at.isoformat(timespec="seconds"),
            saved_at.isoformat(timespec="seconds"),
            StoredJson(database.path, "unfinished_ingests", f"source {name!r}", _WAY),
            {"settings": settings, "cursor": cursor, "counts": counts},
        )
        for name, source_id, settings, cursor, counts, started_at, saved_at in database.run(
            "ingest/checkpoint/unfinished"
        )
    ]


def unfinished(corpus: CorpusFile, /) -> list[dict[str, Any]]:
    """Return the ingests that stopped half-way: ``source``, ``uri``, ``rows``, ``saved_at``."""
    return overview(corpus.database)


def remove(database: Database, name: str) -> int:
    """Remove a source, and the rows of an unfinished ingest of it; return the number of records."""
    sweep(database)
    found = find(database, name)
    if found is None:
        return records.remove(database, name)
    discarded = discard(database, found)
    live = {row[1] for row in database.run("ingest/records/live_sources")}
    return discarded + (records.remove(database, name) if name in live else 0)


def overview(database: Database) -> list[dict[str, Any]]:
    """Return source, uri, rows read and time of the last save of each."""
    return [
        {
            "source": found.name,
            "uri": found.settings["uri"],
            "rows": found.counts.get("read", 0),
            "saved_at": found.saved_at,
        }
        for found in ingests(database)
        if found.can_go_on
    ]


def sweep(database: Database) -> None:
    """Discard what killed ingests that cannot continue have left.

    Called by verbs that write, under the write lock: no such ingest is running.
    """
    from duckplets.ingest import text_files

    for found in ingests(database):
        if not found.can_go_on:
            discard(database, found)
    text_files.sweep(database)


def find(database: Database, name: str) -> Unfinished | None:
    """Return the unfinished ingest of a source, or None."""
    return next((found for found in ingests(database) if found.name == name), None)


def differing(settings: Mapping[str, Any], others: Mapping[str, Any], *, inner: bool) -> list[str]:
    """Return the names of settings that differ, with nested ones from ``inner`` in brackets."""
    names = []
    for name in sorted({*settings, *others}):
        one, other = settings.get(name), others.get(name)
        if one == other:
            continue
        keys: list[str] = []
        if inner and isinstance(one, dict) and isinstance(other, dict):
            keys = sorted(n for n in {**one, **other} if one.get(n) != other.get(n))
        names.append(f"{name} ({', '.join(keys)})" if keys else name)
    return names


def begin(
    database: Database, name: str, source_id: int, settings: Mapping[str, Any] | None
) -> None:
    """Record that an ingest has begun, inside its first transaction."""
    row = {"name": name, "source_id": source_id, "settings": json.dumps(settings)}
    database.run("ingest/checkpoint/begin", row | {"cursor": "null", "counts": "{}"})


def save(database: Database, name: str, cursor: Any, counts: Mapping[str, Any]) -> None:
    """Record where an ingest continues, inside the transaction that stores the rows before."""
    parameters = {"name": name, "cursor": json.dumps(cursor), "counts": json.dumps(counts)}
    database.run("ingest/checkpoint/save", parameters)


def publish(
    database: Database, name: str, source_id: int, version: int, *, replace: bool
) -> tuple[int | None, int, int]:
    """Publish the records of an ingest as a new version, inside its last transaction.

    Returns:
        The first record's key, or None without records. With ``replace`` also the number of records
        that later rows replaced, and the number of stored records that they replaced.
    """
    of_source = {"source_id": source_id, "unpublished": UNPUBLISHED}
    first = database.run("ingest/checkpoint/first_record", of_source)[0][0]
    of_source["version"] = version
    overtaken = replaced = 0
    if replace:
        overtaken = int(database.run("ingest/checkpoint/overtake", of_source)[0][0])
        replaced = int(database.run("ingest/checkpoint/replace", of_source)[0][0])
    database.run("ingest/checkpoint/publish", of_source)
    database.run("ingest/checkpoint/publish_source", of_source)
    _end(database, name, version)
    return first, overtaken, replaced


def keep_quarantine(database: Database, name: str, source_id: int, version: int) -> None:
    """End an ingest with quarantined rows only, inside its last transaction."""
    of_source = {"source_id": source_id, "unpublished": UNPUBLISHED}
    database.run("ingest/checkpoint/discard_source", of_source)
    _end(database, name, version)


def _end(database: Database, name: str, version: int) -> None:
    of_name = {"name": name, "unpublished": UNPUBLISHED}
    database.run("ingest/checkpoint/publish_quarantine", of_name | {"version": version})
    database.run("ingest/checkpoint/forget", {"name": name})


def discard(database: Database, found: Unfinished) -> int:
    """Delete what an unfinished ingest has stored; return the number of records."""
    from duckplets.ingest.sections_view import forget_unused

    of_source = {"source_id": found.source_id, "unpublished": UNPUBLISHED}
    of_name = {"name": found.name, "unpublished": UNPUBLISHED}
    records = database.table("ingest/checkpoint/unpublished_records", of_source)
    intakes = database.table("ingest/checkpoint/unpublished_intakes", of_source)
    # A transaction holds something in memory for each row that it deletes.
    *first, last = range(0, max(records.num_rows, 1), _PORTION)
    for low in first:
        with database.transaction():
            database.run("ingest/checkpoint/give_up", {"name": found.name})
            _discard(database, records.slice(low, _PORTION), intakes.slice(0, 0))
    with database.transaction():
        _discard(database, records.slice(last), intakes)
        database.run("ingest/checkpoint/discard_source", of_source)
        database.run("ingest/checkpoint/discard_quarantine", of_name)
        database.run("ingest/checkpoint/forget", {"name": found.name})
        forget_unused(database)
    return int(records.num_rows)


def _discard(database: Database, records: pa.Table, intakes: pa.Table) -> None:
    with database.registered(discarded=records, discarded_intakes=intakes):
        database.run("ingest/checkpoint/discard")
