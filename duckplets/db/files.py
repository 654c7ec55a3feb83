"""Resolve the path of a DuckDB file, and handle the files beside it."""

# DuckDB replays a WAL into whatever file has its name. So no file is created where a WAL lies,
# and every commit is checkpointed at once.

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from duckplets.base import atomic
from duckplets.base.sanitize import shown
from duckplets.errors import MigrationError, MissingFileError

FileId = tuple[int, int]

STATE = ".state.duckdb"
"""What the name of a corpus's state file ends with, in place of ``.duckdb``."""
VECTORS = ".vectors.duckdb"
"""The same of its vector file."""
SNAPSHOT = ".snapshot"
"""The same of the folder of its snapshot."""
CANDIDATES = ".candidates"
"""The same of the folder of its mined candidates."""
TEXTS = ".texts"
"""The same of the folder of texts that are too many for its file."""
INTERNALS = "_internal"
"""The schema of a file's internals; what users need is in ``main``."""

_LONGEST_NAME = 220  # bytes; file systems allow 255, and names beside a file add up to 30
_ADDRESS = re.compile(
    r":memory:|(md|motherduck|https?|s3|s3[an]|gcs|gs|r2|hf|azure|az|abfss?|file|ducklake):", re.I
)


def real_path(path: Path) -> Path:
    """Return the absolute path of a file, with links resolved."""
    if _ADDRESS.match(str(path)):
        raise MigrationError(
            f"{shown(path)} is no path of a file, and a corpus is one; for a corpus that nobody is "
            f"to keep, give a path in a temporary folder"
        )
    try:
        real = path.resolve()
        if real.name.split(".")[0].lower() == INTERNALS:  # DuckDB names the database after it
            raise MigrationError(
                f"{shown(path)}: {INTERNALS!r} is the schema inside each file; give the file "
                f"another name"
            )
        name = str(real).encode()
    except UnicodeEncodeError:
        raise MigrationError(f"{shown(path)} is not UTF-8; give the file another name") from None
    except (OSError, RuntimeError, ValueError) as error:  # circular links, NUL
        raise MigrationError(f"{shown(path)} leads nowhere: {error}") from error
    if b"?" in name:
        raise MigrationError(f"{shown(path)}: DuckDB cuts a path at '?'; give it another name")
    return real


def check_place(path: Path, name: str, *, read_only: bool, is_open: bool) -> None:
    """Refuse a path that is no DuckDB file, and a missing file opened for reading."""
    # A file that this process has open is not inspected: closing it again would release its lock.
    if path.is_dir():
        raise MigrationError(f"{name} is a folder, not a DuckDB file")
    _check_folder(path, name)
    if not os.path.lexists(path):
        if read_only:
            raise MissingFileError(
                f"{name} does not exist; create it with: duckplets ingest {name} …"
            )
    elif not is_open and not _is_duckdb(path):
        raise MigrationError(f"{name} is not a DuckDB file")


def make_folder(path: Path) -> None:
    """Create the folder of a new file, with its parents."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MigrationError(
            f"{shown(path)}: its folder cannot be made: {error.strerror or error}"
        ) from error


def _check_folder(path: Path, name: str) -> None:
    try:
        is_folder = stat.S_ISDIR(path.parent.stat().st_mode)
    except FileNotFoundError:
        is_folder = False
    except OSError as error:  # no access to a parent, or too long a name
        raise MigrationError(f"{name} cannot be opened: {error.strerror}") from error
    if not is_folder:
        raise MissingFileError(f"{name}: its folder {shown(Path(name).parent)} does not exist")


def _is_duckdb(path: Path) -> bool:
    """Return whether a file has DuckDB's magic; DuckDB would open a CSV file as a view."""
    if not path.is_file():  # a pipe might block for ever
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def file_id(path: Path) -> FileId | None:
    """Return device and inode of a file; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


# -- what lies beside a file --------------------------------------------------------------------


def check_room(path: Path, name: str) -> None:
    """Refuse to create a file where that is impossible, or where a WAL lies."""
    name_of_corpus = path.name.replace(STATE, ".duckdb").replace(VECTORS, ".duckdb")
    if len(name_of_corpus.encode()) > _LONGEST_NAME:
        raise MigrationError(
            f"{name}: its name is too long; give at most {_LONGEST_NAME} bytes, for files beside "
            f"it have longer ones"
        )
    _check_folder(path, name)
    if not os.access(path.parent, os.W_OK):
        folder = shown(Path(name).parent)
        raise MigrationError(f"{name} cannot be made: its folder {folder} is read-only")
    wal = wal_of(path)
    with suppress(OSError):
        if wal.stat().st_size == 0:  # a full disk leaves one
            wal.unlink()
    if os.path.lexists(wal):
        raise MigrationError(
            f"{name} is missing, but {shown(wal)} exists, with commits of a killed process for "
            f"this file. Put the file back if you moved it; if you deleted it, delete the .wal too"
        )


def sweep(path: Path) -> None:
    """Remove what dead processes left beside a file that this one has open for writing."""
    name, new = re.escape(path.name), r"\.[^/]*\.\d+-\d+\.new\.[^/]*"
    atomic.sweep(path, rf"(?:(?:{name}|{new})\.(?P<process>\d+)\.tmp)")
    if not path.name.endswith((STATE, VECTORS)):
        for ending in (STATE, VECTORS):
            atomic.sweep(path.with_name(path.name.removesuffix(".duckdb") + ending))


def next_to(corpus: Path, ending: str) -> Path:
    """Return the path of a companion of a corpus or folder, beside the target of a link."""
    if corpus.is_symlink() or corpus.name in ("", ".."):
        corpus = Path(os.path.realpath(corpus))
    return corpus.with_name(corpus.name.removesuffix(".duckdb") + ending)


def refuse_links(folder: Path) -> None:
    """Refuse a folder of ours that is a link or has one in it, which may lead to any file."""
    try:
        entries = list(os.scandir(folder)) if not folder.is_symlink() else []
        found = [folder] if folder.is_symlink() else [e for e in entries if e.is_symlink()]
    except OSError:  # missing, or not to be read
        return
    if found:
        raise MigrationError(
            f"{shown(os.fspath(found[0]))} is a link, and may lead to any file; put the "
            f"{'folder' if found[0] is folder else 'file'} itself there"
        )


def wal_of(path: Path) -> Path:
    """Return the path of a file's WAL."""
    return path.with_name(f"{path.name}.wal")


def spill_folder(path: Path) -> Path:
    """Return the spill folder of this process."""
    # By default readers share one, overwrite each other's blocks and crash.
    folder = path.parent if os.access(path.parent, os.W_OK) else Path(tempfile.gettempdir())
    return folder.absolute() / f"{path.name}.{os.getpid()}.tmp"
