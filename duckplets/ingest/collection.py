"""Ingest collections: documents, queries and labels, published together.

labels ─read, checked→ temporary tables ────────────────────────────────┐
documents ─stored, unpublished→ queries ─stored→ one transaction: splits, both sources, labels

Labels are read first, since a wrong file should fail before hours of documents. What an interrupted
ingest has stored of documents and queries continues as that of any source.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckplets.base.sanitize import counted, shown
from duckplets.db.database import Database
from duckplets.engine.work import QUIET, Work
from duckplets.errors import DuckpletsError, SourceError
from duckplets.ingest import checkpoint
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.ingest.ingest import ingest_all
from duckplets.ingest.outcome_counts import EXAMPLES
from duckplets.ingest.prepare import prepare
from duckplets.ingest.records import Example, IngestReport
from duckplets.ingest.store import Storing
from duckplets.sources.collection import (
    Collection,
    CollectionPart,
    Parts,
    RawTable,
    Said,
    plain_names,
)
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.rows import RowBlock
from duckplets.sources.values import Fault

if TYPE_CHECKING:
    from duckplets.sources.collection import Grades, Lists

_BLOCK = 65_536  # labels stored together
_TEXTS = {"query": pa.string(), "document": pa.string()}
_LABELS = {**_TEXTS, "label": pa.float64(), "split": pa.string(), "file": pa.string()}
_LABELS |= {"line": pa.int64(), "row": pa.int64(), "place": pa.int64()}
_CANDIDATES = {**_TEXTS, "score": pa.float64()}
REPEATED, SAME = "repeated", "same label"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class CollectionReport(IngestReport):
    """What an ingest of a collection did; its own counts are the sums of its parts.

    Attributes:
        source: Name of the source of queries.
        documents: What became of the documents; None where a source of the corpus has them.
        queries: What became of the queries.
        labels: What became of the labels. ``reasons`` has those that were there already and those
            that a file repeats, ``incomplete`` those without a record: they are stored and wait for
            it.
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
        for what, counts in (("labels", self.by_label), ("queries", self.by_split)):
            told = ", ".join(f"{name}: {n:,}" for name, n in counts.items())
            lines += [f"{what} by {'value' if what == 'labels' else 'split'}: {told}"] * bool(told)
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
        told = " and ".join([", ".join(found[:-1]), found[-1]] if found[1:] else found)
        raise SourceError(
            f"{shown(name, 60)} has records of {told}; documents belong to every split: read them "
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
        self._labels = IngestReport(read=0, added=0, skipped=0, failed=0, seconds=0.0)
        self._told: dict[str, Any] = {}
        self._reasons = Counter[str]()
        self._examples: dict[str, list[Example]] = {}
        self._failed = 0

    # -- before the records ------------------------------------------------------------------------

    def read_labels(self, limits: Limits, on_error: str | None) -> None:
        """Put labels and candidates into temporary tables.

        Raises:
            SourceError: A label is wrong and ``on_error`` is ``raise``, or two of a pair differ.
        """
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
        waiting: tuple[list[Any], list[Any]] = [], []
        blocks: Any = table.blocks(reader).batches
        row = 0
        try:
            for block in blocks:
                for at, said in _said(block, layout):
                    place = {"file": block.file or table.where, "row": row + at + 1}
                    place["line"] = block.lines[at] if block.lines else None
                    number = None if isinstance(said, Fault) else _number(said)
                    if isinstance(said, Fault) or number is None or not said.document:
                        self._fail(said, place, on_error)
                    elif said.label is None:
                        waiting[1].append((said.query, said.document, number))
                    else:
                        self._place += 1
                        pair = said.query, said.document, number, table.split
                        waiting[0].append((*pair, *_of(place, "file", "line", "row"), self._place))
                row += len(block.rows)
                self._add(waiting, _BLOCK)
        finally:
            getattr(blocks, "stop", getattr(blocks, "close", lambda: None))()
        self._add(waiting, 1)

    def _add(self, waiting: tuple[list[Any], list[Any]], least: int) -> None:
        kinds = (
            ("ingest/collection/add_labels", _LABELS),
            ("ingest/collection/add_candidates", _CANDIDATES),
        )
        for rows, (statement, names) in zip(waiting, kinds, strict=True):
            if len(rows) >= least:
                columns = zip(*rows, strict=True)
                table = {
                    n: pa.array(of, k) for (n, k), of in zip(names.items(), columns, strict=True)
                }
                with self._database.registered(incoming=pa.table(table)):
                    self._database.run(statement)
                rows.clear()

    def _fail(self, said: Said | Fault, place: dict[str, Any], on_error: str | None) -> None:
        """Count a row of which nothing can be stored."""
        if isinstance(said, Fault):
            reason, value = said.reason, said.value
        elif not said.query or not said.document:
            reason, value = f"label without {'document' if said.query else 'query'}", None
        else:
            what = "score" if said.label is None else "label"
            reason = f"unreadable {what}"
            value = shown(repr(said.score if said.label is None else said.label), 60)
        if on_error == "raise":
            told = f": {value}" if value else ""
            raise SourceError(
                f"{_at(place['file'], place['line'] or place['row'])}: {reason}{told}"
            )
        self._failed += 1
        self._reasons[reason] += 1
        kept = self._examples.setdefault(reason, [])
        if len(kept) < EXAMPLES:
            kept.append({**place, "value": value})

    # -- the transactions --------------------------------------------------------------------------

    def last(self, storing: Storing, started: float) -> IngestReport:
        """End documents unpublished, and queries with all."""
        if storing.prepared.name != self._name:
            storing.refuse_nothing()
            if storing.refusal is not None:
                raise storing.refusal
            storing.save()
            self._held, self._began = storing, started
            return self._labels
        return self._publish(storing, started)

    def _publish(self, storing: Storing, started: float) -> IngestReport:
        database, held = self._database, self._held
        of = {"source": self._name, "source_id": storing.source_id}
        documents_id = self._known[self._documents] if held is None else held.source_id
        asked = {"source_id": storing.source_id, "documents_id": documents_id}
        database.run("ingest/collection/set_documents", asked)
        # Before anything is published, which gives a split to all that have none.
        database.run("ingest/collection/give_splits", of | {"unpublished": UNPUBLISHED})
        if held is None:
            database.run("ingest/splits/every", {"first_record_key": 0})
        else:
            self._of_documents = held.finish(self._began)
        report = storing.finish(started)
        self._store_labels(of | {"version": report.version})
        return report

    def _store_labels(self, of: dict[str, Any]) -> None:
        database, documents = self._database, self._parts.documents
        names = self.names
        blank = sorted(documents.blank) if isinstance(documents, CollectionPart) else []
        with database.registered(blank=pa.table({"id": pa.array(blank, pa.string())})):
            first = self._on_conflict == "skip"
            database.run("ingest/collection/find", names | {"first": first})
        read, same, added, *known = database.run("ingest/collection/fates")[0]
        for what, name, there in zip(names, names.values(), known, strict=True):
            if read and not there:
                self._refuse("query" if what == "source" else "document", name)
        moved = removed = 0
        if self._parts.labels:
            by_source = {name: of[name] for name in ("source", "source_id")}
            moved = int(database.run("ingest/collection/move_queries", by_source)[0][0])
            removed = int(database.run("ingest/collection/withdraw", of)[0][0])
            database.run("ingest/collection/append", {"version": of["version"]})
        if moved:
            database.run("ingest/records/rearranged")
        self._report_labels(int(read), int(same), int(added), of["version"])
        self._report(names, moved, removed)

    def _refuse(self, what: str, source: str) -> None:
        """Refuse labels none of which names a record."""
        lacks = self._database.run("ingest/collection/lacks")
        of_what = {"query": "unknown query", "document": "unknown document"}[what]
        _, _, _, file, _, value = next((r for r in lacks if r[0] == of_what), lacks[0])
        example = self._database.run("ingest/collection/example", {"source": source})
        like = f", ids like {shown(repr(example[0][0]), 40)}" if example else ""
        raise SourceError(
            f"no row of {shown(file, 80)} names a {what}; its first is {shown(repr(value), 40)}, "
            f"{'queries' if what == 'query' else 'documents'} have{like.removeprefix(',')}"
        )

    # -- the report --------------------------------------------------------------------------------

    def _report_labels(self, read: int, same: int, added: int, version: int) -> None:
        self._reasons += Counter({SAME: same, REPEATED: read - same - added})
        incomplete = dict[str, int]()
        for lack, times, row, file, line, value in self._database.run("ingest/collection/lacks"):
            incomplete[lack] = times
            place = {"row": row, "file": file, "line": line, "value": value}
            self._examples.setdefault(lack, []).append(place)
        self._labels = replace(
            self._labels,
            read=read + self._failed,
            added=added,
            skipped=read - added,
            failed=self._failed,
            reasons=dict(+self._reasons),
            examples=self._examples,
            incomplete=incomplete,
            version=version,
            seconds=round(time.monotonic() - self._started, 3),
        )

    def _report(self, names: dict[str, Any], moved: int, withdrawn: int) -> None:
        database, source = self._database, {"source": self._name}
        labelled, documents, unlabelled, several = database.run("ingest/collection/about", names)[0]
        leaks = database.run("ingest/collection/leaks", source)[0][0]
        told = {
            "without a label: {}": unlabelled,
            "with labels in several splits, of the most held out now: {}": several,
            "look: in validation or test and with the text of one of train: {}": leaks,
            "moved to the split that their labels now have: {}": moved,
        }
        self._told = {
            "by_label": {f"{v:g}": n for v, n in database.run("ingest/collection/by_label")},
            "by_split": dict(database.run("ingest/collection/by_split", source)),
            "withdrawn": withdrawn,
            "labelled": labelled,
            "unlabelled": documents - labelled,
            "notes": [text.format(counted(n, "query", "queries")) for text, n in told.items() if n],
        }

    def report(self, queries: IngestReport) -> CollectionReport:
        """Return the report, after the commit."""
        each = [part for part in (self._of_documents, queries, self._labels) if part is not None]
        sums = {
            name: sum(getattr(part, name) for part in each)
            for name in ("read", "added", "skipped", "failed", "replaced", "removed")
        }
        return CollectionReport(
            **sums,
            seconds=round(time.monotonic() - self._started, 3),
            version=queries.version,
            source=self._name,
            documents=self._of_documents,
            queries=queries,
            labels=self._labels,
            **self._told,
        )


def _said(block: RowBlock, layout: Grades | Lists) -> Iterator[tuple[int, Said | Fault]]:
    """Yield what the rows of a block say, each with its place in the block."""
    for at, row in enumerate(block.rows):
        if isinstance(row, dict):
            for said in layout.said(plain_names(row)):
                yield at, said
        elif row is not None:
            yield at, row


def _number(said: Said) -> float | None:
    """Return the label or the score of a pair, if it is a finite number."""
    value = said.score if said.label is None else said.label
    if not said.query or isinstance(value, bool) or value is None:
        return float(value) if isinstance(value, bool) and said.query else None
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _of(values: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(values[name] for name in names)


def _at(file: str | None, line: Any) -> str:
    return f"{shown(file or 'a table', 60)}{'' if line is None else f', line {line}'}"
