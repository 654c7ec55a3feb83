"""Look after a vector file: what is in it, whether it is as it was written, and what can go."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Flags, Words
from duckplets.base.columns import column, text_column
from duckplets.base.sanitize import counted, shown
from duckplets.db import migrate
from duckplets.db.database import Database
from duckplets.db.short_open import for_a_moment
from duckplets.errors import DuckpletsError
from duckplets.vectors.commits import chained
from duckplets.vectors.opened import verify_mapped
from duckplets.vectors.sets import Matrix, VectorSet, contains, of_set
from duckplets.vectors.store import VectorStore, create_tables

_TABLES = {
    "vector_sets": "vectors/store/add_set_again",
    "vector_commits": "vectors/store/add_commits_again",
    "vector_failures": "vectors/store/add_failures_again",
}


def overview(corpus_path: Path) -> list[dict[str, Any]]:
    """Return what is known of the sets of a corpus, for people; none where there is no file."""
    store = VectorStore(corpus_path)
    try:
        failed = store.failed()
        return [
            {
                "name": of.name,
                "vectors": of.vectors,
                "dimension": of.dimension,
                "dtype": of.dtype,
                "commit": of.number,
                "failures": failed.get(of.set_id, 0),
                "made_by": dict(of.made_by),
            }
            for of in store.sets()
        ]
    except DuckpletsError as error:
        return [{"name": str(store.path), "damaged": str(error)}]


def having(corpus_path: Path, chunks: pa.ListArray) -> pa.Array | None:
    """Return in words, for lists of chunks, how many of each have a vector of each set.

    Args:
        corpus_path: The corpus.
        chunks: Hashes of their texts.

    Returns:
        Such as ``default 2 of 2``; None where there are no vectors.
    """
    store = VectorStore(corpus_path)
    sets = store.sets()
    if not sets:
        return None
    hashes = chunks.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)
    counts = pc.fill_null(pc.list_value_length(chunks), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(counts)
    told: list[list[str]] = [[] for _ in ends]
    for of in sets:
        found = np.concatenate([[0], np.cumsum(np.isin(hashes, store.known(of)))])
        there = found[ends] - found[ends - counts]
        for words, some, every in zip(told, there.tolist(), counts.tolist(), strict=True):
            words.append(f"{of.name} {some} of {every}")
    return text_column([", ".join(words) for words in told])


def verify(corpus_path: Path) -> Iterator[str]:
    """Yield what is wrong with vectors: those of a commit are not what its digest says."""
    store = VectorStore(corpus_path)
    for of in store.sets():
        yield from _wrong(store, of)
    yield from verify_mapped(corpus_path)


def _wrong(store: VectorStore, of: VectorSet) -> Iterator[str]:
    found: dict[int, _Sums] = {}
    for hashes, numbers, matrix in store.numbered(of):
        for number in np.unique(numbers).tolist():
            at = numbers == number
            found.setdefault(number, _Sums()).add(hashes[at], matrix[at])
    before = ""
    for number, digest, vectors, dropped in store.commits(of):
        sums = found.get(number, _Sums())
        is_whole = dropped or chained(before, *sums.digests()) == digest
        if sums.rows != vectors - dropped or not is_whole:
            yield (
                f"vectors {shown(repr(of.name))}, commit {number}: its "
                f"{counted(sums.rows, 'vector')} are not as they were written"
            )
        before = digest


class _Sums:
    """Digests of hashes and vectors, and how many."""

    def __init__(self) -> None:
        self.rows = 0
        self._digests = (hashlib.sha256(), hashlib.sha256())

    def add(self, hashes: Words, matrix: Matrix) -> None:
        for digest, part in zip(self._digests, (hashes, matrix), strict=True):
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        self.rows += len(hashes)

    def digests(self) -> tuple[bytes, bytes]:
        one, other = self._digests
        return one.digest(), other.digest()


def keep_only(corpus_path: Path, texts: Words) -> dict[str, int]:
    """Rewrite a vector file without the vectors of other texts; return how many went, by set.

    Commits keep their numbers and digests, so whoever is pinned to one goes on, and sees the
    vectors of all texts that are there. Where nothing is to go the file stays as it is.

    Args:
        corpus_path: The corpus.
        texts: Hashes of those to keep, ascending.
    """
    store = VectorStore(corpus_path)
    freed = {of.name: int((~contains(texts, store.known(of))).sum()) for of in store.sets()}
    freed = {name: gone for name, gone in freed.items() if gone}
    if freed:
        with for_a_moment(store.path) as database:
            migrate.migrate(database, "vectors")
            migrate.rewrite(database, "vectors", lambda new: _copy(database, new, texts))
    return freed


def _copy(database: Database, new: Database, texts: Words) -> None:
    new.run("vectors/store/uncompressed")
    with new.transaction():
        for table, insert in _TABLES.items():
            incoming = database.table("vectors/store/rows_of", {"table": table})
            with new.registered(incoming=incoming):
                new.run(insert)
    for of in VectorStore.sets_of(database):
        with new.transaction():
            create_tables(new, of)
        sql, bounds = of_set("vectors/store/read", of), {"after": 0, "number": of.number}
        gone = np.zeros(of.number + 1, np.int64)
        for batch in database.stream(sql, bounds, rows=of.rows_at_once):
            kept = contains(texts, batch.column("text_hash").to_numpy())
            gone += np.bincount(batch.column("number").to_numpy()[~kept], minlength=len(gone))
            _insert(new, of, batch, kept)
        with new.transaction():
            for number in np.flatnonzero(gone).tolist():
                which = {"set_id": of.set_id, "number": number, "gone": int(gone[number])}
                new.run("vectors/store/drop_from_commit", which)


def _insert(new: Database, of: VectorSet, batch: pa.RecordBatch, kept: Flags) -> None:
    rows = pa.Table.from_batches([batch]).filter(column(kept))
    numbers = rows.column("number").to_numpy()
    for number in np.unique(numbers).tolist():
        incoming = rows.filter(column(numbers == number))
        with new.transaction(), new.registered(incoming=incoming):
            new.rows(of_set("vectors/store/add", of), {"number": number})
