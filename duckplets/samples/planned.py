"""Hold the samples at some positions of a run: ids of the chunks they are made of, no text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.samples.negatives import AT_RANDOM, FoundNegatives, Wanting, blank

if TYPE_CHECKING:
    from duckplets.samples.stream import Stream

_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Draw:
    """Some samples of one stream. What a ``Plan`` has too goes there, under the same name.

    Attributes:
        chunks: Chunk keys, a column a slot: anchor, positive, negatives; for texts the anchor
            alone; of tokens row and epoch.
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
    labels: _Array | None = None


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
        candidates: Where some stream tells, where each negative is from (``Draw``), a column a
            negative. For pairs one column, with ``AT_RANDOM`` for positives. Else None.
        displaced: Where no text may come twice, the stream of the sample that gave its position to
            the one here; -1 for most. Else None.
        given: Whether they are pairs as they were judged, with nothing drawn.
    """

    positions: Integers
    streams: Integers
    chunks: list[Integers]
    hashes: list[Words]
    swapped: Flags
    labels: _Array | None = None
    candidates: list[Integers] | None = None
    displaced: Integers | None = None
    given: bool = False

    def __len__(self) -> int:
        return len(self.streams)

    def part(self, which: slice | Integers) -> Plan:
        """Return some of the samples, counted within this plan."""
        return self.each(lambda column: column[which])

    def each(self, change: Callable[[_Array], _Array]) -> Plan:
        """Return the plan with every column changed alike."""
        found: dict[str, Any] = {}
        for name, value in columns_of(self):
            several = isinstance(value, list)
            found[name] = [change(column) for column in value] if several else change(value)
        return replace(self, **found)


def columns_of(of: Plan | Draw) -> Iterable[tuple[str, Any]]:
    """Return what a plan or draw has of every sample: an array, or a list of them, by its name."""
    values = ((each.name, getattr(of, each.name)) for each in fields(of))
    return [(name, value) for name, value in values if isinstance(value, (np.ndarray, list))]


def joined(parts: Sequence[Plan]) -> Plan:
    """Return the samples of several plans of one run as one."""
    if len(parts) == 1:
        return parts[0]
    found: dict[str, Any] = {}
    for name, value in (pair for part in parts for pair in columns_of(part)):
        if name not in found:
            several, columns = isinstance(value, list), []
            for part in parts:
                of, nothing = getattr(part, name), np.full(len(part), -1)  # none tells, none gave
                columns.append(
                    of if of is not None else [nothing] * len(value) if several else nothing
                )
            joint = (
                [np.concatenate(of) for of in zip(*columns, strict=True)]
                if several
                else np.concatenate(columns)
            )
            found[name] = joint
    return replace(parts[0], **found)


def scattered(draws: Sequence[tuple[Integers, Draw]], size: int) -> dict[str, Any]:
    """Return the columns of draws, each of some rows of so many; ``AT_RANDOM`` where none tells."""
    found: dict[str, Any] = {}
    for rows, draw in draws:
        for name, value in columns_of(draw):
            several, rest = isinstance(value, list), AT_RANDOM if name == "candidates" else 0
            if name not in found:
                room = [np.full(size, rest, of.dtype) for of in (value if several else [value])]
                found[name] = room if several else room[0]
            if several:
                for column, drawn in zip(found[name], value, strict=True):
                    column[rows] = drawn
            else:
                found[name][rows] = value
    return found


# -- pairs ----------------------------------------------------------------------------------------


def samples_per_draw(kind: str, pairs: str | None, negatives: int) -> int:
    """Return how many positions one draw fills: more than one for drawn pairs only."""
    return 1 + negatives if kind == "pairs" and pairs != "labelled" else 1


def spread(draws: Plan, per_draw: int) -> Plan:
    """Return every draw as its pairs: anchor and positive, then anchor and each negative."""

    def by_turns(columns: Sequence[_Array]) -> _Array:
        return np.stack(columns, axis=1).reshape(-1)

    within = np.tile(np.arange(per_draw), len(draws))
    pairs = draws.each(lambda column: np.repeat(column, per_draw))
    candidates = draws.candidates
    if candidates is not None:
        candidates = [by_turns([np.full(len(draws), AT_RANDOM), *candidates])]
    return replace(
        pairs,
        positions=pairs.positions * per_draw + within,
        chunks=[pairs.chunks[0], by_turns(draws.chunks[1:])],
        hashes=[pairs.hashes[0], by_turns(draws.hashes[1:])],
        labels=(within == 0).astype(np.int64),
        candidates=candidates,
    )


def without_negative(plan: Plan) -> Flags:
    """Return which samples have no negative that was drawn; of other kinds than pairs none."""
    if plan.labels is None or plan.given:
        return np.full(len(plan), plan.given)
    found: Flags = plan.labels == 1
    return found


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

    def fixed(self, row: int) -> set[int]:
        """Return the texts of a sample that are not drawn again."""
        if row not in self._fixed:
            slots = np.flatnonzero(~self.free[:, row]).tolist()
            self._fixed[row] = {int(self.plan.hashes[slot][row]) for slot in slots}
        return self._fixed[row]

    @cached_property
    def _fixed(self) -> dict[int, set[int]]:
        return {}

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
