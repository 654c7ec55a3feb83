"""Draw the rows of a source, or of one bucket of it, in the order of a run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from duckplets.base.arrays import Integers
from duckplets.order.permute import key, ranks_at
from duckplets.samples.planned import Draw
from duckplets.tokens.rows import TokenRows


@dataclass(frozen=True, slots=True)
class RowRecipe:
    """How a source becomes rows, as far as a forecast names it.

    Attributes:
        name: ``packed`` or ``records``, with the bucket where batches are of one.
    """

    name: str


@dataclass(frozen=True)
class TokenStream:
    """The rows of one source, or of one bucket of it, in the order of a run.

    It answers to what a planner and a forecast ask of a ``Stream``: a row is an anchor, with
    nothing drawn beside it.

    Attributes:
        source: Name of the source.
        bucket: Of lengths, where batches are of one; else None.
        rows: Its rows.
        recipe: What a forecast calls it.
        seed: Of the run.
    """

    source: str
    bucket: int | None
    rows: TokenRows
    recipe: RowRecipe
    seed: int

    negatives = fallback_anchors = 0
    is_given = graded = tells = False
    negatives_from = candidates = version = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def share(self) -> Fraction:
        """Its share among the streams of its source: as it has rows."""
        return Fraction(len(self))

    def draw_at(self, index: Integers) -> Draw:
        """Return row and epoch of some of its samples; their numbers ascend, gaps or not."""
        parts = () if self.bucket is None else (self.bucket,)
        rows, epochs = ranks_at(key(self.seed, self.source, "rows", *parts), len(self), index)
        return Draw([rows, epochs], [])
