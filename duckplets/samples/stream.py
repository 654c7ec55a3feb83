"""Draw the chunks of the i-th samples of a stream, from i alone."""

# The i-th sample takes anchor ``order(epoch)[rank]``. Visits to an anchor rotate its chunks and
# positives from a hashed start, each once before any twice. There is no state.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Floats, Integers, Keys, Words
from duckplets.mining.near import NearTexts
from duckplets.order.apportion import Apportionment, exact_weights
from duckplets.order.blocks import KeyedOrder, StairOrder
from duckplets.order.permute import below, hashed, key, ranks_at
from duckplets.order.tapes import StreamTape
from duckplets.pools.arrays import (
    Anchors,
    Filtered,
    NegativeRequests,
    Pool,
    PoolNegatives,
    Positives,
)
from duckplets.recipes.recipes import TextRecipe, TripletRecipe
from duckplets.samples.candidates import Candidates
from duckplets.samples.negatives import (
    AT_RANDOM,
    BY_CHANCE,
    FILLED,
    FROM_SPLIT,
    FoundNegatives,
    InTurn,
    MinedNegatives,
    OwnNegatives,
    RandomNegatives,
    blank,
)

_Sampler: TypeAlias = RandomNegatives | InTurn

_OF_SOURCE = 12  # attempts within the source before drawing from all sources


@dataclass(frozen=True, slots=True)
class Draw:
    """Samples of one stream, a row for each slot: anchor, positives, negatives; or the text."""

    chunks: Sequence[Integers]  # chunk keys; for messages record keys; for tokens row and epoch
    hashes: Sequence[Words]  # of their texts, and of families to separate; none for tokens
    # origin of each negative: the number of a candidate, or a code of ``negatives``
    candidates: Sequence[Integers] | None = None
    requests: NegativeRequests | None = None  # requests that its negatives answer
    labels: Sequence[Floats] | None = None  # one row: the labels of labelled pairs
    anchors: Sequence[Integers] | None = None  # one row, if texts near anchors are excluded
    keys: Sequence[Integers] | None = None  # one row: the batch key of each sample
    counts: Sequence[Integers] | None = None  # one row: positives of each list; the rest is filler


@dataclass(frozen=True)
class Stream:
    """The anchors of one recipe over one source, in the order of a run."""

    source: str
    pool: Pool
    seed: int  # of the run
    negatives: int = 1  # of a sample
    candidates: tuple[Candidates, ...] = ()  # of a mined recipe, by scorer
    of_records: int | None = None  # records of possible anchors, if its share depends on anchors
    shares: Mapping[str, float] | None = None  # shares of the ways to choose negatives, if mixed
    graded: bool = False  # whether its pairs are labelled, with labels other than 0 and 1
    families: Words | None = None  # of each anchor, if batches separate families
    near: NearTexts | None = None  # texts that each anchor excludes from its batch
    keyed: KeyedOrder | None = None  # the order of anchors, if batches share a key
    generation: int | None = None  # number of the newest mining of its candidates
    tape: StreamTape | None = None  # tokens of its samples, if shares are of tokens
    listed: int = 0  # most positives of a list; 0 for other kinds
    value: str | None = None  # value of its records, if shares are of values
    units: Integers | None = None  # its anchors, ascending; None for all of the pool
    stairs: StairOrder | None = None  # the order of anchors, if it follows a value
    ranked: Sequence[Sequence[str]] = ()  # for lists: the files of ranked positives by mining

    bucket = None  # length bucket: batches are of all lengths

    @property
    def name(self) -> str:
        """Name in the mixture: the source, or a value."""
        return self.source if self.value is None else self.value

    @property
    def has_fallbacks(self) -> bool:
        """Whether some negatives can be fallbacks."""
        return bool(self.candidates) or self.pool.beyond is not None

    @property
    def is_given(self) -> bool:
        """Whether its pairs are labelled, and nothing is drawn."""
        return self.pool.compiled.is_given

    @property
    def version(self) -> int:
        """Version of the corpus it is drawn from."""
        return int(self.pool.compiled.parameters["version"])

    @property
    def recipe(self) -> TripletRecipe | TextRecipe:
        """The recipe."""
        return self.pool.compiled.recipe

    @property
    def share(self) -> Fraction | float:
        """Relative share among the streams of its source."""
        if self.of_records is None:
            return self.recipe.weight
        return Fraction(repr(self.recipe.weight)) * Fraction(
            len(self.pool.anchors), self.of_records
        )

    def __len__(self) -> int:
        return len(self.pool.anchors if self.units is None else self.units)

    def purpose(self, name: str) -> int:
        """Return the hash key of a purpose within this stream."""
        of_value = () if self.value is None else (self.value,)
        return key(self.seed, self.source, self.recipe.name, name, *of_value)

    @cached_property
    def _keys(self) -> dict[str, int]:
        return {name: self.purpose(name) for name in ("order", "window", "positive")}

    def draw_at(self, index: Integers) -> Draw:
        """Return the chunks of samples by ascending number, with or without gaps."""
        pool, anchors = self.pool, self.pool.anchors
        known = None if self.tape is None else self.tape.known(index)
        drawn = [*(self.places_at(index) if known is None else known)]
        units, visits, anchor_at = drawn[:3]
        keys = None if self.keyed is None else [self.keyed.keys[units]]
        chunks = [anchors.chunks[anchor_at].astype(np.int64, copy=False)]
        hashes, swapped, counts = [anchors.hashes[anchor_at]], None, None
        if pool.positives is not None:
            candidates: Anchors | Positives = anchors
            positive_at: Sequence[Integers] | Integers = drawn[3:]
            if not pool.compiled.own_positive:
                candidates = pool.positives
                swapped = (
                    None if candidates.questions is None else candidates.questions[positive_at[0]]
                )
            if self.listed:
                positive_at, counts = _distinct_first(candidates.hashes, np.stack(drawn[3:]))
            for slot, places in enumerate(positive_at):
                chunk, text = (
                    candidates.chunks[places].astype(np.int64, copy=False),
                    candidates.hashes[places],
                )
                if counts is not None:
                    chunk = np.where(slot < counts, chunk, chunks[0])
                    text = np.where(slot < counts, text, hashes[0])
                chunks.append(chunk)
                hashes.append(text)
        families = [] if self.families is None else [self.families[units]]
        if pool.negatives is None:
            labels = None if pool.labels is None else [pool.labels[units]]
            return Draw(chunks, hashes + families, labels=labels, keys=keys)
        requests = self._requests(index, units, visits, anchor_at, np.stack(hashes), swapped)
        negatives = [blank(len(index)) for _ in range(self.negatives)]
        for sampler, rows, some in self._by_sampler(requests):
            for of_slot, found in zip(negatives, sampler.draw_all(some), strict=True):
                of_slot.put(rows, found)
        return Draw(
            chunks + [found.chunks for found in negatives],
            hashes + [found.hashes for found in negatives] + families,
            [found.origins for found in negatives],
            requests,
            anchors=None if self.near is None else [units],
            keys=keys,
            counts=None if counts is None else [counts],
        )

    def places_at(self, index: Integers) -> tuple[Integers, ...]:
        """Return anchors, earlier visits, and places of anchor and positive chunks of samples."""
        pool = self.pool
        order = self.keyed or self.stairs
        if order is None:
            units, visits = ranks_at(self._keys["order"], len(self), index)
        else:
            units, visits = order.at(index)
        if self.units is not None:
            units = self.units[units]
        anchor_at = self._anchor_at(units, visits)
        if pool.positives is None:
            return units, visits, anchor_at
        at = np.broadcast_to(anchor_at, (self.listed or 1, len(anchor_at)))
        if not pool.compiled.own_positive:
            at = self._positives_at(pool.positives, units, anchor_at, visits)
        return units, visits, anchor_at, *at

    def first_turns(self, purpose: str, units: Integers, counts: Integers) -> Integers:
        """Return the first chunk (``window``) or ``positive`` of each anchor's rotation."""
        if counts.max(initial=0) < 2:
            return np.zeros_like(counts)
        return below(hashed(self._keys[purpose], self.pool.anchors.ids[units]), counts)

    def _anchor_at(self, units: Integers, visits: Integers) -> Integers:
        """Rotate through an anchor's chunks: the visit-th from a hashed start."""
        anchors = self.pool.anchors
        if len(anchors.chunks) == len(anchors):
            return units
        first = anchors.starts[units]
        count = anchors.starts[units + 1] - first
        start = self.first_turns("window", units, count)
        return first + (start + visits) % count

    def _positives_at(
        self, positives: Positives, units: Integers, anchor_at: Integers, visits: Integers
    ) -> Integers:
        """Rotate through an anchor's positives, so that all pairs come."""
        anchors, most = self.pool.anchors, self.listed or 1
        banned, count = positives.banned, positives.counts[units]
        if banned is not None:
            count = count - banned.counts[anchor_at]
        start = self.first_turns("positive", units, count)
        took: Integers | int = 1
        period = count
        if most > 1:
            took = np.minimum(count, most)
            period = count // np.gcd(count, took)
        cycle = np.lcm(anchors.starts[units + 1] - anchors.starts[units], period)
        # one more after each cycle: otherwise some pairs would never meet if counts share a divisor
        first = start + visits * took + visits // cycle
        rank = (first + np.arange(most)[:, None]) % count
        if banned is not None:
            passed = banned.skipped(np.tile(anchor_at, most), rank.reshape(-1))
            rank += passed.reshape(rank.shape)
        return np.asarray(positives.starts[units] + rank, np.int64)

    def _requests(
        self,
        index: Integers,
        units: Integers,
        visits: Integers,
        anchor_at: Integers,
        hashes: Words,
        swapped: Words | None,
    ) -> NegativeRequests:
        anchors = self.pool.anchors
        samplers = np.zeros(len(index), dtype=np.int64)
        if self.pool.short is not None:
            samplers[self.pool.short[anchor_at]] = 1
        elif self.shares is not None:
            weights = exact_weights([*self.shares.values()])
            for share in Apportionment(weights, self.purpose("kinds")).deal(index):
                samplers[share.offsets] = share.leaf
        period, ids = units, None  # used only by negatives of the own record
        if self.pool.compiled.own_negatives:
            ids = anchors.ids[units]
            period = anchors.starts[units + 1] - anchors.starts[units]
            if self.pool.positives is not None and not self.pool.compiled.own_positive:
                count = self.pool.positives.counts[units]
                period = np.lcm(period, count) * count
        if self.candidates:
            visits = self._section_visits(units, visits, anchor_at)
        if anchors.turns is not None:  # the pairs of a record take its negatives in turn
            turns, number = (numbers[units] for numbers in anchors.turns)
            visits, period = visits * turns + number, period * turns
        return NegativeRequests(
            index,
            anchors.classes[anchor_at],
            ids,
            anchors.families_of(units),
            None if anchors.questions is None else anchors.questions[anchor_at],
            swapped,
            hashes,
            anchor_at,
            visits,
            period,
            samplers,
        )

    def again(
        self, requests: NegativeRequests, slot: int, attempts: Integers
    ) -> tuple[FoundNegatives, Flags]:
        """Return another negative for a slot of every sample, and whether it is legal."""
        if self.pool.short is not None:
            samplers = np.where(attempts < _OF_SOURCE, requests.samplers, 1)
            requests = replace(requests, samplers=samplers)
        size = len(requests.samplers)
        column, legal = blank(size), np.zeros(size, dtype=bool)
        for sampler, rows, some in self._by_sampler(requests):
            found, legal[rows] = sampler.again(some, slot, attempts[rows])
            column.put(rows, found)
        return column, legal

    def _by_sampler(
        self, requests: NegativeRequests
    ) -> Iterator[tuple[_Sampler, Integers | slice, NegativeRequests]]:
        if len(self._samplers) == 1:
            yield self._samplers[0], slice(None), requests
            return
        for number, sampler in enumerate(self._samplers):
            rows = np.flatnonzero(requests.samplers == number)
            if len(rows):
                yield sampler, rows, requests.part(rows)

    @cached_property
    def _samplers(self) -> list[_Sampler]:
        """The samplers of negatives, by their number in requests; usually one."""
        pool = self.pool.negatives
        if pool is None:
            return []
        beyond, random = self.pool.beyond, self._random(pool, BY_CHANCE)
        if self.pool.compiled.own_negatives:
            others = None if beyond is None else self._random(beyond, FILLED)
            return [OwnNegatives(self.negatives, pool, others, self.purpose("own negative"))]
        if beyond is not None:
            return [random, self._random(beyond, FROM_SPLIT)]
        ways: dict[str, _Sampler] = {"random": random}
        for candidates in self.candidates:
            others = self._random(pool, AT_RANDOM)
            start, within = self.purpose("candidate"), self.purpose("candidate window")
            listed = self.negatives, pool, others, start
            ways[candidates.scorer] = MinedNegatives(*listed, candidates, within_key=within)
        return [ways[way] for way in self.shares or [list(ways)[-1]]]

    def _random(self, pool: PoolNegatives, origin: int) -> RandomNegatives:
        return RandomNegatives(
            self.negatives,
            pool,
            unit_key=self.purpose("negative"),
            within_key=self.purpose("negative window"),
            what=f"recipe {self.recipe.name!r}, source {self.source!r}",
            origin=origin,
        )

    @cached_property
    def _runs(self) -> Integers:
        """The first chunk of each anchor in each section, and the end."""
        anchors, guarded = self.pool.anchors, self.pool.guarded
        first = np.zeros(len(anchors.chunks) + 1, dtype=bool)
        first[anchors.starts] = True
        if guarded is not None:
            first[1:-1] |= guarded.sections[1:] != guarded.sections[:-1]
        return np.flatnonzero(first)

    def _section_visits(self, units: Integers, visits: Integers, anchor_at: Integers) -> Integers:
        """Return the earlier visits of each anchor to its chunk's section."""
        anchors = self.pool.anchors
        if len(anchors.chunks) == len(anchors):
            return visits
        first = anchors.starts[units]
        count = anchors.starts[units + 1] - first
        run = np.searchsorted(self._runs, anchor_at, side="right") - 1
        low, high = self._runs[run], self._runs[run + 1]
        cycles, since = np.divmod(visits, count)
        begin = first + (anchor_at - first - since) % count  # start of every cycle
        within = (begin > low) & (begin < high)
        after = np.where(anchor_at >= begin, anchor_at - begin, high - begin + anchor_at - low)
        passed = np.where(within, after, anchor_at - low)
        return np.asarray(cycles * (high - low) + passed, np.int64)

    @property
    def negatives_from(self) -> str | None:
        """Origin of negatives in a word; ``given`` also for labelled pairs."""
        if self.pool.negatives is None:
            return "given" if self.is_given else None
        if self.pool.compiled.own_negatives:
            return "same_record" if self.pool.beyond is None else "given"
        return "mined" if self.candidates else "random"

    @property
    def filtered(self) -> Filtered | None:
        """Pairs and anchors before and after the consistency filter; None without one."""
        return self.pool.filtered

    @property
    def shared_questions(self) -> int:
        """Anchors that share a question with other records."""
        return self.pool.shared

    @cached_property
    def fallback_anchors(self) -> int:
        """Anchors with a chunk that has fewer negatives of its kind than a sample takes."""
        pool, short = self.pool, self.pool.short
        if self.negatives_from == "given" and pool.negatives is not None:
            short = pool.negatives.counts()[pool.anchors.classes] < self.negatives
        for one in self.candidates:
            few = one.counts[one.rows] < self.negatives
            short = few if short is None else short | few
        if short is None:
            return 0
        few = np.logical_or.reduceat(short, pool.anchors.starts[:-1])
        return int((few if self.units is None else few[self.units]).sum())

    def mean_tokens(
        self, tokens_of: Callable[[Keys], Integers], per_draw: int, *, swaps: bool
    ) -> float:
        """Return the mean tokens of a sample, from the means of its slots."""
        pool = self.pool
        units = slice(None) if self.units is None else self.units
        starts, stops = pool.anchors.starts[:-1][units], pool.anchors.starts[1:][units]
        anchor = _mean(tokens_of(pool.anchors.chunks), starts, stops)
        if pool.positives is None:
            return anchor
        positive, negative = anchor, 0.0
        if not pool.compiled.own_positive:
            starts = pool.positives.starts[units]
            stops = starts + pool.positives.counts[units]
            positive = _mean(tokens_of(pool.positives.chunks), starts, stops)
        if pool.negatives is not None and len(pool.negatives.chunks):
            starts = pool.negatives.starts  # of the records, one of which is drawn first
            if pool.compiled.own_negatives:
                starts = np.arange(len(pool.negatives.chunks) + 1)
            negative = _mean(tokens_of(pool.negatives.chunks), starts[:-1], starts[1:])
        if per_draw == 1:
            positives = 1.0
            if self.listed and not pool.compiled.own_positive:
                positives = float(np.minimum(pool.positives.counts, self.listed).mean())
            return anchor + positives * positive + self.negatives * negative
        if swaps:
            anchor = positive = (anchor + positive) / 2
        return anchor + (positive + (per_draw - 1) * negative) / per_draw


def _distinct_first(hashes: Words, at: Integers) -> tuple[Integers, Integers]:
    """Return places with different texts first, and the number of these in each column."""
    words = hashes[at]
    order = np.argsort(words, axis=0, kind="stable")
    words = np.take_along_axis(words, order, axis=0)
    repeats, found = np.zeros(at.shape, bool), np.zeros(at.shape, bool)
    repeats[1:] = words[1:] == words[:-1]
    np.put_along_axis(found, order, repeats, axis=0)
    at = np.take_along_axis(at, np.argsort(found, axis=0, kind="stable"), axis=0)
    return at, np.count_nonzero(~found, axis=0)


def _mean(tokens: Integers, starts: Integers, stops: Integers) -> float:
    """Return the mean over anchors of the mean of each one's values."""
    upto = np.concatenate([[0], np.cumsum(tokens)])
    return float(((upto[stops] - upto[starts]) / np.maximum(stops - starts, 1)).mean())
