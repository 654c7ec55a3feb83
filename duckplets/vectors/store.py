"""Keep vectors in a file beside the corpus, by the hash of the text that each is of.

    hashes, matrix ─checked→ those not there yet ─one transaction→ packed_vectors_N, a commit

A set has one dimension, one type and one maker. What is added at once is a commit, with a number
and a digest that follows from all before it, so a run can be pinned to what there was. The file is
opened for writing only for the moment of a commit, as a state file is for that of a save.

A vector is stored as its bytes: DuckDB takes and gives arrays of floats value by value, at a sixth
of the speed, and compressed them to 0.9 of their size at best. The view ``vectors_N`` has floats.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.base.arrays import Flags, Integers, Integers32, Words
from duckplets.base.checks import checked_name
from duckplets.base.columns import column, text_column
from duckplets.base.sanitize import counted, listed, shown
from duckplets.db import files, migrate
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.db.short_open import for_a_moment
from duckplets.errors import DuckpletsError, VectorError, nearest

Matrix = npt.NDArray[np.floating[Any]]

_BYTES = 32 << 20  # of vectors that are read or written at once
_LEAST = 2048  # rows that DuckDB hands over at once
_MOST_DIMENSIONS = 65_536


@dataclass(frozen=True, slots=True)
class VectorSet:
    """A set of vectors, as of its last commit.

    Attributes:
        set_id: Its number in the file.
        name: Its name.
        dimension: Numbers of each vector.
        dtype: ``float32`` or ``float16``.
        made_by: What makes the vectors, as plain JSON.
        number: Of the last commit; 0 before the first.
        digest: Of all up to that commit; empty before the first.
        vectors: How many there are.
    """

    set_id: int
    name: str
    dimension: int
    dtype: Literal["float32", "float16"]
    made_by: Mapping[str, Any]
    number: int = 0
    digest: str = ""
    vectors: int = 0

    @property
    def numpy_type(self) -> np.dtype[Any]:
        """The type of its numbers, least byte first."""
        return np.dtype("<f2" if self.dtype == "float16" else "<f4")

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of its vectors in Arrow: fixed-size lists."""
        return pa.list_(pa.from_numpy_dtype(self.numpy_type), self.dimension)

    @property
    def rows_at_once(self) -> int:
        """How many of its vectors are read or written at once."""
        return max(_LEAST, _BYTES // (self.dimension * self.numpy_type.itemsize))

    def statement(self, name: str) -> str:
        """Return a statement over the tables of the set."""
        return query(name).replace("vectors_0", f"vectors_{self.set_id}")


class VectorStore:
    """The vector file of a corpus, ``NAME.vectors.duckdb``, which need not be there yet.

    Any number of them may be of one file, in several processes too.

    Args:
        corpus_path: The corpus.

    Attributes:
        path: The vector file.
    """

    def __init__(self, corpus_path: Path) -> None:
        self.path = files.beside(corpus_path, files.VECTORS)

    # -- sets ---------------------------------------------------------------------------------

    def sets(self) -> list[VectorSet]:
        """Return all sets, by name; none where there is no file."""
        if not self.path.exists():
            return []
        with self._reading() as database:
            return _sets(database)

    def find(self, name: str) -> VectorSet | None:
        """Return the set of a name as it is now, or None."""
        return next((found for found in self.sets() if found.name == name), None)

    def need(self, name: str) -> VectorSet:
        """Return the set of a name as it is now.

        Raises:
            VectorError: There is none.
        """
        there = {found.name: found for found in self.sets()}
        if name in there:
            return there[name]
        has = f"there are {listed(there)}" if there else "there are none"
        moved = "" if self.path.exists() else f", for {self.path} does not exist"
        raise VectorError(
            f"no vectors are named {shown(repr(name))}{nearest(str(name), there)}; {has}{moved}. "
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
        wanted = _checked_set(name, dimension, dtype, made_by)
        found = self.find(name)
        if found is None:
            if not self.path.exists():
                files.make_folder(self.path)
                migrate.create(self.path, "vectors")
            with self._writing() as database:
                # Another process may have made it meanwhile.
                found = _find(database, name) or _create(database, wanted)
        _refuse_other(found, wanted)
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
            for statement in ("vectors/store/drop_view", "vectors/store/drop_packed"):
                database.rows(found.statement(statement))
            for statement in ("delete_commits", "delete_failures", "delete_set"):
                database.run(f"vectors/store/{statement}", {"set_id": found.set_id})
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
            return len(commit.add(hashes, matrix))

    @contextmanager
    def commit(self, of: VectorSet) -> Iterator[VectorCommit]:
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
            commit = VectorCommit(database, now)
            yield commit
            commit.finish()

    def fail(self, of: VectorSet, hashes: Words, reasons: Sequence[str]) -> None:
        """Note texts for which no vector could be made; what was noted of them before goes."""
        words = np.ascontiguousarray(hashes, np.uint64)
        incoming = pa.table({"text_hash": column(words), "reason": text_column(reasons)})
        which = {"set_id": of.set_id}
        with self._writing() as database, database.registered(incoming=incoming):
            database.run("vectors/store/forget_failures", which)
            database.run("vectors/store/add_failures", which)

    # -- out ----------------------------------------------------------------------------------

    def failures(self, of: VectorSet) -> pa.Table:
        """Return ``text_hash``, ``reason`` and ``failed_at`` of texts that have no vector."""
        with self._reading() as database:
            return database.table("vectors/store/failures", {"set_id": of.set_id})

    def commits(self, of: VectorSet) -> list[tuple[int, str, int, int]]:
        """Return number, digest, vectors, and those dropped since, of every commit."""
        with self._reading() as database:
            rows = database.run("vectors/store/commits", {"set_id": of.set_id})
        return [(int(row[0]), str(row[1]), int(row[2]), int(row[3])) for row in rows]

    def known(self, of: VectorSet) -> Words:
        """Return the hashes of the texts that have a vector now: ascending, shape (n,)."""
        with self._reading() as database:
            now = _find(database, of.name)
            if now is None or now.set_id != of.set_id:
                return np.zeros(0, np.uint64)
            found = database.arrow(now.statement("vectors/store/hashes")).column(0)
        return np.sort(found.to_numpy())

    def read(self, of: VectorSet) -> Iterator[tuple[Words, Matrix]]:
        """Yield the vectors of a set in blocks: hashes (n,), and a matrix (n, dimension)."""
        for hashes, _, matrix in self.numbered(of):
            yield hashes, matrix

    def numbered(
        self, of: VectorSet, *, after: int = 0
    ) -> Iterator[tuple[Words, Integers32, Matrix]]:
        """As ``read``, with the commit of each vector, of those after a commit."""
        if of.number > after:
            with self._reading() as database:
                yield from _rows(database, of, after)

    # -- the file -----------------------------------------------------------------------------

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


class VectorCommit:
    """What is added to a set in one transaction; see ``VectorStore.commit``."""

    def __init__(self, database: Database, of: VectorSet) -> None:
        self._database, self._set = database, of
        self._sums = _Sums()

    def read(self) -> Iterator[tuple[Words, Matrix]]:
        """Yield all vectors of the set in blocks, with those of this commit."""
        for hashes, _, matrix in _rows(self._database, self._set, 0, more=1):
            yield hashes, matrix

    def add(self, hashes: Words, matrix: Matrix) -> Integers:
        """Add vectors of texts that have none, of equal hashes the first.

        Args:
            hashes: Shape (n,).
            matrix: From ``checked_matrix``.

        Returns:
            Which rows were added, ascending.
        """
        hashes = np.ascontiguousarray(hashes, np.uint64)
        incoming = pa.table({"row": np.arange(len(hashes)), "text_hash": column(hashes)})
        with self._database.registered(incoming=incoming):
            found = self._database.arrow(self._set.statement("vectors/store/new"))
        rows = np.asarray(found.column(0).to_numpy(), np.int64)
        if len(rows) < len(hashes):
            hashes, matrix = hashes[rows], matrix[rows]
        for low in range(0, len(hashes), self._set.rows_at_once):
            part = slice(low, low + self._set.rows_at_once)
            self._insert(hashes[part], np.ascontiguousarray(matrix[part]))
        return rows

    def _insert(self, hashes: Words, matrix: Matrix) -> None:
        self._sums.add(hashes, matrix)
        width = self._set.dimension * self._set.numpy_type.itemsize
        ends = np.arange(len(hashes) + 1, dtype=np.int64) * width
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(matrix)]
        packed = pa.Array.from_buffers(pa.large_binary(), len(hashes), buffers)
        incoming = pa.table({"text_hash": column(hashes), "vector": packed})
        with self._database.registered(incoming=incoming):
            sql = self._set.statement("vectors/store/add")
            self._database.rows(sql, {"number": self._set.number + 1})
            self._database.run("vectors/store/forget_failures", {"set_id": self._set.set_id})

    def finish(self) -> None:
        """Note the commit, if anything was added."""
        if self._sums.rows:
            given = {
                "set_id": self._set.set_id,
                "number": self._set.number + 1,
                "digest": self._sums.digest_after(self._set.digest),
                "vectors": self._sums.rows,
            }
            self._database.run("vectors/store/add_commit", given)


class _Sums:
    """How many vectors a commit adds, and what its digest follows from."""

    def __init__(self) -> None:
        self.rows = 0
        self._digests = (hashlib.sha256(), hashlib.sha256())

    def add(self, hashes: Words, matrix: Matrix) -> None:
        for digest, part in zip(self._digests, (hashes, matrix), strict=True):
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        self.rows += len(hashes)

    def digest_after(self, before: str) -> str:
        """Return SHA-256 over the digest of the commit before, and those of what this one adds."""
        one, other = self._digests
        return hashlib.sha256(before.encode() + one.digest() + other.digest()).hexdigest()


def checked_matrix(
    of: VectorSet, hashes: Words, vectors: npt.ArrayLike, *, first_row: int = 0
) -> Matrix:
    """Return vectors as a matrix in the type of a set.

    Args:
        of: The set.
        hashes: Of the texts: shape (n,).
        vectors: Shape (n, dimension).
        first_row: The number of the first one, for messages.

    Raises:
        VectorError: They have another shape, are no numbers, or one is not finite.
    """
    what = f"vectors {of.name!r}"
    try:
        matrix = np.asarray(vectors)
    except ValueError as error:  # rows of several lengths
        raise VectorError(f"{what}: {shown(error)}") from error
    if matrix.dtype.kind not in "fiu":
        raise VectorError(f"{what}: numbers are needed, and these are of type {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[1] != of.dimension:
        given = "×".join(map(str, matrix.shape))
        raise VectorError(
            f"{what} have {of.dimension} dimensions, and these are an array of {given}, from row "
            f"{first_row} on: give (rows, {of.dimension})"
        )
    if len(matrix) != len(hashes):
        vectors_of = f"{counted(len(matrix), 'vector')} for {counted(len(hashes), 'text')}"
        raise VectorError(f"{what}: {vectors_of}")
    with np.errstate(over="ignore"):
        made = matrix.astype(of.numpy_type, order="C", copy=False)
    finite = np.isfinite(made)
    if not finite.all():
        row, place = (int(at[0]) for at in np.nonzero(~finite))
        value = matrix[row, place]
        range_of = " (beyond the range of float16)" if np.isfinite(value) else ""
        raise VectorError(
            f"{what}: row {first_row + row} has {value} as its number {place}{range_of}; every "
            f"number must be finite"
        )
    return cast(Matrix, made)


def contains(ascending: Words, hashes: Words) -> Flags:
    """Whether each hash is among ascending ones: shape (n,)."""
    if not len(ascending):
        return np.zeros(len(hashes), np.bool_)
    at = np.minimum(np.searchsorted(ascending, hashes), len(ascending) - 1)
    return cast(Flags, ascending[at] == hashes)


def _rows(
    database: Database, of: VectorSet, after: int, more: int = 0
) -> Iterator[tuple[Words, Integers32, Matrix]]:
    """Yield hashes, commits and vectors of a set up to its commit, or ``more`` further ones."""
    bounds = {"after": after, "number": of.number + more}
    sql = of.statement("vectors/store/read")
    for batch in database.stream(sql, bounds, rows=of.rows_at_once):
        hashes, numbers = (batch.column(name).to_numpy() for name in batch.schema.names[:2])
        yield hashes, numbers, _matrix_of(batch.column("vector"), of, Path(str(database.path)))


def _matrix_of(packed: pa.Array, of: VectorSet, path: Path) -> Matrix:
    """Return packed vectors as a matrix, without a copy."""
    width = of.dimension * of.numpy_type.itemsize
    wide = np.int64 if pa.types.is_large_binary(packed.type) else np.int32
    _, ends, data = packed.buffers()
    if len(packed) == 0 or ends is None or data is None:
        return np.zeros((0, of.dimension), of.numpy_type)
    starts = np.frombuffer(ends, wide)[packed.offset :][: len(packed) + 1]
    if (np.diff(starts) != width).any():
        raise VectorError(
            f"{path} is damaged: a vector of {of.name!r} has another length than {width} bytes; "
            f"put a copy of the file in its place, or remove the set and make it anew"
        )
    count = len(packed) * of.dimension
    flat = np.frombuffer(data, of.numpy_type, count, int(starts[0]))
    return cast(Matrix, flat.reshape(len(packed), of.dimension))


def _sets(database: Database) -> list[VectorSet]:
    return [
        VectorSet(of, name, dimension, dtype, json.loads(made_by), number, digest, vectors)
        for of, name, dimension, dtype, made_by, number, digest, vectors in database.run(
            "vectors/store/sets"
        )
    ]


def _find(database: Database, name: str) -> VectorSet | None:
    return next((found for found in _sets(database) if found.name == name), None)


def _checked_set(name: str, dimension: int, dtype: str, made_by: Mapping[str, Any]) -> VectorSet:
    """Return the set that is wanted, as it will be read again."""
    if dtype not in ("float32", "float16"):
        raise VectorError(f"dtype={shown(repr(dtype))}: give 'float32' or 'float16'")
    if not 1 <= dimension <= _MOST_DIMENSIONS:
        raise VectorError(f"a vector of {dimension:,} dimensions: 1 to {_MOST_DIMENSIONS:,} can be")
    try:
        plain = json.loads(json.dumps(dict(made_by), ensure_ascii=False))
    except (TypeError, ValueError) as error:
        raise VectorError(f"vectors {name!r}: what makes them is no JSON: {error}") from error
    return VectorSet(0, name, int(dimension), dtype, plain)  # type: ignore[arg-type]


def _refuse_other(found: VectorSet, wanted: VectorSet) -> None:
    """Refuse a set that is of another dimension, type or maker."""

    def fields(of: VectorSet) -> dict[str, Any]:
        return {"dimension": of.dimension, "dtype": of.dtype, **of.made_by}

    there, given = fields(found), fields(wanted)
    other = [
        f"{key} (there: {shown(repr(there.get(key)), 100)}, given: "
        f"{shown(repr(given.get(key)), 100)})"
        for key in {**there, **given}
        if there.get(key) != given.get(key)
    ]
    if other:
        raise VectorError(
            f"vectors {found.name!r} are of another maker: {'; '.join(other)}. Give another name=, "
            f"or remove them first with corpus.remove_vectors({found.name!r})"
        )


def _create(database: Database, wanted: VectorSet) -> VectorSet:
    given = {"name": wanted.name, "dimension": wanted.dimension, "dtype": wanted.dtype}
    made_by = json.dumps(wanted.made_by, ensure_ascii=False)
    rows = database.run("vectors/store/add_set", {**given, "made_by": made_by})
    made = VectorSet(int(rows[0][0]), wanted.name, wanted.dimension, wanted.dtype, wanted.made_by)
    _create_tables(database, made)
    return made


def _create_tables(database: Database, made: VectorSet) -> None:
    """Make the table and the view of a set."""
    database.rows(made.statement("vectors/store/create_packed"))
    view = made.statement("vectors/store/create_view")
    view = view.replace("floats_of_dtype", f"floats_of_{made.dtype}")
    database.rows(view.replace("FLOAT[1]", f"FLOAT[{made.dimension}]"))


# -- upkeep -------------------------------------------------------------------------------------


def overview(corpus_path: Path) -> list[dict[str, Any]]:
    """Return what is known of the sets of a corpus, for people; none where there is no file."""
    store = VectorStore(corpus_path)
    try:
        return [
            {
                "name": of.name,
                "vectors": of.vectors,
                "dimension": of.dimension,
                "dtype": of.dtype,
                "commit": of.number,
                "failures": store.failures(of).num_rows,
                "made_by": dict(of.made_by),
            }
            for of in store.sets()
        ]
    except DuckpletsError as error:
        return [{"name": str(store.path), "damaged": str(error)}]


def verify(corpus_path: Path) -> Iterator[str]:
    """Yield what is wrong with vectors: those of a commit are not what its digest says."""
    store = VectorStore(corpus_path)
    for of in store.sets():
        found: dict[int, _Sums] = {}
        for hashes, numbers, matrix in store.numbered(of):
            for number in np.unique(numbers).tolist():
                at = numbers == number
                found.setdefault(number, _Sums()).add(hashes[at], matrix[at])
        before = ""
        for number, digest, vectors, dropped in store.commits(of):
            sums = found.get(number, _Sums())
            is_whole = dropped or sums.digest_after(before) == digest
            if sums.rows != vectors - dropped or not is_whole:
                yield (
                    f"vectors {shown(repr(of.name))}, commit {number}: its "
                    f"{counted(sums.rows, 'vector')} are not as they were written"
                )
            before = digest


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
        for table in ("vector_sets", "vector_commits", "vector_failures"):
            incoming = database.table("vectors/store/rows_of", {"table": table})
            with new.registered(incoming=incoming):
                new.run(f"vectors/store/{table}")
    for of in _sets(database):
        with new.transaction():
            _create_tables(new, of)
        sql, bounds = of.statement("vectors/store/read"), {"after": 0, "number": of.number}
        gone = np.zeros(of.number + 1, np.int64)
        for batch in database.stream(sql, bounds, rows=of.rows_at_once):
            kept = contains(texts, batch.column("text_hash").to_numpy())
            gone += np.bincount(batch.column("number").to_numpy()[~kept], minlength=len(gone))
            incoming = pa.Table.from_batches([batch]).filter(column(kept))
            with new.transaction(), new.registered(incoming=incoming):
                new.rows(of.statement("vectors/store/add_again"))
        with new.transaction():
            for number in np.flatnonzero(gone).tolist():
                which = {"set_id": of.set_id, "number": number, "gone": int(gone[number])}
                new.run("vectors/store/drop_from_commit", which)
