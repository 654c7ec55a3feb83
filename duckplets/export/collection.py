"""Read whole collections: all documents, the queries of a split, and their labels.

Recipes and pools have no part in it. With a single collection, ids have no name of a source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from duckplets.base.block_size import BlockSize
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.ingest.records import current_version
from duckplets.ingest.splits import checked_split
from duckplets.recipes.store import check_source

_LARGEST_BLOCK, _BLOCK_BYTES = 16_384, 96 << 20


@dataclass(frozen=True, slots=True)
class Collections:
    """Collections of a corpus: names of the sources of queries, and of documents."""

    database: Database
    sources: list[str]
    documents: list[str]
    split: str | None = None

    @classmethod
    def chosen(
        cls, database: Database, source: str | None, split: str | None
    ) -> Collections | None:
        """Return a source, or all of a corpus; None if one of them is no collection."""
        version = current_version(database)
        if source is not None:
            check_source(database, source, version)
        split = None if split is None else checked_split(split)
        every = dict(database.run("export/collection/sources", {"version": version}))
        found = every if source is None else {source: every.get(source)}
        documents = {name for name in found.values() if name is not None}
        if not found or None in found.values():
            return None
        return cls(database, [*found], sorted(documents), split)

    def id(self, name: str) -> str:
        """Return the id of a query or a document; in a single collection the original one."""
        if len(self.sources) > 1:
            return name
        prefixes = (f"{source}/" for source in (*self.documents, *self.sources))
        return name.removeprefix(next(filter(name.startswith, prefixes), ""))

    def records(self, sources: list[str], split: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield records of sources: record_id, meta, text."""
        where = {"sources": sources, "split": split}
        keys = self.database.table("export/collection/keys", where)
        pace, start = BlockSize(_LARGEST_BLOCK, _BLOCK_BYTES), 0
        while start < len(keys):
            block = keys.slice(start, pace.rows)
            with self.database.registered(wanted=block):
                rows: pa.Table = self.database.table("export/collection/texts")
            pace.learn(len(block), rows.nbytes)
            start += len(block)
            for row in rows.to_pylist(maps_as_pydicts="strict"):
                yield row | {"meta": row["meta"] or {}}

    def labels(self) -> Iterator[dict[str, Any]]:
        """Yield the labels: split, query, document, label; with stored ids."""
        version = current_version(self.database)
        where = {"sources": self.sources, "split": self.split, "version": version}
        for batch in self.database.stream(query("export/collection/labels"), where, rows=4096):
            yield from batch.to_pylist()


def titled(title: str | None, text: str) -> tuple[str, str]:
    """Return the title and the rest of a document's text."""
    if title and (text == title or text.startswith(f"{title} ")):
        return title, text[len(title) + 1 :]
    return "", text
