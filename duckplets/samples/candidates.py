"""Read the negatives mined for every anchor section into memory, as flat arrays.

    mined_negatives ─by anchor and rank→ rows of candidates ─Lookup→ documents ─→ chunks

A row is an anchor section, a document a section that the pool's negatives have. A candidate is
the number of its document, four bytes, so that 32 of them for a million anchors take 128 MB. Ranks
and scores are kept only where they cannot be told otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.base.arrays import Flags, Floats, Integers
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.mining.store import Mining
from duckplets.order.permute import below, hashed
from duckplets.pools.arrays import Negatives, Pool
from duckplets.recipes.bm25 import Bm25, Sampling
from duckplets.recipes.recipes import TextRecipe

Numbers = npt.NDArray[np.int32]

_BATCH = 1 << 20
_SPARSE = 16  # keys so far apart, on average, are searched for instead of looked up


@dataclass(frozen=True, slots=True)
class Documents:
    """The sections that negatives are chunks of.

    Attributes:
        keys: Section key of every document, ascending.
        kins: Key of the family of every document.
        firsts: First place of every document in ``chunks``, and the end of the last.
        chunks: The pool's negatives by document; None where they are so already.
    """

    keys: Integers
    kins: Integers
    firsts: Integers
    chunks: Integers | None


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a stream draws mined negatives from.

    Attributes:
        method: How they were mined: ``bm25`` or ``given``.
        sampling: ``rotate``, ``top`` or ``random``.
        rotation: How many of the first ones are drawn from, or None for all.
        rows: Row of every anchor chunk of the pool; -1 for one without candidates.
        keys: Section key of every row, ascending.
        starts: First candidate of every row, and the end of the last.
        numbers: Number of the document of every candidate, by row and rank.
        documents: What these are.
        ranks: Rank of every candidate; None where they count from 1 in each row.
        filled: Whether each was drawn at random to make up the number; None where none was.
        scores: Score of every candidate; None where nobody asks for it.
    """

    method: str
    sampling: Sampling
    rotation: int | None
    rows: Numbers
    keys: Integers
    starts: Integers
    numbers: Numbers
    documents: Documents
    ranks: Numbers | None
    filled: Flags | None
    scores: Floats | None

    def rank(self, candidates: Integers) -> Integers:
        """Return the ranks of candidates, from 1."""
        if self.ranks is not None:
            return self.ranks[candidates].astype(np.int64)
        row = np.searchsorted(self.starts, candidates, side="right") - 1
        return candidates - self.starts[row] + 1

    def is_filled(self, candidates: Integers) -> Flags:
        """Return which candidates were drawn at random when they were mined."""
        if self.filled is None:
            return np.zeros(len(candidates), dtype=bool)
        return self.filled[candidates]

    def own(self) -> Integers:
        """Return how many of each row's candidates are drawn from and no fallbacks."""
        ends = self._ends()
        if self.filled is None:
            return ends - self.starts[:-1]
        mined = np.concatenate([[0], np.cumsum(~self.filled)])
        return np.asarray(mined[ends] - mined[self.starts[:-1]], np.int64)

    def means(self, values: Floats, *, slots: int) -> tuple[Floats, Integers]:
        """Return the mean of each row's candidates that are drawn from, and how many these are.

        Args:
            values: A value of every document.
            slots: Negatives of a sample.
        """
        first = self.starts[:-1]
        ends = np.minimum(self._ends(), first + slots) if self.sampling == "top" else self._ends()
        sums = np.concatenate([[0.0], np.cumsum(values[self.numbers])])
        count = ends - first
        return (sums[ends] - sums[first]) / np.maximum(count, 1), count

    def _ends(self) -> Integers:
        """Return where the candidates of each row end that are drawn from."""
        first, ends = self.starts[:-1], self.starts[1:]
        return ends if self.rotation is None else np.minimum(ends, first + self.rotation)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        documents = self.documents
        arrays = [
            *(self.rows, self.keys, self.starts, self.numbers, self.ranks, self.filled),
            *(self.scores, documents.keys, documents.kins, documents.firsts, documents.chunks),
        ]
        return sum(array.nbytes for array in arrays if array is not None)


def read(database: Database, pool: Pool, mining: Mining, *, scores: bool) -> Candidates:
    """Read the candidates of a mining for the anchors of a pool.

    Args:
        database: The corpus.
        pool: Of a mined recipe.
        mining: Whose candidates.
        scores: Whether anybody asks for their scores.
    """
    recipe, guarded = pool.compiled.recipe, pool.guarded
    if isinstance(recipe, TextRecipe) or guarded is None or pool.negatives is None:
        raise ValueError(f"recipe {recipe.name!r} draws no mined negatives")
    documents = _documents(pool.negatives, guarded.negative_sections)
    find = KeyLookup(documents.keys)
    which = {"mining": mining.key}
    most = database.run("samples/candidates/count", which)[0][0]
    for statement in ("samples/candidates/read", "samples/candidates/sorted"):
        kept = _Kept(most, scores=scores)
        for batch in database.stream(query(statement), which, rows=_BATCH):
            kept.add(batch, find)
        if kept.in_order:
            break
    keys, starts = kept.rows()
    settings = recipe.by if isinstance(recipe.by, Bm25) else mining.settings
    return Candidates(
        method=mining.method,
        sampling=settings.sampling,
        rotation=settings.rotation,
        rows=KeyLookup(keys)(guarded.sections),
        keys=keys,
        starts=starts,
        numbers=kept.numbers[: kept.size],
        documents=documents,
        ranks=None if kept.counted else kept.ranks[: kept.size],
        filled=kept.filled[: kept.size] if kept.any_filled else None,
        scores=None if kept.scores is None else kept.scores[: kept.size],
    )


class KeyLookup:
    """Finds keys among distinct ones.

    Args:
        keys: Ascending.
    """

    def __init__(self, keys: Integers) -> None:
        self._keys = keys
        self._table: Numbers | None = None
        if len(keys) and keys[-1] - keys[0] < _SPARSE * len(keys):
            self._table = np.full(keys[-1] - keys[0] + 1, -1, dtype=np.int32)
            self._table[keys - keys[0]] = np.arange(len(keys), dtype=np.int32)

    def __call__(self, wanted: Integers) -> Numbers:
        """Return the number of every wanted key, -1 if it is not there."""
        if len(self._keys) == 0:
            return np.full(len(wanted), -1, dtype=np.int32)
        if self._table is not None:
            place = wanted - self._keys[0]
            outside = (place < 0) | (place >= len(self._table))
            if not outside.any():
                return np.asarray(self._table[place], np.int32)
            return np.where(outside, np.int32(-1), self._table[np.where(outside, 0, place)])
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[place] == wanted, place, -1).astype(np.int32)


class _Kept:
    """Candidates as they are read, those apart whose sections are no negatives any more.

    Args:
        most: How many there can be.
        scores: Whether to keep their scores.
    """

    def __init__(self, most: int, *, scores: bool) -> None:
        self.numbers = np.empty(most, dtype=np.int32)
        self.ranks = np.empty(most, dtype=np.int32)
        self.filled = np.zeros(most, dtype=bool)
        self.scores = np.empty(most, dtype=np.float64) if scores else None
        self.size = 0
        self.in_order = True
        self.counted = True  # ranks count from 1
        self.any_filled = False
        self._last = -1, 0  # section and rank
        self._keys: list[Integers] = []
        self._counts: list[Integers] = []

    def add(self, batch: pa.RecordBatch, find: KeyLookup) -> None:
        """Add rows of ``candidates/read``."""
        numbers = find(_column(batch, "negative_section_key"))
        there = numbers >= 0
        keep = slice(None) if there.all() else there
        keys = _column(batch, "anchor_section_key")[keep]
        if len(keys) == 0 or not self.in_order:
            return
        ranks, scores = _column(batch, "rank")[keep], batch.column("score")
        low, self.size = self.size, self.size + len(keys)
        self.numbers[low : self.size] = numbers[keep]
        self.ranks[low : self.size] = ranks
        if scores.null_count:
            self.any_filled = True
            self.filled[low : self.size] = scores.is_null().to_numpy(zero_copy_only=False)[keep]
        if self.scores is not None:
            self.scores[low : self.size] = scores.to_numpy(zero_copy_only=False)[keep]
        self._count(keys, ranks)

    def _count(self, keys: Integers, ranks: Integers) -> None:
        step = np.diff(keys, prepend=self._last[0])
        new = step > 0
        before = np.concatenate([[self._last[1]], ranks[:-1]])
        before[new] = 0
        self.in_order = bool(np.all(step >= 0) and np.all(ranks > before))
        self.counted &= bool(np.all(ranks == before + 1))
        self._last = int(keys[-1]), int(ranks[-1])
        new[0] = True
        starts = np.flatnonzero(new)
        self._keys.append(keys[starts])
        self._counts.append(np.diff(np.append(starts, len(keys))))

    def rows(self) -> tuple[Integers, Integers]:
        """Return the section key of every row and where its candidates start."""
        if not self._keys:
            return np.zeros(0, np.int64), np.zeros(1, np.int64)
        keys, counts = np.concatenate(self._keys), np.concatenate(self._counts)
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        starts = np.concatenate([[0], np.cumsum(np.add.reduceat(counts, first))])
        return keys[first], starts.astype(np.int64)


def _documents(negatives: Negatives, sections: Integers) -> Documents:
    """Group the chunks of negatives by section."""
    chunks = None
    if np.any(sections[1:] < sections[:-1]):
        chunks = np.argsort(sections, kind="stable")
        sections = sections[chunks]
    keys, firsts = np.unique(sections, return_index=True)
    first_chunks = firsts if chunks is None else chunks[firsts]
    unit = np.searchsorted(negatives.starts, first_chunks, side="right") - 1
    ends = np.append(firsts, len(sections)).astype(np.int64)
    return Documents(keys, negatives.kins[unit], ends, chunks)


def _column(batch: pa.RecordBatch, name: str) -> Integers:
    return np.asarray(batch.column(name).to_numpy(zero_copy_only=False), dtype=np.int64)


# -- drawing from them ----------------------------------------------------------------------------


class Circle:
    """The candidates of each sample's section, from where the sample begins.

    Args:
        first: First candidate of the section.
        count: How many of them are drawn from.
        base: Which of these the sample begins with.
        slots: So many from there are the slots' own; those after them can take their place.
    """

    def __init__(self, first: Integers, count: Integers, base: Integers, slots: int) -> None:
        self._first, self._count, self._base = first, count, base
        self._spare = np.full(len(first), slots, dtype=np.int64)

    def take(self, left: Integers, slot: int, attempt: int) -> tuple[Integers, Integers]:
        """Return those of the samples that have another candidate for a slot, and which."""
        offset = self._spare[left] if attempt else np.full(len(left), slot, dtype=np.int64)
        if attempt:
            self._spare[left] += 1
        enough = offset < self._count[left]
        left, offset = left[enough], offset[enough]
        return left, self._first[left] + (self._base[left] + offset) % self._count[left]

    def beyond(self, offset: int) -> tuple[Integers, Integers]:
        """Return the samples that have so many candidates, and that candidate from their base."""
        (have,) = np.nonzero(offset < self._count)
        turned = (self._base[have] + offset) % self._count[have]
        return have, self._first[have] + turned


class Lots(Circle):
    """Hashed draws without repetition instead, for samples of some numbers."""

    def __init__(
        self, first: Integers, count: Integers, index: Integers, slots: int, key: int
    ) -> None:
        super().__init__(first, count, index, slots)
        self._slots, self._key = slots, key
        self._spent = np.zeros(len(first), dtype=np.int64)
        self._drawn = np.zeros((0, len(first)), dtype=np.int64)

    def take(self, left: Integers, slot: int, attempt: int) -> tuple[Integers, Integers]:
        """Return those of the samples that have another candidate, and which."""
        left = left[self._spent[left] < self._count[left]]
        words = hashed(self._key, self._base[left], attempt * self._slots + slot)
        rank = below(words, self._count[left] - self._spent[left])
        for taken in np.sort(self._drawn[:, left], axis=0):
            rank += rank >= taken
        drawn = np.full(len(self._spent), np.iinfo(np.int64).max)
        drawn[left] = rank
        self._drawn = np.vstack([self._drawn, drawn])
        self._spent[left] += 1
        return left, self._first[left] + rank
