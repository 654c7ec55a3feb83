"""Records that a data index names, and the index of a corpus by the controls of its sources."""

import pytest
from effort import some
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.errors import SamplerError
from duckplets.records.data_index import DataIndex

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "toy.duckdb"
    with toy_corpus(path, 60, sources=("alpha", "bravo", "charlie")) as made:
        yield made


def ids(corpus, order, **more):
    batches = corpus.read(order, **{"batch_size": 7, "columns": "record_id"} | more)
    return [name for batch in batches for name in batch["record_id"]]


@pytest.mark.parametrize("split", some([None, "train", "test"], less=1))
def test_reading_gives_the_records_that_entries_name(corpus, split):
    known = {
        name: ids(corpus, range(count), source=name, split=split)
        for name in ("bravo", "alpha")
        if (count := corpus.count(split=split, source=name))
    }
    index = DataIndex({name: len(rows) for name, rows in known.items()}, split=split)
    index = index.adjust(None, 1.5) + index.adjust(3)
    shard = dp.index.IndexSampler(
        len(index), dp.index.ShardOptions(1, 4), True, num_epochs=1, seed=4
    )
    parts = [index, index[3:80:7], index[::-2], index[[5, -1, 5]], index[:0]]
    parts.append(index[shard.keys(0, len(shard))])
    for part in parts:
        assert ids(corpus, part) == [known[name][row] for name, row in part]
    (batch,) = corpus.read(index, batch_size=10_000)  # all in one
    assert batch["index"] == list(range(len(index)))
    assert list(zip(batch["source"], batch["record_key"], strict=True)) == list(index)


WRONG_INDEXES = [
    (DataIndex({"alfa": 3}), {}, r"names 'alfa' \(did you mean 'alpha'"),
    (DataIndex({"alpha": 61}), {}, "entry 60 .* names record 60 of 'alpha'"),
    (DataIndex({"alpha": 60}), {"split": "test"}, "split 'test' has only records"),
    (DataIndex({"alpha": 1}, split="train"), {"split": "test"}, "'train'"),
    (DataIndex({"alpha": 1}), {"source": "bravo"}, "to read are: bravo"),
]


def test_an_index_of_what_is_not_there_is_refused_at_once(corpus):
    for index, more, message in WRONG_INDEXES:
        with pytest.raises(SamplerError, match=message):
            corpus.read(index, **{"batch_size": 3} | more)


def test_the_index_of_a_corpus_follows_its_controls(tmp_path):
    with toy_corpus(tmp_path / "toy.duckdb", 60, sources=("alpha", "bravo")) as corpus:

        def index(split=None):
            return corpus.data_index(split)

        assert index() == DataIndex({"alpha": 60, "bravo": 60})
        corpus.set_index_controls("alpha", size=10, size_mode="sample", weight=2.5, seed=7)
        corpus.set_index_controls("bravo", weight=0)
        expected = DataIndex({"alpha": 60}).adjust(10, 2.5, mode="sample", seed=7)
        assert list(index()) == list(expected)
        train = corpus.count(split="train", source="alpha")
        of_train = DataIndex({"alpha": train}).adjust(10, 2.5, mode="sample", seed=7)
        assert list(index("train")) == list(of_train)
        assert index("train").split == "train"
        assert len(ids(corpus, index("train"))) == 25
        corpus.set_index_controls("alpha")
        assert index().counts() == {"alpha": 60, "bravo": 0}
        assert corpus.sql("SELECT * FROM index_controls").num_rows == 1
