"""Plans: which windows the samples at a run of positions are made of. Ids only, no text.

    positions ─apportion→ source ─apportion→ recipe ─Stream.draw→ windows ─swap, rearrange→ plan

A plan is a pure function of the run's configuration and the positions, so any stretch of the
past or future can be planned alone, and how a run is cut into blocks changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duckplets.distinct import BLOCK_BATCHES, rearranged
from duckplets.draw import Stream
from duckplets.order import MAX_SPAN, Apportionment, Integers, Words, exact_weights, hashed, key


@dataclass(frozen=True, slots=True)
class Plan:
    """The samples at consecutive positions, in order.

    Attributes:
        start: The first position.
        streams: Index of the stream of every sample.
        chunks: Chunk keys, a column a slot: anchor, positive, negatives; or the text alone.
        hashes: Text hashes of the same.
        swapped: Whether anchor and positive have changed places.
        labels: For pairs, 1 for anchor and positive, 0 for anchor and negative; else None.
    """

    start: int
    streams: Integers
    chunks: list[Integers]
    hashes: list[Words]
    swapped: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    labels: Integers | None = None

    def __len__(self) -> int:
        return len(self.streams)

    def part(self, low: int, high: int) -> Plan:
        """Return the samples from ``low`` to ``high``, counted within this plan."""
        return self._take(slice(low, high), self.start + low)

    def reordered(self, order: Integers) -> Plan:
        """Return the samples in another order, at the same positions."""
        return self._take(order, self.start)

    def _take(self, which: slice | Integers, start: int) -> Plan:
        return Plan(
            start,
            self.streams[which],
            [column[which] for column in self.chunks],
            [column[which] for column in self.hashes],
            self.swapped[which],
            None if self.labels is None else self.labels[which],
        )


class Planner:
    """Plans the positions of one run.

    Args:
        streams: All of them, grouped by source.
        source_weights: Weight of every source by name; 0 means never.
        kind: ``triplets``, ``pairs`` or ``texts``.
        seed: Of the run.
        swap: Whether anchor and positive change places on a hashed coin.
        distinct_batch: With a batch size, no text comes twice in a batch; 0 for no such rule.

    Attributes:
        end: The position a bounded run ends at, or None.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        source_weights: dict[str, float],
        *,
        kind: str,
        seed: int,
        swap: bool,
        distinct_batch: int = 0,
    ) -> None:
        self.streams = list(streams)
        self.kind = kind
        self._swap = swap and kind != "texts"
        self._swap_key = key(seed, "swap")
        self._distinct_batch = distinct_batch
        self.end: int | None = None
        self._names = sorted({s.source for s in streams if source_weights[s.source] > 0})
        weights = exact_weights([source_weights[name] for name in self._names])
        self._sources = Apportionment(weights, key(seed, "sources"))
        self._recipes = [self._recipes_of(name, seed) for name in self._names]

    def _recipes_of(self, source: str, seed: int) -> tuple[list[int], Apportionment]:
        indexes = [i for i, s in enumerate(self.streams) if s.source == source]
        weights = exact_weights([self.streams[i].recipe.weight for i in indexes])
        return indexes, Apportionment(weights, key(seed, "recipes", source))

    @property
    def samples_per_draw(self) -> int:
        """How many positions one draw of a stream fills: more than one for pairs only."""
        return 1 + self.streams[0].negatives if self.kind == "pairs" else 1

    @property
    def epoch_length(self) -> int:
        """Positions of a nominal epoch: the anchors of all active streams."""
        active = {i for indexes, _ in self._recipes for i in indexes}
        anchors = sum(len(self.streams[i]) for i in active if self.streams[i].recipe.weight > 0)
        return anchors * self.samples_per_draw

    def plan(self, start: int, stop: int) -> Plan:
        """Plan positions ``start … stop-1``."""
        if not self._distinct_batch:
            return self._samples(start, stop)
        block = self._distinct_batch * BLOCK_BATCHES
        first = start // block * block
        parts = [
            rearranged(self._samples(low, self._cut(low + block)), self._distinct_batch)
            for low in range(first, max(stop, first + 1), block)
        ]
        return _joined(parts).part(start - first, stop - first)

    def _cut(self, stop: int) -> int:
        # Past the end of a bounded run lies another epoch, whose samples must not slip in.
        return stop if self.end is None else min(stop, self.end)

    def _samples(self, start: int, stop: int) -> Plan:
        per_draw = self.samples_per_draw
        low, high = start // per_draw, -(-stop // per_draw)
        parts = [
            self._draws(at, min(at + MAX_SPAN, high)) for at in range(low, high, MAX_SPAN)
        ] or [self._draws(low, low)]
        draws = _joined(parts)
        if self.kind != "pairs":
            return draws
        return _pairs(draws, per_draw).part(start - low * per_draw, stop - low * per_draw)

    def _draws(self, start: int, stop: int) -> Plan:
        """Plan draws ``start … stop-1``: positions, unless several samples share a draw."""
        length = stop - start
        slots = 1 if self.kind == "texts" else 2 + self.streams[0].negatives
        streams = np.zeros(length, dtype=np.int64)
        chunks = [np.zeros(length, dtype=np.int64) for _ in range(slots)]
        hashes = [np.zeros(length, dtype=np.uint64) for _ in range(slots)]
        for share in self._sources.shares(start, stop):
            indexes, recipes = self._recipes[share.leaf]
            for part in recipes.shares(share.start, share.start + len(share.offsets)):
                at = share.offsets[part.offsets]
                stream = indexes[part.leaf]
                streams[at] = stream
                draw = self.streams[stream].draw(part.start, part.start + len(at))
                for slot in range(slots):
                    chunks[slot][at] = draw.chunks[slot]
                    hashes[slot][at] = draw.hashes[slot]
        swapped = np.zeros(length, dtype=bool)
        if self._swap:
            coin = hashed(self._swap_key, np.arange(start, stop, dtype=np.int64))
            swapped = (coin >> np.uint64(63)).astype(bool)
            for columns in (chunks, hashes):
                columns[0], columns[1] = (
                    np.where(swapped, columns[1], columns[0]),
                    np.where(swapped, columns[0], columns[1]),
                )
        return Plan(start, streams, chunks, hashes, swapped)


def _pairs(draws: Plan, per_draw: int) -> Plan:
    """Spread every draw over its pairs: anchor and positive, then anchor and each negative."""

    def interleaved(columns: list[Integers] | list[Words]) -> list[np.ndarray]:
        others = np.stack(columns[1:], axis=1).reshape(-1)
        return [np.repeat(columns[0], per_draw), others]

    labels = np.zeros((len(draws), per_draw), dtype=np.int64)
    labels[:, 0] = 1
    return Plan(
        draws.start * per_draw,
        np.repeat(draws.streams, per_draw),
        interleaved(draws.chunks),
        interleaved(draws.hashes),
        np.repeat(draws.swapped, per_draw),
        labels.reshape(-1),
    )


def _joined(parts: list[Plan]) -> Plan:
    if len(parts) == 1:
        return parts[0]
    slots = range(len(parts[0].chunks))
    return Plan(
        parts[0].start,
        np.concatenate([p.streams for p in parts]),
        [np.concatenate([p.chunks[s] for p in parts]) for s in slots],
        [np.concatenate([p.hashes[s] for p in parts]) for s in slots],
        np.concatenate([p.swapped for p in parts]),
        _joined_labels([p.labels for p in parts]),
    )


def _joined_labels(parts: list[Integers | None]) -> Integers | None:
    labels = [part for part in parts if part is not None]
    return np.concatenate(labels) if labels else None
