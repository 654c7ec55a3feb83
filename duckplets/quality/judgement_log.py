"""Record outcomes in ``judgements``, and rejected rows with all that records would have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version as version_of
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.ingest.chunks import sliced
from duckplets.ingest.gates import Intake
from duckplets.ingest.preprocess import lists_like
from duckplets.quality.metrics import METRICS
from duckplets.quality.verdicts import GATE, Verdicts

MEANWHILE = "came in meanwhile"
STORED = pa.schema([field for field in METRICS if field.name not in ("sha256", "bytes")])
"""The metrics that stand in the column of that name; the others are columns of their own."""

_STATE = (
    *("read", "accepted", "filtered", "rejected", "unreadable"),
    *("accepted_bytes", "last_row", "rows_digest", "cursor"),
)
_OF_RECORDS = (
    *("content_hash", "date", "group_key", "taxonomy", "meta", "trust"),
    *("created_at", "updated_at"),
)
_TEXTS = ("messages", "rejected_messages", "prefix")
_SECTION = pa.struct([(name, pa.string()) for name in ("role", "heading", "text", "original")])


class Noting:
    """The log of one intake; every method runs inside its transaction."""

    def __init__(self, of: Intake, state: dict[str, Any]) -> None:
        self.state = state
        self._of = of
        self._database = of.database
        self._number = int(state["acquisition_id"])
        self._measured: str | None = None

    @classmethod
    def begun(cls, of: Intake, settings: dict[str, Any]) -> Self:
        """Begin an intake's log."""
        database = of.database
        for statement in ("forget", "forget_rejected"):
            of_source = {"name": of.name, "source_id": of.source_id}
            database.run(f"quality/intake/{statement}", of_source)
        given = {
            "source_id": of.source_id,
            "source": of.name,
            "kind": of.source.kind,
            "uri": of.source.uri,
            "first_record_key": of.record_key,
            "version": UNPUBLISHED,
            "duckplets": version_of("duckplets"),
        }
        number = database.run("quality/intake/begin", given | settings)[0][0]
        return cls(of, {"acquisition_id": number})

    @classmethod
    def gone_on(cls, of: Intake) -> Self:
        """Continue the log of an unfinished intake."""
        found = {"source_id": of.source_id, "unpublished": UNPUBLISHED}
        row = of.database.run("quality/intake/go_on", found)[0]
        return cls(of, dict(zip(("acquisition_id", *_STATE), row, strict=True)))

    def note(
        self,
        batch: pa.RecordBatch,
        ids: pa.Array,
        digests: pa.Array,
        sizes: Any,
        found: Verdicts,
        record_key: int,
        *,
        keep: bool,
    ) -> None:
        """Record rows; the first record of them has the key."""
        accepted = found.outcome == "accepted"
        keys = pa.array(np.cumsum(accepted) + record_key - 1, mask=~accepted)
        there, count = batch.schema.names, batch.num_rows
        is_blank = pc.is_null(digests).to_numpy(zero_copy_only=False)
        if found.keys and self._measured is None:
            self._measured = measured_by(self._database, found.keys)
        measured = np.full(count, self._measured, object)
        columns = {
            "file": batch["file"].cast(pa.string())
            if "file" in there
            else pa.nulls(count, pa.string()),
            "line": batch["line"] if "line" in there else pa.nulls(count, pa.int64()),
            "row": batch["row"],
            "record_id": ids,
            "record_key": keys,
            "outcome": pa.array(found.outcome, pa.string()),
            "gate": pa.array(found.gate, pa.string()),
            "rule": pa.array(found.rule, pa.string()),
            "digest": digests,
            "bytes": pa.array(sizes, mask=is_blank),
            "metrics": stored_metrics(found.metrics),
            "measured": pa.array(measured, pa.string(), mask=is_blank | (not found.keys)),
        }
        of_source = {"acquisition_id": self._number, "source_id": self._of.source_id}
        with self._database.registered(judged=sliced(pa.table(columns))):
            of = of_source | {"source": self._of.name}
            self._database.run("quality/intake/append_judgements", of)
        rejected = found.outcome == "rejected"
        if keep and rejected.any():
            mask = pa.array(rejected)
            with self._database.registered(
                rejected=_rows_to_keep(batch.filter(mask), ids.filter(mask))
            ):
                self._database.run("quality/intake/append_rejected", of_source)
        hashes = pa.table({"record_key": keys, "digest": digests})
        with self._database.registered(new_hashes=hashes.filter(pa.array(accepted))):
            self._database.run("quality/intake/append_hashes")

    def save(self, state: dict[str, Any]) -> None:
        """Store the state of the intake."""
        self._database.run("quality/intake/save", state | {"acquisition_id": self._number})

    def finish(self, version: int) -> None:
        """Mark the intake as complete."""
        of = {"acquisition_id": self._number, "version": version}
        self._database.run("quality/intake/finish", of)

    def came_meanwhile(self, version: int) -> int:
        """Reject rows whose texts others stored since the intake began; return their number."""
        of = {"acquisition_id": self._number, "source_id": self._of.source_id, "version": version}
        taken = [key for (key,) in self._database.run("quality/intake/came_meanwhile", of)]
        if taken:
            with self._database.registered(taken=pa.table({"record_key": taken})):
                self._database.run("quality/intake/reject_keys", {"gate": GATE, "rule": MEANWHILE})
        return len(taken)


def _rows_to_keep(batch: pa.RecordBatch, ids: pa.Array) -> pa.Table:
    """Return rows as in ``rejected_rows``."""
    there = batch.schema.names
    columns = {"row": batch["row"], "record_id": ids, "sections": _sections(batch["sections"])}
    columns |= {name: batch[name] for name in _OF_RECORDS}
    nothing = pa.nulls(batch.num_rows, pa.string())
    columns |= {name: batch[name] if name in there else nothing for name in _TEXTS}
    columns["label"] = batch["label"] if "label" in there else nothing.cast(pa.float64())
    return pa.table(columns)


def _sections(sections: pa.ListArray) -> pa.ListArray:
    """Return sections with ``original``, null if it equals the text."""
    flat = sections.flatten()
    there = [field.name for field in flat.type]
    nothing = pa.nulls(len(flat), pa.string())
    fields = [flat.field(f.name) if f.name in there else nothing for f in _SECTION]
    return lists_like(sections, dict(zip([f.name for f in _SECTION], fields, strict=True)))


def stored_metrics(metrics: pa.Table) -> pa.Array:
    """Return metrics as in ``judgements``, without digest and size of the text."""
    count, there = metrics.num_rows, metrics.column_names
    fields = [
        metrics[f.name].combine_chunks().cast(f.type)
        if f.name in there
        else pa.nulls(count, f.type)
        for f in STORED
    ]
    return pa.StructArray.from_arrays(fields, fields=list(STORED))


def measured_by(database: Database, keys: Mapping[str, str]) -> str:
    """Store the settings of a measurement; return their reference."""
    text = json.dumps(dict(sorted(keys.items())))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    database.run("quality/intake/measured", {"measured": digest, "keys": text})
    return digest
