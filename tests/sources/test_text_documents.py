"""Folders of text: which files are read, what their headings are, what is said of the others."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

import pytest
from effort import often
from prebuilt import empty_corpus
from source_rows import read, texts

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.recipes.recipes import default_recipes
from duckplets.sources.formats.headings import front_matter, headings, opening
from duckplets.sources.formats.text_file import is_binary, listed

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
    ("<!-- a\n# no\n-->\n# Eleven\n", "Eleven"),
    ('<p align="center">\n[![badge](x)](y)\n# Twelve\n', "Twelve"),
    ("#  A   b  \n", "A b"),
    (":mod:`email` --- parts\n======================\n", "email — parts"),
    ("# Ten `code` *and* **more**\n", "Ten code and more"),
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


def title_of(text: str) -> str | None:
    found = opening(text)
    return None if found is None else found.title


@_each(("text", "heading"), HEADINGS)
def test_headings(text, heading):
    assert title_of(text) == heading
    assert title_of(text + "\nmore " * 1000) == heading


def test_any_text_has_a_heading_of_itself_or_none():
    generator = random.Random(3)
    for _ in range(often(2000, less=400)):
        text = "".join(generator.choice("#= -\n.:ab<!>~") for _ in range(generator.randint(0, 40)))
        for markup in ("markdown", "rst", None):
            first = opening(text, markup)
            for found in [*([first] if first else []), *headings(text, markup)]:
                there = iter(text[found.start : found.stop])
                assert all(c in there for c in found.title if c in "ab")  # in that order


TITLES = [
    ("rst", ":mod:`shutil` --- High-level file operations", "shutil — High-level file operations"),
    ("rst", ":func:`~os.path.join` and :doc:`more <x/y>`", "join and more"),
    ("rst", "``a`` of *b*, **c** `d <http://e>`_ |f| [1]_ \\*g", "a of b, c d f *g"),
    ("rst", "*args and **kwargs, foo_bar, a*b*c", "*args and **kwargs, foo_bar, a*b*c"),
    ("markdown", "`a` __b__ [c](d) ![e](f) &amp; <br> \\* g_h {#id}", "a b c e & * g_h"),
    ("markdown", "[1.2][] - *new* [`x`][y]", "1.2 - new x"),
]


@_each(("markup", "raw", "words"), TITLES)
def test_markup_leaves_titles(markup, raw, words):
    text = f"# {raw}\n" if markup == "markdown" else f"{raw}\n{'=' * len(raw)}\n"
    first = opening(text, markup)
    assert first is not None
    assert first.title == words
    assert headings(text, markup) == [first]


ALL = [  # level and title of each
    ("markdown", "A\nb\n===\n\n# C #\n\n### d\n", [(1, "A b"), (1, "C"), (3, "d")]),
    ("markdown", "```sh\n# no\n```\n\n~~~\n# no\n```\n# no\n~~~\n# A\n", [(1, "A")]),
    ("markdown", "    # no\n\n> # no\n\n- # no\n\n<!--\n# no\n-->\n## A\n", [(2, "A")]),
    (
        "rst",
        "# no\n\n====\n A\n====\n\nB\n====\n\nC\n----\n\nD\n====\n",
        [(1, "A"), (2, "B"), (3, "C"), (2, "D")],
    ),
    ("rst", "A\n=\n\n::\n\n   no\n   ==\n\none\ntwo\n---\n\nBc\n~~\n", [(1, "Bc")]),
    (
        "rst",
        "".join(f"T{i}\n{sign * 2}\n\n" for i, sign in enumerate("=-~^+:*#")),
        [(i + 1, f"T{i}") for i in range(6)],
    ),
    (None, "A\n===\n\n```\n# no\n```\n## B\n\nC\n---\n", [(1, "A"), (2, "B"), (2, "C")]),
    (None, "a,b\n1,2\n\n----\n\nx\n", []),
]


@_each(("markup", "text", "found"), ALL)
def test_all_headings(markup, text, found):
    for newline in ("\n", "\r\n", "\r"):
        written = text.replace("\n", newline)
        assert [(each.level, each.title) for each in headings(written, markup)] == found


def of_docutils(text: str) -> list[tuple[int, str]]:
    """Return level and title of the sections that docutils finds."""
    docutils = pytest.importorskip("docutils.nodes")
    from docutils.core import publish_doctree

    quiet = {"report_level": 5, "halt_level": 5, "doctitle_xform": False}
    found, waiting = [], [(0, publish_doctree(text, settings_overrides=quiet))]
    while waiting:
        level, node = waiting.pop()
        if level:
            found.append((level, node[0].astext()))
        inner = [(level + 1, each) for each in node if isinstance(each, docutils.section)]
        waiting += reversed(inner)
    return found


BLOCKS = [
    "one line",
    "two\nlines\n\nand more::\n\n   in\n   ==",
    "* item\n* item\n\n  in it\n  -----",
    "----------",
    ".. note:: words\n\n   Title\n   =====",
    ".. _label:",
    ".. comment\n   ======",
    "term\n    what it is\n    ----------",
    "=====  =====\nA      B\n=====  =====\n1      2\n=====  =====",
    "+---+\n| A |\n+---+",
    ":field: value",
    "| line\n| block",
    ">>> 1\n1",
    "paragraph\nand its\n-------",
]


def test_titles_of_restructuredtext_are_those_of_docutils():
    generator = random.Random(5)
    for _ in range(often(150, less=25)):
        level, text = 0, ""
        for i in range(generator.randint(1, 12)):
            level = generator.randint(1, min(level + 1, 5))
            title = f"{generator.choice(['T', 'Title', 'A longer one', 'x 2.'])} {i}"
            line = "=-~^="[level - 1] * max(len(title) - generator.choice([-3, 0, 0, 1]), 4)
            over = f"{line}\n" if level == 5 and len(line) >= len(title) else ""
            if level == 5 and not over:
                continue
            text += f"{over}{title}\n{line}\n\n"
            for block in generator.choices(BLOCKS, k=generator.randint(0, 3)):
                text += f"{block}\n\n"
        assert [(h.level, h.title) for h in headings(text, "rst")] == of_docutils(text), text


MATTER = [
    ("---\ntitle: A b\ntags: [x]\n---\n# C\n", "A b", "# C\n"),
    ("---\ntags: &a [x]\ntitle: 'It''s: *a'\n---\ntext", "It's: *a", "text"),
    ("---\r\ntitle: >\r\n  two\r\n  lines\r\nx: 1\r\n---\r\ntext", "two lines", "text"),
    ('+++\ntitle = "A"\n+++\ntext', "A", "text"),
    ("---\ntitle: 2024\n---\ntext", "2024", "text"),
    ("---\nlayout: page\n---\ntext", None, "text"),
    ("---\ntitle: *a\n---\ntext", None, "text"),
    ("---\ntitle: [a]\n---\ntext", None, "text"),
    ("---\ntitle: " + "[" * 5000 + "\n---\ntext", None, "text"),
    ("---\njust text\n---\nmore", None, None),
    ("---\ntitle: never closed\n", None, None),
    ("----\ntitle: a\n----\n", None, None),
]


@_each(("text", "title", "rest"), MATTER)
def test_front_matter(text, title, rest):
    found, start = front_matter(text)
    assert (found, text[start:]) == (title, text if rest is None else rest)


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
    part = ":mod:`x` part\n-------------\n\n"
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


def test_a_text_that_is_too_long_for_its_headings_is_counted(tmp_path, reader):
    (tmp_path / "a.md").write_text("# A\n\n" + "b\n" * (1 << 20))
    (row,) = read(dp.TextFileSource(tmp_path / "a.md", by_heading=True), reader)
    assert row["skip"] == "text too long for by_heading"
    (row,) = read(dp.TextFileSource(tmp_path / "a.md"), reader)
    assert row["skip"] is None


@pytest.mark.timeout(60)  # by a pattern that takes its square it would be hours
def test_a_heading_line_takes_a_time_that_grows_with_it(tmp_path, reader):
    (tmp_path / "a.md").write_text("# A" + " " * 300_000 + "B #\n\nwords\n")
    for by_heading in (False, True):
        (row,) = read(dp.TextFileSource(tmp_path / "a.md", by_heading=by_heading), reader)
        assert row["skip"] is None  # it is no heading, but text as any


def test_a_split_keeps_the_sections_of_a_file_together(tmp_path):
    for i in range(20):
        parts = "".join(f"## Part {j}\n\ntext {i} {j}\n\n" for j in range(4))
        (tmp_path / f"{i}.md").write_text(f"# Title {i}\n\n{parts}")
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        report = corpus.ingest(dp.TextFileSource(tmp_path, pattern="*.md", by_heading=True))
        assert report.added == 80
        corpus.split(train=0.5, validation=0.25, test=0.25)
        query = (
            "SELECT group_key, count(DISTINCT split) AS splits, count(*) AS records "
            "FROM records JOIN splits USING (record_key) GROUP BY ALL"
        )
        groups = corpus.sql(query).to_pylist()
    assert {(row["splits"], row["records"]) for row in groups} == {(1, 4)}
    assert len(groups) == 20


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
    assert texts(rows[0])[1] == ("context", "text of a")  # no word match solves it
    assert [row["file"] for row in rows] == [str(folder / row["key"]) for row in rows]
    first, others = opened.notes()
    assert first == "anchor: heading of 3 files, file name of 1; context: their text without it"
    assert "1 without suffix (LICENSE)" in others
    assert "1 .png (image.png)" in others
    named = read(dp.TextFileSource(folder, pattern="*.md", titles="name"), reader)
    assert texts(named[0]) == [("anchor", "a"), ("context", "# Anchor of a\n\ntext of a")]


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
