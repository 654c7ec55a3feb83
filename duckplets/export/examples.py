"""Read mined anchors with their positives and negatives, block by block.

minings ─anchors→ keys ─a block→ positives, negatives ─texts→ Example ─fit→ Example or None

The pools' lists become temporary tables of positives and documents. A block has up to some thousand
anchors, limited by the size of their texts, and reads every text once. So a million anchors with 32
negatives need the memory of one block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, Words
from duckplets.base.block_size import BlockSize
from duckplets.db.database import Database
from duckplets.errors import StateMismatchError
from duckplets.export.collection import Collections
from duckplets.export.fill import FIRST_RANK
from duckplets.export.subject import Subject
from duckplets.mining import policy as policies
from duckplets.mining import store as mining_store
from duckplets.pools.arrays import pair_hashes
from duckplets.pools.compile import CompiledPool, Part
from duckplets.pools.read import PoolReader

_CANDIDATE = ("anchor_section_key", "rank", "negative_section_key", "score")
_LARGEST_BLOCK = 16_384
_BLOCK_BYTES = 96 << 20  # bytes of a block's texts in Arrow; Python strings need the same again


class Document(NamedTuple):
    """A section that is a positive or a negative."""

    id: str  # the record's id, with "#" and the position if the record has several documents
    text: str  # the whole section
    title: str | None = None  # the text of a collection's document may start with it


@dataclass(frozen=True, slots=True)
class Example:
    """An anchor with its positives and negatives."""

    # The record's id with "#" and the position. It never equals a document's id: evaluators of BEIR
    # drop a hit with the id of its query. In a single collection it is the original id.
    id: str
    text: str
    positives: list[Document]
    negatives: list[Document]  # the hardest first
    positive_score: float | None  # the lowest score of its positives
    scores: Sequence[float | None]  # of the negatives; None for a random one
    filled: int = 0  # number of random negatives for this export, at the end
    is_inconsistent: bool = False  # whether the consistency filter excludes all its positives


# -- reading ------------------------------------------------------------------------------------


class SubjectReader:
    """Read a subject on its own connection, in one transaction."""

    def __init__(
        self, database: Database, subject: Subject, collection: Collections | None = None
    ) -> None:
        self.database, self.collection = database, collection
        self.subject = subject
        self.sources = subject.sources  # later only the sources with anchors
        every = [*subject.pools, *subject.further]
        self._read_mined()
        self.run_with("export/positives", "positives", ["record_key", "chunk_key"], of=every)
        plain = {"are_plain": collection is not None}
        self.run_with("export/documents", "negatives", ["chunk_key"], plain, of=every)
        pools = [pool for pool in subject.pools if pool.is_filtered]
        columns = ["anchor_section_key", "positive_section_key"]
        found = [self._listed(pool, "consistent", columns) for pool in pools]
        # Pairs of sections that a consistency filter retains; None without a filter.
        self._consistent = _pair_words(*pa.concat_tables(found).columns) if found else None

    @classmethod
    @contextmanager
    def opened(
        cls, database: Database, subject: Subject, collection: Collections | None = None
    ) -> Iterator[SubjectReader]:
        """Read a subject until the end of the block, with the ids of its collection."""
        with closing(database.cursor()) as own, own.transaction():
            yield cls(own, subject, collection)

    def run_with(
        self,
        statement: str,
        part: Part,
        columns: list[str],
        parameters: dict[str, Any] | None = None,
        of: Sequence[CompiledPool] | None = None,
    ) -> None:
        """Run a statement that reads columns of one part of the pools as ``pool_PART``."""
        found = [self._listed(pool, part, columns) for pool in of or self.subject.pools]
        with self.database.registered(**{f"pool_{part}": pa.concat_tables(found)}):
            self.database.run(statement, parameters)

    def _listed(self, pool: CompiledPool, part: Part, columns: list[str]) -> pa.Table:
        with PoolReader(self.database, [pool]) as reader:
            return reader.list(pool, part).select(columns)

    def _read_mined(self) -> None:
        """Read the candidates that the recipe's policy retains, into temporary tables."""
        for table in ("mined_anchors", "mined_negatives"):
            self.database.run(f"export/{table}")
        folder = mining_store.folder_of(self.database)
        version = self.subject.version
        for mining in self.subject.minings:
            key = {"mining": mining.key}
            if files := mining.files(folder):
                self.database.run("export/add_anchors", key | {"files": files})
            with closing(self.database.cursor()) as reading:
                for rows in policies.survivors(reading, mining, self.subject.policy, version):
                    columns = zip(_CANDIDATE, rows[: len(_CANDIDATE)], strict=True)
                    with self.database.registered(retained=pa.table(dict(columns))):
                        self.database.run("export/add_negatives", key)

    @cached_property
    def anchors(self) -> pa.Table:
        """Return the keys of all anchors in order, with the number of negatives of each."""
        subject = self.subject
        if subject.minings:
            keys, sources = [m.key for m in subject.minings], [m.source for m in subject.minings]
            return self.database.table("export/anchors", {"minings": keys, "sources": sources})
        found = [self._listed(pool, "anchors", ["chunk_key"]) for pool in subject.pools]
        pairs = zip(subject.sources, found, strict=True)
        self.sources = [name for name, anchors in pairs if anchors.num_rows]
        with self.database.registered(pool_anchors=pa.concat_tables(found)):
            return self.database.table("export/pool_anchors")

    def most_negatives(self) -> int:
        """Return the negatives of each mining's fullest anchor, and the minimum of these."""
        fullest = self.anchors.group_by("mining_key").aggregate([("candidates", "max")])
        return int(pc.min(fullest["candidates_max"]).as_py() or 0)

    def examples(self, negatives: int | None = None) -> Iterator[Example]:
        """Yield all anchors in order, each with at most ``negatives``."""
        pace, start = BlockSize(_LARGEST_BLOCK, _BLOCK_BYTES), 0
        while start < self.anchors.num_rows:
            block = self.anchors.slice(start, pace.rows)
            yield from self._block(block, negatives, pace)
            start += block.num_rows

    def _block(self, keys: pa.Table, negatives: int | None, pace: BlockSize) -> Iterator[Example]:
        places = pa.array(np.arange(keys.num_rows, dtype=np.int64))
        with self.database.registered(requests=keys.append_column("place", places)):
            anchors = self.database.table("export/anchors_of")
            positives = self.database.table("export/positives_of")
            mined = self.database.table("export/negatives_of", {"negatives": negatives})
        if anchors.num_rows != keys.num_rows:
            raise self._damaged()
        if self._consistent is not None:
            at = positives["place"].to_numpy()
            words = _pair_words(keys["section_key"].take(at), positives["section_key"])
            positives = positives.filter(pa.array(np.isin(words, self._consistent)))
        wanted = [rows["section_key"].to_numpy() for rows in (positives, mined)]
        documents = self._documents(np.union1d(*wanted))
        pace.learn(keys.num_rows, documents.nbytes + anchors.nbytes)
        by_key = self._by_key(documents)
        own = keys["section_key"].to_pylist()
        of_positives = _by_place(positives["section_key"], positives, len(own))
        of_negatives = _by_place(mined["section_key"], mined, len(own))
        scores = _by_place(mined["score"], mined, len(own))
        is_drawn = mined["rank"].to_numpy() >= FIRST_RANK
        filled = np.bincount(mined["place"].to_numpy()[is_drawn], minlength=len(own)).tolist()
        for place, row in enumerate(anchors.to_pylist()):
            found = [(key, by_key[key]) for key in of_positives[place]]
            yield Example(
                id=self.query_id(row),
                text=row["text"],
                positives=self._usable(own[place], row["text"], found),
                negatives=[by_key[key] for key in of_negatives[place]],
                positive_score=row["positive_score"],
                scores=scores[place],
                filled=filled[place],
                is_inconsistent=self._consistent is not None,
            )

    def _usable(self, own: int, text: str, found: list[tuple[int, Document]]) -> list[Document]:
        """Return the positives: the anchor itself, or sections with another text."""
        is_own = self.subject.pools[0].own_positive
        same_text = self.subject.recipe.allow_same_anchor_positive
        return [
            document
            for key, document in found
            if (key == own or not is_own) and (same_text or document.text != text)
        ]

    def documents(self) -> Iterator[Document]:
        """Yield every document, in order."""
        keys = self.database.table("export/document_keys")["section_key"].to_numpy()
        pace, start = BlockSize(_LARGEST_BLOCK, _BLOCK_BYTES), 0
        while start < len(keys):
            block = keys[start : start + pace.rows]
            rows = self._documents(block)
            pace.learn(len(block), rows.nbytes)
            by_key = self._by_key(rows)
            yield from (by_key[key] for key in block.tolist())
            start += len(block)

    def _documents(self, keys: Integers) -> pa.Table:
        with self.database.registered(wanted=pa.table({"section_key": keys})):
            rows = self.database.table("export/texts")
        if rows.num_rows != len(keys):
            raise self._damaged()
        return rows

    def _by_key(self, rows: pa.Table) -> dict[int, Document]:
        names = ("section_key", "id", "text", "title")
        keys, ids, texts, titles = (rows[name].to_pylist() for name in names)
        ids = map(self.document_id, ids)
        return dict(zip(keys, map(Document, ids, texts, titles), strict=True))

    def document_id(self, name: str) -> str:
        """Return the id of a document; in a single collection the original one."""
        return name if self.collection is None else self.collection.id(name)

    def query_id(self, row: dict[str, Any]) -> str:
        """Return the id of the query of an anchor."""
        if self.collection is not None and row["position"] == 0:
            return self.collection.id(row["record_id"])
        return f"{row['record_id']}#{row['position']}"

    def _damaged(self) -> StateMismatchError:
        return StateMismatchError(
            f"{self.database.path} lacks some mined sections; check it with: duckplets doctor "
            f"{self.database.path}"
        )


def _pair_words(anchors: pa.ChunkedArray, positives: pa.ChunkedArray) -> Words:
    return pair_hashes(anchors.to_numpy(), positives.to_numpy().astype(np.uint64))


def _by_place(values: pa.ChunkedArray, rows: pa.Table, places: int) -> list[list[Any]]:
    """Return a list of values for each place; rows are sorted by place."""
    starts = np.searchsorted(rows["place"].to_numpy(), np.arange(places + 1)).tolist()
    flat = values.to_pylist()
    return [flat[low:high] for low, high in pairwise(starts)]


# -- the request --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportRequest:
    """The contents of a file; see ``export``."""

    shape: str  # of sentence-transformers
    negatives: int | None = None
    pairs: bool = False  # without negatives
    exactly: bool = False  # an anchor must have exactly ``negatives``
    when_short: str = ""
    scores: bool = False
    instruction: str | None = None


@dataclass
class ExportTally:
    """Counts of an export: rows, anchors, negatives, random negatives, and excluded anchors."""

    rows: int = 0
    anchors: int = 0
    negatives: int = 0
    filled: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def fit(example: Example, request: ExportRequest, tally: ExportTally) -> Example | None:
    """Return an example reduced to the request; None, counted, if it is excluded."""
    if request.scores and None in example.scores:
        pairs = zip(example.negatives, example.scores, strict=True)
        scored = [(document, score) for document, score in pairs if score is not None]
        tally.left_out["negatives without a score"] += len(example.scores) - len(scored)
        negatives, scores = [d for d, _ in scored], [s for _, s in scored]
        example = replace(example, negatives=negatives, scores=scores)
    if reason := _reason(example, request):
        tally.left_out[reason] += 1
        return None
    tally.anchors += 1
    tally.negatives += len(example.negatives)
    tally.filled += example.filled
    return example


def _reason(example: Example, request: ExportRequest) -> str:
    if not example.positives:
        return "inconsistent" if example.is_inconsistent else "no positive"
    if not (example.negatives or request.pairs):
        return "no negative"
    if request.exactly and len(example.negatives) != request.negatives:
        return "too few negatives"
    return "no score of its positive" if request.scores and example.positive_score is None else ""
