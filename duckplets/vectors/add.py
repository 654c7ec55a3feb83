"""Take vectors that were made elsewhere: rows that name a text, and its vector."""

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
_FORMS = {  # and the statement that looks their texts up
    ("chunk_key", "vector"): "vectors/add/of_chunks",
    ("record_id", "role", "vector"): "vectors/add/of_sections",
    ("text", "vector"): "vectors/add/of_texts",
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
        repeated: Rows of texts that had one already, which stays, or that came before.
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
    dtype: Dtype = "float32",
    progress: Progress | bool | None = None,
) -> AddedVectors:
    """Keep vectors that were made elsewhere, by the texts they are of, whole or not at all.

    They go into ``NAME.vectors.duckdb`` beside the corpus, which may itself be open to read
    only. A vector is that of one text, and all chunks with that text share it. A text that has a
    vector keeps it, and of rows of one text the first counts; the others are ``repeated``.
    Who needs that file waits until the table is read to its end.

    Args:
        name: Of the set; all its vectors are of one dimension and from this verb.
        table: An Arrow table or reader of batches, data frame, ``datasets.Dataset``, dicts, the
            path of a Parquet file, or a mapping of names to NumPy arrays or lists. Its column
            ``vector`` has lists of numbers or rows of a 2-D array. Which text each is of says
            ``chunk_key``; or ``record_id`` and ``role``, and ``position`` where a record has
            several sections of a role; or ``text``, the bare text of a chunk.
        dtype: In which the numbers are kept.
        progress: Called with rows done; True for a bar, None for one on a terminal.

    Raises:
        VectorError: A row names no text of the corpus, or several; or its vector is null, of
            another dimension, or has a number that is not finite. It names the row, from 0, and
            nothing of this call is kept.
    """
    started = time.monotonic()
    given = (block for block in blocks(table, *_WHAT) if block.num_rows)
    first = next(given, None)
    if first is None:
        raise VectorError("add_vectors: the table has no rows")
    form = one_of(_FORMS, first.column_names, *_WHAT)
    store, of = VectorStore(corpus.path), VectorSet(name, _width(first), dtype, _MADE_BY)
    kinds = {key: _KINDS[key] for key in form[:-1]}
    if "role" in form and "position" in first.column_names:
        kinds["position"] = _KINDS["position"]
    read = 0
    with working(INLINE, progress, "vectors") as work:

        def checked_blocks() -> Iterator[tuple[Words, Matrix]]:
            nonlocal read
            for block in chain([first], given):
                named = typed(block, kinds, *_WHAT, read)
                hashes = _hashes(corpus.database, named, _FORMS[form], read)
                yield hashes, _matrix(block["vector"], of, read)
                read += len(hashes)
                work.tell(read)

        added = store.append(of, checked_blocks())
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


def _hashes(database: Database, named: pa.Table, sql: str, first: int) -> Words:
    """Return the hash of the text of each row; ``first`` is the number of the first."""
    asked = named.append_column("number", [np.arange(len(named))])
    if sql == "vectors/add/of_sections" and "position" not in named.column_names:
        asked = asked.append_column("position", pa.nulls(len(named), pa.int64()))
    with database.registered(incoming=asked):
        found = database.table(sql)
    texts, hashes = (found[name].to_numpy() for name in ("texts", "text_hash"))
    wrong = np.flatnonzero(texts != 1)
    if len(wrong):
        row = int(wrong[0])
        keys = ", ".join(
            f"{name} {shown(repr(named[name][row].as_py()), 80)}" for name in named.column_names
        )
        what = f"{counted(int(texts[row]), 'different text')}" if texts[row] else "no text"
        raise VectorError(
            f"add_vectors: row {first + row} is of {keys}, of which the corpus has {what} "
            f"({counted(len(wrong), 'such row')} in its block). Each text has a vector of its own: "
            f"name it by 'text', by 'chunk_key' as in the table chunks, which chunking anew "
            f"changes, or a section by 'position' too"
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


def _matrix(vectors: pa.ChunkedArray, of: VectorSet, first: int) -> Matrix:
    """Return a column of lists as a finite matrix in the type of a set."""
    what, width = f"vectors {of.name!r}", of.dimension
    lengths = pc.list_value_length(vectors)
    fits = pc.fill_null(pc.equal(lengths, width), False)
    if (row := pc.index(fits, False).as_py()) >= 0:
        has = "no vector" if lengths[row].as_py() is None else f"one of {lengths[row]} dimensions"
        raise VectorError(f"{what} have {width} dimensions, and row {first + row} has {has}")
    is_fixed = pa.types.is_fixed_size_list(vectors.type)
    flat = numbers_of(vectors) if is_fixed else vectors.combine_chunks().flatten()
    if not pa.types.is_floating(flat.type) and not pa.types.is_integer(flat.type):
        raise VectorError(f"{what}: vector has lists of {flat.type}; give lists of numbers")
    given = flat.to_numpy(zero_copy_only=False).reshape(len(vectors), width)  # null is NaN
    with np.errstate(over="ignore"):
        made = given.astype(of.numpy_type, order="C", copy=False)
    finite = np.isfinite(made)
    if not finite.all():
        row, place = (int(at[0]) for at in np.nonzero(~finite))
        raise VectorError(
            f"{what}: row {first + row} has {given[row, place]} as its number {place}; every "
            f"number must be finite in {of.dtype}"
        )
    return cast(Matrix, made)
