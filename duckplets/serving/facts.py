"""Look up what every chunk, or every conversation, of a corpus is apart from its text, by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers

Columns = Mapping[str, np.ndarray[Any, Any]]


def decided_by(chunking: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the facts of chunks follow from, as parameters of ``serving/chunks``.

    Args:
        chunking: Fingerprint of the chunks.
    """
    how = {name: chunking[name] for name in ("summary_weight", "weight_floor")}
    how["by_start"] = chunking["position_weight"] == "start_ratio"
    how["by_chunker"] = chunking.get("chunker") is not None
    return how


class FactSlice:
    """The facts of keys that follow each other, as columns.

    Args:
        keys: Ascending; or the first of so many without a gap.
        columns: Of equal lengths: ``tokens``, and what else a fetch needs.
    """

    def __init__(self, keys: Integers | range, columns: Columns) -> None:
        self.columns = dict(columns)
        self.first, self.last = (int(keys[0]), int(keys[-1])) if len(keys) else (0, -1)
        dense = self.last - self.first + 1 == len(keys)
        self._keys = None if dense or isinstance(keys, range) else keys

    def rows(self, keys: Integers) -> Integers:
        """Return where each key stands in the columns."""
        return keys - self.first if self._keys is None else np.searchsorted(self._keys, keys)


class ChunkFacts:
    """What is known of chunks or conversations, by key.

    Args:
        parts: By ascending keys.
    """

    def __init__(self, parts: Sequence[FactSlice]) -> None:
        self._parts = [part for part in parts if part.last >= part.first]
        self._firsts = np.array([part.first for part in self._parts], np.int64)

    def __getitem__(self, keys: Integers) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weight of some, and of chunks where their texts are and their window."""
        names = [] if not self._parts else [n for n in self._parts[0].columns if n != "tokens"]
        return self.columns(names, keys)

    def tokens(self, keys: Integers) -> Integers:
        """Return how many tokens each has; of a conversation, its record's sections."""
        return np.asarray(self.columns(["tokens"], keys)["tokens"], np.int64)

    def parts_of(self, keys: Integers) -> Integers | None:
        """Return in which part each key is; None where there is one part only."""
        if len(self._parts) < 2:
            return None
        return np.asarray(np.searchsorted(self._firsts, keys, side="right") - 1, np.int64)

    def columns(self, names: Sequence[str], keys: Integers) -> dict[str, np.ndarray[Any, Any]]:
        """Return some columns for some keys."""
        if not self._parts:
            return {name: np.zeros(0, np.int64) for name in names}
        numbers = self.parts_of(keys)
        if numbers is None:
            rows = self._parts[0].rows(keys)
            return {name: self._parts[0].columns[name][rows] for name in names}
        kinds = {name: self._parts[0].columns[name].dtype for name in names}
        found = {name: np.empty(len(keys), kind) for name, kind in kinds.items()}
        for number, part in enumerate(self._parts):
            at = np.flatnonzero(numbers == number)
            if len(at):
                rows = part.rows(keys[at])
                for name in names:
                    found[name][at] = part.columns[name][rows]
        return found
