"""Reopen a source at its last mark after an error that may pass.

Such errors come from a network, a server, or a disk that does not answer. The source is reopened
after a wait, and earlier rows are skipped by number. Mistakes in a mapping, unusable rows, missing
or changed files are raised at once.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import counted, harmless, shown
from duckplets.errors import PassingError, SourceError
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.rows import Mark, Rows

log = logging.getLogger("duckplets")

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; doubled each time
_ODD = np.uint64(0x9E3779B97F4A7C15)

_FOR_GOOD = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_OF_CONNECTIONS = (ConnectionError, TimeoutError, InterruptedError)
_OF_SHARED_DISKS = (errno.EIO, errno.ESTALE)
PASSING_STATUSES = (408, 425, 429, 500, 502, 503, 504)
# Optional packages whose errors are no OSError.
_OF_NETWORKS = frozenset({"httpx", "httpx2", "httpcore", "aiohttp", "http", "urllib3"})


class Rereading:
    """The rows and marks of a source, reopened at the last mark where that may help."""

    def __init__(
        self,
        name: str,
        opened: Callable[[FileReader, Any], Rows],
        cursor: Any,
        limits: Limits,
        *,
        retries: int,
        is_local: bool,
    ) -> None:
        self.rows: Rows | None = None  # the source as opened last
        self.notes: list[str] = []
        self._name, self._opened, self._limits = name, opened, limits
        self._cursor = cursor  # cursor of the last mark
        self._retries, self._is_local = retries, is_local
        self._stopped = threading.Event()
        self._last = 0  # last row given
        self._tried = 0  # retries since that row

    def items(self) -> Generator[Rows | pa.RecordBatch | Mark, None, None]:
        """Yield the opened source, once, and then its rows and marks."""
        is_first = True
        while True:
            try:
                with closing(FileReader.within(self._limits)) as reader:
                    self.rows = self._opened(reader, self._cursor)
                    items = self.rows.batches
                    try:
                        if is_first:
                            is_first = False
                            yield self.rows
                        yield from self._fresh(items)
                    finally:
                        for way in ("stop", "close"):
                            getattr(items, way, lambda: None)()
                return
            except Exception as error:
                may_help = self._retries and may_pass(error, is_local=self._is_local)
                if self._stopped.is_set() or not may_help:
                    raise
                self._wait(error)

    def stop(self) -> None:
        """End a blocked read; callable from any thread."""
        self._stopped.set()
        if self.rows is not None:
            getattr(self.rows.batches, "stop", lambda: None)()

    def _wait(self, error: Exception) -> None:
        first = _cause(error)
        names = [] if isinstance(first, PassingError) else [type(first).__name__]
        why = shown(": ".join(filter(None, [*names, str(first).strip()])), 300)
        if self._tried >= self._retries:
            times = counted(self._tried + 1, "attempt")
            raise SourceError(
                f"source {self._name!r}: {times} to read on after row {self._last:,} failed, the "
                f"last with {why}; the same command continues where it stopped"
            ) from error
        self._tried += 1
        seconds = min(FIRST_WAIT * 2 ** (self._tried - 1), LONGEST_WAIT)
        place = f"{self._name}: after row {self._last:,}: {why}"
        self.notes.append(f"read again (attempt {self._tried + 1}): {place}")
        log.warning(
            "%s; reading continues there in %g s (%d of %d retries)",
            *(harmless(place), seconds, self._tried, self._retries),
        )
        if self._stopped.wait(seconds):
            raise error

    def _fresh(self, items: Iterator[pa.RecordBatch | Mark]) -> Iterator[pa.RecordBatch | Mark]:
        last = self._last if self._tried else 0
        for item in items:
            if isinstance(item, Mark):
                self._cursor = item.cursor
                yield item
            elif item.num_rows:
                passed = int(np.searchsorted(item["row"].to_numpy(), last, side="right"))
                if passed < item.num_rows:
                    self._last, self._tried = int(item["row"][-1].as_py()), 0
                    yield item.slice(passed)


def digest_of(batch: pa.RecordBatch) -> int:
    """Return a digest of rows by number and content; digests of parts add up modulo 2^64."""
    contents = pc.fill_null(batch["content_hash"], 0).to_numpy(zero_copy_only=False)
    mixed = batch["row"].to_numpy().astype(np.uint64) * _ODD ^ contents.astype(np.uint64)
    return int(mixed.sum(dtype=np.uint64))


# -- errors that may pass -------------------------------------------------------------------------


def is_local(source: Any) -> bool:
    """Return whether a source reads local files or standard input."""
    return hasattr(source, "path") or hasattr(source, "folder")


def may_pass(error: BaseException, *, is_local: bool) -> bool:
    """Return whether retrying may help."""
    first = _cause(error)
    if isinstance(first, PassingError):
        return True
    response = getattr(first, "response", None)
    status = getattr(response, "status_code", None) or getattr(first, "status", None)
    if isinstance(status := status or getattr(first, "code", None), int):
        return status in PASSING_STATUSES
    if isinstance(first, OSError):
        is_brief = isinstance(first, _OF_CONNECTIONS) or first.errno in _OF_SHARED_DISKS
        return is_brief or not (is_local or isinstance(first, _FOR_GOOD))
    return bool(_OF_NETWORKS.intersection(k.__module__.split(".")[0] for k in type(first).__mro__))


def _cause(error: BaseException) -> BaseException:
    """Return the first cause of an error, or the ``PassingError`` before it."""
    while error.__cause__ is not None and not isinstance(error, PassingError):
        error = error.__cause__
    return error
