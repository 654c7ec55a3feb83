"""Copy tokens that lie end to end into rows: what a token file and row groups have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np

from duckplets.base.arrays import Integers, Integers32
from duckplets.errors import DamagedFileError


class Tokens(Protocol):
    """The tokens of all texts of a folder, end to end in the order of the manifest's shards."""

    @property
    def path(self) -> Path:
        """What they are read from."""
        ...

    @property
    def offsets(self) -> Integers:
        """Where the tokens of each text begin, and the end of the last; int64[texts + 1]."""
        ...

    def __len__(self) -> int: ...

    def take(self, starts: Integers, lengths: Integers, width: int, fill: int) -> Integers32:
        """Return so many tokens from each place on as rows, filled up; int32[places, width].

        Raises:
            DamagedFileError: They lead out of the tokens, or a shard is not as it was written.
        """
        ...

    def damage(self, why: str) -> DamagedFileError:
        """Return the error for what is not as it was written."""
        ...


def empty_rows(
    of: Tokens, starts: Integers, lengths: Integers, width: int, fill: int
) -> Integers32:
    """Return rows to copy tokens into, if there are such tokens.

    Raises:
        DamagedFileError: There are not.
    """
    lead_out = (starts < 0) | (lengths < 0) | (lengths > width) | (starts + lengths > len(of))
    if lead_out.any():
        raise of.damage("offsets of texts lead nowhere")
    return np.full((len(starts), width), fill, np.int32)


def copy(
    tokens: Integers32,
    starts: Integers,
    lengths: Integers,
    ids: Integers32,
    rows: Integers,
    columns: Integers,
) -> None:
    """Copy so many tokens from each place on into a row, from a column on."""
    width = ids.shape[1]
    full = lengths == width
    if full.any():  # all at once: one by one they take twice the time
        ids[rows[full]] = np.lib.stride_tricks.sliding_window_view(tokens, width)[starts[full]]
    left = (values[~full].tolist() for values in (starts, lengths, rows, columns))
    for start, length, row, column in zip(*left, strict=True):
        ids[row, column : column + length] = tokens[start : start + length]


def spread(starts: Integers, stops: Integers) -> tuple[Integers, Integers]:
    """Return the integers of several ranges, laid end to end, and of which range each is."""
    counts = np.maximum(stops - starts, 0)
    owners = np.repeat(np.arange(len(counts)), counts)
    shift = starts - (np.cumsum(counts) - counts)
    return owners, np.arange(len(owners)) + shift[owners]
