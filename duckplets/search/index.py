"""Keep the full-text indexes of a corpus: build those that are missing or stale, read the others.

    sections ─slices→ texts ─split→ words ─resolve→ keys ─sort→ postings, documents, terms
           (on an engine, or in a thread, the next slice meanwhile)

A document is a section. An index covers all live sections of one source and split, whatever their
role, at the newest version; it is replaced as a whole once its records or settings have changed.

A slice is bounded by its sections and characters, and so is what is held of texts at any time.
Slices are taken in the order of the sections' keys, which is the order they are stored in, while
documents are numbered by a hash: any stretch of them is a random sample. Terms are numbered as they
come, so neither slices nor threads change any row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Integers32, stretches
from duckplets.base.documents import StoredJson
from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.db.writes import CorpusFile, changes
from duckplets.engine.inline import threaded
from duckplets.engine.protocol import Part, mapped
from duckplets.engine.work import QUIET, Work, working
from duckplets.ingest.chunks import content_of, contents_of
from duckplets.ingest.records import current_version
from duckplets.ingest.splits import checked_split, need_splits
from duckplets.recipes import store as recipe_store
from duckplets.search.analyzer import AnalysedTexts, Vocabulary, words_of
from duckplets.search.analyzer_settings import Terms

NOT_BUILT = "not built"
CHANGED = "records have changed"
OTHER_TERMS = "other terms"

_SECTIONS = 16_384  # most sections of a slice
_CHARACTERS = 16 << 20  # most characters of a slice, or one section
_ROWS = 1 << 18  # terms that are stored at once
_DELETE = (
    *("search/index/delete", "search/index/delete_terms"),
    *("search/index/delete_documents", "search/index/delete_postings"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """A stored full-text index of one source and split."""

    index_key: int  # another once it is built again
    source: str
    split: str
    terms: Terms
    content: str  # fingerprint of the records it was made from


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexReport(Reported):
    """What ``index`` did about one source and split.

    Attributes:
        source: Name of the source.
        split: The split.
        reason: Why: ``not built``, ``records have changed`` or ``other terms``.
        documents: Sections it covers; 0 where no record is left and the index was deleted.
        tokens: Of all of them, stop words left out.
        terms: Size of the vocabulary.
        seconds: Wall time.
    """

    source: str
    split: str
    reason: str
    documents: int = 0
    tokens: int = 0
    terms: int = 0
    seconds: float


@changes("index")
def index(
    corpus: CorpusFile,
    /,
    terms: Terms | None = None,
    *,
    source: str | None = None,
    split: str | None = None,
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> list[IndexReport]:
    """Build the full-text indexes that are missing or stale; the others stay as they are.

    Searching and mining do that themselves, so it is needed only to choose ``terms``.

    Args:
        terms: How text becomes terms from now on: stemmer, stop words.
        source: Of this source only; by default of all.
        split: Of this split only.
        engine: What splits texts into words, as for ``mine``.
        progress: As for ``ingest``; of each source and split.

    Raises:
        ExtensionError: Stemming needs DuckDB's fts extension, and it is not to be found.
        RecipeError, SplitError: An argument is wrong, or there are no splits yet.
    """
    with working(engine, progress, "documents") as work:
        return refresh(corpus.database, terms=terms, source=source, split=split, work=work)


def terms(corpus: CorpusFile, /, **changes: Any) -> Terms:
    """Return how text becomes terms, some settings changed, for ``index``.

    Args:
        changes: Fields of ``Terms``.

    Raises:
        RecipeError: A setting is unknown or wrong.
    """
    return Terms.from_dict(terms_of(corpus.database).to_dict() | changes)


def refresh(
    database: Database,
    *,
    terms: Terms | None = None,
    source: str | None = None,
    split: str | None = None,
    work: Work = QUIET,
) -> list[IndexReport]:
    """Build the indexes that are missing or stale, each in a transaction of its own; as ``index``.

    An interruption loses the one being built; those before it stay, and so does what it was to
    replace.
    """
    check_scope(database, source, split)
    external_files.check(database)
    if terms is not None:
        Vocabulary(terms).close()  # refuses invalid settings before they are stored
        _set_terms(database, terms)
    unfit = stale(database, source=source, split=split)
    return [_rebuilt(database, *each, work) for each in unfit]


def stale(
    database: Database, *, source: str | None = None, split: str | None = None
) -> list[tuple[str, str, str]]:
    """Return source, split and reason of every index that is missing or does not fit.

    The reason is ``not built``, ``records have changed`` (also where none is left), or
    ``other terms``.
    """
    scope = {"source": source, "split": split}
    indexes = {(index.source, index.split): index for index in stored(database, **scope)}
    pairs = database.run("search/index/pairs", scope)
    found = [(*pair, CHANGED) for pair in indexes.keys() - set(pairs)]
    contents = contents_of(database, source, split, current_version(database)) if indexes else {}
    terms = terms_of(database)
    for pair in pairs:
        index = indexes.get(pair)
        if index is None:
            found.append((*pair, NOT_BUILT))
        elif index.content != contents[pair]:
            found.append((*pair, CHANGED))
        elif index.terms != terms:
            found.append((*pair, OTHER_TERMS))
    return sorted(found)


def stored(
    database: Database, *, source: str | None = None, split: str | None = None
) -> list[Index]:
    """Return the indexes that there are, stale ones included, by source and split."""
    found = []
    scope = {"source": source, "split": split}
    for key, name, of_split, plain, content in database.run("search/index/stored", scope):
        row = f"source {name!r}, split {of_split!r}"
        place = StoredJson(database.path, "text_indexes", row)
        settings = place.read("terms", plain, dict)
        with place.making("terms"):
            terms = Terms.from_dict(settings)
        found.append(
            Index(index_key=key, source=name, split=of_split, terms=terms, content=content)
        )
    return found


def current(database: Database, source: str, split: str) -> Index | None:
    """Return the index of a source and split, or None where it is missing or stale."""
    scope = {"source": source, "split": split}
    return None if stale(database, **scope) else next(iter(stored(database, **scope)), None)


def check_scope(database: Database, source: str | None, split: str | None) -> None:
    """Refuse a source or split that is not there.

    Raises:
        RecipeError, SplitError: There is no such source or split, or no splits yet.
    """
    if split is not None:
        checked_split(split)
    if source is not None:
        recipe_store.check_source(database, source, current_version(database))
    need_splits(database)


# -- terms -----------------------------------------------------------------------------------------


def terms_of(database: Database) -> Terms:
    """Return how texts become terms by the settings."""
    rows = database.run("search/index/get_settings")
    place = StoredJson(database.path, "settings", "terms")
    settings = place.read("value", rows[0][0], dict) if rows else {}
    with place.making("value"):
        return Terms.from_dict(settings)


def _set_terms(database: Database, terms: Terms) -> None:
    """Store how texts become terms from now on."""
    value = json.dumps(terms.to_dict(), ensure_ascii=False)
    with database.transaction():
        database.run("search/index/set_settings", {"value": value})


# -- rows out --------------------------------------------------------------------------------------


def documents(database: Database, index: Index) -> pa.Table:
    """Return the documents: document (int32), section_key (int64), length (int32, tokens).

    Rows by document, which counts from 0 without gaps, in the order of md5(record_id), position.
    """
    return database.table("search/index/documents", {"index": index.index_key})


def vocabulary(database: Database, index: Index) -> Vocabulary:
    """Return the vocabulary of an index, closed to other terms; to be closed by the caller.

    Raises:
        ExtensionError: DuckDB's fts extension is needed and missing.
    """
    found = Vocabulary(index.terms)
    try:
        rows = database.stream(query("search/index/terms"), {"index": index.index_key})
        found.fix(pa.Table.from_batches([batch]) for batch in rows)
    except BaseException:
        found.close()
        raise
    return found


# -- one index -------------------------------------------------------------------------------------


def _rebuilt(database: Database, source: str, split: str, reason: str, work: Work) -> IndexReport:
    """Replace an index, or delete it if no record is left."""
    begun, scope = time.perf_counter(), {"source": source, "split": split}
    with database.transaction():
        for index in stored(database, **scope):
            for part in _DELETE:
                database.run(part, {"index": index.index_key})
        built = dict[str, Any]()
        if database.run("search/index/pairs", scope):
            built = _built(database, source, split, work)
    seconds = time.perf_counter() - begun
    return IndexReport(source=source, split=split, reason=reason, seconds=seconds, **built)


def _built(database: Database, source: str, split: str, work: Work) -> dict[str, int]:
    """Store an index; return how many documents, tokens and terms it has."""
    scope, version = {"source": source, "split": split}, current_version(database)
    terms, done = terms_of(database), 0
    index = int(database.run("search/index/next_key")[0][0])
    covered = database.table("search/index/sections", scope)
    counts = _Counts(database, index, covered.num_rows)
    with closing(Vocabulary(terms)) as vocabulary, closing(database.cursor()) as reader:
        slices = _slices(reader, covered, f"index of {source}, {split}")
        engine = threaded(work.engine, 1)
        with closing(mapped(engine, words_of, terms, slices, itemgetter(1))) as found:
            for (documents, _), words in found:
                counts.add(documents, vocabulary.resolve(words))
                done += len(documents)
                work.tell(done, covered.num_rows)
        size = counts.store_terms(vocabulary)
    tokens = counts.store_documents(covered["section_key"].to_numpy())
    summary = {
        "index": index,
        "terms": json.dumps(terms.to_dict(), ensure_ascii=False),
        "content": content_of(database, source, split, version),
        "version": version,
        "documents": covered.num_rows,
        "tokens": tokens,
    }
    database.run("search/index/add", scope | summary)
    return {"documents": covered.num_rows, "tokens": tokens, "terms": size}


def _slices(reader: Database, covered: pa.Table, what: str) -> Iterator[tuple[Integers, Part]]:
    """Yield the documents of each slice, and the task of splitting their texts."""
    keys = covered["section_key"].to_numpy()
    order = np.argsort(keys)
    sizes = covered["characters"].to_numpy()[order]
    for part in stretches(sizes, rows=_SECTIONS, total=_CHARACTERS):
        sections = keys[order[part]]
        low, high = sections[[0, -1]].tolist()
        with reader.registered(wanted=pa.table({"section_key": sections})):
            texts = reader.table("search/index/texts", {"low": low, "high": high})["text"]
        yield order[part], Part(f"{what}: sections {low} to {high}", texts.combine_chunks())


class _Counts:
    """Counts over all slices; postings are stored slice by slice, the rest at the end."""

    def __init__(self, database: Database, index: int, documents: int) -> None:
        self._database = database
        self._index = {"index": index}
        self._lengths = np.zeros(documents, dtype=np.int32)
        self._document_counts = np.zeros(0, dtype=np.int64)  # document count of each term

    def add(self, documents: Integers, words: AnalysedTexts) -> None:
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
        self._count(term)
        postings = {"term_key": term, "document": (pairs >> 32).astype(np.int32)}
        with self._database.registered(new_postings=pa.table(postings | {"frequency": frequency})):
            self._database.run("search/index/append_postings", self._index)

    def _count(self, terms: Integers32) -> None:
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

    def store_documents(self, sections: Integers) -> int:
        """Store the documents, and return how many tokens they have."""
        number = np.arange(len(sections), dtype=np.int32)
        rows = {"document": number, "section_key": sections, "length": self._lengths}
        with self._database.registered(new_documents=pa.table(rows)):
            self._database.run("search/index/append_documents", self._index)
        return int(self._lengths.sum(dtype=np.int64))
