"""Records that a data index names, and the index of a corpus by the controls of its sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from effort import thorough
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.errors import SamplerError
from duckplets.records import index_controls as index_controls
from duckplets.records.data_index import DataIndex
from duckplets.records.order_reader import indexed_elements

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Corpus]:
    path: Path = tmp_path_factory.mktemp("index") / "toy.duckdb"
    with toy_corpus(path, 60, sources=("alpha", "bravo", "charlie")) as made:
        yield made


def ids(corpus: dp.Corpus, order: Any, **more: Any) -> list[str]:
    batches = corpus.read(order, **{"batch_size": 7, "columns": "record_id"} | more)
    return [name for batch in batches for name in batch["record_id"]]


@thorough
@pytest.mark.parametrize("split", [None, "train", "test"])
def test_reading_gives_the_records_that_entries_name(corpus: dp.Corpus, split: str | None) -> None:
    names = ("bravo", "alpha")
    known = {
        name: ids(corpus, range(count), source=name, split=split)
        for name in names
        if (count := corpus.count(split=split, source=name))
    }
    index = DataIndex({name: len(known[name]) for name in names}, split=split)
    index = index.adjust(None, {"bravo": 2.5, "alpha": 0.5}) + index.adjust(3)
    assert ids(corpus, index) == [known[name][row] for name, row in index]
    (batch,) = corpus.read(index, batch_size=10_000)  # all in one
    assert batch["index"] == list(range(len(index)))
    assert list(zip(batch["source"], batch["record_key"], strict=True)) == list(index)


WRONG_INDEXES = {
    "unknown": (DataIndex({"alfa": 3}), {}, r"names 'alfa' \(did you mean 'alpha'"),
    "too long": (DataIndex({"alpha": 61}), {}, "entry 60 .* names record 60 of 'alpha'"),
    "in a split": (DataIndex({"alpha": 60}), {"split": "test"}, "in split 'test' that has records"),
    "of another split": (DataIndex({"alpha": 1}, split="train"), {"split": "test"}, "'train'"),
    "other source": (DataIndex({"alpha": 1}), {"source": "bravo"}, "to read from are: bravo"),
}


@pytest.mark.parametrize("name", WRONG_INDEXES)
def test_an_index_of_what_is_not_there_is_refused_at_once(name: str, corpus: dp.Corpus) -> None:
    index, more, message = WRONG_INDEXES[name]
    with pytest.raises(SamplerError, match=message):
        corpus.read(index, **{"batch_size": 3} | more)


def test_parts_of_any_size_make_up_the_whole() -> None:
    index = DataIndex({"a": 5, "b": 4})
    for size in (1, 4, 9, 20):
        take = indexed_elements(index, {"b": 4, "a": 5}, "the corpus")
        found: list[int] = []
        while len(part := take(len(found), len(found) + size).indices):
            found += part.tolist()
        assert found == list(range(9))
    part = indexed_elements(index, {"b": 4, "a": 5}, "the corpus")(0, 9)
    assert part.places.tolist() == [4, 5, 6, 7, 8, 0, 1, 2, 3]


# -- controls -----------------------------------------------------------------------------------


def test_the_index_of_a_corpus_follows_its_controls(tmp_path: Path) -> None:
    with toy_corpus(tmp_path / "toy.duckdb", 60, sources=("alpha", "bravo")) as corpus:
        database = corpus.database

        def index(split: str | None = None) -> DataIndex:
            return corpus.data_index(split)

        assert index() == DataIndex({"alpha": 60, "bravo": 60})
        source_ids = {
            row["name"]: row["source_id"]
            for row in corpus.sql("SELECT name, source_id FROM sources").to_pylist()
        }
        with database.transaction():
            index_controls.set_controls(database, source_ids["alpha"], 10, "sample", 2.5, 7)
            index_controls.set_controls(database, source_ids["bravo"], weight=0)
        expected = DataIndex({"alpha": 60}).adjust(10, 2.5, mode="sample", seed=7)
        assert list(index()) == list(expected)
        train = corpus.count(split="train", source="alpha")
        of_train = DataIndex({"alpha": train}).adjust(10, 2.5, mode="sample", seed=7)
        assert list(index("train")) == list(of_train)
        assert index("train").split == "train"
        assert len(ids(corpus, index("train"))) == 25
        with database.transaction():
            index_controls.set_controls(database, source_ids["alpha"])
        assert index().counts() == {"alpha": 60, "bravo": 0}
        assert corpus.sql("SELECT * FROM index_controls").num_rows == 1
        controls = index_controls.controls(database, version=corpus.version)
        assert controls["bravo"] == index_controls.IndexControls(weight=0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": -1}, "size=-1"),
        ({"size_mode": "samples"}, "size_mode='samples'.*did you mean 'sample'"),
        ({"weight": float("nan")}, "weight=nan"),
        ({"seed": 1 << 63}, "seed=9223372036854775808"),
    ],
)
def test_wrong_controls_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SamplerError, match=message):
        index_controls.IndexControls(**values)
