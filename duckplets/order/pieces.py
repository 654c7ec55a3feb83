"""Deal the segments of a schedule piece by piece: a source that had its last epoch is gone."""

# A piece ends with its segment, or with the draw that is some source's last: its share then goes to
# the others in proportion. Counts of a piece are those of the one before, so pieces are made in
# order, and kept. What shares of tokens need is worked out when it is asked for.

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from math import ceil
from operator import attrgetter
from threading import RLock
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.base.checks import MAX_POSITION
from duckplets.errors import MixtureError
from duckplets.order.apportion import Apportionment, Share, Stairs
from duckplets.order.blocks import InBlocks, InEpochs
from duckplets.order.by_tokens import ByTokens, Frontier
from duckplets.order.mixture import Mixture
from duckplets.order.permute import key
from duckplets.order.tapes import Tape

_step, _start = attrgetter("step"), attrgetter("start")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Draws from ``start`` on, dealt from ``step`` on; segments with equal ``how`` deal alike."""

    step: int
    start: int
    how: tuple[object, ...]
    names: tuple[str, ...] = field(compare=False)
    rows: list[list[int]] = field(compare=False)  # shares of every stair
    edges: list[int] = field(compare=False)  # first item of every stair, and the end
    stairs: tuple[int, ...] = field(compare=False)  # first steps of the stairs, and the end
    purpose: int = field(compare=False)
    epoch: tuple[int, ...] = field(compare=False)  # draws of each source, if dealt by epochs


@dataclass(slots=True, eq=False)
class Piece:
    """The deal of a segment from a draw on, without sources that are used up."""

    segment: Stretch
    step: int
    start: int
    gone: tuple[int, ...]  # leaves without a share, for they are used up
    stairs: tuple[int, ...]
    deal: Any  # an ``Apportionment`` or ``Stairs``, or its like; None if no leaf is left
    merge: ByTokens | None  # what deals by tokens, whole blocks perhaps
    base: list[int]  # counts of each leaf before it; 0 where tokens count
    end: int | None = None  # draw at which a leaf is used up, once known
    clear: int = 0  # draw before which none is

    def upto(self, draws: int) -> list[int]:
        """Return the counts of each leaf after a number of draws, which end in this piece."""
        if self.deal is None:
            return self.base
        own = self.deal.counts(draws - self.start)
        return [a + b for a, b in zip(self.base, own, strict=True)]


class Pieces:
    """Deals the draws of segments, with leaves that are used up after some epochs."""

    together = 1  # draws dealt together

    def __init__(
        self,
        mixture: Mixture,
        sources: Sequence[str],
        batch: int,
        samples_per_draw: int,
        begin: int,
    ) -> None:
        self.mixture, self.batch, self.begin = mixture, batch, begin
        self.samples_per_draw, self.sources = samples_per_draw, sorted(sources)
        self.numbers = {name: number for number, name in enumerate(self.sources)}
        # by source the tokens of what is dealt together, for its planner to fill in
        self.tapes: dict[int, Tape] | None = {} if mixture.unit == "tokens" else None
        self._segments: list[Stretch] = []
        self._pieces: list[Piece] = []  # by start, as far as they are known
        self._sizes: dict[int, int] = {}  # draws of an epoch by leaf
        self._earlier: tuple[Pieces, int] | None = None  # of an earlier version, and its draws
        self._alone = RLock()

    def deal(self, draws: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of ascending draws, with or without gaps."""
        low, size = 0, len(draws)
        while low < size:
            piece = self._at(int(draws[low]))
            high = int(np.searchsorted(draws, self._stop(piece)))
            if piece.deal is None:
                raise MixtureError(
                    f"max_epochs: at step {piece.step:,} every source that has a share is used up; "
                    f"raise it, end the run before with steps=, or give stop='all'"
                )
            for share in piece.deal.deal(draws[low:high] - piece.start):
                indexes = share.indexes + piece.base[share.leaf]
                yield Share(share.leaf, share.offsets + low, indexes)
            low = high

    def dealt(self, draws: int) -> list[int]:
        """Return how many of the first draws each leaf gets."""
        return self._at(draws).upto(draws)

    def last_change(self, draws: int) -> list[Any] | None:
        """Return where shares of tokens last changed before some draws, as values for ``know``."""
        piece = self._at(draws)
        if piece.merge is None:
            return None
        start = piece.merge.last_start((draws - piece.start) // self.together)
        return [piece.segment.step, piece.start, *start]

    def know(self, change: Sequence[Any]) -> None:
        """Take where shares last changed from a saved run, rather than find it."""
        step, start, *known = change
        segment = self._segments[self._number_of(step)]
        if self.tapes is None or segment.step != step or segment.start > start:
            return
        with self._alone:
            piece = next((other for other in self._pieces if other.start == start), None)
            if piece is None:
                is_whole = len(known[2]) == len(self.sources)  # else it is refused below
                gone = self._gone(known[2]) if is_whole else ()
                piece = self._piece(segment, start, partial(self._cut, start), gone)
                self._pieces.insert(bisect_left(self._pieces, start, key=_start), piece)
        if piece.merge:
            piece.merge.know(start // self.together, known)

    def first_draw(self, step: int) -> int:
        """Return the first draw that begins in a step."""
        return -(-self._position(step) // self.samples_per_draw)

    def learn(self, leaf: int, draws: int) -> None:
        """Take how many draws a leaf has in an epoch."""
        if self._sizes.get(leaf) != draws:
            self._sizes[leaf], self._pieces = draws, []

    def follow(self, before: Pieces, draws: int) -> None:
        """Count epochs of an earlier version, which had a number of draws."""
        if self._earlier != (before, draws):
            self._earlier, self._pieces = (before, draws), []

    def reached(self, goals: Mapping[int, int]) -> int | None:
        """Return the draws until one of some leaves reaches its goal, or None."""
        for piece in self._walk() if goals else ():
            if (found := self._first(piece, goals, self._stop(piece))) is not None:
                return found
        return None

    def goals(self, names: Collection[str]) -> dict[int, int]:
        """Return the draws until leaves are used up: after their ``max_epochs``, or one epoch."""
        return self._caps({name: self.mixture.max_epochs.get(name, 1) for name in names})

    @property
    def out(self) -> int | None:
        """The first draw for which every source is used up, or None."""
        return next((piece.start for piece in self._capped if piece.deal is None), None)

    @property
    def ends(self) -> dict[str, int]:
        """The sources that have their last epoch here, and the draw from which on they are gone."""
        found = dict[str, int]()
        for piece in self._capped:
            for leaf in piece.gone:
                found.setdefault(self.sources[leaf], piece.start)
        return found

    @property
    def _capped(self) -> Iterator[Piece]:
        """All pieces, if sources can be used up."""
        return self._walk() if self.mixture.max_epochs else iter(())

    def _caps(self, most: Mapping[str, int]) -> dict[int, int]:
        """Return the draws here until leaves have had their epochs, with earlier ones."""
        found = dict[int, int]()
        for name, epochs in most.items():
            leaf = self.numbers.get(name, -1)
            if size := self._sizes.get(leaf):
                found[leaf] = ceil((epochs - self._begun(name)) * size)
        return found

    def _begun(self, name: str) -> Fraction:
        if self._earlier is None:
            return Fraction(0)
        before, draws = self._earlier
        leaf, found = before.numbers.get(name, -1), before._begun(name)
        if size := before._sizes.get(leaf):
            found += Fraction(before.dealt(draws)[leaf], size)
        return found

    def _gone(self, counts: Sequence[int]) -> tuple[int, ...]:
        caps = self._caps(self.mixture.max_epochs)
        size = 1 if self.tapes is None else self.together  # tokens are counted by blocks
        return tuple(leaf for leaf, cap in caps.items() if counts[leaf] * size >= cap)

    def _walk(self) -> Iterator[Piece]:
        piece = self._at(0)
        yield piece
        while (stop := self._stop(piece)) <= MAX_POSITION:
            piece = self._at(stop)
            yield piece

    def _at(self, draw: int) -> Piece:
        """Return the piece of a draw, making all between it and the last one known before."""
        with self._alone:
            number = bisect_right(self._pieces, draw, key=_start) - 1
            if number < 0:
                none = [0] * len(self.sources)
                piece = self._piece(self._segment(0), 0, lambda: Frontier(0, none, none))
                self._pieces.insert(0, piece)
                number = 0
            piece = self._pieces[number]
            while (stop := self._stop(piece)) <= draw:
                number += 1
                base = partial(_cut, piece, stop, self.together)
                piece = self._piece(self._segment(stop), stop, base)
                self._pieces.insert(number, piece)
            return piece

    def _segment(self, draw: int) -> Stretch:
        return self._segments[bisect_right(self._segments, draw, key=_start) - 1]

    def _of_step(self, step: int) -> Piece:
        """Return the piece in force at a step, also at one in which no draw begins."""
        segment, draw = self._segments[self._number_of(step)], self.first_draw(step)
        piece = self._at(max(draw, segment.start))
        if piece.segment is segment:
            return piece
        return self._piece(segment, segment.start, partial(_cut, piece, draw, self.together))

    def _stop(self, piece: Piece) -> int:
        """Return the draw at which other shares set in after a piece."""
        at = bisect_right(self._segments, piece.start, key=_start)
        after = self._segments[at].start if at < len(self._segments) else MAX_POSITION + 1
        if piece.end is None and piece.clear < after and piece.deal is not None:
            caps = self._caps(self.mixture.max_epochs)
            caps = {leaf: cap for leaf, cap in caps.items() if leaf not in piece.gone}
            piece.end = self._first(piece, caps, after) if caps else None
            piece.clear = after
        return after if piece.end is None else min(after, piece.end)

    def _piece(
        self,
        segment: Stretch,
        start: int,
        base: Callable[[], Frontier],  # where leaves stand before it
        gone: tuple[int, ...] | None = None,
    ) -> Piece:
        step, since = segment.step, (start - segment.start) // self.together
        if since:
            step = self.begin - (-start * self.samples_per_draw // self.batch)
        first = bisect_right(segment.edges, since, hi=len(segment.rows)) - 1
        rows, purpose = segment.rows[first:], segment.purpose
        stairs = segment.stairs and (max(step, segment.stairs[first]), *segment.stairs[first + 1 :])
        base = cache(base)
        if gone is None:
            gone = self._gone(base().counts) if self.mixture.max_epochs else ()
        if gone:
            rows = [[0 if i in gone else share for i, share in enumerate(row)] for row in rows]
            rows = [*map(scaled, rows)] if stairs and any(rows[0]) else rows
        if since:
            purpose = key(purpose, "from", since)
        edges = [0, *(edge - since for edge in segment.edges[first + 1 :])]
        deal: Any = None
        merge: ByTokens | None = None
        if not any(rows[0]):
            pass
        elif self.tapes is not None:
            deal = merge = ByTokens(rows, edges[:-1], self.tapes, base)
        elif stairs:
            deal = Stairs(rows, edges, purpose)
        else:
            deal = self._dealer(tuple(rows[0]), purpose, segment.step)
        if segment.epoch:
            deal = InEpochs(segment.epoch, self.together, purpose)
        elif self.together > 1 and deal is not None:
            deal = InBlocks(deal, self.together)
        counts = base().counts if not merge and start else [0] * len(self.sources)
        if deal is not None and not merge and not start:  # buckets of sources are leaves
            counts = [0] * len(deal.counts(0))
        return Piece(segment, step, start, gone, stairs, deal, merge, counts)

    def position(self, draw: int) -> int:
        """Return the position of the run at which a draw begins."""
        return self.begin * self.batch + draw * self.samples_per_draw

    def _position(self, step: int) -> int:
        return max(0, step - self.begin) * self.batch

    def _dealer(self, shares: tuple[int, ...], purpose: int, step: int) -> Any:
        return Apportionment(shares, purpose)

    def _number_of(self, step: int) -> int:
        """Return the number of the segment in force at a step."""
        return max(0, bisect_right(self._segments, step, key=_step) - 1)

    def _cut(self, draw: int) -> Frontier:
        """Return the frontier of the leaves before a draw."""
        return _cut(self._at(draw - 1), draw, self.together)

    def _first(self, piece: Piece, goals: Mapping[int, int], limit: int) -> int | None:
        """Return the draw of a piece at which one of some leaves reaches its goal, or None."""
        size, before = self.together, piece.upto(piece.start)
        due = {leaf: goal - before[leaf] for leaf, goal in goals.items()}
        if min(due.values()) <= 0:
            return piece.start

        def way(items: int) -> float:
            """Return the largest part of its due that a leaf has had."""
            counts = piece.upto(piece.start + items * size)
            return max((counts[leaf] - before[leaf]) / goal for leaf, goal in due.items())

        most = (min(limit, MAX_POSITION) - piece.start) // size
        if piece.deal is None or (limit <= MAX_POSITION and way(most) < 1):
            return None
        low, high = 0, min(most, 1 + min(due.values()) // size)
        while (done := way(high)) < 1:
            if high == most:
                return None
            low, high = high, min(most, int(high / max(done, 1 / 64)) + 1)
        step = 1  # shares are about even, so it is hardly before
        while high - low > 1:
            at = high - min(step, (high - low) // 2)
            if way(at) < 1:
                low = at
            else:
                high, step = at, 4 * step
        return piece.start + high * size


def _cut(piece: Piece, draw: int, together: int) -> Frontier:
    """Return where leaves stand after a piece, before a draw."""
    if piece.merge is not None:
        return piece.merge.cut((draw - piece.start) // together)
    counts = piece.upto(draw)
    return Frontier(0, counts, [0] * len(counts))


def scaled(shares: Sequence[int]) -> list[int]:
    """Return shares that add up to about 2^43, where no positive one becomes 0."""
    total = sum(shares)
    return [max(1, (share << 43) // total) if share else 0 for share in shares]
