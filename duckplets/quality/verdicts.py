"""What the gates say of the rows of a batch: measured, decided, and put in the rows' places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.ingest.gates import METRICS
from duckplets.quality.decide import decide, fails
from duckplets.quality.measure import measure, measured
from duckplets.quality.settings import Quality
from duckplets.quality.texts import Redact, digests_of, joined

_COLUMNS = ("date", "group_key", "taxonomy", "created_at", "updated_at")


class Verdicts(NamedTuple):
    """How rows end, as far as their texts say.

    Attributes:
        outcome: accepted, filtered, rejected or unreadable, object[rows].
        gate: The first gate that a row failed, or None, object[rows].
        rule: Of that gate, or None, object[rows].
        metrics: What was measured: ``row``, and a column each; null for rows without a text.
        keys: By which settings each of them was taken.
    """

    outcome: Any
    gate: Any
    rule: Any
    metrics: pa.Table
    keys: Mapping[str, str]

    def first(self, count: int) -> Self:
        """Return those of the first rows."""
        cut = (self.outcome[:count], self.gate[:count], self.rule[:count])
        return type(self)(*cut, self.metrics.slice(0, count), self.keys)

    def reasons(self) -> pa.Array:
        """Return why rows are no records, null for those that are."""
        reasons = np.full(len(self.outcome), None, object)
        for place in np.flatnonzero(self.outcome != "accepted").tolist():
            reasons[place] = _reason(self.outcome[place], self.gate[place], self.rule[place])
        return pa.array(reasons, pa.string())


def verdicts(
    database: Database, batch: pa.RecordBatch, texts: pa.Array, quality: Quality | None
) -> Verdicts:
    """Measure and judge rows.

    Args:
        database: The corpus.
        batch: As from ``preprocess``.
        texts: Of the rows, null for those that have none.
        quality: None accepts all of them, unmeasured.
    """
    count = len(texts)
    numbers = pa.array(np.arange(count))
    found = Verdicts(
        np.full(count, "accepted", object),
        np.full(count, None, object),
        np.full(count, None, object),
        pa.table({"row": numbers}),
        {},
    )
    if quality is None or texts.null_count == count:
        return found
    if METRICS in batch.schema.names:
        known = batch[METRICS].flatten()
        metrics = pa.table(known, names=[each.name for each in batch[METRICS].type])
        metrics = metrics.set_column(0, "row", numbers).filter(pc.is_valid(texts))
    else:
        metrics = measured_texts(database, batch, texts, quality)
    decided = decide(database, metrics, quality)
    places = decided["row"].to_numpy()
    for name in ("outcome", "gate", "rule"):
        getattr(found, name)[places] = decided[name].to_numpy(zero_copy_only=False)
    return found._replace(metrics=in_places(metrics, count), keys=measured(quality))


def texts_in(batch: pa.RecordBatch) -> pa.Array:
    """Return the texts of rows, null for those that are no records."""
    return pc.if_else(pc.is_null(batch["skip"]), joined(batch["sections"]), None)


def measured_texts(
    database: Database, batch: pa.RecordBatch, texts: pa.Array, quality: Quality
) -> pa.Table:
    """Return the metrics of the rows that have a text; see ``verdicts``."""
    numbers = pa.array(np.arange(len(texts)))
    rows = pa.table({"row": numbers, "text": texts} | fields_of(batch))
    return measure(database, rows.filter(pc.is_valid(rows["text"])), quality)


def with_metrics(database: Database, batch: pa.RecordBatch, quality: Quality) -> pa.RecordBatch:
    """Return rows with the metrics of their texts, for ``verdicts`` in another process."""
    found = measured_texts(database, batch, texts_in(batch), quality)
    columns = in_places(found, batch.num_rows).combine_chunks().to_struct_array()
    return batch.append_column(METRICS, columns.combine_chunks())


def fields_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return what the gates ask of rows beside their texts: ``license`` and ``fields``.

    The fields of a row are its metadata, by their names, and ``date``, ``group_key``,
    ``taxonomy``, ``created_at`` and ``updated_at``.
    """
    meta = batch["meta"].to_pylist()
    others = {name: batch[name].to_pylist() for name in _COLUMNS}
    fields = [
        [*(own or ()), *((name, str(values[i])) for name, values in others.items() if values[i])]
        for i, own in enumerate(meta)
    ]
    licenses = [next((v for k, v in own or () if k == "license"), None) for own in meta]
    return {
        "fields": pa.array(fields, pa.map_(pa.string(), pa.string())),
        "license": pa.array(licenses, pa.string()),
    }


def in_places(metrics: pa.Table, count: int) -> pa.Table:
    """Return metrics of all rows, null for those that have none."""
    if metrics.num_rows == count:
        return metrics
    at = np.zeros(count, np.int64)
    there = np.zeros(count, bool)
    rows = metrics["row"].to_numpy()
    at[rows], there[rows] = np.arange(len(rows)), True
    return metrics.take(pa.array(at, mask=~there)).set_column(0, "row", pa.array(np.arange(count)))


def to_redact(quality: Quality | None, found: Verdicts) -> Any:
    """Return which rows are stored without personal data, bool[rows]."""
    count = len(found.outcome)
    if quality is not None and quality.pii == "redact":
        return np.ones(count, bool)  # unreadable rows as well: they may be set aside
    if quality is None or quality.pii is None or quality.max_pii_density is None or not found.keys:
        return np.zeros(count, bool)
    # A row may have failed another gate before: this rule is asked alone.
    failed = np.zeros(count, bool)
    places = np.flatnonzero(found.outcome == "rejected")
    if quality.pii == "reject" and len(places):
        metrics = found.metrics.take(pa.array(places))
        failed[places] = fails(metrics, quality, "max_pii_density")
    return failed


def redacting(database: Database, quality: Quality) -> Redact:
    """Return what takes personal data out of texts, null ones included."""
    from duckplets.quality.pii import redacted

    def redact(texts: pa.Array) -> pa.Array:
        there = pc.is_valid(texts)
        found = texts.filter(there)
        if not len(found):
            return texts
        return pc.replace_with_mask(texts, there, redacted(database, found, quality.pii_kinds))

    return redact


def _reason(outcome: str, gate: str | None, rule: str) -> str:
    return rule if outcome == "unreadable" or gate == "source" else f"{gate}: {rule}"


def breaks_privacy(rule: str | None) -> bool:
    """Whether a rule is about personal data."""
    return rule == "max_pii_density"


def digested(texts: pa.Array, found: Verdicts, is_changed: Any) -> tuple[pa.Array, Any]:
    """Return the SHA-256 of texts, and their bytes, int64[rows]; null and 0 for no text.

    Args:
        texts: As they are stored.
        found: What was measured of them.
        is_changed: Which are others now than those measured, bool[rows].
    """
    if not found.keys:
        digests, sizes = digests_of(texts)
    else:
        digests, sizes = (found.metrics[n].combine_chunks() for n in ("sha256", "bytes"))
        if is_changed.any():
            anew = digests_of(texts.filter(pa.array(is_changed)))
            digests = pc.replace_with_mask(digests, pa.array(is_changed), anew[0])
            sizes = pc.replace_with_mask(sizes, pa.array(is_changed), anew[1])
    return digests, pc.fill_null(sizes, 0).to_numpy()
