"""Folders of text: which files are read, what their headings are, what is said of the others."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from effort import often
from prebuilt import empty_corpus
from source_rows import read, texts

import duckplets as dp
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.recipes.defaults import default_recipes
from duckplets.sources.documents import listed
from duckplets.sources.text_file import heading_of, is_binary

_each = pytest.mark.parametrize

HEADINGS = [
    ("# One\n\ntext", "One"),
    ("\n\n  # Two ##\ntext", "Two"),
    ("### Third\ntext", "Third"),
    ("Four\n====\ntext", "Four"),
    ("Four\r\n====\r\ntext", "Four"),
    ("Four b\n-------\ntext", "Four b"),
    ("=====\n Five\n=====\n\ntext", "Five"),
    ("*****\nSix\n*****\n", "Six"),
    (".. SPDX-License-Identifier: GPL-2.0\n\n=======\nSeven\n=======\n", "Seven"),
    (".. _label:\n\n..\n   comment\n   more\n\nEight\n~~~~~\n", "Eight"),
    (":orphan:\n\nNine\n^^^^\n", "Nine"),
    ("---\ntitle: x\n---\n\n# Ten\n", "Ten"),
    ("<!-- a\n# no\n-->\n# Eleven\n", "Eleven"),
    ('<p align="center">\n[![badge](x)](y)\n# Twelve\n', "Twelve"),
    ("#  A   b  \n", "A b"),
    (":mod:`email` parts\n===================\n", ":mod:`email` parts"),
    ("(label)=\n\n# Thirteen\n", "Thirteen"),
    ("plain text\nand more\n====\n", None),
    ("text\n\n# later\n", None),
    ("too long\n===\n", None),
    ("===\ntoo long\n===\n", None),
    ("#hashtag\n", None),
    ("# ---\n", None),
    ("#\n", None),
    ("", None),
    ("----\n", None),
    ("# " + "x" * 400, None),
    ("a\n=\n", None),
    ("    indented\n============\n", None),
    ("---\nnever closed\n", None),
    ("<!-- never closed\n# no", None),
    ("..\n", None),
]


@_each(("text", "heading"), HEADINGS)
def test_headings(text, heading):
    assert heading_of(text) == heading
    assert heading_of(text + "\nmore " * 1000) == heading


def test_any_text_has_a_heading_of_itself_or_none():
    generator = random.Random(3)
    for _ in range(often(2000, less=400)):
        text = "".join(generator.choice("#= -\n.:ab<!>~") for _ in range(generator.randint(0, 40)))
        heading = heading_of(text)
        assert heading is None or heading in " ".join(text.split())


@pytest.fixture(scope="module")
def reader() -> Iterator[Database]:
    database = Database.reader()
    yield database
    database.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "a.md": b"# Anchor of a\n\ntext of a",
        "sub/b.rst": b"Anchor of b\n===========\n\ntext of b",
        "c_d.txt": b"text of c",
        "e.txt.gz": gzip.compress(b"# Anchor of e\ntext of e"),
        "image.png": b"\x89PNG\r\n\x1a\n\0\0\0",
        "LICENSE": b"free",
        "x.md.bak": b"old",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


READ = [
    ("*.txt", ["c_d.txt", "e.txt.gz"]),
    ("*.md", ["a.md"]),
    (["*.md", "*.rst"], ["a.md", "sub/b.rst"]),
    (("*.txt", "*.t*t", "*.gz"), ["c_d.txt", "e.txt.gz"]),
    ("sub/*", ["sub/b.rst"]),
]


@_each(("pattern", "names"), READ)
def test_patterns(folder, reader, pattern, names):
    found = read(dp.TextFileSource(folder, pattern=pattern), reader)
    assert [row["key"] for row in found] == names
    there = listed(folder, pattern)
    everything = sorted([*there.files, *there.others])
    assert len(everything) == len(set(everything)) == 7


def test_anchors_are_headings_or_names(folder, reader):
    source = dp.TextFileSource(folder, pattern=["*.md", "*.rst", "*.txt"])
    opened = source.open(reader)
    rows = [row for batch in opened.batches for row in batch.to_pylist()]
    assert [texts(row)[0] for row in rows] == [
        ("anchor", "Anchor of a"),
        ("anchor", "c d"),
        ("anchor", "Anchor of e"),
        ("anchor", "Anchor of b"),
    ]
    assert texts(rows[0])[1] == ("context", "# Anchor of a\n\ntext of a")  # the whole
    assert [row["file"] for row in rows] == [str(folder / row["key"]) for row in rows]
    first, others = opened.notes()
    assert first == "anchor: the first heading of 3 files, the name of 1; context: their text"
    assert "1 without suffix (LICENSE)" in others
    assert "1 .png (image.png)" in others
    named = read(dp.TextFileSource(folder, pattern="*.md", titles="name"), reader)
    assert texts(named[0])[0] == ("anchor", "a")


@_each("place", ["a.md", "sub/b.rst", "c_d.txt", "e.txt.gz", "LICENSE", "sub/*.rst"])
def test_a_single_file(folder, reader, place):
    (row,) = read(dp.TextFileSource(folder / place), reader)
    assert row["skip"] is None
    assert row["key"] == Path(place).name.replace("*", "b")
    assert row["taxonomy"] == []


def test_several_files(folder, reader):
    source = dp.TextFileSource([folder / "a.md", folder / "sub" / "b.rst"])
    assert [row["key"] for row in read(source, reader)] == ["a.md", "sub/b.rst"]


def test_nothing_that_matches_is_told_with_what_there_is(folder, reader):
    with pytest.raises(SourceError, match=r"no file that matches '\*\.org'; it has 2 \.md|1 \.bak"):
        dp.TextFileSource(folder, pattern="*.org").open(reader)


def binary_files() -> dict[str, bytes]:
    generator = random.Random(1)
    noise = generator.randbytes(5000)
    return {
        "noise": noise,
        "compressed": zlib.compress(noise),
        "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe" + noise,
        "utf-16": "words in utf-16".encode("utf-16") * 100,
        "nul": b"text" + b"\0" * 2000,
    }


@_each("name", list(binary_files()))
def test_binary_files_fail_at_once(tmp_path, reader, name):
    (tmp_path / "b.txt").write_bytes(binary_files()[name] + b"x" * 10**6)
    (row,) = read(dp.TextFileSource(tmp_path), reader)
    assert row["skip"] == "binary file"


TEXTS = [
    b"x\0y",
    "ümlaut ".encode() * 2000,
    b"caf\xe9 " * 500,
    b"\x1b[1mbold\x1b[0m",
    b"",
    b"\t\f\r",
]


@_each("text", TEXTS)
def test_text_is_not_binary(text):
    assert not is_binary(text[:8192])


def test_characters_may_be_cut_at_the_end_of_the_block():
    text = ("a" * 5000 + "日" * 2000).encode()
    assert not any(is_binary(text[:size]) for size in range(8000, 8010))


def test_a_damaged_archive_is_an_unreadable_file(tmp_path, reader):
    (tmp_path / "x.txt.gz").write_bytes(b"no gzip at all")
    (row,) = read(dp.TextFileSource(tmp_path), reader)
    assert row["skip"] == "unreadable file"


def test_files_that_are_no_text_are_set_aside(folder):
    (folder / "bad.txt").write_bytes(b"caf\xe9 and more")
    with empty_corpus(folder / "c.duckdb") as corpus:
        with pytest.raises(SourceError, match=r"bad\.txt\): invalid UTF-8"):
            corpus.ingest(dp.TextFileSource(folder, on_error="raise"), name="t")
        report = corpus.ingest(dp.TextFileSource(folder), name="t", on_error="quarantine")
        assert (report.added, report.failed) == (2, 1)
        (row,) = corpus.sql("SELECT file, document FROM quarantine").to_pylist()
        assert row == {"file": str(folder / "bad.txt"), "document": '{"path": "bad.txt"}'}
        assert corpus.sources()["defaults"].to_pylist() == ["documents"]
        corpus.split(train=1, validation=0, test=0)
        sampler = corpus.sampler("triplets", batch_size=2)
        assert {name for batch in [sampler.batch_at(0)] for name in batch["recipe"]} == {
            "anchor_context"
        }


def test_documents_have_the_recipes_of_roles():
    assert default_recipes("documents") == default_recipes("roles")
