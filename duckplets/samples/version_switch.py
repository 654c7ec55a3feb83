"""Find from which version of the corpus each sample of a stream is drawn, where several join a run.

    versions  v1 ───────────── step: v2 joins
    stream    … epoch of v1 │ epoch of v1, begun before │ epochs of v2 …

The epoch that is under way where a version joins goes on to its end with the anchors it had; the
next one has those of the new version. So what a stream draws from a version is a stretch of whole
epochs: a stream of its own, whose epochs count on. Where a stretch begins follows from how many
samples came before the step, which the schedule tells in closed form: nothing is remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from duckplets.base.arrays import Floats, Integers
from duckplets.order.apportion import Apportionment
from duckplets.samples.stream import Draw, Stream

ByVersion: TypeAlias = Sequence[Sequence[Stream]]  # of a run, in order of its versions


class Courses:
    """Where in the streams of a run those of later versions set in.

    Args:
        streams: Of the run, to which those of later versions are added.
        recipes: Of every source, by its number, the numbers of its streams and how they are dealt.

    Attributes:
        kept: Streams that find no anchor in the version that joined last, and go on as they are.
        unused: Streams of that version whose recipes found no anchor when the run was opened.
    """

    def __init__(
        self, streams: list[Stream], recipes: Mapping[int, tuple[list[int], Apportionment]]
    ) -> None:
        self._streams = streams
        self._recipes = recipes
        self._later: dict[int, list[tuple[int, int]]] = {}  # version, number; by the first number
        # By the first: samples from which on a stream is drawn, and its number.
        self._turns: dict[int, tuple[list[int], list[int]]] = {}
        self.kept: list[Stream] = []
        self.unused: list[Stream] = []

    def __bool__(self) -> bool:
        return bool(self._later)

    def join(self, version: int, streams: Sequence[Stream]) -> None:
        """Add what streams draw from a later version, where that differs from what they have.

        One of a recipe that found no anchor before is left out: it has no share of its source. One
        that finds none in this version goes on with the anchors it has.

        Args:
            version: Which of the versions, from 1.
            streams: Of sources that are known.
        """
        numbers = [number for of_source, _ in self._recipes.values() for number in of_source]
        firsts = {(self._streams[n].source, self._streams[n].recipe.name): n for n in numbers}
        there = {(stream.source, stream.recipe.name): stream for stream in streams}
        read = {stream.source for stream in streams}
        lacking = (n for place, n in firsts.items() if place[0] in read and place not in there)
        self.kept = [self._last(first) for first in lacking]
        self.unused = [stream for place, stream in there.items() if place not in firsts]
        for place, stream in there.items():
            if place not in firsts:
                continue
            first = firsts[place]
            later, last = self._later.get(first, []), self._last(first)
            if not (_same(last.pool, stream.pool) and _same(last.candidates, stream.candidates)):
                self._later[first] = [*later, (version - 1, len(self._streams))]
                self._streams.append(stream)

    def at(self, version: int) -> Iterator[tuple[int, Stream]]:
        """Yield what is drawn of the sources, by their numbers, once a version has joined."""
        for leaf, (numbers, _) in self._recipes.items():
            for first in numbers:
                later = [(0, first), *((v + 1, n) for v, n in self._later.get(first, []))]
                yield leaf, self._streams[max((v, n) for v, n in later if v <= version)[1]]

    def _last(self, first: int) -> Stream:
        """Return what a stream draws from the last version in which it differs."""
        later = self._later.get(first)
        return self._streams[later[-1][1] if later else first]

    def turn(self, counts: Integers) -> None:
        """Find where the streams of later versions set in.

        Args:
            counts: Draws of every stream before each version joins: shape (versions, streams).
        """
        for first, later in self._later.items():
            starts, numbers = [0], [first]
            for version, number in later:
                count = int(counts[version, first]) * self._streams[first].anchors_a_draw
                at = bisect_right(starts, count)
                del starts[at:], numbers[at:]  # of which no epoch has begun
                before, stream = self._streams[numbers[-1]], self._streams[number]
                epochs = -(-(count - starts[-1]) // len(before))
                start = starts[-1] + epochs * len(before)
                epochs += (starts[-1] + before.shift) // len(before)
                if start == starts[-1]:
                    del starts[-1], numbers[-1]
                starts.append(start)
                numbers.append(number)
                self._streams[number] = replace(stream, shift=epochs * len(stream) - start)
            self._turns[first] = starts, numbers

    def cut(self, first: int, index: Integers) -> Iterator[tuple[int, slice]]:
        """Yield which of some draws of a stream, ascending, are of which number."""
        if first not in self._turns:
            yield first, slice(None)
            return
        edges = [0, *np.searchsorted(index, self._edges(first)).tolist(), len(index)]
        for number, (low, high) in zip(self.numbers(first), pairwise(edges), strict=True):
            if low < high:
                yield number, slice(low, high)

    def drawing(self, first: int) -> Callable[[Integers], Draw]:
        """Return what draws samples of a stream with pairs as they were judged, ascending.

        One draw takes several of them, and a version may set in between.
        """
        return (
            partial(self._draw_at, first) if first in self._turns else self._streams[first].draw_at
        )

    def _draw_at(self, first: int, index: Integers) -> Draw:
        starts, numbers = self._turns[first]
        edges = [0, *np.searchsorted(index, starts[1:]).tolist(), len(index)]
        parts = [
            self._streams[number].draw_at(index[low:high])
            for number, (low, high) in zip(numbers, pairwise(edges), strict=True)
            if low < high
        ]
        return Draw(
            [np.concatenate(column) for column in zip(*(p.chunks for p in parts), strict=True)],
            [np.concatenate(column) for column in zip(*(p.hashes for p in parts), strict=True)],
            labels=np.concatenate([np.asarray(part.labels) for part in parts]),
        )

    def numbers(self, first: int) -> list[int]:
        """Return the numbers that a stream has one after the other: its own, of later versions."""
        return self._turns[first][1] if first in self._turns else [first]

    def by_version(self, dealt: Integers) -> Integers:
        """Return counts of draws, of which each stream has all, by number: shape (n, streams)."""
        found = dealt.copy()
        for first in self._turns:
            edges = [0, *self._edges(first), None]
            draws = dealt[:, first]
            found[:, first] = 0
            for number, (low, high) in zip(self.numbers(first), pairwise(edges), strict=True):
                found[:, number] = np.clip(draws, low, high) - (low or 0)
        return found

    def parts(self, drawn: Integers | None = None) -> Floats:
        """Return the share of every number within its source.

        Args:
            drawn: Draws of each stream so far, whose last version then has its share; None for the
                newest.
        """
        found = np.zeros(len(self._streams))
        for first, part in self._shares():
            if drawn is None:
                found[self.numbers(first)[-1]] = part
            else:
                found[self.number_at(first, int(drawn[first]))] = part
        return found

    def parts_of(self, samples: Integers) -> Floats:
        """Return the share of every number within its source in some stretches.

        Args:
            samples: What is dealt in them: shape (stretches, streams).
        """
        found = np.zeros(samples.shape)
        for first, part in self._shares():
            numbers = self.numbers(first)
            whole = samples[:, numbers].sum(axis=1, keepdims=True)
            last = np.arange(len(numbers)) == len(numbers) - 1
            divided = np.where(whole > 0, samples[:, numbers] / np.maximum(whole, 1), last)
            found[:, numbers] = part * divided
        return found

    def _shares(self) -> Iterator[tuple[int, float]]:
        for numbers, recipes in self._recipes.values():
            yield from zip(numbers, recipes.parts(), strict=True)

    def number_at(self, first: int, draw: int) -> int:
        """Return which number a draw of a stream is of."""
        return self.numbers(first)[bisect_right(self._edges(first), draw)]

    def begin(self, first: int, draw: int) -> int:
        """Return the draw from which on a stream is of the number that it is of at one."""
        return max((edge for edge in self._edges(first) if edge <= draw), default=0)

    def epochs(self, leaf: int, draws: int) -> float:
        """Return how often the anchors of a source have come up in its first so many draws."""
        numbers, recipes = self._recipes[leaf]
        visits, anchors = 0.0, 0
        for first, count in zip(numbers, recipes.counts(draws), strict=True):
            stream = self._streams[self.number_at(first, count)]
            visits += count * stream.anchors_a_draw + stream.shift
            anchors += len(stream)
        return visits / anchors

    def _edges(self, first: int) -> list[int]:
        """Return the draws from which on a stream is of another number than before.

        A draw of several samples that belong to two counts to the first of them.
        """
        if first not in self._turns:
            return []
        a_draw = self._streams[first].anchors_a_draw
        return [-(-start // a_draw) for start in self._turns[first][0][1:]]


def _same(one: Any, other: Any) -> bool:
    """Whether two pools, or parts of them, lead to the same draws."""
    if is_dataclass(one) and type(one) is type(other):
        names = [field.name for field in fields(one) if field.name != "compiled"]
        return all(_same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)
