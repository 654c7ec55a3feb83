"""Connect to DuckDB, run named statements and transactions, and translate its errors."""

# Files are *sealed*: with ``enable_external_access`` off, no statement reads files or settings.
# A second instance in memory (``Database.reader``) reads sources; only Arrow data passes over.

from __future__ import annotations

import os
import re
import tempfile
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import duckdb
import pyarrow as pa

from duckplets.base.deadline import STATEMENT_TIMEOUT, deadline
from duckplets.base.fork_guard import Home
from duckplets.base.live_set import LiveSet
from duckplets.base.prefetch import settle
from duckplets.base.sanitize import shown
from duckplets.base.settings import Bounds, checked
from duckplets.db import files, sessions
from duckplets.db.catalog import Checked
from duckplets.db.foreign import CLOSED, translated
from duckplets.db.queries import query
from duckplets.db.sessions import Session
from duckplets.errors import CorpusLockedError, DeadlineError, QueryError, ReadOnlyError

# DuckDB 2.0 recommends con.sql(), which takes queries only and plans them twice.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)

# Measured on a million records (docs/benchmarks.md): enough for blocks of 65,536 positions, while
# the process with Arrow and Python stays under 2 GB.
DEFAULT_MEMORY_LIMIT = "1GB"
_READER_MEMORY = "512MB"  # readers stream: a million records read no slower with 400 MB
_SCRATCH_MEMORY = "1GB"  # enough for one text of some 200 MB; larger vocabularies spill to disk
_OPEN_HERE = "open it in this process: Corpus(path, read_only=True)"

Parameters = Mapping[str, Any]

# Files being changed by the present call, also in its other threads.
_CHANGED: ContextVar[tuple[files.FileId, ...]] = ContextVar("_CHANGED", default=())


class Database:
    """Connections to a DuckDB file or an in-memory instance, one per thread."""

    def __init__(
        self,
        session: Session,
        path: Path | None = None,
        *,
        reopen: Callable[..., Session] | None = None,
    ) -> None:
        self.path = path
        self.read_only = session.read_only
        self.statement_timeout: float | None = STATEMENT_TIMEOUT
        self.kept: dict[str, Any] = {}
        self.following: Callable[[Database], AbstractContextManager[None]] | None = None
        self._home = Home()
        self._reopen = reopen  # reopens the file; None if all threads share a connection
        self._threads: int | None = None  # set by the user
        self._memory_limit: str | None = None  # set by the user; otherwise:
        self._frugal = DEFAULT_MEMORY_LIMIT
        self._is_closed = False
        self._begin(session)

    def _begin(self, session: Session) -> None:
        self._first = session
        self._of_thread = threading.local()  # drops a connection with its thread
        self._of_thread.session = session
        self._others: LiveSet[Session] = LiveSet()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = False,
        memory_limit: str | None = None,
        threads: int | None = None,
    ) -> Database:
        """Open a file, sealed as above; a missing one is created unless ``read_only``."""
        settings, real = _settings(memory_limit, threads), files.real_path(path)
        open_real = partial(sessions.open_session, real, shown(path), settings)
        opened = cls(open_real(read_only=read_only), path, reopen=open_real)
        opened._memory_limit, opened._threads = memory_limit, threads
        return opened

    @classmethod
    def reader(cls, memory_limit: str | None = None) -> Self:
        """Open an in-memory instance that may read files, for sources only."""
        with translated():
            config = _settings(memory_limit or _READER_MEMORY, None)
            return cls(Session(duckdb.connect(config=config)))

    @classmethod
    def only(cls, path: Path) -> Database:
        """Open a DuckDB file of another tool to read, in an instance that reads no other file."""
        with translated():
            return cls(sessions.attached_only(path, _settings(_READER_MEMORY, None)))

    @classmethod
    def scratch(cls, threads: int | None = None) -> Database:
        """Open an in-memory instance that never downloads extensions by itself."""
        config: dict[str, Any] = _settings(_SCRATCH_MEMORY, threads) | {
            "autoinstall_known_extensions": "false",
            "temp_directory": str(Path(tempfile.gettempdir()) / f"duckplets.{os.getpid()}.tmp"),
        }
        with translated():
            return cls(Session(duckdb.connect(config=config)))

    def load_extension(self, name: str) -> None:
        """Load an installed extension by name or file path."""
        with translated():
            self._connection.load_extension(name)

    def install_extension(self, name: str) -> None:
        """Download an extension from DuckDB's repository."""
        with translated():
            self._connection.install_extension(name)

    @property
    def checked(self) -> Checked | None:
        """The result of the check at opening; None if this process had the file open."""
        return self._first.checked

    def cursor(self) -> Database:
        """Return a further connection to the instance, for one thread at a time."""
        with translated():
            other = Database(self._session.another(), self.path)
        other.statement_timeout = self.statement_timeout
        return other

    def close(self) -> None:
        """Close all connections; statements running in other threads fail."""
        if self._is_closed or self._home.is_left:  # inherited connections are the parent's
            return
        self._is_closed = True
        for session in (*self._others, self._first):
            with translated():
                session.close()

    def replace_file(self, other: Path) -> None:
        """Move another file to this one's path, and continue with it."""
        # The old file is closed last: until then no other process can write to it, and
        # lose the write.
        self._open_again(lambda real: os.replace(other, real))

    def allow(self, paths: Collection[str]) -> None:
        """Allow statements to read Parquet files that texts are about to stay in."""
        self._open_again(allowed=paths)

    def _open_again(
        self, before: Callable[[Path], None] = lambda real: None, **asked: Collection[str]
    ) -> None:
        settle()
        own = (self._first, *self._others)
        sessions.refuse_shared(self._first, own, str(self.path))
        if self._reopen is None or self.path is None:
            raise QueryError("only a file that was opened can be opened again")
        before(files.real_path(self.path))
        for session in own:
            session.close()
        self._is_closed = True  # where another process has opened the file meanwhile
        self._begin(self._reopen(read_only=False, **asked))
        self._is_closed = False

    def interrupt(self) -> None:
        """Interrupt the statement another thread is running on the first connection."""
        if not self._home.is_left:
            self._first.connection.interrupt()

    @property
    def _session(self) -> Session:
        """This thread's connection; a forked process gets its own, read-only."""
        if self._home.is_left and not self._is_closed:
            if self._reopen is None or not self.read_only:
                self._home.need(str(self.path or "what reads a file"), _OPEN_HERE)
            else:
                self._begin(self._reopen(read_only=True))
                self._home = Home()
        if self._reopen is None:
            return self._first
        session: Session | None = getattr(self._of_thread, "session", None)
        if session is None or self._is_closed:
            if self._is_closed:
                raise QueryError(CLOSED)
            session = self._of_thread.session = self._first.another()
            self._others.add(session)
        return session

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self._session.connection

    @contextmanager
    def changing(self, verb: str) -> Iterator[None]:
        """Hold the write lock of the file, one thread at a time; ``verb`` is for messages."""
        if self.read_only:
            raise ReadOnlyError(
                f"cannot {verb} {self.path}: it is open read-only; open it with "
                f"Corpus({str(self.path)!r})"
            )
        self._home.need(str(self.path), _OPEN_HERE)
        file = self._first.file
        if file is None:
            yield
            return
        if file in _CHANGED.get() and not sessions.is_changed_here(file):
            raise CorpusLockedError(
                f"cannot {verb} {self.path} from within a source that is being ingested into it: "
                f"the one would wait for the other; read from it, or change it afterwards"
            )
        mark = _CHANGED.set((*_CHANGED.get(), file))
        try:
            with sessions.changing(file):
                yield
        finally:
            _CHANGED.reset(mark)

    # -- statements ---------------------------------------------------------------------------

    def run(self, name: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Run a named statement and return its rows."""
        return self.rows(query(name), parameters)

    def table(self, name: str, parameters: Parameters | None = None) -> pa.Table:
        """Run a named statement and return an Arrow table."""
        return self.arrow(query(name), parameters)

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Run SQL text and return its rows."""
        connection = self._connection
        with translated(connection):
            return connection.execute(sql, dict(parameters or {})).fetchall()

    def arrow(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        """Run SQL text and return an Arrow table."""
        connection = self._connection
        with translated(connection):
            return connection.execute(sql, dict(parameters or {})).to_arrow_table()

    def read(
        self,
        sql: str,
        parameters: Parameters | None = None,
        before: Callable[[Database], None] | None = None,
    ) -> pa.Table:
        """Run SQL text of a user, under a ``deadline``, in a transaction that changes nothing."""
        reader = self.cursor()
        try:
            if before is not None:
                before(reader)
            reader.rows("BEGIN TRANSACTION READ ONLY")
            with reader.deadline("sql"):
                return reader.arrow(sql, parameters)
        finally:
            reader.close()

    def stream(
        self, sql: str, parameters: Parameters | None = None, *, rows: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """Run SQL text and yield Arrow batches of at most ``rows`` rows, lazily."""
        connection = self._connection
        with translated(connection):
            reader = connection.execute(sql, dict(parameters or {})).to_arrow_reader(rows)
        while True:
            with translated(connection):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except OSError as error:  # PyArrow's class for an error of DuckDB's stream
                    raise pa.ArrowInvalid(str(error)) from None
            yield batch

    def statement_type(self, sql: str) -> list[str]:
        """Return the type of every statement in a text, by DuckDB's parser."""
        with translated():
            return [str(s.type.name) for s in self._connection.extract_statements(sql)]

    def registered(self, **tables: pa.Table) -> AbstractContextManager[None]:
        """Make Arrow tables visible to statements under the given names."""
        return self._session.registered(tables)

    @contextmanager
    def deadline(self, what: str) -> Iterator[None]:
        """Stop statements of ``what`` that take longer than ``statement_timeout``."""
        with deadline(self.statement_timeout, self._connection.interrupt) as passed:
            try:
                yield
            except (QueryError, KeyboardInterrupt) as error:
                # A KeyboardInterrupt without a cause is the user's Ctrl-C.
                own = isinstance(error, KeyboardInterrupt) and error.__cause__ is None
                if type(error) is QueryError and not passed.is_set():
                    raise QueryError(f"{what}: {error}") from error
                if own or not passed.is_set():
                    raise
                raise DeadlineError(
                    f"{what}: its statement ran longer than statement_timeout="
                    f"{self.statement_timeout:g} seconds and was stopped. Make its conditions "
                    f"cheaper, or give it more time, as in Corpus(path, statement_timeout=600)"
                ) from error

    @contextmanager
    def frugal(self, limit: str) -> Iterator[None]:
        """Set another memory limit for a while, unless the user set one."""
        before = self._frugal
        self._limit(limit)
        try:
            yield
        finally:
            self._limit(before)

    def _limit(self, limit: str) -> None:
        self._frugal = limit
        # another thread uses more at the moment, or another process has opened the file meanwhile
        with suppress(QueryError), translated():
            self._connection.execute("SET memory_limit = $1", [self._memory_limit or limit])

    @contextmanager
    def one_thread(self) -> Iterator[Callable[[], None]]:
        """Run statements on one thread, until the end or until the function given is called."""
        # Two threads build and merge the row groups of an ordered insert twice.
        before = self._connection.execute(query("db/sessions/threads")).fetchall()[0][0]
        with sessions.alone(self._session) as alone:
            one = 1 if alone and self._threads is None else before

        def use(count: int) -> None:
            with suppress(QueryError), translated():
                self._connection.execute("SET threads = $1", [count])

        use(one)
        try:
            yield partial(use, before)
        finally:
            use(before)

    def shed(self) -> None:
        """Give back memory that is not in use."""
        # Others in this process may have the file open; their statements would run out of memory.
        with sessions.alone(self._session) as alone:
            if not alone:
                return
            with suppress(QueryError), translated():  # it is still as little as there can be
                self._connection.execute("SET memory_limit = '1MB'")
            self._limit(self._frugal)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done inside, or nothing."""
        session = self._session
        with translated():
            session.connection.execute("BEGIN")
        try:
            with self.following(self) if self.following else nullcontext():
                yield
            with translated(session.connection):
                session.connection.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):  # a failed COMMIT rolls back by itself
                session.connection.execute("ROLLBACK")
            session.feeds.clear()  # names registered inside are rolled back too
            raise


def engine_version() -> str:
    """Return DuckDB's version."""
    return str(duckdb.__version__)


def _settings(memory_limit: str | None, threads: int | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"memory_limit": memory_limit or DEFAULT_MEMORY_LIMIT}
    if threads is not None:
        number = checked("threads", threads, Annotated[int, Bounds(1)], QueryError)
        settings["threads"] = str(number)
    if not re.fullmatch(r"\d+(\.\d+)?\s*([KMGT]i?B|%)", settings["memory_limit"], re.IGNORECASE):
        raise QueryError(
            f"memory_limit={memory_limit!r}: give a number and a unit, such as '512MB' or '2GB'"
        )
    return settings
