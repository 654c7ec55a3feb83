"""The command line: what goes to stdout, what to stderr, and the exit code."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import cli, error, files, finish, finished, lines, ok, process, talk, usage
from effort import THOROUGH, some, thorough
from hub_server import Hub
from prebuilt import toy_corpus
from programs import PATIENCE, ran
from typer.main import get_command

import duckplets as dp
from duckplets.cli import _COMMANDS, _GROUPS, app, verbs
from duckplets.cli.app import as_typed
from duckplets.db.database import Database

NAMES = {name: told for names in _COMMANDS.values() for name, (_, told) in names.items()}
COMMANDS = [[name] for name in NAMES if name not in _GROUPS]
COMMANDS += [[group, verb] for group, verbs in _GROUPS.items() for verb in verbs]


@cache
def help_of(*words):
    return ok(*words, "--help")


# ---- the frame


def test_the_list_of_commands_has_the_first_line_of_each():
    assert ok("--version") == f"duckplets {dp.__version__}\n"
    assert len(NAMES) <= 30
    shown = help_of()
    bare = cli()
    assert (bare.exit_code, "Bring text in:" in bare.stdout + bare.stderr) == (2, True)
    for name, told in NAMES.items():
        assert re.search(rf"^  {name} +{re.escape(told)}$", shown, re.MULTILINE), name
        assert f"\n\n  {told}\n" in help_of(name), name


def test_help_is_for_people():
    """Every command has an example and says what options are for; long lists have headings."""
    for words in COMMANDS:
        command = get_command(app)
        for word in words:
            command = command.commands[word]
        assert [p.name for p in command.params if not getattr(p, "help", None)] == [], words
        text = help_of(*words)
        assert f"Example:\n      duckplets {' '.join(words)} " in text or "| duckplets" in text
        typed = r"Usage: .*[{}]|<(?:int|str|float|path)>|<list\[|\S  \[default"
        assert not re.search(typed, text), words
        (unnamed,) = re.findall(r"^Options:\n((?: .*\n|)+)", text, re.MULTILINE)
        assert len(re.findall(r"^  --", unnamed, re.MULTILINE)) <= 20, words
        options = [p for p in command.params if p.param_type_name == "option"]
        assert len(re.findall(r"^  --", text, re.MULTILINE)) == len(options) + 1, words


def test_a_new_argument_of_a_verb_is_an_option(monkeypatch):
    def mine(corpus: object, /, *, depth: int = 100, kinds: Sequence[str] = (), engine: Any = None):
        """Mine.

        Args:
            depth: How deep ``mine`` looks.
            kinds: Of what.
        """

    monkeypatch.setattr("duckplets.mining.mine.mine", mine)
    depth, kinds, engine = verbs.options_of("mining.mine:mine")
    assert (depth.default, depth.annotation.__args__[0]) == (None, int | None)
    assert depth.annotation.__metadata__[0].help == "How deep mine looks. [default: 100]"
    assert kinds.annotation.__args__[0] == list[str] | None
    assert "Dask" in engine.annotation.__metadata__[0].help


def test_help_is_quick_and_imports_nothing_heavy():
    heavy = [
        *("duckdb", "pyarrow", "numpy", "sqlglot", "rich", "tokenizers", "duckplets.corpus.corpus")
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
    ("nonsense", "nonsense"),
    ("status", "CORPUS"),
    ("status toy.duckdb --nonsense", "--nonsense"),
    ("ingest new.duckdb", "SOURCE"),
    ("ingest x.csv new.duckdb --text t", ""),
    ("ingest new.duckdb x.csv --format cvs", "cvs"),
    ("ingest new.duckdb x.csv --on-conflict ignore", "ignore"),
    ("split toy.duckdb --train most", "--train"),
    ("chunk toy.duckdb --overlap 1,x", "1,x"),
    ("sample toy.duckdb --kind quadruplets", "quadruplets"),
    ("sample toy.duckdb --steps -1", "--steps"),
    ("sample toy.duckdb --out x.csv", "FILE.parquet"),
    ("sample toy.duckdb --out nowhere/x.parquet", "nowhere"),
    ("sample toy.duckdb --tag x", "--save"),
    ("sample toy.duckdb --mixture a", "SOURCE=WEIGHT"),
    ("sample toy.duckdb --mixture a=x", "SOURCE=WEIGHT"),
    ("sample toy.duckdb --mixture a=1,a=2", ""),
    ("sample toy.duckdb --mixture m.toml,a=1", "one file, or weights"),
    ("sample toy.duckdb --mixture m.toml --mixture n.toml", "one file, or weights"),
    ("sample toy.duckdb --remainder drop", "--remainder"),
    ("sample toy.duckdb --set allow_drift=seed", "give --resume"),
    ("sample toy.duckdb --newest", "give --resume"),
    ("sample toy.duckdb --save --out no/s.jsonl", "no folder no"),
    ("served toy.duckdb --newest", "give --resume"),
    ("served toy.duckdb --next -1", "--next"),
    ("served toy.duckdb --next 1 --from 1", "leave --from out"),
    ("served toy.duckdb --batch-size 4", "give --next"),
    ("served toy.duckdb --from 3 --to 2", "in order"),
    ("served toy.duckdb --out x.csv", "FILE.parquet"),
    ("served toy.duckdb --step 3:2", "such as 7:12"),
    ("served toy.duckdb --step -1", "such as 7:12"),
    ("served toy.duckdb --step 1 --next 1", "leave out --from"),
    ("sql toy.duckdb anchor_context --rows --limit -1", "--limit"),
    ("sql toy.duckdb anchor_context --rows --explain", "not both"),
    ("show toy.duckdb --samples 0", "--samples"),
    ("cursor reset toy.duckdb", "--run"),
]


def test_wrong_usage_exits_with_2(toy):
    for typed, said in WRONG_USAGE:
        shown = usage(*typed.split())
        assert said in " ".join(re.sub(r"[│\n]", " ", shown).split()), typed
    assert files() == {toy}


WRONG_INPUT = [
    ("status nope.duckdb", "nope.duckdb does not exist"),
    ("split nope.duckdb", "create it with: duckplets ingest nope.duckdb"),
    ("recipe add nope.duckdb r.toml", "no such file"),
    ("recipe remove nope.duckdb x", "does not exist"),
    ("cursor list nope.duckdb", "does not exist"),
    ("status text.txt", "not a DuckDB file"),
    ("ingest text.txt x.csv --text t", "not a DuckDB file"),
    ("ingest n/n.duckdb x.csv --text t", "folder n does not exist"),
    ("ingest n.duckdb none.csv --text t", "none.csv does not exist"),
    ("ingest n.duckdb no*.csv --text t", "no*.csv matches no file"),
    ("ingest n.duckdb text.txt --text t", "text.txt is text: text= is for"),
    ("ingest n.duckdb * --text t", "say format="),
    ("ingest n.duckdb x.* --text t", "several formats: csv, jsonl"),
    ("ingest n.duckdb x.csv x.jsonl --text t", "--name x"),
    ("ingest n.duckdb x.jsonl --text t --delimiter ;", "is for CSV"),
    ("ingest n.duckdb folder --anchor t", "anchor= is for files with columns"),
    ("ingest n.duckdb - --format csv --text t", "JSON lines"),
    ("ingest toy.duckdb x.csv --text q", "no column 'q'"),
    ("ingest toy.duckdb x.csv", "say which columns hold the text"),
    ("ingest toy.duckdb x.csv --text t --trust 2", "trust"),
    ("ingest n.duckdb s.yaml", "format='cvs'"),  # a key of the file, not an option
    ("split toy.duckdb --keep-together text", "keep_together=text; keep those"),
    ("split toy.duckdb", "reassign=True"),
    ("recipe show toy.duckdb anchor_contex", "did you mean 'anchor_context'?"),
    ("sql toy.duckdb x", "no recipe 'x'"),
    ("sql toy.duckdb anchor_context --source c", "no source 'c'"),
    ("sql empty.duckdb anchor_context", "ingest some text first"),
    ("sample toy.duckdb --resume", "no run is saved"),
    ("sample toy.duckdb --batch-size 0", "batch_size=0:"),
    ("sample toy.duckdb --columns anchr", "did you mean 'anchor'?"),
    ("sample toy.duckdb --recipes x", "no recipe 'x'"),
    ("sample toy.duckdb --recipes x.toml", "x.toml: there is no such file"),
    ("sample toy.duckdb --mixture none.toml", "none.toml: there is no such file"),
    ("sample toy.duckdb --mixture m.toml", "no source 'c'"),
    ("sample toy.duckdb --rank 2 --world-size 2", "from 0 to 1"),
    ("sample toy.duckdb --save --set state=empty.duckdb", "is a corpus file, not a state file"),
    ("sample toy.duckdb --resume --set state=s.duckdb", "s.duckdb does not exist"),
    ("served toy.duckdb", "no run is saved"),
    ("cursor list toy.duckdb --state toy.duckdb", "is a corpus file, not a state file"),
    ("cursor reset toy.duckdb --run x", "no run 'x'"),
    ("demo --keep toy.duckdb", "toy.duckdb exists"),
    ("demo --keep n/toy.duckdb", "folder n does not exist"),
]


def test_a_wrong_input_gives_one_clear_line(toy):
    dp.Corpus("empty.duckdb").close()
    Path("folder").mkdir()
    for name, text in {
        "text.txt": "hello\n" * 1000,
        "x.csv": "t\nhello\n",
        "x.jsonl": '{"t": "hello"}\n',
        "s.yaml": "x:\n  file_name: x.csv\n  format: cvs\n",
        "m.toml": "[mixture]\nweights = { c = 1 }\n",
    }.items():
        Path(name).write_text(text)
    before = files()
    for typed, said in WRONG_INPUT:
        assert said in error(*typed.split()), typed
    assert files() == before


def test_errors_that_are_not_ours_are_one_line_too(monkeypatch, toy):
    def fail(*_, **__):
        raise KeyError("several\nlines")

    monkeypatch.setattr(dp.Corpus, "status", fail)
    assert "please report it: KeyError" in error("status", toy)
    monkeypatch.setattr(dp.Corpus, "status", lambda _, **__: os.open("/none/x", os.O_RDONLY))
    assert error("status", toy) == "error: /none/x: No such file or directory\n"
    assert isinstance(cli("--debug", "status", "no.duckdb").exception, dp.MissingFileError)


# ---- ingest


def test_columns_and_rows_are_taken_as_they_are_typed():
    text = '{"t": "é\\n"}\n\n{"t": 5}\n[]\n'
    out = ok("ingest", "s.duckdb", "-", "--text", "t", "--name", "in", "--json", stdin=text)
    (report,) = lines(out)
    assert report["reasons"] == {"not an object": 1, "not text: number": 1}
    assert (report["source"], report["read"], report["added"]) == ("in", 3, 1)
    Path("c.csv").write_text('a,b,"c,d",e\n,two,three,x\n')
    options = ["--anchor", "a, b", "--context", '"c,d"', "--meta", "e", "--meta", "a"]
    ok("ingest", "c.duckdb", "c.csv", *options)
    with dp.Corpus("c.duckdb", read_only=True) as corpus:
        found = corpus.sql("SELECT heading, text FROM section_texts ORDER BY position")
        assert [[*row.values()] for row in found.to_pylist()] == [["b", "two"], ["c,d", "three"]]
        assert corpus.sql("SELECT meta['e'] AS e FROM records")["e"].to_pylist() == ["x"]
    Path("x.csv").write_text("q;a\none;uno\n")
    Path("y.txt").write_text("q\ta\none\tuno\n")
    Path("q.csv").write_text('q,b\n"one,2\n')
    for name, how, text in (
        ("x.csv", "--delimiter ;", "one"),
        ("y.txt", "--format csv --delimiter tab", "one"),
        ("y.txt", "--format tsv", "one"),
        ("q.csv", "--no-quote", '"one'),
    ):
        shown = ok("ingest", "x.duckdb", name, "--text", "q", *how.split(), "--preview", "1")
        assert f": {text}\n" in shown


# ---- recipes


RECIPES = """
[[triplet]]
name = "mine"
anchor = { role = "anchor" }
positive = { role = "context" }
negative = { role = "context", where = "meta['topic'] = 'law'" }

[[text]]
name = "bodies"
selector = { position = 1 }
"""


def test_recipes_are_kept_shown_and_removed(toy):
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
    for name in ("mine", "bodies", "anchor_context"):
        Path("shown.toml").write_text(ok("recipe", "show", toy, name))
        (shown,) = dp.load_recipes("shown.toml")
        assert shown.name == name
        assert name != "mine" or shown == dp.load_recipes("r.toml")[0]
    assert {row["recipe"] for row in lines(ok("sample", toy))} == {"mine"}
    for name in ("mine", "bodies"):
        ok("recipe", "remove", toy, name)
    assert "stored" not in ok("recipe", "list", toy)
    by_file = ok("sample", toy, "--recipes", "r.toml", "--kind", "texts", "--batch-size", "9")
    assert {sample["recipe"] for sample in lines(by_file)} == {"bodies"}


def test_pool_rows_are_json_lines(toy):
    of = ("--source", "b", "--split", "test")
    rows = lines(ok("sql", toy, "anchor_context", "--rows", "--limit", "2", *of))
    with dp.Corpus(toy, read_only=True) as corpus:
        assert rows == corpus.pool("anchor_context", "test", "b").to_pylist()[:2]
    assert len(rows) == 2


# ---- looking


def test_status_for_people_and_for_programs(toy):
    ok("sample", toy, "--save")
    text = ok("status", toy)
    assert re.search(r"^size      [\d.]+ [kM]B \(indexes 0, candidates 0\)$", text, re.MULTILINE)
    for part in ("version 2", "sources", "records by split", "pools", "saved runs", "default"):
        assert part in text
    found = json.loads(ok("status", toy, "--json"))
    with as_typed(dp.Corpus(toy, read_only=True), Path(toy)) as corpus:
        expected = corpus.status()
    assert text == f"{expected}\n"
    assert found == json.loads(json.dumps(expected, default=lambda value: value.isoformat()))
    dp.Corpus("x.duckdb").close()
    assert "no saved run" in ok("status", "x.duckdb")
    ok("ingest", "x.duckdb", "-", "--text", "t", stdin='{"t": "hello"}\n')
    assert "duckplets split" in ok("status", "x.duckdb")
    assert error("sample", "x.duckdb").count("duckplets split x.duckdb") == 1
    assert ok("capacity", "x.duckdb").splitlines()[1].split()[:3] == ["stdin", "-", "1"]


def test_doctor_finds_everything_in_order(toy):
    ok("sample", toy, "--save")
    for text in (ok("doctor"), ok("doctor", toy)):
        assert all(line.startswith("ok ") for line in text.splitlines())
        assert "duckdb 1." in text
    assert "saved runs: 1" in text
    Path("toy.state.duckdb").write_text("junk " * 999)
    for corpus, said in ((toy, "toy.state.duckdb is not"), ("no.duckdb", "does not exist")):
        result = cli("doctor", corpus)
        assert (result.exit_code, said in result.stdout) == (1, True)


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
    "INSERT INTO splits VALUES (7, 'test', FALSE)": "1 records with several splits",
    "UPDATE records SET record_id = 'a/r1' WHERE record_id = 'a/r2'": "1 ids that several",
    "UPDATE records SET added_version = 9 WHERE record_key = 1": "1 records of no version",
}


def test_doctor_finds_what_is_broken(toy):
    for statement in some(BROKEN, less=3):
        shutil.copy(toy, "broken.duckdb")
        database = Database.open(Path("broken.duckdb"))
        database.rows(statement)
        database.close()
        result = cli("doctor", "broken.duckdb")
        assert result.exit_code == 1
        assert f"problem  {BROKEN[statement]}" in result.stdout
        assert re.fullmatch(r"error: \d problems? found\n", result.stderr)


def test_migrate_says_what_it_did(toy, monkeypatch):
    assert ok("migrate", toy) == "toy.duckdb: up to date\n"
    ok("sample", toy, "--save")
    assert ok("migrate", toy) == "toy.duckdb: up to date\ntoy.state.duckdb: up to date\n"
    monkeypatch.setattr("duckplets.db.migrate.migrate", lambda *_: ["0002_more"])
    assert ok("migrate", toy).startswith("toy.duckdb: applied 0002_more\n")


# ---- the examples of the help texts


EXAMPLES = {  # the commands of each part; a part begins with what fills the corpus
    "rows": "ingest deduplicate decontaminate quality chunk remove tokenizer shard verify split "
    "recipe sql compact prepare migrate doctor capacity",
    "runs": "mine export embed search forecast sample served status show cursor",
}
FILL = (
    "duckplets ingest faq.duckdb faq.csv",
    "duckplets ingest faq.duckdb 'news/",
    "duckplets split ",
)
SLOW = ("mine", "embed", "quality")  # one of theirs, two of others


def examples():
    found = []
    for command in COMMANDS:
        text = help_of(*command)
        found += re.findall(r"^      (\S.*duckplets.*|duckplets .*)$", text, re.MULTILINE)
    assert len(found) >= len(COMMANDS)
    # Stores have tests of their own, and so has the demo.
    left = ("s3://", "hf://me", "demo --keep", " mcp ")
    return [line.strip() for line in found if not any(word in f"{line}\n" for word in left)]


def runs_example(line):
    words = shlex.split(re.sub(r"^.* \| (?=duckplets)", "", line).split(" > ")[0].split(" | ")[0])
    if words[1] == "embed":  # without the weights of a model
        words[3] = "hashed:hashed"
    if "--by" in words and words[1] == "search":
        words += ["--encoder", "hashed:hashed"]
    stdin = Path("pages.jsonl").read_text() if "-" in words else None
    ok(*words[1:], stdin=stdin)


@pytest.mark.usefixtures("pools_once")
@pytest.mark.parametrize("part", EXAMPLES)
def test_examples_of_the_help_texts_run(part, tmp_path, monkeypatch):
    turns = [{"from": "human", "value": "a?"}, {"from": "gpt", "value": "b!"}]
    pages = [{"text": f"text {i}", "url": i} for i in range(20)]
    with toy_corpus("toy.duckdb", 20) as corpus:
        table = corpus.sql("SELECT text AS body, record_id AS url FROM section_texts")
    Path("news").mkdir()
    days = pa.array(["2024-01-01"] * table.num_rows)
    pq.write_table(table.append_column("day", days), "news/1.parquet")
    Path("docs").mkdir()
    Path("docs", "a.md").write_text("# Title\n\ntext")
    mixture = "[mixture]\nweights = {{ {} = 0.5 }}\n"
    questions = [f"question {i},the answer to question {i}\n" for i in range(50)]
    for name, text in {
        "chats.jsonl": json.dumps({"conversations": turns}) + "\n",
        "faq.csv": "".join(["question,answer\n", *questions]),
        "recipes.toml": RECIPES.replace("mine", "titles"),
        "old.toml": mixture.format("faq"),
        "new.toml": mixture.format("faq"),
        "mixture.toml": mixture.format("news"),
        "exam.csv": "question\nwhat is asked here has eight words or more\n",
        "pages.jsonl": "".join(json.dumps(page) + "\n" for page in pages),
        "strict.toml": "language = false\n",
    }.items():
        Path(name).write_text(text)
    every = examples()
    of_part = EXAMPLES[part].split()
    verb_of = {line: line.split("duckplets ", 1)[1].split()[0] for line in every}
    assert {verb for verbs in EXAMPLES.values() for verb in verbs.split()} == {*verb_of.values()}
    shown = [line for line in every if verb_of[line] in of_part]
    if not THOROUGH:
        of_verb = {verb: [line for line in shown if verb_of[line] == verb] for verb in of_part}
        most = dict.fromkeys(SLOW, 1) | dict.fromkeys((*_GROUPS, "ingest"), 99)
        shown = [line for verb, of in of_verb.items() for line in of[: most.get(verb, 2)]]
    fill = [line for line in every if any(word in line for word in FILL)]
    # Other kinds of sources, the chunking, forgetting and removing are last.
    late = re.compile(r"hf://|chats|dump|chunk|reset|remove|recipe add")
    early = re.compile(r"tokenizer train| embed | --save")
    by_bm25 = re.compile(
        r"search|--negatives|--why|vector:|--against|--run default|shard|verify|served"
    )
    shown.sort(key=lambda line: (bool(late.search(line)), not early.search(line),
                                 bool(by_bm25.search(line))))  # fmt: skip
    with Hub() as hub:
        row = {"question": "where?", "answer": "there"}
        hub.add("org/faq", {"train.jsonl": (json.dumps(row) + "\n").encode() * 2})
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        for line in dict.fromkeys([*fill, *shown]):
            runs_example(line)


# ---- pipes and signals


def test_a_reader_that_leaves_early_is_no_error():
    toy_corpus("é.duckdb", 12, sources=("é",)).close()
    latin = {"PYTHONIOENCODING": "latin-1"}  # whatever the locale, what is written is UTF-8
    command = ("sample", "é.duckdb", "--batch-size", "8", "--steps", "100000", "--save")
    with process(*command, env=latin) as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["source"] == "é"
        running.stdout.close()
        assert running.wait(timeout=PATIENCE) == 141
        assert running.stderr is not None
        assert talk(running.stderr.buffer.read().decode("latin-1")) == ""
    assert files() == {"é.duckdb"}


def test_ctrl_c_while_sampling(toy):
    with process("sample", toy, "--steps", "1000000", "--save", "--out", "x.jsonl") as running:
        wait_for(lambda: any(".new" in name for name in files()))
        running.send_signal(signal.SIGINT)
        assert finish(running) == (130, "", "interrupted\n")
    assert files() == {toy}


@thorough
def test_ctrl_c_while_ingesting_stores_nothing():
    with process("ingest", "c.duckdb", "-", "--text", "t", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write('{"t": "hello"}\n')
        running.stdin.flush()
        wait_for(lambda: Path("c.duckdb").exists())
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        assert finish(running) == (130, "", "interrupted\n")
    assert not Path("c.duckdb").exists()


@thorough
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is full")
def test_a_full_disk_is_one_line(toy):
    with open("/dev/full", "w") as full:
        for steps in ("100", "1"):
            code, _, err = finished("sample", toy, "--steps", steps, stdout=full)
            assert (code, err) == (1, "error: No space left on device\n")


def wait_for(happened):
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---- the duckdb CLI


DUCKDB = shutil.which("duckdb", path=str(Path(sys.executable).parent)) or shutil.which("duckdb")


@pytest.mark.skipif(DUCKDB is None, reason="pip install duckdb-cli")
def test_the_duckdb_cli_runs_what_sql_prints(toy):
    Path("r.toml").write_text(RECIPES)
    ok("recipe", "add", toy, "r.toml")
    recipes = ("mine", "bodies", "anchor_anchor", "anchor_context")
    every = list(product(recipes, ([], ["--source", "b", "--split", "validation"])))
    for recipe, options in some(every, less=2):
        statement = ok("sql", toy, recipe, *options) + ";"
        run = ran(str(DUCKDB), "-readonly", "-json", toy, typed=statement)
        assert (run.returncode, run.stderr) == (0, "")
        rows = json.loads(run.stdout)
        where = dict(zip(["source", "split"], options[1::2], strict=False))
        with dp.Corpus(toy, read_only=True) as corpus:
            expected = corpus.pool(recipe, **where)["record_id"].to_pylist()
        assert [row["record_id"] for row in rows] == expected
        assert rows
