"""The rules of the house: rooms, statements, sizes, and a wheel that works away from here."""

import ast
import importlib
import re
import shutil
import sys
import tomllib
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from effort import thorough
from programs import ran, said
from sqlglot import exp, parse

import duckplets
from duckplets.db.queries import SQL, names, query

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "duckplets"
FILES = sorted(PACKAGE.rglob("*.py"))
STATEMENTS = names()


def each(values):
    """Make a check of one value a test of all of them, which names every one that fails."""

    def of_all(check):
        def test():
            failed = []
            for value in values:
                try:
                    check(value)
                except AssertionError as error:
                    failed.append(f"{value}: {error}")
            assert not failed, "\n".join(failed)

        return test

    return of_all


EVERY_FILE = each(FILES)
EVERY_STATEMENT = each(STATEMENTS)


def module_of(file):
    """Return a file's module within the package: ``order``, ``sources.rows``, ``__init__``."""
    parts = list(file.relative_to(PACKAGE).with_suffix("").parts)
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


@cache
def tree_of(file):
    return ast.parse(file.read_text(encoding="utf-8"))


# ---- rooms


def is_type_checking(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def nodes(tree, *, typed):
    """Yield every statement, with or without those that only a type checker sees."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.expr):
            continue
        if not typed and is_type_checking(child):
            for other in child.orelse:
                yield from nodes(other, typed=typed)
        else:
            yield from nodes(child, typed=typed)


@cache
def imports(file, *, typed=False):
    """Return the full names of the modules a file imports, anywhere in it."""
    found = set()
    for node in nodes(tree_of(file), typed=typed):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file.name}: imports are absolute"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in MODULES else str(node.module))
    return frozenset(found)


MODULES = {
    "duckplets" if module_of(file) == "__init__" else f"duckplets.{module_of(file)}": file
    for file in FILES
}


def needs(name, *, typed=False):
    """Return the modules of this package that one of them imports."""
    return {other for other in imports(MODULES[name], typed=typed) if other in MODULES}


# Floors from the ground up: a room imports from the floors below its own, and from no room beside
# it. ``doors`` stands for the modules that lie in no folder, what users meet; of these any room
# may import ``errors`` only.
FLOORS = [
    "base",
    "artifacts engine db text order",
    "conditions",
    "sources recipes",
    "ingest",
    "pools quality",
    "search",
    "mining serving",
    "vectors",
    "samples",
    "runs",
    "records export tokens",
    "corpus",
    "proof",
    "report adapters",
    "advise",
    "cli",
    "doors",
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms.split()}
LAZY = {
    ("duckplets.runs.sampler", "duckplets.adapters.huggingface"),  # ``Sampler.to_hf`` needs both
    ("duckplets.runs.sampler", "duckplets.proof.certificate"),  # ``Sampler.certificate``
    ("duckplets.corpus.corpus", "duckplets.adapters.evaluation"),  # ``Corpus.evaluator``
    ("duckplets.corpus.corpus", "duckplets.report"),  # ``Corpus.report`` shows all there is
    ("duckplets.corpus.corpus", "duckplets.advise"),  # ``Corpus.advise`` trains and judges
    ("duckplets.runs.forecast", "duckplets.report.plots"),  # ``Forecast.plot`` draws by these
    ("duckplets.cli.app", "duckplets"),  # the version
}


def room_of(name):
    """Return the folder of a module; ``doors`` stands for all that lie in none."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and (PACKAGE / parts[1]).is_dir() else "doors"


def is_below(name, other):
    """Whether a module may import another one."""
    room, below = room_of(name), room_of(other)
    return room == below or FLOOR_OF[below] < FLOOR_OF[room] or other == "duckplets.errors"


@each(MODULES)
def test_rooms_import_from_the_floors_below_them(name):
    wrong = {other for other in needs(name, typed=True) if not is_below(name, other)}
    assert not {(name, other) for other in wrong} - LAZY
    assert room_of(name) in FLOOR_OF


def test_no_two_classes_have_one_name():
    classes = [n.name for f in FILES for n in tree_of(f).body if isinstance(n, ast.ClassDef)]
    assert [name for name, times in Counter(classes).items() if times > 1] == []


# These work without a connection.
PURE = [
    *("duckplets.base", "duckplets.text", "duckplets.order"),
    *("duckplets.recipes.recipes", "duckplets.recipes.mined", "duckplets.recipes.files"),
    "duckplets.conditions",
    *("duckplets.pools.compile", "duckplets.mining.bm25"),
    *("duckplets.records.data_index", "duckplets.records.order"),
    "duckplets.search.analyzer_settings",
]


def reached(name):
    """Return a module with all that it imports, directly or not, when it is imported."""
    found, waiting = {name}, [name]
    while waiting:
        fresh = needs(waiting.pop()) - found - {"duckplets"}
        found |= fresh
        waiting += fresh
    return found


@each([n for n in MODULES if n in PURE or n.rpartition(".")[0] in PURE])
def test_pure_modules_reach_no_connection(name):
    assert "duckplets.db.database" not in reached(name)


def test_imports_go_round_nowhere():
    below = {name: needs(name) - {"duckplets"} for name in MODULES}
    while leaves := {name for name, other in below.items() if not other}:
        below = {name: other - leaves for name, other in below.items() if name not in leaves}
    assert not below, "modules that import each other, or are imported by such ones"


def test_torch_is_imported_in_its_own_package_only():
    def of(names, package):
        return {name for name in names if f"{name}.".startswith(f"{package}.")}

    room = "duckplets.adapters.torch"
    users = {n for n, file in MODULES.items() if any(of(imports(file), p) for p in ("torch", room))}
    assert users == of(MODULES, room) | {"duckplets.torch"}


def test_the_package_itself_is_imported_by_the_top_only():
    users = {name for name in MODULES if "duckplets" in needs(name)}
    tops = {"duckplets.testing", "duckplets.adapters.torch", "duckplets.cli"}
    assert all(any(f"{name}.".startswith(f"{top}.") for top in tops) for name in users)


@EVERY_FILE
def test_only_the_room_of_the_database_imports_duckdb(file):
    foreign = {name.split(".")[0] for name in imports(file)}
    assert "duckdb" not in foreign or module_of(file).startswith("db.")


# ---- statements


def header_of(statement):
    """Return the comment lines at the top, without their dashes."""
    lines = []
    for line in query(statement).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return lines


@cache
def trees(statement):
    return [tree for tree in parse(query(statement), dialect="duckdb") if tree is not None]


# sqlglot reads neither parameters of macros nor comments on them.
MACROS = {"pools/macros/create", "pools/macros/comment", "pools/macros/drop"}


@each([name for name in STATEMENTS if name not in MACROS])
def test_a_statement_parses_and_its_header_is_right(statement):
    assert trees(statement)
    assert not any(isinstance(tree, exp.Command) for tree in trees(statement)), "sqlglot gave up"
    header = header_of(statement)
    assert header
    assert not header[0].startswith(("Parameters:", "Rows:"))
    assert header[0][0].isupper() or header[0].startswith("`")
    assert " ".join(header).endswith(".")
    found = re.search(r"^Parameters:(.*?)(?=^Rows:|\Z)", "\n".join(header), re.M | re.DOTALL)
    used = {
        str(node.name)
        for tree in trees(statement)
        for node in tree.find_all(exp.Placeholder, exp.Parameter)
    }
    assert set(re.findall(r"\$(\w+)", found[1]) if found else ()) == used
    text = query(statement)
    assert text == text.rstrip() + "\n"
    assert not text.rstrip().endswith(";")
    assert not re.search(r"\t|[ \t]+$", text, re.MULTILINE)
    # The view joins the files that texts lie in, whether or not a text is read.
    bare = "".join(line for line in text.splitlines(True) if line[:2] != "--")
    if re.search(r"\b(FROM|JOIN) sections\b", bare):
        assert re.search(r"\btext\b", bare), "stored_sections has all but texts"
    # DuckDB evaluates what this macro repeats once, but within a CASE some fifteen times.
    cases = (case for tree in trees(statement) for case in tree.find_all(exp.Case))
    calls = (call.name for case in cases for call in case.find_all(exp.Anonymous))
    assert "normalised_hash" not in calls


# Where the split itself is meant, not what belongs to it: documents are of a split of their own.
EXACT_SPLITS = {
    "ingest/splits/counts", "ingest/splits/clear", "ingest/splits/assign", "mining/labels/counts",
    "ingest/splits/shared_anchors", "search/index/sections", "report/mined/outcomes",
    "ingest/collection/about", "ingest/collection/give_splits", "ingest/collection/move_queries",
    "ingest/collection/splits_of", "pools/macros/newest",
}  # fmt: skip
BARE_SPLIT = re.compile(r"\bsplit *(=|<>|IN\b)|list_contains\([^()]*\bsplit\)")


@EVERY_STATEMENT
def test_splits_are_compared_where_documents_belong_to_every_one(statement):
    if statement not in EXACT_SPLITS:
        text = "".join(line for line in query(statement).splitlines(True) if line[:2] != "--")
        assert not BARE_SPLIT.search(text)


@cache
def constants(file):
    """Return the string constants of a file that are not documentation."""
    tree = list(ast.walk(tree_of(file)))
    documentation = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
    return [
        (node, node.value)
        for node in tree
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
    ]


@cache
def named_statements():
    """Return what Python names: ``"pools/texts"``, or ``f"pools/lists/{part}"`` with ``"same"``."""
    found = set()
    for file in FILES:
        words = {text for _, text in constants(file)}
        found |= words | {word + other for word in words if word.endswith("/") for other in words}
    return frozenset(found)


def test_statements_are_named_and_those_that_are_named_exist():
    assert set(STATEMENTS) <= named_statements()
    folders = "|".join(sorted({name.split("/")[0] for name in STATEMENTS}))
    for file in FILES:
        for node, text in constants(file):
            if re.fullmatch(rf"(?:{folders})/[a-z_/]*[a-z_]", text):
                assert text in STATEMENTS, f"{file.name}:{node.lineno}"


SQL_TEXT = re.compile(
    r"\s*(SELECT|INSERT|CREATE|UPDATE|DELETE|WITH|FROM|COPY|ALTER|DROP|ATTACH|DETACH|LOAD|INSTALL"
    r"|PRAGMA|SET|BEGIN|COMMIT|ROLLBACK|EXPLAIN|DESCRIBE|JOIN|WHERE|ORDER BY|GROUP BY)\s"
)


@EVERY_FILE
def test_python_holds_no_sql(file):
    found = [(node.lineno, text) for node, text in constants(file) if SQL_TEXT.match(text)]
    if module_of(file) == "db.database":
        found = [
            (line, text) for line, text in found if not re.match(r"SET \w+ = |BEGIN TRAN", text)
        ]
    assert not found


# ---- importing

MOST_NAMES, MOST_MEMBERS = 60, 42  # advise came last
HEAVY = ["sqlglot", "typer", "rich", "tokenizers", "torch", "datasets", "huggingface_hub", "click"]


def test_import_leaves_heavy_modules_alone():
    code = f"import sys, duckplets; print([m for m in {HEAVY} if m in sys.modules])"
    assert said("-c", code).strip() == "[]"


def test_public_names_are_sorted_resolve_and_are_documented():
    names = duckplets.__all__
    assert names == sorted(set(names))
    for name in names:
        value = getattr(duckplets, name)
        if not name.startswith("__"):
            assert (value.__doc__ or "").strip(), name


def test_a_type_checker_sees_the_public_names_where_they_are_found():
    (block,) = [node for node in tree_of(PACKAGE / "__init__.py").body if is_type_checking(node)]
    seen = [(alias.name, alias.asname, node.module) for node in block.body for alias in node.names]
    homes = {name: f"duckplets.{module}" for name, module in duckplets._HOME_OF.items()}
    homes |= dict.fromkeys(duckplets._MODULES, "duckplets")
    assert sorted(seen) == [(name, name, homes[name]) for name in sorted(homes)]
    assert len(duckplets.__all__) <= MOST_NAMES
    assert len([name for name in dir(duckplets.Corpus) if name[0] != "_"]) <= MOST_MEMBERS


OLD_NAMES = [
    (lambda _: duckplets.CsvSource, AttributeError, "dp.CsvSource is now dp.Source"),
    (lambda _: duckplets.Csv, AttributeError, "has no attribute 'Csv'"),
    (lambda c: c.judge, AttributeError, "Corpus.judge is now corpus.quality(apply=…)"),
    (lambda c: c.remove_recipe, AttributeError, "is now corpus.remove(recipe=…)"),
    (lambda c: c.judged, AttributeError, "no attribute 'judged'"),
    (lambda c: c.mine(scorer="bm25"), TypeError, "Corpus.mine(scorer=) is now by="),
    (lambda c: c.ingest([], jsonl="x"), TypeError, "options=dp.IngestOptions(jsonl=…)"),
]


def test_an_old_name_is_refused_with_the_new_one(tmp_path):
    with duckplets.Corpus(tmp_path / "c.duckdb") as corpus:
        for call, error, said in OLD_NAMES:
            with pytest.raises(error) as caught:
                call(corpus)
            assert said in str(caught.value)
    lines = (PACKAGE / "base" / "old_names.tsv").read_text().splitlines()
    olds = [line.split("\t")[0] for line in lines]
    assert all(line.count("\t") == 1 for line in lines)
    assert olds == sorted(set(olds))
    for old in olds:
        kind, _, name = old.partition(".")
        assert kind != "dp" or name not in duckplets.__all__
        assert kind != "Corpus" or "(" in name or name not in dir(duckplets.Corpus), old


PUBLIC = ("index", "metrics", "plugins", "reports", "sources")


def test_names_of_public_modules_resolve_and_are_documented():
    for module in PUBLIC:
        of = importlib.import_module(f"duckplets.{module}")
        for name in of.__all__:
            assert (getattr(of, name).__doc__ or "").strip() or name == "ROW_SCHEMA", name


def test_errors_are_public():
    errors = importlib.import_module("duckplets.errors")
    classes = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    for name in classes:
        assert issubclass(getattr(errors, name), errors.DuckpletsError)
        assert name in (errors.__doc__ or ""), f"{name} is not in the tree at the top of errors.py"


# ---- sizes and names


@EVERY_FILE
def test_a_file_is_short_documented_and_named_for_what_is_in_it(file):
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") <= 600
    assert not text or ast.get_docstring(tree_of(file))
    assert not {"utils", "util", "helpers", "common", "manager", "misc"} & {
        word for part in file.relative_to(PACKAGE).with_suffix("").parts for word in part.split("_")
    }


# ---- the wheel


TRY = """
import sys
from pathlib import Path

import duckplets
from duckplets.db import migrate
from duckplets.db.database import Database
from duckplets.db.queries import query

assert Path(duckplets.__file__).is_relative_to(sys.argv[1]), duckplets.__file__
assert "schema_migrations" in query("db/migrate/applied")
for kind in ("corpus", "state"):
    migrate.create(Path(kind), kind)
    migrate.check(Database.open(Path(kind), read_only=True), kind)
print("works")
"""


@thorough
@pytest.mark.network
def test_a_wheel_holds_everything_and_works_away_from_the_checkout(tmp_path):
    folder = tmp_path / "wheel"
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "-w", str(folder)]
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_RETRIES": "1", "PIP_TIMEOUT": "15"}
    run = ran(*command, env=quiet)
    told = run.stdout + run.stderr
    for reason in ("No module named pip", "No matching distribution", "ConnectionError"):
        if run.returncode and reason in told:
            pytest.skip(f"no wheel can be built here: {reason}")
    assert run.returncode == 0, told
    (wheel,) = folder.glob("*.whl")
    home = tmp_path / "home"
    said("-m", "venv", "--without-pip", home)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        archive.extractall(site)
    expected = {f"duckplets/{file.relative_to(PACKAGE).as_posix()}" for file in FILES}
    expected |= {f"duckplets/sql/{file.relative_to(SQL).as_posix()}" for file in SQL.rglob("*.sql")}
    expected |= {
        f"duckplets/{file.relative_to(ROOT).as_posix()}"
        for file in (ROOT / "migrations").rglob("*.sql")
    }
    page = ("page.css", "page.html.jinja", "page.js", "plot.css", "plot.svg.jinja")
    expected |= {f"duckplets/report/{name}" for name in page}
    data = ("py.typed", "base/old_names.tsv", "quality/medical.toml", "conditions/allowed.toml")
    assert names == expected | {f"duckplets/{name}" for name in data}
    # What it depends on is taken from here: installing that anew would need the network.
    import numpy

    (site / "dependencies.pth").write_text(f"{Path(numpy.__file__).parent.parent}\n")
    run = ran(home / "bin" / "python", "-c", TRY, home, cwd=tmp_path, env={"PYTHONPATH": ""})
    assert (run.stdout.strip(), run.returncode) == ("works", 0), run.stderr


def test_what_goes_into_the_wheel_works_away_from_the_checkout(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    places = {name: name for name in wheel["packages"]} | wheel["force-include"]
    for source, place in places.items():
        shutil.copytree(ROOT / source, tmp_path / place, ignore=shutil.ignore_patterns("*.pyc"))
    run = ran(sys.executable, "-c", TRY, tmp_path, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert (run.stdout.strip(), run.returncode) == ("works", 0), run.stderr


# ---- the Dockerfile says what it should; nothing here can build it


def dockerfile():
    """Return the dockerfile lines_of the Dockerfile, lines that go on joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.split("\n"))]


def lines_of(name):
    return [rest for instruction, rest in dockerfile() if instruction == name]


def test_the_command_is_run_by_somebody_who_is_not_root():
    names = [name for name, _ in dockerfile()]
    assert lines_of("ENTRYPOINT") == ['["duckplets"]']
    (user,) = lines_of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "FROM")
    assert f"--uid {user.partition(':')[0]}" in lines_of("RUN")[-1]


def test_what_the_build_needs_is_copied_and_no_more_is_sent():
    taken = [rest.split()[:-1] for rest in lines_of("COPY") if not rest.startswith("--from=")]
    copied = {source for sources in taken for source in sources}
    assert all((ROOT / source).exists() for source in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], "pyproject.toml"}
    needed |= {project["project"]["readme"], *project["project"]["license-files"]}
    assert needed <= copied
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
