"""Shards whose form is not read here: the loaders that ``datasets`` has for them, streaming.

A loader is given the shard in the cache, not the repository: what to read, at which revision and
with which token has been settled by then. Scripts of repositories are never run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.feed import pick
from duckplets.sources.hub.failures import imported
from duckplets.sources.labels import Labels, of_features

_ROWS = 1_000


class OtherForm:
    """A shard as a ``datasets.IterableDataset``.

    Args:
        path: Where it lies; the end of its name says what it is.

    Raises:
        SourceError: ``datasets`` has no loader for it, or the loader fails.
    """

    def __init__(self, path: Path) -> None:
        datasets = imported("datasets")
        self._path = path
        try:
            self._rows: Any = datasets.load_dataset(
                str(path.parent),
                data_files={"train": [path.name]},
                split="train",
                streaming=True,
            )
            first = next(iter(self._rows.with_format("arrow").iter(batch_size=1)), None)
        except Exception as error:
            raise self._unreadable(error) from None
        self.schema: pa.Schema = pa.schema([]) if first is None else first.schema

    def labels(self) -> Labels:
        """Return the names of classes of its columns."""
        return of_features(self._rows.features)

    def pieces(self, places: list[int]) -> Iterator[pa.RecordBatch]:
        """Yield the columns at some places."""
        try:
            for table in self._rows.with_format("arrow").iter(batch_size=_ROWS):
                for batch in table.select(places).combine_chunks().to_batches():
                    yield pick(batch, list(range(len(places))))
        except Exception as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> SourceError:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        return SourceError(f"{self._path} cannot be read by datasets either: {said}")
