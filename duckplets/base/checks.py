"""Check integers that a caller gave, and return them as Python's own."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from duckplets.errors import SamplerError


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
        raise SamplerError(f"{name}={number}: give {allowed}")
    return number
