"""Look up what chunks are, and gather their texts: from arrays in memory, or in mapped files.

chunk keys ─columns→ spans of bytes ─within bounds→ one copy → Arrow texts
record keys ─sections→ spans

Conversations are served alike: of a run of messages a chunk is a whole conversation, its key is
that of its record, and its text is JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.artifacts.arrays import ArrayFile
from duckplets.artifacts.folder import damaged
from duckplets.artifacts.read_ahead import ReadAhead
from duckplets.base.arrays import Integers
from duckplets.base.columns import column
from duckplets.base.prefetch import IsStopped, never

ROLES = ["anchor", "context", "rejected"]

Columns = Mapping[str, Any]  # arrays; keys without gaps may be a range


@dataclass(frozen=True, slots=True)
class TextBytes:
    """Bytes of texts, and maybe others between them: in memory, or of a mapped file."""

    data: pa.Buffer
    file: ArrayFile | None = None
    path: Path | None = None  # of the file that they are from, for messages

    def read_ahead(
        self, reads: ReadAhead, starts: Integers, lengths: Integers, is_stopped: IsStopped
    ) -> tuple[TextBytes, Integers]:
        """Return what has some spans in memory, and where each begins in it."""
        if self.file is None:
            return self, starts
        self.check(starts, lengths)
        if (found := reads.spans(self.file, starts, lengths, is_stopped)) is None:
            return self, starts
        return TextBytes(pa.py_buffer(found[0]), path=self.path), found[1]

    def check(self, starts: Integers, lengths: Integers) -> None:
        """Refuse spans that are not within the bytes."""
        if len(starts) and (
            starts.min() < 0 or lengths.min() < 0 or (starts + lengths).max() > self.data.size
        ):
            raise damaged(self.path, "a text would end beyond it")

    def gather(self, starts: Integers, lengths: Integers) -> pa.Array:
        """Return the texts of some spans; whether they are UTF-8 is seen where lists are made."""
        self.check(starts, lengths)
        # Every second stretch of these offsets is a text; those between are never looked at.
        offsets = np.empty(2 * len(starts) + 2, np.int64)
        offsets[0], offsets[-1] = 0, self.data.size
        offsets[1:-1:2], offsets[2:-1:2] = starts, starts + lengths
        buffers = [None, pa.py_buffer(offsets), self.data]
        between = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
        try:
            found = between.take(column(np.arange(1, len(offsets) - 1, 2)))
            return found.cast(pa.string())
        except (pa.ArrowException, MemoryError) as error:
            raise damaged(self.path, "texts are longer than all there is") from error


class Segment:
    """The sections and chunks of a range of keys."""

    def __init__(
        self,
        chunks: Columns,  # by ``chunk_key``; ``span`` and ``bytes``: where in the data texts lie
        sections: Columns,  # by record, with ``role`` as its number in ``ROLES``
        data: TextBytes,  # of all texts
    ) -> None:
        self.columns, self.sections, self.data = chunks, sections, data
        keys = chunks["chunk_key"]
        self.first, self.last = (int(keys[0]), int(keys[-1])) if len(keys) else (0, -1)
        self._keys = None if self.last - self.first + 1 == len(keys) else keys

    def rows(self, keys: Integers) -> Integers:
        """Return where chunks stand in the columns."""
        return keys - self.first if self._keys is None else np.searchsorted(self._keys, keys)


class ChunkTexts:
    """All chunks of a corpus, or all conversations: their texts, and what else they are."""

    def __init__(self, segments: Sequence[Segment]) -> None:  # by ascending keys
        self._segments = [s for s in segments if s.last >= s.first]
        self._data = [segment.data for segment in self._segments]
        self._firsts = np.array([segment.first for segment in self._segments], np.int64)

    def columns(self, names: Sequence[str], keys: Integers) -> dict[str, np.ndarray[Any, Any]]:
        """Return some of the segments' columns of some chunks: shape (keys,) each."""
        if not self._segments:
            return {name: np.zeros(0, np.int64) for name in names}
        numbers = self._numbers(keys)
        if numbers is None:
            of, rows = self._segments[0].columns, self._segments[0].rows(keys)
            return {name: of[name][rows] for name in names}
        kinds = {name: self._segments[0].columns[name].dtype for name in names}
        found = {name: np.empty(len(keys), kind) for name, kind in kinds.items()}
        for number, segment in enumerate(self._segments):
            at = np.flatnonzero(numbers == number)
            if len(at):
                rows = segment.rows(keys[at])
                for name in names:
                    found[name][at] = segment.columns[name][rows]
        return found

    def tokens(self, keys: Integers) -> Integers:
        """Return how many tokens each has."""
        return np.asarray(self.columns(["tokens"], keys)["tokens"], np.int64)

    def spans(self, keys: Integers) -> TextSpans:
        """Return the texts of some chunks, to be gathered when they are asked for."""
        starts, lengths = self.columns(["span", "bytes"], keys).values()
        return TextSpans(self._data, self._numbers(keys), starts, lengths.astype(np.int64))

    def _numbers(self, keys: Integers) -> Integers | None:
        """Return in which segment each is; None where there is one segment only."""
        if len(self._segments) < 2:
            return None
        return np.asarray(np.searchsorted(self._firsts, keys, side="right") - 1, np.int64)

    def of_records(self, keys: Integers) -> tuple[Integers, Integers, TextSpans]:
        """Return sections of records in order: which record, number of the role, and texts."""
        found = []
        for number, segment in enumerate(self._segments):
            records = segment.sections["record_key"]
            first = np.searchsorted(records, keys)
            counts = np.searchsorted(records, keys, side="right") - first
            request = np.repeat(np.arange(len(keys)), counts)
            rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(len(request))
            of = [segment.sections[name][rows] for name in ("role", "span", "bytes")]
            found.append((request, np.full(len(rows), number), *of))
        columns = [np.concatenate(c) for c in zip(*found, strict=True)] or [np.zeros(0, int)] * 5
        order = np.argsort(columns[0], kind="stable")
        request, numbers, roles, starts, lengths = (column[order] for column in columns)
        spans = TextSpans(self._data, numbers, starts, lengths.astype(np.int64))
        return request, roles, spans


@dataclass(frozen=True, slots=True)
class TextSpans:
    """Texts that are not gathered yet."""

    data: Sequence[TextBytes]  # where they may be
    numbers: Integers | None  # in which each is; None where all are in the only one
    starts: Integers  # first byte of each
    lengths: Integers  # bytes of each

    @property
    def nbytes(self) -> int:
        """Bytes of all texts."""
        return int(self.lengths.sum())

    @property
    def read_bytes(self) -> int:
        """Bytes of those that were read ahead."""
        return sum(int(of.data.size) for of in self.data if of.path and not of.file)

    def _parts(self, places: Integers | slice) -> list[tuple[int, Integers, Integers, Integers]]:
        """Return each of the data that some texts are in, the places of those, and their spans."""
        starts, lengths = self.starts[places], self.lengths[places]
        if self.numbers is None:
            return [(0, np.arange(len(starts)), starts, lengths)] if self.data else []
        numbers = self.numbers[places]
        of_each = ((n, np.flatnonzero(numbers == n)) for n in range(len(self.data)))
        return [(n, at, starts[at], lengths[at]) for n, at in of_each if len(at)]

    def read_ahead(self, reads: ReadAhead, is_stopped: IsStopped = never) -> TextSpans:
        """Return the same texts, of which those that are not in memory were read."""
        data, starts = list(self.data), self.starts.copy()
        for number, at, of, lengths in self._parts(slice(None)):
            found = data[number].read_ahead(reads, of, lengths, is_stopped)
            data[number], starts[at] = found
        return replace(self, data=data, starts=starts)

    def take(self, places: Integers) -> pa.Array:
        """Return some of the texts, by their places among all."""
        parts = self._parts(places)
        found = [self.data[number].gather(starts, sizes) for number, _, starts, sizes in parts]
        if len(found) < 2:
            return found[0] if found else pa.nulls(0, pa.string())
        order = np.argsort(np.concatenate([at for _, at, _, _ in parts]))
        return pa.concat_arrays(found).take(column(order))
