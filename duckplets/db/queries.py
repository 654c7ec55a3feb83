"""Load statements from ``sql/`` and migrations by name."""

# ``ingest/splits/assign`` is what follows ``-- name: assign`` in ``sql/ingest/splits.sql``.

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_HOME = _PACKAGE if (_PACKAGE / "sql").is_dir() else _PACKAGE.parent
SQL = _HOME / "sql"
MIGRATIONS = _HOME / "migrations"

Value = int | str | Sequence[str]

QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
"""A text or a name in quotes."""
_TOKEN = re.compile(rf"{QUOTED}|--.*|\$(\w+)")
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def query(name: str) -> str:
    """Return the text of a named statement."""
    file = SQL / f"{name}.sql"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    return statements_of(file.parent.with_suffix(".sql"))[file.stem]


@cache
def statements_of(file: Path) -> dict[str, str]:
    """Return the statements of a file by name."""
    _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
    return {name: f"{text.strip()}\n" for name, text in zip(parts[::2], parts[1::2], strict=True)}


@cache
def names() -> tuple[str, ...]:
    """Return the names of all statements."""
    found = []
    for file in SQL.rglob("*.sql"):
        name = file.relative_to(SQL).with_suffix("").as_posix()
        several = statements_of(file)
        found += [f"{name}/{part}" for part in several] if several else [name]
    return tuple(sorted(found))


@cache
def migrations(kind: str) -> tuple[tuple[int, str, str], ...]:
    """Return ``(number, name, text)`` of every migration of a kind, in order."""
    files = sorted((MIGRATIONS / kind).glob("[0-9]*.sql"))
    return tuple((int(f.stem[:4]), f.stem, f.read_text(encoding="utf-8")) for f in files)


def bound(text: str, values: Mapping[str, Value]) -> str:
    """Return a statement with the values of its parameters written in."""
    # DuckDB imports pandas, where installed, for the first statement with a parameter.
    return with_parameters(text, {name: literal(value) for name, value in values.items()})


def with_parameters(text: str, written: Mapping[str, str]) -> str:
    """Return a statement with SQL in the places of its parameters."""
    return _TOKEN.sub(lambda found: written.get(found[1], found[0]), text)


def identifier(*parts: str) -> str:
    """Return a name as SQL: its parts quoted, with dots between."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def literal(value: Value) -> str:
    """Return a value as SQL."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"[{', '.join(map(literal, value))}]"
