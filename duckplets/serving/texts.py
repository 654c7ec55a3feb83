"""Lay out texts and chunks as arrays, in memory or in mapped files, and look them up."""

# Columns take as few bytes as hold them. Sizes are counted first and columns are filled on disk, so
# memory is bounded by one span. In a run of messages a chunk is a conversation, as JSON.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.artifacts.arrays import ArrayFile, ArrayWriter, MappedFile
from duckplets.artifacts.folder import FileEntry, damaged
from duckplets.base.arrays import Bytes, Floats, Integers, Keys
from duckplets.base.columns import byte_spans, column, whole
from duckplets.base.sanitize import shown
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.external_files import FileState
from duckplets.engine.protocol import Part, mapped
from duckplets.engine.work import QUIET, Work
from duckplets.errors import StateMismatchError
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.serving.spans import TextBytes, TextSpans

if TYPE_CHECKING:
    from duckplets.serving.places import FilePlaces

ROLES = ["anchor", "context", "rejected"]

Contents = Literal["chunks", "conversations"]
Array = np.ndarray[Any, Any]
ManifestEntry = dict[str, Any]

_FROM = {"chunks": "serving/chunks/", "conversations": "serving/conversations/"}  # statements
_CHARACTERS = 16_000_000  # characters of the texts of a span
_SECTIONS = 65_536  # sections of a span
_OFFSETS = "offsets"  # places as offsets from that of the first of so many
_TOGETHER = 64
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
        "file": np.int64,  # 0: the segment's own bytes, else a file that texts were left in
    },
    "sections": {
        "record_key": np.int64,
        "role": np.int8,
        "span": np.int64,
        "bytes": np.int32,
        "file": np.int64,
    },
}

# Arrays, possibly of narrower types; places may be ``Offsets``.
Columns = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offsets:
    """Places in a file of any size, in four bytes each or fewer."""

    bases: Integers  # the least place of each ``_TOGETHER`` rows
    within: Any  # what a place lies beyond its base

    def __len__(self) -> int:
        return len(self.within)

    def __getitem__(self, rows: Integers) -> Integers:
        found: Integers = self.bases[rows // _TOGETHER] + self.within[rows]
        return found


class Segment:
    """The sections and chunks of a range of keys."""

    def __init__(
        self,
        chunks: Columns,  # by ``chunk_key``; ``span`` and ``bytes``: where texts lie
        sections: Columns,  # by record, with ``role`` as index in ``ROLES``
        data: Sequence[TextBytes],  # of all texts: its own, then of files
    ) -> None:
        self.columns, self.sections, self.data = chunks, sections, data
        keys = chunks["chunk_key"]
        self.first, self.last = (int(keys[0]), int(keys[-1])) if len(keys) else (0, -1)
        self._keys = None if self.last - self.first + 1 == len(keys) else keys

    def rows(self, keys: Keys) -> Keys:
        """Return the row of each chunk."""
        return keys - self.first if self._keys is None else np.searchsorted(self._keys, keys)


class ChunkTexts:
    """The texts and further columns of all chunks or conversations of a corpus."""

    def __init__(self, segments: Sequence[Segment]) -> None:  # by ascending keys
        self._segments = [s for s in segments if s.last >= s.first]
        self._data = [data for segment in self._segments for data in segment.data]
        counts = [len(segment.data) for segment in self._segments]
        self._begins = np.cumsum([0, *counts])  # the first of its bytes, by segment
        self._firsts = np.array([segment.first for segment in self._segments], np.int64)

    def columns(self, names: Sequence[str], keys: Keys) -> dict[str, np.ndarray[Any, Any]]:
        """Return columns of some chunks: shape (keys,) each."""
        kinds = _COLUMNS["chunks"]
        if len(self._segments) == 1:
            columns, rows = self._segments[0].columns, self._segments[0].rows(keys)
            return {name: columns[name][rows].astype(kinds[name], copy=False) for name in names}
        numbers, found = self._numbers(keys), {n: np.empty(len(keys), kinds[n]) for n in names}
        for number, segment in enumerate(self._segments):
            at = np.flatnonzero(numbers == number)
            if len(at):
                rows = segment.rows(keys[at])
                for name in names:
                    found[name][at] = segment.columns[name][rows]
        return found

    def tokens(self, keys: Keys) -> Integers:
        """Return the number of tokens of each chunk."""
        return np.asarray(self.columns(["tokens"], keys)["tokens"], np.int64)

    def spans(self, keys: Keys) -> TextSpans:
        """Return the texts of chunks, gathered on demand."""
        names = ["span", "bytes", *["file"] * (len(self._data) > 1)]
        starts, lengths, *files = self.columns(names, keys).values()
        numbers = files[0] + self._begins[self._numbers(keys)] if files else None
        return TextSpans(self._data, numbers, starts, lengths.astype(np.int64))

    def _numbers(self, keys: Keys) -> Integers:
        """Return the segment of each key."""
        if len(self._segments) < 2:
            return np.zeros(len(keys), np.int64)
        return np.asarray(np.searchsorted(self._firsts, keys, side="right") - 1, np.int64)

    def of_records(self, keys: Integers) -> tuple[Integers, Integers, TextSpans]:
        """Return sections of records in order: which record, role number, and texts."""
        found = []
        for number, segment in enumerate(self._segments):
            records = segment.sections["record_key"]
            # NumPy would copy narrow columns if the keys were wider.
            kind = getattr(records, "dtype", keys.dtype)
            asked, fits = keys.astype(kind), keys <= np.iinfo(kind).max
            first = np.searchsorted(records, asked)
            counts = (np.searchsorted(records, asked, side="right") - first) * fits
            request = np.repeat(np.arange(len(keys)), counts)
            rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(len(request))
            file, *rest = (segment.sections[n][rows] for n in ("file", "role", "span", "bytes"))
            found.append((request, file + self._begins[number], *rest))
        columns = [np.concatenate(c) for c in zip(*found, strict=True)] or [np.zeros(0, int)] * 5
        order = np.argsort(columns[0], kind="stable")
        request, numbers, roles, starts, lengths = (column[order] for column in columns)
        spans = TextSpans(self._data, numbers, starts, lengths.astype(np.int64))
        return request, roles, spans


class _InMemory:
    """Hold the bytes and columns of a segment, with the interface of ``ArrayWriter``."""

    def __init__(self) -> None:
        self.parts: list[Bytes] = []
        self._size = 0

    def scratch(self, dtype: Any) -> _HeldArray:
        return _HeldArray(dtype)

    def append(self, data: Bytes) -> int:
        self.parts.append(data)
        self._size += len(data)
        return self._size - len(data)


class _HeldArray:
    """The interface of ``GrowingArray``, in memory."""

    def __init__(self, dtype: Any) -> None:
        self._parts = [np.zeros(0, dtype)]

    def append(self, values: Array) -> None:
        self._parts.append(values.astype(self._parts[0].dtype, copy=False))

    def array(self) -> Array:
        return np.concatenate(self._parts)


class Layout:
    """Texts laid end to end, with the columns of their sections and chunks."""

    def __init__(self, made: ArrayWriter | _InMemory) -> None:
        self._made = made
        self._columns = {
            table: {name: made.scratch(dtype) for name, dtype in kinds.items()}
            for table, kinds in _COLUMNS.items()
        }
        self.counts = dict.fromkeys(_COLUMNS, 0)

    def add(
        self,
        text: pa.Array,
        sections: Mapping[str, Array],
        chunks: Mapping[str, Array],
        spans: tuple[Integers, Integers],
        placed: tuple[Integers, Integers] | None = None,
    ) -> None:
        """Add sections, by key, with their chunks and the spans of these in their texts.

        Texts that are ``placed``, each in a file from a byte on, are not written.
        """
        every = np.arange(len(text))
        entire = byte_spans(text, every, np.zeros_like(every), np.full_like(every, -1))
        files, places = placed or (np.zeros_like(every), every)
        starts, sizes = entire
        is_copied = files == 0
        copied = text if is_copied.all() else text.filter(column(is_copied))
        ends = self._made.append(_data_of(copied)) + np.cumsum(sizes * is_copied)
        shift = np.where(is_copied, ends - sizes, places) - starts
        at = np.searchsorted(sections["section_key"], chunks["section_key"])
        for table, columns, (starts, sizes), rows in (
            ("chunks", chunks, spans, at),
            ("sections", sections, entire, every),
        ):
            values = {**columns, "span": starts + shift[rows], "bytes": sizes, "file": files[rows]}
            for name, array in self._columns[table].items():
                array.append(values[name])
            self.counts[table] += len(starts)

    def columns(self) -> dict[str, dict[str, Array]]:
        """Return the columns of sections and chunks, once."""
        return {
            table: {name: array.array() for name, array in columns.items()}
            for table, columns in self._columns.items()
        }

    def written(self, writer: ArrayWriter, low: int, high: int, files: FilePlaces) -> ManifestEntry:
        """Write the columns behind the texts; return the entry of the finished file."""
        entry: ManifestEntry = {
            "low": low,
            "high": high,
            "end": writer.size,
            "files": files.files(),
        }
        each = self.columns()
        both = each["chunks"].keys() & each["sections"].keys()
        same = {n for n in both if np.array_equal(each["chunks"][n], each["sections"][n])}
        for table, columns in each.items():
            entry[table] = len(columns["span"])
            known = {n: entry["of_chunks"][n] for n in same} if "of_chunks" in entry else {}
            added = {n: known.get(n) or _added(writer, n, array) for n, array in columns.items()}
            entry[f"of_{table}"] = added
        return entry | {"file": asdict(writer.finish())}


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """The stored texts of a corpus, from which segments are made."""

    database: Database
    contents: Contents
    chunking: Mapping[str, Any] = field(default_factory=dict)  # nothing is stored without

    def size(self) -> tuple[int, int]:
        """Return the number of chunks, and of their characters."""
        ((chunks, characters),) = self._run("size")
        return int(chunks), int(characters)

    def last(self) -> int:
        """Return the last section key that is final: later ones may be reused."""
        return int(self._run("last", unpublished=UNPUBLISHED)[0][0])

    def count(self, low: int, high: int) -> tuple[int, int, int]:
        """Return the sections, chunks and characters of a range of section keys."""
        ((sections, chunks, characters),) = self._run("count", low=low, high=high)
        return int(sections), int(chunks), int(characters)

    def held(self) -> Segment:
        """Return all texts in memory."""
        made = _InMemory()
        laid = self._laid(made, 0, 1 << 62, QUIET).columns()
        data = np.concatenate([np.zeros(0, np.uint8), *made.parts])
        return Segment(laid["chunks"], laid["sections"], [TextBytes(pa.py_buffer(data))])

    def written(self, folder: Path, low: int, high: int, work: Work) -> ManifestEntry:
        """Write a range of section keys to a new file; return its entry for ``opened``."""
        from duckplets.serving.places import FilePlaces

        with ArrayWriter(folder, "texts") as writer:
            files = FilePlaces(self.database, is_used=self.contents == "chunks")
            return self._laid(writer, low, high, work, files).written(writer, low, high, files)

    def _run(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self.database.run(_FROM[self.contents] + name, parameters)

    def _laid(
        self,
        made: ArrayWriter | _InMemory,
        low: int,
        high: int,
        work: Work,
        files: FilePlaces | None = None,
    ) -> Layout:
        sections, chunks, characters = self.count(low, high)
        is_small = sections <= _SECTIONS and characters <= _CHARACTERS
        ranges = [(low, high)] if is_small else self._ranges(low, high)
        laid = Layout(made)
        parts = mapped(work.engine, spans_part, None, self._stretches(ranges), _part_of)
        for (texts, rows), spans in parts:
            placed = None if files is None else files.of_stored(texts)
            laid.add(whole(texts["text"]), _arrays(texts), rows, spans, placed)
            work.tell(laid.counts["sections"], sections)
        if laid.counts != {"chunks": chunks, "sections": sections}:
            raise StateMismatchError(_CHANGED)
        return laid

    def _stretches(
        self, ranges: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[pa.Table, dict[str, Array]]]:
        of_chunks = self.contents == "chunks"
        how = {} if of_chunks else {"floor": self.chunking["weight_floor"]}
        roles = {"roles": ROLES} if of_chunks else {}
        table, prefix = self.database.table, _FROM[self.contents]
        for first, last in ranges:
            where = {"low": first, "high": last}
            texts = table(prefix + "sections", where | roles)
            if texts.num_rows:
                rows = table(prefix + "chunks", where | how)
                yield texts, served(texts, rows, self.chunking) if of_chunks else _arrays(rows)

    def _ranges(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of section keys with about ``_CHARACTERS`` characters."""
        first, characters, last = None, 0, low
        for part, size in self._run("sizes", low=low, high=high):
            begin, last = max(low, part * 64), min(high, part * 64 + 63)
            is_large = size > 8 * _CHARACTERS  # these are processed one by one
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


def opened(
    folder: Path, entry: ManifestEntry, corpus: Path, mapped: dict[str, MappedFile]
) -> Segment:
    """Map the file of a segment, and files that texts were left in unless ``mapped`` has them."""
    file = ArrayFile(folder, FileEntry(**entry["file"]))
    data = [TextBytes.of(file)]
    for path, *state in entry["files"]:
        place = external_files.located(path, corpus)
        if place not in mapped:
            if why := external_files.change(place, FileState(*state)):
                raise damaged(file.path, f"{shown(place)}, where its texts are, {why}")
            mapped[place] = MappedFile(Path(place), state[0])
            mapped[place].expect_random(state[0])
        data.append(TextBytes.of(mapped[place]))
    found = []
    for table, kinds in _COLUMNS.items():
        columns: dict[str, Any] = {}
        for name in kinds:
            at = entry[f"of_{table}"][name]
            if at[0] == _OFFSETS:
                columns[name] = Offsets(*map(file.array, at[1:]))
            else:
                columns[name] = file.array(at)
        if {len(values) for values in columns.values()} != {entry[table]}:
            raise damaged(file.path, f"columns of {table} have other lengths than {entry[table]:,}")
        found.append(columns)
    file.expect(entry["end"], file.buffer.size)
    file.expect_random(entry["end"])
    return Segment(found[0], found[1], data)


def _added(writer: ArrayWriter, name: str, column: Array) -> list[Any]:
    """Write a column in as few bytes as hold it; return its entry."""
    if name == "chunk_key":
        return writer.add(column)  # NumPy would copy a narrower one whenever it searches in it
    if name == "span" and len(column):
        firsts = np.arange(0, len(column), _TOGETHER)
        bases = np.minimum.reduceat(column, firsts)
        if (np.maximum.reduceat(column, firsts) - bases).max() <= np.iinfo(np.uint32).max:
            whole = len(column) // _TOGETHER
            blocks = column[: whole * _TOGETHER].reshape(whole, _TOGETHER)
            blocks -= bases[:whole, None]
            column[whole * _TOGETHER :] -= bases[-1]
            return [_OFFSETS, writer.add(bases), writer.add_column(column)]
    return writer.add_column(column)


def served(
    sections: pa.Table, chunks: pa.Table, chunking: Mapping[str, Any], trust: Floats | None = None
) -> dict[str, Array]:
    """Return the columns of chunks for serving; ``trust`` is by chunk, or a column of ``chunks``.

    A length of -1 means the whole section.
    """
    found = {name: chunks[name].to_numpy() for name in chunks.column_names if name != "kind"}
    rows = np.searchsorted(sections["section_key"].to_numpy(), found["section_key"])
    tokens = sections["token_count"].to_numpy()[rows]
    is_window = pc.equal(chunks["kind"], "window").to_numpy()
    # Spans of a chunker that has all tokens of its section may still leave white space out.
    is_whole = is_window & (found["token_count"] == tokens) & (chunking.get("chunker") is None)
    if chunking["position_weight"] == "start_ratio":
        by_place = 1 - found["start_token"] / np.maximum(tokens, 1)
        by_place[tokens == 0] = np.inf
    else:
        by_place = 1 / (found["window_index"] + 1.0)
    weights = np.where(is_window, by_place, chunking["summary_weight"])
    with np.errstate(invalid="ignore"):
        weights *= found["trust"] if trust is None else trust
    return found | {
        "tokens": found["token_count"],
        "length": np.where(is_whole, -1, found["length"]),
        "window_index": np.where(is_window, found["window_index"], -1),
        "weight": np.maximum(chunking["weight_floor"], np.fmin(1.0, weights)),
    }


def _part_of(stretch: tuple[pa.Table, Mapping[str, Array]]) -> Part:
    texts, chunks = stretch
    keys = texts["section_key"].to_numpy()
    rows = np.searchsorted(keys, chunks["section_key"])
    label = f"snapshot: sections {keys[0]} to {keys[-1]}"
    return Part(label, (whole(texts["text"]), rows, chunks["start"], chunks["length"]))


def spans_part(_: None, asked: tuple[pa.Array, Any, Any, Any]) -> tuple[Any, Any]:
    """Return the spans of chunks within texts; see ``byte_spans``."""
    return byte_spans(*asked)


def _arrays(table: pa.Table) -> dict[str, Array]:
    return {name: table[name].to_numpy() for name in table.column_names if name != "text"}


def _data_of(texts: pa.Array) -> Bytes:
    if not len(texts):
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    return np.frombuffer(texts.buffers()[2] or b"", np.uint8)[int(ends[0]) : int(ends[-1])]
