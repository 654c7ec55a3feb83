"""Index samplers: every record as often as promised, whatever the shards, from any element on."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator, Philox

import duckplets as dp
from duckplets.order.permute import key

Keys = np.ndarray[Any, np.dtype[np.int64]]

EITHER_WAY = pytest.mark.parametrize("shuffle", [True, False], ids=["shuffled", "in order"])
LARGE = [64, 255, 1000, 4095, 4096, 4097, 5003, 8192, 65537]


def shards_of(
    n: int, count: int, *, shuffle: bool, epochs: int | None, drop: bool = False, seed: int = 7
) -> list[dp.IndexSampler]:
    return [
        dp.IndexSampler(n, dp.ShardOptions(i, count, drop), shuffle, epochs, seed)
        for i in range(count)
    ]


def all_keys(sampler: dp.IndexSampler) -> Keys:
    return sampler.keys(0, len(sampler))


# The first orders of seed 0, of few and of many records, and the first words of a generator.
SMALL = [2, 3, 4, 0, 1, 4, 0, 3, 1, 2, 1, 0, 2, 4, 3]
MILLION = [801648, 591631, 26709, 64550, 14123, 81791]
RAW = [10051008501529201284, 3395243085722503539]


# ---- what is served


@EITHER_WAY
def test_the_shards_serve_every_record_once_an_epoch(shuffle: bool) -> None:
    for n, count, epochs in itertools.product(range(1, 51), range(1, 10), range(1, 4)):
        shards = shards_of(n, count, shuffle=shuffle, epochs=epochs)
        keys = [all_keys(shard) for shard in shards]
        times = np.bincount(np.concatenate(keys), minlength=n)
        assert times.tolist() == [epochs] * n, (n, count, epochs)
        sizes = [len(part) for part in keys]
        assert max(sizes) - min(sizes) <= 1
        assert sizes == [len(shard) for shard in shards]


@EITHER_WAY
@pytest.mark.parametrize("n", LARGE)
def test_the_shards_serve_every_record_of_many(n: int, shuffle: bool) -> None:
    for count in (1, 3, 8):
        keys = [all_keys(s) for s in shards_of(n, count, shuffle=shuffle, epochs=2)]
        assert np.bincount(np.concatenate(keys), minlength=n).tolist() == [2] * n


@EITHER_WAY
def test_with_drop_remainder_the_shards_are_equal_in_every_epoch(shuffle: bool) -> None:
    for n, count in itertools.product(range(1, 51), range(1, 10)):
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


@pytest.mark.parametrize("n", [11, 50, 4097, 6007])
def test_with_drop_remainder_other_records_are_left_out_in_each_epoch(n: int) -> None:
    count, epochs = 4, 6
    shards = shards_of(n, count, shuffle=True, epochs=epochs, drop=True)
    each = n // count
    left_out = [
        frozenset(range(n))
        - set(np.concatenate([s.keys(e * each, (e + 1) * each) for s in shards]).tolist())
        for e in range(epochs)
    ]
    assert {len(part) for part in left_out} == {n % count}
    assert len(set(left_out)) > 1


def test_drop_remainder_changes_nothing_where_nothing_is_left_over() -> None:
    for n, count in [(12, 3), (8192, 8), (7, 1)]:
        for i in range(count):
            kept, dropped = (
                dp.IndexSampler(n, dp.ShardOptions(i, count, drop), True, 3, 5)
                for drop in (False, True)
            )
            assert list(kept) == list(dropped)


def test_an_order_that_is_not_shuffled_counts_up() -> None:
    assert [m.record_key for m in dp.IndexSampler(3, num_epochs=2)] == [0, 1, 2, 0, 1, 2]
    assert [m.record_key for m in dp.SequentialSampler(4)] == [0, 1, 2, 3]
    shard = dp.SequentialSampler(7, dp.ShardOptions(1, 3))
    assert [(m.index, m.record_key) for m in shard] == [(1, 1), (4, 4)]
    shard = dp.SequentialSampler(8, dp.ShardOptions(2, 3, drop_remainder=True))
    assert [(m.index, m.record_key) for m in shard] == [(2, 2), (5, 5)]


@EITHER_WAY
def test_the_shards_deal_out_the_order_of_one(shuffle: bool) -> None:
    for n, count in [(1, 4), (5, 2), (50, 9), (4096, 3), (4099, 5)]:
        whole = dp.IndexSampler(n, shuffle=shuffle, num_epochs=2, seed=7)
        shards = shards_of(n, count, shuffle=shuffle, epochs=2)
        together = sorted(itertools.chain.from_iterable(shards), key=lambda m: m.index)
        assert together == list(whole)
        assert [m.index for m in together] == list(range(2 * n))


# ---- the shuffle


@pytest.mark.parametrize("n", [40, 1000, 5000])
def test_the_shuffle_is_of_all_records(n: int) -> None:
    epochs, count = 12, 4
    seen = np.zeros((count, n))
    for i, shard in enumerate(shards_of(n, count, shuffle=True, epochs=epochs)):
        keys = all_keys(shard).reshape(epochs, -1)
        seen[i] = np.bincount(keys.ravel(), minlength=n)
        assert len({frozenset(part.tolist()) for part in keys}) == epochs
    # A record comes to a shard in a quarter of the epochs, as by chance.
    assert abs((seen > 0).mean() - (1 - 0.75**epochs)) < 0.05
    assert abs(seen.var() - epochs * 3 / 16) < 0.5


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    for n in (20, 100, 5000):
        orders = [
            tuple(dp.IndexSampler(n, shuffle=True, seed=seed).keys(e * n, (e + 1) * n).tolist())
            for seed in (*range(10), -1, 2**80)
            for e in range(5)
        ]
        assert len(set(orders)) == len(orders)
        assert all(sorted(order) == list(range(n)) for order in orders)


def test_every_order_of_three_comes() -> None:
    keys = dp.IndexSampler(3, shuffle=True, seed=1).keys(0, 3 * 6000).reshape(-1, 3)
    orders, times = np.unique(keys, axis=0, return_counts=True)
    assert len(orders) == 6
    assert times.min() > 850
    assert times.max() < 1150


def test_the_order_is_the_one_it_always_was() -> None:
    small, large = (dp.IndexSampler(n, shuffle=True, seed=0) for n in (5, 10**6))
    assert small.keys(0, 15).tolist() == SMALL
    assert large.keys(10**6 - 3, 10**6 + 3).tolist() == MILLION
    first = small[0].rng
    assert first is not None
    assert first.bit_generator.random_raw(2).tolist() == RAW


# ---- any element, from anywhere


CASES = [
    *(dict(num_records=n, num_epochs=3) for n in (1, 2, 3, 50)),
    *(dict(num_records=n, num_epochs=2, shuffle=True, seed=3) for n in (1, 2, 3, 50, 4097)),
    *(
        dict(num_records=n, num_epochs=3, shuffle=s, seed=3, shard_options=dp.ShardOptions(1, c, d))
        for n in (5, 50, 5000)
        for c in (2, 5)
        for s in (True, False)
        for d in (True, False)
    ),
    dict(num_records=1, num_epochs=1, shard_options=dp.ShardOptions(2, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loops_keys_and_elements_agree(case: dict[str, Any]) -> None:
    sampler = dp.IndexSampler(**case)
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


def test_keys_are_the_same_in_whatever_pieces() -> None:
    for n in (3, 4096, 4099, 100_000):
        sampler = dp.IndexSampler(n, dp.ShardOptions(2, 7), shuffle=True, seed=4)
        whole = sampler.keys(0, 40_000)
        cuts = [0, 1, 2, 255, 4095, 4096, 9000, 9363, 30_001, 40_000]
        pieces = [sampler.keys(a, b) for a, b in itertools.pairwise(cuts)]
        assert np.concatenate(pieces).tolist() == whole.tolist()
        assert whole.dtype == np.int64


def test_loops_are_independent() -> None:
    sampler = dp.IndexSampler(10, shuffle=True, num_epochs=2, seed=1)
    first, second = iter(sampler), iter(sampler)
    assert [next(first) for _ in range(5)] == [next(second) for _ in range(5)]
    assert next(sampler) == sampler[0]
    assert next(first) == sampler[5]
    assert list(sampler) == [sampler[i] for i in range(20)]
    assert next(sampler) == sampler[1]


def test_next_goes_to_the_end_and_stays_there() -> None:
    sampler = dp.IndexSampler(3, num_epochs=2)
    assert [next(sampler, None) for _ in range(6)] == list(sampler)
    assert next(sampler, None) is None
    assert next(sampler, None) is None


def test_an_endless_order_goes_on() -> None:
    sampler = dp.IndexSampler(7, dp.ShardOptions(1, 2), shuffle=True, seed=2)
    assert len(sampler) == sys.maxsize, "as Grain has it, whose loader asks"
    assert len(list(itertools.islice(sampler, 20_000))) == 20_000
    for start in (10**6, 10**12, 2**57):
        epoch = 7 * start
        keys = [s.keys(epoch, epoch + 7) for s in shards_of(7, 2, shuffle=True, epochs=None)]
        assert sorted(np.concatenate(keys).tolist()) == sorted([*range(7), *range(7)])
        assert sampler[start].index == 2 * start + 1


@pytest.mark.parametrize("n", [5, 4096, 4097, 100_003])
@pytest.mark.parametrize("drop", [False, True])
def test_one_element_is_that_of_many(n: int, drop: bool) -> None:
    sampler = dp.IndexSampler(n, dp.ShardOptions(1, 3, drop), shuffle=True, num_epochs=9, seed=5)
    keys = all_keys(sampler).tolist()
    numbers = random.Random(n).choices(range(len(sampler)), k=300)
    asked = [i for number in numbers for i in range(number, min(number + 2, len(sampler)))]
    for i in [*asked, *range(600)][: len(asked) + min(600, len(sampler))]:
        assert sampler[i].record_key == keys[i]


def test_a_generator_is_found_by_the_index_of_a_record() -> None:
    for sampler in shards_of(50, 2, shuffle=True, epochs=2):
        for element in sampler:
            assert element.rng is not None
            assert sampler.rng(element.index).random() == element.rng.random()
    with pytest.raises(dp.SamplerError, match="give seed="):
        dp.IndexSampler(5).rng(0)
    with pytest.raises(dp.SamplerError, match="index=-1"):
        sampler.rng(-1)


def test_an_element_without_its_key_has_the_same_generator() -> None:
    element = dp.IndexSampler(5, shuffle=True, seed=1)[3]
    left = element.remove_record_key()
    assert (left.index, left.record_key) == (3, None)
    assert left.rng is not None
    assert element.rng is not None
    assert left.rng.random() == element.rng.random()
    given = dp.RecordMetadata(1, 2, Generator(Philox(3)))
    assert given.remove_record_key().rng is given.rng


def test_our_samplers_are_orders() -> None:
    class Own:
        def __iter__(self) -> Iterator[dp.RecordMetadata]:
            return self

        def __next__(self) -> dp.RecordMetadata:
            return dp.RecordMetadata(0)

    assert isinstance(dp.IndexSampler(3), dp.IndexOrder)
    assert isinstance(dp.SequentialSampler(3), dp.IndexOrder)
    assert isinstance(Own(), dp.IndexOrder)
    assert not isinstance([1, 2], dp.IndexOrder)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_a_copy_goes_on_where_the_sampler_is(again: Callable[[Any], Any]) -> None:
    sampler = dp.IndexSampler(300, dp.ShardOptions(1, 2), True, 4, 9)
    for _ in range(100):
        next(sampler)
    other = again(sampler)
    assert [next(other) for _ in range(50)] == [next(sampler) for _ in range(50)]
    assert list(other) == list(sampler)
    assert other[17] == sampler[17]


def test_samplers_say_what_they_are() -> None:
    sampler = dp.IndexSampler(5, dp.ShardOptions(0, 2, True), shuffle=True, num_epochs=2, seed=0)
    assert repr(sampler) == (
        "IndexSampler(num_records=5, shard_options=ShardOptions(shard_index=0, shard_count=2, "
        "drop_remainder=True), shuffle=True, num_epochs=2, seed=0)"
    )
    assert "SequentialSampler(num_records=5" in repr(dp.SequentialSampler(5))


def test_numbers_of_numpy_are_numbers() -> None:
    ours = dp.IndexSampler(9, dp.ShardOptions(1, 2), True, 2, 3)
    theirs = dp.IndexSampler(
        np.int64(9),
        dp.ShardOptions(np.int32(1), np.uint8(2)),
        True,
        np.int16(2),
        np.int64(3),
    )
    assert list(ours) == list(theirs)
    assert repr(ours) == repr(theirs)


# ---- generators


def raw(metadata: dp.RecordMetadata) -> tuple[int, ...]:
    assert metadata.rng is not None
    return tuple(metadata.rng.bit_generator.random_raw(3).tolist())


def test_a_generator_is_that_of_its_seed_and_index() -> None:
    whole = [raw(m) for m in dp.IndexSampler(30, shuffle=True, num_epochs=2, seed=5)]
    for count, shuffle in itertools.product((1, 2, 7), (True, False)):
        for shard in shards_of(30, count, shuffle=shuffle, epochs=2, seed=5):
            assert all(raw(m) == whole[m.index] for m in shard)
            assert all(raw(shard[i]) == whole[shard[i].index] for i in range(len(shard)))


def test_no_two_seeds_or_indices_share_a_generator() -> None:
    draws = [raw(m) for seed in range(-20, 20) for m in dp.SequentialSampler(50, seed=seed)]
    assert len(set(draws)) == len(draws)
    # Words of different generators look independent: about half of their bits differ.
    words = np.array(draws, dtype=np.uint64)[:, 0]
    apart = np.bitwise_count(words[1:] ^ words[:-1])
    assert abs(apart.mean() - 32) < 0.5


def test_a_generator_is_philox_with_a_hashed_key() -> None:
    for seed, index in [(0, 0), (3, 17), (-1, 4)]:
        found = dp.SequentialSampler(20, seed=seed)[index].rng
        words = np.array([key(seed, "index rng"), index], dtype=np.uint64)
        expected = Generator(Philox(key=words))
        assert found is not None
        assert isinstance(found.bit_generator, Philox)
        assert found.integers(0, 10**9, 5).tolist() == expected.integers(0, 10**9, 5).tolist()


def test_spawned_generators_follow_from_the_element() -> None:
    def spawned(index: int) -> list[int]:
        rng = dp.SequentialSampler(20, seed=0)[index].rng
        assert rng is not None
        return [int(c.integers(0, 2**60)) for n in (2, 3) for c in rng.spawn(n)]

    assert spawned(3) == spawned(3)
    assert len({*spawned(3), *spawned(4)}) == 10


def test_a_generator_is_made_once() -> None:
    metadata = dp.SequentialSampler(5, seed=0)[2]
    assert metadata.rng is metadata.rng
    assert all(m.rng is None for m in dp.IndexSampler(5, num_epochs=1))


# ---- metadata


def test_metadata_can_be_made_and_changed_by_hand() -> None:
    metadata = dp.RecordMetadata(3)
    assert (metadata.index, metadata.record_key, metadata.rng) == (3, None, None)
    rng = np.random.default_rng(0)
    metadata = dp.RecordMetadata(index=1, record_key=4, rng=rng)
    assert (metadata.index, metadata.record_key, metadata.rng) == (1, 4, rng)
    given = dp.SequentialSampler(5, seed=0)[2]
    given.record_key, given.rng = 9, rng
    assert (given.index, given.record_key, given.rng) == (2, 9, rng)
    assert given == dp.RecordMetadata(2, 9, rng)


def test_metadata_are_equal_if_they_name_the_same_element() -> None:
    first, again = (dp.IndexSampler(9, shuffle=True, seed=1)[4] for _ in range(2))
    assert first.rng is not None
    first.rng.random()
    assert first == again
    assert first != dp.RecordMetadata(first.index, first.record_key)
    assert dp.RecordMetadata(1, 2) == dp.RecordMetadata(1, 2)
    others = [dp.RecordMetadata(1, 3), dp.RecordMetadata(2, 2), dp.RecordMetadata(1)]
    others += [dp.RecordMetadata(1, 2, np.random.default_rng(0))]
    assert all(dp.RecordMetadata(1, 2) != other for other in others)
    assert dp.RecordMetadata(1, 2) != (1, 2, None)
    assert first != dp.IndexSampler(9, shuffle=True, seed=2)[4]


def test_metadata_say_what_they_are() -> None:
    assert repr(dp.RecordMetadata(1, 2)) == "RecordMetadata(index=1, record_key=2, rng=None)"
    element = dp.SequentialSampler(5, seed=0)[2]
    expected = "RecordMetadata(index=2, record_key=2, rng=Generator(Philox))"
    assert repr(element) == expected
    assert element.rng is not None
    assert repr(element) == expected


@pytest.mark.parametrize("drawn", [0, 3])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copied_metadata_draw_on(drawn: int, again: Callable[[Any], Any]) -> None:
    metadata = dp.SequentialSampler(5, seed=0)[2]
    if drawn:
        assert metadata.rng is not None
        metadata.rng.random(drawn)
    other = again(metadata)
    assert other == metadata
    assert raw(other) == raw(metadata)


# ---- mistakes

MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: dp.IndexSampler(0), "num_records=0: give an integer from 1"),
    (lambda: dp.IndexSampler(-3), "num_records=-3"),
    (lambda: dp.IndexSampler(2.0), "num_records=2.0: give an integer"),
    (lambda: dp.IndexSampler(True), "num_records=True"),
    (lambda: dp.IndexSampler("5"), "num_records='5'"),
    (lambda: dp.IndexSampler(2**63), f"give an integer from 1 to {2**62}"),
    (lambda: dp.SequentialSampler(0), "num_records=0"),
    (lambda: dp.IndexSampler(5, num_epochs=0), "num_epochs=0: give an integer from 1"),
    (lambda: dp.IndexSampler(5, num_epochs=1.5), "num_epochs=1.5"),
    (lambda: dp.IndexSampler(5, num_epochs=True), "num_epochs=True"),
    (lambda: dp.IndexSampler(2**40, num_epochs=2**40), "num_epochs="),
    (lambda: dp.IndexSampler(5, shuffle=True), "give seed="),
    (lambda: dp.IndexSampler(5, shuffle=1, seed=0), "shuffle=1: give True or False"),
    (lambda: dp.IndexSampler(5, seed=1.0), "seed=1.0: give an integer"),
    (lambda: dp.IndexSampler(5, seed=False), "seed=False"),
    (lambda: dp.IndexSampler(5, seed="a"), "seed='a'"),
    (lambda: dp.IndexSampler(5, (0, 2)), "dp.ShardOptions(shard_index, shard_count)"),
    (lambda: dp.IndexSampler(3, dp.ShardOptions(0, 4, True)), "fewer shards"),
    (lambda: dp.ShardOptions(0, 0), "shard_count=0: give an integer from 1"),
    (lambda: dp.ShardOptions(0, -1), "shard_count=-1"),
    (lambda: dp.ShardOptions(2, 2), "shard_index=2: give an integer from 0 to 1"),
    (lambda: dp.ShardOptions(-1, 2), "shard_index=-1: give an integer from 0 to 1"),
    (lambda: dp.ShardOptions(True, 2), "shard_index=True"),
    (lambda: dp.ShardOptions(0, 2.0), "shard_count=2.0"),
    (lambda: dp.ShardOptions(0, 2, 1), "drop_remainder=1: give True or False"),
    (lambda: dp.IndexSampler(5, num_epochs=1).keys(0, 6), "stop=6: give an integer from 0 to 5"),
    (lambda: dp.IndexSampler(5, num_epochs=1).keys(3, 2), "start=3: give an integer from 0 to 2"),
    (lambda: dp.IndexSampler(5).keys(-1, 2), "start=-1: give an integer from 0 to 2"),
    (lambda: dp.IndexSampler(5).keys(0, 2**63), "stop="),
    (lambda: dp.IndexSampler(5).indices(0.0, 2), "start=0.0"),
    (lambda: dp.IndexSampler(5, num_epochs=1).elements(6), "start=6: give an integer from 0 to 5"),
]


@pytest.mark.parametrize(("make", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_named(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(dp.SamplerError) as caught:
        make()
    assert said in str(caught.value)


def test_shards_too_many_for_the_records_are_named() -> None:
    with pytest.raises(dp.SamplerError, match=r"num_records=3: with drop_remainder=True, 4 shards"):
        dp.IndexSampler(3, dp.ShardOptions(0, 4, drop_remainder=True))


def test_an_element_out_of_bounds_is_an_index_error_with_the_bounds() -> None:
    sampler = dp.IndexSampler(5, dp.ShardOptions(1, 2), num_epochs=1)
    for i in (-1, 2, 10**30):
        with pytest.raises(IndexError, match=f"element {i}: this shard has elements 0 to 1$"):
            sampler[i]
    with pytest.raises(IndexError, match="this shard has none"):
        dp.IndexSampler(1, dp.ShardOptions(1, 2), num_epochs=1)[0]
    with pytest.raises(TypeError):
        sampler["0"]  # type: ignore[index]
