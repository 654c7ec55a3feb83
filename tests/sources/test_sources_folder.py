from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest
from source_rows import read, texts

from duckplets import TextFileSource
from duckplets.errors import SourceError
from duckplets.sources.formats.text_file import path_date


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "News/2024/01-02--late.txt": b"\nHello,\r\nworld \n",
        "a_short_story.txt": "\ufeffOnce é".encode(),
        "deep/[odd]* name.txt": b"x\0y",
        "blank.txt": b" \n",
        "empty.txt": b"",
        "latin.txt": b"caf\xe9",
        "other.md": b"not read",
    }
    for name, data in files.items():
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return tmp_path / "texts"


def test_files_become_records(folder, reader):
    source = TextFileSource(folder, trust_by_folder={"NEWS": 0.9, "2024": 0.1}, date="path")
    rows = {row["key"]: row for row in read(source, reader)}
    assert list(rows) == sorted(rows)
    news = rows["News/2024/01-02--late.txt"]
    assert texts(news) == [("anchor", "01-02--late"), ("context", "\nHello,\r\nworld \n")]
    assert (str(news["date"]), news["taxonomy"], news["trust"]) == (
        "2024-01-02",
        ["News", "2024"],
        0.9,
    )
    assert news["created_at"].isoformat() == news["updated_at"].isoformat() == "2023-11-14T22:13:20"
    story = rows["a_short_story.txt"]
    assert texts(story) == [("anchor", "a short story"), ("context", "Once é")]
    assert (story["date"], story["taxonomy"], story["trust"]) == (None, [], None)
    assert texts(rows["deep/[odd]* name.txt"])[1] == ("context", "x\0y")
    skipped = {key: row["skip"] for key, row in rows.items() if row["skip"]}
    assert skipped == {
        "blank.txt": "empty file",
        "empty.txt": "empty file",
        "latin.txt": "invalid UTF-8",
    }


def test_what_a_folder_says_of_itself(folder, reader):
    source = TextFileSource(folder)
    rows = source.open(reader)
    assert (source.kind, source.uri, source.default_name()) == ("text", str(folder), "texts")
    assert (rows.defaults, rows.total) == ("documents", 6)
    assert TextFileSource(folder, date=True).open(reader).defaults == "dated"
    (row,) = read(TextFileSource(folder, pattern="*.md"), reader)
    assert row["key"] == "other.md"


def test_many_files_come_in_order(tmp_path, reader):
    for i in range(2_500):
        (tmp_path / f"{i:05}.txt").write_text(f"text {i}")
    rows = read(TextFileSource(tmp_path), reader)
    assert [text for row in rows for role, text in texts(row) if role == "context"] == [
        f"text {i}" for i in range(2_500)
    ]


def test_a_file_that_is_gone_is_counted(folder, reader):
    rows = TextFileSource(folder).open(reader)
    (folder / "a_short_story.txt").unlink()
    found = [row for batch in rows.batches for row in batch.to_pylist()]
    assert {row["key"]: row["skip"] for row in found}["a_short_story.txt"] == "unreadable file"


FAULTS = [
    ({"folder": "none"}, "none does not exist"),
    ({"folder": "texts", "titles": "stem"}, "titles='stem': give 'heading' or 'name'"),
    ({"folder": "texts", "on_error": "drop"}, "on_error='drop': give one of raise"),
    ({"folder": "texts", "encoding": "nope"}, "encoding='nope'"),
    ({"folder": "texts", "pattern": ["*.md", 5]}, "pattern=["),
    ({"folder": "texts", "pattern": "*.rst"}, "has no file that matches '*.rst'"),
    ({"folder": "texts", "trust": 2.0}, "trust=2.0"),
    ({"folder": "texts", "trust": "column"}, "text files have no columns"),
    ({"folder": "texts", "trust_by_folder": {"News": -1}}, "trust=-1"),
    ({"folder": "texts", "date": "name"}, "only date='path' is known"),
]


@pytest.mark.parametrize(("arguments", "message"), FAULTS)
def test_faults(folder, reader, arguments, message):
    arguments = arguments | {"folder": folder.parent / arguments["folder"]}
    with pytest.raises(SourceError) as raised:
        read(TextFileSource(**arguments), reader)
    assert message in str(raised.value)


PATHS = [
    ("2024-01-02.txt", "2024-01-02"),
    ("2024_01_02.txt", "2024-01-02"),
    ("01-02-2024.txt", "2024-01-02"),
    ("01_02_2024--draft_3.txt", "2024-01-02"),
    ("2024/01-02.txt", "2024-01-02"),
    ("2024/01_02/story.txt", "2024-01-02"),
    ("2023-05-06/2024-01-02.txt", "2024-01-02"),
    ("2023-05-06/story.txt", "2023-05-06"),
    ("2024--old/01-02--x/y.txt", "2024-01-02"),
    ("2023-05-06/2024-13-02.txt", "2023-05-06"),
    ("01-02.txt", None),
    ("2024-01-02-story.txt", None),
    ("2024/x/01-02.txt", None),
    ("x20240102.txt", None),
]


@pytest.mark.parametrize(("path", "expected"), PATHS)
def test_dates_in_paths(path, expected):
    found = path_date(PurePosixPath(path))
    assert (found and found.isoformat()) == expected
