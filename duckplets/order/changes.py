"""Changes of a run's weights: those that a mixture plans, and those that were set on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duckplets.order.weights import Weight


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
    """From ``step`` on the weights are these, or on their way to those of ``until``."""

    step: int
    weights: Mapping[str, Weight]
    until: int = 0
    target: Mapping[str, Weight] | None = None
