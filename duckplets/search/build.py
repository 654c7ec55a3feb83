"""Build one full-text index from the sections of a source and split: terms, documents, postings.

    sections ─slices→ texts ─split→ words ─resolve→ keys ─sort→ postings
           (on an engine, or in a thread, the next slice meanwhile)

A slice is bounded by its sections and characters, and so is what is held of texts at any time.
Slices are taken in the order of the sections' keys, which is the order they are stored in, while
documents are numbered by a hash: any stretch of them is a random sample. Terms are numbered as they
come, so neither slices nor threads change any row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from duckplets.db.database import Database
from duckplets.engine.inline import INLINE, threaded
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.search.analyzer import AnalysedTexts, Vocabulary, stretches
from duckplets.search.analyzer_settings import Terms

_SECTIONS = 16_384  # of a slice, at most
_CHARACTERS = 16 << 20  # of a slice, or one section
_ROWS = 1 << 18  # of an Arrow table of documents or terms


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """The size of an index that was built.

    Attributes:
        documents: Sections it covers.
        tokens: Of all of them.
        terms: Size of the vocabulary.
    """

    documents: int
    tokens: int
    terms: int


def build(
    database: Database,
    terms: Terms,
    *,
    source: str,
    split: str,
    content: str,
    version: int,
    told: Callable[[int], None],
    engine: Engine = INLINE,
) -> Built:
    """Build and store the index of a source and split, inside a transaction.

    Args:
        database: The corpus.
        terms: How text becomes terms.
        source: Name of the source.
        split: The split.
        content: Fingerprint of its records.
        version: Newest version of the corpus.
        told: Called with the number of documents done, after every slice.
        engine: What splits texts into words.

    Raises:
        ExtensionError: DuckDB's fts extension is needed and missing.
    """
    index = int(database.run("search/index/next_key")[0][0])
    covered = database.table("search/index/sections", {"source": source, "split": split})
    with closing(Vocabulary(terms)) as vocabulary, closing(database.cursor()) as reader:
        counted = _Counted(database, index, covered.num_rows)

        def part_of(item: _Piece) -> Part:
            low, high = item[0].sections[[0, -1]].tolist()
            return Part(f"index of {source}, {split}: sections {low} to {high}", item[1])

        pieces = _texts(reader, _slices(covered))
        with closing(mapped(threaded(engine, 1), split_part, terms, pieces, part_of)) as found:
            for (part, _), words in found:
                counted.add(part.documents, vocabulary.resolve(words))
                told(len(part.documents))
        size = counted.store_terms(vocabulary)
    tokens = counted.store_documents(covered["section_key"].to_numpy())
    summary = {
        "index": index,
        "source": source,
        "split": split,
        "terms": json.dumps(terms.to_dict(), ensure_ascii=False),
        "content": content,
        "version": version,
        "documents": covered.num_rows,
        "tokens": tokens,
    }
    database.run("search/index/add", summary)
    return Built(documents=covered.num_rows, tokens=tokens, terms=size)


# -- slices ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some sections, in the order of their keys.

    Attributes:
        sections: Their keys, ascending.
        documents: The number of each as a document.
    """

    sections: NDArray[np.int64]
    documents: NDArray[np.int64]


_Piece = tuple[_Slice, pa.Array]


def _slices(covered: pa.Table) -> list[_Slice]:
    """Cut the sections that an index covers, which come in the order of documents."""
    keys = covered["section_key"].to_numpy()
    documents = np.argsort(keys)
    sizes = covered["characters"].to_numpy()[documents]
    return [
        _Slice(keys[documents[part]], documents[part])
        for part in stretches(sizes, rows=_SECTIONS, total=_CHARACTERS)
    ]


def _texts(reader: Database, slices: list[_Slice]) -> Iterator[_Piece]:
    """Yield each slice with the texts of its sections."""
    for part in slices:
        ends = {"low": int(part.sections[0]), "high": int(part.sections[-1])}
        with reader.registered(wanted=pa.table({"section_key": part.sections})):
            yield part, reader.table("search/index/texts", ends)["text"].combine_chunks()


def split_part(terms: Terms, texts: pa.Array) -> pa.ListArray:
    """Return the lists of words of texts."""
    with closing(Vocabulary(terms)) as vocabulary:
        return vocabulary.split(texts)


# -- counts ---------------------------------------------------------------------------------------


class _Counted:
    """Counts of all slices; the postings of a slice are stored at once, the rest at the end."""

    def __init__(self, database: Database, index: int, documents: int) -> None:
        self._database = database
        self._index = {"index": index}
        self._lengths = np.zeros(documents, dtype=np.int32)
        self._document_counts = np.zeros(0, dtype=np.int64)  # of each term

    def add(self, documents: NDArray[np.int64], words: AnalysedTexts) -> None:
        """Count the words of a slice: frequencies by document and term."""
        words = words.known()
        lengths = np.bincount(words.text, minlength=len(documents))
        self._lengths[documents] = lengths
        pairs = np.repeat(documents << 32, lengths)
        pairs |= words.key
        pairs.sort()
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        frequency = np.diff(first, append=len(pairs)).astype(np.int32)
        pairs = pairs[first]
        term = pairs.astype(np.int32)  # the lower half
        postings = {"term_key": term, "document": (pairs >> 32).astype(np.int32)}
        self._count(term)
        with self._database.registered(new_postings=pa.table(postings | {"frequency": frequency})):
            self._database.run("search/index/append_postings", self._index)

    def _count(self, terms: NDArray[np.int32]) -> None:
        new = np.bincount(terms, minlength=len(self._document_counts))
        new[: len(self._document_counts)] += self._document_counts
        self._document_counts = new

    def store_terms(self, vocabulary: Vocabulary) -> int:
        """Store the vocabulary, and return its size."""
        counts = self._document_counts.astype(np.int32)
        for low in range(0, len(counts), _ROWS):
            part = counts[low : low + _ROWS]
            rows = {
                "term_key": np.arange(low, low + len(part), dtype=np.int32),
                "term": vocabulary.terms(low, low + len(part)),
                "document_count": part,
            }
            with self._database.registered(new_terms=pa.table(rows)):
                self._database.run("search/index/append_terms", self._index)
        return len(counts)

    def store_documents(self, sections: NDArray[np.int64]) -> int:
        """Store the documents, and return how many tokens they have."""
        for low in range(0, len(sections), _ROWS):
            part = slice(low, low + _ROWS)
            rows = {
                "document": np.arange(low, low + len(sections[part]), dtype=np.int32),
                "section_key": sections[part],
                "length": self._lengths[part],
            }
            with self._database.registered(new_documents=pa.table(rows)):
                self._database.run("search/index/append_documents", self._index)
        return int(self._lengths.sum(dtype=np.int64))
