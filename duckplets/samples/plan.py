"""Plan which chunks the samples at consecutive positions are made of: ids only, no text.

    positions ─apportion→ source ─apportion→ recipe ─Stream.draw→ chunks ─swap, arrange→ plan

A plan is a pure function of the run's configuration and the positions, so any stretch of the
past or future can be planned alone, and how a run is cut into blocks changes nothing. A rank plans
its own positions only, unless ``no_duplicates`` makes samples depend on those of the other ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np

from duckplets.base.arrays import Floats, Integers
from duckplets.base.sanitize import listed, shown
from duckplets.errors import RecipeError
from duckplets.order.apportion import MAX_SPAN, Apportionment, exact_weights
from duckplets.order.permute import hashed, key
from duckplets.order.schedule import Schedule
from duckplets.samples.no_duplicates import BLOCK_BATCHES, OneBatch, arranged, one_batch, settle
from duckplets.samples.planned import Asked, Draw, Drawn, Plan, joined, scattered, spread
from duckplets.samples.stream import Stream

_KNOWN = 1 << 17  # samples of a block that is kept
_FURTHER = 8  # times as many samples as before are drawn where those did not do
_FARTHEST = 1 << 20  # samples of a stream that are looked at, if it has no more anchors

SINGLE = ("texts", "messages")  # kinds whose samples have one slot: no positive, no negatives

# Of some draws: the number of the stream, which they are, their numbers there.
_Share: TypeAlias = tuple[int, Integers, Integers]


class Planner:
    """Plan the positions of one run over one version of the corpus.

    Positions count from the step at which the schedule begins.

    Args:
        streams: All of them, grouped by source; rows of tokens answer to the same as a ``Stream``.
        schedule: Deals draws to its leaves: sources, or sources and buckets.
        kind: ``triplets``, ``pairs``, ``texts``, ``messages`` or ``tokens``.
        seed: Of the run.
        swap: Whether anchor and positive change places on a hashed coin.
        graded: Whether labels of pairs are numbers of any kind, rather than integers.
        distinct_batch: With a batch size, no text comes twice in a batch; 0 for no such rule.
        apart_batch: With a batch size, negatives differ from all other texts of their batch; 0 for
            no such rule.

    Attributes:
        streams: Those.
        sources: Number of the source of every stream.
        end: The position at which the last epoch of a run ends, or None.
    """

    def __init__(
        self,
        streams: Sequence[Any],
        schedule: Schedule,
        *,
        kind: str,
        seed: int,
        swap: bool,
        graded: bool = False,
        distinct_batch: int = 0,
        apart_batch: int = 0,
    ) -> None:
        self.streams: list[Stream] = []
        self.kind = kind
        self._known: tuple[Schedule, tuple[int, int], Plan] | None = None  # a block, arranged
        self._spares: dict[tuple[int, ...], Drawn] = {}
        self.schedule = schedule
        self._seed = seed
        self.swaps = swap and kind not in SINGLE
        self._swap_key = key(seed, "swap")
        self.is_graded = graded
        self.distinct_batch = distinct_batch
        self._apart_batch = apart_batch
        self.end: int | None = None
        self._recipes: dict[int, tuple[list[int], Apportionment]] = {}
        self._lengths: dict[str, int] = {}  # of each source
        self.samples_per_draw = schedule.samples_per_draw
        self.add(streams)
        self.epoch_length = sum(self.length_of(name) for name in schedule.planned)

    def add(self, streams: Sequence[Any]) -> None:
        """Add the streams of sources that are drawn from later on."""
        first = len(self.streams)
        self.streams += streams
        by_leaf: dict[tuple[int, str], list[int]] = {}
        for i, stream in enumerate(self.streams[first:], start=first):
            leaf = self.schedule.leaf(stream.source, stream.bucket)
            by_leaf.setdefault((leaf, stream.source), []).append(i)
        for (leaf, source), indexes in by_leaf.items():
            streams_of = [self.streams[i] for i in indexes]
            length = sum(map(len, streams_of)) * self.samples_per_draw
            self._lengths[source] = self._lengths.get(source, 0) + length
            weights = exact_weights([stream.share for stream in streams_of])
            recipes = Apportionment(weights, key(self._seed, "recipes", source))
            self._recipes[leaf] = indexes, recipes
        numbers = self.schedule.numbers
        self.sources = np.array([numbers[stream.source] for stream in self.streams], np.int64)

    def lengths(self, sources: Sequence[str]) -> dict[str, int]:
        """Return in how many positions the anchors of each source come up once."""
        return {name: self.length_of(name) for name in sources}

    def length_of(self, source: str) -> int:
        """Return the positions in which every anchor of a source comes up once."""
        return self._lengths.get(source, 0)

    def samples(self, position: int) -> Integers:
        """Return how many of the first so many positions each stream gets: shape (streams,)."""
        whole, rest = divmod(position, self.samples_per_draw)
        before, after = (self._dealt(draws) for draws in (whole, whole + (rest > 0)))
        found: Integers = before * self.samples_per_draw + (after - before) * rest
        return found

    def _dealt(self, draws: int) -> Integers:
        """Return how many of the first so many draws each stream gets."""
        found = np.zeros(len(self.streams), dtype=np.int64)
        dealt = self.schedule.dealt(draws)
        for leaf, (indexes, recipes) in self._recipes.items():
            found[indexes] = recipes.counts(dealt[leaf])
        return found

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Step of every change of shares, and the position from which on it holds."""
        return [(step, draw * self.samples_per_draw) for step, draw in self.schedule.changes]

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

    def unreached(self) -> Iterator[tuple[int, int, int]]:
        """Yield what joins cut off, as ``JoinedPlanner`` does: here none has joined."""
        return iter(())

    def epochs_of(self, source: str, samples: int) -> float:
        """Return how often the anchors of a source have come up in so many samples of it."""
        return samples / max(1, self.length_of(source))

    def epoch_at(self, position: int) -> int:
        """Return the nominal epoch of a position."""
        return position // self.epoch_length

    def epoch_start(self, epoch: int) -> int:
        """Return the first position of a nominal epoch."""
        return epoch * self.epoch_length

    @property
    def needs_all(self) -> bool:
        """Whether a sample depends on the others of its batch, so that all are planned."""
        return bool(self.distinct_batch or self._apart_batch)

    def plan(self, start: int, stop: int) -> Plan:
        """Plan positions ``start … stop-1``."""
        if self._apart_batch:
            return self._apart(start, stop)
        if not self.distinct_batch:
            return self._samples(np.arange(start, stop, dtype=np.int64)).plan
        return self._distinct(start, stop)

    def plan_at(self, positions: Integers) -> Plan:
        """Plan some positions; they ascend, gaps or not, and only they are planned if that will do.

        The last lies less than 2^34 after the first.
        """
        if not self.needs_all or len(positions) == 0:
            return self._samples(positions).plan
        start = int(positions[0])
        return self.plan(start, int(positions[-1]) + 1).part(positions - start)

    def _distinct(self, start: int, stop: int) -> Plan:
        """Plan whole blocks, of which one may be known from the call before."""
        schedule, known = self.schedule, self._known
        blocks = [self._block(schedule, start)]
        while blocks[-1][1] < stop:
            blocks.append(self._block(schedule, blocks[-1][1]))
        parts = []
        if known is not None and known[0] is schedule and known[1] == blocks[0]:
            low, high = blocks.pop(0)
            parts.append(known[2].part(slice(start - low, min(stop, high) - low)))
        if blocks:
            first, last = blocks[0][0], blocks[-1][1]
            # At once: a call has a cost of its own.
            samples = self._samples(np.arange(first, last, dtype=np.int64), schedule)
        for low, high in blocks:
            step = schedule.begin + low // schedule.batch
            block = arranged(
                samples.part(slice(low - first, high - first)),
                self.distinct_batch,
                partial(self._further, schedule, step, -(-high // self.samples_per_draw)),
                partial(self._checked, schedule, step),
            )
            parts.append(block.part(slice(max(start, low) - low, min(stop, high) - low)))
        if blocks:
            self._known = (schedule, blocks[-1], block) if len(block) <= _KNOWN else None
        return joined(parts)

    def _further(self, schedule: Schedule, step: int, draws: int) -> Iterator[Drawn]:
        """Yield samples of the streams in force at a step, from where they are after some draws."""
        starts = self._reached(schedule, step, draws)
        return self._turns_of(starts, self.distinct_batch)

    def check(self, schedule: Schedule, steps: Iterable[int], end: int | None) -> None:
        """Refuse sources that have fewer different texts than a batch has.

        Args:
            schedule: Says which they are.
            steps: At which they are looked at; of several with the same sources at the first.
            end: The position at which the run ends, or None.

        Raises:
            RecipeError: With the largest batch that would do.
        """
        size = self.distinct_batch
        names = {schedule.names_at(step): step for step in sorted(steps, reverse=True)}
        for step in sorted(names.values()) if size else ():
            room = size if end is None else min(size, end - (step - schedule.begin) * size)
            if room > 0:
                self._checked(schedule, step, room)

    def _checked(self, schedule: Schedule, step: int, room: int) -> Drawn:
        """Return samples for a batch at a step that have no text twice, always the same.

        Raises:
            RecipeError: There are fewer than ``room``.
        """
        reached = self._reached(schedule, step, schedule.first_draw(step))
        at = tuple(sorted(reached))
        if at not in self._spares:
            turns = self._turns_of(dict.fromkeys(reached, 0), self.distinct_batch)
            self._spares[at] = one_batch(turns, self.distinct_batch)
        found = self._spares[at]
        if len(found) >= room:
            return found
        names = listed(shown(repr(name)) for name in schedule.names_at(step))
        raise RecipeError(
            f"no_duplicates=True cannot be kept: at step {step:,} a batch of all ranks has "
            f"{room:,} samples, and what is drawn there ({names}) has different texts for "
            f"{len(found):,}; lower batch_size so that a batch of all ranks has at most "
            f"{len(found):,}"
        )

    def _reached(self, schedule: Schedule, step: int, draws: int) -> dict[int, int]:
        """Return how many of the first so many draws each stream in force at a step gets."""
        dealt, found = schedule.dealt(draws), dict[int, int]()
        for name in schedule.names_at(step):
            indexes, recipes = self._recipes[schedule.numbers[name]]
            found |= zip(indexes, recipes.counts(dealt[schedule.numbers[name]]), strict=True)
        return found

    def _turns_of(self, starts: Mapping[int, int], count: int) -> Iterator[Drawn]:
        """Yield samples of streams, one of each in turn, so many first and then ever more.

        Each stream comes to its end when every chunk of its anchors was there, or very many were.

        Args:
            starts: Of every stream, the draw to begin with.
            count: How many of each at first.
        """
        most = {number: self._visits(number) for number in starts}
        low, high, before = 0, count, 0
        while low < max(most.values()):
            turns = [np.arange(low, max(low, min(high, most[number]))) for number in starts]
            place = np.argsort(np.argsort(np.concatenate(turns), kind="stable"))
            shares, at = list[_Share](), 0
            for (number, start), turn in zip(starts.items(), turns, strict=True):
                shares.append((number, place[at : at + len(turn)], start + turn))
                at += len(turn)
            numbers = np.arange(before, before + len(place))
            yield self._drawn(numbers, [(numbers, shares)])
            before += len(place)
            low, high = high, high * _FURTHER

    def _visits(self, number: int) -> int:
        """Return how many draws of a stream come to all that it has."""
        stream = self.streams[number]
        pool, times = stream.pool, int(np.diff(stream.pool.anchors.starts).max())
        if pool.positives is not None and not pool.compiled.own_positive:
            times = max(times, int(pool.positives.counts.max()))
        return min(len(stream) * times, max(len(stream), _FARTHEST))

    def block(self, position: int) -> tuple[int, int]:
        """Return the block, among whose positions samples change places, of one of them."""
        return self._block(self.schedule, position)

    def _block(self, schedule: Schedule, position: int) -> tuple[int, int]:
        return schedule.block(position, self.distinct_batch * BLOCK_BATCHES, self.end)

    def go_on_with(self, schedule: Schedule, position: int) -> None:
        """Plan by a schedule that deals all before a position as the one so far."""
        known, self.schedule = self._known, schedule
        if known is not None and known[1][1] <= position:
            self._known = (schedule, *known[1:])

    def next_change(self, position: int) -> int:
        """Return the first step from a position on at which what is drawn may change."""
        if self.distinct_batch:
            low, high = self.block(position)
            position = low if low == position else high
        return self.schedule.begin + -(-position // self.schedule.batch)

    def first_change(
        self, before: Schedule, end_of: Callable[[Callable[[int], int]], int | None]
    ) -> int | None:
        """Return the first position whose sample differs from that by a schedule before.

        Args:
            before: Of the same sources, with the same events.
            end_of: Returns where the last epoch ends, if epochs begin at these positions.
        """
        length = sum(self.length_of(name) for name in before.planned)
        end = end_of(lambda epoch: epoch * length)
        if not self.distinct_batch:
            changed = self.schedule.first_change(before)
            if self._apart_batch and end != self.end:  # the batch that it ends in is another
                least = min(e for e in (end, self.end) if e is not None)
                least -= least % self._apart_batch
                changed = least if changed is None else min(changed, least)
            return changed
        length = self.distinct_batch * BLOCK_BATCHES
        return self.schedule.first_change_of_blocks(before, length, self.end, end)

    def _apart(self, start: int, stop: int) -> Plan:
        """Plan positions with whole batches around them, whose negatives differ within each."""
        size = self._apart_batch
        low, high = start - start % size, stop + -stop % size
        if self.end is not None and stop <= self.end:
            high = min(high, self.end)
        drawn = self._samples(np.arange(low, high, dtype=np.int64))
        batch = drawn.plan.positions // size
        if (lacking := settle(drawn, batch)) is not None:
            raise self._refused(drawn, batch, lacking)
        return drawn.plan.part(slice(start - low, stop - low))

    def _refused(self, drawn: Drawn, batch: Integers, row: int) -> RecipeError:
        stream, (rows,) = drawn.stream_of(row), np.nonzero(batch == batch[row])
        free, fixed = drawn.free[:, rows].sum(), map(drawn.fixed, rows.tolist())
        fitting = sum(1 for _ in takewhile(OneBatch(drawn).add, rows.tolist()))
        return RecipeError(
            f"no_duplicates='negatives' cannot be kept: batch {self.schedule.begin + batch[row]} "
            f"wants {free} different negatives that are none of the {len(set().union(*fixed))} "
            f"texts of its anchors and positives, and one of them (recipe {stream.recipe.name!r}, "
            f"source {stream.source!r}) has no text left to choose; lower negatives"
            + (f", or batch_size to at most {fitting:,} for all ranks" if fitting else "")
        )

    def _samples(self, positions: Integers, schedule: Schedule | None = None) -> Drawn:
        """Plan samples one by one, whatever others there are."""
        schedule = schedule or self.schedule
        per_draw = self.samples_per_draw
        numbers = positions
        if per_draw > 1:
            numbers = positions // per_draw
            numbers = numbers[np.diff(numbers, prepend=-1) > 0]
        starts = range(0, max(1, len(numbers)), MAX_SPAN)
        spans = (numbers[at : at + MAX_SPAN] for at in starts)
        drawn = self._drawn(numbers, [(span, self._shares(schedule, span)) for span in spans])
        if per_draw == 1:
            return drawn
        of_pair = np.searchsorted(numbers, positions // per_draw) * per_draw + positions % per_draw
        return drawn.part(of_pair)

    def _drawn(
        self, numbers: Integers, spans: Sequence[tuple[Integers, Iterable[_Share]]]
    ) -> Drawn:
        """Draw, and spread draws over their pairs.

        Args:
            numbers: Of the draws.
            spans: The same, some at a time, with what each stream gets of these.
        """
        asked: list[Asked] = []
        parts, offset = [], 0
        for some, shares in spans:
            parts.append(self._draws(some, shares, asked, offset))
            offset += len(some)
        plan, draws, per_draw = joined(parts), np.arange(len(numbers)), self.samples_per_draw
        if per_draw > 1:
            plan, draws = spread(plan, per_draw), np.repeat(draws, per_draw)
        return Drawn(plan, draws, plan.positions % per_draw - 2, asked, len(numbers))

    def _draws(
        self, numbers: Integers, shares: Iterable[_Share], asked: list[Asked], offset: int
    ) -> Plan:
        """Plan draws: positions, unless several samples share a draw.

        Where negatives may be drawn again, note in ``asked`` for whom: rows count from ``offset``.
        """
        length, first = len(numbers), self.streams[0]
        streams = np.zeros(length, dtype=np.int64)
        draws: list[tuple[Integers, Draw]] = []
        for number, at, index in shares:
            streams[at] = number
            of = self.streams[number]
            draws.append((at, draw := of.draw_at(index)))
            if self.needs_all and draw.wanting is not None:
                asked.append(Asked(at + offset, of, draw.wanting))
        nothing = streams[:0]
        columns = scattered(draws or [(nothing, first.draw_at(nothing))], length)
        labels = columns.pop("labels", None)
        if not first.is_given:
            labels = None
        elif not self.is_graded:
            labels = labels.astype(np.int64)
        swapped = np.zeros(length, dtype=bool)
        if self.swaps:
            coin = hashed(self._swap_key, numbers)
            swapped = (coin >> np.uint64(63)).astype(bool)
            for of_slots in (columns["chunks"], columns["hashes"]):
                anchor, positive = of_slots[:2]
                of_slots[0] = np.where(swapped, positive, anchor)
                of_slots[1] = np.where(swapped, anchor, positive)
        given = first.is_given
        return Plan(numbers, streams, swapped=swapped, labels=labels, given=given, **columns)

    def _shares(self, schedule: Schedule, numbers: Integers) -> Iterator[_Share]:
        """Yield what each stream gets of some draws."""
        for share in schedule.deal(numbers):
            indexes, recipes = self._recipes[share.leaf]
            for part in recipes.deal(share.indexes):
                yield indexes[part.leaf], share.offsets[part.offsets], part.indexes
