"""Ingest: rows of a source become records, sections and chunks, whole or not at all.

    Rows (Arrow batches) ─classify→ new, same, conflicting ─→ records, sections, chunks, splits

Each batch is compared with what is stored in one statement, windowed in NumPy and appended,
all inside one transaction that ends with the version's row: a failure or a kill at any instant
leaves the corpus as it was. A row is never dropped without being counted: in every report
``read == added + skipped + failed``.

Nothing is deleted. A replaced or removed record keeps its rows and gets a ``removed_version``,
so a run pinned to an earlier version still finds every text it ever drew from.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.ahead import one_ahead
from duckplets.chunks import chunk_table, current_chunking, next_key
from duckplets.database import Database
from duckplets.errors import SourceError, nearest
from duckplets.sources import Rows, Source
from duckplets.sources.rows import UNREADABLE
from duckplets.splits import assign_missing

OnConflict = Literal["error", "skip", "replace"]
Progress = Callable[[int, int | None], None]

_STEP = 16_384  # rows an Arrow slice: DuckDB scans the slices of a table in parallel

SAME = "duplicate id, same content"
CONFLICT = "conflicting id, first kept"
OVERTAKEN = "replaced by a later row"


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestReport:
    """What an ingest did; ``read == added + skipped + failed``.

    Attributes:
        read: Rows the source held.
        added: Records stored, replacements included.
        skipped: Rows that were readable and did not become a record.
        failed: Rows that could not be read.
        seconds: Wall time.
        reasons: Count of skipped and failed rows by reason.
        replaced: Stored records that a row of this ingest took the place of.
        version: Corpus version it made.
    """

    read: int
    added: int
    skipped: int
    failed: int
    seconds: float
    reasons: dict[str, int] = field(default_factory=dict)
    replaced: int = 0
    version: int = 0


def ingest(
    database: Database,
    source: Source,
    *,
    name: str | None = None,
    trust: float | None = None,
    on_conflict: OnConflict = "error",
    progress: Progress | None = None,
) -> IngestReport:
    """Read a source to its end and store its records; see ``Corpus.ingest``."""
    name = _checked_name(source.default_name() if name is None else name)
    if on_conflict not in get_args(OnConflict):
        choices = ", ".join(get_args(OnConflict))
        raise SourceError(f"on_conflict={on_conflict!r}: give one of {choices}")
    if trust is None and not isinstance(source.trust, str):
        trust = source.trust  # a column of trusts is in the rows; the source has the default
    trust = _checked_trust(trust)
    started = time.monotonic()
    reader = Database.reader()
    try:
        rows = source.open(reader)
        with database.transaction():
            return _Ingest(database, source, rows, name, trust, on_conflict).run(started, progress)
    finally:
        reader.close()


def remove(database: Database, name: str) -> int:
    """Mark a source and its records as removed; returns how many records that were."""
    found = {row[1]: row[0] for row in database.run("records/live_sources")}
    if name not in found:
        raise SourceError(
            f"no source {name!r}{nearest(name, found)}; there are: {', '.join(found) or 'none'}"
        )
    with database.transaction():
        version = current_version(database) + 1
        parameters = {"source_id": found[name], "version": version}
        records = int(database.run("records/remove_records", parameters)[0][0])
        database.run("records/remove_source", parameters)
        _commit_version(database, version, "remove", name, {"removed": records})
    return records


def current_version(database: Database) -> int:
    """Return the number of the newest committed version; 0 for a corpus without any."""
    return int(database.run("records/version")[0][0])


def fingerprint(database: Database, version: int) -> list[int]:
    """Return what tells the records of a version from those of another corpus."""
    return [int(n) for n in database.run("records/fingerprint", {"version": version})[0]]


class _Ingest:
    """One ingest under way, inside its transaction."""

    def __init__(
        self,
        database: Database,
        source: Source,
        rows: Rows,
        name: str,
        trust: float | None,
        on_conflict: OnConflict,
    ) -> None:
        self.database = database
        self.rows = rows
        self.name = name
        self.on_conflict = on_conflict
        self.counts: Counter[str] = Counter()
        self.read = self.added = self.replaced = 0
        self.chunking = current_chunking(database)
        self.version = current_version(database) + 1
        self.record_key = next_key(database, "record")
        self.section_key = next_key(database, "section")
        self.chunk_key = next_key(database, "chunk")
        self.first_record_key = self.record_key
        self.source_id, self.trust = self._source(source, trust)

    def run(self, started: float, progress: Progress | None) -> IngestReport:
        for batch in self._batches():
            self._store(batch)
            if progress:
                progress(self.read, self.rows.total)
        rejected = self.rows.rejected()
        self.read += sum(rejected.values())
        failed = sum(rejected.values()) + sum(self.counts[reason] for reason in UNREADABLE)
        self._refuse_nothing(rejected)
        assign_missing(self.database, self.first_record_key)
        report = IngestReport(
            read=self.read,
            added=self.added,
            skipped=self.read - self.added - failed,
            failed=failed,
            seconds=round(time.monotonic() - started, 3),
            reasons=dict(sorted((self.counts + Counter(rejected)).items())),
            replaced=self.replaced,
            version=self.version,
        )
        _commit_version(self.database, self.version, "ingest", self.name, asdict(report))
        return report

    def _source(self, source: Source, trust: float | None) -> tuple[int, float]:
        """Find or add the source; a trust given now is the source's from now on."""
        parameters = {
            "name": self.name,
            "kind": source.kind,
            "uri": source.uri,
            "trust": trust,
            "defaults": self.rows.defaults,
        }
        if any(row[1] == self.name for row in self.database.run("records/live_sources")):
            found = self.database.run("records/update_source", parameters)[0]
        else:
            parameters["version"] = self.version
            found = self.database.run("records/add_source", parameters)[0]
        return int(found[0]), float(found[1])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that can be records, counting the others."""
        # Reading and storing take about as long, on a core each.
        for batch in one_ahead(self.rows.batches):
            self.read += batch.num_rows
            reasons = pc.value_counts(batch["skip"].drop_null())
            for pair in reasons.to_pylist():
                self.counts[pair["values"]] += pair["counts"]
            batch = batch.filter(pc.is_null(batch["skip"]))
            if batch.num_rows:
                yield batch

    def _store(self, batch: pa.RecordBatch) -> None:
        ids = pc.binary_join_element_wise(self.name, batch["key"], "/")
        keep = self._classify(ids, batch["content_hash"], batch["row"])
        batch, ids = batch.filter(keep), ids.filter(keep)
        if batch.num_rows == 0:
            return
        keys = np.arange(self.record_key, self.record_key + batch.num_rows, dtype=np.int64)
        self.record_key += batch.num_rows
        self.added += batch.num_rows
        self._append_records(batch, ids, keys)
        self._append_sections(batch["sections"], keys)

    def _classify(self, ids: pa.Array, hashes: pa.Array, rows: pa.Array) -> pa.Array:
        """Return which rows to store, after marking the records they replace."""
        incoming = pa.table({"row": rows, "record_id": ids, "content_hash": hashes})
        with self.database.registered(incoming=incoming):
            found = self.database.table(
                "records/classify", {"last_wins": self.on_conflict == "replace"}
            )
        verdicts = found["verdict"]
        if self.on_conflict == "error":
            self._refuse_conflict(found)
        if self.on_conflict == "replace":
            self._replace(found.filter(pc.equal(verdicts, "add")))
        reasons = {"same": SAME, "conflict": CONFLICT, "overtaken": OVERTAKEN}
        for pair in pc.value_counts(verdicts).to_pylist():
            if pair["values"] in reasons:
                self.counts[reasons[pair["values"]]] += pair["counts"]
        return pc.equal(verdicts, "add").combine_chunks()

    def _replace(self, newer: pa.Table) -> None:
        with self.database.registered(newer=newer):
            older = self.database.run("records/replace", {"version": self.version})
        overtaken = sum(added == self.version for (added,) in older)
        self.replaced += len(older) - overtaken
        self.added -= overtaken
        self.counts[OVERTAKEN] += overtaken

    def _refuse_conflict(self, found: pa.Table) -> None:
        wrong = found.filter(pc.equal(found["verdict"], "conflict"))
        if wrong.num_rows:
            first = wrong.slice(0, 1).to_pylist()[0]
            raise SourceError(
                f"record {first['record_id']!r} (row {first['row']}) has other content than the "
                f"record of that id before it; give ids that are unique, or choose "
                f"on_conflict='replace' or 'skip'"
            )

    def _append_records(self, batch: pa.RecordBatch, ids: pa.Array, keys: Any) -> None:
        columns = [
            *("date", "group_key", "taxonomy", "meta"),
            *("trust", "content_hash", "created_at", "updated_at"),
        ]
        table = pa.table({"record_key": keys, "record_id": ids} | {c: batch[c] for c in columns})
        with self.database.registered(new_records=_sliced(table)):
            self.database.run(
                "records/append_records",
                {"source_id": self.source_id, "version": self.version, "trust": self.trust},
            )

    def _append_sections(self, sections: pa.ListArray, record_keys: Any) -> None:
        counts = pc.list_value_length(sections).to_numpy(zero_copy_only=False)
        flat = sections.flatten()
        texts = flat.field("text")
        section_keys = np.arange(self.section_key, self.section_key + len(flat), dtype=np.int64)
        self.section_key += len(flat)
        owners = np.repeat(record_keys, counts)
        firsts = np.repeat(np.cumsum(counts) - counts, counts)
        tokens, chunks = chunk_table(
            texts, section_keys, owners, chunking=self.chunking, first_key=self.chunk_key
        )
        self.chunk_key += chunks.num_rows
        table = pa.table(
            {
                "section_key": section_keys,
                "record_key": owners,
                "position": np.arange(len(flat), dtype=np.int64) - firsts,
                "role": flat.field("role"),
                "heading": flat.field("heading"),
                "text": texts,
                "token_count": tokens,
            }
        )
        with self.database.registered(new_sections=_sliced(table), new_chunks=_sliced(chunks)):
            self.database.run("records/append_sections")
            self.database.run("chunks/append")

    def _refuse_nothing(self, rejected: dict[str, int]) -> None:
        if self.read == 0:
            raise SourceError(f"source {self.name!r} has no rows; nothing was stored")
        if self.added == 0 and not self.counts[SAME] and not self.counts[CONFLICT]:
            counts = ", ".join(f"{n} {r}" for r, n in (self.counts + Counter(rejected)).items())
            raise SourceError(
                f"none of the {self.read} rows of source {self.name!r} can be a record "
                f"({counts}); nothing was stored"
            )


def _sliced(table: pa.Table) -> pa.Table:
    return pa.Table.from_batches(table.to_batches(max_chunksize=_STEP), schema=table.schema)


def _commit_version(
    database: Database, version: int, what: str, source: str, report: dict[str, Any]
) -> None:
    database.run(
        "records/add_version",
        {"version": version, "what": what, "source": source, "report": json.dumps(report)},
    )


def _checked_name(name: Any) -> str:
    fits = isinstance(name, str) and 0 < len(name) <= 200
    if not fits or "/" in name or not name.isprintable():
        raise SourceError(f"source name {name!r}: give up to 200 printable characters without '/'")
    return str(name)


def _checked_trust(trust: Any) -> float | None:
    if trust is None:
        return None
    if isinstance(trust, bool) or not isinstance(trust, int | float) or not 0 <= trust <= 1:
        raise SourceError(f"trust={trust!r}: give a number from 0 to 1")
    return float(trust)
