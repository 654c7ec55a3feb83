"""Choose the size of the next block of a read by the rows and bytes of the previous one.

The first blocks are small, so the first rows arrive early. Later blocks grow up to the byte limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST_ROWS = 256
_GROWTH = 4


@dataclass(slots=True)
class BlockSize:
    """The size of the next block in ``rows``, up to a number of rows and bytes."""

    most_rows: int
    most_bytes: int
    rows: int = field(default_factory=lambda: FIRST_ROWS)

    def learn(self, rows: int, nbytes: int) -> None:
        """Adapt the size to the rows and bytes of the last block."""
        fitting = self.most_bytes * rows // max(1, nbytes)
        self.rows = max(1, min(self.rows * _GROWTH, self.most_rows, fitting))
