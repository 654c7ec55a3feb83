"""Rank candidates by BM25: the anchors' first tokens against the postings of a corpus's index.

    index ─document shards→ impacts ─┐
    anchors ─first tokens→ queries ──┴─by blocks, here or by processes→ the best of each anchor

Blocks, document shards and workers change no result. An index that is missing is kept with the
corpus where it is open for writing, and is this connection's own else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import IntegerLists, Integers
from duckplets.base.atomic import aside_of, remove
from duckplets.base.settings import Bounds, check
from duckplets.db.database import Database
from duckplets.db.files import real_path
from duckplets.engine.inline import INLINE
from duckplets.engine.local import LocalEngine
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.engine.work import Work
from duckplets.errors import QueryError, RecipeError
from duckplets.mining.bm25 import Queries
from duckplets.mining.guards import BLOCK_ANCHORS, Guards
from duckplets.mining.job import Job, Scorer, Searched
from duckplets.mining.shards import DocumentShards, search_shards, write
from duckplets.recipes.mined import BM25
from duckplets.search import index
from duckplets.search.index import Index

Scope = Literal["pool", "shard"]

_MOST_TOKENS = 100  # so many impacts add up within 32 bits, whatever the corpus
_CHARACTERS = 1000  # documents looked at for each query token
_CELLS = 1 << 20  # candidates of a block
_WORTH_PROCESSES = 20_000_000  # pairs scored while processes would start


@dataclass(frozen=True, kw_only=True, slots=True)
class Bm25Scorer(Scorer):
    """What mining by BM25 goes by; arguments of ``mine``."""

    query_tokens: Annotated[int, Bounds(1, _MOST_TOKENS)] = 64
    scope: Scope = "pool"
    shard_documents: Annotated[int, Bounds(1)] = 65_536
    name: str = field(default=BM25, init=False)

    def __post_init__(self) -> None:
        check(self, RecipeError, "mine")

    def settings(self, job: Job) -> dict[str, Any]:
        """Return what its candidates follow from."""
        own = {name: value for name, value in asdict(self).items() if name != "name"}
        return own | {"terms": index.terms_of(job.database).to_dict()}

    def order(self, job: Job) -> Integers | None:
        """Let neighbours share a document shard where that is all they look into."""
        if self.scope == "pool" or (of := _index(job)) is None:
            return None
        return np.asarray(index.documents(job.database, of)["section_key"].to_numpy())

    def search(self, job: Job, guards: Guards, start: int) -> Searched:
        """Yield the best documents of every block of anchors, from one on."""
        of, database = _index(job), job.database
        if of is None:
            return
        with (
            _folder(database) as folder,
            closing(index.vocabulary(database, of)) as vocabulary,
        ):
            size = self.shard_documents
            count, homes = write(database, of, guards, shard_documents=size, folder=folder)
            shards = DocumentShards(folder, count, job.depth)

            def part_of(block: slice) -> Part:
                keys = guards.keys_of(block)
                rows = pa.table({"row": np.arange(len(keys)), "section_key": keys})
                most = {"characters": self.query_tokens * _CHARACTERS}
                with database.registered(asked=rows):
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
            with (
                _searching(job, pairs) as engine,
                closing(mapped(engine, search_shards, shards, blocks, part_of)) as found,
            ):
                yield from found


def _index(job: Job) -> Index | None:
    """Return the up-to-date index of the source and split; None without records."""
    index.refresh(job.database, source=job.source, split=job.split, work=Work(job.work.engine))
    return next(iter(index.stored(job.database, source=job.source, split=job.split)), None)


@contextmanager
def _searching(job: Job, pairs: int) -> Iterator[Engine]:
    """Yield the engine that searches: processes, if none was given and they pay."""
    engine, threads = job.work.engine, job.threads
    if engine is not INLINE or threads == 1 or pairs <= _WORTH_PROCESSES:
        yield engine
        return
    with closing(LocalEngine(threads)) as processes:
        yield processes


@contextmanager
def _folder(database: Database) -> Iterator[Path]:
    """Create a temporary folder beside the corpus."""
    folder = aside_of(real_path(Path(str(database.path)))).absolute()
    try:
        folder.mkdir()
        yield folder
    except OSError as error:
        where = error.filename or folder
        raise QueryError(
            f"mining writes its postings to {folder}: {where}: {error.strerror}; what was mined "
            f"so far is kept, and mining again goes on from there"
        ) from error
    finally:
        remove(folder)
