"""Plan which chunks the samples at some positions are made of: keys only, no text.

    positions ─apportion→ source ─apportion→ recipe ─Stream.draw_at→ chunks ─swap→ plan

A plan is a pure function of the run's configuration and the positions, so any stretch of the
past or future can be planned alone, and how a run is cut into blocks changes nothing. A rank plans
its own positions only, unless samples depend on others of their batch (``no_duplicates``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from duckplets.base.arrays import Floats, Integers
from duckplets.order.apportion import Apportionment, exact_weights
from duckplets.order.permute import hashed, key
from duckplets.order.schedule import Schedule
from duckplets.samples.planned import Draw, Plan, scattered, spread
from duckplets.samples.stream import Stream

SINGLE = ("texts", "messages")  # kinds whose samples have one slot: no positive, no negatives

# What a stream gets of some draws: its number, which of the draws, and their numbers in the stream.
Dealt: TypeAlias = tuple[int, Integers, Integers]
EpochStart: TypeAlias = Callable[[int], int]  # returns where a nominal epoch begins
EndOf: TypeAlias = Callable[[EpochStart], int | None]  # and from that where the last one ends


class Planner:
    """Plans the samples of a run over one version of the corpus.

    Positions count from the step at which the schedule begins. Rows of tokens are planned alike:
    their streams answer to the same as a ``Stream``.
    """

    needs_all = False  # whether samples depend on others of their batch, so that all are planned
    displaces = False  # whether a sample may give its position to another

    def __init__(
        self,
        streams: Sequence[Any],
        schedule: Schedule,
        *,
        kind: str,
        seed: int,
        swap: bool,
        graded: bool = False,
    ) -> None:
        self.streams: list[Stream] = []
        self.sources = np.zeros(0, np.int64)  # number of the source of each stream
        self.schedule = schedule  # another one with the same past may take its place
        self.samples_per_draw = schedule.samples_per_draw
        self.swaps = swap and kind not in SINGLE
        self.is_graded = graded  # whether labels are numbers of any kind, rather than integers
        self.end: int | None = None  # position at which the last epoch of a run ends
        self._seed, self._swap_key = seed, key(seed, "swap")
        self._recipes: dict[int, tuple[list[int], Apportionment]] = {}  # streams of each leaf
        self._lengths: dict[str, int] = {}  # of each source
        self.add(streams)
        self.epoch_length = sum(map(self.length_of, schedule.planned))

    def add(self, streams: Sequence[Any]) -> None:
        """Add the streams of sources that are drawn from later on."""
        sources, by_leaf = self.sources.tolist(), dict[tuple[int, str], list[int]]()
        for i, stream in enumerate(streams, start=len(self.streams)):
            leaf = self.schedule.leaf(stream.source, stream.bucket)
            by_leaf.setdefault((leaf, stream.source), []).append(i)
            sources.append(self.schedule.numbers[stream.source])
        self.streams += streams
        self.sources = np.array(sources, np.int64)
        for (leaf, source), indexes in by_leaf.items():
            length, shares = 0, list[Fraction | float]()
            for i in indexes:
                length += len(self.streams[i]) * self.samples_per_draw
                shares.append(self.streams[i].share)
            self._lengths[source] = self._lengths.get(source, 0) + length
            recipes = Apportionment(exact_weights(shares), key(self._seed, "recipes", source))
            self._recipes[leaf] = indexes, recipes

    # -- plans --------------------------------------------------------------------------------

    def plan(self, start: int, stop: int) -> Plan:
        """Plan positions ``start … stop-1``."""
        return self.plan_at(np.arange(start, stop, dtype=np.int64))

    def plan_at(self, positions: Integers) -> Plan:
        """Plan some positions: they ascend, gaps or not, and span less than 2^34."""
        per_draw = self.samples_per_draw
        if per_draw == 1:
            return self._draws(positions, self._dealt(self.schedule, positions))
        numbers = positions // per_draw
        numbers = numbers[np.diff(numbers, prepend=-1) > 0]
        pairs = self._draws(numbers, self._dealt(self.schedule, numbers))
        at = np.searchsorted(numbers, positions // per_draw) * per_draw + positions % per_draw
        return pairs.part(at)

    def _dealt(self, schedule: Schedule, numbers: Integers) -> Iterator[Dealt]:
        """Deal draws to streams."""
        for share in schedule.deal(numbers):
            indexes, recipes = self._recipes[share.leaf]
            for part in recipes.deal(share.indexes):
                yield indexes[part.leaf], share.offsets[part.offsets], part.indexes

    def _draws(
        self,
        numbers: Integers,
        dealt: Iterable[Dealt],
        note: Callable[[int, Integers, Draw], None] | None = None,
    ) -> Plan:
        """Draw the samples of some draws: one each, or several pairs.

        ``note`` is told the number of every stream, which draws it has, and these.
        """
        size, first = len(numbers), self.streams[0]
        streams = np.zeros(size, dtype=np.int64)
        draws = []
        for number, at, index in dealt:
            streams[at] = number
            draws.append((at, self.streams[number].draw_at(index)))
            if note is not None:
                note(number, *draws[-1])
        nothing = streams[:0]
        columns = scattered(draws or [(nothing, first.draw_at(nothing))], size)
        labels = columns.pop("labels", None)
        if labels is not None:
            labels = labels[0] if self.is_graded else labels[0].astype(np.int64)
        swapped = np.zeros(size, dtype=bool)
        if self.swaps:
            swapped = (hashed(self._swap_key, numbers) >> np.uint64(63)).astype(bool)
            for of in (columns["chunks"], columns["hashes"]):
                of[:2] = np.where(swapped, of[1::-1], of[:2])
        plan = Plan(
            numbers, streams, swapped=swapped, labels=labels, given=first.is_given, **columns
        )
        return plan if self.samples_per_draw == 1 else spread(plan, self.samples_per_draw)

    # -- what is drawn ------------------------------------------------------------------------

    def length_of(self, source: str) -> int:
        """Return the positions in which every anchor of a source comes up once."""
        return self._lengths.get(source, 0)

    def samples(self, position: int) -> Integers:
        """Return how many of the first so many positions each stream gets."""
        whole, rest = divmod(position, self.samples_per_draw)
        before, after = (self._counts(draws) for draws in (whole, whole + (rest > 0)))
        found: Integers = before * self.samples_per_draw + (after - before) * rest
        return found

    def _counts(self, draws: int) -> Integers:
        """Return how many of the first so many draws each stream gets."""
        found = np.zeros(len(self.streams), dtype=np.int64)
        dealt = self.schedule.dealt(draws)
        for leaf, (indexes, recipes) in self._recipes.items():
            found[indexes] = recipes.counts(dealt[leaf])
        return found

    def parts(self, start: int, stop: int) -> Floats:
        """Return the mean share of each stream over steps in which no other weights set in."""
        of_sources = np.array(self.schedule.parts(start, stop))
        parts: Floats = of_sources[self.sources] * self.recipe_parts()
        return parts

    def recipe_parts(self) -> Floats:
        """Return the share of each stream within its source."""
        found = np.zeros(len(self.streams))
        for indexes, recipes in self._recipes.values():
            length = sum(len(self.streams[i]) for i in indexes) * self.samples_per_draw
            of_source = length / self._lengths[self.streams[indexes[0]].source]
            found[indexes] = np.array(recipes.parts()) * of_source
        return found

    def epochs_of(self, source: str, samples: int) -> float:
        """Return how often the anchors of a source have come up in so many samples of it."""
        return samples / max(1, self.length_of(source))

    def epoch_at(self, position: int) -> int:
        """Return the nominal epoch of a position."""
        return position // self.epoch_length

    def epoch_start(self, epoch: int) -> int:
        """Return the first position of a nominal epoch."""
        return epoch * self.epoch_length

    def unreached(self) -> Iterator[tuple[int, int, int]]:
        """Yield of every join its step, and of the anchors before it how many are left out."""
        return iter(())

    # -- other weights ------------------------------------------------------------------------

    def block(self, position: int) -> tuple[int, int]:
        """Return the block, among whose positions samples change places, that has one of them."""
        return position, position + 1

    def next_change(self, position: int) -> int:
        """Return the first step from a position on at which what is drawn may change."""
        low, high = self.block(position)
        change = low if low == position else high
        return self.schedule.begin + -(-change // self.schedule.batch)

    def first_change(self, before: Schedule, end_of: EndOf) -> int | None:
        """Return the first position whose sample differs from that by a schedule before.

        It is of the same sources, with the same events.
        """
        return self.schedule.first_change(before)

    def check(self, schedule: Schedule, steps: Iterable[int], end: int | None) -> None:
        """Refuse a schedule by which batches at some steps of a run cannot be filled."""
