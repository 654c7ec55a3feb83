"""Check the weights, steps and factors that a user writes for a mixture, and copy them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any

from duckplets.base.checks import MAX_POSITION
from duckplets.errors import MixtureError

__all__ = ["Weights", "checked_positive", "checked_step"]


class Weights(Mapping[str, float]):
    """A weight for each name: checked, copied, and not to be changed.

    Args:
        weights: A finite number of at least 0 for each name.
        what: Where they stand, for messages.

    Raises:
        MixtureError: They are no mapping, or a name or a number is wrong.
    """

    __slots__ = ("_weights",)
    _weights: dict[str, float]

    def __init__(self, weights: Mapping[str, float], what: str) -> None:
        if not isinstance(weights, Mapping):
            raise MixtureError(
                f"{what}: give a weight for each name, as in {{'web': 0.7}}, not {weights!r}"
            )
        self._weights = {_name(what, name): _weight(what, name, w) for name, w in weights.items()}

    def __getitem__(self, name: str) -> float:
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __hash__(self) -> int:
        return hash(frozenset(self._weights.items()))

    def __repr__(self) -> str:
        return repr(self._weights)


def checked_positive(what: str, name: str, value: Any) -> float:
    """Return a finite number above 0 as a float.

    Raises:
        MixtureError: It is something else.
    """
    number = _number(value)
    if 0 < number < math.inf:
        return number
    raise MixtureError(f"{what}: {name}={value!r}; give a finite number above 0")


def checked_step(what: str, name: str, value: Any) -> int:
    """Return the number of a step, which counts from 0.

    Raises:
        MixtureError: It is something else.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if whole and 0 <= int(value) <= MAX_POSITION:
        return int(value)
    told = f" to {MAX_POSITION}" if whole and int(value) > 0 else ""
    told_value = f"(a number of {int(value).bit_length()} bits)" if told else repr(value)
    raise MixtureError(f"{what}: {name}={told_value}; give an integer from 0{told}")


def _name(what: str, name: Any) -> str:
    if isinstance(name, str) and name:
        return name
    raise MixtureError(f"{what}: source name {name!r}; give the name of a source as text")


def _weight(what: str, name: str, weight: Any) -> float:
    number = _number(weight)
    if 0 <= number < math.inf:
        return number
    raise MixtureError(
        f"{what}: source {name!r} has weight {weight!r}; give a finite number from 0"
    )


def _number(value: Any) -> float:
    """Return a number as a float, anything else as NaN; -0.0 becomes 0."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.inf
