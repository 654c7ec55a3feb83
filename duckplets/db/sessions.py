"""Open DuckDB files, and track which of them this process has open, and who writes.

Within a process DuckDB gives everybody who opens a file the same instance. So a second opening
with other settings, for reading, gets an instance of its own; and the write lock of a file is held
by one thread at a time, whichever connection it uses.

A forked process inherits connections but not DuckDB's threads, without which even closing a
connection waits for ever. So inherited connections are kept and never touched, and a file that the
parent only reads is opened again.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from duckplets.base.live_set import LiveSet
from duckplets.base.prefetch import settle
from duckplets.base.sanitize import shown
from duckplets.db import external_files, files, torn_write_repair
from duckplets.db.files import FileId, file_id
from duckplets.db.foreign import first_line, orderly, raise_what_interrupted, translated
from duckplets.db.queries import query
from duckplets.errors import (
    CorpusLockedError,
    DamagedFileError,
    DuckpletsError,
    MigrationError,
    QueryError,
)

Settings = Mapping[str, Any]

_WRITTEN = {
    # The oldest format in which file and WAL know each other; written by DuckDB 1.5 and 2.0.
    "storage_compatibility_version": "v1.4.0",
    # Every commit is written to the WAL and checkpointed at once. DuckDB would skip the WAL
    # for a commit of 100 kB or more, and a kill in the middle could not be told from damage.
    "wal_autocheckpoint": "0B",
    "auto_checkpoint_skip_wal_threshold": str(1 << 62),
}


class Session:
    """A connection, and the Arrow tables registered in it."""

    __slots__ = (
        *("__weakref__", "_folder", "_hashed", "_is_attached"),
        *("connection", "feeds", "file", "read_only"),
    )

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        file: FileId | None = None,
        *,
        read_only: bool = False,
        is_attached: bool = False,
        folder: str | None = None,
    ) -> None:
        connection.execute(query("db/sessions/begin"))
        if is_attached:
            connection.execute(query("db/sessions/use"))
        if file is not None:
            names = "db/sessions/names_attached" if is_attached else "db/sessions/names"
            with suppress(duckdb.CatalogException):  # an empty or foreign file
                connection.execute(query(names))
        if folder is not None:
            external_files.use_folder(connection, folder)
        self._is_attached, self._folder = is_attached, folder
        self._hashed = 0
        self.connection = connection
        self.feeds: dict[str, Feed] = {}
        self.file = file
        self.read_only = read_only
        with _GATE:
            _SESSIONS.add(self)

    def another(self) -> Session:
        """Return a second connection to the same instance."""
        with _GATE:
            return Session(
                self.connection.cursor(),
                self.file,
                read_only=self.read_only,
                is_attached=self._is_attached,
                folder=self._folder,
            )

    @contextmanager
    def registered(self, tables: Mapping[str, pa.Table]) -> Iterator[None]:
        """Make Arrow tables visible to statements by name."""
        for name, table in tables.items():
            feed = self.feeds.get(name)
            if feed is None or feed.schema != table.schema:
                feed = self.feeds[name] = Feed(table)
                with translated():
                    self.connection.register(name, feed)
            feed.show(table)
        # DuckDB 1.5 passes join keys of up to 50 values to scans as lists, and PyArrow
        # refuses 2^63 in them. Elsewhere lists stay on: few keys of a stored table are
        # found four times as fast.
        has_hashes = any(pa.types.is_uint64(f.type) for t in tables.values() for f in t.schema)
        try:
            if has_hashes and not self._hashed:
                with translated():
                    self.connection.execute(query("db/sessions/no_lists"))
            self._hashed += has_hashes
            yield
        finally:
            self._hashed -= has_hashes
            if has_hashes and not self._hashed:
                # in a failed transaction; joins are only slower
                with suppress(QueryError), translated():
                    self.connection.execute(query("db/sessions/lists"))
            for name in tables.keys() & self.feeds.keys():
                self.feeds[name].show(None)

    def close(self) -> None:
        """Close the connection; statements running in other threads fail."""
        with _GATE:  # DuckDB has one list of open files, with a lock that a fork would copy
            _SESSIONS.discard(self)
            _end(self.connection)


class Feed:
    """A registered name under which one Arrow table after another is scanned.

    Registered once: DuckDB keeps registered tables until the end of the transaction, and an ingest
    that registered every batch held the whole source in memory. DuckDB calls a method of Arrow
    here, not Python code, in which an exception of a signal handler would be lost.
    """

    __slots__ = ("__arrow_c_stream__", "schema")

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self.show(table)

    def show(self, table: pa.Table | None) -> None:
        """Set the table to be scanned from now on, or None."""
        shown_now = self.schema.empty_table() if table is None else table
        self.__arrow_c_stream__ = shown_now.__arrow_c_stream__


_GATE = threading.RLock()  # held while connections are opened or closed, and across a fork
_SESSIONS: LiveSet[Session] = LiveSet()  # sessions of this process
_INHERITED: list[Session] = []  # inherited sessions, never touched
_CHANGERS: dict[FileId, int | None] = {}  # the thread that writes
_CHANGING: dict[FileId, threading.RLock] = {}  # held by the thread that writes to a file


def open_session(
    path: Path,
    name: str,
    settings: Settings,
    *,
    read_only: bool,
    allowed: Collection[str] = (),
) -> Session:
    """Open a file by its ``real_path``; a missing one is created unless ``read_only``.

    Args:
        path: DuckDB looks for the WAL beside this path.
        name: Name of the file, for messages.
        settings: DuckDB settings.
        read_only: Whether it is opened for reading only.
        allowed: Parquet files that statements may read as well.

    Raises:
        MigrationError: The path is not a DuckDB file.
        DamagedFileError: DuckDB cannot read the file.
        CorpusLockedError: Another process has it open, or this one with other settings.
    """
    config = {**settings, "temp_directory": str(files.spill_folder(path))}
    settle()
    with _GATE, orderly():
        try:
            is_open = _is_among(path, _SESSIONS)
            files.check_place(path, name, read_only=read_only, is_open=is_open)
            if not is_open:  # looking into it would give up its lock
                torn_write_repair.mend(path, name)
            if read_only and _is_among(path, _INHERITED):
                return _attached(path, config)
            return _connected(path, config, allowed, read_only=read_only)
        except DuckpletsError:  # one of them is an OSError too
            raise
        except OSError as error:
            raise MigrationError(f"{name} cannot be opened: {error.strerror}") from error
        except duckdb.Error as error:
            raise _opening_error(error, path, name) from error
        except RuntimeError as error:
            raise_what_interrupted(error)
            raise


def _connected(
    path: Path, config: dict[str, Any], allowed: Collection[str], *, read_only: bool
) -> Session:
    given = config if read_only else {**_WRITTEN, **config}
    try:
        connection = duckdb.connect(str(path), read_only=read_only, config=given)
    except duckdb.ConnectionException:
        if not read_only:
            raise
        return _attached(path, config)
    session = _sealed(connection, path, allowed, read_only=read_only)
    if not read_only:
        files.sweep(path)
    return session


def _sealed(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    allowed: Collection[str] = (),
    *,
    read_only: bool = True,
    is_attached: bool = False,
) -> Session:
    """Seal an instance against all files but those texts stay in."""
    try:
        folder = external_files.open_to(connection, path, allowed)
        connection.execute(query("db/sessions/seal"))
        file = file_id(path)
        return Session(
            connection, file, read_only=read_only, is_attached=is_attached, folder=folder
        )
    except BaseException:
        _end(connection)
        raise


def _end(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection, and what a statement has left that an exception of a handler ended.

    DuckDB keeps most of that until another statement; ``orderly`` spares Ctrl-C the rest.
    """
    with suppress(duckdb.Error):  # another thread has closed it, or no transaction is open
        connection.interrupt()
        connection.rollback()
    connection.close()


def _attached(path: Path, config: dict[str, Any]) -> Session:
    """Open a file for reading in an instance of its own.

    DuckDB gives everybody who connects to a path one instance: it refuses other settings, and in a
    forked process that instance is the parent's.
    """
    from sqlglot import exp, parse_one
    from sqlglot.dialects.duckdb import DuckDB

    attach = parse_one(query("db/sessions/attach"), dialect=DuckDB)
    for node in list(attach.find_all(exp.Literal)):
        node.replace(exp.Literal.string(str(path)))
    connection = duckdb.connect(config=config)
    try:
        connection.execute(attach.sql(dialect=DuckDB, comments=False))
        connection.execute(query("db/sessions/use"))
    except BaseException:
        _end(connection)
        raise
    return _sealed(connection, path, is_attached=True)


def _is_among(path: Path, sessions: Iterable[Session]) -> bool:
    file = file_id(path)
    return file is not None and any(session.file == file for session in sessions)


def refuse_shared(session: Session, own: Collection[Session], name: str) -> None:
    """Refuse to go on if something else in this process has the file open.

    Raises:
        CorpusLockedError: Something has.
    """
    with _GATE:
        others = [s for s in _SESSIONS if s.file == session.file and s not in own]
    if others:
        raise CorpusLockedError(
            f"{name} is open {len(others)} more times in this process, by samplers, readers or "
            f"other Corpus objects; close them first"
        )


@contextmanager
def alone(session: Session) -> Iterator[bool]:
    """Tell whether nobody else in this process has the file open, and keep it so."""
    with _GATE:
        yield not any(s.file == session.file and s is not session for s in _SESSIONS)


@contextmanager
def changing(file: FileId) -> Iterator[None]:
    """Hold the write lock of a file, one thread of this process at a time."""
    with _GATE:
        lock = _CHANGING.setdefault(file, threading.RLock())
    with lock:
        holder, _CHANGERS[file] = _CHANGERS.get(file), threading.get_ident()
        try:
            yield
        finally:
            _CHANGERS[file] = holder


def is_changed_here(file: FileId) -> bool:
    """Return whether this thread holds the write lock of a file."""
    return _CHANGERS.get(file) == threading.get_ident()


def _opening_error(error: duckdb.Error, path: Path, name: str) -> DuckpletsError:
    text = str(error)
    if "different configuration" in text or "file handle conflict" in text:
        return _open_here(path, name)
    if re.search(r"\block\b", first_line(text).lower()):
        holder = re.search(r"PID (\d+)", text)
        who = f"process {holder[1]}" if holder else "another process"
        return CorpusLockedError(
            f"{name} is open in {who}; close it there. Many can share a file only when all of "
            f"them open it with read_only=True"
        )
    if denied := re.search("Permission denied|Read-only file system", text):
        return MigrationError(f"{name} cannot be opened for writing: {denied[0]}")
    if "WAL does not match" in text:
        wal = files.wal_of(path)
        return MigrationError(
            f"{shown(wal)} is of another file than {name}, or of another state of it. Put back "
            f"what belongs together; without {shown(wal.name)} the file opens as last written"
        )
    if "not a valid DuckDB" in text:
        return MigrationError(f"{name} is not a DuckDB file")
    if "newer version" in text or "older version" in text or "storage version" in text:
        return MigrationError(
            f"{name} was written by a DuckDB this one ({duckdb.__version__}) cannot read; "
            f"upgrade with: pip install -U duckdb"
        )
    if re.search("[Cc]orrupt|[Mm]etadata|enough bytes|Serialization", text):
        return DamagedFileError(
            f"{name} is damaged: {first_line(text)}. Put a copy in its place, or move it away and "
            f"begin anew"
        )
    return MigrationError(f"{name} cannot be opened: {first_line(text)}")


def _open_here(path: Path, name: str) -> CorpusLockedError:
    if _is_among(path, _INHERITED):
        return CorpusLockedError(
            f"{name} was open for writing in the process from which this one was forked; close it "
            f"there before forking, or open it with read_only=True"
        )
    return CorpusLockedError(
        f"{name} is open in this process, in another way: use that Corpus, any number of threads "
        f"may, or close it. A file is open here either for writing, always with the same "
        f"memory_limit and threads, or with read_only=True"
    )


# -- forks --------------------------------------------------------------------------------------


def _after_in_child() -> None:
    """Keep inherited connections from being closed, which would wait for lost threads."""
    import ctypes

    _INHERITED.extend(_SESSIONS)
    # DuckDB's default connection is created on demand and closed at exit.
    for connection in (
        *(session.connection for session in _INHERITED),
        duckdb.default_connection(),
    ):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    for inherited in (_SESSIONS, _CHANGING, _CHANGERS):
        inherited.clear()
    _GATE.release()  # held by this thread since before the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_GATE.acquire, after_in_parent=_GATE.release, after_in_child=_after_in_child
    )
    # Runs first. A file that the thread of a dropped run is closing has no session any more, and a
    # worker that opens it would get DuckDB's instance without its threads, and wait for ever.
    os.register_at_fork(before=settle)
