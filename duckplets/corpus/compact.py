"""Rewrite a corpus without what was removed or replaced and no saved run needs.

saved runs ─versions→ what is kept ─table by table→ a new file ─rename→ the corpus
           └minings→ the folder of candidates, without those that no run needs

Which rows go follows from the columns of a table, so a new table is not forgotten. Keys and
versions stay, and keys of removed rows are not reused: references stay valid.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from duckplets.base.sanitize import Reported
from duckplets.db import migrate
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import StateMismatchError
from duckplets.ingest import records, text_files
from duckplets.ingest.checkpoint import UNPUBLISHED, sweep
from duckplets.ingest.chunks import next_keys
from duckplets.mining import views as minings
from duckplets.pools import macros
from duckplets.runs import state as states
from duckplets.vectors.store import VectorStore

_BYTES = 32_000_000  # rows copied at a time
_ROWS = 2048  # of a batch: Arrow holds 2 GB of text in one
_MEMORY = "300MB"  # for the old file, which is only read

# How to choose the rows of a table: by its name, else by the first of these columns it has.
_OF_TABLES = {
    "judgements": "corpus/compact/of_sources",
    "placed_files": "corpus/compact/whole",
    "label_ids": "corpus/compact/label_ids",
    "corpus_versions": "corpus/compact/whole",
    "quarantine": "corpus/compact/of_names",
}
_OF_COLUMNS = {
    "index_key": "corpus/compact/of_indexes",
    "record_key": "corpus/compact/of_records",
    "section_key": "corpus/compact/of_sections",
    "source_id": "corpus/compact/of_sources",
}
_KEEP = (
    *("corpus/compact/keep_records", "corpus/compact/keep_sources", "corpus/compact/keep_sections"),
    "corpus/compact/keep_indexes",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactReport(Reported):
    """The rows, vectors and bytes that ``compact`` freed.

    Attributes:
        freed: Removed rows by table, and vectors by set; zeros are left out.
        before: Bytes of the corpus file before.
        after: Bytes of it now.
        runs: Saved runs whose records and minings were kept.
        seconds: Wall time.
    """

    freed: dict[str, int]
    before: int
    after: int
    runs: tuple[str, ...]
    seconds: float


@changes("compact")
def compact(
    corpus: CorpusFile, /, *, state: str | Path | Sequence[str | Path] = ()
) -> CompactReport:
    """Rewrite the file without what was removed or replaced and no saved run needs.

    The newest version stays, and each version that a run of the state file beside the corpus, or of
    ``state``, is pinned to, with its minings. Texts, chunks, splits, indexes and minings of removed
    records go. Keys and versions stay. It needs the room of the result. After a kill the file is
    the old one or the new one.

    Args:
        state (FILE,…): A further state file, or several. Runs of any other state file may not
            continue.

    Raises:
        CorpusLockedError: A sampler or a reader of this corpus, or another ``Corpus``, has the
            file open.
        StateMismatchError: A state file is not there, or of another corpus.
    """
    from duckplets.ingest.sections_view import complete

    started = time.monotonic()
    files = states.state_paths(corpus.path, state)
    database, path = corpus.database, corpus.path
    sweep(database)
    before = path.stat().st_size
    runs = [run for file in files for run in states.runs(file)]
    newest = records.current_version(database)
    for run in runs:
        if run.versions[-1] > newest:
            raise StateMismatchError(
                f"run {run.run!r} is pinned to corpus version {run.versions[-1]}, but "
                f"{database.path} is at {newest}: its state file belongs to another corpus"
            )
    freed: dict[str, int] = {}
    versions = {newest, *(version for run in runs for version in run.versions)}
    with database.frugal(_MEMORY), closing(database.cursor()) as reader:
        _choose(reader, versions)

        def fill(new: Database) -> None:
            for name, columns in reader.run("corpus/compact/tables"):
                there = int(reader.run("corpus/compact/count", {"table": name})[0][0])
                if (there or name == "label_ids") and name != "schema_migrations":
                    gone = max(0, there - _copy(reader, new, name, columns))
                    shown_name = (
                        "sections" if name == "stored_sections" else name
                    )  # the users' name
                    freed.update({shown_name: gone} if gone else {})
            _keep_keys(reader, new)
            text_files.compact(new, path)
            complete(new, path)
            with new.transaction():
                macros.write(new)
            reader.close()

        migrate.rewrite(database, "corpus", fill)
    text_files.sweep(database)
    texts = database.table("corpus/compact/texts").column(0).to_numpy()
    gone = VectorStore(path).keep_only(texts)
    freed |= {f"vectors of {name}": count for name, count in gone.items()}
    if gone_minings := minings.keep_only(
        database, {key for run in runs for key in _minings([run.settings, run.plain()])}
    ):
        freed["minings"] = gone_minings
    return CompactReport(
        freed=freed,
        before=before,
        after=path.stat().st_size,
        runs=tuple(sorted({run.run for run in runs})),
        seconds=round(time.monotonic() - started, 3),
    )


def _minings(plain: Any) -> Iterator[int]:
    """Yield the numbers of the minings that JSON values of a run are pinned to."""
    if isinstance(plain, dict) and isinstance(plain.get("mining"), int):
        yield plain["mining"]
    elif isinstance(plain, dict | list):
        for value in plain.values() if isinstance(plain, dict) else plain:
            yield from _minings(value)


def _choose(reader: Database, versions: Collection[int]) -> None:
    """Write the retained keys into temporary tables."""
    given: dict[str, Any] = {"versions": sorted(versions), "unpublished": UNPUBLISHED}
    for statement in _KEEP:
        sql = query(statement)
        reader.rows(sql, {name: value for name, value in given.items() if f"${name}" in sql})


def _copy(reader: Database, new: Database, name: str, columns: Sequence[str]) -> int:
    """Copy the retained rows of a table; return their number."""
    found = (rule for column, rule in _OF_COLUMNS.items() if column in columns)
    rule = _OF_TABLES.get(name) or next(found, "corpus/compact/whole")
    return copy_rows(reader, new, name, rule, {"table": name})


def copy_rows(
    reader: Database,
    new: Database,
    name: str,
    statement: str,
    parameters: Mapping[str, Any] | None = None,
) -> int:
    """Copy the rows that a statement finds into a table of another corpus; return their number."""
    rows, insert = 0, _insert(name)
    with new.transaction():
        for table in _slices(reader, query(statement), parameters):
            with new.registered(incoming=table):
                new.rows(insert)
            rows += table.num_rows
    return rows


def _slices(reader: Database, sql: str, parameters: Mapping[str, Any] | None) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in reader.stream(sql, parameters, rows=_ROWS):
        held.append(batch)
        if sum(b.nbytes for b in held) >= _BYTES:
            yield pa.Table.from_batches(held)
            held.clear()
    if held:
        yield pa.Table.from_batches(held)


def _insert(name: str) -> str:
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    into = exp.to_table(name)
    rows = exp.select("*").from_("incoming")
    return exp.Insert(this=into, expression=rows, by_name=True).sql(dialect=DuckDB, identify=True)


def _keep_keys(reader: Database, new: Database) -> None:
    """Keep the keys of removed rows from being reused."""
    source, index = reader.run("corpus/compact/last_keys")[0]
    keys = {"source": int(source)}
    keys |= {name: key - 1 for name, key in next_keys(reader).items()}
    new.run("corpus/compact/set_keys", {"value": json.dumps(keys)})
    new.run("corpus/compact/use_up", {"numbers": int(index)})
