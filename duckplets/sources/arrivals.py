"""Bring files from elsewhere to a folder of the moment, one ahead of reading."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from duckplets.errors import SourceError

_SUFFIXES = re.compile(r"(\.[a-z0-9]{1,10}){0,2}")


class Remote(Protocol):
    """A file that lies elsewhere: its path there, whose suffixes say what it holds."""

    @property
    def path(self) -> str:
        """Within what it is of."""


F = TypeVar("F", bound=Remote)


def arrivals(
    files: Sequence[F], fetch: Callable[[F, Path], None], stop: threading.Event
) -> Generator[tuple[F, Path], None, None]:
    """Yield files from elsewhere, each kept until the next is asked for.

    The next is brought while one is read. They lie in a folder of the moment, in
    ``DUCKPLETS_CACHE`` or where the system keeps such folders.

    Args:
        files: In order.
        fetch: Brings one whole to a path.
        stop: Set at the end: then ``fetch`` is to return or to raise.

    Raises:
        SourceError: A file cannot be had, or the folder cannot be written.
    """
    folder = _folder()
    try:
        with ThreadPoolExecutor(1, "duckplets-arrivals") as thread:

            def bring(number: int) -> Path:
                suffixes = "".join(PurePosixPath(files[number].path).suffixes[-2:]).lower()
                known = _SUFFIXES.fullmatch(suffixes)  # it comes from outside, and becomes a name
                here = folder / f"{number}{suffixes if known else ''}"
                fetch(files[number], here)
                return here

            coming: Future[Path] | None = None
            try:
                for number, file in enumerate(files):
                    coming = coming or thread.submit(bring, number)
                    here, coming = coming.result(), None
                    if number + 1 < len(files):
                        coming = thread.submit(bring, number + 1)
                    yield file, here
                    with suppress(OSError):
                        here.unlink()
            finally:
                stop.set()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    given = os.environ.get("DUCKPLETS_CACHE")
    try:
        base = Path(given).expanduser() if given else None
        if base is not None:
            base.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="duckplets-", dir=base))
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(
            f"no folder can be made for files that are brought here: {reason}; give one as "
            f"DUCKPLETS_CACHE"
        ) from error
