"""What is given to ``ingest``: a path, read as the command line reads it, or Arrow data."""

import gzip
import json
from importlib import import_module
from importlib.util import find_spec

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_rows import read, texts

import duckplets as dp
from duckplets.sources.by_path import given_source, source_of

PAIR = {"anchor": "q", "positive": "a"}


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "files"
    (place / "docs").mkdir(parents=True)
    (place / "faq.csv").write_text("q,a\none,first\ntwo,second\n")
    (place / "more.csv.gz").write_bytes(gzip.compress(b"q;a\none;first\ntwo;second\n"))
    (place / "faq.tab").write_text("q\ta\none\tfirst\ntwo\tsecond\n")
    rows = [{"q": "one", "a": "first"}, {"q": "two", "a": "second"}]
    (place / "faq.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "faq.json").write_text(json.dumps(rows))
    pq.write_table(pa.Table.from_pylist(rows), place / "faq.parquet")
    (place / "faq.data").write_text("q,a\none,first\ntwo,second\n")
    for name, text in (("one", "first"), ("two", "second")):
        (place / "docs" / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    (place / "sets.yaml").write_text("a: 1\n")
    return place


GIVEN = [
    ("faq.csv", PAIR),
    ("more.csv.gz", PAIR | {"delimiter": ";"}),
    ("f*.csv", PAIR),
    ("faq.tab", PAIR),
    ("faq.ndjson", PAIR),
    ("faq.json", PAIR),
    ("faq.parquet", PAIR),
    ("faq.data", PAIR | {"format": "csv"}),
    ("docs", {"pattern": "*.md"}),
    ("docs", {"pattern": ["*.md"], "by_heading": True}),
    ("docs/*.md", {}),
]


def test_a_path_is_a_source(folder, corpus, reader):
    for path, arguments in GIVEN:
        rows = read(source_of(folder / path, **arguments), reader)
        found = sorted([text for _, text in texts(row)] for row in rows)
        assert found == [["one", "first"], ["two", "second"]], path
    assert corpus.ingest(str(folder / "faq.csv"), **PAIR).added == 2
    assert corpus.ingest(folder / "docs", pattern="*.md", name="given", trust=0.9).added == 2
    found = {row["name"]: row["trust"] for row in corpus.sources().to_pylist()}
    assert found == {"faq": 0.5, "given": 0.9}
    hub = source_of("hf://org/faq/default/train", anchor="question", positive="answer")
    assert (hub.kind, hub.default_name()) == ("hub", "org--faq--default--train")


WRONG = [
    ("none.csv", {}, "none.csv does not exist"),
    ("none*.csv", {}, "matches no file"),
    ("faq.[cp]*", {}, "several formats"),
    ("faq.data", {}, "say format= (csv"),
    ("faq.csv", {"format": "cvs"}, "format='cvs' (did you mean 'csv'?)"),
    ("faq.csv", {"anchr": "q"}, "takes no anchr= (did you mean 'anchor'?)"),
    ("faq.csv", {"by_heading": True}, "is csv: by_heading= is for files of text"),
    ("faq.json", {"delimiter": ";"}, "is json: delimiter= is for CSV files"),
    ("faq.json", {"quote": None}, "is json: quote=None is for CSV files"),
    ("faq.parquet", {"encoding": "latin-1"}, "encoding= is for files of text"),
    ("docs", {"pattern": "*.md", "anchor": "q"}, "is text: anchor= is for files with columns"),
    ("sets.yaml", {}, "corpus.ingest_data_sets("),
    (dp.CsvSource("faq.csv", **PAIR), {"anchor": "q"}, "= is for a path or Arrow data: a CsvSour"),
]


def test_faults(folder, corpus):
    for path, arguments, said in WRONG:
        with pytest.raises(dp.SourceError) as raised:
            corpus.ingest(folder / path if isinstance(path, str) else path, **arguments)
        assert said in str(raised.value)


def test_the_texts_of_a_folder_are_of_the_one_kind_there_is(tmp_path):
    for name in ("a.md", "b/c.md", "picture.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n\nwhat {name} says")
    with dp.Corpus(tmp_path / "x.duckdb") as corpus:
        assert corpus.ingest(tmp_path, name="one").added == 2
        (tmp_path / "d.rst").write_text("words")  # two kinds, and none of them is .txt
        with pytest.raises(dp.SourceError, match=r"no file that matches '\*\.txt'; it has .*\.rst"):
            corpus.ingest(tmp_path, name="two")


# ---- anything that gives Arrow data

TABLE = pa.table(
    {
        "title": ["one", "two", None],
        "body": ["first text", "second text", "third text"],
        "id": ["a", "b", "c"],
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
)
VIEWS = TABLE.set_column(1, "body", TABLE["body"].cast(pa.string_view()))


class Stream:
    """Has nothing but the protocol."""

    def __arrow_c_stream__(self, requested_schema=None):
        return VIEWS.__arrow_c_stream__(requested_schema)


def relation():
    connection = duckdb.connect()
    connection.register("given", TABLE)
    return connection.sql("SELECT * FROM given ORDER BY id")


GIVERS = {
    "polars": lambda: import_module("polars").from_arrow(TABLE),
    "pandas": TABLE.to_pandas,
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "relation": relation,
    "protocol": Stream,
}


def test_data_is_ingested_by_its_columns_and_taken_by_others(corpus, reader):
    mapping = {"anchor": "title", "positive": "body", "id": "id", "meta": "kind"}
    expected = read(dp.MemorySource(TABLE.to_pylist(), **mapping), reader)
    for giver, give in GIVERS.items():
        if giver not in ("polars", "pandas") or find_spec(giver):
            assert read(given_source(give(), mapping), reader) == expected, giver
    assert [[text for _, text in texts(row)] for row in expected[:2]] == [
        ["one", "first text"],
        ["two", "second text"],
    ]
    report = corpus.ingest(Stream(), name="s", on_conflict="skip", **mapping)
    assert (report.read, report.added) == (3, 2)
    assert corpus.ingest(dp.MemorySource(Stream(), **mapping), name="s").added == 0
    with pytest.raises(dp.SourceError, match="no column 'titel'"):
        corpus.ingest(Stream(), anchor="titel")
    corpus.split(1.0, 0.0, 0.0)
    with corpus.sampler("texts", batch_size=2) as sampler:
        for given in (corpus.sql("SELECT record_id AS x FROM records"), next(sampler)):
            assert pa.RecordBatchReader.from_stream(given).read_all().num_rows == len(given)
