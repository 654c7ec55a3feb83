"""Build missing or stale full-text indexes of a corpus, and read the others."""

# Slices have limits of sections and characters, so memory is bounded. Documents are numbered by a
# hash, so any range is a random sample. Slices and threads do not change the numbers of terms.

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
    "search/index/delete_words",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """Describe a stored full-text index of one source and split."""

    index_key: int  # a rebuilt index has a new one
    source: str
    split: str
    terms: Terms
    content: str  # fingerprint of its records


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexReport(Reported):
    """Report the build of the index of one source and split.

    Attributes:
        source: Name of the source.
        split: The split.
        reason: Reason of the build: ``not built``, ``records have changed`` or ``other terms``.
        documents: Indexed sections; 0 if no record remains and the index was deleted.
        tokens: Tokens of all sections, without stop words.
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
    """Build the full-text indexes that are missing or stale."""
    with working(engine, progress, "documents") as work:
        return refresh(corpus.database, terms=terms, source=source, split=split, work=work)


def refresh(
    database: Database,
    *,
    terms: Terms | None = None,
    source: str | None = None,
    split: str | None = None,
    work: Work = QUIET,
) -> list[IndexReport]:
    """Build the indexes that are missing or stale, each in a transaction of its own."""
    check_scope(database, source, split)
    external_files.check(database)
    if terms is not None:
        Vocabulary(terms).close()  # refuses invalid settings before they are stored
        value = json.dumps(terms.to_dict(), ensure_ascii=False)
        with database.transaction():
            database.run("search/index/set_settings", {"value": value})
    unfit = stale(database, source=source, split=split)
    return [_rebuilt(database, *each, work) for each in unfit]


def stale(
    database: Database, *, source: str | None = None, split: str | None = None
) -> list[tuple[str, str, str]]:
    """Return source, split and reason of every index that is missing or out of date."""
    scope = {"source": source, "split": split}
    indexes = {(index.source, index.split): index for index in stored(database, **scope)}
    pairs = set(database.run("search/index/pairs", scope))
    contents = contents_of(database, source, split, current_version(database)) if indexes else {}
    terms, found = terms_of(database), list[tuple[str, str, str]]()
    for pair in sorted(pairs | indexes.keys()):
        if pair not in indexes:
            found.append((*pair, NOT_BUILT))
        elif pair not in pairs or indexes[pair].content != contents[pair]:
            found.append((*pair, CHANGED))
        elif indexes[pair].terms != terms:
            found.append((*pair, OTHER_TERMS))
    return found


def stored(
    database: Database, *, source: str | None = None, split: str | None = None
) -> list[Index]:
    """Return the stored indexes, stale ones included, by source and split."""
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


def check_scope(database: Database, source: str | None, split: str | None) -> None:
    """Refuse a source or split that the corpus does not have."""
    if split not in (None, "every"):
        checked_split(split)
    if source is not None:
        recipe_store.check_source(database, source, current_version(database))
    need_splits(database)


# -- terms -----------------------------------------------------------------------------------------


def terms_of(database: Database) -> Terms:
    """Return the settings of text analysis."""
    rows = database.run("search/index/get_settings")
    place = StoredJson(database.path, "settings", "terms")
    settings = place.read("value", rows[0][0], dict) if rows else {}
    with place.making("value"):
        return Terms.from_dict(settings)


# -- reading ---------------------------------------------------------------------------------------


def documents(database: Database, index: Index) -> pa.Table:
    """Return document (int32, from 0 without gaps), section_key and length (int32, tokens)."""
    return database.table("search/index/documents", {"index": index.index_key})


def vocabulary(database: Database, index: Index) -> Vocabulary:
    """Return the vocabulary of an index, which accepts no new terms; the caller closes it."""
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
    """Replace an index, or delete it if no record remains."""
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
    """Store an index; return the number of its documents, tokens and terms."""
    scope, version = {"source": source, "split": split}, current_version(database)
    terms = terms_of(database)
    key = {"index": int(database.run("search/index/next_key")[0][0])}
    sections = database.table("search/index/sections", scope)
    number, done = sections.num_rows, 0
    lengths, counts = np.zeros(number, np.int32), np.zeros(0, np.int64)  # of documents, of terms
    with closing(Vocabulary(terms)) as vocabulary, closing(database.cursor()) as reader:
        slices = _slices(reader, sections, f"index of {source}, {split}")
        engine = threaded(work.engine, 1)
        with closing(mapped(engine, words_of, terms, slices, itemgetter(1))) as found:
            for (documents, _), lists in found:
                words = vocabulary.resolve(lists).known()
                lengths[documents] = np.bincount(words.text, minlength=len(documents))
                postings = _postings(documents, words)
                new = np.bincount(postings["term_key"].to_numpy(), minlength=len(counts))
                new[: len(counts)] += counts
                counts = new
                with database.registered(new_postings=postings):
                    database.run("search/index/append_postings", key)
                done += len(documents)
                work.tell(done, number)
        _store_terms(database, key, vocabulary, counts.astype(np.int32))
    rows = {"document": np.arange(number, dtype=np.int32), "section_key": sections["section_key"]}
    with database.registered(new_documents=pa.table(rows | {"length": lengths})):
        database.run("search/index/append_documents", key)
    size = {"documents": number, "tokens": int(lengths.sum(dtype=np.int64))}
    values = {
        "terms": json.dumps(terms.to_dict(), ensure_ascii=False),
        "content": content_of(database, source, split, version),
        "version": version,
    }
    database.run("search/index/add", key | scope | size | values)
    return size | {"terms": len(counts)}


def _slices(reader: Database, sections: pa.Table, what: str) -> Iterator[tuple[Integers, Part]]:
    """Yield the documents of each slice, and the task of splitting their texts."""
    keys = sections["section_key"].to_numpy()
    order = np.argsort(keys)
    sizes = sections["characters"].to_numpy()[order]
    for part in stretches(sizes, rows=_SECTIONS, total=_CHARACTERS):
        wanted = keys[order[part]]
        low, high = wanted[[0, -1]].tolist()
        with reader.registered(wanted=pa.table({"section_key": wanted})):
            texts = reader.table("search/index/texts", {"low": low, "high": high})["text"]
        yield order[part], Part(f"{what}: sections {low} to {high}", texts.combine_chunks())


def _store_terms(
    database: Database, key: dict[str, int], vocabulary: Vocabulary, counts: Integers32
) -> None:
    """Store words and terms, with the number of documents of each term."""
    for low in range(0, len(counts), _ROWS):
        high = min(low + _ROWS, len(counts))
        rows = {"term_key": np.arange(low, high, dtype=np.int32)}
        rows |= {"term": vocabulary.terms(low, high), "document_count": counts[low:high]}
        with database.registered(new_terms=pa.table(rows)):
            database.run("search/index/append_terms", key)
    for batch in vocabulary.words(_ROWS):
        with database.registered(new_words=pa.Table.from_batches([batch])):
            database.run("search/index/append_words", key)


def _postings(documents: Integers, words: AnalysedTexts) -> pa.Table:
    """Return the frequency of each term in each document of a slice, by document and term."""
    pairs = (documents[words.text] << 32) | words.key
    pairs.sort()
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    frequency = np.diff(first, append=len(pairs)).astype(np.int32)
    pairs = pairs[first]
    columns = {"term_key": pairs.astype(np.int32), "document": (pairs >> 32).astype(np.int32)}
    return pa.table(columns | {"frequency": frequency})
