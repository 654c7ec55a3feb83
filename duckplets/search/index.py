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
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from duckplets.base.documents import StoredJson
from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, listed
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.db.writes import CorpusFile, changes
from duckplets.engine.inline import INLINE, threaded
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.engine.work import QUIET, Work, working
from duckplets.errors import SamplerError, nearest
from duckplets.ingest.chunks import content_of, contents_of
from duckplets.ingest.records import current_version
from duckplets.ingest.splits import checked_split, need_splits
from duckplets.search.analyzer import AnalysedTexts, Vocabulary, stretches
from duckplets.search.analyzer_settings import Terms

_SECTIONS = 16_384  # most sections of a slice
_CHARACTERS = 16 << 20  # most characters of a slice, or one section
_ROWS = 1 << 18  # rows of an Arrow table of documents or terms


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
    """Some sections, in order of keys."""

    sections: NDArray[np.int64]
    documents: NDArray[np.int64]


_Piece = tuple[_Slice, pa.Array]


def _slices(covered: pa.Table) -> list[_Slice]:
    """Cut the sections of an index, given in order of documents, into slices."""
    keys = covered["section_key"].to_numpy()
    documents = np.argsort(keys)
    sizes = covered["characters"].to_numpy()[documents]
    return [
        _Slice(keys[documents[part]], documents[part])
        for part in stretches(sizes, rows=_SECTIONS, total=_CHARACTERS)
    ]


def _texts(reader: Database, slices: list[_Slice]) -> Iterator[_Piece]:
    """Yield each slice with its texts."""
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
    """Counts over all slices; postings are stored slice by slice, the rest at the end."""

    def __init__(self, database: Database, index: int, documents: int) -> None:
        self._database = database
        self._index = {"index": index}
        self._lengths = np.zeros(documents, dtype=np.int32)
        self._document_counts = np.zeros(0, dtype=np.int64)  # document count of each term

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


_TERMS = {
    "stemmer?": str,
    "stop_words?": (str, [str]),
    "ignore?": str,
    "strip_accents?": bool,
    "lower?": bool,
}
NOT_BUILT = "not built"
CHANGED = "records have changed"
OTHER_TERMS = "other terms"

_DELETE = (
    *("search/index/delete", "search/index/delete_terms"),
    *("search/index/delete_documents", "search/index/delete_postings"),
)
_ALL = ""  # key of the settings of sources without their own
_NOTHING = Built(documents=0, tokens=0, terms=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """A stored full-text index of one source and split.

    Attributes:
        index_key: Its number; another once it is built again.
        source: Name of the source.
        split: The split.
        documents: Sections it covers, empty ones included; numbered from 0.
        tokens: Of all of them, stop words left out.
        terms: How text became terms.
        content: Fingerprint of the records it was made from.
    """

    index_key: int
    source: str
    split: str
    documents: int
    tokens: int
    terms: Terms
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexReport(Reported):
    """What ``refresh`` did about one source and split.

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
    documents: int
    tokens: int
    terms: int
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
        progress: As for ``ingest``.

    Raises:
        ExtensionError: Stemming needs DuckDB's fts extension, and it is not to be found.
        RecipeError, SplitError: An argument is wrong, or there are no splits yet.
    """
    with working(engine, progress, "documents") as work:
        return refresh(corpus.database, terms=terms, source=source, split=split, work=work)


def terms(corpus: CorpusFile, /, source: str | None = None, **changes: Any) -> Terms:
    """Return how text becomes terms, some settings changed, for ``index``.

    Args:
        source: In this source; by default in all that have no settings of their own.
        changes: Fields of ``Terms``.

    Raises:
        RecipeError: A setting is unknown or wrong.
    """
    return Terms.from_dict(terms_of(corpus.database, source).to_dict() | changes)


def refresh(
    database: Database,
    *,
    terms: Terms | None = None,
    source: str | None = None,
    split: str | None = None,
    work: Work = QUIET,
) -> list[IndexReport]:
    """Build the indexes that are missing or stale, each in a transaction of its own.

    An interruption loses the one being built; those before it stay, and so does what it was to
    replace.

    Args:
        database: The corpus, open for writing.
        terms: How text becomes terms from now on, in the source or in all sources; kept with the
            corpus. None leaves it as it is.
        source: Look at this source only.
        split: Look at this split only.
        work: Splits texts into words; told of documents done, after every few thousand.

    Returns:
        What was done, by source and split; nothing about indexes that fit.

    Raises:
        SamplerError, SplitError: There is no such source or split, or no splits yet.
        RecipeError: ``ignore`` is no regular expression.
        ExtensionError: DuckDB's fts extension is needed and missing.
        ChangedFileError: A file that texts were left in is not as it was.
    """
    check_scope(database, source, split)
    external_files.check(database)
    if terms is not None:
        Vocabulary(terms).close()  # refuses invalid settings before they are stored
        set_terms(database, terms, source)
    unfit = stale(database, source=source, split=split)
    total = _sizes(database, unfit) if work.progress else 0
    done = 0

    def told(documents: int) -> None:
        nonlocal done
        done += documents
        work.tell(done, total)

    reports = []
    for name, of_split, reason in unfit:
        begun = time.perf_counter()
        built = _replace(database, name, of_split, told, work.engine)
        seconds = time.perf_counter() - begun
        reports.append(
            IndexReport(
                source=name, split=of_split, reason=reason, seconds=seconds, **asdict(built)
            )
        )
    return reports


def stale(
    database: Database, *, source: str | None = None, split: str | None = None
) -> list[tuple[str, str, str]]:
    """Return source, split and reason of every index that is missing or does not fit.

    The reason is ``not built``, ``records have changed`` (also where none is left), or
    ``other terms``.
    """
    scope = {"source": source, "split": split}
    version = current_version(database)
    indexes = {(index.source, index.split): index for index in stored(database, **scope)}
    pairs = database.run("search/index/pairs", scope)
    found = [(*pair, CHANGED) for pair in indexes.keys() - set(pairs)]
    contents = contents_of(database, source, split, version) if indexes else {}
    for pair in pairs:
        index = indexes.get(pair)
        reason = _reason(database, index, contents[pair]) if index else NOT_BUILT
        found += [(*pair, reason)] if reason else []
    return sorted(found)


def stored(
    database: Database, *, source: str | None = None, split: str | None = None
) -> list[Index]:
    """Return the indexes that there are, stale ones included, by source and split."""
    rows = database.run("search/index/stored", {"source": source, "split": split})
    return [
        Index(
            index_key=int(key),
            source=name,
            split=of_split,
            documents=int(documents),
            tokens=int(tokens),
            terms=_terms(database, f"source {name!r}, split {of_split!r}", terms),
            content=content,
        )
        for key, name, of_split, documents, tokens, terms, content in rows
    ]


def current(database: Database, source: str, split: str) -> Index | None:
    """Return the index of a source and split, or None where it is missing or stale."""
    for index in stored(database, source=source, split=split):
        content = content_of(database, source, split, current_version(database))
        if not _reason(database, index, content):
            return index
    return None


def check_scope(database: Database, source: str | None, split: str | None) -> None:
    """Refuse a source or split that is not there.

    Raises:
        SamplerError, SplitError: There is no such source or split, or no splits yet.
    """
    if split is not None:
        checked_split(split)
    sources = [
        name
        for name, _ in database.run("recipes/store/sources", {"version": current_version(database)})
    ]
    if source is not None and source not in sources:
        raise SamplerError(
            f"no source {source!r}{nearest(str(source), sources)}; there are: "
            f"{listed(sources) or 'none'}"
        )
    need_splits(database)


# -- terms


def terms_of(database: Database, source: str | None) -> Terms:
    """Return how the texts of a source, or of all others, become terms by the settings."""
    settings = _settings(database)
    return Terms.from_dict(settings.get(source or _ALL, settings.get(_ALL, {})))


def _settings(database: Database) -> dict[str, Mapping[str, Any]]:
    rows = database.run("search/index/get_settings")
    if not rows:
        return {}
    place = StoredJson(database.path, "settings", "terms")
    found: dict[str, Mapping[str, Any]] = place.read("value", rows[0][0], {str: _TERMS})
    return found


def _terms(database: Database, row: str, text: Any) -> Terms:
    """Return the terms of an index from JSON."""
    place = StoredJson(database.path, "text_indexes", row)
    found = place.read("terms", text, _TERMS)
    with place.making("terms"):
        return Terms.from_dict(found)


def set_terms(database: Database, terms: Terms, source: str | None) -> None:
    """Store how the texts of a source, or of all, become terms from now on."""
    settings = {} if source is None else _settings(database)
    settings[source or _ALL] = terms.to_dict()
    with database.transaction():
        value = json.dumps(settings, ensure_ascii=False)
        database.run("search/index/set_settings", {"value": value})


# -- rows out --------------------------------------------------------------------------------------


def postings(database: Database, index: Index, low: int, high: int) -> pa.Table:
    """Return the postings of documents ``low <= document < high``.

    Columns term_key, document, frequency (int32); rows by term_key, then document.
    """
    return database.table(
        "search/index/postings", {"index": index.index_key, "low": low, "high": high}
    )


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


def vocabulary_size(database: Database, index: Index) -> int:
    """Return how many terms an index has; their keys count from 0 without gaps."""
    return int(database.run("search/index/size", {"index": index.index_key})[0][0])


def _sizes(database: Database, pairs: list[tuple[str, str, str]]) -> int:
    """Return the total number of documents of some pairs."""
    sizes = {(name, split): int(size) for name, split, size in database.run("search/index/sizes")}
    return sum(sizes.get((name, split), 0) for name, split, _ in pairs)


# -- one index -------------------------------------------------------------------------------------


def _reason(database: Database, index: Index, content: str) -> str | None:
    """Return why an index does not fit the records, or None."""
    if index.content != content:
        return CHANGED
    return OTHER_TERMS if index.terms != terms_of(database, index.source) else None


def _replace(
    database: Database,
    source: str,
    split: str,
    told: Callable[[int], None],
    engine: Engine,
) -> Built:
    """Rebuild an index, or delete it if no record is left."""
    version = current_version(database)
    scope = {"source": source, "split": split}
    with database.transaction():
        for index in stored(database, **scope):
            for part in _DELETE:
                database.run(part, {"index": index.index_key})
        if not database.run("search/index/pairs", scope):
            return _NOTHING
        content = content_of(database, source, split, version)
        terms = terms_of(database, source)
        return build(
            database, terms, content=content, version=version, told=told, engine=engine, **scope
        )
