"""What counts as text, in every kind of source, against a few lines of plain Python."""

import datetime
import decimal
import json
import math
import uuid
from random import Random
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from effort import often, some
from source_rows import Paged, every_source, rows_of

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.ingest.outcome_counts import ONE_ANCHOR
from duckplets.sources import (
    ArrowSource,
    CustomSource,
    DatasetSource,
    JsonSource,
    MemorySource,
    ParquetSource,
    SqlSource,
)

MAPPING = {"anchor": ["a", "b"], "positive": ["c", "d"], "context": "e", "negative": ["f", "g"]}
COLUMNS = "abcdefg"
DAY = datetime.date(2024, 2, 3)
WORDS = ["", " ", "x", "5", "[]", "{}", "true", "null", '["a"]', "[Note] y", "é\u2028", "-1"]


# -- the rule, written down once more


def judged(value):
    """The texts of a value, or what it is that is none."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return "binary"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return []
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, decimal.Decimal)):
        return "number"
    if isinstance(value, uuid.UUID):
        return "UUID"
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        return "date"
    if isinstance(value, dict):
        return "map"
    there = [item for item in value if item is not None and item == item]
    if not all(isinstance(item, (str, bytes)) and judged(item) != "binary" for item in there):
        return "list"
    return [text for item in there for text in judged(item)]


def outcome(record):
    """The sections of a record, or why it is none."""
    sections = []
    missing = []
    for part, names in (("anchor", "ab"), ("positive", "cd")):
        texts = []
        for name in names:
            texts = texts or judged(record.get(name))
        if isinstance(texts, str):
            return f"not text: {texts}"
        missing += [] if texts else [f"no {part}"]
        several = texts[:1] if part == "anchor" else texts
        sections += [("anchor" if part == "anchor" else "context", text) for text in several]
    for role, names in (("context", "e"), ("rejected", "fg")):
        for name in names:
            texts = judged(record.get(name))
            if isinstance(texts, str):
                return f"not text: {texts}"
            missing += ["no context: e"] if role == "context" and not texts else []
            sections += [(role, text) for text in texts]
    return missing[0] if missing else sections


def further(record):
    """How many texts of the list that gives a record its anchor are no section."""
    return len(judged(record.get("a")) or judged(record.get("b"))) - 1


def said_of(rows):
    for row in rows:
        wrong = str(row["skip"]).startswith("not text")
        assert (row.get("value") is not None) == wrong, row
    return [row["skip"] or [(s["role"], s["text"]) for s in row["sections"]] for row in rows]


def found(source, reader):
    return said_of(rows_of(source, reader))


# -- records of any values


def any_value(draw):
    if draw.random() < 0.7:
        return draw.choice([*WORDS, "t", "u", "v", "w", ["p", "q"]])
    odd = [
        *(None, [], ["p", " ", None], [None], ["", ""], math.nan, [math.nan]),
        *(0, 7, -1.5, 10**20, True, False, {}, {"k": None}, [1], ["p", 2], [[]], [{}], [True]),
    ]
    return draw.choice(odd)


class Own(str):
    """As BeautifulSoup and NumPy have one."""


def only_in_memory(draw):
    beside = datetime.datetime(2024, 2, 3, tzinfo=datetime.UTC)
    odd = [DAY, beside, datetime.time(1), uuid.UUID(int=7), decimal.Decimal("1.5"), [DAY], b"y"]
    odd += [Own("own"), [Own("own"), "x"], Own(" ")]
    return draw.choice([*odd, [uuid.UUID(int=7), "x"], datetime.timedelta(1), ["p", b"q"]])


@pytest.mark.parametrize("seed", range(often(6, less=1)))
def test_records_of_any_values(tmp_path, reader, seed):
    draw = Random(seed)
    records = [
        {name: any_value(draw) for name in COLUMNS if name in "ace" or draw.random() < 0.9}
        for _ in range(400)
    ]
    wanted = [outcome(record) for record in records]
    assert sum(isinstance(each, list) for each in wanted) > 20
    assert len({each for each in wanted if isinstance(each, str)}) >= 6
    plain = [json.loads(json.dumps(r).replace("NaN", "null")) for r in records]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, plain)))
    (tmp_path / "r.json").write_text(json.dumps(plain))
    for source in (
        MemorySource(records, **MAPPING),
        JsonSource(tmp_path / "r.jsonl", **MAPPING),
        JsonSource(tmp_path / "r.json", **MAPPING),
    ):
        rows = rows_of(source, reader)
        assert said_of(rows) == wanted
        for row, record in zip(rows, records, strict=True):
            assert row["skip"] or (row["further"] or 0) == further(record)
    more = [{**record, draw.choice("abce"): only_in_memory(draw)} for record in records]
    wanted = [outcome(record) for record in more]
    assert {"not text: date", "not text: UUID"} < {each for each in wanted if isinstance(each, str)}
    assert found(MemorySource(more, **MAPPING), reader) == wanted
    assert found(CustomSource(Paged(more), **MAPPING), reader) == wanted
    assert found(dp.IndexedSource(more, name="i", shuffle=False, **MAPPING), reader) == wanted
    names = {"anchor": "a", "positive": "c", "context": "e", "negative": "f"}
    own = [{part: record.get(name) for part, name in names.items()} for record in more]
    wanted = [outcome({names[part]: v for part, v in record.items()}) for record in own]
    wanted = ["no context: context" if each == "no context: e" else each for each in wanted]
    assert found(Paged(own), reader) == wanted, "keys of a record that are parts"


# -- columns of one type each

ID = uuid.UUID(int=9)
MAKERS = {
    "string": (pa.string(), [*WORDS, None]),
    "large": (pa.large_string(), ["x", None, ""]),
    "view": (pa.string_view(), ["x", None, "y"]),
    "enum": (pa.dictionary(pa.int8(), pa.string()), ["x", None, ""]),
    "utf8": (pa.binary(), [b"x", b"", None, "é".encode()]),
    "bytes": (pa.large_binary(), [b"x", b"\xff", None]),
    "texts": (pa.list_(pa.string()), [["x", "y"], [], None, ["", None], [" ", "z"]]),
    "enums": (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["x"], [], ["y", None]]),
    "many bytes": (pa.list_(pa.binary()), [[b"x", b"y"], [], None, [b"\xff"]]),
    "pair": (pa.list_(pa.string(), 2), [["x", "y"], None, ["", None]]),
    "nulls": (pa.null(), [None]),
    "none": (pa.list_(pa.null()), [[], None, [None]]),
    "whole": (pa.int32(), [1, None]),
    "real": (pa.float32(), [1.5, math.nan, None]),
    "exact": (pa.decimal128(5, 2), [decimal.Decimal("1.50"), None]),
    "truth": (pa.bool_(), [True, None]),
    "day": (pa.date32(), [DAY, None]),
    "time": (pa.time64("us"), [datetime.time(3), None]),
    "moment": (pa.timestamp("us", "UTC"), [datetime.datetime(2024, 1, 1), None]),
    "stamp": (pa.timestamp("s"), [datetime.datetime(2024, 1, 1), None]),
    "struct": (pa.struct([("k", pa.string())]), [{"k": "x"}, {"k": None}, None]),
    "wholes": (pa.list_(pa.int8()), [[1], [], [None], None]),
    "reals": (pa.list_(pa.float64()), [[math.nan], [1.0], [], None]),
    "days": (pa.list_(pa.date32()), [[DAY], [], None]),
    "lists": (pa.list_(pa.list_(pa.string())), [[["x"]], [[]], [], None]),
    "structs": (pa.list_(pa.struct([("k", pa.int8())])), [[{"k": 1}], [None], []]),
}
TEXTS = ["string", "string", "texts", "enum", "utf8"]


def some_table(draw):
    columns = {}
    for name in COLUMNS:
        kind, values = MAKERS[draw.choice([*TEXTS, *TEXTS, *TEXTS, *MAKERS])]
        columns[name] = pa.array([draw.choice(values) for _ in range(40)], kind)
    return pa.table(columns)


@pytest.mark.parametrize("seed", range(often(60, less=3)))
def test_columns_of_any_types(tmp_path, reader, seed):
    draw = Random(seed)
    table = some_table(draw)
    wanted = [outcome(row) for row in table.to_pylist()]
    for source in (MemorySource(table, **MAPPING), *files(tmp_path, table, draw)):
        assert found(source, reader) == wanted, (source, table.schema)


def files(folder, table, draw):
    """One or two of the kinds of sources that hold a table."""
    pyarrow.feather.write_feather(table, str(folder / "t.arrow"), compression="uncompressed")
    made = [ArrowSource(folder / "t.arrow", **MAPPING)]
    kinds = [str(field.type) for field in table.schema]
    if not any("view" in kind or ("dictionary" in kind and "list" in kind) for kind in kinds):
        pq.write_table(table, folder / "t.parquet")
        made.append(ParquetSource(folder / "t.parquet", **MAPPING))
        if not any(kind.startswith("time") for kind in kinds):
            made.append(DatasetSource(datasets.Dataset(table), **MAPPING))
        statement = f"SELECT * FROM '{folder / 't.parquet'}'"
        if not any("null" in kind for kind in kinds):
            made.append(SqlSource(statement, **MAPPING))
    return draw.sample(made, min(2, len(made)))


def test_uuids_of_columns_are_no_texts_but_ids(tmp_path, reader):
    texts = pa.array(["x"] * 2)
    ids = pa.array([ID.bytes, None], pa.uuid())
    table = pa.table({"t": texts, "u": ids})
    pq.write_table(table, tmp_path / "u.parquet")
    statement = f"SELECT 't' AS t, '{ID}'::UUID AS u, ['{ID}'::UUID] AS l"
    for made, mapping in (
        (MemorySource, {"records": table}),
        (ParquetSource, {"path": tmp_path / "u.parquet"}),
        (SqlSource, {"query": statement}),
    ):
        source = made
        assert found(source(**mapping, anchor="t", context="u"), reader)[0] == "not text: UUID"
        (row, *_) = source(**mapping, text="t", id="u").open(reader).batches.__next__().to_pylist()
        assert row["key"] == str(ID)
    assert found(SqlSource(statement, text="l"), reader) == ["not text: list"]
    assert found(SqlSource("SELECT 'e'::ENUM('e') AS e", text="e"), reader) == [[("context", "e")]]


def test_what_is_no_text_fails_and_is_counted(tmp_path):
    records = [{"t": "x", "d": "y"}, {"t": "z", "d": 5}, {"t": "w", "d": [1]}, {"t": 1, "d": "v"}]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        report = corpus.ingest(MemorySource(records, anchor="t", positive="d"), name="m")
        assert (report.read, report.added) == (4, 1)
        assert report.reasons == {"not text: list": 1, "not text: number": 2}
        odd = pa.table({"t": [[b"x", b"\xff"], [b"y"]]})
        assert corpus.ingest(odd, name="b", text="t").reasons == {"not text: list": 1}
        everything = MemorySource(records, anchor="t", positive="d", text_of="json")
        assert corpus.ingest(everything, name="j").added == 4
    wrong: Any
    for wrong in ("text", 5, True):
        with pytest.raises(SourceError, match="text_of="):
            MemorySource([], text="t", text_of=wrong)
    with pytest.raises(SourceError, match="negative= needs anchor="):
        MemorySource([], text="t", negative="n")


LISTED = [
    {"q": ["a", "b", " ", "c"], "r": ["x", "y"], "d": ["p", "q"]},  # two more
    {"q": ["e"], "r": ["f", "g", "h"], "d": ["p"]},  # the first that has text has one
    {"q": [" ", None], "r": ["i", "j"], "d": ["p"]},  # one more, of the second
    {"q": ["a", "b"], "r": [], "d": []},  # no record
]
BOTH = {"anchor": ("q", "r"), "positive": "d"}


def test_an_anchor_has_one_text_and_the_others_of_its_list_are_counted(tmp_path):
    kinds = some(("jsonl", "parquet", "records"), less=1)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        for kind, source in every_source(tmp_path, LISTED, kinds, **BOTH).items():
            report = corpus.ingest(source, name=kind)
            assert (report.added, report.reasons) == (3, {"no positive": 1})
            assert report.dropped_sections == {ONE_ANCHOR: 3}
            assert f"\n  3 times: {ONE_ANCHOR}\n" in str(report)
        anchors = corpus.sql("SELECT text FROM sections WHERE role = 'anchor' ORDER BY section_key")
        assert anchors["text"].to_pylist() == ["a", "e", "i"] * len(kinds)
        plain = MemorySource([{"q": "a", "d": ["p", "q"]}], anchor="q", positive="d")
        assert corpus.ingest(plain, name="plain").dropped_sections == {}
