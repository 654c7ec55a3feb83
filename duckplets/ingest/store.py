"""Store batches of rows as unpublished records, then make their version.

batch ─preprocess, gates→ rows ─by id→ new, same, conflicting ─→ records, sections, chunks, …
last batch ─publish→ a version, with the splits and the prefix of its records

A row is compared with the live records and with the records its ingest has stored so far. So a
conflict is reported at its row. Every row is counted.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import counted, shown, size
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.ingest import checkpoint, text_files
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest.append import Along, Appending, quarantine
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.ingest.chunks import current_chunking
from duckplets.ingest.gates import Intake
from duckplets.ingest.outcome_counts import Counts
from duckplets.ingest.prepare import PreparedIngest
from duckplets.ingest.preprocess import preprocess
from duckplets.ingest.preview import flags_of
from duckplets.ingest.records import IngestReport, commit_version, current_version, records_told
from duckplets.ingest.splits import assign_missing
from duckplets.ingest.stored_ids import StoredIds
from duckplets.ingest.text_files import TextFiles
from duckplets.recipes.store import provided
from duckplets.sources import Rows
from duckplets.sources.mapping import described, note_of
from duckplets.sources.rows import ADVICE

SAME = "duplicate id, same content"
TAKEN = "duplicates: came in meanwhile"
CONFLICT = "conflicting id, first kept"
OVERTAKEN = "replaced by a later row"
_REASONS = {"same": SAME, "conflict": CONFLICT, "overtaken": OVERTAKEN}


class Storing:
    """A running ingest; every method runs inside a transaction.

    It continues an earlier one if that was prepared.
    """

    def __init__(
        self, database: Database, prepared: PreparedIngest, rows: Rows, along: Along | None = None
    ) -> None:
        self.database, self.prepared, self.rows = database, prepared, rows
        self.chunking = current_chunking(database)
        self.refusal: SourceError | None = None  # raised once the quarantine is committed
        self.cursor: Any = None  # cursor of the last mark
        self._forgotten = 0  # quarantined rows of earlier versions of a remapped source
        self._kept: list[pa.Array] = []  # ids that a source read anew still has
        self._stale = 0  # records that such a source no longer has
        self._ids: StoredIds | None = None
        self._flags: list[str] | None = None  # remarks on the first texts
        found, gates = prepared.found, prepared.gates
        self.counts = Counts.from_json({} if found is None else found.counts)
        self.source_id, trust = self._source()
        if found is None:
            checkpoint.begin(database, prepared.name, self.source_id, prepared.settings)
        # Texts in files that have changed are forgotten all at once, or none.
        self.is_anew = prepared.placing is not None and prepared.remap
        if prepared.placing is not None:
            prepared.placing.begin(self.source_id, is_known=self._is_known, remap=prepared.remap)
        self.texts = TextFiles(database, prepared.inside)
        self.appending = Appending(
            database,
            *(self.source_id, UNPUBLISHED, UNPUBLISHED, trust),
            chunking=self.chunking,
            placing=prepared.placing,
            along=along,
            texts=self.texts,
        )
        gates.begin(
            Intake(
                database=database,
                source_id=self.source_id,
                name=prepared.name,
                source=prepared.source,
                trust=trust,
                on_conflict=prepared.on_conflict,
                record_key=self.appending.record_key,
                is_anew=found is None,
            )
        )

    def _source(self) -> tuple[int, float]:
        """Find or add the source; return its id and trust."""
        name, found = self.prepared.name, self.prepared.found
        live = {row[1]: row[0] for row in self.database.run("ingest/records/live_sources")}
        self._is_known = name in live
        if found is not None:
            source_id = found.source_id
        elif name in live:  # its origin is recorded on publishing
            source_id = live[name]
        else:
            row = self._of_source() | {"unpublished": UNPUBLISHED}
            source_id = self.database.run("ingest/records/add_source", row)[0][0]
        stored = self.database.run("ingest/checkpoint/trust", {"source_id": source_id})[0][0]
        trust = self.prepared.trust
        return int(source_id), float(stored if trust is None else trust)

    def _of_source(self) -> dict[str, Any]:
        source = self.prepared.source
        reading = described(source)
        return {
            "name": self.prepared.name,
            "kind": source.kind,
            "uri": source.uri,
            "trust": self.prepared.trust,
            "defaults": self.rows.defaults or "text",  # until their roles tell
            "mapping": None if reading is None else json.dumps(reading),
            "weight": getattr(source, "weight", None),
            "recipes": provided(self.database, source, self.prepared.name),
        }

    # -- one batch after the other ----------------------------------------------------------------

    def store(self, batch: pa.RecordBatch) -> None:
        """Store the rows of a batch that can be records, and count the others."""
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
                self.database, skipped, self.prepared.name, UNPUBLISHED
            )
        if skipped.num_rows < batch.num_rows:
            if self._flags is None:
                self._flags = flags_of(batch, self.chunking.max_tokens)
            # Filtering copies all texts.
            usable = batch.filter(pc.is_null(batch["skip"])) if skipped.num_rows else batch
            self.counts.note_left_out(usable)
            self._add(usable)

    def _judged(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, int]]:
        """Return the rows after preprocessing and gates, and dropped sections by reason."""
        gates = self.prepared.gates
        fresh = gates.fresh(batch)
        found, dropped = preprocess(fresh, self.chunking)
        found = gates.judge(found, self.appending.record_key)
        if found.num_rows < fresh.num_rows:  # rows beyond the limit are not counted
            dropped = preprocess(found, self.chunking)[1]
        return found, dropped

    def _add(self, batch: pa.RecordBatch) -> None:
        ids = pc.binary_join_element_wise(self.prepared.name, batch["key"], "/")
        is_new = self._is_new(ids, batch)
        if is_new is not None:
            batch, ids = batch.filter(is_new), ids.filter(is_new)
        if batch.num_rows:
            self.counts.added += batch.num_rows
            self.appending.append(batch, ids)

    def _is_new(self, ids: pa.Array, batch: pa.RecordBatch) -> pa.Array | None:
        """Return which rows to store, None for all, and count the others."""
        verdicts = self._verdicts(ids, batch)
        if verdicts is None:
            return None
        at = pc.index(verdicts, "conflict").as_py()
        if self.prepared.on_conflict == "error" and at >= 0:
            raise SourceError(
                f"record {shown(repr(ids[at].as_py()), 60)} (row {batch['row'][at]}) has other "
                f"content than an earlier row with this id. To read a changed source again: "
                f"remap=True. To take the last or first row of an id: on_conflict='replace' or "
                f"'skip'"
            )
        is_new = pc.equal(verdicts, "add")
        others = pc.invert(is_new)
        names = [name for name in ("row", "file", "line") if name in batch.schema.names]
        rows = batch.select(names).append_column("value", ids).filter(others)
        verdicts = verdicts.filter(others)
        for verdict, reason in _REASONS.items():
            these = rows.filter(pc.equal(verdicts, verdict))
            self.counts.note(these, pa.repeat(reason, these.num_rows), self.counts.reasons)
            if verdict == "same" and self.prepared.on_conflict == "replace":
                self._kept.append(these["value"])
        return is_new

    def _verdicts(self, ids: pa.Array, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the class of each row by ``classify``; None if all are new."""
        if self._ids is None:
            name = self.prepared.name
            self._ids = StoredIds(self.database, name, is_anew=self.is_anew)
        if self._ids.add(ids):
            return None
        columns = {"row": batch["row"], "record_id": ids, "content_hash": batch["content_hash"]}
        asked = {"unpublished": UNPUBLISHED, "anew": self.is_anew}
        asked["last_wins"] = self.prepared.on_conflict == "replace"
        with self.database.registered(incoming=pa.table(columns)):
            found = self.database.table("ingest/records/classify", asked)
        return found["verdict"].combine_chunks()

    def save(self) -> None:
        """Note the progress, so that another call can continue."""
        self.prepared.gates.save()
        self.texts.close()
        counts = self.counts.to_json()
        checkpoint.save(self.database, self.prepared.name, self.cursor, counts)

    # -- the version ------------------------------------------------------------------------------

    def finish(self, started: float) -> IngestReport:
        """Make a version of the stored rows, and return the report.

        If no row was good but some were quarantined, the version has these, and ``refusal`` is
        raised after the commit.
        """
        counts, name = self.counts, self.prepared.name
        failed = counts.failed()
        self.refuse_nothing()
        version = current_version(self.database) + 1
        removed = spanning = 0
        if self.refusal is None:
            removed, spanning = self._published(version)
        else:
            checkpoint.keep_quarantine(self.database, name, self.source_id, version)
        report = IngestReport(
            read=counts.read,
            added=counts.added,
            skipped=counts.read - counts.added - failed,
            failed=failed,
            seconds=round(time.monotonic() - started, 3),
            version=version,
            removed=removed,
            notes=self._notes(version),
            spanning=spanning,
            **counts.report(),
        )
        kind = "ingest" if self.refusal is None else "quarantine"
        commit_version(self.database, version, kind, name, asdict(report))
        return report

    def _published(self, version: int) -> tuple[int, int]:
        """Publish what was stored.

        Returns how many records a remapped source lost, and how many joined a family that spans
        splits.
        """
        database, prepared, counts = self.database, self.prepared, self.counts
        first, overtaken, replaced = checkpoint.publish(
            *(database, prepared.name, self.source_id, version),
            replace=prepared.on_conflict == "replace",
        )
        counts.added -= overtaken
        counts.reasons[OVERTAKEN] += overtaken
        counts.replaced += replaced
        taken = prepared.gates.finish(version)
        counts.added -= taken
        counts.reasons[TAKEN] += taken
        removed = 0
        if prepared.on_conflict == "replace":
            removed = self._remove_the_rest(version) if prepared.remap else self._rest(version)
        self._update_source(version)
        if prepared.placing is not None:
            prepared.placing.finish()
        spanning = 0 if first is None else assign_missing(database, first)[1]
        if prepared.prefix is not None:
            prefix_store.check_columns(database, self.source_id, prepared.prefix)
            prefix_store.set_source(database, self.source_id, version, prepared.prefix)
        return removed, spanning

    def _update_source(self, version: int) -> None:
        """Note what the source was read from, and which default recipes suit it."""
        remap, row = self.prepared.remap, self._of_source()
        if self.rows.defaults is None:
            asked = {"source_id": self.source_id, "version": version, "all": remap}
            row["defaults"] = self.database.run("ingest/records/suited", asked)[0][0]
        self.database.run("ingest/records/update_source", row | {"remap": remap})

    def _remove_the_rest(self, version: int) -> int:
        """Remove records and quarantined rows that a remapped source no longer has."""
        of_name = {"source": self.prepared.name, "version": version}
        found = self.database.run("ingest/conversations/forget_quarantine", of_name)
        self._forgotten = int(found[0][0])
        return self._of_the_rest("remove_the_rest", version)

    def _rest(self, version: int) -> int:
        """Count the records that were not read, and stay; return that none is removed."""
        if self.prepared.found is None:  # else the first part was read by another process
            self._stale = self._of_the_rest("count_the_rest", version)
        return 0

    def _of_the_rest(self, statement: str, version: int) -> int:
        ids = pa.chunked_array(self._kept, pa.string())
        of_source = {"source_id": self.source_id, "version": version}
        with self.database.registered(kept=pa.table({"record_id": ids})):
            return int(self.database.run(f"ingest/records/{statement}", of_source)[0][0])

    def _notes(self, version: int) -> list[str]:
        reading = described(self.prepared.source)
        said = [*self.prepared.notes, note_of(reading) if reading is not None else ""]
        if self.counts.quarantined:
            said.append(self._quarantined())
        said += self._advice()
        if self.texts.written:
            folder = text_files.folder_of(self.database).name
            said.append(
                f"texts of {size(self.texts.written)} lie in {shown(folder)} beside the corpus: "
                f"copy and move both"
            )
        if self._forgotten:
            rows = counted(self._forgotten, "row")
            said.append(f"gone from the table quarantine: {rows} of earlier versions")
        if self._stale:
            records = counted(self._stale, "record")
            said.append(
                f"look: {records} of the source not in what was read, and kept; remap=True "
                f"(--remap) removes them"
            )
        if self.refusal is None:
            said += records_told(self.database, self.source_id, version)
        said += [f"look: {flag}" for flag in self._flags or ()]
        said += self.prepared.gates.notes
        return [note for note in (*said, *self.rows.notes()) if note]

    def _quarantined(self) -> str:
        return f"in the table quarantine: {counted(self.counts.quarantined, 'row')}"

    def _advice(self) -> list[str]:
        """Return what to do about files of text whose rows fail."""
        if not hasattr(self.prepared.source, "encoding"):
            return []
        return list(dict.fromkeys(a for reason, a in ADVICE.items() if self.counts.reasons[reason]))

    def refuse_nothing(self) -> None:
        """Refuse a source without a row that can be a record."""
        name, counts = self.prepared.name, self.counts
        if counts.read == 0:
            self.prepared.gates.nothing_read()
            raise SourceError(f"source {name!r} has no rows; nothing was stored")
        known = counts.reasons[SAME] or counts.reasons[CONFLICT]
        if counts.added == 0 and not self.prepared.gates.judges and not known:
            reasons = ", ".join(f"{n} {r}" for r, n in counts.reasons.items() if n)
            rows = counted(counts.read, "row")
            told_of = f"none of the {rows} of source {name!r} can be a record "
            if counts.quarantined:
                told_of += f"({reasons}); nothing was stored but what is "
                self.refusal = SourceError(told_of + self._quarantined())
            else:
                told_of += f"({reasons}{counts.first_place()}); nothing was stored"
                raise SourceError("; ".join((told_of, *self._advice())))
