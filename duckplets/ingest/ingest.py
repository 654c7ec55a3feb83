"""Ingest a source: read it to its end, and store all of its records or none.

As a rule that is one transaction, so a failure or a kill leaves the corpus as it was. A resumable
source puts marks between its batches; then what comes before a mark is committed with it,
unpublished, and the last transaction publishes the whole (see ``unfinished``): an ingest that stops
half-way goes on at the last mark, and nobody sees any of it before it is complete. In every
report ``read == added + skipped + failed``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pyarrow as pa

from duckplets.base.prefetch import ahead
from duckplets.db.database import Database
from duckplets.engine.work import QUIET, Work
from duckplets.ingest import checkpoint
from duckplets.ingest.checkpoint import UNPUBLISHED, Unfinished
from duckplets.ingest.distributed import Elsewhere
from duckplets.ingest.gates import NothingNew
from duckplets.ingest.outcome_counts import Counts
from duckplets.ingest.prepare import PreparedIngest, kept, prepare
from duckplets.ingest.records import IngestReport, current_version
from duckplets.ingest.store import Request, Storing
from duckplets.sources import Mark, Rows, Source
from duckplets.sources.limits import FileReader

# Marks that follow each other closely are passed by, for a commit takes ten milliseconds; and so
# are those within ten times what the last one took: each writes an unfinished row group anew, half
# a second of texts of 600 bytes.
_ROWS_A_COMMIT = 16_384
_SECONDS_A_COMMIT = 2.0
_TIMES_A_COMMIT = 10
_MOST_SECONDS = 60.0  # without a commit, however long one takes
# What is appended is not read again soon: a million rows came in as fast as with 1 GB, and the
# peak of the process fell from 1.6 to 1.0 GB.
_MEMORY = "300MB"


def ingest(
    database: Database,
    source: Source,
    *,
    work: Work = QUIET,
    **asked: Any,
) -> IngestReport:
    """Read a source to its end and store its records; see ``Corpus.ingest``.

    Args:
        database: The corpus.
        source: What to read.
        work: Reads files and makes rows ready; told of rows read.
        asked: As ``prepare`` takes it.
    """
    prepared = prepare(database, source, **asked)
    with (
        closing(Elsewhere(work.engine, database, [prepared])) as elsewhere,
        elsewhere.turn(prepared) as rows,
    ):
        return store(database, prepared, work, rows=rows)


def store(
    database: Database,
    prepared: PreparedIngest,
    work: Work = QUIET,
    *,
    rows: Rows | None = None,
) -> IngestReport:
    """Store the records of a source that was prepared.

    Args:
        database: The corpus.
        prepared: What is read, from where on.
        work: Told of rows read, and of their number if known.
        rows: Where they are read elsewhere, ahead of being stored; by default the source is
            opened here.
    """
    started = time.monotonic()
    if prepared.is_full:
        return _nothing_new(database, prepared.request, started)
    try:
        with database.frugal(_MEMORY), ExitStack() as held:
            if rows is None:
                reader = held.enter_context(closing(FileReader.within(prepared.limits)))
                rows = prepared.open(reader, prepared.cursor)
                items = ahead(rows.batches)
            else:
                items = ahead(rows.batches, most=0)
            held.enter_context(closing(items))
            placing = prepared.request.placing
            before = 0 if placing is None else placing.corpus_size()
            report = _stored(database, prepared, rows, items, started, work)
            if placing is not None:
                report.notes.extend(placing.told(report.added, before))
            return report
    except NothingNew:
        return _nothing_new(database, prepared.request, started)


def _stored(
    database: Database,
    prepared: PreparedIngest,
    rows: Rows,
    items: Iterator[pa.RecordBatch | Mark],
    started: float,
    work: Work,
) -> IngestReport:
    request, settings = prepared.request, prepared.settings
    if settings is not None:
        in_pieces = _InPieces(database, request, rows, settings, prepared.found)
        return in_pieces.run(items, started, work)
    with database.transaction():
        under_way = Storing(database, request, rows, current_version(database) + 1)
        under_way.store_all(items, work)
        report = under_way.finish(started)
    if under_way.refusal is not None:
        raise under_way.refusal
    return report


class _InPieces:
    """An ingest that is committed at marks, and published by its last transaction."""

    def __init__(
        self,
        database: Database,
        request: Request,
        rows: Rows,
        settings: dict[str, Any],
        found: Unfinished | None,
    ) -> None:
        self.database = database
        self.request = request
        self.rows = rows
        self.settings = settings
        self.found = found
        self._took = 0.0  # seconds of the last commit

    def run(
        self,
        items: Iterator[pa.RecordBatch | Mark],
        started: float,
        work: Work,
    ) -> IngestReport:
        """Store everything up to the end of the source; return the report of the whole ingest."""
        try:
            with self.database.transaction():
                under_way = self._begin()
            return self._store(under_way, items, started, work)
        except BaseException:  # Ctrl-C too
            found = checkpoint.find(self.database, self.request.name)
            if found is not None and not found.counts.get(kept(found)):  # nothing to go on with
                checkpoint.discard(self.database, found)
            raise

    def _store(
        self,
        under_way: Storing,
        items: Iterator[pa.RecordBatch | Mark],
        started: float,
        work: Work,
    ) -> IngestReport:
        while True:
            with self.database.transaction():
                mark = self._store_until_mark(under_way, items, work)
                if mark is None:  # the rows since the last mark, published with the others
                    report = under_way.finish(started)
                    break
                if self.request.gates is not None:
                    self.request.gates.save()
                counts = under_way.counts.to_json()
                checkpoint.save(self.database, self.request.name, mark.cursor, counts)
                begun = time.monotonic()
            self._took = time.monotonic() - begun
        if under_way.refusal is not None:
            raise under_way.refusal
        return report

    def _begin(self) -> Storing:
        """Return an ingest that goes on where the last one stopped, or a new one."""
        if self.found is None:
            under_way = Storing(self.database, self.request, self.rows, UNPUBLISHED)
            checkpoint.begin(self.database, self.request.name, under_way.source_id, self.settings)
            return under_way
        trust = self.database.run("ingest/checkpoint/trust", {"source_id": self.found.source_id})[
            0
        ][0]
        given = self.request.trust
        return Storing(
            self.database,
            self.request,
            self.rows,
            UNPUBLISHED,
            source=(self.found.source_id, trust if given is None else given),
            counts=Counts.from_json(dict(self.found.counts)),
        )

    def _store_until_mark(
        self,
        under_way: Storing,
        items: Iterator[pa.RecordBatch | Mark],
        work: Work,
    ) -> Mark | None:
        """Store batches up to a mark that is worth a commit; None at the end of the source."""
        before, started = under_way.counts.read, time.monotonic()
        if under_way.is_full:
            return None
        for item in items:
            if not isinstance(item, Mark):
                under_way.store(item, work)
                if under_way.is_full:
                    return None
                continue
            if self.request.gates is not None:
                self.request.gates.at(item.cursor)
            seconds, rows = time.monotonic() - started, under_way.counts.read - before
            is_much = seconds >= _SECONDS_A_COMMIT or rows >= _ROWS_A_COMMIT
            if is_much and seconds >= min(_TIMES_A_COMMIT * self._took, _MOST_SECONDS):
                return item
        return None


def _nothing_new(database: Database, request: Request, started: float) -> IngestReport:
    """Return the report of an ingest that had nothing to read."""
    return IngestReport(
        read=0,
        added=0,
        skipped=0,
        failed=0,
        seconds=round(time.monotonic() - started, 3),
        version=current_version(database),
        notes=[*request.notes, *(request.gates.notes if request.gates else ())],
    )
