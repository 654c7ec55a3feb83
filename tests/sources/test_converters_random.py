"""Random rows: SQL agrees with plain Python, and every format with every other."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from converter_reference import WrongError, convert
from effort import often, some
from source_rows import untold

from duckplets import ArrowSource, CsvSource, JsonSource, MemorySource, ParquetSource, SqlSource
from duckplets.db.database import Database
from duckplets.sources import Source

ROWS = 600
_each = pytest.mark.parametrize
_PIECES = [
    "a",
    "b c",
    " ",
    "\n",
    "é",
    "漢字",
    '"',
    "\\",
    "\u2028",
    "[1]",
    "{",
    "😀",
    "e\u0301",
    "0",
]
_ODD = [None, 5, -1.5, True, ["x"], {"a": 1}, [], ""]


def text(draw: Random) -> str:
    return "".join(draw.choices(_PIECES, k=draw.randint(0, 4)))


def value(draw: Random) -> Any:
    return draw.choice(_ODD) if draw.random() < 0.08 else text(draw) + draw.choice(["", "x", "y"])


def fields_of(draw: Random, **fields: Callable[[], Any]) -> dict[str, Any]:
    return {name: make() for name, make in fields.items() if draw.random() < 0.85}


def turn(draw: Random, tags: list[str], keys: tuple[str, str], *, blocks: bool) -> Any:
    if draw.random() < 0.03:
        return draw.choice([None, 5, "text", [], {}])
    content = value(draw)
    if blocks and draw.random() < 0.3:
        content = [{"type": "text", "text": value(draw)} for _ in range(draw.randint(0, 3))]
    tag = draw.choice(["bot", 5, None, "User"]) if draw.random() < 0.03 else draw.choice(tags)
    found = {keys[0]: tag, keys[1]: content}
    if blocks and draw.random() < 0.1:
        found["tool_calls"] = [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]
        found[keys[1]] = draw.choice([None, content])
    if blocks and tag == "tool" and draw.random() < 0.5:
        found["tool_call_id"] = "c"
    if draw.random() < 0.2:
        found[draw.choice(["weight", "loss_weight"])] = draw.choice([0.0, 0.25, 1.0, None])
    return {name: x for name, x in found.items() if draw.random() < 0.99}


def turns(draw: Random, tags: list[str], keys: tuple[str, str], *, blocks: bool = True) -> Any:
    if draw.random() < 0.05:
        return draw.choice(_ODD)
    made = [turn(draw, tags, keys, blocks=blocks) for _ in range(draw.randint(0, 5))]
    as_text = draw.random() < 0.1
    return json.dumps(made, ensure_ascii=draw.random() < 0.5) if as_text else made


def row(draw: Random, converter: str) -> dict[str, Any]:
    def plain() -> Any:
        return value(draw)

    if converter == "alpaca":
        return fields_of(draw, system=plain, instruction=plain, input=plain, output=plain)
    if converter == "sharegpt":
        tags = ["human", "human", "gpt", "gpt", "user", "assistant", "system", "tool"]
        tags += ["function_call", "observation"]
        keys = ("from", "value")
        return fields_of(
            draw, conversations=lambda: turns(draw, tags, keys, blocks=False), system=plain
        )
    tags = ["user", "user", "assistant", "assistant", "system", "tool"]

    def spoken() -> Any:
        return turns(draw, tags, ("role", "content"))

    if converter == "openai":
        tags += ["developer", "function"]
        return fields_of(draw, messages=spoken)

    def either() -> Any:
        return draw.choice([plain, spoken])()

    more = fields_of(
        draw, system=plain, instruction=plain, input=plain, question=plain, prompt=either
    )
    kept = {name: x for name, x in more.items() if draw.random() < 0.5}
    chosen, rejected = either(), either()
    if isinstance(chosen, list) and draw.random() < 0.6:  # as it should be: one prompt, two replies
        rejected = [*chosen[:-1], {"role": "assistant", "content": value(draw)}]
    return {**kept, "chosen": chosen, "rejected": rejected}


@pytest.fixture(scope="module")
def reader() -> Iterator[Database]:
    database = Database.reader()
    yield database
    database.close()


def read(source: Source, reader: Database) -> list[dict[str, Any]]:
    found = source.open(reader).batches
    return [untold(row) for batch in found for row in batch.to_pylist()]


def expected(converter: str, given: dict[str, Any]) -> Any:
    try:
        return convert(converter, given)
    except WrongError as wrong:
        return f"{converter}: {wrong}"


def outcome(found: dict[str, Any]) -> Any:
    if found["skip"] is not None:
        return found["skip"]
    sections = [(section["role"], section["text"]) for section in found["sections"]]
    rejected = found.get("rejected_messages")
    return sections, json.loads(found["messages"]), rejected and json.loads(rejected)


@_each("seed", range(often(2, less=1)))
@_each("converter", ["alpaca", "sharegpt", "openai", "pair"])
def test_random_rows_agree_with_plain_python(reader, converter, seed):
    draw = Random(f"{converter} {seed}")
    rows = [row(draw, converter) for _ in range(ROWS)]
    found = read(MemorySource(rows, converter=converter, on_error="skip"), reader)
    good = 0
    for given, made in zip(rows, found, strict=True):
        wanted = expected(converter, given)
        assert outcome(made) == wanted, given
        good += not isinstance(wanted, str)
    assert ROWS // 20 < good < ROWS


# ---- formats


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    names = list(dict.fromkeys(name for given in rows for name in given))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, quoting=csv.QUOTE_ALL)
        writer.writeheader()
        for given in rows:
            cells = {n: x if isinstance(x, str) else json.dumps(x) for n, x in given.items()}
            writer.writerow(cells)
    return path


def every_source(folder: Path, rows: list[dict[str, Any]], **mapping: Any) -> dict[str, Source]:
    table = pa.Table.from_pylist(rows)
    parquet, feather, lines = folder / "r.parquet", folder / "r.feather", folder / "r.jsonl"
    pq.write_table(table, parquet, row_group_size=17)
    pyarrow.feather.write_feather(table, str(feather))
    lines.write_text("".join(f"{json.dumps(given)}\n" for given in rows), encoding="utf-8")
    array = folder / "r.json"
    array.write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")
    return {
        "jsonl": JsonSource(lines, **mapping),
        "json": JsonSource(array, **mapping),
        "parquet": ParquetSource(parquet, **mapping),
        "feather": ArrowSource(feather, **mapping),
        "records": MemorySource(rows, **mapping),
        "table": MemorySource(table, **mapping),
        "reader": MemorySource(table.to_reader(max_chunksize=7), **mapping),
        "sql": SqlSource(f"FROM '{parquet}'", **mapping),
        "csv": CsvSource(write_csv(folder / "r.csv", rows), **mapping),
    }


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
        for name, source in every_source(tmp_path, rows, **mapping).items()
    }
    first = results["records"]
    assert [outcome(made) for made in first] == [expected(converter, given) for given in rows]
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
    sources = every_source(tmp_path, rows, converter="sharegpt", on_error="quarantine")
    del sources["csv"]  # a null is the text "null" there
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
