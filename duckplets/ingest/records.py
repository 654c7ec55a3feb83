"""Records and versions of a corpus: remove a source, find and commit versions.

Nothing is deleted. A replaced or removed record gets a ``removed_version``, so a run pinned to an
earlier version still finds every text it ever drew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from duckplets.base.sanitize import Reported, counted, listed, shown
from duckplets.db.database import Database
from duckplets.errors import SourceError, nearest
from duckplets.sources.rows import is_failure

Example = dict[str, Any]
"""A row that is told of: ``row``, ``file``, ``line``, ``value``."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class IngestReport(Reported):
    """Report of an ingest: ``read == added + skipped + failed``.

    Attributes:
        read: Rows the source held.
        added: Records stored, replacements included.
        skipped: Rows that were readable and did not become a record.
        failed: Rows that could not be read.
        seconds: Wall time; for a continued ingest since it continued.
        reasons: Count of skipped and failed rows by reason.
        examples: The first five rows by reason, those of ``incomplete`` included. Each has ``row``
            (its number, from 1), ``file``, ``line`` and ``value``, or None.
        incomplete: Count of rows that were read without something, by reason, such as a date; they
            are among those added, or skipped for another reason.
        replaced: Stored records that a row of this ingest took the place of.
        dropped_sections: Texts that are no section, by reason: preprocessors emptied them, they
            come after the first in the list of an anchor, or a turn has no pair.
        removed: Records that a remapped source no longer has.
        notes: Sentences on what was found, and on which choices were made.
        version: Corpus version it made.
        spanning: Records that joined a family with records in another split.
        left_out: Count of usable rows by field that a converter does not read, such as ``tools``.
            In JSON only rows with a value count, in a table all rows of a file with the column.
            Keys of turns are paths, such as ``messages.images``, and count with a value.
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
    examples: dict[str, list[Example]] = field(default_factory=dict)
    incomplete: dict[str, int] = field(default_factory=dict)
    removed: int = 0
    notes: list[str] = field(default_factory=list)
    spanning: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """Say in plain lines what became of every row."""
        how = f", {self.replaced:,} of them in place of others" if self.replaced else ""
        lines = [
            f"{counted(self.read, 'row')} read: {self.added:,} added{how}, "
            f"{self.skipped:,} skipped, {self.failed:,} failed "
            f"(version {self.version}, {self.seconds:g} s)"
        ]
        lines += [
            f"  {'failed' if is_failure(reason) else 'skipped'}: {n:,} {self._said(reason, n)}"
            for reason, n in self.reasons.items()
        ]
        lines += [
            f"  taken without it: {n:,} {self._said(reason, n)}"
            for reason, n in self.incomplete.items()
        ]
        lines += [
            f"  {counted(n, 'time')}: {reason}" for reason, n in self.dropped_sections.items()
        ]
        if self.left_out:
            details = listed(
                f"{shown(name, 60)} ({counted(n, 'row')})" for name, n in self.left_out.items()
            )
            lines.append(f"  left out, as the converter does not read them: {details}")
        if self.spanning:
            lines.append(
                f"  {counted(self.spanning, 'record')} joined a family that has records in two "
                f"splits: they have that of its first"
            )
        if self.removed:
            lines.append(
                f"  {counted(self.removed, 'record')} removed that the source no longer has"
            )
        return "\n".join(lines + [f"  {note}" for note in self.notes])

    __repr__ = __str__

    def _said(self, reason: str, count: int) -> str:
        """Return a reason with the places of its rows, or of the first ones."""
        found = self.examples.get(reason)
        if not found:
            return shown(reason)
        first = "first " if len(found) < count else ""
        return f"{shown(reason)} ({first}{'; '.join(map(_place, found))})"


def _place(row: Example) -> str:
    """Return the place of a row, and the value that could not be read."""
    where = f"row {row['row']}"
    if row["file"]:
        line = f":{row['line']}" if row["line"] else ""
        where = f"{shown(row['file'])}{line}" + ("" if line else f", {where}")
    return where + ("" if row["value"] is None else f": {shown(repr(row['value']), 60)}")


def remove(database: Database, name: str) -> int:
    """Mark a source and its records as removed, with documents of its own; return their number.

    Raises:
        SourceError: There is no such source, or it has the documents of another.
    """
    source_id = source_id_of(database, name)
    if named := [n for (n,) in database.run("ingest/records/named_by", {"source_id": source_id})]:
        raise SourceError(
            f"source {name!r} has the documents of {listed(named)}; remove {named[0]!r}, and "
            f"documents that no other source names go with it"
        )
    with database.transaction():
        version, records = current_version(database) + 1, 0
        own = database.run("ingest/records/own_documents", {"source_id": source_id})
        for each in (source_id, *(key for (key,) in own)):
            parameters = {"source_id": each, "version": version}
            records += int(database.run("ingest/records/remove_records", parameters)[0][0])
            database.run("ingest/records/remove_source", parameters)
            database.run("ingest/records/remove_labels", parameters)
        commit_version(database, version, "remove", name, {"removed": records})
    return records


def source_id_of(database: Database, name: str) -> int:
    """Return the id of a source in the newest version."""
    found = {row[1]: row[0] for row in database.run("ingest/records/live_sources")}
    if not isinstance(name, str):
        raise SourceError(f"source={shown(repr(name))}: give the name of a source")
    if name not in found:
        raise SourceError(
            f"no source {name!r}{nearest(name, found)}; there are: {listed(found) or 'none'}"
        )
    return int(found[name])


def records_told(database: Database, source_id: int, version: int) -> list[str]:
    """Return sentences on the labels of a source, and on removed records that came again."""
    notes, of_version = [], {"source_id": source_id, "version": version}
    row = database.run("ingest/records/labels", {"source_id": source_id})[0]
    positive, negative, labelled, least, greatest = row
    if labelled and positive + negative == labelled:
        notes.append(f"labels: {positive:,} positive, {negative:,} negative")
    elif labelled:
        notes.append(
            f"labels: {labelled:,} grades from {least:g} to {greatest:g}; in triplets only what a "
            f"condition over label asks for is a positive"
        )
    if count := int(database.run("ingest/records/came_back", of_version)[0][0]):
        notes.append(
            f"look: {counted(count, 'record')} that deduplicate(), decontaminate() or judge() had "
            f"removed came in again with the source; run that again, or remove them from the source"
        )
    return notes


def current_version(database: Database) -> int:
    """Return the newest committed version; 0 for an empty corpus."""
    return int(database.run("ingest/records/version")[0][0])


def commit_version(
    database: Database, version: int, what: str, source: str | None, report: dict[str, Any]
) -> None:
    """Record a new version, inside the transaction that makes it."""
    database.run(
        "ingest/records/add_version",
        {"version": version, "what": what, "source": source, "report": json.dumps(report)},
    )


def fingerprint(database: Database, version: int) -> list[int]:
    """Return a fingerprint of the records of a version."""
    return list(map(int, database.run("ingest/records/fingerprint", {"version": version})[0]))
