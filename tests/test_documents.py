"""README, examples and pages: every block runs, every link leads somewhere, nothing is stale."""

import ast
import inspect
import json
import os
import re
import runpy
import shlex
import sys
from functools import cache, partial
from importlib.metadata import distribution
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands import ok
from effort import THOROUGH
from hub_data import point_to
from hub_server import TOKEN, Hub
from programs import ran, said
from typer.main import get_command

import duckplets as dp
from duckplets.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("skills/*/*.md")])
WITH_TORCH_PAGES = {"training.md"}  # tests/adapters runs these
# tests/adapters runs these
WITH_TORCH = {
    *("checkpoints", "distillation", "finetune", "instructions", "loops", "mining_again"),
    *("pretraining", "rerank", "retrieval"),
    "similarity",
    "two_ranks",
    "zero_difference",
}
EXAMPLES = sorted({file.stem for file in ROOT.glob("examples/*.py")} - WITH_TORCH)
AS_PROGRAM = "quickstart"  # the others run in this process
WORDNET = ROOT.parent / "shared" / "corpora" / "wordnet.parquet"

BLOCK = re.compile(r"(<!-- not run: .+? -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.fixture
def surroundings(tmp_path):
    """This checkout's command, and those of the packages that the README installs besides."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "duckplets"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m duckplets "$@"\n')
    command.chmod(0o755)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for package in re.findall(r"^pip install ([\w-]+)", readme, re.MULTILINE):
        for file in distribution(package).files or ():
            if file.parent.name == "bin":
                (folder / file.name).symlink_to(Path(file.locate()).resolve())
    own = str(Path(sys.executable).parent)  # where more is installed
    others = [place for place in os.environ["PATH"].split(os.pathsep) if place != own]
    return {"PATH": os.pathsep.join([str(folder), *others])}


def shell(code, environment, typed=None):
    """Run commands in a shell that succeed."""
    done = ran("bash", "-e", "-o", "pipefail", "-c", code, env=environment, typed=typed)
    assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"


def commands(code, environment):
    """Run a block of commands: ours in this process, what else there is in a shell."""
    ours = r"duckplets [^|>\n]*(?:> [\w.]+|\| .*)?$"
    for own, other in re.findall(rf"^({ours})|((?:^(?!{ours}).*\n)+)", code, re.MULTILINE):
        if own:
            command, sign, rest = re.fullmatch(r"([^|>]*)([|>]?) ?(.*)", own).groups()
            told = ok(*shlex.split(command)[1:])
            if sign == "|":
                shell(rest, environment, typed=told)
            elif sign:
                Path(rest).write_text(told, encoding="utf-8")
        elif other.strip():
            shell(other, environment)


def program(file, *arguments):
    """Run a program as if by itself, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(file), *arguments])
        runpy.run_path(str(file), run_name="__main__")


# ---- README


@pytest.fixture
def hub():
    """A hub with the two data sets that the README names."""
    rows = [
        {
            "question": f"Where is room {i}?",
            "answer": f"On floor {i % 7}, door {i}.",
            "body": f"Room {i} is closed.",
            "topic": "rooms",
        }
        for i in range(60)
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    with Hub() as hub:
        hub.add("library/questions", {"train.jsonl": lines})
        hub.add("library/notices", {"data/train.jsonl": lines})
        yield hub


def blocks(page):
    """Return the blocks of a page that are to be run: their language and their text."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert {language for reason, language, _ in found if not reason} <= {"python", "sh", ""}
    return [(language, code) for reason, language, code in found if language and not reason]


RUN = [page for page in PAGES if page.name not in WITH_TORCH_PAGES and blocks(page)]


def test_pages_have_blocks():
    guide = "README first-steps sources recipes hard-negatives mixtures quality tokens inside"
    assert {page.stem for page in RUN} >= set(guide.split())


@pytest.mark.usefixtures("pools_once")
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, surroundings, hub):
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("examples", "docs"):
        (folder / name).symlink_to(ROOT / name)
    monkeypatch.chdir(folder)
    point_to(hub, monkeypatch, tmp_path / "cache")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    names = {"__name__": "__main__"}
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, page.name, "exec"), names)
        else:
            commands(code, surroundings)
    for name in ("examples", "docs"):
        assert not list((ROOT / name).glob("**/*.duckdb")), "a page leaves nothing in the checkout"


def test_blocks_that_are_not_run_install_or_need_a_cluster():
    for page in PAGES:
        for reason, _, code in BLOCK.findall(page.read_text(encoding="utf-8")):
            lines = [line.split("#")[0].strip() for line in code.splitlines()]
            assert (
                not reason
                or all(line.startswith(("make ", "pip install ")) for line in lines)
                or "cluster" in code
            ), page


def test_a_command_that_fails_is_noticed(surroundings):
    for code in ("duckplets status nowhere.duckdb\n", "duckplets nonsense | cat\n", "nonsense\n"):
        with pytest.raises(AssertionError):
            commands(code, surroundings)


# ---- examples


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_anywhere_and_say_the_same(name, tmp_path, monkeypatch, capsys, golden):
    arguments, text = [], f"examples/{name}.txt"
    if name == "wordnet":
        if not WORDNET.exists():
            pytest.skip("wordnet.parquet is not here")
        if not THOROUGH:
            text, arguments = "examples/wordnet_begun.txt", [str(tmp_path / "begun.parquet")]
            pq.write_table(pq.read_table(WORDNET).slice(0, 5_000), arguments[0])
    elif name == "local_cluster" and not THOROUGH:  # its workers are threads of this process
        import distributed

        cluster = partial(distributed.LocalCluster, processes=False)
        monkeypatch.setattr(distributed, "LocalCluster", cluster)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    script = ROOT / "examples" / f"{name}.py"
    if name == AS_PROGRAM:
        golden(text, said("-W", "error", script))
    else:
        program(script, *arguments)
        golden(text, capsys.readouterr().out)
    assert not list(folder.iterdir()), "an example leaves nothing behind"


# ---- pages


def test_the_map_of_folders_is_up_to_date(golden):
    golden("../../docs/design.md", runpy.run_path(str(ROOT / "docs" / "file_map.py"))["page"]())


def test_every_public_name_is_in_the_reference_with_all_its_arguments():
    pages = "".join(page.read_text("utf-8") for page in ROOT.glob("docs/reference/*.md"))
    listed = set(re.findall(r"^::: duckplets\.(\w+)$", pages, re.MULTILINE))
    assert listed - {"errors", "testing"} == {n for n in dp.__all__ if not n.endswith("Error")}
    for name in listed - {"errors", "testing"}:
        value = getattr(dp, name)
        public = [getattr(value, key) for key in vars(value) if not key.startswith("_")]
        for call in [value, *public] if inspect.isclass(value) else [value]:
            if not (inspect.isfunction(call) or inspect.ismethod(call) or inspect.isclass(call)):
                continue
            text = inspect.getdoc(call) or ""
            assert text, f"{name}: {call}"
            given = [
                parameter.name
                for parameter in inspect.signature(call).parameters.values()
                if parameter.name != "self"
                and parameter.annotation not in ("Corpus", "CorpusFile", "Sampler")
            ]
            if "Args:" in text:
                for argument in given:
                    assert re.search(rf"^    \*{{0,2}}{argument}\b.*:", text, re.M), (
                        call,
                        argument,
                    )


def headings(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def test_links_lead_somewhere():
    for page in PAGES:
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            if link.startswith("https://"):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if path.startswith("reference/"):
                anchor = ""  # headings of the reference are made from the code
            assert target.exists(), (page, link)
            assert not anchor or anchor in headings(target), (page, link)


def test_modules_that_the_design_names_are_there():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    asides = " ".join(re.findall(r"\(([^()]*\*[^()]*)\)", text))
    named = {*re.findall(r"\*([a-z_]+(?:/[a-z_]+)*)\*", asides)}
    named |= {*re.findall(r"\*([a-z]+/[a-z_]+)\*", text)}
    assert len(named) > 50
    assert not [name for name in named if not list((ROOT / "duckplets").glob(f"{name}*"))]


def test_what_sources_say_of_pages_is_there():
    files = [file for kind in ("py", "sql") for file in ROOT.glob(f"[a-z]*/**/*.{kind}")]
    # what `make docs` built has folders of such names
    for file in (file for file in files if file.is_file() and file != Path(__file__)):
        text = file.read_text(encoding="utf-8")
        for page, title in re.findall(r'\b(docs/\w+\.md)(?:, "([^"]+)")?', text):
            assert (ROOT / page).exists(), f"{file.name}: {page}"
            assert not title or f"# {title}\n" in (ROOT / page).read_text(encoding="utf-8"), file


def test_make_has_the_targets_that_pages_name():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for page in PAGES:
        named = re.findall(r"(?:`|^)make (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(named) <= set(targets), page.name


def test_commands_have_the_options_that_pages_name():
    known = {"--help", "--install-completion", "--nthreads"}  # Typer's, and Dask's
    program = get_command(app)
    for command in (program, *program.commands.values()):
        known |= {name for option in command.params for name in option.opts}
    for page in PAGES:
        if page.name != "CONTRIBUTING.md":  # it names other programs
            text = page.read_text(encoding="utf-8")
            named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", re.sub(r"<!--.*?-->", "", text)))
            assert named <= known, (page.name, named - known)


def test_the_changelog_knows_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(dp.__version__)}\b", text, re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{dp.__version__}"\n' in project
    assert f"\nversion: {dp.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


# ---- every promise of docs/promises.md names tests that are there


TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "promises.md"


@cache
def names_in(file):
    path = TESTS / file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return frozenset(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))


def test_every_promise_is_held_by_tests_that_are_there():
    rows = re.findall(r"^\| (?!promise \|)(.+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(rows) >= 90
    wrong = []
    for promise, held in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", held)
        gone = [f"{file}::{name}" for file, name in named if name not in names_in(file)]
        if gone or not named:
            wrong.append(f"{promise} {gone or 'has no test'}")
    assert not wrong, "\n".join(wrong)


# ---- plain English


PLAIN = """
The sampler draws one negative for each anchor.
Rows without an anchor are skipped and counted.
Which model should I use?
Of course, you can change the seed.
So many rows failed that the import stopped.
There is no default.
Something else in this process has the file open.
"""
HARD = {
    "of-front": "Of a list the first that has text is taken.",
    "what-front": "What was mined deeper stays.",
    "what-noun": "It compares them with what was stored.",
    "of-which": "A table of pairs, of which each has a score.",
    "so-many": "Read no further once so many records were accepted.",
    "stand-in": "The first is that of the newest version.",
    "old-words": "A corpus that is open read-only will do.",
    "else": "Assign records to a split; else they are not drawn.",
    "jargon": "Interrupted, it goes on where it was.",
    "negations": "Nothing that has no id is left out without a note.",
    "passives": "It is read, it is cut and it is stored.",
    "nested": "It says which of the rows that were read are those whose text is what we want.",
    "long": "word " * 26,
}


def test_the_gauge_of_prose_finds_what_it_names():
    gauge = runpy.run_path(str(ROOT / "docs" / "prose.py"))
    findings, clean = gauge["findings"], gauge["clean"]
    assert not [line for line in PLAIN.strip().splitlines() if findings(clean(line))]
    assert not [name for name, line in HARD.items() if name not in findings(clean(line))]
    assert {*HARD} == {"long", *gauge["RULES"]}
    text = clean("See e.g. `a.b`. It has 0.5 MB. Use v1.2 (or later). Done here now.")
    assert len(list(gauge["sentences"](text))) == 4


def test_the_gauge_of_prose_reads_pages_docstrings_messages_and_statements():
    gauge = runpy.run_path(str(ROOT / "docs" / "prose.py"))
    page = "# Title here\n\nA line\nof two.\n\n- An item.\n\n```sh\nno\n```\n| a | b |\n|---|---|\n"
    assert list(gauge["markdown"](page)) == ["A line of two.", "An item.", "a", "b"]
    text = "Return rows.\n\nArgs:\n    path: The file.\n        More.\n\nExample:\n    >>> no\n"
    assert list(gauge["docstring"](text)) == ["Return rows.", "The file. More."]
    tree = ast.parse("raise ValueError(f'no file {x}' + ' is here')\nnotes.append('a note')\n")
    assert list(gauge["messages"](tree)) == ["no file X is here", "a note"]
    statement = "-- name: rows\n-- Rows: one a\n-- file.\n-- Parameters: $a.\nSELECT 1\n"
    assert list(gauge["sql_comments"](statement)) == ["one a file."]


def test_the_gauge_of_prose_fails_above_a_limit(monkeypatch, tmp_path, capsys):
    (tmp_path / "page.md").write_text("A plain line. What was mined stays.\n", encoding="utf-8")
    main = runpy.run_path(str(ROOT / "docs" / "prose.py"))["main"]
    monkeypatch.setitem(main.__globals__, "ROOT", tmp_path)
    for most, code in ((50, 0), (49, 1)):
        monkeypatch.setattr(sys, "argv", ["prose.py", "--max-house", str(most)])
        assert main() == code
    assert "1 of 2 sentences are house, above 49 %" in capsys.readouterr().err
