"""Hold a pool in memory: the rows of its statement as flat arrays of keys and text hashes.

Chunks are indexed by ranges, so planning is arithmetic and needs no text. Forbidden texts of an
anchor are listed only if another family has them too.

SQL ensures that every anchor has enough legal negatives. The same law (``sql/pools``) checks each
drawn negative here. It is of another family than the anchor, and the strategy lets the anchor's
class draw it. Its text differs from the sample's texts, from the excluded texts of the family and
from the known answers of the anchor's question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import (
    ArrayRecord,
    Flags,
    Floats,
    Integers,
    Keys,
    Sketch,
    Words,
    places,
    ranges,
)
from duckplets.order.permute import mix
from duckplets.pools.compile import CompiledPool

Rows: TypeAlias = Mapping[str, Any]  # an array per column: keys are uint32 or int64, hashes uint64
_NARROW = np.iinfo(np.uint32).max
_KEYS = ("chunk_key", "record_key", "family")


def rows_of(table: pa.Table) -> Rows:
    """Return the rows of a table, with keys in four bytes if they fit."""
    rows = {}
    for name in table.column_names:
        rows[name] = column = table[name].to_numpy()
        if name in _KEYS and 0 <= column.min(initial=0) <= column.max(initial=0) <= _NARROW:
            rows[name] = column.astype(np.uint32)
    return rows


def some_rows(rows: Rows, which: Flags | Integers | slice) -> Rows:
    """Return the rows at a mask, indices or a slice."""
    return {name: column[which] for name, column in rows.items()}


@dataclass(frozen=True, slots=True)
class Anchors:
    """Hold the chunks of a pool, grouped into its anchors."""

    chunks: Keys  # of every chunk, by version, id hash and chunk
    hashes: Words  # text hash of every chunk
    classes: Integers  # row of ``PoolNegatives.firsts`` of every chunk
    records: Keys  # of the record of every anchor
    ids: Words  # id hash of the record of every anchor, for draws
    starts: Integers  # first chunk of every anchor, and the end of the last
    families: Keys | None = None  # of every anchor; None if each record is its own family
    questions: Words | None = None  # of every chunk, if several families share one
    # For anchors that are pairs: the number of pairs of the record, and the place of each.
    turns: tuple[Integers, Integers] | None = None

    def __len__(self) -> int:
        return len(self.records)

    def families_of(self, units: Integers) -> Keys:
        """Return the families of some anchors."""
        return (self.records if self.families is None else self.families)[units]


@dataclass(frozen=True, slots=True)
class Banned:
    """List the positives that an anchor chunk must not take, by its text or by labels: a group."""

    firsts: Integers  # first entry of each anchor chunk's group
    counts: Integers  # positives in the group; 0 for most anchor chunks
    # The number of allowed positives before each banned one, as ``first * span + number``;
    # ascending throughout.
    passed: Integers
    span: int  # greater than any number of positives of a record

    def skipped(self, anchor_at: Integers, ranks: Integers) -> Integers:
        """Return the number of banned positives before the allowed ones numbered ``ranks``."""
        firsts = self.firsts[anchor_at]
        upto = np.searchsorted(self.passed, firsts * self.span + ranks, side="right")
        skipped: Integers = np.minimum(upto - firsts, self.counts[anchor_at])
        return skipped


@dataclass(frozen=True, slots=True)
class Positives:
    """Hold the chunks of positives, and the banned ones of each anchor chunk."""

    chunks: Keys  # of every chunk, by the anchor's record and chunk
    hashes: Words  # text hash of every chunk
    starts: Integers  # first chunk for every anchor
    counts: Integers  # number of chunks for every anchor
    banned: Banned | None
    questions: Words | None = None  # of every chunk, for swapped samples


@dataclass(frozen=True, slots=True)
class NegativeRequests(ArrayRecord):
    """Hold the samples of a stream that need negatives: shape (samples,) each."""

    index: Integers  # number of the sample in its stream
    classes: Integers  # class of the anchor: row of ``PoolNegatives.firsts``
    ids: Words | None  # id hash of the anchor's record, for its own negatives
    families: Keys  # family of the anchor
    questions: Words | None  # its question, if several families share one
    swapped: Words | None  # the question of its positive, if swapped and several families share one
    hashes: Words  # text hashes of the samples so far: shape (slots, samples)
    anchor_at: Integers  # index of the anchor chunk in the pool
    visits: Integers  # earlier visits of the anchor; for mined negatives, of the chunk's section
    period: Integers  # visits after which an anchor's chunks and positives repeat
    samplers: Integers  # number of the stream's negative sampler for each

    def having(self, hashes: Words) -> NegativeRequests:
        """Return the samples with one more filled slot."""
        return replace(self, hashes=np.concatenate([self.hashes, hashes[None]]))


@dataclass(frozen=True)
class PoolNegatives:
    """Hold the chunks of negatives, by unit (the chunks of a record in a bin) and class."""

    chunks: Keys  # of every chunk, by bin, version, id hash and chunk
    hashes: Words  # text hash of every chunk
    families: Keys  # family of every unit
    starts: Integers  # first chunk of every unit, and the end of the last
    firsts: Integers  # for every class its first range, and the end of the last
    lows: Integers  # first unit of every range
    sums: Integers  # units in all earlier ranges, and in all
    # Sorted hashes of negative texts that several families have:
    excluded: Words  # (family, text): written like an anchor or positive of the family
    known: Words  # (question, text): an answer of the question
    known_swapped: Words  # (question of a positive, text): an anchor with that positive
    own: bool = False  # they are of the anchor's own record, so its family may draw them

    def counts(self) -> Integers:
        """Return the number of chunks that each class may draw."""
        chunks = self.starts[self.lows + np.diff(self.sums)] - self.starts[self.lows]
        before = np.concatenate([[0], np.cumsum(chunks)])
        return np.asarray(before[self.firsts[1:]] - before[self.firsts[:-1]], np.int64)

    def is_legal(self, at: Integers, families: Keys, requests: NegativeRequests) -> Flags:
        """Return whether chunks, with their families, are legal negatives by family and text."""
        hashes = self.hashes[at]
        legal: Flags = np.ones(len(at), bool) if self.own else families != requests.families
        for other in requests.hashes:
            legal &= hashes != other
        keys = requests.families, requests.questions, requests.swapped
        for owners, (sketch, words) in zip(keys, self._illegal, strict=True):
            if owners is not None and len(words):
                legal[_among(sketch, words, owners, hashes)] = False
        return legal

    @cached_property
    def _illegal(self) -> list[tuple[Sketch, Words]]:
        return [(Sketch(w), w) for w in (self.excluded, self.known, self.known_swapped)]

    def suits(self, at: Integers, classes: Integers) -> Flags:
        """Return whether the strategy lets classes draw chunks."""
        if self._ranges is None:
            return np.ones(len(at), dtype=bool)
        begins, ends = self._ranges
        unit = at
        if len(self.families) < len(self.chunks):
            unit = np.searchsorted(self.starts, at, side="right") - 1
        place = classes * len(self.families) + unit
        before = np.searchsorted(begins, place, side="right") - 1
        suited: Flags = (before >= 0) & (place < ends[before])
        return suited

    @cached_property
    def _ranges(self) -> tuple[Integers, Integers] | None:
        """First and last units that each class may draw, class by class; None for all."""
        units, sizes = len(self.families), np.diff(self.sums)
        if len(self.lows) == 1 and int(sizes[0]) == units:
            return None
        classes = np.repeat(np.arange(len(self.firsts) - 1), np.diff(self.firsts))
        lows = classes * units + self.lows
        return lows, lows + sizes


@dataclass(frozen=True, slots=True)
class Guarded:
    """Hold more data of a pool with mined negatives."""

    sections: Integers  # section key of every anchor chunk
    words: Words  # hash of the section's record id and position
    negative_sections: Integers  # section key of every chunk of the negatives


@dataclass(frozen=True, slots=True)
class Filtered:
    """Count pairs and anchors of a pool before and after the consistency filter."""

    by: str
    pairs: int
    consistent_pairs: int
    anchors: int
    consistent_anchors: int


@dataclass(frozen=True, slots=True)
class Pool:
    """Hold everything that one (recipe, source, split) draws from."""

    compiled: CompiledPool
    anchors: Anchors
    positives: Positives | None  # None for texts
    negatives: PoolNegatives | None  # None for texts and labelled pairs
    guarded: Guarded | None = None  # for mined recipes only
    # Fallback negatives of anchors with too few, from all sources of the split or
    # (``same_record``) from other records. None if no anchor needs them.
    beyond: PoolNegatives | None = None
    short: Flags | None = None  # marks anchor chunks that draw from all sources of the split
    shared: int = 0  # anchors whose question other families have, with answers among negatives
    labels: Floats | None = None  # label of every anchor, for labelled pairs
    filtered: Filtered | None = None  # by the consistency filter


def pair_hashes(owners: Keys | Words, hashes: Words) -> Words:
    """Return one word per (owner, text), as in ``PoolNegatives.excluded``."""
    return mix(hashes ^ mix(owners.astype(np.uint64)))


def classes_of(words: Words) -> tuple[Words, Integers]:
    """Return the distinct classes and the class of each chunk."""
    if words[0] == words[-1] and words.min() == words.max():  # one class is usual and needs no sort
        return words[:1], np.zeros(len(words), np.int64)
    classes, index = np.unique(words, return_inverse=True)
    return classes, index.astype(np.int64)


def anchors_of(rows: Rows, classes: Integers, per: str) -> Anchors:
    """Group chunks into anchors; ``classes`` has the class of every chunk."""
    records = rows["record_key"]
    starts = _boundaries(records, every=per == "chunk")
    chunks, hashes = rows["chunk_key"], rows["text_hash"]
    firsts = starts[:-1]
    found = Anchors(chunks, hashes, classes, records[firsts], rows["id_hash"][firsts], starts)
    families = rows.get("family", records)
    is_own = np.array_equal(families, records)
    return found if is_own else replace(found, families=families[firsts])


def positives_of(
    anchors: Anchors, rows: Rows, *, distinct: bool, unpaired: Rows | None = None
) -> Positives:
    """Return the positives of anchors; ``distinct`` ones differ in text from the anchor."""
    owners, hashes = rows["record_key"], rows["text_hash"]
    starts = np.searchsorted(owners, anchors.records, side="left")
    counts = np.searchsorted(owners, anchors.records, side="right") - starts
    banned = _banned(anchors, counts, owners, hashes, distinct, unpaired)
    return Positives(rows["chunk_key"], hashes, starts, counts, banned)


def paired(anchors: Anchors, positives: Positives) -> tuple[Integers, Anchors, Positives]:
    """Return pairs of an anchor and a positive as anchors, and the earlier index of each chunk."""
    windows = np.diff(anchors.starts)
    sizes = windows * positives.counts
    owners = np.repeat(np.arange(len(anchors)), sizes)
    within = ranges(np.zeros_like(sizes), sizes)
    ranks, window = np.divmod(within, windows[owners])
    at = anchors.starts[owners] + window
    if (banned := positives.banned) is not None:
        row = np.repeat(np.arange(len(at)), banned.counts[at])
        entries = ranges(banned.firsts[at], banned.counts[at])
        first = banned.firsts[at[row]]
        banned_ranks = banned.passed[entries] - first * banned.span + entries - first
        legal = np.ones(len(at), bool)
        legal[row[banned_ranks == ranks[row]]] = False
        at, owners, ranks = at[legal], owners[legal], ranks[legal]
    starts = _boundaries(owners, ranks, every=False)
    owners, ranks = owners[starts[:-1]], ranks[starts[:-1]]
    firsts = _boundaries(owners, every=False)
    counts = np.diff(firsts)
    turns = np.repeat(counts, counts), np.arange(len(owners)) - np.repeat(firsts[:-1], counts)
    places = np.asarray(positives.starts[owners] + ranks, np.int64)
    made = Anchors(
        *(anchors.chunks[at], anchors.hashes[at], anchors.classes[at]),
        *(anchors.records[owners], anchors.ids[owners], starts),
        families=None if anchors.families is None else anchors.families[owners],
        turns=turns,
    )
    ones = np.ones(len(places), np.int64)
    return at, made, replace(positives, starts=places, counts=ones, banned=None)


def _banned(
    anchors: Anchors,
    counts: Integers,
    owners: Keys,
    hashes: Words,
    distinct: bool,
    unpaired: Rows | None,
) -> Banned | None:
    # the pool ensures that an anchor with a single positive may take it
    several = np.flatnonzero(np.repeat(counts > 1, np.diff(anchors.starts)))
    if len(several) == 0 or not (distinct or unpaired):
        return None
    records = np.repeat(anchors.records, np.diff(anchors.starts))[several]
    anchor_words = pair_hashes(records, anchors.hashes[several])
    positive_words = pair_hashes(owners, hashes)
    at = Sketch(anchor_words).among(positive_words) if distinct else np.zeros(0, np.int64)
    words = positive_words[at]  # of an anchor's record and text
    if unpaired:
        keys = unpaired["record_key"]
        anchor, other = (pair_hashes(keys, unpaired[n]) for n in ("anchor_hash", "text_hash"))
        order = np.argsort(positive_words, kind="stable")
        ascending = positive_words[order]
        first, last = (np.searchsorted(ascending, other, side) for side in ("left", "right"))
        at = np.concatenate([at, order[ranges(first, last - first)]])
        words = np.concatenate([words, np.repeat(anchor, last - first)])
    if len(at) == 0:
        return None
    order = np.lexsort((at, words))
    at, words = at[order], words[order]
    is_new = np.diff(words, prepend=~words[:1]).astype(bool) | (np.diff(at, prepend=-1) != 0)
    at, words = at[is_new], words[is_new]
    shared = Sketch(words).among(anchor_words)
    several, anchor_words = several[shared], anchor_words[shared]
    first = np.searchsorted(words, words, side="left")
    rank = at - np.searchsorted(owners, owners[at], side="left")
    span = max(int(counts.max()), int(rank.max())) + 1  # some positives have no anchor
    firsts, sizes = np.zeros((2, len(anchors.chunks)), np.int64)
    firsts[several] = np.searchsorted(words, anchor_words, side="left")
    sizes[several] = np.searchsorted(words, anchor_words, side="right") - firsts[several]
    passed = first * span + rank - (np.arange(len(at)) - first)
    return Banned(firsts, sizes, passed, span) if sizes.any() else None


def negatives_of(
    classes: Words,  # ascending
    listed: Rows,
    pairs: Rows,  # allowed or forbidden bins of each class
    *,
    per: str,
    forbids: bool,
    illegal: tuple[Words, Words, Words],  # ``excluded``, ``known`` and ``known_swapped``
    own: bool = False,
) -> PoolNegatives:
    """Index a list of chunks as negatives."""
    records = listed["record_key"]
    bins = listed.get("bin", np.zeros(len(records), np.uint64))
    starts = _boundaries(bins, records, every=per == "chunk")
    bounds = _ranges(classes, bins[starts[:-1]], pairs, forbids=forbids)
    chunks, hashes, families = listed["chunk_key"], listed["text_hash"], listed["family"]
    units = chunks, hashes, families[starts[:-1]], starts
    return PoolNegatives(*units, *bounds, *illegal, own=own)


def _ranges(
    classes: Words, unit_bins: Words, pairs: Rows, *, forbids: bool
) -> tuple[Integers, Integers, Integers]:
    """Turn (class, bin) pairs into ranges of units for each class."""
    class_, bin_ = pairs["class"], pairs["bin"]
    if len(class_) == 0:  # the usual cases: all units for each class, or none
        each = 1 if forbids and len(unit_bins) else 0
        ranges = np.arange(len(classes) * each + 1, dtype=np.int64)
        firsts = ranges if each else np.zeros(len(classes) + 1, np.int64)
        return firsts, np.zeros(len(ranges) - 1, np.int64), ranges * len(unit_bins)
    known = np.isin(class_, classes)
    row = np.searchsorted(classes, class_[known])
    low = np.searchsorted(unit_bins, bin_[known], side="left")
    high = np.searchsorted(unit_bins, bin_[known], side="right")
    if forbids:  # the gaps between the ranges of each class
        all_rows, units = np.arange(len(classes)), len(unit_bins)
        rows = np.concatenate([row, all_rows])
        lows = np.concatenate([high, np.zeros(len(all_rows), np.int64)])
        highs = np.concatenate([low, np.full(len(all_rows), units)])
        begins, ends = np.lexsort((lows, rows)), np.lexsort((highs, rows))
        row, low, high = rows[begins], lows[begins], highs[ends]
    filled = high > low
    row, low, high = row[filled], low[filled], high[filled]
    firsts = np.searchsorted(row, np.arange(len(classes) + 1)).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(high - low)]).astype(np.int64)
    return firsts, low.astype(np.int64), sums


def _boundaries(*columns: Any, every: bool) -> Integers:
    """Return the start of each new combination of values, and the end."""
    length = len(columns[0])
    if every or length == 0:
        return np.arange(length + 1, dtype=np.int64)
    new = np.zeros(length, dtype=bool)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.append(np.flatnonzero(new), length).astype(np.int64)


def own_of(negatives: Rows, excluded: Words) -> Rows:
    """Return own negatives, one per record and text, that are not excluded for the family."""
    texts = pair_hashes(negatives["record_key"], negatives["text_hash"])
    first = np.zeros(len(texts), dtype=bool)
    first[np.unique(texts, return_index=True)[1]] = True
    words = pair_hashes(negatives["family"], negatives["text_hash"])
    return some_rows(negatives, first & ~np.isin(words, excluded))


def _among(sketch: Sketch, pairs: Words, owners: Keys | Words, hashes: Words) -> Integers:
    """Return the indices of (owner, text) pairs that are in a sorted array."""
    words = pair_hashes(owners, hashes)
    some = sketch.among(words)
    return some[places(pairs, words[some]) >= 0]
