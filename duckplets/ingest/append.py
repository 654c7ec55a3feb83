"""Append rows as records, with their sections, chunks, messages and prefixes, to one source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest.chunks import SectionWriter, current_chunking, next_keys, sliced
from duckplets.ingest.in_place import Placing
from duckplets.sources.rows import DROPPED
from duckplets.text.chunking import Chunking

_COLUMNS = (
    *("date", "group_key", "taxonomy", "meta"),
    *("trust", "content_hash", "created_at", "updated_at"),
)


class Appending:
    """Appends records with consecutive keys; every method runs inside a transaction.

    Args:
        database: The corpus.
        source_id: Of the source they belong to.
        version: The version that adds them.
        removed_version: The version that marks them unpublished, or None.
        trust: Of the source, for records without their own.
        chunking: How their sections are cut; by default as the corpus has it.
        placing: The files that texts are left in, if they are.

    Attributes:
        record_key: The next record's key.
    """

    def __init__(
        self,
        database: Database,
        source_id: int,
        version: int,
        removed_version: int | None,
        trust: float,
        chunking: Chunking | None = None,
        placing: Placing | None = None,
    ) -> None:
        self._database, self._placing = database, placing
        self._of_source = {
            "source_id": source_id,
            "version": version,
            "removed_version": removed_version,
            "trust": trust,
        }
        chunking = chunking or current_chunking(database)
        keys = next_keys(database)
        self.record_key = keys["record"]
        self._sections = SectionWriter(database, chunking, keys["section"], keys["chunk"])

    def append(self, batch: pa.RecordBatch, ids: pa.Array) -> Any:
        """Store rows; return their keys.

        Args:
            batch: Rows as from ``preprocess``, at least one.
            ids: Their record ids.
        """
        keys = np.arange(self.record_key, self.record_key + batch.num_rows, dtype=np.int64)
        self.record_key += batch.num_rows
        labelled = "label" in batch.schema.names
        label = batch["label"] if labelled else pa.nulls(batch.num_rows, pa.float64())
        named = {"record_key": keys, "record_id": ids, "label": label}
        table = pa.table(named | {c: batch[c] for c in _COLUMNS})
        with self._database.registered(new_records=sliced(table)):
            self._database.run("ingest/records/append_records", self._of_source)
        places = None if self._placing is None else self._placing.places(batch["row"])
        self._sections.append(batch["sections"], keys, places)
        if "messages" in batch.schema.names:
            self._append_conversations(batch, keys)
        if "prefix" in batch.schema.names:
            prefix_store.append(self._database, keys, batch["prefix"])
        return keys

    def _append_conversations(self, batch: pa.RecordBatch, keys: Any) -> None:
        """Store the messages of new records, and the rejected ones of preference pairs."""
        columns = {"record_key": keys, "messages": batch["messages"]}
        rejected = pa.nulls(batch.num_rows, pa.string())
        if "rejected_messages" in batch.schema.names:
            rejected = batch["rejected_messages"]
        table = pa.table(columns | {"rejected_messages": rejected})
        with self._database.registered(new_conversations=sliced(table)):
            self._database.run("ingest/conversations/append")


def quarantine(
    database: Database, skipped: pa.RecordBatch, source: str, version: int, *, of_gates: bool
) -> int:
    """Set aside the rows, as JSON, that cannot be used; return how many.

    Args:
        database: The corpus, inside a transaction.
        skipped: Rows with a ``skip`` and a column ``quarantined``.
        source: Name of the source.
        version: The version that the ingest makes.
        of_gates: Whether rows may be there that gates have said no to: these are no bad rows.
    """
    reasons = skipped["skip"]
    if "complaint" in skipped.schema.names:
        reasons = pc.coalesce(skipped["complaint"], reasons)
    count, names = skipped.num_rows, skipped.schema.names
    columns = {"row": skipped["row"], "skip": reasons, "quarantined": skipped["quarantined"]}
    for name, kind in (("file", pa.string()), ("line", pa.int64())):
        there = name in names
        columns[name] = skipped[name].cast(kind) if there else pa.nulls(count, kind)
    rows = pa.table(columns).filter(pc.not_equal(skipped["skip"], DROPPED))
    if of_gates:
        rows = rows.filter(pc.is_valid(rows["quarantined"]))
    if rows.num_rows:
        with database.registered(set_aside=rows):
            database.run("ingest/conversations/quarantine", {"source": source, "version": version})
    return int(rows.num_rows)
