"""Write a collection as it came, in BEIR's layout: documents, queries and labels of each split.

documents ─→ corpus.jsonl, queries ─→ queries.jsonl, labels ─by split→ qrels/SPLIT.tsv
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.engine.work import Work
from duckplets.export.examples import ExportTally
from duckplets.export.files import beir_id, json_lines
from duckplets.ingest.splits import checked_split
from duckplets.pools.read import labels_of
from duckplets.recipes import store as recipe_store

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
_FILE_OF = {"validation": "dev"}  # as BEIR calls it
_BLOCK = 4096


def collection_of(database: Database, source: str | None, version: int) -> tuple[str, str] | None:
    """Return the sources of queries and documents that an export is of.

    None for a source without documents, and without one where the corpus holds more than one.
    """
    documents = labels_of(database, version).documents
    if source is None:
        every = recipe_store.sources_of(database, version)
        asking = [name for name, of in every.items() if not of.are_documents]
        source = asking[0] if len(asking) == 1 else None
    if source is None or source not in documents:
        return None
    return source, documents[source]


def write(
    database: Database,
    of: tuple[str, str],
    path: Path,
    *,
    split: str | None,
    version: int,
    work: Work,
) -> ExportTally:
    """Write the folder; a split limits queries and labels, not documents."""
    source, documents = of
    asked = {"source": source, "split": split, "version": version}
    tally = ExportTally()
    rows = _rows(database, "documents", {"documents": documents, "version": version})
    json_lines(path / CORPUS, map(_document, rows))

    def queries() -> Iterator[dict[str, Any]]:
        for row in _rows(database, "queries", asked):
            tally.anchors += 1
            work.tell(tally.anchors, tally.anchors)
            yield {"_id": beir_id(row["id"]), "text": row["text"]}

    json_lines(path / QUERIES, queries())
    (path / "qrels").mkdir()
    labels = _rows(database, "labels", {"source": source, "split": split})
    for of_split, found in groupby(labels, key=lambda row: row["split"]):
        name = _FILE_OF.get(of_split, of_split or "none")
        with (path / "qrels" / f"{name}.tsv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
            writer.writerow(("query-id", "corpus-id", "score"))
            for row in found:
                ids = beir_id(row["query_id"]), beir_id(row["document_id"])
                writer.writerow((*ids, _plain(row["label"])))
                tally.rows += 1
    return tally


def judged(
    database: Database, of: tuple[str, str], split: str, version: int
) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, float]]]:
    """Return the queries of a split that have a positive, all documents, and labels, by id."""
    source, documents = of
    asked = {"source": source, "split": checked_split(split), "version": version}
    texts = _rows(database, "documents", {"documents": documents, "version": version})
    found = {row["id"]: " ".join(filter(None, (row["title"], row["text"]))) for row in texts}
    gains = dict[str, dict[str, float]]()
    for row in _rows(database, "labels", {"source": source, "split": split}):
        if row["document_id"] in found:
            gains.setdefault(row["query_id"], {})[row["document_id"]] = row["label"]
    gains = {name: own for name, own in gains.items() if max(own.values()) >= 1}
    rows = _rows(database, "queries", asked)
    queries = {row["id"]: row["text"] for row in rows if row["id"] in gains}
    return queries, found, {name: own for name, own in gains.items() if name in queries}


def _rows(database: Database, name: str, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for batch in database.stream(query(f"export/collection/{name}"), asked, rows=_BLOCK):
        yield from batch.to_pylist()


def _document(row: dict[str, Any]) -> dict[str, Any]:
    made = {"_id": beir_id(row["id"]), "title": row["title"], "text": row["text"]}
    return made | ({"metadata": dict(row["metadata"])} if row["metadata"] else {})


def _plain(label: float) -> int | float:
    return int(label) if label.is_integer() else label
