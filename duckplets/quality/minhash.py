r"""Hash the n-grams of texts, and compute their MinHash bands."""

# The hash of an n-gram is a polynomial of the hashes of its words: a difference of two prefix sums.
# Words are hashed by MD5 and all constants are in this file, so no library changes a result. In
# scripts without spaces a word is one character with its marks.

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Floats, IntegerLists, Integers, Words, offsets, stretches
from duckplets.base.settings import Bounds, check
from duckplets.db.database import Database
from duckplets.errors import SamplerError
from duckplets.text.words import PAIRED

ALGORITHM = 4
"""Change it whenever the n-grams, hashes or bands of a text change."""

_WORDS = {
    "word": r"[\pL\pN\pM]+",
    "alone": rf"[{PAIRED}]\pM*",
    "solid": r"[^\s\pZ]+",
}
_GRAMS = 1 << 15  # hashes processed at a time: they stay in the cache
_RECALL = 0.99  # recall at the threshold, if bands follow from it
_FUNCTIONS, _MOST_ROWS, _MOST = 112, 16, 1000
_GOLDEN = 0x9E3779B97F4A7C15
_BASE = 0xD6E8FEB86659FD93  # odd, so that it is invertible
_ALL = (1 << 64) - 1

_Some = Annotated[int, Bounds(1, _MOST)]


@dataclass(frozen=True, kw_only=True, slots=True)
class NearSettings:
    """Settings of the search for near-duplicates; see ``Corpus.deduplicate``."""

    near: Annotated[float, Bounds(above=0, most=1)]
    ngram: _Some
    bands: _Some
    rows: _Some
    seed: Annotated[int, Bounds(0, 2**63 - 1)]

    def __post_init__(self) -> None:
        check(self, SamplerError)

    @classmethod
    def of(
        cls, *, near: float, ngram: int, bands: int | None, rows: int | None, seed: int
    ) -> NearSettings:
        """Check settings, and choose missing bands and rows."""
        # Several choices find 99 % of the nearest pairs. The one with the most rows proposes the
        # fewest wrong pairs.
        numbers = {"bands": 1 if bands is None else bands, "rows": 1 if rows is None else rows}
        settings = cls(near=near, ngram=ngram, **numbers, seed=seed)
        for number in range(_MOST_ROWS, 0, -1) if rows is None else [settings.rows]:
            least = _least_bands(settings.near, number)
            if (number * least <= _FUNCTIONS) if bands is None else (least <= settings.bands):
                break
        return replace(settings, bands=least if bands is None else settings.bands, rows=number)

    @property
    def recall(self) -> float:
        """The share of pairs of similarity ``near`` that have a band in common."""
        return float(1 - (1 - self.near**self.rows) ** self.bands)


def _least_bands(near: float, rows: int) -> int:
    """Return the least number of bands that finds 99 % of the pairs of a similarity."""
    alike = near**rows
    return 1 if alike == 1 else min(_MOST, math.ceil(math.log(1 - _RECALL) / math.log1p(-alike)))


class Grams(NamedTuple):
    """The n-grams of texts, one text after the other."""

    hashes: Words  # equal for equal words
    starts: Integers  # first n-gram of each text, and the end
    words: pa.Array  # of all texts
    first: Integers  # first word of each n-gram
    size: Integers  # words of each n-gram
    counts: Integers  # words of each text

    def text(self, gram: int) -> str:
        """Return an n-gram as words separated by spaces."""
        return " ".join(self.words.slice(self.first[gram], self.size[gram]).to_pylist())

    def similarities(self, one: Integers, other: Integers) -> Floats:
        """Return the Jaccard similarity of pairs of texts; float64[pairs]."""
        various, numbers = np.unique(self.hashes, return_inverse=True)
        owners = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        known = np.unique(owners * len(various) + numbers)  # every (text, n-gram)
        starts = np.searchsorted(known, np.arange(len(self.starts)) * len(various))
        lists = IntegerLists(starts, known % len(various))
        ours = lists.take(one)
        wanted = np.repeat(other, ours.lengths) * len(various) + ours.values
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        shared = np.add.reduceat(known[at] == wanted, ours.starts[:-1], dtype=np.int64)
        similarity: Floats = shared / (lists.lengths[one] + lists.lengths[other] - shared)
        return similarity


def grams_of(database: Database, texts: pa.Array, n: int, *, whole: bool) -> Grams:
    """Return the n-grams of texts; with ``whole`` a text of fewer words is one n-gram."""
    table = pa.table({"place": np.arange(len(texts)), "text": texts})
    with database.registered(gram_texts=table):
        found = database.table("quality/near_dedup/words", _WORDS)
    lists = found["words"].take(pc.sort_indices(found["place"])).combine_chunks()
    words = lists.flatten()
    count = pc.list_value_length(lists).to_numpy()
    word = offsets(count)  # start of each text
    grams = np.maximum(count - n + 1, np.minimum(count, 1) if whole else 0)
    starts = offsets(grams)
    first = np.arange(starts[-1]) + np.repeat(word[:-1] - starts[:-1], grams)
    size = np.repeat(np.minimum(count, n), grams)
    forth, back = (  # powers
        np.multiply.accumulate(np.full(len(words), base, np.uint64))
        for base in (_BASE, pow(_BASE, -1, 1 << 64))
    )
    sums = offsets(_hashed(database, words) * forth, np.uint64)
    hashes = mixed((sums[first + size] - sums[first]) * back[first])
    return Grams(hashes, starts, words, first, size, count)


def _hashed(database: Database, words: pa.Array) -> Words:
    """Return a hash of each word; distinct words are hashed once."""
    coded = words.dictionary_encode()
    table = pa.table({"place": np.arange(len(coded.dictionary)), "word": coded.dictionary})
    with database.registered(gram_words=table):
        hashes = database.table("quality/near_dedup/hashes")["hash"].to_numpy()
    hashed: Words = hashes[coded.indices.to_numpy()]
    return hashed


def bands_of(grams: Grams, settings: NearSettings) -> Words:
    """Return the MinHash bands of texts, uint64[texts, bands]; equal bands are candidates."""
    functions = settings.bands * settings.rows
    factors = _numbers(functions, 2 * settings.seed) | np.uint64(1)
    addends = _numbers(functions, 2 * settings.seed + 1)
    starts = grams.starts
    made = np.empty((len(starts) - 1, settings.bands), np.uint64)
    for texts in stretches(np.diff(starts), rows=_GRAMS, total=_GRAMS):
        hashes = grams.hashes[starts[texts.start] : starts[texts.stop]]
        first = starts[texts] - starts[texts.start]
        buffer = np.empty(len(hashes), np.uint64)
        for band in range(settings.bands):
            found = np.full(len(first), band, np.uint64)
            for row in range(band * settings.rows, (band + 1) * settings.rows):
                np.multiply(hashes, factors[row], out=buffer)
                np.add(buffer, addends[row], out=buffer)
                found = mixed(found ^ np.minimum.reduceat(buffer, first))
            made[texts, band] = found
    return made


def mixed(numbers: Words) -> Words:
    """Mix the bits of numbers, one to one (finaliser of splitmix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed_: Words = numbers ^ (numbers >> np.uint64(31))
    return mixed_


def _numbers(count: int, seed: int) -> Words:
    """Return ``count`` random numbers from a seed (splitmix64)."""
    start = int(mixed(np.array([seed & _ALL], np.uint64))[0])
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return mixed(steps + np.uint64(start))
