"""Converters of one's own: a function called once a row, registered or named where it stands."""

import json
import logging
import sys
from pathlib import Path

import pytest
from commands import cli
from described import sources_file
from source_rows import every_source, read, texts

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.records.sources_file import load_sources
from duckplets.sources.converters import registry
from duckplets.sources.converters.registry import register_converter

_each = pytest.mark.parametrize


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """Forget what a test registers."""
    monkeypatch.setattr(registry, "_OWN", {})


def said(*turns):
    return [{"role": role, "content": text} for role, text in turns]


def faq(row):
    asked = row["question"]
    if "context" in row:
        asked = f"Context: {row['context']}\n\nQuestion: {asked}"
    return {"messages": said(("user", asked), ("assistant", row["answer"]))}


def test_a_function_sees_the_same_row_in_every_format(tmp_path, reader):
    seen = []

    def function(row):
        seen.append(row)
        return faq(row)

    register_converter("faq", function)
    rows = [
        {"question": "q", "answer": "a", "tags": ["x", None], "Of": {"b": 1.5}, "of": True},
        {"question": "p", "answer": "b", "tags": [], "Of": {"b": 2.5}, "of": False},
        {"question": "o", "answer": "c", "tags": None, "Of": None, "of": None},
    ]
    kinds = ("records", "table", "parquet", "jsonl")
    found = []
    for source in every_source(tmp_path, rows, kinds, converter="faq").values():
        seen.clear()
        found.append(read(source, reader))
        assert seen == [{k: v for k, v in row.items() if v is not None} for row in rows]
    assert all(rows == found[0] for rows in found)
    seen.clear()
    statement = "SELECT 'q' AS question, 'a' AS answer, ['x', NULL] AS tags"
    read(dp.SqlSource(statement, converter="faq"), reader)
    assert seen == [{"question": "q", "answer": "a", "tags": ["x", None]}]
    seen.clear()
    (tmp_path / "r.csv").write_text("question,answer\nq,r\nq\n\np,s\n")
    found = read(
        dp.sources.CsvSource(tmp_path / "r.csv", converter="faq", on_error="quarantine"), reader
    )
    assert [row["skip"] for row in found] == [None, "ragged row", None]
    assert [row["quarantined"] for row in found] == [None, '["q"]', None]
    assert [row["question"] for row in seen] == ["q", "p"], "a row that could not be read"


def test_a_function_may_give_pairs_blocks_and_weights(reader):
    def function(row):
        asked = {"role": "user", "content": [{"type": "text", "value": row["q"]}]}
        reply = {"role": "assistant", "content": "r", "loss_weight": 0.25}
        made = {"chosen_messages": [asked, reply], "extra": {1, 2}}
        if "w" in row:
            made["rejected_messages"] = (asked, {"role": "assistant", "content": row["w"]})
        return made

    register_converter("mine", function)
    one, both = read(
        dp.sources.MemorySource([{"q": "q"}, {"q": "q", "w": "w"}], converter="mine"), reader
    )
    assert [m["loss_weight"] for m in json.loads(one["messages"])] == [0.0, 0.25]
    assert one["rejected_messages"] is None
    assert [(s["role"], s["heading"]) for s in both["sections"]] == [
        ("anchor", "chosen_messages"),
        ("context", "chosen_messages"),
        ("rejected", "rejected_messages"),
    ]
    assert both["sections"][2]["text"] == "w"
    assert json.loads(both["rejected_messages"])[1]["loss_weight"] == 1.0


def fail(row):
    return {}[row["missing"]]


def interrupt(row):
    raise KeyboardInterrupt


def of_turn(**turn):
    return lambda row: {"messages": [turn]}


NO_JSON = "returned 'messages' that are no JSON"
OF_TURN = "field 'messages', turn 1: "
WEIGHT = "messages has a 'loss_weight' that is no number from 0 up"
FAULTS = {  # what is told is the reason, if not said
    "exception": (fail, "KeyError", "converter 'mine': KeyError: 'missing'"),
    "nothing": (lambda row: None, "returned NoneType, not a dictionary", None),
    "no messages": (
        lambda row: {"message": []},
        *("returned neither 'messages' nor 'chosen_messages'", None),
    ),
    "text": (lambda row: {"messages": "[]"}, "returned str for 'messages', not a list", None),
    "not JSON": (of_turn(role=object()), NO_JSON, None),
    "surrogate": (of_turn(role="user", content="\ud800"), NO_JSON, None),
    "not a number": (of_turn(role="user", loss_weight=float("nan")), NO_JSON, None),
    "empty": (
        lambda row: {"messages": []},
        *("messages is empty", "field 'messages': the conversation is empty"),
    ),
    "role": (
        of_turn(role="human", content="q"),
        "messages has an unknown 'role'",
        f"{OF_TURN}'role' is \"human\"; known are: system, user, assistant, tool",
    ),
    "negative weight": (
        of_turn(role="user", content="q", loss_weight=-1),
        *(WEIGHT, f"{OF_TURN}'loss_weight' is no number from 0 up: -1"),
    ),
    "weight in words": (
        of_turn(role="user", content="q", loss_weight="1"),
        *(WEIGHT, f"{OF_TURN}'loss_weight' is no number from 0 up: \"1\""),
    ),
    "rejected": (
        lambda row: {
            "messages": said(("user", "q"), ("assistant", "r")),
            "rejected_messages": said(("user", "q"), ("assistant", "")),
        },
        "rejected_messages has an empty turn of the assistant",
        "field 'rejected_messages', turn 2: the turn of the assistant is empty",
    ),
}


@_each("name", FAULTS)
def test_faults_of_a_function_are_errors_of_rows(reader, name):
    function, reason, detail = FAULTS[name]
    detail = detail or f"converter 'mine': {reason}"
    register_converter("mine", lambda row: function(row) if row["i"] == 2 else row["good"])
    good = {"messages": said(("user", "q"), ("assistant", "r"))}
    rows = [{"i": i, "good": good} for i in range(1, 4)]
    with pytest.raises(SourceError) as caught:
        read(dp.sources.MemorySource(rows, converter="mine"), reader)
    assert str(caught.value).startswith(f"source 'memory', row 2: {detail}; on_error='skip'")
    for on_error in ("skip", "quarantine"):
        found = read(dp.sources.MemorySource(rows, converter="mine", on_error=on_error), reader)
        assert [row["skip"] for row in found] == [None, f"mine: {reason}", None]
    aside = [row["quarantined"] and json.loads(row["quarantined"]) for row in found]
    assert aside == [None, rows[1], None]


def test_interrupts_of_a_function_are_not_held_back(reader):
    register_converter("mine", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read(dp.sources.MemorySource([{"a": 1}], converter="mine", on_error="skip"), reader)


@_each(
    ("name", "function", "message"),
    [
        ("", faq, "converter '': give a name"),
        (None, faq, "converter None: give a name"),
        ("pair", faq, "converter 'pair' is built in; register yours under another name"),
        ("mine", "faq", "converter 'mine': 'faq' cannot be called"),
    ],
)
def test_what_cannot_be_registered(name, function, message):
    with pytest.raises(SourceError) as caught:
        register_converter(name, function)
    assert str(caught.value) == message


# ---- named where they stand, as module:function

GOOD = """
def rows(row):
    said = [("user", row["q"]), ("assistant", row["a"])]
    return {"messages": [{"role": role, "content": text} for role, text in said]}

class Kinds:
    @staticmethod
    def pair(row):
        turns = {key: rows({"q": row["q"], "a": row[key]})["messages"] for key in ("a", "b")}
        return {"chosen_messages": turns["a"], "rejected_messages": turns["b"]}

def late(row):
    import own_late
    return own_late.rows(row)

def wrong(row):
    return [row]

def breaks(row):
    raise LookupError("no such thing")

number = 3
"""
ROWS = [{"q": "q 1", "a": "a 1", "b": "b 1"}, {"q": "q 2", "a": "a 2", "b": "b 2"}]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with modules, none of which is known to Python."""
    (tmp_path / "own_package").mkdir()
    for name, content in {
        "own_package/convert.py": GOOD,
        "own_late.py": "from own_package.convert import rows\n",
        "own_broken.py": "import own_missing\n",
        "own_syntax.py": "def rows(:\n",
        "own_exit.py": "raise SystemExit(3)\n",
        "r.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    }.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_WARNED", set())
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("folder")
def test_the_command_line_imports_from_the_working_directory_and_warns(caplog):
    command = ["ingest", "c.duckdb", "r.jsonl", "--converter"]
    for function, message in {
        "wrong": "converter 'own_package.convert:wrong': returned list, not a dictionary",
        "breaks": "converter 'own_package.convert:breaks': LookupError: no such thing",
    }.items():
        done = cli(*command, f"own_package.convert:{function}")
        assert done.exit_code == 1
        assert message in done.stderr
        assert not Path("c.duckdb").exists()
    caplog.clear()
    done = cli(*command, "own_package.convert:rows")
    assert done.exit_code == 0, done.stderr
    (told,) = (r for r in caplog.records if r.levelno == logging.WARNING)
    assert told.getMessage() == (
        "converter own_package.convert:rows: the code of module own_package.convert runs here: it "
        "is imported, and its rows is called for every row"
    )
    with dp.Corpus("c.duckdb", read_only=True) as corpus:
        stored = corpus.sql("SELECT text FROM sections ORDER BY text")["text"].to_pylist()
        assert stored == ["a 1", "a 2", "q 1", "q 2"]
        (mapping,) = corpus.sql("SELECT mapping FROM sources")["mapping"].to_pylist()
        assert json.loads(mapping) == {"converter": "own_package.convert:rows"}
    # Another function would make other records of the same rows.
    refused = cli(*command, "own_package.convert:Kinds.pair")
    assert refused.exit_code == 1
    assert 'converter: "own_package.convert:rows"; now it is' in refused.stderr
    assert cli(*command, "own_package.convert:late", "--preview", "1").exit_code == 0


def test_a_file_of_data_sets_may_name_one(folder, reader, caplog):
    good = {"faq": {"path": "r.jsonl", "converter": "own_package.convert:Kinds.pair"}}
    wrong = {"other": {"path": "r.jsonl", "converter": "own_nowhere:rows"}}
    sources_file("sets.yaml", good | wrong)
    done = cli("ingest", "c.duckdb", "sets.yaml")
    assert done.exit_code == 1
    assert "source 'other': converter='own_nowhere:rows': cannot import own_now" in done.stderr
    assert "No module named 'own_nowhere'" in done.stderr
    assert str(folder) in sys.path
    (found,) = load_sources(sources_file("sets.yaml", good))
    for row in read(found.source(), reader):
        assert [role for role, _ in texts(row)] == ["anchor", "context", "rejected"]
    assert len(caplog.records) == 2, "one warning for each converter"


WRONG = {
    "own_nowhere:rows": "cannot import own_nowhere: ModuleNotFoundError: No module named",
    "own_broken:rows": "cannot import own_broken: .*No module named 'own_missing'",
    "own_syntax:rows": "cannot import own_syntax: SyntaxError",
    "own_exit:rows": "cannot import own_exit: SystemExit: 3",
    "own_package.convert:row": r"own_package.convert \(.*convert.py\) has no 'row' .*mean 'rows'",
    "own_package.convert:Kinds.x": r"has no 'Kinds.x'",
    "own_package.convert:number": "number of own_package.convert is 3, no function",
    "own_package.convert:": "write module:function, as in 'mypkg.convert:rows'",
    ":rows": "write module:function",
    "a b:rows": "write module:function",
    "own_package.convert:rows()": "write module:function",
}


@_each("name", WRONG)
def test_what_cannot_be_imported_is_named(name, folder):
    sys.path.append(str(folder))
    with pytest.raises(SourceError, match=WRONG[name]) as caught:
        dp.sources.MemorySource(ROWS, converter=name)
    assert f"converter={name!r}" in str(caught.value)


def test_a_registered_name_comes_first():
    register_converter("own:mine", faq)
    made = dp.sources.MemorySource(ROWS, converter="own:mine").conversion()
    assert made is not None
    assert made.function is faq
