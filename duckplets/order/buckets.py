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
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import MixtureError
from duckplets.order.apportion import Apportionment, Share
from duckplets.order.mixture import Mixture
from duckplets.order.permute import key
from duckplets.order.schedule import Events, Schedule
from duckplets.order.weights import exact_weights


@dataclass(frozen=True, slots=True)
class _Dealer:
    """How one segment of a schedule is dealt.

    Attributes:
        segment: The segment.
        steps: Deals its steps to the buckets.
        within: Deals the draws of a bucket to the sources; None for one that gets no batch.
        base: What each source has got in each bucket before it: a list a bucket.
    """

    segment: Any
    steps: Apportionment
    within: list[Apportionment | None]
    base: list[list[int]]

    def counts(self, steps: int, batch: int) -> list[list[int]]:
        """Return what each source has got after so many steps of it, a list a bucket."""
        batches = self.steps.counts(steps)
        return [
            base if dealt is None else _added(base, dealt.counts(count * batch))
            for base, dealt, count in zip(self.base, self.within, batches, strict=True)
        ]


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
        super().__init__(mixture, list(items), seed=seed, batch=batch, events=events)
        self._items = [[Fraction(n) for n in items[name]] for name in self.sources]
        self._totals = [sum(of, Fraction(0)) for of in self._items]
        self.buckets = len(self._items[0])
        self._dealers: dict[int, _Dealer] = {}

    def with_events(self, events: Events) -> BucketSchedule:
        """Return the schedule with these events instead of its own."""
        items = {name: [int(n) for n in self._items[i]] for i, name in enumerate(self.sources)}
        return BucketSchedule(self.mixture, items, seed=self._seed, batch=self.batch, events=events)

    def leaf(self, source: str, bucket: int | None) -> int:
        """Return the number that shares of a source have in a bucket."""
        return (bucket or 0) * len(self.sources) + self.numbers[source]

    def deal(self, draws: Integers) -> Iterator[Share]:
        """Yield shares of positions, ascending, gaps or not; a leaf is a source in a bucket."""
        low, size = 0, len(draws)
        while low < size:
            number = self._number_at(int(draws[low]))
            high = size
            if number + 1 < len(self._segments):
                high = int(np.searchsorted(draws, self._segments[number + 1].start))
            dealer = self._dealer(number)
            steps, within = np.divmod(draws[low:high] - dealer.segment.start, self.batch)
            first = np.diff(steps, prepend=-1) > 0
            of_step = np.cumsum(first) - 1
            for share in dealer.steps.deal(steps[first]):
                yield from self._bucket(dealer, share, of_step, within, low)
            low = high

    def _bucket(
        self, dealer: _Dealer, share: Share, of_step: Integers, within: Integers, low: int
    ) -> Iterator[Share]:
        """Yield the shares of the positions in batches of one bucket."""
        begins = np.full(of_step[-1] + 1, -1)
        begins[share.offsets] = share.indexes * self.batch
        at = np.flatnonzero(begins[of_step] >= 0)
        dealt = dealer.within[share.leaf]
        if dealt is None:
            raise AssertionError("a bucket without items gets no batch")
        for part in dealt.deal(begins[of_step[at]] + within[at]):
            base = dealer.base[share.leaf][part.leaf]
            leaf = share.leaf * len(self.sources) + part.leaf
            yield Share(leaf, at[part.offsets] + low, part.indexes + base)

    def dealt(self, draws: int) -> list[int]:
        """Return how many of the first so many positions each leaf gets."""
        dealer = self._dealer(self._number_at(draws))
        steps, rest = divmod(draws - dealer.segment.start, self.batch)
        found = dealer.counts(steps, self.batch)
        if rest:
            after = dealer.counts(steps + 1, self.batch)
            bucket = next(b for b, of in enumerate(after) if sum(of) > sum(found[b]))
            batches = dealer.steps.counts(steps)[bucket]
            dealt = dealer.within[bucket]
            if dealt is not None:
                upto = dealt.counts(batches * self.batch + rest)
                found[bucket] = _added(dealer.base[bucket], upto)
        return [count for of in found for count in of]

    def totals(self, draws: Sequence[int]) -> list[list[int]]:
        """Return how many of the first so many positions each source gets, by its number."""
        size = len(self.sources)
        return [[sum(self.dealt(wanted)[i::size]) for i in range(size)] for wanted in draws]

    def _dealer(self, number: int) -> _Dealer:
        """Return how a segment is dealt; made once, for schedules that share it too."""
        # Another schedule may put its own in the place of one meanwhile, so each is looked at.
        known, dealer = number, self._known(number)
        while known and dealer is None:
            known -= 1
            dealer = self._known(known)
        for at in range(known if dealer is None else known + 1, number + 1):
            dealer = self._dealers[at] = self._made(at, dealer)
        if dealer is None:
            raise AssertionError("the first segment begins at 0")
        return dealer

    def _known(self, number: int) -> _Dealer | None:
        dealer = self._dealers.get(number)
        return dealer if dealer and dealer.segment is self._segments[number] else None

    def _made(self, number: int, before: _Dealer | None) -> _Dealer:
        segment, size = self._segments[number], len(self.sources)
        base = [[0] * size for _ in range(self.buckets)]
        if before is not None:
            base = before.counts(segment.step - before.segment.step, self.batch)
        shares: Sequence[int] = segment.how[0]  # type: ignore[assignment]
        parts = [
            [
                share * self._items[i][bucket] / self._totals[i] if self._totals[i] else Fraction(0)
                for i, share in enumerate(map(Fraction, shares))
            ]
            for bucket in range(self.buckets)
        ]
        purpose = key(self._seed, "buckets", segment.step)
        return _Dealer(
            segment,
            Apportionment(exact_weights([sum(of, Fraction(0)) for of in parts]), purpose),
            [
                Apportionment(exact_weights(of), key(purpose, bucket)) if any(of) else None
                for bucket, of in enumerate(parts)
            ],
            base,
        )


def _added(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
