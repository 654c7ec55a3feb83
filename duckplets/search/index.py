"""Keep the full-text indexes of a corpus: build those that are missing or stale, read the others.

    sections ─split→ words ─stem→ terms ─count→ index_terms, index_documents, index_postings

A document is a section. An index covers all live sections of one source and split, whatever their
role, at the newest version; it is replaced as a whole once its records or settings have changed.
How it is built is in ``build``, how texts become terms in ``vocabulary``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from duckplets.base.plain import StoredJson
from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, listed
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.db.writes import CorpusFile, changes
from duckplets.engine.protocol import Engine
from duckplets.engine.work import QUIET, Work, working
from duckplets.errors import SamplerError, nearest
from duckplets.ingest.chunks import content_of, contents_of
from duckplets.ingest.records import current_version
from duckplets.ingest.splits import checked_split, need_splits
from duckplets.search.analyzer import Vocabulary
from duckplets.search.analyzer_settings import Terms
from duckplets.search.build import Built, build

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
_ALL = ""  # among the settings by source: of those that have none of their own
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
        Vocabulary(terms).close()  # refuses what does not work, before it is kept
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
    """Return how many documents some pairs have together."""
    sizes = {(name, split): int(size) for name, split, size in database.run("search/index/sizes")}
    return sum(sizes.get((name, split), 0) for name, split, _ in pairs)


# -- one index -------------------------------------------------------------------------------------


def _reason(database: Database, index: Index, content: str) -> str | None:
    """Return why an index does not fit the records as they are, or None."""
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
    """Build an index in the place of the one that is there, or delete that if no record is left."""
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
