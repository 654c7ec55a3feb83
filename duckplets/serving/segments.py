"""Lay down the sections of a range of keys and their chunks: in memory, or in a new file.

    sections, chunks ─by stretches of some characters→ columns of chunks and sections, bytes

How many there are is counted first, so each column has its place from the beginning and memory is
bounded by a stretch. The statements of both, ``chunks`` and ``conversations``, have the same
columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.artifacts.arrays import ArrayFile, ArrayWriter, repeated
from duckplets.artifacts.folder import FileEntry, damaged
from duckplets.base.arrays import Bytes
from duckplets.db.database import Database
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.engine.work import QUIET, Work
from duckplets.errors import StateMismatchError
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.serving.texts import ROLES, Segment, byte_spans

Contents = Literal["chunks", "conversations"]
Array = np.ndarray[Any, Any]
Told = dict[str, Any]

_FROM: dict[Contents, str] = {  # statements, of the same names and columns
    "chunks": "serving/chunks/",
    "conversations": "serving/conversations/",
}
_CHARACTERS = 16_000_000  # of the texts of a stretch
_SECTIONS = 65_536  # of a stretch
_DENSE = "dense"  # keys without gaps
_CHANGED = "the corpus was changed while its texts were read; open the run again"
_OF_CHUNKS = {
    "chunk_key": np.int64,
    "section_key": np.int64,
    "record_key": np.int64,
    "tokens": np.int32,
    "window_index": np.int32,
    "weight": np.float64,
    "span": np.int64,
    "bytes": np.int32,
}
_OF_SECTIONS = {"record_key": np.int64, "role": np.int8, "span": np.int64, "bytes": np.int32}


def size(database: Database, contents: Contents) -> tuple[int, int]:
    """Return how many chunks there are of a corpus, and their characters."""
    ((chunks, characters),) = database.run(_FROM[contents] + "size")
    return int(chunks), int(characters)


def last(database: Database, contents: Contents) -> int:
    """Return the last section key that may be laid down: later ones may be given out again."""
    rows = database.run(_FROM[contents] + "last", {"unpublished": UNPUBLISHED})
    return int(rows[0][0])


def counted(database: Database, contents: Contents, low: int, high: int) -> tuple[int, int]:
    """Return how many sections and chunks there are of a range of section keys."""
    ((sections, chunks),) = database.run(_FROM[contents] + "count", {"low": low, "high": high})
    return int(sections), int(chunks)


class _InMemory:
    """Has the arrays of a segment, as ``ArrayWriter`` has those of a file."""

    def __init__(self) -> None:
        self.parts: list[Bytes] = []
        self._size = 0

    def reserve(self, dtype: Any, count: int) -> tuple[list[Any], Array]:
        return [], np.empty(count, dtype)

    def append(self, data: Bytes) -> int:
        self.parts.append(data)
        self._size += len(data)
        return self._size - len(data)


def held(database: Database, contents: Contents, chunking: Mapping[str, Any]) -> Segment:
    """Return all texts of a corpus in memory."""
    made = _InMemory()
    low, high = 0, 1 << 62
    laid = _laid(database, contents, chunking, made, low, high, QUIET)
    data = np.concatenate([np.zeros(0, np.uint8), *made.parts])
    arrays = [{name: array for name, (_, array) in of.items()} for of in laid]
    return Segment(arrays[0], arrays[1], pa.py_buffer(data))


def written(
    database: Database,
    contents: Contents,
    chunking: Mapping[str, Any],
    folder: Path,
    low: int,
    high: int,
    work: Work,
) -> Told:
    """Write the sections of a range of keys, with their chunks, to a new file.

    Args:
        database: The corpus.
        contents: What of it.
        chunking: Fingerprint of its chunks.
        folder: For the file.
        low: First section key.
        high: Last section key.
        work: Finds chunks in texts; told of sections done.

    Returns:
        What a manifest tells of the segment, as ``opened`` takes it.

    Raises:
        OSError: It cannot be written.
    """
    with ArrayWriter(folder, "texts") as writer:
        laid = _laid(database, contents, chunking, writer, low, high, work)
        told: Told = {"low": low, "high": high}
        for what, columns in zip(("chunks", "sections"), laid, strict=True):
            told[what] = len(columns["span"][1])
            told[f"of_{what}"] = {n: repeated(a) or at for n, (at, a) in columns.items()}
        keys = laid[0]["chunk_key"][1]
        if len(keys) and keys[-1] - keys[0] == len(keys) - 1:
            told["of_chunks"]["chunk_key"] = [_DENSE, int(keys[0])]
        return told | {"file": asdict(writer.finish())}


def opened(folder: Path, told: Told) -> Segment:
    """Map the file of a segment.

    Raises:
        DamagedFileError: It is not there, or not as it was written.
    """
    file = ArrayFile(folder, FileEntry(**told["file"]))
    found = []
    for what, kinds in (("chunks", _OF_CHUNKS), ("sections", _OF_SECTIONS)):
        columns: dict[str, Any] = {}
        for name in kinds:
            kind, begin, *_ = at = told[f"of_{what}"][name]
            dense = range(begin, begin + told[what]) if kind == _DENSE else None
            columns[name] = dense or file.array(at)
        if {len(values) for values in columns.values()} != {told[what]}:
            raise damaged(file.path, f"columns of {what} have other lengths than {told[what]:,}")
        found.append(columns)
    return Segment(found[0], found[1], file.buffer, file.path)


def _laid(
    database: Database,
    contents: Contents,
    chunking: Mapping[str, Any],
    made: ArrayWriter | _InMemory,
    low: int,
    high: int,
    work: Work,
) -> list[dict[str, tuple[list[Any], Array]]]:
    """Fill the columns of chunks and sections, and append all texts."""
    sections, chunks = counted(database, contents, low, high)
    laid = [
        {name: made.reserve(dtype, count) for name, dtype in kinds.items()}
        for kinds, count in ((_OF_CHUNKS, chunks), (_OF_SECTIONS, sections))
    ]
    at = [0, 0]
    for texts, rows, (starts, sizes) in _stretches(
        database, contents, chunking, low, high, work.engine
    ):
        text = texts["text"].combine_chunks()
        begin = made.append(_data_of(text))
        every = np.arange(len(text))
        spans, lengths = byte_spans(text, every, np.zeros_like(every), np.full_like(every, -1))
        found = (
            _arrays(rows) | {"span": starts + begin, "bytes": sizes},
            _arrays(texts) | {"span": spans + begin, "bytes": lengths},
        )
        for number, (columns, values) in enumerate(zip(laid, found, strict=True)):
            size = len(values["span"])
            for name, (_, array) in columns.items():
                if at[number] + size > len(array):
                    raise StateMismatchError(_CHANGED)
                array[at[number] : at[number] + size] = values[name]
            at[number] += size
        work.tell(at[1], sections)
    if at != [chunks, sections]:
        raise StateMismatchError(_CHANGED)
    return laid


def _arrays(table: pa.Table) -> dict[str, Array]:
    return {name: table[name].to_numpy() for name in table.column_names if name != "text"}


def _data_of(texts: pa.Array) -> Bytes:
    """Return the bytes of texts."""
    if not len(texts):
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    return np.frombuffer(texts.buffers()[2] or b"", np.uint8)[int(ends[0]) : int(ends[-1])]


def _stretches(
    database: Database,
    contents: Contents,
    chunking: Mapping[str, Any],
    low: int,
    high: int,
    engine: Engine,
) -> Iterator[tuple[pa.Table, pa.Table, tuple[Any, Any]]]:
    """Yield sections by key, their chunks, and where these lie in the texts; see ``byte_spans``."""

    def tables() -> Iterator[tuple[pa.Table, pa.Table]]:
        how = {"floor": chunking["weight_floor"]}
        if contents == "chunks":
            how |= {"summary_weight": chunking["summary_weight"]}
            how |= {"by_start": chunking["position_weight"] == "start_ratio"}
            how |= {"by_chunker": chunking.get("chunker") is not None}
        roles = {"roles": ROLES} if contents == "chunks" else {}
        for first, last in _ranges(database, contents, low, high):
            where = {"low": first, "high": last}
            texts = database.table(_FROM[contents] + "sections", where | roles)
            if texts.num_rows:
                yield texts, database.table(_FROM[contents] + "chunks", where | how)

    def part_of(stretch: tuple[pa.Table, pa.Table]) -> Part:
        texts, chunks = stretch
        keys = texts["section_key"].to_numpy()
        rows = np.searchsorted(keys, chunks["section_key"].to_numpy())
        spans = (rows, chunks["start"].to_numpy(), chunks["length"].to_numpy())
        label = f"snapshot: sections {keys[0]} to {keys[-1]}"
        return Part(label, (texts["text"].combine_chunks(), *spans))

    for (texts, chunks), spans in mapped(engine, spans_part, None, tables(), part_of):
        yield texts, chunks, spans


def spans_part(_: None, asked: tuple[pa.Array, Any, Any, Any]) -> tuple[Any, Any]:
    """Return where chunks lie in texts; see ``byte_spans``."""
    return byte_spans(*asked)


def _ranges(
    database: Database, contents: Contents, low: int, high: int
) -> Iterator[tuple[int, int]]:
    """Yield ranges of section keys that have about so many characters."""
    first, characters = None, 0
    last = low
    for part, size in database.run(_FROM[contents] + "sizes", {"low": low, "high": high}):
        begin, last = max(low, part * 64), min(high, part * 64 + 63)
        if size > 8 * _CHARACTERS:
            if first is not None:
                yield first, begin - 1
            yield from ((key, key) for key in range(begin, last + 1))
            first = None
            continue
        if first is not None and (characters + size > _CHARACTERS or last - first >= _SECTIONS):
            yield first, begin - 1
            first = None
        if first is None:
            first, characters = begin, 0
        characters += size
    if first is not None:
        yield first, last
