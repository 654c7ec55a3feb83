"""Data sets of the datasets library as sources, in memory, streaming, and by way of a hub."""

import json

import pytest
from effort import often, some, thorough
from hub_data import MOODS, flat, rows
from hub_server import TOKEN

import duckplets
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.sources import Mark, MemorySource, row_batches
from duckplets.sources import memory as dataset
from duckplets.sources.memory import DatasetSource
from duckplets.sources.remote.hub import HubSource

datasets = pytest.importorskip("datasets")

MAPPING = {"anchor": "question", "positive": "answer", "meta": ["tags", "mood"]}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small tables, and batches that do not end where tables do."""
    monkeypatch.setattr(row_batches, "MAX_ROWS", 37)
    monkeypatch.setattr("duckplets.sources.row_batches._CHUNK_ROWS", 16)
    monkeypatch.setattr(dataset, "_ROWS", 5)


def in_memory(count=200):
    data = [row | {"mood": row["mood"]} for row in rows(count)]
    features = datasets.Features(
        {
            **dict.fromkeys(("key", "question", "answer"), datasets.Value("string")),
            "mood": datasets.ClassLabel(names=list(MOODS)),
            "tags": datasets.List(datasets.Value("string")),
        }
    )
    return datasets.Dataset.from_list(data, features=features)


def generated():
    for row in rows(150):
        yield {"question": row["question"], "answer": row["answer"], "tags": row["tags"], "mood": 1}


def kept(items):
    return [row for item in items if not isinstance(item, Mark) for row in flat(item)]


def whole_of(source):
    return list(source.open(Database.reader()).batches)


def rest_of(source, cursor):
    return list(source.open(Database.reader(), json.loads(json.dumps(cursor))).batches)


def test_the_rows_are_those_of_a_list_with_names_for_classes():
    data = rows(200)
    for row in data:
        row["mood"] = MOODS[row["mood"]] if row["mood"] in (0, 1, 2) else None
    expected = list(MemorySource(data, **MAPPING).open(Database.reader()).batches)
    found = kept(whole_of(DatasetSource(in_memory(), **MAPPING)))
    assert found == kept(expected)
    assert [row["row"] for row in found] == list(range(1, 201))


STREAMS = {
    "in memory": in_memory,
    "shards": lambda: in_memory().to_iterable_dataset(num_shards=3),
    "generator": lambda: datasets.IterableDataset.from_generator(generated),
    "steps": lambda: (
        in_memory()
        .to_iterable_dataset(num_shards=2)
        .map(lambda row: {"question": f"{row['question']}!"})
        .filter(lambda row: len(row["tags"]) < 2)
        .skip(5)
        .take(90)
    ),
    "shuffled in memory": lambda: in_memory().shuffle(seed=3),
}


@pytest.mark.parametrize("name", some(STREAMS, less=3))
def test_from_every_mark_exactly_the_rest_is_read(name):
    source = DatasetSource(STREAMS[name](), **MAPPING)
    assert source.in_pieces
    items = whole_of(source)
    whole = kept(items)
    marks = [i for i, item in enumerate(items) if isinstance(item, Mark)]
    assert len(marks) >= 2
    for at in [*marks[1 :: often(1, less=9)]]:
        rest = rest_of(source, items[at].cursor)
        assert kept(items[:at]) + kept(rest) == whole
        again = next((i for i, item in enumerate(rest) if isinstance(item, Mark)), None)
        if again is not None:
            last = kept(rest_of(source, rest[again].cursor))
            assert kept(items[:at]) + kept(rest[:again]) + last == whole


def test_one_that_streams_shuffled_is_ingested_in_one_piece(tmp_path):
    stream = in_memory(60).to_iterable_dataset(num_shards=2)
    for shuffled in (
        stream.shuffle(seed=1, buffer_size=10),
        stream.shuffle(seed=1).map(lambda row: row),
        datasets.interleave_datasets([stream, stream], probabilities=[0.5, 0.5], seed=1),
    ):
        assert not DatasetSource(shuffled, text="key").in_pieces
    source = DatasetSource(stream.shuffle(seed=1, buffer_size=10), text="key", id="key")
    with duckplets.Corpus(tmp_path / "c.duckdb") as corpus:
        assert corpus.ingest(source, progress=False).added == 60


def test_settings_tell_data_sets_apart_and_are_the_same_for_the_same():
    one = DatasetSource(in_memory(50), **MAPPING).settings()
    assert json.loads(json.dumps(one)) == DatasetSource(in_memory(50), **MAPPING).settings()
    assert one != DatasetSource(in_memory(51), **MAPPING).settings()
    assert one != DatasetSource(in_memory(50), text="key").settings()


def test_what_is_wrong_is_told():
    both = datasets.DatasetDict({"train": in_memory(1), "test": in_memory(1)})
    for given, said in (
        ([1], "a list is no datasets.Dataset or IterableDataset"),
        ({"train": 1}, "a dict is no datasets.Dataset .*; choose one of 'train'"),
        (both, r"a DatasetDict is .*; choose one of 'train', 'test'"),
    ):
        with pytest.raises(SourceError, match=said):
            DatasetSource(given, text="t")
    with pytest.raises(SourceError, match=r"no column 'queston' \(did you mean 'question'\?\)"):
        DatasetSource(in_memory(1), text="queston").open(Database.reader())

    def broken():
        yield from ({"t": f"text {i}"} for i in range(50))
        raise ZeroDivisionError("by zero")

    source = DatasetSource(datasets.IterableDataset.from_generator(broken), text="t")
    with pytest.raises(SourceError, match=r"data set '.*', after row 50: ZeroDivisionError: by z"):
        whole_of(source)


# ---- forms that only datasets reads, from a hub

TEXTS = {
    "train/a.txt": b"".join(b"line %d of a, which is some text\n" % i for i in range(60)),
    "train/b.txt": b"".join(b"line %d of b\n" % i for i in range(50)),
    "test/c.txt": b"one\ntwo\n",
}


@thorough
def test_other_forms_are_streamed_by_datasets_and_go_on_too(hub):
    hub.add("org/texts", TEXTS, private=True)
    source = HubSource("hf://org/texts/default/train text=text", token=TOKEN)
    items = whole_of(source)
    texts = [row["sections"][0]["text"] for row in kept(items)]
    assert len(texts) == 110
    assert texts[0] == "line 0 of a, which is some text"
    assert texts[-1] == "line 49 of b"
    marks = [i for i, item in enumerate(items) if isinstance(item, Mark)]
    for at in marks[::2]:
        assert kept(items[:at]) + kept(rest_of(source, items[at].cursor)) == kept(items)
    assert TOKEN not in str(items[marks[0]].cursor)
    every = kept(whole_of(HubSource("hf://org/texts text=text", token=TOKEN)))
    assert [row["sections"][0]["text"] for row in every] == ["one", "two", *texts]


def test_what_datasets_cannot_read_either_is_told(hub):
    hub.add("org/odd", {"data.xyz": b"?"})
    said = "hf://org/odd: data.xyz cannot be read by datasets either: "
    with pytest.raises(SourceError, match=said):
        whole_of(HubSource("hf://org/odd text=text"))


def test_a_transform_is_refused_and_a_format_is_not(reader):
    plain = in_memory(5)
    loud = plain.with_transform(lambda batch: {**batch, "question": ["x"] * len(batch["answer"])})
    inside = in_memory(5)
    inside.set_transform(lambda batch: batch)
    for given in (loud, inside):
        with pytest.raises(SourceError, match=r"has a transform, .*dataset\.map\(function\)"):
            DatasetSource(given, **MAPPING).open(reader)
    expected = rest_of(DatasetSource(plain, **MAPPING), None)
    for given in (plain.with_format("numpy"), loud.with_format(None)):
        assert rest_of(DatasetSource(given, **MAPPING), None) == expected
