"""Name the texts of a source, or of a bucket of it, that adjoin; and their records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.base.names import inside
from duckplets.errors import DamagedFileError
from duckplets.tokens.decode import reading
from duckplets.tokens.manifest import ShardManifest
from duckplets.tokens.memmap import TokenFile

_SHARDS = 16  # whose record ids are kept


@dataclass(frozen=True)
class TextSpan:
    """Texts that adjoin in a folder.

    Attributes:
        file: The token file.
        first: Number of the first.
        stop: After the last.
    """

    file: TokenFile
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def offsets(self) -> Integers:
        """Where each begins in the file, and the end of the last."""
        return self.file.offsets[self.first : self.stop + 1]

    @cached_property
    def span(self) -> tuple[int, int]:
        """Where they begin and end in the file.

        Raises:
            DamagedFileError: Not within it.
        """
        low, high = int(self.offsets[0]), int(self.offsets[-1])
        if not 0 <= low <= high <= len(self.file):
            raise self.damage()
        return low, high

    def damage(self) -> DamagedFileError:
        """Return the error for offsets that lead nowhere."""
        return self.file.damage("offsets of texts lead nowhere")


class RecordIds:
    """The ids of the records that texts are of, read from the shards when somebody asks.

    Args:
        folder: Of the shards.
        manifest: Of the folder.
    """

    def __init__(self, folder: Path, manifest: ShardManifest) -> None:
        self._folder, self._shards = folder, manifest.shards
        self._firsts = np.cumsum([0, *(shard.records for shard in manifest.shards)])
        self._ids = lru_cache(maxsize=_SHARDS)(self._of_shard)

    def of(self, first: Integers, last: Integers) -> pa.Array:
        """Return for ranges of texts the ids of their records, a list each."""
        counts = last - first
        starts = np.concatenate([[0], np.cumsum(counts)])
        texts = np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])
        shards = np.searchsorted(self._firsts, texts, side="right") - 1
        order = np.argsort(shards, kind="stable")
        parts = [pa.array([], pa.string())]
        for shard in np.unique(shards).tolist():
            within = texts[order[shards[order] == shard]] - self._firsts[shard]
            parts.append(self._ids(shard).take(pa.array(within)))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        ids = pa.concat_arrays(parts).take(pa.array(back))
        return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), ids)

    def _of_shard(self, number: int) -> pa.Array:
        import pyarrow.parquet as pq

        shard = self._shards[number]
        path = inside(self._folder, shard.path, DamagedFileError)
        with reading(path):
            with pq.ParquetFile(path) as file:
                table = file.read(columns=["meta.record_id"])
            return table.column("meta").combine_chunks().field("record_id").cast(pa.string())
