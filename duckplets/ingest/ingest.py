"""Ingest sources: read each to its end, and store all of its records or none.

read ahead ─batches, marks→ stored in pieces, unpublished ─at the end→ published as a version

Rows before a mark are committed with it, so an interrupted ingest continues at the last mark. An
interrupted ingest of a source without marks is discarded. Nobody sees any of it before it is
complete. In every report ``read == added + skipped + failed``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from duckplets.base.atomic import aside_of, remove, sweep
from duckplets.db.database import DEFAULT_MEMORY_LIMIT, Database
from duckplets.engine.work import QUIET, Work
from duckplets.errors import DuckpletsError
from duckplets.ingest import checkpoint
from duckplets.ingest.append import Along
from duckplets.ingest.chunks import current_chunking
from duckplets.ingest.gates import NothingNew
from duckplets.ingest.prepare import PreparedIngest, prepare
from duckplets.ingest.reading import Reading
from duckplets.ingest.records import IngestReport, current_version
from duckplets.ingest.store import Storing
from duckplets.sources import Mark, Rows, Source

# Marks in quick succession are skipped, since a commit takes 10 ms; so are those within ten times
# the duration of the last commit: each rewrites an unfinished row group, half a second for texts
# of 600 bytes.
_ROWS_A_COMMIT = 16_384
_SECONDS_A_COMMIT = 2.0
_TIMES_A_COMMIT = 10
_FILE = 64_000_000  # bytes of texts
_MOST_SECONDS = 60.0  # seconds without a commit, however long one takes
# What cannot continue is committed for another reason: DuckDB reads what the same transaction
# wrote ten times slower, and each batch is compared with it.
_ROWS_AT_ONCE = 500_000
# Appended rows are not read again soon: a million came in as fast as with 1 GB, and the peak of
# the process fell from 1.6 to 1.0 GB.
_MEMORY = "200MB"

Last = Callable[[Storing, float], IngestReport]
"""Ends an ingest that began at a time, and returns its report."""


def ingest(
    database: Database,
    source: Source,
    *,
    work: Work = QUIET,
    along: Along | None = None,
    **asked: Any,
) -> IngestReport:
    """Read a prepared source to its end and store its records."""
    prepared = prepare(database, source, **asked)
    with closing(ingest_all(database, [prepared], work, along, readers=1, retries=0)) as each:
        _, report = next(each)
    if isinstance(report, DuckpletsError):
        raise report
    return report


def ingest_all(
    database: Database,
    several: Sequence[PreparedIngest],
    work: Work = QUIET,
    along: Along | None = None,
    *,
    readers: int,
    retries: int,
    last: Last = Storing.finish,
) -> Generator[tuple[PreparedIngest, IngestReport | DuckpletsError], None, None]:
    """Store prepared sources in order while the following ones are being read.

    ``along`` gets the texts, too; ``last`` ends each in its last transaction. Closing the iterator
    ends all threads and removes waiting files.
    """
    chunking = current_chunking(database)
    parts = Path(f"{os.path.realpath(str(database.path))}.parts")
    sweep(parts)
    folder = aside_of(parts)
    beside_each_other = max(1, min(readers, len(several)))
    each = [
        Reading(prepared, work.engine, chunking, folder / str(number), retries, beside_each_other)
        for number, prepared in enumerate(several)
    ]
    try:  # no ``with``: Ctrl-C while they start must end them too
        for number, reading in enumerate(each):
            for coming in each[number + 1 : number + readers]:
                coming.begin()
            report: IngestReport | DuckpletsError
            try:
                report = _ingested(database, reading, work, along, last)
            except DuckpletsError as error:
                report = error
            reading.close()
            yield reading.prepared, report
    finally:
        for reading in each:
            reading.items.stop()
        for reading in each:
            reading.close()
        remove(folder)


def _ingested(
    database: Database, reading: Reading, work: Work, along: Along | None, last: Last
) -> IngestReport:
    """Store the records of one source."""
    prepared, started = reading.prepared, time.monotonic()
    placing = prepared.placing
    if prepared.is_full:
        return _nothing_new(database, prepared, started)
    try:
        with database.frugal(_MEMORY), database.one_thread() as all_threads:
            database.shed()
            before = 0 if placing is None else placing.corpus_size()

            def end(storing: Storing, since: float) -> IngestReport:
                # Statements that give splits gain from threads, and hold more with more rows.
                all_threads()
                with database.frugal(DEFAULT_MEMORY_LIMIT):
                    return last(storing, since)

            rows = reading.rows()
            report = _stored(database, prepared, rows, started, work, along, end)
            if placing is not None:
                report.notes.extend(placing.notes(report.added, before))
            return report
    except NothingNew:
        return _nothing_new(database, prepared, started)


def _stored(
    database: Database,
    prepared: PreparedIngest,
    rows: Rows,
    started: float,
    work: Work,
    along: Along | None,
    last: Last,
) -> IngestReport:
    """Store rows piece by piece, each in a transaction; the last one publishes them."""
    under_way: Storing | None = None
    took = 0.0  # duration of the last commit
    try:
        while True:
            with database.transaction():
                under_way = under_way or Storing(database, prepared, rows, along)
                if not _store_piece(under_way, took, work):
                    under_way.texts.close()  # whatever the last step is: this commit names them
                    report = last(under_way, started)
                    break
                under_way.save()
                begun = time.monotonic()
            database.shed()
            took = time.monotonic() - begun
    except BaseException:  # includes Ctrl-C
        if under_way is not None:
            under_way.texts.drop()
        with suppress(DuckpletsError):  # otherwise the next writer discards it
            found = checkpoint.find(database, prepared.name)
            if found is not None and not (found.can_go_on and found.has_stored):
                checkpoint.discard(database, found)
        raise
    if under_way.refusal is not None:
        raise under_way.refusal
    return report


def _store_piece(under_way: Storing, took: float, work: Work) -> bool:
    """Store what is worth a commit; return whether more may come."""
    prepared, counts = under_way.prepared, under_way.counts
    before, started = counts.read, time.monotonic()
    if prepared.gates.is_full:
        return False
    for item in under_way.rows.batches:
        if isinstance(item, Mark):
            under_way.cursor = item.cursor
            prepared.gates.at(item.cursor)
        else:
            under_way.store(item)
            work.tell(counts.read, under_way.rows.total)
            if prepared.gates.is_full:
                return False
        seconds, rows = time.monotonic() - started, counts.read - before
        if under_way.is_anew:
            continue
        if prepared.settings is None:
            if rows >= _ROWS_AT_ONCE:
                return True
        elif isinstance(item, Mark):
            is_much = seconds >= _SECONDS_A_COMMIT or rows >= _ROWS_A_COMMIT
            # A commit ends a file of texts, and there should be few.
            if 0 < under_way.texts.size < _FILE and seconds < _MOST_SECONDS:
                continue
            if is_much and seconds >= min(_TIMES_A_COMMIT * took, _MOST_SECONDS):
                return True
    return False


def _nothing_new(database: Database, prepared: PreparedIngest, started: float) -> IngestReport:
    """Return the report of an ingest with nothing to read."""
    return IngestReport(
        read=0,
        added=0,
        skipped=0,
        failed=0,
        seconds=round(time.monotonic() - started, 3),
        version=current_version(database),
        notes=[*prepared.notes, *prepared.gates.notes],
    )
