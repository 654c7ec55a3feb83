"""Rank candidates by BM25: the anchors' first tokens against the postings of a corpus's index.

    index_postings ─statistics of the recipe's documents→ impacts ─64k documents at a time→ files
    anchors ─first tokens→ queries ─by blocks, here or by processes→ the best of each anchor

Weights are DuckDB's BM25 (k = 1.2, b = 0.75, log10; Robertson and Zaragoza 2009, with the idf of
Lucene). Statistics count the possible negatives only. Other positives are scored too, for the
margins. Documents are assigned to shards by the hash of their record ids, so a shard is a random
sample. Frequent terms of a shard are dense rows: a vector addition is faster than a scatter.

Blocks, document shards and workers change no result. A missing index is stored in the corpus if it
is open for writing, and otherwise in temporary tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Floats, IntegerLists, Integers
from duckplets.base.atomic import aside_of, remove
from duckplets.base.settings import Bounds, check
from duckplets.db.database import Database
from duckplets.db.files import real_path
from duckplets.db.queries import query
from duckplets.engine.inline import INLINE
from duckplets.engine.local import LocalEngine
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.engine.work import Work
from duckplets.errors import EngineError, QueryError, RecipeError
from duckplets.mining.blocks import TopDocuments
from duckplets.mining.bm25 import SCALE, DocumentShard, Impacts, Queries, search
from duckplets.mining.guards import BLOCK_ANCHORS, Guards
from duckplets.mining.job import Job, Scorer, Searched
from duckplets.recipes.mined import BM25
from duckplets.search import index
from duckplets.search.index import Index

Scope = Literal["pool", "shard"]

_MOST_TOKENS = 100  # the sum of 100 impacts fits into 32 bits, whatever the corpus
_CHARACTERS = 1000  # read of an anchor for each query token
_CELLS = 1 << 20  # candidates of a block
_WORTH_PROCESSES = 20_000_000  # pairs that one process scores while others start
_AT_ONCE = 1 << 20  # postings weighted at a time
_K1, _B = 1.2, 0.75
_FREQUENT = 0.06  # share of a shard's documents from which a dense row is faster than a scatter
_LEAST_FREQUENT = 64  # documents
_DENSE_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Bm25Scorer(Scorer):
    """Rank by BM25, with these arguments of ``mine``."""

    query_tokens: Annotated[int, Bounds(1, _MOST_TOKENS)] = 64
    scope: Scope = "pool"
    shard_documents: Annotated[int, Bounds(1)] = 65_536
    name: str = field(default=BM25, init=False)

    def __post_init__(self) -> None:
        check(self, RecipeError, "mine")

    def settings(self, job: Job) -> dict[str, Any]:
        """Return its arguments and the settings of text analysis."""
        own = {name: value for name, value in asdict(self).items() if name != "name"}
        return own | {"terms": index.terms_of(job.database).to_dict()}

    def order(self, job: Job) -> Integers | None:
        """Sort anchors by document shard if each searches its own shard only."""
        if self.scope == "pool" or (found := _index(job)) is None:
            return None
        return np.asarray(index.documents(job.database, found)["section_key"].to_numpy())

    def search(self, job: Job, guards: Guards, start: int) -> Searched:
        """Yield every block of anchors from number ``start``, with the best documents."""
        used, database = _index(job), job.database
        if used is None:
            return
        folder = aside_of(real_path(Path(str(database.path)))).absolute()
        with ExitStack() as stack:
            stack.callback(remove, folder)
            vocabulary = stack.enter_context(closing(index.vocabulary(database, used)))
            try:
                folder.mkdir()
                count, homes = _written(database, used, guards, self.shard_documents, folder)
            except OSError as error:
                where = error.filename or folder
                raise QueryError(
                    f"mining cannot write to {where}: {error.strerror or error}; finished parts "
                    f"are stored, and the next call continues after them"
                ) from error
            shards = DocumentShards(folder, count, job.depth)

            def part_of(block: slice) -> Part:
                keys = guards.keys_of(block)
                rows = pa.table({"row": np.arange(len(keys)), "section_key": keys})
                most = {"characters": self.query_tokens * _CHARACTERS}
                with database.registered(anchors=rows):
                    texts = database.table("mining/mine/anchor_texts", most)["text"]
                starts, terms = vocabulary.analyse(texts, limit=self.query_tokens)
                queries = Queries(
                    terms=IntegerLists(starts, terms.astype(np.int64)),
                    positives=guards.positives_of(block),
                    excluded=guards.exclude(block),
                    shards=homes[guards.anchors[block]] if self.scope == "shard" else None,
                )
                return Part(f"mining: anchors {block.start:,} to {block.stop:,}", queries)

            blocks = guards.blocks(start, most=min(BLOCK_ANCHORS, _CELLS // job.depth))
            pairs = (len(guards.anchors) - start) * len(guards.documents)
            engine: Engine = job.work.engine
            if engine is INLINE and job.threads > 1 and pairs > _WORTH_PROCESSES:
                engine = stack.enter_context(closing(LocalEngine(job.threads)))
            found = mapped(engine, search_shards, shards, blocks, part_of)
            yield from stack.enter_context(closing(found))


def _index(job: Job) -> Index | None:
    """Return the up-to-date index of the source and split; None without records."""
    ground: dict[str, Any] = job.ground
    index.refresh(job.database, **ground, work=Work(job.work.engine))
    return next(iter(index.stored(job.database, **ground)), None)


# -- document shards ------------------------------------------------------------------------------


@dataclass(frozen=True)
class DocumentShards:
    """Iterate over the document shards in a folder, mapping one at a time."""

    folder: Path  # with the files of ``DocumentShard.save``, by number
    count: int
    depth: int  # documents of each query

    def __iter__(self) -> Iterator[DocumentShard]:
        return (DocumentShard.load(self.folder, str(number)) for number in range(self.count))


def search_shards(shards: DocumentShards, queries: Queries) -> TopDocuments:
    """Search a block of queries, on a worker."""
    if not shards.folder.is_dir():
        raise EngineError(
            f"mining: a worker does not see the postings in {shards.folder}: move the corpus to a "
            f"folder that all workers share"
        )
    return search(shards, queries, shards.depth)


def _written(
    database: Database, used: Index, guards: Guards, shard_documents: int, folder: Path
) -> tuple[int, Integers]:
    """Write shards of N possible negatives; return their number, and the shard of each section."""
    may = np.zeros(len(guards.sections.keys), dtype=bool)
    may[guards.documents] = True
    is_scored = may.copy()
    is_scored[guards.positives.values] = True
    rows = index.documents(database, used)
    numbers = guards.sections.numbers(rows["section_key"].to_numpy())
    known = numbers >= 0
    may, is_scored = known & may[numbers], known & is_scored[numbers]  # -1 is masked by ``known``
    weights = _weights(database, used, may, rows["length"].to_numpy().astype(np.int64))
    # after the last document of each shard but one
    ends = np.flatnonzero(may)[shard_documents - 1 : -1 : shard_documents] + 1
    edges = [0, *ends.tolist(), len(numbers)]
    for shard, (low, high) in enumerate(pairwise(edges)):
        there = low + np.flatnonzero(is_scored[low:high])
        there = there[np.argsort(numbers[there])]
        place = np.full(high - low, -1, np.int64)
        place[there - low] = np.arange(len(there))
        postings = _postings(database, used, low, high, place, weights)
        _shard(numbers[there], may[there], postings, len(weights[0])).save(folder, str(shard))
    homes = np.zeros(len(guards.sections.keys), np.int64)
    homes[:] = guards.sections.words % max(1, len(edges) - 1)  # of sections outside the index
    homes[numbers[known]] = np.searchsorted(edges, np.flatnonzero(known), side="right") - 1
    return len(edges) - 1, homes


def _weights(
    database: Database, used: Index, may: Flags, lengths: Integers
) -> tuple[Floats, Floats]:
    """Return the idf of every term, and the length normalisation of each document."""
    ((terms,),) = database.run("search/index/size", {"index": used.index_key})
    counts, number = np.zeros(terms, np.int64), int(may.sum())
    documents = pa.table({"document": np.flatnonzero(may).astype(np.int32)})
    with database.registered(eligible=documents):
        rows = database.table("mining/mine/document_counts", {"index": used.index_key})
    counts[rows["term_key"].to_numpy()] = rows["document_count"].to_numpy()
    idf = np.log10(1 + (number - counts + 0.5) / (counts + 0.5))
    average = max(int(lengths[may].sum()), 1) / max(number, 1)
    return np.where(counts, idf, 0), _K1 * (1 - _B + _B * (lengths / average))


def _postings(
    database: Database,
    used: Index,
    low: int,
    high: int,
    place: Integers,
    weights: tuple[Floats, Floats],
) -> tuple[Impacts, Integers, Impacts]:
    """Return term, place and impact of every posting of a document shard."""
    parts = [(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int32))]
    bounds = {"index": used.index_key, "low": low, "high": high}
    for batch in database.stream(query("search/index/postings"), bounds, rows=_AT_ONCE):
        term, document, frequency = (column.to_numpy() for column in batch.columns)
        is_scored = place[document - low] >= 0
        term, document, frequency = term[is_scored], document[is_scored], frequency[is_scored]
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
    for row, number in enumerate(frequent.tolist()):
        part = slice(starts[number], starts[number + 1])
        dense[row, documents[part]] = impacts[part]
    return DocumentShard(numbers, np.flatnonzero(~may), starts, documents, impacts, rows, dense)
