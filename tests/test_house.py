"""The rules of the house: layers, statements, sizes, and a wheel that works away from here."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

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


def each(values: Iterable[Any]) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Make a check of one value a test of all of them, which names every one that fails."""

    def of_all(check: Callable[[Any], None]) -> Callable[[], None]:
        def test() -> None:
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


def module_of(file: Path) -> str:
    """Return a file's module within the package: ``order``, ``sources.rows``, ``__init__``."""
    parts = list(file.relative_to(PACKAGE).with_suffix("").parts)
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


# ---- layers


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement but those that only a type checker sees."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.expr):
            continue
        if is_type_checking(child):
            for other in child.orelse:  # type: ignore[attr-defined]
                yield from nodes(other)
        else:
            yield from nodes(child)


@cache
def imports(file: Path) -> frozenset[str]:
    """Return the full names of the modules a file imports, anywhere in it."""
    found = set()
    for node in nodes(tree_of(file)):
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


def needs(name: str) -> set[str]:
    """Return the modules of this package that one of them imports."""
    return {other for other in imports(MODULES[name]) if other in MODULES}


# Which room may import which is in test_rooms.py. These are more: they work without a connection.
PURE = [
    *("duckplets.base", "duckplets.text", "duckplets.order"),
    *("duckplets.recipes.recipes", "duckplets.recipes.mined", "duckplets.recipes.files"),
    *("duckplets.recipes.conditions", "duckplets.recipes.condition_rules"),
    *("duckplets.pools.compile", "duckplets.mining.bm25"),
    *("duckplets.records.data_index", "duckplets.records.order"),
    "duckplets.search.analyzer_settings",
]


def reached(name: str) -> set[str]:
    """Return a module with all that it imports, directly or not, when it is imported."""
    found, waiting = {name}, [name]
    while waiting:
        fresh = needs(waiting.pop()) - found - {"duckplets"}
        found |= fresh
        waiting += fresh
    return found


@each([n for n in MODULES if n in PURE or n.rpartition(".")[0] in PURE])
def test_pure_modules_reach_no_connection(name: str) -> None:
    assert "duckplets.db.database" not in reached(name)


def test_imports_go_round_nowhere() -> None:
    below = {name: needs(name) - {"duckplets"} for name in MODULES}
    while leaves := {name for name, other in below.items() if not other}:
        below = {name: other - leaves for name, other in below.items() if name not in leaves}
    assert not below, "modules that import each other, or are imported by such ones"


def test_torch_is_imported_in_its_own_package_only() -> None:
    def of(names: Iterable[str], package: str) -> set[str]:
        return {name for name in names if f"{name}.".startswith(f"{package}.")}

    room = "duckplets.adapters.torch"
    users = {n for n, file in MODULES.items() if any(of(imports(file), p) for p in ("torch", room))}
    assert users == of(MODULES, room) | {"duckplets.torch"}


def test_the_package_itself_is_imported_by_the_top_only() -> None:
    users = {name for name in MODULES if "duckplets" in needs(name)}
    tops = {"duckplets.testing", "duckplets.adapters.torch", "duckplets.cli"}
    assert all(any(f"{name}.".startswith(f"{top}.") for top in tops) for name in users)


@EVERY_FILE
def test_only_the_room_of_the_database_imports_duckdb(file: Path) -> None:
    foreign = {name.split(".")[0] for name in imports(file)}
    assert "duckdb" not in foreign or module_of(file).startswith("db.")


# ---- statements


def header_of(statement: str) -> list[str]:
    """Return the comment lines at the top, without their dashes."""
    lines = []
    for line in query(statement).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return lines


@cache
def trees(statement: str) -> list[exp.Expr]:
    return [tree for tree in parse(query(statement), dialect="duckdb") if tree is not None]


@EVERY_STATEMENT
def test_a_statement_parses_and_its_header_is_right(statement: str) -> None:
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


@cache
def constants(file: Path) -> list[tuple[ast.Constant, str]]:
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
def named_statements() -> frozenset[str]:
    """Return what Python names: ``"pools/texts"``, or ``f"pools/lists/{part}"`` with ``"same"``."""
    found = set()
    for file in FILES:
        words = {text for _, text in constants(file)}
        found |= words | {word + other for word in words if word.endswith("/") for other in words}
    return frozenset(found)


@EVERY_STATEMENT
def test_statements_are_used(statement: str) -> None:
    assert statement in named_statements()


def test_named_statements_exist() -> None:
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
def test_python_holds_no_sql(file: Path) -> None:
    found = [(node.lineno, text) for node, text in constants(file) if SQL_TEXT.match(text)]
    if module_of(file) == "db.database":
        found = [
            (line, text) for line, text in found if not re.match(r"SET \w+ = |BEGIN TRAN", text)
        ]
    assert not found


# ---- importing

HEAVY = ["sqlglot", "typer", "rich", "tokenizers", "torch", "datasets", "huggingface_hub", "click"]


def test_import_leaves_heavy_modules_alone() -> None:
    code = f"import sys, duckplets; print([m for m in {HEAVY} if m in sys.modules])"
    assert said("-c", code).strip() == "[]"


def test_public_names_are_sorted_resolve_and_are_documented() -> None:
    names = duckplets.__all__
    assert names == sorted(set(names))
    for name in names:
        value = getattr(duckplets, name)
        if not name.startswith("__"):
            assert (value.__doc__ or "").strip(), name


def test_a_type_checker_sees_the_public_names_where_they_are_found() -> None:
    (block,) = [node for node in tree_of(PACKAGE / "__init__.py").body if is_type_checking(node)]
    seen = [
        (alias.name, alias.asname, node.module)
        for node in block.body  # type: ignore[attr-defined]
        for alias in node.names
    ]
    homes = duckplets._HOME_OF
    assert sorted(seen) == [(name, name, f"duckplets.{homes[name]}") for name in sorted(homes)]
    assert sum(len(names.split()) for names in duckplets._HOMES.values()) == len(homes)


def test_errors_are_public() -> None:
    errors = importlib.import_module("duckplets.errors")
    classes = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert classes <= set(duckplets.__all__)
    for name in classes:
        assert issubclass(getattr(errors, name), errors.DuckpletsError)
        assert name in (errors.__doc__ or ""), f"{name} is not in the tree at the top of errors.py"


# ---- sizes and names


@EVERY_FILE
def test_a_file_is_short_documented_and_named_for_what_is_in_it(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") <= 600
    assert not text or ast.get_docstring(tree_of(file))
    assert not {"utils", "util", "helpers", "common", "manager", "misc"} & {
        word for part in file.relative_to(PACKAGE).with_suffix("").parts for word in part.split("_")
    }


# ---- the wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as a user would; skip where the build backend cannot be had."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "-w", str(folder)]
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_RETRIES": "1", "PIP_TIMEOUT": "15"}
    run = ran(*command, env=quiet)
    told = run.stdout + run.stderr
    for reason in ("No module named pip", "No matching distribution", "ConnectionError"):
        if run.returncode and reason in told:
            pytest.skip(f"no wheel can be built here: {reason}")
    assert run.returncode == 0, told
    (built,) = folder.glob("*.whl")
    return built


@thorough
@pytest.mark.network
def test_a_wheel_holds_everything_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {f"duckplets/{file.relative_to(PACKAGE).as_posix()}" for file in FILES}
    expected |= {f"duckplets/sql/{file.relative_to(SQL).as_posix()}" for file in SQL.rglob("*.sql")}
    expected |= {
        f"duckplets/{file.relative_to(ROOT).as_posix()}"
        for file in (ROOT / "migrations").rglob("*.sql")
    }
    page = ("page.css", "page.html.jinja", "page.js", "plot.css", "plot.svg.jinja")
    expected |= {f"duckplets/report/{name}" for name in page}
    data = ("py.typed", "quality/medical.toml", "recipes/condition_rules.toml")
    assert names == expected | {f"duckplets/{name}" for name in data}


TRY = """
import sys
from pathlib import Path

import duckplets
from duckplets.db import migrate
from duckplets.db.database import Database
from duckplets.db.queries import query

assert Path(duckplets.__file__).is_relative_to(sys.prefix), duckplets.__file__
assert "duckdb_tables" in query("db/migrate/tables")
for kind in ("corpus", "state"):
    migrate.create(Path(kind), kind)
    migrate.check(Database.open(Path(kind), read_only=True), kind)
print("works")
"""


@pytest.mark.network
def test_a_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    said("-m", "venv", "--without-pip", home)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # What it depends on is taken from here: installing that anew would need the network.
    import numpy

    (site / "dependencies.pth").write_text(f"{Path(numpy.__file__).parent.parent}\n")
    run = ran(home / "bin" / "python", "-c", TRY, cwd=tmp_path, env={"PYTHONPATH": ""})
    assert (run.stdout.strip(), run.returncode) == ("works", 0), run.stderr
