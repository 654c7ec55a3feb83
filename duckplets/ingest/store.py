"""Store batches of rows as records with their sections, chunks, messages and prefixes.

    batch ─preprocess→ sections ─classify→ new, same, conflicting ─→ records, sections, chunks, …

Each batch is compared with what is stored in one statement, windowed in NumPy and appended.
A row is never dropped without being counted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import counted
from duckplets.db.database import Database
from duckplets.engine.work import Work
from duckplets.errors import SourceError
from duckplets.ingest import checkpoint
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest.append import Appending, KnownIds, quarantine, refuse_conflict
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.ingest.chunks import current_chunking
from duckplets.ingest.external_text import Placing
from duckplets.ingest.gates import Gates, Intake
from duckplets.ingest.outcome_counts import Counts
from duckplets.ingest.preprocess import preprocess
from duckplets.ingest.preview import flags_of
from duckplets.ingest.records import IngestReport, commit_version, current_version, records_told
from duckplets.ingest.splits import assign_missing
from duckplets.recipes.store import brought
from duckplets.sources import Mark, Rows, Source
from duckplets.sources.mapping import described, told

if TYPE_CHECKING:
    from duckplets.text.prefix import Prefix

OnConflict = Literal["error", "skip", "replace"]

SAME = "duplicate id, same content"
TAKEN = "duplicates: came in meanwhile"
CONFLICT = "conflicting id, first kept"
OVERTAKEN = "replaced by a later row"
_REASONS = {"same": SAME, "conflict": CONFLICT, "overtaken": OVERTAKEN}


@dataclass(frozen=True, slots=True)
class Request:
    """What an ingest was asked for, checked.

    Attributes:
        source: What is read.
        name: Of the source in the corpus.
        trust: Given for the source, or None.
        on_conflict: What to do about a known id with other content.
        prefix: Metadata prefix of the source from now on, or None to leave it.
        remap: Whether what the source has now takes the place of all that it had.
        notes: What is to be said of the request itself.
        gates: What decides which rows are records, if anything does.
        placing: The files that texts are left in; None where they are taken in.
    """

    source: Source
    name: str
    trust: float | None
    on_conflict: OnConflict
    prefix: Prefix | None
    remap: bool = False
    notes: tuple[str, ...] = ()
    gates: Gates | None = None
    placing: Placing | None = None


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
        self.database, self.request, self.rows = database, request, rows
        self.version = version
        self.removed_version = UNPUBLISHED if version == UNPUBLISHED else None
        self.counts = counts or Counts()
        self.chunking = current_chunking(database)
        self.refusal: SourceError | None = None  # raised when what was set aside is stored
        self._forgotten = 0  # rows that earlier versions of a remapped source had set aside
        self._kept: list[pa.Array] = []  # ids that a remapped source still has
        self._is_new = False
        self._flags: list[str] | None = None  # what looks odd about the first texts
        self.source_id, trust = source or self._source()
        if request.placing is not None:
            request.placing.begin(self.source_id, in_pieces=self.removed_version is not None)
        self.appending = Appending(
            database,
            *(self.source_id, version, self.removed_version, trust),
            chunking=self.chunking,
            placing=request.placing,
        )
        self.first_record_key = self.appending.record_key
        self.known = KnownIds(database, self.removed_version, self.first_record_key)
        if request.gates is not None:
            request.gates.begin(self._intake(trust, is_anew=source is None))

    def store_all(self, batches: Iterator[pa.RecordBatch | Mark], work: Work) -> None:
        """Store every batch."""
        for batch in batches:
            if not isinstance(batch, Mark):
                self.store(batch, work)
            elif self.request.gates is not None:
                self.request.gates.at(batch.cursor)
            if self.is_full:
                break

    @property
    def is_full(self) -> bool:
        """Whether no further row is wanted."""
        return self.request.gates is not None and self.request.gates.is_full

    def store(self, batch: pa.RecordBatch, work: Work) -> None:
        """Store the rows of a batch that can be records, counting the others."""
        batch, dropped = self._judged(batch)
        self.counts.read += batch.num_rows
        self.counts.dropped_sections.update(dropped)
        skipped = batch.filter(pc.is_valid(batch["skip"]))
        if skipped.num_rows:
            self.counts.note(skipped, skipped["skip"], self.counts.reasons)
        if "note" in batch.schema.names:
            noted = batch.filter(pc.is_valid(batch["note"]))
            self.counts.note(noted, noted["note"], self.counts.incomplete)
        if skipped.num_rows and "quarantined" in batch.schema.names:
            self.counts.quarantined += quarantine(
                self.database, skipped, self.request.name, self.version
            )
        if skipped.num_rows < batch.num_rows:
            self._flags = flags_of(batch) if self._flags is None else self._flags
            # Filtering copies all texts.
            usable = batch.filter(pc.is_null(batch["skip"])) if skipped.num_rows else batch
            self.counts.note_left_out(usable)
            self._add(usable)
        work.tell(self.counts.read, self.rows.total)

    def _judged(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, int]]:
        """Return the rows after preprocessing and gates, and the dropped sections by reason."""
        gates = self.request.gates
        if gates is None:
            return preprocess(batch, self.chunking)
        fresh = gates.fresh(batch)
        found, dropped = preprocess(fresh, self.chunking)
        found = gates.judge(found, self.appending.record_key)
        if found.num_rows < fresh.num_rows:  # nothing of what is not wanted is counted
            dropped = preprocess(found, self.chunking)[1]
        return found, dropped

    def _intake(self, trust: float, *, is_anew: bool) -> Intake:
        request = self.request
        return Intake(
            database=self.database,
            source_id=self.source_id,
            name=request.name,
            source=request.source,
            trust=trust,
            on_conflict=request.on_conflict,
            unpublished=self.removed_version,
            record_key=self.appending.record_key,
            is_anew=is_anew,
        )

    def finish(self, started: float) -> IngestReport:
        """Make a version of what was stored, and return the report.

        Where no row was good but some were set aside, that is what the version has, and ``refusal``
        is to be raised when it is committed.
        """
        counts = self.counts
        rejected = self.rows.rejected()
        failed = counts.failed() + sum(rejected.values())
        counts.read += sum(rejected.values())
        counts.reasons.update(rejected)
        self._refuse_nothing()
        removed = spanning = 0
        if self.refusal is None:
            removed, spanning = self._complete()
        else:
            self._keep_quarantine()
        report = IngestReport(
            read=counts.read,
            added=counts.added,
            skipped=counts.read - counts.added - failed,
            failed=failed,
            seconds=round(time.monotonic() - started, 3),
            version=self.version,
            removed=removed,
            notes=self._notes(),
            spanning=spanning,
            **counts.told(),
        )
        what = "ingest" if self.refusal is None else "quarantine"
        commit_version(self.database, self.version, what, self.request.name, asdict(report))
        return report

    def _notes(self) -> list[str]:
        reading = described(self.request.source)
        said = [*self.request.notes, told(reading) if reading is not None else ""]
        if self.counts.quarantined:
            said.append(self._quarantined())
        if self._forgotten:
            rows = counted(self._forgotten, "row")
            said.append(f"gone from the table quarantine: {rows} of earlier versions")
        if self.refusal is None:
            said += records_told(self.database, self.source_id, self.version)
        said += [f"look: {flag}" for flag in self._flags or ()]
        said += self.request.gates.notes if self.request.gates is not None else []
        return [note for note in (*said, *self.rows.notes()) if note]

    def _quarantined(self) -> str:
        return f"in the table quarantine: {counted(self.counts.quarantined, 'row')}"

    def _complete(self) -> tuple[int, int]:
        """Let what was stored be seen.

        Returns how many records a remapped source has no more, and how many joined a family that
        has records in two splits.
        """
        if self.removed_version is not None:
            self._publish()
        if self.request.gates is not None:
            overtaken = self.request.gates.finish(self.version)
            self.counts.added -= overtaken
            self.counts.reasons[TAKEN] += overtaken
        removed = self._remove_the_rest() if self.request.remap else 0
        if self.request.placing is not None:
            self.request.placing.finish()
        _, spanning, _ = assign_missing(self.database, self.first_record_key)
        if self.request.prefix is not None:
            prefix_store.check_columns(self.database, self.source_id, self.request.prefix)
            prefix_store.set_source(
                self.database, self.source_id, self.version, self.request.prefix
            )
        return removed, spanning

    def _remove_the_rest(self) -> int:
        """Remove what a source had before and has not now: records, and rows set aside."""
        of_name = {"source": self.request.name, "version": self.version}
        found = self.database.run("ingest/conversations/forget_quarantine", of_name)
        self._forgotten = int(found[0][0])
        ids = pa.chunked_array(self._kept, pa.string())
        of_source = {"source_id": self.source_id, "version": self.version}
        with self.database.registered(kept=pa.table({"record_id": ids})):
            return int(self.database.run("ingest/records/remove_the_rest", of_source)[0][0])

    def _keep_quarantine(self) -> None:
        """Leave nothing of an ingest but the rows that were set aside."""
        if self.removed_version is not None:
            self.version = current_version(self.database) + 1
            checkpoint.forget(self.database, self.request.name, self.source_id, self.version)
        elif self._is_new:
            self.database.run("ingest/records/forget_source", {"source_id": self.source_id})

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
            self._is_new = True
            versions = {"version": self.version, "removed_version": self.removed_version}
            found = self.database.run("ingest/records/add_source", parameters | versions)[0]
            return int(found[0]), float(found[1])
        found = self.database.run(
            "ingest/records/update_source", parameters | {"remap": self.request.remap}
        )[0]
        return int(found[0]), float(found[1])

    def _of_source(self) -> dict[str, Any]:
        source = self.request.source
        reading = described(source)
        return {
            "name": self.request.name,
            "kind": source.kind,
            "uri": source.uri,
            "trust": self.request.trust,
            "defaults": self.rows.defaults,
            "mapping": None if reading is None else json.dumps(reading),
            "weight": getattr(source, "weight", None),
            "recipes": brought(source, self.request.name),
        }

    def _publish(self) -> None:
        """Find the version there is to make now, and give it what was stored."""
        self.version = current_version(self.database) + 1
        first, overtaken, replaced = checkpoint.publish(
            self.database,
            self.request.name,
            self.source_id,
            self.version,
            replace=self.request.on_conflict == "replace",
        )
        self.first_record_key = self.appending.record_key if first is None else first
        self.counts.added -= overtaken
        self.counts.reasons[OVERTAKEN] += overtaken
        self.counts.replaced += replaced
        self.database.run(
            "ingest/records/update_source", self._of_source() | {"remap": self.request.remap}
        )

    def _add(self, batch: pa.RecordBatch) -> None:
        ids = pc.binary_join_element_wise(self.request.name, batch["key"], "/")
        keep = self._classify(ids, batch)
        if not pc.all(keep).as_py():
            batch, ids = batch.filter(keep), ids.filter(keep)
        if batch.num_rows == 0:
            return
        self.counts.added += batch.num_rows
        keys = self.appending.append(batch, ids)
        self.known.add(keep.to_numpy(zero_copy_only=False), keys)

    def _classify(self, ids: pa.Array, batch: pa.RecordBatch) -> pa.Array:
        """Return which rows to store, after marking the records they replace."""
        on_conflict = self.request.on_conflict
        hashes = batch["content_hash"]
        incoming = pa.table({"row": batch["row"], "record_id": ids, "content_hash": hashes})
        found = self.known.compare(incoming, last_wins=on_conflict == "replace")
        if found is None:
            return pa.repeat(True, batch.num_rows)
        verdicts = found["verdict"]
        if on_conflict == "error":
            refuse_conflict(found)
        if on_conflict == "replace" and self.removed_version is None:
            self._replace(found.filter(pc.equal(verdicts, "add")))
        new = pc.equal(verdicts, "add").combine_chunks()
        if pc.all(new).as_py():
            return new
        others = pc.invert(new)
        if self.request.placing is not None:
            same = pc.equal(verdicts, "same").combine_chunks()
            self.request.placing.move(batch.filter(same), ids.filter(same))
        names = [name for name in ("row", "file", "line") if name in batch.schema.names]
        told_of = batch.select(names).append_column("value", ids).filter(others)
        verdicts = verdicts.combine_chunks().filter(others)
        for verdict, reason in _REASONS.items():
            these = pc.equal(verdicts, verdict)
            if pc.any(these).as_py():
                rows = told_of.filter(these)
                said = pa.array([reason] * rows.num_rows, pa.string())
                self.counts.note(rows, said, self.counts.reasons)
                if verdict == "same" and self.request.remap:
                    self._kept.append(rows["value"])
        return new

    def _replace(self, newer: pa.Table) -> None:
        with self.database.registered(newer=newer):
            older = self.database.run("ingest/records/replace", {"version": self.version})
        overtaken = sum(added == self.version for (added,) in older)
        self.counts.replaced += len(older) - overtaken
        self.counts.added -= overtaken
        self.counts.reasons[OVERTAKEN] += overtaken

    def _refuse_nothing(self) -> None:
        name, counts = self.request.name, self.counts
        gates = self.request.gates
        if counts.read == 0 and gates is not None:
            gates.nothing_read()
        if counts.read == 0:
            raise SourceError(f"source {name!r} has no rows; nothing was stored")
        known = counts.reasons[SAME] or counts.reasons[CONFLICT]
        if counts.added == 0 and gates is None and not known:
            reasons = ", ".join(f"{n} {r}" for r, n in counts.reasons.items() if n)
            rows = counted(counts.read, "row")
            told_of = f"none of the {rows} of source {name!r} can be a record "
            if counts.quarantined:
                told_of += f"({reasons}); nothing was stored but what is "
                self.refusal = SourceError(told_of + self._quarantined())
            else:
                raise SourceError(f"{told_of}({reasons}{counts.first_place()}); nothing was stored")
