"""Spread draws over their pairs, and keep the labels of those that were judged.

A draw makes several pairs: its anchor with its positive, and with each negative. Of a source with
labels a draw gives as many of its records instead, one after the other, each as it was judged; or,
with ``structural_negatives``, the pair of one record as it was judged before those with negatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.base.arrays import Flags, Integers
from duckplets.errors import SamplerError
from duckplets.order.permute import hashed
from duckplets.samples.negative_request import AT_RANDOM

if TYPE_CHECKING:
    from duckplets.samples.planned import Plan
    from duckplets.samples.stream import Draw, Stream


def samples_per_draw(kind: str, negatives: int) -> int:
    """Return how many positions one draw fills: more than one for pairs only."""
    return 1 + negatives if kind == "pairs" else 1


def refuse_grades(streams: Sequence[Stream]) -> None:
    """Refuse grades in a run whose labels are integers.

    Raises:
        SamplerError: A stream has some.
    """
    for stream in streams:
        if stream.graded:
            raise SamplerError(
                f"source {stream.source!r} has grades, and the labels of this run are integers: "
                f"open the run with a weight above 0 for that source"
            )


def without_negative(plan: Plan) -> Flags:
    """Return which samples have no negative that was drawn; of other kinds than pairs none."""
    found = np.zeros(len(plan), dtype=bool) if plan.labels is None else plan.labels == 1
    return found if plan.given is None else found | plan.given


class Judged:
    """The labels of the pairs of some draws: shape (draws, pairs of a draw) each.

    Args:
        draws: How many there are.
        per_draw: Pairs of a draw.

    Attributes:
        labels: 1 for anchor and positive, 0 for anchor and negative, or as was judged.
        given: Whether a pair comes as it was judged.
    """

    def __init__(self, draws: int, per_draw: int) -> None:
        self._per_draw = per_draw
        self.labels = np.zeros((draws, per_draw))
        self.labels[:, 0] = 1
        self.given = np.zeros((draws, per_draw), dtype=bool)

    def draw(
        self,
        stream: Stream,
        index: Integers,
        at: Integers,
        draw_given: Callable[[Integers], Draw],
    ) -> tuple[list[Any], list[Any], Draw]:
        """Return chunks and hashes of a stream's draws, and what it drew.

        They are columns: anchor, positive, negatives, and the anchors of the pairs after the first.

        Args:
            stream: Of pairs.
            index: Numbers of its draws, which ascend.
            at: Rows of these draws.
            draw_given: Draws its samples where they come as they were judged.
        """
        per_draw = self._per_draw
        if not stream.is_given:
            draw = stream.draw_at(index)
            if draw.labels is not None:
                self.labels[at, 0], self.given[at, 0] = draw.labels, True
            again = per_draw - 1
            chunks, hashes = ([*c, *[c[0]] * again] for c in (draw.chunks, draw.hashes))
            return chunks, hashes, draw
        every = (index[:, None] * per_draw + np.arange(per_draw)).reshape(-1)
        draw = draw_given(every)
        judged = np.asarray(draw.labels, np.float64).reshape(-1, per_draw)
        self.labels[at], self.given[at] = judged, True

        def columns(of: Sequence[np.ndarray]) -> list[np.ndarray]:
            anchors, others = (list(column.reshape(-1, per_draw).T) for column in of)
            return [anchors[0], *others, *anchors[1:]]

        return columns(draw.chunks), columns(draw.hashes), replace(draw, wanting=None)

    def swap(self, key: int, numbers: Integers, tables: Sequence[list[np.ndarray]]) -> Flags:
        """Let anchors and positives change places; pairs as they were judged each by its own coin.

        Args:
            key: Of the coin.
            numbers: Of the draws.
            tables: Chunks and hashes, columns as ``draw`` returns them; changed in place.

        Returns:
            Which pairs are swapped: shape (draws, pairs of a draw).
        """
        per_draw = self._per_draw
        swapped = np.repeat(_coin(hashed(key, numbers))[:, None], per_draw, axis=1)
        rows = np.flatnonzero(self.given[:, -1])  # all pairs of the draw
        for pair in range(1, per_draw):
            swapped[rows, pair] = _coin(hashed(key, numbers[rows], pair))
        whole = self.given[:, -1]
        for columns in tables:
            columns[0], columns[1] = _exchanged(columns[0], columns[1], swapped[:, 0])
            for pair in range(1, per_draw):
                own, other = columns[per_draw + pair], columns[1 + pair]
                own, other = _exchanged(own, other, swapped[:, pair] & whole)
                columns[1 + pair] = other
                columns[per_draw + pair] = np.where(whole, own, columns[0])
        return swapped


def spread(draws: Plan, per_draw: int, *, graded: bool) -> Plan:
    """Return every draw as its pairs: anchor and positive, then anchor and each negative.

    Args:
        draws: As they were planned.
        per_draw: Pairs of a draw.
        graded: Whether labels are numbers of any kind, rather than integers.
    """

    def interleaved(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        first, others, own = columns[0], columns[1 : 1 + per_draw], columns[1 + per_draw :]
        anchors = _by_turns([first, *own]) if own else np.repeat(first, per_draw)
        return [anchors, _by_turns(others)]

    candidates = None
    if draws.candidates is not None:
        positives = np.full(len(draws), AT_RANDOM)
        candidates = [_by_turns([positives, *draws.candidates])]
    labels: Any = draws.labels
    swapped = draws.swapped
    if labels is None:
        labels = np.zeros((len(draws), per_draw))
        labels[:, 0] = 1
        swapped = np.repeat(swapped, per_draw)
    return replace(
        draws,
        positions=(draws.positions[:, None] * per_draw + np.arange(per_draw)).reshape(-1),
        streams=np.repeat(draws.streams, per_draw),
        chunks=interleaved(draws.chunks),
        hashes=interleaved(draws.hashes),
        swapped=swapped.reshape(-1),
        labels=labels.reshape(-1).astype(np.float64 if graded else np.int64),
        candidates=candidates,
        given=None if draws.given is None else draws.given.reshape(-1),
    )


def _by_turns(columns: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(columns, axis=1).reshape(-1)


def _coin(words: np.ndarray) -> Flags:
    flags: Flags = (words >> np.uint64(63)).astype(bool)
    return flags


def _exchanged(one: np.ndarray, other: np.ndarray, swapped: Flags) -> tuple[np.ndarray, np.ndarray]:
    return np.where(swapped, other, one), np.where(swapped, one, other)
