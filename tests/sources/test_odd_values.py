"""Dates beyond calendars, names of columns, pipes and folders that cannot be read."""

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_rows import read

import duckplets as dp
from duckplets.errors import SourceError


def seconds(number, zone=None):
    return pa.array([number], pa.int64()).view(pa.timestamp("s", tz=zone))


AT = int(datetime.datetime(2024, 1, 2, 11, 59, 59, tzinfo=datetime.UTC).timestamp())
WRITTEN = {
    "2024-01-02": "2024-01-02",
    " 2024-01-02 ": "2024-01-02",
    "2024-02-30": "unreadable date",
    "2024-01-02T03:04:05Z": "2024-01-02",
    "2024-01-02 23:59:59.5+02:00": "2024-01-02",
    "2024-01-01T23:59:59-12:00": "2024-01-01",
    "2024-01-01T23:59:59+99:00": "unreadable date",
    **dict.fromkeys(["0000-05-05", "02.01.2024", "20240102"], "unreadable date"),
    "": "None",
}
DATES = {
    **{text: (pa.array([text]), date) for text, date in WRITTEN.items()},
    "number": (pa.array([20240102]), "unreadable date"),
    "nanoseconds": (pa.array([AT * 10**9], pa.timestamp("ns", "UTC")), "2024-01-02"),
    "date": (pa.array([datetime.date(2024, 1, 2)]), "2024-01-02"),
    "zone of a column": (seconds(AT, "-12:00"), "2024-01-01"),
    "UTC": (seconds(AT, "UTC"), "2024-01-02"),
    "no zone": (seconds(AT), "2024-01-02"),
    "unknown zone": (seconds(AT, "Mars/Olympus"), "2024-01-02"),
    "before Christ": (pa.array([-719_700], pa.int32()).view(pa.date32()), "unreadable date"),
    "year 10000": (seconds(253_402_300_800), "unreadable date"),
    "out of range": (seconds(2**60), "unreadable date"),
    "out of range with a zone": (seconds(-(2**60), "UTC"), "unreadable date"),
    "in a list": (
        pa.array([[2**60]], pa.list_(pa.int64())).view(pa.list_(pa.timestamp("s"))),
        "unreadable date",
    ),
}


def test_dates(reader):
    for name, (column, expected) in DATES.items():
        both = pa.concat_arrays([column, pa.nulls(1, column.type)])
        table = pa.table({"t": ["x", "y"], "d": both})
        source = dp.MemorySource(table, text="t", date="d", on_bad_date="fail")
        first, second = read(source, reader)
        assert (first["skip"] or str(first["date"])) == expected, name
        assert (second["skip"], second["date"]) == (None, None), name


def test_names_in_a_header(tmp_path, reader):
    for number, name in enumerate(["a\u00a0b", "\u3000a", "two\nlines", "x\u200by"]):
        path = tmp_path / f"{number}.csv"
        path.write_text(f'"{name}",u\nx,y\n', encoding="utf-8", newline="")
        (row,) = read(dp.CsvSource(path, text=name), reader)
        assert row["sections"][0] == {"role": "context", "heading": name, "text": "x"}


def test_a_pipe_is_no_file(tmp_path, reader):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "a.txt").write_text("x")
    assert len(read(dp.TextFileSource(tmp_path), reader)) == 1
    for kind in (dp.CsvSource, dp.JsonSource, dp.ParquetSource, dp.ArrowSource):
        with pytest.raises(SourceError, match="no file but a pipe"):
            kind(tmp_path / "pipe.txt", text="t").open(reader)


def test_a_subfolder_that_cannot_be_read_is_counted(tmp_path, reader, monkeypatch):
    (tmp_path / "locked").mkdir()
    (tmp_path / "a.txt").write_text("x")
    scan = os.scandir

    def refusing(path="."):
        if Path(str(path)).name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(str(path))

    monkeypatch.setattr(os, "scandir", refusing)
    rows = read(dp.TextFileSource(tmp_path), reader)
    assert [(row["key"], row["skip"]) for row in rows] == [
        ("a.txt", None),
        ("locked", "unreadable folder"),
    ]


def test_a_damaged_name_of_a_column(tmp_path, reader):
    table = pa.table({"t": ["x"], "other": ["y"]})
    pq.write_table(table, tmp_path / "f.parquet", store_schema=False)
    data = (tmp_path / "f.parquet").read_bytes().replace(b"other", b"oth\xffr")
    (tmp_path / "f.parquet").write_bytes(data)
    with pytest.raises(SourceError, match="utf-8") as raised:
        read(dp.ParquetSource(tmp_path / "f.parquet", text="t"), reader)
    assert "\n" not in str(raised.value)


def test_arrow_whose_offsets_point_elsewhere(tmp_path, reader):
    offsets = pa.array([0, 10**9, 1], pa.int32()).buffers()[1]
    wrong = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"x")])
    with pytest.raises(SourceError, match="column 't' is damaged in rows 1 to 2"):
        read(dp.MemorySource(pa.table({"t": wrong}), text="t"), reader)
    indices = pa.array([5], pa.int32())
    wrong = pa.DictionaryArray.from_arrays(indices, ["x"], safe=False)
    with pytest.raises(SourceError, match="is damaged"):
        read(dp.MemorySource(pa.table({"t": wrong}), text="t"), reader)
