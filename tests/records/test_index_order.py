"""Index samplers: every record as often as promised, whatever the shards, from any element on."""

import itertools
import re

import numpy as np
import pytest
from effort import some

import duckplets as dp

EITHER_WAY = pytest.mark.parametrize("shuffle", [True, False], ids=["shuffled", "in order"])


def shards_of(n, count, *, shuffle, epochs, drop=False, seed=7):
    return [
        dp.index.IndexSampler(n, dp.index.ShardOptions(i, count, drop), shuffle, epochs, seed)
        for i in range(count)
    ]


def all_keys(sampler):
    return sampler.keys(0, len(sampler))


# The first orders of seed 0, of few and of many records, and the first words of a generator.
SMALL = [2, 3, 4, 0, 1, 4, 0, 3, 1, 2, 1, 0, 2, 4, 3]
MILLION = [801648, 591631, 26709, 64550, 14123, 81791]
RAW = [10051008501529201284, 3395243085722503539]


@EITHER_WAY
def test_the_shards_serve_every_record_once_an_epoch(shuffle):
    sizes_of = itertools.product(range(1, 51), range(1, 10), range(1, 4))
    for n, count, epochs in some(sizes_of, less=311):
        shards = shards_of(n, count, shuffle=shuffle, epochs=epochs)
        keys = [all_keys(shard) for shard in shards]
        times = np.bincount(np.concatenate(keys), minlength=n)
        assert times.tolist() == [epochs] * n, (n, count, epochs)
        sizes = [len(part) for part in keys]
        assert max(sizes) - min(sizes) <= 1
        assert sizes == [len(shard) for shard in shards]


@EITHER_WAY
def test_with_drop_remainder_the_shards_are_equal_in_every_epoch(shuffle):
    for n, count in some(itertools.product(range(1, 51), range(1, 10)), less=111):
        if n < count:
            continue
        each = n // count
        shards = shards_of(n, count, shuffle=shuffle, epochs=3, drop=True)
        assert [len(shard) for shard in shards] == [3 * each] * count
        for epoch in range(3):
            served = [s.keys(epoch * each, (epoch + 1) * each) for s in shards]
            keys = np.concatenate(served).tolist()
            assert len(set(keys)) == len(keys) == each * count
            if not shuffle:
                assert sorted(keys) == list(range(each * count))


def test_epochs_and_seeds_have_orders_of_their_own():
    for n in (20, 100, 5000):
        orders = [
            tuple(
                dp.index.IndexSampler(n, shuffle=True, seed=seed).keys(e * n, (e + 1) * n).tolist()
            )
            for seed in (*range(10), -1, 2**80)
            for e in range(5)
        ]
        assert len(set(orders)) == len(orders)
        assert all(sorted(order) == list(range(n)) for order in orders)


def test_the_order_is_the_one_it_always_was():
    small, large = (dp.index.IndexSampler(n, shuffle=True, seed=0) for n in (5, 10**6))
    assert small.keys(0, 15).tolist() == SMALL
    assert large.keys(10**6 - 3, 10**6 + 3).tolist() == MILLION
    first = small[0].rng
    assert first is not None
    assert first.bit_generator.random_raw(2).tolist() == RAW


CASES = [
    *(dict(num_records=n, num_epochs=3) for n in (1, 2, 3, 50)),
    *(dict(num_records=n, num_epochs=2, shuffle=True, seed=3) for n in (1, 2, 3, 50, 4097)),
    *(
        dict(
            num_records=n,
            num_epochs=3,
            shuffle=s,
            seed=3,
            shard_options=dp.index.ShardOptions(1, c, d),
        )
        for n in (5, 50, 5000)
        for c in (2, 5)
        for s in (True, False)
        for d in (True, False)
    ),
    dict(num_records=1, num_epochs=1, shard_options=dp.index.ShardOptions(2, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loops_keys_and_elements_agree(case):
    sampler = dp.index.IndexSampler(**case)
    elements = list(sampler)
    assert len(elements) == len(sampler)
    assert [m.record_key for m in elements] == all_keys(sampler).tolist()
    assert [m.index for m in elements] == sampler.indices(0, len(sampler)).tolist()
    places = range(len(sampler)) if len(sampler) < 200 else [0, 1, 255, 256, 4100, len(sampler) - 1]
    for i in places:
        if i < len(sampler):
            assert sampler[i] == elements[i]
            assert list(itertools.islice(sampler.elements(i), 3)) == elements[i : i + 3]
    for start, stop in [(0, 0), (1, len(sampler)), (len(sampler) // 2, len(sampler) // 2 + 1)]:
        if start <= stop <= len(sampler):
            assert sampler.keys(start, stop).tolist() == all_keys(sampler)[start:stop].tolist()


MISTAKES = [
    (lambda: dp.index.IndexSampler(0), "num_records=0: give an integer from 1"),
    (lambda: dp.index.IndexSampler(2**63), f"give an integer from 1 to {2**62}"),
    (lambda: dp.index.IndexSampler(5, num_epochs=0), "num_epochs=0: give an integer from 1"),
    (lambda: dp.index.IndexSampler(2**40, num_epochs=2**40), "num_epochs="),
    (lambda: dp.index.IndexSampler(5, shuffle=True), "give seed="),
    (lambda: dp.index.IndexSampler(5, shuffle=1, seed=0), "shuffle=1: give True or False"),
    (lambda: dp.index.IndexSampler(5, (0, 2)), "dp.index.ShardOptions(shard_index, shard_count)"),
    (lambda: dp.index.IndexSampler(3, dp.index.ShardOptions(0, 4, True)), "fewer shards"),
    (lambda: dp.index.ShardOptions(0, 0), "shard_count=0: give an integer from 1"),
    (lambda: dp.index.ShardOptions(2, 2), "shard_index=2: give an integer from 0 to 1"),
    (lambda: dp.index.ShardOptions(0, 2, 1), "drop_remainder=1: give True or False"),
    (
        lambda: dp.index.IndexSampler(5, num_epochs=1).keys(0, 6),
        "stop=6: give an integer from 0 to 5",
    ),
    (lambda: dp.index.IndexSampler(5).keys(-1, 2), "start=-1: give an integer from 0 to 2"),
    (lambda: dp.index.IndexSampler(5).keys(0, 2**63), "stop="),
    (
        lambda: dp.index.IndexSampler(5, num_epochs=1).elements(6),
        "start=6: give an integer from 0 to 5",
    ),
]


def test_a_mistake_is_named():
    for make, said in MISTAKES:
        with pytest.raises(dp.SamplerError, match=re.escape(said)):
            make()


def test_an_element_out_of_bounds_is_an_index_error_with_the_bounds():
    sampler = dp.index.IndexSampler(5, dp.index.ShardOptions(1, 2), num_epochs=1)
    for i in (-1, 2, 10**30):
        with pytest.raises(IndexError, match=f"element {i}: this shard has elements 0 to 1$"):
            sampler[i]
    with pytest.raises(IndexError, match="this shard has no elements"):
        dp.index.IndexSampler(1, dp.index.ShardOptions(1, 2), num_epochs=1)[0]
    with pytest.raises(TypeError):
        sampler["0"]
