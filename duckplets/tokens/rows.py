"""Cut the texts of a source into rows of tokens, gather any of them, and draw them in order."""

# A row is a number: its tokens follow from the offsets of the texts, so rows need no storage.

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from duckplets.base.arrays import Integers, Integers32
from duckplets.errors import DamagedFileError
from duckplets.order.permute import key, ranks_at
from duckplets.samples.stream import Draw
from duckplets.tokens.memmap import TokenFile

_AT_ONCE = 1 << 20  # texts whose lengths are read at a time


@dataclass(frozen=True)
class TextSpan:
    """Adjacent texts of a token file, ``first … stop - 1``, with their ends."""

    file: TokenFile
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def offsets(self) -> Integers:
        """Start of each text in the file, and the end of the last."""
        return self.file.offsets[self.first : self.stop + 1]

    @cached_property
    def span(self) -> tuple[int, int]:
        """Return first token and end of the texts in the file."""
        low, high = int(self.offsets[0]), int(self.offsets[-1])
        if not 0 <= low <= high <= len(self.file):
            raise self.damage()
        return low, high

    def damage(self) -> DamagedFileError:
        """Return the error for impossible offsets."""
        return self.file.damage("offsets of texts lead nowhere")


@dataclass(frozen=True, slots=True)
class Gathered:
    """The tokens of some rows."""

    ids: Integers32  # padded; shape (rows, width)
    lengths: Integers  # number of tokens without padding
    owners: Integers  # row of every text that begins within a row, after its first token; ascending
    columns: Integers  # column where that text begins


@dataclass(frozen=True)
class PackedRows:
    """Rows of texts laid end to end, as they lie in the file."""

    of: TextSpan
    width: int  # tokens of a row
    pad: int

    @cached_property
    def tokens(self) -> int:
        """Tokens of all rows, without padding."""
        low, high = self.of.span
        return high - low

    def __len__(self) -> int:
        return -(-self.tokens // self.width)

    def lengths(self, rows: Integers) -> Integers:
        """Return the number of tokens of some rows."""
        return np.minimum(self.tokens - rows * self.width, self.width)

    def take(self, rows: Integers) -> Gathered:
        """Return the tokens of some rows."""
        begins, lengths = self.of.span[0] + rows * self.width, self.lengths(rows)
        ids = self.of.file.take(begins, lengths, self.width, self.pad)
        before, after = self._between(begins, lengths)
        owners, texts = _spread(before + 1, after)
        columns = self.of.offsets[texts] - begins[owners]
        if ((columns < 0) | (columns >= self.width)).any():
            raise self.of.damage()
        return Gathered(ids, lengths, owners, columns)

    def texts(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the first text of each row in the token file, and the one after its last."""
        begins = self.of.span[0] + rows * self.width
        first, last = self._between(begins, self.lengths(rows))
        return first + self.of.first, last + self.of.first

    def _between(self, begins: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """Return the text in which each row begins, and the one after that in which it ends."""
        offsets, most = self.of.offsets, len(self.of)
        before = np.searchsorted(offsets, begins, "right") - 1
        after = np.searchsorted(offsets, begins + lengths, "left")
        return before, np.minimum(after, most)


@dataclass(frozen=True)
class SingleRows:
    """Rows of one text each, cut and padded to a width."""

    of: TextSpan
    width: int
    pad: int

    @cached_property
    def _sums(self) -> tuple[int, int]:
        """Number of texts cut, and of tokens left."""
        offsets, cut, left = self.of.offsets, 0, 0
        for low in range(0, len(self.of), _AT_ONCE):
            lengths = np.diff(offsets[low : low + _AT_ONCE + 1]) - self.of.file.ends
            cut += int((lengths > self.width).sum())
            left += int(np.minimum(lengths, self.width).sum())
        return cut, left

    @property
    def cut(self) -> int:
        """Number of texts longer than a row."""
        return self._sums[0]

    @property
    def tokens(self) -> int:
        """Tokens of all rows, without padding."""
        return self._sums[1]

    def __len__(self) -> int:
        return len(self.of)

    def lengths(self, rows: Integers) -> Integers:
        """Return the number of tokens of some rows."""
        offsets = self.of.offsets
        lengths: Integers = offsets[rows + 1] - offsets[rows] - self.of.file.ends
        return np.minimum(lengths, self.width)

    def take(self, rows: Integers) -> Gathered:
        """Return the tokens of some rows."""
        lengths, starts = self.lengths(rows), self.of.offsets[rows]
        ids = self.of.file.take(starts, lengths, self.width, self.pad)
        none = np.zeros(0, np.int64)
        return Gathered(ids, lengths, none, none)

    def texts(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the text of each row in the token file, and the one after it."""
        return rows + self.of.first, rows + self.of.first + 1


TokenRows = PackedRows | SingleRows


def _spread(starts: Integers, stops: Integers) -> tuple[Integers, Integers]:
    """Return the concatenated integers of several ranges, and the range of each."""
    counts = np.maximum(stops - starts, 0)
    owners = np.repeat(np.arange(len(counts)), counts)
    shift = starts - (np.cumsum(counts) - counts)
    return owners, np.arange(len(owners)) + shift[owners]


# -- rows in the order of a run ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowRecipe:
    """The name of a way to cut rows, for a forecast: ``packed`` or ``records``, and the bucket."""

    name: str


@dataclass(frozen=True)
class TokenStream:
    """The rows of a source, or of one of its buckets, in the order of a run; as a ``Stream``."""

    source: str
    bucket: int | None  # if batches are of one
    rows: TokenRows
    recipe: RowRecipe
    seed: int

    negatives = fallback_anchors = shared_questions = 0
    is_given = graded = has_fallbacks = False
    negatives_from = version = filtered = None
    candidates = ()
    value = None

    @property
    def name(self) -> str:
        """Name in the mixture."""
        return self.source

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def share(self) -> Fraction:
        """Share among the streams of its source, by rows."""
        return Fraction(len(self))

    def draw_at(self, index: Integers) -> Draw:
        """Return row and epoch of samples by number; numbers ascend, with or without gaps."""
        parts = () if self.bucket is None else (self.bucket,)
        rows, epochs = ranks_at(key(self.seed, self.source, "rows", *parts), len(self), index)
        return Draw([rows, epochs], [])
