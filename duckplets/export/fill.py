"""Draw random negatives for anchors that were mined fewer than an export wants.

They are drawn by a hash of the anchor, from the documents its guards allow, so an anchor's
negatives depend on nothing else.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import IntegerLists, Integers, merged, places
from duckplets.db.database import Database
from duckplets.export.subject import Subject
from duckplets.mining.guards import Guards
from duckplets.order.permute import below, hashed, key
from duckplets.pools.read import PoolReader
from duckplets.pools.verdicts import relabelled_sections

_DRAWS = 64  # and four for each document wanted: then what is still missing stays so


class Fill:
    """Add negatives to anchors that have fewer than wanted."""

    def __init__(self, database: Database, subject: Subject, wanted: int) -> None:
        self._wanted = wanted
        self._guards: dict[int, Guards] = {}
        self._relabelled = relabelled_sections(database, subject.version)
        for mining, pool in zip(subject.minings, subject.guarded(), strict=True):
            with PoolReader(database, [pool]) as reader:
                self._guards[mining.key] = Guards(database, reader, pool)

    def filled(self, anchors: pa.Table, mined: pa.Table) -> tuple[pa.Table, list[int]]:
        """Return anchors' negatives with the missing ones added, and how many were added.

        ``anchors`` are rows of ``export/anchors``, and ``mined`` of ``export/negatives_of``.
        """
        place, sections = (mined[name].to_numpy() for name in ("place", "section_key"))
        minings = anchors["mining_key"].to_numpy()
        keys = anchors["section_key"].to_numpy().astype(np.int64)
        counts = np.zeros(anchors.num_rows, np.int64)
        places, found = [place], [sections]
        for mining, guards in self._guards.items():
            (mine,) = np.nonzero(minings == mining)
            for low, further in self._of(guards, keys[mine], mine, place, sections):
                counts[mine[low : low + len(further)]] = further.lengths
                places.append(mine[low + further.owners()])
                found.append(guards.sections.keys[further.values])
        every, added = np.concatenate(places), np.concatenate(found)
        order = np.argsort(every, kind="stable")
        scores = mined["score"].to_pylist() + [None] * (len(every) - len(place))
        rows = {"place": every[order], "section_key": added[order]}
        score = pa.array(scores, pa.float64()).take(pa.array(order))
        return pa.table(rows).append_column("score", score), counts.tolist()

    def _of(
        self, guards: Guards, keys: Integers, mine: Integers, place: Integers, sections: Integers
    ) -> list[tuple[int, IntegerLists]]:
        """Return the random negatives of spans of a mining's anchors, with the start of each."""
        known = guards.sections.keys[guards.anchors]  # ascending
        at = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
        is_known = known[at] == keys if len(known) else np.zeros(len(keys), bool)
        found, start = [], 0
        while start < len(keys):
            if not is_known[start]:  # after changes of records legality is unknown
                start += 1
                continue
            # A span adjacent among the guarded anchors too, and within one block.
            block = next(guards.blocks(int(at[start])))
            stop = start + 1
            while stop < len(keys) and is_known[stop] and at[stop] == at[stop - 1] + 1:
                if at[stop] >= block.stop:
                    break
                stop += 1
            block = slice(int(at[start]), int(at[stop - 1]) + 1)
            excluded = guards.exclude(block)
            some = merged([excluded.documents, self._others(guards, keys[start:stop])])[0]
            chosen = _chosen(guards, mine[start:stop], place, sections)
            missing = np.maximum(self._wanted - chosen.lengths, 0)
            given = (excluded.allowed, guards.documents, keys[start:stop])
            found.append((start, _backfill(chosen, missing, some, *given)))
            start = stop
        return found

    def _others(self, guards: Guards, keys: Integers) -> IntegerLists:
        """Return the documents that verdicts forbid as negatives of anchors, by key ascending."""
        anchors, sections = self._relabelled
        at, order = places(keys, anchors), np.argsort(guards.sections.keys, kind="stable")
        number = places(guards.sections.keys[order], sections)
        there = (at >= 0) & (number >= 0)
        return IntegerLists.of(at[there], order[number[there]], len(keys))


def _chosen(guards: Guards, mine: Integers, place: Integers, sections: Integers) -> IntegerLists:
    """Return the present negatives of anchors, as the guards number them."""
    low, high = np.searchsorted(place, mine), np.searchsorted(place, mine, side="right")
    counts = high - low
    rows = IntegerLists(np.concatenate([[0], np.cumsum(counts)]), np.zeros(counts.sum(), np.int64))
    at = np.repeat(low - rows.starts[:-1], counts) + np.arange(counts.sum())
    order = np.argsort(guards.sections.keys, kind="stable")
    by_key = guards.sections.keys[order]
    near = np.minimum(np.searchsorted(by_key, sections[at]), max(len(by_key) - 1, 0))
    return IntegerLists(rows.starts, order[near])


def _backfill(
    chosen: IntegerLists,
    missing: Integers,
    excluded: IntegerLists,
    allowed: IntegerLists | None,
    documents: Integers,
    keys: Integers,
) -> IntegerLists:
    """Return the documents that anchors are missing, none of them chosen or excluded."""
    purpose = key("fill")
    pool = allowed or IntegerLists(np.array([0, len(documents)]), documents)
    row = np.arange(len(keys)) if allowed is not None else np.zeros(len(keys), np.int64)
    sizes, width = pool.lengths[row], int(documents.max(initial=0)) + 1
    found = np.full((len(keys), int(missing.max(initial=0))), -1, np.int64)
    got = np.zeros(len(keys), np.int64)
    taken = [lists.owners() * width + lists.values for lists in (chosen, excluded)]
    refused = np.sort(np.concatenate(taken)) if missing.any() else got[:0]
    for draw in range(_DRAWS + 4 * found.shape[1]):
        left = np.flatnonzero((got < missing) & (sizes > 0))
        if len(left) == 0:
            break
        words = hashed(purpose, keys[left], draw)
        drawn = pool.values[pool.starts[row[left]] + below(words, sizes[left])]
        legal = places(refused, left * width + drawn) < 0
        legal &= ~(found[left] == drawn[:, None]).any(axis=1)
        left, drawn = left[legal], drawn[legal]
        found[left, got[left]] = drawn
        got[left] += 1
    starts = np.concatenate([[0], np.cumsum(got)])
    return IntegerLists(starts, found[found >= 0])
