"""Whole batches that are dealt, and anchors ordered so that batches have few keys."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.order.apportion import Apportionment
from duckplets.order.blocks import InBlocks, KeyedOrder
from duckplets.order.permute import permuted

EPOCHS = 5


@given(
    keys=st.lists(st.integers(-1, 6), min_size=1, max_size=120),
    rows=st.integers(1, 9),
    several=st.sampled_from([1, 2, 3]),
    purpose=st.integers(0, 2**64 - 1),
)
@settings(max_examples=often(400, less=120), deadline=None)
def test_every_anchor_comes_once_an_epoch_in_blocks_of_as_many_keys_as_asked_for(
    keys, rows, several, purpose
):
    size, n = rows * several, len(keys)
    order = KeyedOrder(np.array(keys, np.int64), size, several, purpose)
    index = np.arange(n * EPOCHS)
    found, epochs = order.at(index)
    assert (epochs == index // n).all()
    assert (np.sort(found.reshape(EPOCHS, n)) == np.arange(n)).all()
    mixed = n * EPOCHS % size  # the last block is not whole
    for at in range(0, n * EPOCHS - mixed, size):
        lanes = np.array(keys)[found[at : at + size]].reshape(rows, several)
        is_pure = (lanes == lanes[0]).all() and -1 not in lanes
        mixed += 0 if is_pure and len({*lanes[0]}) == several else size
    assert mixed <= EPOCHS * order.mixed
    if several == 1:  # what fills no block of a key, and one block more
        left = sum(keys.count(key) if key < 0 else keys.count(key) % size for key in {*keys})
        assert left <= order.mixed <= left + size
    some = index[(index * 7 + 3) % 5 < 2]
    assert (order.at(some)[0] == found[some]).all()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 7), st.integers(0, 99))
@settings(max_examples=often(200, less=60), deadline=None)
def test_blocks_are_dealt_whole_and_counted(weights, size, purpose):
    weights = weights if any(weights) else [1]
    blocks = Apportionment(weights, purpose)
    dealt, index = InBlocks(blocks, size), np.arange(40 * size)
    leaves, indexes = np.full(len(index), -1), np.full(len(index), -1)
    for share in dealt.deal(index):
        leaves[share.offsets], indexes[share.offsets] = share.leaf, share.indexes
    for leaf in range(len(weights)):
        mine = np.flatnonzero(leaves == leaf)
        assert (indexes[mine] == np.arange(len(mine))).all()
    assert (leaves.reshape(-1, size) == leaves[::size, None]).all()
    for upto in (0, 1, size, 3 * size + 1, 40 * size):
        assert dealt.counts(upto) == [int((leaves[:upto] == n).sum()) for n in range(len(weights))]
    assert dealt.counts(40 * size) == [count * size for count in blocks.counts(40)]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_small_permutations_are_all_as_likely(n):
    times, which = 6000, np.repeat(np.arange(6000), n)
    items = permuted(7, np.arange(times), np.full(times, n), which, np.tile(np.arange(n), times))
    counts = Counter(map(tuple, items.reshape(times, n).tolist()))
    each = times / len(orders := [*permutations(range(n))])
    chi_square = sum((counts[order] - each) ** 2 / each for order in orders)
    assert chi_square < 3 * len(orders) + 12  # far beyond the 99.9 % quantile


@pytest.mark.parametrize("sizes", [[5, 1, 300, 4097, 65], [100_003], [2, 2, 2]])
def test_permutations_of_any_sizes_have_every_item_once(sizes):
    which = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.concatenate([np.arange(size) for size in sizes])
    items = permuted(3, np.arange(len(sizes)) * 11, np.array(sizes), which, rank)
    for number, size in enumerate(sizes):
        assert (np.sort(items[which == number]) == np.arange(size)).all()
