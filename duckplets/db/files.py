"""Know which file a path leads to, and what lies beside it.

Beside ``NAME.duckdb`` may lie ``NAME.duckdb.wal``, what was committed and is not in the file yet;
``NAME.duckdb.PID.tmp``, where a process puts what does not fit into its memory; and
``.NAME.PID-THREAD.new.duckdb``, a file on its way. Dead processes leave them behind. DuckDB reads a
WAL into whatever file has the name: so no file is made where one lies, files are of a format in
which both know each other, and every commit goes into the file at once.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duckplets.base import atomic
from duckplets.base.sanitize import shown
from duckplets.errors import CorpusLockedError, DuckpletsError, MigrationError, MissingFileError

FileId = tuple[int, int]

STATE = ".state.duckdb"
"""What the name of a corpus's state file ends with, in place of ``.duckdb``."""
VECTORS = ".vectors.duckdb"
"""The same of its vector file."""
SNAPSHOT = ".snapshot"
"""The same of the folder of its snapshot."""
INTERNALS = "_internal"
"""The schema of a file's internals; what users need is in ``main``."""

_STILL = 0.05  # seconds: file systems tell times of writing to 10 ms
_LONGEST_NAME = 220  # bytes; file systems take 255, and what lies beside a file adds up to 30
_ADDRESS = re.compile(
    r":memory:|(md|motherduck|https?|s3|s3[an]|gcs|gs|r2|hf|azure|az|abfss?|file|ducklake):", re.I
)


def real_path(path: Path) -> Path:
    """Return the absolute path of the file that a path leads to, by links too.

    Raises:
        MigrationError: It can be none of a file, or DuckDB would read it otherwise.
    """
    if _ADDRESS.match(str(path)):
        raise MigrationError(
            f"{shown(path)} is no path of a file, and a corpus is one; for a corpus that nobody is "
            f"to keep, give a path in a temporary folder"
        )
    try:
        real = path.resolve()
        if real.name.split(".")[0].lower() == INTERNALS:  # DuckDB calls the database so, too
            raise MigrationError(
                f"{shown(path)}: {INTERNALS!r} is the schema inside each file; give the file "
                f"another name"
            )
        name = str(real).encode()
    except UnicodeEncodeError:
        raise MigrationError(f"{shown(path)} is not UTF-8; give the file another name") from None
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, NUL
        raise MigrationError(f"{shown(path)} leads nowhere: {error}") from error
    if b"?" in name:
        raise MigrationError(f"{shown(path)}: DuckDB cuts a path at '?'; give it another name")
    return real


def check_place(path: Path, name: str, *, read_only: bool, is_open: bool) -> None:
    """Refuse what is no DuckDB file, and a file to read that is not there.

    Args:
        path: From ``real_path``.
        name: Of the file, for messages.
        read_only: Whether it is to be read only.
        is_open: Whether this process has it open. Then it is not looked into: closing it again
            would give up the lock that keeps other processes from writing it.

    Raises:
        MigrationError: With what to do.
        OSError: It may not be looked at.
    """
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
    """Make the folder that a new file is to lie in, with those above it.

    Raises:
        MigrationError: It cannot be made.
    """
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
    except OSError as error:  # a closed folder above it, or a name that is too long
        raise MigrationError(f"{name} cannot be opened: {error.strerror}") from error
    if not is_folder:
        raise MissingFileError(f"{name}: its folder {shown(Path(name).parent)} does not exist")


def _is_duckdb(path: Path) -> bool:
    """Whether the file has DuckDB's mark; DuckDB would open a CSV file as a view in memory."""
    if not path.is_file():  # nobody knows how long a pipe would keep us waiting
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def file_id(path: Path) -> FileId | None:
    """Return what the system knows a file by; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


# -- what lies beside a file --------------------------------------------------------------------


def check_room(path: Path, name: str) -> None:
    """Refuse to make a file where none can be, or where another one's WAL lies.

    Raises:
        MigrationError: With what to do.
    """
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
    if os.path.lexists(wal):
        raise MigrationError(
            f"{name} is not there, but {shown(wal)} is: what a process that was killed had "
            f"committed to a file of that name, and it would come back in a new one. Put that "
            f"file back if you moved it; if you deleted it, delete this one too"
        )


def sweep(path: Path) -> None:
    """Remove what dead processes left beside a file that this one has open for writing.

    Also on the way to the state and the vector file of a corpus, which are opened for moments only.
    """
    name, new = re.escape(path.name), r"\.[^/]*\.\d+-\d+\.new\.[^/]*"
    atomic.sweep(path, rf"(?:(?:{name}|{new})\.(?P<process>\d+)\.tmp)")
    if not path.name.endswith((STATE, VECTORS)):
        for ending in (STATE, VECTORS):
            atomic.sweep(path.with_name(path.name.removesuffix(".duckdb") + ending))


def beside(corpus: Path, ending: str) -> Path:
    """Return where another file of a corpus lies: beside the file itself, where a link leads."""
    if corpus.is_symlink():
        corpus = Path(os.path.realpath(corpus))
    return corpus.with_name(corpus.name.removesuffix(".duckdb") + ending)


def wal_of(path: Path) -> Path:
    """Return where DuckDB writes what is not in a file yet."""
    return path.with_name(f"{path.name}.wal")


def spill_folder(path: Path) -> Path:
    """Return where this process puts what does not fit into memory.

    By default all processes that read a file share one folder, and overwrite what others have put
    there: readers that ran out of memory at once died of it.
    """
    folder = path.parent if os.access(path.parent, os.W_OK) else Path(tempfile.gettempdir())
    return folder.absolute() / f"{path.name}.{os.getpid()}.tmp"


Signature = tuple[tuple[int, int, int] | None, ...]


def signature(path: Path) -> Signature:
    """Return what is another after a file or its WAL was written: which they are, sizes, times."""
    found: list[tuple[int, int, int] | None] = []
    for file in (path, path.with_name(f"{path.name}.wal")):
        try:
            told = file.stat()
        except OSError:
            found.append(None)
        else:
            found.append((told.st_ino, told.st_size, told.st_mtime_ns))
    return tuple(found)


@contextmanager
def copied(path: Path, *, seconds: float = 0.0) -> Iterator[Path]:
    """Copy a file for a while: to open it, even to read, makes who saves to it wait.

    The file has to stay the same for a moment before the copy and until it is made.
    """
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="duckplets-") as folder:
        copy = Path(folder) / path.name
        while not _copy(path, copy):
            if time.monotonic() > deadline:
                raise CorpusLockedError(f"{path} is being written all the time; try again")
        try:
            yield copy
        except DuckpletsError as error:
            raise type(error)(str(error).replace(str(copy), str(path))) from error


def _copy(path: Path, copy: Path) -> bool:
    """Copy a file with its WAL and return whether nobody wrote it meanwhile."""
    before = signature(path)
    time.sleep(_STILL)
    for file, to in ((path, copy), (wal_of(path), wal_of(copy))):
        try:
            shutil.copyfile(file, to)
        except FileNotFoundError:
            to.unlink(missing_ok=True)
    if not copy.exists():
        raise MissingFileError(f"{path} does not exist")
    return signature(path) == before
