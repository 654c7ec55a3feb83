"""What a corpus keeps of converted rows: messages, rows set aside, counts that add up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from converter_cases import CASES, Good, messages

import duckplets as dp
from duckplets.corpus import Corpus
from duckplets.errors import SourceError

_each = pytest.mark.parametrize


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    with dp.Corpus(tmp_path / "c.duckdb") as opened:
        yield opened


def rows_of(corpus: Corpus, query: str) -> list[dict[str, Any]]:
    return corpus.sql(query).to_pylist()


def given(converter: str) -> list[dict[str, Any]]:
    return [row | {"key": name} for name, (row, _) in CASES[converter].items()]


STORED = """
    SELECT record_id, messages, rejected_messages
    FROM conversations JOIN records USING (record_key) ORDER BY record_key
"""


@_each("on_error", ["skip", "quarantine"])
@_each("converter", CASES)
def test_all_rows_are_stored_counted_or_set_aside(corpus, converter, on_error):
    rows = given(converter)
    source = dp.MemorySource(rows, converter=converter, id="key", on_error=on_error)
    report = corpus.ingest(source, name="x", progress=False)
    good = [n for n, (_, e) in CASES[converter].items() if isinstance(e, Good)]
    bad = [(n, e) for n, (_, e) in CASES[converter].items() if not isinstance(e, Good)]
    assert (report.read, report.added, report.skipped) == (len(rows), len(good), len(bad))
    assert report.failed == 0
    assert sum(report.reasons.values()) == len(bad)
    assert set(report.reasons) == {f"{converter}: {wrong.reason}" for _, wrong in bad}
    stored = rows_of(corpus, STORED)
    assert [row["record_id"] for row in stored] == [f"x/{name}" for name in good]
    for name, row in zip(good, stored, strict=True):
        expected = CASES[converter][name][1]
        assert json.loads(row["messages"]) == messages(expected.turns)
        rejected = row["rejected_messages"] and json.loads(row["rejected_messages"])
        if expected.rejected_turns is None:
            assert rejected is None
        else:
            assert rejected == messages(expected.rejected_turns)
    aside = rows_of(corpus, 'SELECT * FROM quarantine ORDER BY "row"')
    if on_error == "skip":
        assert aside == []
        return
    assert [row["row"] for row in aside] == [
        place for place, row in enumerate(rows, 1) if row["key"] not in good
    ]
    for row, (_, wrong) in zip(aside, bad, strict=True):
        assert (row["source"], row["version"]) == ("x", report.version)
        assert row["reason"] == wrong.detail
        assert json.loads(row["document"]) == rows[row["row"] - 1]


def test_an_error_stores_nothing(corpus):
    rows = [{"instruction": f"q{i}", "output": "r"} for i in range(20)]
    source = dp.MemorySource([*rows, {"instruction": "q"}], converter="alpaca")
    with pytest.raises(SourceError, match="row 21: field 'output': missing"):
        corpus.ingest(source, name="x", progress=False)
    assert rows_of(corpus, "FROM conversations") == rows_of(corpus, "FROM records") == []


def test_the_same_rows_again_add_nothing_and_other_messages_conflict(corpus):
    def source(system: str) -> dp.MemorySource:
        row = {"instruction": "q", "output": "r", "id": "a", "system": system}
        return dp.MemorySource([row], converter="alpaca", id="id")

    corpus.ingest(source("S"), name="x", progress=False)
    again = corpus.ingest(source("S"), name="x", progress=False)
    assert (again.added, again.skipped) == (0, 1)
    with pytest.raises(SourceError, match="a"):
        corpus.ingest(source("T"), name="x", progress=False)
    replaced = corpus.ingest(source("T"), name="x", on_conflict="replace", progress=False)
    assert replaced.replaced == 1
    stored = [json.loads(row["messages"])[0]["content"][0] for row in rows_of(corpus, STORED)]
    assert [block["value"] for block in stored] == ["S", "T"]


def test_sections_of_converted_rows_serve_contrastive_recipes(corpus):
    rows = [
        {"conversations": [{"from": "human", "value": f"q{i}"}, {"from": "gpt", "value": f"r{i}"}]}
        for i in range(40)
    ]
    corpus.ingest(dp.MemorySource(rows, converter="sharegpt"), name="x", progress=False)
    corpus.split(train=1.0, validation=0.0, test=0.0)
    batch = next(iter(corpus.sampler("triplets", batch_size=8, swap=False)))
    assert all(text[0] == "q" for text in batch["anchor"])
    assert all(text[0] in "qr" for text in batch["positive"])


def test_roles_of_pairs(corpus):
    row = {"prompt": "q", "chosen": "r", "rejected": "w"}
    corpus.ingest(dp.MemorySource([row], converter="pair"), name="x", progress=False)
    sections = rows_of(corpus, "SELECT role, heading, text FROM sections ORDER BY position")
    assert [tuple(section.values()) for section in sections] == [
        ("anchor", "prompt", "q"),
        ("context", "chosen", "r"),
        ("rejected", "rejected", "w"),
    ]
