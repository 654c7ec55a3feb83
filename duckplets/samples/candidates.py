"""Load the candidates that remain after a policy for every anchor section, as flat arrays."""

# A candidate is the number of its document, four bytes: 16 for a million anchors take 64 MB.

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from duckplets.base.arrays import Floats, Integers, Integers32, Keys, Words, places
from duckplets.db.database import Database
from duckplets.mining import policy as policies
from duckplets.mining.store import Mining, definition_of, folder_of
from duckplets.pools.arrays import Pool, PoolNegatives
from duckplets.recipes.mined import Mined
from duckplets.recipes.recipes import TripletRecipe

_SPARSE = 16  # average gap of keys above which they are searched instead of looked up
_UNITS = 1 << 20  # steps of a score as a weight
_HEAVIEST = 1 << 40


@dataclass(frozen=True, slots=True)
class Documents:
    """The sections that contain a pool's negatives."""

    keys: Integers  # section key of every document, ascending
    families: Keys  # family of every document
    firsts: Integers  # its first index in ``chunks``, and the end of the last
    chunks: Integers | None  # the pool's negatives by document; None if in that order already


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of a stream."""

    scorer: str
    sampling: str  # order of drawing: see ``recipes.mined``
    rows: Integers32  # row of every anchor chunk
    sections: Integers  # section key of every row, ascending
    words: Words  # hash of record id and position of every row
    starts: Integers  # first candidate of every row, and the end of the last
    numbers: Integers32  # number of the document of every candidate, by row and rank
    documents: Documents
    ranks: Integers32 | None  # rank of every candidate; None if 1, 2, … in each row
    scores: Floats | None  # score of every candidate; None if not needed
    positives: Floats | None  # score of every row's positive; None if not needed
    weights: Integers | None = None  # cumulative weights, if drawn by score
    first: int = 0  # offset of its candidates among those of several scorers
    not_mined: int = 0  # sections that the mining, of another recipe, did not include

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def counts(self) -> Integers:
        """Number of candidates of each row."""
        return np.diff(self.starts)

    def rank(self, candidates: Integers) -> Integers:
        """Return the ranks of candidates, from 1."""
        if self.ranks is not None:
            return self.ranks[candidates].astype(np.int64)
        row = np.searchsorted(self.starts, candidates, side="right") - 1
        return candidates - self.starts[row] + 1

    def positive(self, candidates: Integers) -> Floats:
        """Return the scores of the positives of the rows of candidates; NaN where unknown."""
        if self.positives is None:
            return np.full(len(candidates), np.nan)
        return self.positives[np.searchsorted(self.starts, candidates, side="right") - 1]

    def short(self, wanted: int) -> Integers:
        """Return the sections with fewer candidates than wanted."""
        return self.sections[self.counts < wanted]

    def of(self, pool: Pool) -> Candidates:
        """Return the candidates for a pool of fewer anchors."""
        anchors = pool.guarded.sections if pool.guarded else self.sections
        return replace(self, rows=KeyLookup(self.sections)(anchors))


def read(
    database: Database, pool: Pool, mining: Mining, policy: Mined, *, scores: bool
) -> Candidates:
    """Read the candidates of a pool's anchors that remain after a policy."""
    guarded = pool.guarded
    if guarded is None or pool.negatives is None:
        raise ValueError(f"recipe {pool.compiled.recipe.name!r} draws no mined negatives")
    documents = _documents(pool.negatives, guarded.negative_sections)
    sections, at = np.unique(guarded.sections, return_index=True)
    version = pool.compiled.parameters["version"]
    row_of, number_of = KeyLookup(sections), KeyLookup(documents.keys)
    most = min(mining.candidates, mining.anchors * policy.wanted)
    rows, numbers, ranks = (np.empty(most, dtype=np.int32) for _ in range(3))
    values = np.empty(most if scores or policy.sampling == "score" else 0, dtype=np.float64)
    of_positives = np.full(len(sections) if scores else 0, np.nan)
    size = 0
    for anchors, rank, negatives, score, positive in policies.survivors(
        database, mining, policy, version
    ):
        row, number = row_of(anchors), number_of(negatives)
        there = (row >= 0) & (number >= 0)  # others were removed, or are no longer negatives
        retained = slice(None) if there.all() else np.flatnonzero(there)
        low, size = size, size + int(np.count_nonzero(there))
        rows[low:size], numbers[low:size], ranks[low:size] = (
            row[retained],
            number[retained],
            rank[retained],
        )
        if len(values):
            values[low:size] = score[retained]
        if scores:
            of_positives[row[retained]] = positive[retained]
    rows, numbers, ranks, values = rows[:size], numbers[:size], ranks[:size], values[:size]
    if np.any(rows[1:] < rows[:-1]):  # anchors were mined in another order
        order = np.argsort(rows, kind="stable")
        rows, numbers, ranks = rows[order], numbers[order], ranks[order]
        values = values[order] if len(values) else values
    counts = np.bincount(rows, minlength=len(sections))
    starts = np.concatenate([[0], np.cumsum(counts)])
    some = counts > 0
    weights = None
    if policy.sampling == "score":
        units = np.clip(np.rint(values * _UNITS), 1, _HEAVIEST).astype(np.int64)
        weights = np.concatenate([[0], np.cumsum(units)])
    recipe, not_mined = pool.compiled.recipe, 0
    own = isinstance(recipe, TripletRecipe) and mining.definition == definition_of(recipe)
    if mining.parts and not own:
        files = {"files": mining.files(folder_of(database))}
        looked_at = database.table("mining/store/looked_at", files).column(0).to_numpy()
        not_mined = len(np.setdiff1d(sections, looked_at, assume_unique=True))
    counting = np.array_equal(ranks[starts[1:][some] - 1], counts[some])
    return Candidates(
        scorer=mining.scorer,
        sampling=policy.sampling,
        rows=row_of(guarded.sections),
        sections=sections,
        words=guarded.words[at],
        starts=starts,
        numbers=numbers,
        documents=documents,
        ranks=None if counting else ranks,
        scores=values if scores else None,
        positives=of_positives if scores else None,
        weights=weights,
        not_mined=not_mined,
    )


class KeyLookup:
    """Find keys among distinct, ascending ones."""

    def __init__(self, keys: Integers) -> None:
        self._keys = keys
        self._table: Integers32 | None = None
        if len(keys) and keys[-1] - keys[0] < _SPARSE * len(keys):
            # padded at both ends for keys outside
            self._table = np.full(keys[-1] - keys[0] + 3, -1, dtype=np.int32)
            self._table[keys - keys[0] + 1] = np.arange(len(keys), dtype=np.int32)

    def __call__(self, wanted: Integers) -> Integers32:
        """Return the index of every wanted key, or -1."""
        if self._table is None:
            return places(self._keys, wanted).astype(np.int32)
        found: Integers32 = self._table.take(wanted - self._keys[0] + 1, mode="clip")
        return found


def _documents(negatives: PoolNegatives, sections: Integers) -> Documents:
    chunks = None
    if np.any(sections[1:] < sections[:-1]):
        chunks = np.argsort(sections, kind="stable")
        sections = sections[chunks]
    keys, firsts = np.unique(sections, return_index=True)
    first_chunks = firsts if chunks is None else chunks[firsts]
    unit = np.searchsorted(negatives.starts, first_chunks, side="right") - 1
    ends = np.append(firsts, len(sections)).astype(np.int64)
    return Documents(keys, negatives.families[unit], ends, chunks)
