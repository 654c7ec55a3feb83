"""Gather texts from bytes in memory or in mapped files; who gathers does not know which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from duckplets.artifacts.arrays import MappedFile
from duckplets.artifacts.folder import damaged
from duckplets.artifacts.read_ahead import ReadAhead
from duckplets.base.arrays import Integers
from duckplets.base.columns import column
from duckplets.base.prefetch import IsStopped, never
from duckplets.errors import DuckpletsError


@dataclass(frozen=True, slots=True)
class TextBytes:
    """Bytes of texts, in memory or of a mapped file, possibly with others between them."""

    data: pa.Buffer
    file: MappedFile | None = None  # the mapped file
    source: MappedFile | None = None  # the file that bytes in memory come from

    @classmethod
    def of(cls, file: MappedFile) -> TextBytes:
        """Return the bytes of a mapped file."""
        return cls(file.buffer, file, file)

    def read_ahead(
        self, reads: ReadAhead, starts: Integers, lengths: Integers, is_stopped: IsStopped
    ) -> tuple[TextBytes, Integers]:
        """Return an object with some spans in memory, and the start of each in it."""
        if self.file is None:
            return self, starts
        if (found := reads.spans(self.file, starts, lengths, is_stopped)) is None:
            return self, starts
        return TextBytes(pa.py_buffer(found[0]), source=self.source), found[1]

    def damaged(self, why: str) -> DuckpletsError:
        """Return the error for bytes that are not what they were."""
        return damaged(None, why) if self.source is None else self.source.damaged(why)


@dataclass(frozen=True, slots=True)
class TextSpans:
    """Texts that are not gathered yet."""

    data: Sequence[TextBytes]  # the bytes they may lie in
    numbers: Integers | None  # index of the bytes of each; None if there is only one
    starts: Integers  # first byte of each
    lengths: Integers  # bytes of each
    _begins: Integers = field(init=False, repr=False)  # where the bytes are in memory
    _sizes: Integers = field(init=False, repr=False)
    _memory: pa.Buffer = field(init=False, repr=False)  # from the first of them to the last

    def __post_init__(self) -> None:
        """Find all of the bytes in memory, once for all that is gathered."""
        places = [(each.data.address, each.data.size) for each in self.data] or [(0, 0)]
        begins, sizes = np.array(places, np.int64).T
        low, end = int(begins.min()), int((begins + sizes).max())
        memory = pa.foreign_buffer(low, end - low, base=self.data)
        for name, value in (("_begins", begins - low), ("_sizes", sizes), ("_memory", memory)):
            object.__setattr__(self, name, value)

    @property
    def nbytes(self) -> int:
        """Bytes of all texts."""
        return int(self.lengths.sum())

    @property
    def read_bytes(self) -> int:
        """Bytes read ahead."""
        return sum(int(each.data.size) for each in self.data if each.source and not each.file)

    def _parts(self) -> Iterator[tuple[int, Integers | slice]]:
        """Yield each of the bytes in use, and which texts lie in it."""
        if self.numbers is None:
            yield 0, slice(None)
        else:
            for number in np.unique(self.numbers).tolist():
                yield number, np.flatnonzero(self.numbers == number)

    def read_ahead(self, reads: ReadAhead, is_stopped: IsStopped = never) -> TextSpans:
        """Return the same texts, with those not in memory read."""
        if not len(self.starts):
            return self
        self._addresses(slice(None))
        data, starts = list(self.data), self.starts.copy()
        for number, at in self._parts():
            found = data[number].read_ahead(reads, starts[at], self.lengths[at], is_stopped)
            data[number], starts[at] = found
        return replace(self, data=data, starts=starts)

    def _addresses(self, places: Integers | slice) -> Integers:
        """Return where texts are in ``_memory``; refuse those outside their bytes."""
        starts, lengths = self.starts[places], self.lengths[places]
        numbers = 0 if self.numbers is None else self.numbers[places]
        wrong = (starts < 0) | (lengths < 0) | (starts > self._sizes[numbers] - lengths)
        if wrong.any():
            first = np.argmax(wrong)
            number = 0 if self.numbers is None else int(self.numbers[places][first])
            raise self.data[number].damaged("a text would end beyond it")
        return np.asarray(starts + self._begins[numbers], np.int64)

    def take(self, places: Integers | slice) -> pa.Array:
        """Return some of the texts, by index; UTF-8 is checked when lists are made."""
        if not len(self.data):
            return pa.nulls(0, pa.string())
        addresses, lengths = self._addresses(places), self.lengths[places]
        # One array over all of the memory the bytes lie in: every second span of these offsets
        # is a text; the others are never read.
        offsets = np.empty(2 * len(addresses) + 2, np.int64)
        offsets[0], offsets[-1] = 0, self._memory.size
        offsets[1:-1:2] = addresses
        offsets[2:-1:2] = offsets[1:-1:2] + lengths
        buffers = [None, pa.py_buffer(offsets), self._memory]
        between = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
        try:
            found = between.take(column(np.arange(1, len(offsets) - 1, 2)))
            return found.cast(pa.string())
        except (pa.ArrowException, MemoryError) as error:
            source = next((each for each in self.data if each.source), self.data[0])
            raise source.damaged("texts are longer than all there is") from error
