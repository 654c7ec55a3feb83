"""`duckplets ui`: the questions answer what they are named for, wherever they are asked."""

import json
import re
import socket
import sys
from pathlib import Path

import duckdb
import pytest
from commands import cli, error, ok, usage
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.corpus.look_inside import QUESTIONS
from duckplets.db.database import Database
from duckplets.db.queries import SQL, statements_of
from duckplets.errors import QueryError


@pytest.fixture
def looked_at(tmp_path):
    path = tmp_path / "it's, a look.duckdb"
    with toy_corpus(path, 60) as corpus:
        rows = [
            {"q": "asked twice", "a": f"an answer, the {i}th of them, for all who asked"}
            for i in range(40)
        ]
        source = dp.MemorySource([*rows, {"q": "", "a": "x"}], anchor="q", positive="a")
        gates = dp.Quality("general", min_characters=10)
        corpus.ingest(source, name="twice", quality=gates, progress=False)
        corpus.split(train=0.8, validation=0.1, test=0.1, seed=0)
        corpus.mine(progress=False)
    return path


def answers(script):
    """Run the script's own statements, all but those that show rows, and read every view."""
    with duckdb.connect() as here:
        for statement in here.extract_statements(script):
            here.execute(statement.query)
        return {name: here.table(name).to_arrow_table().to_pylist() for name in QUESTIONS}


def test_each_question_is_answered_from_any_folder(looked_at, tmp_path, monkeypatch):
    script = ok("ui", looked_at, "--sql")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = answers(script)
    with dp.Corpus(looked_at, read_only=True) as corpus:
        records = sum(row["records"] for row in corpus.status()["records"])
        leaking = "SELECT count(*) AS n FROM section_texts WHERE text = $text AND split <> 'train'"
        shared = corpus.sql(leaking, {"text": "asked twice"})["n"][0].as_py()
        negatives = corpus.sql("SELECT count(*) AS n FROM hard_negatives WHERE rank = 1")
    contents = found["what_is_in_it"]
    assert sum(row["records"] for row in contents if row["role"] == "anchor") == records
    lengths = [row["token_count"] for row in found["which_texts_are_longest"]]
    assert lengths == sorted(lengths, reverse=True)
    assert found["which_texts_come_twice"][0]["text"] == "asked twice"
    assert found["which_texts_come_twice"][0]["times"] == 40
    assert {row["text"] for row in found["which_anchors_leak"]} == {"asked twice"}
    assert len({row["record_id"] for row in found["which_anchors_leak"]}) == shared
    assert [row["reason"] for row in found["what_was_left_out"]] == ["no anchor"]
    assert {row["outcome"] for row in found["what_did_gates_decide"]} == {"accepted", "filtered"}
    assert len(found["which_negatives_are_hardest"]) == negatives["n"][0].as_py() > 0
    for row in found["which_negatives_may_be_false"]:
        assert row["score"] > row["positive_score"]


def test_an_empty_corpus_can_be_asked_everything(tmp_path):
    dp.Corpus(tmp_path / "e.duckdb").close()
    assert not any(answers(ok("ui", tmp_path / "e.duckdb", "--sql")).values())


def test_every_question_says_what_it_asks():
    statements = statements_of(SQL / "corpus" / "questions.sql")
    views = {name for name, text in statements.items() if f"CREATE VIEW {name} AS" in text}
    assert views == set(QUESTIONS)
    page = (Path(__file__).parents[2] / "docs" / "inside.md").read_text("utf-8")
    for name in QUESTIONS:
        asked = re.match(r"-- (.*\?)\n", statements[name])
        assert asked, name
        assert f"| `{name}` | {asked[1]} |" in page


def test_without_the_extension_the_questions_are_printed_and_why(looked_at, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.setattr("duckplets.db.extensions.find_spec", lambda name: None)

    def refuse(database, name):
        raise QueryError("no route to host")

    monkeypatch.setattr(Database, "install_extension", refuse)
    monkeypatch.chdir(tmp_path)
    told = cli("ui", looked_at.name)
    assert told.exit_code == 0
    assert told.stdout == ok("ui", looked_at, "--sql")
    (said,) = told.stderr.splitlines()
    for words in ("pip install 'duckplets[ui]'", "duckdb -c 'INSTALL ui'", "no route to host"):
        assert words in said


def test_where_the_site_of_the_page_is_out_of_reach_they_are_printed(looked_at, monkeypatch):
    monkeypatch.setenv("HOME", str(looked_at.parent))
    monkeypatch.setattr("duckplets.db.extensions.need", lambda *_: None)
    run = Database.run

    def served(database, name, *given):
        with socket.create_server(("127.0.0.1", 0)) as gone:
            address = f"http://127.0.0.1:{gone.getsockname()[1]}/"
        is_start = name == "corpus/questions/serve"
        return [(f"started at {address}",)] if is_start else run(database, name, *given)

    monkeypatch.setattr(Database, "run", served)
    monkeypatch.setattr("duckplets.corpus.look_inside._SECONDS", 0.2)  # it is waited for
    monkeypatch.chdir(looked_at.parent)
    told = cli("ui", looked_at.name)
    assert told.exit_code == 0
    assert "is there a network? (<urlopen error" in told.stderr
    assert told.stdout == ok("ui", looked_at, "--sql")


def test_what_is_no_corpus_is_told(tmp_path):
    assert "does not exist" in error("ui", tmp_path / "no.duckdb", "--sql")
    duckdb.connect(tmp_path / "other.duckdb").close()
    assert "other.duckdb" in error("ui", tmp_path / "other.duckdb", "--sql")


def test_without_the_sdk_an_assistant_is_told_in_one_sentence(looked_at, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert error("mcp", looked_at).endswith("pip install 'duckplets[mcp]'\n")


def test_options_of_one_view_are_not_of_another(looked_at):
    for words in (
        ("status", looked_at, "--once"),
        ("status", looked_at, "--run", "default"),
        ("status", looked_at, "--mixture", "m.toml"),
        ("status", looked_at, "--watch", "--html", "x.html"),
        ("status", looked_at, "--watch", "--json"),
        ("status", looked_at, "--html", "x.html", "--once"),
        ("status", looked_at, "--html", "x.html", "--pools"),
        ("show", looked_at, "--recipe", "anchor_context"),
        ("show", looked_at, "--by", "bm25"),
        ("show", looked_at, "--negatives", "--limit", "3"),
        ("show", looked_at, "--why", "x", "--samples", "3"),
    ):
        assert "--" in usage(*words)
    found = json.loads(ok("show", looked_at, "toy", "--negatives", "--json"))
    assert {row["source"] for row in found} == {"toy"}
