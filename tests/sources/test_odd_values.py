"""Dates beyond calendars, names of columns, pipes and folders that cannot be read."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_rows import read

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.sources.formats import text_file


def seconds(number: int, zone: str | None = None) -> pa.Array:
    return pa.array([number], pa.int64()).view(pa.timestamp("s", tz=zone))


AT = int(datetime.datetime(2024, 1, 2, 11, 59, 59, tzinfo=datetime.UTC).timestamp())
DATES = {
    "zone in text": (pa.array(["2024-01-01T23:59:59-12:00"]), "2024-01-01"),
    "zone of a column": (seconds(AT, "-12:00"), "2024-01-01"),
    "UTC": (seconds(AT, "UTC"), "2024-01-02"),
    "no zone": (seconds(AT), "2024-01-02"),
    "unknown zone": (seconds(AT, "Mars/Olympus"), "2024-01-02"),
    "no such offset": (pa.array(["2024-01-01T23:59:59+99:00"]), "unreadable date"),
    "year 0": (pa.array(["0000-05-05"]), "unreadable date"),
    "before Christ": (pa.array([-719_700], pa.int32()).view(pa.date32()), "unreadable date"),
    "year 10000": (seconds(253_402_300_800), "unreadable date"),
    "out of range": (seconds(2**60), "unreadable date"),
    "out of range with a zone": (seconds(-(2**60), "UTC"), "unreadable date"),
    "in a list": (
        pa.array([[2**60]], pa.list_(pa.int64())).view(pa.list_(pa.timestamp("s"))),
        "unreadable date",
    ),
}


@pytest.mark.parametrize("name", DATES)
def test_dates(reader, name):
    column, expected = DATES[name]
    both = pa.concat_arrays([column, pa.nulls(1, column.type)])
    table = pa.table({"t": ["x", "y"], "d": both})
    first, second = read(dp.MemorySource(table, text="t", date="d", on_bad_date="fail"), reader)
    assert (first["skip"] or str(first["date"])) == expected
    assert (second["skip"], second["date"]) == (None, None)


@pytest.mark.parametrize("moment", [1e12, 1e30, -1e12])
def test_a_time_of_change_that_no_calendar_has(moment):
    assert text_file._time_of(moment) is None


@pytest.mark.parametrize("name", ["a\u00a0b", "\u3000a", "two\nlines", "x\u200by"])
def test_names_in_a_header(tmp_path, reader, name):
    (tmp_path / "f.csv").write_text(f'"{name}",u\nx,y\n', encoding="utf-8", newline="")
    (row,) = read(dp.CsvSource(tmp_path / "f.csv", text=name), reader)
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

    def refusing(path: object = ".") -> object:
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
