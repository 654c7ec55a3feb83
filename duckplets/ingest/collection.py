"""Ingest collections: documents, queries and labels, published together.

labels ─read, checked→ temporary tables ────────────────────────────────┐
documents ─stored, unpublished→ queries ─stored→ one transaction: splits, both sources, labels

Labels are read first, since a wrong file should fail before hours of documents. An
interrupted ingest continues with its documents and queries, as for any source.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import counted, shown
from duckplets.db.database import Database
from duckplets.engine.work import QUIET, Work
from duckplets.errors import DuckpletsError, SourceError
from duckplets.ingest import checkpoint
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.ingest.ingest import ingest_all
from duckplets.ingest.outcome_counts import EXAMPLES, Counts
from duckplets.ingest.prepare import prepare
from duckplets.ingest.records import IngestReport
from duckplets.ingest.store import Storing
from duckplets.sources.collection import Collection, CollectionPart, Parts, RawTable
from duckplets.sources.layouts import QUERY_IDS, Grades, Lists, Said, plain_name, plain_names
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.rows import RowBlock
from duckplets.sources.values import Fault, document

_BLOCK = 65_536  # labels stored together
_ADD_LABELS = "ingest/collection/add_labels"
_ADD_CANDIDATES = "ingest/collection/add_candidates"
_ADD_FAILED = "ingest/collection/add_failed"
_PAIR = [("query", pa.string()), ("document", pa.string())]
_CANDIDATES = pa.schema([*_PAIR, ("score", pa.float64())])
_PLACE = [("file", pa.string()), *((name, pa.int64()) for name in ("line", "row", "place"))]
_LABELS = pa.schema([*_PAIR, ("label", pa.float64()), ("split", pa.string()), *_PLACE])
_FAILED = pa.schema([("reason", pa.string()), ("document", pa.string()), *_PLACE[:3]])
REPEATED, SAME = "repeated", "same label"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class CollectionReport(IngestReport):
    """Report of the ingest of a collection; its own counts are the sums of its parts.

    Attributes:
        source: Name of the source of queries.
        documents: Report of the documents; None if a source of the corpus has them.
        queries: Report of the queries.
        labels: Report of the labels. ``reasons`` has labels that were stored already, and labels
            that a file repeats. ``incomplete`` has labels without a record: they are stored, and
            wait for it.
        withdrawn: Labels of an earlier ingest that the files no longer have: they say nothing now.
        by_label: Labels by value.
        by_split: Queries of the source by split; ``none`` without one.
        labelled: Documents with a label.
        unlabelled: Documents without one.
    """

    source: str
    documents: IngestReport | None
    queries: IngestReport
    labels: IngestReport
    withdrawn: int = 0
    by_label: dict[str, int] = field(default_factory=dict)
    by_split: dict[str, int] = field(default_factory=dict)
    labelled: int = 0
    unlabelled: int = 0

    def __str__(self) -> str:
        """Say in lines what became of every part."""
        lines = [f"{name}: {part}" for name, part in self.parts.items()]
        for part, counts in (("labels", self.by_label), ("queries", self.by_split)):
            text = ", ".join(f"{name}: {n:,}" for name, n in counts.items())
            lines += [f"{part} by {'value' if part == 'labels' else 'split'}: {text}"] * bool(text)
        if self.withdrawn:
            lines.append(f"labels withdrawn, as the files no longer have them: {self.withdrawn:,}")
        lines.append(f"documents with a label: {self.labelled:,}, without: {self.unlabelled:,}")
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__

    @property
    def parts(self) -> dict[str, IngestReport]:
        """The reports of the parts, by name."""
        named = {documents_name(self.source): self.documents, self.source: self.queries}
        named[f"{self.source} labels"] = self.labels
        return {name: part for name, part in named.items() if part is not None}


def documents_name(name: str) -> str:
    """Return the name of the documents of a collection."""
    return f"{name}.documents"


def ingest_collection(
    database: Database,
    collection: Collection,
    *,
    name: str | None = None,
    limits: Limits | None = None,
    work: Work = QUIET,
    keep: Callable[[str, pa.Table], str],
    **asked: Any,
) -> CollectionReport:
    """Store a collection, whole or not at all; ``asked`` are arguments of ``prepare``.

    ``keep`` keeps candidates of the source, as ``add_negatives`` takes them, and returns a note.
    """
    limits = limits or Limits()
    known = {row[1]: row[0] for row in database.run("ingest/records/live_sources")}
    parts = collection.parts(limits, known.keys())
    name = parts.name if name is None else name
    several = {name: parts.queries}
    if isinstance(parts.documents, CollectionPart):
        several = {documents_name(name): parts.documents, **several}
    else:
        _check_documents(database, parts.documents)
    ready = [
        prepare(database, source, name=own, limits=limits, **asked)
        for own, source in several.items()
    ]
    publishing = _Publishing(database, name, parts, known, asked.get("on_conflict", "error"))
    try:
        publishing.read_labels(limits, asked.get("on_error"))
        stored = ingest_all(database, ready, work, readers=1, retries=0, last=publishing.last)
        with closing(stored) as each:
            for _, ended in each:
                if isinstance(ended, DuckpletsError):
                    raise ended
                queries = ended  # the last
        report = publishing.report(queries)
        candidates = database.table("ingest/collection/candidates", publishing.names)
        if len(candidates):
            report.notes.append(keep(name, candidates))
        return report
    except BaseException:  # what cannot continue
        checkpoint.sweep(database)
        raise
    finally:
        database.run("ingest/collection/drop")


def _check_documents(database: Database, name: str) -> None:
    """Refuse documents whose records have splits."""
    found = [row[0] for row in database.run("ingest/collection/splits_of", {"source": name})]
    if found:
        text = " and ".join([", ".join(found[:-1]), found[-1]] if found[1:] else found)
        raise SourceError(
            f"{shown(name, 60)} has records of {text}; documents belong to every split: read them "
            f"as a source of their own"
        )


class _Publishing:
    """Labels that wait for their records, and the transaction that publishes all."""

    def __init__(
        self, database: Database, name: str, parts: Parts, known: dict[str, int], on_conflict: str
    ) -> None:
        self._database, self._name, self._parts = database, name, parts
        self._known, self._on_conflict = known, on_conflict
        self._started = time.monotonic()
        is_known = isinstance(parts.documents, str)
        self._documents = str(parts.documents) if is_known else documents_name(name)
        self.names = {"source": name, "documents": self._documents}
        self._held: Storing | None = None  # the documents, unpublished
        self._of_documents: IngestReport | None = None
        self._counts, self._place = Counts(), 0
        self._reported: dict[str, Any] = {}

    # -- before the records ------------------------------------------------------------------------

    def read_labels(self, limits: Limits, on_error: str | None) -> None:
        """Put labels and candidates into temporary tables; refuse two labels of a pair."""
        self._database.run("ingest/collection/create")
        self._place = 0
        for table, layout in self._parts.labels:
            with closing(FileReader.within(limits)) as reader:
                self._read(table, layout, reader, on_error)
        found = self._database.run("ingest/collection/conflict")
        if found and self._on_conflict == "error":
            query, document, *both = found[0]
            one, other = (f"{label:g} in {_at(*at)}" for label, *at in (both[:3], both[3:]))
            raise SourceError(
                f"query {shown(repr(query), 40)} and document {shown(repr(document), 40)} have the "
                f"labels {one} and {other}; on_conflict='replace' takes the last"
            )

    def _read(
        self, table: RawTable, layout: Grades | Lists, reader: FileReader, on_error: str | None
    ) -> None:
        waiting = _Waiting(self._database)
        blocks: Any = table.blocks(reader).batches
        row = 0
        try:
            for block in blocks:
                pairs = _columns(block, layout)
                if pairs is None:
                    self._take(block, row, table, layout, waiting, on_error)
                elif isinstance(layout, Grades) and layout.are_scores:
                    waiting.add(_ADD_CANDIDATES, pa.table(pairs, _CANDIDATES))
                else:
                    count = len(block.rows)
                    each = np.arange(1, count + 1)
                    places = [block.file or table.where] * count, block.lines or [None] * count
                    values = [table.split] * count, *places, row + each, self._place + each
                    others = map(pa.array, values, _LABELS.types[3:])
                    waiting.add(_ADD_LABELS, pa.table([*pairs, *others], _LABELS))
                    self._place += count
                row += len(block.rows)
        finally:
            getattr(blocks, "stop", getattr(blocks, "close", lambda: None))()
        waiting.flush()

    def _take(
        self,
        block: RowBlock,
        row: int,
        table: RawTable,
        layout: Grades | Lists,
        waiting: _Waiting,
        on_error: str | None,
    ) -> None:
        """Take the pairs of rows one by one, where a row may have several or none."""
        labels, candidates, failed = list[Any](), list[Any](), dict[int, Any]()
        for at, said in _said(block, layout):
            line = block.lines[at] if block.lines else None
            place = block.file or table.where, line, row + at + 1
            number = _number(said)
            if number is None or isinstance(said, Fault):
                reason = self._fail(said, place, on_error)
                if on_error == "quarantine":
                    failed.setdefault(at, (reason, _whole(block, at), *place))
            elif said.label is None:
                candidates.append((said.query, said.document, number))
            else:
                self._place += 1
                pair = said.query, said.document, number, table.split
                labels.append((*pair, *place, self._place))
        waiting.add(_ADD_LABELS, _table(labels, _LABELS))
        waiting.add(_ADD_CANDIDATES, _table(candidates, _CANDIDATES))
        waiting.add(_ADD_FAILED, _table([*failed.values()], _FAILED))

    def _fail(self, said: Said | Fault, place: tuple[str, Any, int], on_error: str | None) -> str:
        """Count a row with a part that cannot be stored; return why."""
        file, line, row = place
        reason, value = ("invalid row: no id", None)
        if isinstance(said, Fault):
            reason, value = said.reason, said.value
        elif said.query and said.document:
            reason = "unreadable label" if said.score is None else "invalid score"
            value = shown(repr(said.label if said.score is None else said.score), 60)
        detail = f": {value}" if value else ""
        if on_error == "raise":
            at = f"{_at(file, line)}{f', row {row}' if line is None else ''}"
            raise SourceError(f"{at}: {reason}{detail}")
        self._counts.read += 1
        self._counts.reasons[reason] += 1
        examples = self._counts.examples[reason]
        if len(examples) < EXAMPLES:
            examples.append({"row": row, "file": file, "line": line, "value": value})
        return f"{reason}{detail}"

    # -- the transactions --------------------------------------------------------------------------

    def last(self, storing: Storing, started: float) -> IngestReport:
        """End documents unpublished, and queries with all."""
        if storing.prepared.name != self._name:
            storing.refuse_nothing()
            if storing.refusal is not None:
                raise storing.refusal
            storing.save()
            self._held, self._began = storing, started
            return IngestReport(read=0, added=0, skipped=0, failed=0, seconds=0.0)  # of no use
        return self._publish(storing, started)

    def _publish(self, storing: Storing, started: float) -> IngestReport:
        database, held = self._database, self._held
        source = {"source": self._name, "source_id": storing.source_id}
        documents_id = self._known[self._documents] if held is None else held.source_id
        asked = {"source_id": storing.source_id, "documents_id": documents_id}
        database.run("ingest/collection/set_documents", asked)
        # Before anything is published, which gives a split to all that have none.
        database.run("ingest/collection/give_splits", source | {"unpublished": UNPUBLISHED})
        if held is None:
            database.run("ingest/splits/documents", {"first_record_key": 0})
        else:
            self._of_documents = held.finish(self._began)
        report = storing.finish(started)
        self._store_labels(source | {"version": report.version})
        return report

    def _store_labels(self, source: dict[str, Any]) -> None:
        database, documents = self._database, self._parts.documents
        blank = sorted(documents.blank) if isinstance(documents, CollectionPart) else []
        with database.registered(blank=pa.table({"id": pa.array(blank, pa.string())})):
            first = self._on_conflict == "skip"
            database.run("ingest/collection/find", self.names | {"first": first})
        read, same, added, *known = database.run("ingest/collection/fates")[0]
        lacks = database.run("ingest/collection/lacks")
        for side, there in zip(("query", "document"), known, strict=True):
            if read and not there:
                self._refuse(side, lacks)
        moved = withdrawn = 0
        if self._parts.labels:
            by_source = {name: source[name] for name in ("source", "source_id")}
            moved = int(database.run("ingest/collection/move_queries", by_source)[0][0])
            withdrawn = int(database.run("ingest/collection/withdraw", source)[0][0])
            database.run("ingest/collection/append", {"version": source["version"]})
        by_name = {"source": self._name, "version": source["version"]}
        database.run("ingest/collection/quarantine", by_name)
        if moved:
            database.run("ingest/records/rearranged")
        counts = self._counts
        counts.read += read
        counts.added = added
        counts.reasons += Counter({SAME: same, REPEATED: read - same - added})
        for lack, times, row, file, line, value in lacks:
            counts.incomplete[lack] = times
            place = {"row": row, "file": file, "line": line, "value": value}
            counts.examples[lack].append(place)
        self._report(moved, withdrawn)

    def _refuse(self, side: str, lacks: list[Any]) -> None:
        """Refuse labels that name no record."""
        found = [each for each in lacks if each[0] == f"unknown {side}"] or lacks
        source = self.names["source" if side == "query" else "documents"]
        example = self._database.run("ingest/collection/example", {"source": source})
        like = f", ids in the corpus look like {shown(repr(example[0][0]), 40)}" if example else ""
        raise SourceError(
            f"no row of {shown(found[0][3], 80)} names a {side}; its first is "
            f"{shown(repr(found[0][5]), 40)}{like}"
        )

    # -- the report --------------------------------------------------------------------------------

    def _report(self, moved: int, withdrawn: int) -> None:
        database, source = self._database, {"source": self._name}
        about = database.run("ingest/collection/about", self.names)[0]
        labelled, documents, unlabelled, several, leaks = about
        texts = {
            "without a label: {}": unlabelled,
            "with labels in several splits, of the most held out now: {}": several,
            "look: in validation or test and with the text of one of train: {}": leaks,
            "moved to the split that their labels now have: {}": moved,
        }
        self._reported = {
            "by_label": {f"{v:g}": n for v, n in database.run("ingest/collection/by_label")},
            "by_split": dict(database.run("ingest/collection/by_split", source)),
            "withdrawn": withdrawn,
            "labelled": labelled,
            "unlabelled": documents - labelled,
            "notes": [t.format(counted(n, "query", "queries")) for t, n in texts.items() if n],
        }

    def report(self, queries: IngestReport) -> CollectionReport:
        """Return the report, after the commit."""
        counts, seconds = self._counts, round(time.monotonic() - self._started, 3)
        failed = counts.failed()
        labels = IngestReport(
            read=counts.read,
            added=counts.added,
            skipped=counts.read - counts.added - failed,
            failed=failed,
            seconds=seconds,
            version=queries.version,
            **counts.report(),
        )
        each = [part for part in (self._of_documents, queries, labels) if part is not None]
        sums = {
            name: sum(getattr(part, name) for part in each)
            for name in ("read", "added", "skipped", "failed", "replaced", "removed")
        }
        return CollectionReport(
            **sums,
            seconds=seconds,
            version=queries.version,
            source=self._name,
            documents=self._of_documents,
            queries=queries,
            labels=labels,
            **self._reported,
        )


class _Waiting:
    """Rows that are stored some thousands at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tables = defaultdict[str, list[pa.Table]](list)

    def add(self, statement: str, rows: pa.Table) -> None:
        """Add rows for a statement."""
        if len(rows):
            self._tables[statement].append(rows)
            if sum(map(len, self._tables[statement])) >= _BLOCK:
                self._store(statement)

    def flush(self) -> None:
        """Store what is left."""
        for statement in [*self._tables]:
            self._store(statement)

    def _store(self, statement: str) -> None:
        with self._database.registered(incoming=pa.concat_tables(self._tables.pop(statement))):
            self._database.run(statement)


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([*map(pa.array, columns, schema.types)], schema)


def _columns(block: RowBlock, layout: Grades | Lists) -> list[pa.Array] | None:
    """Return query, document and number of a block; None if it has lists, or an odd row."""
    rows = block.rows
    if not (rows and isinstance(layout, Grades)) or not all(
        type(row) is dict and row.keys() == rows[0].keys() for row in rows
    ):
        return None
    key_of = {plain_name(str(name)): name for name in rows[0]}
    query = next((name for name in QUERY_IDS if name in key_of), None)
    if query is None or not {layout.document, layout.number} <= key_of.keys():
        return None
    try:
        query, document, number = (
            pa.array([row[key_of[name]] for row in rows])
            for name in (query, layout.document, layout.number)
        )
        number = number.cast(pa.float64())
        ids = [_ids(query), _ids(document)]
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    if None in ids or number.null_count or not pc.all(pc.is_finite(number)).as_py():
        return None
    return [*ids, number]


def _ids(values: pa.Array) -> pa.Array | None:
    """Return ids as texts; None if one is none."""
    if pa.types.is_integer(values.type):
        values = values.cast(pa.string())
    if values.type != pa.string() or values.null_count:
        return None
    blank = pc.equal(pc.utf8_trim_whitespace(values), "")
    return None if pc.any(blank).as_py() else values


def _whole(block: RowBlock, at: int) -> str | None:
    """Return a row as it came."""
    row = block.rows[at]
    if isinstance(row, Fault):
        return row.whole
    return block.raw[at].rstrip("\r\n") if block.raw else document(row)


def _said(block: RowBlock, layout: Grades | Lists) -> Iterator[tuple[int, Said | Fault]]:
    """Yield what the rows of a block say, each with its place in the block."""
    for at, row in enumerate(block.rows):
        if isinstance(row, dict):
            for said in layout.said(plain_names(row)):
                yield at, said
        elif row is not None:
            yield at, row


def _number(said: Said | Fault) -> float | None:
    """Return the label or the score of a pair, if it has both ids and a finite number."""
    if isinstance(said, Fault) or not (said.query and said.document):
        return None
    try:
        found = float(said.score if said.label is None else said.label)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _at(file: str | None, line: Any) -> str:
    return f"{shown(file or 'a table', 60)}{'' if line is None else f', line {line}'}"
