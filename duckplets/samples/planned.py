"""Hold the samples at some positions of a run: ids of the chunks they are made of, no text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words


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
        given: Of pairs, which come as they were judged; None where none does.
        displaced: Where no text may come twice, the stream of the sample that gave its position to
            the one here; -1 for most. Else None.
    """

    positions: Integers
    streams: Integers
    chunks: list[Integers]
    hashes: list[Words]
    swapped: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    labels: np.ndarray[Any, np.dtype[Any]] | None = None
    candidates: list[Integers] | None = None
    given: Flags | None = None
    displaced: Integers | None = None

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
            None if self.given is None else self.given[which],
            None if self.displaced is None else self.displaced[which],
        )


def joined(parts: Sequence[Plan]) -> Plan:
    """Return the samples of several plans of one run as one."""
    if len(parts) == 1:
        return parts[0]

    def columns(of: list[list[Integers]] | list[list[Words]]) -> list[np.ndarray]:
        return [np.concatenate(column) for column in zip(*of, strict=True)]

    labels = [p.labels for p in parts if p.labels is not None]
    candidates = [p.candidates for p in parts if p.candidates is not None]
    given = [p.given for p in parts if p.given is not None]
    displaced = [p.displaced for p in parts if p.displaced is not None]
    return Plan(
        np.concatenate([p.positions for p in parts]),
        np.concatenate([p.streams for p in parts]),
        columns([p.chunks for p in parts]),
        columns([p.hashes for p in parts]),
        np.concatenate([p.swapped for p in parts]),
        np.concatenate(labels) if labels else None,
        columns(candidates) if candidates else None,
        np.concatenate(given) if given else None,
        np.concatenate(displaced) if displaced else None,
    )
