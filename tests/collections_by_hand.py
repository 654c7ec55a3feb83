"""Collections for tests: documents, queries and labels, put in by SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckplets as dp

JOIN = """
UPDATE sources SET documents_id = (SELECT source_id FROM sources WHERE name = $documents)
WHERE name = $name;
DELETE FROM splits WHERE record_key IN (
    SELECT record_key FROM records JOIN sources USING (source_id) WHERE name = $documents
);
INSERT INTO splits (record_key, split)
SELECT record_key, 'every' FROM records JOIN sources USING (source_id) WHERE name = $documents
"""


def collection(
    corpus: dp.Corpus,
    name: str,
    queries: Iterable[Mapping[str, Any]],  # id, q, and further columns
    documents: Iterable[Mapping[str, Any]] | str,  # id, text; or the source of another collection
    labels: Iterable[tuple[str, str, float | None]] = (),  # ids of query and document
    **columns: Any,  # of queries
) -> None:
    """Read a collection, and split its queries as the corpus is."""
    theirs = documents if isinstance(documents, str) else f"{name}.documents"
    if not isinstance(documents, str):
        corpus.ingest([*documents], name=theirs, id="id", text="text", **_group(documents))
    corpus.ingest([*queries], name=name, id="id", anchor="q", **columns)
    with corpus.database.transaction():
        for statement in JOIN.split(";"):
            asked = {"documents": theirs, "name": name}
            corpus.database.rows(
                statement, {n: v for n, v in asked.items() if f"${n}" in statement}
            )
    if rows := [*labels]:
        corpus.relabel(
            {
                "anchor_id": [f"{name}/{query}" for query, *_ in rows],
                "document_id": [f"{theirs}/{document}" for _, document, _ in rows],
                "label": [label for *_, label in rows],
            }
        )


def _group(rows: Any) -> dict[str, str]:
    return {"group": "group"} if any("group" in row for row in rows) else {}
