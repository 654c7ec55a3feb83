"""A file of text that is cut for an engine gives the rows of the whole, wherever the cuts are."""

import json
import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from effort import often
from hypothesis import example, given, settings
from hypothesis import strategies as st
from source_rows import rows_in, rows_of

import duckplets as dp
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.ingest import ingest
from duckplets.sources import partitions, row_batches
from duckplets.sources.formats.text_file import TextLinesSource
from duckplets.sources.limits import FileReader
from duckplets.sources.mapping import changed
from duckplets.sources.partitions import PartOf, cuts_of
from duckplets.sources.rows import Mark

LONG = "long " * 40
OBJECTS = [
    *(json.dumps({"text": text, "id": text}, ensure_ascii=False) for text in ("a", "é €", LONG)),
    *("", " ", "\r", "[1]", '{"text": "half', '{"text": "q\\"\\n"}', "\ufeff{}", "null", "{}"),
    '{"id": "of two lines\u2028"}',
]
CELLS = ["a", "é€", "", '""', '"q"', '"""q"""', '"x,y"', '"two\nlines"', '"of\r\ntwo"', LONG]
ODD = ["a\rb", 'st"ray', '"q"x', ' "q"', '"', "\ufeff", "\r"]
ROWS = [
    *(f"{one},{other}" for one in CELLS for other in CELLS[:6]),
    *(f"{one},b" for one in ODD),
    *("", "\r", "one", "1,2,3"),
]


def written(rows, odd):
    """Rows, what is no UTF-8 among them, with line ends of every kind, the last perhaps without."""
    each = st.sampled_from([*(row.encode() for row in rows), odd])
    lines = st.lists(st.tuples(each, st.sampled_from([b"\n", b"\n", b"\r\n"])), max_size=20)
    joined = st.builds(lambda some, end: b"".join(a + b for a, b in some) + end, lines, each)
    return joined | lines.map(lambda some: b"".join(a + b for a, b in some))


@cache
def file_reader():
    return FileReader.within(dp.Limits())


def read(source, *, size):
    """Return the rows of a source whose files are cut so, of how many parts, and its error."""
    rows = []
    before, count = 0, 0
    reader = file_reader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "_LINES", size)
        try:
            reader.part = whole = PartOf(source, source.uri or "")
            source.open(reader)
            for cut in cuts_of(source, reader, [], numbered=False):
                part = PartOf(source, source.uri or "", before + 1, before=before, keys=whole.keys)
                for batch in cut.open(source, reader, part).batches:
                    assert isinstance(batch, pa.RecordBatch)
                    rows += batch.to_pylist()
                if cut.rows is not None:
                    assert part.rows - before == cut.rows
                before, count = part.rows, count + 1
        except dp.DuckpletsError as error:
            return rows, count, str(error)
    for row in rows:
        row.setdefault("value", None)
    return rows, count, None


def assert_cut(name, data, size, make):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(data)
        whole, _, refused = read(make(file), size=1 << 30)
        found, count, error = read(make(file), size=size)
        assert error == refused
        assert refused or found == whole
        return count


@settings(max_examples=often(400, less=6), deadline=None)
@given(written(OBJECTS, b'{"text": "\xff"}'), st.integers(15, 400), st.booleans())
@example(b'{"text": "a"}', 13, False)
@example(b'{"text": "a"}\n' * 3, 14, True)
def test_lines_of_json_are_those_of_the_whole(data, size, has_mark):
    data = b"\xef\xbb\xbf" * has_mark + b'{"text": "first", "id": "1"}\n' + data
    assert_cut("a.jsonl", data, size, lambda at: dp.JsonSource(at, text="text", id="id"))
    assert_cut("a.txt", data, size, dp.TextLinesSource)


@settings(max_examples=often(400, less=10), deadline=None)
@given(
    written(ROWS, b"\xff,\xc3"), st.integers(10, 500), st.booleans(), st.sampled_from(['"', None])
)
@example(b"a,b\n" * 30, 7, True, '"')
@example(b'x"y,"z\n",a"b\n' * 30, 33, False, '"')
@example(b'"x"y,"z\n"a",b\n' * 30, 35, False, '"')
def test_rows_of_csv_are_those_of_the_whole(data, size, has_mark, quote):
    head = b'"id","text"\n' if quote else b"id,text\n"
    data = b"\xef\xbb\xbf" * has_mark + head + data
    assert_cut("a.csv", data, size, lambda at: dp.CsvSource(at, text="text", id="id", quote=quote))


def test_it_is_cut_where_it_can_be():
    def csv(at):
        return dp.CsvSource(at, text="text")

    quoted, stray = b'1,"two\nlines, ""and"" more"\n' * 50, b'2,st"ray\n' * 50
    head = b"id,text\n"
    assert assert_cut("a.csv", head + quoted + stray, 300, csv) > 4
    assert assert_cut("a.csv", head + stray, 300, csv) == 1
    lines = b'{"text": "a"}\n' * 60
    for name in ("a.jsonl", "a.json"):
        assert assert_cut(name, lines, 300, lambda at: dp.JsonSource(at, text="text")) > 2
    assert assert_cut("a.json", b"[" + lines[:-1].replace(b"\n", b",") + b"]", 300,
                      lambda at: dp.JsonSource(at, text="text")) == 1  # fmt: skip


def test_a_large_file_that_is_no_text_is_one_part(tmp_path):
    table = pa.table({"text": [f"text {i}" for i in range(200)]})
    with pa.ipc.new_file(tmp_path / "f.arrow", table.schema) as writer:
        writer.write_table(table)
    rows, count, error = read(dp.ArrowSource(tmp_path / "f.arrow", text="text"), size=64)
    assert (len(rows), count, error) == (200, 1, None)


# ---- going on where an ingest of files stopped: the rows that were left, and the same corpus


AT_ONCE, COUNT = often(10, less=20), often(95, less=50)


@pytest.fixture
def pieces(monkeypatch):
    """Batches of few rows, and a commit for every one or two."""
    monkeypatch.setattr(row_batches, "MAX_ROWS", AT_ONCE)
    monkeypatch.setattr(row_batches, "_CHUNK_ROWS", 7)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 20)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)


def many(tmp_path):
    """Sources of some rows in every form of file."""
    rows = [{"id": i, "title": f"title {i}", "body": f"body {i}"} for i in range(COUNT)]
    rows += [{"id": i, "title": None, "body": " "} for i in range(COUNT, COUNT + 5)]
    table = pa.Table.from_pylist(rows)
    lines = [json.dumps(row) + "\n" for row in rows]
    (tmp_path / "a.jsonl").write_text("".join(lines[: COUNT // 2]))
    (tmp_path / "b.jsonl").write_text("".join(lines[COUNT // 2 :]))
    pa.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=13)
    (tmp_path / "a.csv").write_text(
        "id,title,body\n" + "".join(f"{r['id']},{r['title'] or ''},{r['body']}\n" for r in rows)
    )
    (tmp_path / "a.txt").write_text("".join(f"{r['body']}\n" for r in rows))
    (tmp_path / "texts").mkdir()
    for row in rows[:40]:
        (tmp_path / "texts" / f"{row['id']:03}.txt").write_text(f"{row['body']}")
    columns = {"id": "id", "anchor": "title", "positive": "body"}
    return [
        dp.JsonSource([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], **columns),
        dp.ParquetSource(tmp_path / "*.parquet", **columns),
        dp.CsvSource(tmp_path / "a.csv", **columns),
        TextLinesSource(tmp_path / "a.txt"),
        dp.TextFileSource(tmp_path / "texts"),
    ]


@pytest.mark.usefixtures("pieces")
def test_what_is_read_from_any_mark_is_what_was_left(tmp_path):
    reader = Database.reader()
    for source in many(tmp_path):
        whole = rows_of(source, reader)
        resumable = changed(source, in_pieces=True)
        items = list(resumable.open(reader).batches)
        cursors = [item.cursor for item in items if isinstance(item, Mark)]
        assert rows_in(items) == whole
        assert isinstance(items[-1], Mark)
        for cursor in [{"rows": 33}, cursors[0], None, cursors[-1]][: often(4, less=1)]:
            rest = rows_of(resumable, reader, json.loads(json.dumps(cursor)))
            assert rest == whole[cursor["rows"] if cursor else 0 :]
        assert len(cursors) >= (1 if isinstance(source, dp.TextFileSource) else COUNT // AT_ONCE)
    reader.close()


def test_settings_tell_whether_files_are_the_same(tmp_path):
    for source in many(tmp_path):
        settings = source.settings()
        assert settings == source.settings() == json.loads(json.dumps(settings))
    source = dp.CsvSource(tmp_path / "a.csv", anchor="title")
    before = source.settings()
    assert dp.CsvSource(tmp_path / "a.csv", anchor="body").settings() != before
    with (tmp_path / "a.csv").open("a") as file:
        file.write("100,more,text\n")
    assert source.settings() != before
    (tmp_path / "a.csv").unlink()
    with pytest.raises(SourceError, match="does not exist"):
        source.settings()
    with pytest.raises(SourceError, match="cannot go on at a row"):
        dp.JsonSource("-", text="text", in_pieces=True)
