"""Hold the changes of a run's weights, also those that versions of the corpus make which join it.

A source that joins weighs nothing before its step; from there on the weights in force hold for it
as for all others, as if they had been set anew. So do shares in proportion to anchors, which are
those of the newer version then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from duckplets.order.weights import Weight, exact_weights


@dataclass(frozen=True, slots=True)
class Event:
    """Weights set during a run, which override the declared ones.

    Attributes:
        weights: By the names of sources.
        temperature: From there on; None leaves it as it was.
    """

    weights: Mapping[str, float]
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """From ``step`` on the weights are these, or on their way to those of ``until``.

    ``begun``: the step at which they set out on it, where that was an earlier one.
    """

    step: int
    weights: Mapping[str, Weight]
    until: int = 0
    target: Mapping[str, Weight] | None = None
    begun: int | None = None

    def on_the_way(self, start: Sequence[int], end: Sequence[int]) -> tuple[int, ...]:
        """Return the shares at ``step``, of which those at ``begun`` and ``until`` are given."""
        if self.begun is None:
            return tuple(start)
        done = Fraction(self.step - self.begun, self.until - self.begun)
        before, after = (1 - done) / sum(start), done / sum(end)
        return exact_weights([before * a + after * b for a, b in zip(start, end, strict=True)])


def with_joins(
    versions: Mapping[int, Sequence[Change]], joined: Mapping[str, int]
) -> Iterator[Change]:
    """Yield changes that follow each other, and those that versions make which join in between.

    Args:
        versions: The changes, of the same steps, by the step from which on they are in force: 0,
            and where a version joins.
        joined: Sources that came with those, with the step.
    """
    starts = sorted(versions)
    steps = [change.step for change in versions[0]]
    for number, step in enumerate(steps):
        held = starts[bisect_right(starts, step) - 1]
        yield _known(versions[held][number], joined)
        for start in starts:
            if step < start and (number + 1 == len(steps) or start < steps[number + 1]):
                change = versions[start][number]
                begun = None if change.target is None else step
                yield _known(replace(change, step=start, begun=begun), joined)


def _known(change: Change, joined: Mapping[str, int]) -> Change:
    """Return a change in which those weigh nothing that have not joined yet."""
    if not joined:
        return change
    weights, target = (
        {name: w if joined.get(name, 0) <= change.step else 0.0 for name, w in of.items()}
        for of in (change.weights, change.target or {})
    )
    return replace(change, weights=weights, target=None if change.target is None else target)
