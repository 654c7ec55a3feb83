"""Check the Parquet files whose texts stay in place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import shown
from duckplets.db import files
from duckplets.db.foreign import CHANGED
from duckplets.db.queries import bound, query
from duckplets.errors import ChangedFileError

if TYPE_CHECKING:
    import duckdb

    from duckplets.db.database import Database

_END = 8  # bytes at the end of a file: the footer's length and the magic
_MARK = b"PAR1"


@dataclass(frozen=True, slots=True)
class FileState:
    """Identity of a Parquet file."""

    size: int  # bytes
    modified: int  # ns since 1970
    footer: str  # SHA-256 of the footer


def state_of(file: str | Path) -> FileState:
    """Return the identity of a file, or raise the OSError of reading it."""
    with open(file, "rb") as opened:
        facts = os.fstat(opened.fileno())
        opened.seek(max(facts.st_size - _END, 0))
        end = opened.read(_END)
        length = int.from_bytes(end[:4], "little") if end.endswith(_MARK) else 0
        opened.seek(max(facts.st_size - _END - length, 0))
        footer = hashlib.sha256(opened.read(length + _END)).hexdigest()
    return FileState(facts.st_size, facts.st_mtime_ns, footer)


def folder_of(corpus: Path) -> str:
    """Return the folder that relative paths start from."""
    return os.path.join(os.path.realpath(corpus.parent), "")


def located(path: str, corpus: Path) -> str:
    """Return the path of a corpus's file as statements name it."""
    return path if os.path.isabs(path) else folder_of(corpus) + path


def change(path: str, was: FileState) -> str:
    """Return how a file has changed, in words; empty if it has not."""
    try:
        return "" if state_of(path) == was else "has changed"
    except FileNotFoundError:
        return "is not there any more"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _changes(rows: Iterable[tuple[Any, ...]], corpus: Path) -> Iterator[tuple[str, str]]:
    """Yield the path of every row of ``files``, and how the file has changed."""
    for path, size, modified, footer in rows:
        place = located(path, corpus)
        why = change(place, FileState(size, modified, footer))
        yield place, _told(place, why, corpus) if why else ""


def _told(path: str, why: str, corpus: Path) -> str:
    return (
        f"{shown(path)} {why}, and texts of {shown(corpus.name)} were left in it. Put it back as "
        f"it was, or read it anew: duckplets ingest {shown(corpus.name)} FILE … --in-place "
        f"--remap, as it was ingested. What was removed since is let go by: duckplets prepare "
        f"{shown(corpus.name)} --compact"
    )


def seal(connection: duckdb.DuckDBPyConnection, corpus: Path, allowed: Collection[str]) -> bool:
    """Let an instance read candidates and some files only; return whether it was sealed."""
    if connection.execute(query("db/external_files/is_sealed")).fetchall()[0][0]:
        return True
    folder = files.beside(corpus, files.CANDIDATES).absolute()
    files.refuse_links(folder)
    for name, paths in (("allow_folder", [f"{folder}/"]), ("allow", sorted(allowed))):
        if paths:
            statement = query(f"db/external_files/{name}")
            connection.execute(bound(statement, {"paths": paths}))
    connection.execute(query("db/sessions/seal"))
    return False


def readable(rows: Iterable[tuple[Any, ...]], corpus: Path) -> set[str]:
    """Return the files of rows that are unchanged, and note why statements may not read others."""
    paths = set()
    for place, message in _changes(rows, corpus):
        CHANGED.pop(place, None)
        if message:
            CHANGED[place] = message
        else:
            paths.add(place)
    return paths


def use_folder(connection: duckdb.DuckDBPyConnection, folder: str) -> None:
    """Resolve relative paths of files against a folder."""
    connection.execute(bound(query("db/external_files/folder"), {"folder": folder}))


def changed(database: Database) -> dict[str, str]:
    """Return the changed files with messages."""
    if not (rows := database.run("db/external_files/files")):
        return {}
    return {place: said for place, said in _changes(rows, Path(str(database.path))) if said}


def check(database: Database) -> None:
    """Raise ``ChangedFileError`` if a file whose texts stay in place has changed."""
    for message in changed(database).values():
        raise ChangedFileError(message)
