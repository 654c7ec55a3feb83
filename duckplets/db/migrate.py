"""Migrate corpus and state files to the newest schema: ``migrations/KIND/NNNN_name.sql``."""

# A new file gets a temporary name and is renamed, so a kill leaves none or a complete one.

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from duckplets.base.atomic import aside_of, remove
from duckplets.base.sanitize import shown
from duckplets.db import catalog, files
from duckplets.db.catalog import Kind
from duckplets.db.database import Database
from duckplets.db.queries import migrations
from duckplets.errors import MigrationError, QueryError


def create(path: Path, kind: Kind) -> None:
    """Create a file of the newest schema, completely or not at all, if there is none."""
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
            # Unlike a rename, a link never replaces a file another process has
            # created meanwhile.
            os.link(aside, path)
        except FileExistsError:
            pass
        except OSError:  # the file system has no hard links
            os.replace(aside, path)
    finally:
        for left in (aside, files.wal_of(aside)):
            remove(left)


def rewrite(database: Database, kind: Kind, fill: Callable[[Database], None]) -> None:
    """Replace an open file by a new one, completely or not at all."""
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
    """Open the temporary file of a path; errors name that path."""
    try:
        return Database.open(aside)
    except MigrationError as error:
        raise MigrationError(str(error).replace(shown(aside), name)) from error


def migrate(database: Database, kind: Kind) -> list[str]:
    """Apply the missing migrations and return their names."""
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
                    {
                        "number": number,
                        "name": name,
                        "kind": kind,
                        "checksum": catalog.checksum_of(text),
                    },
                )
    return [name for _, name, _ in missing]


def check(database: Database, kind: Kind) -> None:
    """Refuse a file that is not at the newest schema."""
    done = _applied(database, kind)
    missing = [name for number, name, _ in migrations(kind) if number not in done]
    if missing:
        raise MigrationError(
            f"{database.path} has an older schema (missing {', '.join(missing)}) and is open "
            f"read-only; bring it up to date with: duckplets doctor --migrate {database.path}"
        )


def _applied(database: Database, kind: Kind) -> set[int]:
    try:
        rows = database.run("db/migrate/applied")
    except QueryError:  # a new file: opening refuses those of other tools
        return set()
    found, done = catalog.applied(rows, str(database.path))
    if done and found != kind:
        raise MigrationError(f"{database.path} is a {found} file, not a {kind} file")
    return done


def unwritable(path: Path) -> str | None:
    """Return why a file and its folders could not be made or written, without trying."""
    folder = next((folder for folder in path.parents if os.path.lexists(folder)), path.parent)
    if path.is_dir():
        return "it is a folder"
    if not folder.is_dir():
        return f"{folder} is no folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"nothing may be written in {folder}"
    return "it may not be written" if path.exists() and not os.access(path, os.W_OK) else None
