"""Deal whole batches to buckets, and the draws within each bucket's batches to sources.

Every source has items in several buckets, say of texts of one length class each, and a batch is to
be of one bucket. Bucket b then gets batches in the ratio of the sum over sources of share times the
part of the source's items that are in b, and within b a source gets its term of that sum. Summed
over buckets each source has its share again, and comes to its items equally often in all of them.

    step ─Apportionment→ bucket, number of its batch ─Apportionment of the bucket→ source, index

Both have a closed form, as in ``order.schedule``, so any position is dealt without walking there;
the bound on counts holds for the batches of every bucket, not for prefixes of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import MixtureError
from duckplets.order.apportion import Apportionment, Share
from duckplets.order.mixture import Mixture
from duckplets.order.permute import key
from duckplets.order.schedule import Events, Schedule
from duckplets.order.weights import Change, exact_weights


class BucketSchedule(Schedule):
    """Deals the positions of a run to sources and buckets, a bucket a batch of all ranks.

    A leaf is the number of the bucket times the number of sources, plus that of the source.

    Args:
        mixture: Checked against the sources.
        items: Of every source how many it has in each bucket, from 0; as many buckets for all.
        seed: Of the run.
        batch: Positions a step, of all ranks together.
        events: As for ``Schedule``.

    Raises:
        MixtureError: Shares change step by step, or a source that has none is drawn from.
    """

    def __init__(
        self,
        mixture: Mixture,
        items: Mapping[str, Sequence[int]],
        *,
        seed: int,
        batch: int,
        events: Events | None = None,
    ) -> None:
        if mixture.anneal is not None and mixture.anneal.end_step is not None:
            raise MixtureError(
                f"anneal: end_step={mixture.anneal.end_step} changes shares step by step, which "
                f"batches of one length class cannot follow; leave end_step out, give phases, or "
                f"leave out by_bucket"
            )
        self._items = items
        self.buckets = len(next(iter(items.values())))
        super().__init__(mixture, list(items), seed=seed, batch=batch, events=events)

    def with_events(self, events: Events) -> BucketSchedule:
        """Return the schedule with these events instead of its own."""
        how = {"seed": self._seed, "batch": self.batch}
        return BucketSchedule(self.mixture, self._items, events=events, **how)

    def leaf(self, source: str, bucket: int | None) -> int:
        """Return the number that shares of a source have in a bucket."""
        return (bucket or 0) * len(self.sources) + self.numbers[source]

    def totals(self, draws: Sequence[int]) -> list[list[int]]:
        """Return how many of the first so many positions each source gets, by its number."""
        size = len(self.sources)
        return [[sum(self.dealt(wanted)[i::size]) for i in range(size)] for wanted in draws]

    def _segment(self, change: Change, step: int, temperature: float) -> Any:
        segment = super()._segment(change, step, temperature)
        items = [self._items[name] for name in self.sources]
        purpose = key(self._seed, "buckets", step)
        deal = _Buckets(segment.how[0], items, purpose, self.batch)
        return replace(segment, deal=deal, base=[0] * len(items) * self.buckets)


class _Buckets:
    """Deals whole batches to buckets, and the draws of a bucket to sources, by constant shares."""

    def __init__(
        self, shares: Any, items: Sequence[Sequence[int]], purpose: int, batch: int
    ) -> None:
        self._shares, self._batch = shares, batch
        totals = [max(1, sum(of)) for of in items]
        parts = [
            [Fraction(share * n, total) for share, n, total in zip(shares, of, totals, strict=True)]
            for of in zip(*items, strict=True)
        ]
        weights = exact_weights([sum(of, Fraction(0)) for of in parts])
        self._steps = Apportionment(weights, purpose)
        self._within = [  # a bucket without shares gets no batch
            Apportionment(exact_weights(of), key(purpose, bucket)) if any(of) else None
            for bucket, of in enumerate(parts)
        ]

    def deal(self, items: Integers) -> Iterator[Share]:
        """Yield the shares of positions that ascend, gaps or not."""
        if len(items) == 0:
            return
        steps, within = np.divmod(items, self._batch)
        first = np.diff(steps, prepend=-1) > 0
        of_step = np.cumsum(first) - 1
        for share in self._steps.deal(steps[first]):
            begins = np.full(of_step[-1] + 1, -1)
            begins[share.offsets] = share.indexes * self._batch
            at = np.flatnonzero(begins[of_step] >= 0)
            dealt: Any = self._within[share.leaf]
            for part in dealt.deal(begins[of_step[at]] + within[at]):
                leaf = share.leaf * len(self._shares) + part.leaf
                yield Share(leaf, at[part.offsets], part.indexes)

    def counts(self, items: int) -> list[int]:
        """Return how many of the first so many positions go to each leaf."""
        steps, rest = divmod(items, self._batch)
        before, after = (self._steps.counts(n) for n in (steps, steps + (rest > 0)))
        found: list[int] = []
        for dealt, batches, upto in zip(self._within, before, after, strict=True):
            draws = batches * self._batch + (upto - batches) * rest
            found += [0] * len(self._shares) if dealt is None else dealt.counts(draws)
        return found

    def parts(self) -> list[float]:
        """Return the share of every source; together 1."""
        return [share / sum(self._shares) for share in self._shares]
