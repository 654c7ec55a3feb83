"""Record outcomes in ``judgements``, and rejected rows with all fields of a record."""

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
"""The metrics in the column ``metrics``; the other metrics are columns of their own."""

_RECORD_COLUMNS = (
    *("content_hash", "date", "group_key", "taxonomy", "meta", "trust"),
    *("created_at", "updated_at"),
)
_TEXTS = ("messages", "rejected_messages", "prefix")
_SECTION = pa.struct([(name, pa.string()) for name in ("role", "heading", "text", "original")])


def begin(of: Intake, settings: dict[str, Any]) -> int:
    """Begin the log of an intake, and return its number."""
    source = {"name": of.name, "source_id": of.source_id}
    for statement in ("forget", "forget_rejected"):
        of.database.run(f"quality/intake/{statement}", source)
    parameters = {
        "source_id": of.source_id,
        "source": of.name,
        "kind": of.source.kind,
        "uri": of.source.uri,
        "first_record_key": of.record_key,
        "version": UNPUBLISHED,
        "duckplets": version_of("duckplets"),
    }
    return int(of.database.run("quality/intake/begin", parameters | settings)[0][0])


class JudgementLog:
    """The log of one intake: the outcome of every row."""

    def __init__(self, of: Intake, number: int, quality: Quality | None) -> None:
        self._source, self._database = of.name, of.database
        self._ids = {"acquisition_id": number, "source_id": of.source_id}
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
        """Record rows; the first record among them gets ``record_key``."""
        accepted = found.outcome == "accepted"
        keys = pa.array(np.cumsum(accepted) + record_key - 1, mask=~accepted)
        names, count = batch.schema.names, batch.num_rows
        is_blank = pc.is_null(digests).to_numpy(zero_copy_only=False)
        columns = {
            "file": (batch["file"] if "file" in names else pa.nulls(count)).cast(pa.string()),
            "line": batch["line"] if "line" in names else pa.nulls(count, pa.int64()),
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
            source = self._ids | {"source": self._source}
            self._database.run("quality/intake/append_judgements", source)
        rejected = found.outcome == "rejected"
        if self._keep and rejected.any():
            mask = pa.array(rejected)
            rows = _rejected_rows(batch.filter(mask), ids.filter(mask))
            with self._database.registered(rejected=rows):
                self._database.run("quality/intake/append_rejected", self._ids)
        hashes = pa.table({"record_key": keys, "digest": digests})
        with self._database.registered(new_hashes=hashes.filter(pa.array(accepted))):
            self._database.run("quality/intake/append_hashes")

    def came_meanwhile(self, version: int) -> int:
        """Reject rows whose texts others stored since the intake began; return their number."""
        parameters = self._ids | {"version": version}
        taken = [key for (key,) in self._database.run("quality/intake/came_meanwhile", parameters)]
        if taken:
            with self._database.registered(taken=pa.table({"record_key": taken})):
                self._database.run("quality/intake/reject_keys", {"gate": GATE, "rule": MEANWHILE})
        return len(taken)


def _rejected_rows(batch: pa.RecordBatch, ids: pa.Array) -> pa.Table:
    """Return rows as in ``rejected_rows``."""
    names = batch.schema.names
    columns = {"row": batch["row"], "record_id": ids, "sections": _sections(batch["sections"])}
    columns |= {name: batch[name] for name in _RECORD_COLUMNS}
    nulls = pa.nulls(batch.num_rows, pa.string())
    columns |= {name: batch[name] if name in names else nulls for name in _TEXTS}
    columns["label"] = batch["label"] if "label" in names else nulls.cast(pa.float64())
    return pa.table(columns)


def _sections(sections: pa.ListArray) -> pa.ListArray:
    """Return sections with ``original``, null if it equals the text."""
    flat = sections.flatten()
    names = [field.name for field in flat.type]
    nulls = pa.nulls(len(flat), pa.string())
    fields = {f.name: flat.field(f.name) if f.name in names else nulls for f in _SECTION}
    return lists_like(sections, fields)


def stored_metrics(metrics: pa.Table) -> pa.Array:
    """Return metrics as in ``judgements``, without digest and size of the text."""
    count, names = metrics.num_rows, metrics.column_names
    fields = [
        metrics[f.name].combine_chunks().cast(f.type)
        if f.name in names
        else pa.nulls(count, f.type)
        for f in STORED
    ]
    return pa.StructArray.from_arrays(fields, fields=list(STORED))


def measured_by(database: Database, keys: Mapping[str, str]) -> str:
    """Store the settings of a measurement; return their key."""
    text = json.dumps(dict(sorted(keys.items())))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    database.run("quality/intake/measured", {"measured": digest, "keys": text})
    return digest
