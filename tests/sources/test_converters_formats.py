"""Converted rows: every format gives those of every other."""

from __future__ import annotations

import json
from itertools import product
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
from effort import often, some
from source_rows import ALL, every_source, read

from duckplets import MemorySource

_each = pytest.mark.parametrize
_PIECES = [*'ab"\\{0é\n\u2028', "b c", " ", "漢字", "[1]", "😀", "e\u0301"]


def text(draw: Random) -> str:
    return "".join(draw.choices(_PIECES, k=draw.randint(0, 4)))


def sound(draw: Random) -> str:
    return text(draw) + draw.choice("xyz")


def sound_row(draw: Random, converter: str, number: int) -> dict[str, Any]:
    """Return a row whose fields have the same types in every row."""
    more = {"key": f"k{number}", "system": draw.choice(["", "Be."]), "day": "2024-02-03", "n": 7}
    if converter == "alpaca":
        return {**more, "instruction": sound(draw), "input": text(draw), "output": sound(draw)}
    count = draw.randint(1, 3)
    if converter == "sharegpt":
        tags = ["human", "gpt"] * count
        said = [{"from": tag, "value": sound(draw)} for tag in tags]
        return {**more, "conversations": said}
    said = [{"role": r, "content": sound(draw)} for r in ["user", "assistant"] * count]
    if converter == "openai":
        return {**more, "messages": said}
    other = [*said[:-1], {"role": "assistant", "content": sound(draw)}]
    return {**more, "chosen": said, "rejected": other}


@_each(
    ("converter", "with_id"),
    some(product(["alpaca", "sharegpt", "openai", "pair"], [True, False]), less=3),
)
def test_every_format_gives_the_same_rows_and_ids(tmp_path, reader, converter, with_id):
    draw = Random(converter)
    rows = [sound_row(draw, converter, number) for number in range(often(40, less=10))]
    mapping: dict[str, Any] = {"converter": converter, "date": "day", "meta": ["n"]}
    if with_id:
        mapping |= {"id": "key", "on_error": "quarantine"}
    results = {
        name: read(source, reader)
        for name, source in every_source(tmp_path, rows, ("csv", *ALL), **mapping).items()
    }
    first = results["records"]
    assert all(made["skip"] is None and json.loads(made["messages"]) for made in first)
    assert all(dict(made["meta"]) == {"n": "7"} for made in first)
    assert len({made["key"] for made in first}) == len(rows)
    assert [made["key"] for made in first] == [
        given["key"] if with_id else f"{made['content_hash']:016x}"
        for given, made in zip(rows, first, strict=True)
    ]
    for name, found in results.items():
        assert found == first, name


def test_every_format_gives_the_same_errors(tmp_path, reader):
    rows: list[dict[str, Any]] = [
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "r"}]},
        {"conversations": [{"from": "human", "value": "q"}]},
        {"conversations": None},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": None}]},
        {"conversations": []},
        {"conversations": [{"from": None, "value": "q"}]},
        {"conversations": [{"from": "a\u00e9", "value": "q"}]},
    ]
    sources = every_source(tmp_path, rows, ALL, converter="sharegpt", on_error="quarantine")
    results = {name: read(source, reader) for name, source in sources.items()}
    first = results["records"]
    assert [made["skip"] for made in first] == [
        None,
        "sharegpt: conversations has no turn of the assistant with text",
        "sharegpt: conversations is missing",
        "sharegpt: conversations has a turn without 'value'",
        "sharegpt: conversations is empty",
        "sharegpt: conversations has a turn without 'from'",
        "sharegpt: conversations has an unknown 'from'",
    ]
    for name, found in results.items():
        for made, other, given in zip(found, first, rows, strict=True):
            assert made["skip"] == other["skip"], name
            assert json.loads(made["quarantined"] or "null") == (made["skip"] and given)


@_each(
    "values",
    [[1, 2], [1.5, 2.5], [True, False], [["a"], ["b"]], [{"a": 1}, {"a": 2}]],
    ids=["integers", "fractions", "truths", "lists", "objects"],
)
def test_typed_columns_that_are_not_text(reader, values):
    rows = [{"instruction": "q", "output": x} for x in values]
    found = [
        read(MemorySource(records, converter="alpaca", on_error="quarantine"), reader)
        for records in (rows, pa.Table.from_pylist(rows))
    ]
    assert [made["skip"] for made in found[0]] == ["alpaca: output is not text"] * 2
    assert found[0] == found[1]


def test_binary_and_dictionary_columns_are_text(reader):
    rows = pa.table(
        {
            "instruction": pa.array([b"q", b"p"], pa.large_binary()),
            "output": pa.array(["r", "r"]).dictionary_encode(),
            "input": pa.nulls(2),
            "system": pa.array([float("nan"), None]),
        }
    )
    found = read(MemorySource(rows, converter="alpaca"), reader)
    assert [[s["text"] for s in made["sections"]] for made in found] == [["q", "r"], ["p", "r"]]
