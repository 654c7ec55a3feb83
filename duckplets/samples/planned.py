"""Hold the samples at some positions of a run: keys of the chunks they are made of, no text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Floats, Integers, Words
from duckplets.pools.arrays import NegativeRequests
from duckplets.samples.negatives import AT_RANDOM

_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Draw:
    """Some samples of one stream, a column a slot: anchor, positive, negatives; or the text."""

    chunks: Sequence[Integers]  # chunk keys; of messages those of records; of tokens row and epoch
    hashes: Sequence[Words]  # of their texts; of tokens none
    # Where each negative is from: the number of a candidate, or what else ``negatives`` names.
    candidates: Sequence[Integers] | None = None
    requests: NegativeRequests | None = None  # that its negatives answer
    labels: Sequence[Floats] | None = None  # one column: how pairs were judged that come with that


@dataclass(frozen=True, slots=True)
class Plan:
    """The samples at some positions, in order: the last axis of every array."""

    positions: Integers
    streams: Integers  # number of the stream of each
    chunks: Integers  # as of a ``Draw``: shape (slots, samples)
    hashes: Words  # shape (slots, samples)
    swapped: Flags  # whether anchor and positive have changed places
    # Of pairs: 1 for anchor and positive, 0 for anchor and negative, or as they were judged.
    labels: _Array | None = None
    # As of a ``Draw``: shape (negatives, samples); drawn pairs have one row, also for positives.
    candidates: Integers | None = None
    # Where no text may come twice: the stream of the sample that gave its position to the one
    # here; -1 for most.
    displaced: Integers | None = None
    given: bool = False  # whether they are pairs as they were judged, with nothing drawn

    def __len__(self) -> int:
        return len(self.streams)

    def part(self, which: slice | Integers) -> Plan:
        """Return some of the samples, counted within this plan."""
        if isinstance(which, slice):
            return self.each(lambda column: column[..., which])
        return self.each(lambda column: column.take(which, axis=-1))

    def each(self, change: Callable[[_Array], _Array]) -> Plan:
        """Return the plan with every array changed alike."""
        arrays = ((name, getattr(self, name)) for name in _ARRAYS)
        changed: dict[str, Any] = {n: change(of) for n, of in arrays if of is not None}
        return replace(self, **changed)


_ARRAYS = [field.name for field in fields(Plan) if field.name != "given"]
_OF_DRAWS = {"chunks": np.int64, "hashes": np.uint64, "candidates": np.int64, "labels": np.float64}


def joined(parts: Sequence[Plan]) -> Plan:
    """Return the samples of several plans of one run as one."""
    if len(parts) == 1:
        return parts[0]
    found: dict[str, Any] = {}
    for name in _ARRAYS:
        columns = [getattr(part, name) for part in parts]
        if name == "displaced" and any(column is not None for column in columns):
            columns = [
                np.full(len(part), -1) if column is None else column
                for part, column in zip(parts, columns, strict=True)
            ]
        if columns[0] is not None:
            found[name] = np.concatenate(columns, axis=-1)
    return replace(parts[0], **found)


def scattered(draws: Iterable[tuple[Integers, Draw]], size: int) -> dict[str, _Array]:
    """Return the arrays of a plan of so many samples from draws, each of some of its rows."""
    found: dict[str, _Array] = {}
    for rows, draw in draws:
        for name, dtype in _OF_DRAWS.items():
            columns = getattr(draw, name)
            if columns is not None and len(rows) == size:  # all are of one stream
                found[name] = np.array(columns, dtype).reshape(len(columns), size)
                continue
            if columns is not None and name not in found:
                found[name] = np.zeros((len(columns), size), dtype)
            for row, column in zip(found.get(name, ()), columns or (), strict=False):
                row[rows] = column
    return found


def samples_per_draw(kind: str, pairs: str | None, negatives: int) -> int:
    """Return how many positions one draw fills: more than one for drawn pairs only."""
    return 1 + negatives if kind == "pairs" and pairs != "labelled" else 1


def spread(draws: Plan, per_draw: int) -> Plan:
    """Return every draw as its pairs: anchor and positive, then anchor and each negative."""
    within = np.tile(np.arange(per_draw), len(draws))
    pairs = draws.each(lambda column: np.repeat(column, per_draw, axis=-1))
    candidates = draws.candidates
    if candidates is not None:
        of_positives = np.full((1, len(draws)), AT_RANDOM)
        candidates = np.concatenate([of_positives, candidates]).T.reshape(1, -1)
    return replace(
        pairs,
        positions=pairs.positions * per_draw + within,
        chunks=np.stack([pairs.chunks[0], draws.chunks[1:].T.reshape(-1)]),
        hashes=np.stack([pairs.hashes[0], draws.hashes[1:].T.reshape(-1)]),
        labels=(within == 0).astype(np.int64),
        candidates=candidates,
    )


def without_negative(plan: Plan) -> Flags:
    """Return which samples have no negative that was drawn; of other kinds than pairs none."""
    if plan.labels is None or plan.given:
        return np.full(len(plan), plan.given)
    found: Flags = plan.labels == 1
    return found
