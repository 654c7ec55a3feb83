"""Deal whole batches of token rows to length classes, and the rows of each to sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import MixtureError
from duckplets.order.apportion import Apportionment, Share, exact_weights
from duckplets.order.mixture import Mixture
from duckplets.order.permute import key
from duckplets.order.schedule import Events, Schedule


class BucketSchedule(Schedule):
    """Deals the batches of a run to buckets; ``rows`` of each source in every bucket, from 0."""

    def __init__(
        self,
        mixture: Mixture,
        rows: Mapping[str, Sequence[int]],
        *,
        seed: int,
        batch: int,
        events: Events | None = None,
    ) -> None:
        if mixture.anneal and mixture.anneal.end_step is not None:
            raise MixtureError(
                f"anneal: end_step={mixture.anneal.end_step} changes shares step by step, which "
                f"batches of one length class cannot follow; leave end_step out, give phases, or "
                f"leave out by_bucket"
            )
        if mixture.max_epochs or mixture.stop:
            raise MixtureError("max_epochs and stop: length classes have none; leave out by_bucket")
        self._rows = [rows[name] for name in sorted(rows)]
        super().__init__(mixture, [*rows], seed=seed, batch=batch, events=events)

    def _dealer(self, shares: tuple[int, ...], purpose: int, step: int) -> Buckets:
        return Buckets(shares, self._rows, key(self._seed, "buckets", step), self.batch)


class Buckets:
    """Deals whole batches to buckets, and draws of a bucket to sources, by constant shares."""

    # Bucket b gets batches by the sum over sources of share times the part of the source's items in
    # b; a source gets its term of that sum. So each source has its share, equally often in all
    # buckets. A leaf is the bucket's number times the number of sources, plus the source's number.

    def __init__(
        self, shares: Sequence[int], items: Sequence[Sequence[int]], purpose: int, batch: int
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

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of positions that ascend, with or without gaps."""
        if len(positions) == 0:
            return
        steps, within = np.divmod(positions, self._batch)
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

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first so many positions go to each leaf."""
        steps, rest = divmod(positions, self._batch)
        before, after = (self._steps.counts(n) for n in (steps, steps + (rest > 0)))
        found: list[int] = []
        for dealt, batches, upto in zip(self._within, before, after, strict=True):
            draws = batches * self._batch + (upto - batches) * rest
            found += [0] * len(self._shares) if dealt is None else dealt.counts(draws)
        return found

    def parts(self) -> list[float]:
        """Return the share of every source; together 1."""
        return [share / sum(self._shares) for share in self._shares]
