"""Data indexes made of others: slices, shuffled ones, shards; each entry stays what it was."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.errors import SamplerError
from duckplets.records.data_index import DataIndex

SEEDS = st.integers(-(10**20), 10**20)
SIZES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 60), min_size=1)


def made(sizes: dict[str, int]) -> tuple[DataIndex, list[tuple[str, int]]]:
    """Return an index with entries that repeat, and the same as a list."""
    index = DataIndex(sizes, split="train").adjust(weight=1.5, seed=3)
    return index, index.select(slice(None))


@settings(max_examples=often(200, less=40), deadline=None)
@given(SIZES, st.data())
def test_slices_and_choices_are_indexes_of_what_a_list_has_there(
    sizes: dict[str, int], data: st.DataObject
) -> None:
    index, listed = made(sizes)
    where = data.draw(st.slices(len(listed)))
    part = index[where]
    assert isinstance(part, DataIndex)
    assert list(part) == listed[where]
    assert part == listed[where]
    assert (part.names, part.split) == (index.names, "train")
    assert sum(part.counts().values()) == len(part)
    again = data.draw(st.slices(len(part)))
    assert list(part[again]) == listed[where][again]
    if listed:
        numbers = st.integers(-len(listed), len(listed) - 1)
        some = data.draw(st.lists(numbers, max_size=20))
        assert list(index[some]) == list(index[np.array(some, np.int64)])
        assert list(index[some]) == [listed[i] for i in some]
    assert pickle.loads(pickle.dumps(part)) == part


@pytest.mark.parametrize("n", [0, 1, 2, 3, 100, 4096, 4097, 65_536, 65_537, 70_001])
@pytest.mark.parametrize("epoch", [0, 3])
def test_shuffling_is_a_bijection_of_the_entries(n: int, epoch: int) -> None:
    index = DataIndex({"a": n // 3, "b": n - n // 3})
    found = index.shuffle(7, epoch=epoch)
    flat = found.rows + found.codes.astype(np.int64) * (n // 3)
    assert np.array_equal(np.sort(flat), np.arange(n))
    assert found == index.shuffle(7, epoch=epoch)
    if n > 99:
        assert found != index
        assert found != index.shuffle(8, epoch=epoch)
        assert found != index.shuffle(7, epoch=epoch + 1)


@settings(max_examples=often(200, less=30), deadline=None)
@given(SIZES, SEEDS, st.integers(0, 9))
def test_shuffling_keeps_every_entry_as_often_as_it_was(
    sizes: dict[str, int], seed: int, epoch: int
) -> None:
    index, listed = made(sizes)
    found = index.shuffle(seed, epoch=epoch)
    assert Counter(found) == Counter(listed)
    assert (found.names, found.split) == (index.names, "train")
    assert list(index) == listed, "the index itself has not changed"


@settings(max_examples=often(200, less=40), deadline=None)
@given(SIZES, st.integers(1, 12), st.booleans(), st.booleans())
def test_shards_have_every_entry_once(
    sizes: dict[str, int], count: int, contiguous: bool, drop: bool
) -> None:
    index, listed = made(sizes)
    if drop and 0 < len(listed) < count:
        with pytest.raises(SamplerError, match=f"none of the {len(listed)} entries"):
            index.shard(dp.ShardOptions(0, count, drop_remainder=True))
        return
    options = [dp.ShardOptions(i, count, drop_remainder=drop) for i in range(count)]
    shards = [index.shard(each, contiguous=contiguous) for each in options]
    lengths = [len(shard) for shard in shards]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] - lengths[-1] <= (0 if drop else 1)
    served = len(listed) - (len(listed) % count if drop else 0)
    whole: list[tuple[str, int]] = []
    if contiguous:
        whole = [entry for shard in shards for entry in shard]
    else:
        whole = [shards[i % count][i // count] for i in range(served)]
    assert whole == listed[:served]
    if not drop:
        assert [index.shard(count, i, contiguous=contiguous) for i in range(count)] == shards


WRONG: dict[str, tuple[Any, str]] = {
    "a step of 0": (lambda i: i.select(slice(0, 3, 0)), "slice step cannot be zero"),
    "a step of 0, in brackets": (lambda i: i[::0], r"slice\(None, None, 0\): slice step"),
    "texts": (lambda i: i["a":"b"], "slice indices"),
    "no seed": (lambda i: i.shuffle(1.5), "seed=1.5: give an integer"),
    "an epoch": (lambda i: i.shuffle(epoch=-1), "epoch=-1: give an integer from 0"),
    "no shards": (lambda i: i.shard(0, 0), "num_shards=0: give an integer from 1"),
    "no such shard": (lambda i: i.shard(4, 4), "index=4: give an integer from 0 to 3"),
    "which": (lambda i: i.shard(4), "index=None: give the number of this shard"),
    "twice": (lambda i: i.shard(dp.ShardOptions(0, 4), 0), "index=0: ShardOptions say it"),
    "contiguous": (lambda i: i.shard(4, 0, contiguous=1), "contiguous=1: give True or False"),
    "a mask": (lambda i: i[np.array([True])], "chooses no entries"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_chooses_nothing_is_a_typed_error(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(SamplerError, match=message):
        make(DataIndex({"a": 10}))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Corpus]:
    path: Path = tmp_path_factory.mktemp("parts") / "toy.duckdb"
    with toy_corpus(path, 60, sources=("alpha", "bravo")) as opened:
        yield opened


def test_all_of_them_are_read(corpus: dp.Corpus) -> None:
    def read(index: DataIndex) -> list[tuple[str, int]]:
        batches = corpus.read(index, batch_size=32, columns=["source", "record_key"])
        return [pair for b in batches for pair in zip(b["source"], b["record_key"], strict=True)]

    index = corpus.data_index().adjust({"alpha": 7}, {"bravo": 1.5})
    parts = [
        *(index[3:80:7], index[::-2], index[[5, -1, 5]], index.shuffle(4), index[:0]),
        *(index.shard(3, 1), index.shuffle(4).shard(dp.ShardOptions(1, 4))[2:].shuffle(1)),
    ]
    for part in parts:
        assert read(part) == list(part)
