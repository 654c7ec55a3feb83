"""Connect to DuckDB, run named statements and transactions, and turn its errors into ours.

A ``Database`` is one connection. Corpus and state files are opened *sealed*: with
``enable_external_access`` off, so no statement that reaches them, whoever wrote its condition,
can read a file, a setting of the machine or the network. Files are read in a second, in-memory
instance (``Database.reader``), and only Arrow data passes between the two.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from duckplets.db.queries import query
from duckplets.errors import CorpusLockedError, DuckpletsError, MigrationError, QueryError

# DuckDB 2.0 advises con.sql(), which takes no statement but a query and plans it twice.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)

# Measured on a million records (docs/benchmarks.md): enough for blocks of 65,536 positions, and
# the process stays under 2 GB with what Arrow and Python hold besides.
DEFAULT_MEMORY_LIMIT = "1GB"
_READER_MEMORY = "512MB"  # a reader streams: reading a million records was no slower with 400 MB
_SCRATCH_MEMORY = "1GB"  # for one text of some 200 MB; a larger vocabulary goes to the disk
_STORAGE = "v1.0.0"  # the oldest format DuckDB 1.5 and 2.0 both read and write
_LOCK_PATIENCE = 10.0  # seconds a save waits for someone who looks at the state file

Parameters = Mapping[str, Any]


class Database:
    """One connection to a DuckDB file (or to memory).

    Args:
        connection: An open DuckDB connection; use ``open`` or ``reader``.
        path: The file, for messages; None in memory.
        read_only: Whether the file was opened read-only.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, path: Path | None, *, read_only: bool = False
    ) -> None:
        self._connection = connection
        self._feeds: dict[str, _Feed] = {}
        self._memory_limit: str | None = None  # that the user gave
        self.path = path
        self.read_only = read_only

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
            CorpusLockedError: Another process (or a writer in this one) has it.
        """
        _check_path(path, read_only=read_only)
        config: dict[str, Any] = _settings(memory_limit, threads) | {
            "enable_external_access": "false",
            "storage_compatibility_version": _STORAGE,
            "temp_directory": str(_spill_folder(path)),
        }
        try:
            connection = duckdb.connect(str(path), read_only=read_only, config=config)
        except duckdb.Error as error:
            raise _opening_error(error, path) from error
        opened = cls(_quiet(connection), path, read_only=read_only)
        opened._memory_limit = memory_limit
        return opened

    @classmethod
    def reader(cls) -> Database:
        """Open an in-memory instance that may read files: for sources only."""
        with _translated():
            return cls(_quiet(duckdb.connect(config=_settings(_READER_MEMORY, None))), None)

    @classmethod
    def scratch(cls) -> Database:
        """Open an in-memory instance that downloads nothing by itself: for words and extensions."""
        config: dict[str, Any] = _settings(_SCRATCH_MEMORY, None) | {
            "autoinstall_known_extensions": "false",
            "temp_directory": str(Path(tempfile.gettempdir()) / f"duckplets.{os.getpid()}.tmp"),
        }
        with _translated():
            return cls(_quiet(duckdb.connect(config=config)), None)

    def load_extension(self, name: str) -> None:
        """Load an installed extension by its name, or by the path of its file."""
        with _translated():
            self._connection.load_extension(name)

    def install_extension(self, name: str) -> None:
        """Download an extension from DuckDB's repository."""
        with _translated():
            self._connection.install_extension(name)

    def cursor(self) -> Database:
        """Return a second connection to the same instance, for another thread."""
        with _translated():
            connection = self._connection.cursor()
        return Database(_quiet(connection), self.path, read_only=self.read_only)

    def close(self) -> None:
        """Close the connection; the last one of a written file checkpoints it."""
        with _translated():
            self._connection.close()

    def interrupt(self) -> None:
        """Stop the statement that another thread is running here."""
        self._connection.interrupt()

    # -- statements ---------------------------------------------------------------------------

    def run(self, name: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Run the named statement and return its rows."""
        return self.rows(query(name), parameters)

    def table(self, name: str, parameters: Parameters | None = None) -> pa.Table:
        """Run the named statement and return its rows as an Arrow table."""
        return self.arrow(query(name), parameters)

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Run SQL text and return its rows."""
        with _translated():
            return self._connection.execute(sql, dict(parameters or {})).fetchall()

    def arrow(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        """Run SQL text and return its rows as an Arrow table."""
        with _translated():
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
        with _translated():
            reader = self._connection.execute(sql, dict(parameters or {})).to_arrow_reader(rows)
        while True:
            with _translated():
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    def statement_type(self, sql: str) -> list[str]:
        """Return the kind of every statement in the text, as DuckDB's parser names it."""
        with _translated():
            return [str(s.type.name) for s in self._connection.extract_statements(sql)]

    @contextmanager
    def registered(self, **tables: pa.Table) -> Iterator[None]:
        """Make Arrow tables visible to statements under the given names, for a while."""
        for name, table in tables.items():
            feed = self._feeds.get(name)
            if feed is None or feed.schema != table.schema:
                feed = self._feeds[name] = _Feed(table)
                with _translated():
                    self._connection.register(name, feed)
            feed.table = table
        try:
            yield
        finally:
            for name in tables.keys() & self._feeds.keys():
                self._feeds[name].table = None

    @contextmanager
    def frugal(self, limit: str) -> Iterator[None]:
        """Use less memory than the default for a while; a limit that the user gave stays."""
        if self._memory_limit is None:
            with suppress(duckdb.Error):  # somebody else is using more at the moment
                self._connection.execute("SET memory_limit = $limit", {"limit": limit})
        try:
            yield
        finally:
            if self._memory_limit is None:
                with suppress(duckdb.Error):
                    given = {"limit": DEFAULT_MEMORY_LIMIT}
                    self._connection.execute("SET memory_limit = $limit", given)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done inside, or nothing of it."""
        with _translated():
            self._connection.execute("BEGIN")
        try:
            yield
            with _translated():
                self._connection.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):  # a failed COMMIT has rolled back already
                self._connection.execute("ROLLBACK")
            self._feeds.clear()  # names registered inside were rolled back as well
            raise


class _Feed:
    """A name under which one Arrow table after the other is scanned.

    Registered once: DuckDB keeps what was registered within a transaction until its end, and an
    ingest that registered every batch held the whole source in memory.
    """

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self.table: pa.Table | None = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        table = self.table if self.table is not None else self.schema.empty_table()
        return table.__arrow_c_stream__(requested_schema)


def open_patiently(path: Path) -> Database:
    """Open a file for writing, waiting a little while somebody else looks at it."""
    deadline = time.monotonic() + _LOCK_PATIENCE
    while True:
        try:
            return Database.open(path, threads=1)
        except CorpusLockedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def engine_version() -> str:
    """Return DuckDB's version."""
    return str(duckdb.__version__)


def quote_identifier(name: str) -> str:
    """Quote a name for SQL text, the only way a name gets there."""
    return '"' + name.replace('"', '""') + '"'


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


def _quiet(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _check_path(path: Path, *, read_only: bool) -> None:
    if path.is_dir():
        raise MigrationError(f"{path} is a folder, not a DuckDB file")
    if not path.parent.is_dir():
        raise MigrationError(f"{path}: its folder {path.parent} does not exist")
    if path.is_file() and not _is_duckdb(path):
        raise MigrationError(f"{path} is not a DuckDB file")
    if read_only and not path.exists():
        raise MigrationError(f"{path} does not exist; create it with: duckplets ingest {path} …")


def _is_duckdb(path: Path) -> bool:
    """Whether the file has DuckDB's mark; DuckDB would open a CSV file as a view in memory."""
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError as error:
        raise MigrationError(f"{path} cannot be read: {error.strerror}") from error


def _opening_error(error: duckdb.Error, path: Path) -> DuckpletsError:
    text = str(error)
    if "lock" in _first_line(text).lower() or "different configuration" in text:
        holder = re.search(r"PID (\d+)", text)
        who = f"process {holder[1]}" if holder else "this process or was in one it was forked from"
        return CorpusLockedError(
            f"{path} is open in {who}; close it there. Many can share a file "
            f"only when all of them open it with read_only=True"
        )
    if "not a valid DuckDB" in text:
        return MigrationError(f"{path} is not a DuckDB file")
    if "newer version" in text or "older version" in text or "storage version" in text:
        return MigrationError(
            f"{path} was written by a DuckDB this one ({duckdb.__version__}) cannot read; "
            f"upgrade with: pip install -U duckdb"
        )
    return MigrationError(f"{path} cannot be opened: {_first_line(text)}")


@contextmanager
def _translated() -> Iterator[None]:
    """Turn DuckDB's and Arrow's errors into ours: the one boundary."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        message = _first_line(str(error))
        if "Connection already closed" in message:
            message = "the file is closed; open it again"
        if isinstance(error, duckdb.OutOfMemoryException):
            message = f"{message}: give it more, as in Corpus(path, memory_limit='4GB')"
        raise QueryError(message) from error
    except RuntimeError as error:
        # DuckDB's Arrow reader raises bare RuntimeErrors, among them for Ctrl-C.
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from error
        raise QueryError(_first_line(str(error))) from error


def _spill_folder(path: Path) -> Path:
    """Return where this process puts what does not fit into memory.

    By default all processes that read a file share one folder, and overwrite what others have put
    there: readers that ran out of memory at once died of it. It also keeps a forked process from
    taking over an instance of its parent, for that is of another configuration then.
    """
    folder = path.parent if os.access(path.parent, os.W_OK) else Path(tempfile.gettempdir())
    return folder / f"{path.name}.{os.getpid()}.tmp"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = " ".join(lines[:1])
    return message[:600] if message else "DuckDB gave no reason"
