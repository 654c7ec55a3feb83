"""The outcome of texts, for rows being read and for rows decided again."""

# Rows are settled in order of (source rank, row). A row claims its text and id only if every other
# gate accepts it, so the result does not depend on batches, interruptions or timing.

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
    """Refuse settings that ask for a field that the records of a source do not keep."""
    kept = names_kept(reading)
    if reading is None or kept is None:
        return
    lacking = [("required", name) for name in quality.required if name not in kept]
    if quality.licenses and LICENSE not in map(str.lower, reading.get("meta", ())):
        lacking.append(("licenses", LICENSE))
    for setting, name in lacking:
        way = "" if "titles" in reading else f"keep it with meta={shown(repr([name]), 40)}, or "
        raise QualityError(
            f"source {shown(repr(source), 40)} keeps no field {shown(repr(name), 40)} for "
            f"{setting}=: {way}leave out {setting}=; kept are {shown(', '.join(kept), 60)}"
        )


# -- on an engine ----------------------------------------------------------------------------------


class MeasureJob(NamedTuple):
    """Settings of measuring, the functions they name, and locally a connection."""

    quality: Quality
    registered: list[plugins.Gate | plugins.Detector]  # a worker registers them first
    database: Database | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the connection."""
        return MeasureJob, (self.quality, self.registered)

    @classmethod
    def of(cls, quality: Quality, database: Database | None = None) -> MeasureJob:
        """Return the job for settings."""
        registered: list[plugins.Gate | plugins.Detector] = [
            plugins.gate(name) for each in quality.conditions for name in each.gates
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
    """How rows end, as far as their texts say."""

    outcome: Any  # accepted, filtered, rejected or unreadable, object[rows]
    gate: Any  # the first gate that a row failed, or None
    rule: Any  # of that gate
    metrics: pa.Table  # null for rows without a text; only ``row`` if nothing was measured

    @classmethod
    def of(
        cls, database: Database, batch: pa.RecordBatch, texts: pa.Array, quality: Quality | None
    ) -> Self:
        """Judge preprocessed rows, measured here or before; without settings all are accepted."""
        rows = np.arange(len(texts))
        outcome = np.full(len(rows), "accepted", object)
        gate, rule = np.full(len(rows), None, object), np.full(len(rows), None, object)
        if quality is None or texts.null_count == len(rows):
            return cls(outcome, gate, rule, pa.table({"row": rows}))
        if METRICS not in batch.schema.names:
            batch = MeasureJob.of(quality, database).measured(batch)
        names = [each.name for each in batch[METRICS].type]
        metrics = pa.table(batch[METRICS].flatten(), names=names).set_column(0, "row", [rows])
        there = pc.is_valid(texts)
        decided = decide(database, metrics.filter(there), quality)
        for name, column in (("outcome", outcome), ("gate", gate), ("rule", rule)):
            column[there.to_numpy(zero_copy_only=False)] = decided[name].to_numpy()
        return cls(outcome, gate, rule, metrics)

    def end(self, rows: Any, outcome: str, gate: str | None, rule: Any) -> None:
        """Note how some rows end, by a mask or numbers."""
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
    """Return why rows are no records, object[rows]; None for records."""
    found = np.full(len(outcome), None, object)
    for place in np.flatnonzero(outcome != "accepted").tolist():
        is_bare = outcome[place] == "unreadable" or gate[place] == "source"
        found[place] = rule[place] if is_bare else f"{gate[place]}: {rule[place]}"
    return found


def texts_in(batch: pa.RecordBatch) -> pa.Array:
    """Return the texts of rows; null for those that are no records."""
    texts, is_record = joined(batch["sections"]), pc.is_null(batch["skip"])
    return texts if batch["skip"].null_count == len(texts) else pc.if_else(is_record, texts, None)


def _measurable(batch: pa.RecordBatch, texts: pa.Array) -> pa.Table:
    """Return the rows with a text, for ``measure``."""
    rows = pa.table({"row": np.arange(len(texts)), "text": texts} | fields_of(batch))
    return rows.filter(pc.is_valid(texts)) if texts.null_count else rows  # a filter copies all


def fields_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the fields that gates need besides texts: ``license``, and what is ``present``."""
    # Metadata is present by its name, a text by its column, which is the heading of its section.
    rows = np.arange(batch.num_rows)
    owners, names = [rows], [pa.array(["id"] * len(rows), pa.string())]

    def note(of: Any, named: pa.Array, there: pa.Array) -> None:
        owners.append(of[pc.fill_null(there, False).to_numpy(zero_copy_only=False)])
        names.append(named.filter(there))

    for name in _COLUMNS:
        column, size = batch[name], _SIZES.get(name, pc.is_valid)
        note(rows, pa.array([name] * len(rows), pa.string()), pc.cast(size(column), pa.bool_()))
    entries = batch["meta"].cast(_ENTRIES)
    of_entry, (keys, values) = pc.list_parent_indices(entries), entries.flatten().flatten()
    note(
        of_entry.to_numpy(),
        keys,
        pc.cast(pc.binary_length(pc.utf8_trim_whitespace(values)), pa.bool_()),
    )
    headings = batch["sections"].flatten().field("heading")
    note(pc.list_parent_indices(batch["sections"]).to_numpy(), headings, pc.is_valid(headings))
    is_license = pc.equal(pc.utf8_lower(keys), LICENSE)
    licenses = pa.table({"row": of_entry, "license": values}).filter(is_license)
    return {
        "present": _lists(np.concatenate(owners), pa.concat_arrays(names), len(rows)),
        "license": licenses["license"]
        .combine_chunks()
        .take(pc.index_in(pa.array(rows), licenses["row"])),
    }


def _lists(owners: Any, names: pa.Array, count: int) -> pa.ListArray:
    """Return the different names of every row, sorted."""
    coded = names.dictionary_encode()
    order = np.argsort(np.array(coded.dictionary.to_pylist(), object))
    ranks = np.argsort(order)[coded.indices.to_numpy()]
    pairs = np.unique(owners * len(order) + ranks)
    starts = np.searchsorted(pairs, np.arange(count + 1) * len(order))
    found = coded.dictionary.take(pa.array(order[pairs % len(order)]))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), found)


def _in_places(metrics: pa.Table, count: int) -> pa.Table:
    """Return metrics of all rows, null for those without."""
    if metrics.num_rows == count:
        return metrics
    rows = pa.array(np.arange(count))
    return metrics.take(pc.index_in(rows, metrics["row"])).set_column(0, "row", rows)


def to_redact(quality: Quality | None, found: Verdicts) -> Any:
    """Return which rows are stored redacted, bool[rows]."""
    rule = "max_pii_density"
    if quality is not None and quality.pii == "redact":
        return np.ones(len(found.outcome), bool)  # the unreadable may go to the quarantine
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
    """Return SHA-256 and bytes of texts; null and 0 for none. Some were changed after measuring."""
    if not found.is_measured:
        digests, sizes = digests_of(texts)
    else:
        digests, sizes = (found.metrics[n].combine_chunks() for n in ("sha256", "bytes"))
        if is_changed.any():
            anew = digests_of(texts.filter(pa.array(is_changed)))
            digests = pc.replace_with_mask(digests, pa.array(is_changed), anew[0])
            sizes = pc.replace_with_mask(sizes, pa.array(is_changed), anew[1])
    return digests, pc.fill_null(sizes, 0).to_numpy()


# -- copies ----------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A row that shares its text or id with another one."""

    place: int  # its key
    record_id: str
    content: int  # rows with equal ids are the same if this is equal
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
    held_ids, held = dict(ids), set(digests)
    found: dict[int, str] = {}
    for row in rows:
        content = held_ids.get(row.record_id)
        if content is not None and content == row.content:
            found[row.place] = SAME_ID
        elif texts and row.digest in held:
            found[row.place] = SAME_TEXT
        elif row.passes and content is not None:
            found[row.place] = OTHER_TEXT
        elif row.passes:
            held_ids[row.record_id] = row.content
            held.add(row.digest)
    return found
