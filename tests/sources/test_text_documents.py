"""Folders of text: which files are read, what their headings are, what is said of the others."""

import gzip
import os
import random
import zlib
from pathlib import Path, PurePosixPath

import pytest
from effort import often
from prebuilt import empty_corpus
from source_rows import read, texts

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.sources.formats.headings import front_matter, headings, opening
from duckplets.sources.formats.text_file import path_date

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
    ("<!-- a\n# no\n-->\n# Eleven\n", "Eleven"),
    ('<p align="center">\n[![badge](x)](y)\n# Twelve\n', "Twelve"),
    ("#  A   b  \n", "A b"),
    (":mod:`email` --- parts\n======================\n", ":mod:`email` --- parts"),
    ("# Ten `code` *and* **more**\n", "Ten `code` *and* **more**"),
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
    ("```\n# no heading\n```\n", None),
    ("```\nls\n```\n", None),
    ("<!-- never closed\n# no", None),
    ("..\n", None),
]


def test_headings():
    for text, heading in HEADINGS:
        for written in (text, text + "\nmore " * 1000):
            found = opening(written)
            assert (found and found.title) == heading, text
    for text, title, rest in MATTER:
        found, start = front_matter(text)
        assert (found, text[start:]) == (title, text if rest is None else rest)


MATTER = [
    ("---\ntitle: A b\ntags: [x]\n---\n# C\n", "A b", "# C\n"),
    ("---\ntags: &a [x]\ntitle: 'It''s: *a'\n---\ntext", "It's: *a", "text"),
    ("---\r\ntitle: >\r\n  two\r\n  lines\r\nx: 1\r\n---\r\ntext", "two lines", "text"),
    ('+++\ntitle = "A"\n+++\ntext', "A", "text"),
    ("---\ntitle: 2024\n---\ntext", "2024", "text"),
    ("---\nlayout: page\n---\ntext", None, "text"),
    ("---\ntitle:\n---\ntext", None, "text"),
    ("---\ntitle: *a\n---\ntext", "", "text"),
    ("---\ntitle: A: B\n---\ntext", "", "text"),
    ("+++\ntitle = 'A\n+++\ntext", "", "text"),
    ("---\ntitle: [a]\n---\ntext", "", "text"),
    ("---\ntitle: '" + "a" * 301 + "'\n---\ntext", "", "text"),
    ("---\ntitle: " + "[" * often(5000, less=300) + "\n---\ntext", "", "text"),
    ("---\njust text\n---\nmore", None, None),
    ("---\ntitle: never closed\n", None, None),
    ("----\ntitle: a\n----\n", None, None),
]
TITLES = [
    (None, ":mod:`shutil` -- *args", ":mod:`shutil` -- *args"),
    ("markdown", "`a` __b__ [c](d) ![e](f) &amp; <br> \\* g_h {#id}", "a b c e & * g_h"),
    ("markdown", "[1.2][] - *new* [`x`][y]", "1.2 - new x"),
]


ALL = [  # level and title of each
    ("markdown", "A\nb\n===\n\n# C #\n\n### d\n", [(1, "A b"), (1, "C"), (3, "d")]),
    ("markdown", "```sh\n# no\n```\n\n~~~\n# no\n```\n# no\n~~~\n# A\n", [(1, "A")]),
    ("markdown", "    # no\n\n> # no\n\n- # no\n\n<!--\n# no\n-->\n## A\n", [(2, "A")]),
    (
        None,
        "====\n A\n====\n\nB\n====\n\nC\n----\n\nD\n====\n",
        [(1, "A"), (2, "B"), (3, "C"), (2, "D")],
    ),
    (None, "A\n=\n\n::\n\n   no\n   ==\n\none\ntwo\n---\n\nBc\n~~\n", [(1, "Bc")]),
    (
        None,
        "".join(f"T{i}\n{sign * 2}\n\n" for i, sign in enumerate("=-~^+:*#")),
        [(i + 1, f"T{i}") for i in range(6)],
    ),
    (None, "A\n===\n\n```\n# no\n```\n## B\n\nC\n---\n", [(1, "A"), (2, "B"), (2, "C")]),
    (None, "a,b\n1,2\n\n----\n\nx\n", []),
]


def test_all_headings():
    for markup, text, found in ALL:
        for newline in ("\n", "\r\n", "\r"):
            written = text.replace("\n", newline)
            assert [(each.level, each.title) for each in headings(written, markup)] == found
    for markup, raw, words in TITLES:
        text = f"# {raw}\n" if markup == "markdown" else f"{raw}\n{'=' * len(raw)}\n"
        first = opening(text, markup)
        assert first is not None
        assert first.title == words, "markup leaves titles"
        assert headings(text, markup) == [first]


GUIDE = """---
title: Guide
---
What it is.

## Installing

```sh
# no heading
pip install
```

### Linux

apt

## Using

## Linux

again
"""


def test_sections_are_records(tmp_path, reader):
    part = "x part\n------\n\n"
    docs = {
        "guide.md": GUIDE,
        "b.rst": f"Top\n===\n\nintro\n\n{part}body\n\n{part}more\n",
        "sub/plain_name.txt": "no headings\n",
        "none.md": "# Only\n\n## Headings\n",
    }
    for name, text in docs.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    source = dp.TextFileSource(tmp_path, pattern=["*.md", "*.rst", "*.txt"], by_heading=True)
    opened = source.open(reader)
    rows = [row for batch in opened.batches for row in batch.to_pylist()]
    found = {row["key"]: [text for _, text in texts(row)] for row in rows if not row["skip"]}
    code = "```sh\n# no heading\npip install\n```"
    assert found == {
        "b.rst#Top": ["Top", "intro"],
        "b.rst#Top > x part": ["Top > x part", "body"],
        "b.rst#Top > x part#2": ["Top > x part", "more"],
        "guide.md#Guide": ["Guide", "What it is."],
        "guide.md#Guide > Installing": ["Guide > Installing", code],
        "guide.md#Guide > Installing > Linux": ["Guide > Installing > Linux", "apt"],
        "guide.md#Guide > Linux": ["Guide > Linux", "again"],
        "sub/plain_name.txt#plain name": ["plain name", "no headings"],
    }
    assert all(row["group_key"] == row["key"].partition("#")[0] for row in rows)
    assert [row["skip"] for row in rows if row["skip"]] == ["headings without text"]
    (note,) = opened.notes()
    assert "('Title > Section') of 8 sections in 4 files" in note
    assert "3 headings without text of their own" in note


@pytest.mark.parametrize("by_heading", [False, True])
def test_front_matter_whose_title_cannot_be_read_is_counted(tmp_path, reader, by_heading):
    for name, title in {"a": "A: B", "b": "'A", "c": "fine", "d": ""}.items():
        (tmp_path / f"{name}.md").write_text(f"---\ntitle: {title}\n---\n# Heading\n\ntext\n")
    opened = dp.TextFileSource(tmp_path, pattern="*.md", by_heading=by_heading).open(reader)
    rows = [row for batch in opened.batches for row in batch.to_pylist()]
    first = ["Heading", "Heading", "fine > Heading" if by_heading else "fine", "Heading"]
    assert [texts(row)[0][1] for row in rows] == first
    assert opened.notes()[1:] == ["unreadable title in the front matter of 2 files: quote it"]


@pytest.mark.timeout(60)  # by a pattern that takes its square it would be hours
def test_a_heading_line_takes_a_time_that_grows_with_it(tmp_path, reader):
    (tmp_path / "a.md").write_text("# A" + " " * 300_000 + "B #\n\nwords\n")
    for by_heading in (False, True):
        (row,) = read(dp.TextFileSource(tmp_path / "a.md", by_heading=by_heading), reader)
        assert row["skip"] is None  # it is no heading, but text as any
    (tmp_path / "a.md").write_text("# A\n\n" + "b\n" * (1 << 20))
    for by_heading, skip in ((True, "text too long for by_heading"), (False, None)):
        (row,) = read(dp.TextFileSource(tmp_path / "a.md", by_heading=by_heading), reader)
        assert row["skip"] == skip


@pytest.fixture
def folder(tmp_path):
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
    (["*.md", "*.rst"], ["a.md", "sub/b.rst"]),
    (("*.txt", "*.t*t", "*.gz"), ["c_d.txt", "e.txt.gz"]),
    ("sub/*", ["sub/b.rst"]),
]


def test_which_files_are_read(folder, reader):
    for pattern, names in READ:
        found = read(dp.TextFileSource(folder, pattern=pattern), reader)
        assert [row["key"] for row in found] == names
    for place in ("a.md", "sub/b.rst", "c_d.txt", "e.txt.gz", "LICENSE", "sub/*.rst"):
        (row,) = read(dp.TextFileSource(folder / place), reader)
        key = Path(place).name.replace("*", "b")
        assert (row["skip"], row["key"], row["taxonomy"]) == (None, key, [])
    several = dp.TextFileSource([folder / "a.md", folder / "sub" / "b.rst"])
    assert [row["key"] for row in read(several, reader)] == ["a.md", "sub/b.rst"]
    with pytest.raises(SourceError, match=r"no file that matches '\*\.org'; it has 2 \.md|1 \.bak"):
        dp.TextFileSource(folder, pattern="*.org").open(reader)


JUNK = {
    ".git/HEAD.md": b"ref",
    ".ipynb_checkpoints/a.md": b"# Old\ntext",
    "sub/.trash/b.md": b"# Gone\ntext",
    "._a.md": b"\0\5\x16\7" + bytes(64) + b"Mac OS X        ",
    "~$a.md": b"lock",
}


def test_names_that_programs_hide_are_counted_and_not_read(folder, reader):
    for name, data in JUNK.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(data)
    opened = dp.TextFileSource(folder, pattern="*.md").open(reader)
    assert [key for batch in opened.batches for key in batch["key"].to_pylist()] == ["a.md"]
    *_, others = opened.notes()
    assert "4 with a leading dot (._a.md, .git/HEAD.md, .ipynb_checkpoints/a.md, …)" in others
    assert "1 of open documents (~$a.md)" in others
    asked = read(dp.TextFileSource(folder, pattern=(".git/*.md", "._*")), reader)
    assert [(row["key"], row["skip"]) for row in asked] == [
        (None, "binary file"),
        (".git/HEAD.md", None),
    ]
    (row,) = read(dp.TextFileSource(folder / "~$a.md"), reader)  # it is named
    assert row["key"] == "~$a.md"


FRONT = {
    "2024-02-01-my-post.md": ("# Post\n\ntext", "2024-02-01"),
    "2024-02-01-other.md": (
        "---\ntitle: Other\ndate: 2024-03-05 10:00 +0100\n---\ntext",
        "2024-03-05",
    ),
    "toml.md": ("+++\ndate = 2024-04-05T07:00:00Z\n+++\ntext", "2024-04-05"),
    "quoted.md": ('---\nx: 1\ndate: "2024-04-06"\n---\ntext', "2024-04-06"),
    "none.md": ("# None\n\ndate: 2024-01-01", None),
    "words.md": ("---\ndate: 5 May 2024\n---\ntext", None),
    "no day.md": ("---\ndate: 2024-02-31\n---\ntext", None),
    "empty.md": ("", None),
}


def test_dates_of_front_matter_and_of_posts(tmp_path, reader):
    for name, (text, _) in FRONT.items():
        (tmp_path / name).write_text(text)
    for given in ({"date": "path"}, {"date": "path", "titles": "name"}):
        opened = dp.TextFileSource(tmp_path, pattern="*.md", **given).open(reader)
        rows = [row for batch in opened.batches for row in batch.to_pylist()]
        found = {row["key"]: row["date"] and row["date"].isoformat() for row in rows}
        assert found == {name: day for name, (_, day) in FRONT.items()}
        said = "dates: 3 files from front matter, 1 file from the path, 3 files without one"
        assert said in opened.notes()
    opened = dp.TextFileSource(tmp_path, pattern="*.md").open(reader)
    days = [day for batch in opened.batches for day in batch["date"].to_pylist()]
    assert sum(day is not None for day in days) == 3
    opened = dp.TextFileSource(tmp_path, pattern="*.md", date=False).open(reader)
    days = [day for batch in opened.batches for day in batch["date"].to_pylist()]
    assert set(days) == {None}
    assert not any("dates" in note for note in opened.notes())


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
    assert texts(rows[0])[1] == ("context", "text of a")  # no word match solves it
    assert [row["file"] for row in rows] == [str(folder / row["key"]) for row in rows]
    first, others = opened.notes()
    assert first == "anchor: heading of 3 files, file name of 1; context: their text without it"
    assert "1 without suffix (LICENSE)" in others
    assert "1 .png (image.png)" in others
    named = read(dp.TextFileSource(folder, pattern="*.md", titles="name"), reader)
    assert texts(named[0]) == [("anchor", "a"), ("context", "# Anchor of a\n\ntext of a")]


def test_a_comment_of_code_is_no_heading(tmp_path, reader):
    text = "# Copyright\n\nx = 1"
    for name in ("__init__.py", "a_b.yaml", "_c.sh.gz", "___.R"):
        data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        (tmp_path / name).write_bytes(data)
    found = read(dp.TextFileSource(tmp_path, pattern="*"), reader)
    anchors = {row["key"]: texts(row) for row in found}
    names = {"__init__.py": "init", "a_b.yaml": "a b", "_c.sh.gz": "c", "___.R": "___"}
    assert anchors == {key: [("anchor", name), ("context", text)] for key, name in names.items()}


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def test_binary_files_are_told_from_text(tmp_path, reader):
    noise = random.Random(1).randbytes(5000)
    cut = ("a" * 5000 + "日" * 2000).encode()
    files = {
        "binary file": [
            noise,
            zlib.compress(noise),
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe" + noise,
            "words in utf-16".encode("utf-16-le") * 100,
            b"text" + b"\0" * 2000,
        ],
        "invalid UTF-8": [b"caf\xe9 " * 500],
        "Git LFS pointer: run git lfs pull": [LFS],
        None: [
            b"x\0y",
            "words".encode("utf-16"),
            "ümlaut ".encode() * 2000,
            b"\x1b[1mbold\x1b[0m",
            cut,
            cut[1:],
            cut[2:],
        ],
        "empty file": [b"", b"\t\f\r"],
    }
    for skip, contents in files.items():
        for content in contents:
            more = b"x" * 10**6 if skip == "binary file" else b""  # it fails at once
            (tmp_path / "b.txt").write_bytes(content + more)
            (row,) = read(dp.TextFileSource(tmp_path), reader)
            assert row["skip"] == skip, content[:20]
    (tmp_path / "b.txt").unlink()
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


# ---- what a folder says of its files


@pytest.fixture
def dated(tmp_path):
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


def test_files_become_records(dated, reader):
    source = dp.TextFileSource(dated, trust_by_folder={"NEWS": 0.9, "2024": 0.1}, date="path")
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


def test_what_a_folder_says_of_itself(dated, reader):
    source = dp.TextFileSource(dated)
    rows = source.open(reader)
    assert (source.kind, source.uri, source.default_name()) == ("text", str(dated), "texts")
    assert (rows.defaults, rows.total) == ("documents", 6)
    (dated / "a_short_story.txt").unlink()
    found = {row["key"]: row["skip"] for batch in rows.batches for row in batch.to_pylist()}
    assert found["a_short_story.txt"] == "unreadable file"
    assert dp.TextFileSource(dated, date=True).open(reader).defaults == "dated"
    (row,) = read(dp.TextFileSource(dated, pattern="*.md"), reader)
    assert row["key"] == "other.md"


FAULTS = [
    ({"folder": "none"}, "none does not exist"),
    ({"folder": "texts", "titles": "stem"}, "titles='stem': give 'heading' or 'name'"),
    ({"folder": "texts", "on_error": "drop"}, "on_error='drop': give 'raise'"),
    ({"folder": "texts", "encoding": "nope"}, "encoding='nope'"),
    ({"folder": "texts", "pattern": ["*.md", 5]}, "pattern=["),
    ({"folder": "texts", "pattern": "*.rst"}, "has no file that matches '*.rst'"),
    ({"folder": "texts", "trust": 2.0}, "trust=2.0"),
    ({"folder": "texts", "trust": "column"}, "text files have no columns"),
    ({"folder": "texts", "trust_by_folder": {"News": -1}}, "trust=-1"),
    ({"folder": "texts", "date": "name"}, "only date='path' is known"),
]


def test_faults(dated, reader):
    for arguments, message in FAULTS:
        where = dated.parent / str(arguments["folder"])
        how = arguments | {"folder": where}
        with pytest.raises(SourceError) as raised:
            read(dp.TextFileSource(**how), reader)
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
    ("2024-01-02-my-post.md", "2024-01-02"),
    ("01_02_2024 a story.txt", "2024-01-02"),
    ("2024-01-023.txt", None),
    ("2024/x/01-02.txt", None),
    ("x20240102.txt", None),
]


def test_dates_in_paths():
    for path, expected in PATHS:
        found = path_date(PurePosixPath(path))
        assert (found and found.isoformat()) == expected, path
