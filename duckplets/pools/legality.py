"""Judge which chunks are legal negatives of samples: the law of ``sql/pools/parts``, over arrays.

The pool has made sure, in SQL, that every anchor has enough legal negatives; what is drawn for it,
at random, mined or from its own record, is judged here. A negative is of another kin than the
anchor, its text is none that the sample has, none of the anchor's record and, where negatives are
mined, no known positive of the anchor's text; and the strategy lets the anchor's class draw it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.pools.arrays import Negatives, Rows, pair_hashes, some_rows


@dataclass(frozen=True, slots=True)
class NegativeRequests:
    """Samples that want negatives: shape (samples,) each."""

    index: Integers  # number of the sample in its stream
    classes: Integers  # class of the anchor: row of ``Negatives.firsts``
    records: Integers  # record key of the anchor
    kins: Integers  # the anchor's record, or its family where negatives are mined
    normalised_hashes: Words | None  # of the text of the anchor's section, where they are mined
    hashes: tuple[Words, ...]  # text hashes of what the samples have already, a column a slot

    def part(self, rows: Integers | slice) -> NegativeRequests:
        """Return some of the samples."""
        normalised = self.normalised_hashes
        return NegativeRequests(
            self.index[rows],
            self.classes[rows],
            self.records[rows],
            self.kins[rows],
            None if normalised is None else normalised[rows],
            tuple(column[rows] for column in self.hashes),
        )

    def having(self, hashes: Words) -> NegativeRequests:
        """Return the samples with one slot more."""
        return replace(self, hashes=(*self.hashes, hashes))


@dataclass(frozen=True)
class Legality:
    """Judges chunks of a pool's negatives."""

    pool: Negatives

    def is_legal(self, at: Integers, kins: Integers, samples: NegativeRequests) -> Flags:
        """Return which chunks, of some kins, may be negatives of their samples by their text."""
        hashes = self.pool.hashes[at]
        legal: Flags = kins != samples.kins
        for other in samples.hashes:
            legal &= hashes != other
        legal &= ~_among(self.pool.illegal, samples.records, hashes)
        if samples.normalised_hashes is not None:
            legal &= ~_among(self.pool.known, samples.normalised_hashes, hashes)
        return legal

    def suits(self, at: Integers, classes: Integers) -> Flags:
        """Return which chunks the strategy lets classes draw.

        Candidates are judged by it too: the strategy may have changed since they were mined.
        """
        ranges = self._ranges
        if ranges is None:
            return np.ones(len(at), dtype=bool)
        unit = np.searchsorted(self.pool.starts, at, side="right") - 1
        place = classes * len(self.pool.kins) + unit
        before = np.searchsorted(ranges[0], place, side="right") - 1
        suited: Flags = (before >= 0) & (place < ranges[1][before])
        return suited

    @cached_property
    def _ranges(self) -> tuple[Integers, Integers] | None:
        """Units from and to which each class may draw, class after class; None for all of them."""
        pool, units = self.pool, len(self.pool.kins)
        sizes = np.diff(pool.sums)
        if len(pool.lows) == 1 and int(sizes[0]) == units:
            return None
        classes = np.repeat(np.arange(len(pool.firsts) - 1), np.diff(pool.firsts))
        lows = classes * units + pool.lows
        return lows, lows + sizes


def several_texts(anchors: Rows, positives: Rows) -> Words:
    """Return ``Negatives.illegal`` of records with several anchors or positives.

    A record with one of each needs no entry: a sample has both.
    """
    words = []
    for rows in (anchors, positives):
        records = rows["record_key"]
        several = np.zeros(len(records), dtype=bool)
        several[1:] = records[1:] == records[:-1]
        several[:-1] |= several[1:]
        words.append(pair_hashes(records[several], rows["text_hash"][several]))
    return np.unique(np.concatenate(words))


def usable_of_own(anchors: Rows, positives: Rows, negatives: Rows) -> Rows:
    """Return the negatives of records whose text no anchor or positive of their record has.

    Of several with one text in one record the first stays.
    """
    mine, theirs, texts = (
        pair_hashes(rows["record_key"], rows["text_hash"])
        for rows in (anchors, positives, negatives)
    )
    first = np.zeros(len(texts), dtype=bool)
    first[np.unique(texts, return_index=True)[1]] = True
    return some_rows(negatives, first & ~np.isin(texts, np.concatenate([mine, theirs])))


def _among(pairs: Words, owners: Integers | Words, hashes: Words) -> Flags:
    """Return which (owner, text) are among sorted ones."""
    if len(pairs) == 0:
        return np.zeros(len(hashes), dtype=bool)
    words = pair_hashes(owners, hashes)
    near = np.minimum(np.searchsorted(pairs, words), len(pairs) - 1)
    found: Flags = pairs[near] == words
    return found
