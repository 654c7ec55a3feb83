"""Ingest a source: read it to its end, and store all of its records or none.

As a rule that is one transaction, so a failure or a kill leaves the corpus as it was. A resumable
source puts marks between its batches; then what comes before a mark is committed with it,
unpublished, and the last transaction publishes the whole (see ``unfinished``): an ingest that stops
half-way goes on at the last mark, and nobody sees any of it before it is complete. In every
report ``read == added + skipped + failed``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa

from duckplets.base.checks import checked_name
from duckplets.base.lookahead import ahead
from duckplets.base.plain import Stored
from duckplets.base.progress import Progress
from duckplets.base.shown import counted, shown
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.ingest import unfinished
from duckplets.ingest.counts import Counts
from duckplets.ingest.gates import Gates, NothingNew
from duckplets.ingest.records import IngestReport, current_version
from duckplets.ingest.store import OnConflict, Request, Storing
from duckplets.ingest.unfinished import UNPUBLISHED, Unfinished
from duckplets.sources import Mark, ResumableSource, Rows, Source
from duckplets.sources.base import EARLIER
from duckplets.sources.limits import Limits, Reader
from duckplets.sources.mapping_checks import OnError, check_on_error
from duckplets.sources.readings import as_before, described, overriding, written
from duckplets.sources.resumable import in_pieces

if TYPE_CHECKING:
    from duckplets.text.prefix import Prefix

# Marks that follow each other closely are passed by: a commit takes some ten milliseconds.
_ROWS_A_COMMIT = 16_384
_SECONDS_A_COMMIT = 2.0
# What is appended is not read again soon: a million rows came in as fast as with 1 GB, and the
# peak of the process fell from 1.6 to 1.0 GB.
_MEMORY = "300MB"


def ingest(
    database: Database,
    source: Source,
    *,
    name: str | None = None,
    trust: float | None = None,
    on_conflict: OnConflict = "error",
    prefix: Prefix | None = None,
    on_error: OnError | None = None,
    remap: bool = False,
    restart: bool = False,
    limits: Limits | None = None,
    gates: Gates | None = None,
    progress: Progress | None = None,
) -> IngestReport:
    """Read a source to its end and store its records; see ``Corpus.ingest``."""
    name = source.default_name() if name is None else name
    name = checked_name(f"source name {shown(repr(name))}", name, SourceError)
    if on_conflict not in get_args(OnConflict):
        choices = ", ".join(get_args(OnConflict))
        raise SourceError(f"on_conflict={on_conflict!r}: give one of {choices}")
    if trust is None and not isinstance(source.trust, str):
        trust = source.trust  # a column of trusts is in the rows; the source has the default
    check_on_error(on_error)
    source, notes = _as_known(database, overriding(source, on_error), name, remap=remap)
    on_conflict = "replace" if remap else on_conflict
    if gates is not None:
        source = _in_rows(source, on_conflict)
    request = Request(source, name, _checked_trust(trust), on_conflict, prefix, remap, notes, gates)
    settings = None
    if isinstance(source, ResumableSource) and not remap:
        settings = _settings_of(source, request)
    found = unfinished.find(database, name)
    # One that was killed before it had stored a record stands in nobody's way.
    if found is not None and (restart or _is_nothing(found, settings)):
        unfinished.discard(database, found)
        found = None
    if found is not None:
        _refuse_another(found, settings)
    started = time.monotonic()
    cursor = found.cursor if found else None
    if gates is not None:
        before = gates.take_up(database, name, source)
        cursor = cursor if found else before
        if gates.is_full and found is None:
            return _nothing_new(database, request, started)
    try:
        return _read(database, request, settings, found, cursor, limits, started, progress)
    except NothingNew:
        return _nothing_new(database, request, started)


def _read(
    database: Database,
    request: Request,
    settings: dict[str, Any] | None,
    found: Unfinished | None,
    cursor: Any,
    limits: Limits | None,
    started: float,
    progress: Progress | None,
) -> IngestReport:
    source = request.source
    with database.frugal(_MEMORY), closing(Reader.within(limits or Limits())) as reader:
        if isinstance(source, ResumableSource) and settings is not None:
            rows = source.open_at(reader, cursor)
            return _InPieces(database, request, rows, settings, found).run(started, progress)
        rows = source.open(reader)
        with closing(ahead(rows.batches)) as items, database.transaction():
            under_way = Storing(database, request, rows, current_version(database) + 1)
            under_way.store_all(items, progress)
            report = under_way.finish(started)
        if under_way.refusal is not None:
            raise under_way.refusal
        return report


def _as_known(
    database: Database, source: Source, name: str, *, remap: bool
) -> tuple[Source, tuple[str, ...]]:
    """Return a source as it is to be read under its name, and what is to be said of that.

    Raises:
        SourceError: It was read otherwise before, and is not to be mapped anew.
    """
    known = [row for row in database.run("ingest/records/live_sources") if row[1] == name]
    if not known:
        return as_before(source, {}), ()
    _, _, kind, uri, _, _, text = known[0]
    place = Stored(database.path, "sources", f"source {name!r}")
    stored = None if text is None else dict(place.read("mapping", text, {str: object}))
    source = as_before(source, {} if remap else stored)
    now = described(source)
    notes = []
    if (kind, uri) != (source.kind, source.uri):
        notes.append(f"read from {_place(source.kind, source.uri)} now, before {_place(kind, uri)}")
    if now is None or now == stored:
        return source, tuple(notes)
    if remap:
        notes.append(f"read as {written(now)} now, before {_written(stored)}")
    elif stored is None:
        notes.append(
            f"an earlier version did not note how this source was read; it is taken to be "
            f"{written(now)}{_AS_BEFORE * (now.get('text_of') == EARLIER)}"
        )
    else:
        raise SourceError(
            f"source {name!r} is known with another mapping: {written(stored)}; now it is "
            f"{written(now)}. Reading it so would add its rows a second time: remap=True replaces "
            f"its records, and another name= makes it a source of its own"
        )
    return source, tuple(notes)


_AS_BEFORE = (
    ": what is no text is taken as its JSON, as it was then; remap=True reads it by today's rule"
)


def _place(kind: str, uri: str | None) -> str:
    return shown(uri or "nowhere in particular") + f" ({shown(kind)})"


def _written(stored: dict[str, Any] | None) -> str:
    return "an earlier version did not note how" if stored is None else written(stored)


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

    def run(self, started: float, progress: Progress | None) -> IngestReport:
        """Store everything up to the end of the source; return the report of the whole ingest."""
        try:
            with closing(ahead(self.rows.batches)) as items:
                with self.database.transaction():
                    under_way = self._begin()
                return self._store(under_way, items, started, progress)
        except BaseException:  # Ctrl-C too
            found = unfinished.find(self.database, self.request.name)
            if found is not None and not found.counts.get(_kept(found)):  # nothing to go on with
                unfinished.discard(self.database, found)
            raise

    def _store(
        self,
        under_way: Storing,
        items: Iterator[pa.RecordBatch | Mark],
        started: float,
        progress: Progress | None,
    ) -> IngestReport:
        while True:
            with self.database.transaction():
                mark = self._store_until_mark(under_way, items, progress)
                if mark is None:  # the rows since the last mark, published with the others
                    report = under_way.finish(started)
                    break
                if self.request.gates is not None:
                    self.request.gates.save()
                counts = under_way.counts.to_json()
                unfinished.save(self.database, self.request.name, mark.cursor, counts)
        if under_way.refusal is not None:
            raise under_way.refusal
        return report

    def _begin(self) -> Storing:
        """Return an ingest that goes on where the last one stopped, or a new one."""
        if self.found is None:
            under_way = Storing(self.database, self.request, self.rows, UNPUBLISHED)
            unfinished.begin(self.database, self.request.name, under_way.source_id, self.settings)
            return under_way
        trust = self.database.run("ingest/unfinished/trust", {"source_id": self.found.source_id})[
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
        progress: Progress | None,
    ) -> Mark | None:
        """Store batches up to a mark that is worth a commit; None at the end of the source."""
        before, started = under_way.counts.read, time.monotonic()
        if under_way.is_full:
            return None
        for item in items:
            if not isinstance(item, Mark):
                under_way.store(item, progress)
                if under_way.is_full:
                    return None
                continue
            if self.request.gates is not None:
                self.request.gates.at(item.cursor)
            long_ago = time.monotonic() - started >= _SECONDS_A_COMMIT
            if long_ago or under_way.counts.read - before >= _ROWS_A_COMMIT:
                return item
        return None


def _settings_of(source: ResumableSource, request: Request) -> dict[str, Any]:
    """Return what must agree for an unfinished ingest to go on, as plain JSON values."""
    found = {
        "kind": source.kind,
        "uri": source.uri,
        "trust": request.trust,
        "source": source.settings(),
    }
    if request.gates is not None:
        found |= request.gates.settings()
    try:
        return dict(json.loads(json.dumps(found)))
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"source {request.name!r}: its settings() are not plain JSON values: {error}"
        ) from error


def _is_nothing(found: Unfinished, settings: dict[str, Any] | None) -> bool:
    return not found.counts.get(_kept(found)) and found.settings != settings


def _kept(found: Unfinished) -> str:
    """Return the count of what an ingest has stored: gates note every row that is read."""
    return "read" if "quality" in found.settings else "added"


def _in_rows(source: Source, on_conflict: OnConflict) -> Source:
    """Return a source that goes on at a row, if it can be read again, for gates."""
    if on_conflict == "replace":
        raise SourceError(
            "quality=, where=, size_mb= and limit= do not go with on_conflict='replace' or "
            "remap=True: a row that was judged is not judged again; remove() the source and read "
            "it anew, or give on_conflict='skip'"
        )
    return source if isinstance(source, ResumableSource) else in_pieces(source)


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


def _refuse_another(found: Unfinished, settings: dict[str, Any] | None) -> None:
    """Refuse to begin an ingest where another one of that name has not ended."""
    if settings == found.settings:
        return
    where = found.settings["uri"] or f"a source of kind {found.settings['kind']}"
    differ = ""
    if settings is not None and settings["uri"] == found.settings["uri"]:
        gated = "quality" in settings and "quality" in found.settings
        names = unfinished.differing(settings, found.settings, inner=gated)
        differ = f" with another {' and '.join(names)}"
    raise SourceError(
        f"source {found.name!r} has an unfinished ingest from {where}{differ}, stopped at "
        f"{found.saved_at} UTC after {counted(found.counts.get('read', 0), 'row')}; run that one "
        f"again to go on, or discard it with restart=True"
    )


def _checked_trust(trust: Any) -> float | None:
    if trust is None:
        return None
    if isinstance(trust, bool) or not isinstance(trust, int | float) or not 0 <= trust <= 1:
        raise SourceError(f"trust={trust!r}: give a number from 0 to 1")
    return float(trust)
