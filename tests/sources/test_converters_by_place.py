"""Converters named where they stand, ``module:function``: imported with a warning, errors typed."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import programs
import pytest
from commands import cli
from effort import thorough

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.sources.converters import registry

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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with modules, none of which is known to Python."""
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "convert.py").write_text(GOOD)
    (tmp_path / "own_late.py").write_text("from own_package.convert import rows\n")
    (tmp_path / "own_broken.py").write_text("import own_missing\n")
    (tmp_path / "own_syntax.py").write_text("def rows(:\n")
    (tmp_path / "own_exit.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_FOLDERS", [])
    monkeypatch.setattr(registry, "_WARNED", set())
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def test_the_command_line_imports_from_the_working_directory_and_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    command = ["ingest", "c.duckdb", "r.jsonl", "--converter"]
    done = cli(*command, "own_package.convert:rows")
    assert done.exit_code == 0, done.stderr
    (told,) = (r for r in caplog.records if r.levelno == logging.WARNING)
    assert told.getMessage() == (
        "converter own_package.convert:rows: the code of module own_package.convert runs here: it "
        "is imported, and its rows is called for every row"
    )
    with dp.Corpus("c.duckdb", read_only=True) as corpus:
        assert corpus.sql("SELECT text FROM sections ORDER BY text")["text"].to_pylist() == [
            *("a 1", "a 2", "q 1", "q 2")
        ]
        (stored,) = corpus.sql("SELECT mapping FROM sources")["mapping"].to_pylist()
        assert json.loads(stored) == {"converter": "own_package.convert:rows"}
    # Another function would make other records of the same rows.
    refused = cli(*command, "own_package.convert:Kinds.pair")
    assert refused.exit_code == 1
    assert 'converter: "own_package.convert:rows"; now it is' in refused.stderr
    assert cli(*command, "own_package.convert:late", "--preview", "1").exit_code == 0


@thorough
def test_the_program_says_on_stderr_that_code_runs(folder: Path) -> None:
    code = "from duckplets.cli import main; main()"
    script = folder / "bin" / "run.py"  # as of a program that is installed: it lies elsewhere
    script.parent.mkdir()
    script.write_text(code)
    arguments = ["ingest", "c.duckdb", "r.jsonl", "--converter", "own_package.convert:rows"]
    done = programs.ran(sys.executable, script, *arguments, "--preview", "1", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("converter own_package.convert:rows: the code of")
    assert "a 1" in done.stdout


def test_a_file_of_data_sets_may_name_one(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    Path("sets.yaml").write_text(
        "faq: {file_name: r.jsonl, converter: 'own_package.convert:Kinds.pair'}\n"
        "other: {file_name: r.jsonl, converter: 'own_nowhere:rows'}\n"
    )
    done = cli("ingest", "c.duckdb", "sets.yaml")
    assert done.exit_code == 1
    assert "data set 'other': converter='own_nowhere:rows': cannot import own_now" in done.stderr
    assert "No module named 'own_nowhere'" in done.stderr
    assert str(folder) in done.stderr
    registry.search_first(str(folder))
    Path("sets.yaml").write_text(
        "faq: {file_name: r.jsonl, converter: 'own_package.convert:Kinds.pair'}\n"
    )
    (found,) = dp.load_data_sets("sets.yaml")
    with dp.Corpus("c.duckdb") as corpus:
        assert corpus.ingest(found.source(), name="faq").added == 2
        roles = corpus.sql("SELECT role, count(*) AS n FROM sections GROUP BY role ORDER BY role")
        assert roles.to_pylist() == [{"role": r, "n": 2} for r in ("anchor", "context", "rejected")]
    assert len(caplog.records) == 2, "one warning for each converter"


WRONG = {
    "own_nowhere:rows": "cannot import own_nowhere .*ModuleNotFoundError: No module named",
    "own_broken:rows": "cannot import own_broken .*No module named 'own_missing'",
    "own_syntax:rows": "cannot import own_syntax .*SyntaxError",
    "own_exit:rows": "cannot import own_exit .*SystemExit: 3",
    "own_package.convert:row": r"own_package.convert \(.*convert.py\) has no 'row' .*mean 'rows'",
    "own_package.convert:Kinds.x": r"has no 'Kinds.x'",
    "own_package.convert:number": "number of own_package.convert is 3, no function",
    "own_package.convert:": "write module:function, as in 'mypkg.convert:rows'",
    ":rows": "write module:function",
    "a b:rows": "write module:function",
    "own_package.convert:rows()": "write module:function",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_imported_is_named(name: str, folder: Path) -> None:
    registry.search_first(str(folder))
    before = list(sys.path)
    with pytest.raises(SourceError, match=WRONG[name]) as caught:
        dp.MemorySource(ROWS, converter=name)
    assert f"converter={name!r}" in str(caught.value)
    assert sys.path in (before, [*before, str(folder)])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("wrong", "converter 'own_package.convert:wrong': returned list, not a dictionary"),
        ("breaks", "converter 'own_package.convert:breaks': LookupError: no such thing"),
    ],
)
def test_what_it_returns_is_judged_and_named(function: str, message: str) -> None:
    done = cli("ingest", "c.duckdb", "r.jsonl", "--converter", f"own_package.convert:{function}")
    assert done.exit_code == 1
    assert message in done.stderr
    assert not Path("c.duckdb").exists()


def test_the_folder_is_searched_first_and_later_last(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "own_late.py").write_text("rows = None\n")
    monkeypatch.syspath_prepend(str(elsewhere))
    registry.search_first(str(folder))
    assert dp.MemorySource(ROWS, converter="own_late:rows").conversion() is not None
    assert sys.path[0] == str(elsewhere)
    assert sys.path[-1] == str(folder)


def test_a_registered_name_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(row: dict[str, Any]) -> dict[str, Any]:
        return row

    monkeypatch.setattr(registry, "_OWN", {})
    dp.register_converter("own:mine", mine)
    made = dp.MemorySource(ROWS, converter="own:mine").conversion()
    assert made is not None
    assert made.function is mine
