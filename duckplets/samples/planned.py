"""Hold the samples at some positions of a run: ids of the chunks they are made of, no text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.samples.negatives import AT_RANDOM, FoundNegatives, Wanting, blank

if TYPE_CHECKING:
    from duckplets.samples.stream import Stream


@dataclass(frozen=True, slots=True)
class Plan:
    """The samples at some positions, in order.

    Attributes:
        positions: Of every sample.
        streams: Index of the stream of every sample.
        chunks: Chunk keys, a column a slot: anchor, positive, negatives; or the text
            alone; of messages the keys of their records; of tokens row and epoch.
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


# -- samples, and what their negatives may be drawn from again ------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """The draws of one stream among others: which ``rows``, and they themselves."""

    rows: Integers
    stream: Stream
    wanting: Wanting


@dataclass(frozen=True)
class Drawn:
    """Planned samples, and what their negatives may be drawn from again.

    Attributes:
        plan: The samples. Negatives are replaced in its arrays.
        draws: Row of the draw that each sample is of.
        shifts: What to add to a column of a sample for the number of the negative in its draw.
        asked: Draws by stream.
        count: How many draws there are.
    """

    plan: Plan
    draws: Integers
    shifts: Integers
    asked: Sequence[Asked]
    count: int

    def __len__(self) -> int:
        return len(self.plan)

    def part(self, rows: slice | Integers) -> Drawn:
        """Return some of the samples."""
        return replace(
            self, plan=self.plan.part(rows), draws=self.draws[rows], shifts=self.shifts[rows]
        )

    def joined(self, other: Drawn) -> Drawn:
        """Return these samples and others after them."""
        more = (replace(asked, rows=asked.rows + self.count) for asked in other.asked)
        return Drawn(
            joined([self.plan, other.plan]),
            np.concatenate([self.draws, other.draws + self.count]),
            np.concatenate([self.shifts, other.shifts]),
            [*self.asked, *more],
            self.count + other.count,
        )

    @cached_property
    def free(self) -> Flags:
        """Which texts may be drawn again: shape (slots, samples)."""
        found = np.zeros((len(self.plan.hashes), len(self)), dtype=bool)
        if self.plan.labels is None:
            found[2:] = True
        else:
            found[1] = ~without_negative(self.plan)
        return found

    @cached_property
    def fixed(self) -> list[set[int]]:
        """The texts of every sample that are not drawn again."""
        texts, free = np.stack(self.plan.hashes).T.tolist(), self.free.T.tolist()
        rows = zip(texts, free, strict=True)
        return [{t for t, may in zip(*row, strict=True) if not may} for row in rows]

    @cached_property
    def _owners(self) -> tuple[Integers, Integers]:
        """For every draw which of ``asked`` it is in, and where there."""
        part, at = np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)
        for number, asked in enumerate(self.asked):
            part[asked.rows] = number
            at[asked.rows] = np.arange(len(asked.rows))
        return part, at

    def again(
        self, rows: Integers, columns: Integers, attempt: int
    ) -> tuple[FoundNegatives, Flags]:
        """Return other negatives for some columns of samples, and which of them are legal."""
        found, legal = blank(len(rows)), np.zeros(len(rows), dtype=bool)
        draws, slots = self.draws[rows], self.shifts[rows] + columns
        parts, at = (of[draws] for of in self._owners)
        for part, slot in {*zip(parts.tolist(), slots.tolist(), strict=True)}:
            (mine,) = np.nonzero((parts == part) & (slots == slot))
            asked = self.asked[part]
            drawn, legal[mine] = asked.stream.again(asked.wanting.part(at[mine]), slot, attempt)
            found.put(mine, drawn)
        return found, legal

    def options(self, row: int) -> FoundNegatives:
        """Return all negatives that a sample may have, each text once."""
        part, at = (of[self.draws[row : row + 1]] for of in self._owners)
        asked = self.asked[int(part[0])]
        return asked.stream.options(asked.wanting.part(at))

    def stream_of(self, row: int) -> Stream:
        """Return the stream that a sample with negatives is of."""
        return self.asked[int(self._owners[0][self.draws[row]])].stream

    def put(self, rows: Integers, columns: Integers, found: FoundNegatives) -> None:
        """Give samples other negatives."""
        plan = self.plan
        for column in np.unique(columns).tolist():
            here = columns == column
            plan.chunks[column][rows[here]] = found.chunks[here]
            plan.hashes[column][rows[here]] = found.hashes[here]
            if plan.candidates is not None:
                told = plan.candidates[column - len(plan.chunks) + len(plan.candidates)]
                told[rows[here]] = found.told[here]
