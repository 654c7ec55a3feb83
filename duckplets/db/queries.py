"""Finds and reads the statements in ``sql/`` and the migrations.

A statement's name is its path without the suffix: ``pools/triplets`` is ``sql/pools/triplets.sql``.
In a wheel both folders lie inside the package, in a checkout beside it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_HOME = _PACKAGE if (_PACKAGE / "sql").is_dir() else _PACKAGE.parent
SQL = _HOME / "sql"
MIGRATIONS = _HOME / "migrations"


@cache
def query(name: str) -> str:
    """Return the text of the statement of that name."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


@cache
def migrations(kind: str) -> tuple[tuple[int, str, str], ...]:
    """Return ``(number, name, text)`` of every migration of a kind of file, in order."""
    files = sorted((MIGRATIONS / kind).glob("[0-9]*.sql"))
    return tuple((int(f.stem[:4]), f.stem, f.read_text(encoding="utf-8")) for f in files)
