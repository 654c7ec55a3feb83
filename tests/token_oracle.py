"""Draw a mixture by tokens one sample after the other, in plain Python: the judge of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

Lengths = Callable[[int, int], int]  # of a source and a number of its samples, the tokens


class Leaf:
    """A source: what comes next, and its tokens."""

    def __init__(self, source: int, weight: float | Fraction, length: Lengths, index: int) -> None:
        self.source, self.weight, self.length, self.index = source, weight, length, index
        self.next = source, length(source, index)

    def take(self) -> None:
        self.index += 1
        self.next = self.source, self.length(self.source, self.index)


class Node:
    """Two children: next comes the sample with the earlier middle, of equal ones the first's."""

    def __init__(self, one: Leaf | Node, other: Leaf | Node) -> None:
        self.children = sorted([one, other], key=lambda child: child.source)
        self.source, self.weight = self.children[0].source, one.weight + other.weight
        self.tokens = [0, 0]
        self._choose()

    def _choose(self) -> None:
        middles = [
            Fraction(2 * tokens + child.next[1]) / child.weight
            for tokens, child in zip(self.tokens, self.children, strict=True)
        ]
        self.turn = int(middles[1] < middles[0])
        self.next = self.children[self.turn].next

    def take(self) -> None:
        self.tokens[self.turn] += self.next[1]
        self.children[self.turn].take()
        self._choose()


def drawn(
    weights: Sequence[float | Fraction], length: Lengths, begin: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield source and tokens of every sample; sources have had ``begin`` of theirs before."""
    found: list[Leaf | Node] = [
        Leaf(source, weight, length, begin[source])
        for source, weight in enumerate(weights)
        if weight
    ]
    while len(found) > 1:  # join the two lightest
        found.sort(key=lambda of: (of.weight, of.source))
        found = [*found[2:], Node(*found[:2])]
    while True:
        yield found[0].next
        found[0].take()
