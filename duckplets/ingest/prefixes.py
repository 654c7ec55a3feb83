"""Store the metadata prefixes of records and of sources.

A record's own prefix comes with it and never changes. A source's prefix applies to all its records
without one, from the version that set it. Runs pinned to earlier versions keep the old prefix.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from duckplets.base.documents import StoredJson
from duckplets.base.sanitize import listed
from duckplets.base.settings import check
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import SourceError, StateMismatchError, nearest
from duckplets.ingest import records
from duckplets.text.prefix import COLUMNS, Prefix, meta_key, prefix_of

_WAY = "Set the prefix of the source again, or put an earlier copy of the file in its place."

if TYPE_CHECKING:
    from duckplets.base.arrays import Integers
    from duckplets.db.database import Database


def append(database: Database, record_keys: Integers, definitions: pa.Array) -> None:
    """Store the prefixes of records, as they were read; null for none."""
    coded = definitions.dictionary_encode()  # usually shared by many records
    whole = pa.array([_whole(text) for text in coded.dictionary.to_pylist()], pa.string())
    rows = pa.table({"record_key": record_keys, "definition": whole.take(coded.indices)})
    with database.registered(new_prefixes=rows.filter(rows["definition"].is_valid())):
        database.run("ingest/prefixes/append")


def set_source(database: Database, source_id: int, version: int, prefix: Prefix | None) -> None:
    """Set the prefix of a source from a version on; None removes it."""
    definition = None if prefix is None else _json(prefix)
    where = {"source_id": source_id, "version": version}
    database.run("ingest/prefixes/clear_source", where)
    database.run("ingest/prefixes/set_source", where | {"definition": definition})


@changes("set a prefix in")
def set_prefix(corpus: CorpusFile, /, source: str, prefix: Prefix | str | None) -> None:
    """Set the metadata prefix of all records of a source that have none of their own.

    It holds from a new version of the corpus on: runs that are under way keep theirs.

    Args:
        source: Its name.
        prefix: A ``Prefix``, or columns of a record to show, such as ``"source, date"``; None
            for no prefix.

    Raises:
        SourceError: There is no such source, or no record of it has such a column.
    """
    wanted = prefix_of(prefix)
    source_id = records.source_id_of(corpus.database, source)
    with corpus.database.transaction():
        if wanted is not None:
            check_columns(corpus.database, source_id, wanted)
        version = records.current_version(corpus.database) + 1
        set_source(corpus.database, source_id, version, wanted)
        records.commit_version(corpus.database, version, "prefix", source, {})


def of_sources(database: Database, version: int) -> list[tuple[int, str, str]]:
    """Return id, name and prefix JSON of every source with a prefix at a version."""
    rows = database.run("ingest/prefixes/of_sources", {"version": version})
    for _, name, definition in rows:
        place = StoredJson(database.path, "source_prefixes", f"source {name!r}", _WAY)
        parts = place.read("definition", definition, dict)
        with place.making("definition"):
            Prefix.from_dict(parts)
    return rows


def check_columns(database: Database, source_id: int, prefix: Prefix) -> None:
    """Refuse a prefix with a column that no record of the source has."""
    names = prefix.columns
    if not names:
        return
    row = database.table("ingest/prefixes/filled", {"source_id": source_id}).to_pylist()[0]
    columns = [name for name in COLUMNS if row[name]]
    keys: list[str] = []
    if any(meta_key(name) is not None for name in names):
        keys = [
            key for (key,) in database.run("ingest/prefixes/meta_keys", {"source_id": source_id})
        ]
    for name in names:
        key = meta_key(name)
        if name not in columns if key is None else key not in keys:
            known = list(dict.fromkeys(columns + keys))
            raise SourceError(
                f"prefix: no record of the source has a {name!r}{nearest(name, known)}; there "
                f"are {listed(known)}"
            )


@dataclass(frozen=True, slots=True)
class DeclaredPrefixes:
    """The prefixes of a version: definitions by source, and counts of records with a prefix."""

    sources: Mapping[str, str] = field(default_factory=dict)
    records: tuple[int | str, ...] = ()  # they came with records, whose content runs compare

    def __post_init__(self) -> None:
        check(self, StateMismatchError, "declared_prefixes")

    def __bool__(self) -> bool:
        return bool(self.sources or self.records)


def declared(database: Database, version: int) -> DeclaredPrefixes:
    """Return the prefixes of a version."""
    sources = {name: definition for _, name, definition in of_sources(database, version)}
    records, *lengths = database.run("ingest/prefixes/of_records", {"version": version})[0]
    return DeclaredPrefixes(sources, (records, *lengths) if records else ())


def _json(prefix: Prefix) -> str:
    return json.dumps(prefix.to_dict(), ensure_ascii=False)


def _whole(text: str) -> str:
    """Return the definition of a record's prefix with all that it may leave out."""
    return _json(Prefix.from_dict(json.loads(text)))
