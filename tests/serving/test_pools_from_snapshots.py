"""Pools that come out of a snapshot draw what pools that were read from the corpus draw."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.artifacts.arrays import _Counting
from duckplets.pools import arrays

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
RECIPES = {
    "random": dp.TripletRecipe("random", ANCHOR, CONTEXT, CONTEXT),
    "by_chunk": dp.TripletRecipe("by_chunk", ANCHOR, CONTEXT, CONTEXT, per="chunk"),
    "paired": dp.TripletRecipe(
        "paired",
        *(ANCHOR, CONTEXT, CONTEXT),
        strategy=dp.sql("negative.meta['topic'] = anchor.meta['topic']"),
    ),
    "own": dp.TripletRecipe(
        "own", *(ANCHOR, CONTEXT, dp.role("rejected")), strategy="same_record", when_short="random"
    ),
}


@pytest.mark.parametrize("narrow", [2**32 - 1, 3])  # keys in four bytes, or in eight
@pytest.mark.parametrize("name", RECIPES)
def test_samples_are_those_of_pools_in_memory(name, narrow, tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "_NARROW", narrow)
    path = tmp_path / "c.duckdb"
    rows = [
        {"id": str(i), "q": f"question {i}", "a": f"answer {i}", "topic": str(i % 7)}
        | {"no": [f"no {i} {j}" for j in range(1 + i % 4)]}
        for i in range(120)
    ]
    source = dp.sources.MemorySource(
        rows, id="id", anchor="q", positive="a", negative="no", meta="topic"
    )
    with dp.Corpus(path) as corpus:
        corpus.ingest(source, name="rows", progress=False)
        corpus.split()
        asked = {"recipes": [RECIPES[name]], "batch_size": 24, "seed": 3}

        def served():
            columns = ["anchor", "positive", "negative", "negative_record_id", "negative_by"]
            with corpus.sampler(**asked, columns=columns) as sampler:
                return pa.concat_tables([next(sampler).table for _ in range(40)])

        expected = served()
        corpus.prepare()
        served()  # keeps the pools of this run
        assert served().equals(expected)


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(0, 9), st.data())
def test_a_range_is_indexed_as_its_numbers_are(count, first, data):
    found, numbers = _Counting(count, first), np.arange(first, first + count)
    rows = data.draw(st.lists(st.integers(-count, count - 1)))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    for index in (np.array(rows, np.int64), mask, slice(1, None), slice(None, -1), slice(0, count)):
        assert np.array_equal(found[index], numbers[index])
    assert np.array_equal(np.diff(found), np.diff(numbers))
    assert np.array_equal(found[1:] - found[:-1], numbers[1:] - numbers[:-1])
    assert (len(found), found[-1]) == (count, numbers[-1])
    with pytest.raises(IndexError):
        found[np.array([0, count])]
