"""How names of a mapping fit columns: spaces around them, a ? behind, and what is refused."""

import tempfile
from functools import partial
from pathlib import Path

import pytest
from effort import some
from prebuilt import empty_corpus
from source_rows import every_source, read, texts

import duckplets as dp
from duckplets.errors import SourceError

KINDS = some(("csv", "jsonl", "parquet", "records", "table"), less=3)

NAMES = [
    ([{" q ": "x", "a": "y"}], "q", "x"),
    ([{"q": "x", "a": "y"}], " q ", "x"),
    ([{" q ": "x", "q": "z", "a": "y"}], "q", "z"),
    ([{" q ": "x", "q": "z", "a": "y"}], " q ", "x"),
    ([{"Q": "x", " q": "z", "a": "y"}], "q", "x"),
    ([{"q?": "x", "q": "z", "a": "y"}], "q?", "x"),
    ([{"Q": "z", "q": "x", "a": "y"}], "q", "x"),
]
WRONG = [
    ([{" q": "x", "q ": "z"}], {"text": "q"}, "column 'q' could be any of ' q', 'q '"),
    ([{"Text": "x", "text": "z"}], {"text": "TEXT"}, "could be any of 'Text', 'text'"),
    ([{" Q ": "x"}], {"text": "q"}, "no column 'q'"),
    ([{"q": "x"}], {"text": "q?"}, "a ? behind a name is for context="),
    ([{"q": "x"}], {"anchor": "q", "id": "q?"}, "a ? behind a name is for context="),
    ([{"q": "x", "a": "y"}], {"anchor": "q", "context": "b?"}, "no column 'b?'"),
]


def found(folder, reader, kind, rows, **mapping):
    with tempfile.TemporaryDirectory(dir=folder) as new:  # DuckDB remembers a path it has read
        return read(every_source(Path(new), rows, (kind,), **mapping)[kind], reader)


@pytest.mark.parametrize("kind", KINDS)
def test_names_fit_exactly_else_but_for_spaces(tmp_path, reader, kind):
    for rows, name, text in NAMES:
        (row,) = found(tmp_path, reader, kind, rows, anchor=name, positive="a")
        assert texts(row) == [("anchor", text), ("context", "y")], (rows, name)
    for rows, how, said in WRONG:
        with pytest.raises(SourceError) as raised:
            found(tmp_path, reader, kind, rows, **how)
        assert said in str(raised.value)


SOME = [
    {"q": "one", "a": "first", "e": "like this"},
    {"q": "two", "a": "second", "e": None},
    {"q": "three", "a": None, "e": "alone"},
    {"q": "four", "a": None, "e": None},
]
NESTED = [{"q": "one", "set": {"e": each}} for each in (["x", "y"], [], None)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_that_may_lack(tmp_path, reader, kind):
    make = partial(found, tmp_path, reader, kind, anchor="q")
    rows = make(SOME, context=["a", "e?"])
    assert [row["skip"] for row in rows] == [None, None, "no context: a", "no context: a"]
    assert [texts(row)[1:] for row in rows[:2]] == [
        [("context", "first"), ("context", "like this")],
        [("context", "second")],
    ]
    assert [part["heading"] for part in rows[0]["sections"]] == ["q", "a", "e"]
    rows = make(SOME, context=["a?", "e?"])
    assert [len(texts(row)) for row in rows] == [3, 2, 2, 1]
    assert not any(row["skip"] for row in rows)
    rows = make([{"q": "one", "e?": "x"}, {"q": "two", "e?": None}], context="e?")
    assert [row["skip"] for row in rows] == [None, "no context: e?"], "a column of that very name"
    for text_of in (None, "json") if kind != "csv" else ():
        rows = make(NESTED, context="set.e?", text_of=text_of)
        assert [[text for _, text in texts(row)[1:]] for row in rows] == [["x", "y"], [], []]


def test_texts_left_in_place_may_lack(tmp_path):
    every_source(tmp_path, SOME, ("parquet",), anchor="q")
    source = dp.ParquetSource(tmp_path / "r.parquet", anchor=" q", positive="a", context="e?")
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        report = corpus.ingest(source, in_place=True)
        assert (report.added, report.skipped + report.failed) == (2, 2)
        query = "SELECT heading, text FROM section_texts ORDER BY record_id, position"
        stored = {tuple(row.values()) for row in corpus.sql(query).to_pylist()}
    assert {("e", "like this"), ("a", "second")} < stored
    assert len(stored) == 5
