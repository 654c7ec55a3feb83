"""Whatever a corpus, a file or a command line holds, nothing of it acts on a terminal."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from commands import cli, error, files, lines, ok
from effort import THOROUGH, some
from programs import ran

import duckplets as dp
from duckplets.base.sanitize import harmless, harmless_json, listed, shown
from duckplets.db import migrate
from duckplets.db.database import Database
from duckplets.recipes.files import to_dict
from duckplets.search.index import index as build_index

ACTS = "\x1b[31m\x1b]0;title\x07\r\n\x9b1m\x08\x7f\u202e\u2066\u200f\u2028\ufeff\U000e0041"
HOSTILE = f"a{ACTS}é\u4e2d\U0001f600"
LONG = "w" * 10_000
ACTING = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
WIDEST = 2000  # characters of a table's line: eight cells of 200, and what is between them
WHOLE = 10**6  # what is read by programs is not cut


# ---- the functions that write


def test_what_is_shown_acts_nowhere_and_is_bounded():
    for value in (HOSTILE, "\ud800", "\0", LONG, f"{ACTS}{LONG}{ACTS}", 5, None):
        for limit in (20, 200, 4000):
            text = shown(value, limit)
            assert not ACTING.search(text)
            assert "\n" not in text
            assert len(text) <= limit + 30
        assert not ACTING.search(harmless(f"{value}\n{value}"))
    assert shown("plain é\u200d中") == "plain é\u200d中"
    assert harmless("two\nlines") == "two\nlines"
    assert "é" in harmless_json('"é\u202e"')
    assert listed(["a", 1, HOSTILE[:2]]) == "a, 1, a\\x1b"
    assert listed(range(25)).endswith("18, 19 and 5 more")
    assert len(listed([LONG] * 1000)) < 2500
    assert listed([]) == ""


# ---- a corpus full of it


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus with a run in which whatever a user names acts on terminals."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.duckdb"
    rows = [
        {
            "id": f"{HOSTILE} {i} {LONG if i == 3 else ''}",
            f"q{HOSTILE}": f"what is {HOSTILE} number {i}",
            "a": f"word {HOSTILE} number {i} {LONG if i == 5 else ''}",
            HOSTILE: f"{HOSTILE} {i % 3}",
        }
        for i in range(16)
    ]
    source = dp.sources.MemorySource(
        rows, anchor=f"q{HOSTILE}", positive="a", id="id", meta=HOSTILE, taxonomy=HOSTILE
    )
    recipe = dp.TripletRecipe(
        "mine",
        dp.role("anchor", where=f"text <> 'it''s {HOSTILE}'"),
        dp.role("context"),
        dp.role("context"),
        instruction=HOSTILE,
    )
    with dp.Corpus(path) as corpus:
        corpus.ingest(source, name="s")
        corpus.split(1.0, 0.0, 0.0)
        build_index(corpus, dp.Terms(stemmer="none"), progress=False)
        corpus.add_recipe(recipe)
        sampler = corpus.sampler(batch_size=4)
        next(sampler)
        sampler.save()
        sampler.save("tag")
    # Names are checked today; a file may have been made by others.
    rename(
        path,
        [
            "UPDATE sources SET name = name || $h, uri = $h || $l",
            "UPDATE _internal.stored_sections SET heading = $h",
        ],
    )
    state = path.with_name("hostile.state.duckdb")
    rename(state, ["UPDATE saves SET tag = $h || $l WHERE tag IS NOT NULL"])
    return path


def rename(path, statements):
    database = Database.open(path)
    for statement in statements:
        values = {"h": HOSTILE, "l": LONG}
        database.rows(statement, {n: v for n, v in values.items() if f"${n}" in statement})
    database.close()


@pytest.fixture
def hostile(made, tmp_path):
    for file in (made, made.with_name("hostile.state.duckdb")):
        shutil.copy(file, tmp_path / file.name)
    return "hostile.duckdb"


def printed(*arguments, code=0, widest=WIDEST):
    """Run a command and return its stdout, after a look at all that it printed."""
    result = cli(*arguments)
    for text in (result.stdout_bytes.decode(), result.stderr_bytes.decode()):
        assert not ACTING.search(text), ascii(text[:2000])
        assert max(map(len, text.split("\n"))) < widest
    assert code in (None, result.exit_code), result.stderr
    return result.stdout_bytes.decode()


def test_no_command_prints_what_acts(hostile):
    assert printed("status", hostile).count("\n") < 60
    assert printed("runs", hostile).count("\n") == 3
    found = printed("search", hostile, f"word number {HOSTILE}", "--k", "16")
    assert found.count("\n") == 17
    for command in some(["show --recipes", "doctor"], less=1):
        printed(*command.split(), hostile)
    assert "plan" in printed("sql", hostile, "EXPLAIN FROM records", widest=WHOLE).lower()
    printed("runs", hostile, "default", "--to", "1", code=1)  # its sources had other names
    # A recipe of such a name is refused when it is read, in a line.
    parts = to_dict(dp.TextRecipe("x", dp.role("anchor"))) | {"name": HOSTILE}
    database = Database.open(Path(hostile))
    given = {"name": HOSTILE, "kind": "text", "definition": json.dumps(parts)}
    database.run("recipes/store/add", given)
    database.close()
    for command in some(["status", "show --recipes", "sample"], less=1):
        printed(*command.split(), hostile, code=1, widest=5000)


def test_json_output_has_the_values_that_are_stored(hostile):
    found = json.loads(printed("status", hostile, "--json", widest=WHOLE))
    assert {source["name"] for source in found["sources"]} == {f"s{HOSTILE}"}
    assert {run["tag"] for run in found["runs"]} == {None, HOSTILE + LONG}
    with dp.Corpus(hostile, read_only=True) as corpus:
        rows = next(corpus.sampler(batch_size=8)).to_pylist()
        pool = corpus.pool("mine").to_pylist()
        (recipe,) = corpus.recipes()
        statement = printed("sql", hostile, "mine", widest=WHOLE)
        assert corpus.sql(statement.rstrip().rstrip(";")).to_pylist() == pool
    assert pool
    assert lines(printed("sample", hostile, "--batch-size", "8", widest=WHOLE)) == rows
    Path("r.toml").write_text(printed("show", hostile, "--recipes", widest=WHOLE), "utf-8")
    assert dp.load_recipes("r.toml") == [recipe]


FILE = f"{HOSTILE}.csv"
REFUSED = [
    *(["status", "NAME"], ["doctor", "NAME", "--migrate"], ["NAME"]),
    ["ingest", "n.duckdb", "NAME"],
    ["ingest", "n.duckdb", FILE, "--text", "NAME", "--name", "x"],
    ["ingest", "n.duckdb", FILE, "--text", "b", "--name", "NAME"],
    ["ingest", "n.duckdb", FILE, "--format", "NAME"],
    ["ingest", "n.duckdb", "hf://NAME"],
    ["prepare", "hostile.duckdb", "--recipes", "NAME"],
    ["sql", "hostile.duckdb", "SELECT 'NAME"],
    *(f"mine hostile.duckdb {how} NAME".split() for how in ("--stemmer", "--by", "")),
    ["sql", "hostile.duckdb", "NAME"],
    ["search", "hostile.duckdb", "x", "--source", "NAME"],
    ["export", "hostile.duckdb", "NAME", "--format", "flagembedding"],
    ["export", "hostile.duckdb", "NAME", "--format", "NAME"],
    *(f"sample hostile.duckdb {how} NAME".split() for how in ("--columns", "--recipes")),
    ["sample", "hostile.duckdb", "--mixture", "NAME=1"],
    ["sample", "hostile.duckdb", "--out", "NAME/x.jsonl"],
    *(f"sample hostile.duckdb --resume {how} NAME".split() for how in ("--run", "--tag", "--set")),
    *(["runs", "hostile.duckdb", "NAME", *how] for how in ([], ["--reset"])),
    ["ingest", "hostile.duckdb", FILE, "--text", "b", "--tokenizer", "NAME"],
    ["status", "hostile.duckdb", "--NAME"],
]


def test_no_error_repeats_what_acts(hostile):
    Path(FILE).write_text(f'"{HOSTILE} 2",b\n1,2\n', encoding="utf-8")
    names = [HOSTILE, LONG, "\udcff", f"{LONG}{HOSTILE}"]
    for place, arguments in enumerate(some(REFUSED, less=8)):
        for name in names if THOROUGH else [names[place % 4]]:
            given = [argument.replace("NAME", name) for argument in arguments]
            said = printed(*given, code=None, widest=5000)
            assert said == ""


# ---- names and places of every kind


LONGEST = "n" * 255
CREATE = migrate.create  # other tests copy new files


ODD = [
    (["ingest", f"{'n' * 245}.duckdb", "x.csv", "--text", "a"], "name is too long"),
    (["ingest", f"{'n' * 214}.duckdb", "x.csv", "--text", "a"], "at most 220 bytes"),
    (["status", f"{'n' * 300}.duckdb"], "File name too long"),
    (["ingest", "n.duckdb", f"{LONGEST}n"], "File name too long"),
    (["ingest", "n.duckdb", "x.csv", "--anchor", "a\nb"], r"no column 'a\\nb'"),
    (["ingest", "b\udcff.duckdb", "x.csv", "--text", "a"], "is not UTF-8"),
    (["status", "b\udcff.duckdb"], "does not exist"),
    (["ingest", "n.duckdb", "b\udcff.csv", "--text", "a", "--name", "x"], "is not UTF-8"),
    (["ingest", "n.duckdb", "b\udcff*", "--text", "a", "--name", "x"], "is not UTF-8"),
    (["search", "toy.duckdb", "\udcff"], "half of a pair"),
    (["sample", "toy.duckdb", "--out", f"{LONGEST}.parquet"], f"^error: {LONGEST}"),
    (["sample", "toy.duckdb", "--out", f"{LONGEST}.jsonl"], "File name too long"),
]


def test_odd_names_give_a_line_and_leave_nothing(toy, monkeypatch):
    Path("x.csv").write_text("a\n1\n")
    Path("b\udcff.csv").write_text("a\n1\n")
    monkeypatch.setattr(migrate, "create", CREATE)
    fits = f"{'n' * 213}.duckdb"  # a corpus like any other
    shutil.copy(toy, fits)
    ok("sample", fits, "--save")
    assert ok("runs", fits).count("\n") == 2
    before = files()
    for arguments, said in some(ODD, less=7):
        assert re.search(said, error(*arguments)), ascii(arguments)
        assert files() - before <= {"n.duckdb"}
        Path("n.duckdb").unlink(missing_ok=True)


def test_a_folder_that_may_not_be_written_is_named(monkeypatch):
    Path("x.csv").write_text("a\n1\n")
    monkeypatch.setattr(migrate, "create", CREATE)
    monkeypatch.setattr(os, "access", lambda *_: False)
    said = error("ingest", "n.duckdb", "x.csv", "--text", "a")
    assert said == "error: n.duckdb cannot be made: its folder . is read-only\n"


# ---- the streams of a process


def shell(line, **options):
    duckplets = shlex.join([sys.executable, "-m", "duckplets"])
    return ran("sh", "-c", f"exec {duckplets} {line}", **options)


def test_closed_streams(tmp_path):
    Path("x.csv").write_text("a\n1\n")
    said = {
        "status --wrong 2>&-": (2, "", ""),
        "status none.duckdb 2>&-": (1, "", ""),
        "ingest n.duckdb x.csv --text a 2>&- <&-": (0, "source", ""),
        "split n.duckdb --train 1 --validation 0 --test 0 >&-": (0, "", "asked 100/0/0"),
        "sample n.duckdb --kind texts >&-": (0, "", "texts of split train"),
        "ingest m.duckdb - --name s --text a <&-": (1, "", "error: standard input is closed"),
    }
    for line in some(said, less=1):
        found = shell(line, cwd=tmp_path)
        code, out, err = said[line]
        assert (found.returncode, found.stdout[: len(out)]) == (code, out), (line, found)
        assert found.stdout[len(out) :] == "" or out
        assert err in found.stderr
        assert "should not happen" not in found.stderr
        assert bool(found.stderr) == bool(err)


INTERRUPTED = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
signal.signal(signal.SIGINT, signal.default_int_handler)
from duckplets.cli import main
main(["status", "none.duckdb"])
"""


def test_ctrl_c_while_modules_are_loaded():
    modules = [
        "duckplets.cli.app",
        "typer",
        "duckplets.cli.maintenance",
        "duckdb",
        "duckplets.corpus.corpus",
    ]
    for module in some(modules, less=1):
        found = ran(sys.executable, "-c", INTERRUPTED, module)
        assert (found.returncode, found.stdout, found.stderr) == (130, "", "interrupted\n"), module
