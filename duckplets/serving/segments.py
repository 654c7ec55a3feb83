"""Lay down the sections of a range of keys and their chunks: in memory, or in a new file.

    sections, chunks ─by stretches of some characters→ columns of chunks and sections, bytes

How many there are is counted first, so each column has its place from the beginning and memory is
bounded by a stretch. The statements of both contents have the same names and columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.artifacts.arrays import ArrayFile, ArrayWriter, repeated
from duckplets.artifacts.folder import FileEntry, damaged
from duckplets.base.arrays import Bytes
from duckplets.base.columns import byte_spans
from duckplets.db.database import Database
from duckplets.engine.protocol import Part, mapped
from duckplets.engine.work import QUIET, Work
from duckplets.errors import StateMismatchError
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.serving.texts import ROLES, Segment, TextBytes

Contents = Literal["chunks", "conversations"]
Array = np.ndarray[Any, Any]
ManifestEntry = dict[str, Any]

_FROM = {"chunks": "serving/chunks/", "conversations": "serving/conversations/"}  # statements
_CHARACTERS = 16_000_000  # of the texts of a stretch
_SECTIONS = 65_536  # of a stretch
_DENSE = "dense"  # keys without gaps
_CHANGED = "the corpus was changed while its texts were read; open the run again"
_COLUMNS: dict[str, dict[str, Any]] = {
    "chunks": {
        "chunk_key": np.int64,
        "section_key": np.int64,
        "record_key": np.int64,
        "tokens": np.int32,
        "window_index": np.int32,
        "weight": np.float64,
        "span": np.int64,
        "bytes": np.int32,
    },
    "sections": {"record_key": np.int64, "role": np.int8, "span": np.int64, "bytes": np.int32},
}


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


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """The texts of a corpus as they are stored: what segments are made of."""

    database: Database
    contents: Contents
    chunking: Mapping[str, Any] = field(default_factory=dict)  # nothing is laid down without

    def size(self) -> tuple[int, int]:
        """Return how many chunks there are, and their characters."""
        ((chunks, characters),) = self._run("size")
        return int(chunks), int(characters)

    def last(self) -> int:
        """Return the last section key that may be laid down: later ones may be given out again."""
        return int(self._run("last", unpublished=UNPUBLISHED)[0][0])

    def count(self, low: int, high: int) -> tuple[int, int]:
        """Return how many sections and chunks there are of a range of section keys."""
        ((sections, chunks),) = self._run("count", low=low, high=high)
        return int(sections), int(chunks)

    def held(self) -> Segment:
        """Return all texts in memory."""
        made = _InMemory()
        laid = self._laid(made, 0, 1 << 62, QUIET)
        data = np.concatenate([np.zeros(0, np.uint8), *made.parts])
        arrays = [{name: array for name, (_, array) in of.items()} for of in laid.values()]
        return Segment(arrays[0], arrays[1], TextBytes(pa.py_buffer(data)))

    def written(self, folder: Path, low: int, high: int, work: Work) -> ManifestEntry:
        """Write a range of section keys to a new file; returns what ``opened`` takes."""
        with ArrayWriter(folder, "texts") as writer:
            laid = self._laid(writer, low, high, work)
            entry: ManifestEntry = {"low": low, "high": high}
            for what, columns in laid.items():
                entry[what] = len(columns["span"][1])
                entry[f"of_{what}"] = {n: repeated(a) or at for n, (at, a) in columns.items()}
            keys = laid["chunks"]["chunk_key"][1]
            if len(keys) and keys[-1] - keys[0] == len(keys) - 1:
                entry["of_chunks"]["chunk_key"] = [_DENSE, int(keys[0])]
            return entry | {"file": asdict(writer.finish())}

    def _run(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self.database.run(_FROM[self.contents] + name, parameters)

    def _laid(
        self, made: ArrayWriter | _InMemory, low: int, high: int, work: Work
    ) -> dict[str, dict[str, tuple[list[Any], Array]]]:
        """Fill the columns of chunks and sections, and append all texts."""
        sections, chunks = self.count(low, high)
        sizes, at = {"chunks": chunks, "sections": sections}, {"chunks": 0, "sections": 0}
        laid = {
            what: {name: made.reserve(dtype, sizes[what]) for name, dtype in kinds.items()}
            for what, kinds in _COLUMNS.items()
        }
        parts = mapped(work.engine, spans_part, None, self._stretches(low, high), _part_of)
        for (texts, rows), (starts, lengths) in parts:
            text = texts["text"].combine_chunks()
            begin = made.append(_data_of(text))
            every = np.arange(len(text))
            spans, whole = byte_spans(text, every, np.zeros_like(every), np.full_like(every, -1))
            found = {
                "chunks": _arrays(rows) | {"span": starts + begin, "bytes": lengths},
                "sections": _arrays(texts) | {"span": spans + begin, "bytes": whole},
            }
            for what, values in found.items():
                first, stop = at[what], at[what] + len(values["span"])
                if stop > sizes[what]:
                    raise StateMismatchError(_CHANGED)
                for name, (_, array) in laid[what].items():
                    array[first:stop] = values[name]
                at[what] = stop
            work.tell(at["sections"], sections)
        if at != sizes:
            raise StateMismatchError(_CHANGED)
        return laid

    def _stretches(self, low: int, high: int) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield sections by key, some at a time, and their chunks."""
        how, roles = {"floor": self.chunking["weight_floor"]}, {}
        if self.contents == "chunks":
            how |= {"summary_weight": self.chunking["summary_weight"]}
            how |= {"by_start": self.chunking["position_weight"] == "start_ratio"}
            how |= {"by_chunker": self.chunking.get("chunker") is not None}
            roles = {"roles": ROLES}
        table, of = self.database.table, _FROM[self.contents]
        for first, last in self._ranges(low, high):
            where = {"low": first, "high": last}
            texts = table(of + "sections", where | roles)
            if texts.num_rows:
                yield texts, table(of + "chunks", where | how)

    def _ranges(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of section keys that have about so many characters."""
        first, characters, last = None, 0, low
        for part, size in self._run("sizes", low=low, high=high):
            begin, last = max(low, part * 64), min(high, part * 64 + 63)
            is_large = size > 8 * _CHARACTERS  # these go one by one
            is_full = characters + size > _CHARACTERS or (first or 0) + _SECTIONS <= last
            if first is not None and (is_large or is_full):
                yield first, begin - 1
                first = None
            if is_large:
                yield from ((key, key) for key in range(begin, last + 1))
            else:
                characters = size if first is None else characters + size
                first = begin if first is None else first
        if first is not None:
            yield first, last


def opened(folder: Path, entry: ManifestEntry) -> Segment:
    """Map the file of a segment."""
    file = ArrayFile(folder, FileEntry(**entry["file"]))
    found = []
    for what, kinds in _COLUMNS.items():
        columns: dict[str, Any] = {}
        for name in kinds:
            kind, begin, *_ = at = entry[f"of_{what}"][name]
            dense = range(begin, begin + entry[what]) if kind == _DENSE else None
            columns[name] = dense or file.array(at)
        if {len(values) for values in columns.values()} != {entry[what]}:
            raise damaged(file.path, f"columns of {what} have other lengths than {entry[what]:,}")
        found.append(columns)
    if entry["sections"]:
        begin = int(found[1]["span"][0])
        file.expect(0, begin)
        file.expect_random(begin)
    return Segment(found[0], found[1], TextBytes(file.buffer, file, file.path))


def _part_of(stretch: tuple[pa.Table, pa.Table]) -> Part:
    texts, chunks = stretch
    keys = texts["section_key"].to_numpy()
    rows = np.searchsorted(keys, chunks["section_key"].to_numpy())
    spans = (rows, chunks["start"].to_numpy(), chunks["length"].to_numpy())
    label = f"snapshot: sections {keys[0]} to {keys[-1]}"
    return Part(label, (texts["text"].combine_chunks(), *spans))


def spans_part(_: None, asked: tuple[pa.Array, Any, Any, Any]) -> tuple[Any, Any]:
    """Return where chunks lie in texts; see ``byte_spans``."""
    return byte_spans(*asked)


def _arrays(table: pa.Table) -> dict[str, Array]:
    return {name: table[name].to_numpy() for name in table.column_names if name != "text"}


def _data_of(texts: pa.Array) -> Bytes:
    if not len(texts):
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    return np.frombuffer(texts.buffers()[2] or b"", np.uint8)[int(ends[0]) : int(ends[-1])]
