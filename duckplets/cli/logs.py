"""Log handlers of a command: stderr for people, and a file for later.

The package logs to loggers named after its modules; only this module adds handlers. The file has
one line per record, without passwords or tokens that can be recognised. Five earlier files of 5 MB
stay.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from traceback import extract_tb

from duckplets.base.sanitize import MESSAGE, shown, without_secrets
from duckplets.errors import SourceError

_BYTES, _FILES = 5 * 10**6, 5
_FIELDS = (
    "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(processName)s[%(process)d] "
    "%(threadName)s %(filename)s:%(lineno)d %(message)s"
)
_ENDED = "ended_by"
_BEGINS = re.compile(rb"\d{4}-\d\d-\d\dT")


class _InALine(logging.Formatter):
    """Format records as one line, with times in UTC."""

    def __init__(self) -> None:
        super().__init__(_FIELDS, "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        return shown(without_secrets(super().format(record)), MESSAGE)


class _LogFile(RotatingFileHandler):
    """A log file that warns once if it cannot be written; the work continues."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        log = logging.getLogger("duckplets")
        log.removeHandler(self)
        error = sys.exc_info()[1]
        log.warning("%s cannot be written any more: %s", self.baseFilename, error)


class _Printing(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        if not hasattr(record, _ENDED):  # the boundary prints that error itself
            self._say(record.getMessage())


@contextmanager
def printed(say: Callable[[str], None]) -> Iterator[None]:
    """Print log records: warnings by default, stages too with a log file."""
    with _handled(_Printing(say)):
        yield


@contextmanager
def logged(path: Path | None) -> Iterator[None]:
    """Log stages, and the error that ends the command, to a file, unless it is None.

    Raises:
        SourceError: The file cannot be written, or exists and is no log.
    """
    if path is None:
        yield
        return
    log = logging.getLogger("duckplets")
    level = log.level
    with _handled(_opened(path)):
        log.setLevel(logging.DEBUG)
        try:
            yield
        except BaseException as error:
            found = extract_tb(error.__traceback__)[-1]
            at = f"{Path(found.filename).name}:{found.lineno}"
            end = (type(error).__name__, at, error)
            log.error("ended by %s at %s: %s", *end, extra={_ENDED: True})
            raise
        finally:
            log.setLevel(level)


@contextmanager
def _handled(handler: logging.Handler) -> Iterator[None]:
    log = logging.getLogger("duckplets")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def _opened(path: Path) -> logging.Handler:
    name = f"log_file={shown(repr(str(path)))}"
    try:
        if path.exists():
            with path.open("rb") as file:
                start = file.read(32)
            if start and not _BEGINS.match(start):
                raise SourceError(f"{name}: the file exists and is no log; give another file")
        handler = _LogFile(path, maxBytes=_BYTES, backupCount=_FILES, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"{name}: {error.strerror}") from error
    handler.setFormatter(_InALine())
    return handler
