"""Run settings: everything a run's order and batches follow from, as plain values.

A saved run keeps them, so that resuming resolves nothing anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from duckplets import state
from duckplets.order import ORDER_VERSION

Kind = Literal["triplets", "pairs", "texts"]
Remainder = Literal["keep", "drop", "pad"]


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything a run's order and batches follow from, as plain values.

    Attributes:
        kind: ``triplets``, ``pairs`` or ``texts``.
        split: Every text of the run is of this split.
        recipes: Definitions of the recipes of every source.
        weights: Weight of every source.
        batch_size: Samples a batch.
        seed: Another seed gives another order.
        steps: Number of batches, or None.
        epochs: Number of nominal epochs, or None.
        remainder: What becomes of a last batch that is not full.
        no_duplicates: Whether no text may come twice in a batch.
        negatives: How many a triplet has.
        swap: Whether anchor and positive change places half of the time.
        columns: Columns of a batch.
        prefetch: Blocks to prepare ahead.
        run: Name of the run.
        corpus_version: Version it is pinned to.
        records: Fingerprint of the records of that version.
        splits: Settings of the splits.
        chunking: Fingerprint of the chunks.
    """

    kind: Kind
    split: str
    recipes: dict[str, list[dict[str, Any]]]
    weights: dict[str, float]
    batch_size: int
    seed: int
    steps: int | None
    epochs: int | None
    remainder: Remainder
    no_duplicates: bool
    negatives: int
    swap: bool
    columns: list[str]
    prefetch: int
    run: str
    corpus_version: int
    records: list[int]
    splits: dict[str, Any]
    chunking: dict[str, Any]

    def fingerprint(self) -> state.Fingerprint:
        """Return what must agree for a position to mean the same sample."""
        same = ("kind", "split", "seed", "batch_size", "negatives", "swap", "no_duplicates")
        found: dict[str, Any] = {name: getattr(self, name) for name in same}
        found["corpus_version"] = self.corpus_version
        found["order_version"] = ORDER_VERSION
        for name in ("recipes", "weights", "records", "splits", "chunking"):
            found[name] = state.digest(getattr(self, name))
        return found

    def padded_from(self, epoch_length: int) -> int | None:
        """Return the position from which samples only fill up the last batch."""
        padded = self.remainder == "pad" and self.epochs is not None
        return epoch_length * (self.epochs or 0) if padded else None

    def end(self, epoch_length: int) -> int | None:
        """Return the position a bounded run ends at; None if it is endless."""
        ends = []
        if self.steps is not None:
            ends.append(self.steps * self.batch_size)
        if self.epochs is not None:
            end = self.epochs * epoch_length
            if self.remainder == "drop":
                end = end // self.batch_size * self.batch_size
            elif self.remainder == "pad":
                end = -(-end // self.batch_size) * self.batch_size
            ends.append(end)
        return min(ends, default=None)
