"""How names of a mapping fit columns: spaces around them, a ? behind, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prebuilt import empty_corpus
from source_rows import every_source, read, texts

from duckplets.errors import SourceError

_each = pytest.mark.parametrize

Rows = list[dict[str, Any]]


KINDS = ("csv", "jsonl", "parquet", "records", "table")


def source_of(kind: str, folder: Path, rows: Rows, **mapping: Any) -> Any:
    return every_source(folder, rows, (kind,), **mapping)[kind]


NAMES: list[tuple[Rows, str, str]] = [
    ([{" q ": "x", "a": "y"}], "q", "x"),
    ([{"q": "x", "a": "y"}], " q ", "x"),
    ([{" q ": "x", "q": "z", "a": "y"}], "q", "z"),
    ([{" q ": "x", "q": "z", "a": "y"}], " q ", "x"),
    ([{"Q": "x", " q": "z", "a": "y"}], "q", "x"),
    ([{"q?": "x", "q": "z", "a": "y"}], "q?", "x"),
]


@_each("kind", KINDS)
@_each(("rows", "name", "text"), NAMES)
def test_names_fit_exactly_else_but_for_spaces(tmp_path, reader, kind, rows, name, text):
    (row,) = read(source_of(kind, tmp_path, rows, anchor=name, positive="a"), reader)
    assert texts(row) == [("anchor", text), ("context", "y")]


WRONG: list[tuple[Rows, dict[str, Any], str]] = [
    ([{" q": "x", "q ": "z"}], {"text": "q"}, "column 'q' could be any of ' q', 'q '"),
    ([{" Q ": "x"}], {"text": "q"}, "no column 'q'"),
    ([{"q": "x"}], {"text": "q?"}, "a ? behind a name is for context="),
    ([{"q": "x"}], {"anchor": "q", "id": "q?"}, "a ? behind a name is for context="),
    ([{"q": "x", "a": "y"}], {"anchor": "q", "context": "b?"}, "no column 'b?'"),
]


@_each("kind", KINDS)
@_each(("rows", "how", "said"), WRONG)
def test_names_that_fit_nothing_or_several(tmp_path, reader, kind, rows, how, said):
    with pytest.raises(SourceError) as raised:
        read(source_of(kind, tmp_path, rows, **how), reader)
    assert said in str(raised.value)


SOME: Rows = [
    {"q": "one", "a": "first", "e": "like this"},
    {"q": "two", "a": "second", "e": None},
    {"q": "three", "a": None, "e": "alone"},
    {"q": "four", "a": None, "e": None},
]


@_each("kind", KINDS)
def test_a_context_that_may_lack(tmp_path, reader, kind):
    rows = read(source_of(kind, tmp_path, SOME, anchor="q", context=["a", "e?"]), reader)
    assert [row["skip"] for row in rows] == [None, None, "no context: a", "no context: a"]
    assert [texts(row)[1:] for row in rows[:2]] == [
        [("context", "first"), ("context", "like this")],
        [("context", "second")],
    ]
    assert [part["heading"] for part in rows[0]["sections"]] == ["q", "a", "e"]
    rows = read(source_of(kind, tmp_path, SOME, anchor="q", context=["a?", "e?"]), reader)
    assert [len(texts(row)) for row in rows] == [3, 2, 2, 1]
    assert not any(row["skip"] for row in rows)


@_each("kind", KINDS)
def test_a_column_that_ends_so_is_required(tmp_path, reader, kind):
    rows = [{"q": "one", "e?": "x"}, {"q": "two", "e?": None}]
    found = read(source_of(kind, tmp_path, rows, anchor="q", context="e?"), reader)
    assert [row["skip"] for row in found] == [None, "no context: e?"]


NESTED = [
    {"q": "one", "set": {"e": ["x", "y"]}},
    {"q": "two", "set": {"e": []}},
    {"q": "three", "set": {"e": None}},
]


@_each("kind", KINDS[1:])
@_each("text_of", [None, "json"])
def test_lists_and_paths_may_lack(tmp_path, reader, kind, text_of):
    found = read(
        source_of(kind, tmp_path, NESTED, anchor="q", context="set.e?", text_of=text_of), reader
    )
    assert [[text for _, text in texts(row)] for row in found] == [
        ["one", "x", "y"],
        ["two"],
        ["three"],
    ]


def test_texts_left_in_place_may_lack(tmp_path):
    source = source_of("parquet", tmp_path, SOME, anchor=" q", positive="a", context="e?")
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        report = corpus.ingest(source, in_place=True)
        assert (report.added, report.skipped + report.failed) == (2, 2)
        query = "SELECT heading, text FROM section_texts ORDER BY record_id, position"
        found = {tuple(row.values()) for row in corpus.sql(query).to_pylist()}
    assert ("e", "like this") in found
    assert ("a", "second") in found
    assert len(found) == 5
