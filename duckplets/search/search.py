"""Search a corpus, source or split for the sections that fit a text best, by BM25."""

# The indexes of a scope act as one collection: documents, lengths and counts are added up.

from __future__ import annotations

import itertools
import re
from contextlib import closing
from itertools import pairwise

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.base.checks import integer
from duckplets.base.settings import checked
from duckplets.db.database import Database
from duckplets.errors import QueryError, ReadOnlyError, SamplerError
from duckplets.search import index
from duckplets.search.analyzer import Vocabulary
from duckplets.search.index import Index
from duckplets.text.words import PAIRED

_SNIPPET = 200  # approximate characters of a snippet
_BEFORE = 60  # most characters before the match
_SEARCHED = 1 << 16  # first words of a text that are searched for a match
_PIECE = 10  # characters of a piece of a script without spaces
_WORD = re.compile(rf"([{PAIRED}]{{1,{_PIECE}}}|[^\s{PAIRED}]+)(\s*)")

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
    """Raised if an index is missing or stale, and the corpus is open read-only."""


def search(
    database: Database,
    text: str,
    k: int = 10,
    *,
    source: str | None = None,
    split: str | None = None,
) -> pa.Table:
    """Return the k sections that fit a text best, or all that share a term with it."""
    k, text = integer("k", k, 1), checked("text", text, str, SamplerError)
    indexes = _indexes(database, source, split)
    with closing(Vocabulary(index.terms_of(database))) as vocabulary:
        vocabulary.read(pa.array([text]))
        vocabulary.fix()
        terms = vocabulary.terms(0, vocabulary.size).to_pylist()
        if not terms or not indexes:
            return SCHEMA.empty_table()
        keys = pa.array([each.index_key for each in indexes], pa.int32())
        wanted = pa.table({"index_key": keys, "terms": [terms] * len(indexes)})
        with database.registered(wanted=wanted):
            hits = database.table("search/ranked", {"k": k})
        texts = [_words(text) for text in hits["text"].to_pylist()]
        snippets = map(_around, texts, _first_places(texts, vocabulary).tolist())
    return hits.append_column("snippet", pa.array(snippets, pa.string())).cast(SCHEMA)


def _indexes(database: Database, source: str | None, split: str | None) -> list[Index]:
    """Return the indexes of a scope; rebuild stale ones."""
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


# -- snippets --------------------------------------------------------------------------------------


def _words(text: str, most: int = _SEARCHED) -> list[str]:
    """Return the first words of a text, each with a blank if white space follows it."""
    # a snippet begins and ends with a word, so text without spaces is cut into pieces
    found = itertools.islice(_WORD.finditer(text), most)
    return [word[1] + " " * bool(word[2]) for word in found]


def _first_places(texts: list[list[str]], vocabulary: Vocabulary) -> Integers:
    """Return the index of the first matching word of each text, or 0."""
    sizes = np.array([len(words) for words in texts], np.int64)
    # a pair may begin in one piece and end in the next
    words = [a + b[:_PIECE] * (len(a) >= _PIECE) for t in texts for a, b in pairwise([*t, ""])]
    matching = vocabulary.read(pa.array(words, pa.string())).known().text
    found, first = np.unique(np.repeat(np.arange(len(texts)), sizes)[matching], return_index=True)
    places = np.zeros(len(texts), np.int64)
    places[found] = matching[first] - (np.cumsum(sizes) - sizes)[found]
    return places


def _around(words: list[str], place: int) -> str:
    """Return the words around an index, with ellipses for missing words."""
    first, last, size = place, place, 0
    while first and size + len(words[first - 1]) <= _BEFORE:
        first -= 1
        size += len(words[first])
    while last < len(words) and size + len(words[last].rstrip()) <= _SNIPPET:
        size += len(words[last])
        last += 1
    shown = "".join(words[first:last])
    if last == place < len(words):  # the word is longer than a snippet
        shown, last = f"{shown}{words[place][: _SNIPPET - size]}…", place + 1
    return " ".join(filter(None, ["…" * bool(first), shown.rstrip(), "…" * (last < len(words))]))


def beginning(text: str) -> str:
    """Return the snippet of the beginning of a text."""
    return _around(_words(text, _SNIPPET), 0)
