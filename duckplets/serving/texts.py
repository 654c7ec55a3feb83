"""Look up what chunks are, and gather their texts: from arrays in memory, or in mapped files.

chunk keys ─columns→ spans of bytes ─within bounds→ one copy → Arrow texts
record keys ─sections→ spans

Conversations are served alike: of a run of messages a chunk is a whole conversation, its key is
that of its record, and its text is JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.artifacts.folder import damaged
from duckplets.base.arrays import Integers
from duckplets.base.columns import column

ROLES = ["anchor", "context", "rejected"]

Columns = Mapping[str, Any]  # arrays; keys without gaps may be a range


class Segment:
    """The sections and chunks of a range of keys."""

    def __init__(
        self,
        chunks: Columns,  # by ``chunk_key``; ``span`` and ``bytes``: where in the data texts lie
        sections: Columns,  # by record, with ``role`` as its number in ``ROLES``
        data: pa.Buffer,  # bytes of all texts, and maybe others between them
        path: Path | None = None,  # that holds them, for messages; None in memory
    ) -> None:
        self.columns, self.sections, self.data, self.path = chunks, sections, data, path
        keys = chunks["chunk_key"]
        self.first, self.last = (int(keys[0]), int(keys[-1])) if len(keys) else (0, -1)
        self._keys = None if self.last - self.first + 1 == len(keys) else keys

    def rows(self, keys: Integers) -> Integers:
        """Return where chunks stand in the columns."""
        return keys - self.first if self._keys is None else np.searchsorted(self._keys, keys)

    def gather(self, starts: Integers, lengths: Integers) -> pa.Array:
        """Return the texts of some spans; whether they are UTF-8 is seen where lists are made."""
        size = self.data.size
        ends = starts + lengths
        if len(starts) and (starts.min() < 0 or lengths.min() < 0 or ends.max() > size):
            raise damaged(self.path, "a text would end beyond it")
        # Every second stretch of these offsets is a text; those between are never looked at.
        offsets = np.empty(2 * len(starts) + 2, np.int64)
        offsets[0], offsets[-1] = 0, size
        offsets[1:-1:2], offsets[2:-1:2] = starts, ends
        buffers = [None, pa.py_buffer(offsets), self.data]
        between = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
        try:
            found = between.take(column(np.arange(1, len(offsets) - 1, 2)))
            return found.cast(pa.string())
        except (pa.ArrowException, MemoryError) as error:
            raise damaged(self.path, "texts are longer than all there is") from error


class ChunkTexts:
    """All chunks of a corpus, or all conversations: their texts, and what else they are."""

    def __init__(self, segments: Sequence[Segment]) -> None:  # by ascending keys
        self._segments = [s for s in segments if s.last >= s.first]
        self._firsts = np.array([segment.first for segment in self._segments], np.int64)

    def columns(self, names: Sequence[str], keys: Integers) -> dict[str, np.ndarray[Any, Any]]:
        """Return some columns of some chunks: shape (keys,) each.

        There are ``tokens`` (of a conversation those of its record's sections), ``weight``,
        ``section_key``, ``record_key`` and ``window_index``; ``span`` and ``bytes`` of the text.
        """
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
        return TextSpans(self._segments, self._numbers(keys), starts, lengths.astype(np.int64))

    def _numbers(self, keys: Integers) -> Integers | None:
        """Return in which segment each is; None where there is one segment only."""
        if len(self._segments) < 2:
            return None
        return np.asarray(np.searchsorted(self._firsts, keys, side="right") - 1, np.int64)

    def of_records(self, keys: Integers) -> tuple[Integers, Integers, TextSpans]:
        """Return the sections of some records, by record as asked and in their order within it.

        That is which of the records each is of, the number of its role in ``ROLES``, and the texts.
        """
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
        spans = TextSpans(self._segments, numbers, starts, lengths.astype(np.int64))
        return request, roles, spans


@dataclass(frozen=True, slots=True)
class TextSpans:
    """Texts that are not gathered yet."""

    segments: Sequence[Segment]  # where they may be
    numbers: Integers | None  # in which segment each is; None where all are in the only one
    starts: Integers  # first byte of each
    lengths: Integers  # bytes of each

    @property
    def nbytes(self) -> int:
        """Bytes of all texts."""
        return int(self.lengths.sum())

    def take(self, places: Integers) -> pa.Array:
        """Return some of the texts, by their places among all."""
        starts, lengths = self.starts[places], self.lengths[places]
        if not self.segments:
            return pa.nulls(0, pa.string())
        if self.numbers is None:
            return self.segments[0].gather(starts, lengths)
        numbers = self.numbers[places]
        rows = [np.flatnonzero(numbers == number) for number in range(len(self.segments))]
        each = zip(self.segments, rows, strict=True)
        parts = [of.gather(starts[at], lengths[at]) for of, at in each if len(at)]
        if len(parts) < 2:
            return parts[0] if parts else pa.nulls(0, pa.string())
        return pa.concat_arrays(parts).take(column(np.argsort(np.concatenate(rows))))


def byte_spans(
    texts: pa.Array, rows: Integers, starts: Integers, lengths: Integers
) -> tuple[Integers, Integers]:
    """Return first byte, counted from that of the first text, and bytes of spans of characters.

    ``rows`` are the texts of the spans, ascending; a length of -1 stands for the whole text.
    """
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    offsets = ends.astype(np.int64) - int(ends[0])
    first = offsets[rows].copy()
    size = offsets[rows + 1] - first
    parts = np.flatnonzero(lengths >= 0)
    if len(parts) == 0:
        return first, size
    cut, which = np.unique(rows[parts], return_inverse=True)
    some = texts.take(column(cut))
    within = np.frombuffer(some.buffers()[1], np.int32)[: len(some) + 1].astype(np.int64)
    data = np.frombuffer(some.buffers()[2] or b"", np.uint8)[within[0] : within[-1]]
    within -= within[0]
    # A character begins at every byte that goes on with none.
    heads = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    at = np.searchsorted(heads, within[which]) + starts[parts]
    begins = heads[at]
    size[parts] = heads[at + lengths[parts]] - begins
    first[parts] += begins - within[which]
    return first, size
