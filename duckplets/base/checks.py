"""Check integers and names that a caller gave, and return them as Python's own."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from duckplets.base.settings import Name
from duckplets.errors import DuckpletsError, SamplerError

LONGEST_NAME = 200

# The greatest position of a run: exact as a float too, and far beyond what anybody will train on.
MAX_POSITION = 1 << 53

_TOLD = 256  # bits of a number that a message shows; Python refuses to write thousands of digits


def integer(
    name: str,
    value: Any,
    low: int | None = None,
    high: int | None = None,
    *,
    say_high: bool = True,
) -> int:
    """Return an argument as an integer; refuse what is none or lies outside its bounds.

    Args:
        name: Of the argument.
        value: An integer of Python or NumPy; no bool.
        low: The least it may be, or None.
        high: The most it may be, or None.
        say_high: Whether a message names ``high``, or only once a value exceeds it.

    Raises:
        SamplerError: It is none, or lies elsewhere.
    """
    allowed = "an integer" if low is None else f"an integer from {low}"
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise SamplerError(f"{name}={value!r}: give {allowed}")
    number = operator.index(value)
    if high is not None and (say_high or number > high):
        allowed += f" to {high}"
    if (low is not None and number < low) or (high is not None and number > high):
        told = number if abs(number) >> _TOLD == 0 else f"(a number of {number.bit_length()} bits)"
        raise SamplerError(f"{name}={told}: give {allowed}")
    return number


def checked_name(
    what: str,
    name: Any,
    error: type[DuckpletsError],
    *,
    longest: int = LONGEST_NAME,
    slash: bool = False,
) -> str:
    """Return a name of anything: 1 to 200 printable characters, not only blanks.

    Args:
        what: Whose name it is, for the message, with the name.
        name: What was given.
        error: What to raise where it is none.
        longest: Characters that it may have.
        slash: Whether it may hold a ``/``, which stands between the parts of a place.
    """
    rule = Name(longest, slash)
    if not isinstance(name, str) or not rule.admits(name):
        raise error(f"{what}: give {rule.words('')}")
    return str(name)
