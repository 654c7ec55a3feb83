"""How often the slow tests try what they try: DUCKPLETS_THOROUGH=1 runs them in full."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("DUCKPLETS_THOROUGH") == "1"


def often(times: int, *, less: int) -> int:
    """Return how often, or how much: in full, or less for a suite of minutes."""
    return times if THOROUGH else less
