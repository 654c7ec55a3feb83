import gzip
import io
import json
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from damaged import FORMS, tried
from effort import THOROUGH, often, some, thorough
from source_rows import every_source, read, texts

from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.sources import (
    ArrowSource,
    CsvSource,
    JsonSource,
    MemorySource,
    ParquetSource,
    SqlSource,
    row_batches,
)

HUGE = 'x y"z\n\\' * (often(50_000_000, less=20_000_000) // 7)  # DuckDB stops at 16 MB by itself


def outcome(rows):
    """What became of each row: its reason to be skipped, else its texts."""
    return [row["skip"] or [text for _, text in texts(row)] for row in rows]


CSV = {
    "crlf": (b"a,b\r\n1,2\r\n3,4\r\n", [["1", "2"], ["3", "4"]]),
    "cr": (b"a,b\r1,2\r3,4\r", [["1", "2"], ["3", "4"]]),
    "mixed line ends": (b"a,b\n1,2\r\n3,4\n5,6", [["1", "2"], ["3", "4"], ["5", "6"]]),
    "mark": (b"\xef\xbb\xbfa,b\n1,2\n", [["1", "2"]]),
    "quoted line ends": (b'a,b\n"x\ny","z\r\nw"\n', [["x\ny", "z\r\nw"]]),
    "quotes": (b'a,b\n"x""y",5" pipe\n', [['x"y', '5" pipe']]),
    "blank lines": (b"a,b\n\n1,2\n\n", [["1", "2"]]),
    "spaces kept": (b"a,b\n 1 , 2\n", [[" 1 ", " 2"]]),
    "words for nothing are words": (b"a,b\nNULL,NA\n", [["NULL", "NA"]]),
    "blank fields": (b'a,b\n"",x\nx, \n', ["no anchor", "no positive"]),
    "ragged": (b"a,b\n1\n1,2\n1,2,3\n4,5\n", ["ragged row", ["1", "2"], "ragged row", ["4", "5"]]),
    "bad quoting": (b'a,b\n"x"y,z\nq,r\n', ["bad quoting", ["q", "r"]]),
    "not UTF-8": (b'a,b\n"x\xff\ny",z\nq,r\n', ["invalid UTF-8", ["q", "r"]]),
    "not UTF-8 elsewhere": (b"a,b,c\nq,r,\xff\n", [["q", "r"]]),
    "NUL": (b"a,b\nx\0y,z\n", [["x\0y", "z"]]),
    "semicolon": (b"a;b\n1,5;2\n", [["1,5", "2"]]),
    "tab": (b"a\tb\n1,5\t2\n", [["1,5", "2"]]),
    "header only": (b"a,b\n", []),
}


def test_csv(tmp_path, reader):
    for number, (name, (data, expected)) in enumerate(CSV.items()):
        for compressed in (False, True) if THOROUGH or number % 6 == 0 else (False,):
            path = tmp_path / f"{number}.csv{'.gz' * compressed}"
            path.write_bytes(gzip.compress(data) if compressed else data)
            found = outcome(read(CsvSource(path, anchor="a", positive="b"), reader))
            assert found == expected, name
    (tmp_path / "f.csv").write_bytes(b"a\nx\n\n")
    assert outcome(read(CsvSource(tmp_path / "f.csv", text="a"), reader)) == [["x"]]


CSV_ERRORS = {
    "no data": (b"", "f.csv is empty"),
    "only blank lines": (b"\n\n", "has no header row"),
    "nameless columns": (b",,\n1,2,3\n", "has no header row"),
    "twice": (b"a,b,a\n", "the header names column 'a' twice"),
    "UTF-16 without a mark": ("a,b\n1,2\n".encode("utf-16-le"), "encoding='utf-16-le'"),
    "quote in header": (b'"a,b\n1,2\n', "f.csv: the header row cannot be read"),
    "open quote": (
        b'a,b\n1,2\n3,"x\n5,6\n',
        "f.csv, row 2: a quote is opened and never closed: close it in line 3",
    ),
}


def test_csv_dialects(tmp_path, reader):
    (tmp_path / "f.tsv").write_bytes(b'a\tb,c\n"x\ty\n')
    source = CsvSource(tmp_path / "f.tsv", anchor="a", positive="b,c", quote=None)
    assert outcome(read(source, reader)) == [['"x', "y"]]
    (tmp_path / "g.csv").write_bytes(b"a:b,c\n'x:y':z\n")
    source = CsvSource(tmp_path / "g.csv", anchor="a", positive="b,c", delimiter=":", quote="'")
    assert outcome(read(source, reader)) == [["x:y", "z"]]
    for wrong in ({"delimiter": "::"}, {"quote": "\n"}):
        with pytest.raises(SourceError, match="give one character"):
            CsvSource("x.csv", text="a", **wrong)


JSONL = {
    "mark and CRLF": (b'\xef\xbb\xbf{"a":"1","b":"2"}\r\n{"a":"3","b":"4"}\r\n', 2),
    "no last line end": (b'{"a":"1","b":"2"}\n{"a":"3","b":"4"}', 2),
    "blank lines": (b'\n{"a":"1","b":"2"}\n  \n\n', 1),
    "separators in text": ('{"a":"x\u2028y\x85","b":"2"}\n'.encode(), [["x\u2028y\x85", "2"]]),
    "cut short": (b'{"a":"1","b":"2"}\n{"a":"3","b', [["1", "2"], "invalid JSON"]),
    "not objects": (b'{"a":"1","b":"2"}\n[1]\n"x"\nnull\n', [["1", "2"], *["not an object"] * 3]),
    "not JSON": (b'{"a":"1","b":"2"}\nhello\n{a:1}\n', [["1", "2"], *["invalid JSON"] * 2]),
    "not UTF-8": (b'{"a":"\xff","b":"2"}\n{"a":"1","b":"2"}\n', ["invalid UTF-8", ["1", "2"]]),
    "lone surrogate": (
        b'{"a":"\\ud800","b":"2"}\n{"a":"1","b":"2"}\n',
        ["invalid JSON", ["1", "2"]],
    ),
    "NUL": (b'{"a":"x\\u0000y","b":"2"}\n', [["x\0y", "2"]]),
    "raw NUL": (b'{"a":"x\0y","b":"2"}\n{"a":"1","b":"2"}\n', ["invalid JSON", ["1", "2"]]),
    "mixed types": (
        b'{"a":5,"b":"x"}\n{"a":"t","b":["x",1]}\n{"a":["s",""],"b":["[]",null,"y"]}\n'
        b'{"a":true,"b":"x"}\n{"a":"t","b":{"c":null}}\n{"a":[],"b":"x"}\n',
        [
            *("not text: number", "not text: list", ["s", "[]", "y"], "not text: boolean"),
            *("not text: map", "no anchor"),
        ],
    ),
    "keys come and go": (
        b'{"a":"1","b":"2"}\n{"a":"1"}\n{"b":"2","c":3}\n',
        [["1", "2"], "no positive", "no anchor"],
    ),
    "other case": (b'{"A":"1","B":"2"}\n', [["1", "2"]]),
    "all bad": (b"hello\n", ["invalid JSON"]),
}


@pytest.mark.parametrize("way", ["file", "gzip", "zstd", "stdin"])
def test_json_lines(tmp_path, reader, way, monkeypatch):
    suffix = {"gzip": "jsonl.gz", "zstd": "ndjson.zst"}.get(way, "jsonl")
    cases = JSONL if way == "file" else some(JSONL, less=4)
    for number, name in enumerate(cases):
        data, expected = JSONL[name]
        path = tmp_path / f"{number}.{suffix}"
        if way == "stdin":
            path = "-"
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        elif way == "zstd":
            path.write_bytes(pa.compress(data, codec="zstd", asbytes=True))
        else:
            path.write_bytes(gzip.compress(data) if way == "gzip" else data)
        if isinstance(expected, int):
            expected = [["1", "2"], ["3", "4"]][:expected]
        found = outcome(read(JsonSource(path, anchor="a", positive="b"), reader))
        assert found == expected, name
    (tmp_path / "n.jsonl").write_bytes(b'\n{"t":"x"}\n\nbad\n{"t":"y"}')
    rows = read(JsonSource(tmp_path / "n.jsonl", text="t"), reader)
    assert [row["row"] for row in rows] == [2, 4, 5], "lines, as the file counts them"


def test_a_key_that_comes_late_is_found(tmp_path, reader, monkeypatch):
    monkeypatch.setattr(row_batches, "MAX_ROWS", often(row_batches.MAX_ROWS, less=300))
    rows = [{"instruction": "q", "output": "r"}] * often(70_000, less=500)
    rows.append({"system": "Be", "instruction": "q", "output": "r", "Day": "2024-01-02"})
    lines = tmp_path / "f.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)))
    found = read(JsonSource(lines, text="output", date="day"), reader)
    assert [str(row["date"]) for row in found] == ["None"] * (len(rows) - 1) + ["2024-01-02"]
    for source in (MemorySource(rows, converter="alpaca"), JsonSource(lines, converter="alpaca")):
        found = read(source, reader)
        assert [len(json.loads(row["messages"])) for row in found] == [2] * (len(rows) - 1) + [3]


JSON = {
    "array": (b' [{"a":"1","b":"2"},\n{"a":"3","b":"4"}]\n', [["1", "2"], ["3", "4"]]),
    "mark": (b'\xef\xbb\xbf[{"a":"1","b":"2"}]', [["1", "2"]]),
    "no records": (b"[]", []),
    "elements of other kinds": (b'[{"a":"1","b":"2"},3]', [["1", "2"], "not an object"]),
    "one object": (b'{\n "a": "1",\n "b": "2"\n}', [["1", "2"]]),
    "objects": (b'{\n"a":"1","b":"2"}\n{"a":"3","b":"4"}', [["1", "2"], ["3", "4"]]),
    "lines": (b'{"a":"1","b":"2"}\nbad\n', [["1", "2"], "invalid JSON"]),
    "no data": (b"", "f.json is empty"),
    "cut short": (
        b'[{"a":"1","b":"2"},{"a":"3',
        "f.json is broken JSON at value 2: unexpected end",
    ),
    "no comma": (b'[{"a":"1","b":"2"} {"a":"3"}]', "f.json is broken JSON at value 2"),
    "not UTF-8": (b'[{"a":"\xff","b":"2"}]', "invalid UTF-8"),
    "no JSON": (b"hello", "f.json is broken JSON at value 1"),
}


def test_files_of_json_and_those_that_cannot_be_read(tmp_path, reader):
    cases: list[tuple[Any, str, bytes, Any]]
    cases = [(JsonSource, "f.json", data, expected) for data, expected in JSON.values()]
    cases += [(CsvSource, "f.csv", data, expected) for data, expected in CSV_ERRORS.values()]
    for number, (kind, name, data, expected) in enumerate(cases):
        (tmp_path / f"{number}").mkdir()  # DuckDB remembers a path it has read
        (tmp_path / f"{number}" / name).write_bytes(data)
        source = kind(tmp_path / f"{number}" / name, anchor="a", positive="b")
        if not isinstance(expected, str):
            assert outcome(read(source, reader)) == expected, name
            continue
        with pytest.raises(SourceError) as raised:
            read(source, reader)
        assert expected in str(raised.value)


@pytest.mark.parametrize("kind", some([CsvSource, JsonSource, ParquetSource, ArrowSource], less=2))
def test_paths(tmp_path, reader, kind):
    table = pa.table({"t": ["x"]})
    writers = {
        CsvSource: lambda path: path.write_text("t\nx\n"),
        JsonSource: lambda path: path.write_text('{"t":"x"}'),
        ParquetSource: lambda path: pq.write_table(table, path),
        ArrowSource: lambda path: pyarrow.feather.write_feather(table, str(path)),
    }
    names = ["a[1]", "b*", "c"]
    for name in names:
        writers[kind](tmp_path / name)
    (tmp_path / "empty").touch()
    (tmp_path / "a.tar.gz").touch()
    for found in (tmp_path / "a[1]", str(tmp_path / "[bc]*"), [tmp_path / name for name in names]):
        assert {*map(str, outcome(read(kind(found, text="t"), reader)))} == {"['x']"}
    assert len(read(kind(str(tmp_path / "[bc]*"), text="t"), reader)) == 2
    missing = [
        (tmp_path / "none", "none does not exist"),
        (tmp_path / "*.none", "*.none matches no file"),
        ([], "no path was given"),
        (5, "5 is not a path"),
        ("", "'' is not a path"),
        (tmp_path, "is a folder; name its files"),
        (tmp_path / "empty", "empty is empty"),
        (tmp_path / "a.tar.gz", "unpack others"),
    ]
    for path, message in missing:
        with pytest.raises(SourceError) as raised:
            read(kind(path, text="t"), reader)
        assert message in str(raised.value)


def test_compressed_files_that_are_cut_short_or_are_not(tmp_path, reader):
    csv = b"t\n" + b"".join(b"%d\n" % i for i in range(9999))
    lines = b"".join(b'{"t":"%d"}\n' % i for i in range(9999))
    for kind, data in ((CsvSource, csv), (JsonSource, lines)):
        zstd = pa.compress(data, codec="zstd", asbytes=True)
        for suffix, whole in ((".gz", gzip.compress(data)), (".zst", zstd)):
            for content, message in (
                (whole[:-9], "the file was cut short"),
                (b"hello", "decompress|Not a gzipped file"),
            ):
                path = tmp_path / f"f.jsonl{suffix}"
                path.write_bytes(content)
                with pytest.raises(SourceError, match=message) as raised:
                    read(kind(path, text="t"), reader)
                assert str(path) in str(raised.value)


def test_broken_parquet_and_arrow_files(tmp_path, reader):
    table = pa.table({"t": [f"text {i}" for i in range(5_000)]})
    pq.write_table(table, tmp_path / "w", compression="none", use_dictionary=False)
    pyarrow.feather.write_feather(table, str(tmp_path / "f"), compression="uncompressed")
    parquet, feather = (tmp_path / "w").read_bytes(), (tmp_path / "f").read_bytes()
    middle = len(parquet) // 2
    cases = [
        (ParquetSource, parquet[:-100]),
        (ParquetSource, b"PAR1" + b"\xff" * 400 + parquet[404:]),
        (ParquetSource, b"hello"),
        (ArrowSource, feather[:middle]),
        (ArrowSource, feather[:-20]),
        (ArrowSource, b"hello hello hello"),
        (ArrowSource, b"FEA1 hello"),
    ]
    for kind, data in cases:
        (tmp_path / "broken").write_bytes(data)
        with pytest.raises(SourceError) as raised:
            read(kind(tmp_path / "broken", text="t"), reader)
        assert str(tmp_path / "broken") in str(raised.value)


def test_text_that_is_not_utf8_in_a_text_column(tmp_path, reader):
    bad = pa.array([b"x", b"\xff", None, b"y"]).view(pa.string())
    table = pa.table({"a": bad, "b": ["1", "2", "3", "4"]})
    pq.write_table(table, tmp_path / "p")
    pyarrow.feather.write_feather(table, str(tmp_path / "f"))
    columns = {"anchor": "a", "positive": "b"}
    for source in (
        MemorySource(table, **columns),
        ParquetSource(tmp_path / "p", **columns),
        ArrowSource(tmp_path / "f", **columns),
    ):
        found = outcome(read(source, reader))
        assert found == [["x", "1"], "invalid UTF-8", "no anchor", ["y", "4"]]


def test_records_that_are_none(reader):
    circle = {"t": "x"}
    circle["self"] = circle
    records = [{"t": "x", 5: 6}, "x", None, {"t": "\ud800"}, circle, {"t": b"y"}, {"t": {"z"}}]
    rows = read(MemorySource(iter(records), text="t"), reader)
    assert outcome(rows) == [
        ["x"], "not an object", "not an object", "invalid UTF-8", ["x"], ["y"], ["z"]
    ]  # fmt: skip
    assert read(MemorySource([], text="t"), reader) == []
    for wrong in ("text", {"t": ["x"]}, 5):
        with pytest.raises(SourceError, match="give a list of dictionaries"):
            read(MemorySource(wrong, text="t"), reader)


def test_statements(tmp_path, reader):
    database = tmp_path / "d's.duckdb"
    with_rows = Database.open(database)
    with_rows.rows("CREATE TABLE faq AS SELECT 'q' AS q, 'a' AS a")
    with_rows.close()
    for _ in range(2):  # the file is let go of, and can be attached again
        source = SqlSource("SELECT * FROM faq;", anchor="q", positive="a", database=database)
        assert outcome(read(source, reader)) == [["q", "a"]]
    assert source.uri == str(database)
    faults = [
        ("SELECT 1; SELECT 2", None, "Expected a single SELECT"),
        ("DROP TABLE faq", database, "Expected a single SELECT"),
        ("COPY (SELECT 1) TO 'x'", None, "Expected a single SELECT"),
        ("SELEC 1", None, "syntax error"),
        ("SELECT * FROM nowhere", None, "nowhere"),
        ("SELECT error('half way') AS q FROM range(3)", None, "half way"),
        ("SELECT 1", tmp_path / "none.duckdb", "none.duckdb is not a file"),
        ("SELECT 1", __file__, "cannot be opened"),
    ]
    for statement, file, message in faults:
        with pytest.raises(SourceError) as raised:
            read(SqlSource(statement, text="q", database=file), reader)
        assert message in str(raised.value)


def test_a_database_of_anybody_reads_no_other_file(tmp_path, reader):
    canary, database = tmp_path / "canary.txt", tmp_path / "other.duckdb"
    canary.write_text("TOPSECRET")
    with duckdb.connect(str(database)) as file:
        file.execute(f"CREATE VIEW faq AS SELECT content AS q FROM read_text('{canary}')")
        file.execute(f"CREATE MACRO lower(x) AS (SELECT content FROM read_text('{canary}'))")
    for statement in ("SELECT q FROM faq", "SELECT lower('a') AS q", f"FROM read_text('{canary}')"):
        with pytest.raises(SourceError, match="Cannot access file") as raised:
            read(SqlSource(statement, text="q", database=database), reader)
        assert "TOPSECRET" not in str(raised.value)


@thorough
@pytest.mark.parametrize("kind", some(["csv", "parquet", "json", "jsonl"], less=2))
def test_a_text_of_many_megabytes(tmp_path, reader, kind):
    records = [{"t": "1", "b": "small"}, {"t": "2", "b": HUGE}, {"t": "3", "b": "small"}]
    source = every_source(tmp_path, records, (kind,), anchor="t", positive="b")[kind]
    rows = read(source, reader)
    assert [len(row["sections"][1]["text"]) for row in rows] == [5, len(HUGE), 5]
    assert rows[1]["sections"][1]["text"] == HUGE


# ---- files damaged at random: rows or a typed error, never a foreign one, never a dead process


# Cases that once failed: metadata at which PyArrow ends the process when asked for a column's.
FAILED = ["parquet:123:124", "parquet:361:362", "parquet:556:557"]
DEFAULT = [f"{form}:0:1" for form in FORMS]


@thorough
def test_some_damaged_files():
    assert tried(*DEFAULT, *some(FAILED, less=1)) == []


@pytest.mark.skipif(not THOROUGH, reason="500 cases of each form take some minutes")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("form", FORMS)
def test_many_damaged_files(form):
    parts = [f"{form}:{first}:{first + 250}" for first in range(0, 500, 250)]
    assert [wrong for part in parts for wrong in tried(part)] == []
