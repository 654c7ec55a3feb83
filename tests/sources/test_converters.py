"""Converters agree with what was written by hand, in every format: rows, messages, ids, faults."""

import hashlib
import json
import re
from itertools import product
from random import Random

import pyarrow as pa
import pytest
from converter_cases import CASES, Bad, Good, messages
from effort import often, some
from source_rows import ALL, every_source, read, texts

from duckplets.errors import SourceError
from duckplets.sources import CsvSource, JsonSource, MemorySource, ParquetSource
from duckplets.text.prefix import Field, Prefix

BAD = [(c, n) for c, cases in CASES.items() for n in cases if isinstance(cases[n][1], Bad)]
_each = pytest.mark.parametrize


def check(row, good):
    assert row["skip"] is None
    assert json.loads(row["messages"]) == messages(good.turns)
    expected = [("anchor", good.anchor), ("context", good.reply)]
    if good.rejected is not None:
        assert good.rejected_turns is not None
        expected.append(("rejected", good.rejected))
        assert json.loads(row["rejected_messages"]) == messages(good.rejected_turns)
    assert texts(row) == expected


@_each(("converter", "on_error"), list(product(CASES, ["skip", "quarantine"])))
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
            assert (row["messages"], row["key"]) == (None, None)
            assert on_error == "skip" or json.loads(row["quarantined"]) == given
    assert len({row["skip"] for row in rows}) < 20, "a report of reasons would be endless"
    assert source.open(reader).defaults == ("pairs" if converter == "pair" else "roles")


def test_a_bad_row_is_an_error(reader):
    for converter, name in some(BAD, less=len(CASES)):
        cases = CASES[converter]
        given, bad = cases[name]
        good = next(row for row, expected in cases.values() if isinstance(expected, Good))
        with pytest.raises(SourceError) as caught:
            read(MemorySource([*[good] * 16, given], converter=converter), reader)
        assert str(caught.value) == (
            f"source 'memory', row 17: {bad.detail}; on_error='skip' or 'quarantine' continues "
            f"without such rows"
        )


# ---- every format

_PIECES = [*'ab"\\{0é\n\u2028', "b c", " ", "漢字", "[1]", "😀", "e\u0301"]


def text(draw):
    return "".join(draw.choices(_PIECES, k=draw.randint(0, 4)))


def sound(draw):
    return text(draw) + draw.choice("xyz")


def sound_row(draw, converter, number):
    """Return a row whose fields have the same types in every row."""
    more = {"key": f"k{number}", "system": draw.choice(["", "Be."]), "day": "2024-02-03", "n": 7}
    if converter == "alpaca":
        return {**more, "instruction": sound(draw), "input": text(draw), "output": sound(draw)}
    count = draw.randint(1, 3)
    if converter == "sharegpt":
        tags = ["human", "gpt"] * count
        return {**more, "conversations": [{"from": tag, "value": sound(draw)} for tag in tags]}
    said = [{"role": r, "content": sound(draw)} for r in ["user", "assistant"] * count]
    said[-1] |= {"name": "A"} if number % 2 else {"train": {"b": [number], "a": None}}
    if converter == "openai":
        return {**more, "messages": said}
    other = [*said[:-1], {"role": "assistant", "content": sound(draw)}]
    return {**more, "chosen": said, "rejected": other}


@_each(
    ("converter", "with_id"),
    some(product(["alpaca", "sharegpt", "openai", "pair"], [True, False]), less=2),
)
def test_every_format_gives_the_same_rows_and_ids(tmp_path, reader, converter, with_id):
    draw = Random(converter)
    rows = [sound_row(draw, converter, number) for number in range(often(40, less=6))]
    mapping = {"converter": converter, "date": "day", "meta": ["n"]}
    if with_id:
        mapping |= {"id": "key", "on_error": "quarantine"}
    sources = every_source(tmp_path, rows, ("csv", *ALL), **mapping)
    results = {name: read(source, reader) for name, source in sources.items()}
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
    turns = {
        (("human", "q"), ("gpt", "r")): None,
        (("human", "q"),): "has no turn of the assistant with text",
        None: "is missing",
        (("human", "q"), ("gpt", None)): "has a turn without 'value'",
        (): "is empty",
        ((None, "q"),): "has a turn without 'from'",
        (("a\u00e9", "q"),): "has an unknown 'from'",
    }
    rows = [
        {"conversations": None if of is None else [{"from": t, "value": v} for t, v in of]}
        for of in turns
    ]
    sources = every_source(tmp_path, rows, ALL, converter="sharegpt", on_error="quarantine")
    for name, source in sources.items():
        for made, wrong, given in zip(read(source, reader), turns.values(), rows, strict=True):
            assert made["skip"] == (wrong and f"sharegpt: conversations {wrong}"), name
            assert json.loads(made["quarantined"] or "null") == (made["skip"] and given)


def test_columns_that_are_typed_are_text_or_not(reader):
    for values in ([1, 2], [1.5, 2.5], [True, False], [["a"], ["b"]], [{"a": 1}, {"a": 2}]):
        rows = [{"instruction": "q", "output": x} for x in values]
        found = [
            read(MemorySource(records, converter="alpaca", on_error="quarantine"), reader)
            for records in (rows, pa.Table.from_pylist(rows))
        ]
        assert [made["skip"] for made in found[0]] == ["alpaca: output is not text"] * 2
        assert found[0] == found[1]
    table = pa.table(
        {
            "instruction": pa.array([b"q", b"p"], pa.large_binary()),
            "output": pa.array(["r", "r"]).dictionary_encode(),
            "input": pa.nulls(2),
            "system": pa.array([float("nan"), None]),
        }
    )
    found = read(MemorySource(table, converter="alpaca"), reader)
    assert [[text for _, text in texts(made)] for made in found] == [["q", "r"], ["p", "r"]]


# ---- mappings and columns


REFUSED = [
    ({"converter": "alpacca"}, "no converter 'alpacca' (did you mean 'alpaca'?); there are: "),
    ({"converter": 5}, "converter=5: give the name of a converter"),
    ({"converter": "pair", "anchor": "a"}, "converter='pair' makes the texts itself: leave"),
    ({"converter": "pair", "context": ["a"]}, "out context="),
    ({"converter": "alpaca", "text": "a"}, "leave out text="),
    ({"text": "a", "on_error": "drop"}, "on_error='drop': give 'raise', 'skip'"),
    ({"converter": "pair", "on_error": "drop"}, "on_error='drop': give 'raise', 'skip'"),
    ({"text": "a", "prefix": ["p"]}, "prefix=['p']: give the name of a column"),
]


def test_mappings_that_are_refused():
    for mapping, message in REFUSED:
        with pytest.raises(SourceError) as caught:
            MemorySource([], **mapping)
        assert message in str(caught.value)


def test_fields_match_whatever_their_case_and_files_may_differ(tmp_path, reader):
    (tmp_path / "a.csv").write_text("Instruction,OUTPUT\nq,r\n")
    (tmp_path / "b.csv").write_text("output,system,instruction\nr,Be,q\n")
    (tmp_path / "c.csv").write_text("output,input\nr,q\n")
    rows = read(CsvSource(str(tmp_path / "*.csv"), converter="alpaca"), reader)
    assert [[text for _, text in texts(row)] for row in rows] == [["q", "r"]] * 3
    assert [row["sections"][0]["heading"] for row in rows] == ["instruction"] * 2 + ["input"]
    assert [len(json.loads(row["messages"])) for row in rows] == [2, 3, 2]
    lacking = [{"instruction": "q", "outputs": "r"}]
    kinds, how = ("csv", "parquet", "table", "sql"), {"converter": "alpaca", "on_error": "skip"}
    for source in every_source(tmp_path, lacking, kinds, **how).values():
        with pytest.raises(SourceError, match=r"no column 'output' \(did you mean 'outputs'\?\);"):
            source.open(reader)


def test_unreadable_rows_stay_what_they_were(tmp_path, reader):
    lines = ['{"instruction": "q", "output": "r"}', "{broken", "[1]", "", '{"output": "r"}']
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(lines))
    rows = read(JsonSource(path, converter="alpaca", on_error="quarantine"), reader)
    assert [(row["row"], row["skip"], row["quarantined"]) for row in rows] == [
        (1, None, None),
        (2, "invalid JSON", json.dumps(lines[1])),
        (3, "not an object", json.dumps(lines[2])),
        (5, "alpaca: instruction is missing", lines[4]),
    ]
    for left, line, said in ((lines, 2, "invalid JSON"), (lines[3:], 2, "field 'instruction'")):
        path.write_text("\n".join(left))
        place = f"source 'r', row {line} ({path}, line {line}): {said}"
        with pytest.raises(SourceError, match=f"^{re.escape(place)}"):
            read(JsonSource(path, converter="alpaca"), reader)


def test_any_name_of_a_column_and_any_type_can_be_set_aside(reader):
    columns = {  # type, value, and what is kept of it
        "$field": (pa.string(), "x", "x"),
        "it's": (pa.binary(), b"\xc3\xa9", "é"),
        "number": (pa.float64(), float("inf"), None),
        "day": (pa.date32(), 0, "1970-01-01"),
        "map": (pa.map_(pa.string(), pa.int32()), [("k", 1)], {"k": 1}),
        "conversations": (pa.list_(pa.string()), [], []),
    }
    table = pa.table({name: pa.array([v], kind) for name, (kind, v, _) in columns.items()})
    source = MemorySource(table, converter="sharegpt", meta="$field", on_error="quarantine")
    (row,) = read(source, reader)
    assert row["skip"] == "sharegpt: conversations is empty"
    assert json.loads(row["quarantined"]) == {name: kept for name, (*_, kept) in columns.items()}


# ---- ids


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def said(*turns):
    return [{"role": role, "content": text} for role, text in turns]


QA = [("user", "q"), ("assistant", "r")]


def test_ids_of_converted_rows_for_ever(reader):
    def digest(identity):
        sections = f"2 anchor {sha('q')} context {sha('r')}"
        return sha(f"{sections}dg-t0 m0 x{identity}")[:16]

    rows = [{"instruction": "q", "output": "r", "system": system} for system in ("", "Be")]
    plain, with_system = read(MemorySource(rows, converter="alpaca"), reader)
    assert plain["key"] == digest("alpaca") == "8a61059615f4d6fd"
    assert with_system["key"] == digest(f"alpaca {sha('Be')}")
    (row,) = read(MemorySource([{"messages": said(*QA)}], converter="openai"), reader)
    md5 = hashlib.md5(row["messages"].encode(), usedforsecurity=False).hexdigest()
    assert row["key"] == digest(f"messages {md5}")


def test_what_sections_do_not_tell_apart_has_another_id(reader):
    turns = [*QA, ("user", "p"), ("assistant", "s")]
    conversations = [
        turns,
        [("user", "q\n\nr\n\np"), ("assistant", "s")],
        [("user", "q"), ("user", "r\n\np"), ("assistant", "s")],
        [*turns, ("user", "t")],
        [("system", "S"), *turns],
    ]
    rows = [{"messages": said(*each)} for each in conversations]
    found = read(MemorySource([*rows, rows[0]], converter="openai"), reader)
    keys = [row["key"] for row in found]
    assert len({tuple(text for _, text in texts(row)) for row in found}) == 1
    assert keys[0] == keys[-1]
    assert len(set(keys)) == len(rows)


# ---- prefixes

PREFIX = Prefix(probability=0.5, variants=[[Field("source", ["faq"])]])
TOO_OFTEN = PREFIX.to_dict() | {"probability": 2}


def test_prefixes_of_records(tmp_path, reader):
    as_json = json.dumps(PREFIX.to_dict(), indent=1)
    rows = [{"t": "a", "p": p} for p in (PREFIX, PREFIX.to_dict(), as_json)]
    rows += [{"t": "a"}, *({"t": "b", "p": wrong} for wrong in ("[1]", "{", 5, TOO_OFTEN))]
    found = read(MemorySource(rows, text="t", prefix="p"), reader)
    assert [row["skip"] for row in found] == [None] * 4 + ["unreadable prefix"] * 4
    given = [json.loads(row["prefix"] or "0") for row in found[:4]]
    assert given == [*[PREFIX.to_dict()] * 3, 0]
    first, second, third, bare, *_ = (row["key"] for row in found)
    assert first == second == third
    (ordinary,) = read(MemorySource([{"t": "a"}], text="t"), reader)
    assert bare == ordinary["key"] != first
    assert "prefix" not in ordinary
    files = [{"instruction": "q", "output": "r", "p": as_json}]
    how = {"converter": "alpaca", "prefix": "p", "meta": "p"}
    sources = every_source(tmp_path, files, ("parquet", "jsonl"), **how)
    (one,), (other,) = (read(source, reader) for source in sources.values())
    assert json.loads(one["prefix"]) == json.loads(other["prefix"]) == PREFIX.to_dict()
    assert one["key"] == other["key"]
    with pytest.raises(SourceError, match=r"no column 'q'; its columns are: instruction"):
        ParquetSource(tmp_path / "r.parquet", converter="alpaca", prefix="q").open(reader)
