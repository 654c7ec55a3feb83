"""The command line: what goes to stdout, what to stderr, and the exit code."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import cli, error, files, finish, finished, lines, ok, process, talk, usage
from effort import often, some, thorough
from hub_server import Hub
from prebuilt import toy_corpus
from programs import PATIENCE, python, ran
from typer.main import get_command
from typer.testing import CliRunner

import duckplets as dp
from duckplets.cli import _COMMANDS, _GROUPS, app, verbs
from duckplets.db.database import Database

NAMES = {name: told for names in _COMMANDS.values() for name, (_, told) in names.items()}
COMMANDS = [[name] for name in NAMES if name not in _GROUPS]
COMMANDS += [[group, verb] for group, verbs in _GROUPS.items() for verb in verbs]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two sources, made once; tests get a copy."""
    path = tmp_path_factory.mktemp("made") / "toy.duckdb"
    toy_corpus(path, 60, sources=("a", "b")).close()
    return path


@pytest.fixture
def toy(made: Path, tmp_path: Path) -> str:
    shutil.copy(made, tmp_path / "toy.duckdb")
    return "toy.duckdb"


# ---- the frame


def test_version() -> None:
    assert ok("--version") == f"duckplets {dp.__version__}\n"


def test_the_list_of_commands_has_the_first_line_of_each() -> None:
    assert len(NAMES) <= 31
    shown = ok("--help")
    for name, told in NAMES.items():
        assert re.search(rf"^  {name} +{re.escape(told)}$", shown, re.MULTILINE), name
        assert f"\n\n  {told}\n" in ok(name, "--help"), name


def test_help_is_for_people() -> None:
    """Every command has an example and says what options are for; long lists have headings."""
    for words in COMMANDS:
        command: Any = get_command(app)
        for word in words:
            command = command.commands[word]
        assert [p.name for p in command.params if not getattr(p, "help", None)] == [], words
        text = ok(*words, "--help")
        assert f"Example:\n      duckplets {' '.join(words)} " in text or "| duckplets" in text
        typed = r"Usage: .*[{}]|<(?:int|str|float|path)>|<list\[|\S  \[default"
        assert not re.search(typed, text), words
        (unnamed,) = re.findall(r"^Options:\n((?: .*\n|)+)", text, re.MULTILINE)
        assert len(re.findall(r"^  --", unnamed, re.MULTILINE)) <= 20, words
        options = [p for p in command.params if p.param_type_name == "option"]
        assert len(re.findall(r"^  --", text, re.MULTILINE)) == len(options) + 1, words


def test_a_new_argument_of_a_verb_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(corpus: object, /, *, depth: int = 100, kinds: Sequence[str] = (), engine: Any = None):  # type: ignore[no-untyped-def]
        """Mine.

        Args:
            depth: How deep ``mine`` looks.
            kinds: Of what.
        """

    monkeypatch.setattr("duckplets.mining.mine.mine", mine)
    depth, kinds, engine = verbs.options_of("mining.mine:mine")
    assert (depth.default, depth.annotation.__args__[0]) == (100, int)
    assert depth.annotation.__metadata__[0].help == "How deep mine looks. [default: 100]"
    assert kinds.annotation.__args__[0] == list[str] | None
    assert "Dask" in engine.annotation.__metadata__[0].help


def test_no_command_shows_help() -> None:
    result = cli()
    assert result.exit_code == 2
    assert "Bring text in:" in result.stdout + result.stderr


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    heavy = [
        "duckdb",
        "pyarrow",
        "numpy",
        "sqlglot",
        "rich",
        "tokenizers",
        "duckplets.corpus.corpus",
    ]
    code = (
        "import sys\nfrom duckplets.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n"
        f"    print([m for m in {heavy} if m in sys.modules], file=sys.stderr)\n"
        "    print(len(sys.modules), file=sys.stderr)"
    )
    run = ran(sys.executable, "-c", code)
    assert run.returncode == 0
    heavy_ones, modules = run.stderr.splitlines()
    assert heavy_ones == "[]"
    assert int(modules) < 250  # 180 of them take 0.15 s of processor time


WRONG_USAGE = [
    ["nonsense"],
    ["status"],
    ["status", "toy.duckdb", "--nonsense"],
    ["ingest", "new.duckdb"],
    ["ingest", "x.csv", "new.duckdb", "--text", "t"],
    ["ingest", "new.duckdb", "x.csv", "--format", "cvs"],
    ["ingest", "new.duckdb", "x.csv", "--on-conflict", "ignore"],
    ["split", "toy.duckdb", "--train", "most"],
    ["chunk", "toy.duckdb", "--overlap", "1,x"],
    ["sample", "toy.duckdb", "--kind", "quadruplets"],
    ["sample", "toy.duckdb", "--steps", "-1"],
    ["sample", "toy.duckdb", "--out", "x.csv"],
    ["sample", "toy.duckdb", "--out", "nowhere/x.parquet"],
    ["sample", "toy.duckdb", "--tag", "x"],
    ["sample", "toy.duckdb", "--mixture", "a"],
    ["sample", "toy.duckdb", "--mixture", "a=x"],
    ["sample", "toy.duckdb", "--mixture", "a=1,a=2"],
    ["sql", "toy.duckdb", "anchor_context", "--rows", "--limit", "-1"],
    ["cursor", "reset", "toy.duckdb"],
]


def test_wrong_usage_exits_with_2(toy: str) -> None:
    for arguments in WRONG_USAGE:
        assert usage(*arguments)
    assert files() == {toy}


WRONG_INPUT = [
    (["status", "nope.duckdb"], "nope.duckdb does not exist"),
    (["split", "nope.duckdb"], "create it with: duckplets ingest nope.duckdb"),
    (["chunk", "nope.duckdb"], "does not exist"),
    (["migrate", "nope.duckdb"], "does not exist"),
    (["recipe", "add", "nope.duckdb", "r.toml"], "no such file"),
    (["recipe", "remove", "nope.duckdb", "x"], "does not exist"),
    (["cursor", "list", "nope.duckdb"], "does not exist"),
    (["status", "text.txt"], "not a DuckDB file"),
    (["ingest", "text.txt", "x.csv", "--text", "t"], "not a DuckDB file"),
    (["ingest", "n/n.duckdb", "x.csv", "--text", "t"], "folder n does not exist"),
    (["ingest", "n.duckdb", "none.csv", "--text", "t"], "none.csv does not exist"),
    (["ingest", "n.duckdb", "no*.csv", "--text", "t"], "no*.csv matches no file"),
    (["ingest", "n.duckdb", "text.txt", "--text", "t"], "text.txt is text: text= is for"),
    (["ingest", "n.duckdb", "*", "--text", "t"], "say format="),
    (["ingest", "n.duckdb", "x.*", "--text", "t"], "several formats: csv, jsonl"),
    (["ingest", "n.duckdb", "x.csv", "x.jsonl", "--text", "t"], "--name x"),
    (["ingest", "n.duckdb", "x.jsonl", "--text", "t", "--delimiter", ";"], "is for CSV"),
    (["ingest", "n.duckdb", "folder", "--anchor", "t"], "anchor= is for files with columns"),
    (["ingest", "n.duckdb", "-", "--format", "csv", "--text", "t"], "JSON lines"),
    (["ingest", "toy.duckdb", "x.csv", "--text", "q"], "no column 'q'"),
    (["ingest", "toy.duckdb", "x.csv"], "say which columns hold the text"),
    (["ingest", "toy.duckdb", "x.csv", "--text", "t", "--trust", "2"], "trust"),
    (["split", "toy.duckdb", "--train", "0.9", "--test", "0.2"], "test=0.2 add up to 1.1"),
    (["split", "toy.duckdb", "--keep-together", "text"], "keep_together=text; keep those"),
    (["split", "toy.duckdb"], "reassign=True"),
    (["chunk", "toy.duckdb", "--max-tokens", "0"], "max_tokens=0:"),
    (["recipe", "add", "toy.duckdb", "none.toml"], "no such file"),
    (["recipe", "show", "toy.duckdb", "anchor_contex"], "did you mean 'anchor_context'?"),
    (["recipe", "remove", "toy.duckdb", "x"], "no recipe 'x'"),
    (["sql", "toy.duckdb", "x"], "no recipe 'x'"),
    (["sql", "toy.duckdb", "anchor_context", "--source", "c"], "no source 'c'"),
    (["sql", "toy.duckdb", "x", "--rows"], "no recipe 'x'"),
    (["sample", "toy.duckdb", "--resume"], "no run is saved"),
    (["sample", "toy.duckdb", "--batch-size", "0"], "batch_size=0:"),
    (["sample", "toy.duckdb", "--columns", "anchr"], "did you mean 'anchor'?"),
    (["sample", "toy.duckdb", "--mixture", "c=1"], "no source 'c'"),
    (["sample", "toy.duckdb", "--recipes", "x"], "no recipe 'x'"),
    (["sample", "toy.duckdb", "--recipes", "x.toml"], "x.toml: there is no such file"),
    (["cursor", "reset", "toy.duckdb", "--run", "x"], "no run 'x'"),
    (["demo", "--keep", "toy.duckdb"], "toy.duckdb exists"),
    (["demo", "--keep", "n/toy.duckdb"], "folder n does not exist"),
]


def test_a_wrong_input_gives_one_clear_line(toy: str) -> None:
    Path("text.txt").write_text("hello\n" * 1000)
    Path("x.csv").write_text("t\nhello\n")
    Path("x.jsonl").write_text('{"t": "hello"}\n')
    Path("folder").mkdir()
    before = files()
    for arguments, said in WRONG_INPUT:
        assert said in error(*arguments), arguments
    assert files() == before


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    code, out, err = finished("status", "no.duckdb", "--debug")
    assert (code, out) == (1, "")
    assert err.startswith("Traceback")
    assert "MissingFileError: no.duckdb does not exist" in err
    assert isinstance(cli("--debug", "status", "no.duckdb").exception, dp.MissingFileError)


def test_a_foreign_error_is_one_line_too(monkeypatch: pytest.MonkeyPatch, toy: str) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("several\nlines")

    monkeypatch.setattr(dp.Corpus, "status", fail)
    assert "please report it: KeyError" in error("status", toy)
    monkeypatch.setattr(dp.Corpus, "status", lambda _, **__: os.open("/none/x", os.O_RDONLY))
    assert error("status", toy) == "error: /none/x: No such file or directory\n"


# ---- a story from a file to samples


def test_from_a_csv_file_to_resumed_samples() -> None:
    rows = [f"question {i}?,answer {i},{'en' if i % 2 else 'de'}\n" for i in range(50)]
    Path("faq.csv").write_text("question,answer,lang\n" + "".join(rows) + "lonely,,en\n")
    columns = ["--anchor", "question", "--positive", "answer", "--meta", "lang"]

    table = ok("ingest", "faq.duckdb", "faq.csv", *columns).splitlines()
    assert table[0].split()[:4] == ["source", "read", "added", "replaced"]
    assert table[1].split()[:6] == ["faq", "51", "50", "0", "1", "0"]
    assert table[1].endswith("1 no positive")

    assert error("sample", "faq.duckdb").count("duckplets split faq.duckdb") == 1
    counts = dict(line.split() for line in ok("split", "faq.duckdb").splitlines()[1:])
    assert sum(map(int, counts.values())) == 50

    unbroken = lines(ok("sample", "faq.duckdb", "--batch-size", "4", "--steps", "3"))
    assert len(unbroken) == 12
    assert {"anchor", "positive", "negative", "weight", "source"} <= unbroken[0].keys()
    first = cli("sample", "faq.duckdb", "--batch-size", "4", "--save")
    assert lines(first.stdout) == unbroken[:4]
    assert talk(first.stderr) == "saved run default at step 1 in faq.state.duckdb\n"
    rest = ok("sample", "faq.duckdb", "--resume", "--steps", "2", "--save")
    assert lines(rest) == unbroken[4:]
    assert ok("cursor", "list", "faq.duckdb").splitlines()[1].split()[:6] == [
        *("default", "-", "triplets", "1", "12", "3")
    ]


# ---- ingest


def write_formats() -> list[str]:
    """Write the same two rows in every format, and return the files."""
    rows = [{"q": "one", "a": "uno"}, {"q": "two", "a": "dos"}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    table = pa.Table.from_pylist(rows)
    Path("x.csv").write_text("q,a\none,uno\ntwo,dos\n")
    Path("x.tsv").write_text("q\ta\none\tuno\ntwo\tdos\n")
    Path("x.json").write_text(json.dumps(rows))
    Path("x.jsonl").write_text(text)
    Path("x.ndjson.gz").write_bytes(gzip.compress(text.encode()))
    with pa.OSFile("x.jsonl.zst", "wb") as raw, pa.CompressedOutputStream(raw, "zstd") as out:
        out.write(text.encode())
    pq.write_table(table, "x.parquet")
    for name, new in (("x.arrow", pa.ipc.new_stream), ("x.ipc", pa.ipc.new_file)):
        with new(name, table.schema) as writer:
            writer.write_table(table)
    shutil.copy("x.ipc", "x.feather")
    return sorted(files())


def test_files_under_one_name_are_one_source() -> None:
    out = ok("ingest", "x.duckdb", *write_formats(), "--name", "all", "--text", "q", "--json")
    reports = lines(out)
    assert {report["source"] for report in reports} == {"all"}
    assert [sum(report[key] for report in reports) for key in ("read", "added")] == [20, 2]


def test_a_glob_is_one_source_and_files_are_one_each() -> None:
    Path("d").mkdir()
    for i in range(3):
        Path(f"d/{i}.csv").write_text(f"t\ntext {i}\n")
    assert [
        r["read"] for r in lines(ok("ingest", "g.duckdb", "d/*.csv", "--text=t", "--json"))
    ] == [3]
    reports = lines(ok("ingest", "f.duckdb", "d/0.csv", "d/1.csv", "--text", "t", "--json"))
    assert [(r["source"], r["added"]) for r in reports] == [("0", 1), ("1", 1)]


def test_a_folder_is_text_files() -> None:
    Path("notes").mkdir()
    Path("notes/my_first.txt").write_text("some words")
    Path("notes/other.md").write_text("more words")
    ok("ingest", "n.duckdb", "notes", "--trust", "0.9")
    ok("ingest", "n.duckdb", "notes", "--pattern", "*.md", "--name", "md")
    with dp.Corpus("n.duckdb", read_only=True) as corpus:
        found = corpus.sql("SELECT text FROM section_texts ORDER BY record_id, position")
    assert found["text"].to_pylist() == ["other", "more words", "my first", "some words"]


def test_json_lines_on_stdin() -> None:
    text = '{"t": "é\\n"}\n\n{"t": 5}\n[]\n'
    out = ok("ingest", "s.duckdb", "-", "--text", "t", "--name", "in", "--json", stdin=text)
    (report,) = lines(out)
    assert report["reasons"] == {"not an object": 1, "not text: number": 1}
    assert (report["source"], report["read"], report["added"]) == ("in", 3, 1)


def test_columns_may_be_repeated_or_have_commas() -> None:
    Path("c.csv").write_text('a,b,"c,d",e\n,two,three,x\n')
    options = ["--anchor", "a, b", "--context", '"c,d"', "--meta", "e", "--meta", "a"]
    ok("ingest", "c.duckdb", "c.csv", *options)
    with dp.Corpus("c.duckdb", read_only=True) as corpus:
        found = corpus.sql("SELECT heading, text FROM section_texts ORDER BY position")
        assert found.to_pylist() == [
            {"heading": "b", "text": "two"},
            {"heading": "c,d", "text": "three"},
        ]
        (meta,) = corpus.sql("SELECT meta['e'] AS e FROM records")["e"].to_pylist()
    assert meta == "x"


def test_conflicts_are_settled_as_asked() -> None:
    Path("c.csv").write_text("id,t\n1,one\n")
    arguments = ["ingest", "c.duckdb", "c.csv", "--text", "t", "--id", "id"]
    ok(*arguments)
    Path("c.csv").write_text("id,t\n1,uno\n")
    assert "'c/1'" in error(*arguments)
    assert lines(ok(*arguments, "--on-conflict", "skip", "--json"))[0]["skipped"] == 1
    assert lines(ok(*arguments, "--on-conflict", "replace", "--json"))[0]["replaced"] == 1


def test_what_was_stored_before_a_failure_is_reported() -> None:
    Path("good.csv").write_text("t\nhello\n")
    Path("bad.csv").write_text("q\nhello\n")
    result = cli("ingest", "g.duckdb", "good.csv", "bad.csv", "--text", "t", "--json")
    assert result.exit_code == 1
    assert [report["source"] for report in lines(result.stdout)] == ["good"]
    assert result.stderr.startswith("good: 1 row read: 1 added")
    assert result.stderr.splitlines()[-1].startswith("error: bad.csv: no column 't'")


def test_delimiters() -> None:
    Path("x.csv").write_text("q;a\none;uno\n")
    Path("y.txt").write_text("q\ta\none\tuno\n")
    ok("ingest", "x.duckdb", "x.csv", "--text", "q", "--delimiter", ";")
    ok("ingest", "x.duckdb", "y.txt", "--text", "q", "--format", "csv", "--delimiter", "tab")
    assert "uno" not in ok("ingest", "x.duckdb", "y.txt", "--format", "tsv", "--text", "q")


# ---- split and chunk


def test_reassign_and_chunk(toy: str) -> None:
    moved = ok("split", toy, "--train", "1", "--validation", "0", "--test", "0", "--reassign")
    assert moved.split() == ["split", "records", "train", "120"]
    assert "240 sections" in cli("chunk", toy, "--max-tokens", "8", "--overlap", "2,4").stderr
    again = cli("chunk", toy, "--max-tokens", "8", "--overlap", "2", "--overlap", "4")
    assert "already" in again.stderr
    found = json.loads(ok("status", toy, "--json"))
    assert found["chunking"]["overlap"] == [2, 4]
    assert any(pool["recipe"] == "long_section" for pool in found["pools"])


# ---- recipes


RECIPES = """
[[triplet]]
name = "mine"
anchor = "role:anchor"
positive = "role:context"
negative = { role = "context", where = "meta['topic'] = 'law'" }

[[text]]
name = "bodies"
selector = { position = 1 }
"""


def test_recipes_are_kept_shown_and_removed(toy: str) -> None:
    Path("r.toml").write_text(RECIPES)
    assert "defaults of a, b" in ok("recipe", "list", toy)
    assert cli("recipe", "add", toy, "r.toml").stderr == "added mine, bodies\n"
    listed = ok("recipe", "list", toy).splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["bodies", "text"], ["mine", "triplet"]]
    assert cli("recipe", "add", toy, "r.toml").stderr == "stored already: mine, bodies\n"
    Path("other.toml").write_text(RECIPES.replace("mine", "new") + "\nweight = 7\n")
    said = error("recipe", "add", toy, "other.toml")
    assert "another recipe 'bodies', nothing was added" in said
    assert "duckplets recipe remove toy.duckdb bodies" in said
    assert ok("recipe", "list", toy).splitlines() == listed

    for name in ("mine", "bodies", "anchor_context"):
        Path("shown.toml").write_text(ok("recipe", "show", toy, name))
        (shown,) = dp.load_recipes("shown.toml")
        assert shown.name == name
        if name == "mine":
            assert shown == dp.load_recipes("r.toml")[0]

    (sample,) = lines(ok("sample", toy, "--batch-size", "1"))
    assert sample["recipe"] == "mine"
    ok("recipe", "remove", toy, "mine")
    ok("recipe", "remove", toy, "bodies")
    assert "stored" not in ok("recipe", "list", toy)
    by_file = ok("sample", toy, "--recipes", "r.toml", "--kind", "texts", "--batch-size", "9")
    assert {sample["recipe"] for sample in lines(by_file)} == {"bodies"}


def test_any_recipe_comes_back_from_what_is_shown(toy: str) -> None:
    recipe = dp.TripletRecipe(
        'odd "name" \\ é',
        dp.role("anchor", where="text <> '\x7f\"\\'"),
        dp.near_date(-3),
        dp.any_section(),
        strategy=dp.sql("negative.meta['topic'] = anchor.meta['topic']"),
        instruction="two\nlines\t",
        sources=("a", "b"),
        weight=0.1,
    )
    with dp.Corpus(toy) as corpus:
        corpus.add_recipe(recipe)
    Path("r.toml").write_text(ok("recipe", "show", toy, recipe.name), encoding="utf-8")
    assert dp.load_recipes("r.toml") == [recipe]


def test_pool_rows_are_json_lines(toy: str) -> None:
    rows = lines(ok("sql", toy, "anchor_context", "--rows", "--source", "b", "--split", "test"))
    with dp.Corpus(toy, read_only=True) as corpus:
        assert rows == corpus.pool("anchor_context", "test", "b").to_pylist()
    limited = lines(ok("sql", toy, "anchor_context", "--rows", "--limit", "2"))
    assert [row["record_id"].split("/")[0] for row in limited] == ["a", "a"]
    assert ok("sql", toy, "anchor_context", "--rows", "--limit", "0") == ""


def test_explain_shows_a_plan(toy: str) -> None:
    assert "HASH_JOIN" in ok("sql", toy, "anchor_context", "--explain")


# ---- looking


def test_status_for_people_and_for_programs(toy: str) -> None:
    ok("sample", toy, "--save")
    text = ok("status", toy)
    assert re.search(r"^size      \d\.\d MB \(indexes 0, candidates 0\)$", text, re.MULTILINE)
    for part in ("version 2", "sources", "records by split", "pools", "saved runs", "default"):
        assert part in text
    found = json.loads(ok("status", toy, "--json"))
    with dp.Corpus(toy, read_only=True) as corpus:
        expected = corpus.status()
    assert text == f"{expected}\n"
    assert found == json.loads(json.dumps(expected, default=lambda value: value.isoformat()))
    assert sum(row["records"] for row in found["records"]) == 120


def test_status_of_an_empty_corpus_and_one_without_splits() -> None:
    dp.Corpus("x.duckdb").close()
    assert "no saved run" in ok("status", "x.duckdb")
    ok("ingest", "x.duckdb", "-", "--text", "t", stdin='{"t": "hello"}\n')
    assert "duckplets split" in ok("status", "x.duckdb")
    assert ok("capacity", "x.duckdb").splitlines()[1].split()[:3] == ["stdin", "-", "1"]


def test_capacity(toy: str) -> None:
    rows = json.loads(ok("capacity", toy, "--json"))
    assert [row["source"] for row in rows] == ["a"] * 3 + ["b"] * 3
    for row in rows:
        assert row["pairs"] == row["triplet_recipes"] * row["records"] ** 2
    assert ok("capacity", toy).splitlines()[0].split()[0] == "source"


def test_doctor_finds_everything_in_order(toy: str) -> None:
    ok("sample", toy, "--save")
    for text in (ok("doctor"), ok("doctor", toy)):
        assert all(line.startswith("ok ") for line in text.splitlines())
        assert "duckdb 1." in text
    assert "saved runs: 1" in text
    assert "every record has a split" in text


BROKEN = {
    "DELETE FROM sources WHERE name = 'b'": "60 records without their source",
    "DELETE FROM records WHERE record_key = 5": "2 sections without their record",
    "DELETE FROM _internal.stored_sections WHERE record_key = 5": "2 chunks without their section",
    "UPDATE chunks SET length = length + 1 WHERE chunk_key = 1": "1 chunks outside their",
    "DELETE FROM chunks WHERE chunk_key = 1": "1 sections without windows",
    "UPDATE _internal.stored_sections SET token_count = 0 WHERE section_key = 1": (
        "1 sections with wrong"
    ),
    "DELETE FROM splits WHERE record_key < 3": "2 records without a split",
    "INSERT INTO splits VALUES (7, 'test')": "1 records with several splits",
    "UPDATE records SET record_id = 'a/r1' WHERE record_id = 'a/r2'": "1 ids that several",
    "UPDATE records SET added_version = 9 WHERE record_key = 1": "1 records of no version",
}


def test_doctor_finds_what_is_broken(toy: str) -> None:
    for statement in some(BROKEN, less=4):
        shutil.copy(toy, "broken.duckdb")
        database = Database.open(Path("broken.duckdb"))
        database.rows(statement)
        database.close()
        result = cli("doctor", "broken.duckdb")
        assert result.exit_code == 1
        assert f"problem  {BROKEN[statement]}" in result.stdout
        assert re.fullmatch(r"error: \d problems? found\n", result.stderr)


def test_doctor_on_files_that_are_none(toy: str) -> None:
    Path("toy.state.duckdb").write_text("junk " * 999)
    for corpus, said in ((toy, "toy.state.duckdb is not"), ("no.duckdb", "does not exist")):
        result = cli("doctor", corpus)
        assert result.exit_code == 1
        assert said in result.stdout


def test_migrate_says_what_it_did(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ok("migrate", toy) == "toy.duckdb: up to date\n"
    ok("sample", toy, "--save")
    assert ok("migrate", toy) == "toy.duckdb: up to date\ntoy.state.duckdb: up to date\n"
    monkeypatch.setattr("duckplets.db.migrate.migrate", lambda *_: ["0002_more"])
    assert ok("migrate", toy).startswith("toy.duckdb: applied 0002_more\n")


def test_a_corpus_that_is_being_written(toy: str) -> None:
    with dp.Corpus(toy):
        code, out, err = finished("status", toy)
    assert (code, out) == (1, "")
    assert re.fullmatch(rf"error: toy.duckdb is open in process {os.getpid()}[^\n]+\n", err)


# ---- the examples of the help texts


def examples() -> list[str]:
    found = []
    for command in COMMANDS:
        text = CliRunner().invoke(app, [*command, "--help"]).stdout
        found += re.findall(r"^      (\S.*duckplets.*|duckplets .*)$", text, re.MULTILINE)
    return [line.strip() for line in found]


@pytest.mark.usefixtures("pools_once")
def test_examples_of_the_help_texts_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: Hub
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("DUCKPLETS_CACHE", str(tmp_path / "cache"))
    chats = [
        {"conversations": [{"from": "human", "value": f"{i}?"}, {"from": "gpt", "value": f"{i}!"}]}
        for i in range(50)
    ]
    Path("chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    with toy_corpus("toy.duckdb", 20) as corpus:
        table = corpus.sql("SELECT text AS body, record_id AS url FROM section_texts")
    rows = "".join(f"question {i},the answer to question {i}\n" for i in range(50))
    Path("faq.csv").write_text("question,answer\n" + rows)
    Path("docs").mkdir()
    Path("docs", "a.md").write_text("# Title\n\ntext")
    Path("news").mkdir()
    days = pa.array(["2024-01-01"] * table.num_rows)
    pq.write_table(table.append_column("day", days), "news/1.parquet")
    Path("recipes.toml").write_text(RECIPES.replace("mine", "titles"))
    for name in ("old.toml", "new.toml"):
        Path(name).write_text('[[data.datasets]]\nname = "faq"\nweight = 0.5\n')
    Path("exam.csv").write_text("question\nwhat is asked here has eight words or more\n")
    Path("mixture.toml").write_text('[[data.datasets]]\nname = "news"\nweight = 0.5\n')
    stdin = "".join(json.dumps({"text": f"text {i}", "url": i}) + "\n" for i in range(20))
    Path("pages.jsonl").write_text(stdin)
    Path("strict.toml").write_text("language = false\n")
    shown = examples()
    assert len(shown) >= len(COMMANDS)
    # Stores have tests of their own.
    shown = [line for line in shown if "s3://" not in line]
    shown.remove("duckplets demo --keep demo.duckdb")  # above
    shown.remove("duckplets watch faq.duckdb")  # it needs a terminal: tests/cli/test_watch.py
    # What reads the corpus comes after what fills it, with two sources: each is mined. Those of
    # other kinds, the chunking, forgetting and removing are last.
    late = re.compile(r"hf://|chats|dump|chunk|reset|remove|recipe add")
    shown.sort(
        key=lambda line: (
            late.search(line) is not None,
            re.search("search|vector:|--against|--run default|watch", line) is not None,
            re.search("shards", line) is not None,  # after the tokenizer
        )
    )
    for line in shown:
        words = shlex.split(
            re.sub(r"^.* \| (?=duckplets)", "", line).split(" > ")[0].split(" | ")[0]
        )
        if words[1] == "embed":  # without the weights of a model
            words[3] = "hashed:hashed"
        if "--by" in words and words[1] == "search":
            words += ["--encoder", "hashed:hashed"]
        ok(*words[1:], stdin=stdin if "-" in words else None)


@pytest.fixture
def hub() -> Iterator[Hub]:
    rows = [{"question": f"where is {i}", "answer": f"{i} is there"} for i in range(50)]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    with Hub() as hub:
        hub.add("org/faq", {"train.jsonl": data})
        yield hub


# ---- pipes and signals


def test_a_reader_that_leaves_early_is_no_error(toy: str) -> None:
    with process("sample", toy, "--steps", "100000", "--save") as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())
        running.stdout.close()
        assert running.wait(timeout=PATIENCE) == 141
        assert running.stderr is not None
        assert talk(running.stderr.read()) == ""
    assert files() == {toy}


def test_ctrl_c_while_sampling(toy: str) -> None:
    with process("sample", toy, "--steps", "1000000", "--save", "--out", "x.jsonl") as running:
        wait_for(lambda: any(".new" in name for name in files()))
        running.send_signal(signal.SIGINT)
        assert finish(running) == (130, "", "interrupted\n")
    assert files() == {toy}


def test_ctrl_c_while_nobody_reads(toy: str) -> None:
    with process("sample", toy, "--steps", "1000000") as running:
        assert running.stdout is not None
        assert running.stdout.readline()
        time.sleep(0.3)  # the pipe is full by now
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=PATIENCE) == 130
        assert finish(running)[2] == "interrupted\n"


def test_ctrl_c_while_ingesting_stores_nothing() -> None:
    with process("ingest", "c.duckdb", "-", "--text", "t", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write('{"t": "hello"}\n')
        running.stdin.flush()
        wait_for(lambda: Path("c.duckdb").exists())
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        assert finish(running) == (130, "", "interrupted\n")
    assert not Path("c.duckdb").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is full")
def test_a_full_disk_is_one_line(toy: str) -> None:
    with open("/dev/full", "w") as full:
        for steps in some(("100", "1"), less=1):
            code, _, err = finished("sample", toy, "--steps", steps, stdout=full)
            assert (code, err) == (1, "error: No space left on device\n")


def test_text_is_utf8_whatever_the_locale(toy: str) -> None:
    ok("ingest", toy, "-", "--name", "é", "--text", "t", stdin='{"t": "naïve ☃"}\n')
    with open("status.json", "wb") as out:  # its bytes
        latin = {"PYTHONIOENCODING": "latin-1"}
        assert finished("status", toy, "--json", stdout=out, env=latin)[0] == 0
    assert json.loads(Path("status.json").read_text("utf-8"))["sources"][2]["name"] == "é"


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---- the duckdb CLI


DUCKDB = shutil.which("duckdb", path=str(Path(sys.executable).parent)) or shutil.which("duckdb")
with_duckdb = pytest.mark.skipif(DUCKDB is None, reason="pip install duckdb-cli")


def duckdb(path: str, statement: str, *, patience: float = 0) -> list[dict[str, Any]]:
    """Run a statement in the real duckdb CLI, again while the file is locked for a save."""
    deadline = time.monotonic() + patience
    while True:
        run = ran(str(DUCKDB), "-readonly", "-json", path, typed=statement)
        if run.returncode == 0 and not run.stderr:
            rows: list[dict[str, Any]] = json.loads(run.stdout or "[]")
            return rows
        assert "lock" in run.stderr, run.stderr
        assert time.monotonic() < deadline, run.stderr
        time.sleep(0.01)


@with_duckdb
def test_the_duckdb_cli_runs_what_sql_prints(toy: str) -> None:
    Path("r.toml").write_text(RECIPES)
    ok("recipe", "add", toy, "r.toml")
    recipes = ("mine", "bodies", "anchor_anchor", "anchor_context")
    every = list(product(recipes, ([], ["--source", "b", "--split", "validation"])))
    for recipe, options in some(every, less=3):
        rows = duckdb(toy, ok("sql", toy, recipe, *options) + ";")
        expected = lines(ok("sql", toy, recipe, "--rows", *options))
        assert [row["record_id"] for row in rows] == [row["record_id"] for row in expected]
        assert rows


@with_duckdb
def test_the_duckdb_cli_shows_commented_tables(toy: str) -> None:
    ok("sample", toy, "--save")
    for path in (toy, "toy.state.duckdb"):
        bare = "SELECT count(*) AS n FROM duckdb_columns() WHERE comment IS NULL AND NOT internal"
        tables = duckdb(
            path, "SELECT schema_name || '.' || table_name AS name FROM duckdb_tables()"
        )
        assert tables
        on_tables = f"{bare} AND table_name IN (SELECT table_name FROM duckdb_tables())"
        assert duckdb(path, on_tables) == [{"n": 0}]
        rows = (f"(SELECT count(*) FROM {table['name']})" for table in tables)
        duckdb(path, f"SELECT {', '.join(rows)}")


SAVING = """
import sys, threading, time
import duckplets as dp

with dp.Corpus(sys.argv[1], read_only=True) as corpus:
    sampler = corpus.sampler(batch_size=4)
    waiting = threading.Thread(target=sys.stdin.read)
    waiting.start()
    print("started", flush=True)
    while waiting.is_alive():
        next(sampler)
        sampler.save()
        time.sleep(0.1)
    print(sampler.step)
"""


@thorough
@with_duckdb
def test_both_files_can_be_looked_at_while_a_run_goes_on(toy: str) -> None:
    statement = ok("sql", toy, "anchor_context")
    steps: list[int] = []
    with python("-c", SAVING, toy, stdin=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "started\n"
        wait_for(Path("toy.state.duckdb").exists)
        pool = len(lines(ok("sql", toy, "anchor_context", "--rows")))
        while len(set(steps)) < often(5, less=2):
            assert running.poll() is None
            assert len(duckdb(toy, statement)) == pool
            steps += column(duckdb("toy.state.duckdb", "SELECT step FROM cursors", patience=60))
        code, out, err = finish(running)  # closes its stdin: it may end
    assert code == 0, err
    assert column(duckdb("toy.state.duckdb", "SELECT step FROM cursors")) == [int(out)]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def column(rows: Sequence[dict[str, Any]]) -> list[int]:
    return [int(row["step"]) for row in rows]
