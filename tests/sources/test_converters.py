"""Converters agree with what was written by hand, row for row and message for message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from converter_cases import CASES, Bad, Good, messages
from effort import often
from source_rows import read, texts

from duckplets import MemorySource
from duckplets.errors import SourceError

ALL = [(converter, name) for converter, cases in CASES.items() for name in cases]
BAD = [(c, n) for c, n in ALL if isinstance(CASES[c][n][1], Bad)]
_each = pytest.mark.parametrize


def check(row: dict[str, Any], good: Good) -> None:
    assert row["skip"] is None
    assert json.loads(row["messages"]) == messages(good.turns)
    expected = [("anchor", good.anchor), ("context", good.reply)]
    if good.rejected is not None:
        assert good.rejected_turns is not None
        expected.append(("rejected", good.rejected))
        assert json.loads(row["rejected_messages"]) == messages(good.rejected_turns)
    assert texts(row) == expected


@_each("on_error", ["skip", "quarantine"])
@_each("converter", CASES)
def test_all_cases_in_one_source(reader, converter, on_error):
    cases = list(CASES[converter].values())
    source = MemorySource([row for row, _ in cases], converter=converter, on_error=on_error)
    rows = read(source, reader)
    assert [row["row"] for row in rows] == list(range(1, len(cases) + 1))
    assert all(("quarantined" in row) == (on_error == "quarantine") for row in rows)
    for row, (given, expected) in zip(rows, cases, strict=True):
        if isinstance(expected, Good):
            check(row, expected)
            assert row["key"] == f"{row['content_hash']:016x}"
            assert row.get("quarantined") is None
        else:
            assert row["skip"] == f"{converter}: {expected.reason}"
            assert row["messages"] is None
            assert row["key"] is None
            assert on_error == "skip" or json.loads(row["quarantined"]) == given


@_each(("converter", "name"), BAD[:: often(1, less=3)])
def test_a_bad_row_is_an_error(reader, converter, name):
    given, bad = CASES[converter][name]
    good = next(row for row, expected in CASES[converter].values() if isinstance(expected, Good))
    rows = [*[good] * 16, given]
    with pytest.raises(SourceError) as caught:
        read(MemorySource(rows, converter=converter), reader)
    assert str(caught.value) == (
        f"source 'memory', row 17: {bad.detail}; on_error='skip' or 'quarantine' goes on without "
        f"such rows"
    )


def test_reasons_are_few(reader):
    rows = [{"instruction": "q", "output": i} for i in range(300)]
    rows += [{"instruction": "q", "output": [str(i)]} for i in range(300)]
    found = read(MemorySource(rows, converter="alpaca", on_error="skip"), reader)
    assert {row["skip"] for row in found} == {"alpaca: output is not text"}
    for converter, cases in CASES.items():
        rows = [row for row, _ in cases.values()]
        found = read(MemorySource(rows, converter=converter, on_error="skip"), reader)
        assert len({row["skip"] for row in found}) < 20
