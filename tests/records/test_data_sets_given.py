"""Data sets as a mapping, and files whose text is written otherwise than usual."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import duckplets as dp
from duckplets.records.data_sets import load_data_sets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some files."""
    rows = [{"instruction": f"Do {i}.", "output": f"Done {i}."} for i in range(30)]
    (tmp_path / "alpaca.json").write_text(json.dumps(rows))
    titles = [{"title": f"title {i}", "body": f"body {i}"} for i in range(20)]
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, titles)))
    chat = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}
    (tmp_path / "chat.jsonl").write_text(json.dumps(chat))
    return tmp_path


# -- how text is written ---------------------------------------------------------------------------


def test_text_in_other_encodings_and_with_other_marks(folder: Path) -> None:
    (folder / "l.csv").write_bytes("t|b\né|'ü|ö'\n".encode("latin-1"))
    (folder / "q.tsv").write_text('t\tb\n"a\tc"\n')
    (folder / "u.jsonl").write_text('{"t": "é"}\n', "utf-16")
    (folder / "p.txt").write_bytes("é\n".encode("cp1252"))
    text = """
l: {file_name: l.csv, text: b, encoding: latin-1, delimiter: '|', quote: "'"}
q: {file_name: q.tsv, text: t, quote: "", delimiter: tab}
u: {file_name: u.jsonl, text: t, encoding: utf-16}
p: {file_name: p.txt, encoding: cp1252}
"""
    (folder / "data.yaml").write_text(text)
    with dp.Corpus(folder / "corpus.duckdb") as corpus:
        corpus.ingest_data_sets(folder / "data.yaml")
        batch = next(iter(corpus.read(range(4), batch_size=4, columns=["source", "text"])))
    texts = dict(zip(batch["source"], batch["text"], strict=True))
    assert texts == {"l": "ü|ö", "q": '"a', "u": "é", "p": "é"}


# -- mappings --------------------------------------------------------------------------------------


def test_a_mapping_says_the_same_as_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: dict[str, dict[str, Any]] = {
        "faq": {"file_name": "alpaca.json", "converter": "alpaca", "size": 10},
        "titles": {"file_name": "lines.jsonl", "anchor": "title", "positive": ("body",)},
        "chat": {"file_name": "chat.jsonl"},
    }
    (folder / "data.yaml").write_text(json.dumps(tables))  # which is YAML too
    expected = load_data_sets(folder / "data.yaml")
    tables["chat"]["file_name"] = Path("chat.jsonl")
    tables["titles"]["positive"] = ["body"]
    assert load_data_sets(tables, folder=folder) == expected
    monkeypatch.chdir(folder)
    assert load_data_sets(tables) == expected, "by default paths are those of the process"
    tables["chat"]["file_name"] = folder / "chat.jsonl"
    with dp.Corpus(folder / "corpus.duckdb") as corpus:
        reports = corpus.ingest_data_sets(tables)
        assert {name: report.added for name, report in reports.items()} == {
            "faq": 30,
            "titles": 20,
            "chat": 1,
        }
        assert corpus.data_index().counts() == {"faq": 10, "titles": 20, "chat": 1}
