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
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import cli, error, files, finish, lines, ok, process, talk, usage
from effort import THOROUGH, some, thorough
from hub_server import Hub
from prebuilt import toy_corpus
from programs import PATIENCE, ran
from tokenizer_files import word_level
from typer.main import get_command

import duckplets as dp
from duckplets.cli import _COMMANDS, app, verbs
from duckplets.cli.app import as_typed
from duckplets.db.database import Database
from duckplets.recipes.files import load_recipes

NAMES = {name: told for names in _COMMANDS.values() for name, (_, told) in names.items()}
COMMANDS = [[name] for name in NAMES]
# Twenty and 150; advise has six options, verify one and --json, runs three for proofs, prepare
# --rewrite.
MOST_COMMANDS, MOST_OPTIONS = 20 + 2, 150 + 6 + 6 + 1


@cache
def help_of(*words):
    return ok(*words, "--help")


# ---- the frame


def test_the_list_of_commands_has_the_first_line_of_each():
    assert ok("--version") == f"duckplets {dp.__version__}\n"
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


def test_the_command_line_stays_small():
    """The rest of the settings are keys of run.toml and sources.toml, and arguments in Python."""
    application = get_command(app)
    own = [p for p in application.params if "completion" not in p.name]
    options = [p for c in application.commands.values() for p in c.params] + own
    found = [p for p in options if p.param_type_name == "option"]
    assert len(application.commands) <= MOST_COMMANDS
    assert len(found) <= MOST_OPTIONS


OLD = {
    "chunk toy.duckdb": "duckplets chunk is now ingest --max-tokens",
    "ingest toy.duckdb x.csv --list f": "--list is now a file of sources, sources.toml",
    "status toy.duckdb --pools": "--pools is now Corpus.status(pools=True)",
}


def test_an_old_command_or_option_is_refused_with_the_new_one():
    for typed, said in OLD.items():
        assert said in " ".join(usage(*typed.split()).split()), typed


def test_options_of_a_verb_have_its_text_and_default(monkeypatch):
    def mine(corpus: object, /, *, depth: int = 100, kinds: Sequence[str] = (), engine: Any = None):
        """Mine.

        Args:
            depth: How deep ``mine`` looks.
            kinds: Of what.
        """

    monkeypatch.setattr("duckplets.mining.mine.mine", mine)
    depth, kinds = verbs.options_of("mining.mine:mine")
    assert (depth.default, depth.annotation.__args__[0]) == (None, int | None)
    assert depth.annotation.__metadata__[0].help == "How deep mine looks. [default: 100]"
    assert kinds.annotation.__args__[0] == list[str] | None


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
    ("sample toy.duckdb --set allow_drift=seed", "add --resume"),
    ("sample toy.duckdb --set version=newest", "add --resume"),
    ("sample toy.duckdb --newest", "--newest is now --set version=newest"),
    ("forecast toy.duckdb --resume --tag x", "--tag is now --set tag="),
    ("split toy.duckdb --no-given", "Corpus.split(reassign=True, given=False)"),
    ("sample toy.duckdb --save --out no/s.jsonl", "no folder no"),
    ("runs toy.duckdb default --next -1", "--next"),
    ("runs toy.duckdb default --next 1 --from 1", "give one of them"),
    ("runs toy.duckdb default --from 3 --to 2", "the first is after the last"),
    ("runs toy.duckdb default --out x.csv", "FILE.parquet"),
    ("runs toy.duckdb --reset", "--reset is for one run"),
    ("runs toy.duckdb default --reset --next 1", "remove --next"),
    ("sql toy.duckdb anchor_context --limit -1", "--limit"),
    ("ingest toy.duckdb s.toml --name x", "has the names, formats and columns"),
    ("shard toy.duckdb shards", "OUT and --tokenizer"),
    ("shard shards --status", "--status is now shard OUT without"),
    ("prepare toy.duckdb --recipes r.toml --clean", "remove the other options"),
    ("show toy.duckdb --samples 0", "--samples"),
]


def test_wrong_usage_exits_with_2(toy):
    for typed, said in WRONG_USAGE:
        shown = usage(*typed.split())
        assert said in " ".join(re.sub(r"[│\n]", " ", shown).split()), typed
    assert files() == {toy}


WRONG_INPUT = [
    ("status nope.duckdb", "nope.duckdb does not exist"),
    ("split nope.duckdb", "create it with: duckplets ingest nope.duckdb"),
    ("prepare toy.duckdb --recipes no.toml", "no such file"),
    ("runs nope.duckdb", "does not exist"),
    ("status text.txt", "not a DuckDB file"),
    ("ingest text.txt x.csv --text t", "not a DuckDB file"),
    ("ingest n/n.duckdb x.csv --text t", "folder n does not exist"),
    ("ingest n.duckdb none.csv --text t", "none.csv does not exist"),
    ("ingest n.duckdb no*.csv --text t", "no*.csv matches no file"),
    ("ingest n.duckdb text.txt --text t", "text.txt is text: text= is for"),
    ("ingest n.duckdb * --text t", "give format="),
    ("ingest n.duckdb x.* --text t", "several formats: csv, jsonl"),
    ("ingest n.duckdb x.csv x.jsonl --text t", "--name x"),
    ("ingest n.duckdb folder --anchor t", "anchor= is for files with columns"),
    ("ingest n.duckdb - --format csv --text t", "JSON lines"),
    ("ingest toy.duckdb x.csv --text q", "no column 'q'"),
    ("ingest toy.duckdb x.csv", "say which columns hold the text"),
    ("ingest toy.duckdb x.csv --text t --max-tokens 9", "call Corpus.chunk(max_tokens=9)"),
    ("ingest n.duckdb s.yaml", "format='cvs'"),  # a key of the file, not an option
    ("split toy.duckdb --keep-together text", "keep_together=text; keep those"),
    ("split toy.duckdb", "reassign=True"),
    ("quality toy.duckdb --why a --against b", "give one of record, against and apply"),
    ("quality toy.duckdb --dry-run", "dry_run=True is about apply="),
    ("sql toy.duckdb x", "no recipe 'x'"),
    ("sql toy.duckdb anchor_contex", "did you mean 'anchor_context'?"),
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
    ("runs toy.duckdb default", "no run is saved"),
    ("runs toy.duckdb x --reset", "no run 'x'"),
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
        "s.yaml": "source:\n  - path: x.csv\n    format: cvs\n",
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
    assert isinstance(cli("--debug", "status", "no.duckdb").exception, dp.errors.MissingFileError)


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
    Path("y.txt").write_text("q\ta\none\tuno\n")
    shown = ok(*["ingest", "x.duckdb", "y.txt", "--text", "q", "--format", "tsv", "--preview", "1"])
    assert ": one\n" in shown


# ---- recipes


RECIPES = """
[[recipe]]
name = "mine"
anchor = { role = "anchor" }
positive = { role = "context" }
negative = { role = "context", where = "meta['topic'] = 'law'" }

[[recipe]]
name = "bodies"
selector = { position = 1 }
"""


def test_recipes_are_stored_and_shown(toy):
    Path("r.toml").write_text(RECIPES)
    assert "# defaults of a, b\n" in ok("show", toy, "--recipes")
    Path("shown.toml").write_text(ok("show", toy, "--recipes"))
    assert "anchor_context" in {recipe.name for recipe in load_recipes("shown.toml")}
    assert cli("prepare", toy, "--recipes", "r.toml").stderr == "added mine, bodies\n"
    assert cli("prepare", toy, "--recipes", "r.toml").stderr == "stored already: mine, bodies\n"
    Path("other.toml").write_text(RECIPES.replace("mine", "new") + "\nweight = 7\n")
    said = error("prepare", toy, "--recipes", "other.toml")
    assert "another recipe 'bodies', so none was added" in said
    assert "Corpus.remove(recipe='bodies')" in said
    Path("shown.toml").write_text(ok("show", toy, "--recipes"))
    assert {*load_recipes("shown.toml")} == {*load_recipes("r.toml")}
    assert {row["from"] for row in json.loads(ok("show", toy, "--recipes", "--json"))} == {"stored"}
    assert {row["recipe"] for row in lines(ok("sample", toy))} == {"mine"}
    by_file = ok("sample", toy, "--recipes", "r.toml", "--kind", "texts", "--batch-size", "9")
    assert {sample["recipe"] for sample in lines(by_file)} == {"bodies"}


def test_rows_of_a_query_are_a_table_or_json_lines(toy):
    query = "FROM pools.anchor_context('b', 'test')"
    rows = lines(ok("sql", toy, query, "--limit", "2", "--json"))
    with dp.Corpus(toy, read_only=True) as corpus:
        expected = corpus.pool("anchor_context", split="test", source="b").to_pylist()
    assert [row["record_id"] for row in rows] == [row["record_id"] for row in expected[:2]]
    assert ok("sql", toy, "SELECT 1 AS a, 'x' AS b").splitlines() == ["a  b", "1  x"]
    assert "one SELECT" in error("sql", toy, "DROP TABLE records")
    assert 'Candidate bindings: "source_id"' in error("sql", toy, "SELECT source FROM records")


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
    assert re.search(r"^stdin +- +1 ", ok("status", "x.duckdb"), re.MULTILINE)


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
    assert ok("doctor", toy, "--migrate").startswith("toy.duckdb: up to date\nok ")
    ok("sample", toy, "--save")
    both = "toy.duckdb: up to date\ntoy.state.duckdb: up to date\n"
    assert ok("doctor", toy, "--migrate").startswith(both)
    monkeypatch.setattr("duckplets.db.migrate.migrate", lambda *_: ["0002_more"])
    assert cli("doctor", toy, "--migrate").stdout.startswith("toy.duckdb: applied 0002_more\n")


# ---- the examples of the help texts


EXAMPLES = {  # the commands of each part; a part begins with what fills the corpus
    "rows": "ingest deduplicate decontaminate quality remove shard split sql prepare doctor",
    "runs": "mine export embed search forecast sample status show runs",
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
    # Stores have tests of their own, and so have the demo, certificates, and advise, which needs
    # 200 anchors.
    left = ("s3://", "hf://me", "demo --keep", "--by bm25,default", "verify run.json", "advise faq")
    return [line.strip() for line in found if not any(word in f"{line}\n" for word in left)]


def runs_example(line):
    words = shlex.split(re.sub(r"^.* \| (?=duckplets)", "", line).split(" > ")[0].split(" | ")[0])
    if words[1] == "embed":  # without the weights of a model
        words[3] = "hashed:hashed"
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
        "sources.toml": "[[source]]\npath = 'pages.jsonl'\ncolumns = { text = 'text' }\n",
        "tokenizer.json": word_level(Path("tokenizer.json")).read_text(),
        "d.tsv": "1\ta passage\n",
        "q.tsv": "7\ta query\n",
        "dev.trec": "7 0 1 1\n",
    }.items():
        Path(name).write_text(text)
    every = examples()
    of_part = EXAMPLES[part].split()
    verb_of = {line: line.split("duckplets ", 1)[1].split()[0] for line in every}
    assert {verb for verbs in EXAMPLES.values() for verb in verbs.split()} == {*verb_of.values()}
    shown = [line for line in every if verb_of[line] in of_part]
    if not THOROUGH:
        of_verb = {verb: [line for line in shown if verb_of[line] == verb] for verb in of_part}
        most = dict.fromkeys(SLOW, 1) | dict.fromkeys(("runs", "ingest"), 99)
        shown = [line for verb, of in of_verb.items() for line in of[: most.get(verb, 2)]]
    fill = [line for line in every if any(word in line for word in FILL)]
    # Other kinds of sources, the chunking, forgetting and removing are last.
    late = re.compile(r"hf://|documents=|chats|dump|reset|remove|--recipes recipes.toml")
    early = re.compile(r" embed | --save|--recipes >")
    by_bm25 = re.compile(
        r"search|--negatives|--why|vector:|--against|--run default|--verify|shard shards$| runs "
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
    ok("prepare", toy, "--recipes", "r.toml")
    recipes = ("mine", "bodies", "anchor_anchor", "anchor_context")
    for recipe in some(recipes, less=2):
        statement = ok("sql", toy, recipe) + ";"
        run = ran(str(DUCKDB), "-readonly", "-json", toy, typed=statement)
        assert (run.returncode, run.stderr) == (0, "")
        rows = json.loads(run.stdout)
        with dp.Corpus(toy, read_only=True) as corpus:
            expected = corpus.pool(recipe)["record_id"].to_pylist()
        assert [row["record_id"] for row in rows] == expected
        assert rows
