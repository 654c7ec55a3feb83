"""Translate errors of DuckDB and Arrow into ours: the one boundary."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from duckplets.errors import ChangedFileError, QueryError

CLOSED = "the file is closed; open it again"
MORE_MEMORY = "give it more, as in Corpus(path, memory_limit='4GB')"
CHANGED: dict[str, str] = {}
"""What is to be said of files that may not be read, as they are not what they were, by path."""
_FILE = re.compile(r'(?:Cannot access|No files found|Cannot open)[^"]*"([^"]+)"')


@contextmanager
def translated(connection: duckdb.DuckDBPyConnection | None = None) -> Iterator[None]:
    """Translate errors raised inside, also of a statement that Ctrl-C interrupts."""
    try:
        with orderly(connection):
            yield
    except (duckdb.Error, pa.ArrowException, MemoryError) as error:
        raise_what_interrupted(error)
        message = first_line(str(error))
        if (named := _FILE.search(message)) and named[1] in CHANGED:
            raise ChangedFileError(CHANGED[named[1]]) from error
        if "Connection already closed" in message or isinstance(error, duckdb.InterruptException):
            message = CLOSED
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
            message = _out_of_memory(message)
        raise QueryError(message) from error
    except RuntimeError as error:
        raise_what_interrupted(error)
        if "Unable to cast Python instance" in str(error):
            raise QueryError("a text that was given holds half of a surrogate pair") from error
        raise QueryError(first_line(str(error))) from error


@contextmanager
def orderly(connection: duckdb.DuckDBPyConnection | None = None) -> Iterator[None]:
    """Let Ctrl-C end a statement as DuckDB does, or wait for the end of a short one."""
    # An exception of a signal handler would leave DuckDB's instance open for ever, and the next
    # opening of the file would wait for it. A second Ctrl-C ends all at once.
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = False

    def interrupt(*_: Any) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True
        if connection is not None:
            connection.interrupt()

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt


def raise_what_interrupted(error: Exception) -> None:
    """Raise what a signal handler raised where DuckDB hides it."""
    cause = error.__cause__
    if cause is not None and not isinstance(cause, duckdb.Error | pa.ArrowException):
        raise cause
    if isinstance(error, RuntimeError) and "interrupt" in str(error).lower():
        raise KeyboardInterrupt from error


def _out_of_memory(message: str) -> str:
    """Return which limit was reached: the instance's or the process's."""
    if "used)" in message:
        return f"{message}: {MORE_MEMORY}"
    return (
        f"the system gives this process no more memory ({message}): ask for less, or raise the "
        f"limit that it has (ulimit -v, the container's)"
    )


def first_line(text: str) -> str:
    """Return the first line of a DuckDB message and its suggestion, without the statement."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    hints = [line for line in lines[1:2] if line.startswith(("Candidate bindings", "Did you mean"))]
    message = " ".join(lines[:1] + hints)
    return message[:600] if message else "DuckDB gave no reason"
