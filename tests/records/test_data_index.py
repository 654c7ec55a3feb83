"""Data indexes: how often every row is listed, in what order, and what reads it."""

import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.errors import SamplerError
from duckplets.order.copies import MOST
from duckplets.records.data_index import DataIndex

SEEDS = st.integers(-(10**20), 10**20)


def entries(index):
    return index.select(slice(None))


def times(index):
    return Counter(entries(index))


@settings(max_examples=often(100, less=20), deadline=None)
@given(st.integers(1, 300), st.integers(0, 1000), SEEDS)
def test_a_size_takes_whole_copies_and_the_first_rows_or_a_sample_in_their_order(n, size, seed):
    first = DataIndex({"a": n}).adjust_by_size(size)
    assert entries(first) == [("a", i % n) for i in range(size)]
    index = DataIndex({"a": n}).adjust_by_size(size, mode="sample", seed=seed)
    whole, rest = divmod(size, n)
    assert len(index) == size
    assert set(times(index).values()) <= {whole, whole + 1}
    assert index.rows[: whole * n].tolist() == list(range(n)) * whole
    last = index.rows[whole * n :].tolist()
    assert last == sorted(set(last))
    assert len(last) == rest


@settings(max_examples=often(100, less=20), deadline=None)
@given(st.integers(0, 300), st.decimals(0, 6, places=3), SEEDS)
def test_a_weight_lists_every_row_its_floor_or_once_more(n, weight, seed):
    index = DataIndex({"a": n}).adjust_by_weight(float(weight), seed=seed)
    whole, fraction = divmod(Fraction(weight), 1)
    assert len(index) == whole * n + round(fraction * n)
    counts = times(index)
    assert all(counts[("a", i)] in {whole, whole + 1} for i in range(n))
    extra = index.rows[whole * n :].tolist()
    assert extra == sorted(set(extra))


def test_the_weights_of_the_documents():
    index = DataIndex({"a": 1000})
    assert entries(index.adjust_by_weight(1.0)) == [("a", i) for i in range(1000)]
    assert Counter(times(index.adjust_by_weight(2.0)).values()) == {2: 1000}
    assert Counter(times(index.adjust_by_weight(2.5)).values()) == {2: 500, 3: 500}
    assert len(index.adjust_by_weight(0)) == 0
    assert len(index.adjust_by_weight(Fraction(1, 3))) == 333
    assert index.nbytes == 1000 * 10, "ten bytes an entry, and no object"


REFUSED = [
    (lambda i: i.adjust_by_size(-5), "size=-5: give an integer from 0"),
    (lambda i: i.adjust_by_size(2.5), "size=2.5: give an int"),
    (lambda i: i.adjust_by_size(MOST + 1), f"give an integer from 0 to {MOST}"),
    (lambda i: i.adjust_by_weight(-0.5), "weight=-0.5: give a finite number"),
    (lambda i: i.adjust_by_weight(float("nan")), "weight=nan"),
    (lambda i: i.adjust_by_weight(1e30), "the limit is"),
    (lambda i: i.adjust_by_size(3, mode="frist"), r"mode='frist'.*did you mean 'first'"),
    (lambda i: i.adjust_by_weight(2, seed=1.5), "seed=1.5: give an integer"),
    (lambda i: i.adjust_by_weight(0).adjust_by_size(1), "the index is empty"),
    (lambda i: DataIndex({"a": -1}), r"rows\['a'\]=-1"),
    (lambda i: DataIndex({3: 1}), "3 is no name of a data set"),
    (lambda i: DataIndex("abc"), "give the number of rows by name"),
    (lambda i: DataIndex([("a", -1)]), "row of 'a'=-1"),
    (lambda i: DataIndex({"a": MOST, "b": MOST}), "the limit of an index is"),
    (lambda i: i.__add__([("a", 1)]), "dp.index.DataIndex can only add another one"),
    (lambda i: i + DataIndex({"a": 1}, split="test"), "different splits: None, 'test'"),
    (lambda i: i.select(slice(0, 3, 0)), "slice step cannot be zero"),
    (lambda i: i["a":"b"], "slice indices"),
]


NO_CHOICE = [True, 1.0, "1", None, [1.0], [True], {1}, ["a"], (1, 2)]


def test_wrong_values_are_refused_by_name():
    for wrong in (*NO_CHOICE, np.array([True]), np.array([[1]])):
        with pytest.raises(SamplerError, match="chooses no entries: give an integer, a slice"):
            DataIndex({"a": 10}).select(wrong)
    for make, message in REFUSED:
        with pytest.raises(SamplerError, match=message):
            make(DataIndex({"a": 10, "b": 5, "none": 0}))


SIZES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 60), min_size=1)


def made(sizes):
    """Return an index with entries that repeat, and the same as a list."""
    index = DataIndex(sizes, split="train").adjust(weight=1.5, seed=3)
    return index, index.select(slice(None))


@settings(max_examples=often(200, less=40), deadline=None)
@given(SIZES, st.data())
def test_slices_and_choices_are_indexes_of_what_a_list_has_there(sizes, data):
    index, listed = made(sizes)
    where = data.draw(st.slices(len(listed)))
    part = index[where]
    assert isinstance(part, DataIndex)
    assert list(part) == listed[where]
    assert (part.names, part.split) == (index.names, "train")
    assert sum(part.counts().values()) == len(part)
    again = data.draw(st.slices(len(part)))
    assert list(part[again]) == listed[where][again]
    if listed:
        numbers = st.integers(-len(listed), len(listed) - 1)
        some = data.draw(st.lists(numbers, max_size=20))
        assert list(index[some]) == list(index[np.array(some, np.int64)])
        expected = [listed[i] for i in some]
        assert list(index[some]) == index.select(some) == expected
        assert index.select(np.array(some, np.int16)) == expected
        codes, rows = index.arrays(some)
        assert [(index.names[c], r) for c, r in zip(codes, rows, strict=True)] == expected
        one = data.draw(numbers)
        assert index[one] == index.select(np.int32(one)) == listed[one]
    assert pickle.loads(pickle.dumps(part)) == part


@settings(max_examples=often(200, less=30), deadline=None)
@given(SIZES, SEEDS, st.integers(1, 12))
def test_shards_of_an_index_sampler_have_every_entry_once(sizes, seed, count):
    index, listed = made(sizes)
    if not listed:
        return
    options = [dp.index.ShardOptions(i, count) for i in range(count)]
    orders = [
        dp.index.IndexSampler(len(index), of, True, num_epochs=1, seed=seed) for of in options
    ]
    parts = [index[order.keys(0, len(order))] for order in orders]
    assert sum(map(times, parts), Counter()) == Counter(listed)
