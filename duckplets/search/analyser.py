"""Texts as terms of an index that is there: what is not in its vocabulary is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.search.vocabulary import Vocabulary

if TYPE_CHECKING:
    from duckplets.search.index_store import Index

_NONE = np.zeros(0, dtype=np.int64)
_TEXTS = 4096  # analysed at once
_BYTES = 8 << 20  # of those, or one text


class Analyser:
    """Turns texts into the term keys of one index; opened once for many texts.

    with Analyser(database, index) as analyser:
        starts, terms = analyser.analyse(texts, limit=64)

    The terms of text i are ``terms[starts[i]:starts[i + 1]]``: distinct, ascending.

    Args:
        database: The corpus.
        index: One of its indexes.

    Raises:
        ExtensionError: DuckDB's fts extension is needed and missing.
    """

    def __init__(self, database: Database, index: Index) -> None:
        self._vocabulary = Vocabulary(index.terms)
        try:
            rows = database.stream(query("search/index/terms"), {"index": index.index_key})
            self._vocabulary.fix(pa.Table.from_batches([batch]) for batch in rows)
        except BaseException:
            self._vocabulary.close()
            raise

    def analyse(
        self,
        texts: pa.Array | pa.ChunkedArray,
        *,
        limit: int | None = None,
        like_match_bm25: bool = False,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return where the terms of each text begin (one more than texts), and the terms.

        Args:
            texts: Strings; NULL counts as empty.
            limit: Look at so many tokens from the beginning of each text, counted before stop
                words are left out and before equal ones are found; None means all.
            like_match_bm25: The extension's ``match_bm25`` also looks for the empty word that it
                finds before or after a text that begins or ends with a separator. It finds it
                where the stemmer makes nothing of a word, as Porter's does of s.
        """
        nothing = self._vocabulary.nothing() if like_match_bm25 else None
        texts = pc.fill_null(texts, "")
        texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        counts, terms = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
        for part in _parts(texts):
            words = self._vocabulary.read(part)
            blank = _NONE if nothing is None else words.blank(limit) << 32 | nothing
            words = (words if limit is None else words.beginning(limit)).known()
            pairs = (words.text.astype(np.int64) << 32) | words.key
            pairs = np.concatenate([pairs, blank])
            pairs.sort()  # np.unique took ten times as long: it hashes
            pairs = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]
            counts.append(np.bincount(pairs >> 32, minlength=len(part)))
            terms.append(pairs.astype(np.int32))  # the lower half
        return np.cumsum(np.concatenate(counts)), np.concatenate(terms)

    def close(self) -> None:
        """Close the instance that stems."""
        self._vocabulary.close()

    def __enter__(self) -> Analyser:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _parts(texts: pa.Array) -> list[pa.Array]:
    """Cut texts where they become too many or too long to be analysed at once."""
    ends = np.cumsum(pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64))
    parts = []
    low = 0
    while low < len(texts):
        done = int(ends[low - 1]) if low else 0
        fitting = int(np.searchsorted(ends, done + _BYTES, "right"))
        high = max(low + 1, min(low + _TEXTS, fitting))
        parts.append(texts[low:high])
        low = high
    return parts
