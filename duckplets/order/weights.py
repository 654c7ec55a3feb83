"""Kinds of weights, steps and factors of a mixture, changes of them, and weights made exact."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias

from duckplets.base.checks import MAX_POSITION
from duckplets.base.settings import Bounds
from duckplets.errors import MixtureError

Weight: TypeAlias = float | Fraction
Shares = Annotated[
    Mapping[str, Annotated[float, Bounds(0)]], "a weight for each name, as in {'web': 0.7}"
]
Factor = Annotated[float, Bounds(above=0)]
Step = Annotated[int, Bounds(0, MAX_POSITION)]
Word: TypeAlias = Literal["proportional", "equal"]

_MAX_TOTAL = 1 << 44  # of integer weights

# Decimal's ln, exp and division round correctly, so the last digit is the same everywhere; those
# of floats are not. The digits beyond the kept ones go, so that 4 at T = 2 is 2 and not 1.99…9.
_FINE, _KEPT = Context(prec=60), Context(prec=40)
_LEAST_LOG = Decimal(-100)  # e^-100 is far less than one part in 2^44: all below is one part


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


def exact_weights(weights: Sequence[float | Fraction]) -> tuple[int, ...]:
    """Return integers in the exact ratio of the weights as written (1.009 is 1009/1000).

    Ratios whose integers would add up to more than 2^44 are rounded to that precision: at
    position 10^12 that moves a count by less than a tenth of a sample a leaf.
    """
    exact = (Fraction(repr(float(w))) if isinstance(w, float) else Fraction(w) for w in weights)
    return _integers(tuple(exact))


@lru_cache(maxsize=256)
def _integers(exact: tuple[Fraction, ...]) -> tuple[int, ...]:
    total = sum(exact)
    common = math.lcm(*(fraction.denominator for fraction in exact))
    integers = [int(fraction * common) for fraction in exact]
    divisor = math.gcd(*integers) or 1
    integers = [integer // divisor for integer in integers]
    if sum(integers) > _MAX_TOTAL:
        integers = [max(1, round(f / total * (_MAX_TOTAL - len(exact)))) if f else 0 for f in exact]
    return tuple(integers)


def exact_shares(weights: Sequence[float | Fraction], temperature: float) -> tuple[int, ...]:
    """Return integers in the ratio of ``weight ** (1 / temperature)``, the same everywhere.

    At temperature 1 the ratio is exact. Else it is computed in decimals of 40 digits. The sum
    is at most 2^44: a positive weight gets at least 1 of it (a sample in 17 million million),
    however small its share would be, and 0 stays 0.

    Args:
        weights: Finite numbers of at least 0.
        temperature: Finite and more than 0.

    Raises:
        MixtureError: Every weight is 0.
    """
    exact = [Fraction(repr(float(w)) if isinstance(w, float) else w) for w in weights]
    heaviest = max(exact, default=Fraction(0))
    if not heaviest:
        raise MixtureError("every weight is 0; give at least one more than that")
    if temperature != 1:
        divisor = Decimal(repr(float(temperature)))
        exact = [_tempered(w / heaviest, divisor) if w else w for w in exact]
    return exact_weights(exact)


def _tempered(ratio: Fraction, temperature: Decimal) -> Fraction:
    """Return ``ratio ** (1 / temperature)`` for a ratio above 0 and up to 1."""
    decimal = _FINE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    exponent = _FINE.divide(_FINE.ln(decimal), temperature)
    return Fraction(_KEPT.plus(_FINE.exp(max(exponent, _LEAST_LOG))))
