"""Records and versions of a corpus: remove a source, find the newest version, note a new one.

Nothing is deleted. A replaced or removed record keeps its rows and gets a ``removed_version``,
so a run pinned to an earlier version still finds every text it ever drew from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from duckplets.base.shown import listed
from duckplets.db.database import Database
from duckplets.errors import SourceError, nearest


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestReport:
    """What an ingest did; ``read == added + skipped + failed``.

    Attributes:
        read: Rows the source held.
        added: Records stored, replacements included.
        skipped: Rows that were readable and did not become a record.
        failed: Rows that could not be read.
        seconds: Wall time; of an ingest that was interrupted, since it went on.
        reasons: Count of skipped and failed rows by reason.
        replaced: Stored records that a row of this ingest took the place of.
        dropped_sections: Sections that preprocessors left nothing of, by reason.
        version: Corpus version it made.
        spanning: Records that joined a family of which some records are in another split.
    """

    read: int
    added: int
    skipped: int
    failed: int
    seconds: float
    reasons: dict[str, int] = field(default_factory=dict)
    replaced: int = 0
    dropped_sections: dict[str, int] = field(default_factory=dict)
    version: int = 0
    spanning: int = 0


def remove(database: Database, name: str) -> int:
    """Mark a source and its records as removed; return how many records that were."""
    source_id = source_id_of(database, name)
    with database.transaction():
        version = current_version(database) + 1
        parameters = {"source_id": source_id, "version": version}
        records = int(database.run("ingest/records/remove_records", parameters)[0][0])
        database.run("ingest/records/remove_source", parameters)
        commit_version(database, version, "remove", name, {"removed": records})
    return records


def source_id_of(database: Database, name: str) -> int:
    """Return the id of a source of the newest version.

    Raises:
        SourceError: There is none of that name.
    """
    found = {row[1]: row[0] for row in database.run("ingest/records/live_sources")}
    if name not in found:
        raise SourceError(
            f"no source {name!r}{nearest(name, found)}; there are: {listed(found) or 'none'}"
        )
    return int(found[name])


def current_version(database: Database) -> int:
    """Return the number of the newest committed version; 0 for a corpus without any."""
    return int(database.run("ingest/records/version")[0][0])


def commit_version(
    database: Database, version: int, what: str, source: str, report: dict[str, Any]
) -> None:
    """Note a new version, inside the transaction that makes it."""
    database.run(
        "ingest/records/add_version",
        {"version": version, "what": what, "source": source, "report": json.dumps(report)},
    )


def fingerprint(database: Database, version: int) -> list[int]:
    """Return what tells the records of a version from those of another corpus."""
    return [int(n) for n in database.run("ingest/records/fingerprint", {"version": version})[0]]
