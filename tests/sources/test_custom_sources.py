"""A user's own sources: the same rows as from memory, resumed anywhere, and errors with a place."""

import datetime
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from source_rows import rows_in, untold

import duckplets as dp
from duckplets.ingest import ingest
from duckplets.sources import Mark, MemorySource, row_batches
from duckplets.sources.custom import CustomSource, PagedSource, adapted
from duckplets.text.prefix import Field, Prefix


class Paged:
    """Records by pages; the cursor is the number of the next one."""

    def __init__(self, records, page=3, **more):
        self.name = "paged"
        self.records = records
        self.page = page
        self.__dict__.update(more)

    def batches(self, cursor):
        for start in range(cursor or 0, len(self.records), self.page):
            stop = start + self.page
            yield self.records[start:stop], stop


class Given:
    """What a test says."""

    def __init__(self, batches, name="given"):
        self.name = name
        self.batches = batches


@pytest.fixture
def many_marks(monkeypatch):
    """A mark after each batch, and a commit at each mark."""
    monkeypatch.setattr(row_batches, "MAX_ROWS", 1)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 1)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)


def rows_of(source, reader, cursor=None):
    rows = adapted(source).open(reader, cursor)
    return records_in(rows.batches)


def from_memory(reader, records, **mapping):
    return records_in(MemorySource(records, **mapping).open(reader).batches)


def records_in(items):
    """Rows; of those that are skipped nothing but that."""
    return [
        untold(row) if row["skip"] is None else {k: row[k] for k in ("row", "skip")}
        for row in rows_in(items)
    ]


def ids(rows):
    return [row["key"] for row in rows if row["skip"] is None]


# ---- the same rows as from memory

PLAIN = [
    {
        "id": f"r{i}",
        "anchor": f"title {i} é\u2028" if i % 7 else 5,
        "positive": ["a", 1.5, {"x": None}] if i % 5 == 0 else f"body {i}\n",
        "context": [["one", " ", None, 2], "two", ["x"], [], None][i % 5],
        "date": ["2024-02-03", datetime.date(2024, 1, 2), None, "soon"][i % 4],
        "group": i % 3 or None,
        "taxonomy": [["top", "sub"], "top", None, [1, 2.5]][i % 4],
        "trust": [0.25, "0.5", 1.5][i % 3],
    }
    for i in range(40)
]
OWN = {key: key for key in PLAIN[0]}


def test_records_with_their_own_keys_are_those_of_memory(reader):
    expected = from_memory(reader, PLAIN, **OWN)
    assert {row["skip"] for row in expected} == {
        *(None, "not text: number", "not text: list", "no context: context"),
        "trust outside 0..1",
    }
    assert {row.get("note") for row in expected} == {None, "unreadable date"}
    assert rows_of(Paged(PLAIN), reader) == expected
    assert rows_of(Given(lambda _: [(iter(PLAIN), 1)]), reader) == expected
    without_ids = [{k: v for k, v in record.items() if k != "id"} for record in PLAIN]
    mapping = {k: v for k, v in OWN.items() if k != "id"}
    found = rows_of(Paged(without_ids), reader)
    assert found == from_memory(reader, without_ids, **mapping)
    assert len(set(ids(found))) > 5


def test_each_record_is_mapped_by_the_keys_it_has(reader):
    records = [
        {"anchor": "a", "positive": "b"},
        {"text": "t", "group": "g"},
        {"anchor": "a"},
        {"context": ["x", "y"], "id": 7},
        {"anchor": " ", "positive": "b"},
        {"anchor": "a", "positive": None},
        {"anchor": "a", "context": []},
        {"text": math.nan},
        {"text": "t", "id": ""},
        {"text": np.float64(1e16), "trust": np.float32(0.5)},
        {"anchor": None, "positive": None, "text": "t"},
        {"anchor": "a", "positive": "p", "text": None},
    ]
    found = rows_of(Paged(records), reader)
    for number, (record, row) in enumerate(zip(records, found, strict=True), 1):
        own = {key: key for key, value in record.items() if number < 11 or value}
        (expected,) = from_memory(reader, [record], **own)
        assert row == expected | {"row": number}, record
    assert [row["skip"] for row in found[4:9]] == [
        *("no anchor", "no positive", "no context: context", "no text", "no id")
    ]


def test_what_is_no_record_is_counted_as_in_memory(reader):
    loop = {}
    loop["text"] = [loop]
    records = [["text"], "text", 5, {"text": "\ud800"}, loop, {"text": "x"}]
    found = rows_of(Paged(records), reader)
    assert found == from_memory(reader, records, text="text")
    reasons = [row["skip"] for row in found]
    assert reasons == [*["not an object"] * 3, "invalid UTF-8", "invalid JSON", None]
    odd = [None, {}, {"id": "x"}, {"meta": {"a": "\ud800"}, "text": "t"}]
    reasons = [row["skip"] for row in rows_of(Paged(odd), reader)]
    assert reasons == ["dropped by the source", "no text", "no text", "invalid UTF-8"]


def test_each_key_of_meta_is_metadata(reader):
    metas = [
        {"lang": "de", "n": 1.0, "id": "own", "empty": " ", "none": None, "list": [1, {"a": "é"}]},
        {"b": True, "a": datetime.date(2024, 1, 2), "Z": 10**30, "é": "x"},
        {},
        None,
        "plain",
    ]
    found = rows_of(Paged([{"text": f"t{i}", "meta": m} for i, m in enumerate(metas)]), reader)
    for i, (meta, row) in enumerate(zip(metas, found, strict=True)):
        columns = meta if isinstance(meta, dict) else {"meta": meta}
        record = {**columns, "text": f"t{i}"}
        mapping = {"meta": list(columns)} if columns else {}
        (expected,) = from_memory(reader, [record], text="text", **mapping)
        assert row == expected | {"row": i + 1}
    assert dict(found[0]["meta"]) == {
        "id": "own",
        "lang": "de",
        "list": '[1,{"a":"é"}]',
        "n": "1.0",
    }
    assert [key for key, _ in found[1]["meta"]] == ["Z", "a", "b", "é"]


def test_prefixes_mappings_and_forms_of_batches(reader):
    records = [{"T": f"t{i}", "b": f"b{i}", "l": ["x", i], "w": 0.5} for i in (1, 2)]
    mapping = {"anchor": "t", "positive": "b", "taxonomy": "l", "meta": ["l", "w"]}
    found = rows_of(Paged(records, mapping=mapping), reader)
    assert found == from_memory(reader, records, **mapping)
    prefix = Prefix(0.5, [[Field("source", "wiki")]])
    given = (prefix, prefix.to_dict(), json.dumps(prefix.to_dict()), None)
    records = [*({"text": "a", "prefix": each} for each in given), {"text": "a"}]
    found = rows_of(Paged(records, page=5), reader)
    assert found == from_memory(reader, records, text="text", prefix="prefix")
    assert [json.loads(row["prefix"] or "0") for row in found] == [prefix.to_dict()] * 3 + [0, 0]
    assert all("prefix" not in row for row in rows_of(Paged(records[4:]), reader))
    batches = [
        ([{"text": "a"}], 1),
        ((), 2),
        (pa.table({"text": ["b", "c"]}), 3),
        (iter([{"anchor": "d", "positive": "e"}]), 4),
        (pa.table({"text": pa.array([], pa.string())}), 5),
    ]
    found = rows_of(Given(lambda _: batches), reader)
    assert [row["sections"][0]["text"] for row in found] == ["a", "b", "c", "d"]
    assert [row["row"] for row in found] == [1, 2, 3, 4]


def test_arrow_data_is_that_of_memory(reader):
    table = pa.table(
        {
            "id": [1, 2, 3, 4],
            "anchor": pa.array(["a", "b", None, "d"]).dictionary_encode(),
            "positive": [b"x", b"\xff", b"z", b"w"],
            "context": pa.array([["p", " "], ["q"], ["r"], []], pa.list_(pa.string())),
            "date": pa.array([datetime.date(2024, 1, i) for i in range(1, 5)]),
            "trust": [0.5, None, 0.1, 0.2],
            "group": pa.array([0.1, 1e16, None, 2], pa.float32()),
            "taxonomy": pa.nulls(4),
        }
    )
    own = from_memory(reader, table, **{name: name for name in table.column_names})
    assert [row["skip"] for row in own] == [
        *(None, "not text: binary", "no anchor", "no context: context")
    ]
    for make in (lambda: table, lambda: table.to_batches()[0], lambda: table.to_reader(1)):
        assert rows_of(Given(lambda _, make=make: [(make(), 1)]), reader) == own
    # Metadata may be a struct or a map.
    metas = [{"a": "1", "b": None}, {"a": None, "b": "x"}]
    expected = rows_of(Paged([{"text": "t", "meta": m} for m in metas]), reader)
    struct = pa.table({"text": ["t", "t"], "meta": metas})
    pairs = [list(meta.items()) for meta in metas]
    maps = pa.table(
        {"text": ["t", "t"], "meta": pa.array(pairs, pa.map_(pa.string(), pa.string()))}
    )
    for table in (struct, maps):
        assert rows_of(Given(lambda _, t=table: [(t, 1)]), reader) == expected
    assert dict(expected[1]["meta"]) == {"b": "x"}


# ---- what a source says of itself


def test_what_a_source_says_is_taken_over(reader):
    source = Paged(PLAIN, kind="queue", uri="mq://x", trust=0.75, settings=lambda: {"q": [1]})
    found = adapted(source)
    assert isinstance(source, PagedSource)
    assert found.in_pieces
    assert (found.name, found.kind, found.uri, found.trust) == ("paged", "queue", "mq://x", 0.75)
    assert found.default_name() == "paged"
    settings = found.settings()
    assert settings["settings"] == {"q": [1]}
    assert settings["columns"]["trust"] == 0.75
    plain = adapted(Paged([]))
    assert (plain.kind, plain.uri, plain.trust) == ("custom", None, None)
    mapped = CustomSource(Paged([]), anchor=["a", "b"], trust=0.1)
    assert mapped.settings()["columns"]["anchor"] == ["a", "b"]
    assert mapped.settings() != plain.settings()
    assert json.loads(json.dumps(mapped.settings())) == mapped.settings()


class NoName:
    def batches(self, cursor):
        return []


NO_SOURCES = [
    (
        "faq.csv",
        "'faq.csv' is a path, not a source: say how to read it, for example dp.Source(",
    ),
    (Path("faq.csv"), "dp.Source('faq.csv', anchor=…"),
    ([{"text": "x"}], "a list is not a source: give dp.Source(records"),
    (5, "int has no batches(): a source has a name and batches(cursor)"),
    (NoName(), "NoName has no name: a source has a name and batches(cursor)"),
    (Paged, "Paged is a class: give an object, Paged(…)"),
    (Given([], "x"), "Given.batches is no method"),
    (Given(lambda _: [], 5), "Given has name=5"),
    (Paged([], trust=3), "trust=3: give a number from 0 to 1"),
    (Paged([], trust="w"), "source 'paged': trust='w': give a number"),
    (Paged([], mapping=["a"]), "source 'paged': mapping=['a']: give a dictionary"),
    (Paged([], mapping={"ankor": "a"}), "mapping has 'ankor' (did you mean 'anchor'?)"),
    (Paged([], mapping={"positive": "a"}), "positive= needs anchor="),
    (
        Paged([], settings=lambda: {"a": {1, 2}}),
        "settings() {'a': {1, 2}} (dict) is stored as JSON",
    ),
    (Paged([], settings=lambda: 1 / 0), "'paged': settings(): ZeroDivisionError: division by zer"),
]


def test_what_is_no_source_is_refused():
    for source, message in NO_SOURCES:
        with pytest.raises(dp.SourceError) as raised:
            adapted(source).settings()
        assert message in str(raised.value)


# ---- going on


def test_a_mark_has_the_cursor_of_its_time_and_all_rows_before_it(reader, many_marks):
    def batches(_):
        cursor = {"seen": []}
        for i, told in enumerate((False, True, False, False, True, False)):
            cursor["seen"].append(i)
            yield [{"text": f"t{i}"}], cursor if told else None

    items = list(adapted(Given(batches)).open(reader).batches)
    marks = [item.cursor for item in items if isinstance(item, Mark)]
    assert [(mark["at"]["seen"], mark["rows"]) for mark in marks] == [
        *(([0, 1], 2), ([0, 1, 2, 3, 4], 5))
    ]
