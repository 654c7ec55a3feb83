"""Count the tokens of the samples of a stream or a source up to any sample."""

# An epoch's total is known in closed form, so only samples between one of its ends, or a place
# visited before, and the one asked for are counted.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from duckplets.base.arrays import Integers

_CHUNK = 1 << 16  # samples counted at a time
_KEPT = 1 << 12  # samples read at least, and kept: neighbours are asked for next
_MARKS = 32  # places with known counts that are kept
_MEAN_OF = 1 << 20  # epochs whose mean guesses where to look


class StreamTape:
    """The tokens of a stream, whose anchors come once an epoch."""

    def __init__(
        self,
        length: int,  # samples of an epoch
        # reads ascending samples: a row of their tokens, and others, each of shape (samples,)
        read_at: Callable[[Integers], Integers],
        totals: Callable[[int], int],  # tokens of the first epochs
    ) -> None:
        self._length, self._read_at, self._totals = length, read_at, totals
        # of a sample, about: it decides where to look, never what is found
        self.mean = totals(_MEAN_OF) / (_MEAN_OF * length)
        self._marks: dict[int, int] = {}  # tokens before some samples
        # samples read last and those before: the first of both, the first of the last, and the rows
        self._kept: tuple[int, int, Integers] = (0, 0, np.zeros((1, 0), np.int64))

    def upto(self, index: int) -> int:
        """Return the tokens of the samples before one."""
        begin = index - index % self._length
        ends = begin, begin + self._length
        place = min([*self._marks, *ends], key=lambda at: abs(at - index))
        found = self._marks.get(place)
        if found is None:
            found = self._totals(place // self._length)
        low, high = sorted([place, index])
        for first in range(low, high, _CHUNK):
            stop, is_far = min(first + _CHUNK, high), high - low > _CHUNK
            read = self._read_at(np.arange(first, stop))[0] if is_far else self.between(first, stop)
            found += int(read.sum()) * (1 if place == low else -1)
        self._marks = dict([*self._marks.items(), (index, found)][-_MARKS:])
        return found

    def between(self, start: int, stop: int) -> Integers:
        """Return the tokens of each of some samples."""
        first, last, rows = self._kept
        end = first + rows.shape[1]
        if not first <= start <= stop <= end:
            is_next = first <= start <= end > first
            begin, kept = (end, min(start, last)) if is_next else (start, start)
            more = self._read_at(np.arange(begin, max(stop, start + _KEPT)))
            rows = np.concatenate([rows[:, kept - first :], more], axis=1) if is_next else more
            first = kept
            self._kept = first, begin, rows
        tokens: Integers = rows[0, start - first : stop - first]
        return tokens

    def known(self, index: Integers) -> Integers | None:
        """Return the other rows of ascending samples, if they are among those read last."""
        first, _, rows = self._kept
        if len(index) == 0 or not first <= index[0] <= index[-1] < first + rows.shape[1]:
            return None
        low, high = int(index[0]) - first, int(index[-1]) - first + 1
        return rows[1:, low:high] if high - low == len(index) else rows[1:, index - first]


class SourceTape:
    """The tokens of a source, whose samples several streams share, perhaps by blocks."""

    def __init__(self, streams: Sequence[StreamTape], recipes: Any, size: int = 1) -> None:
        self._streams, self._recipes, self._size = streams, recipes, size
        parts = zip(recipes.parts(), streams, strict=True)
        self.mean = size * sum(part * stream.mean for part, stream in parts)

    def upto(self, index: int) -> int:
        """Return the tokens of the samples, or blocks, before one."""
        counts = self._recipes.counts(index * self._size)
        return sum(stream.upto(count) for stream, count in zip(self._streams, counts, strict=True))

    def between(self, start: int, stop: int) -> Integers:
        """Return the tokens of each of some samples or blocks."""
        found = np.zeros((stop - start) * self._size, np.int64)
        index = np.arange(start * self._size, stop * self._size, dtype=np.int64)
        for share in self._recipes.deal(index):
            first, last = int(share.indexes[0]), int(share.indexes[-1])
            found[share.offsets] = self._streams[share.leaf].between(first, last + 1)
        return found if self._size == 1 else found.reshape(-1, self._size).sum(axis=1)


Tape: TypeAlias = StreamTape | SourceTape


def place(tape: Tape, tokens: int, first: int = 0) -> tuple[int, int]:
    """Return the last sample, from ``first`` on, that no more tokens precede, and how many do."""
    index = max(first, int(tokens / tape.mean))
    before, size = tape.upto(index), 64
    while before > tokens and index > first:
        low = max(first, index - size)
        sums = tape.between(low, index)[::-1].cumsum()
        at = int(np.searchsorted(sums, before - tokens))
        if at < len(sums):
            return index - at - 1, before - int(sums[at])
        index, before, size = low, before - int(sums[-1]), min(2 * size, _CHUNK)
    while before <= tokens:
        sums = tape.between(index, index + size).cumsum()
        at = int(np.searchsorted(sums, tokens - before, side="right"))
        if at < len(sums):
            return index + at, before + (int(sums[at - 1]) if at else 0)
        index, before, size = index + size, before + int(sums[-1]), min(2 * size, _CHUNK)
    return index, before
