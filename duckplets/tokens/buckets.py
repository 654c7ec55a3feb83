"""Deal whole batches of token rows to length classes, and rows of a class to sources."""

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
    """Deals the batches of a run to buckets; ``rows`` counts them by source and bucket."""

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
                f"anneal: end_step={mixture.anneal.end_step} changes shares at each step, and "
                f"batches of one length class cannot follow; omit end_step, give phases, or omit "
                f"by_bucket"
            )
        if mixture.max_epochs or mixture.stop:
            raise MixtureError("max_epochs and stop do not work with by_bucket: omit by_bucket")
        self._rows = [rows[name] for name in sorted(rows)]
        super().__init__(mixture, [*rows], seed=seed, batch=batch, events=events)

    def _dealer(self, shares: tuple[int, ...], purpose: int, step: int) -> Buckets:
        return Buckets(shares, self._rows, key(self._seed, "buckets", step), self.batch)


class Buckets:
    """Deals whole batches to buckets, and draws of a bucket to sources, by constant shares."""

    # The weight of bucket b is the sum over sources of share times the part of the source's items
    # in b. Within b the weight of a source is its term of that sum. So each source gets its share.
    # A leaf is the number of the bucket times the number of sources, plus the number of the source.

    def __init__(
        self, shares: Sequence[int], items: Sequence[Sequence[int]], purpose: int, batch: int
    ) -> None:
        self._shares, self._batch = shares, batch
        scales = [Fraction(s, max(1, sum(n))) for s, n in zip(shares, items, strict=True)]
        parts = [
            [scale * count for scale, count in zip(scales, counts, strict=True)]
            for counts in zip(*items, strict=True)
        ]
        weights = exact_weights([sum(terms, Fraction(0)) for terms in parts])
        self._steps = Apportionment(weights, purpose)
        self._within = [  # a bucket without shares gets no batch
            Apportionment(exact_weights(terms), key(purpose, bucket)) if any(terms) else None
            for bucket, terms in enumerate(parts)
        ]

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield the share of each leaf; positions ascend, with or without gaps."""
        if len(positions) == 0:
            return
        steps, within = np.divmod(positions, self._batch)
        first = np.diff(steps, prepend=-1) > 0
        number = np.cumsum(first) - 1
        for share in self._steps.deal(steps[first]):
            begins = np.full(number[-1] + 1, -1)
            begins[share.offsets] = share.indexes * self._batch
            at = np.flatnonzero(begins[number] >= 0)
            dealt: Any = self._within[share.leaf]
            for part in dealt.deal(begins[number[at]] + within[at]):
                leaf = share.leaf * len(self._shares) + part.leaf
                yield Share(leaf, at[part.offsets], part.indexes)

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first ``positions`` positions go to each leaf."""
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
