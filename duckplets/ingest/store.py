"""Store batches of rows as records with their sections, chunks, messages and prefixes.

    batch ─preprocess→ sections ─classify→ new, same, conflicting ─→ records, sections, chunks, …

Each batch is compared with what is stored in one statement, windowed in NumPy and appended.
A row is never dropped without being counted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.progress import Progress
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest import unfinished
from duckplets.ingest.chunks import SectionWriter, current_chunking, next_key, sliced
from duckplets.ingest.preprocess import preprocess
from duckplets.ingest.records import IngestReport, commit_version, current_version
from duckplets.ingest.splits import assign_missing
from duckplets.ingest.unfinished import UNPUBLISHED
from duckplets.sources import Mark, Rows, Source
from duckplets.sources.base import UNREADABLE

if TYPE_CHECKING:
    from duckplets.text.prefix import Prefix

OnConflict = Literal["error", "skip", "replace"]

SAME = "duplicate id, same content"
CONFLICT = "conflicting id, first kept"
OVERTAKEN = "replaced by a later row"


@dataclass(frozen=True, slots=True)
class Request:
    """What an ingest was asked for, checked.

    Attributes:
        source: What is read.
        name: Of the source in the corpus.
        trust: Given for the source, or None.
        on_conflict: What to do about a known id with other content.
        prefix: Metadata prefix of the source from now on, or None to leave it.
    """

    source: Source
    name: str
    trust: float | None
    on_conflict: OnConflict
    prefix: Prefix | None


@dataclass(slots=True)
class Counts:
    """What became of the rows so far; the attributes are those of ``IngestReport``."""

    read: int = 0
    added: int = 0
    replaced: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    dropped_sections: Counter[str] = field(default_factory=Counter)

    def failed(self) -> int:
        """Return how many rows could not be read."""
        return sum(count for reason, count in self.reasons.items() if reason in UNREADABLE)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        plain: dict[str, Any] = {n: getattr(self, n) for n in ("read", "added", "replaced")}
        return plain | {n: dict(getattr(self, n)) for n in ("reasons", "dropped_sections")}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Counts:
        """Return the counts of what ``to_json`` returned."""
        reasons, dropped = (Counter(values.get(n, {})) for n in ("reasons", "dropped_sections"))
        numbers = {name: values.get(name, 0) for name in ("read", "added", "replaced")}
        return cls(**numbers, reasons=reasons, dropped_sections=dropped)


class Storing:
    """An ingest under way: stores batch after batch, then makes their version.

    Every method runs inside a transaction.

    Args:
        database: The corpus.
        request: What is read, and how.
        rows: The opened source.
        version: The version it makes; ``UNPUBLISHED`` while that is not known.
        source: Id and trust of the source, where it is there already.
        counts: Of what an earlier process read.
    """

    def __init__(
        self,
        database: Database,
        request: Request,
        rows: Rows,
        version: int,
        *,
        source: tuple[int, float] | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.database = database
        self.request = request
        self.rows = rows
        self.version = version
        self.removed_version = UNPUBLISHED if version == UNPUBLISHED else None
        self.counts = counts or Counts()
        self.chunking = current_chunking(database)
        self.record_key = self.first_record_key = next_key(database, "record")
        self.sections = SectionWriter.after_the_last(database, self.chunking)
        self.source_id, self.trust = source or self._source()

    def store_all(
        self, batches: Iterator[pa.RecordBatch | Mark], progress: Progress | None
    ) -> None:
        """Store every batch."""
        for batch in batches:
            if not isinstance(batch, Mark):
                self.store(batch, progress)

    def store(self, batch: pa.RecordBatch, progress: Progress | None) -> None:
        """Store the rows of a batch that can be records, counting the others."""
        self.counts.read += batch.num_rows
        batch, dropped = preprocess(batch, self.chunking)
        self.counts.dropped_sections.update(dropped)
        skipped = batch.filter(pc.is_valid(batch["skip"]))
        for pair in pc.value_counts(skipped["skip"]).to_pylist():
            self.counts.reasons[pair["values"]] += pair["counts"]
        if skipped.num_rows and "quarantined" in batch.schema.names:
            self._quarantine(skipped)
        if skipped.num_rows < batch.num_rows:
            # Filtering copies all texts.
            usable = batch.filter(pc.is_null(batch["skip"])) if skipped.num_rows else batch
            self._add(usable)
        if progress:
            progress(self.counts.read, self.rows.total)

    def finish(self, started: float) -> IngestReport:
        """Make a version of what was stored, and return the report."""
        counts = self.counts
        rejected = self.rows.rejected()
        failed = counts.failed() + sum(rejected.values())
        counts.read += sum(rejected.values())
        counts.reasons.update(rejected)
        self._refuse_nothing()
        if self.removed_version is not None:
            self._publish()
        _, spanning = assign_missing(self.database, self.first_record_key)
        if self.request.prefix is not None:
            prefix_store.check_columns(self.database, self.source_id, self.request.prefix)
            prefix_store.set_source(
                self.database, self.source_id, self.version, self.request.prefix
            )
        report = IngestReport(
            read=counts.read,
            added=counts.added,
            skipped=counts.read - counts.added - failed,
            failed=failed,
            seconds=round(time.monotonic() - started, 3),
            reasons=dict(sorted((+counts.reasons).items())),
            replaced=counts.replaced,
            dropped_sections=dict(sorted(counts.dropped_sections.items())),
            version=self.version,
            spanning=spanning,
        )
        commit_version(self.database, self.version, "ingest", self.request.name, asdict(report))
        return report

    def _source(self) -> tuple[int, float]:
        """Find or add the source; a trust given now is the source's from now on."""
        parameters = self._of_source()
        name, trust = self.request.name, self.request.trust
        for row in self.database.run("ingest/records/live_sources"):
            if row[1] == name and self.removed_version is not None:  # updated when published
                return int(row[0]), float(row[4]) if trust is None else trust
            if row[1] == name:
                break
        else:
            versions = {"version": self.version, "removed_version": self.removed_version}
            found = self.database.run("ingest/records/add_source", parameters | versions)[0]
            return int(found[0]), float(found[1])
        found = self.database.run("ingest/records/update_source", parameters)[0]
        return int(found[0]), float(found[1])

    def _of_source(self) -> dict[str, Any]:
        source = self.request.source
        return {
            "name": self.request.name,
            "kind": source.kind,
            "uri": source.uri,
            "trust": self.request.trust,
            "defaults": self.rows.defaults,
        }

    def _publish(self) -> None:
        """Find the version there is to make now, and give it what was stored."""
        self.version = current_version(self.database) + 1
        first, overtaken, replaced = unfinished.publish(
            self.database,
            self.request.name,
            self.source_id,
            self.version,
            replace=self.request.on_conflict == "replace",
        )
        self.first_record_key = self.record_key if first is None else first
        self.counts.added -= overtaken
        self.counts.reasons[OVERTAKEN] += overtaken
        self.counts.replaced += replaced
        self.database.run("ingest/records/update_source", self._of_source())

    def _quarantine(self, skipped: pa.RecordBatch) -> None:
        """Set aside the rows, as JSON, that a converter could not read."""
        reasons = skipped["skip"]
        if "complaint" in skipped.schema.names:
            reasons = pc.coalesce(skipped["complaint"], reasons)
        rows = pa.table(
            {"row": skipped["row"], "skip": reasons, "quarantined": skipped["quarantined"]}
        )
        rows = rows.filter(pc.is_valid(rows["quarantined"]))
        if rows.num_rows:
            of_source = {"source": self.request.name, "version": self.version}
            with self.database.registered(set_aside=rows):
                self.database.run("ingest/conversations/quarantine", of_source)

    def _add(self, batch: pa.RecordBatch) -> None:
        ids = pc.binary_join_element_wise(self.request.name, batch["key"], "/")
        keep = self._classify(ids, batch["content_hash"], batch["row"])
        if not pc.all(keep).as_py():
            batch, ids = batch.filter(keep), ids.filter(keep)
        if batch.num_rows == 0:
            return
        keys = np.arange(self.record_key, self.record_key + batch.num_rows, dtype=np.int64)
        self.record_key += batch.num_rows
        self.counts.added += batch.num_rows
        self._append_records(batch, ids, keys)
        self.sections.append(batch["sections"], keys)
        if "messages" in batch.schema.names:
            self._append_conversations(batch, keys)
        if "prefix" in batch.schema.names:
            prefix_store.append(self.database, keys, batch["prefix"])

    def _classify(self, ids: pa.Array, hashes: pa.Array, rows: pa.Array) -> pa.Array:
        """Return which rows to store, after marking the records they replace."""
        on_conflict = self.request.on_conflict
        incoming = pa.table({"row": rows, "record_id": ids, "content_hash": hashes})
        parameters = {
            "last_wins": on_conflict == "replace",
            "unpublished": self.removed_version,
        }
        with self.database.registered(incoming=incoming):
            found = self.database.table("ingest/records/classify", parameters)
        verdicts = found["verdict"]
        if on_conflict == "error":
            self._refuse_conflict(found)
        if on_conflict == "replace" and self.removed_version is None:
            self._replace(found.filter(pc.equal(verdicts, "add")))
        reasons = {"same": SAME, "conflict": CONFLICT, "overtaken": OVERTAKEN}
        for pair in pc.value_counts(verdicts).to_pylist():
            if pair["values"] in reasons:
                self.counts.reasons[reasons[pair["values"]]] += pair["counts"]
        return pc.equal(verdicts, "add").combine_chunks()

    def _replace(self, newer: pa.Table) -> None:
        with self.database.registered(newer=newer):
            older = self.database.run("ingest/records/replace", {"version": self.version})
        overtaken = sum(added == self.version for (added,) in older)
        self.counts.replaced += len(older) - overtaken
        self.counts.added -= overtaken
        self.counts.reasons[OVERTAKEN] += overtaken

    def _refuse_conflict(self, found: pa.Table) -> None:
        wrong = found.filter(pc.equal(found["verdict"], "conflict"))
        if wrong.num_rows:
            first = wrong.slice(0, 1).to_pylist()[0]
            raise SourceError(
                f"record {first['record_id']!r} (row {first['row']}) has other content than the "
                f"record of that id before it; give ids that are unique, or choose "
                f"on_conflict='replace' or 'skip'"
            )

    def _append_records(self, batch: pa.RecordBatch, ids: pa.Array, keys: Any) -> None:
        columns = [
            *("date", "group_key", "taxonomy", "meta"),
            *("trust", "content_hash", "created_at", "updated_at"),
        ]
        table = pa.table({"record_key": keys, "record_id": ids} | {c: batch[c] for c in columns})
        parameters = {
            "source_id": self.source_id,
            "version": self.version,
            "removed_version": self.removed_version,
            "trust": self.trust,
        }
        with self.database.registered(new_records=sliced(table)):
            self.database.run("ingest/records/append_records", parameters)

    def _append_conversations(self, batch: pa.RecordBatch, keys: Any) -> None:
        """Store the messages of new records, and the rejected ones of preference pairs."""
        columns = {"record_key": keys, "messages": batch["messages"]}
        rejected = pa.nulls(batch.num_rows, pa.string())
        if "rejected_messages" in batch.schema.names:
            rejected = batch["rejected_messages"]
        table = pa.table(columns | {"rejected_messages": rejected})
        with self.database.registered(new_conversations=sliced(table)):
            self.database.run("ingest/conversations/append")

    def _refuse_nothing(self) -> None:
        name, counts = self.request.name, self.counts
        if counts.read == 0:
            raise SourceError(f"source {name!r} has no rows; nothing was stored")
        if counts.added == 0 and not counts.reasons[SAME] and not counts.reasons[CONFLICT]:
            reasons = ", ".join(f"{n} {r}" for r, n in counts.reasons.items() if n)
            raise SourceError(
                f"none of the {counts.read} rows of source {name!r} can be a record "
                f"({reasons}); nothing was stored"
            )
