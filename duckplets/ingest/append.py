"""Append records to a source, with their sections, chunks, messages and prefixes.

new rows ─numbered on→ records, sections, chunks, conversations, record_prefixes
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Floats, Integers
from duckplets.db.database import Database
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest.chunks import append_sections, current_chunking, next_keys, sliced
from duckplets.ingest.external_text import Placing
from duckplets.ingest.text_files import TextFiles
from duckplets.sources.rows import EXTRA_COLUMNS
from duckplets.text.chunking import Chunking

_COLUMNS = (
    *("date", "group_key", "taxonomy", "meta"),
    *("trust", "content_hash", "created_at", "updated_at"),
)


class Along(Protocol):
    """An object that lays out texts while they are stored; see ``serving.along``."""

    def add(self, sections: pa.Table, chunks: pa.Table, trust: Floats) -> None:
        """Add stored sections with their chunks; ``trust`` is by chunk."""
        ...


class Appending:
    """Append records with consecutive keys; every method runs inside a transaction."""

    def __init__(
        self,
        database: Database,
        source_id: int,
        version: int,
        removed_version: int | None,
        trust: float,
        chunking: Chunking | None = None,
        placing: Placing | None = None,
        along: Along | None = None,
        texts: TextFiles | None = None,
    ) -> None:
        self._database, self._placing, self._along = database, placing, along
        self._texts = texts if placing is None else None
        self._of_source = {
            "source_id": source_id,
            "version": version,
            "removed_version": removed_version,
            "trust": trust,
        }
        self._chunking = chunking or current_chunking(database)
        keys = next_keys(database)
        self.record_key, self._section_key, self._chunk_key = (
            keys[name] for name in ("record", "section", "chunk")
        )

    def append(self, batch: pa.RecordBatch, ids: pa.Array) -> Integers:
        """Store preprocessed rows, at least one, under their record ids; return keys."""
        keys = np.arange(self.record_key, self.record_key + batch.num_rows, dtype=np.int64)
        self.record_key += batch.num_rows
        columns = {"record_key": keys, "record_id": ids, "label": _optional(batch, "label")}
        table = pa.table(columns | {name: batch[name] for name in _COLUMNS})
        with self._database.registered(new_records=sliced(table)):
            self._database.run("ingest/records/append_records", self._of_source)
        self._append_sections(batch, keys)
        if "messages" in batch.schema.names:
            self._append_conversations(batch, keys)
        if "prefix" in batch.schema.names:
            prefix_store.append(self._database, keys, batch["prefix"])
        return keys

    def _append_sections(self, batch: pa.RecordBatch, record_keys: Integers) -> None:
        sections = batch["sections"]
        counts = sections.value_lengths().to_numpy(zero_copy_only=False)
        flat = sections.flatten()
        index = np.arange(len(flat), dtype=np.int64)
        columns = {
            "section_key": self._section_key + index,
            "record_key": np.repeat(record_keys, counts),
            "position": index - np.repeat(np.cumsum(counts) - counts, counts),
        }
        if self._placing is not None:
            places = self._placing.places(batch["row"])
            columns |= {name: np.repeat(values, counts) for name, values in places.items()}
        columns |= {field.name: flat.field(field.name) for field in flat.type}
        columns.pop("dropped", None)
        if self._placing is not None:
            columns["item"] = _items(columns["record_key"], columns["role"], columns["heading"])
            self._placing.note(pa.table(columns))
        # Dropped sections use up keys too, so that they can return to their place.
        self._section_key += len(flat)
        stored = None
        if self._along is not None:
            trust = pc.fill_null(batch["trust"], self._of_source["trust"]).to_numpy()
            stored = partial(self._lay, self._along, trust, record_keys[0])
        self._chunk_key = append_sections(
            self._database, self._chunking, pa.table(columns), self._chunk_key, stored, self._texts
        )

    @staticmethod
    def _lay(along: Along, trust: Floats, first: int, sections: pa.Table, chunks: pa.Table) -> None:
        along.add(sections, chunks, trust[chunks["record_key"].to_numpy() - first])

    def _append_conversations(self, batch: pa.RecordBatch, keys: Integers) -> None:
        """Store the messages of new records, and rejected ones of preference pairs."""
        columns = {"record_key": keys, "messages": batch["messages"]}
        columns["rejected_messages"] = _optional(batch, "rejected_messages")
        with self._database.registered(new_conversations=sliced(pa.table(columns))):
            self._database.run("ingest/conversations/append")


def _items(records: Integers, *names: pa.Array) -> npt.NDArray[np.int32]:
    """Return which of its record's sections with the same names each one is, from 1."""
    groups = records - records.min(initial=0)
    for name in names:
        codes = name.dictionary_encode(null_encoding="encode").indices.to_numpy()
        groups = groups * (codes.max(initial=0) + 1) + codes
    order = np.argsort(groups, kind="stable")
    index = np.arange(len(groups))
    fresh = np.diff(groups[order], prepend=-1) != 0
    found = np.empty(len(groups), np.int32)
    found[order] = index - np.maximum.accumulate(np.where(fresh, index, 0)) + 1
    return found


def _optional(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column, or nulls if the batch lacks it."""
    if name in batch.schema.names:
        return batch[name]
    return pa.nulls(batch.num_rows, EXTRA_COLUMNS[name])


def quarantine(database: Database, skipped: pa.RecordBatch, source: str, version: int) -> int:
    """Store rows with a ``skip`` as JSON; return their number.

    Rows left out by a condition, a gate or a preprocessor are not bad rows: they have no JSON and
    are only counted.
    """
    bad = skipped.filter(pc.is_valid(skipped["quarantined"]))
    if bad.num_rows:
        columns = {name: bad[name] for name in ("row", "quarantined")}
        columns["skip"] = pc.coalesce(_optional(bad, "complaint"), bad["skip"])
        columns["line"] = _optional(bad, "line")
        has_file = "file" in bad.schema.names
        nothing = pa.nulls(bad.num_rows, pa.string())
        columns["file"] = bad["file"].cast(pa.string()) if has_file else nothing
        with database.registered(set_aside=pa.table(columns)):
            database.run("ingest/conversations/quarantine", {"source": source, "version": version})
    return int(bad.num_rows)
