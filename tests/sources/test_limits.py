"""Limits of reading: what each refuses, where it says so, and how much memory a bomb takes."""

import gzip
import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import thorough
from programs import ran
from source_rows import read

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.sources.limits import FileReader, Limits

SMALL = Limits(row=4_000, field=2_000, columns=50)


def text(data):
    return lambda path: path.write_bytes(data.encode() if isinstance(data, str) else data)


def repeated(count, value):
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), [value])


def arrow(column, compression=None):
    def write(path):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        schema = pa.schema([("t", column.type)])
        with pa.ipc.new_file(str(path), schema, options=options) as writer:
            writer.write_table(pa.table({"t": column}))

    return write


def parquet(column, **options):
    return lambda path: pq.write_table(pa.table({"t": column}), path, store_schema=False, **options)


WIDE = ",".join(["t", *(f"c{i}" for i in range(60))])
LONG = "word " * 500
CASES = {
    "field": ("f.csv", text(f"t,u\n1,2\nx,{LONG}\n"), "f.csv, row 2: a field is larger"),
    "quote": ("f.csv", text('t,u\n1,2\n3,"x\n' + "a,b\n" * 900), "f.csv, row 2: a field is larger"),
    "line": ("f.csv", text("t\n1\n" + "x" * 300_000), "f.csv, row 2: the line is longer"),
    "header": ("f.csv", text(WIDE), "f.csv: 61 columns, more than the limit of 50"),
    "json line": ("f.jsonl", text('{"t":1}\n' + "x" * 5_000), "f.jsonl, line 2: it is longer"),
    "json field": ("f.jsonl", text('{"t":"' + "x" * 3_000 + '"}'), "f.jsonl, row 1: column"),
    "json keys": ("f.jsonl", text(json.dumps({f"k{i}": 1 for i in range(60)})), "different keys"),
    "json value": (
        "f.json",
        text('[{"t":"' + "x" * 5_000 + '"}]'),
        "f.json, value 1: it is longer",
    ),
    "text line": ("f.txt", text("x\ny\n" + "x" * 5_000), "f.txt, line 3: it is longer"),
    "gzip": ("f.txt.gz", text(gzip.compress(b"x" * 10**6)), "f.txt.gz, line 1: it is longer"),
    "arrow": ("f.arrow", arrow(pa.array(["x", LONG])), "f.arrow, row 2: column 't' has a value of"),
    "dictionary": ("f.arrow", arrow(repeated(3, LONG)), "f.arrow, row 1: column 't' has a value"),
    "parquet": ("f.parquet", parquet(pa.array(["x", LONG])), "f.parquet, row 2: column 't'"),
}


def source_of(path):
    name = path.name
    kinds = {
        ".csv": dp.sources.CsvSource,
        ".json": dp.sources.JsonSource,
        ".parquet": dp.sources.ParquetSource,
    }
    kinds |= {".arrow": dp.sources.ArrowSource}
    kind = next((kind for suffix, kind in kinds.items() if suffix in name), None)
    return kind(path, text="t") if kind else dp.sources.TextLinesSource(path)


@pytest.fixture(scope="module")
def reader():
    with_limits = FileReader.within(SMALL)
    yield with_limits
    with_limits.close()


def test_what_exceeds_a_limit_is_told_with_file_and_row(tmp_path, reader):
    for number, (file, write, message) in enumerate(CASES.values()):
        (tmp_path / f"{number}").mkdir()  # DuckDB remembers a path it has read
        write(tmp_path / f"{number}" / file)
        with pytest.raises(SourceError) as raised:
            read(source_of(tmp_path / f"{number}" / file), reader)
        assert message in str(raised.value)
        assert "IngestOptions(limits=dp.sources.Limits(" in str(raised.value)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("x" * 3_000)
    (tmp_path / "texts" / "b.txt").write_text("x")
    rows = read(dp.TextFileSource(tmp_path / "texts"), reader)
    assert [row["skip"] for row in rows] == ["file larger than the limit of a field", None]
    wrong: dict[str, Any]
    for wrong in ({"row": 0}, {"field": "x"}, {"memory": "50%"}, {"columns": True}):
        with pytest.raises(SourceError, match="give a"):
            Limits(**wrong)
    assert Limits(row="1.5KiB").size("row") == 1536
    assert Limits(row="1536").size("row") == 1536  # as a command line has it


def test_the_memory_of_the_reader_is_a_setting(tmp_path):
    line = json.dumps({"t": "word " * 20})  # short texts are hashed by the reader
    (tmp_path / "f.jsonl").write_text(f"{line}\n" * 16_000)
    source = dp.sources.JsonSource(tmp_path / "f.jsonl", text="t")
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        with pytest.raises(SourceError, match=r"Limits\(memory='2GB'\)"):
            corpus.ingest(source, options=dp.IngestOptions(limits=dp.sources.Limits(memory="1MB")))
        assert corpus.ingest(source).added == 1


# ---- bombs

M = 1 << 20
INGEST = """
import resource, sys
import duckplets as dp
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
with dp.Corpus(sys.argv[2]) as corpus:
    corpus.ingest(dp.sources.MemorySource([{"t": "x"}], text="t"), progress=False)
    before = peak()
    try:
        print(corpus.ingest(getattr(dp, sys.argv[3])(sys.argv[1], text="t"), progress=False))
    except dp.SourceError as error:
        print(error)
    print(peak() - before)
"""


def packed(head, unit, count, tail=b""):
    def write(path):
        with gzip.open(path, "wb", 1) as file:
            file.write(head)
            for _ in range(count):
                file.write(unit)
            file.write(tail)

    return write


BOMBS = {
    "commas": ("f.csv.gz", packed(b"t,u\n", b"xy," * M, 3), "row 1: the row has more fields"),
    "line": ("f.jsonl.gz", packed(b'{"t":"', b"x" * M, 600), "it is longer"),
    "quote": ("f.csv.gz", packed(b't,u\n1,"', b"some, text\n" * M, 60), "row 1: a field is larger"),
    "quotes": ("f.csv.gz", packed(b"t,u\n", b'"ab",' * M + b'"\n",', 20), "has more fields"),
    "names": (
        "f.csv",
        lambda p: p.write_text(",".join(f"c{i}" for i in range(10**6))),
        "1,000,000 columns",
    ),
    "keys": (
        "f.jsonl",
        lambda p: p.write_text(json.dumps({f"k{i}": 1 for i in range(2 * 10**6)})),
        "different keys",
    ),
    "depth": (
        "f.jsonl",
        lambda p: p.write_text('{"t":' * 5 * M + "1" + "}" * 5 * M + '\n{"t":"x"}'),
        "2 rows read: 1 added",
    ),
    "dictionary": ("f.arrow", lambda p: arrow(repeated(2_000, "x" * M))(p), "rows read: 1 added"),
    "values": ("f.parquet", lambda p: parquet(repeated(2_000, "x" * M))(p), "rows read: 1 added"),
    "page": (
        "f.parquet",
        lambda p: parquet(pa.array(["x" * 600 * M]), compression="zstd", use_dictionary=False)(p),
        "takes more",
    ),
    "batch": ("f.arrow", lambda p: arrow(pa.array(["x" * 600 * M]), "zstd")(p), "takes more"),
    "later batch": (  # nothing of the first is compressed: it is too short
        "f.arrow",
        lambda p: arrow(pa.chunked_array([["x"], ["x" * 600 * M]]), "zstd")(p),
        "takes more",
    ),
}


@thorough
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_no_more_than_the_reader_and_a_little(tmp_path, name):
    file, write, message = BOMBS[name]
    write(tmp_path / file)
    kind = type(source_of(tmp_path / file)).__name__
    run = ran(sys.executable, "-c", INGEST, tmp_path / file, tmp_path / "c.duckdb", kind)
    assert message in run.stdout, run.stdout + run.stderr
    assert int(run.stdout.splitlines()[-1]) <= 512 + 200


def test_the_process_that_reads_runs_no_code_of_the_working_folder(tmp_path, monkeypatch):
    arrow(pa.array(["a", "b"]), "zstd")(tmp_path / "f.arrow")
    (tmp_path / "json.py").write_text("open('ran', 'w').close(); raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    with dp.Corpus("a.duckdb") as corpus:
        report = corpus.ingest("f.arrow", text="t", progress=False)
    assert (report.added, (tmp_path / "ran").exists()) == (2, False)
