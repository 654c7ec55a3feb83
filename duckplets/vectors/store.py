"""Store vectors in a file next to the corpus, by the hash of their text."""

# A run is pinned to a commit by its number and its digest, which covers all earlier commits.
# Vectors are stored as bytes, because DuckDB's arrays of floats take six times as long.

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
_LEAST = 2048  # rows of a vector of DuckDB


class Commit(NamedTuple):
    """Count the vectors that were added to a set at once."""

    number: int  # from 1
    digest: str  # of all commits up to it
    added: int
    dropped: int  # removed since


@dataclass(frozen=True, slots=True)
class VectorSet:
    """Describe a set of vectors, as of its last commit."""

    name: str
    dimension: int
    dtype: Dtype
    made_by: Mapping[str, Any]  # identity of the maker, as plain JSON
    set_id: int = 0  # in the file; 0 before its creation
    commits: tuple[Commit, ...] = ()

    @property
    def number(self) -> int:
        """Number of the last commit; 0 before the first."""
        return self.commits[-1].number if self.commits else 0

    @property
    def digest(self) -> str:
        """Digest of all commits; empty before the first."""
        return self.commits[-1].digest if self.commits else ""

    @property
    def vectors(self) -> int:
        """Number of vectors."""
        return sum(commit.added - commit.dropped for commit in self.commits)

    def as_of(self, number: int) -> VectorSet:
        """Return the set as of one of its commits, or before the first."""
        then = replace(self, commits=tuple(c for c in self.commits if c.number <= number))
        if then.number != number:
            raise VectorError(
                f"vectors {self.name!r} have {len(self.commits)} commits, none with number "
                f"{number}: the set was made again, or an older copy replaced its file"
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
        """Number of vectors that are read or written at once."""
        return max(_LEAST, _BYTES // self.width)

    def statement(self, name: str) -> str:
        """Return a statement over the tables of the set."""
        return query(name).replace("vectors_0", f"vectors_{self.set_id}")


class VectorStore:
    """Read and write the vector file of a corpus, ``NAME.vectors.duckdb``, which may be missing."""

    def __init__(self, corpus_path: Path) -> None:
        self.path = files.next_to(corpus_path, files.VECTORS)

    # -- sets ---------------------------------------------------------------------------------

    def sets(self) -> list[VectorSet]:
        """Return all sets, by name; empty without a file."""
        if not self.path.exists():
            return []
        with self._reading() as database:
            return _sets(database)

    def find(self, name: str) -> VectorSet | None:
        """Return the set of a name, or None."""
        return next((found for found in self.sets() if found.name == name), None)

    def need(self, name: str) -> VectorSet:
        """Return the set of a name, or raise."""
        sets = {found.name: found for found in self.sets()}
        if name in sets:
            return sets[name]
        known = f"known: {listed(sets)}" if sets else "there are none"
        moved = "" if self.path.exists() else f", because {self.path} does not exist"
        raise VectorError(
            f"no vectors are named {shown(repr(name))}{nearest(str(name), sets)}; {known}{moved}. "
            f"Make them with corpus.embed(…, name=…) or corpus.add_vectors(name, …), or put back a "
            f"file that you moved"
        )

    def remove(self, name: str) -> int:
        """Remove a set; return its number of vectors."""
        found = self.need(name)
        with self._writing() as database:
            database.rows(found.statement("vectors/store/drop"))
            for statement in ("delete_commits", "delete_failures", "delete_set"):
                database.run(f"vectors/store/{statement}", {"set_id": found.set_id})
        return found.vectors

    # -- writing ------------------------------------------------------------------------------

    def append(self, wanted: VectorSet, blocks: Iterable[tuple[Words, Matrix]]) -> int:
        """Add vectors of texts without one as the next commit; return their number."""
        # Blocks are hashes (n,) and a matrix (n, dimension). The first of equal texts counts.
        if not self.path.exists():
            files.make_folder(self.path)
            migrate.create(self.path, "vectors")
        sums = _Sums()
        with self._writing() as database:
            found = _find(database, wanted.name) or _create(database, wanted)
            refuse_other(found, wanted)
            for hashes, matrix in blocks:
                _insert(database, found, hashes, matrix, sums)
            if sums.rows:
                number, digest = found.number + 1, sums.digest_after(found.digest)
                commit = {"set_id": found.set_id, "number": number, "digest": digest}
                database.run("vectors/store/add_commit", {**commit, "vectors": sums.rows})
        return sums.rows

    def fail(self, name: str, hashes: Words, reasons: Sequence[str]) -> None:
        """Store the reasons of texts without a vector, instead of earlier reasons."""
        incoming = pa.table({"text_hash": column(hashes), "reason": text_column(reasons)})
        with self._writing() as database, database.registered(incoming=incoming):
            if found := _find(database, name):
                database.run("vectors/store/forget_failures", {"set_id": found.set_id})
                database.run("vectors/store/add_failures", {"set_id": found.set_id})

    def keep_only(self, texts: Words) -> dict[str, int]:
        """Remove the vectors of all other texts; return the number of removed ones by set."""
        # Commits keep their numbers and digests, so pinned runs continue.
        if not self.path.exists():
            return {}
        removed: dict[str, int] = {}
        with (
            self._writing() as database,
            database.registered(kept=pa.table({"text_hash": column(texts)})),
        ):
            for each in _sets(database):
                ((count,),) = database.rows(each.statement("vectors/store/keep"))
                if count:
                    removed[each.name] = count
                    database.rows(each.statement("vectors/store/dropped"), {"set_id": each.set_id})
        return removed

    # -- reading ------------------------------------------------------------------------------

    def failures(self, vector_set: VectorSet) -> pa.Table:
        """Return ``text_hash``, ``reason`` and ``failed_at`` of texts without a vector."""
        with self._reading() as database:
            return database.table("vectors/store/failures", {"set_id": vector_set.set_id})

    def known(self, vector_set: VectorSet) -> Words:
        """Return the hashes of the texts with a vector: ascending, shape (n,)."""
        with self._reading() as database:
            found = database.arrow(vector_set.statement("vectors/store/hashes")).column(0)
        return np.sort(found.to_numpy())

    def read(self, vector_set: VectorSet) -> Iterator[tuple[Words, Matrix]]:
        """Yield hashes (n,) and a matrix (n, dimension), in blocks, up to the last commit."""
        count, expected = 0, vector_set.vectors
        with self._reading() as database:
            for hashes, _, matrix in _rows(database, vector_set):
                count += len(hashes)
                if count <= expected:
                    yield hashes, matrix
        if count != expected:
            raise VectorError(
                f"{self.path} is damaged: it has {count:,} vectors {vector_set.name!r} up to "
                f"commit {vector_set.number} instead of {expected:,}; replace it by a copy"
            )

    def verify(self) -> Iterator[str]:
        """Yield the commits whose vectors do not match their digest."""
        for each in self.sets():
            found: dict[int, _Sums] = {}
            with self._reading() as database:
                for hashes, numbers, matrix in _rows(database, each):
                    for number in np.unique(numbers).tolist():
                        at = numbers == number
                        found.setdefault(number, _Sums()).add(hashes[at], matrix[at])
            before = ""
            for commit in each.commits:
                sums = found.get(commit.number, _Sums())
                is_whole = commit.dropped or sums.digest_after(before) == commit.digest
                if sums.rows != commit.added - commit.dropped or not is_whole:
                    yield (
                        f"vectors {shown(repr(each.name))}, commit {commit.number}: its "
                        f"{counted(sums.rows, 'vector')} have changed since they were written"
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
                f"{self.path} does not exist: it has the vectors of the corpus. Put it back, or "
                f"make them again with corpus.embed(…) or corpus.add_vectors(…)"
            )
        with for_a_moment(self.path, read_only=True) as database:
            migrate.check(database, "vectors")
            yield database


def _insert(
    database: Database, vector_set: VectorSet, hashes: Words, matrix: Matrix, sums: _Sums
) -> None:
    """Insert the vectors of texts without one, as the commit after the last."""
    numbered = pa.table({"row": np.arange(len(hashes)), "text_hash": column(hashes)})
    with database.registered(incoming=numbered):
        new = database.arrow(vector_set.statement("vectors/store/new")).column(0).to_numpy()
    if len(new) < len(hashes):
        hashes, matrix = hashes[new], matrix[new]
    step = vector_set.rows_at_once
    for low in range(0, len(hashes), step):
        some, part = hashes[low : low + step], np.ascontiguousarray(matrix[low : low + step])
        sums.add(some, part)
        ends = np.arange(len(some) + 1, dtype=np.int64) * vector_set.width
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(part)]
        packed = pa.Array.from_buffers(pa.large_binary(), len(some), buffers)
        number = np.full(len(some), vector_set.number + 1, np.int32)
        incoming = pa.table({"text_hash": column(some), "number": number, "vector": packed})
        with database.registered(incoming=incoming):
            database.rows(vector_set.statement("vectors/store/add"))
            database.run("vectors/store/forget_failures", {"set_id": vector_set.set_id})


class _Sums:
    """Count and digest the vectors that a commit adds."""

    def __init__(self) -> None:
        self.rows = 0
        self._digests = (hashlib.sha256(), hashlib.sha256())

    def add(self, hashes: Words, matrix: Matrix) -> None:
        for digest, part in zip(self._digests, (hashes, matrix), strict=True):
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        self.rows += len(hashes)

    def digest_after(self, before: str) -> str:
        """Return SHA-256 over the digest before, and over the hashes and vectors of this commit."""
        one, other = self._digests
        return hashlib.sha256(before.encode() + one.digest() + other.digest()).hexdigest()


def _rows(database: Database, vector_set: VectorSet) -> Iterator[tuple[Words, Integers32, Matrix]]:
    """Yield hashes, commits and vectors of a set up to its last commit, in stored order."""
    sql, path = vector_set.statement("vectors/store/read"), Path(str(database.path))
    last = {"number": vector_set.number}
    for batch in database.stream(sql, last, rows=vector_set.rows_at_once):
        hashes, numbers = (batch.column(name).to_numpy() for name in batch.schema.names[:2])
        yield hashes, numbers, _matrix_of(batch.column("vector"), vector_set, path)


def _matrix_of(packed: pa.Array, vector_set: VectorSet, path: Path) -> Matrix:
    """Return packed vectors as a matrix, without a copy."""
    dimension, width = vector_set.dimension, vector_set.width
    wide = np.int64 if pa.types.is_large_binary(packed.type) else np.int32
    _, ends, data = packed.buffers()
    if len(packed) == 0 or ends is None or data is None:
        return np.zeros((0, dimension), vector_set.numpy_type)
    starts = np.frombuffer(ends, wide)[packed.offset :][: len(packed) + 1]
    if (np.diff(starts) != width).any():
        raise VectorError(
            f"{path} is damaged: a vector of {vector_set.name!r} has not {width} bytes; replace "
            f"the file by a copy, or remove the set and make it again"
        )
    count = len(packed) * dimension
    flat = np.frombuffer(data, vector_set.numpy_type, count, int(starts[0]))
    return cast(Matrix, flat.reshape(len(packed), dimension))


def _sets(database: Database) -> list[VectorSet]:
    found = []
    for name, dimension, dtype, made_by, set_id, rows in database.run("vectors/store/sets"):
        commits = tuple(Commit(**row) for row in rows)
        found.append(VectorSet(name, dimension, dtype, json.loads(made_by), set_id, commits))
    return found


def _find(database: Database, name: str) -> VectorSet | None:
    return next((found for found in _sets(database) if found.name == name), None)


def refuse_other(found: VectorSet, wanted: VectorSet) -> None:
    """Refuse a set whose dimension, type or maker differs from the wanted one."""
    stored, given = (
        {"dimension": s.dimension, "dtype": s.dtype, **s.made_by} for s in (found, wanted)
    )
    different = [
        f"{key} (stored: {shown(repr(stored.get(key)), 100)}, given: "
        f"{shown(repr(given.get(key)), 100)})"
        for key in {**stored, **given}
        if stored.get(key) != given.get(key)
    ]
    if different:
        raise VectorError(
            f"vectors {found.name!r} were made in another way: {'; '.join(different)}. Give "
            f"another name=, or remove them first with corpus.remove(vectors={found.name!r})"
        )


def _create(database: Database, wanted: VectorSet) -> VectorSet:
    values = {name: getattr(wanted, name) for name in _KINDS}
    for name, kind in _KINDS.items():
        checked(name, values[name], kind, VectorError)
    values["made_by"] = json.dumps(wanted.made_by, ensure_ascii=False)
    ((set_id,),) = database.run("vectors/store/add_set", values)
    created = replace(wanted, set_id=set_id)
    text = created.statement("vectors/store/create")
    text = text.replace("floats_of_dtype", f"floats_of_{created.dtype}")
    database.rows(text.replace("FLOAT[1]", f"FLOAT[{created.dimension}]"))
    return created


def overview(corpus_path: Path) -> list[dict[str, Any]]:
    """Return facts about the sets of a corpus, for users; empty without a file."""
    store = VectorStore(corpus_path)
    try:
        return [
            {
                "name": each.name,
                "vectors": each.vectors,
                "dimension": each.dimension,
                "dtype": each.dtype,
                "commit": each.number,
                "failures": store.failures(each).num_rows,
                "made_by": dict(each.made_by),
            }
            for each in store.sets()
        ]
    except DuckpletsError as error:
        return [{"name": str(store.path), "damaged": str(error)}]
