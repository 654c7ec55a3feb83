import datetime
import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from effort import THOROUGH, often, thorough
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import said
from source_rows import ALL, every_source, read, rows_in, rows_of, texts

import duckplets as dp
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.ingest import ingest
from duckplets.sources import (
    CsvSource,
    JsonSource,
    Mark,
    MemorySource,
    ParquetSource,
    Source,
    row_batches,
)
from duckplets.sources.mapping import changed

RECORDS = [
    {"id": "a", "title": "Why?", "body": "Because.\nOf  that ", "when": "2024-02-03", "n": "1"},
    {"id": "b", "title": 'He said "so"', "body": "é, ü; 漢字\u2028line", "when": "", "n": "2"},
    {"id": "c", "title": " padded ", "body": "\ttab", "when": "2023-12-31", "n": "3"},
]
MAPPING = {
    "anchor": "title",
    "positive": "body",
    "date": "when",
    "group": "n",
    "taxonomy": ["n", "id"],
    "meta": ["when", "id"],
}


def test_one_content_has_one_hash_in_every_format(tmp_path, reader):
    results = {}
    for name, source in every_source(tmp_path, RECORDS, ("csv", *ALL), **MAPPING).items():
        assert isinstance(source, Source)
        results[name] = read(source, reader)
    assert all(rows == results["csv"] for rows in results.values())
    first, second, third = results["csv"]
    question, answer = (hashlib.sha256(text.encode()).hexdigest() for _, text in texts(first))
    content = (
        f"2 anchor {question} context {answer}d2024-02-03g1:1t2 1:11:am2 2:id1:a4:when10:2024-02-03"
    )
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    assert (
        first["key"] == f"{first['content_hash']:016x}" == digest == "db174b50f7542074"
    )  # for ever
    assert texts(first) == [("anchor", "Why?"), ("context", "Because.\nOf  that ")]
    assert [section["heading"] for section in first["sections"]] == ["title", "body"]
    assert texts(second)[1] == ("context", RECORDS[1]["body"])
    assert texts(third) == [("anchor", " padded "), ("context", "\ttab")]
    assert (first["date"], second["date"]) == (datetime.date(2024, 2, 3), None)
    assert (first["group_key"], first["taxonomy"]) == ("1", ["1", "a"])
    assert dict(second["meta"]) == {"id": "b"}
    assert [row["row"] for row in results["csv"]] == [1, 2, 3]
    assert not any(row["skip"] for row in results["csv"])


ODD = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from(list('\0\r\n\t",;|[]{}\\\u2028\x85\ufeff')),
    max_size=12,
)


@settings(max_examples=often(20, less=3), deadline=None)
@given(pairs=st.lists(st.tuples(ODD, ODD), min_size=1, max_size=4))
def test_any_text_comes_through_every_format(reader, pairs):
    records = [{"t": first, "b": second} for first, second in pairs]
    expected = None
    with tempfile.TemporaryDirectory() as folder:  # DuckDB remembers a path it has read
        sources = every_source(Path(folder), records, anchor="t", positive="b")
        found = {name: read(source, reader) for name, source in sources.items()}
    for name, rows in found.items():
        for row, (first, second) in zip(rows, pairs, strict=True):
            if first.strip() and second.strip():
                assert texts(row) == [("anchor", first), ("context", second)], name
                assert row["skip"] is None
            else:
                assert row["skip"] == ("no positive" if first.strip() else "no anchor"), name
        hashes = [row["content_hash"] for row in rows]
        expected = expected or hashes
        assert hashes == expected, name


def test_numbers_and_nested_values_become_text_where_their_json_is_asked_for(reader):
    values = [1, 2.5, True, {"a": [1]}, ["x"], 10**30, datetime.date(2024, 1, 2), np.int64(7)]
    values += [["x", 1]]
    records = [{"v": value} for value in values]
    rows = read(MemorySource(records, text="v", text_of="json"), reader)
    assert [row["sections"][0]["text"] for row in rows] == [
        "1", "2.5", "true", '{"a":[1]}', "x", str(10**30), "2024-01-02", "7", '["x",1]'
    ]  # fmt: skip
    table = pa.table(
        {
            "v": [1, 2],
            "s": [{"a": 1}, None],
            "b": [b"x", b""],
            "d": pa.array(["p", "q"]).dictionary_encode(),
        }
    )
    mapping = {"anchor": ["b", "v"], "positive": "d", "meta": "s"}
    rows = read(MemorySource(table, **mapping, text_of="json"), reader)
    assert [texts(row)[0][1] for row in rows] == ["x", "2"]
    assert dict(rows[0]["meta"]) == {"s": '{"a":1}'}


MAPPING_FAULTS = [
    ({"anchor": "t", "text": "b"}, "text= is for rows of one text"),
    ({"positive": "b"}, "positive= needs anchor="),
    ({"text": "t", "trust": 1.5}, "trust=1.5"),
    ({"text": []}, "name at least one column"),
    ({"text": ["t", 5]}, "5 is not the name of a column"),
    ({"text": ["t", "a\0b"]}, r"'a\x00b' is not the name of a column"),
    ({"text": "t", "meta": "a\0b"}, "give a column, or a list"),
    ({"text": "t", "date": "a\0b"}, "give the name of a column"),
    ({"text": "t", "trust": "a\0b"}, "give a number from 0 to 1, or a column's name"),
    ({"text": "t", "id": ["t"]}, "id=['t']"),
    ({}, "say which columns hold the text"),
    ({"id": "t"}, "its columns are: t, body"),
    ({"text": "bdoy"}, "no column 'bdoy' (did you mean 'body'?); its columns are: t, body"),
    ({"text": "t", "meta": ["nope"]}, "no column 'nope'"),
]


def test_wrong_mappings(tmp_path, reader):
    kinds = ("csv", "jsonl", "json", "parquet", "feather", "records", "sql")
    records = [{"t": "x", "body": "y"}]
    for number, (mapping, message) in enumerate(MAPPING_FAULTS):
        for kind in kinds if THOROUGH else kinds[number % 7 :][:1] + kinds[number % 5 :][:1]:
            with pytest.raises(SourceError) as raised:
                read(every_source(tmp_path, records, (kind,), **mapping)[kind], reader)
            assert message in str(raised.value)


def test_names_are_quoted_and_values_are_values(tmp_path, reader):
    odd = "a\"b'; DROP TABLE x --/~[*]"
    records = [{odd: f"{odd} {odd}", "b": odd}]
    for name, source in every_source(
        tmp_path, records, anchor=odd, context="b", meta=[odd]
    ).items():
        (row,) = read(source, reader)
        assert texts(row) == [("anchor", f"{odd} {odd}"), ("context", odd)], name
        assert dict(row["meta"]) == {odd: f"{odd} {odd}"}


def test_what_a_source_says_of_itself(tmp_path, reader):
    sources = every_source(tmp_path, RECORDS, **MAPPING)
    kinds = {name: source.kind for name, source in sources.items()}
    assert (kinds["jsonl"], kinds["feather"], kinds["table"]) == ("json", "arrow", "memory")
    assert sources["csv"].default_name() == "r"
    assert sources["csv"].uri == str(tmp_path / "r.csv")
    assert (sources["records"].uri, sources["sql"].uri) == (None, None)
    totals = {name: source.open(reader).total for name, source in sources.items()}
    assert (totals["parquet"], totals["table"], totals["records"]) == (3, 3, 3)
    assert CsvSource(tmp_path / "x.csv.gz", text="t").default_name() == "x"
    assert CsvSource(str(tmp_path / "*.csv"), text="t").default_name() == tmp_path.name
    assert JsonSource("-", text="t").default_name() == "stdin"


def test_many_rows_come_in_order_and_in_bounded_batches(tmp_path, reader, monkeypatch):
    most, count = often(row_batches.MAX_ROWS, less=3_000), often(150_000, less=10_000)
    monkeypatch.setattr(row_batches, "MAX_ROWS", most)
    table = pa.table({"t": [f"text {i}" for i in range(count)]})
    pq.write_table(table, tmp_path / "m.parquet", row_group_size=2_000)
    rows = ParquetSource(tmp_path / "m.parquet", text="t").open(reader)
    batches = list(rows.batches)
    assert rows.total == count
    assert max(batch.num_rows for batch in batches) <= most
    joined = pa.Table.from_batches(batches)
    assert joined["row"].to_pylist() == list(range(1, count + 1))
    found = pa.compute.struct_field(pa.compute.list_flatten(joined["sections"]), "text")
    assert found.to_pylist() == table["t"].to_pylist()
    monkeypatch.setattr(row_batches, "MAX_BYTES", 1_000_000)
    table = pa.table({"t": [f"{i} " + "x" * 50_000 for i in range(80)]})
    batches = list(MemorySource(table, text="t").open(reader).batches)
    assert len(batches) >= 3, "large texts make small batches"
    assert sum(batch.num_rows for batch in batches) == 80


# ---- going on where an ingest of files stopped: the rows that were left, and the same corpus


AT_ONCE, COUNT = often(10, less=20), often(95, less=50)


@pytest.fixture
def pieces(monkeypatch):
    """Batches of few rows, and a commit for every one or two."""
    monkeypatch.setattr(row_batches, "MAX_ROWS", AT_ONCE)
    monkeypatch.setattr("duckplets.sources.row_batches._CHUNK_ROWS", 7)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 20)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)


def many(tmp_path):
    """Sources of some rows in every form of file."""
    rows = [{"id": i, "title": f"title {i}", "body": f"body {i}"} for i in range(COUNT)]
    rows += [{"id": i, "title": None, "body": " "} for i in range(COUNT, COUNT + 5)]
    table = pa.Table.from_pylist(rows)
    lines = [json.dumps(row) + "\n" for row in rows]
    (tmp_path / "a.jsonl").write_text("".join(lines[: COUNT // 2]))
    (tmp_path / "b.jsonl").write_text("".join(lines[COUNT // 2 :]))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=13)
    (tmp_path / "a.csv").write_text(
        "id,title,body\n" + "".join(f"{r['id']},{r['title'] or ''},{r['body']}\n" for r in rows)
    )
    (tmp_path / "a.txt").write_text("".join(f"{r['body']}\n" for r in rows))
    (tmp_path / "texts").mkdir()
    for row in rows[:40]:
        (tmp_path / "texts" / f"{row['id']:03}.txt").write_text(f"{row['body']}")
    columns = {"id": "id", "anchor": "title", "positive": "body"}
    return [
        dp.sources.JsonSource([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], **columns),
        dp.sources.ParquetSource(tmp_path / "*.parquet", **columns),
        dp.sources.CsvSource(tmp_path / "a.csv", **columns),
        dp.sources.TextLinesSource(tmp_path / "a.txt"),
        dp.TextFileSource(tmp_path / "texts"),
    ]


@pytest.mark.usefixtures("pieces")
def test_what_is_read_from_any_mark_is_what_was_left(tmp_path):
    reader = Database.reader()
    for source in many(tmp_path):
        whole = rows_of(source, reader)
        resumable = changed(source, in_pieces=True)
        items = list(resumable.open(reader).batches)
        cursors = [item.cursor for item in items if isinstance(item, Mark)]
        assert rows_in(items) == whole
        assert isinstance(items[-1], Mark)
        for cursor in [{"rows": 33}, cursors[0], None, cursors[-1]][: often(4, less=1)]:
            rest = rows_of(resumable, reader, json.loads(json.dumps(cursor)))
            assert rest == whole[cursor["rows"] if cursor else 0 :]
        assert len(cursors) >= (1 if isinstance(source, dp.TextFileSource) else COUNT // AT_ONCE)
    reader.close()


def test_settings_tell_whether_files_are_the_same(tmp_path):
    for source in many(tmp_path):
        settings = source.settings()
        assert settings == source.settings() == json.loads(json.dumps(settings))
    source = dp.sources.CsvSource(tmp_path / "a.csv", anchor="title")
    before = source.settings()
    assert dp.sources.CsvSource(tmp_path / "a.csv", anchor="body").settings() != before
    with (tmp_path / "a.csv").open("a") as file:
        file.write("100,more,text\n")
    assert source.settings() != before
    (tmp_path / "a.csv").unlink()
    with pytest.raises(SourceError, match="does not exist"):
        source.settings()
    with pytest.raises(SourceError, match="leave out in_pieces="):
        dp.sources.JsonSource("-", text="text", in_pieces=True)


# ---- the first statements of a process are DuckDB's, also where several threads make them


# sqlglot knows a dialect by its name before the dialect is made; here that takes a while.
PROGRAM = """
import sys, threading, time
from pathlib import Path
from sqlglot.dialects import dialect
import duckplets as dp

make = dialect.new_trie
def slow(*arguments):
    time.sleep(0.1)
    return make(*arguments)
dialect.new_trie = slow

def ingest(number):
    time.sleep(0.03 * number)
    try:
        with dp.Corpus(Path(sys.argv[1]) / f"{number}.duckdb") as corpus:
            source = dp.sources.JsonSource(Path(sys.argv[1]) / "rows.jsonl", text="text", id="id")
            told = corpus.ingest(source, name="s", progress=False).added
            print(f"{told}\\n", end="")  # in one piece
    except dp.DuckpletsError as error:
        print(error)

threads = [threading.Thread(target=ingest, args=[number]) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@thorough
def test_threads_that_begin_together_make_the_same_statements(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "1", "text": "one"}\n{"id": "2", "text": "two"}\n')
    assert said("-c", PROGRAM, tmp_path).split() == ["2"] * 4
