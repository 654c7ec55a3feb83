"""How often the slow tests try what they try: DUCKPLETS_THOROUGH=1 runs them in full."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

THOROUGH = os.environ.get("DUCKPLETS_THOROUGH") == "1"

_REPEATED = 400  # what is more is a size

thorough = pytest.mark.skipif(not THOROUGH, reason="slow: make test-all runs it")
"""Mark a slow test of what quicker ones test as well: kills, engines, stores, memory, odd sizes."""


def often(times: int, *, less: int) -> int:
    """Return how often, or how much: in full, or less for a suite of minutes.

    In full a few hundred repetitions are at most four times as many: the suite takes an hour.
    """
    if not THOROUGH:
        return less
    return times if times > _REPEATED else min(times, 4 * less)


def kills(times: int, *, less: int) -> int:
    """Return how often something is killed: in full just as often as is said."""
    return times if THOROUGH else less


def some(cases: Iterable[T], *, less: int) -> Sequence[T]:
    """Return all cases in full, or less of them: the first, the last, and some between."""
    every = list(cases)
    if THOROUGH or less >= len(every):
        return every
    return [every[i * (len(every) - 1) // max(1, less - 1)] for i in range(less)]
