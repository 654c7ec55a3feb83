"""Apportionment: shares are integers in the ratio of tempered weights, and dealt fairly.

Every prefix of positions is fair, of an anneal's stairs as well, and counts have a closed form.
"""

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import accumulate, permutations

import numpy as np
import pytest
from dealing import listed, stretch
from effort import often, some
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.errors import MixtureError
from duckplets.order.apportion import Apportionment, Stairs, exact_shares, exact_weights
from duckplets.order.blocks import InBlocks, InEpochs, KeyedOrder
from duckplets.order.mixture import Anneal, Mixture
from duckplets.order.permute import hashed, key, permuted
from duckplets.order.schedule import Schedule


def bound(weights):
    """How far a prefix's count may be from the exact share, not reaching it."""
    positive = sum(w > 0 for w in weights)
    return 1 if positive <= 2 else math.ceil(math.log2(positive)) + 1


def of_many(leaves):
    """Return weights of every size, with zeros among them."""
    words = hashed(key("weights", leaves), np.arange(leaves)).tolist()
    rest = [0.0 if word % 7 == 0 else (word % 1000 + 1) / 10 ** (word % 4) for word in words[1:]]
    return [0.5, *rest]


def of_many_magnitudes(leaves):
    """Return weights from a millionth to a million, all magnitudes as likely."""
    words = hashed(key("magnitudes", leaves), np.arange(leaves)).tolist()
    return [float(f"{word % 9999 + 1}e{word % 12 - 9}") for word in words]


SPECIAL = {
    "one": [3.0],
    "equal": [1, 1],
    "1.009": [1, 1.009],
    "millionth": [1e-6, 1],
    "zero first": [0, 1],
    "zero among": [1, 0, 2, 0.0, 3],
    "halves": [0.75, 0.25],
    "defaults": [0.30, 0.10, 0.35, 0.25],
    "floats": [0.1 + 0.2, 0.3, 0.1],
    "steep": [1e-300, 1e-9, 1.0, 1e9],
    "powers": [2.0**-i for i in range(30)],
}
WEIGHTS = SPECIAL.copy()
for leaves in (*range(2, 18), 31, 32, 33, 49, 50):
    WEIGHTS |= {
        f"magnitudes {leaves}": of_many_magnitudes(leaves),
        f"equal {leaves}": [1.0] * leaves,
        f"mixed {leaves}": of_many(leaves),
    }
CASES = pytest.mark.parametrize(
    "weights", some(WEIGHTS.values(), less=16), ids=some(WEIGHTS, less=16)
)


def check_stretch(exact, purpose, start, stop):
    """Check that every prefix that ends in a stretch is fair, and counts those of the walk."""
    deal, total = Apportionment(exact, key(purpose)), sum(exact)
    before, after = deal.counts(start), deal.counts(stop)
    for t, counts in ((start, before), (stop, after)):
        assert sum(counts) == t
        for count, weight in zip(counts, exact, strict=True):
            assert abs(count * total - t * weight) < bound(exact) * total
            assert weight or not count
    leaf, index = stretch(deal, start, stop)
    walked = np.bincount(leaf, minlength=len(exact))
    assert (np.array(before) + walked).tolist() == after
    by_leaf = np.argsort(leaf, kind="stable")
    numbers = np.arange(len(leaf)) - np.repeat(np.cumsum(walked) - walked, walked)
    assert (index[by_leaf] == np.repeat(before, walked) + numbers).all()
    # A leaf is furthest behind right before it gets a position, and furthest ahead right after.
    # Products wrap at 2^64, differences do not: from one prefix to the next they change little.
    position, weights = np.arange(start, stop), np.array(exact)[leaf]
    assert (position * weights - index * total < bound(exact) * total).all()
    assert ((index + 1) * total - (position + 1) * weights < bound(exact) * total).all()


@CASES
@pytest.mark.parametrize("around", [10**9, 10**12, 2**50 + 1])
def test_every_prefix_around_a_far_position_is_fair(weights, around):
    check_stretch(exact_weights(weights), "around", around - 4000, around + 4000)


@CASES
def test_every_prefix_is_fair(weights):
    check_stretch(exact_weights(weights), "fair", 0, often(1_000_000, less=20_000))


@pytest.mark.parametrize(
    ("weights", "integers"),
    [
        ([1, 1.009], (1000, 1009)),
        ([0.1, 0.2, 0.3], (1, 2, 3)),
        ([0.30, 0.10, 0.35, 0.25], (6, 2, 7, 5)),
        ([1e-6, 0, 1], (1, 0, 1_000_000)),
        ([2, 4, 6], (1, 2, 3)),
        ([0.5], (1,)),
        ([0, 0.0], (0, 0)),
        ([1, 2**43], (1, 2**43)),
        ([1.000000000001, 1], (10**12 + 1, 10**12)),
        ([np.float64(1), np.float64(1.009)], (1000, 1009)),
    ],
)
def test_weights_keep_the_ratios_they_were_written_in(weights, integers):
    found = exact_weights(weights)
    assert found == integers
    assert all(type(w) is int for w in found)


DEALT = {
    "shares_1_1.009": ([1, 1.009], 0),
    "shares_defaults": ([0.30, 0.10, 0.35, 0.25], 0),
    "shares_zero_among": ([1, 0, 2, 0.0, 3], 0),
    "shares_17": (of_many(17), 0),
    "shares_17_from_1000000000000": (of_many(17), 10**12),
}


@pytest.mark.parametrize("name", DEALT)
def test_the_first_thousand_positions_never_change(name, golden):
    weights, start = DEALT[name]
    deal = Apportionment(exact_weights(weights), key(7, "sources"))
    golden(f"order/{name}.txt", listed(stretch(deal, start, start + 1000)[0]))


# ---- shares

MOST = 2**44
TEMPERATURES = [5e-324, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.3, 2.0, 5.0, 1e3, 1e9, 1e300]

FACTORS = st.one_of(st.just(0.0), st.floats(1e-300, 1e300), st.floats(1e-3, 1e3))
several = st.lists(FACTORS, min_size=1, max_size=50).filter(any)


# The digits are fixed: another value on any platform is another order for the same run.
SHARES = [
    ([0.7, 0.3], 1.5, (11216382242942, 6375803801472)),
    ([0.7, 0.3], 2.0, (10631944530656, 6960241513758)),
    ([0.7, 0.3], 0.5, (14862364072005, 2729821972409)),
    ([1.0, 1.009], 3.0, (8782957912211, 8809228132203)),
    ([1e-6, 1.0, 0.0, 1000.0], 1.5, (1, 10_000, 0, 1_000_000)),
    ([1e-6, 1.0, 0.0, 1000.0], 2.0, (539244314, 539244314329, 0, 17052402485768)),
    ([1e-6, 1.0, 0.0, 1000.0], 0.5, (1, 17592168, 0, 17592168452244)),
    ([8.0, 27.0, 1.0], 2.0, (5513632621881, 10129189914580, 1949363507952)),
    ([8.0, 27.0, 1.0], 0.5, (1418009958240, 16152019680576, 22156405597)),
    ([8.0, 27.0, 1.0], 3.0, (5864062014804, 8796093022206, 2932031007402)),
    ([1.0, 4.0, 16.0], 2.0, (1, 2, 4)),  # what comes out exactly is small integers
    ([1.0, 100.0], 0.5, (1, 10_000)),
    ([1.0, 1000.0, 0.0], 3.0, (1, 10, 0)),
    ([5.0, 5.0, 5.0], 1.7, (1, 1, 1)),
    ([0.1, 0.1], 0.01, (1, 1)),
    ([3e-320], 2.0, (1,)),
]


@pytest.mark.parametrize(("values", "temperature", "expected"), SHARES)
def test_shares_are_these_very_integers(values, temperature, expected):
    assert exact_shares(values, temperature) == expected


@settings(max_examples=often(300, less=20), deadline=None)
@given(several, st.one_of(st.sampled_from(TEMPERATURES), st.floats(0.01, 100)))
def test_zero_stays_zero_the_rest_stays_above_and_order_is_kept(values, temperature):
    shares = exact_shares(values, temperature)
    assert len(shares) == len(values)
    assert [share > 0 for share in shares] == [value > 0 for value in values]
    assert sum(shares) <= MOST
    by_weight = [share for _, share in sorted(zip(values, shares, strict=True))]
    assert by_weight == sorted(by_weight)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("values", [[0.0, 0.0], [0.0], []])
def test_nothing_to_draw_from_is_refused(values, temperature):
    with pytest.raises(MixtureError, match="every weight is 0; give at least one"):
        exact_shares(values, temperature)


# ---- stairs


@pytest.mark.parametrize("leaves", range(1, 10))
def test_every_prefix_is_as_near_to_the_sum_of_shares_as_constant_ones(leaves):
    draw = random.Random(leaves)
    for count, longest in ((1, 500), (3, 7), (40, 90), (300, 2)):  # some stairs are empty
        shares = [[draw.choice([1, 1009, 10 ** draw.randint(0, 9)]) for _ in range(leaves)]]
        shares += [[max(1, w + draw.randint(-w, w)) for w in shares[0]] for _ in range(count - 1)]
        edges = [0, *accumulate(draw.randint(0, longest) for _ in range(count))]
        leaf, index = stretch(Stairs(shares, edges, key("near", count)), 0, edges[-1])
        stair = np.searchsorted(edges, np.arange(edges[-1]), side="right") - 1
        parts = (np.array(shares) / np.sum(shares, axis=1, keepdims=True))[stair]
        for i in range(leaves):
            assert (
                np.abs(np.cumsum((leaf == i) - parts[:, i])).max(initial=0)
                < bound([1] * leaves) + 1e-6
            )
            assert (index[leaf == i] == np.arange((leaf == i).sum())).all()


@pytest.mark.parametrize("length", [1, 3, 1023, 1024, 1025, 5000, 10**6, 10**15])
def test_an_anneal_has_at_most_1024_stairs_with_the_shares_of_their_middles(length):
    mixture = Mixture({"a": 3, "b": 1, "c": 0}, anneal=Anneal(7, {"a": 0, "c": 2}, 7 + length))
    schedule = Schedule(mixture, ["a", "b", "c"], seed=1, batch=6)
    count = min(1024, length)
    for stair in {0, count // 2, count - 1}:
        first, last = (7 + j * length // count for j in (stair, stair + 1))
        way = Fraction(first + last - 14, 2 * length)
        low, high = (0.75, 0.25, 0), (0, 1 / 3, 2 / 3)
        due = [a + (b - a) * float(way) for a, b in zip(low, high, strict=True)]
        for step in {first, last - 1}:
            assert np.allclose(schedule.parts(step, step + 1), due, atol=1e-9)
    assert np.allclose(schedule.parts(7, 7 + length), [0.375, 7 / 24, 1 / 3], atol=1e-9)
    totals = (schedule.dealt(7 * 6), schedule.dealt((7 + length) * 6))
    for had, now, part in zip(*totals, (0.375, 7 / 24, 1 / 3), strict=True):
        assert abs(now - had - part * 6 * length) < 3 + length * 6e-12
    assert schedule.changes == [0, 7, 7 + length]


# ---- whole batches that are dealt, and anchors ordered so that batches have few keys


EPOCHS = 5


@given(
    keys=st.lists(st.integers(-1, 6), min_size=1, max_size=120),
    size=st.integers(1, 18),
    purpose=st.integers(0, 2**64 - 1),
)
@settings(max_examples=often(400, less=120), deadline=None)
def test_every_anchor_comes_once_an_epoch_in_blocks_of_one_key(keys, size, purpose):
    n = len(keys)
    order = KeyedOrder(np.array(keys, np.int64), size, purpose)
    index = np.arange(n * EPOCHS)
    found, epochs = order.at(index)
    assert (epochs == index // n).all()
    assert (np.sort(found.reshape(EPOCHS, n)) == np.arange(n)).all()
    mixed = n * EPOCHS % size  # the last block is not whole
    for at in range(0, n * EPOCHS - mixed, size):
        block = {*np.array(keys)[found[at : at + size]].tolist()}
        mixed += 0 if len(block) == 1 and -1 not in block else size
    assert mixed <= EPOCHS * order.mixed
    # what fills no block of a key, and one block more
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


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=5).filter(any),
    st.integers(1, 9),
    st.integers(0, 99),
)
@settings(max_examples=often(200, less=60), deadline=None)
def test_every_leaf_gets_its_length_an_epoch_in_batches_of_its_own(lengths, size, purpose):
    dealt, length = InEpochs(lengths, size, purpose), sum(lengths)
    total = max(EPOCHS * length, 3 * size)
    leaves, indexes = stretch(dealt, 0, total)
    for leaf in range(len(lengths)):  # each goes on in its own order
        mine = indexes[leaves == leaf]
        assert (mine == np.arange(len(mine))).all()
    whole = [many // size for many in lengths]
    assert sum(whole) - 1 <= sum(dealt.whole) <= sum(whole)
    for epoch in range(EPOCHS):
        own = leaves[epoch * length : (epoch + 1) * length]
        assert [*np.bincount(own, minlength=len(lengths))] == lengths
        head = -epoch * length % size
        batches = [own[at : at + size] for at in range(head, length - size + 1, size)]
        assert sum(len({*batch}) == 1 for batch in batches) >= sum(dealt.whole)
    for upto in (0, 1, length, length + size + 1, total):
        assert dealt.counts(upto) == [*np.bincount(leaves[:upto], minlength=len(lengths))]
    some = np.flatnonzero(np.arange(total) * 7 % 5 < 2)
    for share in dealt.deal(some):
        assert (leaves[some[share.offsets]] == share.leaf).all()
        assert (indexes[some[share.offsets]] == share.indexes).all()


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
