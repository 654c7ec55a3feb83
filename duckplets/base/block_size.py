"""Size the next block of a read by the rows and bytes of the one before.

Blocks start small, so that the first rows come soon, and grow as far as their bytes allow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST_ROWS = 256
_GROWTH = 4


@dataclass(slots=True)
class BlockSize:
    """The size of blocks.

    Attributes:
        most_rows: Of a block.
        most_bytes: Of a block.
        rows: Of the next block.
    """

    most_rows: int
    most_bytes: int
    rows: int = field(default_factory=lambda: FIRST_ROWS)

    def learn(self, rows: int, nbytes: int) -> None:
        """Size the next block by the rows and bytes of the last one."""
        fitting = self.most_bytes * rows // max(1, nbytes)
        self.rows = max(1, min(self.rows * _GROWTH, self.most_rows, fitting))
