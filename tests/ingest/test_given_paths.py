"""Paths given to ``ingest``: the source that reads each, as the command line finds it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.sources.by_path import source_of

_each = pytest.mark.parametrize
PAIR = {"anchor": "q", "positive": "a"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
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


@_each(("path", "arguments"), GIVEN)
def test_a_path_is_a_source(folder, tmp_path, path, arguments):
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        report = corpus.ingest(str(folder / path), **arguments)
        assert (report.read, report.added) == (2, 2)
        report = corpus.ingest(folder / path, **arguments, name="given", trust=0.9)
        trusts = {row["name"]: row["trust"] for row in corpus.sources().to_pylist()}
        assert trusts["given"] == 0.9
        corpus.remove("given")
        texts = corpus.sql("SELECT role, text FROM section_texts ORDER BY text").to_pylist()
        assert [tuple(row.values()) for row in texts] == [
            ("context", "first"),
            ("anchor", "one"),
            ("context", "second"),
            ("anchor", "two"),
        ]


def test_a_hub_line_is_a_source():
    source = source_of("hf://org/faq/default/train", anchor="question", positive="answer")
    assert (source.kind, source.default_name()) == ("hub", "org--faq--default--train")


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


@_each(("path", "arguments", "said"), WRONG)
def test_faults(folder, tmp_path, path, arguments, said):
    with (
        empty_corpus(tmp_path / "c.duckdb") as corpus,
        pytest.raises(dp.SourceError) as raised,
    ):
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
