"""Draw the chunks that the i-th samples of a stream are made of, from i alone.

A stream is the anchors of one (source, recipe) of a run. Its i-th sample takes anchor
``order(epoch)[rank]``; the epoch counts the visits to that anchor, and by visits the anchor's
chunks and positives rotate from a hashed start, each used once before any twice. So do mined
negatives, and those of the anchor's own record; others are hashed draws. Everything is keyed and
vectorised, nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from duckplets.base.arrays import Flags, Integers
from duckplets.order.apportion import Apportionment, exact_weights
from duckplets.order.permute import below, hashed, key, ranks_at
from duckplets.pools.arrays import Anchors, Negatives, Pool, Positives
from duckplets.pools.legality import Legality, NegativeRequests
from duckplets.recipes.recipes import TextRecipe, TripletRecipe
from duckplets.samples.candidates import Candidates
from duckplets.samples.negatives import (
    AT_RANDOM,
    BY_CHANCE,
    FILLED,
    FROM_SPLIT,
    FoundNegatives,
    MinedNegatives,
    OwnNegatives,
    RandomNegatives,
    Supply,
    Wanting,
    blank,
)
from duckplets.samples.planned import Draw

_OF_SOURCE = 12  # attempts to draw again within the source, before those in all sources


@dataclass(frozen=True)
class Stream:
    """The anchors of one recipe over one source, in the order of a run.

    Attributes:
        source: Name of the source.
        pool: What it draws from.
        seed: Of the run.
        negatives: How many a sample has.
        candidates: The mined ones, of a mined recipe.
        of_records: Records of its source that anchors may be of, where its share goes by anchors.
        shares: Of the ways of choosing negatives, by name, where they are mixed.
        graded: Whether labels of its source are neither 0 nor 1, and its pairs come with them.
    """

    source: str
    pool: Pool
    seed: int
    negatives: int = 1
    candidates: Candidates | None = None
    of_records: int | None = None
    shares: Mapping[str, float] | None = None
    graded: bool = False

    bucket = None  # of lengths: batches are of all of them

    @property
    def tells(self) -> bool:
        """Whether its draws tell where negatives are from."""
        return self.candidates is not None or self.pool.beyond is not None

    @property
    def is_given(self) -> bool:
        """Whether its pairs come as they were judged, with nothing drawn beside them."""
        return self.pool.compiled.is_given

    @property
    def version(self) -> int:
        """The version of the corpus that it is drawn from."""
        return int(self.pool.compiled.parameters["version"])

    @property
    def recipe(self) -> TripletRecipe | TextRecipe:
        """The recipe."""
        return self.pool.compiled.recipe

    @property
    def share(self) -> Fraction | float:
        """Its share among the streams of its source, relative."""
        if self.of_records is None:
            return self.recipe.weight
        return Fraction(repr(self.recipe.weight)) * Fraction(len(self), self.of_records)

    def __len__(self) -> int:
        return len(self.pool.anchors)

    def purpose(self, name: str) -> int:
        """Return the key of a purpose within this stream."""
        return key(self.seed, self.source, self.recipe.name, name)

    @cached_property
    def _keys(self) -> dict[str, int]:
        return {name: self.purpose(name) for name in ("order", "window", "positive")}

    def draw(self, start: int, stop: int) -> Draw:
        """Return the chunks of the stream's samples ``start … stop-1``."""
        return self.draw_at(np.arange(start, stop, dtype=np.int64))

    def draw_at(self, index: Integers) -> Draw:
        """Return the chunks of some of the stream's samples; their numbers ascend, gaps or not."""
        anchors = self.pool.anchors
        units, visits = ranks_at(self._keys["order"], len(anchors), index)
        anchor_at = self._anchor_at(units, visits)
        draw = Draw([anchors.chunks[anchor_at]], [anchors.hashes[anchor_at]])
        if self.pool.labels is not None:
            draw = replace(draw, labels=self.pool.labels[units])
        if self.pool.positives is None:
            return draw
        of: Anchors | Positives = anchors
        at = anchor_at
        if not self.pool.compiled.own_positive:
            of = self.pool.positives
            at = self._positive_at(of, units, anchor_at, visits)
        draw.chunks.append(of.chunks[at])
        draw.hashes.append(of.hashes[at])
        if self.pool.negatives is None:
            return draw
        return self._with_negatives(draw, index, units, visits, anchor_at)

    def _anchor_at(self, units: Integers, visits: Integers) -> Integers:
        """Rotate through an anchor's chunks: the visit-th from a hashed start."""
        anchors = self.pool.anchors
        if len(anchors.chunks) == len(anchors):
            return units
        first = anchors.starts[units]
        count = anchors.starts[units + 1] - first
        start = below(hashed(self._keys["window"], anchors.records[units]), count)
        return first + (start + visits) % count

    def _positive_at(
        self, positives: Positives, units: Integers, anchor_at: Integers, visits: Integers
    ) -> Integers:
        """Rotate through an anchor's positives, so that every pairing comes up in time.

        Both rotations step with the visits; after each common cycle the positive moves on by
        one more, else pairs whose counts share a divisor would never meet.
        """
        anchors = self.pool.anchors
        banned, count = positives.banned, positives.counts[units]
        if banned is not None:
            count = count - banned.counts[anchor_at]
        start = below(hashed(self._keys["positive"], anchors.records[units]), count)
        cycle = np.lcm(anchors.starts[units + 1] - anchors.starts[units], count)
        rank = (start + visits + visits // cycle) % count
        if banned is not None:
            rank += banned.skipped(anchor_at, rank)
        return np.asarray(positives.starts[units] + rank, np.int64)

    def _with_negatives(
        self, draw: Draw, index: Integers, units: Integers, visits: Integers, anchor_at: Integers
    ) -> Draw:
        """Add the negatives of samples that have anchor and positive."""
        anchors, guarded = self.pool.anchors, self.pool.guarded
        samples = NegativeRequests(
            index,
            anchors.classes[anchor_at],
            anchors.records[units],
            (anchors.records if guarded is None else guarded.families)[units],
            None if guarded is None else guarded.normalised_hashes[anchor_at],
            tuple(draw.hashes),
        )
        if self.candidates is not None:
            visits = self._section_visits(units, visits, anchor_at)
        supply = self._supply_of(index, anchor_at)
        wanting = Wanting(samples, anchor_at, visits, self._period(units), supply)
        if self.shares is None and self.pool.short is None:
            columns = self._supplies[0].draw_all(wanting)
        else:
            columns = self._drawn_by_several(wanting)
        return replace(
            draw,
            chunks=[*draw.chunks, *(found.chunks for found in columns)],
            hashes=[*draw.hashes, *(found.hashes for found in columns)],
            candidates=[found.told for found in columns] if self.tells else None,
            wanting=wanting,
        )

    def _drawn_by_several(self, wanting: Wanting) -> list[FoundNegatives]:
        columns = [blank(len(wanting.supply)) for _ in range(self.negatives)]
        for supply, rows in self._by_supply(wanting):
            for column, found in zip(columns, supply.draw_all(wanting.part(rows)), strict=True):
                column.put(rows, found)
        return columns

    def again(self, wanting: Wanting, slot: int, attempt: int) -> tuple[FoundNegatives, Flags]:
        """Return another negative for a slot of every sample, and whether it is legal.

        Where negatives may be of all sources, later attempts look there.
        """
        if self.pool.short is not None and attempt >= _OF_SOURCE:
            wanting = replace(wanting, supply=np.ones_like(wanting.supply))
        size = len(wanting.supply)
        column, legal = blank(size), np.zeros(size, dtype=bool)
        for supply, rows in self._by_supply(wanting):
            found, legal[rows] = supply.again(wanting.part(rows), slot, attempt)
            column.put(rows, found)
        return column, legal

    def options(self, wanting: Wanting) -> FoundNegatives:
        """Return every negative that one sample could have, each text once."""
        widest = -1 if self.pool.short is not None else int(wanting.supply[0])
        return self._supplies[widest].options(wanting)

    def _by_supply(self, wanting: Wanting) -> Iterator[tuple[Supply, Integers]]:
        for number, supply in enumerate(self._supplies):
            rows = np.flatnonzero(wanting.supply == number)
            if len(rows):
                yield supply, rows

    def _supply_of(self, index: Integers, anchor_at: Integers) -> Integers:
        """Return which of the supplies samples draw from."""
        chosen = np.zeros(len(index), dtype=np.int64)
        if self.pool.short is not None:
            chosen[self.pool.short[anchor_at]] = 1
        elif self._kinds is not None:
            for share in self._kinds.deal(index):
                chosen[share.offsets] = share.leaf
        return chosen

    @cached_property
    def _kinds(self) -> Apportionment | None:
        """Deals samples to the ways of choosing negatives, where they are mixed."""
        if self.shares is None:
            return None
        weights = exact_weights([*self.shares.values()])
        return Apportionment(weights, self.purpose("kinds"))

    @property
    def way(self) -> str:
        """How negatives are chosen, where that is not mixed."""
        if self.candidates is not None:
            return "bm25"
        by = self.recipe.by if isinstance(self.recipe, TripletRecipe) else None
        return by if isinstance(by, str) else "random"

    @cached_property
    def _supplies(self) -> list[Supply]:
        """What negatives are drawn from: mostly one, else what ``_supply_of`` numbers."""
        pool, candidates = self.pool.negatives, self.candidates
        if pool is None:
            return []
        beyond, random = self.pool.beyond, self._random(pool, BY_CHANCE)
        if self.pool.compiled.own_negatives:
            others = None if beyond is None else self._random(beyond, FILLED)
            return [OwnNegatives(pool, others, self.negatives, self.purpose("own negative"))]
        if beyond is not None:
            return [random, self._random(beyond, FROM_SPLIT)]
        ways: dict[str, Supply] = {"random": random}
        if candidates is not None:
            others = self._random(pool, AT_RANDOM)
            start, within = self.purpose("candidate"), self.purpose("candidate window")
            ways["bm25"] = MinedNegatives(
                pool, others, self.negatives, start, candidates, within_key=within
            )
        return [ways[way] for way in self.shares or [self.way]]

    def _period(self, units: Integers) -> Integers:
        """Return after how many visits chunks and positives of anchors come as from the start."""
        anchors, positives = self.pool.anchors, self.pool.positives
        if not self.pool.compiled.own_negatives:
            return units  # nobody asks
        chunks = anchors.starts[units + 1] - anchors.starts[units]
        if positives is None or self.pool.compiled.own_positive:
            return chunks
        count = positives.counts[units]
        return np.asarray(np.lcm(chunks, count) * count, np.int64)

    def _random(self, pool: Negatives, told: int) -> RandomNegatives:
        return RandomNegatives(
            Legality(pool),
            unit_key=self.purpose("negative"),
            within_key=self.purpose("negative window"),
            slots=self.negatives,
            what=f"recipe {self.recipe.name!r}, source {self.source!r}",
            told=told,
        )

    @cached_property
    def _runs(self) -> Integers:
        """First of the adjoining chunks of each anchor that are of one section, and the end."""
        anchors, guarded = self.pool.anchors, self.pool.guarded
        first = np.zeros(len(anchors.chunks) + 1, dtype=bool)
        first[anchors.starts] = True
        if guarded is not None:
            first[1:-1] |= guarded.sections[1:] != guarded.sections[:-1]
        return np.flatnonzero(first)

    def _section_visits(self, units: Integers, visits: Integers, anchor_at: Integers) -> Integers:
        """Return how often each anchor had come to the section of its chunk before.

        Its chunks come in order from a hashed start, and those of a section adjoin: every full
        cycle visits a section once for each of them, the one under way for those it has passed.
        """
        anchors = self.pool.anchors
        if len(anchors.chunks) == len(anchors):
            return visits
        first = anchors.starts[units]
        count = anchors.starts[units + 1] - first
        run = np.searchsorted(self._runs, anchor_at, side="right") - 1
        low, high = self._runs[run], self._runs[run + 1]
        cycles, since = np.divmod(visits, count)
        begin = first + (anchor_at - first - since) % count  # where every cycle begins
        within = (begin > low) & (begin < high)
        after = np.where(anchor_at >= begin, anchor_at - begin, high - begin + anchor_at - low)
        passed = np.where(within, after, anchor_at - low)
        return np.asarray(cycles * (high - low) + passed, np.int64)

    @property
    def negatives_from(self) -> str | None:
        """Where negatives come from: ``mined``, ``same_record`` or by which way; None for texts.

        ``given``: ``same_record``, filled up at random; or pairs as they were judged.
        """
        if self.pool.negatives is None:
            return "given" if self.is_given else None
        if self.pool.compiled.own_negatives:
            return "same_record" if self.pool.beyond is None else "given"
        return self.way if self.candidates is None else "mined"

    @cached_property
    def fallback_anchors(self) -> int:
        """How many anchors have a chunk with fewer negatives of their kind than a sample takes.

        Fewer mined or given ones; or fewer in their source, where all sources may fill in.
        """
        pool, candidates, short = self.pool, self.candidates, self.pool.short
        if self.negatives_from == "given" and pool.negatives is not None:
            short = pool.negatives.counts()[pool.anchors.classes] < self.negatives
        elif candidates is not None:
            short = candidates.own()[candidates.rows] < self.negatives
        return (
            0
            if short is None
            else int(np.logical_or.reduceat(short, pool.anchors.starts[:-1]).sum())
        )

    def mean_tokens(
        self, tokens_of: Callable[[Integers], Integers], per_draw: int, *, swaps: bool
    ) -> float:
        """Return the tokens that a sample has, by the means of what its slots draw from.

        Args:
            tokens_of: Returns how many tokens chunks have, by their keys.
            per_draw: Samples of a draw, one with the positive and the others with a negative each.
            swaps: Whether anchor and positive change places in half of the samples.
        """
        pool = self.pool
        starts, stops = pool.anchors.starts[:-1], pool.anchors.starts[1:]
        anchor = _mean(tokens_of(pool.anchors.chunks), starts, stops)
        if pool.positives is None:
            return anchor
        positive, negative = anchor, 0.0
        if not pool.compiled.own_positive:
            starts, stops = pool.positives.starts, pool.positives.starts + pool.positives.counts
            positive = _mean(tokens_of(pool.positives.chunks), starts, stops)
        if pool.negatives is not None and len(pool.negatives.chunks):
            starts = pool.negatives.starts  # of the records, of which one is drawn first
            if pool.compiled.own_negatives:
                starts = np.arange(len(pool.negatives.chunks) + 1)
            negative = _mean(tokens_of(pool.negatives.chunks), starts[:-1], starts[1:])
        if per_draw == 1:
            return anchor + positive + self.negatives * negative
        if swaps:
            anchor = positive = (anchor + positive) / 2
        return anchor + (positive + (per_draw - 1) * negative) / per_draw


def _mean(tokens: Integers, starts: Integers, stops: Integers) -> float:
    """Return the mean over anchors of the mean of what each has."""
    upto = np.concatenate([[0], np.cumsum(tokens)])
    return float(((upto[stops] - upto[starts]) / np.maximum(stops - starts, 1)).mean())
