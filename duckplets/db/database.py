"""Connect to DuckDB, run named statements and transactions, and turn its errors into ours.

A ``Database`` that was opened has one connection for each thread that uses it, so that no thread
fetches what another one has asked for; ``cursor`` gives one connection, for one thread at a time.
In a forked process it opens the file anew to read, and refuses where that cannot be.

Corpus and state files are opened *sealed*: with ``enable_external_access`` off, so no statement
that reaches them, whoever wrote its condition, can read a file, a setting of the machine or the
network. Files are read in a second, in-memory instance (``Database.reader``), and only Arrow data
passes between the two.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa

from duckplets.base.deadline import STATEMENT_TIMEOUT, deadline
from duckplets.base.dropped import LiveSet, settle
from duckplets.base.fork_guard import Home
from duckplets.base.sanitize import shown
from duckplets.db import files, sessions
from duckplets.db.foreign import CLOSED, translated
from duckplets.db.queries import query
from duckplets.db.sessions import Session
from duckplets.errors import CorpusLockedError, DeadlineError, QueryError, ReadOnlyError

# DuckDB 2.0 advises con.sql(), which takes no statement but a query and plans it twice.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)

# Measured on a million records (docs/benchmarks.md): enough for blocks of 65,536 positions, and
# the process stays under 2 GB with what Arrow and Python hold besides.
DEFAULT_MEMORY_LIMIT = "1GB"
_READER_MEMORY = "512MB"  # a reader streams: reading a million records was no slower with 400 MB
_SCRATCH_MEMORY = "1GB"  # for one text of some 200 MB; a larger vocabulary goes to the disk
_OPEN_HERE = "open it in this process: Corpus(path, read_only=True)"

Parameters = Mapping[str, Any]

# Files that are being changed by what this code was called from, in other threads too.
_CHANGED: ContextVar[tuple[files.FileId, ...]] = ContextVar("_CHANGED", default=())


class Database:
    """Connections to a DuckDB file, or to memory: one for each thread that uses it.

    Made by ``open``, ``reader`` or ``scratch``.

    Attributes:
        path: The file; None in memory.
        read_only: Whether it was opened so.
        statement_timeout: Seconds that what runs under a ``deadline`` may take, or None.
        kept: What others keep for as long as this is.
    """

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
        self._home = Home()
        self._reopen = reopen  # opens the file again; None where all threads share a connection
        self._memory_limit: str | None = None  # that the user gave; while there is none:
        self._frugal = DEFAULT_MEMORY_LIMIT
        self._is_closed = False
        self._begin(session)

    def _begin(self, session: Session) -> None:
        self._first = session
        self._of_thread = threading.local()  # lets go of a connection with its thread
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
        """Open a file, sealed as above; a missing one is created unless ``read_only``.

        Raises:
            MigrationError: The path holds something that is not a DuckDB file.
            CorpusLockedError: Another process has it, or this one in another way.
        """
        settings, real = _settings(memory_limit, threads), files.real_path(path)
        open_real = partial(sessions.open_session, real, shown(path), settings)
        opened = cls(open_real(read_only=read_only), path, reopen=open_real)
        opened._memory_limit = memory_limit
        return opened

    @classmethod
    def reader(cls, memory_limit: str | None = None) -> Self:
        """Open an in-memory instance that may read files: for sources only."""
        with translated():
            config = _settings(memory_limit or _READER_MEMORY, None)
            return cls(Session(duckdb.connect(config=config)))

    @classmethod
    def scratch(cls, threads: int | None = None) -> Database:
        """Open an in-memory instance that downloads nothing by itself: for words and extensions."""
        config: dict[str, Any] = _settings(_SCRATCH_MEMORY, threads) | {
            "autoinstall_known_extensions": "false",
            "temp_directory": str(Path(tempfile.gettempdir()) / f"duckplets.{os.getpid()}.tmp"),
        }
        with translated():
            return cls(Session(duckdb.connect(config=config)))

    def load_extension(self, name: str) -> None:
        """Load an installed extension by its name, or by the path of its file."""
        with translated():
            self._connection.load_extension(name)

    def install_extension(self, name: str) -> None:
        """Download an extension from DuckDB's repository."""
        with translated():
            self._connection.install_extension(name)

    def cursor(self) -> Database:
        """Return one more connection to the same instance, for one thread at a time."""
        with translated():
            other = Database(self._session.another(), self.path)
        other.statement_timeout = self.statement_timeout
        return other

    def close(self) -> None:
        """Close all connections, also while other threads use them; theirs end in an error."""
        if self._is_closed or self._home.is_left:  # what was inherited is the parent's
            return
        self._is_closed = True
        for session in (*self._others, self._first):
            with translated():
                session.close()

    def replace_file(self, other: Path) -> None:
        """Let another file take the place of this one, and go on with that.

        Raises:
            CorpusLockedError: Something else of this process has it open.
        """
        # The old one is closed afterwards: until then no other process can write what is lost.
        self._open_again(lambda real: os.replace(other, real))

    def allow(self, paths: Collection[str]) -> None:
        """Let statements read Parquet files in which texts are about to be left.

        Raises:
            CorpusLockedError: Something else of this process has the corpus open.
        """
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
        self._begin(self._reopen(read_only=False, **asked))

    def interrupt(self) -> None:
        """Stop the statement that another thread is running here, on the first connection."""
        if not self._home.is_left:
            self._first.connection.interrupt()

    @property
    def _session(self) -> Session:
        """What this thread has of the file; a forked process has its own, to read only."""
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
        """Hold the right to change the file, which one thread has at a time; ``verb`` says what.

        Raises:
            ReadOnlyError: It is open read-only.
            CorpusLockedError: It is of the process from which this one was forked, or the verb
                is called by what another one waits for.
        """
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
        """Run the named statement and return its rows."""
        return self.rows(query(name), parameters)

    def table(self, name: str, parameters: Parameters | None = None) -> pa.Table:
        """Run the named statement and return its rows as an Arrow table."""
        return self.arrow(query(name), parameters)

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Run SQL text and return its rows."""
        with translated():
            return self._connection.execute(sql, dict(parameters or {})).fetchall()

    def arrow(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        """Run SQL text and return its rows as an Arrow table."""
        with translated():
            return self._connection.execute(sql, dict(parameters or {})).to_arrow_table()

    def read(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        """Run SQL text that somebody else wrote, where it cannot change anything."""
        reader = self.cursor()
        try:
            reader.rows("BEGIN TRANSACTION READ ONLY")
            return reader.arrow(sql, parameters)
        finally:
            reader.close()

    def stream(
        self, sql: str, parameters: Parameters | None = None, *, rows: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """Run SQL text and yield its rows in Arrow batches of at most ``rows``, lazily."""
        with translated():
            reader = self._connection.execute(sql, dict(parameters or {})).to_arrow_reader(rows)
        while True:
            with translated():
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    def statement_type(self, sql: str) -> list[str]:
        """Return the kind of every statement in the text, as DuckDB's parser names it."""
        with translated():
            return [str(s.type.name) for s in self._connection.extract_statements(sql)]

    def registered(self, **tables: pa.Table) -> AbstractContextManager[None]:
        """Make Arrow tables visible to statements under the given names, for a while."""
        return self._session.registered(tables)

    @contextmanager
    def deadline(self, what: str) -> Iterator[None]:
        """Stop a statement of ``what`` that takes longer than ``statement_timeout``.

        Raises:
            DeadlineError: It was stopped.
        """
        with deadline(self.statement_timeout, self._connection.interrupt) as passed:
            try:
                yield
            except (QueryError, KeyboardInterrupt) as error:
                # A KeyboardInterrupt without a cause is of the user's own Ctrl-C.
                own = isinstance(error, KeyboardInterrupt) and error.__cause__ is None
                if own or not passed.is_set():
                    raise
                raise DeadlineError(
                    f"{what}: its statement ran longer than statement_timeout="
                    f"{self.statement_timeout:g} seconds and was stopped. Make its conditions "
                    f"cheaper, or give it more time, as in Corpus(path, statement_timeout=600)"
                ) from error

    @contextmanager
    def frugal(self, limit: str) -> Iterator[None]:
        """Use other memory than the default for a while; a limit that the user gave stays."""
        before = self._frugal
        self._limit(limit)
        try:
            yield
        finally:
            self._limit(before)

    def _limit(self, limit: str) -> None:
        self._frugal = limit
        with suppress(duckdb.Error):  # somebody else is using more at the moment
            self._connection.execute("SET memory_limit = $1", [self._memory_limit or limit])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done inside, or nothing of it."""
        session = self._session
        with translated():
            session.connection.execute("BEGIN")
        try:
            yield
            with translated():
                session.connection.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):  # a failed COMMIT has rolled back already
                session.connection.execute("ROLLBACK")
            session.feeds.clear()  # names registered inside were rolled back as well
            raise


def engine_version() -> str:
    """Return DuckDB's version."""
    return str(duckdb.__version__)


def _settings(memory_limit: str | None, threads: int | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"memory_limit": memory_limit or DEFAULT_MEMORY_LIMIT}
    if threads is not None:
        if threads < 1:
            raise QueryError(f"threads={threads}: at least 1 is needed")
        settings["threads"] = str(threads)
    if not re.fullmatch(r"\d+(\.\d+)?\s*([KMGT]i?B|%)", settings["memory_limit"], re.IGNORECASE):
        raise QueryError(
            f"memory_limit={memory_limit!r}: give a number and a unit, such as '512MB' or '2GB'"
        )
    return settings
