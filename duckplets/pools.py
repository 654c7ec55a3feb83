"""Pools in memory: what a stream draws from, as flat arrays of keys and text hashes.

The pool's statement decides validity once, in SQL. Its flat lists (anchor windows, positives,
negatives, which groups suit which class) are read into NumPy and indexed by ranges, so that a
plan is arithmetic: about 37 bytes a window, no text. Lists that several recipes share, such as
the same negatives, are read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.compile import CompiledPool, Part, stage
from duckplets.database import Database
from duckplets.errors import EmptyPoolError, RecipeError
from duckplets.order import Integers, Words, mix
from duckplets.recipes import TextRecipe

# A strategy without an equality compares every class with every group; beyond this it would
# run for minutes or fill the memory.
_MOST_COMPARISONS = 1_000_000_000
_MOST_PAIRS = 20_000_000


@dataclass(frozen=True, slots=True)
class Anchors:
    """The windows of a pool, grouped into its anchors.

    Attributes:
        chunks: Key of every window, by record and window.
        hashes: Text hash of every window.
        classes: Row of ``Negatives.firsts`` of every window.
        records: Record key of every anchor.
        starts: First window of every anchor, and the end of the last.
    """

    chunks: Integers
    hashes: Words
    classes: Integers
    records: Integers
    starts: Integers

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, slots=True)
class Positives:
    """The windows positives are taken from, and which of them each anchor window must not take.

    Attributes:
        chunks: Key of every window, by the anchor's record and window.
        hashes: Text hash of every window.
        starts: First window for every anchor.
        counts: Number of windows for every anchor.
        banned_starts: First entry of ``banned`` for every anchor window, and the end.
        banned: Ranks, within the anchor's windows, of those with the anchor window's own text.
    """

    chunks: Integers
    hashes: Words
    starts: Integers
    counts: Integers
    banned_starts: Integers
    banned: Integers


@dataclass(frozen=True, slots=True)
class Negatives:
    """The windows negatives are drawn from, grouped by record, and the ranges of each class.

    Attributes:
        chunks: Key of every window, by group, record and window.
        hashes: Text hash of every window.
        records: Record key of every unit (the windows of one record in one group).
        starts: First window of every unit, and the end of the last.
        firsts: For every class its first range, and the end of the last.
        lows: First unit of every range.
        sums: Units in all ranges before this one, and in all.
        illegal: Sorted hashes of (record, text) for records with several anchors or positives:
            none of those texts must be its negative.
    """

    chunks: Integers
    hashes: Words
    records: Integers
    starts: Integers
    firsts: Integers
    lows: Integers
    sums: Integers
    illegal: Words


@dataclass(frozen=True, slots=True)
class Pool:
    """Everything one (recipe, source, split) draws from; no positives or negatives for texts."""

    compiled: CompiledPool
    anchors: Anchors
    positives: Positives | None
    negatives: Negatives | None


class PoolReader:
    """Reads the pools of one split and version, keeping lists that come again.

    Args:
        database: The corpus.
        pools: All that will be read: what they look at is joined once, for all of them.
    """

    def __init__(self, database: Database, pools: Sequence[CompiledPool]) -> None:
        self._database = database.cursor()
        self._lists: dict[tuple[str, str], pa.Table] = {}
        where = {name: pools[0].parameters[name] for name in ("split", "version")}
        self._database.rows(stage(pool.recipe for pool in pools), where)

    def __enter__(self) -> PoolReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.run("pools/unstage")
        self._database.close()

    def read(self, compiled: CompiledPool) -> Pool:
        """Read a pool.

        Raises:
            EmptyPoolError: It has no anchor.
            RecipeError: Its strategy compares too many values.
        """
        if compiled.unbounded:
            self._refuse_unbounded(compiled)
        rows = self._list(compiled, "anchors")
        if rows.num_rows == 0:
            raise self._empty(compiled)
        if isinstance(compiled.recipe, TextRecipe):
            anchors = _anchors(rows, np.zeros(rows.num_rows, np.int64), compiled.recipe.per)
            return Pool(compiled, anchors, None, None)
        classes, index = _classes(_words(rows, "class"))
        anchors = _anchors(rows, index, compiled.recipe.per)
        listed = self._list(compiled, "positives")
        # Of a single positive the pool knows already that it has another text than the anchor.
        several = pc.max(rows["positives"]).as_py() > 1
        banned = self._list(compiled, "same") if several else None
        positives = _positives(anchors, listed, banned)
        negatives = self._negatives(compiled, classes, rows, listed)
        return Pool(compiled, anchors, positives, negatives)

    def count(self, compiled: CompiledPool) -> dict[str | None, int]:
        """Return how many records (or windows) have which reason not to be in the pool."""
        parameters = compiled.parameters_of("counts", staged=True)
        return dict(self._database.rows(compiled.sql("counts", staged=True), parameters))

    def _list(self, compiled: CompiledPool, part: Part) -> pa.Table:
        sql = compiled.sql(part, staged=True)
        parameters = compiled.parameters_of(part, staged=True)
        name = (sql, repr(sorted(parameters.items())))
        if name not in self._lists:
            self._lists[name] = self._database.arrow(sql, parameters)
        return self._lists[name]

    def _negatives(
        self, compiled: CompiledPool, classes: Words, rows: pa.Table, positives: pa.Table
    ) -> Negatives:
        listed = self._list(compiled, "negatives")
        groups, records = _words(listed, "class_group"), _keys(listed, "record_key")
        by_chunk = compiled.recipe.per == "chunk"
        starts = _boundaries(len(records), (groups, records), every=by_chunk)
        pairs = self._list(compiled, "pairs")
        if pairs.num_rows > _MOST_PAIRS:
            raise RecipeError(
                f"recipe {compiled.recipe.name!r}: its strategy pairs {pairs.num_rows} values; "
                f"compare by equality, or round the values it compares"
            )
        firsts, lows, sums = _ranges(compiled, classes, groups[starts[:-1]], pairs)
        return Negatives(
            chunks=_keys(listed, "chunk_key"),
            hashes=_words(listed, "text_hash"),
            records=records[starts[:-1]],
            starts=starts,
            firsts=firsts,
            lows=lows,
            sums=sums,
            illegal=_illegal(rows, positives),
        )

    def _refuse_unbounded(self, compiled: CompiledPool) -> None:
        classes, groups = self._database.rows(
            compiled.sql("sizes", staged=True), compiled.parameters_of("sizes", staged=True)
        )[0]
        if classes * groups > _MOST_COMPARISONS:
            raise RecipeError(
                f"recipe {compiled.recipe.name!r}: its strategy would compare {classes} values "
                f"of anchors with {groups} of negatives; add an equality between the two, or "
                f"round the values it compares"
            )

    def _empty(self, compiled: CompiledPool) -> EmptyPoolError:
        reasons = {k or "": n for k, n in self.count(compiled).items()}
        counts = ", ".join(f"{n} {reason}" for reason, n in reasons.items() if reason)
        source, split = compiled.parameters["source"], compiled.parameters["split"]
        return EmptyPoolError(
            f"recipe {compiled.recipe.name!r} finds no anchor in source {source!r}, split "
            f"{split!r}: {counts or 'the split has no records'}. Limit the recipe with "
            f"sources=(…), give the source weight 0, or change the recipe"
        )


def pair_hashes(records: Integers, hashes: Words) -> Words:
    """Return one word for each (record, text): what ``Negatives.illegal`` is made of."""
    return mix(hashes ^ mix(records.astype(np.uint64)))


def _classes(words: Words) -> tuple[Words, Integers]:
    """Return the distinct classes and which of them each window has."""
    if words[0] == words[-1] and words.min() == words.max():  # one class, mostly: skip the sort
        return words[:1], np.zeros(len(words), np.int64)
    classes, index = np.unique(words, return_inverse=True)
    return classes, index.astype(np.int64)


def _anchors(rows: pa.Table, classes: Integers, per: str) -> Anchors:
    records = _keys(rows, "record_key")
    starts = _boundaries(len(records), (records,), every=per == "chunk")
    return Anchors(
        chunks=_keys(rows, "chunk_key"),
        hashes=_words(rows, "text_hash"),
        classes=classes,
        records=records[starts[:-1]],
        starts=starts,
    )


def _positives(anchors: Anchors, rows: pa.Table, banned: pa.Table | None) -> Positives:
    owners, chunks = _keys(rows, "record_key"), _keys(rows, "chunk_key")
    starts = np.searchsorted(owners, anchors.records, side="left")
    counts = np.searchsorted(owners, anchors.records, side="right") - starts
    banned_starts, ranks = _banned_ranks(anchors, starts, counts, chunks, banned)
    return Positives(chunks, _words(rows, "text_hash"), starts, counts, banned_starts, ranks)


def _banned_ranks(
    anchors: Anchors, starts: Integers, counts: Integers, chunks: Integers, banned: pa.Table | None
) -> tuple[Integers, Integers]:
    windows = len(anchors.chunks)
    if banned is None or banned.num_rows == 0:
        return np.zeros(windows + 1, np.int64), np.zeros(0, np.int64)
    mine, theirs = _keys(banned, "chunk_key"), _keys(banned, "positive_key")
    window = np.searchsorted(anchors.chunks, mine)
    known = (window < windows) & (anchors.chunks[np.minimum(window, windows - 1)] == mine)
    window, theirs = window[known], theirs[known]
    unit = np.searchsorted(anchors.starts, window, side="right") - 1
    ranks = _positions(chunks, theirs, starts[unit], counts[unit]) - starts[unit]
    order = np.lexsort((ranks, window))
    first = np.searchsorted(window[order], np.arange(windows + 1))
    return first.astype(np.int64), ranks[order]


def _positions(chunks: Integers, wanted: Integers, low: Integers, count: Integers) -> Integers:
    """Return where each wanted key stands in its own ascending stretch of ``chunks``."""
    low, high = low.copy(), low + count
    while np.any(low < high):
        middle = (low + high) // 2
        right = (low < high) & (chunks[np.minimum(middle, len(chunks) - 1)] < wanted)
        low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
    return low


def _ranges(
    compiled: CompiledPool, classes: Words, unit_groups: Words, pairs: pa.Table
) -> tuple[Integers, Integers, Integers]:
    """Turn (class, group) pairs into ranges of units for each class."""
    mine, theirs = _words(pairs, "class"), _words(pairs, "class_group")
    known = np.isin(mine, classes)
    row = np.searchsorted(classes, mine[known])
    low = np.searchsorted(unit_groups, theirs[known], side="left")
    high = np.searchsorted(unit_groups, theirs[known], side="right")
    if compiled.forbids:
        row, low, high = _gaps(len(classes), len(unit_groups), row, low, high)
    filled = high > low
    row, low, high = row[filled], low[filled], high[filled]
    firsts = np.searchsorted(row, np.arange(len(classes) + 1)).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(high - low)]).astype(np.int64)
    return firsts, low.astype(np.int64), sums


def _gaps(
    classes: int, units: int, row: Integers, low: Integers, high: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return what lies between the given ranges of each class: their complement."""
    every = np.arange(classes)
    rows = np.concatenate([row, every])
    lows = np.concatenate([high, np.zeros(classes, np.int64)])
    highs = np.concatenate([low, np.full(classes, units)])
    begins = np.lexsort((lows, rows))
    ends = np.lexsort((highs, rows))
    return rows[begins], lows[begins], highs[ends]


def _illegal(anchors: pa.Table, positives: pa.Table) -> Words:
    # A record with one anchor and one positive needs no entry: a plan compares with both.
    words = []
    for rows in (anchors, positives):
        records = _keys(rows, "record_key")
        several = np.zeros(len(records), dtype=bool)
        several[1:] = records[1:] == records[:-1]
        several[:-1] |= several[1:]
        words.append(pair_hashes(records[several], _words(rows, "text_hash")[several]))
    return np.unique(np.concatenate(words))


def _boundaries(length: int, columns: tuple[Any, ...], *, every: bool) -> Integers:
    """Return where a new combination of values begins, and the end."""
    if every or length == 0:
        return np.arange(length + 1, dtype=np.int64)
    new = np.zeros(length, dtype=bool)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.append(np.flatnonzero(new), length).astype(np.int64)


def _keys(table: pa.Table, column: str) -> Integers:
    return np.asarray(table[column].to_numpy(), dtype=np.int64)


def _words(table: pa.Table, column: str) -> Words:
    return np.asarray(table[column].to_numpy(), dtype=np.uint64)
