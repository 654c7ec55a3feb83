"""Shards of an index for one recipe: the postings of its documents, weighted and written aside.

    index_postings ─statistics of the recipe's documents→ impacts ─64k documents at a time→ files

Documents fall to shards in the order of the hash of their record ids, so that each shard is a
random sample of them. Number, mean length and term counts are those of all documents that may be
negatives, as if the index held them alone. Positives that are none are scored all the same, for
the margins.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.db.database import Database
from duckplets.mining.impacts import Impacts, impacts, shard_of
from duckplets.mining.workers import ShardFiles
from duckplets.search import index
from duckplets.search.index import Index

_AT_ONCE = 1 << 20  # postings weighted


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the formula needs to know of all documents.

    Attributes:
        documents: How many there are.
        average: Mean of their lengths, in tokens.
        counts: Documents that have each term, int64[terms].
    """

    documents: int
    average: float
    counts: Integers


@dataclass(frozen=True, slots=True)
class Prepared:
    """Shards that can be searched.

    Attributes:
        files: Where they are.
        homes: Shard of every section of the index, by its number; 0 for other sections.
    """

    files: ShardFiles
    homes: Integers


def prepare(
    database: Database,
    of: Index,
    keys: Integers,
    eligible: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    scored: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    *,
    shard_documents: int,
    folder: Path,
) -> Prepared:
    """Write the shards of some sections.

    Args:
        database: The corpus.
        of: The index of their source and split.
        keys: Section key of every number.
        eligible: Which numbers may be negatives.
        scored: Which numbers are scored at all.
        shard_documents: How many of those that may be negatives make a shard.
        folder: Where the files go.
    """
    rows = index.documents(database, of)
    lengths = rows["length"].to_numpy().astype(np.int64)
    numbers = _numbers(keys, rows["section_key"].to_numpy())
    known = numbers >= 0
    may = np.zeros(len(numbers), dtype=bool)
    may[known] = eligible[numbers[known]]
    there = np.zeros(len(numbers), dtype=bool)
    there[known] = scored[numbers[known]]
    statistics = _statistics(database, of, may, lengths)
    ends = np.flatnonzero(may)[shard_documents - 1 :: shard_documents] + 1
    edges = np.unique([0, *ends.tolist(), len(numbers)])
    if len(edges) > 2 and not may[edges[-2] :].any():  # only positives are left: no shard of theirs
        edges = np.delete(edges, -2)
    for shard, (low, high) in enumerate(pairwise(edges.tolist())):
        local = np.flatnonzero(there[low:high])
        part = numbers[low:high][local]
        # Those that may be negatives first, each part in the order of record ids.
        order = np.lexsort((part, ~may[low:high][local]))
        place = np.full(high - low, -1, np.int64)
        place[local[order]] = np.arange(len(local))
        postings = _postings(database, of, low, high, place, lengths, statistics)
        count = int(may[low:high].sum())
        vocabulary = len(statistics.counts)
        shard_of(part[order], count, vocabulary, postings).save(folder, str(shard))
    homes = np.zeros(len(keys), np.int64)
    homes[numbers[known]] = np.searchsorted(edges, np.flatnonzero(known), side="right") - 1
    return Prepared(ShardFiles(folder, len(edges) - 1), homes)


def _numbers(keys: Integers, wanted: Integers) -> Integers:
    """Return the number of each section key, or -1."""
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = order[at]
    return np.where(keys[found] == wanted, found, -1)


def _statistics(
    database: Database,
    of: Index,
    may: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    lengths: Integers,
) -> Statistics:
    counts = np.zeros(index.vocabulary_size(database, of), np.int64)
    documents = pa.table({"document": np.flatnonzero(may).astype(np.int32)})
    with database.registered(eligible=documents):
        rows = database.table("mining/mine/document_counts", {"index": of.index_key})
    counts[rows["term_key"].to_numpy()] = rows["document_count"].to_numpy()
    number = int(may.sum())
    return Statistics(number, max(int(lengths[may].sum()), 1) / max(number, 1), counts)


def _postings(
    database: Database,
    of: Index,
    low: int,
    high: int,
    place: Integers,
    lengths: Integers,
    statistics: Statistics,
) -> tuple[Impacts, Impacts, Impacts]:
    """Return term, place and impact of the postings of a shard."""
    rows = index.postings(database, of, low, high)
    columns = [rows[name].to_numpy() for name in ("term_key", "document", "frequency")]
    parts = []
    for start in range(0, rows.num_rows, _AT_ONCE):  # what lies between is in floats
        term, document, frequency = (column[start : start + _AT_ONCE] for column in columns)
        kept = place[document - low] >= 0
        term, document = term[kept], document[kept] - low
        weights = impacts(
            frequency[kept],
            statistics.counts[term],
            lengths[low:high][document],
            documents=statistics.documents,
            average=statistics.average,
        )
        parts.append((term, place[document].astype(np.int32), weights))
    if not parts:
        return (np.zeros(0, np.int32),) * 3
    term, places, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return term, places, weights
