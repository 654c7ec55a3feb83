"""Split texts into words, and words into term keys, by a DuckDB that can stem."""

# Words and terms are rows of tables, so no Python object is made per word.

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, Integers32, stretches, turns
from duckplets.db import extensions
from duckplets.db.database import Database
from duckplets.db.queries import migrations, query
from duckplets.errors import QueryError, RecipeError
from duckplets.search.analyzer_settings import ENGLISH, LETTERS_AND_DIGITS, Terms
from duckplets.search.segmenters import Segmenter, segmented

DROPPED = -1  # key of stop words and of words with unknown terms
EMPTY = -2  # key of the empty word between two blanks

# DuckDB scans slices of an Arrow table in parallel.
_STEP = 2048  # texts of a slice, at most
_SLICES = 16  # slices, at least, for few long texts

_TEXTS = 4096  # texts analysed at a time
_BYTES = 8 << 20  # their characters, at most, or one text


@dataclass(frozen=True, slots=True)
class AnalysedTexts:
    """Hold the words of some texts, in their order, as arrays."""

    text: Integers32  # the text of each word, from 0
    key: Integers32  # of its term, or ``DROPPED`` or ``EMPTY``

    def beginning(self, limit: int) -> AnalysedTexts:
        """Return the first ``limit`` words of every text, without empty ones."""
        text, key = self.text[self.key != EMPTY], self.key[self.key != EMPTY]
        is_first = turns(text) < limit
        return AnalysedTexts(text[is_first], key[is_first])

    def blank(self, limit: int) -> Integers:
        """Return the texts that begin with an empty word, or end with one within the limit."""
        first = np.flatnonzero(np.diff(self.text, prepend=-1))
        last = np.append(first[1:], len(self.text)) - 1
        counts = np.bincount(self.text, weights=self.key != EMPTY)[self.text[first]]
        found = (self.key[first] == EMPTY) | ((self.key[last] == EMPTY) & (counts <= limit))
        return np.asarray(self.text[first][found], np.int64)

    def known(self) -> AnalysedTexts:
        """Return the words that have a term."""
        is_known = self.key >= 0
        return AnalysedTexts(self.text[is_known], self.key[is_known])


class Vocabulary:
    """Number terms in the order of their appearance, or use the terms of an index only."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._grows = True
        needed = terms.needs_extension
        self._database = _instance(os.getpid(), stems=needed).cursor()
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
        """Delete the words and terms."""
        self._database.close()

    @property
    def size(self) -> int:
        """Number of terms; their keys count from 0 without gaps."""
        return int(self._database.run("search/analyzer/size")[0][0])

    def fix(self, terms: Iterable[pa.Table] = ()) -> None:
        """Load the terms of an index (tables of term and term_key), and accept no new ones."""
        for table in terms:
            with self._database.registered(loaded=table):
                self._database.run("search/analyzer/load_terms")
        self._grows = False

    def terms(self, low: int, high: int) -> pa.Array:
        """Return the terms with keys from ``low`` to below ``high``, in their order."""
        found = self._database.table("search/analyzer/terms", {"low": low, "high": high})
        return found["term"].combine_chunks()

    def words(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the words that were read, with the keys of their terms; NULL for stop words."""
        return self._database.stream(query("search/analyzer/words_read"), rows=rows)

    def read(self, texts: pa.Array) -> AnalysedTexts:
        """Return the words of texts."""
        return self.resolve(words_of(self._terms, texts))

    def analyse(self, texts: pa.ChunkedArray, limit: int) -> tuple[Integers, Integers32]:
        """Return ``starts`` (int64[texts + 1]) and the distinct ``terms`` (int32) of each text."""
        # As in ``match_bm25``: the limit counts tokens before stop words are removed. An empty word
        # at the beginning or end of a text counts, and equals an empty stem.
        nothing = self._database.run("search/analyzer/nothing")
        texts = texts.combine_chunks()
        counts, terms = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
        sizes = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        for stretch in stretches(sizes, rows=_TEXTS, total=_BYTES):
            part = texts[stretch]
            words = self.read(part)
            found = words.beginning(limit).known()
            pairs = [(found.text.astype(np.int64) << 32) | found.key]
            pairs += [words.blank(limit) << 32 | key for (key,) in nothing]
            both = np.concatenate(pairs)
            both.sort()  # np.unique hashes, and took ten times as long
            both = both[np.flatnonzero(np.diff(both, prepend=-1))]
            counts.append(np.bincount(both >> 32, minlength=len(part)))
            terms.append(both.astype(np.int32))  # the lower half
        return np.cumsum(np.concatenate(counts)), np.concatenate(terms)

    def resolve(self, lists: pa.ListArray) -> AnalysedTexts:
        """Return the words of lists with their keys."""
        encoded = lists.flatten().dictionary_encode()
        counts = pc.list_value_length(lists).to_numpy()
        text = np.repeat(np.arange(len(lists), dtype=np.int32), counts)
        keys = self._keys(encoded.dictionary)
        return AnalysedTexts(text, keys[encoded.indices.to_numpy()])

    def _keys(self, words: pa.Array) -> Integers32:
        """Return the key of each distinct word, adding new ones."""
        places = np.arange(len(words), dtype=np.int64)
        with self._database.registered(found=pa.table({"place": places, "word": words})):
            self._database.run("search/analyzer/stem", {"stemmer": self._terms.stemmer})
            if self._grows:
                self._database.run("search/analyzer/add_terms", {"next": self.size})
            self._database.run("search/analyzer/add_words")
            keys = self._database.table("search/analyzer/keys")["term_key"]
        return np.asarray(keys.to_numpy(), np.int32)

    def _set_stop_words(self) -> None:
        if self._terms.stop_words == ENGLISH:
            self._database.run("search/analyzer/english_words")
        elif self._terms.stop_words:
            words = pa.table({"word": pa.array(self._terms.stop_words, pa.string())})
            with self._database.registered(given=words):
                self._database.run("search/analyzer/stop_words")

    def _check_ignore(self) -> None:
        try:
            words_of(self._terms, pa.array(["a"]))
        except QueryError as error:
            raise RecipeError(
                f"ignore={self._terms.ignore!r} is not a regular expression of RE2: {error}"
            ) from error


def words_of(terms: Terms, texts: pa.Array) -> pa.ListArray:
    """Return the list of words of each text, empty ones included."""
    settings = {"ignore": terms.ignore, "all_space": terms.ignore == LETTERS_AND_DIGITS}
    settings["pairs"] = terms.words is None
    if isinstance(terms.words, Segmenter):
        texts = segmented(terms.words, texts)
    table = pa.table({"text": texts})
    step = min(_STEP, len(texts) // _SLICES + 1)
    sliced = pa.Table.from_batches(table.to_batches(max_chunksize=step), schema=table.schema)
    shared = _instance(os.getpid(), stems=terms.needs_extension)
    with closing(shared.cursor()) as database, database.registered(texts=sliced):
        found = database.table("search/analyzer/words", settings)
    return found["words"].combine_chunks()


@cache
def _instance(process: int, *, stems: bool) -> Database:
    """Return the instance of this process for vocabularies; opening one is slower than a search."""
    opened = extensions.stemming() if stems else Database.scratch()
    macros = next(text for _, name, text in migrations("corpus") if name.endswith("_words"))
    try:
        opened.rows(macros)
        opened.run("search/analyzer/shared")
        if stems:
            opened.run("search/analyzer/english")
    except BaseException:
        opened.close()
        raise
    return opened
