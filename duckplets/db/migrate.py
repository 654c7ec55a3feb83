"""Bring corpus and state files to the newest schema, by ``migrations/KIND/NNNN_name.sql``.

Each migration runs in one transaction together with its record and checksum, so a file is
always at a whole version. A file is created aside, by all of them in one transaction, which takes
half the time, and renamed into place, so a kill leaves either no file or a complete one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from duckplets.base.atomic import aside_of, remove
from duckplets.base.sanitize import listed, shown
from duckplets.db import files
from duckplets.db.database import Database
from duckplets.db.queries import migrations
from duckplets.errors import MigrationError, QueryError

Kind = Literal["corpus", "state", "vectors"]

_MADE_AGAIN: dict[Kind, str] = {
    "corpus": "make it again: duckplets ingest",
    "state": "let runs begin anew",
    "vectors": "make it again: duckplets embed",
}


def create(path: Path, kind: Kind) -> None:
    """Create a file of the newest schema at ``path``, whole or not at all, if there is none.

    Raises:
        MigrationError: It cannot be made there, or what another file had committed lies there.
    """
    name, path = shown(path), files.real_path(path)
    if os.path.lexists(path):
        return
    files.check_room(path, name)
    aside = aside_of(path)
    try:
        database = _opened_aside(aside, name)
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
        for left in (aside, files.wal_of(aside)):
            remove(left)


def rewrite(database: Database, kind: Kind, fill: Callable[[Database], None]) -> None:
    """Put a new file in the place of an open one, whole or not at all.

    Args:
        database: The open file; it goes on with the new one.
        kind: Of both.
        fill: Fills the new one, which has the newest schema.

    Raises:
        CorpusLockedError: Something else of this process has it open.
    """
    name, path = shown(database.path), files.real_path(Path(str(database.path)))
    aside = aside_of(path)
    try:
        new = _opened_aside(aside, name)
        try:
            migrate(new, kind)
            fill(new)
        finally:
            new.close()
        shutil.copymode(path, aside)
        database.replace_file(aside)
    finally:
        for left in (aside, files.wal_of(aside), files.spill_folder(aside)):
            remove(left)


def _opened_aside(aside: Path, name: str) -> Database:
    """Open what will have the name, and say that where it cannot be."""
    try:
        return Database.open(aside)
    except MigrationError as error:
        raise MigrationError(str(error).replace(shown(aside), name)) from error


def migrate(database: Database, kind: Kind) -> list[str]:
    """Apply what is missing, to a new file at once, else one after the other; return the names.

    Raises:
        MigrationError: The file is newer than this package, another tool's, or its applied
            migrations are not the ones this package knows.
    """
    done = _applied(database, kind)
    missing = [migration for migration in migrations(kind) if migration[0] not in done]
    for together in [[each] for each in missing] if done else [missing]:
        with database.transaction():
            database.run("db/migrate/create_table")
            database.run("db/sessions/names")
            for number, name, text in together:
                database.rows(text)
                database.run(
                    "db/migrate/record",
                    {"number": number, "name": name, "kind": kind, "checksum": _checksum(text)},
                )
    return [name for _, name, _ in missing]


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
    try:
        applied = database.run("db/migrate/applied")
    except QueryError as error:
        _refuse_foreign(database, kind, error)
        return set()
    known = {number: (name, text) for number, name, text in migrations(kind)}
    done = set()
    for number, name, found_kind, checksum in applied:
        if found_kind != kind:
            raise MigrationError(f"{database.path} is a {found_kind} file, not a {kind} file")
        if number not in known:
            raise MigrationError(
                f"{database.path} has a newer schema ({name}) than this duckplets knows; "
                f"upgrade with: pip install -U duckplets"
            )
        if checksum != _checksum(known[number][1]):
            raise _of_earlier(database, kind)
        done.add(number)
    return done


def _refuse_foreign(database: Database, kind: Kind, error: QueryError) -> None:
    """Refuse a file of something else: one without our migrations that is not empty."""
    if database.run("db/migrate/of_earlier") == [(True,)]:
        raise _of_earlier(database, kind) from error
    tables = {name for (name,) in database.run("db/migrate/tables")}
    if "schema_migrations" in tables:
        raise MigrationError(f"{database.path} is a DuckDB file of another tool") from error
    if tables:
        raise MigrationError(
            f"{database.path} is a DuckDB file of something else: it has tables "
            f"({listed(sorted(tables)[:5])}) but none of duckplets; give another path"
        )


def _of_earlier(database: Database, kind: Kind) -> MigrationError:
    return MigrationError(
        f"{database.path} was made by an earlier duckplets, before 0.1, whose files are not read; "
        f"move it away and {_MADE_AGAIN[kind]}"
    )


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def unwritable(path: Path) -> str | None:
    """Return why a file could not be written or made at a path; it is not tried."""
    folder = path.parent
    if path.is_dir():
        return "it is a folder"
    if not folder.is_dir():
        return f"its folder {folder} does not exist; make it first"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"nothing may be written in {folder}"
    return "it may not be written" if path.exists() and not os.access(path, os.W_OK) else None
