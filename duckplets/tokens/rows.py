"""Cut the texts of a source into rows of tokens, gather any of them, and draw them in order."""

# A row is a number. Its tokens follow from the offsets of the texts, so rows need no storage.

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from duckplets.base.arrays import Integers, Integers32, ranges
from duckplets.errors import DamagedFileError
from duckplets.order.permute import key, ranks_at
from duckplets.samples.stream import Draw
from duckplets.tokens.memmap import TokenFile

_AT_ONCE = 1 << 20  # texts whose lengths are read at a time


@dataclass(frozen=True)
class TextSpan:
    """Adjacent texts of a token file, ``first … stop - 1``, with their end tokens."""

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
    def bounds(self) -> tuple[int, int]:
        """First token of the texts in the file, and the end."""
        low, high = int(self.offsets[0]), int(self.offsets[-1])
        if not 0 <= low <= high <= len(self.file):
            raise self.damage()
        return low, high

    def damage(self) -> DamagedFileError:
        """Return the error for impossible offsets."""
        return self.file.damage("offsets of texts are outside the file")


@dataclass(frozen=True, slots=True)
class Gathered:
    """The tokens of some rows."""

    ids: Integers32  # padded; shape (rows, width)
    lengths: Integers  # number of tokens without padding
    owners: Integers  # row of every text that begins within a row, after its first token; ascending
    columns: Integers  # column at which that text begins


@dataclass(frozen=True)
class PackedRows:
    """Rows of texts laid end to end, as in the file."""

    text_span: TextSpan
    width: int  # tokens of a row
    pad: int

    @cached_property
    def tokens(self) -> int:
        """Tokens of all rows, without padding."""
        low, high = self.text_span.bounds
        return high - low

    def __len__(self) -> int:
        return -(-self.tokens // self.width)

    def lengths(self, rows: Integers) -> Integers:
        """Return the number of tokens of some rows."""
        return np.minimum(self.tokens - rows * self.width, self.width)

    def take(self, rows: Integers) -> Gathered:
        """Return the tokens of some rows."""
        begins, lengths = self.text_span.bounds[0] + rows * self.width, self.lengths(rows)
        ids = self.text_span.file.take(begins, lengths, self.width, self.pad)
        before, after = self._between(begins, lengths)
        counts = np.maximum(after - before - 1, 0)
        owners, texts = np.repeat(np.arange(len(rows)), counts), ranges(before + 1, counts)
        columns = self.text_span.offsets[texts] - begins[owners]
        if ((columns < 0) | (columns >= self.width)).any():
            raise self.text_span.damage()
        return Gathered(ids, lengths, owners, columns)

    def texts(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the first text of each row in the token file, and the text after its last."""
        begins = self.text_span.bounds[0] + rows * self.width
        first, last = self._between(begins, self.lengths(rows))
        return first + self.text_span.first, last + self.text_span.first

    def _between(self, begins: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """Return the first text of each row in the span, and the text after its last."""
        offsets = self.text_span.offsets
        before = np.searchsorted(offsets, begins, "right") - 1
        after = np.searchsorted(offsets, begins + lengths, "left")
        return before, np.minimum(after, len(self.text_span))


@dataclass(frozen=True)
class SingleRows:
    """Rows of one text each, cut and padded to a width."""

    text_span: TextSpan
    width: int
    pad: int

    @cached_property
    def _sums(self) -> tuple[int, int]:
        """The numbers of cut texts, and of tokens in all rows."""
        offsets, cut, tokens = self.text_span.offsets, 0, 0
        for low in range(0, len(self), _AT_ONCE):
            lengths = np.diff(offsets[low : low + _AT_ONCE + 1]) - self.text_span.file.ends
            cut += int((lengths > self.width).sum())
            tokens += int(np.minimum(lengths, self.width).sum())
        return cut, tokens

    @property
    def cut(self) -> int:
        """Number of texts longer than a row."""
        return self._sums[0]

    @property
    def tokens(self) -> int:
        """Tokens of all rows, without padding."""
        return self._sums[1]

    def __len__(self) -> int:
        return len(self.text_span)

    def lengths(self, rows: Integers) -> Integers:
        """Return the number of tokens of some rows."""
        offsets = self.text_span.offsets
        lengths: Integers = offsets[rows + 1] - offsets[rows] - self.text_span.file.ends
        return np.minimum(lengths, self.width)

    def take(self, rows: Integers) -> Gathered:
        """Return the tokens of some rows."""
        lengths, starts = self.lengths(rows), self.text_span.offsets[rows]
        ids = self.text_span.file.take(starts, lengths, self.width, self.pad)
        none = np.zeros(0, np.int64)
        return Gathered(ids, lengths, none, none)

    def texts(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the text of each row in the token file, and the text after it."""
        return rows + self.text_span.first, rows + self.text_span.first + 1


TokenRows = PackedRows | SingleRows


# -- rows in the order of a run ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowRecipe:
    """The layout of rows, for a forecast: ``packed`` or ``records``, and the bucket."""

    name: str


@dataclass(frozen=True)
class TokenStream:
    """The rows of a source or of one of its buckets in the order of a run, like a ``Stream``."""

    source: str
    bucket: int | None  # with ``by_bucket``
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
        """Return row and epoch of samples; their numbers ascend, with or without gaps."""
        parts = () if self.bucket is None else (self.bucket,)
        rows, epochs = ranks_at(key(self.seed, self.source, "rows", *parts), len(self), index)
        return Draw([rows, epochs], [])
