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

OWN = "*.texts/"
"""What a path begins with that is in the corpus's folder of texts, whatever its name."""
ANY_TIME = 0
"""In place of a time: a file of our own, which may be copied."""
INSIDE = 64_000_000
"""Bytes of the texts of an ingest that lie in the corpus file, whatever comes after them."""

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


def texts_of(corpus: Path) -> str:
    """Return the folder of a corpus's own texts, as statements name it."""
    return os.path.join(folder_of(corpus), files.next_to(corpus, files.TEXTS).name, "")


def located(path: str, corpus: Path) -> str:
    """Return the path of a corpus's file as statements name it."""
    if path.startswith(OWN):
        return texts_of(corpus) + path.removeprefix(OWN)
    return path if os.path.isabs(path) else folder_of(corpus) + path


def change(path: str, was: FileState) -> str:
    """Return how a file has changed, in words; empty if it has not."""
    try:
        now = state_of(path)
        is_same = (now.size, now.footer) == (was.size, was.footer)
        return "" if is_same and was.modified in (ANY_TIME, now.modified) else "has changed"
    except FileNotFoundError:
        return "is not there any more"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _changes(rows: Iterable[tuple[Any, ...]], corpus: Path) -> Iterator[tuple[str, str]]:
    """Yield the path of every row of ``files``, and how the file has changed."""
    for path, size, modified, footer in rows:
        place = located(path, corpus)
        why = change(place, FileState(size, modified, footer))
        message = _own_message if modified == ANY_TIME else _message
        yield place, message(place, why, corpus) if why else ""


def _own_message(path: str, why: str, corpus: Path) -> str:
    return (
        f"{shown(path)} {why}, and has texts of {shown(corpus.name)}: the folder belongs to the "
        f"corpus, so move or copy both, and put it back as it was"
    )


def _message(path: str, why: str, corpus: Path) -> str:
    return (
        f"{shown(path)} {why}, and texts of {shown(corpus.name)} were left in it. Put it back as "
        f"it was, or read it anew: duckplets ingest {shown(corpus.name)} FILE … --in-place "
        f"--remap, as it was ingested. What was removed since is let go by: duckplets prepare "
        f"{shown(corpus.name)} --compact"
    )


def seal(connection: duckdb.DuckDBPyConnection, corpus: Path, allowed: Collection[str]) -> bool:
    """Let an instance read candidates and texts only; return whether it was sealed."""
    if connection.execute(query("db/external_files/is_sealed")).fetchall()[0][0]:
        return True
    folders = []
    for folder in (
        files.next_to(corpus, ending).absolute() for ending in (files.CANDIDATES, files.TEXTS)
    ):
        files.refuse_links(folder)
        if not any(path.startswith(f"{folder}/") for path in CHANGED):
            folders.append(f"{folder}/")
    for name, paths in (("allow_folder", folders), ("allow", sorted(allowed))):
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


def use_folder(connection: duckdb.DuckDBPyConnection, corpus: Path) -> None:
    """Resolve paths of files relative to a corpus."""
    for name, folder in (("folder", folder_of(corpus)), ("texts", texts_of(corpus))):
        connection.execute(bound(query(f"db/external_files/{name}"), {"folder": folder}))


def changed(database: Database) -> dict[str, str]:
    """Return the changed files with messages."""
    if not (rows := database.run("db/external_files/files")):
        return {}
    return {place: said for place, said in _changes(rows, Path(str(database.path))) if said}


def check(database: Database) -> None:
    """Raise ``ChangedFileError`` if a file whose texts stay in place has changed."""
    for message in changed(database).values():
        raise ChangedFileError(message)
