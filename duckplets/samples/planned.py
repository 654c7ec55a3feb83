"""Hold the samples at some positions of a run: ids of the chunks they are made of, no text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.samples.negative_request import AT_RANDOM


@dataclass(frozen=True, slots=True)
class Plan:
    """The samples at some positions, in order.

    Attributes:
        positions: Of every sample.
        streams: Index of the stream of every sample.
        chunks: Chunk keys, a column a slot: anchor, positive, negatives; or the text
            alone; of messages the keys of their records.
        hashes: Text hashes of the same.
        swapped: Whether anchor and positive have changed places.
        labels: For pairs, 1 for anchor and positive, 0 for anchor and negative, or as was judged:
            numbers of any kind where the run has grades. Else None.
        candidates: Where some stream tells, where each negative is from (``wanting``), a column a
            negative. For pairs one column, with ``AT_RANDOM`` for positives. Else None.
        displaced: Where no text may come twice, the stream of the sample that gave its position to
            the one here; -1 for most. Else None.
        given: Whether they are pairs as they were judged, with nothing drawn.
    """

    positions: Integers
    streams: Integers
    chunks: list[Integers]
    hashes: list[Words]
    swapped: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    labels: np.ndarray[Any, np.dtype[Any]] | None = None
    candidates: list[Integers] | None = None
    displaced: Integers | None = None
    given: bool = False

    def __len__(self) -> int:
        return len(self.streams)

    def part(self, which: slice | Integers) -> Plan:
        """Return some of the samples, counted within this plan."""
        return Plan(
            self.positions[which],
            self.streams[which],
            [column[which] for column in self.chunks],
            [column[which] for column in self.hashes],
            self.swapped[which],
            None if self.labels is None else self.labels[which],
            None if self.candidates is None else [column[which] for column in self.candidates],
            None if self.displaced is None else self.displaced[which],
            self.given,
        )


def joined(parts: Sequence[Plan]) -> Plan:
    """Return the samples of several plans of one run as one."""
    if len(parts) == 1:
        return parts[0]

    def columns(of: list[list[Integers]] | list[list[Words]]) -> list[np.ndarray]:
        return [np.concatenate(column) for column in zip(*of, strict=True)]

    labels = [p.labels for p in parts if p.labels is not None]
    candidates = [p.candidates for p in parts if p.candidates is not None]
    displaced = [p.displaced for p in parts if p.displaced is not None]
    return Plan(
        np.concatenate([p.positions for p in parts]),
        np.concatenate([p.streams for p in parts]),
        columns([p.chunks for p in parts]),
        columns([p.hashes for p in parts]),
        np.concatenate([p.swapped for p in parts]),
        np.concatenate(labels) if labels else None,
        columns(candidates) if candidates else None,
        np.concatenate(displaced) if displaced else None,
        parts[0].given,
    )


# -- pairs ----------------------------------------------------------------------------------------


def samples_per_draw(kind: str, pairs: str | None, negatives: int) -> int:
    """Return how many positions one draw fills: more than one for drawn pairs only."""
    return 1 + negatives if kind == "pairs" and pairs != "labelled" else 1


def spread(draws: Plan, per_draw: int) -> Plan:
    """Return every draw as its pairs: anchor and positive, then anchor and each negative."""
    candidates = None
    if draws.candidates is not None:
        positives = np.full(len(draws), AT_RANDOM)
        candidates = [_by_turns([positives, *draws.candidates])]

    def pairs(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.repeat(columns[0], per_draw), _by_turns(columns[1:])]

    within = np.arange(per_draw)
    return replace(
        draws,
        positions=(draws.positions[:, None] * per_draw + within).reshape(-1),
        streams=np.repeat(draws.streams, per_draw),
        chunks=pairs(draws.chunks),
        hashes=pairs(draws.hashes),
        swapped=np.repeat(draws.swapped, per_draw),
        labels=np.tile((within == 0).astype(np.int64), len(draws)),
        candidates=candidates,
    )


def without_negative(plan: Plan) -> Flags:
    """Return which samples have no negative that was drawn; of other kinds than pairs none."""
    if plan.labels is None or plan.given:
        return np.full(len(plan), plan.given)
    found: Flags = plan.labels == 1
    return found


def _by_turns(columns: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(columns, axis=1).reshape(-1)
