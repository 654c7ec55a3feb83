"""What a run asks of its samples, whatever they are: texts, messages or rows of tokens.

positions ─Planner→ Plan ─FetchesSamples→ SampleBlock ─SampleTranche→ Batch
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.base.arrays import Integers
    from duckplets.samples.batch import Batch
    from duckplets.samples.planned import Plan


class SampleTranche(Protocol):
    """Samples of a block, of which batches are slices."""

    @property
    def start(self) -> int:
        """Position where the block begins."""
        ...

    def is_of(self, block: Any, row: int) -> bool:
        """Whether it has a sample of a block."""
        ...

    def leave_block(self) -> None:
        """Gather what is left, so that a batch that is kept holds no more than this."""
        ...

    def batch(
        self, low: int, high: int, *, position: int, step: int, sources: tuple[str, ...]
    ) -> Batch:
        """Return samples ``low … high-1`` of the block as the batch of a step."""
        ...


class SampleBlock(Protocol):
    """Samples of consecutive batches of one reader."""

    @property
    def start(self) -> int:
        """Position where the first batch begins."""
        ...

    @property
    def stop(self) -> int:
        """Position after the last batch."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of all samples."""
        ...

    def tranche(self, row: int, batch_size: int) -> SampleTranche:
        """Return the tranche that has a sample; none cuts a batch in two."""
        ...


class FetchesSamples(Protocol):
    """Turns plans into blocks, and tells what their samples are."""

    @property
    def slots(self) -> Sequence[str]:
        """Columns that hold what samples are made of."""
        ...

    def fetch(self, plan: Plan, *, start: int, stop: int) -> SampleBlock:
        """Return the samples of a plan as the block of batches from ``start`` to ``stop``."""
        ...

    def count(self, plan: Plan, sources: Integers, size: int) -> Integers:
        """Return tokens, fallbacks and displaced samples of a plan by source: shape (size, 3)."""
        ...

    def identities(self, plan: Plan, batch: int) -> pa.Table:
        """Return what a plan's samples are, without what they hold."""
        ...

    def mean_tokens(self, stream: Any, per_draw: int, *, swaps: bool) -> float:
        """Return the tokens that a sample of a stream is expected to have."""
        ...

    def sound(self) -> AbstractContextManager[None]:
        """Raise DamagedFileError for index errors, which intact files cannot cause."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...

    def drop(self) -> None:
        """Close it also while it is used: that ends in an error."""
        ...
