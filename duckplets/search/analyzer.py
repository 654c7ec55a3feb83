"""Split texts into words, and words into term keys, by a DuckDB that can stem.

texts ─split→ lists of words ─resolve→ keys of terms, one a word

Every distinct word is stemmed once. Words and terms are rows of tables and keys NumPy arrays: no
Python object is made per word, however large the vocabulary.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duckplets.db import fts as extension
from duckplets.db.database import Database
from duckplets.errors import QueryError, RecipeError
from duckplets.search.analyzer_settings import ENGLISH, LETTERS_AND_DIGITS, Terms

DROPPED = -1  # key of stop words and of words with unknown terms
EMPTY = -2  # key of the empty word between two blanks

# DuckDB scans slices of an Arrow table in parallel: at most so many texts per slice, and at least
# so many slices if texts are few and long.
_STEP = 2048
_SLICES = 16

_NONE = np.zeros(0, dtype=np.int64)
_TEXTS = 4096  # texts analysed at a time
_BYTES = 8 << 20  # characters of these, or one text


@dataclass(frozen=True, slots=True)
class AnalysedTexts:
    """The words of some texts, in their order, as arrays.

    Attributes:
        text: Which text each is of, from 0 (int32).
        key: Key of its term, or ``DROPPED`` or ``EMPTY`` (int32).
    """

    text: NDArray[np.int32]
    key: NDArray[np.int32]

    def beginning(self, limit: int) -> AnalysedTexts:
        """Return the first words of every text, at most so many, and none that is empty."""
        text, key = self.text[self.key != EMPTY], self.key[self.key != EMPTY]
        counts = np.bincount(text)
        first = np.repeat(np.cumsum(counts) - counts, counts)  # index of a text's first word
        kept = np.arange(len(text)) - first < limit
        return AnalysedTexts(text[kept], key[kept])

    def blank(self, limit: int | None) -> NDArray[np.int64]:
        """Return the texts that begin with an empty word, or end with one within the limit."""
        first = np.flatnonzero(np.diff(self.text, prepend=-1))
        last = np.append(first[1:], len(self.text)) - 1
        counts = np.bincount(self.text, weights=self.key != EMPTY)[self.text[first]]
        whole = counts <= (np.inf if limit is None else limit)
        found = (self.key[first] == EMPTY) | ((self.key[last] == EMPTY) & whole)
        texts: NDArray[np.int64] = self.text[first][found].astype(np.int64)
        return texts

    def known(self) -> AnalysedTexts:
        """Return the words that have a term."""
        kept = self.key >= 0
        return AnalysedTexts(self.text[kept], self.key[kept])


class Vocabulary:
    """The terms met so far, numbered as they come; or those of an index, and no others.

    Args:
        terms: How text becomes terms.

    Raises:
        ExtensionError: DuckDB's fts extension is needed and missing.
        RecipeError: What separates tokens is no regular expression.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._grows = True
        self._forms = {"strip_accents": terms.strip_accents, "lower": terms.lower}
        needed = terms.needs_extension
        shared = _instance(os.getpid(), stems=needed)
        self._database, self._splitter = shared.cursor(), shared.cursor()
        try:
            self._database.run("search/analyzer/tables")
            self._database.run("search/analyzer/stemmed" if needed else "search/analyzer/unstemmed")
            self._set_stop_words()
            if terms.ignore != LETTERS_AND_DIGITS:
                self._check_ignore()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Forget the words."""
        self._splitter.close()
        self._database.close()

    @property
    def size(self) -> int:
        """How many terms there are; their keys count from 0 without gaps."""
        return int(self._database.run("search/analyzer/size")[0][0])

    def fix(self, terms: Iterable[pa.Table] = ()) -> None:
        """Take no more terms: what is not there yet is unknown from now on.

        Args:
            terms: Tables of an index's terms (term, term_key), to begin with.
        """
        for table in terms:
            with self._database.registered(loaded=table):
                self._database.run("search/analyzer/load_terms")
        self._grows = False

    def nothing(self) -> int | None:
        """Return the key of the empty term, which some stemmers make of a word; None without."""
        rows = self._database.run("search/analyzer/nothing")
        return int(rows[0][0]) if rows else None

    def terms(self, low: int, high: int) -> pa.Array:
        """Return the terms with keys from ``low`` to below ``high``, in their order."""
        found = self._database.table("search/analyzer/terms", {"low": low, "high": high})
        return found["term"].combine_chunks()

    def read(self, texts: pa.Array) -> AnalysedTexts:
        """Return the words of texts."""
        return self.resolve(self.split(texts))

    def analyse(
        self,
        texts: pa.Array | pa.ChunkedArray,
        *,
        limit: int | None = None,
        like_match_bm25: bool = False,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the distinct terms of each text, ascending: where they begin, and all of them.

        The terms of text i are ``terms[starts[i]:starts[i + 1]]``.

        Args:
            texts: Strings; NULL counts as empty.
            limit: Look at so many tokens from the beginning of each text, counted before stop
                words are left out and before equal ones are found; None means all.
            like_match_bm25: The extension's ``match_bm25`` also looks for the empty word that it
                finds before or after a text that begins or ends with a separator. It finds it
                where the stemmer makes nothing of a word, as Porter's does of s.
        """
        nothing = self.nothing() if like_match_bm25 else None
        texts = pc.fill_null(texts, "")
        texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        counts, terms = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
        sizes = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        for stretch in stretches(sizes, rows=_TEXTS, total=_BYTES):
            part = texts[stretch]
            words = self.read(part)
            blank = _NONE if nothing is None else words.blank(limit) << 32 | nothing
            words = (words if limit is None else words.beginning(limit)).known()
            pairs = (words.text.astype(np.int64) << 32) | words.key
            pairs = np.concatenate([pairs, blank])
            pairs.sort()  # np.unique took ten times as long: it hashes
            pairs = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]
            counts.append(np.bincount(pairs >> 32, minlength=len(part)))
            terms.append(pairs.astype(np.int32))  # the lower half
        return np.cumsum(np.concatenate(counts)), np.concatenate(terms)

    def split(self, texts: pa.Array) -> pa.ListArray:
        """Return the list of words of each text, empty ones included.

        May run in another thread than ``resolve``.
        """
        table = pa.table({"text": texts})
        step = min(_STEP, len(texts) // _SLICES + 1)
        sliced = pa.Table.from_batches(table.to_batches(max_chunksize=step), schema=table.schema)
        ignore = self._terms.ignore
        parameters = {"ignore": ignore, "all_space": ignore == LETTERS_AND_DIGITS, **self._forms}
        with self._splitter.registered(texts=sliced):
            found = self._splitter.table("search/analyzer/words", parameters)
        return found["words"].combine_chunks()

    def resolve(self, lists: pa.ListArray) -> AnalysedTexts:
        """Return the words of lists with their keys."""
        encoded = lists.flatten().dictionary_encode()
        counts = pc.list_value_length(lists).to_numpy()
        text = np.repeat(np.arange(len(lists), dtype=np.int32), counts)
        keys = self._keys(encoded.dictionary)
        return AnalysedTexts(text, keys[encoded.indices.to_numpy()])

    def _keys(self, words: pa.Array) -> NDArray[np.int32]:
        """Return the key of each distinct word, adding new ones."""
        keys = np.full(len(words), np.iinfo(np.int32).min, dtype=np.int32)
        places = np.arange(len(words), dtype=np.int64)
        with self._database.registered(found=pa.table({"place": places, "word": words})):
            _fill(keys, self._database.table("search/analyzer/known"))
        places = np.flatnonzero(keys < EMPTY)
        if len(places):
            fresh = pa.table({"place": places, "word": words.take(pa.array(places))})
            with self._database.registered(found=fresh):
                self._database.run("search/analyzer/stem", {"stemmer": self._terms.stemmer})
            if self._grows:
                self._database.run("search/analyzer/add_terms", {"next": self.size})
            _fill(keys, self._database.table("search/analyzer/fresh"))
            self._database.run("search/analyzer/add_words")
        return keys

    def _set_stop_words(self) -> None:
        if self._terms.stop_words == ENGLISH:
            self._database.run("search/analyzer/english_words", self._forms)
        elif self._terms.stop_words:
            given = pa.table({"word": pa.array(self._terms.stop_words, pa.string())})
            with self._database.registered(given=given):
                self._database.run("search/analyzer/stop_words", self._forms)

    def _check_ignore(self) -> None:
        try:
            self.split(pa.array(["a"]))
        except QueryError as error:
            raise RecipeError(
                f"ignore={self._terms.ignore!r} is no regular expression of RE2: {error}"
            ) from error


@cache
def _instance(process: int, *, stems: bool) -> Database:
    """Return this process's instance for vocabularies: opening one takes longer than a search."""
    opened = extension.stemming() if stems else Database.scratch()
    try:
        opened.run("search/analyzer/shared")
        if stems:
            opened.run("search/analyzer/english")
    except BaseException:
        opened.close()
        raise
    return opened


def stretches(sizes: NDArray[np.integer[Any]], *, rows: int, total: int) -> Iterator[slice]:
    """Yield slices that cover n rows in order, as long as rows and sizes allow.

    Args:
        sizes: Of every row, int[n].
        rows: Most rows of a slice.
        total: Most total size of a slice; a larger row stands alone.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    low = 0
    while low < len(ends):
        done = int(ends[low - 1]) if low else 0
        fitting = int(np.searchsorted(ends, done + total, "right"))
        high = max(low + 1, min(low + rows, fitting))
        yield slice(low, high)
        low = high


def _fill(keys: NDArray[np.int32], rows: pa.Table) -> None:
    keys[rows["place"].to_numpy()] = rows["term_key"].to_numpy()
