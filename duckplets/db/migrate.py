"""Bring corpus and state files to the newest schema, by ``migrations/KIND/NNNN_name.sql``.

Each migration runs in one transaction together with its record and checksum, so a file is
always at a whole version. A file is created aside and renamed into place, so a kill leaves
either no file or a complete one.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

from duckplets.db.database import Database
from duckplets.db.queries import migrations
from duckplets.errors import MigrationError, QueryError

Kind = Literal["corpus", "state"]


def create(path: Path, kind: Kind) -> None:
    """Create a file of the newest schema at ``path``, whole or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        database = Database.open(aside)
        try:
            migrate(database, kind)
        finally:
            database.close()
        try:
            # A link, unlike a rename, never replaces what another process has made meanwhile.
            os.link(aside, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
        aside.with_name(aside.name + ".wal").unlink(missing_ok=True)


def migrate(database: Database, kind: Kind) -> list[str]:
    """Apply what is missing, one transaction each, and return the names.

    Raises:
        MigrationError: The file is newer than this package, another tool's, or its applied
            migrations are not the ones this package knows.
    """
    done = _applied(database, kind)
    names = []
    for number, name, text in migrations(kind):
        if number in done:
            continue
        with database.transaction():
            database.run("db/migrate/create_table")
            database.rows(text)
            database.run(
                "db/migrate/record",
                {"number": number, "name": name, "kind": kind, "checksum": _checksum(text)},
            )
        names.append(name)
    return names


def check(database: Database, kind: Kind) -> None:
    """Refuse a file that is not at the newest schema.

    Raises:
        MigrationError: With the command that mends it.
    """
    done = _applied(database, kind)
    missing = [name for number, name, _ in migrations(kind) if number not in done]
    if missing:
        raise MigrationError(
            f"{database.path} has an older schema (missing {', '.join(missing)}) and is open "
            f"read-only; bring it up to date with: duckplets migrate {database.path}"
        )


def _applied(database: Database, kind: Kind) -> set[int]:
    tables = {name for (name,) in database.run("db/migrate/tables")}
    if not tables:
        return set()
    if "schema_migrations" not in tables:
        raise MigrationError(
            f"{database.path} is a DuckDB file of something else: it has tables "
            f"({', '.join(sorted(tables)[:5])}) but none of duckplets; give another path"
        )
    known = {number: (name, text) for number, name, text in migrations(kind)}
    done = set()
    try:
        applied = database.run("db/migrate/applied")
    except QueryError as error:
        raise MigrationError(f"{database.path} is a DuckDB file of another tool") from error
    for number, name, found_kind, checksum in applied:
        if found_kind != kind:
            raise MigrationError(f"{database.path} is a {found_kind} file, not a {kind} file")
        if number not in known:
            raise MigrationError(
                f"{database.path} has a newer schema ({name}) than this duckplets knows; "
                f"upgrade with: pip install -U duckplets"
            )
        if checksum != _checksum(known[number][1]):
            raise MigrationError(
                f"{database.path}: migration {name} was applied with another text; the file was "
                f"made by a development version and cannot be upgraded"
            )
        done.add(number)
    return done


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
