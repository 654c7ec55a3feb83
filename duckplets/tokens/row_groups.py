"""Read tokens from the row groups of shards, where there is no room for a token file.

    position → row group ─decoded once, kept while there is memory→ tokens ─copied→ rows

Only where texts begin is in memory for the whole folder, 8 bytes a text. A row group is decoded as
a whole, so it pays where rows that are read together lie in few of them: in a local order (see
``duckplets.order.permute.ranks_in_regions``). In an order over all rows each block of a run reads
nearly all row groups.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np

from duckplets.base.arrays import Integers, Integers32
from duckplets.base.progress import bar
from duckplets.errors import DamagedFileError
from duckplets.tokens.arrays import is_array, part, parts_of
from duckplets.tokens.decode import check, lengths_of, row_group
from duckplets.tokens.gather import copy, empty_rows, spread
from duckplets.tokens.manifest import ShardEntry, ShardManifest


class RowGroups:
    """The tokens of all texts of a folder, of which some row groups are in memory.

    It stands for a ``TokenFile``: the same tokens in the same places. A shard is compared with its
    checksum when the first of its row groups is read. Of arrays a part is what a row group is.

    Args:
        folder: With the shards.
        manifest: Of the folder.
        most: Bytes of row groups to keep, if one is not more.

    Attributes:
        path: The folder.
        most: As given.
        offsets: Where the tokens of each text begin, and where those of the last, with their end,
            stop; int64[texts + 1].
        nbytes: Of the row groups that are kept.

    Raises:
        DamagedFileError: A shard has other rows than the manifest says.
    """

    def __init__(self, folder: Path, manifest: ShardManifest, most: int) -> None:
        self.path, self.most, self._manifest = folder, most, manifest
        self.offsets = np.zeros(1 + sum(shard.records for shard in manifest.shards), np.int64)
        self._begins = np.zeros(0, np.int64)  # of each row group, and the end of the last
        self._places: list[tuple[int, int]] = []  # of each its shard, and its number there
        self._read_lengths()
        self._kept: dict[int, Integers32] = {}  # the one used last comes last
        self.nbytes = 0
        self._checked: set[int] = set()
        self._alone = threading.Lock()

    def _read_lengths(self) -> None:
        first, end, begins = 0, 0, list[Integers]()
        with bar(None, sys.stderr, "token shards looked at") as progress:
            for number, shard in enumerate(self._manifest.shards):
                if progress is not None:
                    progress(number, len(self._manifest.shards))
                lengths, groups = _laid_out(self.path, shard)
                stops = self.offsets[first + 1 : first + 1 + len(lengths)]
                np.cumsum(lengths + 1, out=stops)
                stops += end
                size = shard.tokens + shard.records
                there = np.flatnonzero(np.diff([*groups.tolist(), size]))  # not empty
                begins.append(groups[there] + end)
                self._places += [(number, group) for group in there.tolist()]
                first, end = first + len(lengths), end + size
        self._begins = np.concatenate([*begins, [end]])

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def need(self, first: int, stop: int, block: int, blocks: int) -> int:
        """Return the bytes of the row groups, at most, that blocks of tokens lie in.

        Args:
            first: Number of the first text that they are of.
            stop: After the last.
            block: Tokens of each, which adjoin.
            blocks: How many of them.
        """
        low, high = np.searchsorted(self._begins, self.offsets[[first, stop]])
        largest = int(np.diff(self._begins[low : high + 1]).max(initial=0))
        return 4 * min(blocks * (block + largest), int(self.offsets[stop] - self.offsets[first]))

    def take(self, starts: Integers, lengths: Integers, width: int, fill: int) -> Integers32:
        """Return so many tokens from each place on as rows, filled up; see ``Tokens``."""
        ids = empty_rows(self, starts, lengths, width, fill)
        stops = starts + lengths
        first = np.searchsorted(self._begins, starts, side="right") - 1
        rows, groups = spread(first, np.searchsorted(self._begins, stops, side="left"))
        order = np.argsort(groups, kind="stable")
        found, at = np.unique(groups[order], return_index=True)
        of = dict(zip(found.tolist(), np.split(rows[order], at[1:]), strict=True))
        # Those that are kept come first: read in order, more of them than are kept would each be
        # dropped just before it is needed again.
        for group in sorted(of, key=lambda group: group not in self._kept):
            some, low, high = of[group], self._begins[group], self._begins[group + 1]
            begins = np.maximum(starts[some], low)
            sizes = np.minimum(stops[some], high) - begins
            copy(self._group(group), begins - low, sizes, ids, some, begins - starts[some])
        return ids

    def damage(self, why: str) -> DamagedFileError:
        """Return the error for a folder that is not as it was written."""
        return DamagedFileError(
            f"{self.path}: {why}. Find out more with: duckplets verify {self.path}"
        )

    def _group(self, group: int) -> Integers32:
        """Return the tokens of a row group; the ones used longest ago make room for it."""
        with self._alone:
            found = self._kept.pop(group, None)
            if found is None:
                size = 4 * int(self._begins[group + 1] - self._begins[group])
                while self._kept and self.nbytes + size > self.most:
                    self.nbytes -= self._kept.pop(next(iter(self._kept))).nbytes
                found = self._decoded(group)
                self.nbytes += size
            self._kept[group] = found
            return found

    def _decoded(self, group: int) -> Integers32:
        """Return the tokens of a row group with ends.

        Raises:
            DamagedFileError: Its shard is not as it was written.
        """
        number, within = self._places[group]
        shard = self._manifest.shards[number]
        if is_array(shard):
            return part(self.path, shard, within)[0]
        if number not in self._checked:
            check(self.path, shard)
            self._checked.add(number)
        parts = list(row_group(self.path, shard, self._manifest, within))
        low, high = self._begins[group : group + 2].tolist()
        stops, end = [], low
        for ids, stop in parts:
            stops.append(stop + end)
            end += len(ids)
        first, last = np.searchsorted(self.offsets, [low, high])
        if not np.array_equal(np.concatenate([[low], *stops]), self.offsets[first : last + 1]):
            raise DamagedFileError(
                f"{self.path / shard.path}: the texts of row group {within} have other lengths "
                f"than it says; export it anew"
            )
        return np.concatenate([ids for ids, _ in parts])


def _laid_out(folder: Path, shard: ShardEntry) -> tuple[Integers, Integers]:
    """Return the tokens of each text of a shard, and where its row groups begin, ends included."""
    if is_array(shard):
        width = shard.tokens // shard.records
        low = np.array(parts_of(shard)[:-1], np.int64)
        return np.full(shard.records, width, np.int64), low + low // width
    lengths, rows = lengths_of(folder, shard)
    return lengths, np.concatenate([[0], np.cumsum(lengths + 1)])[rows]
