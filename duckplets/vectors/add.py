"""Import vectors: rows with a text, or the key of a text, and its vector."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Words
from duckplets.base.columns import column, numbers_of
from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, counted, shown
from duckplets.base.stages import stage
from duckplets.base.tables import blocks, one_of, typed
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import INLINE
from duckplets.engine.work import working
from duckplets.errors import VectorError
from duckplets.ingest import records
from duckplets.vectors.opened import opened
from duckplets.vectors.store import Dtype, Matrix, VectorSet, VectorStore

_MADE_BY = {"by": "add_vectors"}
_WHAT = "add_vectors", VectorError
_KINDS = {
    "chunk_key": pa.int64(),
    "record_id": pa.string(),
    "role": pa.string(),
    "position": pa.int64(),
    "text": pa.string(),
}
_FORMS = {  # the columns of a table, and the statement that finds their texts
    ("chunk_key", "vector"): "vectors/add/of_chunks",
    ("record_id", "role", "vector"): "vectors/add/of_sections",
    ("text", "vector"): "vectors/add/of_texts",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedVectors(Reported):
    """Report one call of ``add_vectors``; ``read == added + repeated``.

    Attributes:
        name: Name of the set.
        dimension: Numbers per vector.
        dtype: ``float32`` or ``float16``.
        read: Rows of the table.
        added: Texts that got a vector.
        repeated: Rows of texts that had a vector, or that an earlier row has.
        vectors: Vectors in the set now.
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
    dtype: Dtype = "float32",
    progress: Progress | bool | None = None,
) -> AddedVectors:
    """Store vectors from another program, by text; all rows or none.

    They are stored in ``NAME.vectors.duckdb`` next to the corpus, which may be open read-only. A
    vector belongs to one text, and all chunks with that text share it. A text keeps its vector, and
    the first row of a text counts; other rows are ``repeated``. Other users of that file wait
    until the table is read.

    Args:
        name: Name of the set. All its vectors have one dimension and come from this verb.
        table: An Arrow table or reader of batches, data frame, ``datasets.Dataset``, dicts, the
            path of a Parquet file, or a mapping of names to NumPy arrays or lists. Its column
            ``vector`` has lists of numbers or rows of a 2-D array. Other columns name the text:
            ``chunk_key``; or ``record_id`` and ``role``, with ``position`` if a record has
            several sections of a role; or ``text``, the bare text of a chunk.
        dtype: Type of the stored numbers.
        progress: A function of rows done; True for a bar, None for a bar on a terminal.

    Raises:
        VectorError: A row names no text of the corpus, or several. Or its vector is null, of
            another dimension, or has a number that is not finite. The message has the number of
            the row, from 0, and the call stores nothing.
    """
    started = time.monotonic()
    parts = (block for block in blocks(table, *_WHAT) if block.num_rows)
    first = next(parts, None)
    if first is None:
        raise VectorError("add_vectors: the table has no rows")
    form = one_of(_FORMS, first.column_names, *_WHAT)
    store, vector_set = VectorStore(corpus.path), VectorSet(name, _width(first), dtype, _MADE_BY)
    kinds = {key: _KINDS[key] for key in form[:-1]}
    if "role" in form and "position" in first.column_names:
        kinds["position"] = _KINDS["position"]
    read = 0
    with working(INLINE, progress, "vectors") as work:

        def checked_blocks() -> Iterator[tuple[Words, Matrix]]:
            nonlocal read
            for block in chain([first], parts):
                keys = typed(block, kinds, *_WHAT, read)
                hashes = _hashes(corpus.database, keys, _FORMS[form], read)
                yield hashes, _matrix(block["vector"], vector_set, read)
                read += len(hashes)
                work.tell(read)

        added = store.append(vector_set, checked_blocks())
    now = store.need(name)
    return AddedVectors(
        name=name,
        dimension=now.dimension,
        dtype=now.dtype,
        read=read,
        added=added,
        repeated=read - added,
        vectors=now.vectors,
        commit=now.number,
        seconds=round(time.monotonic() - started, 3),
    )


def vectors(corpus: CorpusFile, /, name: str = "default") -> pa.Table:
    """Return the vectors of a set, one row for each chunk of the newest version with a vector.

    Columns: ``chunk_key``, ``record_id``, ``role``, ``text_hash`` and ``vector``, a fixed-size
    list; by ``chunk_key``. Equal texts have equal vectors. All of them are in memory.

    Raises:
        VectorError: There is no such set.
    """
    found = opened(corpus.path, name)
    version = records.current_version(corpus.database)
    chunks = corpus.database.table("vectors/add/live", {"version": version})
    rows = found.rows(chunks["text_hash"].to_numpy())
    chunks = chunks.filter(column(rows >= 0))
    return chunks.append_column("vector", found.vector_set.lists(found.take(rows[rows >= 0])))


def _hashes(database: Database, keys: pa.Table, sql: str, first: int) -> Words:
    """Return the hash of the text of each row; ``first`` is the number of the first."""
    rows = keys.append_column("number", [np.arange(len(keys))])
    if sql == "vectors/add/of_sections" and "position" not in keys.column_names:
        rows = rows.append_column("position", pa.nulls(len(keys), pa.int64()))
    with database.registered(incoming=rows):
        found = database.table(sql)
    texts, hashes = (found[name].to_numpy() for name in ("texts", "text_hash"))
    wrong = np.flatnonzero(texts != 1)
    if len(wrong):
        row = int(wrong[0])
        values = ", ".join(
            f"{name} {shown(repr(keys[name][row].as_py()), 80)}" for name in keys.column_names
        )
        count = f"{counted(int(texts[row]), 'different text')}" if texts[row] else "no text"
        raise VectorError(
            f"add_vectors: row {first + row}: the corpus has {count} for {values} "
            f"({counted(len(wrong), 'such row')} in its block). Give 'text', or a 'chunk_key' of "
            f"the table chunks (chunking changes it), or also the 'position' of a section"
        )
    return cast(Words, hashes)


def _width(block: pa.Table) -> int:
    """Return the dimension of the first vector."""
    kind: Any = block["vector"].type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise VectorError(f"add_vectors: vector is of type {kind}; give lists of numbers")
    return int(pc.list_value_length(block["vector"])[0].as_py() or 0)


def _matrix(vectors: pa.ChunkedArray, vector_set: VectorSet, first: int) -> Matrix:
    """Return a column of lists as a finite matrix in the type of a set."""
    what, width = f"vectors {vector_set.name!r}", vector_set.dimension
    lengths = pc.list_value_length(vectors)
    fits = pc.fill_null(pc.equal(lengths, width), False)
    if (row := pc.index(fits, False).as_py()) >= 0:
        has = "no vector" if lengths[row].as_py() is None else f"{lengths[row]} dimensions"
        raise VectorError(f"{what} have {width} dimensions, but row {first + row} has {has}")
    is_fixed = pa.types.is_fixed_size_list(vectors.type)
    flat = numbers_of(vectors) if is_fixed else vectors.combine_chunks().flatten()
    if not pa.types.is_floating(flat.type) and not pa.types.is_integer(flat.type):
        raise VectorError(f"{what}: vector has lists of {flat.type}; give lists of numbers")
    numbers = flat.to_numpy(zero_copy_only=False).reshape(len(vectors), width)  # null is NaN
    with np.errstate(over="ignore"):
        matrix = numbers.astype(vector_set.numpy_type, order="C", copy=False)
    finite = np.isfinite(matrix)
    if not finite.all():
        row, place = (int(at[0]) for at in np.nonzero(~finite))
        raise VectorError(
            f"{what}: row {first + row} has {numbers[row, place]} as its number {place}; every "
            f"number must be finite in {vector_set.dtype}"
        )
    return cast(Matrix, matrix)
