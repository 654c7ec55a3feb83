"""Check integers and names from callers and return them as Python's own types."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from duckplets.base.settings import Bounds, Name, value_shown
from duckplets.errors import DuckpletsError, SamplerError

LONGEST_NAME = 200

# Largest position of a run: exact as a float, and beyond any training.
MAX_POSITION = 1 << 53


def integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Return an argument as an integer within bounds.

    Args:
        name: Name of the argument.
        value: An integer of Python or NumPy; no bool.
        low: Least value, or None.
        high: Greatest value, or None.

    Raises:
        SamplerError: It is not an integer, or out of bounds.
    """
    bounds = Bounds(low, high)
    is_one = hasattr(value, "__index__") and not isinstance(value, bool | np.bool_)
    number = operator.index(value) if is_one else 0
    if not is_one or not bounds.admits(number):
        raise SamplerError(f"{name}={value_shown(value)}: give {bounds.words('an integer')}")
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
