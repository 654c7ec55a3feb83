"""Gather the texts of chunks and sections: spans of bytes in memory, or in mapped files.

chunk keys ─Facts→ spans ─within bounds→ one copy → Arrow texts
record keys ─Sections→ spans
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.artifacts.mapped_arrays import damaged
from duckplets.base.arrays import Integers
from duckplets.base.columns import column
from duckplets.serving.facts import ChunkFacts, FactSlice

ROLES = ["anchor", "context", "rejected"]


@dataclass(frozen=True, slots=True)
class SegmentSections:
    """Of which record the sections of a segment are, and where their texts lie.

    Attributes:
        records: Key of the record of each, ascending.
        roles: Number of its role in ``ROLES``.
        starts: First byte of its text.
        lengths: Bytes of its text.
    """

    records: Integers
    roles: np.ndarray[Any, np.dtype[np.int8]]
    starts: Integers
    lengths: np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True, slots=True)
class Segment:
    """The sections and chunks of a range of keys.

    Attributes:
        part: What is known of its chunks; ``span`` and ``bytes`` say where in ``data`` each is.
        data: Bytes of all texts, and maybe others between them.
        path: The file that holds them, for messages; None in memory.
        sections: What is known of its sections; None in memory.
    """

    part: FactSlice
    data: pa.Buffer
    path: Path | None = None
    sections: SegmentSections | None = None

    def gather(self, starts: Integers, lengths: Integers) -> pa.Array:
        """Return the texts of some spans; whether they are UTF-8 is seen where lists are made.

        Raises:
            DamagedFileError: A span ends beyond the data.
        """
        size = self.data.size
        ends = starts + lengths
        if len(starts) and (starts.min() < 0 or lengths.min() < 0 or ends.max() > size):
            raise damaged(self.path or Path("memory"), "a text would end beyond it")
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
            raise damaged(
                self.path or Path("memory"), "texts are longer than all there is"
            ) from error


class ChunkTexts:
    """The texts of all chunks of a corpus.

    Args:
        segments: By ascending keys.

    Attributes:
        facts: What else is known of the chunks.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = [s for s in segments if s.part.last >= s.part.first]
        self.facts = ChunkFacts([segment.part for segment in self._segments])

    def spans(self, keys: Integers, kind: str = "") -> TextSpans:
        """Return the texts of some chunks, to be gathered when they are asked for.

        Args:
            keys: Of the chunks; or of conversations.
            kind: Which of several texts of each, as its columns begin.
        """
        starts, lengths = self.facts.columns([f"{kind}span", f"{kind}bytes"], keys).values()
        numbers = self.facts.parts_of(keys)
        return TextSpans(self._segments, numbers, starts, lengths.astype(np.int64))

    def of_records(self, keys: Integers) -> tuple[Integers, Integers, TextSpans]:
        """Return the sections of some records, by record as asked and in their order within it.

        Returns:
            Which of the records each section is of, the number of its role in ``ROLES``, and the
            texts.
        """
        found: list[tuple[np.ndarray[Any, Any], ...]] = []
        for number, segment in enumerate(self._segments):
            if segment.sections is None:
                continue
            records = segment.sections.records
            first = np.searchsorted(records, keys)
            counts = np.searchsorted(records, keys, side="right") - first
            request = np.repeat(np.arange(len(keys)), counts)
            begin = np.repeat(first - (np.cumsum(counts) - counts), counts)
            rows = begin + np.arange(len(request))
            of = segment.sections
            part = np.full(len(rows), number)
            found.append((request, part, of.roles[rows], of.starts[rows], of.lengths[rows]))
        columns = [np.concatenate(c) for c in zip(*found, strict=True)] or [np.zeros(0, int)] * 5
        order = np.argsort(columns[0], kind="stable")
        request, parts, roles, starts, lengths = (column[order] for column in columns)
        numbers = parts if len(self._segments) > 1 else None
        return request, roles, TextSpans(self._segments, numbers, starts, lengths.astype(np.int64))


@dataclass(frozen=True, slots=True)
class TextSpans:
    """Texts that are not gathered yet.

    Attributes:
        segments: Where they may be.
        numbers: In which segment each is; None where all are in the only one.
        starts: First byte of each.
        lengths: Bytes of each.
    """

    segments: Sequence[Segment]
    numbers: Integers | None
    starts: Integers
    lengths: Integers

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
        numbers, parts = self.numbers[places], []
        place = np.empty(len(places), np.int64)
        done = 0
        for number, segment in enumerate(self.segments):
            at = np.flatnonzero(numbers == number)
            if len(at):
                parts.append(segment.gather(starts[at], lengths[at]))
                place[at] = np.arange(done, done + len(at))
                done += len(at)
        return pa.concat_arrays(parts).take(column(place)) if len(parts) > 1 else parts[0]


def byte_spans(
    texts: pa.Array, rows: Integers, starts: Integers, lengths: Integers
) -> tuple[Integers, Integers]:
    """Return where in the bytes of some texts spans of characters lie.

    Args:
        texts: Of sections.
        rows: Text of every span: shape (spans,), ascending.
        starts: First character of every span.
        lengths: Characters of every span; -1 for the whole text.

    Returns:
        First byte of every span, counted from that of the first text, and its bytes.
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
