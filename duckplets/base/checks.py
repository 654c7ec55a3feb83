"""Check integers from callers and convert them to ``int``."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from duckplets.base.settings import Bounds, value_shown
from duckplets.errors import SamplerError

# Largest position of a run: exact as a float, and beyond any training.
MAX_POSITION = 1 << 53


def integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Return an argument as an integer within bounds."""
    bounds = Bounds(low, high)
    is_integer = hasattr(value, "__index__") and not isinstance(value, bool | np.bool_)
    number = operator.index(value) if is_integer else 0
    if not is_integer or not bounds.admits(number):
        raise SamplerError(f"{name}={value_shown(value)}: give {bounds.words('an integer')}")
    return number
