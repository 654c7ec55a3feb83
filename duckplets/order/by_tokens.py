"""Deal positions so that each source has its share of all tokens at every prefix."""

# Leaves are joined in a Huffman tree of their weights. A node merges the samples of its two
# children by virtual time: the tokens of the child up to the middle of a sample, by the child's
# weight; ties go to the child of the first leaf. So a node is off its share by half a sample at
# most, and a leaf by 1.7. A window of samples of each leaf, merged upwards, is exact between the
# last of their first samples and the first of their last ones, wherever it was taken: places are
# guessed from means, and a guess decides nothing but the time it takes.

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import isqrt
from typing import Any, TypeAlias

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import StateMismatchError
from duckplets.order.apportion import Share, divided
from duckplets.order.tapes import Tape, place

_BITS = 20  # of the fraction of a token that a lead is kept in, at the stairs of an anneal
_NEAR = 1 << 17  # samples merged from a known cut rather than searched for
_MOST = 1 << 16  # samples merged at a time
_CUTS = 4  # kept, besides those of stairs


@dataclass(frozen=True, slots=True)
class Frontier:
    """Where every leaf stands before an item."""

    item: int
    counts: list[int]  # samples of each leaf, as its own order counts them
    tokens: list[int]  # of these samples


# Of a stair, with the tokens that each node's first child has beyond its share, in 2^-20.
Start: TypeAlias = tuple[Frontier, list[int]]


@dataclass(frozen=True, slots=True)
class _Window:
    """Neighbouring samples of a node."""

    leaves: Integers
    tokens: Integers
    first: int  # tokens of the node before them, since its stair began
    skipped: Integers  # samples of each leaf that were read and lie before them
    opens: bool  # whether the cut it begins at is that of all other windows


class ByTokens:
    """Deals items to leaves by the tokens of their samples, with shares that may change."""

    def __init__(
        self,
        shares: Sequence[Sequence[int]],  # of every stair: shape (stairs, leaves)
        edges: Sequence[int],  # first item of every stair; the last has no end
        tapes: Mapping[int, Tape],  # by leaf; of leaves with a share
        base: Callable[[], Frontier],  # where leaves stand before the first item
    ) -> None:
        self._shares, self._edges, self._tapes, self._base = shares, edges, tapes, base
        self._size = len(shares[0])
        # stairs have sums that are close to equal
        self._nodes = _tree([sum(column) for column in zip(*shares, strict=True)])
        self._weights = [self._summed(row) for row in shares]
        self.starts: dict[int, Start] = {}  # of stairs, as far as they are known
        self._cuts: list[Frontier] = []  # found last

    def parts(self, weights: Sequence[float] = (1,), *, samples: bool = False) -> list[float]:
        """Return the share of every leaf in tokens, or about in samples; of stairs the mean."""
        of_stairs = np.array(self._shares, dtype=np.float64)
        if samples:
            of_stairs /= [self._tapes[i].mean if i in self._tapes else 1 for i in range(self._size)]
        of_stairs /= of_stairs.sum(axis=1, keepdims=True)
        mean: list[float] = np.average(of_stairs, axis=0, weights=weights).tolist()
        return mean

    def counts(self, items: int) -> list[int]:
        """Return how many samples each leaf had before an item, its base included."""
        return self.cut(items).counts

    def deal(self, items: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of ascending items, with or without gaps."""
        low = 0
        while low < len(items):
            first = int(items[low])
            high = int(np.searchsorted(items, first + _MOST))
            number, cut, dealt = self._number(first), self.cut(first), list[Integers]()
            stop = min([int(items[high - 1]) + 1, *self._edges[number + 1 : number + 2]])
            high, counts = int(np.searchsorted(items, stop)), cut.counts
            while cut.item < stop:
                leaves, cut = self._on(number, cut, stop)
                dealt.append(leaves)
            self._keep(cut)
            leaves = np.concatenate(dealt)
            asked = np.full(len(leaves), -1)
            asked[items[low:high] - first] = np.arange(low, high)
            for leaf in np.unique(leaves).tolist():
                offsets = asked[leaves == leaf]
                (some,) = np.nonzero(offsets >= 0)
                if len(some):
                    yield Share(leaf, offsets[some], some + counts[leaf])
            low = high

    def cut(self, item: int) -> Frontier:
        """Return where every leaf stands before an item."""
        return self._reach(self._number(item), item)

    def last_start(self, item: int) -> list[Any]:
        """Return where the stair of an item begins, as plain values for ``know``."""
        number = self._number(item)
        cut, leads = self.start(number)
        return [number, cut.item, cut.counts, cut.tokens, leads]

    def know(self, before: int, start: Sequence[Any]) -> None:
        """Take the beginning of a stair, after a number of items, from a saved run."""
        number, item, counts, tokens, leads = start
        fits = [len(column) for column in start[2:]] == [self._size, self._size, len(self._nodes)]
        if not fits or self._edges[number : number + 1] != [item] or sum(counts) != before + item:
            raise StateMismatchError(
                "this state's counts at its last change of weights are damaged"
            )
        self.starts.setdefault(number, (Frontier(item, counts, tokens), leads))

    def start(self, number: int) -> Start:
        """Return where a stair begins, and how far each node's first child is ahead there."""
        known = max(
            (start for start in [*self.starts] if start <= number), default=-1
        )  # others add some
        for stair in range(known + 1, number + 1):
            self.starts[stair] = self._next(stair)
        return self.starts[number]

    def _number(self, item: int) -> int:
        return bisect_right(self._edges, item) - 1

    def _next(self, number: int) -> Start:
        if number == 0:
            return replace(self._base(), item=0), [0] * len(self._nodes)
        before, leads = self.start(number - 1)
        cut, weights = self._reach(number - 1, self._edges[number]), self._weights[number - 1]
        own = self._summed([b - a for a, b in zip(before.tokens, cut.tokens, strict=True)])
        nodes = enumerate(zip(self._nodes, leads, strict=True), self._size)
        return cut, [
            lead + (own[one] << _BITS) - (weights[one] * own[node] << _BITS) // weights[node]
            for node, ((one, _), lead) in nodes
        ]

    def _reach(self, number: int, item: int) -> Frontier:
        """Return the cut before an item of a stair, or at its end."""
        start, _ = self.start(number)
        cuts = [start, *(cut for cut in self._cuts if start.item <= cut.item <= item)]
        found = max(cuts, key=lambda cut: cut.item)
        if item - found.item > _NEAR:
            found = self._search(number, item, found)
        while found.item < item:
            _, found = self._on(number, found, item)
        self._keep(found)
        return found

    def _keep(self, cut: Frontier) -> None:
        if all(cut.item != other.item for other in self._cuts):
            self._cuts = [*self._cuts, cut][-_CUTS:]

    def _summed(self, of_leaves: Sequence[int]) -> list[int]:
        """Return what leaves have, and then what nodes have."""
        found = list(of_leaves)
        for one, other in self._nodes:
            found.append(found[one] + found[other])
        return found

    def _rates(self, number: int) -> list[float]:
        """Return about how many samples of each leaf come with a token of all."""
        shares, whole = self._shares[number], sum(self._shares[number])
        return [
            share and share / whole / self._tapes[leaf].mean for leaf, share in enumerate(shares)
        ]

    def _search(self, number: int, item: int, known: Frontier) -> Frontier:
        """Return the cut of a stair before an item, by windows that widen until one has it."""
        start, rates, cut = sum(self.start(number)[0].tokens), self._rates(number), known
        width = 1 + int(max(self._tapes[leaf].mean for leaf, rate in enumerate(rates) if rate)) // 8
        while cut.item != item:
            tokens = sum(cut.tokens) - start + int((item - cut.item) / sum(rates))
            cut = self._around(number, tokens, width, item) or cut
            width *= 2
        return cut

    def _around(self, number: int, tokens: int, width: int, item: int) -> Frontier | None:
        """Return the cut nearest to an item, among cuts near a number of tokens, or None."""
        start, shares = self.start(number)[0], self._shares[number]
        spans, whole = dict[int, tuple[int, int, int]](), sum(shares)
        for leaf, share in enumerate(shares):
            if share:
                own, least = start.tokens[leaf] + tokens * share // whole, start.counts[leaf]
                index, before = place(self._tapes[leaf], own - width, least)
                last, _ = place(self._tapes[leaf], own + width, least)
                spans[leaf] = index, last + 1, before
        return self._merged(number, spans, item)[1]

    def _on(self, number: int, cut: Frontier, item: int) -> tuple[Integers, Frontier]:
        """Return the leaves of the items from a cut on, at least of one, and the next cut."""
        rates, spans = self._rates(number), dict[int, tuple[int, int, int]]()
        many, whole = min(item - cut.item, _MOST), sum(rates)
        for leaf, rate in enumerate(rates):
            if rate:
                index, size = cut.counts[leaf], int(many * rate / whole) + 2
                spans[leaf] = index, index + size + 2 * isqrt(size), cut.tokens[leaf]
        leaves, after = self._merged(number, spans, cut.item + many, cut)
        assert after is not None  # noqa: S101 - the window that ends first has an item
        return leaves, after

    def _merged(
        self,
        number: int,
        spans: Mapping[int, tuple[int, int, int]],  # by leaf first sample, end, tokens before it
        item: int,
        cut: Frontier | None = None,  # that of all first samples, if they have one
    ) -> tuple[Integers, Frontier | None]:
        """Return the leaves of items up to one, and the cut before it, or the nearest within spans.

        Without a cut if no time is in all spans.
        """
        (start, leads), weights = self.start(number), self._weights[number]
        windows = dict[int, _Window]()
        for leaf, (index, stop, before) in spans.items():
            tokens, opens = self._tapes[leaf].between(index, stop), index == start.counts[leaf]
            of = np.full(len(tokens), leaf), tokens, before - start.tokens[leaf]
            nothing = np.zeros(self._size, np.int64)
            windows[leaf] = root = _Window(*of, nothing, opens or cut is not None)
        for node, ((one, other), lead) in enumerate(zip(self._nodes, leads, strict=True)):
            pair, lead = (weights[one], weights[other]), lead >> (_BITS - 1)
            if (found := _joined(windows[one], windows[other], pair, lead)) is None:
                return np.zeros(0, np.int64), None
            windows[self._size + node] = root = found
        counts, sums = [*(cut or start).counts], [*(cut or start).tokens]
        begin = start.item - sum(start.counts) + sum(counts)
        for leaf, (index, *_) in spans.items():
            begin += index + int(root.skipped[leaf]) - counts[leaf]
        leaves = root.leaves[: max(0, item - begin)]
        read = root.skipped + np.bincount(leaves, minlength=self._size)
        for leaf, (index, _, before) in spans.items():
            counts[leaf] = index + int(read[leaf])
            sums[leaf] = before + int(windows[leaf].tokens[: read[leaf]].sum())
        return leaves, Frontier(begin + len(leaves), counts, sums)


def _tree(weights: Sequence[int]) -> list[tuple[int, int]]:
    """Join the two lightest again and again: nodes from ``len(weights)`` on, by their children."""
    heap = [(weight, leaf, leaf) for leaf, weight in enumerate(weights) if weight]
    heapify(heap)
    nodes = list[tuple[int, int]]()
    while len(heap) > 1:
        one, other = heappop(heap), heappop(heap)
        pair = sorted([one[1:], other[1:]])  # by the first leaf of each
        heappush(heap, (one[0] + other[0], pair[0][0], len(weights) + len(nodes)))
        nodes.append((pair[0][1], pair[1][1]))
    return nodes


def _joined(one: _Window, other: _Window, weights: tuple[int, int], lead: int) -> _Window | None:
    """Merge the windows of a node's children; ``lead`` is twice the tokens the first is ahead."""
    (mine, theirs), (a, b) = (2 * cut.tokens.cumsum() - cut.tokens for cut in (one, other)), weights
    begin, after = 2 * one.first + lead, 2 * other.first - lead
    # both in the units of the lighter child, where quotients are small; odd if there is a rest
    if a <= b:
        whole, rest = divmod(after * a - begin * b, b)
        quotients, rests = divided(theirs, a, rest, b)
        mine, theirs = 2 * mine, 2 * (quotients + whole) + (rests > 0)
    else:
        whole, rest = divmod(begin * b - after * a, a)
        quotients, rests = divided(mine, b, rest, a)
        mine, theirs = 2 * (quotients + whole) + (rests > 0), 2 * theirs
    at_one = np.searchsorted(theirs, mine, side="left") + np.arange(len(mine))
    is_other = np.ones(len(mine) + len(theirs), bool)
    is_other[at_one] = False
    at_other = np.flatnonzero(is_other)
    low = max(0 if one.opens else at_one[0], 0 if other.opens else at_other[0])
    high = min(at_one[-1], at_other[-1]) + 1
    if low >= high:
        return None
    leaves, tokens = np.empty((2, len(mine) + len(theirs)), np.int64)
    leaves[at_one], leaves[at_other] = one.leaves, other.leaves
    tokens[at_one], tokens[at_other] = one.tokens, other.tokens
    first = one.first + other.first + int(tokens[:low].sum())
    skipped = one.skipped + other.skipped + np.bincount(leaves[:low], minlength=len(one.skipped))
    return _Window(leaves[low:high], tokens[low:high], first, skipped, one.opens and other.opens)
