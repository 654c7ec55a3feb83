"""Write the map of folders in ``docs/design.md`` from the first lines of their docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "design.md"

# In the order to read them in. A folder's line is the first of its docstring.
# Modules above all rooms.
USERS_MEET = "testing torch mcp index metrics plugins reports errors __init__ __main__"
ROOMS = (
    "corpus sources ingest text quality conditions recipes pools order samples runs serving search "
    "mining vectors records export tokens proof report adapters advise cli engine artifacts db "
    "base"
)
FOLDERS = {
    "sql": "Statements, in folders of the same names; a header names parameters and rows.",
    "migrations": "The schema of all our files, append-only.",
    "tests": "In folders of the same names; `golden/` has results that must not change.",
    "examples": "Scripts to start from, run by the tests.",
    "benchmarks": "Speed and memory, compared with peers; printed as JSON.",
    "docs": "Pages; `make docs` builds them and the reference into `site/`.",
    "skills": "A guide for programs that write scripts.",
}


def file_map() -> str:
    """Return one line for each module that users meet, and one for each folder."""
    package = ROOT / "duckplets"
    _check_names(USERS_MEET, {file.stem for file in package.glob("*.py")}, "USERS_MEET")
    rooms = {file.parent.name for file in package.glob("*/__init__.py")}
    _check_names(ROOMS, rooms, "ROOMS")
    lines = ["```", "duckplets/"]
    for name in USERS_MEET.split():
        lines.append(f"  {name + '.py':<22} {_first_line(package / f'{name}.py')}")
    for name in ROOMS.split():
        lines.append(f"  {name + '/':<22} {_first_line(package / name / '__init__.py')}")
    lines += [f"{name + '/':<24} {what.replace('`', '')}" for name, what in FOLDERS.items()]
    return "\n".join([*lines, "```"])


def _check_names(listed: str, found: set[str], where: str) -> None:
    if wrong := sorted(found.symmetric_difference(listed.split())):
        raise SystemExit(f"docs/file_map.py: {where} is wrong about {', '.join(wrong)}")


def _first_line(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].replace("``", "")


def page() -> str:
    """Return the page with the map as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- file map: make docs -->\n", "<!-- end of file map -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{file_map()}\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
