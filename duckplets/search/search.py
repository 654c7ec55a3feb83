"""Search a corpus, source or split for the sections that fit a text best, by BM25.

    text ─terms of each index→ wanted ─ranked_sections→ hits ─snippets→ rows

The indexes of a scope count as one collection: their documents, lengths and document counts are
added up. ``ranked_sections`` is a macro of the corpus file, so the duckdb CLI ranks as this does.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from duckplets.base.checks import integer
from duckplets.db.database import Database
from duckplets.errors import QueryError, ReadOnlyError, SamplerError
from duckplets.search import index
from duckplets.search.analyzer import Vocabulary
from duckplets.search.analyzer_settings import Terms
from duckplets.search.index import Index

_SNIPPET = 200  # approximate characters of a snippet
_BEFORE = 60  # most characters before the match
_FIRST_LOOK = 256  # words searched for a match at first; then more
_GROWTH = 8

SCHEMA = pa.schema(
    {
        "record_id": pa.string(),
        "score": pa.float64(),
        "text": pa.string(),
        "source": pa.string(),
        "split": pa.string(),
        "section": pa.int32(),
        "role": pa.string(),
        "snippet": pa.string(),
    }
)


class UnfitIndexError(ReadOnlyError, QueryError):
    """An index is missing or stale, and the corpus is open read-only."""


def search(
    database: Database,
    text: str,
    k: int = 10,
    *,
    source: str | None = None,
    split: str | None = None,
) -> pa.Table:
    """Return the k sections that fit a text best; fewer where fewer share a term with it.

    Indexes that are missing or stale are built first. Scores are those of ``match_bm25`` over the
    sections of the scope. A source with settings of its own has the text analysed by them, and a
    term counts in the indexes where it was asked for.

    Args:
        database: The corpus.
        text: Any text; nothing in it is syntax.
        k: Rows, at most.
        source: Search this source only.
        split: Search this split only.

    Returns:
        Rows of record_id, score, text (of the section), source, split, section (its position in
        the record), role and snippet (some 200 characters around the first word that fits); the
        best first, equals by record_id and section.

    Raises:
        SamplerError, SplitError: An argument is wrong, or the corpus has no splits yet.
        UnfitIndexError: An index would have to be built, and the corpus is open read-only.
        ExtensionError: DuckDB's fts extension is needed and missing.
    """
    k = integer("k", k, 1)
    if not isinstance(text, str):
        raise SamplerError(f"text={text!r}: give a text to search for")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SamplerError(f"text={text!r}: it holds half of a surrogate pair") from None
    indexes = _indexes(database, source, split)
    with ExitStack() as stack:
        asked = {
            terms: stack.enter_context(closing(_asked(terms, text)))
            for terms in {each.terms for each in indexes}
        }
        terms = [_terms(asked[each.terms]) for each in indexes]
        if not any(map(len, terms)):
            return SCHEMA.empty_table()
        keys = pa.array([each.index_key for each in indexes], pa.int32())
        wanted = pa.table({"index_key": keys, "terms": pa.array(terms, pa.list_(pa.string()))})
        with database.registered(wanted=wanted):
            hits = database.table("search/ranked", {"k": k})
        terms_of = {each.index_key: each.terms for each in indexes}
        snippets = _snippets(hits, {key: asked[terms] for key, terms in terms_of.items()})
    return hits.drop_columns("index_key").append_column("snippet", snippets).cast(SCHEMA)


def _indexes(database: Database, source: str | None, split: str | None) -> list[Index]:
    """Return the indexes of a scope, rebuilding those that do not fit."""
    index.check_scope(database, source, split)
    unfit = index.stale(database, source=source, split=split)
    if unfit and not database.read_only:
        with database.changing("index"):
            index.refresh(database, source=source, split=split)
    elif unfit:
        name, of_split, reason = unfit[0]
        raise UnfitIndexError(
            f"the index of source {name!r}, split {of_split!r} does not fit ({reason}), and the "
            f"corpus is open read-only; run: duckplets search {database.path} …"
        )
    return index.stored(database, source=source, split=split)


def _asked(terms: Terms, text: str) -> Vocabulary:
    """Return a vocabulary of the terms of a query, and no others."""
    vocabulary = Vocabulary(terms)
    vocabulary.read(pa.array([text]))
    vocabulary.fix()
    return vocabulary


def _terms(vocabulary: Vocabulary) -> list[str]:
    found: list[str] = vocabulary.terms(0, vocabulary.size).to_pylist()
    return found


# -- snippets --------------------------------------------------------------------------------------


class _Text:
    """A text whose words are split on demand."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = []
        self.rest = text

    def look(self, count: int) -> list[str]:
        """Return the next words."""
        found = self.rest.split(None, count)
        self.rest = found.pop() if len(found) > count else ""
        self.words += found
        return found


def _snippets(hits: pa.Table, asked: dict[int, Vocabulary]) -> pa.Array:
    """Return a snippet of every hit, around its first matching word."""
    texts = [_Text(text) for text in hits["text"].to_pylist()]
    keys = hits["index_key"].to_pylist()
    places = np.zeros(len(texts), dtype=np.int64)
    for vocabulary in set(asked.values()):
        of = [i for i, key in enumerate(keys) if asked[key] is vocabulary]
        places[of] = _first_places([texts[i] for i in of], vocabulary)
    return pa.array(map(_around, texts, places.tolist()), pa.string())


def _first_places(texts: list[_Text], vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Return the index of the first matching word of each text, else 0.

    A word here is what stands between white space, and may hold several of the index's.
    """
    places = np.full(len(texts), -1, dtype=np.int64)
    count = _FIRST_LOOK
    while len(left := [i for i in np.flatnonzero(places < 0).tolist() if texts[i].rest]):
        before = np.array([len(texts[i].words) for i in left])
        words = [texts[i].look(count) for i in left]
        sizes = np.array([len(part) for part in words])
        read = vocabulary.read(pa.array([w for part in words for w in part], pa.string())).known()
        of_text = np.repeat(np.arange(len(left)), sizes)[read.text]
        first = np.flatnonzero(np.diff(of_text, prepend=-1))
        found = of_text[first]
        starts = (np.cumsum(sizes) - sizes)[found]
        places[np.array(left)[found]] = before[found] + read.text[first] - starts
        count *= _GROWTH
    return np.maximum(places, 0)


def _around(text: _Text, place: int) -> str:
    """Return the words around an index, with ellipses where some are left out."""
    text.look(_SNIPPET)
    words = text.words
    if not words:
        return ""
    low = place - _fitting(words[:place][::-1], _BEFORE)
    room = _SNIPPET - sum(len(word) + 1 for word in words[low:place])
    high = place + max(1, _fitting(words[place:], room))
    room = _SNIPPET - sum(len(word) + 1 for word in words[low:high])
    low -= _fitting(words[:low][::-1], room)
    shown = " ".join(_cut(word) for word in words[low:high])
    more = high < len(words) or text.rest
    return f"{'… ' if low else ''}{shown}{' …' if more else ''}"


def beginning(text: str) -> str:
    """Return the first words of a text, as many as a snippet has."""
    return _around(_Text(text), 0)


def _fitting(words: Iterable[str], room: int) -> int:
    """Return how many words fit, with a blank after each."""
    count = 0
    for word in words:
        room -= len(word) + 1
        if room < 0:
            break
        count += 1
    return count


def _cut(word: str) -> str:
    return word if len(word) <= _SNIPPET else f"{word[:_SNIPPET]}…"
