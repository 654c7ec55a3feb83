"""Ragged lists of integers as two flat arrays: made, looked up and chained without a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duckplets.order.permute import Integers


@dataclass(frozen=True, slots=True)
class Lists:
    """A list of integers for each of n owners.

    Attributes:
        starts: First value of each owner, and the end; int64[n + 1].
        values: The values, by owner.
    """

    starts: Integers
    values: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, owner: int) -> Integers:
        return self.values[self.starts[owner] : self.starts[owner + 1]]

    @classmethod
    def of(cls, owners: Integers, values: Integers, count: int) -> Lists:
        """Group values by their owners, 0 to ``count - 1``, in ascending order, once each."""
        order = np.lexsort((values, owners))
        owners, values = owners[order], values[order]
        fresh = np.ones(len(values), dtype=bool)
        fresh[1:] = (owners[1:] != owners[:-1]) | (values[1:] != values[:-1])
        owners, values = owners[fresh], values[fresh]
        return cls(np.searchsorted(owners, np.arange(count + 1)), values)

    @property
    def lengths(self) -> Integers:
        """How many values each owner has."""
        return np.diff(self.starts)

    def owners(self) -> Integers:
        """Return the owner of every value."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def take(self, owners: Integers) -> Lists:
        """Return the lists of some owners, in the order given."""
        counts = self.lengths[owners]
        starts = _sums(counts)
        shift = np.repeat(self.starts[:-1][owners] - starts[:-1], counts)
        return Lists(starts, self.values[shift + np.arange(starts[-1])])

    def then(self, other: Lists) -> Lists:
        """Return for each owner the values that ``other`` has for its values, laid end to end."""
        further = other.take(self.values)
        return Lists(further.starts[self.starts], further.values)


def merged(parts: Sequence[Lists]) -> tuple[Lists, Integers]:
    """Return the values of several lists of the same owners, ascending and once each.

    Returns:
        The lists, and for every value the first part that had it.
    """
    owners = np.concatenate([part.owners() for part in parts])
    values = np.concatenate([part.values for part in parts])
    part = np.repeat(np.arange(len(parts)), [len(p.values) for p in parts])
    order = np.lexsort((part, values, owners))
    owners, values, part = owners[order], values[order], part[order]
    fresh = np.ones(len(values), dtype=bool)
    fresh[1:] = (owners[1:] != owners[:-1]) | (values[1:] != values[:-1])
    starts = np.searchsorted(owners[fresh], np.arange(len(parts[0]) + 1))
    return Lists(starts, values[fresh]), part[fresh]


def places(ascending: Integers, wanted: Integers) -> Integers:
    """Return where each wanted number stands among ascending ones, or -1."""
    if not len(ascending):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[at] == wanted, at, -1)


def _sums(counts: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
