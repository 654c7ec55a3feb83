"""What a corpus keeps of its full-text indexes, and how the texts of each source become terms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duckplets.db.database import Database
from duckplets.search.terms import Terms

_ALL = ""  # among the settings by source: of those that have none of their own


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """One stored index.

    Attributes:
        index_key: Its number; another once it is built again.
        source: Name of the source.
        split: The split.
        documents: Sections it covers, empty ones included; numbered from 0.
        tokens: Of all of them, stop words left out.
        terms: How text became terms.
        content: Fingerprint of the records it was made from.
    """

    index_key: int
    source: str
    split: str
    documents: int
    tokens: int
    terms: Terms
    content: str


def stored(
    database: Database, *, source: str | None = None, split: str | None = None
) -> list[Index]:
    """Return the indexes that there are, stale ones included, by source and split."""
    rows = database.run("search/index/stored", {"source": source, "split": split})
    return [
        Index(
            index_key=int(key),
            source=name,
            split=of_split,
            documents=int(documents),
            tokens=int(tokens),
            terms=Terms.from_dict(json.loads(terms)),
            content=content,
        )
        for key, name, of_split, documents, tokens, terms, content in rows
    ]


def terms_of(database: Database, source: str) -> Terms:
    """Return how the texts of a source become terms, now."""
    settings = _settings(database)
    return Terms.from_dict(settings.get(source, settings.get(_ALL, {})))


def _settings(database: Database) -> dict[str, Mapping[str, Any]]:
    rows = database.run("search/index/get_settings")
    found: dict[str, Mapping[str, Any]] = json.loads(rows[0][0]) if rows else {}
    return found


def set_terms(database: Database, terms: Terms, source: str | None) -> None:
    """Keep how the texts of a source become terms from now on; None means all sources."""
    settings = {} if source is None else _settings(database)
    settings[source or _ALL] = terms.to_dict()
    with database.transaction():
        value = json.dumps(settings, ensure_ascii=False)
        database.run("search/index/set_settings", {"value": value})
