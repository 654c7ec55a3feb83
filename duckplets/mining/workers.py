"""Search blocks of queries on an engine, in document shards that workers map from files.

    blocks of queries ─parts→ search, in document shards beside the corpus ─in order→ what was found

NumPy holds Python's lock between its many short calls: two threads scored no more than one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from duckplets.engine.protocol import Engine, Part
from duckplets.errors import EngineError
from duckplets.mining.bm25 import DocumentShard, Queries, TopDocuments, search
from duckplets.recipes.bm25 import Bm25


@dataclass(frozen=True)
class DocumentShards:
    """The document shards in a folder, mapped one by one each time they are gone through.

    Attributes:
        folder: Where ``DocumentShard.save`` wrote them, by number.
        count: How many there are.
    """

    folder: Path
    count: int

    def __iter__(self) -> Iterator[DocumentShard]:
        return (DocumentShard.load(self.folder, str(number)) for number in range(self.count))


class MiningJob(NamedTuple):
    """What all blocks of a mining have in common."""

    name: str  # no other has it: one after the other has its postings in the same folder
    shards: DocumentShards
    settings: Bm25
    guards: int


def scored(
    shards: DocumentShards,
    blocks: Iterable[Queries],
    settings: Bm25,
    *,
    guards: int,
    engine: Engine,
) -> Generator[TopDocuments, None, None]:
    """Yield what is found for every block of queries, in their order.

    Args:
        shards: What is searched.
        blocks: Taken as they are needed: a few more than there are workers.
        settings: Of the search.
        guards: How many different reasons the queries have.
        engine: What searches.

    Raises:
        EngineError: A block could not be searched.
    """
    shards = DocumentShards(shards.folder.absolute(), shards.count)
    job = MiningJob(uuid4().hex, shards, settings, guards)
    parts = (Part(f"mining: block {n + 1}", each) for n, each in enumerate(blocks))
    try:
        with closing(engine.map(search_part, job, parts)) as results:
            yield from results
    finally:
        _opened.cache_clear()  # where this process has searched


def search_part(job: MiningJob, queries: Queries) -> TopDocuments:
    """Search a block of queries.

    Raises:
        EngineError: The folder of postings is not one that this worker sees.
    """
    return search(_opened(job), queries, job.settings, guards=job.guards)


@lru_cache(maxsize=1)
def _opened(job: MiningJob) -> Iterable[DocumentShard]:
    """Return the document shards; a single one need not be mapped anew for every block."""
    if not job.shards.folder.is_dir():
        raise EngineError(
            f"mining: a worker does not see {job.shards.folder}, where the postings lie: the "
            f"corpus must be in a folder that all workers share"
        )
    return list(job.shards) if job.shards.count == 1 else job.shards
