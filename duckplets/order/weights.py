"""Check the weights, steps and factors that a user writes for a mixture, and make them exact."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from duckplets.base.checks import MAX_POSITION
from duckplets.errors import MixtureError, nearest

__all__ = [
    "Weight",
    "Weights",
    "Word",
    "as_word",
    "checked_positive",
    "checked_step",
    "checked_word",
    "exact_shares",
    "exact_weights",
]

Weight: TypeAlias = float | Fraction
Word: TypeAlias = Literal["proportional", "equal"]

_MAX_TOTAL = 1 << 44  # of integer weights

# Decimal's ln, exp and division round correctly, so the last digit is the same everywhere; those
# of floats are not. The digits beyond the kept ones go, so that 4 at T = 2 is 2 and not 1.99…9.
_FINE, _KEPT = Context(prec=60), Context(prec=40)
_LEAST_LOG = Decimal(-100)  # e^-100 is far less than one part in 2^44: all below is one part


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


def as_word(value: Any) -> Word | None:
    """Return a word that stands for the weights of all sources; None for anything else."""
    return cast(Word, value) if isinstance(value, str) and value in get_args(Word) else None


def checked_word(value: Any, what: str) -> Word:
    """Return the same.

    Raises:
        MixtureError: It is something else.
    """
    if (word := as_word(value)) is not None:
        return word
    raise MixtureError(
        f"{what}: give a weight for each name, as in {{'web': 0.7}}, 'proportional', 'equal', or "
        f"the path of a TOML file, not {value!r}{nearest(str(value), get_args(Word))}"
    )


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


# -- as integers in their exact ratio ----------------------------------------------------------


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
    common = 1
    for fraction in exact:
        common = np.lcm.reduce(np.array([common, fraction.denominator], dtype=object))
    integers = [int(f * common) for f in exact]
    divisor = np.gcd.reduce(np.array(integers, dtype=object)) or 1
    integers = [i // int(divisor) for i in integers]
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
