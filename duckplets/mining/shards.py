"""Write the postings of a recipe's documents to files, weighted and cut into document shards.

    index_postings ─statistics of the recipe's documents→ impacts ─64k documents at a time→ files

Weights are DuckDB's BM25 (k = 1.2, b = 0.75, log10; Robertson and Zaragoza 2009, with the idf of
Lucene). The impacts of a document shard's most frequent terms are kept as dense rows, so that
adding one is a vector addition instead of a scatter over most of its documents.

Documents fall to document shards in the order of the hash of their record ids, so that each is a
random sample of them. Number, mean length and term counts are those of all documents that may be
negatives, as if the index held them alone. Positives that are none are scored all the same, for
the margins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Floats, Integers
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.errors import EngineError
from duckplets.mining.blocks import TopDocuments
from duckplets.mining.bm25 import SCALE, DocumentShard, Impacts, Queries, search
from duckplets.mining.guards import Guards
from duckplets.search import index
from duckplets.search.index import Index

_AT_ONCE = 1 << 20  # postings weighted at a time
_K1, _B = 1.2, 0.75
_FREQUENT = 0.06  # share of a shard's documents from which a dense row is faster than a scatter
_LEAST_FREQUENT = 64  # documents
_DENSE_BYTES = 64 << 20


@dataclass(frozen=True)
class DocumentShards:
    """The document shards in a folder, mapped one by one each time they are gone through."""

    folder: Path  # where ``DocumentShard.save`` wrote them, by number
    count: int
    depth: int  # how many documents of each query are looked for

    def __iter__(self) -> Iterator[DocumentShard]:
        return (DocumentShard.load(self.folder, str(number)) for number in range(self.count))


def search_shards(shards: DocumentShards, queries: Queries) -> TopDocuments:
    """Search a block of queries, on a worker.

    Raises:
        EngineError: The folder is not there.
    """
    if not shards.folder.is_dir():
        raise EngineError(
            f"mining: a worker does not see {shards.folder}, where the postings lie: the "
            f"corpus must be in a folder that all workers share"
        )
    return search(shards, queries, shards.depth)


def write(
    database: Database, of: Index, guards: Guards, *, shard_documents: int, folder: Path
) -> tuple[int, Integers]:
    """Write the document shards of an index; so many documents that may be negatives make one.

    Returns how many they are, and the document shard of every section, by its number; 0 for those
    that are not in the index.
    """
    may = np.zeros(len(guards.sections.keys), dtype=bool)
    may[guards.documents] = True
    is_scored = may.copy()
    is_scored[guards.positives.values] = True
    rows = index.documents(database, of)
    numbers = guards.sections.numbers(rows["section_key"].to_numpy())
    known = numbers >= 0
    may, is_scored = known & may[numbers], known & is_scored[numbers]  # -1 takes the last one's
    weights = _weights(database, of, may, rows["length"].to_numpy().astype(np.int64))
    # after the last document of each shard but one
    ends = np.flatnonzero(may)[shard_documents - 1 : -1 : shard_documents] + 1
    edges = [0, *ends.tolist(), len(numbers)]
    for shard, (low, high) in enumerate(pairwise(edges)):
        there = low + np.flatnonzero(is_scored[low:high])
        there = there[np.argsort(numbers[there])]
        place = np.full(high - low, -1, np.int64)
        place[there - low] = np.arange(len(there))
        postings = _postings(database, of, low, high, place, weights)
        _shard(numbers[there], may[there], postings, len(weights[0])).save(folder, str(shard))
    homes = np.zeros(len(guards.sections.keys), np.int64)
    homes[numbers[known]] = np.searchsorted(edges, np.flatnonzero(known), side="right") - 1
    return len(edges) - 1, homes


def _weights(database: Database, of: Index, may: Flags, lengths: Integers) -> tuple[Floats, Floats]:
    """Return the idf of every term, and by how much the length of every document lessens a term's.

    They follow from the documents that may be negatives; of terms that none of these has the idf
    is 0.
    """
    ((terms,),) = database.run("search/index/size", {"index": of.index_key})
    counts, number = np.zeros(terms, np.int64), int(may.sum())
    documents = pa.table({"document": np.flatnonzero(may).astype(np.int32)})
    with database.registered(eligible=documents):
        rows = database.table("mining/mine/document_counts", {"index": of.index_key})
    counts[rows["term_key"].to_numpy()] = rows["document_count"].to_numpy()
    idf = np.log10(1 + (number - counts + 0.5) / (counts + 0.5))
    average = max(int(lengths[may].sum()), 1) / max(number, 1)
    return np.where(counts, idf, 0), _K1 * (1 - _B + _B * (lengths / average))


def _postings(
    database: Database,
    of: Index,
    low: int,
    high: int,
    place: Integers,
    weights: tuple[Floats, Floats],
) -> tuple[Impacts, Integers, Impacts]:
    """Return term, place and impact of every posting of a document shard."""
    parts = [(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int32))]
    asked = {"index": of.index_key, "low": low, "high": high}
    for batch in database.stream(query("search/index/postings"), asked, rows=_AT_ONCE):
        term, document, frequency = (column.to_numpy() for column in batch.columns)
        kept = place[document - low] >= 0
        term, document, frequency = term[kept], document[kept], frequency[kept]
        idf, saturation = weights[0][term], weights[1][document]
        part = frequency * (_K1 + 1) / (frequency + saturation)
        impacts = np.rint(SCALE * (idf * part)).astype(np.int32)
        parts.append((term, place[document - low], impacts))
    terms, places, impacts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return terms, places, impacts


def _shard(
    numbers: Integers, may: Flags, postings: tuple[Impacts, Integers, Impacts], terms: int
) -> DocumentShard:
    """Return the document shard of weighted postings (terms, places in ``numbers``, impacts)."""
    term, place, impact = postings
    order = np.argsort(term.astype(np.int64) * len(numbers) + place)
    documents, impacts = place[order], impact[order]
    counts = np.bincount(term, minlength=terms)
    starts = np.concatenate([[0], np.cumsum(counts)])
    frequent = np.flatnonzero(counts > max(_FREQUENT * may.sum(), _LEAST_FREQUENT))
    most = _DENSE_BYTES // max(4 * len(numbers), 1)
    frequent = frequent[np.argsort(-counts[frequent], kind="stable")[:most]]
    rows = np.full(terms, -1, np.int32)
    rows[frequent] = np.arange(len(frequent))
    dense = np.zeros((len(frequent), len(numbers)), np.int32)
    for row, of in enumerate(frequent.tolist()):
        part = slice(starts[of], starts[of + 1])
        dense[row, documents[part]] = impacts[part]
    return DocumentShard(numbers, np.flatnonzero(~may), starts, documents, impacts, rows, dense)
