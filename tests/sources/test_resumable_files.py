"""Going on where an ingest of files stopped: the rows that were left, and the same corpus."""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from effort import often
from source_rows import rows_in, rows_of

import duckplets as dp
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.ingest import ingest
from duckplets.sources import row_batches
from duckplets.sources.formats.text_file import TextLinesSource
from duckplets.sources.mapping import changed
from duckplets.sources.rows import Mark

BATCH, ROWS = often(10, less=20), often(95, less=50)


@pytest.fixture
def pieces(monkeypatch):
    """Batches of few rows, and a commit for every one or two."""
    monkeypatch.setattr(row_batches, "MAX_ROWS", BATCH)
    monkeypatch.setattr(row_batches, "_CHUNK_ROWS", 7)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 20)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)


def many(tmp_path):
    """Sources of some rows in every form of file."""
    rows = [{"id": i, "title": f"title {i}", "body": f"body {i}"} for i in range(ROWS)]
    rows += [{"id": i, "title": None, "body": " "} for i in range(ROWS, ROWS + 5)]
    table = pa.Table.from_pylist(rows)
    lines = [json.dumps(row) + "\n" for row in rows]
    (tmp_path / "a.jsonl").write_text("".join(lines[: ROWS // 2]))
    (tmp_path / "b.jsonl").write_text("".join(lines[ROWS // 2 :]))
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
        assert len(cursors) >= (1 if isinstance(source, dp.TextFileSource) else ROWS // BATCH)
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
