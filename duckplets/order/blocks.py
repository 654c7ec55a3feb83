"""Deal whole batches, and order the anchors of a stream so that each batch has one key."""

# In an epoch each key's permuted anchors fill blocks, and blocks are permuted. The rest of all
# keys, and one block more, fill mixed blocks and the block that two epochs share. So every anchor
# comes once an epoch, and any row follows from its number and counts that never change.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from duckplets.base.arrays import Flags, Integers
from duckplets.order.apportion import Apportionment, Share
from duckplets.order.permute import key, permuted, ranks_at


class InBlocks:
    """Deals positions as another dealer deals their blocks of ``size``."""

    def __init__(self, blocks: Any, size: int) -> None:
        self._blocks, self._size = blocks, size  # an ``Apportionment`` or ``Stairs``
        self.parts = blocks.parts

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of ascending positions, with or without gaps."""
        blocks, within = np.divmod(positions, self._size)
        is_first = np.diff(blocks, prepend=-1) > 0
        of_block, firsts = np.cumsum(is_first) - 1, np.append(np.flatnonzero(is_first), len(blocks))
        lengths = np.diff(firsts)
        for share in self._blocks.deal(blocks[is_first]):
            begins = np.full(len(lengths), -1)
            begins[share.offsets] = share.indexes * self._size
            offsets = np.flatnonzero(begins[of_block] >= 0)
            yield Share(share.leaf, offsets, begins[of_block[offsets]] + within[offsets])

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first positions each leaf gets."""
        blocks, rest = divmod(positions, self._size)
        before = self._blocks.counts(blocks)
        after = self._blocks.counts(blocks + 1) if rest else before
        pairs = zip(before, after, strict=True)
        return [count * self._size + (upto - count) * rest for count, upto in pairs]


class InEpochs:
    """Deals batches to leaves so that each gets exactly its length an epoch."""

    # Remaining rows fill mixed batches and the one that two epochs share, both spread over the
    # epoch.

    def __init__(self, lengths: Sequence[int], size: int, purpose: int) -> None:
        self.lengths, self._size, self._length = lengths, size, sum(lengths)
        whole = [length // size for length in lengths]
        rest, beyond = self._length - size * sum(whole), self._length % size
        if beyond and rest < size and any(whole):  # too few rows left for the shared batch
            whole[whole.index(max(whole))] -= 1
        left = [length - size * count for length, count in zip(lengths, whole, strict=True)]
        self.whole = whole  # batches of its own each leaf has in an epoch
        self.mixed = sum(left)  # samples of an epoch in mixed batches
        self._own = Apportionment(whole, purpose)
        self._rest = Apportionment(left, key(purpose, "mixed"))

    def parts(self) -> list[float]:
        """Return the share of every leaf; they sum to 1."""
        return [length / self._length for length in self.lengths]

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield what each leaf gets of ascending positions, with or without gaps."""
        own, rest, within = self._before(positions)
        (some,) = np.nonzero(within < 0)
        for share in self._rest.deal(rest[some]):
            at = some[share.offsets]
            yield Share(
                share.leaf, at, share.indexes + self._own.upto(share.leaf, own[at]) * self._size
            )
        (some,) = np.nonzero(within >= 0)
        for share in self._own.deal(own[some]):
            at = some[share.offsets]
            indexes = share.indexes * self._size + within[at]
            yield Share(share.leaf, at, indexes + self._rest.upto(share.leaf, rest[at]))

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first positions each leaf gets."""
        own, rest, within = (int(count[0]) for count in self._before(np.array([positions])))
        pairs = zip(self._own.counts(own), self._rest.counts(rest), strict=True)
        found = [whole * self._size + left for whole, left in pairs]
        if within > 0:
            (share,) = self._own.deal(np.array([own]))
            found[share.leaf] += within
        return found

    def _before(self, positions: Integers) -> tuple[Integers, Integers, Integers]:
        """Return own batches and mixed rows before, and the row in an own batch, otherwise -1."""
        size, several = self._size, sum(self.whole)
        epochs, rows = np.divmod(positions, self._length)
        head = np.minimum(-epochs * self._length % size, self._length)
        blocks = (self._length - head) // size  # whole batches of the epoch
        block = np.clip((rows - head) // size, 0, blocks)
        own, after = (
            (at * several + blocks // 2) // np.maximum(blocks, 1) for at in (block, block + 1)
        )
        is_own = (rows >= head) & (block < blocks) & (after > own)
        within = np.where(is_own, (rows - head) % size, -1)
        rest = rows - own * size - np.where(is_own, within, 0)
        return epochs * several + own, epochs * self.mixed + rest, within


class StairOrder:
    """The order of a stream that goes up stairs in its first epochs, shuffled within each."""

    def __init__(self, members: Integers, stairs: int, epochs: int, purpose: int) -> None:
        self._members, self._epochs, self._purpose = members, epochs, purpose  # the least first
        self._edges = np.arange(stairs + 1) * len(members) // stairs

    def at(self, index: Integers) -> tuple[Integers, Integers]:
        """Return (anchor, epoch) of samples by ascending number, with or without gaps."""
        size, edges = len(self._members), self._edges
        first = int(np.searchsorted(index, self._epochs * size))
        found, epochs = ranks_at(self._purpose, size, index[first:])
        early, rank = np.divmod(index[:first], size)
        stair = np.searchsorted(edges, rank, side="right") - 1
        numbers = early * len(edges) + stair
        is_first = np.diff(numbers, prepend=-1) > 0
        which, sizes = np.cumsum(is_first) - 1, np.diff(edges)[stair[is_first]]
        purpose = key(self._purpose, "stairs")
        within = permuted(purpose, numbers[is_first], sizes, which, rank - edges[stair])
        own = self._members[edges[stair] + within]
        return np.concatenate([own, found]), np.concatenate([early, epochs])


class KeyedOrder:
    """The order of a stream whose batches have anchors of one key each."""

    def __init__(
        self,
        keys: Integers,  # number of each anchor's key, in the order of keys; -1 for none
        size: int,  # rows of a block
        purpose: int,
    ) -> None:
        self.keys, self.size, self._purpose = keys, size, purpose
        self._count = int(keys.max(initial=-1)) + 2  # keys, and none as the last of them
        numbers = np.where(keys < 0, self._count - 1, keys)
        self._members = np.argsort(numbers, kind="stable")
        self._sizes = np.bincount(numbers, minlength=self._count)
        self._starts = np.cumsum(self._sizes) - self._sizes
        blocks = self._sizes // size
        blocks[-1] = 0
        of_block = np.repeat(np.arange(self._count), blocks)
        turns = np.arange(len(of_block)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
        self._blocks_of_keys = np.stack([of_block, turns], axis=-1)
        # key and rank of the anchors in no block
        numbers = np.repeat(np.arange(self._count), self._sizes)
        rank = np.arange(len(numbers)) - self._starts[numbers]
        is_left = rank >= blocks[numbers] * size
        self._left = np.stack([numbers[is_left], rank[is_left]])
        # an epoch cuts a block of keys, another one every time, unless all ends with its blocks
        self._kept = len(of_block) - min(1, len(of_block), self._left.shape[1])

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def mixed(self) -> int:
        """How many anchors are in no block of their key in an epoch."""
        return int(len(self.keys) - self._kept * self.size)

    def at(self, index: Integers) -> tuple[Integers, Integers]:
        """Return (anchor, epoch) of samples by ascending number, with or without gaps."""
        numbers = index // self.size
        is_first = np.diff(numbers, prepend=-1) > 0
        which, numbers = np.cumsum(is_first) - 1, numbers[is_first]
        row = index - numbers[which] * self.size
        epochs, block, is_keyed = self._blocks(numbers)
        found, is_keyed_row = np.empty_like(index), is_keyed[which]
        (some,) = np.nonzero(is_keyed_row)
        keyed = np.cumsum(is_keyed) - 1
        key, turn = self._blocks_of_keys[block[is_keyed]].T
        at = keyed[which[some]]
        permutations = epochs[is_keyed] * self._count + key
        rank = turn[at] * self.size + row[some]
        found[some] = self._items(key, permutations, at, rank)
        epochs = epochs[which]
        (some,) = np.nonzero(~is_keyed_row)
        key, rank, epochs[some] = self._of_rest(index[some], block[which[some]])
        permutations = epochs[some] * self._count + key
        is_first = np.diff(permutations, prepend=-1) != 0  # neighbours are often of one key
        at = np.cumsum(is_first) - 1
        found[some] = self._items(key[is_first], permutations[is_first], at, rank)
        return found, epochs

    def _items(
        self, keys: Integers, permutations: Integers, at: Integers, rank: Integers
    ) -> Integers:
        within = permuted(self._purpose, permutations, self._sizes[keys], at, rank)
        found: Integers = self._members[self._starts[keys][at] + within]
        return found

    def _layout(self, epochs: Integers) -> tuple[Integers, Integers]:
        """Return how many rows of epochs complete the last one's block, and the blocks after."""
        head = np.minimum(-epochs * len(self) % self.size, len(self))
        return head, (len(self) - head) // self.size

    def _blocks(self, numbers: Integers) -> tuple[Integers, Integers, Flags]:
        """Return epoch and block at places, and whether it is of keys; others count from 0."""
        epochs, rows = np.divmod(numbers * self.size, len(self))
        head, whole = self._layout(epochs)
        place = (rows - head) // self.size
        is_whole, block = (rows >= head) & (place < whole), np.zeros_like(numbers)
        for count in np.unique(whole[is_whole]).tolist():
            some = np.flatnonzero(is_whole & (whole == count))
            block[some] = ranks_at(self._purpose, count, epochs[some] * count + place[some])[0]
        is_keyed = is_whole & (block < self._kept)
        block[is_keyed] += block[is_keyed] >= self._cut(epochs[is_keyed])
        block[~is_keyed] -= self._kept
        return epochs, block, is_keyed

    def _cut(self, epochs: Integers) -> Integers:
        """Return the block of keys that is cut in epochs, if one is."""
        count = len(self._blocks_of_keys)
        return epochs % count if self._kept < count else np.full_like(epochs, count)

    def _of_rest(self, index: Integers, block: Integers) -> tuple[Integers, Integers, Integers]:
        """Return key, rank and epoch of samples in mixed blocks and at both ends of an epoch."""
        # The rest, then the block that is cut: so an anchor is seldom on both sides of an epoch's
        # end.
        size, left = self.size, self._left.shape[1]
        epochs, rows = np.divmod(index, len(self))
        head, whole = self._layout(epochs)
        end = head + whole * size  # first row of the last block, which the next epoch completes
        at = np.where(rows < head, self.mixed - head + rows, rows - end)
        within = (rows >= head) & (rows < end)
        at = np.where(within, len(self) - end + block * size + (rows - head) % size, at)
        keys, ranks = np.zeros((2, len(at)), np.int64)
        (some,) = np.nonzero(at < left)
        keys[some], ranks[some] = self._left[:, at[some]]
        (some,) = np.nonzero(at >= left)
        keys[some], turn = self._blocks_of_keys[self._cut(epochs[some])].T
        ranks[some] = turn * size + at[some] - left
        return keys, ranks, epochs
