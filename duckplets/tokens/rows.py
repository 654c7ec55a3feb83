"""Cut the texts of a source into rows of tokens, gather any of them, and draw them in order.

texts, laid end to end ─cut every ``seq_length`` tokens→ packed rows
texts, one a row ─cut at ``seq_length``, padded→ single rows

A row is a number: its tokens follow from the offsets of the texts, so rows need no storage, and all
rows of a block are gathered by a few array operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from duckplets.base.arrays import Flags, Integers, Integers32
from duckplets.errors import DamagedFileError
from duckplets.order.permute import key, ranks_at
from duckplets.samples.stream import Draw
from duckplets.tokens.memmap import TokenFile

_AT_ONCE = 1 << 20  # texts whose lengths are read at a time


@dataclass(frozen=True)
class TextSpan:
    """Adjacent texts of a token file, ``first … stop - 1``."""

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
        """First token and end of the texts in the file.

        Raises:
            DamagedFileError: They lie outside the file.
        """
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
    """Rows of texts laid end to end, with or without an end token after each."""

    of: TextSpan
    width: int  # tokens of a row
    end: int | None  # token after each text
    stored: int | None  # token after each text in the file
    pad: int

    @cached_property
    def tokens(self) -> int:
        """Tokens of all rows, without padding."""
        low, high = self.of.span
        return high - low - (0 if self.end is not None else len(self.of))

    def __len__(self) -> int:
        return -(-self.tokens // self.width)

    def lengths(self, rows: Integers) -> Integers:
        """Return the number of tokens of some rows."""
        return np.minimum(self.tokens - rows * self.width, self.width)

    def take(self, rows: Integers) -> Gathered:
        """Return the tokens of some rows."""
        begins, lengths = rows * self.width, self.lengths(rows)
        before = self._before(begins, inclusive=True) - 1  # text in which each row begins
        after = self._before(begins + lengths, inclusive=False)
        owners, texts = _spread(before + 1, after)
        columns = self._start(texts) - begins[owners]
        if ((columns < 0) | (columns >= self.width)).any():
            raise self.of.damage()
        ids = self._ids(begins, lengths, before, (owners, columns))
        if self.end is not None and self.end != self.stored:
            ids[self._ends(begins, begins + lengths)] = self.end
        fresh = np.ones(len(owners), bool)  # an empty text begins where the next one does
        fresh[1:] = (owners[1:] != owners[:-1]) | (columns[1:] != columns[:-1])
        return Gathered(ids, lengths, owners[fresh], columns[fresh])

    def texts(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the first text of each row in the token file, and the one after its last."""
        begins = rows * self.width
        first = self._before(begins, inclusive=True) - 1
        last = self._before(begins + self.lengths(rows), inclusive=False)
        return first + self.of.first, last + self.of.first

    def _ids(
        self, begins: Integers, lengths: Integers, before: Integers, starts: tuple[Integers, ...]
    ) -> Integers32:
        low, tokens = self.of.span[0], self.of.file
        if self.end is not None:
            return tokens.take(low + begins, lengths, self.width, self.pad)
        # Every text before a token accounts for a skipped end, as does one that begins
        # within the row: the n-th lies n places further on in the file.
        owners, columns = starts
        skipped = np.bincount(owners, minlength=len(begins))
        widest = self.width + int(skipped.max(initial=0))
        found = tokens.take(low + begins + before, lengths + skipped, widest, self.pad)
        kept = np.arange(widest) < (lengths + skipped)[:, None]
        nth = np.arange(len(owners)) - np.searchsorted(owners, owners)
        kept[owners, columns + nth] = False
        if (kept.sum(axis=1) != lengths).any():
            raise self.of.damage()
        ids = np.full((len(begins), self.width), self.pad, np.int32)
        ids[np.arange(self.width) < lengths[:, None]] = found[kept]
        return ids

    def _start(self, texts: Integers) -> Integers:
        """Return the start of texts among all tokens of the rows."""
        found: Integers = self.of.offsets[texts] - self.of.span[0]
        return found if self.end is not None else found - texts

    def _before(self, places: Integers, *, inclusive: bool) -> Integers:
        """Return how many texts begin before places, or at them."""
        offsets, low = self.of.offsets, self.of.span[0]
        if self.end is not None:
            found = np.searchsorted(offsets, places + low, "right" if inclusive else "left")
            return np.minimum(found, len(self.of))
        # Without ends the n-th text begins n tokens earlier; one search for all.
        least, most = np.zeros_like(places), np.full_like(places, len(self.of))
        while (open_ := least < most).any():
            middle = (least + most) // 2
            start = self._start(middle)
            is_before = open_ & ((start <= places) if inclusive else (start < places))
            least = np.where(is_before, middle + 1, least)
            most = np.where(open_ & ~is_before, middle, most)
        return least

    def _ends(self, begins: Integers, stops: Integers) -> tuple[Integers, Integers]:
        """Return row and column of every end within rows."""
        first = self._before(begins, inclusive=True)
        owners, texts = _spread(first, self._before(stops, inclusive=True) + 1)
        columns = self.of.offsets[np.minimum(texts, len(self.of))] - self.of.span[0] - 1
        columns = columns - begins[owners]
        within: Flags = (columns >= 0) & (columns < (stops - begins)[owners])
        return owners[within], columns[within]


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
            lengths = np.diff(offsets[low : low + _AT_ONCE + 1]) - 1
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
        lengths: Integers = offsets[rows + 1] - offsets[rows] - 1
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
    """The rows of a source, or of one of its buckets, in the order of a run.

    It has the interface of a ``Stream``: a row is an anchor, with nothing drawn beside it.
    """

    source: str
    bucket: int | None  # if batches are of one
    rows: TokenRows
    recipe: RowRecipe
    seed: int

    negatives = fallback_anchors = 0
    is_given = graded = has_fallbacks = False
    negatives_from = version = None
    candidates = ()

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
