"""A local order: a bijection of every epoch, whose rows near each other lie near each other."""

from __future__ import annotations

import numpy as np
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.order.permute import key, ranks_at, ranks_in_regions

STREAM = key("regions")


def epoch_of(n: int, epoch: int, block: int, blocks: int) -> np.ndarray:
    index = np.arange(epoch * n, (epoch + 1) * n)
    items, epochs = ranks_in_regions(STREAM, n, index, block, blocks)
    assert (epochs == epoch).all()
    return items


@settings(max_examples=often(40, less=8), deadline=None)
@given(st.integers(1, 150), st.integers(1, 40), st.integers(1, 5), st.integers(0, 10**9))
def test_an_epoch_has_every_item_once_and_a_region_few_blocks(
    n: int, block: int, blocks: int, epoch: int
) -> None:
    items = epoch_of(n, epoch, block, blocks)
    assert sorted(items.tolist()) == list(range(n))
    region = block * blocks
    for low in range(0, n if n % block == 0 else 0, region):  # a shorter block shifts the others
        assert len(np.unique(items[low : low + region] // block)) <= blocks


@settings(max_examples=often(30, less=6), deadline=None)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 4), st.data())
def test_any_positions_have_the_items_they_have_among_all(
    n: int, block: int, blocks: int, data: st.DataObject
) -> None:
    index = np.array(sorted(data.draw(st.sets(st.integers(0, 5 * n - 1), min_size=1))))
    alone = np.concatenate([epoch_of(n, epoch, block, blocks) for epoch in range(5)])
    items, epochs = ranks_in_regions(STREAM, n, index, block, blocks)
    assert items.tolist() == alone[index].tolist()
    assert epochs.tolist() == (index // n).tolist()


def test_one_region_is_the_order_over_all_items() -> None:
    index = np.arange(500)
    expected = ranks_at(STREAM, 100, index)[0]
    assert (ranks_in_regions(STREAM, 100, index, 25, 4)[0] == expected).all()
    assert (ranks_in_regions(STREAM, 100, index, 25, 3)[0] != expected).any()


def test_blocks_and_places_within_regions_change_from_epoch_to_epoch() -> None:
    first, second = (epoch_of(10_000, epoch, 100, 10) for epoch in (0, 1))
    assert np.unique(first[:1000] // 100).tolist() != np.unique(second[:1000] // 100).tolist()
    for items in (first, second):
        assert abs(np.corrcoef(np.arange(1000), items[:1000] % 100)[0, 1]) < 0.1
        assert abs(np.corrcoef(np.arange(100), items[::100] // 100)[0, 1]) < 0.3


GOLDEN = [
    *(4, 6, 0, 1, 2, 5, 3, 7, 12, 22, 14, 20, 21, 13, 15, 10, 16, 19, 17, 18, 8, 11, 9),
    *(4, 17, 19, 18, 16, 6, 7, 5, 1, 12, 2, 14, 3, 13, 0, 15, 8),
]


def test_the_order_is_what_it_was() -> None:
    found = ranks_in_regions(key(42, "source", "rows"), 23, np.arange(40), 4, 2)[0]
    assert found.tolist() == GOLDEN
