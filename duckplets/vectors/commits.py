"""Add vectors to a set in one transaction, and give each commit a digest that follows from all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Words
from duckplets.base.columns import column
from duckplets.db.database import Database
from duckplets.vectors.sets import Matrix, VectorSet, contains, matrix_of, merged, of_set, words


class Commit:
    """What is added to a set in one transaction; see ``VectorStore.commit``.

    Args:
        database: The vector file, open for writing, in a transaction.
        of: The set, as it is now.
        known: Hashes of its texts, ascending.
    """

    def __init__(self, database: Database, of: VectorSet, known: Words) -> None:
        self._database = database
        self._set = of
        self._known = [known]
        self._digests = (hashlib.sha256(), hashlib.sha256())
        self.added = 0
        self.done = (of.number, of.digest, known)

    def has(self, hashes: Words) -> Flags:
        """Whether each text has a vector already, of this commit too."""
        found = np.zeros(len(hashes), np.bool_)
        for known in self._known:
            found |= contains(known, hashes)
        return found

    def read(self) -> Iterator[tuple[Words, Matrix]]:
        """Yield all vectors of the set in blocks, with those of this commit."""
        sql, of = of_set("vectors/store/read", self._set), self._set
        bounds = {"after": 0, "number": of.number + 1}
        path = Path(str(self._database.path))
        for batch in self._database.stream(sql, bounds, rows=of.rows_at_once):
            hashes = batch.column("text_hash").to_numpy()
            yield hashes, matrix_of(batch.column("vector"), of, path)

    def add(self, hashes: Words, matrix: Matrix) -> int:
        """Add vectors of texts that have none; return how many.

        Args:
            hashes: Shape (n,).
            matrix: From ``checked_matrix``.
        """
        hashes = words(hashes)
        ascending, first = np.unique(hashes, return_index=True)
        is_new = ~self.has(ascending)
        if not is_new.all() or len(ascending) < len(hashes):
            rows = np.sort(first[is_new])
            ascending, hashes, matrix = ascending[is_new], hashes[rows], matrix[rows]
        for low in range(0, len(hashes), self._set.rows_at_once):
            part = slice(low, low + self._set.rows_at_once)
            self._insert(hashes[part], matrix[part])
        if len(hashes):
            self._known = [self._known[0], merged(*self._known[1:], ascending)]
            self.added += len(hashes)
        return len(hashes)

    def _insert(self, hashes: Words, matrix: Matrix) -> None:
        matrix = np.ascontiguousarray(matrix)
        for digest, part in zip(self._digests, (hashes, matrix), strict=True):
            digest.update(part.reshape(-1).view(np.uint8).data)
        width = self._set.dimension * self._set.numpy_type.itemsize
        ends = column(np.arange(len(hashes) + 1, dtype=np.int64) * width)
        buffers = [None, ends.buffers()[1], pa.py_buffer(matrix)]
        packed = pa.Array.from_buffers(pa.large_binary(), len(hashes), buffers)
        incoming = pa.table({"text_hash": column(hashes), "vector": packed})
        with self._database.registered(incoming=incoming):
            sql = of_set("vectors/store/add", self._set)
            self._database.rows(sql, {"number": self._set.number + 1})
            self._database.run("vectors/store/forget_failures", {"set_id": self._set.set_id})

    def finish(self) -> None:
        """Note the commit, if anything was added."""
        if not self.added:
            return
        number = self._set.number + 1
        digest = chained(self._set.digest, *(found.digest() for found in self._digests))
        given = {"number": number, "digest": digest, "vectors": self.added}
        self._database.run("vectors/store/add_commit", {"set_id": self._set.set_id, **given})
        self.done = (number, digest, merged(*self._known))


def chained(before: str, of_hashes: bytes, of_vectors: bytes) -> str:
    """Return the digest of a commit: SHA-256 over that before it and those of what it adds."""
    return hashlib.sha256(before.encode() + of_hashes + of_vectors).hexdigest()
