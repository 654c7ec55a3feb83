"""Dates beyond calendars, names of columns, pipes and folders that cannot be read."""

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub_data import parquet
from source_rows import read, rows_of, texts

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
        source = dp.sources.MemorySource(table, text="t", date="d", on_bad_date="fail")
        first, second = read(source, reader)
        assert (first["skip"] or str(first["date"])) == expected, name
        assert (second["skip"], second["date"]) == (None, None), name


def test_names_in_a_header(tmp_path, reader):
    for number, name in enumerate(["a\u00a0b", "\u3000a", "two\nlines", "x\u200by"]):
        path = tmp_path / f"{number}.csv"
        path.write_text(f'"{name}",u\nx,y\n', encoding="utf-8", newline="")
        (row,) = read(dp.sources.CsvSource(path, text=name), reader)
        assert row["sections"][0] == {"role": "context", "heading": name, "text": "x"}


def test_a_pipe_is_no_file(tmp_path, reader):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "a.txt").write_text("x")
    assert len(read(dp.TextFileSource(tmp_path), reader)) == 1
    for kind in (
        dp.sources.CsvSource,
        dp.sources.JsonSource,
        dp.sources.ParquetSource,
        dp.sources.ArrowSource,
    ):
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
        read(dp.sources.ParquetSource(tmp_path / "f.parquet", text="t"), reader)
    assert "\n" not in str(raised.value)


def test_arrow_whose_offsets_point_elsewhere(tmp_path, reader):
    offsets = pa.array([0, 10**9, 1], pa.int32()).buffers()[1]
    wrong = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"x")])
    with pytest.raises(SourceError, match="column 't' is damaged in rows 1 to 2"):
        read(dp.sources.MemorySource(pa.table({"t": wrong}), text="t"), reader)
    indices = pa.array([5], pa.int32())
    wrong = pa.DictionaryArray.from_arrays(indices, ["x"], safe=False)
    with pytest.raises(SourceError, match="is damaged"):
        read(dp.sources.MemorySource(pa.table({"t": wrong}), text="t"), reader)


# ---- sets that others publish are read by their columns: pairs, triplets, n-tuples, passages, ids


def passage(kind, i):
    return {"docid": f"{kind}{i}", "text": f"{kind} {i}", "title": ""}


# By name: rows as published, how they are mapped, and the texts by role of row i.
SETS = {
    # of sentence-transformers' collection
    "pair": (
        {"query": "q", "answer": "a"},
        "anchor=query positive=answer",
        [("anchor", "q"), ("context", "a")],
    ),
    "triplet": (
        {"anchor": "q", "positive": "a", "negative": "n"},
        "anchor=anchor positive=positive negative=negative",
        [("anchor", "q"), ("context", "a"), ("rejected", "n")],
    ),
    "n-tuple": (
        {"question": "q", "answer": "a"} | {f"negative_{i}": f"n{i}" for i in (1, 2, 3)},
        "anchor=question positive=answer negative=negative_1,negative_2,negative_3",
        [("anchor", "q"), ("context", "a"), *(("rejected", f"n{i}") for i in (1, 2, 3))],
    ),
    # RLHN, and what else is in Tevatron's form
    "passages": (
        {"query_id": "7f", "query": "q", "subset": "fiqa"}
        | {
            f"{kind}_passages": [passage(kind, i) for i in (1, 2)]
            for kind in ("positive", "negative")
        },
        "id=query_id anchor=query positive=positive_passages.text "
        "negative=negative_passages.text meta=subset",
        [
            *(("anchor", "q"), ("context", "positive 1"), ("context", "positive 2")),
            *(("rejected", "negative 1"), ("rejected", "negative 2")),
        ],
    ),
    "FlagEmbedding": (
        {"query": "q", "pos": ["a", "b"], "neg": ["n"]},
        "anchor=query positive=pos negative=neg",
        [("anchor", "q"), ("context", "a"), ("context", "b"), ("rejected", "n")],
    ),
}


def test_published_sets_are_read_by_their_columns(hub, reader):
    for name, (row, mapping, expected) in SETS.items():
        hub.add(f"org/{name}", {"data/train-00000-of-00001.parquet": parquet([row])})
        (found,) = rows_of(dp.sources.HubSource(f"hf://org/{name}/default/train {mapping}"), reader)
        assert texts(found) == expected, name


def test_ids_and_scores_of_a_teacher_are_joined_with_their_texts(tmp_path):
    """LightOn's sets: queries, documents, and a row a query of ids with scores."""
    parts = {
        "queries": [{"query_id": i, "query": f"q{i}"} for i in range(9)],
        "documents": [{"document_id": i, "document": f"d{i}"} for i in range(40)],
        "scores": [
            {"query_id": i, "document_ids": [i + 30, i, i + 10], "scores": [0.1, 0.9, 0.5]}
            for i in range(9)
        ],
    }
    for name, rows in parts.items():
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    joined = f"""
        SELECT
            query_id, any_value(query) AS query, arg_max(document, score) AS positive,
            list(document ORDER BY score DESC)[2:] AS negatives
        FROM (
            SELECT query_id, unnest(document_ids) AS document_id, unnest(scores) AS score
            FROM '{tmp_path}/scores.parquet'
        )
        JOIN '{tmp_path}/queries.parquet' USING (query_id)
        JOIN '{tmp_path}/documents.parquet' USING (document_id)
        GROUP BY query_id
    """
    how = {"anchor": "query", "positive": "positive", "negative": "negatives"}
    with dp.Corpus(tmp_path / "teacher.duckdb") as corpus:
        report = corpus.ingest(dp.SqlSource(joined, id="query_id", **how), name="lighton")
        assert report.added == 9
        corpus.split(train=1, validation=0, test=0)
        batch = next(corpus.sampler(recipes=["ready_negative"], batch_size=9, negatives=2))
        for anchor, *others in zip(
            *(batch[c] for c in ("anchor", "positive", "negative_1", "negative_2")), strict=True
        ):
            i = int(anchor[1:])
            assert others[0] == f"d{i}"
            assert set(others[1:]) == {f"d{i + 10}", f"d{i + 30}"}


def test_what_is_no_object_in_a_list_is_not_left_out_in_silence(reader):
    there = {"q": "a", "p": [{"text": "x"}, None, {"other": "y"}]}
    cases = [(["z", {"text": "x"}], "no positive"), ([{"other": "x"}], "no positive"), ([], None)]
    rows = [there, *({"q": "a", "p": value} for value, _ in cases)]
    source = dp.sources.MemorySource(rows, anchor="q", positive="p.text")
    first, *others = rows_of(source, reader)
    assert texts(first) == [("anchor", "a"), ("context", "x")]
    assert [row["skip"] for row in others] == ["no positive"] * 3
    with pytest.raises(SourceError, match=r"no row has 'p\.txt' \(did you mean 'text'"):
        rows_of(dp.sources.MemorySource([there], anchor="q", positive="p.txt"), reader)
