"""Reading what is exported: keys first, then block by block the texts they stand for.

The pools' lists become temporary tables of positives and documents; anchors are a list of keys.
Each block takes a few thousand of them, or as many as their texts allow, and reads every text it
needs once, so a million anchors with 32 negatives pass through in the memory of one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.db.database import Database
from duckplets.errors import StateMismatchError
from duckplets.export.example import Document, Example
from duckplets.export.subject import Subject
from duckplets.pools.compile import Part

_FIRST_BLOCK = 256
_GROWTH = 4
_LARGEST_BLOCK = 16_384
_BLOCK_BYTES = 96 << 20  # of the texts of a block, in Arrow; as Python's strings they take as many

Documents = dict[int, Document]


class Reader:
    """Reads one subject on a connection of its own, as of one moment.

    Args:
        database: The corpus.
        subject: What is exported.
    """

    def __init__(self, database: Database, subject: Subject) -> None:
        self.database = database.cursor()
        self.subject = subject
        self._open = ExitStack()

    def __enter__(self) -> Reader:
        self._open.callback(self.database.close)
        try:
            self._open.enter_context(self.database.transaction())
            minings = {"minings": self.subject.minings}
            self.run_with("export/positives", "positives", ["record_key", "chunk_key"])
            self.run_with("export/documents", "negatives", ["chunk_key"], minings)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def run_with(
        self,
        statement: str,
        part: Part,
        columns: list[str],
        parameters: dict[str, Any] | None = None,
    ) -> None:
        """Run a statement that sees columns of a part of all pools, as ``pool_PART``."""
        found = [
            self.database.arrow(pool.sql(part), pool.parameters_of(part)).select(columns)
            for pool in self.subject.pools
        ]
        with self.database.registered(**{f"pool_{part}": pa.concat_tables(found)}):
            self.database.run(statement, parameters)

    # -- examples -------------------------------------------------------------------------------

    def anchors(self) -> pa.Table:
        """Return the keys of the anchors of all minings, in order."""
        return self.database.table("export/anchors", {"minings": self.subject.minings})

    def most_negatives(self) -> int:
        """Return how many negatives the fullest anchor has, of the source where that has fewest."""
        rows = self.database.run("export/most_negatives", {"minings": self.subject.minings})
        return int(rows[0][0] or 0)

    def examples(self, anchors: pa.Table, negatives: int | None = None) -> Iterator[Example]:
        """Yield what belongs to anchors, with so many negatives at most, in their order."""
        pace = _Pace()
        while pace.start < anchors.num_rows:
            requests = anchors.slice(pace.start, pace.size)
            yield from self._block(requests, negatives, pace)

    def _block(self, keys: pa.Table, negatives: int | None, pace: _Pace) -> Iterator[Example]:
        places = pa.array(np.arange(keys.num_rows, dtype=np.int64))
        requests = pa.table(
            {"place": places, **{name: keys[name] for name in ("mining_key", "section_key")}}
        ).combine_chunks()
        with self.database.registered(requests=requests):
            anchors = self.database.table("export/anchors_of")
            positives = self._lists("export/positives_of", keys.num_rows)
            mined = self._lists("export/negatives_of", keys.num_rows, negatives=negatives)
        if anchors.num_rows != keys.num_rows:
            raise self._damaged()
        documents = self._documents(np.union1d(positives.keys, mined.keys))
        pace.learn(keys.num_rows, documents.nbytes + anchors.nbytes)
        by_key = _by_key(documents)
        own = keys["section_key"].to_pylist()
        for place, row in enumerate(anchors.to_pylist()):
            yield Example(
                id=f"{row['record_id']}#{row['position']}",
                text=row["text"],
                outcome=row["outcome"],
                positives=self._usable(own[place], row["text"], positives.of(place), by_key),
                negatives=[by_key[key] for key in mined.of(place)],
                positive_score=row["positive_score"],
                scores=mined.scores_of(place),
            )

    def _lists(self, statement: str, places: int, **parameters: int | None) -> _Lists:
        return _Lists(self.database.table(statement, parameters), places)

    def _usable(
        self, own: int, text: str, found: list[int], documents: Documents
    ) -> list[Document]:
        """Return the positives of an anchor: those of another text, or itself if it is its own."""
        if self.subject.pools[0].own_positive:
            found = [key for key in found if key == own]
        every = [documents[key] for key in found]
        if self.subject.recipe.allow_same_anchor_positive:
            return every
        return [document for document in every if document.text != text]

    # -- documents ------------------------------------------------------------------------------

    def documents(self) -> Iterator[Document]:
        """Yield every document, in order."""
        keys = self.database.table("export/document_keys")["section_key"].to_numpy()
        pace = _Pace()
        while pace.start < len(keys):
            block = keys[pace.start : pace.start + pace.size]
            rows = self._documents(block)
            pace.learn(len(block), rows.nbytes)
            by_key = _by_key(rows)
            yield from (by_key[key] for key in block.tolist())

    def _documents(self, keys: Integers) -> pa.Table:
        with self.database.registered(wanted=pa.table({"section_key": keys})):
            rows = self.database.table("export/texts")
        if rows.num_rows != len(keys):
            raise self._damaged()
        return rows

    def _damaged(self) -> StateMismatchError:
        return StateMismatchError(
            f"some of what was mined is not in {self.database.path} any more; check it with: "
            f"duckplets doctor {self.database.path}"
        )


class _Pace:
    """Where a block starts and how large it is: larger and larger, as far as its bytes allow."""

    def __init__(self) -> None:
        self.start = 0
        self.size = _FIRST_BLOCK

    def learn(self, taken: int, size: int) -> None:
        """Go on behind a block of so many keys and so many bytes."""
        self.start += taken
        fitting = max(1, _BLOCK_BYTES * taken // max(1, size))
        self.size = min(self.size * _GROWTH, _LARGEST_BLOCK, fitting)


class _Lists:
    """Rows that belong to places, in order."""

    def __init__(self, rows: pa.Table, places: int) -> None:
        self.keys: Integers = rows["section_key"].to_numpy()
        self._scores = rows["score"].to_pylist() if "score" in rows.column_names else []
        self._starts = np.searchsorted(rows["place"].to_numpy(), np.arange(places + 1)).tolist()

    def of(self, place: int) -> list[int]:
        """Return the keys of a place."""
        found: list[int] = self.keys[self._starts[place] : self._starts[place + 1]].tolist()
        return found

    def scores_of(self, place: int) -> list[float | None]:
        """Return the scores of a place."""
        return self._scores[self._starts[place] : self._starts[place + 1]]


def _by_key(rows: pa.Table) -> Documents:
    keys, ids, texts = (rows[name].to_pylist() for name in ("section_key", "id", "text"))
    return dict(zip(keys, map(Document, ids, texts), strict=True))
