"""Tell whether ids of incoming rows are new, without asking the tables for each batch.

A statement for each batch reads all ids stored so far: at ten million records, that was most of an
ingest. Hashes of them in memory take 8 bytes a record, in sorted runs that are merged as they grow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.ingest.checkpoint import UNPUBLISHED

_MOST_MERGED = 1 << 22  # hashes of a run that is merged with another


class StoredIds:
    """Hashes of the record ids that a source has, live or unpublished."""

    def __init__(self, database: Database, source: str, *, is_anew: bool) -> None:
        self._runs: list[NDArray[np.int64]] = []
        asked: dict[str, Any] = {"unpublished": UNPUBLISHED, "anew": is_anew}
        asked["prefix"] = f"{source}/"
        for batch in database.stream(query("ingest/records/known_ids"), asked):
            self._add(np.sort(_hashes(batch["record_id"])))

    def add(self, ids: pa.Array) -> bool:
        """Add ids; return whether each is certainly new, and different from the others.

        Ids that are added but not stored later are asked for once more than needed.
        """
        hashes = np.sort(_hashes(ids))
        is_new = bool((hashes[1:] != hashes[:-1]).all())
        for run in self._runs:
            if not is_new:
                break
            places = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            is_new = not (run[places] == hashes).any()
        self._add(hashes)
        return is_new

    def _add(self, hashes: NDArray[np.int64]) -> None:
        runs = self._runs
        if len(hashes):
            runs.append(hashes)
        while len(runs) > 1 and len(runs[-2]) <= min(2 * len(runs[-1]), _MOST_MERGED):
            merged = np.concatenate([runs.pop(), runs.pop()])
            merged.sort(kind="stable")  # sorted runs are merged
            runs.append(merged)


def _hashes(ids: pa.Array) -> NDArray[np.int64]:
    return np.fromiter(map(hash, ids.to_pylist()), np.int64, len(ids))
