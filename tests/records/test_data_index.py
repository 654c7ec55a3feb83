"""Data indexes: how often every row is listed, in what order, and what reads it."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.errors import SamplerError
from duckplets.order.copies import MOST
from duckplets.records.data_index import DataIndex

SEEDS = st.integers(-(10**20), 10**20)


def entries(index: DataIndex) -> list[tuple[str, int]]:
    return index.select(slice(None))


def times(index: DataIndex) -> Counter[tuple[str, int]]:
    return Counter(entries(index))


# -- size -------------------------------------------------------------------------------------


@settings(max_examples=often(100, less=20), deadline=None)
@given(st.integers(1, 300), st.integers(0, 1000))
def test_a_size_takes_the_first_rows_or_whole_copies_and_the_first_rows(n: int, size: int) -> None:
    index = DataIndex({"a": n}).adjust_by_size(size)
    assert entries(index) == [("a", i % n) for i in range(size)]


@settings(max_examples=often(100, less=20), deadline=None)
@given(st.integers(1, 300), st.integers(0, 1000), SEEDS)
def test_a_sample_has_no_row_more_often_than_needed_and_keeps_their_order(
    n: int, size: int, seed: int
) -> None:
    index = DataIndex({"a": n}).adjust_by_size(size, mode="sample", seed=seed)
    whole, rest = divmod(size, n)
    assert len(index) == size
    assert set(times(index).values()) <= {whole, whole + 1}
    assert index.rows[: whole * n].tolist() == list(range(n)) * whole
    last = index.rows[whole * n :].tolist()
    assert last == sorted(set(last))
    assert len(last) == rest


# -- weight -----------------------------------------------------------------------------------


@settings(max_examples=often(100, less=20), deadline=None)
@given(st.integers(0, 300), st.decimals(0, 6, places=3), SEEDS)
def test_a_weight_lists_every_row_its_floor_or_once_more(n: int, weight: Any, seed: int) -> None:
    index = DataIndex({"a": n}).adjust_by_weight(float(weight), seed=seed)
    whole, fraction = divmod(Fraction(weight), 1)
    assert len(index) == whole * n + round(fraction * n)
    counts = times(index)
    assert all(counts[("a", i)] in {whole, whole + 1} for i in range(n))
    extra = index.rows[whole * n :].tolist()
    assert extra == sorted(set(extra))


def test_the_weights_of_the_documents() -> None:
    index = DataIndex({"a": 1000})
    assert entries(index.adjust_by_weight(1.0)) == [("a", i) for i in range(1000)]
    assert set(times(index.adjust_by_weight(2.0)).values()) == {2}
    assert len(times(index.adjust_by_weight(2.0))) == 1000
    half_more = index.adjust_by_weight(2.5)
    assert len(half_more) == 2500
    assert Counter(times(half_more).values()) == {2: 500, 3: 500}
    assert len(index.adjust_by_weight(0)) == 0
    assert len(index.adjust_by_weight(Fraction(1, 3))) == 333


# -- several data sets --------------------------------------------------------------------------

SOME = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 40), min_size=1)


# -- selecting ----------------------------------------------------------------------------------


@settings(max_examples=often(100, less=20), deadline=None)
@given(SOME, st.data())
def test_selecting_is_as_of_a_list(sizes: dict[str, int], data: st.DataObject) -> None:
    index = DataIndex(sizes)
    listed = [(name, row) for name, size in sizes.items() for row in range(size)]
    assert len(index) == len(listed)
    assert list(index) == listed
    numbers = st.integers(-len(listed), len(listed) - 1)
    one = data.draw(numbers)
    assert index[one] == index.select(np.int32(one)) == listed[one]
    where = data.draw(st.slices(len(listed)))
    assert index[where] == listed[where]
    some = data.draw(st.lists(numbers, max_size=20))
    expected = [listed[i] for i in some]
    assert index.select(some) == expected
    assert index.select(np.array(some, np.int16)) == expected
    codes, rows = index.arrays(some)
    assert [(index.names[c], r) for c, r in zip(codes, rows, strict=True)] == expected


@pytest.mark.parametrize(
    "wrong",
    [True, 1.0, "1", None, [1.0], [True], {1}, np.array([True]), np.array([[1]]), ["a"], (1, 2)],
)
def test_what_chooses_nothing_is_a_value_error(wrong: Any) -> None:
    with pytest.raises(SamplerError, match="chooses no entries: give an integer, a slice"):
        DataIndex({"a": 10}).select(wrong)
    with pytest.raises(SamplerError, match="slice indices"):
        DataIndex({"a": 10}).select(slice("a"))


# -- what is refused ----------------------------------------------------------------------------

REFUSED = {
    "negative size": (lambda i: i.adjust_by_size(-5), "size=-5: give an integer from 0"),
    "size of a part": (lambda i: i.adjust_by_size({"a": 2.5}), r"size\['a'\]=2.5: give an int"),
    "no integer": (lambda i: i.adjust_by_size("10"), "size='10'"),
    "bool size": (lambda i: i.adjust_by_size(True), "size=True"),
    "NaN size": (lambda i: i.adjust_by_size(float("nan")), "size=nan"),
    "huge size": (lambda i: i.adjust_by_size(MOST + 1), f"give an integer from 0 to {MOST}"),
    "negative": (lambda i: i.adjust_by_weight(-0.5), "weight=-0.5: give a finite number"),
    "NaN": (lambda i: i.adjust_by_weight({"a": float("nan")}), r"weight\['a'\]=nan"),
    "infinite": (lambda i: i.adjust_by_weight(float("inf")), "weight=inf: give a finite"),
    "bool weight": (lambda i: i.adjust_by_weight(True), "weight=True"),
    "weight in words": (lambda i: i.adjust_by_weight("2"), "weight='2'"),
    "huge weight": (lambda i: i.adjust_by_weight(1e30), "at most"),
    "mode": (lambda i: i.adjust_by_size(3, mode="frist"), r"mode='frist'.*did you mean 'first'"),
    "seed": (lambda i: i.adjust_by_weight(2, seed=1.5), "seed=1.5: give an integer"),
    "name": (lambda i: i.adjust_by_size({"aa": 3}), r"no data set 'aa' \(did you mean 'a'"),
    "empty": (lambda i: i.adjust_by_size({"none": 3}), "data set 'none' has no rows .*give 0"),
    "all empty": (lambda i: i.adjust_by_weight(0).adjust_by_size(1), "the index has no rows"),
    "negative rows": (lambda i: DataIndex({"a": -1}), r"rows\['a'\]=-1"),
    "no name": (lambda i: DataIndex({3: 1}), "3 is no name of a data set"),
    "no entries": (lambda i: DataIndex("abc"), "give the number of rows by name"),
    "a bad entry": (lambda i: DataIndex([("a", -1)]), "row of 'a'=-1"),
    "too many": (lambda i: DataIndex({"a": MOST, "b": MOST}), "an index holds at most"),
    "no index": (lambda i: i.__add__([("a", 1)]), "only another dp.DataIndex"),
    "splits": (lambda i: i + DataIndex({"a": 1}, split="test"), "different splits: None, 'test'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_values_are_refused_by_name(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(SamplerError, match=message):
        make(DataIndex({"a": 10, "b": 5, "none": 0}))


def test_millions_of_entries_are_made_adjusted_and_selected() -> None:
    a, b, some = often(20_000_000, less=2_000_000), often(5_000_000, less=500_000), 300_000
    index = DataIndex({"a": a, "b": b})
    assert len(index) == a + b
    assert index[-1] == ("b", b - 1)
    made = index.adjust({"a": some}, {"b": 2.5}, mode="sample")
    assert made.counts() == {"a": some, "b": 5 * b // 2}
    of_b = np.bincount(made.rows[some:], minlength=b)
    assert np.bincount(of_b).tolist() == [0, 0, b // 2, b // 2]
    assert np.all(np.diff(made.rows[:some]) > 0)
    assert index.nbytes == (a + b) * 10, "ten bytes an entry, and no object"
