"""Plan which rows of tokens are at which positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.order.buckets import BucketSchedule
from duckplets.order.permute import key, ranks_at
from duckplets.order.schedule import Schedule
from duckplets.samples.plan import Planner
from duckplets.samples.planned import Asked, Plan
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

    It has what a planner and a forecast ask of a stream: a row is an anchor, without negatives.

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

    negatives = 1
    fallback_anchors = 0
    is_given = graded = tells = False
    negatives_from = candidates = version = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def share(self) -> Fraction:
        """Its share among the streams of its source: as it has rows."""
        return Fraction(len(self))

    def draw(self, index: Integers) -> tuple[Integers, Integers]:
        """Return row and epoch of some of its samples; their numbers ascend, gaps or not."""
        parts = () if self.bucket is None else (self.bucket,)
        stream = key(self.seed, self.source, "rows", *parts)
        return ranks_at(stream, len(self), index)


class TokenPlanner(Planner):
    """Plan the positions of one run over token shards; of a plan ``chunks`` are rows and epochs.

    Args:
        streams: All of them, grouped by source.
        schedule: Deals positions to sources, or to sources and buckets.
        seed: Of the run.
    """

    def __init__(self, streams: Sequence[TokenStream], schedule: Schedule, *, seed: int) -> None:
        self._leaves: dict[int, int] = {}  # of a schedule: the stream
        super().__init__(cast(Any, streams), schedule, kind="tokens", seed=seed, swap=False)

    @property
    def rows(self) -> list[TokenStream]:
        """The streams."""
        return cast(list[TokenStream], self.streams)

    def add(self, streams: Sequence[Any]) -> None:
        """Add the streams of a source that is drawn from later on."""
        first = len(self.streams)
        super().add(streams)
        for number, stream in enumerate(streams, start=first):
            leaf = self.schedule.numbers[stream.source]
            if stream.bucket is not None:
                leaf += stream.bucket * len(self.schedule.sources)
            self._leaves[leaf] = number

    def _dealt(self, draws: int) -> Integers:
        """Return how many of the first so many positions each stream gets."""
        schedule = self.schedule
        if not isinstance(schedule, BucketSchedule):
            return super()._dealt(draws)
        found, counts = np.zeros(len(self.streams), np.int64), schedule.dealt(draws)
        for leaf, number in self._leaves.items():
            found[number] = counts[leaf]
        return found

    def _shares(self, schedule: Schedule, numbers: Integers) -> Iterator[Any]:
        """Yield what each stream gets of some positions."""
        for share in schedule.deal(numbers):
            yield self._leaves[share.leaf], share.offsets, share.indexes

    def _draws(
        self, numbers: Integers, shares: Iterable[Any], asked: list[Asked], offset: int
    ) -> Plan:
        """Plan positions; nothing is asked for again."""
        streams, rows, epochs = (np.zeros(len(numbers), np.int64) for _ in range(3))
        for number, at, index in shares:
            streams[at] = number
            rows[at], epochs[at] = self.rows[number].draw(index)
        return Plan(numbers, streams, [rows, epochs], [], np.zeros(len(numbers), bool))
