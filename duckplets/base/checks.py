"""Check integers and names from callers and return them as Python's own types."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from duckplets.base.settings import Name
from duckplets.errors import DuckpletsError, SamplerError

LONGEST_NAME = 200

# Largest position of a run: exact as a float, and beyond any training.
MAX_POSITION = 1 << 53

_TOLD = 256  # bits of a number shown in a message; Python refuses to print thousands of digits


def integer(
    name: str,
    value: Any,
    low: int | None = None,
    high: int | None = None,
    *,
    say_high: bool = True,
) -> int:
    """Return an argument as an integer within bounds.

    Args:
        name: Name of the argument.
        value: An integer of Python or NumPy; no bool.
        low: Least value, or None.
        high: Greatest value, or None.
        say_high: Whether every message names ``high``, or only one about a larger value.

    Raises:
        SamplerError: It is not an integer, or out of bounds.
    """
    allowed = "an integer" if low is None else f"an integer from {low}"
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise SamplerError(f"{name}={value!r}: give {allowed}")
    number = operator.index(value)
    if high is not None and (say_high or number > high):
        allowed += f" to {high}"
    if (low is not None and number < low) or (high is not None and number > high):
        number_shown = (
            number if abs(number) >> _TOLD == 0 else f"(a number of {number.bit_length()} bits)"
        )
        raise SamplerError(f"{name}={number_shown}: give {allowed}")
    return number


def checked_name(
    what: str,
    name: Any,
    error: type[DuckpletsError],
    *,
    longest: int = LONGEST_NAME,
    slash: bool = False,
) -> str:
    """Return a name: 1 to 200 printable characters, not only blanks.

    Args:
        what: What the name belongs to, with the value, for the message.
        name: The value.
        error: Error class to raise.
        longest: Most characters.
        slash: Whether ``/`` is allowed, as between the parts of a path.
    """
    rule = Name(longest, slash)
    if not isinstance(name, str) or not rule.admits(name):
        raise error(f"{what}: give {rule.words('')}")
    return str(name)
