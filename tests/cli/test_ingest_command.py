"""The command `ingest`: what is said of every row, sources that fail, and what is left behind."""

import json
import os
import resource
from pathlib import Path

import pytest
from commands import cli, error, lines, ok, usage

import duckplets as dp


@pytest.fixture(autouse=True)
def _files(in_folder):
    Path("good.csv").write_text("q,a\nq1,a1\nq2\n")
    Path("bad.csv").write_text("x\n1\n")


def test_what_became_of_every_row_is_said():
    done = cli("ingest", "c.duckdb", "good.csv", "--anchor", "q", "--positive", "a")
    assert done.exit_code == 0
    assert done.stderr.splitlines()[0].startswith("good: 2 rows read: 1 added, 0 skipped, 1 failed")
    assert "  failed: 1 ragged row (good.csv:3: '[\"q2\"]')" in done.stderr.splitlines()
    assert "  anchor: column q; positive: column a" in done.stderr.splitlines()
    (report,) = lines(ok("ingest", "d.duckdb", "good.csv", "--anchor=q", "--json"))
    first = {"row": 2, "file": "good.csv", "line": 3, "value": '["q2"]'}
    assert report["examples"] == {"ragged row": [first]}


@pytest.mark.parametrize("before", [False, True])
def test_a_refused_ingest_leaves_no_file_that_was_not_there(before):
    if before:
        dp.Corpus("c.duckdb").close()
    for source in ("bad.csv", "good.csv"):
        on_error = ["--on-error", "raise"] if source == "good.csv" else []
        said = error("ingest", "c.duckdb", source, "--anchor", "q", *on_error)
        assert source in said
        assert [name for name in os.listdir() if "duckdb" in name] == ["c.duckdb"] * before


def test_every_row_that_was_left_out_is_found_by_what_is_printed():
    rows = [{"q": "a", "p": ["[]", "b"]}, {"q": 1}, {"q": "c", "p": 2}, {"q": " ", "p": "d"}]
    rows += [{"q": f"q {i}", "p": "p", "day": day} for i, day in enumerate(["soon", 5, None])]
    Path("odd.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    odd = ["odd.jsonl", "--anchor", "q", "--positive", "p", "--date", "day"]
    done = cli("ingest", "c.duckdb", *odd)
    assert done.exit_code == 0
    said = done.stderr.splitlines()[1:]
    assert said == [
        "  skipped: 1 no anchor (odd.jsonl:4)",
        "  failed: 2 not text: number (odd.jsonl:2: \"column 'q': 1\"; odd.jsonl:3: "
        "\"column 'p': 2\")",
        "  taken without it: 2 unreadable date (odd.jsonl:5: 'soon'; odd.jsonl:6: '5')",
        "  anchor: column q; positive: column p",
        "  look: context (p): 1 of 5 texts are JSON, such as []",
    ]


def test_a_source_that_fails_ends_the_call_and_those_before_are_stored():
    Path("odd.bin").write_text("?")
    said = error("ingest", "c.duckdb", "none.csv", "good.csv", "--anchor", "q")
    assert said == "error: none.csv does not exist\n"
    for wrong, what in (
        ("odd.bin", "its format is not clear from '.bin'"),
        ("no*.json", "no*.json matches no file"),
    ):
        assert what in error("ingest", "c.duckdb", "good.csv", wrong, "--anchor", "q")
    assert not Path("c.duckdb").exists()
    stopped = cli("ingest", "s.duckdb", "good.csv", "bad.csv", "--anchor", "q", "--json")
    assert [report["source"] for report in lines(stopped.stdout)] == ["good"]  # it is stored
    assert stopped.stderr.splitlines()[-1].startswith("error: bad.csv: no column 'q'")
    with dp.Corpus("k.duckdb") as corpus:
        options = dp.IngestOptions(keep_going=True)
        with pytest.raises(dp.SourceError, match="1 source of 2 failed"):
            corpus.ingest(["bad.csv", "good.csv"], anchor="q", options=options)
        assert corpus.sources()["name"].to_pylist() == ["good"]
    Path("wrong.toml").write_text("[[source]]\npath = 'a'\n[[source]]\nfile = 'b'\n")
    said = error("ingest", "d.duckdb", "wrong.toml")
    assert "source 1: path='a'" in said
    assert "source 2: unknown key 'file'" in said
    assert not Path("d.duckdb").exists()


def test_a_preview_makes_no_file():
    Path("p.csv").write_text("q,a\n" + "".join(f'q {i},"[""x""]"\n' for i in range(30)))
    out = ok("ingest", "c.duckdb", "p.csv", "--anchor", "q", "--positive", "a", "--preview", "2")
    assert "anchor (q): q 1" in out
    assert "look: context (a): 30 of 30 texts are JSON" in out
    command = ["ingest", "c.duckdb", "p.csv", "--anchor", "q", "--preview", "1", "--json"]
    (seen,) = lines(ok(*command))
    assert (seen["source"], len(seen["rows"])) == ("p", 1)
    assert not Path("c.duckdb").exists()


def test_text_files_by_name():
    Path("notes").mkdir()
    for name in ("a.md", "b.rst", "c.txt"):
        Path("notes", name).write_text(f"# Heading {name}\n\ntext of {name}")
    reports = lines(ok("ingest", "c.duckdb", "notes/a.md", "notes/b.rst", "--name=two", "--json"))
    assert [report["added"] for report in reports] == [2]
    many = ["--pattern", "*.md", "--pattern", "*.txt"]
    (report,) = lines(ok("ingest", "c.duckdb", "notes", *many, "--json"))
    assert report["added"] == 2
    assert "not read: 1 .rst (b.rst); pattern= says what is" in report["notes"]
    Path("notes", "d.HTML").write_text("<p>text</p>")
    done = cli("ingest", "d.duckdb", "notes", *many, "--pattern", "*.HTML")
    assert "  not read: 1 .rst (b.rst); pattern= says what is" in done.stderr.splitlines()
    assert "  read as plain text, with their tags: 1 .html" in done.stderr.splitlines()
    with dp.Corpus("c.duckdb", read_only=True) as corpus:
        stored = corpus.sql("SELECT mapping FROM sources ORDER BY name")["mapping"].to_pylist()
    assert [json.loads(text) for text in stored] == [{"titles": "heading"}] * 2


def test_a_full_disk_leaves_nothing_of_a_new_corpus(tmp_path):
    corpus, rows = tmp_path / "c.duckdb", tmp_path / "rows.csv"
    rows.write_text("t\n" + "".join(f"text {i} of {i * 7919 % 10_007}\n" for i in range(30_000)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
    try:
        result = cli("ingest", corpus, rows, "--text", "t")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.exit_code == 1
    assert not list(tmp_path.glob("c.duckdb*"))
    corpus.with_name("c.duckdb.wal").touch()  # as other programs leave it
    ok("ingest", corpus, rows, "--text", "t")


def test_a_collection_by_its_parts():
    Path("d.tsv").write_text('1\ta "passage\n2\tanother\n')
    Path("q.tsv").write_text("7\ta query\n8\tone more\n")
    Path("train.trec").write_text("7 0 1 1\n")
    Path("dev.trec").write_text("8 0 2 3\n8 0 1 0\n")
    parts = "documents=d.tsv", "queries=q.tsv", "qrels=train:train.trec", "qrels=dev:dev.trec"
    shown = ok("ingest", "c.duckdb", *parts, "--name", "marco", "--preview", "1")
    assert 'context (text): a "passage' in shown
    assert not Path("c.duckdb").exists()
    found = lines(ok("ingest", "c.duckdb", *parts, "--name", "marco", "--json"))
    counts = {one["source"]: (one["read"], one["added"]) for one in found}
    assert counts == {"marco.documents": (2, 2), "marco": (2, 2), "marco labels": (3, 3)}
    ok("ingest", "c.duckdb", "documents=marco.documents", *parts[1:3], "--name", "again")
    for wrong, said in (
        ((*parts, "x.csv"), "x.csv: give documents=, queries= and qrels= without other sources"),
        ((*parts, parts[0]), "documents=d.tsv: documents= is given twice"),
        ((*parts, "--text", "t"), "text: a collection has fixed columns"),
    ):
        assert said in " ".join(usage("ingest", "c.duckdb", *wrong).replace("│", " ").split())
    for wrong, said in (
        (("documents=d.tsv",), "give rows, or queries="),
        ((*parts[:2], "qrels=eval:dev.trec"), "'eval' is no split; say which it is: splits="),
    ):
        assert said in error("ingest", "c.duckdb", *wrong)
