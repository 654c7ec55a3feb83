"""The work of engine workers for an ingest: clean rows and measure their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from duckplets.errors import DuckpletsError
from duckplets.ingest.gates import GateMeasures, Gates
from duckplets.ingest.preprocess import preprocess
from duckplets.text.chunking import Chunking
from duckplets.text.preprocessors import REGISTRY, AnyPreprocessor, Cleaner, Preprocessor

Tables = tuple[pa.Table, ...]
"""Rows of some batches, which may differ in columns: rare ones exist only where needed."""


class Transform(NamedTuple):
    """What is done to rows before they are compared with the corpus: cleaning, measuring."""

    preprocessors: tuple[AnyPreprocessor, ...]
    functions: tuple[tuple[Preprocessor, Cleaner], ...]  # registered functions of users
    measuring: GateMeasures | None

    @classmethod
    def of(cls, chunking: Chunking, gates: Gates) -> Transform | None:
        """Return what there is to do; None for nothing."""
        own = (each for each in chunking.preprocessors if isinstance(each, Preprocessor))
        functions = tuple((each, REGISTRY.find(each.name, each.version)) for each in own)
        found = cls(chunking.preprocessors, functions, gates.measuring)
        return found if found.preprocessors or found.measuring is not None else None

    def done(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield cleaned and measured rows."""
        for each, function in self.functions:
            REGISTRY.add(each.name, each.version, function)
        chunking = Chunking(preprocessors=self.preprocessors)
        for batch in rows.to_batches():
            cleaned, _ = preprocess(batch, chunking)
            yield cleaned if self.measuring is None else self.measuring.measured(cleaned)


def transformed(transform: Transform, rows: pa.Table | None) -> Tables | DuckpletsError:
    """Prepare rows, or return why they cannot be: whoever stores them says which row it is."""
    try:
        batches = () if rows is None else transform.done(rows)
        return tuple(pa.Table.from_batches([batch]) for batch in batches)
    except DuckpletsError as error:
        return error
