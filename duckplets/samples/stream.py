"""Draw the chunks that the i-th samples of a stream are made of, from i alone.

A stream is the anchors of one (source, recipe) of a run. Its i-th sample takes anchor
``order(epoch)[rank]``; the epoch counts the visits to that anchor, and by visits the anchor's
chunks and positives rotate from a hashed start, each used once before any twice. So do mined
negatives, and those of the anchor's own record; others are hashed draws. Everything is keyed and
vectorised, nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from duckplets.base.arrays import Flags, Floats, Integers, Words
from duckplets.order.apportion import Apportionment
from duckplets.order.permute import below, hashed, key, ranks_at
from duckplets.order.weights import exact_weights
from duckplets.pools.arrays import Negatives, Pool, Positives
from duckplets.pools.legality import Legality, NegativeRequests
from duckplets.recipes.recipes import TextRecipe, TripletRecipe
from duckplets.samples import expectation
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

_OF_SOURCE = 12  # attempts to draw again within the source, before those in all sources
_FEW = 256  # samples, from which on drawing them costs more than the calls
_AHEAD = 32  # times as many are drawn where few are asked for again and again


@dataclass(frozen=True, slots=True)
class Draw:
    """Chunks of some samples of a stream, a column a slot.

    Attributes:
        chunks: Chunk keys: anchor, positive, negatives; for texts the anchor alone; of tokens row
            and epoch.
        hashes: Their text hashes; of tokens none.
        candidates: Where negatives are from, a column a negative: the number of a candidate, or
            what else ``negatives`` names; None for a stream that does not tell.
        wanting: The samples as negatives were drawn for them.
        labels: How the pairs of anchor and positive were judged, where they come with that.
    """

    chunks: list[Integers]
    hashes: list[Words]
    candidates: list[Integers] | None = None
    wanting: Wanting | None = None
    labels: Floats | None = None

    def part(self, rows: Integers) -> Draw:
        """Return some of the samples."""
        candidates, wanting, labels = self.candidates, self.wanting, self.labels
        return Draw(
            [column[rows] for column in self.chunks],
            [column[rows] for column in self.hashes],
            None if candidates is None else [column[rows] for column in candidates],
            None if wanting is None else wanting.part(rows),
            None if labels is None else labels[rows],
        )


@dataclass(frozen=True, slots=True)
class _Places:
    """Which anchors some samples take: shape (samples,) each.

    Attributes:
        units: The anchor.
        visits: How often it came before.
        anchor_at: Place in the pool of the chunk of it that is taken.
    """

    units: Integers
    visits: Integers
    anchor_at: Integers


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
        taken = self._positive(self.pool.positives, units, anchor_at, visits)
        draw.chunks.append(taken.chunks[0])
        draw.hashes.append(taken.hashes[0])
        if self.pool.negatives is None:
            return draw
        return self._with_negatives(draw, index, _Places(units, visits, anchor_at))

    def drawn_ahead(self, index: Integers) -> Draw:
        """Return the same as ``draw_at``, from what was drawn ahead when an earlier call asked.

        A sample does not depend on the weights, so where they change at every step, and each asks
        for the few samples that follow, most of what a call costs is paid once for many steps.
        """
        few = 0 < len(index) <= _FEW and index[-1] - index[0] < 2 * len(index)
        if not few:
            return self.draw_at(index)
        start, stop, draw = self._ahead[0]
        if not start <= index[0] <= index[-1] < stop:
            start = int(index[0])
            stop = start + _AHEAD * len(index)
            draw = self.draw(start, stop)
            self._ahead[0] = (start, stop, draw)  # at once: several threads may ask
        return draw.part(index - start)

    @cached_property
    def _ahead(self) -> list[tuple[int, int, Draw]]:
        return [(0, 0, Draw([], []))]

    def _anchor_at(self, units: Integers, visits: Integers) -> Integers:
        """Rotate through an anchor's chunks: the visit-th from a hashed start."""
        anchors = self.pool.anchors
        if len(anchors.chunks) == len(anchors):
            return units
        first = anchors.starts[units]
        count = anchors.starts[units + 1] - first
        start = below(hashed(self._keys["window"], anchors.records[units]), count)
        return first + (start + visits) % count

    def _positive(
        self, positives: Positives, units: Integers, anchor_at: Integers, visits: Integers
    ) -> Draw:
        """Rotate through an anchor's positives, so that every pairing comes up in time.

        Both rotations step with the visits; after each common cycle the positive moves on by
        one more, else pairs whose counts share a divisor would never meet.
        """
        anchors = self.pool.anchors
        if self.pool.compiled.own_positive:
            return Draw([anchors.chunks[anchor_at]], [anchors.hashes[anchor_at]])
        banned, count = positives.banned, positives.counts[units]
        if banned is not None:
            count = count - banned.counts[anchor_at]
        start = below(hashed(self._keys["positive"], anchors.records[units]), count)
        cycle = np.lcm(anchors.starts[units + 1] - anchors.starts[units], count)
        rank = (start + visits + visits // cycle) % count
        if banned is not None:
            rank += banned.skipped(anchor_at, rank)
        at = positives.starts[units] + rank
        return Draw([positives.chunks[at]], [positives.hashes[at]])

    def _with_negatives(self, draw: Draw, index: Integers, places: _Places) -> Draw:
        """Add the negatives of samples that have anchor and positive."""
        anchors, guarded = self.pool.anchors, self.pool.guarded
        samples = NegativeRequests(
            index,
            anchors.classes[places.anchor_at],
            anchors.records[places.units],
            (anchors.records if guarded is None else guarded.families)[places.units],
            None if guarded is None else guarded.normalised_hashes[places.anchor_at],
            tuple(draw.hashes),
        )
        wanting = Wanting(
            samples,
            places.anchor_at,
            places.visits if self.candidates is None else self._section_visits(places),
            self._period(places.units),
            self._supply_of(index, places.anchor_at),
        )
        columns = self._drawn(wanting)
        return Draw(
            [*draw.chunks, *(found.chunks for found in columns)],
            [*draw.hashes, *(found.hashes for found in columns)],
            [found.told for found in columns] if self.tells else None,
            wanting,
            draw.labels,
        )

    def _drawn(self, wanting: Wanting) -> list[FoundNegatives]:
        if self.shares is None and self.pool.short is None:
            return self._supplies[0].draw_all(wanting)
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
    def _way(self) -> str:
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
            return [OwnNegatives(pool, self.purpose("own negative"), self.negatives, others)]
        if beyond is not None:
            return [random, self._random(beyond, FROM_SPLIT)]
        ways: dict[str, Supply] = {"random": random}
        if candidates is not None:
            keys = {"start_key": "candidate", "within_key": "candidate window"}
            purposes = {name: self.purpose(purpose) for name, purpose in keys.items()}
            ways["bm25"] = MinedNegatives(candidates, self._random(pool, AT_RANDOM), **purposes)
        return [ways[way] for way in self.shares or [self._way]]

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

    def _section_visits(self, places: _Places) -> Integers:
        """Return how often each anchor had come to the section of its chunk before.

        Its chunks come in order from a hashed start, and those of a section adjoin: every full
        cycle visits a section once for each of them, the one under way for those it has passed.
        """
        anchors = self.pool.anchors
        if len(anchors.chunks) == len(anchors):
            return places.visits
        first = anchors.starts[places.units]
        anchor_at, count = places.anchor_at, anchors.starts[places.units + 1] - first
        run = np.searchsorted(self._runs, anchor_at, side="right") - 1
        low, high = self._runs[run], self._runs[run + 1]
        cycles, since = np.divmod(places.visits, count)
        begin = first + (anchor_at - first - since) % count  # where every cycle begins
        within = (begin > low) & (begin < high)
        after = np.where(anchor_at >= begin, anchor_at - begin, high - begin + anchor_at - low)
        passed = np.where(within, after, anchor_at - low)
        return np.asarray(cycles * (high - low) + passed, np.int64)

    @property
    def negatives_from(self) -> str | None:
        """Where negatives come from: ``random``, ``mined``, ``same_record``; None for texts.

        ``given``: ``same_record``, filled up at random; or pairs as they were judged.
        """
        if self.pool.negatives is None:
            return "given" if self.is_given else None
        if self.pool.compiled.own_negatives:
            return "same_record" if self.pool.beyond is None else "given"
        return "random" if self.candidates is None else "mined"

    @cached_property
    def fallback_anchors(self) -> int:
        """How many anchors have a chunk with fewer negatives of their kind than a sample takes.

        Fewer mined or given ones; or fewer in their source, where all sources may fill in.
        """
        pool = self.pool
        if self.negatives_from == "given" and pool.negatives is not None:
            short = pool.negatives.counts()[pool.anchors.classes] < self.negatives
            return expectation.with_any(pool.anchors, short)
        if self.candidates is None:
            return 0 if pool.short is None else expectation.with_any(pool.anchors, pool.short)
        return expectation.fallback_anchors(self.pool.anchors, self.candidates, self.negatives)
