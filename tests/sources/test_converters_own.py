"""Converters of one's own: a function called once a row."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_rows import read

from duckplets import CsvSource, JsonSource, MemorySource, ParquetSource, SqlSource
from duckplets.errors import SourceError
from duckplets.sources import Source
from duckplets.sources.converters import registry
from duckplets.sources.converters.registry import converter_names, register_converter

_each = pytest.mark.parametrize


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test registers."""
    monkeypatch.setattr(registry, "_OWN", {})


def said(*turns: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"role": role, "content": text} for role, text in turns]


def faq(row: dict[str, Any]) -> dict[str, Any]:
    asked = row["question"]
    if "context" in row:
        asked = f"Context: {row['context']}\n\nQuestion: {asked}"
    return {"messages": said(("user", asked), ("assistant", row["answer"]))}


ROWS = [
    {"question": "q", "answer": "a", "context": "c", "n": 1},
    {"question": "é", "answer": "ü", "context": None, "n": 2},
]


def test_a_function_of_ones_own(reader):
    register_converter("faq", faq)
    assert converter_names() == ("alpaca", "faq", "openai", "pair", "sharegpt")
    first, second = read(MemorySource(ROWS, converter="faq", id="n"), reader)
    assert json.loads(first["messages"]) == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Context: c\n\nQuestion: q"}],
            "loss_weight": 0.0,
        },
        {"role": "assistant", "content": [{"type": "text", "text": "a"}], "loss_weight": 1.0},
    ]
    assert [section["text"] for section in second["sections"]] == ["é", "ü"]
    assert (first["key"], second["key"]) == ("1", "2")


def test_a_function_sees_the_same_row_in_every_format(tmp_path, reader):
    seen: list[dict[str, Any]] = []

    def function(row: dict[str, Any]) -> dict[str, Any]:
        seen.append(row)
        return faq(row)

    register_converter("faq", function)
    rows = [
        {"question": "q", "answer": "a", "tags": ["x", None], "Of": {"b": 1.5}, "of": True},
        {"question": "p", "answer": "b", "tags": [], "Of": {"b": 2.5}, "of": False},
        {"question": "o", "answer": "c", "tags": None, "Of": None, "of": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "r.parquet")
    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    sources: list[Source] = [
        MemorySource(rows, converter="faq"),
        MemorySource(pa.Table.from_pylist(rows), converter="faq"),
        ParquetSource(tmp_path / "r.parquet", converter="faq"),
        JsonSource(tmp_path / "r.jsonl", converter="faq"),
        SqlSource("SELECT 'q' AS question, 'a' AS answer, ['x', NULL] AS tags", converter="faq"),
    ]
    expected = [{k: v for k, v in row.items() if v is not None} for row in rows]
    found = []
    for source in sources[:-1]:
        seen.clear()
        found.append(read(source, reader))
        assert seen == expected
    assert all(rows == found[0] for rows in found)
    seen.clear()
    read(sources[-1], reader)
    assert seen == [{"question": "q", "answer": "a", "tags": ["x", None]}]


def test_a_function_may_give_pairs_blocks_and_weights(reader):
    def function(row: dict[str, Any]) -> dict[str, Any]:
        asked = {"role": "user", "content": [{"type": "text", "value": row["q"]}]}
        reply = {"role": "assistant", "content": "r", "loss_weight": 0.25}
        made = {"chosen_messages": [asked, reply], "extra": {1, 2}}
        if "w" in row:
            made["rejected_messages"] = (asked, {"role": "assistant", "content": row["w"]})
        return made

    register_converter("mine", function)
    one, both = read(MemorySource([{"q": "q"}, {"q": "q", "w": "w"}], converter="mine"), reader)
    assert [m["loss_weight"] for m in json.loads(one["messages"])] == [0.0, 0.25]
    assert one["rejected_messages"] is None
    assert [(s["role"], s["heading"]) for s in both["sections"]] == [
        ("anchor", "chosen_messages"),
        ("context", "chosen_messages"),
        ("rejected", "rejected_messages"),
    ]
    assert both["sections"][2]["text"] == "w"
    assert json.loads(both["rejected_messages"])[1]["loss_weight"] == 1.0


def fail(row: dict[str, Any]) -> Any:
    return {}[row["missing"]]


def of_turn(**turn: Any) -> Any:
    return lambda row: {"messages": [turn]}


NO_JSON = "returned 'messages' that are no JSON"
OF_TURN = "field 'messages', turn 1: "
FAULTS: dict[str, tuple[Any, str, str | None]] = {  # what is told is the reason, if not said
    "exception": (fail, "KeyError", "converter 'mine': KeyError: 'missing'"),
    "nothing": (lambda row: None, "returned NoneType, not a dictionary", None),
    "no messages": (
        lambda row: {"message": []},
        *("returned neither 'messages' nor 'chosen_messages'", None),
    ),
    "text": (lambda row: {"messages": "[]"}, "returned str for 'messages', not a list", None),
    "not JSON": (of_turn(role=object()), NO_JSON, None),
    "surrogate": (of_turn(role="user", content="\ud800"), NO_JSON, None),
    "not a number": (of_turn(role="user", loss_weight=float("nan")), NO_JSON, None),
    "empty": (
        lambda row: {"messages": []},
        *("messages is empty", "field 'messages': the conversation is empty"),
    ),
    "role": (
        of_turn(role="human", content="q"),
        "messages has an unknown 'role'",
        f"{OF_TURN}'role' is \"human\"; known are: system, user, assistant, tool",
    ),
    "content": (
        of_turn(role="user", content=5),
        *("messages has a 'content' that is not text", f"{OF_TURN}'content' is not text: 5"),
    ),
    "negative weight": (
        of_turn(role="user", content="q", loss_weight=-1),
        "messages has a 'loss_weight' that is no number from 0 up",
        f"{OF_TURN}'loss_weight' is no number from 0 up: -1",
    ),
    "weight in words": (
        of_turn(role="user", content="q", loss_weight="1"),
        "messages has a 'loss_weight' that is no number from 0 up",
        f"{OF_TURN}'loss_weight' is no number from 0 up: \"1\"",
    ),
    "no reply": (
        of_turn(role="user", content="q"),
        "messages has no turn of the assistant with text",
        "field 'messages': no turn of the assistant with text",
    ),
    "rejected": (
        lambda row: {
            "messages": said(("user", "q"), ("assistant", "r")),
            "rejected_messages": said(("user", "q"), ("assistant", "")),
        },
        "rejected_messages has an empty turn of the assistant",
        "field 'rejected_messages', turn 2: the turn of the assistant is empty",
    ),
}


@_each("name", FAULTS)
def test_faults_of_a_function_are_errors_of_rows(reader, name):
    function, reason, detail = FAULTS[name]
    detail = detail or f"converter 'mine': {reason}"
    register_converter("mine", lambda row: function(row) if row["i"] == 3 else row["good"])
    good = {"messages": said(("user", "q"), ("assistant", "r"))}
    rows = [{"i": i, "good": good} for i in range(1, 6)]
    with pytest.raises(SourceError) as caught:
        read(MemorySource(rows, converter="mine"), reader)
    assert str(caught.value).startswith(f"source 'memory', row 3: {detail}; on_error='skip'")
    for on_error in ("skip", "quarantine"):
        found = read(MemorySource(rows, converter="mine", on_error=on_error), reader)
        skips = [row["skip"] for row in found]
        assert skips == [None, None, f"mine: {reason}", None, None]
    assert [row["quarantined"] and json.loads(row["quarantined"]) for row in found] == [
        *[None, None, rows[2], None, None]
    ]


def test_interrupts_of_a_function_are_not_held_back(reader):
    def function(row: dict[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    register_converter("mine", function)
    with pytest.raises(KeyboardInterrupt):
        read(MemorySource([{"a": 1}], converter="mine", on_error="skip"), reader)


@_each(
    ("name", "function", "message"),
    [
        ("", faq, "converter '': give a name"),
        (None, faq, "converter None: give a name"),
        ("pair", faq, "converter 'pair' is built in; register yours under another name"),
        ("mine", "faq", "converter 'mine': 'faq' cannot be called"),
    ],
)
def test_what_cannot_be_registered(name, function, message):
    with pytest.raises(SourceError) as caught:
        register_converter(name, function)
    assert str(caught.value) == message


def test_a_function_gets_readable_rows_only(tmp_path, reader):
    seen = []

    def function(row: dict[str, Any]) -> dict[str, Any]:
        seen.append(row)
        return faq(row)

    register_converter("mine", function)
    (tmp_path / "r.csv").write_text("question,answer\nq,r\nq\n\np,s\n")
    rows = read(CsvSource(tmp_path / "r.csv", converter="mine", on_error="quarantine"), reader)
    assert [row["skip"] for row in rows] == [None, "ragged row", None]
    assert [row["quarantined"] for row in rows] == [None, '["q"]', None]
    assert [row["question"] for row in seen] == ["q", "p"]
