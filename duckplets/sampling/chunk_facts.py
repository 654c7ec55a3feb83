"""The chunk index: what every chunk is, apart from its text, in arrays of 40 bytes a chunk.

So that the statement of a block joins the sections alone: with chunks and records joined as well
it took 1.6 times the processor time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from duckplets.base.arrays import Integers

if TYPE_CHECKING:
    from duckplets.db.database import Database


class Index(Protocol):
    """What every window, or every conversation, of a corpus is, apart from its text, by key."""

    def __getitem__(self, keys: Integers) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weight of some, and where their texts are."""

    def tokens(self, keys: Integers) -> Integers:
        """Return how many tokens each has."""

    def rows(self, keys: Integers) -> Integers:
        """Return where each is among all, by key."""


class ChunkIndex:
    """What every chunk of a corpus is, apart from its text, by key.

    Args:
        database: The corpus.
        chunking: Fingerprint of the chunks: what they were made with.
    """

    def __init__(self, database: Database, chunking: Mapping[str, Any]) -> None:
        rows = database.table(
            "sampling/fetch/chunks",
            {
                "summary_weight": chunking["summary_weight"],
                "weight_floor": chunking["weight_floor"],
                "by_start": chunking["position_weight"] == "start_ratio",
            },
        )
        self._keys = rows["chunk_key"].to_numpy()
        self._tokens = rows["token_count"].to_numpy()
        names = [n for n in rows.column_names if n not in ("chunk_key", "token_count")]
        self._columns = {name: rows[name].to_numpy() for name in names}
        first, last = (self._keys[0], self._keys[-1]) if len(self._keys) else (0, -1)
        self._dense = last - first + 1 == len(self._keys)

    def __getitem__(self, chunks: Integers) -> dict[str, np.ndarray[Any, Any]]:
        """Return section_key, start, length, window_index and weight of chunks."""
        rows = self.rows(chunks)
        return {name: column[rows] for name, column in self._columns.items()}

    def tokens(self, chunks: Integers) -> Integers:
        """Return how many tokens each chunk has."""
        return np.asarray(self._tokens[self.rows(chunks)], np.int64)

    def rows(self, chunks: Integers) -> Integers:
        """Return where each chunk is among all, by key."""
        return chunks - self._keys[0] if self._dense else np.searchsorted(self._keys, chunks)
