"""Open a state or vector file briefly: processes share these by keeping them closed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duckplets.db import files, sessions
from duckplets.db.database import Database
from duckplets.errors import CorpusLockedError

_LOCK_PATIENCE = 10.0  # seconds that a save waits for another process


@contextmanager
def for_a_moment(path: Path, *, read_only: bool = False) -> Iterator[Database]:
    """Open a file, waiting for other threads, and briefly for other processes."""
    with sessions.changing(files.file_id(files.real_path(path)) or (0, 0)):
        deadline = time.monotonic() + _LOCK_PATIENCE
        while True:
            try:
                database = Database.open(path, read_only=read_only, threads=1)
                break
            except CorpusLockedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        try:
            yield database
        finally:
            database.close()
