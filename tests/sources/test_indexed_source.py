"""Records by their numbers: each once, in a shuffled order, fetched by a bounded crew."""

import threading
import time
from typing import Any

import pytest
from effort import often, some
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.ingest import ingest
from duckplets.sources import Mark, MemorySource, row_batches
from duckplets.sources.custom import IndexedSource

RECORDS_STORED = "SELECT * EXCLUDE (created_at, updated_at) FROM records ORDER BY record_key"
RECORDS = [{"id": f"r{i}", "text": f"text {i}"} for i in range(50)]


@pytest.fixture
def marks(monkeypatch):
    """A mark after each batch or every few, and a commit at each mark."""
    monkeypatch.setattr(row_batches, "MAX_ROWS", often(1, less=12))
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 1)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)


def asked(source, cursor=None):
    """The numbers a source asks for, in the order of its records."""
    pairs = source._batches(source.size if source.rows is None else len(source.rows))(cursor)
    return [number for records, _ in pairs for number in records]


GOES_ON = (7, 300, 4097, 65_537)


def numbers(n, **more):
    return IndexedSource(name="n", get=lambda i: i, size=n, **more)


def test_each_number_comes_once():
    shuffled = 0
    sizes = [*some(range(301), less=20), 4095, 4096, 4097, *some(range(65_535, 65_539), less=1)]
    sizes.append(65_537)
    for n in sizes:
        order = asked(numbers(n))
        assert sorted(order) == list(range(n))
        shuffled += order != list(range(n))
        for done in some((0, n // 2, 1, n - 1, n), less=2) if n in GOES_ON else ():
            assert asked(numbers(n), {"done": done, "size": n}) == order[done:]
    assert shuffled >= len(sizes) - 4


def test_the_order_depends_on_seed_and_size_only():
    order = asked(numbers(100))
    assert order == asked(numbers(100, threads=1))
    assert order == asked(IndexedSource(range(100), name="other", seed=42))
    assert order != asked(numbers(100, seed=43))
    assert order[:8] == [66, 69, 19, 48, 67, 86, 88, 84]  # for ever
    assert asked(numbers(100, shuffle=False)) == list(range(100))
    one = IndexedSource(RECORDS, name="x").settings()
    for more in ({"seed": 1}, {"shuffle": False}, {"text": "id"}):
        assert IndexedSource(RECORDS, name="x", **more).settings() != one


class Shelf:
    """An object with a length and get."""

    def __len__(self):
        return len(RECORDS)

    def get(self, i):
        return RECORDS[i]


def test_records_come_from_lists_objects_and_functions(reader):
    expected = sorted(
        (row["key"], row["content_hash"])
        for batch in MemorySource(RECORDS, id="id", text="text").open(reader).batches
        for row in batch.to_pylist()
    )
    for source in (
        IndexedSource(RECORDS, name="x"),
        IndexedSource(Shelf(), name="x"),
        IndexedSource(name="x", get=RECORDS.__getitem__, size=50),
        IndexedSource(dict(enumerate(RECORDS)), name="x", id="id", text="text"),
    ):
        rows = source.open(reader)
        assert rows.total == 50
        batches = [b.to_pylist() for b in rows.batches if not isinstance(b, Mark)]
        found = [(row["key"], row["content_hash"]) for batch in batches for row in batch]
        assert found != expected
        assert sorted(found) == expected
    assert list(IndexedSource([], name="x").open(reader).batches) == []
    none = IndexedSource(name="even", size=50, get=lambda i: None if i % 2 else {"text": f"t{i}"})
    batches = [b for b in none.open(reader).batches if not isinstance(b, Mark)]
    skips = [row["skip"] for batch in batches for row in batch.to_pylist()]
    assert (skips.count(None), skips.count("dropped by the source")) == (25, 25)


def broken_at(*indices):
    def get(i):
        if i in indices:
            raise KeyError(i)
        return RECORDS[i]

    return get


def test_an_error_names_row_and_number_and_the_ingest_goes_on_where_the_size_is_the_same(
    tmp_path, marks
):
    order = asked(numbers(50))
    with empty_corpus(tmp_path / "whole.duckdb") as corpus:
        corpus.ingest(IndexedSource(RECORDS, name="x"), progress=False)
        expected = corpus.sql(RECORDS_STORED).to_pylist()
        sections = corpus.sql("FROM sections ORDER BY ALL").to_pylist()
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        for row in (20, 33):
            source = IndexedSource(name="x", get=broken_at(order[row], order[45]), size=50)
            with pytest.raises(dp.SourceError) as raised:
                corpus.ingest(source, progress=False)
            number = order[row]
            assert str(raised.value) == (
                f"source 'x': row {row + 1}: get({number}): KeyError: {number}"
            )
            assert isinstance(raised.value.__cause__, KeyError)
            assert corpus.sql("FROM live_records").num_rows == 0
        more = IndexedSource([*RECORDS, {"text": "more"}], name="x")
        had = "source 'x': it had 50 records when its ingest began, and now has 51.*restart=True"
        with pytest.raises(dp.SourceError, match=had):
            corpus.ingest(more, progress=False)
        corpus.ingest(IndexedSource(RECORDS, name="x"), progress=False)
        assert corpus.sql(RECORDS_STORED).to_pylist() == expected
        assert corpus.sql("FROM sections ORDER BY ALL").to_pylist() == sections


def test_a_bounded_number_of_threads_fetches_a_bounded_number_ahead(reader):
    lock = threading.Lock()
    running = most = fetched = 0

    def get(i):
        nonlocal running, most, fetched
        with lock:
            running, fetched = running + 1, fetched + 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return {"text": "x" * 100_000}

    source = IndexedSource(name="x", get=get, size=10**12, threads=3)
    before = threading.active_count()
    pairs = source._batches(10**12)(None)
    used = 0
    for _ in range(20):
        records, cursor = next(pairs)
        used += len(records)
        assert cursor["done"] == used
        assert len(records) <= 64
        time.sleep(0.02)
        assert fetched - used <= 2 * 3 * 64
    assert most == 3
    pairs.close()
    assert threading.active_count() == before


class Long:
    def __len__(self):
        raise OSError("gone")

    def __getitem__(self, i):
        return RECORDS[i]


class Frame(list[Any]):
    iloc: Any = None


FAULTS = [
    ({"rows": Long()}, "source 'x': its length: OSError: gone"),
    ({}, "source 'x': give either rows, or get= and size="),
    ({"rows": RECORDS, "get": print}, "give either rows, or get= and size="),
    ({"rows": RECORDS, "size": 5}, "size= goes with get="),
    ({"rows": iter(RECORDS)}, "list_iterator has no length; give get= and size="),
    ({"rows": {1, 2}}, "set has neither get(i) nor [i]"),
    ({"rows": Frame(RECORDS)}, "a data frame needs get=lambda i: frame.iloc[i].to_dict(), size="),
    ({"get": 5, "size": 5}, "get=5 is no function"),
    ({"get": print}, "size=None: say how many records get() can return"),
    ({"rows": RECORDS, "threads": 0}, "threads=0: give an integer from 1 to 256"),
    ({"rows": RECORDS, "trust": 2}, "trust=2: give a number from 0 to 1"),
    ({"rows": RECORDS, "name": ""}, "IndexedSource: name='': give a text"),
    ({"rows": RECORDS, "positive": "text"}, "positive= needs anchor="),
]


def test_wrong_arguments(reader):
    for arguments, message in FAULTS:
        with pytest.raises(dp.SourceError) as raised:
            IndexedSource(**{"name": "x"} | arguments).open(reader)
        assert message in str(raised.value)
