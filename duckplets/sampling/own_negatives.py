"""Negatives of the anchor's own record: those that strategy ``same_record`` takes.

A record has few of them and they are known beforehand, such as the rejected replies of a preference
pair, so the illegal ones are left out as the pool is read, and visits go through the others in a
circle: with k negatives a sample each visit takes the next k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.order.permute import below, hashed
from duckplets.pools.arrays import Negatives
from duckplets.pools.legality import Anchored


@dataclass(frozen=True, slots=True)
class OwnNegatives:
    """Draws the negatives of one stream.

    Attributes:
        pool: What to draw from: of every record the legal windows, of different texts.
        start_key: Key of where a record's circle begins.
        slots: How many negatives a sample has.
    """

    pool: Negatives
    start_key: int
    slots: int

    def draw_all(self, samples: Anchored, visits: Integers, period: Integers) -> list[Integers]:
        """Return one window of the pool for every slot and sample.

        Args:
            samples: Samples with anchor and positive.
            visits: How often the anchor of each came before.
            period: After how many visits its windows and positives come again as they did. After
                each common cycle the circle moves on by one more, else some would never meet.
        """
        pool = self.pool
        place = pool.firsts[samples.classes]
        unit = pool.lows[place]
        first = pool.starts[unit]
        count = pool.starts[unit + pool.sums[place + 1] - pool.sums[place]] - first
        start = below(hashed(self.start_key, samples.records), count)
        cycle = np.lcm(period, count // np.gcd(count, self.slots))
        base = start + visits * self.slots + visits // cycle
        return [first + (base + slot) % count for slot in range(self.slots)]
