"""Deal positions, each once: what tests of the order ask of whatever deals."""

from __future__ import annotations

from typing import Any

import numpy as np

from duckplets.base.arrays import Integers


def dealt(deal: Any, positions: Integers) -> tuple[Integers, Integers]:
    """Return the leaf of every position, and how many that leaf had before it."""
    leaf, index = (np.full(len(positions), -1, dtype=np.int64) for _ in range(2))
    for share in deal.deal(positions):
        assert len(share.offsets)
        assert (np.diff(share.offsets) > 0).all()
        assert (leaf[share.offsets] == -1).all(), "dealt twice"
        leaf[share.offsets], index[share.offsets] = share.leaf, share.indexes
    assert (leaf >= 0).all(), "not dealt"
    return leaf, index


def stretch(deal: Any, start: int, stop: int) -> tuple[Integers, Integers]:
    """Return the same of positions ``start … stop-1``."""
    return dealt(deal, np.arange(start, stop))


def listed(values: Integers) -> str:
    """Write numbers as golden files have them: twenty in a line."""
    rows = [values[i : i + 20] for i in range(0, len(values), 20)]
    return "".join(" ".join(str(v) for v in row) + "\n" for row in rows)
