"""A pool in memory: the rows of its statement as flat arrays of keys and text hashes.

Chunks are indexed by ranges, so that planning is arithmetic: 12 bytes a chunk and 4 a
record, no text. Mined negatives add 24 to 40 bytes a chunk for the guards.

SQL has ensured that every anchor has enough legal negatives; a negative drawn for it, at random,
mined or from its own record, is judged here by the same law (``sql/pools/parts``). A negative is of
another record or family than the anchor; its text is not in the sample, not of the anchor's record
and, if negatives are mined, no known positive of the anchor's text; and the strategy lets the
anchor's class draw it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import ArrayRecord, Flags, Floats, Integers, Keys, Sketch, Words, places
from duckplets.order.permute import mix
from duckplets.pools.compile import CompiledPool

Rows: TypeAlias = Mapping[str, Any]  # an array per column: keys are uint32 or int64, hashes uint64
_NARROW = np.iinfo(np.uint32).max


def rows_of(table: pa.Table) -> Rows:
    """Return the rows of a table, keys in four bytes where these hold them."""
    rows = {}
    for name in table.column_names:
        rows[name] = column = table[name].to_numpy()
        if name in ("chunk_key", "record_key") and column.max(initial=0) <= _NARROW:
            rows[name] = column.astype(np.uint32)
    return rows


def some_rows(rows: Rows, which: Flags | slice) -> Rows:
    """Return some of the rows."""
    return {name: column[which] for name, column in rows.items()}


@dataclass(frozen=True, slots=True)
class Anchors:
    """The chunks of a pool, grouped into its anchors."""

    chunks: Keys  # of every chunk, by version, id hash and chunk
    hashes: Words  # text hash of every chunk
    classes: Integers  # row of ``Negatives.firsts`` of every chunk
    records: Keys  # of the record of every anchor
    ids: Words  # id hash of the record of every anchor, on which draws depend
    starts: Integers  # first chunk of every anchor, and the end of the last

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, slots=True)
class Banned:
    """Positives that an anchor chunk must not take, since they have its own text: a group."""

    firsts: Integers  # first entry of each anchor chunk's group
    counts: Integers  # positives in the group; 0 for most anchor chunks
    # For each positive of a group how many of the record's others stand before it, as
    # ``first * span + number``: ascending throughout.
    passed: Integers
    span: int  # greater than any number of positives of a record

    def skipped(self, anchor_at: Integers, ranks: Integers) -> Integers:
        """Return how many banned positives precede the allowed ones numbered ``ranks``."""
        firsts = self.firsts[anchor_at]
        upto = np.searchsorted(self.passed, firsts * self.span + ranks, side="right")
        skipped: Integers = np.minimum(upto - firsts, self.counts[anchor_at])
        return skipped


@dataclass(frozen=True, slots=True)
class Positives:
    """The chunks of positives, and which of them each anchor chunk must not take."""

    chunks: Keys  # of every chunk, by the anchor's record and chunk
    hashes: Words  # text hash of every chunk
    starts: Integers  # first chunk for every anchor
    counts: Integers  # number of chunks for every anchor
    banned: Banned | None  # banned: those with the anchor chunk's own text


@dataclass(frozen=True, slots=True)
class NegativeRequests(ArrayRecord):
    """Samples of a stream that need negatives: shape (samples,) each."""

    index: Integers  # number of the sample in its stream
    classes: Integers  # class of the anchor: row of ``Negatives.firsts``
    records: Integers  # record key of the anchor
    ids: Words  # id hash of its record
    kins: Keys  # the anchor's record, or its family if negatives are mined
    normalised_hashes: Words | None  # hash of the text of the anchor's section, if they are mined
    hashes: Words  # text hashes of the samples so far: shape (slots, samples)
    anchor_at: Integers  # index of the anchor chunk in the pool
    # visits of the anchor before; for mined negatives, of that chunk's section
    visits: Integers
    period: Integers  # visits after which an anchor's chunks and positives repeat
    samplers: Integers  # number of the stream's negative sampler for each

    def having(self, hashes: Words) -> NegativeRequests:
        """Return the samples with one more filled slot."""
        return replace(self, hashes=np.concatenate([self.hashes, hashes[None]]))


@dataclass(frozen=True)
class Negatives:
    """The chunks of negatives, by unit (the chunks of a record in a bin) and class."""

    chunks: Keys  # of every chunk, by bin, version, id hash and chunk
    hashes: Words  # text hash of every chunk
    kins: Keys  # record or family of every unit
    starts: Integers  # first chunk of every unit, and the end of the last
    firsts: Integers  # for every class its first range, and the end of the last
    lows: Integers  # first unit of every range
    sums: Integers  # units in all earlier ranges, and in all
    # Sorted hashes of (record, text) for records with several anchors or positives: none of those
    # texts must be its negative. Where negatives are mined, for all records whose own texts, as
    # they are or normalised, other families have.
    illegal: Words
    # Sorted hashes of (normalised hash of an anchor, text): positives of other records with such an
    # anchor. Empty unless negatives are mined.
    known: Words

    def counts(self) -> Integers:
        """Return how many chunks each class may draw from."""
        chunks = self.starts[self.lows + np.diff(self.sums)] - self.starts[self.lows]
        before = np.concatenate([[0], np.cumsum(chunks)])
        return np.asarray(before[self.firsts[1:]] - before[self.firsts[:-1]], np.int64)

    def is_legal(self, at: Integers, kins: Keys, requests: NegativeRequests) -> Flags:
        """Return whether chunks, with their records or families, may be negatives by text."""
        hashes = self.hashes[at]
        legal: Flags = kins != requests.kins
        for other in requests.hashes:
            legal &= hashes != other
        if len(self.illegal):
            sketch = self._sketches[0]
            legal[_among(sketch, self.illegal, requests.records, hashes)] = False
        if len(self.known) and requests.normalised_hashes is not None:
            sketch = self._sketches[1]
            legal[_among(sketch, self.known, requests.normalised_hashes, hashes)] = False
        return legal

    @cached_property
    def _sketches(self) -> tuple[Sketch, Sketch]:
        return Sketch(self.illegal), Sketch(self.known)

    def suits(self, at: Integers, classes: Integers) -> Flags:
        """Return whether the strategy lets classes draw chunks."""
        if self._ranges is None:
            return np.ones(len(at), dtype=bool)
        begins, ends = self._ranges
        unit = at
        if len(self.kins) < len(self.chunks):
            unit = np.searchsorted(self.starts, at, side="right") - 1
        place = classes * len(self.kins) + unit
        before = np.searchsorted(begins, place, side="right") - 1
        suited: Flags = (before >= 0) & (place < ends[before])
        return suited

    @cached_property
    def _ranges(self) -> tuple[Integers, Integers] | None:
        """First and last units that each class may draw, class by class; None for all."""
        units, sizes = len(self.kins), np.diff(self.sums)
        if len(self.lows) == 1 and int(sizes[0]) == units:
            return None
        classes = np.repeat(np.arange(len(self.firsts) - 1), np.diff(self.firsts))
        lows = classes * units + self.lows
        return lows, lows + sizes


@dataclass(frozen=True, slots=True)
class Guarded:
    """Further data of a pool with mined negatives."""

    families: Integers  # of every anchor
    normalised_hashes: Words  # text hash of every anchor chunk's section
    sections: Integers  # section key of every anchor chunk
    words: Words  # hash of record id and position of that section
    negative_sections: Integers  # section key of every chunk of the negatives


@dataclass(frozen=True, slots=True)
class Pool:
    """Everything one (recipe, source, split) draws from."""

    compiled: CompiledPool
    anchors: Anchors
    positives: Positives | None  # None for texts
    negatives: Negatives | None  # None for texts, and for pairs that come labelled
    guarded: Guarded | None = None  # only for mined recipes
    # Fallback negatives of anchors with too few: those of all sources of the split, or
    # (``same_record``) of other records. None if no anchor needs them.
    beyond: Negatives | None = None
    short: Flags | None = None  # which anchor chunks draw from all sources of the split
    labels: Floats | None = None  # label of every anchor, if pairs come labelled


def pair_hashes(owners: Keys | Words, hashes: Words) -> Words:
    """Return one word per (owner, text), as in ``Negatives.illegal``."""
    return mix(hashes ^ mix(owners.astype(np.uint64)))


def classes_of(words: Words) -> tuple[Words, Integers]:
    """Return the distinct classes and the class of each chunk."""
    if words[0] == words[-1] and words.min() == words.max():  # usually one class: skip the sort
        return words[:1], np.zeros(len(words), np.int64)
    classes, index = np.unique(words, return_inverse=True)
    return classes, index.astype(np.int64)


def anchors_of(rows: Rows, classes: Integers, per: str) -> Anchors:
    """Group chunks into anchors; ``classes`` is that of every chunk."""
    records = rows["record_key"]
    starts = _boundaries(records, every=per == "chunk")
    chunks, hashes = rows["chunk_key"], rows["text_hash"]
    firsts = starts[:-1]
    return Anchors(chunks, hashes, classes, records[firsts], rows["id_hash"][firsts], starts)


def positives_of(anchors: Anchors, rows: Rows, *, distinct: bool) -> Positives:
    """Return the positives of anchors; ``distinct`` ones differ in text from the anchor."""
    owners, hashes = rows["record_key"], rows["text_hash"]
    starts = np.searchsorted(owners, anchors.records, side="left")
    counts = np.searchsorted(owners, anchors.records, side="right") - starts
    banned = _banned(anchors, counts, owners, hashes) if distinct else None
    return Positives(rows["chunk_key"], hashes, starts, counts, banned)


def _banned(anchors: Anchors, counts: Integers, owners: Keys, hashes: Words) -> Banned | None:
    # the pool ensures that a single positive differs from the anchor
    several = np.flatnonzero(np.repeat(counts > 1, np.diff(anchors.starts)))
    if len(several) == 0:
        return None
    records = np.repeat(anchors.records, np.diff(anchors.starts))[several]
    mine, theirs = pair_hashes(records, anchors.hashes[several]), pair_hashes(owners, hashes)
    at = Sketch(mine).among(theirs)
    if len(at) == 0:
        return None
    at = at[np.argsort(theirs[at], kind="stable")]
    words = theirs[at]
    shared = Sketch(words).among(mine)
    several, mine = several[shared], mine[shared]
    first = np.searchsorted(words, words, side="left")
    rank = at - np.searchsorted(owners, owners[at], side="left")
    span = max(int(counts.max()), int(rank.max())) + 1  # some positives have no anchor
    firsts, many = np.zeros((2, len(anchors.chunks)), np.int64)
    firsts[several] = np.searchsorted(words, mine, side="left")
    many[several] = np.searchsorted(words, mine, side="right") - firsts[several]
    passed = first * span + rank - (np.arange(len(at)) - first)
    return Banned(firsts, many, passed, span) if many.any() else None


def negatives_of(
    classes: Words,  # ascending
    listed: Rows,
    pairs: Rows,  # bins that each class may, or must not, draw from
    *,
    per: str,
    forbids: bool,
    illegal: Words,
    known: Words | None = None,  # only if negatives are mined
) -> Negatives:
    """Index a list of chunks as negatives."""
    records = listed["record_key"]
    bins = listed.get("bin", np.zeros(len(records), np.uint64))
    starts = _boundaries(bins, records, every=per == "chunk")
    ranges = _ranges(classes, bins[starts[:-1]], pairs, forbids=forbids)
    kins = (records if known is None else listed["family"])[starts[:-1]]
    known = np.zeros(0, np.uint64) if known is None else known
    chunks, hashes = listed["chunk_key"], listed["text_hash"]
    return Negatives(chunks, hashes, kins, starts, *ranges, illegal, known)


def _ranges(
    classes: Words, unit_bins: Words, pairs: Rows, *, forbids: bool
) -> tuple[Integers, Integers, Integers]:
    """Turn (class, bin) pairs into ranges of units for each class."""
    mine, theirs = pairs["class"], pairs["bin"]
    if len(mine) == 0:  # the usual cases: all units for each class, or none
        each = 1 if forbids and len(unit_bins) else 0
        ranges = np.arange(len(classes) * each + 1, dtype=np.int64)
        firsts = ranges if each else np.zeros(len(classes) + 1, np.int64)
        return firsts, np.zeros(len(ranges) - 1, np.int64), ranges * len(unit_bins)
    known = np.isin(mine, classes)
    row = np.searchsorted(classes, mine[known])
    low = np.searchsorted(unit_bins, theirs[known], side="left")
    high = np.searchsorted(unit_bins, theirs[known], side="right")
    if forbids:  # the gaps between the ranges of each class
        every, units = np.arange(len(classes)), len(unit_bins)
        rows = np.concatenate([row, every])
        lows = np.concatenate([high, np.zeros(len(every), np.int64)])
        highs = np.concatenate([low, np.full(len(every), units)])
        begins, ends = np.lexsort((lows, rows)), np.lexsort((highs, rows))
        row, low, high = rows[begins], lows[begins], highs[ends]
    filled = high > low
    row, low, high = row[filled], low[filled], high[filled]
    firsts = np.searchsorted(row, np.arange(len(classes) + 1)).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(high - low)]).astype(np.int64)
    return firsts, low.astype(np.int64), sums


def _boundaries(*columns: Any, every: bool) -> Integers:
    """Return where each new combination of values begins, and the end."""
    length = len(columns[0])
    if every or length == 0:
        return np.arange(length + 1, dtype=np.int64)
    new = np.zeros(length, dtype=bool)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.append(np.flatnonzero(new), length).astype(np.int64)


def several_texts(anchors: Rows, positives: Rows) -> Words:
    """Return ``Negatives.illegal`` for records with several anchors or positives."""
    words = []
    for rows in (anchors, positives):
        records = rows["record_key"]
        several = np.zeros(len(records), dtype=bool)
        several[1:] = records[1:] == records[:-1]
        several[:-1] |= several[1:]
        words.append(pair_hashes(records[several], rows["text_hash"][several]))
    return np.unique(np.concatenate(words))


def usable_of_own(anchors: Rows, positives: Rows, negatives: Rows) -> Rows:
    """Return negatives, one per text, whose text is no anchor or positive of their record."""
    mine, theirs, texts = (
        pair_hashes(rows["record_key"], rows["text_hash"])
        for rows in (anchors, positives, negatives)
    )
    first = np.zeros(len(texts), dtype=bool)
    first[np.unique(texts, return_index=True)[1]] = True
    return some_rows(negatives, first & ~np.isin(texts, np.concatenate([mine, theirs])))


def _among(sketch: Sketch, pairs: Words, owners: Keys | Words, hashes: Words) -> Integers:
    """Return which (owner, text) pairs are in a sorted array."""
    words = pair_hashes(owners, hashes)
    some = sketch.among(words)
    return some[places(pairs, words[some]) >= 0]
