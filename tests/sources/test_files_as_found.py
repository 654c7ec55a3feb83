"""Files as they are found: packed, marked, in folders of partitions, and rows within a document."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from described import sources_file
from source_rows import read, texts

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.sources.by_path import source_of

TEXT = "q,a\nb,c\nd,é\n"
PACKED = gzip.compress(TEXT.encode())
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
PAIRS = [[("anchor", "b"), ("context", "c")], [("anchor", "d"), ("context", "é")]]

READ = {
    "UTF-16": ("f.csv", TEXT.encode("utf-16")),
    "UTF-16, big end first": ("f.csv", b"\xfe\xff" + TEXT.encode("utf-16-be")),
    "UTF-32": ("f.csv", TEXT.encode("utf-32")),
    "gzip in secret": ("f.csv", PACKED),
    "zstd in secret": ("f.csv", pa.compress(TEXT.encode(), codec="zstd", asbytes=True)),
    "gzip twice": ("f.csv.gz", gzip.compress(PACKED)),
    "gzip twice, by name": ("f.csv.gz.gz", gzip.compress(PACKED)),
    "gzip with zeros after it": ("f.csv.gz", PACKED + bytes(1_000)),
    "two gzips": ("f.csv.gz", gzip.compress(b"q,a\nb,c\n") + gzip.compress("d,é\n".encode())),
}
REFUSED = {
    "Parquet": ("f.csv", b"PAR1", "f.csv is a Parquet file: give format='parquet'"),
    "Arrow": ("f.jsonl", b"ARROW1\0\0", "f.jsonl is an Arrow file: give format='arrow'"),
    "Excel": ("f.csv", b"PK\x03\x04more", "an Excel workbook: unpack it, or save it as CSV"),
    "bzip2": ("f.json", b"BZh91AY", "is packed by bzip2: unpack it"),
    "pointer": ("f.jsonl", LFS, "is a Git LFS pointer, and no data: run git lfs pull"),
    "pointer of Parquet": ("f.parquet", LFS, "is a Git LFS pointer"),
    "cut short": ("f.csv.gz", PACKED[:-4], "the file was cut short"),
    "a large window": (  # the header of a frame that zstd --long=31 wrote
        "f.csv.zst",
        bytes.fromhex("28b52ffd04a8") + b"\x11\x00\x00abc",
        "zstd -d --long=31",
    ),
}


def test_first_bytes_say_how_a_file_is_read(tmp_path, reader):
    for number, (name, (file, data)) in enumerate(READ.items()):
        path = tmp_path / str(number) / file
        path.parent.mkdir()
        path.write_bytes(data)
        found = read(source_of(path, anchor="q", positive="a"), reader)
        assert [texts(row) for row in found] == PAIRS, name
    lines = tmp_path / "l.jsonl"
    lines.write_bytes('{"t": "é"}\n'.encode("utf-16"))
    assert [texts(row) for row in read(dp.sources.JsonSource(lines, text="t"), reader)] == [
        [("context", "é")]
    ]


def test_first_bytes_say_what_a_file_is(tmp_path, reader):
    for number, (name, (file, data, message)) in enumerate(REFUSED.items()):
        path = tmp_path / str(number) / file
        path.parent.mkdir()
        path.write_bytes(data)
        with pytest.raises(SourceError) as raised:
            read(source_of(path, text="t"), reader)
        assert message in str(raised.value), name
        assert "cp1252" not in str(raised.value), name


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_folders_give_columns(tmp_path, reader, form):
    """A folder ``lang=en`` gives its rows a column, unless they have one of that name."""
    for value in ("en", "a%2Fb", "__HIVE_DEFAULT_PARTITION__"):
        folder = tmp_path / "data" / f"lang={value}" / "day=2024-01-02"
        folder.mkdir(parents=True)
        row = {"q": f"q {value}", "a": "a", "own": "x"}
        (folder / f".{form}").write_bytes(b"no file of the set")
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist([row]), folder / "p.parquet")
        elif form == "csv":
            (folder / "p.csv").write_text("q,a,own\n" + ",".join(row.values()) + "\n")
        else:
            (folder / "p.jsonl").write_text(json.dumps(row))
    (tmp_path / "data" / "_SUCCESS").touch()
    given = {"anchor": "q", "positive": "a", "meta": ["lang", "own"], "date": "day"}
    source = source_of(tmp_path / "data", **given)
    assert (source.kind, source.default_name()) == (form.removesuffix("l"), "data")
    found = read(source, reader)
    assert [dict(row["meta"]).get("lang") for row in found] == [None, "a/b", "en"]
    assert {str(row["date"]) for row in found} == {"2024-01-02"}
    glob = source_of(f"{tmp_path}/data/*/*/p.{form}", **(given | {"meta": "LANG"}))
    assert [dict(row["meta"]).get("LANG") for row in read(glob, reader)] == [None, "a/b", "en"]
    with pytest.raises(SourceError, match=r"no column 'land' .did you mean 'lang'"):
        read(source_of(tmp_path / "data", anchor="q", group="land"), reader)


def test_a_folder_of_several_formats_is_asked_about(tmp_path, reader):
    (tmp_path / "a.csv").write_text("t\nx\n")
    (tmp_path / "b.CSV.gz").write_bytes(gzip.compress(b"t\ny\n"))
    assert len(read(source_of(tmp_path, text="t"), reader)) == 2
    (tmp_path / "c.jsonl").write_text('{"t": "z"}\n')
    with pytest.raises(SourceError, match=r"several formats: give format= .*csv, jsonl"):
        source_of(tmp_path, text="t")
    assert len(read(source_of(tmp_path, format="json", text="t"), reader)) == 1
    assert source_of(tmp_path, pattern="*.csv").kind == "text"
    with pytest.raises(SourceError, match="without files of the format parquet"):
        source_of(tmp_path, format="parquet", text="t")
    (tmp_path / "README.md").write_text("# Of text\n\nas before")
    assert source_of(tmp_path).kind == "text"


SQUAD = {
    "version": "1.1",
    "more": {"data": [1, {"]": "}"}]},
    "data": [
        {"title": "T", "paragraphs": [{"context": "c1", "qas": [{"q": "1"}, {"q": "2"}]}]},
        {"title": "U", "paragraphs": [{"context": "c2", "qas": [{"q": "3"}]}, {"qas": []}]},
    ],
}
ROWS = [
    ("data", "title", ["T", "U"]),
    ("data.paragraphs", "context", ["c1", "c2", "no text"]),
    ("data.paragraphs.qas", "q", ["1", "2", "3"]),
    ("more.data", "]", ["not an object", "}"]),
]


def test_rows_are_found_within_a_document(tmp_path, reader):
    for indent in (None, 1):
        path = tmp_path / f"{indent}.json"
        path.write_text(json.dumps(SQUAD, indent=indent))
        for rows, column, expected in ROWS:
            found = read(dp.sources.JsonSource(path, rows=rows, text=column), reader)
            assert [row["skip"] or texts(row)[0][1] for row in found] == expected
        for wrong in ("dat", "version", "data.title", "data.paragraphs.context"):
            with pytest.raises(SourceError, match=f"no list at rows='{wrong}'; its keys are: ver"):
                read(dp.sources.JsonSource(path, rows=wrong, text="t"), reader)
        with pytest.raises(SourceError, match="give rows='data'"):
            read(dp.sources.JsonSource(path, text="title"), reader)
    (tmp_path / "cut.json").write_text('{"data": [{"t": "x"}')
    with pytest.raises(SourceError, match="unexpected end of the file"):
        read(dp.sources.JsonSource(tmp_path / "cut.json", rows="data", text="t"), reader)
    with pytest.raises(SourceError, match="give the path to the rows"):
        dp.sources.JsonSource("x.json", rows=5, text="t")
    tables = {"s": {"path": str(path), "rows": "data", "text": "title"}}
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        assert (
            corpus.ingest(sources_file(tmp_path / "s.yaml", tables), progress=False)["s"].added == 2
        )


EPOCHS = ["1706745600", "1706745600.5", "1706745600123", "1706745600123456", "1706745600123456789"]


def test_numbers_since_1970_are_dates(reader):
    given = [*EPOCHS, 1706745600, 1706745600.5, "100000000", "20240201", "12345678901"]
    rows = [{"t": f"t{i}", "d": value} for i, value in enumerate(given)]
    source = dp.sources.MemorySource(rows, text="t", date="d", created_at="d")
    found = read(source, reader)
    assert [str(row["date"]) for row in found][:8] == ["2024-02-01"] * 7 + ["1973-03-03"]
    assert str(found[2]["created_at"]) == "2024-02-01 00:00:00.123000"
    assert [row["skip"] for row in found][8:] == ["unreadable created_at"] * 2
