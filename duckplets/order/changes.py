"""Hold the changes of a run's weights, also those that sources make which join it later.

A source that joins weighs nothing before its step; from there on the weights in force hold for it
as for all others, as if they had been set anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import zip_longest

from duckplets.order.weights import exact_weights


@dataclass(frozen=True, slots=True)
class Change:
    """From ``step`` on the weights are these, or on their way to those of ``until``.

    ``begun``: the step at which they set out on it, where that was an earlier one.
    """

    step: int
    weights: Mapping[str, float]
    until: int = 0
    target: Mapping[str, float] | None = None
    begun: int | None = None

    def on_the_way(self, start: Sequence[int], end: Sequence[int]) -> tuple[int, ...]:
        """Return the shares at ``step``, of which those at ``begun`` and ``until`` are given."""
        if self.begun is None:
            return tuple(start)
        done = Fraction(self.step - self.begun, self.until - self.begun)
        before, after = (1 - done) / sum(start), done / sum(end)
        return exact_weights([before * a + after * b for a, b in zip(start, end, strict=True)])


def with_joins(changes: Sequence[Change], joined: Mapping[str, int]) -> Iterator[Change]:
    """Yield changes that follow each other, and those that sources make which join in between."""
    steps = sorted({*joined.values()})
    for change, following in zip_longest(changes, changes[1:]):
        yield _known(change, joined)
        for step in steps:
            if change.step < step and (following is None or step < following.step):
                begun = None if change.target is None else change.step
                yield _known(replace(change, step=step, begun=begun), joined)


def _known(change: Change, joined: Mapping[str, int]) -> Change:
    """Return a change in which those weigh nothing that have not joined yet."""
    if not joined:
        return change
    weights, target = (
        {name: w if joined.get(name, 0) <= change.step else 0.0 for name, w in of.items()}
        for of in (change.weights, change.target or {})
    )
    return replace(change, weights=weights, target=None if change.target is None else target)
