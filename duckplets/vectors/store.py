"""Keep vectors in a file beside the corpus, by the hash of the text that each is of.

    hashes, matrix ─checked→ those not there yet ─one transaction→ packed_vectors_N, a commit

A set has one dimension, one type and one maker. What is added at once is a commit, with a number
and a digest that follows from all before it, so a run can be pinned to what there was. The file is
opened for writing only for the moment of a commit, as a state file is for that of a save.

A vector is stored as its bytes: DuckDB takes and gives arrays of floats value by value, at a sixth
of the speed, and compressed them to 0.9 of their size at best. The view ``vectors_N`` has floats.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.base.arrays import Words
from duckplets.base.checks import checked_name
from duckplets.base.columns import column, text_column
from duckplets.base.sanitize import listed, shown
from duckplets.db import files, migrate
from duckplets.db.database import Database
from duckplets.db.short_open import for_a_moment
from duckplets.errors import VectorError, nearest
from duckplets.vectors.commits import Commit
from duckplets.vectors.sets import (
    Matrix,
    checked_matrix,
    checked_set,
    matrix_of,
    merged,
    of_set,
    refuse_other,
    words,
)
from duckplets.vectors.sets import VectorSet as VectorSet


def vectors_path(corpus: Path) -> Path:
    """Return where a corpus has its vectors: NAME.duckdb has NAME.vectors.duckdb beside it."""
    return files.beside(corpus, files.VECTORS)


class VectorStore:
    """The vector file of a corpus, which need not be there yet.

    Any number of them may be of one file, in several processes too.

    Args:
        corpus_path: The corpus.

    Attributes:
        path: The vector file.
    """

    def __init__(self, corpus_path: Path) -> None:
        self.path = vectors_path(corpus_path)
        self._known: dict[int, tuple[int, str, Words]] = {}  # of a set up to which commit

    # -- sets ---------------------------------------------------------------------------------

    def sets(self) -> list[VectorSet]:
        """Return all sets, by name; none where there is no file."""
        if not self.path.exists():
            return []
        with self._reading() as database:
            return _sets(database)

    @staticmethod
    def sets_of(database: Database) -> list[VectorSet]:
        """Return all sets of a vector file that is open, by name."""
        return _sets(database)

    def find(self, name: str) -> VectorSet | None:
        """Return the set of a name as it is now, or None."""
        return next((found for found in self.sets() if found.name == name), None)

    def need(self, name: str) -> VectorSet:
        """Return the set of a name as it is now.

        Raises:
            VectorError: There is none.
        """
        there = self.sets()
        for found in there:
            if found.name == name:
                return found
        names = [found.name for found in there]
        has = f"there are {listed(names)}" if names else "there are none"
        moved = "" if self.path.exists() else f", for {self.path} does not exist"
        raise VectorError(
            f"no vectors are named {shown(repr(name))}{nearest(str(name), names)}; {has}{moved}. "
            f"corpus.embed(…, name=…) and corpus.add_vectors(name, …) make them; a file that was "
            f"moved away can be put back"
        )

    def begin(self, name: str, dimension: int, dtype: str, made_by: Mapping[str, Any]) -> VectorSet:
        """Return the set of a name, made now unless it is there.

        Args:
            name: Its name.
            dimension: Numbers of each vector.
            dtype: ``float32`` or ``float16``.
            made_by: What makes the vectors; values that JSON has.

        Raises:
            VectorError: It is there with another dimension, type or maker; an argument is wrong.
        """
        checked_name(f"name={shown(repr(name))}", name, VectorError)
        wanted = checked_set(name, dimension, dtype, made_by)
        found = self.find(name)
        if found is None:
            if not self.path.exists():
                files.make_folder(self.path)
                migrate.create(self.path, "vectors")
            with self._writing() as database:
                # Another process may have made it meanwhile.
                found = _find(database, name) or _create(database, wanted)
        refuse_other(found, wanted)
        return found

    def remove(self, name: str) -> int:
        """Remove a set; return how many vectors it had.

        Raises:
            VectorError: There is none of that name.
        """
        self.need(name)
        with self._writing() as database:
            found = _find(database, name)
            if found is None:  # another process did so meanwhile
                return 0
            for statement in ("drop_view", "drop_packed"):
                database.rows(of_set(f"vectors/store/{statement}", found))
            which = {"set_id": found.set_id}
            database.run("vectors/store/delete_commits", which)
            database.run("vectors/store/delete_failures", which)
            database.run("vectors/store/delete_set", which)
        self._known.pop(found.set_id, None)
        return found.vectors

    # -- in -----------------------------------------------------------------------------------

    def append(self, of: VectorSet, hashes: Words, vectors: npt.ArrayLike) -> int:
        """Add vectors in one transaction, the next commit; return how many were added.

        Texts that have one are skipped, and of equal hashes the first counts; where nothing is
        left there is no commit.

        Args:
            of: The set, of any of its commits.
            hashes: Of the texts: shape (n,).
            vectors: Their vectors: shape (n, dimension).

        Raises:
            VectorError: Another dimension, or a number that is not finite; it names the row, and
                nothing is added. Or the set is there no more.
        """
        matrix = checked_matrix(of, hashes, vectors)
        with self.commit(of) as commit:
            return commit.add(hashes, matrix)

    @contextmanager
    def commit(self, of: VectorSet) -> Iterator[Commit]:
        """Begin a commit, to which blocks of vectors are added; it is made at the end, or nothing.

        The file is open for writing meanwhile.
        """
        with self._writing() as database:
            now = _find(database, of.name)
            if now is None or now.set_id != of.set_id:
                raise VectorError(
                    f"vectors {of.name!r} were removed meanwhile; begin them anew, with embed or "
                    f"add_vectors"
                )
            commit = Commit(database, now, self._hashes(database, now))
            yield commit
            commit.finish()
        number, digest, hashes = commit.done
        self._known[of.set_id] = (number, digest, hashes)

    def fail(self, of: VectorSet, hashes: Words, reasons: Sequence[str]) -> None:
        """Note texts for which no vector could be made; what was noted of them before goes."""
        texts = [str(reason) for reason in reasons]
        given = {"text_hash": column(words(hashes)), "reason": text_column(texts)}
        incoming = pa.table(given)
        which = {"set_id": of.set_id}
        with self._writing() as database, database.registered(incoming=incoming):
            database.run("vectors/store/forget_failures", which)
            database.run("vectors/store/add_failures", which)

    # -- out ----------------------------------------------------------------------------------

    def failures(self, of: VectorSet) -> pa.Table:
        """Return ``text_hash``, ``reason`` and ``failed_at`` of texts that have no vector."""
        with self._reading() as database:
            return database.table("vectors/store/failures", {"set_id": of.set_id})

    def failed(self) -> dict[int, int]:
        """Return how many failures each set has, by its number; those without are left out."""
        if not self.path.exists():
            return {}
        with self._reading() as database:
            return {int(of): int(count) for of, count in database.run("vectors/store/failed")}

    def commits(self, of: VectorSet) -> list[tuple[int, str, int, int]]:
        """Return number, digest, vectors, and those dropped since, of every commit."""
        with self._reading() as database:
            return _commits(database, of)

    def known(self, of: VectorSet) -> Words:
        """Return the hashes of the texts that have a vector now: ascending, shape (n,)."""
        with self._reading() as database:
            now = _find(database, of.name)
            if now is None or now.set_id != of.set_id:
                return np.zeros(0, np.uint64)
            return self._hashes(database, now)

    def read(
        self, of: VectorSet, number: int | None = None, *, after: int = 0
    ) -> Iterator[tuple[Words, Matrix]]:
        """Yield the vectors up to a commit in blocks: hashes (n,), and a matrix (n, dimension).

        Args:
            of: The set.
            number: Of the last commit; by default that of ``of``.
            after: Begin after this commit.
        """
        for hashes, _, matrix in self.numbered(of, number, after=after):
            yield hashes, matrix

    def numbered(
        self, of: VectorSet, number: int | None = None, *, after: int = 0
    ) -> Iterator[tuple[Words, npt.NDArray[np.int32], Matrix]]:
        """As ``read``, with the commit of each vector: shape (n,)."""
        bounds = {"after": after, "number": of.number if number is None else number}
        if bounds["number"] <= after:
            return
        with self._reading() as database:
            sql = of_set("vectors/store/read", of)
            for batch in database.stream(sql, bounds, rows=of.rows_at_once):
                hashes, numbers = (batch.column(name).to_numpy() for name in batch.schema.names[:2])
                yield hashes, numbers, matrix_of(batch.column("vector"), of, self.path)

    # -- the file -----------------------------------------------------------------------------

    def _hashes(self, database: Database, now: VectorSet) -> Words:
        """Return the hashes of a set, of which those up to a commit may be known."""
        number, digest, known = self._known.get(now.set_id, (0, "", np.zeros(0, np.uint64)))
        same = number == 0 or any(
            (commit, found) == (number, digest) for commit, found, _, _ in _commits(database, now)
        )
        if not same or number > now.number:
            number, known = 0, np.zeros(0, np.uint64)
        if number < now.number:
            sql = of_set("vectors/store/hashes", now)
            fresh = database.arrow(sql, {"after": number}).column(0).to_numpy()
            known = merged(known, fresh)
        if len(known) != now.vectors:  # compact has taken some away
            sql = of_set("vectors/store/hashes", now)
            known = np.sort(database.arrow(sql, {"after": 0}).column(0).to_numpy())
        self._known[now.set_id] = (now.number, now.digest, known)
        return known

    @contextmanager
    def _writing(self) -> Iterator[Database]:
        """Open the file for one transaction."""
        with for_a_moment(self.path) as database:
            migrate.migrate(database, "vectors")
            database.run("vectors/store/uncompressed")
            with database.transaction():
                yield database

    @contextmanager
    def _reading(self) -> Iterator[Database]:
        """Open the file to read."""
        if not self.path.exists():
            raise VectorError(
                f"{self.path} does not exist: it has the vectors of the corpus. Put it back if you "
                f"moved it, or make them anew with corpus.embed(…) or corpus.add_vectors(…)"
            )
        with for_a_moment(self.path, read_only=True) as database:
            migrate.check(database, "vectors")
            yield database


def _sets(database: Database) -> list[VectorSet]:
    rows = database.run("vectors/store/sets")
    return [
        VectorSet(of, name, dimension, dtype, json.loads(made_by), number, digest, vectors)
        for of, name, dimension, dtype, made_by, number, digest, vectors in rows
    ]


def _find(database: Database, name: str) -> VectorSet | None:
    return next((found for found in _sets(database) if found.name == name), None)


def _commits(database: Database, of: VectorSet) -> list[tuple[int, str, int, int]]:
    rows = database.run("vectors/store/commits", {"set_id": of.set_id})
    return [(int(row[0]), str(row[1]), int(row[2]), int(row[3])) for row in rows]


def _create(database: Database, wanted: VectorSet) -> VectorSet:
    given = {"name": wanted.name, "dimension": wanted.dimension, "dtype": wanted.dtype}
    made_by = json.dumps(wanted.made_by, ensure_ascii=False)
    rows = database.run("vectors/store/add_set", {**given, "made_by": made_by})
    made = VectorSet(int(rows[0][0]), wanted.name, wanted.dimension, wanted.dtype, wanted.made_by)
    create_tables(database, made)
    return made


def create_tables(database: Database, made: VectorSet) -> None:
    """Make the table and the view of a set."""
    database.rows(of_set("vectors/store/create_packed", made))
    view = of_set("vectors/store/create_view", made)
    view = view.replace("floats_of_dtype", f"floats_of_{made.dtype}")
    database.rows(view.replace("FLOAT[1]", f"FLOAT[{made.dimension}]"))
