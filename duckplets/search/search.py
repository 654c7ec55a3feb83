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

from duckplets.base.arrays import Integers
from duckplets.base.checks import integer
from duckplets.base.settings import checked
from duckplets.db.database import Database
from duckplets.errors import QueryError, ReadOnlyError, SamplerError
from duckplets.search import index
from duckplets.search.analyzer import Vocabulary
from duckplets.search.analyzer_settings import Terms
from duckplets.search.index import Index

_SNIPPET = 200  # approximate characters of a snippet
_BEFORE = 60  # most characters before the match
_LOOKED = 1 << 16  # words among which a match is looked for

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
    term counts in the indexes where it was asked for. See ``Corpus.search``.

    Raises:
        UnfitIndexError: An index would have to be built, and the corpus is open read-only.
    """
    k, text = integer("k", k, 1), checked("text", text, str, SamplerError)
    indexes = _indexes(database, source, split)
    with ExitStack() as stack:
        asked = {
            terms: stack.enter_context(closing(_asked(terms, text)))
            for terms in {each.terms for each in indexes}
        }
        vocabularies = {each.index_key: asked[each.terms] for each in indexes}
        terms = [found.terms(0, found.size).to_pylist() for found in vocabularies.values()]
        if not any(map(len, terms)):
            return SCHEMA.empty_table()
        keys = pa.array(vocabularies, pa.int32())
        wanted = pa.table({"index_key": keys, "terms": pa.array(terms, pa.list_(pa.string()))})
        with database.registered(wanted=wanted):
            hits = database.table("search/ranked", {"k": k})
        snippets = _snippets(hits, vocabularies)
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


# -- snippets --------------------------------------------------------------------------------------


def _snippets(hits: pa.Table, asked: dict[int, Vocabulary]) -> pa.Array:
    """Return a snippet of every hit, around its first matching word."""
    texts = [text.split(None, _LOOKED) for text in hits["text"].to_pylist()]
    keys = hits["index_key"].to_pylist()
    places = np.zeros(len(texts), dtype=np.int64)
    for vocabulary in set(asked.values()):
        of = [i for i, key in enumerate(keys) if asked[key] is vocabulary]
        places[of] = _first_places([texts[i] for i in of], vocabulary)
    return pa.array(map(_around, texts, places.tolist()), pa.string())


def _first_places(texts: list[list[str]], vocabulary: Vocabulary) -> Integers:
    """Return the index of the first matching word of each text, else 0.

    A word here is what stands between white space, and may hold several of the index's.
    """
    sizes = np.array([len(words) for words in texts], np.int64)
    read = vocabulary.read(pa.array([word for words in texts for word in words], pa.string()))
    matching = read.known().text
    found, first = np.unique(np.repeat(np.arange(len(texts)), sizes)[matching], return_index=True)
    places = np.zeros(len(texts), np.int64)
    places[found] = matching[first] - (np.cumsum(sizes) - sizes)[found]
    return places


def _around(words: list[str], place: int) -> str:
    """Return the words around an index, with ellipses where some are left out."""
    if not words:
        return ""
    low = place - _fitting(words[:place][::-1], _BEFORE)
    room = _SNIPPET - sum(len(word) + 1 for word in words[low:place])
    high = place + max(1, _fitting(words[place:], room))
    room = _SNIPPET - sum(len(word) + 1 for word in words[low:high])
    low -= _fitting(words[:low][::-1], room)
    shown = " ".join(_cut(word) for word in words[low:high])
    return f"{'… ' if low else ''}{shown}{' …' if high < len(words) else ''}"


def beginning(text: str) -> str:
    """Return the first words of a text, as many as a snippet has."""
    return _around(text.split(None, _SNIPPET), 0)


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
