"""Read the negatives mined for every anchor section into memory, as flat arrays.

    mined_negatives ─by anchor and rank→ rows of candidates ─KeyLookup→ documents ─→ chunks

A row is an anchor section, a document a section that the pool's negatives have. A candidate is
the number of its document, four bytes, so that 32 of them for a million anchors take 128 MB. Ranks
and scores are kept only where they cannot be told otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Floats, Integers, Integers32, places
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.mining.store import Mining
from duckplets.pools.arrays import Negatives, Pool
from duckplets.recipes.bm25 import Bm25, Sampling
from duckplets.recipes.recipes import TextRecipe

_BATCH = 1 << 20
_SPARSE = 16  # keys so far apart, on average, are searched for instead of looked up


@dataclass(frozen=True, slots=True)
class Documents:
    """The sections that the negatives of a pool are chunks of."""

    keys: Integers  # section key of every document, ascending
    kins: Integers  # key of its family
    firsts: Integers  # its first place in ``chunks``, and the end of the last
    chunks: Integers | None  # the pool's negatives by document; None where they are so already


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a stream draws mined negatives from."""

    method: str  # how they were mined: ``bm25`` or ``given``
    sampling: Sampling
    rows: Integers32  # row of every anchor chunk of the pool
    sections: Integers  # section key of every row, ascending
    starts: Integers  # first candidate of every row
    ends: Integers  # end of those of a row that are drawn from
    numbers: Integers32  # number of the document of every candidate, by row and rank
    documents: Documents
    ranks: Integers32 | None  # of every candidate; None where they count from 1 in each row
    filled: Flags | None  # which were drawn at random to make up the number; None: none was
    scores: Floats | None  # of every candidate; None where nobody asks for it

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
        if self.filled is None:
            return self.ends - self.starts
        mined = np.concatenate([[0], np.cumsum(~self.filled)])
        return np.asarray(mined[self.ends] - mined[self.starts], np.int64)


def read(database: Database, pool: Pool, mining: Mining, *, scores: bool) -> Candidates:
    """Read the candidates of a mining for the anchors of a mined recipe's pool."""
    recipe, guarded = pool.compiled.recipe, pool.guarded
    if isinstance(recipe, TextRecipe) or guarded is None or pool.negatives is None:
        raise ValueError(f"recipe {recipe.name!r} draws no mined negatives")
    settings = recipe.by if isinstance(recipe.by, Bm25) else mining.settings
    documents = _documents(pool.negatives, guarded.negative_sections)
    sections = np.unique(guarded.sections)
    row_of, number_of = KeyLookup(sections), KeyLookup(documents.keys)
    which = {"mining": mining.key}
    most = database.run("samples/candidates/count", which)[0][0]
    rows, numbers, ranks = (np.empty(most, dtype=np.int32) for _ in range(3))
    filled = np.empty(most, dtype=bool)
    values = np.empty(most if scores else 0, dtype=np.float64)
    size = 0
    for batch in database.stream(query("samples/candidates/read"), which, rows=_BATCH):
        row = row_of(_column(batch, "anchor_section_key"))
        number = number_of(_column(batch, "negative_section_key"))
        there = (row >= 0) & (number >= 0)  # the others are gone, or no negatives any more
        kept = slice(None) if there.all() else np.flatnonzero(there)
        low, size = size, size + int(np.count_nonzero(there))
        rows[low:size], numbers[low:size] = row[kept], number[kept]
        ranks[low:size] = _column(batch, "rank")[kept]
        score = batch.column("score")
        filled[low:size] = score.is_null().to_numpy(zero_copy_only=False)[kept]
        if scores:
            values[low:size] = score.to_numpy(zero_copy_only=False)[kept]
    rows, numbers, ranks, filled = (of[:size] for of in (rows, numbers, ranks, filled))
    values = values[:size]
    later = (rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (ranks[1:] > ranks[:-1]))
    if not later.all():  # they were not stored in order
        order = np.lexsort((ranks, rows))
        rows, numbers, ranks, filled = (of[order] for of in (rows, numbers, ranks, filled))
        values = values[order] if scores else values
    counts = np.bincount(rows, minlength=len(sections))
    ends = np.cumsum(counts)
    some = counts > 0
    drawn = counts if settings.rotation is None else np.minimum(counts, settings.rotation)
    return Candidates(
        method=mining.method,
        sampling=settings.sampling,
        rows=row_of(guarded.sections),
        sections=sections,
        starts=ends - counts,
        ends=ends - counts + drawn,
        numbers=numbers,
        documents=documents,
        ranks=None if np.array_equal(ranks[ends[some] - 1], counts[some]) else ranks,
        filled=filled if filled.any() else None,
        scores=values if scores else None,
    )


class KeyLookup:
    """Finds keys among distinct ones that ascend."""

    def __init__(self, keys: Integers) -> None:
        self._keys = keys
        self._table: Integers32 | None = None
        if len(keys) and keys[-1] - keys[0] < _SPARSE * len(keys):
            # With one more at both ends, for keys that lie outside.
            self._table = np.full(keys[-1] - keys[0] + 3, -1, dtype=np.int32)
            self._table[keys - keys[0] + 1] = np.arange(len(keys), dtype=np.int32)

    def __call__(self, wanted: Integers) -> Integers32:
        """Return the number of every wanted key, -1 if it is not there."""
        if self._table is None:
            return places(self._keys, wanted).astype(np.int32)
        found: Integers32 = self._table.take(wanted - self._keys[0] + 1, mode="clip")
        return found


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
