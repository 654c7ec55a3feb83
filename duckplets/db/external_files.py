"""Know the Parquet files that texts were left in, and whether they are as they were.

    placed_files ─state_of→ as it was: statements may read it      changed: an error that names it

A corpus is sealed against all other files. So those that it names are looked at when it is opened,
and only those whose size, time and footer are what they were may be read by its statements.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import shown
from duckplets.db.foreign import CHANGED
from duckplets.db.queries import query
from duckplets.errors import ChangedFileError

if TYPE_CHECKING:
    import duckdb

    from duckplets.db.database import Database

_END = 8  # bytes: the footer's length and the mark
_MARK = b"PAR1"


@dataclass(frozen=True, slots=True)
class FileState:
    """What a Parquet file is known again by."""

    size: int  # in bytes
    modified: int  # ns since 1970
    footer: str  # its SHA-256

    def differs(self, now: FileState) -> str:
        """Say in what a file is no more what it was; nothing if it is."""
        if self.size != now.size:
            return f"has {now.size:,} bytes now, and had {self.size:,}"
        if self.modified != now.modified:
            return (
                f"was written at {_time(now.modified)}, and before that at {_time(self.modified)}"
            )
        return "" if self.footer == now.footer else "has another footer"


def _time(modified: int) -> str:
    return f"{datetime.fromtimestamp(modified // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def state_of(file: str | Path) -> FileState:
    """Return what a file is known by, or raise the OSError that keeps it from being read."""
    with open(file, "rb") as opened:
        facts = os.fstat(opened.fileno())
        opened.seek(max(facts.st_size - _END, 0))
        end = opened.read(_END)
        length = int.from_bytes(end[:4], "little") if end.endswith(_MARK) else 0
        opened.seek(max(facts.st_size - _END - length, 0))
        footer = hashlib.sha256(opened.read(length + _END)).hexdigest()
    return FileState(facts.st_size, facts.st_mtime_ns, footer)


def folder_of(corpus: Path) -> str:
    """Return what stands before paths that do not begin at the root."""
    return os.path.join(os.path.realpath(corpus.parent), "")


def located(path: str, corpus: Path) -> str:
    """Return where a file of a corpus is, as statements name it."""
    return path if os.path.isabs(path) else folder_of(corpus) + path


def change(path: str, was: FileState) -> str:
    """Say in what a file has changed; nothing if it is as it was."""
    try:
        return was.differs(state_of(path))
    except FileNotFoundError:
        return "is not there any more"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _changes(rows: Iterable[tuple[Any, ...]], corpus: Path) -> Iterator[tuple[str, str]]:
    """Yield where every file of ``files`` is, and what is to be said of it if it has changed."""
    for path, size, modified, footer in rows:
        place = located(path, corpus)
        why = change(place, FileState(size, modified, footer))
        yield place, _told(place, why, corpus) if why else ""


def _told(path: str, why: str, corpus: Path) -> str:
    return (
        f"{shown(path)} {why}, and texts of {shown(corpus.name)} were left in it. Put it back as "
        f"it was, or read it anew: duckplets ingest {shown(corpus.name)} FILE … --in-place, as it "
        f"was ingested; with --remap where records are gone from it. What was removed "
        f"since is let go by: duckplets compact {shown(corpus.name)}"
    )


def open_to(
    connection: duckdb.DuckDBPyConnection, corpus: Path, allowed: Collection[str]
) -> str | None:
    """Let statements of an instance read the files that are as they were, and no others.

    Args:
        connection: To the corpus, or to another file of ours.
        corpus: The file.
        allowed: Further files, which are about to be noted.

    Returns:
        The folder for ``use_folder``; None where there are no such files.
    """
    there = connection.execute(query("db/external_files/is_there")).fetchall()[0][0]
    rows = connection.execute(query("db/external_files/files")).fetchall() if there else []
    if not rows and not allowed:
        return None
    is_sealed = connection.execute(query("db/external_files/is_sealed")).fetchall()[0][0]
    if not is_sealed:  # who has opened it before in this process has let them be read
        paths = set(allowed)
        for place, message in _changes(rows, corpus):
            CHANGED.pop(place, None)
            if message:
                CHANGED[place] = message
            else:
                paths.add(place)
        connection.execute(query("db/external_files/allow"), {"paths": sorted(paths)})
    return folder_of(corpus)


def use_folder(connection: duckdb.DuckDBPyConnection, folder: str) -> None:
    """Let paths of files that do not begin at the root begin in a folder."""
    connection.execute(query("db/external_files/folder"), {"folder": folder})


def changed(database: Database) -> dict[str, str]:
    """Return the files that texts were left in and that are not as they were, with messages."""
    if not (rows := database.run("db/external_files/files")):
        return {}
    return {place: said for place, said in _changes(rows, Path(str(database.path))) if said}


def check(database: Database) -> None:
    """Refuse to go on where a file that texts were left in is not as it was.

    Raises:
        ChangedFileError: One is not; it says which, and what to do.
    """
    for message in changed(database).values():
        raise ChangedFileError(message)
