"""Numbers as golden files have them: twenty in a line."""

from __future__ import annotations

from duckplets.base.arrays import Integers


def listed(values: Integers) -> str:
    rows = [values[i : i + 20] for i in range(0, len(values), 20)]
    return "".join(" ".join(str(v) for v in row) + "\n" for row in rows)
