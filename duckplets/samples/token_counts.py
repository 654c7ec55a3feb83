"""Count the tokens of a stream's samples: of the text, or of anchor and positive."""

# Windows and positives rotate from epoch to epoch, from a start of each anchor. Anchors with equal
# numbers of both are a class; the sums of a class by turn give any number of epochs at once. Anchor
# chunks that must not take some positives are counted separately.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from duckplets.base.arrays import Array, Flags, Integers, Keys, ranges
from duckplets.errors import MixtureError
from duckplets.order.tapes import StreamTape
from duckplets.pools.arrays import Positives
from duckplets.samples.stream import Stream

_GROUPS = 1 << 18  # summed at a time

TokensOf = Callable[[Keys], Integers]


def measured(streams: Sequence[Stream], tokens_of: TokensOf) -> list[Stream]:
    """Return streams with the tokens of their samples.

    Raises:
        MixtureError: A source has no tokens at all.
    """
    found, full = list[Stream](), set[str]()
    for stream in streams:
        if stream.listed:
            raise MixtureError("unit='tokens': lists have no share of tokens; give unit='samples'")
        counts = _Counts(stream, tokens_of)
        tape = StreamTape(len(stream), counts.at, lru_cache(maxsize=64)(counts.upto))
        found.append(replace(stream, tape=tape))
        full |= {stream.name} if tape.mean else set()
    if name := next((stream.name for stream in found if stream.name not in full), None):
        raise MixtureError(f"unit='tokens': the texts of {name!r} have no tokens; give it weight 0")
    return found


class _Counts:
    def __init__(self, stream: Stream, tokens_of: TokensOf) -> None:
        self._stream, pool = stream, stream.pool
        self._anchors = self._positives = tokens_of(pool.anchors.chunks).astype(np.int32)
        every = np.arange(len(stream)) if stream.units is None else stream.units
        firsts, sizes = pool.anchors.starts[every], np.diff(pool.anchors.starts)[every]
        starts = stream.first_turns("window", every, sizes)
        windows = _Turns(firsts, sizes, starts, self._anchors)
        self._parts = [windows.upto]
        if pool.positives is not None and pool.compiled.own_positive:
            self._parts *= 2
        elif pool.positives is not None:
            positives, counts = pool.positives, pool.positives.counts
            self._positives = tokens_of(positives.chunks).astype(np.int32)
            plain = np.ones(len(stream), bool)
            if positives.banned is not None:
                chunks, ends = ranges(firsts, sizes), sizes.cumsum()
                bans = positives.banned.counts[chunks] > 0
                plain = ~np.logical_or.reduceat(bans, ends - sizes)
                chunks = chunks[np.repeat(~plain, sizes)]
                self._parts.append(_Banned(stream, positives, chunks, self._positives).upto)
            units = every[plain]
            starts = stream.first_turns("positive", units, counts[units])
            rotated = positives.starts[units], counts[units], starts
            self._parts.append(_Turns(*rotated, self._positives, sizes[plain]).upto)

    def at(self, index: Integers) -> Integers:
        """Return the tokens of samples by ascending number, and the places of their chunks."""
        places = self._stream.places_at(index)
        tokens = self._anchors[places[2]].astype(np.int64)
        if len(places) > 3:
            tokens += self._positives[places[3]]
        return np.stack([tokens, *places])

    def upto(self, epochs: int) -> int:
        return sum(part(epochs) for part in self._parts)


class _Turns:
    """Groups that show one value an epoch, and skip one after ``lcm(count, windows)`` epochs."""

    def __init__(
        self,
        firsts: Integers,  # first value of each group
        counts: Integers,
        starts: Integers,  # the turn that each group begins with
        values: Array,
        windows: Integers | int = 0,  # 0 if none is ever skipped
    ) -> None:
        whole = int(counts.max(initial=0)) + 1
        words = windows * whole + counts
        is_one = len(words) > 0 and words.min() == words.max()  # the usual case
        kinds = words[:1] if is_one else np.unique(words)
        others, sizes = np.divmod(kinds, whole)
        edges = np.concatenate([[0], sizes.cumsum()])
        sums = np.zeros(edges[-1], np.int64)
        is_plain = whole == 2 and is_one  # one value each: nothing rotates
        if is_plain:
            sums[0] = values[firsts].sum(dtype=np.int64)
        for low in () if is_plain else range(0, len(counts), _GROUPS):
            at = slice(low, low + _GROUPS)
            rows = np.repeat(np.arange(len(counts[at])), counts[at])
            within = ranges(0 * counts[at], counts[at])
            turns = (within - starts[at][rows]) % counts[at][rows]
            turns += edges[np.searchsorted(kinds, words[at])][rows]
            shown = values[firsts[at][rows] + within]
            # sums of integers below 2^53 are exact
            sums += np.bincount(turns, shown, edges[-1]).astype(np.int64)
        cycles = np.lcm(sizes, others).tolist()
        each = [sums[one:other] for one, other in pairwise(edges)]
        twice = [np.concatenate([[0], one, one]).cumsum().tolist() for one in each]
        self._kinds = [*zip(sizes.tolist(), cycles, twice, strict=True)]

    def upto(self, epochs: int) -> int:
        found = 0
        for size, cycle, sums in self._kinds:
            cycles, rest = divmod(epochs, cycle) if cycle else (0, epochs)
            rounds, more = divmod(rest, size)
            begin = cycles % size
            found += (cycles * (cycle // size) + rounds) * sums[size]
            found += sums[begin + more] - sums[begin]
        return found


class _Banned:
    """Tokens of positives for anchor chunks that must not take all of them."""

    # Every chunk comes each ``sizes`` epochs. In a cycle of ``counts / common`` visits it takes the
    # positives of one remainder modulo ``common``, in the next cycle of the next remainder.

    def __init__(
        self, stream: Stream, positives: Positives, chunks: Integers, tokens: Array
    ) -> None:
        anchors, banned = stream.pool.anchors, positives.banned
        assert banned is not None  # noqa: S101 - for the type checker
        units = np.searchsorted(anchors.starts, chunks, side="right") - 1
        self._sizes = np.diff(anchors.starts)[units]
        self._counts = positives.counts[units] - banned.counts[chunks]
        self._common = np.gcd(self._sizes, self._counts)
        firsts = stream.first_turns("window", units, self._sizes)
        self._visit = (chunks - anchors.starts[units] - firsts) % self._sizes  # the first
        starts = stream.first_turns("positive", units, self._counts)
        self._start = (starts + self._visit) % self._counts
        self._rows = np.repeat(np.arange(len(chunks)), self._counts)
        self._ranks = ranges(0 * self._counts, self._counts)
        at = positives.starts[units][self._rows] + self._ranks
        self._tokens = tokens[at + banned.skipped(chunks[self._rows], self._ranks)]
        self._edges = np.concatenate([[0], self._counts.cumsum()])

    def upto(self, epochs: int) -> int:
        visits = np.maximum(0, -(-(epochs - self._visit) // self._sizes))
        cycles, rest = np.divmod(visits, self._counts // self._common)
        rounds, more = np.divmod(cycles, self._common)
        rows, ranks = self._rows, self._ranks
        is_more: Flags = (ranks - self._start[rows]) % self._common[rows] < more[rows]
        found = int(((rounds[rows] + is_more) * self._tokens).sum())
        rows = np.repeat(np.arange(len(rest)), rest)
        ranks = self._start[rows] + cycles[rows] + self._sizes[rows] * ranges(0 * rest, rest)
        return found + int(self._tokens[self._edges[rows] + ranks % self._counts[rows]].sum())
