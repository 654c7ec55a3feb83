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

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Integers
from duckplets.db.database import Database
from duckplets.engine.protocol import Engine, Part
from duckplets.errors import EngineError
from duckplets.mining.bm25 import (
    PADDING,
    RUN,
    SCALE,
    DocumentShard,
    Impacts,
    Queries,
    TopDocuments,
    search,
)
from duckplets.mining.guards import SectionTable
from duckplets.search import index
from duckplets.search.index import Index

_AT_ONCE = 1 << 20  # postings weighted at a time
_K1, _B = 1.2, 0.75
_FREQUENT = 0.06  # share of a shard's documents from which a dense row is faster than a scatter
_DENSE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Statistics:
    """What BM25 needs to know of all documents that may be negatives."""

    documents: int  # how many there are
    average: float  # mean of their lengths, in tokens
    counts: Integers  # documents that have each term, int64[terms]


def prepare(
    database: Database,
    of: Index,
    sections: SectionTable,
    eligible: Flags,  # which numbers may be negatives
    scored: Flags,  # which are scored at all
    *,
    shard_documents: int,
    folder: Path,
) -> tuple[DocumentShards, Integers]:
    """Write the document shards of sections of an index; so many that may be negatives make one.

    Returns them, and the document shard of every section, by its number; 0 for those of none.
    """
    rows = index.documents(database, of)
    lengths = rows["length"].to_numpy().astype(np.int64)
    numbers = sections.numbers(rows["section_key"].to_numpy())
    known = numbers >= 0
    may, there = known & eligible[numbers], known & scored[numbers]  # -1 takes the last one's
    statistics = _statistics(database, of, may, lengths)
    ends = np.flatnonzero(may)[shard_documents - 1 :: shard_documents] + 1
    edges = np.unique([0, *ends.tolist(), len(numbers)])
    if len(edges) > 2 and not may[edges[-2] :].any():
        edges = np.delete(edges, -2)  # only positives are left, which make no shard
    for shard, (low, high) in enumerate(pairwise(edges.tolist())):
        local = np.flatnonzero(there[low:high])
        part = numbers[low:high][local]
        # possible negatives first, each part in the order of record ids
        order = np.lexsort((part, ~may[low:high][local]))
        place = np.full(high - low, -1, np.int64)
        place[local[order]] = np.arange(len(local))
        postings = _postings(database, of, low, high, place, lengths, statistics)
        count = int(may[low:high].sum())
        vocabulary = len(statistics.counts)
        shard_of(part[order], count, vocabulary, postings).save(folder, str(shard))
    homes = np.zeros(len(sections.keys), np.int64)
    homes[numbers[known]] = np.searchsorted(edges, np.flatnonzero(known), side="right") - 1
    return DocumentShards(folder, len(edges) - 1), homes


def _statistics(database: Database, of: Index, may: Flags, lengths: Integers) -> Statistics:
    ((terms,),) = database.run("search/index/size", {"index": of.index_key})
    counts = np.zeros(terms, np.int64)
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
    """Return term, place and impact of every posting of a document shard."""
    asked = {"index": of.index_key, "low": low, "high": high}
    rows = database.table("search/index/postings", asked)
    columns = [rows[name].to_numpy() for name in ("term_key", "document", "frequency")]
    parts = []
    for start in range(0, rows.num_rows, _AT_ONCE):  # intermediate values are floats
        term, document, frequency = (column[start : start + _AT_ONCE] for column in columns)
        kept = place[document - low] >= 0
        term, document = term[kept], document[kept] - low
        weights = _impacts(statistics, term, frequency[kept], lengths[low:high][document])
        parts.append((term, place[document].astype(np.int32), weights))
    if not parts:
        return (np.zeros(0, np.int32),) * 3
    term, local, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return term, local, weights


def _impacts(of: Statistics, terms: Impacts, frequencies: Impacts, lengths: Integers) -> Impacts:
    """Return the integer impacts of postings; of terms that no document has they are 0."""
    counts = of.counts[terms]
    idf = np.log10(1 + (of.documents - counts + 0.5) / (counts + 0.5))
    idf[counts == 0] = 0  # only documents that cannot be found have it
    saturation = _K1 * (1 - _B + _B * (lengths / of.average))
    part = frequencies * (_K1 + 1) / (frequencies + saturation)
    found: Impacts = np.rint(SCALE * (idf * part)).astype(np.int32)
    return found


def shard_of(
    numbers: Integers,
    eligible: int,
    terms: int,
    postings: tuple[Integers | Impacts, Integers | Impacts, Impacts],
) -> DocumentShard:
    """Return the document shard of weighted postings (terms, places in ``numbers``, impacts).

    Of its documents those that may be negatives come first, and then the others, each ascending.
    """
    term, place, impact = postings
    room = -(-max(eligible, 1) // RUN) * RUN
    local = np.where(place < eligible, place, place - eligible + room)
    width = room + len(numbers) - eligible
    placed = np.full(width, PADDING, np.int64)
    placed[:eligible], placed[room:] = numbers[:eligible], numbers[eligible:]
    order = np.argsort(term.astype(np.int64) * width + local)
    counts = np.bincount(term, minlength=terms)
    starts = np.concatenate([[0], np.cumsum(counts)])
    documents, sorted_impacts = local[order].astype(np.int32), impact[order]
    rows, dense = _dense(starts, counts, documents, sorted_impacts, eligible, width)
    return DocumentShard(placed, room, starts, documents, sorted_impacts, rows, dense)


def _dense(
    starts: Integers,
    counts: Integers,
    documents: Impacts,
    sorted_impacts: Impacts,
    eligible: int,
    width: int,
) -> tuple[Impacts, Impacts]:
    frequent = np.flatnonzero(counts > max(_FREQUENT * eligible, RUN))
    most = _DENSE_BYTES // (4 * width)
    frequent = frequent[np.argsort(-counts[frequent], kind="stable")[:most]]
    rows = np.full(len(counts), -1, np.int32)
    rows[frequent] = np.arange(len(frequent))
    dense = np.zeros((len(frequent), width), np.int32)
    for row, term in enumerate(frequent.tolist()):
        part = slice(starts[term], starts[term + 1])
        dense[row, documents[part]] = sorted_impacts[part]
    return rows, dense


@dataclass(frozen=True)
class DocumentShards:
    """The document shards in a folder, mapped one by one each time they are gone through."""

    folder: Path  # where ``DocumentShard.save`` wrote them, by number
    count: int

    def __iter__(self) -> Iterator[DocumentShard]:
        return (DocumentShard.load(self.folder, str(number)) for number in range(self.count))


class MiningJob(NamedTuple):
    """What all blocks of a mining share."""

    name: str  # unique: later minings use the same folder for other postings
    shards: DocumentShards
    depth: int


def scored(
    shards: DocumentShards,
    blocks: Iterable[Queries],
    *,
    depth: int,
    engine: Engine,
) -> Generator[TopDocuments, None, None]:
    """Yield what is found for every block of queries, in their order.

    Blocks are taken as they are needed: a few more than there are workers.

    Raises:
        EngineError: A block could not be searched.
    """
    shards = DocumentShards(shards.folder.absolute(), shards.count)
    job = MiningJob(uuid4().hex, shards, depth)
    parts = (Part(f"mining: block {n + 1}", each) for n, each in enumerate(blocks))
    try:
        with closing(engine.map(search_part, job, parts)) as results:
            yield from results
    finally:
        _opened.cache_clear()  # if this process searched


def search_part(job: MiningJob, queries: Queries) -> TopDocuments:
    """Search a block of queries, on a worker."""
    return search(_opened(job), queries, job.depth)


@lru_cache(maxsize=1)
def _opened(job: MiningJob) -> Iterable[DocumentShard]:
    """Return the document shards; a single one is not mapped again for every block."""
    if not job.shards.folder.is_dir():
        raise EngineError(
            f"mining: a worker does not see {job.shards.folder}, where the postings lie: the "
            f"corpus must be in a folder that all workers share"
        )
    return list(job.shards) if job.shards.count == 1 else job.shards
