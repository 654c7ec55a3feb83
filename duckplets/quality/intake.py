"""Decide every row of an intake (accepted, filtered, rejected or unreadable), and record it."""

# The transaction that stores the records and the cursor stores the decisions, too. The table
# ``acquisitions`` has the state to continue from. So a killed intake decides as an unbroken one.

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Words
from duckplets.base.sanitize import counted, shown, without_secrets
from duckplets.base.settings import Bounds, checked
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.ingest.checkpoint import UNPUBLISHED, differing
from duckplets.ingest.gates import Gates, Intake, NothingNew
from duckplets.quality import judgement_log
from duckplets.quality.conditions import checked_where, chosen
from duckplets.quality.measure import ready
from duckplets.quality.settings import Quality
from duckplets.quality.texts import hash_missing, without_personal_data
from duckplets.quality.verdicts import (
    GATE,
    OTHER_TEXT,
    Candidate,
    MeasureJob,
    Verdicts,
    check_fields,
    digested,
    reasons,
    settle,
    texts_in,
    to_redact,
)
from duckplets.sources import Source
from duckplets.sources.mapping import described
from duckplets.sources.retry import digest_of
from duckplets.sources.rows import is_failure

FILTERED = ("filtered", "where", "not met")
_COUNTS = ("read", "accepted", "filtered", "rejected", "unreadable")
_MB = 10**6
_SIZE = Annotated[float, Bounds(0, 1e12), "a number of 10^6 bytes from 0"] | None
_LIMIT = Annotated[int, Bounds(0), "a whole number of records from 0"] | None
_LOG = logging.getLogger(f"{__name__}.QualityGates")
_BITS = (1 << 64) - 1


class QualityGates(Gates):
    """The gates of one intake of one source."""

    judges = True

    def __init__(
        self,
        quality: Any = None,
        *,
        where: str | None = None,
        size_mb: float | None = None,
        limit: int | None = None,
    ) -> None:
        self.quality = None if quality is None else Quality.of(quality)
        if self.quality is not None:
            ready(self.quality)
        self.where = where
        self._condition = checked_where(where)
        self.size_mb = checked("size_mb", size_mb, _SIZE, SourceError)
        self.limit = checked("limit", limit, _LIMIT, SourceError)
        self._counts: Counter[str] = Counter()
        self._accepted = self._bytes = self._own_bytes = 0
        self._last_row = self._digest = self._passed = 0
        self._is_known = self._is_checked = False
        self._texts: KnownTexts | None = None  # known texts, to find copies
        self._cursor: Any = None

    # -- earlier intakes ------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return the JSON values that an unfinished ingest depends on."""
        quality = None if self.quality is None else self.quality.to_dict()
        return {"quality": quality, "where": self.where}

    def take_up(self, database: Database, name: str, source: Source) -> Any:
        """Look up the last intake of a source; return the cursor to continue at, or None."""
        if self.quality is not None:
            check_fields(self.quality, name, described(source))
        parameters = {"name": name, "unpublished": UNPUBLISHED}
        totals = database.run("quality/intake/totals", parameters)[0]
        self._accepted, self._bytes = map(int, totals)
        found = database.run("quality/intake/last", parameters)
        if not found:
            return None
        _, kind, uri, quality, condition, last_row, digest, cursor = found[0]
        before = {"kind": kind, "uri": uri, "where": condition}
        before["quality"] = None if quality is None else json.loads(quality)
        now = {"kind": source.kind, "uri": source.uri, **json.loads(json.dumps(self.settings()))}
        if names := differing(now, before, inner=True):
            raise SourceError(
                f"source {name!r} was read through gates before, with another "
                f"{' and '.join(names)}: quality(apply=...) applies other thresholds to these "
                f"rows; to read them again, remove() the source first, or give another name="
            )
        self._is_known = True
        self._last_row, self._digest = int(last_row), int(digest)
        self._cursor = json.loads(cursor)
        return self._cursor

    @property
    def is_full(self) -> bool:
        """Whether the source has reached its limit."""
        by_count = self.limit is not None and self._accepted >= self.limit
        return by_count or (self.size_mb is not None and self._bytes >= self.size_mb * _MB)

    @property
    def last_row(self) -> int:
        """Number of the last row read before."""
        return self._last_row

    @property
    def measuring(self) -> MeasureJob | None:
        """The job that measures texts before they are decided, in any process."""
        return None if self.quality is None else MeasureJob.of(self.quality)

    @property
    def notes(self) -> list[str]:
        """Sentences for the report."""
        notes = []
        if self._is_known:
            notes.append("rows that an earlier intake had read were skipped")
        if self.is_full:
            cap = f"limit={self.limit}" if self.size_mb is None else f"size_mb={self.size_mb:g}"
            if self.size_mb is not None and self.limit is not None:
                cap += f", limit={self.limit}"
            notes.append(
                f"full ({cap}): {counted(self._accepted, 'record')} of the source accepted so "
                f"far, {self._bytes / _MB:.3f} MB of text; a larger limit continues"
            )
        if self.quality is not None and self.quality.profanity is None:
            notes.append("profanity: off, since duckplets has no list; profanity=FILE turns it on")
        return notes

    @property
    def size(self) -> tuple[int, int, int]:
        """Rows read, records accepted and bytes of their texts, in this intake so far."""
        return self._counts["read"], self._counts["accepted"], self._own_bytes

    # -- one batch after the other ----------------------------------------------------------------

    def begin(self, of: Intake) -> None:
        """Begin or continue an ingest."""
        self._intake = of
        if self.quality is not None and self.quality.duplicates:
            hash_missing(of.database)
            self._texts = KnownTexts(of.database, of.source_id)
        if of.is_anew:
            self._number = judgement_log.begin(of, self._initial_state())
        else:
            source = {"source_id": of.source_id, "unpublished": UNPUBLISHED}
            (state,) = of.database.table("quality/intake/unfinished", source).to_pylist()
            self._number = state["acquisition_id"]
            self._counts.update({name: state[name] for name in _COUNTS})
            self._own_bytes = state["accepted_bytes"]
            self._last_row, self._digest = state["last_row"], state["rows_digest"]
        self._judgements = judgement_log.JudgementLog(of, self._number, self.quality)
        verb = "begins" if of.is_anew else "continues"
        uri = shown(without_secrets(of.source.uri or "-"))
        values = (shown(of.name), verb, of.source.kind, uri, self._last_row)
        _LOG.info("intake of %s %s: %s, %s, after row %d", *values)
        # Rows read before are recognised by number. Their content shows whether they have changed.
        self._is_checked = of.is_anew and self._is_known and self._cursor is None

    def _initial_state(self) -> dict[str, Any]:
        quality = self.quality
        return {
            "quality": None if quality is None else json.dumps(quality.to_dict()),
            "fingerprint": None if quality is None else quality.fingerprint(),
            "condition": self.where,
            "size_mb": self.size_mb,
            "row_limit": self.limit,
            "last_row": self._last_row,
            "rows_digest": self._digest,
            "cursor": json.dumps(self._cursor),
        }

    def fresh(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that were not read before."""
        if self.is_full or not batch.num_rows:
            return batch.slice(0, 0)
        rows = batch["row"].to_numpy()
        if (np.diff(rows) < 0).any():  # the batch may be a table mapped by several threads
            batch = batch.take(pa.array(np.argsort(rows)))
            rows = batch["row"].to_numpy()
        passed = int(np.searchsorted(rows, self._last_row, side="right"))
        if self._is_checked:
            self._passed = self._passed + digest_of(batch.slice(0, passed)) & _BITS
            if passed < batch.num_rows:
                self._check_passed()
        return batch.slice(passed)

    def nothing_read(self) -> None:
        """Handle a source without fresh rows, unless it is new."""
        if self._is_checked:
            self._check_passed()
        if self._is_known:
            raise NothingNew

    def _check_passed(self) -> None:
        self._is_checked = False
        if self._passed != self._digest:
            raise SourceError(
                f"source {self._intake.name!r}: its first {counted(self._last_row, 'row')}, read "
                f"before, have changed. Only rows appended to a source can be read as more of it: "
                f"give another name=, or remove() the source first"
            )

    def judge(self, batch: pa.RecordBatch, record_key: int) -> pa.RecordBatch:
        """Return the rows up to the limit; ``skip`` says why a row is no record."""
        if not batch.num_rows:
            return batch
        intake, database = self._intake, self._intake.database
        ids = pc.binary_join_element_wise(intake.name, batch["key"], "/")
        usable = pc.is_null(batch["skip"]).to_numpy(zero_copy_only=False)
        texts = texts_in(batch)
        found = Verdicts.of(database, batch, texts, self.quality)
        skips = np.array(batch["skip"].to_pylist(), object)
        found.end(~usable, "unreadable", None, skips[~usable])
        unused = np.array([skip is not None and not is_failure(skip) for skip in skips], bool)
        found.end(unused, "filtered", "source", skips[unused])
        if self._condition is not None and usable.any():
            met = chosen(
                database, self._condition, batch, texts, ids, name=intake.name, trust=intake.trust
            )
            found.end(usable & ~met, *FILTERED)
        hidden = to_redact(self.quality, found)
        if self.quality is not None and hidden.any():
            batch = without_personal_data(batch, hidden, self.quality.pii_kinds)
            texts = texts_in(batch)
        digests, sizes = digested(texts, found, hidden)
        self._settle(batch, ids, digests, found)
        end = self._cut(found.outcome, sizes)
        batch, ids, digests = batch.slice(0, end), ids.slice(0, end), digests.slice(0, end)
        found = found.first(end)
        self._judgements.note(batch, ids, digests, sizes[:end], found, record_key)
        if self._texts is not None:
            self._texts.add(digests.filter(pa.array(found.outcome == "accepted")))
        self._count(batch, found.outcome, sizes[:end])
        skip = pa.array(reasons(found.outcome, found.gate, found.rule), pa.string())
        return batch.set_column(batch.schema.names.index("skip"), "skip", skip)

    def _settle(
        self, batch: pa.RecordBatch, ids: pa.Array, digests: pa.Array, verdicts: Verdicts
    ) -> None:
        """Reject copies of texts, and of records by id."""
        outcome = verdicts.outcome
        looked = np.flatnonzero((outcome == "accepted") | (outcome == "rejected"))
        if not len(looked):
            return
        database, places = self._intake.database, pa.array(looked)
        ids_of, digests_of = ids.take(places), digests.take(places)
        with database.registered(incoming=pa.table({"record_id": ids_of})):
            known_ids = database.table("quality/intake/known_ids", {"unpublished": UNPUBLISHED})
        known_texts = self._texts.among(digests_of) if self._texts else digests_of.slice(0, 0)
        shared = _shared(ids_of, known_ids["record_id"].combine_chunks())
        shared |= _shared(digests_of, known_texts)
        places = pa.array(at := looked[shared])
        rows = zip(
            at.tolist(),
            ids.take(places).to_pylist(),
            batch["content_hash"].take(places).to_pylist(),
            digests.take(places).to_pylist(),
            (outcome[at] == "accepted").tolist(),
            strict=True,
        )
        known = zip(*(known_ids[name].to_pylist() for name in known_ids.column_names), strict=True)
        is_by_text = self._texts is not None
        copies = settle(
            map(Candidate._make, rows), dict(known), known_texts.to_pylist(), texts=is_by_text
        )
        for place, rule in copies.items():
            # ``ingest`` raises an error for another text under a known id, unless it skips them.
            if rule != OTHER_TEXT or self._intake.on_conflict == "skip":
                verdicts.end(place, "rejected", GATE, rule)

    def _cut(self, outcome: Any, sizes: Any) -> int:
        """Return the number of rows up to the row that reaches the limit."""
        accepted = outcome == "accepted"
        full = np.zeros(len(outcome), bool)
        if self.limit is not None:
            full |= self._accepted + np.cumsum(accepted) >= self.limit
        if self.size_mb is not None:
            full |= self._bytes + np.cumsum(np.where(accepted, sizes, 0)) >= self.size_mb * _MB
        places = np.flatnonzero(full)
        return int(places[0]) + 1 if len(places) else len(outcome)

    def _count(self, batch: pa.RecordBatch, outcome: Any, sizes: Any) -> None:
        accepted = outcome == "accepted"
        new = int(sizes[accepted].sum())
        self._accepted += int(accepted.sum())
        self._bytes += new
        self._own_bytes += new
        self._counts["read"] += len(outcome)
        self._counts.update(outcome.tolist())
        self._last_row = int(batch["row"][-1].as_py())
        self._digest = self._digest + digest_of(batch) & _BITS

    # -- commits ----------------------------------------------------------------------------------

    def at(self, cursor: Any) -> None:
        """Note the cursor of a mark."""
        self._cursor = cursor

    def save(self) -> None:
        """Store the progress, inside the transaction that stores the rows."""
        state = self._state() | {"acquisition_id": self._number}
        self._intake.database.run("quality/intake/save", state)
        self._log(logging.DEBUG, "commits up to")

    def finish(self, version: int) -> int:
        """Note the version; return how many records another intake added in the meantime."""
        taken = self._judgements.came_meanwhile(version) if self._texts is not None else 0
        self._counts["accepted"] -= taken
        self._counts["rejected"] += taken
        self._accepted -= taken
        self.save()
        numbers = {"acquisition_id": self._number, "version": version}
        self._intake.database.run("quality/intake/finish", numbers)
        self._log(logging.INFO, f"makes version {version}, up to")
        return taken

    def _log(self, level: int, event: str) -> None:
        counts = ", ".join(f"{self._counts[name]} {name}" for name in _COUNTS)
        size = self._own_bytes / _MB
        _LOG.log(
            level,
            "intake of %s %s row %d: %s, %.3f MB",
            *(shown(self._intake.name), event, self._last_row, counts, size),
        )

    def _state(self) -> dict[str, Any]:
        # A cursor by rows is found again by row number, so the rows before can be compared.
        by_row = isinstance(self._cursor, Mapping) and self._cursor.get("at") is None
        return {name: self._counts[name] for name in _COUNTS} | {
            "accepted_bytes": self._own_bytes,
            "last_row": self._last_row,
            "rows_digest": self._digest,
            "cursor": json.dumps(None if by_row else self._cursor),
            "size_mb": self.size_mb,
            "row_limit": self.limit,
        }


class KnownTexts:
    """Finds known texts, and queries the corpus only for hashes with a known beginning."""

    # The beginnings, 8 bytes a record, are in sorted runs, each twice as long as the next.

    def __init__(self, database: Database, source_id: int) -> None:
        self._database = database
        self._of_intake = {"unpublished": UNPUBLISHED, "source_id": source_id}
        self._runs: list[Words] = [
            np.sort(database.table("quality/intake/starts")["start"].to_numpy())
        ]

    def among(self, digests: pa.Array) -> pa.Array:
        """Return the hashes that belong to stored texts."""
        starts = _starts(digests)
        is_like = np.zeros(len(starts), bool)
        for run in filter(len, self._runs):
            is_like |= run[np.minimum(np.searchsorted(run, starts), len(run) - 1)] == starts
        if not is_like.any():
            return digests.slice(0, 0)
        wanted = pa.table({"digest": digests, "start": starts}).filter(pa.array(is_like))
        with self._database.registered(incoming=wanted):
            found = self._database.table("quality/intake/known_digests", self._of_intake)
        return found["digest"].combine_chunks()

    def add(self, digests: pa.Array) -> None:
        """Add the hashes of stored texts."""
        self._runs.append(np.sort(_starts(digests)))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]))


def _starts(digests: pa.Array) -> Words:
    """Return the beginnings of hashes, as in ``record_hashes``."""
    whole = np.frombuffer(b"".join(digests.to_pylist()), ">u8")
    starts: Words = whole[::4].astype(np.uint64)
    return starts


def _shared(values: pa.Array, known: pa.Array) -> Any:
    """Return which values occur twice or are known."""
    codes = values.dictionary_encode().indices.to_numpy()
    again = np.bincount(codes)[codes] > 1
    return again | pc.is_in(values, known).to_numpy(zero_copy_only=False)
