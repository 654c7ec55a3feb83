"""Open DuckDB files, and track the open ones and their writers."""

# A forked process inherits connections without DuckDB's threads, so even closing one would wait
# for ever: inherited connections are kept and never touched.

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from duckplets.base.live_set import LiveSet
from duckplets.base.prefetch import settle
from duckplets.base.sanitize import shown
from duckplets.db import catalog, external_files, files, torn_write_repair
from duckplets.db.files import FileId, file_id
from duckplets.db.foreign import first_line, orderly, raise_what_interrupted, translated
from duckplets.db.queries import bound, query
from duckplets.errors import (
    CorpusLockedError,
    DamagedFileError,
    DuckpletsError,
    MigrationError,
    QueryError,
)

Settings = Mapping[str, Any]

# Nothing of a file is loaded before it is sealed, and then nothing can be.
_NO_EXTENSIONS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}

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
        *("__weakref__", "_hashed", "_is_attached", "_path"),
        *("checked", "connection", "feeds", "file", "read_only"),
    )

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        file: FileId | None = None,
        *,
        read_only: bool = False,
        is_attached: bool = False,
        path: Path | None = None,
        checked: catalog.Checked | None = None,
    ) -> None:
        connection.execute(query("db/sessions/begin"))
        if is_attached:
            connection.execute(query("db/sessions/use"))
        if file is not None:
            names = "db/sessions/names_attached" if is_attached else "db/sessions/names"
            with suppress(duckdb.CatalogException):  # an empty or foreign file
                connection.execute(query(names))
        if path is not None:
            external_files.use_folder(connection, path)
        self._is_attached, self._path = is_attached, path
        self._hashed = 0
        self.checked, self.connection = checked, connection
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
                path=self._path,
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
            if self._path and not self.read_only and not _is_among(self._path, _SESSIONS):
                catalog.note_own_changes(self._path, self.checked)


class Feed:
    """A registered name under which one Arrow table after another is scanned."""

    # DuckDB keeps registered tables until the transaction ends, so an ingest would hold its source.
    # DuckDB calls a method of Arrow: Python code would lose an exception of a signal handler.

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
    """Open a file by its ``real_path``; a missing one is created unless ``read_only``."""
    config = {**settings, **_NO_EXTENSIONS, "temp_directory": str(files.spill_folder(path))}
    settle()
    with _GATE, orderly():
        try:
            is_open = _is_among(path, _SESSIONS)
            files.check_place(path, name, read_only=read_only, is_open=is_open)
            if not is_open:  # looking into it would give up its lock
                torn_write_repair.mend(path, name)
            opening = _Opening(path, name, config, read_only, is_open)
            if read_only and _is_among(path, _INHERITED):
                return opening.attached()
            return opening.connected(allowed)
        except DuckpletsError:  # one of them is an OSError too
            raise
        except OSError as error:
            raise MigrationError(f"{name} cannot be opened: {error.strerror}") from error
        except duckdb.Error as error:
            raise _opening_error(error, path, name) from error
        except RuntimeError as error:
            raise_what_interrupted(error)
            raise


class _Opening:
    """Opens a file: seals it, compares its catalog, then uses it."""

    def __init__(
        self, path: Path, name: str, config: dict[str, Any], read_only: bool, is_open: bool
    ) -> None:
        self._path, self._name, self._config = path, name, config
        self._read_only, self._is_open = read_only, is_open
        self._state = None if is_open else catalog.state_of(path)
        self._is_new = not any(map(os.path.lexists, (path, files.wal_of(path))))

    def connected(self, allowed: Collection[str]) -> Session:
        """Connect to the file; the connections of a process share one instance."""
        config = self._config if self._read_only else {**_WRITTEN, **self._config}

        def connect() -> duckdb.DuckDBPyConnection:
            return duckdb.connect(str(self._path), read_only=self._read_only, config=config)

        try:
            session = self._sealed(connect, allowed)
        except duckdb.ConnectionException:
            if not self._read_only:
                raise
            return self.attached()
        if not self._read_only:
            files.sweep(self._path)
        return session

    def attached(self) -> Session:
        """Open the file for reading in an instance of its own."""
        # All who connect to a path share one instance: with one set of settings, and across forks.
        text = bound(query("db/sessions/attach"), {"path": str(self._path)})

        def connect() -> duckdb.DuckDBPyConnection:
            connection = duckdb.connect(config=self._config)
            try:
                connection.execute(text)
            except BaseException:
                _end(connection)
                raise
            return connection

        return self._sealed(connect, (), is_attached=True)

    def _sealed(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        allowed: Collection[str],
        *,
        is_attached: bool = False,
    ) -> Session:
        """Open the file without access to others, except the files of texts."""
        checked = catalog.Checked() if self._is_new else catalog.known(self._state)
        while True:
            must_allow = False
            placed = external_files.readable(checked.placed, self._path) if checked else set()
            connection = connect()
            try:
                with catalog.aside(connection) as outside:
                    was_sealed = external_files.seal(outside, self._path, placed.union(allowed))
                    if checked is None and not (was_sealed and self._is_open):
                        checked = catalog.check(outside, self._name)
                        catalog.note(self._state, checked)
                        must_allow = bool(checked.placed) and not was_sealed
                if must_allow:  # they are read from the file, so it is opened again
                    _end(connection)
                    continue
                return Session(
                    connection,
                    file_id(self._path),
                    read_only=self._read_only or is_attached,
                    is_attached=is_attached,
                    path=self._path,
                    checked=checked,
                )
            except BaseException:
                _end(connection)
                raise


def attached_only(path: Path, settings: Settings) -> Session:
    """Open a DuckDB file of another tool to read, in an instance that reads no other file."""
    real = str(path.resolve())
    paths = [real, *(f"{real}.wal{ending}" for ending in ("", ".checkpoint", ".recovery"))]
    connection = duckdb.connect(config={**settings, **_NO_EXTENSIONS})
    try:
        connection.execute(bound(query("db/external_files/allow"), {"paths": paths}))
        connection.execute(query("db/sessions/seal"))
        connection.execute(bound(query("db/sessions/attach"), {"path": real}))
        return Session(connection, is_attached=True)
    except BaseException:
        _end(connection)
        raise


def _end(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection, and the rest of a statement that an exception of a handler ended."""
    # DuckDB keeps most of that until another statement.
    with suppress(duckdb.Error):  # another thread has closed it, or no transaction is open
        connection.interrupt()
        connection.rollback()
    connection.close()


def _is_among(path: Path, sessions: Iterable[Session]) -> bool:
    file = file_id(path)
    return file is not None and any(session.file == file for session in sessions)


def refuse_shared(session: Session, own: Collection[Session], name: str) -> None:
    """Refuse a file that something else in this process has open."""
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
