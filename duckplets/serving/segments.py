"""Write the texts and chunks of a range of sections, or hold those of a small corpus in memory.

    sections, chunks ─by stretches of some characters→ texts.arrow, sections.arrow, chunks.arrow

Memory is bounded by a stretch: columns wait in files of their own until all are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from duckplets.artifacts.mapped_arrays import (
    FileEntry,
    IpcWriter,
    MappedFile,
    Place,
    buffers_of,
    damaged,
    entry_of,
    new_name,
)
from duckplets.db.database import Database
from duckplets.engine.inline import INLINE
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.engine.work import Work
from duckplets.serving.facts import FactSlice, decided_by
from duckplets.serving.texts import ROLES, Segment, SegmentSections, byte_spans

_CHARACTERS = 16_000_000  # of the texts of a stretch
_SECTIONS = 65_536  # of a stretch
_TEXTS = pa.schema([("section_key", pa.int64()), ("text", pa.string())])
_COLUMNS = {  # of chunks
    "chunk_key": np.int64,
    "section_key": np.int64,
    "tokens": np.int32,
    "start": np.int32,
    "length": np.int32,
    "window_index": np.int32,
    "weight": np.float64,
    "span": np.int64,
    "bytes": np.int32,
}
_OF_SECTIONS = {"record_key": np.int64, "role": np.int8, "span": np.int64, "bytes": np.int32}
_SAME = "same"
_Stretch = tuple[pa.Table, dict[str, np.ndarray[Any, Any]]]


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """The files of a segment, as a manifest names them.

    Attributes:
        low: First section key.
        high: Last section key there may be in it.
        sections: How many it has.
        texts: Their texts.
        records: Of which record each section is, and in which role.
        chunks: What is known of their chunks.
        of_records: Where in ``records`` each column is, or the value that all have.
        columns: The same of ``chunks``.
        count: How many chunks there are.
    """

    low: int
    high: int
    sections: int
    texts: FileEntry
    records: FileEntry
    chunks: FileEntry
    of_records: dict[str, Any]
    columns: dict[str, Any]
    count: int

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> SegmentEntry:
        """Return one as a manifest tells of it."""
        files = {name: entry_of(value[name]) for name in ("texts", "records", "chunks")}
        return cls(**{**value, **files})

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """All its files."""
        return self.texts, self.records, self.chunks


def opened(folder: Path, entry: SegmentEntry) -> Segment:
    """Map the files of a segment.

    Raises:
        DamagedFileError: They are not there, or not as they were written.
    """
    texts, records, chunks = (MappedFile(folder, file) for file in entry.files)
    columns = {n: _column(chunks, entry.columns[n], entry.count) for n in _COLUMNS}
    of_sections = {n: _column(records, entry.of_records[n], entry.sections) for n in _OF_SECTIONS}
    return Segment(_part(columns), texts.buffer, texts.path, SegmentSections(*of_sections.values()))


def _column(file: MappedFile, told: Any, count: int) -> np.ndarray[Any, Any]:
    if told[0] == _SAME:
        return np.broadcast_to(np.array(told[2], np.dtype(told[1])), count)
    kind, start, there = told
    if there != count:
        raise damaged(file.path, f"a column has {there:,} values instead of {count:,}")
    place: Place = (kind, start, count)
    return file.view(place)


def _part(columns: dict[str, np.ndarray[Any, Any]]) -> FactSlice:
    keys = columns.pop("chunk_key")
    return FactSlice(keys, columns)


def held(database: Database, chunking: Mapping[str, Any]) -> Segment:
    """Return all texts and chunks of a corpus in memory."""
    found: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in _COLUMNS}
    parts, done = [], 0
    for texts, columns in _stretches(database, chunking, 0, (1 << 62)):
        data = _data_of(texts["text"].combine_chunks())
        columns["span"] += done
        parts.append(data)
        done += len(data)
        for name, values in columns.items():
            found[name].append(values)
    columns = {
        name: np.concatenate(values) if values else np.zeros(0, _COLUMNS[name])
        for name, values in found.items()
    }
    data = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
    return Segment(_part(columns), pa.py_buffer(data))


def _data_of(texts: pa.Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of texts."""
    if not len(texts):
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    return np.frombuffer(texts.buffers()[2] or b"", np.uint8)[int(ends[0]) : int(ends[-1])]


def written(
    database: Database,
    chunking: Mapping[str, Any],
    folder: Path,
    low: int,
    high: int,
    work: Work,
) -> SegmentEntry:
    """Write the sections of a range of keys, with their chunks, to new files.

    Args:
        database: The corpus.
        chunking: Fingerprint of its chunks.
        folder: For the files.
        low: First section key.
        high: Last section key.
        work: Finds chunks in texts; told of sections done.

    Raises:
        OSError: They cannot be written.
    """
    with ExitStack() as stack:
        texts_file = stack.enter_context(IpcWriter(folder, "texts", _TEXTS))
        of_records = stack.enter_context(_Columns(folder, "sections", _OF_SECTIONS))
        columns = stack.enter_context(_Columns(folder, "chunks", _COLUMNS))
        sections, chunks, done = [], [], 0
        for texts, found in _stretches(database, chunking, low, high, work.engine):
            table = texts.combine_chunks()
            for batch in table.select(_TEXTS.names).to_batches():
                texts_file.write(batch)
            sections.append(table.num_rows)
            chunks.append(len(found["span"]))
            of_records.add(_of_sections(table))
            columns.add(found)
            done += table.num_rows
            work.tell(done)
        entry = texts_file.finish()
        begins = [of["text"][-1] for of in buffers_of(folder / entry.name)]
        of_records.shift("span", np.array(begins, np.int64), np.array(sections, np.int64))
        columns.shift("span", np.array(begins, np.int64), np.array(chunks, np.int64))
        records_entry, of_sections = of_records.finish()
        chunks_entry, of_chunks = columns.finish()
        files = entry, records_entry, chunks_entry
        return SegmentEntry(low, high, done, *files, of_sections, of_chunks, sum(chunks))


def _of_sections(texts: pa.Table) -> dict[str, np.ndarray[Any, Any]]:
    """Return the record, the role and the span of sections; spans count from the first text."""
    text = texts["text"].combine_chunks()
    rows = np.arange(len(text), dtype=np.int64)
    spans = byte_spans(text, rows, np.zeros_like(rows), np.full_like(rows, -1))
    found = {name: texts[name].to_numpy() for name in ("record_key", "role")}
    found |= {"span": spans[0], "bytes": spans[1]}
    return {name: values.astype(_OF_SECTIONS[name]) for name, values in found.items()}


def _stretches(
    database: Database,
    chunking: Mapping[str, Any],
    low: int,
    high: int,
    engine: Engine = INLINE,
) -> Iterator[_Stretch]:
    """Yield sections by key with columns of their chunks, whose spans count from the first text."""

    def part_of(stretch: _Stretch) -> Part:
        keys = stretch[0]["section_key"]
        label = f"snapshot: sections {keys[0].as_py()} to {keys[-1].as_py()}"
        return Part(label, _asked(stretch))

    stretches = _read(database, chunking, low, high)
    for (texts, columns), spans in mapped(engine, spans_part, None, stretches, part_of):
        columns["span"], columns["bytes"] = spans[0], spans[1].astype(np.int32)
        yield texts, columns


def _asked(stretch: _Stretch) -> tuple[pa.Array, Any, Any, Any]:
    """Return what ``byte_spans`` is asked of a stretch."""
    texts, columns = stretch
    of = np.searchsorted(texts["section_key"].to_numpy(), columns["section_key"])
    return texts["text"].combine_chunks(), of, columns["start"], columns["length"]


def spans_part(_: None, asked: tuple[pa.Array, Any, Any, Any]) -> tuple[Any, Any]:
    """Return where chunks lie in texts; see ``byte_spans``."""
    return byte_spans(*asked)


def _read(
    database: Database, chunking: Mapping[str, Any], low: int, high: int
) -> Iterator[_Stretch]:
    """Yield sections by key with columns of their chunks, but where these lie in texts."""
    how = decided_by(chunking)
    for first, last in _ranges(database, low, high):
        where = {"low": first, "high": last}
        texts = database.table("serving/sections", where | {"roles": ROLES})
        rows = database.table("serving/chunks", where | how)
        columns = {n: rows[n].to_numpy().astype(_COLUMNS[n]) for n in rows.column_names}
        if texts.num_rows == 0:
            continue
        yield texts, columns


def _ranges(database: Database, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of section keys that have about so many characters."""
    first, characters = None, 0
    last = low
    for part, size in database.run("serving/sizes", {"low": low, "high": high}):
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


class _Columns:
    """Columns on their way to a file, each in a file of its own."""

    def __init__(self, folder: Path, what: str, kinds: Mapping[str, Any]) -> None:
        self._folder, self._what, self._kinds = folder, what, kinds
        self._paths = {name: folder / f"{new_name('column')}.new" for name in kinds}
        self._files: dict[str, BinaryIO] = {}
        self._same: dict[str, Any] = {}
        self._count = 0

    def __enter__(self) -> _Columns:
        self._files = {name: path.open("w+b") for name, path in self._paths.items()}
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        for path in self._paths.values():
            with suppress(OSError):
                path.unlink()

    def add(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Add some rows."""
        size = len(columns["span"])
        for name, values in columns.items():
            values.tofile(self._files[name])
            if size and name not in ("span", "chunk_key"):
                value = self._same.setdefault(name, values[0])
                if value is not None and np.any(values != value):
                    self._same[name] = None
        self._count += size

    def shift(self, name: str, by: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> None:
        """Add to the values of a column, so many of them the same."""
        at = 0
        values = self._mapped(name, "r+")
        for value, count in zip(by.tolist(), counts.tolist(), strict=True):
            values[at : at + count] += value
            at += count

    def _mapped(self, name: str, mode: str = "r") -> np.ndarray[Any, Any]:
        self._files[name].flush()
        if self._count == 0:
            return np.zeros(0, self._kinds[name])
        return np.memmap(self._paths[name], self._kinds[name], mode, shape=(self._count,))  # type: ignore[call-overload,no-any-return]

    def finish(self) -> tuple[FileEntry, dict[str, Any]]:
        """Write all columns that differ as one table; return the file, and where each column is."""
        same = {name: value for name, value in self._same.items() if value is not None}
        stored = {name: self._mapped(name) for name in self._kinds if name not in same}
        arrays = {}
        for name, values in stored.items():
            kind = pa.from_numpy_dtype(values.dtype)
            arrays[name] = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
        batch = pa.RecordBatch.from_pydict(arrays)
        with IpcWriter(self._folder, self._what, batch.schema) as file:
            file.write(batch)
            entry = file.finish()
        (places,) = buffers_of(self._folder / entry.name)
        columns: dict[str, Any] = {
            name: [values.dtype.str, places[name][-1] if places[name] else 0, self._count]
            for name, values in stored.items()
        }
        columns |= {
            name: [_SAME, np.dtype(self._kinds[name]).str, value.item()]
            for name, value in same.items()
        }
        return entry, columns


def plain(entry: SegmentEntry) -> dict[str, Any]:
    """Return what a manifest tells of a segment."""
    return asdict(entry)
