"""A file of text that is cut for an engine gives the rows of the whole, wherever the cuts are."""

import json
import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from effort import often
from hypothesis import example, given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.sources import partitions
from duckplets.sources.limits import FileReader
from duckplets.sources.partitions import PartOf, cuts_of

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
