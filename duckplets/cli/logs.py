"""What is logged while a command runs: on stderr for people, and in a file for later.

Code of the package logs to the logger of its module and class, and configures nothing; handlers are
here. The file has a line for each record, whatever is in it, and nothing that can be told to be a
password or a token. Five files of 5 MB before it are kept.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
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
    """Writes times in UTC, and everything in one line."""

    def __init__(self) -> None:
        super().__init__(_FIELDS, "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        return shown(without_secrets(super().format(record)), MESSAGE)


class _LogFile(RotatingFileHandler):
    """Says once, in a line, that it cannot be written; the work goes on."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        log = logging.getLogger("duckplets")
        log.removeHandler(self)
        error = sys.exc_info()[1]
        log.warning("%s cannot be written any more: %s", self.baseFilename, error)


class _Said(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        if not hasattr(record, _ENDED):  # whoever ends the command says that
            self._say(record.getMessage())


@contextmanager
def said(say: Callable[[str], None]) -> Iterator[None]:
    """Say what is logged: by default warnings, and with a log file what is done."""
    with _handled(_Said(say)):
        yield


@contextmanager
def logged(path: Path | None, *, apart_from: Sequence[object]) -> Iterator[None]:
    """Log to a file, if one is given, what is done and with which error it ends.

    Args:
        path: The file.
        apart_from: Files that it may not be.

    Raises:
        SourceError: It cannot be written, or is no log.
    """
    if path is None:
        yield
        return
    log = logging.getLogger("duckplets")
    level = log.level
    with _handled(_opened(path, {str(each) for each in apart_from})):
        log.setLevel(logging.DEBUG)
        try:
            yield
        except BaseException as error:
            found = extract_tb(error.__traceback__)[-1]
            at = f"{Path(found.filename).name}:{found.lineno}"
            told = (type(error).__name__, at, error)
            log.error("ended by %s at %s: %s", *told, extra={_ENDED: True})
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


def _opened(path: Path, others: set[str]) -> logging.Handler:
    what = f"log_file={shown(repr(str(path)))}"
    try:
        if str(path) in others or (path.exists() and not _is_log(path)):
            raise SourceError(f"{what}: it is there already, and is no log; give another file")
        handler = _LogFile(path, maxBytes=_BYTES, backupCount=_FILES, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"{what}: {error.strerror}") from error
    handler.setFormatter(_InALine())
    return handler


def _is_log(path: Path) -> bool:
    with path.open("rb") as file:
        begin = file.read(32)
    return not begin or _BEGINS.match(begin) is not None
