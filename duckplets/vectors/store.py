"""Keep vectors in a file beside the corpus, by the hash of the text that each is of."""

# A commit has a number and a digest that follows from all before, so a run can be pinned to it. A
# vector is stored as bytes: DuckDB's arrays of floats take six times as long.

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.base.arrays import Integers32, Words
from duckplets.base.columns import column, text_column
from duckplets.base.sanitize import counted, listed, shown
from duckplets.base.settings import Bounds, Name, checked
from duckplets.db import files, migrate
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.db.short_open import for_a_moment
from duckplets.errors import DuckpletsError, VectorError, nearest

Matrix = npt.NDArray[np.floating[Any]]
Dtype = Literal["float32", "float16"]
_KINDS: dict[str, Any] = {"name": Annotated[str, Name()], "dtype": Dtype}
_KINDS |= {"dimension": Annotated[int, Bounds(1, 65_536)]}

_BYTES = 32 << 20  # of vectors that are read or written at once
_LEAST = 2048  # rows that DuckDB hands over at once


class Commit(NamedTuple):
    """What was added to a set at once."""

    number: int  # from 1
    digest: str  # of all up to it
    added: int
    dropped: int  # of these, since


@dataclass(frozen=True, slots=True)
class VectorSet:
    """A set of vectors, as of its last commit."""

    name: str
    dimension: int
    dtype: Dtype
    made_by: Mapping[str, Any]  # what makes the vectors, as plain JSON
    set_id: int = 0  # in the file; 0 before it is there
    commits: tuple[Commit, ...] = ()

    @property
    def number(self) -> int:
        """Number of the last commit; 0 before the first."""
        return self.commits[-1].number if self.commits else 0

    @property
    def digest(self) -> str:
        """Digest of all up to the last commit; empty before the first."""
        return self.commits[-1].digest if self.commits else ""

    @property
    def vectors(self) -> int:
        """How many there are."""
        return sum(commit.added - commit.dropped for commit in self.commits)

    def as_of(self, number: int) -> VectorSet:
        """Return the set as of one of its commits, or before the first."""
        then = replace(self, commits=tuple(c for c in self.commits if c.number <= number))
        if then.number != number:
            raise VectorError(
                f"vectors {self.name!r} have {len(self.commits)} commits, and none has the number "
                f"{number}: the set was made anew, or an older copy of its file was put there"
            )
        return then

    @property
    def numpy_type(self) -> np.dtype[Any]:
        """The type of its numbers, least byte first."""
        return np.dtype("<f2" if self.dtype == "float16" else "<f4")

    @property
    def width(self) -> int:
        """Bytes of one vector."""
        return self.dimension * self.numpy_type.itemsize

    def lists(self, matrix: Matrix, valid: pa.Buffer | None = None) -> pa.Array:
        """Return vectors as fixed-size lists of Arrow, without a copy."""
        kind = pa.from_numpy_dtype(self.numpy_type)
        flat = pa.Array.from_buffers(kind, matrix.size, [None, pa.py_buffer(matrix)])
        lists = pa.list_(kind, self.dimension)
        return pa.Array.from_buffers(lists, len(matrix), [valid], children=[flat])

    @property
    def rows_at_once(self) -> int:
        """How many of its vectors are read or written at once."""
        return max(_LEAST, _BYTES // self.width)

    def statement(self, name: str) -> str:
        """Return a statement over the tables of the set."""
        return query(name).replace("vectors_0", f"vectors_{self.set_id}")


class VectorStore:
    """The vector file of a corpus, ``NAME.vectors.duckdb``, which may be missing."""

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
        """Return the set of a name as it is now, or raise."""
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

    def remove(self, name: str) -> int:
        """Remove a set; return how many vectors it had."""
        found = self.need(name)
        with self._writing() as database:
            database.rows(found.statement("vectors/store/drop"))
            for statement in ("delete_commits", "delete_failures", "delete_set"):
                database.run(f"vectors/store/{statement}", {"set_id": found.set_id})
        return found.vectors

    # -- in -----------------------------------------------------------------------------------

    def append(self, of: VectorSet, blocks: Iterable[tuple[Words, Matrix]]) -> int:
        """Add vectors of texts that have none as the next commit; return how many were added."""
        # Blocks are hashes (n,) and a matrix (n, dimension). The first of equal texts counts.
        if not self.path.exists():
            files.make_folder(self.path)
            migrate.create(self.path, "vectors")
        sums = _Sums()
        with self._writing() as database:
            found = _find(database, of.name) or _create(database, of)
            refuse_other(found, of)
            for hashes, matrix in blocks:
                _insert(database, found, hashes, matrix, sums)
            if sums.rows:
                number, digest = found.number + 1, sums.digest_after(found.digest)
                told = {"set_id": found.set_id, "number": number, "digest": digest}
                database.run("vectors/store/add_commit", {**told, "vectors": sums.rows})
        return sums.rows

    def fail(self, name: str, hashes: Words, reasons: Sequence[str]) -> None:
        """Note texts for which no vector could be made, in the place of what was noted of them."""
        incoming = pa.table({"text_hash": column(hashes), "reason": text_column(reasons)})
        with self._writing() as database, database.registered(incoming=incoming):
            if of := _find(database, name):
                database.run("vectors/store/forget_failures", {"set_id": of.set_id})
                database.run("vectors/store/add_failures", {"set_id": of.set_id})

    def keep_only(self, texts: Words) -> dict[str, int]:
        """Remove the vectors of all texts but some; return how many went, by set."""
        # Commits keep their numbers and digests, so pinned runs continue.
        if not self.path.exists():
            return {}
        freed: dict[str, int] = {}
        kept = pa.table({"text_hash": column(texts)})
        with self._writing() as database, database.registered(kept=kept):
            for of in _sets(database):
                ((gone,),) = database.rows(of.statement("vectors/store/keep"))
                if gone:
                    freed[of.name] = gone
                    database.rows(of.statement("vectors/store/dropped"), {"set_id": of.set_id})
        return freed

    # -- out ----------------------------------------------------------------------------------

    def failures(self, of: VectorSet) -> pa.Table:
        """Return ``text_hash``, ``reason`` and ``failed_at`` of texts that have no vector."""
        with self._reading() as database:
            return database.table("vectors/store/failures", {"set_id": of.set_id})

    def known(self, of: VectorSet) -> Words:
        """Return the hashes of the texts that have a vector now: ascending, shape (n,)."""
        with self._reading() as database:
            found = database.arrow(of.statement("vectors/store/hashes")).column(0)
        return np.sort(found.to_numpy())

    def read(self, of: VectorSet) -> Iterator[tuple[Words, Matrix]]:
        """Yield hashes (n,) and a matrix (n, dimension), in blocks, up to the last commit."""
        count = 0
        with self._reading() as database:
            for hashes, _, matrix in _rows(database, of):
                count += len(hashes)
                if count <= of.vectors:
                    yield hashes, matrix
        if count != of.vectors:
            raise VectorError(
                f"{self.path} is damaged: vectors {of.name!r} should be {of.vectors:,} up to "
                f"commit {of.number}, and {count:,} are there; put a copy of the file in its place"
            )

    def verify(self) -> Iterator[str]:
        """Yield what is wrong with vectors: those of a commit are not what its digest says."""
        for of in self.sets():
            found: dict[int, _Sums] = {}
            with self._reading() as database:
                for hashes, numbers, matrix in _rows(database, of):
                    for number in np.unique(numbers).tolist():
                        at = numbers == number
                        found.setdefault(number, _Sums()).add(hashes[at], matrix[at])
            before = ""
            for commit in of.commits:
                sums = found.get(commit.number, _Sums())
                is_whole = commit.dropped or sums.digest_after(before) == commit.digest
                if sums.rows != commit.added - commit.dropped or not is_whole:
                    yield (
                        f"vectors {shown(repr(of.name))}, commit {commit.number}: its "
                        f"{counted(sums.rows, 'vector')} are not as they were written"
                    )
                before = commit.digest

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


def _insert(database: Database, of: VectorSet, hashes: Words, matrix: Matrix, sums: _Sums) -> None:
    """Insert the vectors of texts that have none, as the commit after the last."""
    given = pa.table({"row": np.arange(len(hashes)), "text_hash": column(hashes)})
    with database.registered(incoming=given):
        new = database.arrow(of.statement("vectors/store/new")).column(0).to_numpy()
    if len(new) < len(hashes):
        hashes, matrix = hashes[new], matrix[new]
    for low in range(0, len(hashes), of.rows_at_once):
        some = hashes[low : low + of.rows_at_once]
        part = np.ascontiguousarray(matrix[low : low + of.rows_at_once])
        sums.add(some, part)
        ends = np.arange(len(some) + 1, dtype=np.int64) * of.width
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(part)]
        packed = pa.Array.from_buffers(pa.large_binary(), len(some), buffers)
        number = np.full(len(some), of.number + 1, np.int32)
        incoming = pa.table({"text_hash": column(some), "number": number, "vector": packed})
        with database.registered(incoming=incoming):
            database.rows(of.statement("vectors/store/add"))
            database.run("vectors/store/forget_failures", {"set_id": of.set_id})


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


def _rows(database: Database, of: VectorSet) -> Iterator[tuple[Words, Integers32, Matrix]]:
    """Yield hashes, commits and vectors of a set up to its last commit, as they were added."""
    sql, asked = of.statement("vectors/store/read"), {"number": of.number}
    for batch in database.stream(sql, asked, rows=of.rows_at_once):
        hashes, numbers = (batch.column(name).to_numpy() for name in batch.schema.names[:2])
        yield hashes, numbers, _matrix_of(batch.column("vector"), of, Path(str(database.path)))


def _matrix_of(packed: pa.Array, of: VectorSet, path: Path) -> Matrix:
    """Return packed vectors as a matrix, without a copy."""
    wide = np.int64 if pa.types.is_large_binary(packed.type) else np.int32
    _, ends, data = packed.buffers()
    if len(packed) == 0 or ends is None or data is None:
        return np.zeros((0, of.dimension), of.numpy_type)
    starts = np.frombuffer(ends, wide)[packed.offset :][: len(packed) + 1]
    if (np.diff(starts) != of.width).any():
        raise VectorError(
            f"{path} is damaged: a vector of {of.name!r} has another length than {of.width} bytes; "
            f"put a copy of the file in its place, or remove the set and make it anew"
        )
    count = len(packed) * of.dimension
    flat = np.frombuffer(data, of.numpy_type, count, int(starts[0]))
    return cast(Matrix, flat.reshape(len(packed), of.dimension))


def _sets(database: Database) -> list[VectorSet]:
    found = []
    for name, dimension, dtype, made_by, set_id, rows in database.run("vectors/store/sets"):
        commits = tuple(Commit(**row) for row in rows)
        found.append(VectorSet(name, dimension, dtype, json.loads(made_by), set_id, commits))
    return found


def _find(database: Database, name: str) -> VectorSet | None:
    return next((found for found in _sets(database) if found.name == name), None)


def refuse_other(found: VectorSet, wanted: VectorSet) -> None:
    """Refuse a set that is of another dimension, type or maker than the one that is wanted."""
    there, given = (
        {"dimension": of.dimension, "dtype": of.dtype, **of.made_by} for of in (found, wanted)
    )
    other = [
        f"{key} (there: {shown(repr(there.get(key)), 100)}, given: "
        f"{shown(repr(given.get(key)), 100)})"
        for key in {**there, **given}
        if there.get(key) != given.get(key)
    ]
    if other:
        raise VectorError(
            f"vectors {found.name!r} are of another maker: {'; '.join(other)}. Give another name=, "
            f"or remove them first with corpus.remove(vectors={found.name!r})"
        )


def _create(database: Database, wanted: VectorSet) -> VectorSet:
    given = {name: getattr(wanted, name) for name in _KINDS}
    for name, kind in _KINDS.items():
        checked(name, given[name], kind, VectorError)
    made_by = json.dumps(wanted.made_by, ensure_ascii=False)
    ((set_id,),) = database.run("vectors/store/add_set", {**given, "made_by": made_by})
    made = replace(wanted, set_id=set_id)
    text = made.statement("vectors/store/create")
    text = text.replace("floats_of_dtype", f"floats_of_{made.dtype}")
    database.rows(text.replace("FLOAT[1]", f"FLOAT[{made.dimension}]"))
    return made


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
