"""Make rows ready to be stored, in any process: clean their texts, and measure them for gates.

    batch ─preprocess→ clean texts ─measured→ rows that whoever stores them takes as they are

Functions that users have registered go with the work: a worker registers them before it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.ingest.gates import GateMeasures, Gates
from duckplets.ingest.preprocess import preprocess
from duckplets.ingest.streams import Item
from duckplets.sources import Mark
from duckplets.text.chunking import Chunking
from duckplets.text.preprocessors import REGISTRY, AnyPreprocessor, Cleaner, Preprocessor

ROWS = 4_096  # that are made ready at once


class Transform(NamedTuple):
    """What is done to rows before they are compared with the corpus.

    Attributes:
        preprocessors: Called in order.
        functions: Those of them that users have registered.
        measuring: What gates have to know of texts, if there are gates.
    """

    preprocessors: tuple[AnyPreprocessor, ...]
    functions: tuple[tuple[Preprocessor, Cleaner], ...]
    measuring: GateMeasures | None

    @classmethod
    def of(cls, chunking: Chunking, gates: Gates | None) -> Transform | None:
        """Return what there is to do; None for nothing."""
        own = (each for each in chunking.preprocessors if isinstance(each, Preprocessor))
        functions = tuple((each, REGISTRY.find(each.name, each.version)) for each in own)
        found = cls(chunking.preprocessors, functions, gates.measuring if gates else None)
        return found if found.preprocessors or found.measuring is not None else None

    def done(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows that are clean and measured, some at a time."""
        for each, function in self.functions:
            REGISTRY.add(each.name, each.version, function)
        chunking = Chunking(preprocessors=self.preprocessors)
        for batch in batches:
            for start in range(0, batch.num_rows, ROWS):
                part, _ = preprocess(batch.slice(start, ROWS), chunking)
                yield part if self.measuring is None else self.measuring.measured(part)


Job = tuple[Transform | None, ...]
"""The work at the rows of each of several sources, by their numbers."""


Fresh = tuple[list[Mark], list[pa.RecordBatch], pa.RecordBatch | None]


def fresh(items: Iterable[Item], gates: Gates | None) -> Iterator[Fresh]:
    """Yield the rows that were not read before, some at a time, with all that comes before them."""
    marks: list[Mark] = []
    last: int | None = None
    for item in items:
        if isinstance(item, Mark):
            marks.append(item)
            continue
        if last is None:  # gates know it by now, and go on from there
            last = 0 if gates is None else gates.last_row
        is_old = pc.less_equal(item["row"], last)
        old = [item.filter(is_old)] if pc.any(is_old).as_py() else []
        new = item.filter(pc.invert(is_old)) if old else item
        for start in range(0, max(new.num_rows, 1), ROWS):
            yield marks, old, new.slice(start, ROWS) if new.num_rows else None
            marks, old = [], []
    yield marks, [], None
