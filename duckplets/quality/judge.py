"""Apply other thresholds to rows read before, without their sources."""

# All rows are decided again in their original order. So the result equals an intake with the new
# thresholds, and a row that is accepted now replaces later copies of itself.

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.documents import StoredJson
from duckplets.base.sanitize import Reported, counted
from duckplets.db.database import Database
from duckplets.engine.protocol import Part, mapped
from duckplets.engine.work import QUIET, Work
from duckplets.errors import QualityError
from duckplets.ingest.append import Appending
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.ingest.records import commit_version, current_version
from duckplets.ingest.splits import assign_missing
from duckplets.quality.decide import decide, needed
from duckplets.quality.judgement_log import STORED, measured_by, stored_metrics
from duckplets.quality.measure import measured
from duckplets.quality.settings import Quality
from duckplets.quality.texts import (
    hash_missing,
    joined,
    texts_of,
    without_personal_data,
)
from duckplets.quality.verdicts import (
    GATE,
    Candidate,
    MeasureJob,
    check_fields,
    fields_of,
    measure_part,
    reasons,
    settle,
)

_ROWS = 65_536
_TEXTS = 8_192  # rows whose texts are in memory at a time
_ENDS = ("outcome", "gate", "rule")
_ROW = pa.schema(
    [
        *(("number", pa.int64()), ("record_key", pa.int64()), ("has_text", pa.bool_())),
        *((name, pa.string()) for name in ("source", *_ENDS, *(f"new_{end}" for end in _ENDS))),
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeReport(Reported):
    """The changes that other thresholds make, or would make.

    Attributes:
        dry_run: Whether nothing was changed.
        rows: Number of decided rows: records and rejected rows.
        newly_accepted: Number of rejected rows that become records.
        newly_rejected: Number of records that are removed.
        unchanged: Number of all other rows. Some of them may have another reason now.
        changes: Counts of the rows with another outcome or reason: ``source``, ``was`` and ``now``
            (``GATE: RULE``, or accepted), and the number of ``rows``.
        measured: Number of rows with a missing metric, which was measured from the stored text.
        without_text: Number of acceptable rows that stay rejected, since their texts were not
            stored.
        version: Corpus version; a new one if anything changed.
        seconds: Wall time.
    """

    dry_run: bool
    rows: int
    newly_accepted: int
    newly_rejected: int
    unchanged: int
    changes: list[dict[str, Any]] = field(default_factory=list)
    measured: int = 0
    without_text: int = 0
    version: int = 0
    seconds: float = 0.0


class _DryRunError(Exception):
    """Rolls back the transaction of a dry run."""


def judge(database: Database, quality: Any, *, dry_run: bool, work: Work = QUIET) -> JudgeReport:
    """Decide all rows again; see ``Corpus.quality``."""
    started = time.monotonic()
    settings = Quality.of(quality)
    if settings.pii == "redact":
        raise QualityError(
            "quality(apply=...) changes no text, so pii='redact' is for ingest: give pii='reject' "
            "or None"
        )
    reports = []
    with suppress(_DryRunError), database.transaction():
        reports.append(_Judging(database, settings, work).run(started, dry_run=dry_run))
        if dry_run:
            raise _DryRunError
    return reports[0]


class _Judging:
    """Decides all rows again, inside a transaction."""

    def __init__(self, database: Database, quality: Quality, work: Work) -> None:
        self.database = database
        self.quality = quality
        self.work = work
        self.measured = 0
        self.keys = measured(quality)
        self.measurings: dict[str, dict[str, str]] = {}

    def run(self, started: float, *, dry_run: bool) -> JudgeReport:
        """Decide, apply the changes, and return the report."""
        for _, name, *_, text in self.database.run("ingest/records/live_sources"):
            place = StoredJson(self.database.path, "sources", f"source {name!r}")
            reading = None if text is None else dict(place.read("mapping", text, {str: object}))
            check_fields(self.quality, name, reading)
        hash_missing(self.database)
        self.database.run("quality/judge/append_unjudged")
        for name, keys in self.database.run("quality/intake/measurings"):
            self.measurings[name] = json.loads(keys)
        rows = self._rows()
        outcome, gate, rule, lost = self._decided(rows)
        was = reasons(rows["outcome"], rows["gate"], rows["rule"])
        now = reasons(outcome, gate, rule)
        differ = np.flatnonzero(was != now)
        accepted = differ[(outcome[differ] == "accepted")]
        rejected = differ[(outcome[differ] != "accepted") & (rows["outcome"][differ] == "accepted")]
        words = ([reason or "accepted" for reason in side[differ]] for side in (was, now))
        changes = Counter(zip(rows["source"][differ], *words, strict=True))
        version = current_version(self.database)
        if len(accepted) or len(rejected):
            version += 1
        report = JudgeReport(
            dry_run=dry_run,
            rows=len(outcome),
            newly_accepted=len(accepted),
            newly_rejected=len(rejected),
            unchanged=len(outcome) - len(accepted) - len(rejected),
            changes=[
                {"source": source, "was": before, "now": after, "rows": count}
                for (source, before, after), count in sorted(changes.items())
            ],
            measured=self.measured,
            without_text=lost,
            version=current_version(self.database) if dry_run else version,
            seconds=round(time.monotonic() - started, 3),
        )
        if not dry_run and len(differ):
            keys = rows["record_key"].copy()
            self._remove(rows["number"], keys, rejected, rule, version)
            keys[accepted] = self._add(rows["number"][accepted], version)
            self._note(rows["number"], outcome, gate, rule, keys, differ)
            if len(accepted) or len(rejected):
                commit_version(self.database, version, "judge", "", asdict(report))
        return report

    # -- decisions --------------------------------------------------------------------------------

    def _measured(
        self, found: Iterable[tuple[Any, pa.Array, dict[str, pa.Array]]]
    ) -> Iterator[tuple[Any, pa.Table]]:
        """Yield places and the metrics of their texts."""

        def part_of(item: tuple[Any, pa.Array, dict[str, pa.Array]]) -> Part:
            _, texts, fields = item
            self.measured += len(texts)
            rows = pa.table({"row": np.arange(len(texts)), "text": texts} | fields)
            return Part(f"gates: {counted(len(texts), 'text')}", rows)

        job = MeasureJob.of(self.quality, self.database)
        with closing(mapped(self.work.engine, measure_part, job, found, part_of)) as items:
            for (places, *_), metrics in items:
                yield places, metrics

    def _rows(self) -> dict[str, Any]:
        """Return the rows without metrics, and their outcome by thresholds; one array a column."""
        found = [_ROW.empty_table()]
        last = int(self.database.run("quality/judge/last")[0][0])
        for low in range(1, last + 1, _ROWS):
            rows = self._span(low)
            if rows.num_rows and self._has_completed(rows.to_batches()[0]):
                rows = self._span(low)
            metrics = {f.name: pc.struct_field(rows["metrics"], f.name) for f in STORED}
            metrics |= {"row": np.arange(rows.num_rows), "sha256": rows["digest"]}
            ends = decide(self.database, pa.table(metrics), self.quality)
            for name in _ENDS:
                rows = rows.append_column(f"new_{name}", ends[name])
            found.append(rows.select(_ROW.names))
        table = pa.concat_tables(found)
        keys = table["record_key"].fill_null(-1)
        return {name: table[name].to_numpy() for name in _ROW.names} | {
            "record_key": keys.to_numpy()
        }

    def _span(self, low: int) -> pa.Table:
        span = {"unpublished": UNPUBLISHED, "low": low, "high": low + _ROWS - 1}
        return self.database.table("quality/judge/rows", span).combine_chunks()

    def _decided(self, rows: dict[str, Any]) -> tuple[Any, Any, Any, int]:
        """Return outcomes with copies rejected, and the number of accepted rows without a text."""
        outcome, gate, rule = (rows[f"new_{name}"].copy() for name in _ENDS)
        lost = (outcome == "accepted") & ~rows["has_text"]
        outcome[lost], gate[lost], rule[lost] = "rejected", rows["gate"][lost], rows["rule"][lost]
        if not len(outcome):
            return outcome, gate, rule, 0
        candidates = pa.table({"number": rows["number"], "passes": outcome == "accepted"})
        with self.database.registered(candidates=candidates):
            shared = self.database.table("quality/judge/shared")
        places = np.searchsorted(rows["number"], shared["number"].to_numpy()).tolist()
        digests = shared["digest"].to_pylist()
        # rows with equal ids have equal content if their texts are equal
        columns = (places, shared["record_id"].to_pylist(), digests, digests)
        found = settle(
            map(Candidate._make, zip(*columns, shared["passes"].to_pylist(), strict=True)),
            {},
            (),
            texts=self.quality.duplicates,
        )
        for place, copy_rule in found.items():
            outcome[place], gate[place], rule[place] = "rejected", GATE, copy_rule
        return outcome, gate, rule, int(lost.sum())

    # -- changes ----------------------------------------------------------------------------------

    def _remove(self, numbers: Any, keys: Any, places: Any, rule: Any, version: int) -> None:
        """Remove records, and store them as rejected rows."""
        if not len(places):
            return
        with self.database.registered(gone=pa.table({"record_key": keys[places]})):
            self.database.run("quality/texts/remove", {"version": version})
        for start in range(0, len(places) if self.quality.keep_rejected else 0, _TEXTS):
            part = places[start : start + _TEXTS]
            wanted = pa.table({"number": numbers[part], "record_key": keys[part]})
            with self.database.registered(wanted=wanted):
                found = self.database.table("quality/judge/whole_records").combine_chunks()
            at = np.searchsorted(numbers, found["number"].to_numpy())
            batch = without_personal_data(
                found.to_batches()[0],
                rule[at] == "max_pii_density",
                self.quality.pii_kinds,
            )
            with self.database.registered(rejected=pa.Table.from_batches([batch])):
                self.database.run("quality/judge/append_rejected")

    def _add(self, numbers: Any, version: int) -> Any:
        """Make records of rejected rows; return their keys in order of number."""
        if not len(numbers):
            return np.array([], np.int64)
        first: int | None = None
        keys = np.zeros(len(numbers), np.int64)
        for table in self._rejected_rows(numbers):
            batch = table.combine_chunks().to_batches()[0]
            appending = Appending(
                self.database,
                batch["source_id"][0].as_py(),
                version,
                None,
                batch["source_trust"][0].as_py(),
            )
            first = appending.record_key if first is None else first
            made = appending.append(batch, batch["record_id"])
            keys[np.searchsorted(numbers, batch["number"].to_numpy())] = made
            hashes = pa.table({"record_key": made, "digest": batch["digest"]})
            with self.database.registered(new_hashes=hashes):
                self.database.run("quality/intake/append_hashes")
        with self.database.registered(wanted=pa.table({"number": numbers})):
            self.database.run("quality/judge/forget_rejected")
        if first is not None:
            assign_missing(self.database, first)
        return keys

    def _rejected_rows(self, numbers: Any) -> Iterator[pa.Table]:
        """Yield rejected rows in original order, one source at a time."""
        with self.database.registered(wanted=pa.table({"number": numbers})):
            order = self.database.table("quality/judge/order_of_rejected")
        order = order.append_column("place", [np.arange(order.num_rows)])
        changes = np.flatnonzero(np.diff(order["source_id"].to_numpy())) + 1
        for start, end in pairwise([0, *changes.tolist(), order.num_rows]):
            for low in range(start, end, _TEXTS):
                with self.database.registered(wanted=order.slice(low, min(_TEXTS, end - low))):
                    yield self.database.table("quality/judge/rejected")

    def _note(self, numbers: Any, outcome: Any, gate: Any, rule: Any, keys: Any, at: Any) -> None:
        changed = {
            "number": numbers[at],
            "outcome": pa.array(outcome[at], pa.string()),
            "gate": pa.array(gate[at], pa.string()),
            "rule": pa.array(rule[at], pa.string()),
            "record_key": pa.array(keys[at], mask=keys[at] < 0),
        }
        with self.database.registered(changed=pa.table(changed)):
            self.database.run("quality/judge/change")

    def _has_completed(self, batch: pa.RecordBatch) -> bool:
        """Measure missing metrics from stored texts; return whether any were missing."""
        at, known = self._measurings(batch["measured"])
        wanted = needed(self.quality)
        lacks = [any(keys.get(name) != self.keys[name] for name in wanted) for keys in known]
        missing = np.array(lacks, bool)[at]
        lost = missing & ~batch["has_text"].to_numpy(zero_copy_only=False)
        if lost.any():
            row = batch.slice(int(np.flatnonzero(lost)[0]), 1).to_pylist()[0]
            raise QualityError(
                f"{counted(int(lost.sum()), 'row')} of source {row['source']!r} must be measured "
                f"again for these thresholds, and their texts were not kept "
                f"(keep_rejected=False): omit the unmeasured rules, or read the source again"
            )
        places = np.flatnonzero(missing)
        found = (
            block
            for start in range(0, len(places), _TEXTS)
            for block in self._texts(batch, places[start : start + _TEXTS])
        )
        for at, metrics in self._measured(found):
            rows = batch.take(pa.array(at))
            merged, keys = self._merged(rows["metrics"], metrics, rows["measured"])
            columns = {"number": rows["number"], "metrics": merged, "measured": keys}
            with self.database.registered(judged=pa.table(columns)):
                self.database.run("quality/judge/set_metrics")
        return bool(len(places))

    def _measurings(self, names: pa.Array) -> tuple[Any, list[dict[str, str]]]:
        """Return the settings that measured rows: a number for each row, and keys by number."""
        coded = names.fill_null("").dictionary_encode()
        known = [self.measurings.get(name, {}) for name in coded.dictionary.to_pylist()]
        return coded.indices.to_numpy(), known

    def _merged(
        self, before: pa.StructArray, now: pa.Table, kinds: pa.Array
    ) -> tuple[pa.StructArray, pa.Array]:
        """Return old metrics with missing ones filled in, and the settings of each row."""
        at, known = self._measurings(kinds)
        missing = [
            {name.partition(":")[0] for name, key in self.keys.items() if keys.get(name) != key}
            for keys in known
        ]
        columns = {}
        for metric in STORED:
            is_new = np.array([metric.name in names for names in missing], bool)[at]
            new = now[metric.name].combine_chunks().cast(metric.type)
            columns[metric.name] = pc.if_else(is_new, new, pc.struct_field(before, metric.name))
        settings = [measured_by(self.database, keys | self.keys) for keys in known]
        return stored_metrics(pa.table(columns)), pa.array(settings).take(pa.array(at))

    def _texts(
        self, batch: pa.RecordBatch, places: Any
    ) -> Iterator[tuple[Any, pa.Array, dict[str, pa.Array]]]:
        """Yield places with texts; for records also the other fields that gates need."""
        is_record = pc.equal(batch["outcome"], "accepted").to_numpy(zero_copy_only=False)[places]
        records = places[is_record]
        keys = batch["record_key"].fill_null(-1).to_numpy()
        ordered = records[np.argsort(keys[records])]
        for found, texts in texts_of(self.database, keys[ordered]):
            with self.database.registered(wanted=pa.table({"record_key": found})):
                rows = self.database.table("quality/judge/fields").combine_chunks()
            fields = fields_of(rows.to_batches()[0])
            yield ordered[np.searchsorted(keys[ordered], found)], texts, fields
        others = places[~is_record]
        if len(others):
            numbers = batch["number"].to_numpy()
            with self.database.registered(wanted=pa.table({"number": numbers[others]})):
                stored = self.database.table("quality/judge/rejected_texts").combine_chunks()
            at = np.searchsorted(numbers, stored["number"].to_numpy())
            yield at, joined(stored["sections"].combine_chunks()), {}
