"""Reading by number: the records an order names, as plain Python finds them, and no more."""

import itertools
import re
from contextlib import closing

import pytest
from corpora import ODD_MAPPING, odd_corpus, odd_records
from effort import some, thorough
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.base import block_size
from duckplets.records import read as reading

pytestmark = pytest.mark.usefixtures("pools_once")

ALL = [*("index", "record_key", "record_id", "source", "split", "date", "meta", "group_key")]
ALL += [*("taxonomy", "trust", "created_at", "updated_at", "text", "anchor", "context")]


def read(corpus, order, **more):
    return corpus.read(order, **{"batch_size": 10} | more)


def rows(corpus, order, **more):
    return [row for batch in read(corpus, order, **more) for row in batch.to_pylist()]


def records(corpus, version=None, split=None, source=None):
    """The records of a version in the order of their keys, put together in plain Python."""
    version = corpus.version if version is None else version
    table = corpus.sql(
        "SELECT r.*, s.name AS source, p.split FROM records r JOIN sources s USING (source_id) "
        "LEFT JOIN splits p USING (record_key)"
    )
    sections = corpus.sql("SELECT record_key, position, role, text FROM sections").to_pylist()
    found = []
    for row in sorted(table.to_pylist(), key=lambda row: row["record_key"]):
        removed = row["removed_version"]
        if row["added_version"] > version or (removed is not None and removed <= version):
            continue
        if (split or row["split"]) != row["split"] or (source or row["source"]) != row["source"]:
            continue
        own = [s for s in sections if s["record_key"] == row["record_key"]]
        own.sort(key=lambda section: section["position"])
        row["text"] = "\n\n".join(s["text"] for s in own)
        for role in ("anchor", "context"):
            row[role] = [s["text"] for s in own if s["role"] == role]
        found.append(row)
    return found


def expected(known, places):
    """What reading (index, key) must give."""
    return [
        {"index": i, "record_key": k} | {name: known[k][name] for name in ALL[2:]}
        for i, k in places
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Three sources, one of them removed, another with records replaced and without anchors."""
    path = tmp_path_factory.mktemp("reading") / "odd.duckdb"
    with odd_corpus(path, 60, seed=3, sources=3) as corpus:
        corpus.remove("odd1")
        newer = [row | {"body": f"newer {row['id']}"} for row in odd_records(20, 3)]
        corpus.ingest(newer, name="odd0", on_conflict="replace", **ODD_MAPPING)
        texts = [{"id": f"t{i}", "text": f"only a text {i}"} for i in range(15)]
        corpus.ingest(texts, name="texts", id="id", text="text")
        yield corpus


@pytest.mark.parametrize(
    ("batch_size", "shuffle", "small"),
    [(7, True, True), *some(itertools.product([7, 1, 64, 10**4], [True, False], [0, 1]), less=1)],
)
def test_a_sampler_reads_the_records_it_names(corpus, monkeypatch, batch_size, shuffle, small):
    if small:  # blocks so small that every order has many
        monkeypatch.setattr(block_size, "FIRST_ROWS", 7)
        monkeypatch.setattr(reading, "_LARGEST_BLOCK", 30)
    known = records(corpus)
    for shards in (1, 3):
        sampler = dp.index.IndexSampler(
            len(known), dp.index.ShardOptions(0, shards), shuffle, 2, seed=1
        )
        found = rows(corpus, sampler, batch_size=batch_size, columns=ALL)
        assert found == expected(known, [(m.index, m.record_key) for m in sampler])
    batch = next(read(corpus, dp.index.SequentialSampler(5)))
    usual = ["index", "record_key", "record_id", "source", "split", "date", "meta", "text"]
    assert batch.keys() == usual


def test_every_split_and_source_has_its_own_numbers(corpus):
    read_any = 0
    names = [None, *corpus.sources()["name"].to_pylist()]
    for split, source in itertools.product([None, "train", "test"], names):
        where = {"split": split, "source": source}
        known = records(corpus, **where)
        assert corpus.count(**where) == len(known)
        found = rows(corpus, range(len(known)), columns=ALL, **where)
        assert found == expected(known, enumerate(range(len(known))))
        with pytest.raises(dp.SamplerError, match=f"names record {len(known)}; there are "):
            next(read(corpus, [len(known)], **where))
        read_any += len(found)
    assert read_any > 200


def test_messages_are_read_with_the_records_that_have_some(tmp_path):
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        talk = [{"prompt": f"q {i}", "chosen": f"a {i}", "rejected": f"b {i}"} for i in range(7)]
        corpus.ingest(talk, name="talk", converter="pair")
        corpus.ingest([{"t": "plain"}], name="plain", text="t")
        columns = ["rejected_messages", "source", "messages"]
        [batch] = corpus.read([7, 0, 3, 3, 6], batch_size=8, columns=columns)
        assert batch.keys() == columns
        for name, letter in {"messages": "a", "rejected_messages": "b"}.items():
            replies = [m and m[-1]["content"][0]["text"] for m in batch[name]]
            assert replies == [None, *(f"{letter} {i}" for i in (0, 3, 3, 6))]
        [plain] = corpus.read([7], batch_size=1, columns=["messages"])
        assert plain.table.schema.field("messages") == batch.table.schema.field("messages")


def test_what_is_ingested_or_removed_meanwhile_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(block_size, "FIRST_ROWS", 10)
    monkeypatch.setattr(reading, "_LARGEST_BLOCK", 20)
    with toy_corpus(tmp_path / "a.duckdb", 100, sources=("a", "b")) as corpus:
        known = records(corpus)
        with closing(read(corpus, range(200), columns=ALL)) as batches:
            found = next(batches).to_pylist()
            corpus.remove("a")
            corpus.ingest([{"id": "x", "text": "more"}], name="c", id="id", text="text")
            found += [row for batch in batches for row in batch.to_pylist()]
        assert found == expected(known, enumerate(range(200)))
        assert corpus.count() == 101


class Own:
    """An order as a user writes one: every third record, endlessly."""

    def __init__(self, records):
        self.records = records
        self.taken = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.taken += 1
        return dp.index.RecordMetadata(self.taken - 1, 3 * (self.taken - 1) % self.records)


def test_an_endless_order_is_taken_a_block_ahead_and_no_further(corpus, monkeypatch):
    monkeypatch.setattr(block_size, "FIRST_ROWS", 10)
    monkeypatch.setattr(reading, "_LARGEST_BLOCK", 40)
    n = corpus.count()
    order = Own(n)
    handed, ahead = 0, []
    with closing(read(corpus, order)) as batches:
        assert order.taken == 0
        for batch in itertools.islice(batches, 120):
            assert batch["record_key"] == [3 * i % n for i in range(handed, handed + 10)]
            handed += len(batch)
            ahead.append(order.taken - handed)
    assert ahead[0] == 10
    assert max(ahead) == 70  # what is left of one block, and another


@thorough
@pytest.mark.parametrize("allowed", [1, 1000, 20_000])
def test_blocks_have_no_more_than_their_bytes(corpus, monkeypatch, allowed):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", allowed)
    monkeypatch.setattr(block_size, "FIRST_ROWS", 1)
    order = Own(corpus.count())
    largest = max(len(str(row)) for row in records(corpus))
    with closing(read(corpus, order, batch_size=1)) as batches:
        ahead = [
            order.taken - handed - 1 for handed, _ in enumerate(itertools.islice(batches, 100))
        ]
    smallest = 40  # bytes of a record, at least
    assert max(ahead) <= 2 * max(1, allowed // smallest)
    assert max(ahead) >= allowed // largest / 4


NO_RECORDS = [
    ([0, 10**6], "element 1 of the order names record 1000000; there are records 0 to "),
    ([2**63], "integers of 64 bits"),
    ([-1], "element 0 of the order names record -1"),
    ([dp.index.RecordMetadata(0, -5)], "names record -5"),
    ([0, "a"], "element 1 of the order is 'a'; give dp.index.RecordMetadata"),
    ([1.0], "element 0 of the order is 1.0"),
    ([True], "element 0 of the order is True"),
    ([None], "element 0 of the order is None"),
    ([dp.index.RecordMetadata(0.5)], "index=0.5"),
    ([dp.index.RecordMetadata(0, "a")], "record_key=a"),
]


def test_an_element_that_names_no_record_is_named(corpus):
    for order, said in NO_RECORDS:
        with pytest.raises(dp.SamplerError, match=re.escape(said)):
            rows(corpus, order)


def test_a_corpus_without_records_says_so(tmp_path):
    with dp.Corpus(tmp_path / "a.duckdb") as corpus:
        with pytest.raises(dp.SamplerError, match="there are no records"):
            rows(corpus, [0])
        with pytest.raises(dp.SamplerError, match="there are 0 records"):
            read(corpus, dp.index.IndexSampler(1))


MISTAKES = [
    ({"batch_size": 0}, "batch_size=0: give an integer from 1"),
    ({"batch_size": 2.5}, "batch_size=2.5"),
    ({"columns": ["txt"]}, "no 'txt' (did you mean 'text'?)"),
    ({"columns": "record"}, "they have index, record_key"),
    ({"columns": []}, "name at least one of index"),
    ({"source": "odd"}, "no source 'odd' (did you mean 'odd"),
    ({"source": "odd1"}, "no source 'odd1'"),
    ({"split": "dev"}, "split='dev': give one of train"),
    ({"order": 5}, "order=5: give a dp.index.IndexSampler"),
    ({"order": dp.index.IndexSampler(10**6)}, "num_records=1000000"),
    ({"order": dp.index.SequentialSampler(10**6)}, "num_records=1000000"),
]


def test_a_mistake_is_named_at_once(corpus):
    for wrong, said in MISTAKES:
        arguments = {"order": [0]} | wrong
        with pytest.raises((dp.SamplerError, dp.errors.SplitError), match=re.escape(said)):
            read(corpus, **arguments)
