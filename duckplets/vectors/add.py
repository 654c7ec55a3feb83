"""Take vectors that were made elsewhere: rows that name a text, and its vector.

    table ─blocks→ key columns ─hashes of texts→ ┐
                   vector ─checked→ (n, d)       ┴─ one commit → the set

A text is named by its chunk, by its record and role, or is given itself. All rows of a call are
one commit, or none of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, Words, places
from duckplets.base.columns import column, numbers_of
from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, counted, shown
from duckplets.base.stages import stage
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.engine.work import working
from duckplets.errors import VectorError
from duckplets.ingest import records
from duckplets.vectors.opened import opened
from duckplets.vectors.store import (
    Matrix,
    VectorCommit,
    VectorSet,
    VectorStore,
    checked_matrix,
    contains,
)

_ROWS = 32_768  # rows of a block
_MADE_BY = {"by": "add_vectors"}
_KEYS = ("chunk_key", "record_id", "text")


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
    dtype: Literal["float32", "float16"] = "float32",
    progress: Progress | bool | None = None,
) -> AddedVectors:
    """Keep vectors that were made elsewhere, by the texts they are of, whole or not at all.

    They go into ``NAME.vectors.duckdb`` beside the corpus, which may itself be open to read
    only. A vector is that of one text, and all chunks with that text share it.

    Args:
        name: Of the set; all its vectors are of one dimension and from this verb.
        table: An Arrow table or reader of batches, the path of a Parquet file, a
            ``datasets.Dataset``, or a mapping of names to NumPy arrays or lists. Its column
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
    if on_conflict not in ("error", "skip"):
        raise VectorError(f"on_conflict={shown(repr(on_conflict))}: give 'error' or 'skip'")
    blocks = _blocks(table)
    first = next(blocks, None)
    if first is None or first.num_rows == 0:
        raise VectorError("add_vectors: the table has no rows")
    store = VectorStore(corpus.path)
    named, before = _Named(corpus.database, first.schema.names), store.find(name)
    of = store.begin(name, _width(first), dtype, _MADE_BY)
    taking = _Taking(of, named, compares=on_conflict == "error")
    try:
        with working(None, progress, "vectors") as work, store.commit(of) as commit:
            while first is not None:
                taking.take(commit, first)
                work.tell(taking.read)
                first = next(blocks, None)
            taking.compare(commit)
    except BaseException:
        if before is None and (now := store.find(name)) is not None and now.number == 0:
            store.remove(name)
        raise
    now = store.need(name)
    return AddedVectors(
        name=name,
        dimension=of.dimension,
        dtype=of.dtype,
        read=taking.read,
        added=taking.added,
        repeated=taking.read - taking.added,
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
    matrix = found.take(rows[rows >= 0])
    kind = found.of.arrow_type
    flat = pa.Array.from_buffers(kind.value_type, matrix.size, [None, pa.py_buffer(matrix)])
    vectors = pa.Array.from_buffers(kind, len(matrix), [None], children=[flat])
    return chunks.append_column("vector", vectors)


class _Taking:
    """Add blocks to a commit; ``compares``: repeated texts must have the same vector."""

    def __init__(self, of: VectorSet, named: _Named, *, compares: bool) -> None:
        self._set, self._named, self._compares = of, named, compares
        self._again: list[tuple[Words, Words, Integers]] = []  # texts, digests of vectors, rows
        self._weights = np.random.default_rng(20).integers(1, 1 << 63, of.dimension, np.uint64)
        self.read = self.added = 0

    def take(self, commit: VectorCommit, block: pa.RecordBatch) -> None:
        """Add the vectors of a block."""
        hashes = self._named.hashes(block, self.read)
        vectors = _numbers(block.column("vector"), self._set, self.read)
        matrix = checked_matrix(self._set, hashes, vectors, first_row=self.read)
        added = commit.add(hashes, matrix)
        if self._compares and len(added) < len(hashes):
            at = np.delete(np.arange(len(hashes)), added)
            self._again.append((hashes[at], self._digests(matrix[at]), at + self.read))
        self.added += len(added)
        self.read += len(hashes)

    def compare(self, commit: VectorCommit) -> None:
        """Refuse texts that came with another vector than the stored one."""
        if not self._again:
            return
        hashes, digests, rows = map(np.concatenate, zip(*self._again, strict=True))
        known, which = np.unique(hashes, return_inverse=True)
        stored = np.zeros(len(known), np.uint64)
        for some, matrix in commit.read():
            at = places(cast(Integers, known), cast(Integers, some))
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
        keys = [name for name in _KEYS if name in names]
        if len(keys) != 1 or "vector" not in names or ("record_id" in keys) > ("role" in names):
            raise VectorError(
                f"add_vectors: the columns are {', '.join(map(shown, names))}; give 'vector', and "
                f"one of 'chunk_key', 'record_id' with 'role' (and 'position'), or 'text'"
            )
        self._key = keys[0]
        self._version = records.current_version(database)
        found = database.table("vectors/add/chunks")
        self._keys, self._hashes = (found.column(i).to_numpy() for i in range(2))
        if self._key == "text":
            self._hashes = np.unique(self._hashes)

    def hashes(self, block: pa.RecordBatch, first: int) -> Words:
        """Return the hash of the text of each row; ``first``: the number of the first.

        Raises:
            VectorError: A row names none, or several.
        """
        for name in {self._key, *(["role"] if self._key == "record_id" else [])}:
            if block.column(name).null_count:
                row = int(np.argmin(block.column(name).is_valid().to_numpy(zero_copy_only=False)))
                raise VectorError(f"add_vectors: row {first + row} has no {name}")
        if self._key == "chunk_key":
            return self._of_chunks(block.column("chunk_key"), first)
        number = column(np.arange(block.num_rows, dtype=np.int64))
        if self._key == "text":
            incoming = pa.table({"number": number, "text": _cast(block, "text", pa.string())})
            with self._database.registered(incoming=incoming):
                hashes = self._database.table("vectors/add/hashed").column(0).to_numpy()
            self._refuse(~contains(self._hashes, hashes), block, first)
            return cast(Words, hashes)
        named: dict[str, Any] = {
            name: _cast(block, name, pa.string()) for name in ("record_id", "role")
        }
        position = pa.nulls(block.num_rows, pa.int64())
        if "position" in block.schema.names:
            position = _cast(block, "position", pa.int64())
        incoming = pa.table({"number": number, **named, "position": position})
        with self._database.registered(incoming=incoming):
            found = self._database.table("vectors/add/of_sections", {"version": self._version})
        sections, texts, hashes = (found.column(i).to_numpy() for i in range(1, 4))
        self._refuse(texts == 0, block, first)
        several = np.flatnonzero(texts > 1)
        if len(several):
            row = int(several[0])
            what = f"{counted(int(texts[row]), 'chunk')} with different texts"
            if sections[row] > 1:
                what = f"{int(sections[row]):,} sections of that role"
            raise VectorError(
                f"add_vectors: row {first + row} is of {self._shown(block, row)}, which has "
                f"{what} ({counted(len(several), 'such row')} in its block): each text has a "
                f"vector of its own. Name chunks by 'chunk_key', or sections by 'position' too"
            )
        return cast(Words, hashes)

    def _of_chunks(self, keys: pa.Array, first: int) -> Words:
        if not pa.types.is_integer(keys.type):
            raise VectorError(f"add_vectors: chunk_key is of type {keys.type}; give integers")
        wanted = keys.cast(pa.int64()).to_numpy()
        at = places(self._keys, wanted)
        if (at < 0).any():
            row = int(np.argmax(at < 0))
            raise VectorError(
                f"add_vectors: row {first + row} names chunk_key {wanted[row]}, which the corpus "
                f"does not have ({counted(int((at < 0).sum()), 'such row')} in its block); keys "
                f"are those of the table chunks, and change when a corpus is chunked anew"
            )
        return cast(Words, self._hashes[at])

    def _refuse(self, unknown: Any, block: pa.RecordBatch, first: int) -> None:
        if unknown.any():
            row = int(np.argmax(unknown))
            raise VectorError(
                f"add_vectors: row {first + row} is of {self._shown(block, row)}, which the corpus "
                f"does not have ({counted(int(unknown.sum()), 'such row')} in its block)"
            )

    def _shown(self, block: pa.RecordBatch, row: int) -> str:
        if self._key == "text":
            return f"the text {shown(repr(block.column('text')[row].as_py()), 80)}"
        parts = [f"record {shown(repr(block.column('record_id')[row].as_py()))}"]
        parts += [f"role {shown(repr(block.column('role')[row].as_py()))}"]
        if "position" in block.schema.names:
            parts.append(f"position {block.column('position')[row].as_py()}")
        return ", ".join(parts)


def remove_vectors(corpus: CorpusFile, /, name: str) -> int:
    """Remove a set of vectors, and return how many it had; runs that are pinned to it end.

    Raises:
        VectorError: There is none of that name.
    """
    return VectorStore(corpus.path).remove(name)


def _cast(block: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    try:
        return block.column(name).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise VectorError(
            f"add_vectors: {name} is of type {block.column(name).type}; give {kind}"
        ) from error


def _blocks(table: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in blocks."""
    if isinstance(table, str | Path):
        yield from _of_parquet(Path(table))
        return
    if isinstance(table, Mapping):
        table = pa.table({name: _column_of(values) for name, values in table.items()})
    elif hasattr(table, "with_format") and hasattr(table, "iter"):  # a datasets.Dataset
        for part in table.with_format("arrow").iter(batch_size=_ROWS):
            yield from _cut(part.to_batches())
        return
    if isinstance(table, pa.Table):
        yield from _cut(table.to_batches(max_chunksize=_ROWS))
    elif isinstance(table, pa.RecordBatch):
        yield from _cut([table])
    elif hasattr(table, "__arrow_c_stream__"):
        yield from _cut(pa.RecordBatchReader.from_stream(table))
    else:
        raise VectorError(
            f"add_vectors: a {type(table).__name__} was given; give an Arrow table or reader, the "
            f"path of a Parquet file, a datasets.Dataset, or a mapping of names to arrays"
        )


def _cut(batches: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for low in range(0, batch.num_rows, _ROWS):
            yield batch.slice(low, _ROWS)


def _of_parquet(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=_ROWS)
    except (OSError, pa.ArrowException) as error:
        raise VectorError(f"{shown(path)} cannot be read as Parquet: {error}") from error


def _column_of(values: Any) -> Any:
    """Return a column of a mapping; a matrix becomes fixed-size lists without a copy."""
    if isinstance(values, np.ndarray) and values.ndim == 2:
        if values.dtype.kind not in "fiu":
            raise VectorError(f"add_vectors: an array of {values.dtype}; numbers are needed")
        flat = column(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, max(1, values.shape[1]))
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise VectorError(f"add_vectors: a column cannot be read: {error}") from error


def _width(block: pa.RecordBatch) -> int:
    """Return the dimension of the first vector."""
    vectors = block.column("vector") if "vector" in block.schema.names else None
    if vectors is None:
        raise VectorError(
            f"add_vectors: there is no column 'vector', only {', '.join(block.schema.names)}"
        )
    if not pa.types.is_nested(vectors.type) or not hasattr(vectors.type, "value_type"):
        raise VectorError(f"add_vectors: vector is of type {vectors.type}; give lists of numbers")
    if pa.types.is_fixed_size_list(vectors.type):
        return int(vectors.type.list_size)
    return int(pc.list_value_length(vectors)[0].as_py() or 0)


def _numbers(vectors: pa.Array, of: VectorSet, first: int) -> Any:
    """Return a column of lists as a matrix, checked against the dimension of a set."""
    if vectors.null_count:
        row = int(np.argmin(vectors.is_valid().to_numpy(zero_copy_only=False)))
        raise VectorError(f"vectors {of.name!r}: row {first + row} has no vector, but null")
    if pa.types.is_fixed_size_list(vectors.type):
        flat, width = numbers_of(vectors), vectors.type.list_size
    else:
        lengths = pc.list_value_length(vectors).to_numpy()
        wrong = np.flatnonzero(lengths != of.dimension)
        if len(wrong):
            raise VectorError(
                f"vectors {of.name!r} have {of.dimension} dimensions, and row "
                f"{first + int(wrong[0])} has {int(lengths[wrong[0]])}"
            )
        flat, width = vectors.flatten(), of.dimension
    if flat.null_count:
        row = int(np.argmin(flat.is_valid().to_numpy(zero_copy_only=False))) // width
        raise VectorError(f"vectors {of.name!r}: row {first + row} has a null among its numbers")
    return flat.to_numpy(zero_copy_only=False).reshape(len(vectors), width)
