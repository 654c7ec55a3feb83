"""Take vectors that were made elsewhere: rows that name a text, and its vector.

    table ─blocks→ key columns ─hashes of texts→ ┐
                   vector ─checked→ (n, d)       ┴─ one commit → the set

A text is named by its chunk, by its record and role, or is given itself. All rows of a call are
one commit, or none of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Flags, Integers, Words, places
from duckplets.base.columns import column, numbers_of
from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, counted, shown
from duckplets.base.settings import checked
from duckplets.base.stages import stage
from duckplets.base.tables import blocks, one_of, typed
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.engine.work import working
from duckplets.errors import VectorError
from duckplets.ingest import records
from duckplets.vectors.opened import opened
from duckplets.vectors.store import Dtype, Matrix, VectorCommit, VectorSet, VectorStore

_MADE_BY = {"by": "add_vectors"}
_WHAT = "add_vectors", VectorError
_FORMS = (("chunk_key",), ("record_id", "role"), ("text",))
_KINDS = {
    "chunk_key": pa.int64(),
    "record_id": pa.string(),
    "role": pa.string(),
    "text": pa.string(),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedVectors(Reported):
    """What ``add_vectors`` took; ``read == added + repeated``.

    Attributes:
        name: Of the set.
        dimension: Numbers of each vector.
        dtype: ``float32`` or ``float16``.
        read: Rows.
        added: Texts that have a vector now and had none.
        repeated: Rows of texts that had one already, or that came before.
        vectors: How many the set has now.
        commit: Number of its last commit.
        seconds: Wall time.
    """

    name: str
    dimension: int
    dtype: str
    read: int
    added: int
    repeated: int
    vectors: int
    commit: int
    seconds: float


@stage("add vectors to")
def add_vectors(
    corpus: CorpusFile,
    /,
    name: str,
    table: Any,
    *,
    on_conflict: Literal["error", "skip"] = "error",
    dtype: Dtype = "float32",
    progress: Progress | bool | None = None,
) -> AddedVectors:
    """Keep vectors that were made elsewhere, by the texts they are of, whole or not at all.

    They go into ``NAME.vectors.duckdb`` beside the corpus, which may itself be open to read
    only. A vector is that of one text, and all chunks with that text share it.

    Args:
        name: Of the set; all its vectors are of one dimension and from this verb.
        table: An Arrow table or reader of batches, data frame, ``datasets.Dataset``, dicts, the
            path of a Parquet file, or a mapping of names to NumPy arrays or lists. Its column
            ``vector`` has lists of numbers or rows of a 2-D array. Which text each is of says
            ``chunk_key``; or ``record_id`` and ``role``, and ``position`` where a record has
            several sections of a role; or ``text``, the bare text of a chunk.
        on_conflict: What becomes of a text that has another vector already, or that comes
            twice with two: an ``error``, or the one there was first stays (``skip``).
        dtype: In which the numbers are kept.
        progress: Called with rows done; True for a bar, None for one on a terminal.

    Raises:
        VectorError: A row names no text of the corpus, or a section of several chunks; its
            vector is null, of another dimension, or has a number that is not finite; or it
            conflicts. It names the row, from 0, and nothing of this call is kept.
    """
    started = time.monotonic()
    checked("on_conflict", on_conflict, Literal["error", "skip"], VectorError)
    given = (block for block in blocks(table, *_WHAT) if block.num_rows)
    first = next(given, None)
    if first is None:
        raise VectorError("add_vectors: the table has no rows")
    store, named = VectorStore(corpus.path), _Named(corpus.database, first.column_names)
    of = VectorSet(name, _width(first), dtype, _MADE_BY)
    read, added, repeated = 0, 0, _Repeated(of)
    with working(None, progress, "vectors") as work, store.commit(of) as commit:
        for block in chain([first], given):
            hashes, matrix = named.hashes(block, read), _matrix(block["vector"], of, read)
            rows = commit.add(hashes, matrix)
            if on_conflict == "error":
                repeated.add(hashes, matrix, np.delete(np.arange(len(hashes)), rows), read)
            read, added = read + len(hashes), added + len(rows)
            work.tell(read)
        repeated.refuse_others(commit)
    now = store.need(name)
    return AddedVectors(
        name=name,
        dimension=of.dimension,
        dtype=of.dtype,
        read=read,
        added=added,
        repeated=read - added,
        vectors=now.vectors,
        commit=now.number,
        seconds=round(time.monotonic() - started, 3),
    )


def vectors(corpus: CorpusFile, /, name: str = "default") -> pa.Table:
    """Return the vectors of a set, one row for each chunk of the newest version that has one.

    Columns: ``chunk_key``, ``record_id``, ``role``, ``text_hash`` and ``vector``, a fixed-size
    list; by ``chunk_key``. Equal texts have equal vectors. It holds all of them in memory.

    Raises:
        VectorError: There is no such set.
    """
    found = opened(corpus.path, name)
    version = records.current_version(corpus.database)
    chunks = corpus.database.table("vectors/add/live", {"version": version})
    rows = found.rows(chunks["text_hash"].to_numpy())
    chunks = chunks.filter(column(rows >= 0))
    return chunks.append_column("vector", found.of.lists(found.take(rows[rows >= 0])))


class _Repeated:
    """Rows of texts that have a vector already, which must be the same."""

    def __init__(self, of: VectorSet) -> None:
        self._set = of
        self._rows: list[tuple[Words, Words, Integers]] = []  # texts, digests of vectors, rows
        self._weights = np.random.default_rng(20).integers(1, 1 << 63, of.dimension, np.uint64)

    def add(self, hashes: Words, matrix: Matrix, at: Integers, first: int) -> None:
        """Note some rows of a block that begins at row ``first``."""
        if len(at):
            self._rows.append((hashes[at], self._digests(matrix[at]), at + first))

    def refuse_others(self, commit: VectorCommit) -> None:
        """Refuse texts that came with another vector than the stored one."""
        if not self._rows:
            return
        hashes, digests, rows = map(np.concatenate, zip(*self._rows, strict=True))
        known, which = np.unique(hashes, return_inverse=True)
        stored = np.zeros(len(known), np.uint64)
        for some, _, matrix in commit.read():
            at = places(known, some)
            stored[at[at >= 0]] = self._digests(matrix[at >= 0])
        other = rows[stored[which] != digests]
        if len(other):
            raise VectorError(
                f"vectors {self._set.name!r}: row {other.min()} has another vector than its text "
                f"has already ({counted(len(other), 'such row')}): remove them first with "
                f"corpus.remove_vectors({self._set.name!r}), or keep those that are there with "
                f"on_conflict='skip'"
            )

    def _digests(self, matrix: Matrix) -> Words:
        """Return a number per vector; equal bytes give equal numbers."""
        size = self._set.numpy_type.itemsize
        bits = np.ascontiguousarray(matrix).view(np.uint32 if size == 4 else np.uint16)
        return cast(Words, bits.astype(np.uint64) @ self._weights)


class _Named:
    """Find the texts that rows name, by the names of their columns."""

    def __init__(self, database: Database, names: list[str]) -> None:
        self._database = database
        forms = [(*form, "vector") for form in _FORMS]
        self._kinds = {name: _KINDS[name] for name in one_of(forms, names, *_WHAT)[:-1]}
        if "record_id" in self._kinds and "position" in names:
            self._kinds["position"] = pa.int64()
        self._version = records.current_version(database)
        found = database.table("vectors/add/chunks")
        self._keys, self._hashes = (found.column(i).to_numpy() for i in range(2))

    def hashes(self, block: pa.Table, first: int) -> Words:
        """Return the hash of the text of each row; ``first``: the number of the first.

        Raises:
            VectorError: A row names none, or several.
        """
        named = typed(block, self._kinds, *_WHAT, first)
        if "chunk_key" in self._kinds:
            at = places(self._keys, named["chunk_key"].to_numpy())
            self._refuse(at < 0, named, first)
            return cast(Words, self._hashes[at])
        number = np.arange(len(named))
        if "text" in self._kinds:
            with self._database.registered(incoming=named.append_column("number", [number])):
                hashes = self._database.table("vectors/add/hashed").column(0).to_numpy()
            self._refuse(places(self._known_texts, hashes) < 0, named, first)
            return cast(Words, hashes)
        if "position" not in self._kinds:
            named = named.append_column("position", pa.nulls(len(named), pa.int64()))
        with self._database.registered(incoming=named.append_column("number", [number])):
            found = self._database.table("vectors/add/of_sections", {"version": self._version})
        sections, texts, hashes = (found.column(i).to_numpy() for i in range(1, 4))
        self._refuse(texts == 0, named, first)
        several = np.flatnonzero(texts > 1)
        if len(several):
            row = int(several[0])
            what = f"{counted(int(texts[row]), 'chunk')} with different texts"
            if sections[row] > 1:
                what = f"{int(sections[row]):,} sections of that role"
            raise VectorError(
                f"add_vectors: row {first + row} is of {self._shown(named, row)}, which has "
                f"{what} ({counted(len(several), 'such row')} in its block): each text has a "
                f"vector of its own. Name chunks by 'chunk_key', or sections by 'position' too"
            )
        return cast(Words, hashes)

    @cached_property
    def _known_texts(self) -> Words:
        return np.unique(self._hashes)

    def _refuse(self, unknown: Flags, named: pa.Table, first: int) -> None:
        if unknown.any():
            row = int(np.argmax(unknown))
            raise VectorError(
                f"add_vectors: row {first + row} is of {self._shown(named, row)}, which the corpus "
                f"does not have ({counted(int(unknown.sum()), 'such row')} in its block). Keys are "
                f"those of the table chunks, and change when a corpus is chunked anew"
            )

    def _shown(self, named: pa.Table, row: int) -> str:
        given = ((name, named[name][row].as_py()) for name in self._kinds)
        return ", ".join(f"{name} {shown(repr(value), 80)}" for name, value in given)


def remove_vectors(corpus: CorpusFile, /, name: str) -> int:
    """Remove a set of vectors, and return how many it had; runs that are pinned to it end.

    Raises:
        VectorError: There is none of that name.
    """
    return VectorStore(corpus.path).remove(name)


def _width(block: pa.Table) -> int:
    """Return the dimension of the first vector."""
    kind: Any = block["vector"].type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise VectorError(f"add_vectors: vector is of type {kind}; give lists of numbers")
    return int(pc.list_value_length(block["vector"])[0].as_py() or 0)


def _matrix(vectors: pa.ChunkedArray, of: VectorSet, first: int) -> Matrix:
    """Return a column of lists in the type of a set; its rows count from ``first``.

    Raises:
        VectorError: A vector is missing, of another dimension, or has a number that is not finite.
    """
    what, width = f"vectors {of.name!r}", of.dimension
    if vectors.null_count:
        row = first + pc.index(pc.is_null(vectors), True).as_py()
        raise VectorError(f"{what}: row {row} has no vector, but null")
    if pa.types.is_fixed_size_list(vectors.type):
        flat = numbers_of(vectors)
    else:
        lengths = pc.list_value_length(vectors)
        if (row := pc.index(pc.equal(lengths, width), False).as_py()) >= 0:
            raise VectorError(
                f"{what} have {width} dimensions, and row {first + row} has {lengths[row]}"
            )
        flat = vectors.combine_chunks().flatten()
    if not pa.types.is_floating(flat.type) and not pa.types.is_integer(flat.type):
        raise VectorError(f"{what}: vector has lists of {flat.type}; give lists of numbers")
    if flat.null_count:
        row = first + pc.index(pc.is_null(flat), True).as_py() // width
        raise VectorError(f"{what}: row {row} has a null among its numbers")
    given = flat.to_numpy(zero_copy_only=False).reshape(len(vectors), width)
    with np.errstate(over="ignore"):
        made = given.astype(of.numpy_type, order="C", copy=False)
    finite = np.isfinite(made)
    if not finite.all():
        row, place = (int(at[0]) for at in np.nonzero(~finite))
        value = given[row, place]
        range_of = " (beyond the range of float16)" if np.isfinite(value) else ""
        raise VectorError(
            f"{what}: row {first + row} has {value} as its number {place}{range_of}; every number "
            f"must be finite"
        )
    return cast(Matrix, made)
