"""Record outcomes in ``judgements``, and rejected rows with all that records would have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version as version_of
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.ingest.chunks import sliced
from duckplets.ingest.gates import Intake
from duckplets.ingest.preprocess import lists_like
from duckplets.quality.measure import measured
from duckplets.quality.metrics import METRICS
from duckplets.quality.settings import Quality
from duckplets.quality.verdicts import GATE, Verdicts

MEANWHILE = "came in meanwhile"
STORED = pa.schema([field for field in METRICS if field.name not in ("sha256", "bytes")])
"""The metrics that stand in the column of that name; the others are columns of their own."""

_OF_RECORDS = (
    *("content_hash", "date", "group_key", "taxonomy", "meta", "trust"),
    *("created_at", "updated_at"),
)
_TEXTS = ("messages", "rejected_messages", "prefix")
_SECTION = pa.struct([(name, pa.string()) for name in ("role", "heading", "text", "original")])


def begin(of: Intake, settings: dict[str, Any]) -> int:
    """Begin the log of an intake, and return its number."""
    of_source = {"name": of.name, "source_id": of.source_id}
    for statement in ("forget", "forget_rejected"):
        of.database.run(f"quality/intake/{statement}", of_source)
    given = {
        "source_id": of.source_id,
        "source": of.name,
        "kind": of.source.kind,
        "uri": of.source.uri,
        "first_record_key": of.record_key,
        "version": UNPUBLISHED,
        "duckplets": version_of("duckplets"),
    }
    return int(of.database.run("quality/intake/begin", given | settings)[0][0])


class JudgementLog:
    """The log of one intake: what became of every row."""

    def __init__(self, of: Intake, number: int, quality: Quality | None) -> None:
        self._of, self._database = of, of.database
        self._of_source = {"acquisition_id": number, "source_id": of.source_id}
        self._keep = quality is not None and quality.keep_rejected
        self._measured = quality and measured_by(of.database, measured(quality))

    def note(
        self,
        batch: pa.RecordBatch,
        ids: pa.Array,
        digests: pa.Array,
        sizes: Any,
        found: Verdicts,
        record_key: int,
    ) -> None:
        """Record rows; the first record of them has the key."""
        accepted = found.outcome == "accepted"
        keys = pa.array(np.cumsum(accepted) + record_key - 1, mask=~accepted)
        there, count = batch.schema.names, batch.num_rows
        is_blank = pc.is_null(digests).to_numpy(zero_copy_only=False)
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
            "measured": pa.array(
                np.full(count, self._measured, object), pa.string(), mask=is_blank
            ),
        }
        with self._database.registered(judged=sliced(pa.table(columns))):
            named = self._of_source | {"source": self._of.name}
            self._database.run("quality/intake/append_judgements", named)
        rejected = found.outcome == "rejected"
        if self._keep and rejected.any():
            mask = pa.array(rejected)
            kept = _rows_to_keep(batch.filter(mask), ids.filter(mask))
            with self._database.registered(rejected=kept):
                self._database.run("quality/intake/append_rejected", self._of_source)
        hashes = pa.table({"record_key": keys, "digest": digests})
        with self._database.registered(new_hashes=hashes.filter(pa.array(accepted))):
            self._database.run("quality/intake/append_hashes")

    def came_meanwhile(self, version: int) -> int:
        """Reject rows whose texts others stored since the intake began; return their number."""
        given = self._of_source | {"version": version}
        taken = [key for (key,) in self._database.run("quality/intake/came_meanwhile", given)]
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
