"""Decide the outcome of rows, when they are read and when they are decided again."""

# Copies are settled in order of (source rank, row). A row claims its text and id only if every
# other gate accepts it, so the result does not depend on batches, interruptions or timing.

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import shown
from duckplets.db.database import Database
from duckplets.errors import QualityError
from duckplets.ingest.gates import METRICS
from duckplets.quality import plugins
from duckplets.quality.decide import decide, fails
from duckplets.quality.measure import measure
from duckplets.quality.metrics import whole
from duckplets.quality.settings import Quality
from duckplets.quality.texts import digests_of, joined
from duckplets.sources.mapping import Described, names_kept

GATE = "duplicates"
SAME_TEXT = "same text"
SAME_ID = "same id"
OTHER_TEXT = "same id, other content"

LICENSE = "license"  # column of ``meta``, whatever its case
_COLUMNS = ("date", "group_key", "taxonomy", "created_at", "updated_at")
_ENTRIES = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_SIZES = {"group_key": pc.binary_length, "taxonomy": pc.list_value_length}  # 0 is blank


def check_fields(quality: Quality, source: str, reading: Described | None) -> None:
    """Refuse settings that need a field that the records of a source do not store."""
    stored = names_kept(reading)
    if reading is None or stored is None:
        return
    lacking = [("required", name) for name in quality.required if name not in stored]
    if quality.licenses and LICENSE not in map(str.lower, reading.get("meta", ())):
        lacking.append(("licenses", LICENSE))
    for setting, name in lacking:
        advice = "" if "titles" in reading else f"give meta={shown(repr([name]), 40)}, or "
        raise QualityError(
            f"source {shown(repr(source), 40)} stores no field {shown(repr(name), 40)} for "
            f"{setting}=: {advice}omit {setting}=; it stores {shown(', '.join(stored), 60)}"
        )


# -- on an engine ----------------------------------------------------------------------------------


class MeasureJob(NamedTuple):
    """Settings of measuring, the functions they name, and locally a connection."""

    quality: Quality
    registered: list[plugins.Gate | plugins.Detector]  # a worker registers them first
    database: Database | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings and functions only."""
        return MeasureJob, (self.quality, self.registered)

    @classmethod
    def of(cls, quality: Quality, database: Database | None = None) -> MeasureJob:
        """Return the job for settings."""
        registered: list[plugins.Gate | plugins.Detector] = [
            plugins.gate(name) for condition in quality.conditions for name in condition.gates
        ]
        if quality.language is not None and quality.detector != "py3langid":
            registered.append(plugins.detector(quality.detector))
        return cls(quality, registered, database)

    def measured(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return preprocessed rows with their metrics in one column."""
        found = measure_part(self, _measurable(batch, texts_in(batch)))
        columns = _in_places(found, batch.num_rows).combine_chunks().to_struct_array()
        return batch.append_column(METRICS, columns.combine_chunks())


def measure_part(job: MeasureJob, rows: pa.Table) -> pa.Table:
    """Return the metrics of rows; see ``measure``."""
    plugins.register_all(job.registered)
    return measure(job.database or scratch_of_worker().cursor(), rows, job.quality)


@cache
def scratch_of_worker() -> Database:
    """Return a worker's connection, which has no corpus."""
    return Database.scratch(threads=1)


# -- rows that are read ----------------------------------------------------------------------------


class Verdicts(NamedTuple):
    """The outcomes of rows by their texts."""

    outcome: Any  # accepted, filtered, rejected or unreadable, object[rows]
    gate: Any  # the first gate that a row failed, or None
    rule: Any  # of that gate
    metrics: pa.Table  # null for rows without a text; only ``row`` if nothing was measured

    @classmethod
    def of(
        cls, database: Database, batch: pa.RecordBatch, texts: pa.Array, quality: Quality | None
    ) -> Self:
        """Decide preprocessed rows by metrics; without settings all are accepted."""
        rows = np.arange(len(texts))
        outcome = np.full(len(rows), "accepted", object)
        gate, rule = np.full(len(rows), None, object), np.full(len(rows), None, object)
        if quality is None or texts.null_count == len(rows):
            return cls(outcome, gate, rule, pa.table({"row": rows}))
        if METRICS not in batch.schema.names:
            batch = MeasureJob.of(quality, database).measured(batch)
        names = [metric.name for metric in batch[METRICS].type]
        metrics = pa.table(batch[METRICS].flatten(), names=names).set_column(0, "row", [rows])
        has_text = pc.is_valid(texts)
        decided = decide(database, metrics.filter(has_text), quality)
        for name, column in (("outcome", outcome), ("gate", gate), ("rule", rule)):
            column[has_text.to_numpy(zero_copy_only=False)] = decided[name].to_numpy()
        return cls(outcome, gate, rule, metrics)

    def end(self, rows: Any, outcome: str, gate: str | None, rule: Any) -> None:
        """Set the outcome of some rows, by a mask or numbers."""
        self.outcome[rows], self.gate[rows], self.rule[rows] = outcome, gate, rule

    def first(self, count: int) -> Self:
        """Return the verdicts of the first rows."""
        cut = (self.outcome[:count], self.gate[:count], self.rule[:count])
        return type(self)(*cut, self.metrics.slice(0, count))

    @property
    def is_measured(self) -> bool:
        """Whether texts were measured."""
        return "sha256" in self.metrics.column_names


def reasons(outcome: Any, gate: Any, rule: Any) -> Any:
    """Return the reason why a row is no record, object[rows]; None for records."""
    found = np.full(len(outcome), None, object)
    for place in np.flatnonzero(outcome != "accepted").tolist():
        is_bare = outcome[place] == "unreadable" or gate[place] == "source"
        found[place] = rule[place] if is_bare else f"{gate[place]}: {rule[place]}"
    return found


def texts_in(batch: pa.RecordBatch) -> pa.Array:
    """Return the texts of rows, null for rows that are no records."""
    texts, is_record = joined(batch["sections"]), pc.is_null(batch["skip"])
    return texts if batch["skip"].null_count == len(texts) else pc.if_else(is_record, texts, None)


def _measurable(batch: pa.RecordBatch, texts: pa.Array) -> pa.Table:
    """Return the rows with a text, for ``measure``."""
    rows = pa.table({"row": np.arange(len(texts)), "text": texts} | fields_of(batch))
    return rows.filter(pc.is_valid(texts)) if texts.null_count else rows  # a filter copies all


def fields_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the other fields that gates need: ``license``, and the names that are ``present``."""
    # Metadata is present by its key, and a text by its column: the heading of its section.
    rows = np.arange(batch.num_rows)
    owners, names = [rows], [pa.array(["id"] * len(rows), pa.string())]

    def add(places: Any, found: pa.Array, present: pa.Array) -> None:
        owners.append(places[pc.fill_null(present, False).to_numpy(zero_copy_only=False)])
        names.append(found.filter(present))

    for name in _COLUMNS:
        column, size = batch[name], _SIZES.get(name, pc.is_valid)
        add(rows, pa.array([name] * len(rows), pa.string()), pc.cast(size(column), pa.bool_()))
    entries = batch["meta"].cast(_ENTRIES)
    entry_rows, (keys, values) = pc.list_parent_indices(entries), entries.flatten().flatten()
    sizes = pc.binary_length(pc.utf8_trim_whitespace(values))
    add(entry_rows.to_numpy(), keys, pc.cast(sizes, pa.bool_()))
    headings = batch["sections"].flatten().field("heading")
    add(pc.list_parent_indices(batch["sections"]).to_numpy(), headings, pc.is_valid(headings))
    is_license = pc.equal(pc.utf8_lower(keys), LICENSE)
    licenses = pa.table({"row": entry_rows, "license": values}).filter(is_license)
    return {
        "present": _lists(np.concatenate(owners), pa.concat_arrays(names), len(rows)),
        "license": licenses["license"]
        .combine_chunks()
        .take(pc.index_in(pa.array(rows), licenses["row"])),
    }


def _lists(owners: Any, names: pa.Array, count: int) -> pa.ListArray:
    """Return the distinct names of every row, sorted."""
    coded = names.dictionary_encode()
    order = np.argsort(np.array(coded.dictionary.to_pylist(), object))
    ranks = np.argsort(order)[coded.indices.to_numpy()]
    pairs = np.unique(owners * len(order) + ranks)
    starts = np.searchsorted(pairs, np.arange(count + 1) * len(order))
    found = coded.dictionary.take(pa.array(order[pairs % len(order)]))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), found)


def _in_places(metrics: pa.Table, count: int) -> pa.Table:
    """Return metrics of all rows, null for rows without."""
    if metrics.num_rows == count:
        return metrics
    rows = pa.array(np.arange(count))
    return metrics.take(pc.index_in(rows, metrics["row"])).set_column(0, "row", rows)


def to_redact(quality: Quality | None, found: Verdicts) -> Any:
    """Return which rows are stored redacted, bool[rows]."""
    rule = "max_pii_density"
    if quality is not None and quality.pii == "redact":
        return np.ones(len(found.outcome), bool)  # unreadable rows may go to the quarantine
    if (
        quality is None
        or quality.pii is None
        or getattr(quality, rule) is None
        or not found.is_measured
    ):
        return np.zeros(len(found.outcome), bool)
    # A row may have failed an earlier gate: this rule is checked by itself.
    failed = fails(rule, quality, whole(found.metrics))
    return failed & (found.outcome == "rejected")


def digested(texts: pa.Array, found: Verdicts, is_changed: Any) -> tuple[pa.Array, Any]:
    """Return SHA-256 and bytes of texts, null and 0 for none; ``is_changed``: after measuring."""
    if not found.is_measured:
        digests, sizes = digests_of(texts)
    else:
        digests, sizes = (found.metrics[n].combine_chunks() for n in ("sha256", "bytes"))
        if is_changed.any():
            mask = pa.array(is_changed)
            changed = digests_of(texts.filter(mask))
            digests = pc.replace_with_mask(digests, mask, changed[0])
            sizes = pc.replace_with_mask(sizes, mask, changed[1])
    return digests, pc.fill_null(sizes, 0).to_numpy()


# -- copies ----------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A row that shares its text or id with another one."""

    place: int  # key of the row
    record_id: str
    content: int  # equal for rows with equal ids and equal content
    digest: bytes  # hash of its text
    passes: bool  # whether all other gates accept it


def settle(
    rows: Iterable[Candidate],
    ids: Mapping[str, int],
    digests: Iterable[bytes],
    *,
    texts: bool,
) -> dict[int, str]:
    """Return the rule that rejects rows as copies, by place."""
    known_ids, known_digests = dict(ids), set(digests)
    found: dict[int, str] = {}
    for row in rows:
        content = known_ids.get(row.record_id)
        if content is not None and content == row.content:
            found[row.place] = SAME_ID
        elif texts and row.digest in known_digests:
            found[row.place] = SAME_TEXT
        elif row.passes and content is not None:
            found[row.place] = OTHER_TEXT
        elif row.passes:
            known_ids[row.record_id] = row.content
            known_digests.add(row.digest)
    return found
