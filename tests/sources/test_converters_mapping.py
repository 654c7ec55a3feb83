"""Converted rows in sources: what a mapping refuses, columns that differ, ids, and prefixes."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import often
from source_rows import read

from duckplets import CsvSource, JsonSource, MemorySource, ParquetSource, SqlSource
from duckplets.errors import SourceError
from duckplets.sources import Source, row_batches
from duckplets.text.prefix import Field, Prefix

_each = pytest.mark.parametrize


def said(*turns: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"role": role, "content": text} for role, text in turns]


@_each(
    ("mapping", "message"),
    [
        ({"converter": "alpacca"}, "no converter 'alpacca' (did you mean 'alpaca'?); there are: "),
        ({"converter": 5}, "converter=5: give the name of a converter"),
        ({"converter": "pair", "anchor": "a"}, "converter='pair' makes the texts itself: leave"),
        ({"converter": "pair", "context": ["a"]}, "out context="),
        ({"converter": "alpaca", "text": "a"}, "leave out text="),
        ({"text": "a", "on_error": "drop"}, "on_error='drop': give one of raise, skip, qu"),
        ({"converter": "pair", "on_error": "drop"}, "on_error='drop': give one of raise, skip, qu"),
        ({"text": "a", "prefix": ["p"]}, "prefix=['p']: give the name of a column"),
    ],
)
def test_mappings_that_are_refused(mapping, message):
    with pytest.raises(SourceError) as caught:
        MemorySource([], **mapping)
    assert message in str(caught.value)


@_each("kind", ["csv", "parquet", "table", "sql"])
def test_a_file_without_the_field_is_refused(tmp_path, reader, kind):
    table = pa.table({"instruction": ["q"], "outputs": ["r"]})
    pq.write_table(table, tmp_path / "r.parquet")
    (tmp_path / "r.csv").write_text("instruction,outputs\nq,r\n")
    mapping: dict[str, Any] = {"converter": "alpaca", "on_error": "skip"}
    source: Source = {
        "csv": CsvSource(tmp_path / "r.csv", **mapping),
        "parquet": ParquetSource(tmp_path / "r.parquet", **mapping),
        "table": MemorySource(table, **mapping),
        "sql": SqlSource(f"FROM '{tmp_path / 'r.parquet'}'", **mapping),
    }[kind]
    with pytest.raises(SourceError, match=r"no column 'output' \(did you mean 'outputs'\?\); its"):
        source.open(reader)


def test_fields_match_whatever_their_case_and_files_may_differ(tmp_path, reader):
    (tmp_path / "a.csv").write_text("Instruction,OUTPUT\nq,r\n")
    (tmp_path / "b.csv").write_text("output,system,instruction\nr,Be,q\n")
    (tmp_path / "c.csv").write_text("output,input\nr,q\n")
    rows = read(CsvSource(str(tmp_path / "*.csv"), converter="alpaca"), reader)
    assert [[s["text"] for s in row["sections"]] for row in rows] == [["q", "r"]] * 3
    assert [row["sections"][0]["heading"] for row in rows] == ["instruction"] * 2 + ["input"]
    assert [len(json.loads(row["messages"])) for row in rows] == [2, 3, 2]
    lines = [{"Instruction": "q", "Output": "r"}, {"Instruction": "q", "Output": "r"}]
    assert len(read(MemorySource(lines, converter="alpaca"), reader)) == 2


def test_a_field_that_comes_late_is_read(tmp_path, reader, monkeypatch):
    monkeypatch.setattr(row_batches, "MAX_ROWS", often(row_batches.MAX_ROWS, less=500))
    rows: list[dict[str, Any]] = [{"instruction": "q", "output": "r"}] * often(70_000, less=1_500)
    rows.append({"system": "Be", "instruction": "q", "output": "r"})
    lines = tmp_path / "f.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)))
    for source in (MemorySource(rows, converter="alpaca"), JsonSource(lines, converter="alpaca")):
        found = read(source, reader)
        assert [len(json.loads(row["messages"])) for row in found] == [2] * (len(rows) - 1) + [3]


def test_unreadable_rows_stay_what_they_were(tmp_path, reader):
    lines = ['{"instruction": "q", "output": "r"}', "{broken", "[1]", "", '{"output": "r"}']
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(lines))
    rows = read(JsonSource(path, converter="alpaca", on_error="quarantine"), reader)
    assert [row["skip"] for row in rows] == [
        None,
        "invalid JSON",
        "not an object",
        "alpaca: instruction is missing",
    ]
    assert [row["quarantined"] for row in rows] == [
        None,
        *map(json.dumps, lines[1:3]),
        lines[-1],
    ]
    assert [row["row"] for row in rows] == [1, 2, 3, 5]
    for left, line, said in ((lines, 2, "invalid JSON"), (lines[3:], 2, "field 'instruction'")):
        path.write_text("\n".join(left))
        place = f"source 'r', row {line} ({path}, line {line}): {said}"
        with pytest.raises(SourceError, match=f"^{re.escape(place)}"):
            read(JsonSource(path, converter="alpaca"), reader)


def test_any_name_of_a_column_and_any_type_can_be_set_aside(reader):
    table = pa.table(
        {
            "$field": ["x"],
            "it's": [b"\xc3\xa9"],
            "number": [float("inf")],
            "day": pa.array([0], pa.date32()),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            "conversations": pa.array([[]], pa.list_(pa.string())),
        }
    )
    source = MemorySource(table, converter="sharegpt", meta="$field", on_error="quarantine")
    (row,) = read(source, reader)
    assert row["skip"] == "sharegpt: conversations is empty"
    assert json.loads(row["quarantined"]) == {
        "$field": "x",
        "it's": "é",
        "number": None,
        "day": "1970-01-01",
        "map": {"k": 1},
        "conversations": [],
    }


def test_large_and_small_turns_side_by_side(reader):
    rows = [
        {"conversations": [{"from": "human", "value": "q" * n}, {"from": "gpt", "value": "é" * n}]}
        for n in (1, 3_000_000, 2, 1_000_000)
    ]
    found = read(MemorySource(rows, converter="sharegpt"), reader)
    assert [len(row["sections"][1]["text"]) for row in found] == [1, 3_000_000, 2, 1_000_000]
    assert json.loads(found[1]["messages"])[0]["content"][0]["text"] == "q" * 3_000_000


# ---- ids


def digest(sections: str, identity: str, date: str = "") -> str:
    content = f"{sections}d{date}g-t0 m0 x{identity}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_ids_of_converted_rows_for_ever(reader):
    rows = [{"instruction": "q", "output": "r", "system": system} for system in ("", "Be")]
    plain, with_system = read(MemorySource(rows, converter="alpaca"), reader)
    sections = f"2 anchor {sha('q')} context {sha('r')}"
    assert plain["key"] == digest(sections, "alpaca") == "8a61059615f4d6fd"
    assert with_system["key"] == digest(sections, f"alpaca {sha('Be')}")
    (row,) = read(MemorySource([{"messages": messages_of("q", "r")}], converter="openai"), reader)
    assert row["key"] == digest(sections, f"messages {md5(row['messages'])}")


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def messages_of(*texts: str) -> list[dict[str, Any]]:
    roles = ["user", "assistant"] * len(texts)
    return said(*zip(roles, texts, strict=False))


def test_what_sections_do_not_tell_apart_has_another_id(reader):
    conversations = [
        messages_of("q", "r", "p", "s"),
        said(("user", "q\n\nr\n\np"), ("assistant", "s")),
        said(("user", "q"), ("user", "r\n\np"), ("assistant", "s")),
        [*messages_of("q", "r", "p", "s"), {"role": "user", "content": "t"}],
        [{"role": "system", "content": "S"}, *messages_of("q", "r", "p", "s")],
    ]
    rows = [{"messages": messages} for messages in conversations]
    found = read(MemorySource([*rows, rows[0]], converter="openai"), reader)
    keys = [row["key"] for row in found]
    assert len({tuple(s["text"] for s in row["sections"]) for row in found}) == 1
    assert keys[0] == keys[-1]
    assert len(set(keys)) == len(rows)


# ---- prefixes


PREFIX = Prefix(probability=0.5, variants=[[Field("source", ["faq"])]])


def test_prefixes_of_records(reader):
    as_json = json.dumps(PREFIX.to_dict(), indent=1)
    rows = [
        {"t": "a", "p": PREFIX},
        {"t": "a", "p": PREFIX.to_dict()},
        {"t": "a", "p": as_json},
        {"t": "a"},
        {"t": "b", "p": "[1]"},
        {"t": "b", "p": "{"},
        {"t": "b", "p": 5},
    ]
    found = read(MemorySource(rows, text="t", prefix="p"), reader)
    assert [row["skip"] for row in found] == [None] * 4 + ["unreadable prefix"] * 3
    assert [row["prefix"] and json.loads(row["prefix"]) for row in found[:4]] == [
        *[PREFIX.to_dict()] * 3,
        None,
    ]
    first, second, third, bare, *_ = (row["key"] for row in found)
    assert first == second == third
    (ordinary,) = read(MemorySource([{"t": "a"}], text="t"), reader)
    assert bare == ordinary["key"] != first
    assert "prefix" not in ordinary


def test_prefixes_in_files(tmp_path, reader):
    definition = PREFIX.to_dict()
    rows = [{"instruction": "q", "output": "r", "p": json.dumps(definition)}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "r.parquet")
    (tmp_path / "r.jsonl").write_text(json.dumps(rows[0]))
    keys = set()
    for source in (
        ParquetSource(tmp_path / "r.parquet", converter="alpaca", prefix="p", meta="p"),
        JsonSource(tmp_path / "r.jsonl", converter="alpaca", prefix="p", meta="p"),
    ):
        (row,) = read(source, reader)
        assert json.loads(row["prefix"]) == definition
        assert json.loads(row["messages"])[0]["content"][0]["text"] == "q"
        keys.add(row["key"])
    assert len(keys) == 1
    with pytest.raises(SourceError, match=r"no column 'q'; its columns are: instruction"):
        ParquetSource(tmp_path / "r.parquet", converter="alpaca", prefix="q").open(reader)


def test_what_default_recipes_suit(reader, tmp_path: Path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"chosen": "r", "rejected": "w", "prompt": "q"}')
    assert JsonSource(path, converter="pair").open(reader).defaults == "pairs"
    row = [{"conversations": []}]
    source = MemorySource(row, converter="sharegpt", on_error="skip")
    assert source.open(reader).defaults == "roles"
